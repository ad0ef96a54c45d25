//! The outputs of commands that write reports.

use anyhow::Result;

use crate::export::{Target, Writer};
use crate::report::Report;
use crate::system::files::output::Output;
use crate::system::terminal::to_stdout;

/// An output that is open; `None` is standard output.
pub type Opened = (Option<Output>, Writer);

/// Opens files before any work is done, so that a path that cannot be written fails at once.
/// Fails if a file cannot be written.
pub fn open(targets: &[Target]) -> Result<Vec<Opened>> {
    let open = |target: &Target| match target {
        Target::Stdout => Ok((None, Writer::Json)),
        Target::File(path, writer) => Ok((Some(Output::open(path)?), *writer)),
    };
    targets.iter().map(open).collect()
}

/// Writes a report to its outputs.
/// Fails if it cannot be written.
pub fn write(report: &Report, outputs: Vec<Opened>) -> Result<()> {
    for (output, writer) in outputs {
        let bytes = writer.render(report)?;
        match output {
            Some(mut output) => {
                output.write(&bytes)?;
                output.commit()?;
            }
            None => to_stdout(&bytes)?,
        }
    }
    Ok(())
}
