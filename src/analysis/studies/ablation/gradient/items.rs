//! The derivatives of the loss of each item of a task: the texts of an item are sequences of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sums::{Derivatives, GradientSums};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::Conditions;
use crate::passes::observer::{Demands, Event, FurtherRuns, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;

/// The derivatives of the loss of an item, which is minus its score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemGradient {
    is_first: bool,
    /// Points of the path on which all heads come in together; 0 where it was not followed.
    points: u64,
    loss: ExactSum,
    /// `[heads]`
    gates: Vec<ExactSum>,
    closed_loss: ExactSum,
    /// `[heads]`
    along_path: Vec<ExactSum>,
}

merge_fields!(ItemGradient[is_first, points] { loss, gates, closed_loss, along_path });

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskGradientSums {
    grid: HeadGrid,
    conditions: Conditions,
    blocks: Blocks<BTreeMap<u64, ItemGradient>>,
}

merge_fields!(TaskGradientSums[grid] { conditions, blocks });

impl TaskGradientSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, conditions: Conditions::default(), blocks: Blocks::new(BTreeMap::new()) }
    }

    /// As sums of tokens and sentences: an item counts as one token and one sentence.
    pub fn by_item(&self) -> GradientSums {
        let mut sums = GradientSums::new(self.grid);
        sums.conditions = self.conditions;
        for (block, items) in self.blocks.iter().enumerate() {
            items.values().for_each(|item| item.add_to(&mut sums.blocks[block]));
        }
        sums
    }
}

impl ItemGradient {
    fn add_to(&self, sums: &mut Derivatives) {
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

/// A text of an item: the block, the number, and whether the item is the first of its unit.
type ItemPlace = (usize, u64, bool);

impl Sums for TaskGradientSums {
    type SequenceState = ItemPlace;

    fn demands(&self) -> Demands {
        Demands { further_runs: FurtherRuns::AlongPath, ..Demands::default() }
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.conditions = known.conditions;
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<ItemPlace> {
        Some((block_of(sequence.family.number), sequence.index, sequence.family.is_first))
    }

    fn observe(&mut self, &mut (block, index, is_first): &mut ItemPlace, event: &mut Event<'_>) {
        if !matches!(event, Event::Gradient(_) | Event::PathGradient(_)) {
            return;
        }
        let none = || vec![ExactSum::default(); self.grid.count()];
        let empty = || ItemGradient {
            is_first,
            points: 0,
            loss: ExactSum::default(),
            gates: none(),
            closed_loss: ExactSum::default(),
            along_path: none(),
        };
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
        let fits = |item: &ItemGradient| [item.gates.len(), item.along_path.len()] == [grid.count(); 2];
        self.grid == grid && self.blocks.fit(|items| items.values().all(fits))
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
        let total = sums.by_item().blocks.total();
        let values = |sums: &[ExactSum]| sums.iter().map(|sum| sum.value()).collect::<Vec<_>>();
        assert_eq!((total.tokens, total.loss.value()), (2, 3.0));
        assert_eq!([values(&total.sizes), values(&total.signed)], [[1.0, 2.0], [1.0, 0.0]]);
    }
}
