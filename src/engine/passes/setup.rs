//! The facts that observers receive before a pass begins: about the weights that it runs, and about the whole corpus.

use std::sync::Arc;

use super::ablation::PassConditions;
use super::gate_fits::GateFits;
use crate::model::forward::{Encoder, WordEmbeddings};
use crate::sequences::counts::TokenCounts;

#[derive(Clone, Default)]
pub struct PassSetup<'a> {
    /// The encoder of the pass, for studies of its weights.
    pub encoder: Option<&'a dyn Encoder>,
    /// The word embeddings of the weights; `None` if the encoder gives no access to them.
    pub embeddings: Option<WordEmbeddings>,
    /// The count of each token in the whole corpus; `None` unless some study needs it.
    pub counts: Option<Arc<TokenCounts>>,
    /// The replacement of ablated heads, and the prediction task.
    pub conditions: PassConditions,
    /// Indices of the heads that are removed one by one, ascending, layer by layer; `None` if all heads are.
    pub chosen_heads: Option<Vec<usize>>,
    /// The constant that replaces each head, `[layers * heads, head_dim]`, under constant ablation; else `None`.
    pub head_constants: Option<Vec<Vec<f32>>>,
    /// The fitted gates, in a pass that shows gate fits; else `None`.
    pub gate_fits: Option<GateFits>,
}
