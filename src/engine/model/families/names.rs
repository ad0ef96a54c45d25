//! The names of a family's tensors, and the parts of its layout that its `config.json` decides.

use std::iter;

use anyhow::Result;

use crate::model::config::{Activation, Config, Places};

/// The names of a family's tensors, without the prefix of a model with a task head.
#[derive(Clone, Debug, PartialEq)]
pub struct Names {
    pub embeddings: &'static EmbeddingNames,
    /// The layer normalisation over the sum of the embeddings.
    pub embedding_norm: Option<&'static str>,
    /// The parts that the embeddings of plain text get beside word, position and segment.
    pub plain_text: Option<PlainText>,
    /// The linear layer from the embeddings to the hidden states.
    pub projection: Option<&'static str>,
    pub parts: &'static LayerNames,
    /// The prefix of the parts of each layer, bottom-up. Layers of the same name share their parameters.
    pub layers: Vec<String>,
    pub biases: Biases,
    /// Whether the weights of linear layers are stored as `[inputs, outputs]`.
    pub transposed: bool,
    /// Whether normalisations multiply by one more than their weight.
    pub norms_add_one: bool,
    pub fresh: FreshWeights,
    /// Whether what goes to the heads of the first layer is normalised, in families whose layers normalise what goes into
    /// their blocks.
    pub first_norm: bool,
    pub convolutions: Option<Groups>,
    pub position_bias: Option<PositionBiasNames>,
    pub disentangled: Option<DisentangledNames>,
    /// The names of the frequencies of rotary positions, of which the first that a checkpoint has is read; where it has none,
    /// they are computed.
    pub frequencies: &'static [&'static str],
    /// The layer normalisation after the last layer, in families whose layers normalise what goes into their blocks.
    pub final_norm: Option<&'static str>,
    /// The names that other checkpoints of the family have.
    pub other: Option<Box<Names>>,
}

/// The names of the embeddings; empty where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingNames {
    pub words: &'static str,
    pub positions: &'static str,
    pub segments: &'static str,
}

/// The parts of a layer, as in [`LayerNames`], that have biases; the others have none in any checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    pub query_key_value: bool,
    pub attention_output: bool,
    pub intermediate: bool,
    pub output: bool,
    /// All normalisations, those outside of layers as well.
    pub norms: bool,
}

impl Biases {
    pub const ALL: Self =
        Self { query_key_value: true, attention_output: true, intermediate: true, output: true, norms: true };

    pub const NONE: Self =
        Self { query_key_value: false, attention_output: false, intermediate: false, output: false, norms: false };

    /// Linear layers have those that a config says for each of the two blocks, normalisations have none.
    pub(super) fn of(attention: bool, feed_forward: bool) -> Self {
        let (query_key_value, attention_output) = (attention, attention);
        Self { query_key_value, attention_output, intermediate: feed_forward, output: feed_forward, norms: false }
    }
}

/// The weights of a family before training: of its matrices, embeddings among them, and of its normalisations.
#[derive(Clone, Debug, PartialEq)]
pub struct FreshWeights {
    /// The distribution of matrices, around 0.
    pub distribution: Distribution,
    /// The scales of matrices whose name has a part; that of the others is `initializer_range`.
    pub scales: Vec<(&'static str, f64)>,
    /// The weights of normalisations where the model does not add 1 to them; those are 0.
    pub norms: f64,
}

impl Default for FreshWeights {
    fn default() -> Self {
        Self { distribution: Distribution::Normal, scales: Vec::new(), norms: 1.0 }
    }
}

/// The distribution of a matrix before training, by its scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Normal; the scale is its standard deviation.
    Normal,
    /// A normal distribution without values that are more than so many standard deviations from 0.
    CutNormal(f64),
    /// Uniform from the negative of the scale to the scale.
    Uniform,
}

/// The term that each head adds to the scores by the distance of two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionBiasNames {
    /// An embedding of buckets of distances (Raffel et al. 2020, section 2.1).
    Buckets {
        table: &'static str,
        /// Whether each layer has its own, under this name within the layer.
        in_each_layer: bool,
        /// The rows of the table, which may be more than there are buckets.
        rows: usize,
        /// The buckets, half of them for each direction.
        buckets: usize,
        /// The distance from which on all are in the last bucket.
        furthest: usize,
    },
    /// A slope of each head (Press et al. 2022), in both directions.
    Slopes,
}

/// The terms of the scores between the content of one token and the distance of two (He et al. 2021).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DisentangledNames {
    /// The embeddings of places.
    pub table: &'static str,
    /// The normalisation over each of them.
    pub norm: Option<&'static str>,
    /// The layer's projection of places to what queries are multiplied by.
    pub keys: Option<&'static str>,
    /// Whether that has a bias; the one to what keys are multiplied by has.
    pub keys_biased: bool,
    /// The layer's projection of places to what keys are multiplied by.
    pub queries: Option<&'static str>,
    pub places: Places,
}

/// The names of the linear layers to queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKeyValue {
    /// Three of them.
    Apart([&'static str; 3]),
    /// One, whose outputs are all queries, then all keys, then all values.
    Blocks(&'static str),
    /// One, whose outputs are those of each head in turn: its query, its key and its value. The dimensions of queries and
    /// keys that turn together are neighbours.
    HeadByHead(&'static str),
    /// As `HeadByHead`, with the dimensions that turn together in the two halves of those that turn.
    HeadByHeadInHalves(&'static str),
    /// Head by head, without rotation and without a bias; the biases of queries and of values are vectors beside it.
    HeadByHeadBiased {
        part: &'static str,
        /// The biases of queries and of values.
        biases: [&'static str; 2],
    },
}

/// The names of the linear layers before the activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intermediate {
    /// One, all of whose outputs the activation is of.
    Plain(&'static str),
    /// Two of a gated linear unit: what the activation is of, and what it is multiplied by.
    Gated([&'static str; 2]),
    /// Both in one tensor, the activation's half first.
    GateFirst(&'static str),
    /// Both in one tensor, the activation's half second.
    GateSecond(&'static str),
}

/// The names of the parts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerNames {
    pub query_key_value: QueryKeyValue,
    /// The normalisations of the queries and of the keys of each head, where there are any.
    pub query_key_norms: Option<[&'static str; 2]>,
    /// The normalisations of what the two blocks write, before it is added to the residual stream, where there are any.
    pub write_norms: Option<[&'static str; 2]>,
    /// The embedding of distances, in families whose positions can be relative.
    pub distances: Option<&'static str>,
    /// The linear layer after the heads.
    pub attention_output: &'static str,
    /// The layer normalisation of the attention block: over its sum with the residual, or before it.
    pub attention_norm: &'static str,
    pub intermediate: Intermediate,
    /// The linear layer after the activation.
    pub output: &'static str,
    /// The layer normalisation of the feed-forward block: over its sum with the residual, or before it.
    pub output_norm: &'static str,
}

/// The names of the parts of a masked-LM head, the prefix of the encoder left out.
/// It is a linear layer from the hidden states to the width of the embeddings, an activation, a normalisation, and the
/// product with an embedding of each token, plus a bias; some families have the product alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenHeadNames {
    /// The linear layer and the normalisation after the activation.
    pub transform: Option<TransformNames>,
    /// The tokens' embeddings, `[vocab, embedding width]`: the input embeddings, if they are tied.
    pub decoder: &'static str,
    /// The bias of each token. transformers has it twice, as a vector of its own and as the bias of the last linear
    /// layer; tied heads run the former, others the latter, and checkpoints hold either or both. `None`: there is none.
    pub bias: Option<[&'static str; 2]>,
    /// The activation, where it is not that of the encoder's feed-forward blocks.
    pub activation: Option<Activation>,
}

/// The names of what comes before the product with the tokens' embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformNames {
    pub dense: &'static str,
    /// The normalisation after the activation.
    pub norm: &'static str,
    /// Whether each of the two has a bias.
    pub biases: [bool; 2],
}

impl TransformNames {
    /// The names where both have biases.
    pub(super) const fn biased(dense: &'static str, norm: &'static str) -> Self {
        Self { dense, norm, biases: [true, true] }
    }
}

impl TokenHeadNames {
    /// The product with an embedding of each token alone, as most families call it.
    pub(super) const PRODUCT: Self = Self { transform: None, decoder: "lm_head.weight", bias: None, activation: None };

    /// The name of the transform's linear layer, or where there is none that of the tokens' embeddings: a checkpoint
    /// that has it has such a head.
    pub fn sign(&self) -> &'static str {
        self.transform.map_or(self.decoder, |transform| transform.dense)
    }
}

/// The names of the parts of a discriminator's head, the prefix of the encoder left out: a linear layer, an activation, and a
/// linear layer to one logit, of the token being replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscriminatorNames {
    /// The first linear layer; a checkpoint that has it is a discriminator.
    pub dense: &'static str,
    pub output: &'static str,
}

/// How many groups each convolution of a layer has, in place of its linear layers. A convolution reads one token at a time, so
/// it is a linear layer whose outputs see the inputs of their own group alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    pub query_key_value: [usize; 3],
    pub attention_output: usize,
    pub intermediate: usize,
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
    pub table: String,
    /// How many rows the table has.
    pub rows: usize,
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

    /// A config that is checked, and the names of its layers as above.
    /// Fails if its sizes fit no encoder.
    pub(super) fn checked(config: Config, parts: &'static LayerNames, stem: &str) -> Result<(Config, Self)> {
        let config = config.checked()?;
        let names = Self::numbered(parts, stem, &config);
        Ok((config, names))
    }

    /// Names of layers, with all else as in BERT.
    pub(super) fn of(parts: &'static LayerNames, layers: Vec<String>) -> Self {
        Self {
            embeddings: &EmbeddingNames {
                words: "embeddings.word_embeddings",
                positions: "embeddings.position_embeddings",
                segments: "embeddings.token_type_embeddings",
            },
            embedding_norm: Some("embeddings.LayerNorm"),
            plain_text: None,
            projection: None,
            parts,
            layers,
            biases: Biases::ALL,
            transposed: false,
            norms_add_one: false,
            fresh: FreshWeights::default(),
            first_norm: true,
            convolutions: None,
            position_bias: None,
            disentangled: None,
            frequencies: &[],
            final_norm: None,
            other: None,
        }
    }

    /// These names and those that other checkpoints of the family have.
    fn spellings(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |names| names.other.as_deref())
    }

    /// The name of the output projection of the first layer, in each spelling.
    pub fn signs(&self) -> Vec<String> {
        self.spellings().filter_map(Self::sign).collect()
    }

    fn sign(&self) -> Option<String> {
        self.layers.first().map(|stem| format!("{stem}.{}.weight", self.parts.attention_output))
    }

    /// The number of the layer that a tensor is of, also beyond the last; `None` if it is of none.
    pub fn layer_number(&self, tensor: &str) -> Option<usize> {
        let mut stems = self.spellings().filter_map(|names| names.layers.first()?.strip_suffix('0'));
        stems.find_map(|stem| tensor.strip_prefix(stem)?.split('.').next()?.parse().ok())
    }

    /// The names that a checkpoint has: the first that name the output projection of its first layer, or else those that
    /// the family has as a rule.
    pub fn spelled(&self, has: impl Fn(&str) -> bool) -> &Self {
        self.spellings().find(|names| names.sign().is_some_and(|sign| has(&sign))).unwrap_or(self)
    }
}
