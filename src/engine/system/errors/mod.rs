//! Errors: the class of a failure, which is the exit status, and the form in which errors are printed.

pub mod described;
pub mod failure;
