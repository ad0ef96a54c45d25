//! A command that is ready to run.

use anyhow::Result;

use crate::system::errors::Class;

/// Wrong usage.
pub type Usage = anyhow::Error;

/// A command with its options, validated.
pub struct Command {
    /// Runs it; the exit status, 0 for nearly all.
    pub run: Box<dyn FnOnce() -> Result<u8>>,
    /// The class of failures that have none of their own.
    pub other: Class,
}

impl Command {
    /// A command that ends with status 0 unless it fails.
    pub fn new(run: impl FnOnce() -> Result<()> + 'static) -> Self {
        Self { run: Box::new(|| run().map(|()| 0)), other: Class::Other }
    }
}
