//! The attention of a layer's heads from rows in place of the layer's own input.

use std::ops::Range;

use super::attention::AttentionView;
use super::scratch::AttentionScratch;

/// Whether scores see the positions of query and key, beyond what inputs tell of them: by rotation, or by a term of their
/// distance. Masks stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// As in the model.
    Seen,
    /// Every pair of tokens stands at the same place.
    Unseen,
}

/// The queries and keys of tokens in all heads of a layer.
#[derive(Clone, Debug, Default)]
pub struct QueriesKeys {
    /// `[tokens, 2 * heads * head_dim]`
    pub rows: Vec<f32>,
    pub(super) angles: Vec<f32>,
}

/// The heads of a layer, which attend from any rows with their own queries and keys, mask, scale and normalisations.
pub trait LayerAttention {
    /// Makes queries and keys of `inputs`, `[tokens, hidden]`, in place of what the layer makes them of: sequences of these
    /// lengths side by side.
    /// Panics if `inputs` has other rows.
    fn project(&self, inputs: &[f32], lengths: &[usize], into: &mut QueriesKeys) {
        self.products(inputs, &mut into.rows);
        self.prepare(lengths, into);
    }

    /// Queries and keys of any rows `[rows, hidden]` without biases, `[rows, 2 * heads * head_dim]`: linear in the rows.
    /// Panics if `inputs` has other rows.
    fn products(&self, inputs: &[f32], into: &mut Vec<f32>);

    /// Makes queries and keys of such products for each token.
    fn prepare(&self, lengths: &[usize], of: &mut QueriesKeys);

    /// The attention of a head over one sequence, whose tokens are `span`, from queries to keys, which may be of other rows.
    fn between<'b>(
        &self,
        head: usize,
        span: &Range<usize>,
        queries_keys: [&QueriesKeys; 2],
        scratch: &'b mut AttentionScratch,
    ) -> AttentionView<'b>;
}
