//! Interventions in a forward pass: heads that are scaled or replaced, and attention that is cut.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};

use super::batch::{Batch, TokenClass};
use crate::model::config::Config;
use crate::system::errors::Facts;

/// The vectors that stand in for a head's context, `[head_dim]` for each token class, in the order of
/// [`TokenClass::ALL`].
pub type Replacement = [Vec<f32>; TokenClass::COUNT];

/// An intervention on a head's context `z`, before the output projection: it becomes `r + keep (z - r)`, with `r` the
/// replacement.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The share of the head that is kept: 1 for all of it, which changes no bit, 0 for none.
    pub keep: f32,
    /// The vectors that take the place of the rest, one for each class of tokens; `None`: zero.
    pub replacement: Option<Arc<Replacement>>,
}

impl Gate {
    /// The context times `factor`.
    pub fn scale(factor: f32) -> Self {
        Self { keep: factor, replacement: None }
    }

    /// The replacement in place of the context.
    pub fn replace(by: Replacement) -> Self {
        Self { keep: 0.0, replacement: Some(Arc::new(by)) }
    }

    /// Whether nothing of the head passes, so that its context need not be computed.
    pub(super) fn is_closed(&self) -> bool {
        self.keep == 0.0
    }

    /// The vector that replaces the context of a token, `[head_dim]`; `None` for zero.
    pub(super) fn replacement_at(&self, classes: &[TokenClass], token: usize) -> Option<&[f32]> {
        self.replacement.as_ref().map(|vectors| vectors[classes[token] as usize].as_slice())
    }

    /// Acts on one head's context over one sequence: rows of `head_dim` values that begin `stride` values apart.
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

/// Weights that are cut: from each query of a span to each key of another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    queries: Range<usize>,
    keys: Range<usize>,
}

/// The interventions in a forward pass, by layer and head; the default keeps everything.
///
/// Gates act on what a head writes, cuts on its attention. Both act within the pass, so all later layers see them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gates {
    gates: BTreeMap<(usize, usize), Gate>,
    /// The gates by layer, head and sequence.
    cuts: BTreeMap<(usize, usize, usize), Vec<Cut>>,
}

impl Gates {
    /// Gates a head in all sequences, in place of a gate it may have.
    pub fn set(&mut self, layer: usize, head: usize, gate: Gate) {
        self.gates.insert((layer, head), gate);
    }

    /// Cuts the weights of a head from each of `queries` to each of `keys` of one sequence.
    ///
    /// They become 0 and the rest of the row is scaled to sum to 1, exactly as if those keys were not there for those
    /// queries. Cuts of the same head add up. A query that is cut from every key is refused by the forward pass:
    /// nothing is left that could be scaled, and either way out, a row of zeros or of equal weights, would be an
    /// attention that no softmax gives.
    pub fn cut(&mut self, layer: usize, head: usize, sequence: usize, queries: Range<usize>, keys: Range<usize>) {
        self.cuts.entry((layer, head, sequence)).or_default().push(Cut { queries, keys });
    }

    /// The gate of a head; `None` if it is kept.
    pub fn of(&self, layer: usize, head: usize) -> Option<&Gate> {
        self.gates.get(&(layer, head))
    }

    /// The gates of a layer, by head.
    pub(super) fn of_layer(&self, layer: usize) -> impl Iterator<Item = (usize, &Gate)> {
        self.gates.range((layer, 0)..(layer + 1, 0)).map(|(&(_, head), gate)| (head, gate))
    }

    /// Whether a head of the layer is cut in a sequence.
    pub(super) fn cuts_in(&self, layer: usize, heads: usize, sequence: usize) -> bool {
        !self.cuts.is_empty() && (0..heads).any(|head| self.cuts.contains_key(&(layer, head, sequence)))
    }

    /// Cuts one head's scores over one sequence, before the softmax: `[n, stride]`, whose first `n` columns count. A
    /// score of minus infinity becomes a weight of 0, and the softmax scales the rest.
    /// Fails if a query is cut from every key.
    pub(super) fn cut_scores(
        &self,
        (layer, head, sequence): (usize, usize, usize),
        scores: &mut [f32],
        n: usize,
        stride: usize,
    ) -> Result<()> {
        let Some(cuts) = self.cuts.get(&(layer, head, sequence)) else { return Ok(()) };
        for Cut { queries, keys } in cuts {
            for query in queries.clone() {
                let row = &mut scores[query * stride..][..n];
                row[keys.clone()].fill(f32::NEG_INFINITY);
                if row.iter().all(|&score| score == f32::NEG_INFINITY) {
                    bail!(
                        anyhow!("the cuts of head L{layer}H{head} leave token {query} nothing to attend to")
                            .hint("leave it one key at least")
                    );
                }
            }
        }
        Ok(())
    }

    /// Checks that the interventions fit the model and the batch.
    pub(super) fn check(&self, config: &Config, batch: &Batch<'_>) -> Result<()> {
        let (layers, heads, head_dim) = (config.num_hidden_layers, config.num_attention_heads, config.head_dim());
        let there = |layer: usize, head: usize| -> Result<()> {
            ensure!(
                layer < layers && head < heads,
                "there is no head L{layer}H{head} to intervene in: the model has {layers} layers of {heads} heads"
            );
            Ok(())
        };
        for (&(layer, head), gate) in &self.gates {
            there(layer, head)?;
            ensure!(gate.keep.is_finite(), "the gate of L{layer}H{head} keeps {}: a number is expected", gate.keep);
            let Some(replacement) = &gate.replacement else { continue };
            for vector in replacement.iter() {
                let (length, finite) = (vector.len(), vector.iter().all(|value| value.is_finite()));
                ensure!(length == head_dim, "the replacement of L{layer}H{head} has {length} values, not {head_dim}");
                ensure!(finite, "the replacement of L{layer}H{head} has values that are not finite");
            }
            for input in &batch.inputs {
                let (number, n, classes) = (input.number, input.ids.len(), input.classes.len());
                ensure!(
                    classes == n,
                    "sentence {number} has {n} tokens and the classes of {classes}: a replacement needs all of them"
                );
            }
        }
        for (&(layer, head, sequence), cuts) in &self.cuts {
            there(layer, head)?;
            let Some(input) = batch.inputs.get(sequence) else {
                bail!("there is no sequence {sequence} to cut: the batch has {}", batch.inputs.len());
            };
            let (number, n) = (input.number, input.ids.len());
            for Cut { queries, keys } in cuts {
                ensure!(
                    queries.end <= n && keys.end <= n && queries.start <= queries.end && keys.start <= keys.end,
                    "a cut from {queries:?} to {keys:?} does not fit sentence {number}, which has {n} tokens"
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
        let by = [vec![0.0, 4.0], vec![f32::NAN; 2], vec![2.0, -2.0], vec![f32::NAN; 2]];
        assert_eq!(run(&Gate::scale(1.0)), context);
        assert_eq!(run(&Gate::scale(-0.5)), [-4.0, -2.0, 9.0, -3.0, -1.0]);
        assert_eq!(run(&Gate::scale(0.0)), [0.0, 0.0, 9.0, 0.0, 0.0]);
        assert_eq!(run(&Gate::replace(by.clone())), [0.0, 4.0, 9.0, 2.0, -2.0]);
        assert_eq!(run(&Gate { keep: 0.25, replacement: Some(Arc::new(by)) }), [2.0, 4.0, 9.0, 3.0, -1.0]);
    }

    #[test]
    fn cuts_leave_the_other_weights() {
        const CUT: f32 = f32::NEG_INFINITY;
        let mut gates = Gates::default();
        gates.cut(1, 2, 0, 0..1, 1..2);
        gates.cut(1, 2, 0, 0..2, 0..1);
        let mut scores = [1.0; 8];
        gates.cut_scores((1, 2, 1), &mut scores, 3, 4).unwrap();
        assert_eq!(scores, [1.0; 8]);
        gates.cut_scores((1, 2, 0), &mut scores, 3, 4).unwrap();
        assert_eq!(scores, [CUT, CUT, 1.0, 1.0, CUT, 1.0, 1.0, 1.0]);
        gates.cut(1, 2, 0, 0..1, 2..3);
        let error = gates.cut_scores((1, 2, 0), &mut scores, 3, 4).unwrap_err().to_string();
        assert_eq!(error, "the cuts of head L1H2 leave token 0 nothing to attend to: leave it one key at least");
    }
}
