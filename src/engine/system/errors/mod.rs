//! Errors: the class of a failure (its exit status), the facts attached to an error, and the printed forms.

mod class;
mod facts;
mod report;
pub mod similar;

pub use class::ErrorClass;
pub use facts::{ErrorExt, causes, command_option, hint, io_error, location, value};
pub use report::{ErrorFormat, ErrorReport};
