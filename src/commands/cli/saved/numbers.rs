//! The arguments of `headscope compare` on the comparison of numbers.

use std::str::FromStr;

use anyhow::anyhow;
use clap::Args;

use crate::commands::cli::shared::command::Usage;
use crate::commands::cli::shared::numbers;
use crate::commands::cli::shared::values::{Named, one_of};
use crate::commands::saved::numbers::NumbersOptions;
use crate::commands::saved::sides::SidesOptions;
use crate::commands::saved::sides::outputs::OutcomeOutputs;
use crate::study::metrics::number::Part;
use crate::study::metrics::unit::{PerUnit, SAME_MODEL, Unit};
use crate::system::errors::Facts;

/// Options of `compare --numbers`: the compared numbers, and the test of a change.
#[derive(Args)]
#[command(next_help_heading = "Numbers")]
pub struct NumbersArguments {
    /// Say which numbers changed beyond chance, in the place of labels: every metric of every head, and its accuracy on every
    /// relation with enough words
    #[arg(long = "numbers", conflicts_with_all = ["matched", "matching", "table"])]
    pub are_asked_for: bool,
    /// The rate of false discoveries: the largest q-value of a change
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = numbers::number, requires = "are_asked_for")]
    rate: f64,
    #[arg(long = "tolerance", value_name = "UNIT=T", value_delimiter = ',', requires = "are_asked_for", help = format!(
        "Differences up to T are none: numbers are tested for being farther apart. In shares, nats or tokens; a number alone is for \
         all three. The defaults are about what weights in bfloat16 make, or more [default: shares={},nats={},tokens={}]",
        SAME_MODEL.shares, SAME_MODEL.nats, SAME_MODEL.tokens
    ))]
    tolerances: Vec<ToleranceArgument>,
    /// Tell of these parts alone, which then decide the exit status; the correction is for all numbers still
    #[arg(long, value_name = "PART", value_parser = one_of(PARTS), value_delimiter = ',', requires = "are_asked_for")]
    only: Vec<Part>,
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

impl NumbersArguments {
    /// The options of the comparison.
    /// Fails if the rate is none.
    pub fn options(self, sides: SidesOptions, outputs: OutcomeOutputs) -> Result<NumbersOptions, Usage> {
        let Self { are_asked_for: _, rate, tolerances, only } = self;
        if !(rate > 0.0 && rate < 1.0) {
            return Err(anyhow!("--rate {rate} is no rate of false discoveries")
                .of_value(rate)
                .hint("give a number between 0 and 1"));
        }
        Ok(NumbersOptions { sides, rate, tolerances: given(&tolerances), only, outputs })
    }
}
