//! The arguments of `headscope diff`.

use std::str::FromStr;

use clap::Args;

use anyhow::anyhow;

use super::sides::{OutcomeArguments, SidesArguments};
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::numbers;
use crate::commands::cli::shared::statuses::statuses;
use crate::commands::cli::shared::values::{Named, one_of};
use crate::commands::saved::diff::{DiffOptions, diff};
use crate::study::metrics::number::Part;
use crate::study::metrics::unit::{PerUnit, SAME_MODEL, Unit};
use crate::system::errors::{Class, Facts};

/// The statuses of `diff` that mean something else.
const CHANGED: &str = "0 nothing changed, 1 something did, 2 wrong usage or trouble";

const EXAMPLES: &str = "\
Examples:
  headscope diff before.json after.json
  headscope diff before.json after.json --only labels --json
  headscope analyze ./before -c treebank.conllu -o before.json --partial before.headscope
  headscope analyze ./after -c treebank.conllu -o after.json --partial after.headscope
  headscope diff before.headscope after.headscope    # the same sentences, pairwise: sees the most

Every metric of every head is tested, but for those that are made of rates of the corpus as well, and its accuracy on every relation with enough words, as one family corrected by \
Benjamini & Hochberg: if nothing changed, something is said to have in at most RATE of all comparisons. A label changes \
where it is firm on one side and out of reach on the other, over the whole of both intervals, and the number that it rests \
on differs. What the two do not share (model, corpus, settings, versions), and what could not be tested, is said and is no \
change. Models must have the same layers and heads.
";

/// Say what changed between two analyses, beyond chance
///
/// Takes reports, and partials of `headscope analyze --partial` or `--shard`. Partials of the same shard of the same files are compared
/// pairwise, sentence block by sentence block; anything else by the intervals of both.
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n{}", statuses(CHANGED, &[Class::Input, Class::Output])))]
pub struct DiffArguments {
    #[command(flatten)]
    sides: SidesArguments,
    /// The rate of false discoveries: the largest q-value of a change
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = numbers::number)]
    rate: f64,
    #[arg(long = "tolerance", value_name = "UNIT=T", value_delimiter = ',', help = format!(
        "Differences up to T are none: numbers are tested for being farther apart. In shares, nats or tokens; a number alone is for \
         all three. The defaults are about what weights in bfloat16 make, or more [default: shares={},nats={},tokens={}]",
        SAME_MODEL.shares, SAME_MODEL.nats, SAME_MODEL.tokens
    ))]
    tolerances: Vec<ToleranceArgument>,
    /// Tell of these parts alone, which then decide the exit status; the correction is for all numbers still
    #[arg(long, value_name = "PART", value_parser = one_of(PARTS), value_delimiter = ',')]
    only: Vec<Part>,
    #[command(flatten)]
    outcome: OutcomeArguments,
}

/// A tolerance as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ToleranceArgument {
    /// Its unit; without one it is for all.
    unit: Option<Unit>,
    value: f64,
}

impl FromStr for ToleranceArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (unit, value) = text.split_once('=').map_or((None, text), |(unit, value)| (Some(unit), value));
        let units = [("shares", Unit::Shares), ("nats", Unit::Nats), ("tokens", Unit::Tokens)];
        let named = |name: &str| {
            let known = units.iter().find(|(known, _)| *known == name);
            known.map(|(_, unit)| *unit).ok_or_else(|| "shares=T, nats=T, tokens=T or T is expected".to_owned())
        };
        let value = value.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        let value = value.ok_or_else(|| "a number of 0 or more is expected".to_owned())?;
        Ok(Self { unit: unit.map(named).transpose()?, value })
    }
}

/// The tolerances after those that were written, the last of which counts.
fn given(written: &[ToleranceArgument]) -> PerUnit<f64> {
    written.iter().fold(SAME_MODEL, |mut tolerances, ToleranceArgument { unit, value }| {
        match unit {
            Some(unit) => *tolerances.of_mut(*unit) = *value,
            None => tolerances = PerUnit::all(*value),
        }
        tolerances
    })
}

/// The parts of an analysis.
const PARTS: &[Named<Part>] = &[
    (Part::Labels, "labels", "Labels of heads"),
    (Part::Relations, "relations", "Accuracies on relations"),
    (Part::Metrics, "metrics", "Metrics of heads"),
];

impl DiffArguments {
    /// The command: its status says whether analyses differ, as that of diff(1) does: 0 same, 1 different, more for trouble.
    pub fn command(self) -> Result<Command, Usage> {
        let Self { sides, rate, tolerances, only, outcome } = self;
        let outputs = outcome.outputs("what changed", &["json", "json.gz", "html"])?;
        if !(rate > 0.0 && rate < 1.0) {
            return Err(anyhow!("--rate {rate} is no rate of false discoveries")
                .of_value(rate)
                .hint("give a number between 0 and 1"));
        }
        let options = DiffOptions { sides: sides.named()?, rate, tolerances: given(&tolerances), only, outputs };
        Ok(Command { run: Box::new(move || diff(&options).map(|same| u8::from(!same))), other: Class::Usage })
    }
}
