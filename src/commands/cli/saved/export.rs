//! The arguments of `headscope export`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::commands::cli::shared::presets::PolicyArguments;
use crate::commands::cli::shared::report::targets;
use crate::commands::cli::shared::{
    Command, READING, Usage, help, lower_extension, refuse_other_than_pages, refuse_overlap, unfit,
};
use crate::commands::saved::export::{ExportOptions, Exported, ExportedTable, export};
use crate::export::TableWriter;
use crate::studies::registry::STUDIES;
use crate::study::Card;
use crate::study::show::condition::Condition;
use crate::system::errors::Facts;

fn examples() -> String {
    let names = |of: fn(&Card) -> &'static [&'static str]| -> String {
        STUDIES.iter().flat_map(|study| of(study.card())).copied().collect::<Vec<_>>().join(", ")
    };
    let (figures, tables) = (names(|card| card.figures), names(|card| card.tables));
    format!(
        "\
Examples:
  headscope export report.json -o report.html -o heads.csv
  headscope export before.json after.json -o side-by-side.html
  headscope export report.json --figure grid -o grid.svg
  headscope export report.json --figure heatmap:entropy_ratio -o entropy.svg
  headscope export report.json --table labels -o labels.csv
  headscope export report.json --table labels --rows borderline=false --rows 'score>=0.8' -o firm.csv
  headscope export report.json --table heads --columns name,primary,score,ci95_low,ci95_high -o heads.tex
  headscope export english.json german.json --table paper -o relations.tex
  headscope export report.json --policy strict.toml -o strict.json

A policy file sets any of the keys that a report lists under `settings.policy`, such as `syntactic_margin = 0.2` or \
`entropy_ratio = \"off\"`.

Figures: grid, layers, heatmap:METRIC with any metric of the report, and those of the studies that were run: \
{figures}.

Tables: heads, labels, metrics, controls, files, and those of the studies that were run: \
{tables}. Columns have the names of the report.
"
    )
}

/// Write a saved report in other formats, or a part of it, without the model
#[derive(Args)]
#[command(after_help = help(&examples(), READING))]
pub struct ExportArguments {
    /// A report in JSON; `-` reads standard input. A page (.html) or a table may have several reports
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Write this figure alone, as SVG
    #[arg(long, value_name = "FIGURE")]
    figure: Option<String>,
    /// Write this flat table alone, as CSV, LaTeX (.tex) or Parquet
    #[arg(long, value_name = "TABLE", conflicts_with = "figure")]
    table: Option<String>,
    /// Columns of the table to write, in this order
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', requires = "table")]
    columns: Vec<String>,
    /// Rows of the table to write: COLUMN=VALUE, or !=, >=, <=, > or < for =. May be repeated, all must hold
    #[arg(long, value_name = "CONDITION", requires = "table")]
    rows: Vec<Condition>,
    #[command(flatten)]
    policy: PolicyArguments,
    /// Write JSON on one line, not indented
    #[arg(long, conflicts_with_all = ["figure", "table"])]
    compact: bool,
    /// Write to this file, in the format of its extension: .html (a page), .json, .json.gz, .csv (a row for each head), .svg
    /// (a figure), .tex, .parquet (a table). May be repeated
    #[arg(short, long = "output", value_name = "FILE", required = true)]
    outputs: Vec<PathBuf>,
}

impl ExportArguments {
    pub fn command(self) -> Result<Command, Usage> {
        refuse_overlap(&self.outputs, &[])?;
        let figure = |name| match self.outputs.iter().find(|path| lower_extension(path) != "svg") {
            Some(other) => {
                Err(unfit("draw", other, "name a file .svg; any browser or drawing program makes a PDF or a PNG of it"))
            }
            None => Ok::<_, Usage>(Exported::Figure(name, self.outputs.clone())),
        };
        let table = |name| -> Result<Exported, Usage> {
            let known = |path: &PathBuf| TableWriter::ALL.iter().find(|(known, _)| *known == lower_extension(path));
            let writer = |path: &PathBuf| match known(path) {
                Some((_, writer)) => Ok((path.clone(), *writer)),
                None if lower_extension(path) == "parquet" => {
                    Err(anyhow!("`{}`: this headscope was built without Parquet", path.display())
                        .about(path.display())
                        .hint("build it with `--features parquet`, or write .csv"))
                }
                None => Err(unfit("write a table as", path, "name a file .csv, .tex or .parquet")),
            };
            let table = ExportedTable { name, rows: self.rows.clone(), columns: self.columns.clone() };
            Ok(Exported::Table(table, self.outputs.iter().map(writer).collect::<Result<_, Usage>>()?))
        };
        let wanted = match (self.figure, self.table) {
            (Some(name), _) => figure(name)?,
            (None, Some(name)) => table(name)?,
            (None, None) if self.reports.len() > 1 => {
                refuse_other_than_pages(&self.outputs, "several reports")?;
                Exported::SideBySide(self.outputs)
            }
            (None, None) => Exported::Report(targets(&self.outputs, self.compact)?),
        };
        if self.reports.len() > 1 && matches!(wanted, Exported::Figure(..)) {
            return Err(anyhow!("a figure shows one report").hint("name one report, or write a page (.html) of all"));
        }
        let options = ExportOptions { reports: self.reports, policy: self.policy.options()?, wanted };
        Ok(Command::new(move || export(&options)))
    }
}
