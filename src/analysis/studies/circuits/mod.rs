//! Studies of circuits: which heads bring the answer of a task to where it is given.

pub mod direct;
pub mod interchange;
