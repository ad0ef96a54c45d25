//! Direct effects of all parts of the residual stream on the logit difference between answer and foil, summed by block.

use serde::{Deserialize, Serialize};

use crate::model::forward::Encoder;
use crate::model::forward::visitor::{FinalNorm, Needs, ResidualPart};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{ScoreRule, Sequence};
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;

/// Logit differences between answer and foil, and direct effects on them, summed over the items of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemEffects {
    pub items: u64,
    /// Number of sampling units; a unit is counted at its first item.
    pub units: u64,
    /// Logit difference between answer and foil that the model outputs, summed over items.
    pub score: ExactSum,
    /// Direct effect of each part of the residual stream, summed over items, in the order of [`part_index`]. The last
    /// entry is the effect of the constants: the biases of the final norm and of the prediction head.
    parts: Vec<ExactSum>,
}

merge_fields!(ItemEffects { items, units, score, parts });

impl ItemEffects {
    /// Direct effect of a part of the residual stream, summed over items.
    pub fn effect_of(&self, part: ResidualPart, grid: HeadGrid) -> f64 {
        self.parts[part_index(part, grid)].value()
    }

    /// Direct effect of the attention head with index `head`, summed over items.
    pub fn effect_of_head(&self, head: usize) -> f64 {
        self.parts[head].value()
    }

    /// Direct effect of the biases of the final norm and of the prediction head, summed over items.
    pub fn effect_of_output_biases(&self) -> f64 {
        self.parts.last().map_or(0.0, |constants| constants.value())
    }

    /// Sum of the direct effects of all parts, over all items.
    pub fn sum_of_effects(&self) -> f64 {
        self.parts.iter().map(|part| part.value()).sum()
    }
}

/// Index of a part of the residual stream. The order is heads, biases, feed-forward blocks, embeddings.
fn part_index(part: ResidualPart, grid: HeadGrid) -> usize {
    let HeadGrid { layers, heads } = grid;
    match part {
        ResidualPart::Head { layer, head } => grid.index(layer, head),
        ResidualPart::Biases { layer } => layers * heads + layer,
        ResidualPart::FeedForward { layer } => layers * (heads + 1) + layer,
        ResidualPart::Embeddings => layers * (heads + 2),
    }
}

/// Length of `ItemEffects::parts`: one entry for each part of the residual stream, and one for the constants (biases of
/// final norm and prediction head).
fn part_count(grid: HeadGrid) -> usize {
    part_index(ResidualPart::Embeddings, grid) + 2
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectSums {
    pub grid: HeadGrid,
    pub blocks: Blocks<ItemEffects>,
    /// Whether direct effects on logits are defined for the model ([`Encoder::has_direct_effects`]).
    #[serde(skip)]
    pub has_direct_effects: bool,
}

merge_fields!(DirectSums[grid] { blocks });

impl DirectSums {
    pub fn new(grid: HeadGrid) -> Self {
        let parts = vec![ExactSum::default(); part_count(grid)];
        let empty = ItemEffects { items: 0, units: 0, score: ExactSum::default(), parts };
        Self { grid, blocks: Blocks::new(empty), has_direct_effects: false }
    }
}

/// Direct effects in the sequence of one item, collected until the scale of the final norm is known.
#[derive(Debug)]
pub struct DirectState {
    block: usize,
    /// Position at which the answer is predicted.
    position: usize,
    answer_and_foil: [u32; 2],
    /// Direct effect of each part of the residual stream, and of the constants, in the order of `ItemEffects::parts`; not yet
    /// divided by the scale of the final norm.
    effects: Vec<f64>,
}

impl Sums for DirectSums {
    type SequenceState = DirectState;

    fn demands(&self) -> Demands {
        Demands::from_needs(Needs {
            direct: self.has_direct_effects,
            logits: self.has_direct_effects,
            ..Needs::default()
        })
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.has_direct_effects = known.encoder.is_some_and(Encoder::has_direct_effects);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<DirectState> {
        let ScoreRule::VersusFoil(foil) = sequence.item.as_ref().filter(|_| self.has_direct_effects)?.rule else {
            return None;
        };
        let (position, answer) = sequence.predicted_positions().zip(sequence.true_classes()).next()?;
        let block = block_of(sequence.family.number);
        self.blocks[block].items += 1;
        self.blocks[block].units += u64::from(sequence.family.is_first);
        let effects = vec![0.0; part_count(self.grid)];
        Some(DirectState { block, position, answer_and_foil: [answer, foil], effects })
    }

    fn observe(&mut self, state: &mut Self::SequenceState, event: &mut Event<'_>) {
        let DirectState { block, position, answer_and_foil, effects } = state;
        let difference = |[answer, foil]: [f32; 2]| f64::from(answer) - f64::from(foil);
        let difference_of = |row: &[f32]| difference([row[0], row[1]]);
        match event {
            Event::DirectEffects { part, effects: rows } => {
                effects[part_index(*part, self.grid)] += difference_of(rows.row(*position));
            }
            Event::FinalNorm(FinalNorm { scales, constants }) => {
                let scale = f64::from(scales[*position]);
                effects.iter_mut().for_each(|effect| *effect /= scale);
                effects[part_count(self.grid) - 1] = difference_of(constants);
                let sums = &mut self.blocks[*block].parts;
                sums.iter_mut().zip(effects).for_each(|(sum, effect)| *sum += *effect);
            }
            Event::Logits { position: at, logits } if at == position => {
                self.blocks[*block].score += difference(answer_and_foil.map(|token| logits[token as usize]));
            }
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.blocks.is_valid(|block| block.parts.len() == part_count(grid))
    }
}
