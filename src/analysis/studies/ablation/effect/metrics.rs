//! The metrics of removed heads: one table.

use super::sums::{ByGroup, TokenGroup};
use crate::corpus::Upos;
use crate::studies::ablation::removal::PerToken;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, Keys, Metric};

pub fn values(losses: &ByGroup, head: Option<usize>) -> Vec<Fraction> {
    METRICS.iter().flat_map(|metric| metric.keys.places().map(|cell| (metric.value)(losses, head, cell))).collect()
}

/// The loss without a head less that with it, per masked token of a group; nothing for chance.
pub fn effect(losses: &ByGroup, head: Option<usize>, group: &TokenGroup) -> Fraction {
    let Some(losses) = losses.get(group) else { return Fraction::NONE };
    let more = head.map_or(0.0, |head| losses.change(head));
    Fraction::new(more, losses.tokens as f64).over(losses.tokens, losses.sentences)
}

const FORMULA: &str = "loss_effect = (sum of -ln p(t) without the head - sum of -ln p(t) with it) / masked tokens t, in nats; \
    masked are all tokens of word u of sentence s where (u + s) mod 7 = 0, u and s from 0; in a decoder t is every token but \
    the first, predicted from those before it";
const CHANCE: &str = "0: the head is not missed";
const BY_CLASS: Keys = Keys::Each(Upos::ALL.len(), |place| Upos::ALL[place].tag().to_owned());

/// A metric of the losses of a block, or of all blocks, of the place of a head, `None` for chance, and of a key.
type EffectMetric = Metric<fn(&ByGroup, Option<usize>, usize) -> Fraction>;

pub const METRICS: &[EffectMetric] = &[
    Metric {
        explanation: Explanation {
            name: "loss_effect",
            measures: "How much the loss of masked tokens, in a decoder of the next tokens, rises when the head is removed.",
            formula: FORMULA,
            chance: CHANCE,
            source: "Removal of single heads: Michel et al. 2019 (arXiv:1905.10650), section 3, there by zeros and of a task; \
                the mean in its place: `settings.ablation`.",
            caveats: "Importance is no role: it says nothing of where the head looks. Other heads can compensate, so that a group \
                may matter of which no head does. It depends on what stands for the head.",
        },
        keys: Keys::Single,
        value: |losses, head, _| effect(losses, head, &TokenGroup::All),
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "loss_effect_by_class",
            measures: "The same over the tokens of words of one universal part of speech.",
            formula: FORMULA,
            chance: CHANCE,
            source: "As `loss_effect`; UPOS as annotated.",
            caveats: "Null where the corpus has no word classes.",
        },
        keys: BY_CLASS,
        value: |losses, head, cell| effect(losses, head, &TokenGroup::Class(Upos::ALL[cell])),
        chance: None,
    },
];
