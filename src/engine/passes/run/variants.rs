//! Ablation variants: the forward passes of each pack after its baseline, each with the layer at which it begins. The
//! hidden states that enter a layer do not depend on the heads of that layer. So only the baseline runs through all layers,
//! and a variant begins at the first layer with a removed head.

use crate::model::forward::gates::{Gate, Gates};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::observer::requests::HeadSet;

/// The forward passes that each pack runs through: the baseline and the ablation variants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variants {
    /// The gates of the baseline, which runs from the embeddings through all layers.
    pub baseline: Gates,
    pub ablation_variants: Vec<AblationVariant>,
    /// The gates that replace removed heads, `[layers * heads]`; empty if no variant removes heads.
    replacement_gates: Vec<Gate>,
}

/// An ablation variant: a forward pass that starts at a layer, from the hidden states that entered that layer in the
/// baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct AblationVariant {
    /// The removed heads, or the heads whose contexts are exchanged between sequences.
    pub removed: HeadSet,
    /// The layer at which the variant starts.
    pub first_layer: usize,
    pub gates: Gates,
}

impl Variants {
    /// Makes a baseline with the gates `first`, without ablation variants.
    pub fn baseline_only(first: Gates) -> Self {
        Self { baseline: first, ..Self::default() }
    }

    /// The constant that replaces each head under constant ablation, `[layers * heads, head_dim]`. It is read from the first
    /// token class, since constant ablation replaces all token classes alike.
    pub fn head_constants(&self) -> Vec<Vec<f32>> {
        let first_class_vector = |gate: &Gate| gate.replacement.as_ref().map(|by| by[0].clone()).unwrap_or_default();
        self.replacement_gates.iter().map(first_class_vector).collect()
    }

    /// Gives every head without a gate a fully open one, with the replacement from `gates`, `[layers * heads]`. Heads with
    /// a gate keep it.
    pub fn with_open_gates(mut self, grid: HeadGrid, gates: &[Gate]) -> Self {
        for (HeadPlace { layer, head }, gate) in grid.head_places().zip(gates) {
            if self.baseline.get(layer, head).is_none() {
                self.baseline.set_gate(layer, head, Gate { keep: 1.0, ..gate.clone() });
            }
        }
        self
    }

    /// Adds one variant for each set of heads in `exchanged`. It swaps the contexts of these heads (their input to the
    /// output projection) between two sequences of equal length.
    pub fn with_exchanges(self, exchanged: impl IntoIterator<Item = HeadSet>) -> Self {
        self.with_variants(exchanged, |gates, HeadPlace { layer, head }| gates.exchange_head(layer, head))
    }

    /// Adds one variant for each set of heads in `removed`. These heads get their gates from `gates`,
    /// `[layers * heads]`. A head that the baseline gates keeps that gate.
    pub fn with_removals(self, removed: impl IntoIterator<Item = HeadSet>, grid: HeadGrid, gates: &[Gate]) -> Self {
        let varied = self.with_variants(removed, |own, HeadPlace { layer, head }| {
            // Heads that the whole pass removes stay removed.
            if own.get(layer, head).is_none() {
                own.set_gate(layer, head, gates[grid.index(layer, head)].clone());
            }
        });
        Self { replacement_gates: gates.to_vec(), ..varied }
    }

    /// Adds one variant for each set of heads in `sets`; `change` sets the gate of each of its heads.
    fn with_variants(self, sets: impl IntoIterator<Item = HeadSet>, change: impl Fn(&mut Gates, HeadPlace)) -> Self {
        let variant = |removed: HeadSet| {
            let mut gates = self.baseline.clone();
            removed.iter().for_each(|&place| change(&mut gates, place));
            let layer = removed.first().map_or(0, |place| place.layer);
            AblationVariant { removed, first_layer: layer, gates }
        };
        let others = sets.into_iter().map(variant).collect();
        Self { ablation_variants: others, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::observer::requests::{single_head_set, single_head_sets_and_all};

    const GRID: HeadGrid = HeadGrid { layers: 2, heads: 1 };

    #[test]
    fn each_head_is_missing_once_and_then_all_are() {
        let gates = [Gate::from_factor(0.5), Gate::from_factor(0.25)];
        let variants = Variants::default().with_removals(single_head_sets_and_all(GRID), GRID, &gates);
        let removed: Vec<_> =
            variants.ablation_variants.iter().map(|variant| (variant.removed.clone(), variant.first_layer)).collect();
        let place = |layer| HeadPlace { layer, head: 0 };
        assert_eq!(
            removed,
            [(single_head_set(place(0)), 0), (single_head_set(place(1)), 1), ([0, 1].map(place).into(), 0)]
        );
        let of = |variant: usize| [0, 1].map(|layer| variants.ablation_variants[variant].gates.get(layer, 0).cloned());
        let [first, second] = gates.map(Some);
        assert_eq!(of(0), [first.clone(), None]);
        assert_eq!(of(1), [None, second.clone()]);
        assert_eq!(of(2), [first, second]);
    }

    #[test]
    fn heads_on_their_way_are_whole() {
        let by = std::array::from_fn(|class| vec![class as f32]);
        let mut first = Gates::default();
        first.set_gate(1, 0, Gate::from_factor(0.0));
        let variants = Variants::baseline_only(first)
            .with_open_gates(GRID, &[Gate::from_replacement(by.clone()), Gate::from_replacement(by.clone())]);
        assert_eq!(variants.baseline.get(0, 0), Some(&Gate { keep: 1.0, replacement: Some(by.into()) }));
        assert_eq!((variants.baseline.get(1, 0), variants.ablation_variants.len()), (Some(&Gate::from_factor(0.0)), 0));
    }

    #[test]
    fn a_head_that_is_gone_for_good_stays_as_it_is() {
        let mut first = Gates::default();
        first.set_gate(0, 0, Gate::from_factor(0.0));
        let variants = Variants::baseline_only(first.clone()).with_removals(
            [single_head_set(HeadPlace { layer: 0, head: 0 })],
            GRID,
            &[Gate::from_factor(0.5)],
        );
        assert!(variants.ablation_variants.iter().all(|variant| variant.gates == first));
    }
}
