//! The facts that observers receive before a pass begins: about the weights that it runs, and about the whole corpus.

use std::sync::Arc;

use super::ablation::PassConditions;
use super::gate_fits::GateFits;
use crate::model::forward::{Encoder, WordEmbeddings};
use crate::sequences::counts::TokenCounts;

/// Facts that observers receive before a pass begins, about the model and about the whole corpus.
#[derive(Clone, Default)]
pub struct PassSetup<'a> {
    /// The encoder that the pass runs, for studies that read its weights.
    pub encoder: Option<&'a dyn Encoder>,
    /// The word embeddings of the encoder; `None` if it gives no access to them.
    pub embeddings: Option<WordEmbeddings>,
    /// The count of each token in the whole corpus; `None` unless some study needs counts.
    pub counts: Option<Arc<TokenCounts>>,
    /// The replacement for ablated heads, the prediction task, and the user's task.
    pub conditions: PassConditions,
    /// Indices of the heads that are ablated one by one, ascending, layer by layer; `None` if all heads are.
    pub chosen_heads: Option<Vec<usize>>,
    /// Under constant ablation, the constant that replaces each head's context, `[layers * heads, head_dim]`; `None` under
    /// other ablation.
    pub head_constants: Option<Vec<Vec<f32>>>,
    /// The fitted gates, in a pass that fits gates; `None` in other passes.
    pub gate_fits: Option<GateFits>,
}
