//! Derivatives of each sentence's or item's loss with respect to the gates of all heads, summed by block, and their metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::PassConditions;
use crate::passes::observer::{Demands, Event, FurtherRuns, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, HeadMetric};

/// Losses of a block and their derivatives with respect to the heads' gates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Derivatives {
    /// Number of scored tokens.
    pub tokens: u64,
    /// Number of sequences with a scored token; a sentence has one for each masking phase (choice of masked words).
    pub sequences: u64,
    /// Number of sentences with a scored token; each group of dependent sentences counts once.
    pub sentences: u64,
    /// Loss with all gates open, summed over tokens, in nats.
    pub loss: ExactSum,
    /// Absolute derivatives of each sequence's mean loss with respect to the heads' gates, summed over sequences,
    /// `[heads]`.
    pub sizes: Vec<ExactSum>,
    /// Signed derivatives of each sequence's summed loss with respect to the heads' gates, summed over sequences,
    /// `[heads]`.
    pub signed: Vec<ExactSum>,
    /// Number of integration points, summed over sequences; 0 without integrated gradients.
    pub points: u64,
    /// Loss with all gates closed, summed over tokens, in nats; 0 without integrated gradients.
    pub closed_loss: ExactSum,
    /// Derivatives of each sequence's summed loss with respect to the heads' gates, averaged over the integration
    /// points and summed over sequences, `[heads]`.
    pub along_path: Vec<ExactSum>,
}

impl Derivatives {
    fn new(heads: usize) -> Self {
        let zeros = || vec![ExactSum::default(); heads];
        Self { sizes: zeros(), signed: zeros(), along_path: zeros(), ..Self::default() }
    }

    /// Number of tokens whose gradient was integrated: all scored tokens, or 0 without integrated gradients.
    pub fn integrated_tokens(&self) -> u64 {
        if self.points > 0 { self.tokens } else { 0 }
    }
}

merge_fields!(Derivatives { tokens, sequences, sentences, loss, sizes, signed, points, closed_loss, along_path });

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientSums {
    grid: HeadGrid,
    pub conditions: PassConditions,
    pub blocks: Blocks<Derivatives>,
}

impl GradientSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, conditions: PassConditions::default(), blocks: Blocks::new(Derivatives::new(grid.head_count())) }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct GradientState {
    block: usize,
    /// Number of the sequence's scored tokens.
    tokens: usize,
}

merge_fields!(GradientSums[grid] { conditions, blocks });

impl Sums for GradientSums {
    type SequenceState = GradientState;

    fn demands(&self) -> Demands {
        Demands { further_runs: FurtherRuns::PathGradients, ..Demands::default() }
    }

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.conditions = setup.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<GradientState> {
        let state = GradientState { block: block_of(sequence.family.number), tokens: sequence.true_classes().count() };
        if state.tokens == 0 {
            return None;
        }
        let sums = &mut self.blocks[state.block];
        sums.tokens += state.tokens as u64;
        sums.sequences += 1;
        sums.sentences += u64::from(sequence.family.is_first);
        Some(state)
    }

    fn observe(&mut self, state: &mut GradientState, event: &mut Event<'_>) {
        let sums = &mut self.blocks[state.block];
        match event {
            Event::Gradient(gradient) => {
                sums.loss += gradient.loss;
                for ((size, signed), derivative) in sums.sizes.iter_mut().zip(&mut sums.signed).zip(&gradient.gates) {
                    *size += derivative.abs() / state.tokens as f64;
                    *signed += *derivative;
                }
            }
            Event::PathGradient(path) => {
                sums.points += u64::from(path.steps.get());
                sums.closed_loss += path.closed_loss;
                sums.along_path.iter_mut().zip(&path.gates).for_each(|(sum, derivative)| *sum += *derivative);
            }
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let heads = grid.head_count();
        let fits = |block: &Derivatives| {
            [&block.sizes, &block.signed, &block.along_path].into_iter().all(|sums| sums.len() == heads)
        };
        self.grid == grid && self.blocks.is_valid(fits)
    }
}

pub const METRICS: &[HeadMetric<Derivatives>] = &[
    HeadMetric::<Derivatives>::single(|sums, head| {
        let size = head.map_or(0.0, |head| sums.sizes[head].value());
        Fraction::mean(size, sums.sequences, sums.sentences)
    })
    .with_explanation(Explanation {
        name: "gradient_importance",
        measures: "How much the loss of a sentence's masked tokens depends on the head, in either direction.",
        formula: "gradient_importance = mean over sentences s with masks of |d L_s / d xi| at xi = 1, in nats; L_s the mean of \
            -ln p(t) over the masked tokens t of s, the head writing r + xi (z - r)",
        chance: "0: nothing of the head is read; whatever is read has more, for sizes do not cancel out",
        source: "Michel et al. 2019 (arXiv:1905.10650), section 4.1: the sensitivity I_h, there of a task's loss, towards \
            zero, and normalised by layer, which it is not here.",
        caveats: "It has no sign: a head may be in the way of as many sentences as it helps. A head that is missed only \
            as a whole has little: the loss is flat where the model is sure. What the gate goes towards: `settings.ablation`.",
    }),
    HeadMetric::<Derivatives>::single(|sums, head| {
        // Subtracting from 0 avoids a negative zero.
        let fall = head.map_or(0.0, |head| 0.0 - sums.signed[head].value());
        Fraction::mean(fall, sums.tokens, sums.sentences)
    })
    .with_explanation(Explanation {
        name: "first_order_effect",
        measures: "How much the loss of masked tokens would rise without the head, if it went on as it begins.",
        formula: "first_order_effect = - sum over sentences s of d (sum of -ln p(t) over the masked tokens t of s) / d xi at xi = 1 \
            / masked tokens, in nats; the head writing r + xi (z - r)",
        chance: "0: a small part of the head is not missed",
        source: "The first term of the Taylor series of the loss, as Molchanov et al. 2017 (arXiv:1611.06440), section 2.2, remove \
            feature maps by; the sign kept.",
        caveats: "It is right for a small part of the head, and removal takes all of it: where the loss bends, the two differ, \
            also in sign.",
    }),
    HeadMetric::<Derivatives>::single(|sums, head| {
        let fall = head.map_or(0.0, |head| 0.0 - sums.along_path[head].value());
        let tokens = sums.integrated_tokens();
        Fraction::mean(fall, tokens, if tokens > 0 { sums.sentences } else { 0 })
    })
    .with_explanation(Explanation {
        name: "integrated_gradient",
        measures: "How much of the loss of masked tokens goes with the head while all heads come in together.",
        formula: "integrated_gradient = mean over points k of (- sum over sentences s of d (sum of -ln p(t) over the masked tokens t \
            of s) / d xi_h at xi = (k - 1/2) / K of all heads / masked tokens), k = 1 ... K, in nats; head h writing r + xi_h (z - r)",
        chance: "0: nothing of the head is read",
        source: "Sundararajan et al. 2017 (arXiv:1703.01365), section 3, there over pixels and words, here over the heads' gates.",
        caveats: "Measured with `--gradient-steps K`. Over all heads it sums up to the loss without any head less the loss with all of \
            them; what the steps miss of that is in the report. It divides what heads do together by one path of many, and is no \
            effect of removal.",
    }),
];

/// Derivatives of one task item's loss, the negative of its score, with respect to the heads' gates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ItemGradient {
    is_first: bool,
    /// Number of integration points; 0 without integrated gradients.
    points: u64,
    /// Loss of the item with all gates open.
    loss: ExactSum,
    /// Derivative with respect to each head's gate where all gates are open, `[heads]`.
    gates: Vec<ExactSum>,
    /// Loss of the item with all gates closed; 0 without integrated gradients.
    closed_loss: ExactSum,
    /// Derivative with respect to each head's gate, averaged over the integration points, `[heads]`.
    along_path: Vec<ExactSum>,
}

merge_fields!(ItemGradient[is_first, points] { loss, gates, closed_loss, along_path });

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskGradientSums {
    grid: HeadGrid,
    conditions: PassConditions,
    /// Derivatives of the items of each block, by item number.
    blocks: Blocks<BTreeMap<u64, ItemGradient>>,
}

merge_fields!(TaskGradientSums[grid] { conditions, blocks });

impl TaskGradientSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, conditions: PassConditions::default(), blocks: Blocks::new(BTreeMap::new()) }
    }

    /// Converts to [`GradientSums`]: each item counts as one token, each sampling unit as one sentence.
    pub fn to_gradient_sums(&self) -> GradientSums {
        let mut sums = GradientSums::new(self.grid);
        sums.conditions = self.conditions;
        for (block, items) in self.blocks.iter().enumerate() {
            items.values().for_each(|item| item.add_to_derivatives(&mut sums.blocks[block]));
        }
        sums
    }
}

impl ItemGradient {
    fn add_to_derivatives(&self, sums: &mut Derivatives) {
        sums.tokens += 1;
        sums.sequences += 1;
        sums.sentences += u64::from(self.is_first);
        sums.points += self.points;
        sums.loss += self.loss.value();
        sums.closed_loss += self.closed_loss.value();
        for (place, derivative) in self.gates.iter().enumerate() {
            sums.sizes[place] += derivative.value().abs();
            sums.signed[place] += derivative.value();
            sums.along_path[place] += self.along_path[place].value();
        }
    }
}

impl Sums for TaskGradientSums {
    /// Jackknife block of the text's item, index of the item, and whether the item is the first of its sampling unit.
    type SequenceState = (usize, u64, bool);

    fn demands(&self) -> Demands {
        Demands { further_runs: FurtherRuns::PathGradients, ..Demands::default() }
    }

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.conditions = setup.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        Some((block_of(sequence.family.number), sequence.index, sequence.family.is_first))
    }

    fn observe(&mut self, &mut (block, index, is_first): &mut Self::SequenceState, event: &mut Event<'_>) {
        if !matches!(event, Event::Gradient(_) | Event::PathGradient(_)) {
            return;
        }
        let zeros = || vec![ExactSum::default(); self.grid.head_count()];
        let empty = || ItemGradient { is_first, gates: zeros(), along_path: zeros(), ..ItemGradient::default() };
        let item = self.blocks[block].entry(index).or_insert_with(empty);
        match event {
            Event::Gradient(gradient) => {
                item.loss += gradient.loss;
                item.gates.iter_mut().zip(&gradient.gates).for_each(|(sum, derivative)| *sum += *derivative);
            }
            Event::PathGradient(path) => {
                item.points = u64::from(path.steps.get());
                item.closed_loss += path.closed_loss;
                item.along_path.iter_mut().zip(&path.gates).for_each(|(sum, derivative)| *sum += *derivative);
            }
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let fits = |item: &ItemGradient| [item.gates.len(), item.along_path.len()] == [grid.head_count(); 2];
        self.grid == grid && self.blocks.is_valid(|items| items.values().all(fits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::gradient::GateGradient;
    use crate::sequences::test_support::sentence;

    #[test]
    fn the_size_is_of_the_whole_item() {
        let mut sums = TaskGradientSums::new(HeadGrid { layers: 1, heads: 2 });
        // Two texts of an item, whose derivatives cancel for the first head, and an item of one text.
        for (index, gates) in [(0, [-3.0, 0.5]), (0, [3.0, 0.5]), (1, [1.0, -1.0])] {
            let mut state = sums.begin(&sentence(index, 2, "dep")).unwrap();
            let gradient = GateGradient { loss: 1.0, gates: gates.to_vec() };
            sums.observe(&mut state, &mut Event::Gradient(&gradient));
        }
        let total = sums.to_gradient_sums().blocks.total();
        let values = |sums: &[ExactSum]| sums.iter().map(|sum| sum.value()).collect::<Vec<_>>();
        assert_eq!((total.tokens, total.loss.value()), (2, 3.0));
        assert_eq!([values(&total.sizes), values(&total.signed)], [[1.0, 2.0], [1.0, 0.0]]);
    }
}
