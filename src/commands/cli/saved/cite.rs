//! The arguments of `headscope cite`.

use std::path::PathBuf;

use clap::Args;

use crate::commands::cli::shared::command::Command;
use crate::commands::cli::shared::statuses::{DONE, READING, statuses};
use crate::commands::saved::cite::cite;

/// Say how to cite this program, and the papers behind a report
///
/// Without a report, prints CITATION.cff. With one, prints the sources of its labels and metrics, and the papers that they
/// name.
#[derive(Args)]
#[command(after_help = statuses(DONE, READING))]
pub struct CiteArguments {
    /// A report in JSON; `-` reads standard input
    report: Option<PathBuf>,
    /// Print BibTeX: of the program, and of the papers behind the report
    #[arg(long)]
    bibtex: bool,
}

impl CiteArguments {
    /// The command.
    pub fn command(self) -> Command {
        Command::new(move || cite(self.report.as_deref(), self.bibtex))
    }
}
