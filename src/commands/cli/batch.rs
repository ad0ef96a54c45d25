//! The arguments of `headscope batch`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args};

use super::analyze::words::option_syntax;
use super::errors::requested_error_format;
use super::shared::{Command, RUN_ERRORS, exit_status_help};
use crate::commands::batch::ledger::RunFormat;
use crate::commands::batch::{BatchOptions, batch};

const EXAMPLES: &str = "\
Examples:
  headscope batch runs.toml -o out/
  headscope batch runs.toml -o out/ --only 'minilm.*' --dry-run

A table of two models over two corpora, four runs:
  [defaults]
  control = [\"random-init\"]
  [models]
  minilm = \"sentence-transformers/all-MiniLM-L6-v2\"
  mine = { model = \"./my-model\", max-tokens = 256 }
  [corpora]
  ewt = \"en_ewt-ud-dev.conllu\"
  news = { corpus = [\"a.txt\", \"b.txt.gz\"], truncate = true }

Beside `model` and `corpus` the keys are the options of `headscope analyze`. An optional part [options] names sets of them, \
which each model is run with over each corpus. More: docs/BATCH.md
";

/// Exit statuses that concern the batch as a whole.
const BATCH_STATUSES: &str = "0 every run that was asked for is done, or with --dry-run was looked at, else that of what failed, or 1 if that differs";

/// Analyse every model of a table over every corpus of it
///
/// Writes a report of each run, a table of all (runs.csv) and an index page (index.html) into a folder. Each model is loaded
/// once. Run again, it does only what is missing or what has changed: the model's files, the corpus, the options, a file that
/// an option names, or the version of the program.
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n{}", exit_status_help(BATCH_STATUSES, &RUN_ERRORS[1..])))]
pub struct BatchArguments {
    /// The table: a TOML file
    table: PathBuf,
    /// The folder to write to; it is made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Run only these: names of runs as MODEL.CORPUS or MODEL.CORPUS.OPTIONS, in which `*` stands for anything. May be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Whether to go on after a run that failed
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    keep_going: bool,
    /// Say what would be run and why, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Write each run in these formats, and in json unless json.gz is named. `headscope` writes a partial, the sums behind the
    /// report [default: html]
    #[arg(long = "as", value_name = "FORMAT", value_delimiter = ',', value_parser = PossibleValuesParser::new(RunFormat::all_with_extensions().map(|(extension, _)| extension)))]
    formats: Option<Vec<String>>,
    /// Do not ask the Hub: take models from its cache
    #[arg(long)]
    offline: bool,
    /// Do not print what is done
    #[arg(short, long)]
    quiet: bool,
}

/// Format of the complete report, which is always written unless `json.gz` is named in its place.
const JSON_FORMAT: &str = "json";
const HTML_FORMAT: &str = "html";

impl BatchArguments {
    pub fn command(self) -> Command {
        let Self { table, output, only, keep_going, dry_run, formats, offline, quiet } = self;
        let names = formats.unwrap_or_else(|| vec![HTML_FORMAT.to_owned()]);
        let is_named = |name: &str| names.iter().any(|format| format == name);
        let has_complete_report =
            RunFormat::all_with_extensions().any(|(name, format)| is_named(name) && format.is_complete_report());
        let formats = RunFormat::all_with_extensions()
            .filter(|(name, _)| is_named(name) || (*name == JSON_FORMAT && !has_complete_report));
        let options = BatchOptions {
            table,
            folder: output,
            run_patterns: only,
            keep_going,
            dry_run,
            formats: formats.collect(),
            offline,
            quiet,
            errors: requested_error_format(),
        };
        Command::new(move || batch(&options, &option_syntax()))
    }
}
