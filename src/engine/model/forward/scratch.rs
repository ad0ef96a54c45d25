//! A worker's buffers.

/// Buffers that grow to the largest batch of a worker and are then reused.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// `[tokens, hidden]`: the residual stream.
    pub(super) states: Vec<f32>,
    /// `[tokens, 3 * heads * head_dim]`: queries, keys and values; without the values, two thirds of it.
    pub(super) projected: Vec<f32>,
    /// `[n, 2, pairs]`: the cosines and sines of each position of the longest sequence, in models whose keys turn.
    pub(super) angles: Vec<f32>,
    /// `[tokens, heads * head_dim]`: the contexts of all heads, before the output projection.
    pub(super) context: Vec<f32>,
    /// `[tokens, hidden]`: what a linear layer gives back to the residual stream.
    pub(super) update: Vec<f32>,
    /// `[tokens, intermediate]`, twice as wide where it is gated.
    pub(super) wide: Vec<f32>,
    /// `[positions, classes]`: logits of some of the predicted positions.
    pub(super) logits: Vec<f32>,
    pub(super) direct: DirectScratch,
    pub(super) weights: AttentionScratch,
    /// `[n, head_dim]`: a head's values, without their bias, times the Gram matrix of the output projection; `[n]`: their norms.
    pub(super) values: [Vec<f32>; 2],
    /// `[n, head_dim]`: a head's contexts without the value bias.
    pub(super) bare: Vec<f32>,
    /// `[n, head_dim]`: those times the Gram matrix of the output projection.
    pub(super) products: Vec<f32>,
    /// `[tokens]`: the norms of the residual stream below the layer.
    pub(super) input_norms: Vec<f32>,
    pub(super) mixing: MixingScratch,
}

/// Buffers for direct effects on the logits of compared tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectScratch {
    /// `[compared, hidden]`: the vectors of the compared tokens of all sequences.
    pub vectors: Vec<f32>,
    /// `[compared]`: what the biases behind the last layer add to their logits.
    pub constants: Vec<f32>,
    /// `[compared, hidden]`: the vectors before the norm of what a block writes, where there is one.
    pub written: Vec<f32>,
    /// `[tokens]`: the scales of that norm; empty where there is none.
    pub scales: Vec<f32>,
    /// `[heads * head_dim, compared]`: `written` through the output projection of a layer.
    pub through: Vec<f32>,
    /// `[n, compared]`: the direct effects of one part over one sequence.
    pub effects: Vec<f32>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct MixingScratch {
    /// `heads * head_dim`
    pub width: usize,
    /// `[tokens, heads * head_dim]` each: what heads take of the token itself, what they take of others, and their values;
    /// with the value bias, after the heads' gates.
    pub contexts: [Vec<f32>; 3],
    /// `[tokens, hidden]` each: the same after the output projection.
    pub written: [Vec<f32>; 3],
    /// `[tokens, hidden]`: what the heads write as the layer has it, where that is normalised.
    pub whole: Vec<f32>,
    /// `[hidden]` each, of one token: what even heads take of it and of others, and what is written of neither.
    pub rows: [Vec<f32>; 3],
    /// `[hidden]`: the sum of the values that a token sees.
    pub seen: Vec<f64>,
    /// `[tokens]`
    pub ratios: Vec<f32>,
    /// `[tokens]`
    pub even: Vec<f32>,
}

/// Buffers for one head's attention over one sentence.
#[derive(Clone, Debug, Default)]
pub struct AttentionScratch {
    /// `[n, head_dim]`: its queries, scaled.
    pub(super) query: Vec<f32>,
    /// `[n, head_dim]`: its keys, in models whose keys meet distances.
    pub(super) key: Vec<f32>,
    /// `[n, 2n - 1]`: products with the embeddings of distances, in models that have them.
    pub(super) distances: Vec<f32>,
    /// `[n, stride]`: its attention; `stride` is `n` rounded up to whole vectors.
    pub(super) attention: Vec<f32>,
    /// `[n]`: the entropy of each row of it.
    pub(super) entropies: Vec<f32>,
}
