//! The arguments of `headscope compare`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::numbers::NumbersArguments;
use super::sides::{OutcomeArguments, SidesArguments};
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::statuses::statuses;
use crate::commands::cli::shared::values::{Named, one_of};
use crate::commands::saved::compare::{CompareOptions, ComparedTable, FailOn, Pairing, compare};
use crate::commands::saved::numbers::compare_numbers;
use crate::system::errors::{Class, Facts};

/// The statuses of `compare` that mean something else.
const CHANGED: &str = "0 nothing of --fail-on was found, 1 something was (by default: a label was lost or gained, or with \
    --numbers a number changed), 2 wrong usage or trouble";

const EXAMPLES: &str = "\
Examples:
  headscope compare before.json after.json
  headscope compare before.json after.json -o compare.html -o compare.csv --json
  headscope compare before.json after.json -q --fail-on lost      # a gate: status 1 where a label was lost
  headscope compare seed-1.json seed-2.json --match match.json    # heads that `headscope match` has paired
  headscope compare before.headscope after.headscope --numbers    # partials of the same sentences see the most

A label is kept where it is firm in both analyses, and gained or lost where it is firm in one and the test of the other finds \
its score below the threshold (one-sided, 2.5 %). Everything else cannot be told: a label is borderline, its score is below \
the threshold and more sentences might lift it, or there are too few queries.

With --numbers all numbers are one family of tests, corrected by Benjamini & Hochberg: if nothing changed, something is said to \
have in at most RATE of all comparisons. Partials of `headscope analyze --partial` over the same files are compared block by \
block, anything else by the intervals of both.
";

/// Say what changed between two analyses: which labels were kept, gained or lost, or which numbers changed
///
/// Takes reports and partials of two halves of a corpus, two corpora, two checkpoints or two seeds. Models must have the same
/// layers and heads; heads are compared by place unless they were matched.
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n{}", statuses(CHANGED, &[Class::Input, Class::Output])))]
pub struct CompareArguments {
    #[command(flatten)]
    sides: SidesArguments,
    /// One model was trained on from the other, so that heads at one place are one head
    #[arg(long)]
    matched: bool,
    /// Compare each head with its partner in this file, which `headscope match` wrote
    #[arg(long = "match", value_name = "FILE", conflicts_with = "matched")]
    matching: Option<PathBuf>,
    /// End with status 1 where this is found; several, with commas, where any of them is
    #[arg(long, value_name = "FINDING", value_parser = one_of(FINDINGS), value_delimiter = ',', default_value = "any")]
    fail_on: Vec<FailOn>,
    /// Which table a file .csv gets
    #[arg(long, value_parser = one_of(TABLES), default_value = "heads")]
    table: ComparedTable,
    #[command(flatten)]
    outcome: OutcomeArguments,
    #[command(flatten)]
    numbers: NumbersArguments,
}

/// The findings that can end a comparison with status 1.
const FINDINGS: &[Named<FailOn>] = &[
    (FailOn::Any, "any", "A label was lost or gained; with --numbers, a number changed"),
    (FailOn::Lost, "lost", "A label was lost"),
    (FailOn::Gained, "gained", "A label was gained"),
    (
        FailOn::NoLongerFirm,
        "no-longer-firm",
        "A label firm in the first is not firm in the second, whether or not it is shown to be lost",
    ),
    (FailOn::Corpora, "corpora", "The two are over different text, or different amounts of it"),
    (FailOn::Never, "never", "Nothing: the status is 0 unless there is trouble"),
];

/// The tables of a comparison.
const TABLES: &[Named<ComparedTable>] = &[
    (ComparedTable::Heads, "heads", "A row for each head"),
    (ComparedTable::Labels, "labels", "A row for each label of each head, with its evidence"),
    (ComparedTable::Families, "families", "A row for each family of labels, with its agreement"),
];

impl CompareArguments {
    /// The command: its status says whether something was found that is to fail.
    pub fn command(self) -> Result<Command, Usage> {
        let Self { sides, matched, matching, fail_on, table, numbers, outcome } = self;
        if fail_on.len() > 1 && fail_on.contains(&FailOn::Never) {
            return Err(anyhow!("--fail-on never is to fail on nothing, and other findings are named beside it")
                .of_value("never")
                .hint("leave one out"));
        }
        if numbers.are_asked_for {
            if !matches!(*fail_on, [FailOn::Any | FailOn::Never]) {
                return Err(anyhow!("--fail-on names findings about labels, and --numbers compares numbers")
                    .hint("with --numbers it is any or never"));
            }
            let outputs = outcome.outputs("what changed", &["json", "json.gz", "html"])?;
            let options = numbers.options(sides.named()?, outputs)?;
            let fails = fail_on == [FailOn::Any];
            let run = move || compare_numbers(&options).map(|same| u8::from(!same && fails));
            return Ok(Command { run: Box::new(run), other: Class::Usage });
        }
        let outputs = outcome.outputs("a comparison", &["json", "json.gz", "csv", "html"])?;
        let pairing = match matching {
            Some(file) => Pairing::Matched(file),
            None if matched => Pairing::OneLineage,
            None => Pairing::Unknown,
        };
        let options = CompareOptions { sides: sides.named()?, pairing, fail_on, outputs, table };
        Ok(Command { run: Box::new(move || compare(&options).map(|same| u8::from(!same))), other: Class::Usage })
    }
}
