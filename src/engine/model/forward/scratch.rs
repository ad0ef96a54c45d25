//! Buffers of one worker thread in the forward pass.

/// Buffers of one worker, which grow to its largest batch and are then reused.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// `[tokens, hidden]`: the residual stream.
    pub(super) states: Vec<f32>,
    /// `[tokens, 3 * heads * head_dim]`: queries, keys and values; `[tokens, 2 * heads * head_dim]` without values.
    pub(super) projected: Vec<f32>,
    /// `[n, 2, pairs]`: the cosines and sines of each position of the longest sequence, in models with rotary positions.
    pub(super) angles: Vec<f32>,
    /// `[tokens, heads * head_dim]`: the contexts of all heads, before the output projection.
    pub(super) context: Vec<f32>,
    /// `[tokens, hidden]`: the output of a block that is added to the residual stream.
    pub(super) block_output: Vec<f32>,
    /// `[tokens, intermediate]`: states of the feed-forward block, twice as wide where it is gated.
    pub(super) feed_forward_states: Vec<f32>,
    /// `[positions, classes]`: logits of the predicted positions that are computed together.
    pub(super) logits: Vec<f32>,
    /// Buffers for direct effects.
    pub(super) direct: DirectScratch,
    /// Buffers for one attention head.
    pub(super) weights: AttentionScratch,
    /// Two buffers. `[n, head_dim]`: a head's values, without their bias, times the Gram matrix of its output projection.
    /// `[n]`: the norms of the values after that projection.
    pub(super) values: [Vec<f32>; 2],
    /// `[n, head_dim]`: a head's contexts without the value bias.
    pub(super) unbiased_context: Vec<f32>,
    /// `[n, head_dim]`: `unbiased_context` times the Gram matrix of the output projection.
    pub(super) products: Vec<f32>,
    /// `[tokens]`: the norms of the residual stream before the layer.
    pub(super) input_norms: Vec<f32>,
    /// Buffers for mixing ratios.
    pub(super) mixing: MixingScratch,
}

/// Buffers for direct effects on the logits of compared tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectScratch {
    /// `[compared, hidden]`: the prediction head's vectors of all sequences'
    /// [compared tokens](super::batch::BatchInput::compared_tokens), pulled back through the final norm.
    pub token_vectors: Vec<f32>,
    /// `[compared]`: the contribution of the biases after the last layer to the logit of each compared token.
    pub bias_logits: Vec<f32>,
    /// `[compared, hidden]`: the vectors of the compared tokens, pulled back through the norm of a block's output. Without such
    /// a norm, the vectors themselves.
    pub block_vectors: Vec<f32>,
    /// `[tokens]`: the scales by which the norm of a block's output divides each token's row; empty without such a norm.
    pub scales: Vec<f32>,
    /// `[heads * head_dim, compared]`: `block_vectors` pulled back through the output projection of a layer's heads.
    pub head_vectors: Vec<f32>,
    /// `[n, compared]`: the direct effects of one part of the residual stream on the compared tokens' logits, over one
    /// sequence.
    pub effects: Vec<f32>,
}

/// Buffers for the mixing ratios of one layer.
#[derive(Clone, Debug, Default)]
pub(super) struct MixingScratch {
    /// `heads * head_dim`: values per token in `contexts`.
    pub width: usize,
    /// `[tokens, heads * head_dim]` each: the heads' contexts from the token itself, their contexts from other tokens, and the
    /// heads' values. All contain the value bias, and are multiplied by the heads' gates.
    pub contexts: [Vec<f32>; 3],
    /// `[tokens, hidden]` each: the three vectors of `contexts`, after the output projection.
    pub written_states: [Vec<f32>; 3],
    /// `[tokens, hidden]`: the full output of all heads, in layers that normalise it.
    pub head_output: Vec<f32>,
    /// `[hidden]` each, for one token under uniform attention: the part of the output from the token itself, the part
    /// from other tokens, and the constant part.
    pub token_outputs: [Vec<f32>; 3],
    /// `[hidden]`: the sum of the heads' values, after the output projection, over the tokens that are visible to a token.
    pub visible_sum: Vec<f64>,
    /// `[tokens]`: the mixing ratio of each token, the share of its vector that comes from other tokens.
    pub ratios: Vec<f32>,
    /// `[tokens]`: the mixing ratio of each token if all heads attended uniformly.
    pub uniform_ratios: Vec<f32>,
}

/// Buffers for one head's attention over one sentence.
#[derive(Clone, Debug, Default)]
pub struct AttentionScratch {
    /// `[n, head_dim]`: the head's scaled queries.
    pub(super) query: Vec<f32>,
    /// `[n, head_dim]`: the head's keys, in models with distance terms.
    pub(super) key: Vec<f32>,
    /// `[n, 2n - 1]`: products with distance embeddings, in models with such embeddings.
    pub(super) distances: Vec<f32>,
    /// `[n, stride]`: the head's attention; `stride` is `n` rounded up to whole SIMD vectors.
    pub(super) attention: Vec<f32>,
    /// `[n]`: the entropy of each attention row.
    pub(super) entropies: Vec<f32>,
}
