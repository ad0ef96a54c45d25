//! The arguments of `headscope relabel`, which `show --policy` and `export --policy` stand for now.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::commands::cli::shared::checks::refuse_overlap;
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::presets::PolicyArguments;
use crate::commands::cli::shared::report::targets;
use crate::commands::cli::shared::statuses::{READING, help};
use crate::commands::saved::show::{RelabelOptions, relabel};

const EXAMPLES: &str = "\
Examples:
  headscope relabel report.json --policy strict.toml
  headscope relabel report.json --policy strict.toml -o strict.json -o strict.csv
  headscope relabel report.json --preset voita2019

A policy file is TOML and sets any of the keys that a report lists under `settings.policy`; what it leaves out has its \
default, or the preset's value. For example:
  syntactic_margin = 0.2
  separator_mass = 0.7
  entropy_ratio = \"off\"
";

/// Apply another policy to a saved report, without the model
///
/// Labels every head anew from the evidence in the report, and says which labels change.
#[derive(Args)]
#[command(after_help = help(EXAMPLES, READING))]
pub struct RelabelArguments {
    /// A report in JSON; `-` reads standard input
    report: PathBuf,
    #[command(flatten)]
    policy: PolicyArguments,
    /// Write the new report, as JSON, as CSV or as a page (.html) by the extension; `-` writes JSON to standard output. May be
    /// repeated
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
    /// Write JSON on one line, not indented
    #[arg(long, requires = "outputs")]
    compact: bool,
}

impl RelabelArguments {
    /// The command.
    pub fn command(self) -> Result<Command, Usage> {
        refuse_overlap(&self.outputs, &[])?;
        let policy = self.policy.options()?.ok_or_else(|| anyhow!("there is no policy: give --policy or --preset"))?;
        let options = RelabelOptions { report: self.report, policy, outputs: targets(&self.outputs, self.compact)? };
        Ok(Command::new(move || relabel(&options)))
    }
}
