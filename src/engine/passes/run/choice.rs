//! The choice of the heads to ablate one by one if not all are: by the sensitivity of the loss to each, to first order.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::model::forward::gradient::GateGradient;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::Choice;
use crate::passes::observer::{Demands, Event, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;

/// The seed of the random choice.
const SEED: u64 = 0;

impl Choice {
    /// The indices of the chosen heads, ascending, by the sensitivity of the loss to each, `[heads]`: those at either
    /// end, and some of the others at random. All heads if the choice is of as many.
    pub fn of(self, sensitivities: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..sensitivities.len()).collect();
        order.sort_by(|&a, &b| sensitivities[b].total_cmp(&sensitivities[a]));
        let top = self.top.min(order.len());
        let bottom = self.bottom.min(order.len() - top);
        let (first, rest) = order.split_at(top);
        let (others, last) = rest.split_at(rest.len() - bottom);
        let mut others = others.to_vec();
        others.sort_unstable();
        others.shuffle(&mut ChaCha8Rng::seed_from_u64(SEED));
        let random = others.iter().take(self.random);
        first.iter().chain(last).chain(random).copied().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The sensitivity of the loss to each head: `|d(mean loss of the sequence)/dξ|`, `ξ` being the head's gate, summed over
/// sequences (Michel et al. 2019, section 4.1). Heads are chosen by that of the blocks of even number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    grid: HeadGrid,
    sums: Vec<ExactSum>,
}

impl Sensitivity {
    /// Empty sums for a model with `grid` heads.
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, sums: vec![ExactSum::default(); grid.count()] }
    }

    /// The sum of each head, `[heads]`.
    pub fn values(&self) -> Vec<f64> {
        self.sums.iter().map(|sum| sum.value()).collect()
    }
}

merge_fields!(Sensitivity[grid] { sums });

impl Sums for Sensitivity {
    /// Masked tokens that are scored.
    type SequenceState = usize;

    fn demands(&self) -> Demands {
        Demands::of(Needs::default())
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<usize> {
        Some(sequence.targets().count()).filter(|&tokens| tokens > 0)
    }

    fn observe(&mut self, state: &mut usize, event: &mut Event<'_>) {
        if let Event::Gradient(gradient) = event {
            self.gradient(state, gradient);
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.sums.len() == grid.count()
    }
}

impl Sensitivity {
    fn gradient(&mut self, tokens: &mut usize, gradient: &GateGradient) {
        let derivatives = self.sums.iter_mut().zip(&gradient.gates);
        derivatives.for_each(|(sum, derivative)| *sum += derivative.abs() / *tokens as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::sequence::PredictedToken;
    use crate::sequences::test_support::sentence;
    use crate::stats::blocks::Merge;

    #[test]
    fn heads_of_either_end_and_some_others_are_chosen() {
        let sensitivities = [0.5, 0.1, 0.9, 0.0, 0.7, 0.3];
        let choice = |top, bottom, random| Choice { top, bottom, random }.of(&sensitivities);
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
        let mut sums = Sensitivity::new(HeadGrid { layers: 1, heads: 2 });
        let token = |position| PredictedToken::masked(position, position - 1, Some(1));
        let mut state =
            sums.begin(&Sequence { predictions: vec![token(1), token(2)], ..sentence(0, 2, "dep") }).unwrap();
        sums.gradient(&mut state, &GateGradient { loss: 1.0, gates: vec![-3.0, 0.5] });
        sums.gradient(&mut state, &GateGradient { loss: 1.0, gates: vec![1.0, 0.5] });
        assert_eq!(sums.values(), [2.0, 0.5]);
        let other = sums.clone();
        sums.merge(&other);
        assert_eq!(sums.values(), [4.0, 1.0]);
    }
}
