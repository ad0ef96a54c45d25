//! Circuit studies: which heads carry a task's answer to the predicted position, and which heads do a task together.

pub mod direct;
pub mod gates;
pub mod interchange;
