//! Arguments of the commands on one saved report: `headscope show`, `cite`, `export`, `prune`, and the old `relabel`, now
//! `show --policy` and `export --policy`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{ArgGroup, Args};
use itertools::Itertools as _;

use crate::commands::cli::shared::inputs::NetworkArguments;
use crate::commands::cli::shared::numbers::{self, parse_percentage};
use crate::commands::cli::shared::presets::PolicyArguments;
use crate::commands::cli::shared::report::{DETAILS, output_targets};
use crate::commands::cli::shared::{
    Command, NamedValue, READ_ERRORS, RUN_ERRORS, SUCCESS_STATUS, UsageError, ensure_extension, exit_status_help,
    help_with_statuses, lower_extension, named_value_parser, refuse_overlap, unsuitable_output,
};
use crate::commands::saved::cite::cite;
use crate::commands::saved::export::{ExportRequest, ExportedTable, export};
use crate::commands::saved::prune::{PruningBudget, prune};
use crate::commands::saved::show::{ShownPart, relabel, show};
use crate::export::TableFormat;
use crate::export::summary::Detail;
use crate::model::grid::HeadPlace;
use crate::studies::registry::STUDIES;
use crate::study::Card;
use crate::study::section::ShareOf;
use crate::study::show::condition::Condition;
use crate::system::errors::ErrorExt;

const EXAMPLES: &str = "\
Examples:
  headscope show report.json                         # the summary
  headscope show report.json L2H8                    # one head in a sentence, and its labels
  headscope show report.json L2H8 --all              # all on it
  headscope show report.json --heads                 # a row for each head: label, score, choice, effect, sentence
  headscope show report.json --relation obj --top 5  # the heads that follow a relation best
  headscope show report.json --label first-special   # the heads that have a label
  headscope show report.json --policy strict.toml    # the labels that another policy changes
";

/// Show a saved report, or what it has on a head, a relation or a label
///
/// Needs neither the model nor the corpus.
#[derive(Args)]
#[command(after_help = help_with_statuses(EXAMPLES, READ_ERRORS), group = ArgGroup::new("part"))]
pub struct ShowArguments {
    /// A report in JSON; `-` reads standard input
    report: PathBuf,
    /// Head to describe, with its labels and their evidence
    #[arg(group = "part", value_name = "L2H8")]
    head: Option<HeadPlace>,
    /// With a head: also what each study says of it, its metrics, the literature
    #[arg(long, requires = "head")]
    all: bool,
    /// A row for each head: its first label with the evidence, how it chooses, what removing it costs if that was measured, and
    /// the head in one sentence; `export --table heads` writes it
    #[arg(long, group = "part")]
    heads: bool,
    /// The heads that follow this relation best, in both directions
    #[arg(long, value_name = "RELATION", group = "part")]
    relation: Option<String>,
    /// Number of heads to show
    #[arg(long, value_name = "N", default_value_t = 10, requires = "relation", value_parser = numbers::whole_number_parser_from::<u16>(1))]
    top: u16,
    /// Heads with this label (`rare-words`), a label of this family (`syntactic`, `sink`), or this code in the grid (`rare`)
    #[arg(long, value_name = "LABEL", group = "part")]
    label: Option<String>,
    #[command(flatten)]
    policy: PolicyArguments,
    /// How much the summary says
    #[arg(long, value_parser = named_value_parser(DETAILS), default_value = "brief", conflicts_with = "part")]
    summary: Detail,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl ShowArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let Self { report, head, all, heads, relation, top, label, policy, summary, json } = self;
        let policy = policy.options()?;
        let shown = match (head, relation, label) {
            (Some(place), ..) => ShownPart::Head(place, if all { Detail::Full } else { Detail::Brief }),
            (_, Some(name), _) => ShownPart::Relation { name, top: top.into() },
            (.., Some(label)) => ShownPart::Label(label),
            (None, None, None) if heads => ShownPart::HeadTable,
            (None, None, None) if policy.is_some() && !json => ShownPart::PolicyChanges,
            (None, None, None) => ShownPart::Summary(summary),
        };
        Ok(Command::new(move || show(&report, policy.as_ref(), &shown, json)))
    }
}

const RELABEL_EXAMPLES: &str = "\
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
#[command(after_help = help_with_statuses(RELABEL_EXAMPLES, READ_ERRORS))]
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
    pub fn command(self) -> Result<Command, UsageError> {
        refuse_overlap(&self.outputs, &[])?;
        let policy = self.policy.options()?.ok_or_else(|| anyhow!("there is no policy: give --policy or --preset"))?;
        let targets = output_targets(&self.outputs, self.compact)?;
        Ok(Command::new(move || relabel(&self.report, &policy, &targets)))
    }
}

/// Say how to cite this program, and the papers behind a report
///
/// Without a report, prints CITATION.cff. With one, prints the sources of its labels and metrics, and the papers that they
/// name.
#[derive(Args)]
#[command(after_help = exit_status_help(SUCCESS_STATUS, READ_ERRORS))]
pub struct CiteArguments {
    /// A report in JSON; `-` reads standard input
    report: Option<PathBuf>,
    /// Print BibTeX: of the program, and of the papers behind the report
    #[arg(long)]
    bibtex: bool,
}

impl CiteArguments {
    pub fn command(self) -> Command {
        Command::new(move || cite(self.report.as_deref(), self.bibtex))
    }
}

fn export_examples() -> String {
    let names = |of: fn(&Card) -> &'static [&'static str]| -> String {
        STUDIES.iter().flat_map(|study| of(study.card())).copied().join(", ")
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
#[command(after_help = help_with_statuses(&export_examples(), READ_ERRORS))]
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
    /// Rows to write: COLUMN=VALUE, or with !=, >=, <=, > or <. May be repeated; all conditions must hold
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
    pub fn command(self) -> Result<Command, UsageError> {
        refuse_overlap(&self.outputs, &[])?;
        let table = |name| -> Result<ExportRequest, UsageError> {
            let writer_of =
                |path: &PathBuf| TableFormat::ALL.iter().find(|(extension, _)| *extension == lower_extension(path));
            let writer = |path: &PathBuf| match writer_of(path) {
                Some((_, writer)) => Ok((path.clone(), *writer)),
                None if lower_extension(path) == "parquet" => {
                    Err(anyhow!("`{}`: this headscope was built without Parquet", path.display())
                        .with_file(path.display())
                        .hint("build it with `--features parquet`, or write .csv"))
                }
                None => Err(unsuitable_output("write a table as", path, "name a file .csv, .tex or .parquet")),
            };
            let table = ExportedTable { name, rows: self.rows.clone(), columns: self.columns.clone() };
            Ok(ExportRequest::Table(table, self.outputs.iter().map(writer).collect::<Result<_, UsageError>>()?))
        };
        let exported = match (self.figure, self.table) {
            (Some(name), _) => {
                let way_out = "name a file .svg; any browser or drawing program makes a PDF or a PNG of it";
                ensure_extension(&self.outputs, "svg", "draw", way_out)?;
                ExportRequest::Figure(name, self.outputs)
            }
            (None, Some(name)) => table(name)?,
            (None, None) if self.reports.len() > 1 => {
                ensure_extension(&self.outputs, "html", "write several reports as", "name a file .html")?;
                ExportRequest::SideBySidePage(self.outputs)
            }
            (None, None) => ExportRequest::Report(output_targets(&self.outputs, self.compact)?),
        };
        if self.reports.len() > 1 && matches!(exported, ExportRequest::Figure(..)) {
            return Err(anyhow!("a figure shows one report").hint("name one report, or write a page (.html) of all"));
        }
        let policy = self.policy.options()?;
        Ok(Command::new(move || export(&self.reports, policy.as_ref(), &exported)))
    }
}

const PRUNE_EXAMPLES: &str = "\
Examples:
  headscope prune ./my-model --heads L0H1,L3H2 -o pruned
  headscope analyze ./my-model -c corpus.txt --with pruning --removal constant -o report.json
  headscope prune ./my-model --report report.json --budget 1% -o pruned

The folder has every file of the model, and its weights as safetensors of the same names and shapes, so it loads wherever the \
model does. Zero are the weights through which a head writes; with `--removal constant` the bias after them holds what replaces the \
head, in float32. Nothing is trained again, and nothing becomes smaller or faster.
";

/// Write a model without some of its heads
///
/// Heads are named (--heads), or chosen within a --budget by a report with the study `pruning`. Zeros replace the heads, unless
/// the report has another replacement. If the report chooses the heads, its loss holds for the written model.
#[derive(Args)]
#[command(after_help = help_with_statuses(PRUNE_EXAMPLES, RUN_ERRORS), group = ArgGroup::new("chosen").required(true).multiple(true))]
pub struct PruneArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary
    model: String,
    #[command(flatten)]
    network: NetworkArguments,
    /// Heads to remove; several are separated by commas
    #[arg(long, value_name = "L0H3", value_delimiter = ',', group = "chosen", conflicts_with = "budget")]
    heads: Vec<HeadPlace>,
    /// JSON report on this model with the study `pruning`. It sets the replacement and, unless --heads is given, the heads
    #[arg(long, value_name = "FILE", group = "chosen", required_unless_present = "heads")]
    report: Option<PathBuf>,
    /// Largest rise of the report's loss, or fall of its accuracy
    #[arg(long, value_name = "PERCENT", value_parser = parse_percentage, requires = "report", required_unless_present = "heads")]
    budget: Option<f64>,
    /// Measure to which --budget is relative
    #[arg(long, value_name = "WHAT", value_parser = named_value_parser(SHARE_MEASURES), default_value = "loss", requires = "budget")]
    of: ShareOf,
    /// Removal order of the report: effect, gradient, task or random:SEED [default: the report's first]
    #[arg(long, value_name = "ORDER", requires = "budget")]
    by: Option<String>,
    /// The folder to write: a new one, or one that is empty
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

const SHARE_MEASURES: &[NamedValue<ShareOf>] = &[
    (ShareOf::Loss, "loss", "The loss with all heads"),
    (ShareOf::AllHeads, "all-heads", "The loss without any head less that with all"),
    (ShareOf::Right, "right", "The share of the task that is right, which may fall by so much of itself"),
];

impl PruneArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let Self { model, network, heads, report, budget, of, by, output } = self;
        let budget = PruningBudget { max_cost: budget.unwrap_or_default(), measure: of, order: by };
        let model = network.model(Some(&model))?;
        let heads = (!heads.is_empty()).then(|| heads.into_iter().collect());
        let report = report.map(|path| (path, budget));
        Ok(Command::new(move || prune(&model, heads.as_ref(), report.as_ref(), &output)))
    }
}
