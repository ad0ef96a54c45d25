//! The mean context of each head, by token class or over all tokens, which replaces a removed head (mean ablation).

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::model::forward::batch::TokenClass;
use crate::model::forward::gates::{Gate, ReplacementVectors};
use crate::model::forward::visitor::Needs;
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::pass::Pass;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;

/// Cache of the mean contexts over each pass, shared by later passes over the same sequences and by all shards.
#[derive(Debug, Default)]
pub struct MeanContexts(Mutex<Vec<(Pass, Vec<Gate>)>>);

impl MeanContexts {
    /// The gates that replace heads by their mean contexts over a pass, `[layers * heads]`; computed on the first call.
    /// Fails if `compute` fails.
    pub fn get_or_compute(&self, pass: &Pass, compute: impl FnOnce() -> Result<Vec<Gate>>) -> Result<Vec<Gate>> {
        let lookup = |all: &[(Pass, Vec<Gate>)]| all.iter().find(|(of, _)| of == pass).map(|(_, gates)| gates.clone());
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gates) = lookup(&lock()) {
            return Ok(gates);
        }
        let gates = compute()?;
        lock().push((pass.clone(), gates.clone()));
        Ok(gates)
    }
}

/// Sums of the contexts of every head over the tokens of each token class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextSums {
    grid: HeadGrid,
    head_dim: usize,
    /// Number of tokens of each class.
    tokens: [u64; TokenClass::COUNT],
    /// Summed contexts, `[heads, classes, head_dim]`.
    sums: Vec<ExactSum>,
}

impl ContextSums {
    pub fn new(grid: HeadGrid, head_dim: usize) -> Self {
        let sums = vec![ExactSum::default(); grid.head_count() * TokenClass::COUNT * head_dim];
        Self { grid, head_dim, tokens: [0; TokenClass::COUNT], sums }
    }

    /// Mean context of each head for each token class, `[heads]`. The mean over a class without tokens is zero.
    pub fn means(&self) -> Vec<ReplacementVectors> {
        let class_mean = |head: &[ExactSum], class: usize| -> Vec<f32> {
            head[class * self.head_dim..][..self.head_dim].iter().map(|sum| mean(sum, self.tokens[class])).collect()
        };
        let heads = self.sums.chunks_exact(TokenClass::COUNT * self.head_dim);
        heads.map(|head| std::array::from_fn(|class| class_mean(head, class))).collect()
    }

    /// Mean context of each head over all tokens, `[heads]`. Layers with equal `stems` (the beginnings of the names of
    /// their weights) share weights, and so have one mean.
    pub fn overall_means(&self, stems: &[String]) -> Vec<ReplacementVectors> {
        let heads: Vec<&[ExactSum]> = self.sums.chunks_exact(TokenClass::COUNT * self.head_dim).collect();
        let constant = |place: HeadPlace| -> ReplacementVectors {
            let sharing = (0..stems.len()).filter(|&layer| stems[layer] == stems[place.layer]);
            let (mut sums, mut tokens) = (vec![ExactSum::default(); self.head_dim], 0);
            for layer in sharing {
                let all_classes = heads[self.grid.index(layer, place.head)].chunks_exact(self.head_dim);
                all_classes.for_each(|class| sums.iter_mut().zip(class).for_each(|(sum, more)| *sum += *more));
                tokens += self.tokens.iter().sum::<u64>();
            }
            let mean: Vec<f32> = sums.iter().map(|sum| mean(sum, tokens)).collect();
            std::array::from_fn(|_| mean.clone())
        };
        self.grid.head_places().map(constant).collect()
    }
}

/// Mean of a sum over `tokens` tokens; 0 without tokens.
#[expect(clippy::cast_possible_truncation, reason = "a mean of f32 is in their range")]
fn mean(sum: &ExactSum, tokens: u64) -> f32 {
    (sum.value() / tokens.max(1) as f64) as f32
}

merge_fields!(ContextSums[grid, head_dim] { tokens, sums });

impl Sums for ContextSums {
    type SequenceState = Vec<TokenClass>;

    fn demands(&self) -> Demands {
        Demands::from_needs(Needs { contexts: true, ..Needs::default() })
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let classes = sequence.token_classes();
        classes.iter().for_each(|&class| self.tokens[class as usize] += 1);
        Some(classes)
    }

    fn observe(&mut self, classes: &mut Self::SequenceState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let contexts = input.view.context.expect("contexts are needed");
        let head = self.grid.index(input.view.layer, input.view.head) * TokenClass::COUNT;
        for (&class, context) in classes.iter().zip(contexts.iter()) {
            let sums = &mut self.sums[(head + class as usize) * self.head_dim..][..self.head_dim];
            sums.iter_mut().zip(context).for_each(|(sum, &value)| *sum += f64::from(value));
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.sums.len() == grid.head_count() * TokenClass::COUNT * self.head_dim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::attention::AttentionView;
    use crate::model::forward::rows::Rows;
    use crate::model::forward::visitor::HeadView;
    use crate::passes::observer::FoldBuffers;
    use crate::sequences::sequence::PredictedToken;
    use crate::sequences::test_support::sentence;
    use crate::stats::blocks::Merge;

    #[test]
    fn means_are_of_the_tokens_of_a_class() {
        let grid = HeadGrid { layers: 1, heads: 1 };
        let predictions = vec![PredictedToken::masked(2, 1, None)];
        // First special, text, mask, text, separator.
        let sequence = Sequence { predictions, ..sentence(0, 3, "dep") };
        let show = |sums: &mut ContextSums, contexts: &[f32]| {
            let attention = AttentionView::new(0, 0, 5, &[0.2; 25]);
            let view = HeadView { context: Some(Rows::new(contexts, 2)), ..HeadView::from(attention) };
            let mut state = sums.begin(&sequence).unwrap();
            sums.observe(&mut state, &mut Event::Head(FoldBuffers::default().head_input(&sequence, view)));
        };
        let contexts = [1.0, 2.0, 4.0, 0.0, 8.0, 8.0, 5.0, 1.0, 7.0, 7.0];
        let (mut sums, mut more) = (ContextSums::new(grid, 2), ContextSums::new(grid, 2));
        show(&mut sums, &contexts);
        show(&mut more, &[3.0; 10]);
        sums.merge(&more);
        let [first, other, mask, text, _] = &sums.means()[0];
        assert_eq!([first, other, mask, text], [&[2.0, 2.5], &[5.0, 5.0], &[5.5, 5.5], &[3.75, 1.75]]);
        // Ten tokens: (1, 2) + (4, 0) + (8, 8) + (5, 1) + (7, 7), and five times (3, 3).
        assert_eq!(sums.overall_means(&["layer".to_owned()])[0], [(); TokenClass::COUNT].map(|()| vec![4.0, 3.3]));
        assert_eq!(ContextSums::new(grid, 2).means()[0][0], [0.0, 0.0]);
        // Two tokens of the first class in each of two layers, which share their weights or do not.
        let mut two = ContextSums::new(HeadGrid { layers: 2, heads: 1 }, 2);
        two.tokens = [2, 0, 0, 0, 0];
        for (place, sum) in [(0, 2.0), (1, 4.0), (10, 6.0)] {
            two.sums[place] += sum;
        }
        let constants = |stems: [&str; 2]| two.overall_means(&stems.map(str::to_owned)).concat();
        assert_eq!(constants(["a", "b"])[..2], [[1.0, 2.0]; 2]);
        assert_eq!(constants(["a", "b"])[TokenClass::COUNT..][..2], [[3.0, 0.0]; 2]);
        assert_eq!(constants(["a", "a"]), [[2.0, 1.0]; 2 * TokenClass::COUNT]);
        assert!(
            sums.fits(grid, FromToken::Mean, &LayerClasses::default())
                && !sums.fits(HeadGrid { layers: 2, heads: 1 }, FromToken::Mean, &LayerClasses::default())
        );
    }
}
