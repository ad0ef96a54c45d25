//! The section `in_context` of the report: the losses of both copies, and their difference.

use std::fmt::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{CopyLosses, CopySums};
use crate::stats::block_test::Jackknife;
use crate::stats::interval::Interval;
use crate::study::labels::policy::Policy;
use crate::study::section::{Section, View, stored};
use crate::study::show::summary::Summary;

pub struct InContextSection {
    pub in_context: Gain,
}

#[expect(clippy::struct_field_names, reason = "the keys of the report")]
/// The gain of a decoder from having read the same random tokens before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Sequences of random tokens that come twice; 0 where the vocabulary has too few words or the model too few positions.
    pub sequences: u64,
    /// Scored tokens of each copy: all but its first.
    pub tokens: u64,
    /// The loss of the first copy.
    pub first: NatsPerToken,
    /// The loss of the second copy.
    pub second: NatsPerToken,
    /// The gain, the loss of the first less that of the second; 0 if it makes no difference to have read the tokens before.
    pub gain: NatsPerToken,
}

/// A mean over the tokens of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NatsPerToken {
    /// The mean, nats a token; null where nothing was scored.
    pub mean: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

impl Gain {
    pub fn new(sums: &CopySums) -> Self {
        let total = sums.blocks.total();
        let tokens = sums.per_block(|losses| losses.tokens() as f64);
        let mean = |nats: fn(&CopyLosses) -> f64| NatsPerToken {
            mean: (total.tokens() > 0).then(|| nats(&total) / total.tokens() as f64),
            ci95: Jackknife::new(&sums.per_block(nats), &tokens).interval(),
        };
        Self {
            sequences: total.copies[1].sentences,
            tokens: total.tokens(),
            first: mean(|losses| losses.losses(None)[0]),
            second: mean(|losses| losses.losses(None)[1]),
            gain: mean(|losses| losses.gain(None)),
        }
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let Self { tokens, first, second, gain, .. } = self;
        if *tokens == 0 {
            return writeln!(out, "In-context copying was not measured, for there are no sequences of random tokens.");
        }
        writeln!(
            out,
            "In-context copying, over random tokens that come twice: the loss is {first} nats a token in the first copy and {second} \
             in the second, {gain} less for having read them before. Scored are {tokens} tokens of each copy, each behind the same \
             token in both."
        )
    }
}

/// `10.943 ±0.312`
impl fmt::Display for NatsPerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(mean) = self.mean else { return f.write_str("-") };
        write!(f, "{mean:.3}")?;
        self.ci95.map_or(Ok(()), |ci95| write!(f, " ±{:.3}", ci95.half_width()))
    }
}

stored!(InContextSection { in_context: Gain });

impl Section for InContextSection {
    fn view(&self, _: &Policy) -> View<'_> {
        View::saying(Summary::written(|out| self.in_context.write_summary(out)))
    }
}
