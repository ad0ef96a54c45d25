//! Errors: the class of a failure (its exit status), the facts attached to an error, and the printed forms.

mod class;
mod facts;
mod report;
pub mod similar;

pub use class::ErrorClass;
pub use facts::{Facts, causes, hint, io_error, location, option, value};
pub use report::{ErrorFormat, ErrorReport};
