//! Where the outcome of a comparison goes: files in the formats of reports, and the terminal.

use anyhow::Result;

use crate::commands::reporting::outputs::{self, OpenOutput};
use crate::export::Target;
use crate::export::summary::Detail;

/// The destinations of an outcome.
#[derive(Clone, Debug)]
pub struct OutcomeOutputs {
    /// Files, and JSON on standard output.
    pub targets: Vec<Target>,
    /// How much of it is printed as text; `None` if nothing is.
    pub printed: Option<Detail>,
}

impl OutcomeOutputs {
    /// The outputs, open; what is printed comes last.
    /// Fails if a file cannot be written.
    pub fn open(&self) -> Result<Vec<OpenOutput>> {
        let mut open = outputs::open(&self.targets)?;
        open.extend(self.printed.map(|detail| OpenOutput::Summary(detail, Vec::new())));
        Ok(open)
    }
}
