pub use crate::passes::control::shuffled;
