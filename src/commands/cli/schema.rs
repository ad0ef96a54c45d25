//! The arguments of `headscope schema`.

use clap::{Args, ValueEnum};

use super::shared::command::Command;
use super::shared::statuses::{DONE, WRITING, statuses};
use crate::commands::saved::sides::matching;
use crate::commands::saved::{compare, confirm, diff};
use crate::report;
use crate::system::terminal::print;

/// Print the JSON Schema of a report, or of what `diff`, `compare`, `confirm` and `match` print with `--json`
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
    /// The outcome of `headscope diff --json`
    Diff,
    /// The outcome of `headscope compare --json`
    Compare,
    /// The outcome of `headscope confirm --json`
    Confirm,
    /// The outcome of `headscope match --json`
    Match,
}

impl SchemaArguments {
    /// The command.
    pub fn command(self) -> Command {
        let schema = match self.of {
            SchemaArgument::Report => report::schema(),
            SchemaArgument::Diff => diff::outcome::schema(),
            SchemaArgument::Compare => compare::outcome::schema(),
            SchemaArgument::Confirm => confirm::outcome::schema(),
            SchemaArgument::Match => matching::schema(),
        };
        let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
        Command::new(move || print(&text))
    }
}
