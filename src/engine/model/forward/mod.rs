//! The forward pass of an encoder. It shows a visitor each head's attention over each sequence of a batch, and the other
//! activations that the visitor needs. [`packed`] is the encoder; tests compare it with a second, readable encoder
//! (`tests/support/tensor/`).

pub mod attention;
pub mod batch;
pub mod gates;
pub mod gradient;
pub mod held;
pub mod kernels;
pub mod packed;
mod relative;
pub mod rows;
mod scratch;
pub mod visitor;

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};

use crate::linalg::matmul::Matrix;
use crate::model::config::Config;
use crate::model::config::cost::Cost;
use crate::system::errors::{ErrorClass, ErrorExt};
use attention::AttentionView;
use batch::{Batch, BatchInput};
use gates::Gates;
use gradient::Differentiable;
use held::HeldOutputs;
pub use scratch::{AttentionScratch, Scratch};
use visitor::{BlockOutput, Needs, Visitor};

/// The state from which a forward pass starts.
#[derive(Clone, Copy, Debug, Default)]
pub enum PassStart<'a> {
    /// Token ids: the pass starts with their embeddings.
    #[default]
    Embeddings,
    /// Hidden states that entered a layer in an earlier pass over the same batch.
    Layer {
        /// First layer that runs. If it equals the number of layers, only the prediction head runs.
        layer: usize,
        /// `[tokens, hidden]`: the hidden states that entered the layer, one sequence after the other.
        states: &'a [f32],
    },
    /// As `Layer`, but block outputs stay as in the earlier pass, except for the gated heads of this layer. So the
    /// gates act on later layers only through the residual stream. The pass shows only the attention of later layers.
    Held {
        /// First layer that runs.
        layer: usize,
        /// `[tokens, hidden]`: the hidden states that entered the layer.
        states: &'a [f32],
        /// Block outputs of all layers in the earlier pass that gave `states`.
        writes: &'a HeldOutputs,
    },
}

impl PassStart<'_> {
    /// Returns the first layer that runs.
    pub fn layer(&self) -> usize {
        match self {
            Self::Embeddings => 0,
            Self::Layer { layer, .. } | Self::Held { layer, .. } => *layer,
        }
    }
}

/// An encoder that shows its activations to a visitor.
pub trait Encoder: Send + Sync {
    /// Runs a batch through all layers.
    /// Fails if a token, position or segment has no embedding, logits are needed without a prediction head, or a value is not
    /// finite.
    fn forward(&self, batch: &Batch<'_>, scratch: &mut Scratch, visitor: &mut dyn Visitor) -> Result<()> {
        self.forward_from(PassStart::Embeddings, batch, &Gates::default(), scratch, visitor)
    }

    /// Runs a batch from the state `start`, with the interventions in `gates`. With hidden states of an earlier pass
    /// over the batch and equal gates, [`PassStart::Layer`] repeats the rest of that pass bit for bit. Gates below the
    /// first layer that runs have no effect. Fails as [`Encoder::forward`], and if `start` or `gates` do not fit the
    /// model and the batch.
    fn forward_from(
        &self,
        start: PassStart<'_>,
        batch: &Batch<'_>,
        gates: &Gates,
        scratch: &mut Scratch,
        visitor: &mut dyn Visitor,
    ) -> Result<()>;

    /// The cost of a forward pass over sequences of these lengths, in tokens, in one batch; zero if the cost is unknown.
    fn cost(&self, _lengths: &[usize]) -> Cost {
        Cost::default()
    }

    /// Returns the stored word embeddings; `None` if the encoder does not show them.
    fn word_embeddings(&self) -> Option<WordEmbeddings> {
        None
    }

    /// Linear layer from word embeddings to hidden states, `[width, hidden]`, without its bias; `None` if the encoder has no
    /// such layer.
    fn embedding_projection(&self) -> Option<Matrix<'_>> {
        None
    }

    /// Returns the attention heads of a layer, for use on other inputs than the layer's own; `None` if the encoder does not
    /// support that.
    fn layer_attention(&self, _layer: usize, _positions: Positions) -> Option<Box<dyn LayerAttention + '_>> {
        None
    }

    /// Whether each part of the residual stream has a direct effect on the logits, as [`Visitor::direct_effects`] defines it.
    fn has_direct_effects(&self) -> bool {
        false
    }

    /// Returns the encoder's derivatives; `None` if it computes none.
    fn differentiable(&self) -> Option<&dyn Differentiable> {
        None
    }

    /// Returns the weights of a layer's attention heads; `None` if the encoder does not show them.
    fn head_weights(&self, _layer: usize) -> Option<HeadWeights<'_>> {
        None
    }
}

/// Weights of all attention heads of a layer, without biases. Head `h` has the columns (in the output projection, the rows)
/// from `h * head_dim` on.
#[derive(Clone, Copy, Debug)]
pub struct HeadWeights<'a> {
    /// Query and key weights, `[hidden, heads * head_dim]` each. `None` if queries and keys are normalised or rotated: then no
    /// fixed matrix gives the score of two tokens.
    pub query_key: Option<[Matrix<'a>; 2]>,
    /// Value weights, `[hidden, heads * head_dim]`.
    pub value: Matrix<'a>,
    /// Output projection, `[heads * head_dim, hidden]`.
    pub output: Matrix<'a>,
}

/// Whether attention scores depend on the distance of query and key, apart from inputs and masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// Scores depend on distance through rotation and distance terms, as in a normal pass.
    Used,
    /// Scores without rotation and distance terms, as if all tokens had one position.
    Ignored,
}

/// The queries and keys of all heads of a layer.
#[derive(Clone, Debug, Default)]
pub struct QueriesAndKeys {
    /// `[tokens, 2 * heads * head_dim]`: queries, then keys, of each token.
    pub rows: Vec<f32>,
    /// Cosines and sines of the rotation of each position, in models with rotary positions.
    angles: Vec<f32>,
}

/// Attention heads of a layer, applied to any inputs with the layer's projections, mask, scale and norms.
pub trait LayerAttention {
    /// Computes queries and keys from `inputs`, `[tokens, hidden]`, which replace the layer's own input. `lengths` has the
    /// number of tokens of each sequence.
    fn project(&self, inputs: &[f32], lengths: &[usize], into: &mut QueriesAndKeys) {
        self.project_unbiased(inputs, &mut into.rows);
        self.normalise_and_rotate(lengths, into);
    }

    /// Projects `inputs`, `[rows, hidden]`, to queries and keys without biases, `[rows, 2 * heads * head_dim]`. The map is
    /// linear. Panics if `inputs` has rows of another width.
    fn project_unbiased(&self, inputs: &[f32], into: &mut Vec<f32>);

    /// In layers that normalise or rotate queries and keys, adds their biases, then normalises and rotates them.
    /// Changes nothing in other layers.
    fn normalise_and_rotate(&self, lengths: &[usize], queries_keys: &mut QueriesAndKeys);

    /// Computes the attention of a head over the sequence whose tokens are `span`. `queries_keys` is
    /// `[source of queries, source of keys]`; the two may come from different inputs.
    fn attention<'b>(
        &self,
        head: usize,
        span: &Range<usize>,
        queries_keys: [&QueriesAndKeys; 2],
        scratch: &'b mut AttentionScratch,
    ) -> AttentionView<'b>;
}

/// Word embeddings as stored: without position and segment embeddings, norm and projection.
#[derive(Clone, Debug)]
pub struct WordEmbeddings {
    /// One row for each token id, `[vocab, width]`.
    weights: Arc<Vec<f32>>,
    width: usize,
}

impl WordEmbeddings {
    /// Makes word embeddings from `weights`, `[vocab, width]`. Panics unless `weights` are whole rows.
    pub fn new(weights: Arc<Vec<f32>>, width: usize) -> Self {
        assert!(width > 0 && weights.len().is_multiple_of(width), "embeddings are [vocab, width]");
        Self { weights, width }
    }

    /// Returns the embeddings as a matrix, `[vocab, width]`.
    pub fn matrix(&self) -> Matrix<'_> {
        Matrix::new(&self.weights, self.weights.len() / self.width, self.width)
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the embedding of a token, `[width]`. Panics if the id is outside the vocabulary.
    pub fn get(&self, id: u32) -> &[f32] {
        &self.weights[id as usize * self.width..][..self.width]
    }
}

/// A forward pass in progress: its input, its interventions and its visitor.
pub struct ForwardPass<'a> {
    pub batch: &'a Batch<'a>,
    pub gates: &'a Gates,
    pub needs: Needs,
    pub visitor: &'a mut dyn Visitor,
}

impl ForwardPass<'_> {
    /// Passes hidden states, `[tokens, hidden]`, to the visitor, sequence by sequence. They enter layer `layer`, or
    /// leave the last layer if `layer` is the number of layers.
    pub fn emit_states(&mut self, layer: usize, states: &[f32], hidden: usize) {
        let rows = self.batch.rows(states, hidden);
        rows.for_each(|(sequence, rows)| self.visitor.hidden_states(sequence, layer, rows));
    }

    /// Passes one block output of a layer to the visitor, if needed.
    pub fn emit_block_output(&mut self, layer: usize, part: BlockOutput, values: &[f32]) {
        if self.needs.writes {
            self.visitor.block_output(layer, part, values);
        }
    }

    /// Passes the inputs of a layer's query and key projections, `[tokens, hidden]`, to the visitor, sequence by
    /// sequence, if needed.
    pub fn emit_attention_inputs(&mut self, layer: usize, inputs: &[f32], hidden: usize) {
        if self.needs.attention_inputs {
            let rows = self.batch.rows(inputs, hidden);
            rows.for_each(|(sequence, rows)| self.visitor.attention_inputs(sequence, layer, rows));
        }
    }

    /// Tells the visitor that all sequences of the batch have ended.
    pub fn end_sequences(&mut self) {
        (0..self.batch.inputs.len()).for_each(|sequence| self.visitor.end_sequence(sequence));
    }
}

/// Checks the input of a forward pass. Fails if a token, position or segment has no embedding, or the start or the gates do not
/// fit the model and the batch.
pub fn check_input(config: &Config, start: PassStart<'_>, batch: &Batch<'_>, gates: &Gates) -> Result<()> {
    let (words, positions, segments) = (config.vocab_size, config.max_runnable_tokens(), config.type_vocab_size);
    for BatchInput { sentence_number: number, ids, segments: segment_ids, predicted_positions: predicted, .. } in
        &batch.inputs
    {
        let n = ids.len();
        ensure!(n > 0, "sentence {number} has no tokens");
        ensure!(n <= positions, "sentence {number} has {n} tokens, the model {positions} positions");
        ensure!(segment_ids.len() == n, "sentence {number} has {n} tokens and the segments of {}", segment_ids.len());
        let largest = |ids: &[u32]| ids.iter().max().map_or(0, |&id| id as usize);
        let (id, segment) = (largest(ids), largest(segment_ids));
        ensure!(id < words, "sentence {number} has token id {id}, the model {words} token embeddings");
        ensure!(
            segments == 0 || segment < segments,
            "sentence {number} has segment {segment}, the model {segments} segment embeddings"
        );
        if let Some(position) = predicted.iter().find(|&&position| position >= n) {
            bail!("logits are wanted at position {position} of sentence {number}, which has {n} tokens");
        }
    }
    if let PassStart::Layer { layer, states } | PassStart::Held { layer, states, .. } = start {
        let (layers, expected) = (config.num_hidden_layers, batch.tokens() * config.hidden_size);
        ensure!(layer <= layers, "a pass cannot start from layer {layer}: the model has {layers} layers");
        ensure!(
            states.len() == expected,
            "a pass from layer {layer} starts with {} values, not one hidden state for each token, {expected} values",
            states.len()
        );
    }
    if let PassStart::Held { layer, writes, .. } = start {
        writes.check(config, layer, batch.tokens())?;
    }
    gates.check(config, batch)
}

/// Checks values that a layer computes. Fails if one is NaN or infinite.
pub fn check_finite(values: &[f32], layer: usize) -> Result<()> {
    if values.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    Err(anyhow!("layer {layer} computes values that are not finite: the weights are damaged or overflow in float32"))
        .class(ErrorClass::Model)
}

// Error messages for needs that a pass cannot meet.
pub const HELD_PASS_NEEDS_ERROR: &str =
    "a run in which everything is held but the residual stream shows attention and nothing else";
pub const NO_DIRECT_EFFECTS_ERROR: &str = "direct effects are needed, but the logits are not linear in the residual stream, or the head that predicts was not \
    loaded with the encoder";
pub const NO_PREDICTION_HEAD_ERROR: &str =
    "logits are needed, but the head that predicts was not loaded with the encoder";
