//! Events: the activations of a sequence, which a pass shows to observers one by one. A head's attention is summed to words, or
//! reduced to tokens of text, when an observer first asks for that.

use super::requests::PatchedRun;
use crate::model::forward::Encoder;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::gradient::{GateGradient, PathGradient};
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{FinalNorm, HeadView, MixingRatios, Needs, ResidualPart};
use crate::sequences::fold::text::TextAttention;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;

/// An event of a pass, shown to observers: an activation, or another fact about one sequence.
#[expect(clippy::large_enum_variant, reason = "an event is made on the stack for a call, and never kept")]
pub enum Event<'a> {
    Head(HeadInput<'a>),
    /// The hidden states that enter a layer, `[tokens, hidden]`. If `layer` equals the number of layers, they are the final
    /// hidden states, which are shown only on request.
    HiddenStates {
        layer: usize,
        states: Rows<'a>,
    },
    /// The inputs of a layer's query and key projections, `[tokens, hidden]`; shown before the layer's heads.
    AttentionInputs {
        layer: usize,
        inputs: Rows<'a>,
        /// The encoder, which can compute the attention of its heads for other inputs.
        encoder: &'a dyn Encoder,
    },
    /// How much other tokens are mixed into each token by a layer's heads; shown after these heads.
    Mixing {
        layer: usize,
        mixing: MixingRatios<'a>,
    },
    /// The direct effects of one part of the residual stream on the logits of the compared tokens, `[tokens, compared]`,
    /// before the scaling by the final norm. The effects of heads are shown after all heads of their layer.
    DirectEffects {
        part: ResidualPart,
        effects: Rows<'a>,
    },
    FinalNorm(FinalNorm<'a>),
    /// The logits at a predicted position, `[classes]`.
    Logits {
        position: usize,
        logits: &'a [f32],
    },
    /// The end of the baseline run, at which the observer adds the patched runs that it requests to the list.
    BaselineEnd(Vec<PatchedRun>),
    /// The logits at a predicted position of a patched run, `[classes]`.
    PatchedLogits {
        /// Index of the patched run among the observer's requests for the sequence.
        run: usize,
        position: usize,
        logits: &'a [f32],
    },
    /// The beginning of an ablation variant, given by its index in
    /// [`FurtherRuns::Ablations`](super::FurtherRuns::Ablations).
    AblationVariant(usize),
    /// The beginning of the direct run of an ablation variant, given by its index.
    /// [`FurtherRuns::AblationsWithDirectRuns`](super::FurtherRuns::AblationsWithDirectRuns) says what a direct run is.
    DirectRun(usize),
    /// The derivatives of the sequence's loss with respect to the gates of all heads; the loss is summed over the
    /// predicted positions.
    Gradient(&'a GateGradient),
    /// The derivatives of the sequence's loss with respect to the gates of all heads, averaged along the path from no
    /// head to all heads.
    PathGradient(&'a PathGradient),
    /// The end of the pack, a batch of sequences that ran together. It is shown once for each sequence of the pack.
    /// Sums that hold data of the whole pack release it at the first of these events.
    PackEnd,
}

impl Event<'_> {
    /// The layer of a head event or a mixing event, whose values depend on the keys that the layer's queries see. `None` for
    /// other events.
    pub(super) fn layer(&self) -> Option<usize> {
        match self {
            Self::Head(input) => Some(input.view.layer),
            Self::Mixing { layer, .. } => Some(*layer),
            _ => None,
        }
    }

    /// Whether observers with these needs read the event.
    pub(super) fn is_needed_by(&self, needs: Needs) -> bool {
        match self {
            Self::Head(_) => needs.includes_heads(),
            Self::HiddenStates { .. } => needs.hidden_states || needs.layer_inputs,
            Self::AttentionInputs { .. } => needs.attention_inputs,
            Self::Mixing { .. } => needs.mixing,
            Self::DirectEffects { .. } | Self::FinalNorm(_) => needs.direct,
            Self::Logits { .. } => needs.logits,
            Self::BaselineEnd(_)
            | Self::PatchedLogits { .. }
            | Self::AblationVariant(_)
            | Self::DirectRun(_)
            | Self::Gradient(_)
            | Self::PathGradient(_)
            | Self::PackEnd => true,
        }
    }
}

/// One head over one sequence, as every observer of a pass receives it.
pub struct HeadInput<'a> {
    /// The head's attention, and the other activations that observers need.
    pub view: HeadView<'a>,
    sequence: &'a Sequence,
    fold_buffers: &'a mut FoldBuffers,
}

/// Buffers for one head's attention, folded to words and to tokens of text; reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct FoldBuffers {
    /// Attention folded to words, with split words pooled by their mean and by their first token.
    words: [CachedFold<WordAttention>; 2],
    text: CachedFold<TextAttention>,
}

impl FoldBuffers {
    pub fn head_input<'a>(&'a mut self, sequence: &'a Sequence, view: HeadView<'a>) -> HeadInput<'a> {
        self.words.iter_mut().for_each(|folded| folded.is_current = false);
        self.text.is_current = false;
        HeadInput { view, sequence, fold_buffers: self }
    }
}

/// A head's attention between words or between tokens of text, computed on first use.
#[derive(Clone, Debug, Default)]
struct CachedFold<T> {
    attention: T,
    is_current: bool,
}

impl<'a> HeadInput<'a> {
    pub fn attention(&self) -> AttentionView<'a> {
        self.view.attention
    }

    /// The attention between words, `[words, words]`, computed on first use. Split words are pooled as `from` says.
    pub fn word_attention(&mut self, from: FromToken) -> &WordAttention {
        let folded = &mut self.fold_buffers.words[usize::from(from == FromToken::First)];
        if !folded.is_current {
            folded.attention.fold(self.view.attention, &self.sequence.words, from);
            folded.is_current = true;
        }
        &folded.attention
    }

    /// The attention between the tokens of text, computed on first use.
    pub fn text_attention(&mut self) -> &TextAttention {
        let folded = &mut self.fold_buffers.text;
        if !folded.is_current {
            folded.attention.fill(self.view.attention, &self.sequence.kinds);
            folded.is_current = true;
        }
        &folded.attention
    }
}
