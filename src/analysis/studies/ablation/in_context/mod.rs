//! How much better a decoder predicts repeated tokens, and how much each head contributes (docs/methodology/repeats.md).

mod section;
mod sums;

use crate::passes::pass::{CorpusPortion, Pass, Sequences};
use crate::sequences::derived::repeats::RepeatVariant;
use crate::studies::ablation::removal::SingleHeadsAndAll;
use crate::study::metrics::metric;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Unit, VerdictRule,
    columns,
};
use section::{Gain, GainEffects};
use sums::{COPYING_METRICS, CopySums, CopyingSums, METRICS, RemovalCopySums, copying_values};

/// Random tokens that occur twice in a sequence; the model predicts each of them from the tokens before it.
const REPEATED_TOKENS: Sequences = Sequences::Repeats(RepeatVariant::Predicted);

pub struct InContext;

impl Study for InContext {
    type Section = Gain;

    const CARD: Card = Card {
        name: "in-context",
        question: "How much better does a decoder predict tokens that it has read before, and which heads copy?",
        needs: "a decoder with the head that predicts the next token; no corpus: 64 sequences of random tokens, once",
        is_for_decoders_only: true,
        is_default_on_decoders: true,
        metrics: || metric::explanations_with_keys(COPYING_METRICS),
        range: |metric| if metric == "copy_logit" { f64::NEG_INFINITY..=f64::INFINITY } else { 0.0..=1.0 },
        is_share_metric: |metric| metric != "copy_logit",
        unit: |metric| if metric == "copy_logit" { Unit::Nats } else { Unit::Shares },
        labels: &[sums::COPIES],
        caveats: CAVEATS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = Pass { sequences: REPEATED_TOKENS, ..Pass::PLAIN };
        vec![
            PassSpec::new(pass.clone(), |subject| CopySums::new(subject.grid)),
            PassSpec::new(pass, |subject| CopyingSums::new(subject.grid)),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let in_context = Gain::new(observed.first_sums());
        let blocks = observed.first_sums::<CopyingSums>().blocks.with_total();
        let of_head = |number: Option<usize>, place: usize| copying_values(blocks.sums(number), Some(place));
        let of_chance = |number: Option<usize>| copying_values(blocks.sums(number), None);
        let columns = columns(self);
        // Each head has its own scored queries.
        let estimates = Estimates::new(&columns, context, of_head, of_chance).with_own_denominators(&columns, of_head);
        (estimates, in_context)
    }
}

pub struct InContextEffect;

impl Study for InContextEffect {
    type Section = GainEffects;

    const CARD: Card = Card {
        name: "in-context-effect",
        removes_heads: true,
        question: "By which heads does a decoder predict better what it has read before?",
        needs: "as `in-context`, once more for every two heads",
        builds_on: &["in-context"],
        is_for_decoders_only: true,
        metrics: || metric::explanations_with_keys(METRICS),
        unit: |_| Unit::Nats,
        caveats: EFFECT_CAVEATS,
        figures: &["in-context-effect"],
        drawn_metrics: &[("in_context_effect", "Loss of copies without it, nats a token more")],
        verdicts: VERDICTS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(
            Pass { sequences: REPEATED_TOKENS, portion: CorpusPortion::Sample, ..Pass::PLAIN },
            |subject| RemovalCopySums::new(subject.grid, SingleHeadsAndAll),
        )]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &RemovalCopySums = observed.first_sums();
        let estimates = Estimates::from_blocks(&columns(self), context, &sums.blocks, metric::table_values(METRICS));
        let in_context_effect = GainEffects::new(sums, &estimates, context);
        (estimates, in_context_effect)
    }
}

const VERDICTS: &[VerdictRule] = &[VerdictRule {
    verdict: "a head has a part in copying",
    statistic: "`in_context_effect` and `copy_effect`, the larger p",
    margin: "0",
    test_family: "all heads where both are above 0",
    min_evidence: "10 sequences",
    printed: "both effects with their intervals, q",
}];

const CAVEATS: &[Caveat] = &[Caveat {
    id: "in-context-random",
    text: "The gain from having read the same tokens is measured on random tokens, where copying is all that helps; on text a \
            decoder has other ways.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<Gain>(labelling.section).tokens > 0,
}];

const EFFECT_CAVEATS: &[Caveat] = &[Caveat {
    id: "in-context-alone",
    text: "Heads are removed from copying one at a time: one without an effect may do what another one does as well.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<GainEffects>(labelling.section).removal.is_some(),
}];

#[cfg(test)]
mod tests;
