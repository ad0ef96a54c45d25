//! First-order effect of each head: derivatives of a loss with respect to the heads' gates (docs/methodology/gradient.md).

mod section;
mod sums;

use std::borrow::Cow;

use crate::passes::pass::{CorpusPortion, CorruptedVariants, EventKind, Pass, Sequences};
use crate::sequences::derived::task::TaskKind;
use crate::study::metrics::by_block::MetricByBlock;
use crate::study::metrics::metric;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, Labelling, ObservedPasses, PassSpec, Ranking, Study,
    Unit, UpstreamResults, columns,
};
use section::Gradients;
use sums::{GradientSums, METRICS, TaskGradientSums};

pub struct Gradient;

impl Study for Gradient {
    type Section = Gradients;

    const CARD: Card = Card {
        name: "gradient",
        removes_heads: true,
        question: "What does the model lose with the first small part of each head?",
        needs: "as `effect`, but one pass forward and one backward over a sample; with `--gradient-steps N` N more \
            of both; with `--task` on the task, unless its items are triples",
        options: &["gradient-steps"],
        // Triples are excluded: their scores come from hidden states, not from logits.
        task_kinds: &[TaskKind::Classify, TaskKind::Tag, TaskKind::Cloze, TaskKind::Pair],
        metrics: || metric::explanations_with_keys(METRICS),
        unit: |_| Unit::Nats,
        caveats: CAVEATS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = |sequences| Pass {
            sequences,
            portion: CorpusPortion::Sample,
            shown: EventKind::Derivatives,
            ..Pass::PLAIN
        };
        vec![
            PassSpec::new(pass(Sequences::Corrupted(CorruptedVariants::Requested)), |subject| {
                GradientSums::new(subject.grid)
            }),
            PassSpec::new(pass(Sequences::Task), |subject| TaskGradientSums::new(subject.grid)),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums = &gradient_sums(observed);
        let mut estimates =
            Estimates::from_blocks(&columns(self), context, &sums.blocks, metric::table_values(METRICS));
        let total = sums.blocks.total();
        for metric in METRICS.iter().filter(|metric| (metric.value)(&total, None).denominator() != 0.0) {
            let fraction = |block: usize, head: Option<usize>| (metric.value)(&sums.blocks[block], head);
            let by_block = MetricByBlock::new(
                context.grid.head_count(),
                |head, block| fraction(block, Some(head)).numerator(),
                |block| fraction(block, None).denominator(),
            );
            estimates = estimates.with_block_sums(metric.explanation.name, by_block);
        }
        let gradient = Gradients::new(sums, observed.left_out_sentences(), &estimates, context);
        (estimates, gradient)
    }

    fn upstream_results(&self, observed: &ObservedPasses<'_>, _: &Self::Section, _: &Labelling<'_>) -> UpstreamResults {
        let even = &gradient_sums(observed).blocks.folds()[0];
        let of_head = |head| (METRICS[0].value)(even, Some(head)).value();
        let scores: Option<Vec<f64>> = (0..even.sizes.len()).map(of_head).collect();
        let rankings = scores.map(|scores| Ranking::from_scores("gradient", &scores)).into_iter().collect();
        UpstreamResults { rankings, ..UpstreamResults::default() }
    }
}

/// Derivatives summed over tokens, or over the items of a task.
fn gradient_sums<'a>(observed: &ObservedPasses<'a>) -> Cow<'a, GradientSums> {
    let of_task = observed.all_sums::<TaskGradientSums>().next().map(|sums| Cow::Owned(sums.to_gradient_sums()));
    of_task.unwrap_or_else(|| Cow::Borrowed(observed.first_sums()))
}

const CAVEATS: &[Caveat] = &[Caveat {
    id: "gradient-first-step",
    text: "A gradient says what goes with the first small part of a head, not with all of it: where the model is sure it is \
            nearly 0, and of the two measures only the first-order effect has a sign.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<Gradients>(labelling.section).masked_tokens > 0,
}];

#[cfg(test)]
mod tests;
