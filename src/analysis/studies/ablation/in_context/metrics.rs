//! The metric of in-context copying.

use super::sums::CopyLosses;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, Keys, Metric};

/// Every cell of the table.
pub fn values(losses: &CopyLosses, head: Option<usize>) -> Vec<Fraction> {
    METRICS.iter().map(|metric| (metric.value)(losses, head)).collect()
}

/// How much of the gain goes away without a head; of `None` nothing.
pub fn effect(losses: &CopyLosses, head: Option<usize>) -> Fraction {
    let lost = head.map_or(0.0, |head| losses.gain(None) - losses.gain(Some(head)));
    Fraction::new(lost, losses.tokens() as f64).over(losses.tokens(), losses.copies[1].sentences)
}

/// How much more the second copy loses without a head; of `None` nothing. A head that only makes the first copy worse to predict
/// takes none of the gain: without it the first copy gets better, and the second stays.
pub fn copy_effect(losses: &CopyLosses, head: Option<usize>) -> Fraction {
    let second = |variant: Option<usize>| losses.losses(variant)[1];
    let lost = head.map_or(0.0, |head| second(Some(head)) - second(None));
    Fraction::new(lost, losses.tokens() as f64).over(losses.tokens(), losses.copies[1].sentences)
}

/// A metric of the losses of a block, or of all blocks, and of the place of a head, `None` for chance.
type CopyMetric = Metric<fn(&CopyLosses, Option<usize>) -> Fraction>;

/// All metrics of in-context copying.
pub const METRICS: &[CopyMetric] = &[
    Metric {
        explanation: Explanation {
            name: "in_context_effect",
            measures: "How much of what a decoder gains from having read the same tokens before goes away without the head.",
            formula: "in_context_effect = (g - g') / tokens of a copy, in nats; g = the sum of -ln p over the tokens of the first copy \
            less that over the second, each behind the same token, with the head, and g' without it",
            chance: "0: the gain does not go by the head",
            source: "The loss early in the context less that late: Olsson et al. 2022 (arXiv:2209.11895), \"in-context learning score\", \
            there on text; on repeated random tokens and head by head, defined here.",
            caveats: "Other heads can compensate, so that a group may matter of which no head does. It depends on what stands for the \
            head (`settings.ablation`).",
        },
        keys: Keys::Single,
        value: effect,
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "copy_effect",
            measures: "How much more the second copy of random tokens loses without the head.",
            formula: "copy_effect = (L2' - L2) / tokens of a copy, in nats; L2 = the sum of -ln p over the tokens of the second copy with \
            the head, and L2' without it",
            chance: "0: the second copy does not go by the head",
            source: "Defined here.",
            caveats: "Tokens of both copies may cost more without a head that says what any text is like: a part in copying needs \
            `in_context_effect` too.",
        },
        keys: Keys::Single,
        value: copy_effect,
        chance: None,
    },
];
