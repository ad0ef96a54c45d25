//! Errors: the class of a failure, which is the exit status, what else is known of one, and the form in which errors are
//! printed.

mod class;
mod described;
mod facts;
pub mod similar;

pub use class::Class;
pub use described::{Described, ErrorFormat};
pub use facts::{Facts, causes, hint, io_error, option, place, value};
