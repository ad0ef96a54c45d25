//! Sums of the loss or the output shift by block: in the run with all attention heads, and in runs that each remove a
//! set of heads.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::model::parameters::Objective;
use crate::passes::ablation::PassConditions;
use crate::passes::observer::requests::{HeadSet, head_set_at, single_head_sets_and_all};
use crate::passes::observer::{Demands, Event, FurtherRuns, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::derived::task::TaskKind;
use crate::sequences::fold::words::FromToken;
use crate::sequences::reading::Context;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, Merge, PerBlock, block_of};
use crate::study::metrics::by_block::MetricByBlock;
use crate::study::metrics::metric::{Column, Fraction};
use crate::study::show::wording::counted_sequences;
use crate::study::{Estimates, EstimationContext, Ranking};
use crate::system::counts::format_count;

/// The head sets that a study removes from the model, one set for each ablation variant.
pub trait Removals: Clone + Debug + PartialEq + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// The head sets to remove, one for each ablation variant.
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet>;

    /// Whether all head sets are valid for a model's grid of heads. Sums read from a file are untrusted.
    fn fits_grid(&self, grid: HeadGrid) -> bool;
}

/// Removes each attention head alone, layer by layer, and finally all heads together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SingleHeadsAndAll;

impl Removals for SingleHeadsAndAll {
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        single_head_sets_and_all(grid)
    }

    fn fits_grid(&self, _: HeadGrid) -> bool {
        true
    }
}

/// A quantity that is summed in a jackknife block, in the run with all heads and in each ablation variant.
pub trait RemovalQuantity: Clone + Merge + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// The state of a sequence while its runs are observed.
    type State: Send + Sync;

    /// Activations from which the sums are computed; by default the logits.
    fn needs(_: &PassConditions) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    /// Creates empty sums for the run with all heads and for this many ablation variants.
    fn new(variants: usize) -> Self;

    /// Counts a sequence, and returns the state for its runs. `None` if the sequence has nothing to measure.
    fn begin(&mut self, sequence: &Sequence, variants: usize) -> Option<Self::State>;

    /// Adds the logits at a position, in the run with all heads (`None`) or in an ablation variant.
    fn add_logits(&mut self, _state: &Self::State, _variant: Option<usize>, _position: usize, _logits: &[f32]) {}

    /// Adds the hidden states of the last layer, in the run with all heads (`None`) or in an ablation variant.
    fn add_hidden_states(&mut self, _state: &mut Self::State, _variant: Option<usize>, _states: Rows<'_>) {}

    /// Whether the sums have this number of ablation variants. Sums read from a file are untrusted.
    fn has_variants(&self, variants: usize) -> bool;
}

/// Change of a quantity in an ablation variant, summed over tokens and with the number of tokens.
pub trait PerTokenChange {
    /// Number of tokens over which the change is summed.
    fn tokens(&self) -> u64;

    /// Rise of the loss, or shift of the output, from the run with all heads to an ablation variant, summed over
    /// tokens.
    fn change(&self, variant: usize) -> f64;
}

/// A loss that ablation variants change: of predicted tokens, or of a task's items.
pub trait LossQuantity: RemovalQuantity + PerTokenChange {
    /// Number of sampling units: sentences with a scored token, or groups of dependent task items.
    fn sampling_units(&self) -> u64;

    /// Loss summed over tokens or items, with all heads (`None`) or in an ablation variant. In nats, or cosines for triples.
    fn total_loss(&self, variant: Option<usize>) -> f64;

    /// Number of correct predictions of task items, with all heads (`None`) or in an ablation variant; 0 for losses of tokens.
    fn correct_count(&self, _variant: Option<usize>) -> f64 {
        0.0
    }

    /// Number of predictions of task items; 0 for losses of tokens.
    fn prediction_count(&self) -> f64 {
        0.0
    }
}

/// Writes for the summary how many tokens in how many sentences were scored, or how many task items in how many
/// sampling units.
pub fn scored_counts_text(
    [count, units]: [u64; 2],
    objective: Option<Objective>,
    task: Option<TaskKind>,
    read: Context,
) -> String {
    if task.is_some() {
        return format!("{} of {} of the task", format_count(count, "item"), format_count(units, "unit"));
    }
    let objective = objective.unwrap_or(Objective::MaskedTokens);
    format!("{count} {} of {}", objective.loss_unit(), counted_sequences(units, read))
}

/// Sums of a quantity over sequences with all heads and in each ablation variant, by jackknife block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovalSums<R, Q> {
    /// The choice of head sets that are removed.
    pub removals: R,
    grid: HeadGrid,
    /// Head set that each ablation variant removes, `[variants]`.
    variants: Vec<HeadSet>,
    pub conditions: PassConditions,
    /// Indices of the heads that are removed one at a time (`layer * heads + head`); `None` if every head is
    /// removed alone.
    chosen: Option<Vec<usize>>,
    /// Constant that replaces each removed head's context, `[layers * heads, head_dim]`; `None` for other kinds of
    /// ablation.
    pub constants: Option<Vec<Vec<f32>>>,
    pub blocks: Blocks<Q>,
}

impl<R: Removals, Q: RemovalQuantity> RemovalSums<R, Q> {
    pub fn new(grid: HeadGrid, removals: R) -> Self {
        let variants = removals.variants(grid);
        let blocks = Blocks::new(Q::new(variants.len()));
        Self { removals, grid, variants, conditions: PassConditions::default(), chosen: None, constants: None, blocks }
    }

    pub fn head_count(&self) -> usize {
        self.grid.head_count()
    }

    /// Whether the head with index `place` is removed alone in one of the variants.
    pub fn has_single_removal(&self, place: usize) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.contains(&place))
    }

    /// Applies `value` to the sums of each jackknife block.
    pub fn per_block(&self, value: impl Fn(&Q) -> f64) -> PerBlock {
        self.blocks.map_blocks(value)
    }

    /// Index of the variant that removes exactly the heads with these indices. Panics if no variant does.
    pub fn variant_removing(&self, places: &[usize]) -> usize {
        let heads = head_set_at(self.grid, places);
        self.variants.iter().position(|removed| *removed == heads).expect("a variant of these sums")
    }
}

impl<Q: RemovalQuantity> RemovalSums<SingleHeadsAndAll, Q> {
    /// Estimates the metrics `columns`; `values` returns their ratios from the sums of a block. If every head was removed
    /// alone, also stores the block sums of `effect`, as the metric `metric`.
    pub fn estimate_metrics(
        &self,
        columns: &[Column],
        context: &EstimationContext,
        values: impl Fn(&Q, Option<usize>) -> Vec<Fraction> + Sync,
        metric: &'static str,
        effect: fn(&Q, Option<usize>) -> Fraction,
    ) -> Estimates {
        let estimates = Estimates::from_blocks(columns, context, &self.blocks, |block, head| {
            let cells = values(block, head);
            let is_known = head.is_none_or(|head| self.has_single_removal(head));
            if is_known { cells } else { cells.iter().map(Fraction::without_numerator).collect() }
        });
        if !(0..self.head_count()).all(|place| self.has_single_removal(place)) {
            return estimates;
        }
        let numerator = |head, block: usize| effect(&self.blocks[block], Some(head)).numerator();
        let denominator = |block: usize| effect(&self.blocks[block], None).denominator();
        estimates.with_block_sums(metric, MetricByBlock::new(self.head_count(), numerator, denominator))
    }

    /// Ranks heads by rising effect, estimated on the even-numbered blocks; `by` is the name of the ranking. Empty
    /// unless every head was removed alone.
    pub fn rank_by_effect(&self, by: &str, effect: fn(&Q, Option<usize>) -> Fraction) -> Vec<Ranking> {
        let even = &self.blocks.folds()[0];
        let of_head = |head| effect(even, Some(head)).value().filter(|_| self.has_single_removal(head));
        let scores: Option<Vec<f64>> = (0..self.head_count()).map(of_head).collect();
        scores.map(|scores| Ranking::from_scores(by, &scores)).into_iter().collect()
    }
}

/// State of a sequence during its run with all heads and its runs in ablation variants.
#[derive(Debug)]
pub struct RemovalState<S> {
    /// Jackknife block of the sequence.
    block: usize,
    /// Index of the ablation variant that is running; `None` in the baseline run with all heads.
    variant: Option<usize>,
    quantity_state: S,
}

impl<R: Removals, Q: RemovalQuantity> Merge for RemovalSums<R, Q> {
    fn merge(&mut self, other: &Self) {
        let same = (self.grid, &self.removals) == (other.grid, &other.removals);
        assert!(same, "sums of one analysis");
        self.conditions.merge(&other.conditions);
        self.chosen.merge(&other.chosen);
        self.constants.merge(&other.constants);
        self.blocks.merge(&other.blocks);
    }
}

impl<R: Removals, Q: RemovalQuantity> Sums for RemovalSums<R, Q> {
    type SequenceState = RemovalState<Q::State>;

    fn demands(&self) -> Demands {
        Demands {
            needs: Q::needs(&self.conditions),
            further_runs: FurtherRuns::Ablations(self.variants.clone()),
            ..Demands::default()
        }
    }

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.conditions = setup.conditions;
        self.chosen.clone_from(&setup.chosen_heads);
        self.constants.clone_from(&setup.head_constants);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let block = block_of(sequence.family.number);
        let quantity_state = self.blocks[block].begin(sequence, self.variants.len())?;
        (!self.variants.is_empty()).then_some(RemovalState { block, variant: None, quantity_state })
    }

    fn observe(&mut self, state: &mut Self::SequenceState, event: &mut Event<'_>) {
        let RemovalState { block, variant, quantity_state } = state;
        let sums = &mut self.blocks[*block];
        match event {
            Event::AblationVariant(place) => *variant = Some(*place),
            Event::HiddenStates { layer, states } if *layer == self.grid.layers => {
                sums.add_hidden_states(quantity_state, *variant, *states);
            }
            Event::Logits { position, logits } => sums.add_logits(quantity_state, *variant, *position, logits),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid
            && self.removals.fits_grid(grid)
            && self.variants == self.removals.variants(grid)
            && self.constants.iter().all(|all| has_constant_per_head(all, grid))
            && self.blocks.is_valid(|sums| sums.has_variants(self.variants.len()))
    }
}

/// Whether there is a constant for every head of `grid`, all finite and of one length.
fn has_constant_per_head(constants: &[Vec<f32>], grid: HeadGrid) -> bool {
    let is_vector = |vector: &Vec<f32>| vector.len() == constants[0].len() && vector.iter().all(|one| one.is_finite());
    constants.len() == grid.head_count() && constants.iter().all(is_vector)
}
