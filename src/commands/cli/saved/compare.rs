//! The arguments of `headscope compare`.

use std::path::PathBuf;

use clap::Args;

use super::sides::{NamedSides, SidesArguments};
use crate::commands::cli::shared::checks::{lower_extension, refuse_overlap, unfit};
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::statuses::statuses;
use crate::commands::cli::shared::values::{Named, one_of};
use crate::commands::saved::compare::{CompareOptions, ComparedTable, ComparisonWriter, compare};
use crate::system::errors::Class;

/// The statuses of `compare` that mean something else.
const CHANGED: &str = "0 no label was gained, lost or changed, 1 some was, 2 wrong usage or trouble";

const EXAMPLES: &str = "\
Examples:
  headscope compare a.json b.json
  headscope compare a.json b.json -o compare.html -o compare.csv --json
  headscope compare a.json b.json --table families -o families.csv

A label is kept where it is firm in both analyses, and gained or lost where it is firm in one and the test of the other finds \
its score below the threshold (one-sided, 2.5 %). Everything else cannot be told: a label is borderline, its score is below \
the threshold and more sentences might lift it, or there are too few queries. `headscope diff` asks whether numbers changed \
as well. Models must have the same layers and heads.
";

/// Say whether the labels of heads are stable between two analyses: kept, gained, lost, or could not tell
///
/// Takes reports, and partials of `headscope analyze --partial` or `--shard`: of two halves of a corpus, two corpora, two
/// checkpoints or two seeds.
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n{}", statuses(CHANGED, &[Class::Input, Class::Output])))]
pub struct CompareArguments {
    #[command(flatten)]
    sides: SidesArguments,
    /// Print every label, those that were kept among them
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print the outcome as JSON (`headscope schema compare`)
    #[arg(long)]
    json: bool,
    /// Which table a file .csv gets
    #[arg(long, value_parser = one_of(TABLES), default_value = "heads")]
    table: ComparedTable,
    /// Write the outcome to this file as well, in the format of its extension: .json (all of it), .csv (a table), .html (a
    /// page). May be repeated
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
}

/// The tables of a comparison.
const TABLES: &[Named<ComparedTable>] = &[
    (ComparedTable::Heads, "heads", "A row for each head"),
    (ComparedTable::Labels, "labels", "A row for each label of each head, with its evidence"),
    (ComparedTable::Families, "families", "A row for each family of labels, with its agreement"),
];

impl CompareArguments {
    /// The command: its status says whether labels differ, as that of `diff` does.
    pub fn command(self) -> Result<Command, Usage> {
        let Self { sides, full, json, table, outputs } = self;
        refuse_overlap(&outputs, &[])?;
        let writer = |path: PathBuf| match lower_extension(&path).as_str() {
            "json" => Ok((path, ComparisonWriter::Json)),
            "csv" => Ok((path, ComparisonWriter::Csv(table))),
            "html" => Ok((path, ComparisonWriter::Html)),
            _ => Err(unfit("write a comparison as", &path, "name a file .json, .csv or .html")),
        };
        let outputs = outputs.into_iter().map(writer).collect::<Result<_, Usage>>()?;
        let NamedSides { a, b, policy, threads } = sides.named()?;
        let options = CompareOptions { a, b, policy, full, json, outputs, threads };
        Ok(Command { run: Box::new(move || compare(&options).map(|same| u8::from(!same))), other: Class::Usage })
    }
}
