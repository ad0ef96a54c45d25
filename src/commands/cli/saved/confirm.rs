//! The arguments of `headscope confirm`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::sides::OutcomeArguments;
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::numbers;
use crate::commands::cli::shared::report::threads_or_all;
use crate::commands::cli::shared::statuses::{DONE, READING, statuses};
use crate::commands::saved::confirm::{ConfirmOptions, confirm};
use crate::system::errors::Facts;

const EXAMPLES: &str = "\
Examples:
  headscope confirm ewt.json gum.json pud.json
  headscope confirm ewt.json gum.json -o confirmed.csv --json

The labels that are firm in the first report are fixed beforehand, with its policy; in each other corpus they are one family of \
tests, against the same thresholds. Over five and more other corpora a label is robust where the prediction interval of its score \
less its threshold is above 0. No model is run.
";

/// A confirmation has no page.
const OUTPUTS: &str = "Write the outcome to this file as well, all of it, in the format of its extension: .json, .json.gz or .csv \
    (a table of labels). May be repeated";

/// Say which firm labels of one report are found again over other corpora
///
/// Takes reports of one model over different corpora, and partials after the first report.
#[derive(Args)]
#[command(mut_arg("outputs", |argument| argument.help(OUTPUTS)))]
#[command(after_help = format!("{EXAMPLES}\n{}", statuses(DONE, READING)))]
pub struct ConfirmArguments {
    /// The report whose firm labels are fixed, and then others over other corpora
    #[arg(required = true, num_args = 2.., value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Threads that work out the numbers of partials [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u16>(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    outcome: OutcomeArguments,
}

impl ConfirmArguments {
    /// The command.
    pub fn command(self) -> Result<Command, Usage> {
        let Self { reports, threads, outcome } = self;
        let stdin = reports.iter().filter(|report| report.as_os_str() == "-").count();
        if stdin > 1 {
            return Err(anyhow!("standard input can be one of the reports, and is named {stdin} times").of_value("-"));
        }
        let outputs = outcome.outputs("a confirmation", &["json", "json.gz", "csv"])?;
        let options = ConfirmOptions { reports, outputs, threads: threads_or_all(threads) };
        Ok(Command::new(move || confirm(&options)))
    }
}
