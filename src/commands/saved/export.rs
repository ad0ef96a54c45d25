//! `headscope export`: a saved report in other formats, or a part of it, without the model.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use crate::commands::reporting::{self, OpenOutput, PolicyOptions, relabel_if_given};
use crate::export::{OutputTarget, ReportFormat, TableFormat, figures, json, page, svg, tables};
use crate::report::Report;
use crate::study::show::condition::Condition;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output::Output;

/// Part of saved reports to write, with its output files.
pub enum ExportRequest {
    Report(Vec<OutputTarget>),
    /// Page that shows several reports side by side.
    SideBySidePage(Vec<PathBuf>),
    /// Figure with this name, as SVG.
    Figure(String, Vec<PathBuf>),
    Table(ExportedTable, Vec<(PathBuf, TableFormat)>),
}

/// Table to write: its name, its rows and its columns.
pub struct ExportedTable {
    pub name: String,
    /// Conditions that each written row meets.
    pub rows: Vec<Condition>,
    /// Columns to write; all of them if empty.
    pub columns: Vec<String>,
}

/// Writes a saved report, or a part of it, to the outputs; labelled by `policy` if there is one.
/// Fails if the report cannot be read or has no such part, or an output cannot be written.
pub fn export(reports: &[PathBuf], policy: Option<&PolicyOptions>, exported: &ExportRequest) -> Result<()> {
    let first = &reports[0];
    match exported {
        ExportRequest::Report(targets) => {
            let outputs = reporting::open_targets(targets)?;
            let (name, text) = (first.display().to_string(), json::read_text(first)?);
            let is_page = |output: &OpenOutput| matches!(output, OpenOutput::File(_, ReportFormat::Html));
            let (pages, data): (Vec<_>, Vec<_>) = outputs.into_iter().partition(is_page);
            reporting::write_report(&relabel_if_given(json::parse(&name, &text)?, policy, &name)?, data)?;
            if pages.is_empty() {
                return Ok(());
            }
            reporting::write_report(&relabel_if_given(json::parse_for_display(&name, &text)?, policy, &name)?, pages)
        }
        ExportRequest::SideBySidePage(paths) => {
            let outputs = open_outputs(paths.iter().map(|path| (path, ())))?;
            let page = page::several::render(&read_named_reports(reports, policy)?)?;
            write_outputs(outputs, |()| Ok(page.clone()))
        }
        ExportRequest::Figure(name, paths) => {
            let outputs = open_outputs(paths.iter().map(|path| (path, ())))?;
            let figure = figures::draw_named(
                &read_report(first, policy, json::parse_for_display)?,
                name,
                svg::Medium::StandaloneFile,
            )
            .class(ErrorClass::Usage)?;
            write_outputs(outputs, |()| Ok(figure.clone().into_bytes()))
        }
        ExportRequest::Table(ExportedTable { name, rows, columns }, files) => {
            let outputs = open_outputs(files.iter().map(|(path, writer)| (path, *writer)))?;
            let (reports, table) = if let [report] = reports {
                let report = read_report(report, policy, json::parse)?;
                let table = tables::named_table(&report, name).class(ErrorClass::Usage)?;
                if table.rows.is_empty() {
                    return Err(tables::no_rows_error(&report, name)).class(ErrorClass::Input);
                }
                (vec![(String::new(), report)], table)
            } else {
                let reports = read_named_reports(reports, policy)?;
                let table = tables::joined_table(&reports, name).class(ErrorClass::Usage)?;
                (reports, table)
            };
            let table = table.rows_where(rows).class(ErrorClass::Usage)?;
            if table.rows.is_empty() {
                return Err(anyhow!("no row of the table `{name}` meets what --rows asks")).class(ErrorClass::Input);
            }
            let table = if columns.is_empty() { table } else { table.select(columns).class(ErrorClass::Usage)? };
            let caption = tables::caption(&reports, &table);
            write_outputs(outputs, |writer| writer.render(&table, &caption))
        }
    }
}

/// Reads a report with `parse`, and labels it by `policy` if there is one.
/// `parse` is [`json::parse`], or [`json::parse_for_display`] if the texts of the report are shown.
fn read_report(path: &Path, policy: Option<&PolicyOptions>, parse: fn(&str, &str) -> Result<Report>) -> Result<Report> {
    let name = path.display().to_string();
    relabel_if_given(parse(&name, &json::read_text(path)?)?, policy, &name)
}

/// Reads reports, each named by its file name, or by its path where two file names are equal.
fn read_named_reports(paths: &[PathBuf], policy: Option<&PolicyOptions>) -> Result<Vec<(String, Report)>> {
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = |path: &PathBuf| {
        let is_unique = paths.iter().filter(|other| stem(other) == stem(path)).count() == 1;
        stem(path).filter(|_| is_unique).unwrap_or_else(|| path.display().to_string())
    };
    paths.iter().map(|path| Ok((name(path), read_report(path, policy, json::parse_for_display)?))).collect()
}

/// Opens output files before any work is done, each with its format.
fn open_outputs<'a, T>(files: impl Iterator<Item = (&'a PathBuf, T)>) -> Result<Vec<(Output, T)>> {
    files.map(|(path, how)| Ok((Output::open(path)?, how))).collect()
}

fn write_outputs<T>(outputs: Vec<(Output, T)>, bytes: impl Fn(T) -> Result<Vec<u8>>) -> Result<()> {
    outputs.into_iter().try_for_each(|(output, how)| output.finish(&bytes(how)?))
}
