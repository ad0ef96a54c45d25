//! Arguments of the commands about the program: `explain`, `completions`, `man`, and `schema`, the former name of
//! `explain --schema`.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use super::shared::{Command, SUCCESS_STATUS, UsageError, WRITE_ERRORS, exit_status_help};
use crate::commands::explain;
use crate::commands::keys::schema_by_name;
use crate::commands::reporting::make_folder;
use crate::passes::observation::identity::Tool;
use crate::passes::observation::partial;
use crate::report;
use crate::system::files::output::Output;
use crate::system::machine::processor;
use crate::system::terminal::print;

/// Say what a label, a metric, a study or another word of a report is
///
/// Prints what it measures, its formula, its chance level, its threshold and where that comes from, and what it does
/// not show. Without a name, lists all of them.
#[derive(Args)]
#[command(after_help = exit_status_help(SUCCESS_STATUS, WRITE_ERRORS))]
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
    pub fn command(self) -> Result<Command, UsageError> {
        let text = match (self.name, self.schema) {
            _ if self.markdown => explain::detectors_page(),
            (Some(name), _) => explain::explain(&name)?,
            (None, Some(of)) => of.schema_text(),
            (None, None) => explain::list_all_terms(),
        };
        Ok(Command::new(move || print(&text)))
    }
}

/// Print the JSON Schema of a report, or of what `compare`, `confirm`, `gate` and `match` print with `--json`
#[derive(Args)]
#[command(after_help = exit_status_help(SUCCESS_STATUS, WRITE_ERRORS))]
pub struct SchemaArguments {
    /// JSON document
    #[arg(value_enum, default_value_t = SchemaArgument::Report)]
    of: SchemaArgument,
}

/// JSON documents of this program that have a JSON Schema.
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
        Command::new(move || print(&self.of.schema_text()))
    }
}

impl SchemaArgument {
    pub fn schema_text(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        let schema = schema_by_name(value.get_name()).expect("each of them has a schema");
        serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
    }
}

/// Print completions for a shell
///
/// Bash: `headscope completions bash > ~/.local/share/bash-completion/completions/headscope`. Zsh: to a file `_headscope` in a
/// folder of `fpath`. Fish: `headscope completions fish > ~/.config/fish/completions/headscope.fish`.
#[derive(Args)]
#[command(after_help = exit_status_help(SUCCESS_STATUS, WRITE_ERRORS))]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages
///
/// One page for the program and one for each command: headscope.1, headscope-analyze.1 and so on. To read one without
/// installing it: `man -l FOLDER/headscope-analyze.1`.
#[derive(Args)]
#[command(after_help = exit_status_help(SUCCESS_STATUS, WRITE_ERRORS))]
pub struct ManArguments {
    /// The folder to write to; it is made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

impl CompletionsArguments {
    /// Returns a command that prints the completion script for `root`.
    pub fn command(&self, mut root: clap::Command) -> Command {
        let (name, mut bytes) = (root.get_name().to_owned(), Vec::new());
        clap_complete::generate(self.shell, &mut root, name, &mut bytes);
        let text = String::from_utf8(bytes).expect("completions are text");
        Command::new(move || print(&text))
    }
}

impl ManArguments {
    /// Returns the command that writes one man page for `root`, and one for each command of `root` but `help`. Fails if a page
    /// cannot be made.
    pub fn command(self, mut root: clap::Command) -> Result<Command, UsageError> {
        root.build();
        let commands = root.get_subcommands().filter(|command| command.get_name() != "help").cloned();
        let page = |command: clap::Command| -> Result<(String, Vec<u8>), UsageError> {
            let name = command.get_display_name().unwrap_or_else(|| command.get_name());
            let (name, mut bytes) = (format!("{name}.1"), Vec::new());
            Man::new(command).render(&mut bytes).with_context(|| format!("cannot make the page {name}"))?;
            Ok((name, bytes))
        };
        let files = [root.clone()].into_iter().chain(commands).map(page).collect::<Result<Vec<_>, UsageError>>()?;
        let folder = self.output;
        Ok(Command::new(move || {
            make_folder(&folder)?;
            files.iter().try_for_each(|(name, bytes)| Output::open(&folder.join(name))?.finish(bytes))
        }))
    }
}

/// Text of `--version --verbose`: version, features, system, instruction set, and versions of the file formats.
pub fn version_text() -> String {
    let Tool { name, version } = Tool::default();
    let features = [("hub", cfg!(feature = "hub")), ("parquet", cfg!(feature = "parquet"))];
    let features: Vec<&str> = features.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!(
        "{name} {version}\nfeatures: {features}\nsystem: {} {}\nprocessor path: {}\nreport schema: {}\npartial format: {}\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        processor::vector_instructions(),
        report::SCHEMA_VERSION,
        partial::FORMAT_VERSION,
    )
}
