//! The names of a family's tensors, and the parts of its layout that its `config.json` decides.

use crate::model::config::{Activation, Config};

/// The names of a family's tensors, without the prefix of a model with a task head.
///
/// The embeddings are `embeddings.word_embeddings`, `embeddings.position_embeddings` and
/// `embeddings.token_type_embeddings` in every family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The layer normalisation over the sum of the embeddings.
    pub embedding_norm: Option<&'static str>,
    /// The parts that the embeddings of plain text get beside word, position and segment.
    pub plain_text: Option<PlainText>,
    /// The linear layer from the embeddings to the hidden states.
    pub projection: Option<&'static str>,
    /// The parts of a layer.
    pub parts: &'static LayerNames,
    /// The prefix of the parts of each layer, bottom-up. Layers of the same name share their parameters.
    pub layers: Vec<String>,
    /// The groups of the convolutions that stand in place of a layer's linear layers.
    pub convolutions: Option<Groups>,
    /// The embedding of distances that gives each head's addition to the scores, MPNet's, and its rows.
    pub position_bias: Option<(&'static str, usize)>,
    /// The layer normalisation after the last layer, in families whose layers normalise what goes into their blocks.
    pub final_norm: Option<&'static str>,
}

/// The names of the parts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerNames {
    /// Linear layers to queries, keys and values.
    pub query_key_value: [&'static str; 3],
    /// The embedding of distances, in families whose positions can be relative.
    pub distances: Option<&'static str>,
    /// The linear layer after the heads.
    pub attention_output: &'static str,
    /// The layer normalisation of the attention block: over its sum with the residual, or before it.
    pub attention_norm: &'static str,
    /// The linear layer before the activation.
    pub intermediate: &'static str,
    /// The linear layer after the activation.
    pub output: &'static str,
    /// The layer normalisation of the feed-forward block: over its sum with the residual, or before it.
    pub output_norm: &'static str,
}

/// The names of the parts of a masked-LM head, the prefix of the encoder left out.
///
/// All families have the same head: a linear layer from the hidden states to the width of the embeddings, an
/// activation, a layer normalisation, and the product with an embedding of each token, plus a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedLmNames {
    /// The linear layer; a checkpoint that has it has a masked-LM head.
    pub dense: &'static str,
    /// The layer normalisation after the activation.
    pub norm: &'static str,
    /// The tokens' embeddings, `[vocab, embedding width]`: the input embeddings, if they are tied.
    pub decoder: &'static str,
    /// The bias of each token. transformers has it twice, as a vector of its own and as the bias of the last linear
    /// layer; tied heads run the former, others the latter, and checkpoints hold either or both.
    pub bias: &'static str,
    /// The bias of the last linear layer.
    pub decoder_bias: &'static str,
    /// The activation, where it is not that of the encoder's feed-forward blocks.
    pub activation: Option<Activation>,
}

/// The names of the parts of a discriminator's head, the prefix of the encoder left out: a linear layer, an activation, and a
/// linear layer to one logit, of the token being replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscriminatorNames {
    /// The first linear layer; a checkpoint that has it is a discriminator.
    pub dense: &'static str,
    /// The layer to the logit.
    pub output: &'static str,
}

/// How many groups each convolution of a layer has. A convolution reads one token at a time, so it is a linear layer
/// whose outputs see the inputs of their own group alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The names of the projections to queries, keys and values.
    pub query_key_value: [usize; 3],
    /// The one after the heads.
    pub attention_output: usize,
    /// The one before the activation.
    pub intermediate: usize,
    /// The one after the activation.
    pub output: usize,
}

/// The sum that a family adds to the embedding of every token of plain text: the embeddings of a feature at the default
/// value of transformers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainText {
    /// The sum of rows of tables, as often as they are here.
    Rows(Vec<TableRow>),
    /// The embedding of a place in a tree of markup that there is none of, MarkupLM's.
    Markup(Markup),
}

/// A row of an embedding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// The name of the table.
    pub table: String,
    /// How many rows it has.
    pub rows: usize,
    /// The index of the row.
    pub row: usize,
}

/// MarkupLM's embedding of a path of tags and subscripts (Li et al. 2022, 3.1): at each depth the row of a tag plus that
/// of a subscript, one after the other, then a linear layer, ReLU and a linear layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markup {
    /// The rows of the empty tag and the empty subscript at each depth.
    pub none: Vec<[TableRow; 2]>,
    /// Width of a row.
    pub width: usize,
    /// The linear layer before the ReLU.
    pub inner: &'static str,
    /// Its outputs.
    pub inner_width: usize,
    /// The linear layer after the ReLU.
    pub output: &'static str,
}

impl Names {
    /// Names of layers that share nothing: `{stem}.0` to the last.
    pub(super) fn numbered(parts: &'static LayerNames, stem: &str, config: &Config) -> Self {
        Self::of(parts, (0..config.num_hidden_layers).map(|number| format!("{stem}.{number}")).collect())
    }

    /// Names of layers, with all else as in BERT.
    pub(super) fn of(parts: &'static LayerNames, layers: Vec<String>) -> Self {
        Self {
            embedding_norm: Some("embeddings.LayerNorm"),
            plain_text: None,
            projection: None,
            parts,
            layers,
            convolutions: None,
            position_bias: None,
            final_norm: None,
        }
    }
}
