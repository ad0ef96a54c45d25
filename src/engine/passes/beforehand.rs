//! The facts that observers are told before a pass begins: of the weights that it runs, and of the whole corpus.

use std::sync::Arc;

use super::ablation::Conditions;
use crate::model::forward::{Encoder, WordEmbeddings};
use crate::sequences::counts::TokenCounts;

/// The facts that are known before a pass begins.
#[derive(Clone, Default)]
pub struct Beforehand<'a> {
    /// The encoder of the pass, for studies of its weights.
    pub encoder: Option<&'a dyn Encoder>,
    /// The word embeddings of the weights that are run; `None` of an encoder that does not lend them.
    pub embeddings: Option<WordEmbeddings>,
    /// How often each token is in the whole corpus; `None` unless somebody asked for it.
    pub counts: Option<Arc<TokenCounts>>,
    /// What stands for heads that are removed in turn, and what is predicted.
    pub conditions: Conditions,
    /// The places of the heads that are removed one by one, ascending, where not all are.
    pub chosen: Option<Vec<usize>>,
}
