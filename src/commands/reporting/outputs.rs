//! The outputs of commands that write reports.

use anyhow::Result;

use crate::evaluation::presets::Preset;
use crate::export::json::{self, JsonForm};
use crate::export::summary::{self, Detail};
use crate::export::{Target, Writer};
use crate::report::Report;
use crate::system::files::output::Output;
use crate::system::terminal::{self, print, to_stdout};

/// An output that is ready to be written.
pub enum OpenOutput {
    /// A report in a file.
    File(Output, Writer),
    /// A report in JSON on standard output.
    Stdout(JsonForm),
    /// The summary, with a line for each of these presets, on standard output.
    Summary(Detail, Vec<&'static Preset>),
}

impl OpenOutput {
    /// Whether it gets the whole report, from which all other outputs can be made.
    fn is_whole(&self) -> bool {
        match self {
            Self::File(_, writer) => writer.is_whole(),
            Self::Stdout(_) => true,
            Self::Summary(..) => false,
        }
    }
}

/// Opens files before any work is done, so that a path that cannot be written fails at once.
/// Fails if a file cannot be written.
pub fn open(targets: &[Target]) -> Result<Vec<OpenOutput>> {
    let open = |target: &Target| match target {
        Target::Stdout(form) => Ok(OpenOutput::Stdout(*form)),
        Target::File(path, writer) => Ok(OpenOutput::File(Output::open(path)?, *writer)),
    };
    targets.iter().map(open).collect()
}

/// Writes a report to its outputs: JSON as it is, and all else of its texts on one line each, wherever they come from.
/// Fails if it cannot be written.
pub fn write(report: &Report, outputs: Vec<OpenOutput>) -> Result<()> {
    let has_others = outputs.iter().any(|output| !output.is_whole());
    let to_show = if has_others { json::to_show(report)? } else { None };
    let shown = to_show.as_ref().unwrap_or(report);
    let summary = |detail, presets: &[&'static Preset]| summary::render(shown, presets, detail, terminal::width());
    write_each(outputs, |writer| writer.render(if writer.is_whole() { report } else { shown }), summary)
}

/// Writes to each output what `render` makes in its format, or the text of `summary`.
/// Fails if it cannot be made or written.
pub fn write_each(
    outputs: Vec<OpenOutput>,
    render: impl Fn(Writer) -> Result<Vec<u8>>,
    summary: impl Fn(Detail, &[&'static Preset]) -> String,
) -> Result<()> {
    for output in outputs {
        match output {
            OpenOutput::File(mut output, writer) => {
                output.write(&render(writer)?)?;
                output.commit()?;
            }
            OpenOutput::Stdout(form) => to_stdout(&render(Writer::Json(form))?)?,
            OpenOutput::Summary(detail, presets) => print(&summary(detail, &presets))?,
        }
    }
    Ok(())
}
