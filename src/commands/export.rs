//! `headscope export`: a saved report in other formats, or a part of it, without the model.

use std::path::PathBuf;

use anyhow::Result;

use super::options::{ExportOptions, Exported};
use super::outputs;
use crate::export::{figures, json, svg};
use crate::report::Report;
use crate::system::output::Output;

/// Writes what is wanted of a saved report.
///
/// # Errors
///
/// If the report cannot be read or has no such part, or an output cannot be written.
pub fn export(options: &ExportOptions) -> Result<()> {
    match &options.wanted {
        Exported::Report(targets) => {
            let outputs = outputs::open(targets)?;
            outputs::write(&read(options)?, outputs)
        }
        Exported::Figure(name, paths) => {
            write_each(paths, || Ok(figures::named(&read(options)?, name, svg::Medium::Alone)?.into_bytes()))
        }
    }
}

fn read(options: &ExportOptions) -> Result<Report> {
    json::parse(&options.report.display().to_string(), &json::read_text(&options.report)?)
}

/// Writes the same bytes to all files, which are opened before the bytes are made.
fn write_each(paths: &[PathBuf], bytes: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
    let outputs = paths.iter().map(|path| Output::open(path)).collect::<Result<Vec<_>>>()?;
    let bytes = bytes()?;
    for mut output in outputs {
        output.write(&bytes)?;
        output.commit()?;
    }
    Ok(())
}
