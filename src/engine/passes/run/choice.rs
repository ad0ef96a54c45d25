//! Chooses the heads that are ablated one by one, by the first-order sensitivity of the loss to each head.

use std::collections::BTreeMap;

use itertools::Itertools;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::Choice;
use crate::passes::observer::{Demands, Event, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;

impl Choice {
    /// Indices of the chosen heads, ascending: the most sensitive, the least sensitive, and random ones among the others.
    /// `sensitivities`, `[heads]`, has the sensitivity of the loss to each head.
    pub fn choose_heads(self, sensitivities: &[f64]) -> Vec<usize> {
        let descending = |&a: &usize, &b: &usize| sensitivities[b].total_cmp(&sensitivities[a]);
        let order = (0..sensitivities.len()).sorted_by(descending).collect_vec();
        let top = self.top.min(order.len());
        let bottom = self.bottom.min(order.len() - top);
        let (most_sensitive, less_sensitive) = order.split_at(top);
        let (others, least_sensitive) = less_sensitive.split_at(less_sensitive.len() - bottom);
        let mut others = others.iter().copied().sorted_unstable().collect_vec();
        others.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
        let random = others.iter().take(self.random);
        most_sensitive.iter().chain(least_sensitive).chain(random).copied().sorted_unstable().collect()
    }
}

/// The sensitivity of the loss to each head: `|dL/dξ|`, summed over sequences (Michel et al. 2019, section 4.1). `L` is
/// the mean loss of a sequence, and `ξ` the head's gate. For a task, `L` is the loss of an item, which may have several
/// sequences, and the sum is over items. Heads are chosen by the sums over even-numbered blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossSensitivity {
    grid: HeadGrid,
    /// `|dL/dξ|` of each head, summed over the sequences that are no part of an item, `[heads]`.
    sums: Vec<ExactSum>,
    /// Derivative of each item's loss with respect to the gates, `[heads]`, summed over the sequences of the item so
    /// far; keyed by the number of the item.
    items: BTreeMap<u64, Vec<ExactSum>>,
}

impl LossSensitivity {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, sums: vec![ExactSum::default(); grid.head_count()], items: BTreeMap::new() }
    }

    /// The sensitivity of the loss to each head, `[heads]`.
    pub fn values(&self) -> Vec<f64> {
        let item_sum = |head: usize| self.items.values().map(|item| item[head].value().abs()).sum::<f64>();
        self.sums.iter().enumerate().map(|(head, sum)| sum.value() + item_sum(head)).collect()
    }
}

merge_fields!(LossSensitivity[grid] { sums, items });

impl Sums for LossSensitivity {
    /// `(tokens, item)`: the number of scored tokens, and the number of the item if the sequence is part of one.
    type SequenceState = (usize, Option<u64>);

    fn demands(&self) -> Demands {
        Demands::from_needs(Needs::default())
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let state = (sequence.true_classes().count(), sequence.item.as_ref().map(|_| sequence.index));
        Some(state).filter(|&(tokens, _)| tokens > 0)
    }

    fn observe(&mut self, &mut (tokens, item): &mut Self::SequenceState, event: &mut Event<'_>) {
        let Event::Gradient(gradient) = event else { return };
        let Some(item) = item else {
            let derivatives = self.sums.iter_mut().zip(&gradient.gates);
            derivatives.for_each(|(sum, derivative)| *sum += derivative.abs() / tokens as f64);
            return;
        };
        let sums = self.items.entry(item).or_insert_with(|| vec![ExactSum::default(); gradient.gates.len()]);
        sums.iter_mut().zip(&gradient.gates).for_each(|(sum, derivative)| *sum += *derivative);
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        let has_every_head = |sums: &Vec<ExactSum>| sums.len() == grid.head_count();
        self.grid == grid && has_every_head(&self.sums) && self.items.values().all(has_every_head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::gradient::GateGradient;
    use crate::sequences::sequence::PredictedToken;
    use crate::sequences::test_support::sentence;
    use crate::stats::blocks::Merge;

    #[test]
    fn heads_of_either_end_and_some_others_are_chosen() {
        let sensitivities = [0.5, 0.1, 0.9, 0.0, 0.7, 0.3];
        let choice = |top, bottom, random| Choice { top, bottom, random }.choose_heads(&sensitivities);
        assert_eq!(choice(2, 0, 0), [2, 4]);
        assert_eq!(choice(1, 2, 0), [1, 2, 3]);
        assert_eq!(choice(2, 2, 2), [0, 1, 2, 3, 4, 5]);
        assert_eq!(choice(9, 9, 9), [0, 1, 2, 3, 4, 5]);
        let random = choice(0, 0, 3);
        assert_eq!((random.len(), &random), (3, &choice(0, 0, 3)));
        assert_eq!(choice(1, 1, 1).len(), 3);
    }

    #[test]
    fn sensitivities_are_sizes_of_the_mean_loss_of_a_sequence() {
        let mut sums = LossSensitivity::new(HeadGrid { layers: 1, heads: 2 });
        let token = |position| PredictedToken::masked(position, position - 1, Some(1));
        let tokens = vec![token(1), token(2)];
        let mut state = sums.begin(&Sequence { predictions: tokens, ..sentence(0, 2, "dep") }).unwrap();
        for gates in [[-3.0, 0.5], [1.0, 0.5]] {
            let gradient = GateGradient { loss: 1.0, gates: gates.to_vec() };
            sums.observe(&mut state, &mut Event::Gradient(&gradient));
        }
        assert_eq!(sums.values(), [2.0, 0.5]);
        let other = sums.clone();
        sums.merge(&other);
        assert_eq!(sums.values(), [4.0, 1.0]);
    }

    /// Two texts of one item, whose derivatives cancel for the first head, and an item of one text.
    #[test]
    fn sensitivities_of_a_task_are_of_whole_items() {
        let mut sums = LossSensitivity::new(HeadGrid { layers: 1, heads: 2 });
        for (item, gates) in [(4, [-3.0, 0.5]), (4, [3.0, 0.5]), (5, [1.0, -1.0])] {
            let gradient = GateGradient { loss: 1.0, gates: gates.to_vec() };
            sums.observe(&mut (2, Some(item)), &mut Event::Gradient(&gradient));
        }
        assert_eq!(sums.values(), [1.0, 2.0]);
    }
}
