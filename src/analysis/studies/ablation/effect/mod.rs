//! Effect of removing each head on the loss of masked or next tokens (docs/methodology/effect.md).

mod section;
mod sums;

use crate::passes::pass::{CorpusPortion, CorruptedVariants, Pass, Sequences};
use crate::studies::ablation::removal::SingleHeadsAndAll;
use crate::study::metrics::metric;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, Labelling, ObservedPasses, PassSpec, Study, Term, Unit,
    UpstreamResults, VerdictRule, columns,
};
use section::Effects;
use sums::{EffectSums, METRICS, metric_values, overall_effect};

pub struct Effect;

impl Study for Effect {
    type Section = Effects;

    const CARD: Card = Card {
        name: "effect",
        allows_absent_heads: true,
        removes_heads: true,
        question: "What does the model lose without each head?",
        needs: "a model with the head by which it was trained, and any corpus in files, read twice more: a pass over \
            a sample for every two heads",
        metrics: || metric::explanations_with_keys(METRICS),
        unit: |_| Unit::Nats,
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["effects"],
        drawn_metrics: &[("loss_effect", "Loss without it, nats a token more")],
        tables: &["effects", "effects_by_relation"],
        options: &["effect-of"],
        verdicts: VERDICTS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(
            Pass {
                sequences: Sequences::Corrupted(CorruptedVariants::Requested),
                portion: CorpusPortion::Sample,
                ..Pass::PLAIN
            },
            |subject| EffectSums::new(subject.grid, SingleHeadsAndAll),
        )]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &EffectSums = observed.first_sums();
        let estimates = sums.estimate_metrics(&columns(self), context, metric_values, "loss_effect", overall_effect);
        let effect = Effects::new(sums, observed.left_out_sentences(), &estimates, context);
        (estimates, effect)
    }

    fn upstream_results(
        &self,
        observed: &ObservedPasses<'_>,
        section: &Self::Section,
        _labels: &Labelling<'_>,
    ) -> UpstreamResults {
        let sums: &EffectSums = observed.first_sums();
        let (rankings, negligible) = (sums.rank_by_effect("effect", overall_effect), section.negligible_heads());
        UpstreamResults { rankings, negligible, ..UpstreamResults::default() }
    }
}

const VERDICTS: &[VerdictRule] = &[
    VerdictRule {
        verdict: "`helpful`, `harmful`",
        statistic: "`loss_effect`",
        margin: "0, from both sides",
        test_family: "all heads that are removed by themselves",
        min_evidence: MIN_EVIDENCE_TEXT,
        printed: "effect with its interval, q",
    },
    VerdictRule {
        verdict: "`negligible`",
        statistic: "`loss_effect`",
        margin: "both ends of the band, from within: ±1 % of what all heads are worth, or half of an equal share of it",
        test_family: "all heads whose effect is within the band",
        min_evidence: MIN_EVIDENCE_TEXT,
        printed: "the band, q of the effect being within it",
    },
];
const MIN_EVIDENCE_TEXT: &str = "{min_queries} predicted tokens in {min_sentences} sentences";

const CAVEATS: &[Caveat] = &[Caveat {
    id: "effect-no-role",
    text: "An effect says that the model misses a head, not what for; other heads may compensate, so that of several \
            negligible heads not all can go; and it depends on what stands for the head.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<Effects>(labelling.section).masked_tokens > 0,
}];

const TERMS: &[Term] = &[
    Term {
        name: "phase",
        other_names: &["mask", "masks", "phases"],
        meaning: "Words are masked every seventh at a time: word u of sentence s in phase (u + s) mod 7. `--phases 7` masks \
            every word once; by fewer of the 7 masks some words are scored, and others may tell otherwise.",
        page: "effect.md",
    },
    Term {
        name: "helpful",
        other_names: &["harmful", "negligible", "undecided", "not judged", "verdict", "q equivalence"],
        meaning: "What comes of removing a head, of the studies `effect` and `task`: without a helpful one the loss rises, \
            without a harmful one it falls, both beyond chance; of a negligible one the change is surely below a hundredth \
            of what all heads together are worth, and below half of an equal share of it; of an undecided one none of these \
            can be said. In a grid of labels an undecided head (`?`) has no label, and the text rules none out. A helpful or harmful head can be negligible as well. A head that was not removed is not judged. `q \
            equivalence` is of the test that the effect is within the margin of negligible ones.",
        page: "effect.md",
    },
];

#[cfg(test)]
mod tests;
