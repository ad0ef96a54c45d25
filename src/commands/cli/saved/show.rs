//! The arguments of `headscope show`, `headscope cite`, and `headscope relabel`, which `show --policy` and `export --policy` stand for now.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{ArgGroup, Args};

use crate::commands::cli::shared::presets::PolicyArguments;
use crate::commands::cli::shared::report::{DETAILS, targets};
use crate::commands::cli::shared::{Command, DONE, READING, Usage, help, numbers, one_of, refuse_overlap, statuses};
use crate::commands::saved::cite::cite;
use crate::commands::saved::show::{RelabelOptions, ShowOptions, ShownPart, relabel, show};
use crate::export::summary::Detail;
use crate::model::grid::HeadPlace;

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
#[command(after_help = help(EXAMPLES, READING), group = ArgGroup::new("part"))]
pub struct ShowArguments {
    /// A report in JSON; `-` reads standard input
    report: PathBuf,
    /// This head: a sentence, and its labels with their evidence
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
    /// So many of them
    #[arg(long, value_name = "N", default_value_t = 10, requires = "relation", value_parser = numbers::from::<u16>(1))]
    top: u16,
    /// The heads that have this label (`rare-words`), one of this family (`syntactic`, `sink`), or one that the grid shows so (`rare`)
    #[arg(long, value_name = "LABEL", group = "part")]
    label: Option<String>,
    #[command(flatten)]
    policy: PolicyArguments,
    /// How much the summary says
    #[arg(long, value_parser = one_of(DETAILS), default_value = "brief", conflicts_with = "part")]
    summary: Detail,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl ShowArguments {
    pub fn command(self) -> Result<Command, Usage> {
        let Self { report, head, all, heads, relation, top, label, policy, summary, json } = self;
        let policy = policy.options()?;
        let shown = match (head, relation, label) {
            (Some(place), ..) => ShownPart::Head(place, if all { Detail::Full } else { Detail::Brief }),
            (_, Some(name), _) => ShownPart::Relation { name, top: top.into() },
            (.., Some(label)) => ShownPart::Label(label),
            (None, None, None) if heads => ShownPart::Heads,
            (None, None, None) if policy.is_some() && !json => ShownPart::Changes,
            (None, None, None) => ShownPart::Summary(summary),
        };
        let options = ShowOptions { report, policy, shown, json };
        Ok(Command::new(move || show(&options)))
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
#[command(after_help = help(RELABEL_EXAMPLES, READING))]
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
    pub fn command(self) -> Result<Command, Usage> {
        refuse_overlap(&self.outputs, &[])?;
        let policy = self.policy.options()?.ok_or_else(|| anyhow!("there is no policy: give --policy or --preset"))?;
        let options = RelabelOptions { report: self.report, policy, outputs: targets(&self.outputs, self.compact)? };
        Ok(Command::new(move || relabel(&options)))
    }
}

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
    pub fn command(self) -> Command {
        Command::new(move || cite(self.report.as_deref(), self.bibtex))
    }
}
