//! What `headscope explain --schema` prints, and the arguments of `headscope schema`, its name in the version before.

use clap::{Args, ValueEnum};

use super::shared::command::Command;
use super::shared::statuses::{DONE, WRITING, statuses};
use crate::commands::keys::schema_of;
use crate::system::terminal::print;

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
    /// The command.
    pub fn command(self) -> Command {
        Command::new(move || print(&self.of.text()))
    }
}

impl SchemaArgument {
    /// The schema as it is printed.
    pub fn text(self) -> String {
        let name = match self {
            Self::Report => "report",
            Self::Compare => "compare",
            Self::Numbers => "numbers",
            Self::Confirm => "confirm",
            Self::Gate => "gate",
            Self::Match => "match",
        };
        let schema = schema_of(name).expect("each of them has a schema");
        serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
    }
}
