//! The exit statuses in the help of commands, by what a command works with.

use std::fmt::Write;

use crate::system::errors::Class;

/// Commands that print or write.
pub const WRITING: &[Class] = &[Class::Other, Class::Usage, Class::Output];

/// Commands that read something as well.
pub const READING: &[Class] = &[Class::Other, Class::Usage, Class::Input, Class::Output];

/// Commands that add up shards.
pub const MERGING: &[Class] = &[Class::Other, Class::Usage, Class::Input, Class::Output, Class::Incomplete];

/// Commands that run a model.
pub const RUNNING: &[Class] =
    &[Class::Other, Class::Usage, Class::Input, Class::Model, Class::Output, Class::Temporary];

/// The first status, if a command says no more about it.
pub const DONE: &str = "0 done";

/// The signals that end any command: 128 and the number of the signal.
const SIGNALS: &str = "129 hung up, 130 interrupted, 143 terminated";

/// The end of a help: `first`, then each class that a command can fail with and `first` does not tell, then signals.
pub fn statuses(first: &str, classes: &[Class]) -> String {
    let mut text = format!("Exit status: {first}");
    for class in classes {
        write!(text, ", {} {}", class.status(), class.about()).expect("writing to a string does not fail");
    }
    format!("{text}; {SIGNALS}.\n")
}

/// A help that ends with the statuses of [`DONE`] and these classes.
pub fn help(text: &str, classes: &[Class]) -> String {
    format!("{text}\n{}", statuses(DONE, classes))
}
