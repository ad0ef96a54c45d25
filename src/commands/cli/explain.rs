//! The arguments of `headscope explain`, and of `headscope schema`, the name in the version before for a part of it.

use clap::{Args, ValueEnum};

use super::shared::{Command, DONE, Usage, WRITING, statuses};
use crate::commands::explain;
use crate::commands::keys::schema_of;
use crate::system::terminal::print;

/// Say what a label, a metric, a study or another word of a report is
///
/// Prints what it measures, its formula, its chance level, its threshold and where that comes from, and what it does
/// not show. Without a name, lists all of them.
#[derive(Args)]
#[command(after_help = statuses(DONE, WRITING))]
pub struct ExplainArguments {
    /// A label (`previous-token`, `offset:-2`, `syntactic:nsubj`), a metric (`separator_mass`), a study (`dependency`),
    /// a threshold (`min_queries`), a word of a report (`primary`, `held-out`, `q`), a cell of the grid (`case~+7`),
    /// `verdicts` or `studies` for a table of all, or the keys of a report (`report`, `report.heads`, `compare`, `numbers`)
    #[arg(allow_negative_numbers = true)]
    name: Option<String>,
    /// Print all explanations as the page docs/detectors.md
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
    /// Print the JSON Schema of a report, or of what a command prints with `--json` [default: report]
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        num_args = 0..=1,
        default_missing_value = "report",
        conflicts_with_all = ["name", "markdown"]
    )]
    schema: Option<SchemaArgument>,
}

impl ExplainArguments {
    pub fn command(self) -> Result<Command, Usage> {
        let text = match (self.name, self.schema) {
            _ if self.markdown => explain::markdown(),
            (Some(name), _) => explain::one(&name)?,
            (None, Some(of)) => of.text(),
            (None, None) => explain::list(),
        };
        Ok(Command::new(move || print(&text)))
    }
}

/// Print the JSON Schema of a report, or of what `compare`, `confirm`, `gate` and `match` print with `--json`
#[derive(Args)]
#[command(after_help = statuses(DONE, WRITING))]
pub struct SchemaArguments {
    /// Which of them
    #[arg(value_enum, default_value_t = SchemaArgument::Report)]
    of: SchemaArgument,
}

/// The documents with a schema.
#[derive(Clone, Copy, ValueEnum)]
pub enum SchemaArgument {
    /// A report in JSON
    Report,
    /// The outcome of `headscope compare --json`
    Compare,
    /// The outcome of `headscope compare --numbers --json`
    #[value(alias = "diff")]
    Numbers,
    /// The outcome of `headscope confirm --json`
    Confirm,
    /// The outcome of `headscope gate --json`
    Gate,
    /// The outcome of `headscope match --json`
    Match,
}

impl SchemaArguments {
    pub fn command(self) -> Command {
        Command::new(move || print(&self.of.text()))
    }
}

impl SchemaArgument {
    pub fn text(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        let schema = schema_of(value.get_name()).expect("each of them has a schema");
        serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
    }
}
