//! Fits of gates: the sequences of a fold are kept, and run forward and backward until the loss plus the price of open gates is
//! minimal.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::differentiate;
use crate::model::families::architecture::Architecture;
use crate::model::forward::gates::{Gate, Gates};
use crate::model::forward::gradient::Differentiable;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::equivalence_margin;
use crate::passes::gate_fits::{FittedLoss, GateFit, GateFits, starting_gate};
use crate::passes::observer::set::ObserverSet;
use crate::passes::observer::{self, Demands, Event, Sums, new_observer};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::stats::blocks::merge_fields;
use crate::stats::box_minimum::{ValueAndGradient, minimise_in_box};
use crate::stats::exact::ExactSum;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::machine::memory;
use crate::system::progress::run::RunProgress;

/// Maximum number of evaluations in a fit: four times as many as any trained model in fixtures/ takes.
const MAX_EVALUATIONS: usize = 100;

/// Convergence threshold for the objective's derivatives with respect to the gates that can move, as a share of the
/// penalty for one open gate. At the threshold, the objective exceeds its minimum by at most a hundredth of that
/// penalty. Each gate is then within 0.01 of its best value.
const GRADIENT_TOLERANCE: f64 = 0.02;

/// The heads whose gates are fitted.
pub struct GatedHeads<'a> {
    grid: HeadGrid,
    /// Fully open gates of all heads, each with its replacement, and the gates of removed heads.
    open_gates: &'a Gates,
    /// Groups of heads that share one gate because their layers share weights. A head with unshared weights is a group by
    /// itself. Heads are given by their indices, layer by layer.
    groups: Vec<Vec<usize>>,
    /// Number of heads in the model, as the argument of [`equivalence_margin`].
    head_count: usize,
}

impl<'a> GatedHeads<'a> {
    /// Groups the heads of the model by shared weights, without the absent heads and those with the indices `removed`.
    pub fn new(architecture: &Architecture, open_gates: &'a Gates, removed: &[usize]) -> Self {
        let (grid, absent, stems) = (architecture.grid(), &architecture.config.absent, &architecture.names.layers);
        let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (place, at) in grid.head_places().enumerate() {
            if !absent.contains(&at) && !removed.contains(&place) {
                let first = stems.iter().position(|stem| *stem == stems[at.layer]).unwrap_or(at.layer);
                groups.entry((first, at.head)).or_default().push(place);
            }
        }
        Self { grid, open_gates, groups: groups.into_values().collect(), head_count: grid.head_count() - absent.len() }
    }

    pub fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// The gates of all heads. The heads of a group (heads that share weights) have the group's value in `shares`, `[groups]`,
    /// from 0 to 1.
    #[expect(clippy::cast_possible_truncation, reason = "shares are from 0 to 1")]
    fn gates_at_shares(&self, shares: &[f64]) -> Gates {
        let mut gates = self.open_gates.clone();
        for (group, &share) in self.groups.iter().zip(shares) {
            for at in group.iter().map(|&place| self.grid.head_place(place)) {
                let open_gate =
                    self.open_gates.get(at.layer, at.head).cloned().unwrap_or_else(|| Gate::from_factor(1.0));
                gates.set_gate(at.layer, at.head, Gate { keep: share as f32, ..open_gate });
            }
        }
        gates
    }

    /// Copies each group's gate, in `shares`, to all heads of the group, `[layers * heads]`; `None` for a head without
    /// a gate.
    fn gates_by_head(&self, shares: &[f64]) -> Vec<Option<f64>> {
        let mut gates = vec![None; self.grid.head_count()];
        for (group, &share) in self.groups.iter().zip(shares) {
            group.iter().for_each(|&place| gates[place] = Some(share));
        }
        gates
    }
}

/// Fits gates to the sequences of a fold, from each starting point. The objective is the mean loss plus a penalty of one
/// [`equivalence_margin`] per open gate. Fails if a sequence cannot be read, if the sequences do not fit into memory, or if
/// a loss or derivative cannot be computed.
pub fn fit_gates(
    (model, encoder): (&str, &dyn Differentiable),
    heads: &GatedHeads<'_>,
    (fold, starts): (usize, Vec<u64>),
    sequences: impl Iterator<Item = Result<Sequence>>,
    threads: NonZeroUsize,
    progress: &RunProgress,
) -> Result<GateFits> {
    if starts.is_empty() {
        return Ok(GateFits::default());
    }
    let sequences = collect_sequences(sequences)?;
    let units = count_tokens_or_items(&sequences);
    let evaluate = |shares: &[f64]| -> Result<ValueAndGradient> {
        let (grid, gates) = (heads.grid, vec![ExactSum::default(); heads.grid.head_count()]);
        let sums = ObserverSet::new(vec![new_observer(LossSums { grid, loss: ExactSum::default(), gates })]);
        let gates = (&heads.gates_at_shares(shares), &[][..], None);
        let sequences = sequences.iter().cloned().map(Ok);
        let observers = differentiate(sums, (model, encoder), gates, sequences, threads, &RunProgress::default())?;
        let observers = observers.into_observers();
        let LossSums { loss, gates, .. } = observer::expect_sums(&*observers[0]);
        let mean = |sum: f64| sum / units as f64;
        let group_slope = |group: &Vec<usize>| mean(group.iter().map(|&place| gates[place].value()).sum());
        Ok((mean(loss.value()), heads.groups.iter().map(group_slope).collect()))
    };
    if units == 0 {
        return Ok(GateFits { known: Some(FittedLoss { units, ..FittedLoss::default() }), fits: BTreeMap::new() });
    }
    let groups = heads.groups.len();
    let tokens: usize = sequences.iter().map(|sequence| sequence.ids.len()).sum();
    let (loss, loss_without_heads) = (evaluate(&vec![1.0; groups])?.0, evaluate(&vec![0.0; groups])?.0);
    let band = equivalence_margin(loss_without_heads - loss, heads.head_count);
    let losses = Some(FittedLoss { units, loss, loss_without_heads, band });
    let mut fits = BTreeMap::new();
    for &start in starts.iter().filter(|_| band > 0.0) {
        let start_point: Vec<f64> = heads.groups.iter().map(|group| starting_gate(fold, start, group[0])).collect();
        let price = |shares: &[f64]| -> f64 {
            heads.groups.iter().zip(shares).map(|(group, share)| group.len() as f64 * share).sum::<f64>() * band
        };
        let minimum = minimise_in_box(
            &start_point,
            (GRADIENT_TOLERANCE * band, MAX_EVALUATIONS),
            |shares| -> Result<ValueAndGradient> {
                let (loss, mut slopes) = evaluate(shares)?;
                slopes.iter_mut().zip(&heads.groups).for_each(|(slope, group)| *slope += group.len() as f64 * band);
                Ok((loss + price(shares), slopes))
            },
        )?;
        let fit = GateFit {
            gates: heads.gates_by_head(&minimum.point),
            objective: minimum.value,
            loss: minimum.value - price(&minimum.point),
            evaluations: minimum.evaluations as u64,
            converged: minimum.converged,
        };
        fits.insert(start, fit);
        progress.advance(sequences.len() / starts.len(), tokens / starts.len());
    }
    progress.finish_pass();
    Ok(GateFits { known: losses, fits })
}

/// Collects the sequences, without the fields that the loss does not depend on. Fails if they exceed the free memory.
fn collect_sequences(sequences: impl Iterator<Item = Result<Sequence>>) -> Result<Vec<Sequence>> {
    let free = memory::available().unwrap_or(u64::MAX);
    let (mut all, mut bytes) = (Vec::new(), 0);
    for sequence in sequences {
        let Sequence { index, family, ids, segments, kinds, texts, predictions, item, .. } = sequence?;
        bytes += size_of::<Sequence>() + ids.len() * 3 * size_of::<u32>() + size_of_val(&predictions[..]);
        if memory::is_shortage(bytes as u64, free) {
            let error = memory::shortage_error(bytes as u64, free, "the sample that gates are fitted to");
            return Err(error.hint("draw fewer sentences by `--sample`")).class(ErrorClass::Input);
        }
        all.push(Sequence { index, family, ids, segments, kinds, texts, predictions, item, ..Sequence::default() });
    }
    Ok(all)
}

/// Number of scored tokens; for a task, the number of items. An item may be several sequences.
fn count_tokens_or_items(sequences: &[Sequence]) -> u64 {
    let scored = sequences.iter().map(|sequence| sequence.predicted_positions().count() as u64);
    let items: BTreeSet<u64> = sequences.iter().filter(|one| one.item.is_some()).map(|one| one.index).collect();
    if items.is_empty() { scored.sum() } else { items.len() as u64 }
}

/// The loss over sequences, summed, with its derivatives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LossSums {
    grid: HeadGrid,
    loss: ExactSum,
    /// Summed derivatives of the loss with respect to the gate of each head, `[layers * heads]`.
    gates: Vec<ExactSum>,
}

merge_fields!(LossSums[grid] { loss, gates });

impl Sums for LossSums {
    type SequenceState = ();

    fn demands(&self) -> Demands {
        Demands::default()
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<()> {
        sequence.predictions.iter().any(|PredictedToken { truth, .. }| truth.is_some()).then_some(())
    }

    fn observe(&mut self, (): &mut (), event: &mut Event<'_>) {
        if let Event::Gradient(gradient) = event {
            self.loss += gradient.loss;
            self.gates.iter_mut().zip(&gradient.gates).for_each(|(sum, derivative)| *sum += *derivative);
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.gates.len() == grid.head_count()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::model::config::cost::Cost;
    use crate::model::forward::batch::Batch;
    use crate::model::forward::gradient::{GateGradient, GradientScratch, PathGradient, ScoreFunction};
    use crate::sequences::sequence::{ItemPart, ScoreRule};
    use crate::sequences::test_support::sentence;

    const GRID: HeadGrid = HeadGrid { layers: 1, heads: 3 };

    /// A model of two heads and one that is not there: of shares of the heads the loss of a token and its derivatives.
    struct Formula(fn([f64; 2]) -> (f64, [f64; 2]));

    impl Differentiable for Formula {
        fn gradients(
            &self,
            batch: &Batch<'_>,
            gates: &Gates,
            _: &mut ScoreFunction<'_>,
            _: &mut GradientScratch,
        ) -> Result<Vec<GateGradient>> {
            let (loss, [first, second]) = self.0([0, 1].map(|head| f64::from(gates.get(0, head).unwrap().keep)));
            let gradient =
                |tokens: f64| GateGradient { loss: tokens * loss, gates: vec![tokens * first, tokens * second, 7.0] };
            Ok(batch.inputs.iter().map(|input| gradient(input.predicted_positions.len() as f64)).collect())
        }

        fn path_gradients(
            &self,
            _: &Batch<'_>,
            _: &Gates,
            _: NonZeroU16,
            _: &mut ScoreFunction<'_>,
            _: &mut GradientScratch,
        ) -> Result<Vec<PathGradient>> {
            unreachable!("derivatives along a path are not needed")
        }

        fn gradient_cost(&self, _: &[usize]) -> Cost {
            Cost { bytes: 0, attention_weights: 0 }
        }
    }

    fn fitted(formula: fn([f64; 2]) -> (f64, [f64; 2]), groups: &[&[usize]], tokens: usize) -> GateFits {
        let mut open_gates = Gates::default();
        (0..3).for_each(|head| open_gates.set_gate(0, head, Gate::from_factor(1.0)));
        let groups = groups.iter().map(|group| group.to_vec()).collect();
        let heads = GatedHeads { grid: GRID, open_gates: &open_gates, groups, head_count: 2 };
        let predictions = (1..=tokens).map(|at| PredictedToken::masked(at, at - 1, Some(1))).collect();
        let sequences = [sentence(0, 3, "dep"), Sequence { predictions, ..sentence(1, 3, "dep") }];
        let progress = RunProgress::default();
        let run = (0, vec![0, 1, 2, 3, 4]);
        let threads = NonZeroUsize::MIN;
        fit_gates(("model", &Formula(formula)), &heads, run, sequences.into_iter().map(Ok), threads, &progress).unwrap()
    }

    /// Heads that are worth 1 nat each, beside the price of .01 * 2.
    #[test]
    fn heads_that_are_worth_more_than_their_price_are_kept() {
        let found = fitted(|[a, b]| (4.0 - a - b, [-1.0, -1.0]), &[&[0], &[1]], 2);
        let known = found.known.unwrap();
        assert_eq!((known.units, known.loss, known.loss_without_heads), (2, 2.0, 4.0));
        assert!((known.band - 0.02).abs() < 1e-12 && found.fits.len() == 5);
        for fit in found.fits.values() {
            assert_eq!([0, 1, 2].map(|place| fit.keeps_head(place)), [Some(true), Some(true), None]);
            assert!(fit.converged && fit.evaluations < 10, "{fit:?}");
            assert!((fit.objective - 2.04).abs() < 1e-6 && (fit.loss - 2.0).abs() < 1e-6, "{fit:?}");
        }
    }

    /// Either head does what both do: `2 + 2 (1 - a) (1 - b)`.
    #[test]
    fn of_heads_that_do_the_same_one_is_kept() {
        let either = |[a, b]: [f64; 2]| (2.0 + 2.0 * (1.0 - a) * (1.0 - b), [-2.0 * (1.0 - b), -2.0 * (1.0 - a)]);
        let found = fitted(either, &[&[0], &[1]], 3);
        for (start, fit) in &found.fits {
            let first = starting_gate(0, *start, 0) > starting_gate(0, *start, 1);
            assert_eq!([0, 1].map(|place| fit.keeps_head(place)), [Some(first), Some(!first)], "{fit:?}");
            assert!((fit.objective - 2.02).abs() < 1e-6, "{fit:?}");
        }
        // With one gate for both, both are open or neither is; both cost two prices.
        let shared = fitted(either, &[&[0, 1]], 3);
        assert!(shared.fits.values().all(|fit| fit.gates[..2] == [fit.gates[0]; 2] && (fit.loss - 2.0) < 1e-3));
    }

    #[test]
    fn nothing_is_fitted_where_heads_are_worth_nothing() {
        let worse = fitted(|[a, b]| (2.0 + a + b, [1.0, 1.0]), &[&[0], &[1]], 1);
        let known = worse.known.unwrap();
        assert_eq!((known.loss, known.loss_without_heads, known.band, worse.fits.len()), (4.0, 2.0, 0.0, 0));
        let unscored = fitted(|_| unreachable!("nothing is scored"), &[&[0], &[1]], 0);
        assert_eq!((unscored.known.unwrap().units, unscored.fits.len()), (0, 0));
    }

    #[test]
    fn an_item_is_one_unit_whatever_its_texts() {
        let item = |index| Sequence {
            index,
            item: Some(ItemPart {
                rule: ScoreRule::GoodText,
                answer: None,
                foils: Vec::new(),
                group: None,
                corruption: None,
            }),
            ..Sequence::default()
        };
        assert_eq!(count_tokens_or_items(&[item(3), item(3), item(5)]), 2);
    }
}
