//! Interventions in a forward pass: scaled or replaced attention heads, patched rows of attention, and contexts exchanged in
//! pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, bail, ensure};

use super::batch::{Batch, TokenClass};
use crate::model::config::Config;

/// The vectors that replace an attention head's context: one of `[head_dim]` for each token class, in the order of
/// [`TokenClass::ALL`].
pub type ReplacementVectors = [Vec<f32>; TokenClass::COUNT];

/// An intervention on an attention head's context `z`, before the output projection. The context becomes `r + keep (z - r)`,
/// with `r` the replacement.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Share of the head's context that is kept. 0 removes the head; 1 leaves the context unchanged, bit for bit.
    pub keep: f32,
    /// Replacement `r` of the head's context, one vector for each token class; `None` for zeros.
    pub replacement: Option<Arc<ReplacementVectors>>,
}

impl Gate {
    /// Makes a gate that multiplies the head's context by `factor`.
    pub fn from_factor(factor: f32) -> Self {
        Self { keep: factor, replacement: None }
    }

    /// Makes a gate that replaces the head's context.
    pub fn from_replacement(by: ReplacementVectors) -> Self {
        Self { keep: 0.0, replacement: Some(Arc::new(by)) }
    }

    /// Whether `keep` is 0, so that the head's context need not be computed.
    pub(super) fn is_closed(&self) -> bool {
        self.keep == 0.0
    }

    /// Returns the vector that replaces the head's context at a token, `[head_dim]`; `None` for zeros.
    pub fn replacement_at(&self, classes: &[TokenClass], token: usize) -> Option<&[f32]> {
        self.replacement.as_ref().map(|vectors| vectors[classes[token] as usize].as_slice())
    }

    /// Applies the gate to an attention head's context over one sequence. `context` has rows of `head_dim` values that begin
    /// `stride` values apart.
    pub(super) fn apply(&self, context: &mut [f32], head_dim: usize, stride: usize, classes: &[TokenClass]) {
        if self.keep == 1.0 {
            return;
        }
        for (token, row) in context.chunks_mut(stride).enumerate() {
            let row = &mut row[..head_dim];
            match self.replacement_at(classes, token) {
                Some(r) if self.is_closed() => row.copy_from_slice(r),
                Some(r) => row.iter_mut().zip(r).for_each(|(z, r)| *z = r + self.keep * (*z - r)),
                None if self.is_closed() => row.fill(0.0),
                None => row.iter_mut().for_each(|z| *z *= self.keep),
            }
        }
    }
}

/// Patched rows of one head's attention over one sequence, keyed by query; each row is `[n]` and sums to 1.
pub type PatchedRows = BTreeMap<usize, Vec<f32>>;

/// Largest accepted deviation of a patched row's sum from 1. A float32 softmax over hundreds of tokens deviates far less.
const ROW_TOLERANCE: f64 = 1e-4;

/// Interventions in a forward pass, keyed by layer and attention head; none by default. A [`Gate`] changes a head's
/// context, and [`PatchedRows`] replace rows of a head's attention. An [exchange](super::batch::BatchInput::exchange)
/// swaps a head's gated contexts between two sequences of the batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gates {
    /// The gate of each gated head, keyed by (layer, head).
    gate_of_head: BTreeMap<(usize, usize), Gate>,
    /// Patched rows of attention, keyed by (layer, head, sequence).
    rows: BTreeMap<(usize, usize, usize), PatchedRows>,
    /// (layer, head) of each attention head whose contexts are exchanged between sequences.
    exchanged_heads: BTreeSet<(usize, usize)>,
}

impl Gates {
    /// Sets the gate of an attention head for all sequences; overwrites an earlier gate of the head.
    pub fn set_gate(&mut self, layer: usize, head: usize, gate: Gate) {
        self.gate_of_head.insert((layer, head), gate);
    }

    /// Replaces rows of an attention head's attention over one sequence. Overwrites rows that were patched before.
    pub fn patch_rows(&mut self, layer: usize, head: usize, sequence: usize, rows: PatchedRows) {
        self.rows.entry((layer, head, sequence)).or_default().extend(rows);
    }

    /// Marks an attention head whose contexts are swapped between each sequence with an
    /// [exchange](super::batch::BatchInput::exchange) and the next sequence.
    pub fn exchange_head(&mut self, layer: usize, head: usize) {
        self.exchanged_heads.insert((layer, head));
    }

    /// Swaps the contexts of a layer's exchanged heads between the two sequences of each pair. `contexts` is `[tokens, width]`,
    /// with `head_dim` values for each head; `sizes` is `[head_dim, width]`.
    pub(super) fn exchange_contexts(&self, layer: usize, batch: &Batch, contexts: &mut [f32], sizes: [usize; 2]) {
        let [head_dim, width] = sizes;
        for head in self.exchanged_heads_in(layer) {
            for [here, there] in batch.exchanged_rows() {
                let (before, after) = contexts.split_at_mut(there.start * width);
                let rows = before[here.start * width..here.end * width].chunks_exact_mut(width);
                for (row, other) in rows.zip(after.chunks_exact_mut(width)) {
                    row[head * head_dim..][..head_dim].swap_with_slice(&mut other[head * head_dim..][..head_dim]);
                }
            }
        }
    }

    /// Applies the gates of a layer to the contexts of its heads, `[tokens, width]`, with `head_dim` values for each head.
    pub(super) fn apply(&self, layer: usize, batch: &Batch<'_>, contexts: &mut [f32], [head_dim, width]: [usize; 2]) {
        for (input, span) in batch.inputs.iter().zip(batch.spans()) {
            for (head, gate) in self.gates_in(layer) {
                let context = &mut contexts[span.start * width + head * head_dim..span.end * width];
                gate.apply(context, head_dim, width, input.classes);
            }
        }
    }

    /// Yields the heads of a layer whose contexts are exchanged.
    pub fn exchanged_heads_in(&self, layer: usize) -> impl Iterator<Item = usize> {
        self.exchanged_heads.range((layer, 0)..(layer + 1, 0)).map(|&(_, head)| head)
    }

    /// Returns the gate of an attention head; `None` if its context passes unchanged.
    pub fn get(&self, layer: usize, head: usize) -> Option<&Gate> {
        self.gate_of_head.get(&(layer, head))
    }

    /// Returns a copy of these interventions in which `keep` replaces the `keep` of every fully open gate (`keep` 1).
    pub fn with_open_gates_set_to(&self, keep: f32) -> Self {
        let mut opened = self.clone();
        opened.gate_of_head.values_mut().filter(|gate| gate.keep == 1.0).for_each(|gate| gate.keep = keep);
        opened
    }

    /// Yields (head, gate) for each gated head of a layer, by head.
    pub fn gates_in(&self, layer: usize) -> impl Iterator<Item = (usize, &Gate)> {
        self.gate_of_head.range((layer, 0)..(layer + 1, 0)).map(|(&(_, head), gate)| (head, gate))
    }

    /// Whether any attention rows are patched. Patched rows refer to sequences by their index in the batch.
    pub fn has_patched_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Yields (query, patched row) of the head and sequence at `place`, (layer, head, sequence).
    pub fn patched_rows(&self, place: (usize, usize, usize)) -> impl Iterator<Item = (usize, &[f32])> {
        let rows = self.rows.get(&place).into_iter().flatten();
        rows.map(|(&query, row)| (query, row.as_slice()))
    }

    /// Writes patched rows into a head's attention, `[n, stride]`, and the entropies of these rows in nats into `entropies`.
    /// `place` is (layer, head, sequence). Returns whether the head has patched rows.
    pub(super) fn patch_weights(
        &self,
        place: (usize, usize, usize),
        (weights, stride): (&mut [f32], usize),
        entropies: &mut [f32],
    ) -> bool {
        for (query, row) in self.patched_rows(place) {
            weights[query * stride..][..row.len()].copy_from_slice(row);
            let positive = row.iter().filter(|&&weight| weight > 0.0);
            entropies[query] = -positive.map(|weight| weight * weight.ln()).sum::<f32>();
        }
        self.rows.contains_key(&place)
    }

    /// Checks the interventions. Fails if they do not fit the model and the batch.
    pub(super) fn check(&self, config: &Config, batch: &Batch<'_>) -> Result<()> {
        let (layers, heads, head_dim) = (config.num_hidden_layers, config.num_attention_heads, config.head_dim());
        let ensure_head = |layer: usize, head: usize| -> Result<()> {
            ensure!(
                layer < layers && head < heads,
                "there is no head L{layer}H{head} to intervene in: the model has {layers} layers of {heads} heads"
            );
            Ok(())
        };
        for (&(layer, head), gate) in &self.gate_of_head {
            ensure_head(layer, head)?;
            ensure!(gate.keep.is_finite(), "the gate of L{layer}H{head} keeps {}: a number is expected", gate.keep);
            let Some(replacement) = &gate.replacement else { continue };
            for vector in replacement.iter() {
                let (length, is_finite) = (vector.len(), vector.iter().all(|value| value.is_finite()));
                ensure!(length == head_dim, "the replacement of L{layer}H{head} has {length} values, not {head_dim}");
                ensure!(is_finite, "the replacement of L{layer}H{head} has values that are not finite");
            }
            for input in &batch.inputs {
                let (number, n, classes) = (input.sentence_number, input.ids.len(), input.classes.len());
                ensure!(
                    classes == n,
                    "sentence {number} has {n} tokens and the classes of {classes}: a replacement needs all of them"
                );
            }
        }
        self.exchanged_heads.iter().try_for_each(|&(layer, head)| ensure_head(layer, head))?;
        for (place, input) in batch.inputs.iter().enumerate() {
            let Some(exchange) = input.exchange else { continue };
            let (number, n) = (input.sentence_number, input.ids.len());
            let next = batch.inputs.get(place + 1).map_or(0, |next| next.ids.len());
            ensure!(next == n, "sentence {number} has {n} tokens and exchanges contexts with one of {next}");
            ensure!(exchange.positions(n).end <= n, "sentence {number} exchanges contexts beyond its {n} tokens");
        }
        for (&(layer, head, sequence), rows) in &self.rows {
            ensure_head(layer, head)?;
            let Some(input) = batch.inputs.get(sequence) else {
                bail!("there is no sequence {sequence} to patch: the batch has {}", batch.inputs.len());
            };
            let (number, n) = (input.sentence_number, input.ids.len());
            for (query, row) in rows {
                ensure!(
                    *query < n && row.len() == n,
                    "a row of {} weights for token {query} does not fit sentence {number}, which has {n} tokens",
                    row.len()
                );
                // The value bias passes unchanged only through rows that sum to 1.
                let sum: f64 = row.iter().map(|&weight| f64::from(weight)).sum();
                ensure!(
                    row.iter().all(|&weight| weight >= 0.0) && (sum - 1.0).abs() <= ROW_TOLERANCE,
                    "the weights of token {query} of sentence {number} in L{layer}H{head} are no attention: \
                     they sum to {sum}, or some are below 0"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_goes_from_the_replacement_to_the_context() {
        use TokenClass::{FirstSpecial, Mask};
        // Rows of two values, three apart.
        let context = [8.0, 4.0, 9.0, 6.0, 2.0];
        let run = |gate: &Gate| {
            let mut rows = context;
            gate.apply(&mut rows, 2, 3, &[FirstSpecial, Mask]);
            rows
        };
        let unused = || vec![f32::NAN; 2];
        let by = [vec![0.0, 4.0], unused(), vec![2.0, -2.0], unused(), unused()];
        assert_eq!(run(&Gate::from_factor(1.0)), context);
        assert_eq!(run(&Gate::from_factor(-0.5)), [-4.0, -2.0, 9.0, -3.0, -1.0]);
        assert_eq!(run(&Gate::from_factor(0.0)), [0.0, 0.0, 9.0, 0.0, 0.0]);
        assert_eq!(run(&Gate::from_replacement(by.clone())), [0.0, 4.0, 9.0, 2.0, -2.0]);
        assert_eq!(run(&Gate { keep: 0.25, replacement: Some(Arc::new(by)) }), [2.0, 4.0, 9.0, 3.0, -1.0]);
    }

    #[test]
    fn patched_rows_stand_in_place_of_a_heads_own() {
        let mut gates = Gates::default();
        gates.patch_rows(1, 2, 0, BTreeMap::from([(0, vec![1.0, 0.0, 0.0]), (1, vec![0.5, 0.0, 0.5])]));
        gates.patch_rows(1, 2, 0, BTreeMap::from([(0, vec![0.0, 1.0, 0.0])]));
        // Three rows of three weights, four apart.
        let (mut weights, mut entropies) = ([9.0; 11], [9.0; 3]);
        gates.patch_weights((1, 2, 1), (&mut weights, 4), &mut entropies);
        assert_eq!((weights, entropies), ([9.0; 11], [9.0; 3]));
        gates.patch_weights((1, 2, 0), (&mut weights, 4), &mut entropies);
        assert_eq!(weights, [0.0, 1.0, 0.0, 9.0, 0.5, 0.0, 0.5, 9.0, 9.0, 9.0, 9.0]);
        assert_eq!(entropies, [0.0, 2.0_f32.ln(), 9.0]);
    }
}
