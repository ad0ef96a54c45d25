//! The visitor of a forward pass: the activations that it needs, and the calls by which it sees them.

use std::ops::BitOr;

use super::attention::AttentionView;
use super::rows::Rows;

/// Declares [`Needs`] with a field for each kind of activation, all false in `Needs::NONE`, and the union `|` of two needs.
macro_rules! needs {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// The activations that a visitor needs, combined with `|` for several visitors; no other activations are computed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Needs {
            $($(#[$doc])* pub $field: bool),+
        }

        impl Needs {
            const NONE: Self = Self { $($field: false),+ };
        }

        impl BitOr for Needs {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self { $($field: self.$field | other.$field),+ }
            }
        }
    };
}

needs! {
    // Fields of `HeadView`:
    attention,
    values,
    value_norms,
    contexts,
    outputs,
    // Methods of `Visitor`:
    direct,
    hidden_states,
    /// The hidden states that enter each layer, without the states that leave the last one.
    layer_inputs,
    predicted_states,
    attention_inputs,
    mixing,
    logits,
    /// The outputs of all blocks ([`Visitor::block_output`]).
    writes,
}

impl Needs {
    /// Attention weights alone.
    pub const ATTENTION: Self = Self { attention: true, ..Self::NONE };

    /// Whether [`Visitor::head`] is called for these needs.
    pub fn includes_heads(self) -> bool {
        self.attention || self.values || self.value_norms || self.outputs || self.contexts
    }

    /// Whether the last layer must compute values, which the heads' attention alone does not need.
    pub(super) fn includes_more_than_attention(self) -> bool {
        self.values || self.value_norms || self.contexts || self.outputs || self.mixing || self.includes_last_states()
    }

    /// Whether the output of the last layer is needed, at all positions or only at the predicted ones.
    pub(super) fn includes_last_states(self) -> bool {
        self.includes_last_states_everywhere() || self.logits || self.predicted_states
    }

    /// Whether the output of the last layer is needed at all positions.
    pub(super) fn includes_last_states_everywhere(self) -> bool {
        self.hidden_states || self.direct
    }

    /// Whether these needs include all of `others`.
    pub fn covers(self, others: Self) -> bool {
        let available = Self { layer_inputs: self.layer_inputs || (others.layer_inputs && self.hidden_states), ..self };
        available | others == available
    }

    /// Whether the visitor needs the hidden states that enter the layer with index `layer`. The index `layers` stands for the
    /// states that leave the last layer.
    pub fn includes_states_at(self, layer: usize, layers: usize) -> bool {
        self.hidden_states || (self.layer_inputs && layer < layers)
    }
}

/// One attention head over one sequence of `n` tokens, with patched rows and gates applied. The attention is always present,
/// because all other parts are computed from it. Other parts are present only if needed.
#[derive(Clone, Copy, Debug)]
pub struct HeadView<'a> {
    pub layer: usize,
    pub head: usize,
    /// Attention of the head, `[n, n]`, with patched rows.
    pub attention: AttentionView<'a>,
    /// Values of the head; `None` unless needed.
    pub values: Option<HeadValues<'a>>,
    /// Norms of the head's values; `None` unless needed.
    pub value_norms: Option<ValueNorms<'a>>,
    /// `[n, head_dim]`: the head's input to the output projection, `z_i = sum_j A[i,j] v_j` with the value bias, after
    /// the head's gate. Contexts are exchanged between sequences only later.
    pub context: Option<Rows<'a>>,
    /// Output of the head; `None` unless needed.
    pub output: Option<HeadOutput<'a>>,
}

impl<'a> From<AttentionView<'a>> for HeadView<'a> {
    fn from(attention: AttentionView<'a>) -> Self {
        let AttentionView { layer, head, .. } = attention;
        Self { layer, head, attention, values: None, value_norms: None, context: None, output: None }
    }
}

/// The values of one head, with their bias apart.
#[derive(Clone, Copy, Debug)]
pub struct HeadValues<'a> {
    /// `[n, head_dim]`: the values without their bias.
    pub rows: Rows<'a>,
    /// `[head_dim]`: the bias of every value.
    pub bias: &'a [f32],
}

/// The norms of one head's values after the output projection, `|v_j W_O|` (Kobayashi et al. 2020).
#[derive(Clone, Copy, Debug)]
pub struct ValueNorms<'a> {
    /// `[n]`: the norm of `v_j W_O` for each value `v_j`, with the value bias and without the bias of the output projection.
    pub norms: &'a [f32],
    /// `[n, head_dim]`: `v W_O W_Oᵀ` of each value `v` without its bias, with `W_O` the head's part of the output projection.
    pub products: Rows<'a>,
    /// `[head_dim]`: the value bias times `W_O W_Oᵀ`, with `W_O` the head's part of the output projection.
    pub bias_product: &'a [f32],
    /// `[head_dim, head_dim]`: `W_O W_Oᵀ`, with `W_O`, `[head_dim, hidden]`, the head's part of the output projection, so that
    /// `x W_O · y W_O = x (W_O W_Oᵀ) yᵀ` for any vectors of the head.
    pub gram: &'a [f32],
}

/// The output of one attention head to the residual stream, `o_i = z_i W_O`, before the head's gate. The fields give
/// all inner products of outputs from vectors of width `head_dim`, without computing `o_i`. The value bias is left out
/// (marked `°`): attention weights sum to 1, so it only adds a constant to every row.
#[derive(Clone, Copy, Debug)]
pub struct HeadOutput<'a> {
    /// `[n, head_dim]`: contexts `z°_i = sum_j A[i,j] v°_j`, from values `v°_j` without their bias.
    pub contexts: Rows<'a>,
    /// `[n, head_dim]`: each row `z°_i` of `contexts` times `W_O W_Oᵀ`. The product of the result with any head vector
    /// `y` is `z°_i W_O · y W_O`.
    pub products: Rows<'a>,
    /// `[head_dim, head_dim]`: `W_O W_Oᵀ`, with `W_O` the head's part of the output projection.
    pub gram: &'a [f32],
    /// `[n]`: the norms of the residual stream before the layer, `|x_i|`.
    pub input_norms: &'a [f32],
}

/// Mixing ratios of a layer over one sequence (Kobayashi et al. 2021, section 3): how much of each token's vector comes from
/// other tokens. The vector is taken after attention, the residual connection, and the norm of the output or sum, if the layer
/// has one.
///
/// A ratio is `|mixed| / (|mixed| + |preserved|)`, and 0 if nothing is mixed in. Constants, which are biases and replacements
/// of removed heads, are in neither part.
#[derive(Clone, Copy, Debug)]
pub struct MixingRatios<'a> {
    /// `[n]`: the mixing ratio of each token.
    pub ratios: &'a [f32],
    /// `[n]`: the mixing ratio of each token if all heads attended uniformly to the visible keys.
    pub uniform_ratios: &'a [f32],
}

/// A part of the residual stream after the last layer. The residual stream is the sum of all parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidualPart {
    /// The embeddings, or the hidden states from which the pass started.
    Embeddings,
    /// The output of one attention head, without the bias of the output projection.
    Head { layer: usize, head: usize },
    /// The bias of a block's output, and the bias of the norm over that output. Shown once for each block.
    Biases { layer: usize },
    /// The output of a feed-forward block, without its bias.
    FeedForward { layer: usize },
}

/// The final norm over one sequence, where direct effects are needed.
#[derive(Clone, Copy, Debug)]
pub struct FinalNorm<'a> {
    /// `[n]`: the scale that each row is divided by.
    pub scales: &'a [f32],
    /// `[compared]`: the contribution of the biases of norm and prediction head to the logit of each token in
    /// [`BatchInput::compared_tokens`](super::batch::BatchInput::compared_tokens).
    pub constants: &'a [f32],
}

/// Intermediate result of a layer that a visitor receives for all sequences at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOutput {
    /// Queries, keys and values as projected, without their biases; only the packed encoder shows them.
    Projected,
    /// The contexts of all heads, after their gates.
    Contexts,
    /// The output of the attention block.
    Attention,
    /// The input of the feed-forward activation, without its bias; only the packed encoder shows it.
    ActivationInput,
    /// The output of the feed-forward block.
    FeedForward,
}

/// An observer of a forward pass. A method that receives activations is called only if the visitor needs them.
///
/// Calls come layer by layer, within a layer sequence by sequence, within a sequence head by head.
pub trait Visitor {
    /// Returns the activations that the visitor needs.
    fn needs(&self) -> Needs;

    /// Receives one attention head over one sequence; called if any part of a head is needed.
    fn head(&mut self, _sequence: usize, _view: &HeadView<'_>) {}

    /// Receives the hidden states of one sequence, `[n, hidden]`. States `l` enter layer `l`, as in transformers'
    /// `hidden_states`. The last states leave the last layer and the norm after it, as in transformers' `last_hidden_state`.
    fn hidden_states(&mut self, _sequence: usize, _layer: usize, _states: Rows<'_>) {}

    /// Receives the last hidden states at the predicted positions, `[positions, hidden]`, if there are any. Only the packed
    /// encoder calls this method.
    fn predicted_states(&mut self, _states: Rows<'_>) {}

    /// Receives the inputs of a layer's query and key projections over one sequence, `[n, hidden]`. Called before the layer's
    /// heads.
    fn attention_inputs(&mut self, _sequence: usize, _layer: usize, _inputs: Rows<'_>) {}

    /// Receives the mixing ratios of a layer over one sequence. Called after the layer's heads.
    fn mixing(&mut self, _sequence: usize, _layer: usize, _mixing: MixingRatios<'_>) {}

    /// Receives the direct effects of a part of the residual stream over one sequence, `[n, compared]`: `x_i · v_t`.
    /// `x_i` is the part at token `i`. `v_t` is the prediction head's vector of a
    /// [compared](super::batch::BatchInput::compared_tokens) token, times the weights of the final norm, and centred
    /// for layer norm. If a block's output is normalised before it is added, its parts are divided by the scale of that
    /// norm in this pass.
    ///
    /// The logits of the compared tokens before any cap are the sum of all parts' effects, divided by the scales of the
    /// [final norm](Visitor::final_norm), plus its constants (Elhage et al. 2021, "direct path").
    fn direct_effects(&mut self, _sequence: usize, _part: ResidualPart, _effects: Rows<'_>) {}

    /// Receives the final norm over one sequence. Called after all layers, if direct effects are needed.
    fn final_norm(&mut self, _sequence: usize, _norm: FinalNorm<'_>) {}

    /// Receives the logits at one of the sequence's predicted positions, `[classes]`.
    fn logits(&mut self, _sequence: usize, _position: usize, _logits: &[f32]) {}

    /// Receives one output of a layer over all sequences, `[tokens, width]`. In the last layer, the outputs after the
    /// heads have rows only for positions whose last hidden states are needed: all, or the predicted ones. Without such
    /// positions, these outputs are not shown.
    fn block_output(&mut self, _layer: usize, _part: BlockOutput, _values: &[f32]) {}

    /// Marks the end of a sequence. Called after all of its activations.
    fn end_sequence(&mut self, _sequence: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_combined() {
        let contexts = Needs { contexts: true, ..Needs::default() };
        let both = Needs::ATTENTION | contexts;
        assert_eq!(both, Needs { attention: true, contexts: true, ..Needs::default() });
        let all = both | Needs { logits: true, ..Needs::default() };
        assert!(all.logits && all.attention && all.contexts && !all.values);
        assert!(
            !Needs::default().includes_heads()
                && contexts.includes_heads()
                && !Needs::ATTENTION.includes_more_than_attention()
        );
        let mixing = Needs { mixing: true, ..Needs::default() };
        assert!(mixing.includes_more_than_attention() && !mixing.includes_heads() && (all | mixing).mixing);
        assert!(
            contexts.includes_more_than_attention() && !contexts.includes_last_states() && all.includes_last_states()
        );
        let [states, inputs] =
            [true, false].map(|hidden_states| Needs { hidden_states, layer_inputs: !hidden_states, ..contexts });
        assert!(states.covers(inputs) && !inputs.covers(states) && states.covers(contexts) && !contexts.covers(inputs));
    }
}
