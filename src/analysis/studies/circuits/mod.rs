//! Studies of circuits: which heads bring the answer of a task to where it is given, and which do a task together.

pub mod direct;
pub mod gates;
pub mod interchange;
