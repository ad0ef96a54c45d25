//! Tensor names of an architecture family, and the parts of its layout that its `config.json` decides.

use std::iter;

use anyhow::Result;

use crate::model::config::{Activation, Config, DistanceRowMap};

/// Tensor names of an architecture family, without the prefix of a model with a task head.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorNames {
    pub embeddings: EmbeddingNames,
    /// Layer normalisation over the sum of the embeddings, if there is one.
    pub embedding_norm: Option<&'static str>,
    /// Embeddings that plain text gets in addition to word, position and segment embeddings, if any.
    pub plain_text: Option<PlainTextConstant>,
    /// Linear layer from the embeddings to hidden states of another width, if there is one.
    pub projection: Option<&'static str>,
    /// Tensor names of the parts of a layer, after the layer's prefix.
    pub layer_parts: &'static LayerNames,
    /// Name prefix of each layer, first to last. Layers with equal prefixes share their parameters.
    pub layers: Vec<String>,
    pub biases: Biases,
    /// Whether the weights of linear layers are stored as `[inputs, outputs]`.
    pub is_transposed: bool,
    /// Whether normalisations multiply by `1 + weight` instead of `weight`.
    pub norms_add_one: bool,
    pub initialisation: WeightInitialisation,
    /// Whether the input of the first layer's attention block is normalised; for pre-norm families.
    pub has_first_norm: bool,
    /// Groups of the grouped convolutions that replace linear layers; `None` in families without them.
    pub convolutions: Option<ConvolutionGroups>,
    /// Bias that each attention head adds to its scores by distance; `None` in families without one.
    pub position_bias: Option<PositionBiasNames>,
    /// DeBERTa's score terms between content and distance; `None` in other families.
    pub disentangled: Option<DisentangledNames>,
    /// Names of the tensor of rotary frequencies. The first name that a checkpoint has is read; if it has none, frequencies are
    /// computed.
    pub frequencies: &'static [&'static str],
    /// Normalisation after the last layer, if there is one, in pre-norm families.
    pub final_norm: Option<&'static str>,
    /// Other names that some checkpoints of the family use instead.
    pub alternative: Option<Box<TensorNames>>,
}

/// Tensor names of the embeddings; an empty name means that the model has no such embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingNames {
    pub words: &'static str,
    pub positions: &'static str,
    pub segments: &'static str,
}

/// Whether each part of a layer has biases; parts are named as in [`LayerNames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    pub query_key_value: bool,
    pub attention_output: bool,
    pub intermediate: bool,
    pub output: bool,
    /// Whether all normalisations have biases, within and outside the layers.
    pub norms: bool,
}

impl Biases {
    pub const ALL: Self =
        Self { query_key_value: true, attention_output: true, intermediate: true, output: true, norms: true };

    pub const NONE: Self =
        Self { query_key_value: false, attention_output: false, intermediate: false, output: false, norms: false };

    /// Sets the biases of linear layers: the attention block's biases by `attention`, the feed-forward block's biases by
    /// `feed_forward`. Normalisations have none.
    pub(super) fn from_blocks(attention: bool, feed_forward: bool) -> Self {
        let (query_key_value, attention_output) = (attention, attention);
        Self { query_key_value, attention_output, intermediate: feed_forward, output: feed_forward, norms: false }
    }
}

/// Initial weights of an architecture family: distribution of matrices (embeddings among them), and value of norm weights.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightInitialisation {
    /// Distribution of the weights of matrices, around 0.
    pub distribution: WeightDistribution,
    /// `(part of a matrix's name, scale)`: the scale ([`WeightDistribution`]) of matrices whose name contains the part. The
    /// first match counts; without a match, the scale is `initializer_range`.
    pub scales: Vec<(&'static str, f64)>,
    /// Initial weight of normalisations; 0 in models that add 1 to the weight.
    pub norms: f64,
}

impl Default for WeightInitialisation {
    fn default() -> Self {
        Self { distribution: WeightDistribution::Normal, scales: Vec::new(), norms: 1.0 }
    }
}

/// Distribution from which a matrix's initial weights are drawn, for a given scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightDistribution {
    /// Normal distribution; the scale is its standard deviation.
    Normal,
    /// Normal distribution without values beyond this number of standard deviations from 0. The scale is the standard deviation
    /// before truncation.
    TruncatedNormal(f64),
    /// Uniform distribution from the negative of the scale to the scale.
    Uniform,
}

/// Tensor names of the bias that each attention head adds to its scores by the distance of query and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionBiasNames {
    /// A learnt bias for each bucket of distances (Raffel et al. 2020, section 2.1).
    Buckets {
        /// Tensor name of the bias table, `[rows, heads]`.
        table: &'static str,
        /// Whether each layer has its own bias table, under the name `table` within the layer.
        in_each_layer: bool,
        /// Number of rows of the bias table; rows beyond `buckets` are unused.
        rows: usize,
        /// Number of buckets, half of them for each direction.
        buckets: usize,
        /// Distance, in tokens, from which on all distances share the last bucket of their direction. This bucket may begin at
        /// a shorter distance.
        longest_distance: usize,
    },
    /// ALiBi (Press et al. 2022) in both directions: each attention head subtracts the distance times its own slope.
    Slopes,
}

/// Tensor names of DeBERTa's relative score terms: query times distance embedding, and key times distance embedding (He
/// et al. 2021).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DisentangledNames {
    /// Embedding table of distances, from which each layer projects position keys and position queries.
    pub table: &'static str,
    /// Normalisation over each row of `table`, if there is one.
    pub norm: Option<&'static str>,
    /// Projection of `table` to position keys, which are multiplied by queries; `None`: scores have no such term.
    pub keys: Option<&'static str>,
    /// Whether the projection `keys` has a bias; the projection `queries` always has one.
    pub has_key_bias: bool,
    /// Projection of `table` to position queries, which are multiplied by keys; `None`: scores have no such term.
    pub queries: Option<&'static str>,
    /// Row of `table` for each distance.
    pub distance_rows: DistanceRowMap,
}

/// Tensor names of the linear layers to queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKeyValue {
    /// Three linear layers: `[queries, keys, values]`.
    Separate([&'static str; 3]),
    /// One linear layer, whose outputs are all queries, then all keys, then all values.
    Stacked(&'static str),
    /// One linear layer, whose outputs are query, key and value of the first attention head, then of the next head.
    /// Dimensions of queries and keys that rotate as a pair are adjacent.
    HeadByHead(&'static str),
    /// As `HeadByHead`, but the dimensions of a rotating pair lie in the first and second half of the rotating dimensions.
    HeadByHeadInHalves(&'static str),
    /// As `HeadByHead`, but the linear layer has no bias and nothing rotates. The biases of queries and values are
    /// separate tensors; keys have none.
    HeadByHeadBiased {
        /// Tensor name of the linear layer to queries, keys and values.
        part: &'static str,
        /// Names of the biases, `[queries, values]`.
        biases: [&'static str; 2],
    },
}

/// Tensor names of the linear layers before the activation of a feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intermediate {
    /// One linear layer; the activation is applied to all its outputs.
    Plain(&'static str),
    /// Two linear layers of a gated linear unit. The activation is applied to the first layer's outputs, which then multiply
    /// the second layer's outputs.
    Gated([&'static str; 2]),
    /// Both linear layers of a gated linear unit in one tensor; the activation is applied to the first half of its outputs.
    GateFirst(&'static str),
    /// Both linear layers of a gated linear unit in one tensor; the activation is applied to the second half of its outputs.
    GateSecond(&'static str),
}

/// Tensor names of the parts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerNames {
    pub query_key_value: QueryKeyValue,
    /// Normalisations of each attention head's `[queries, keys]`, if there are any.
    pub query_key_norms: Option<[&'static str; 2]>,
    /// Normalisations of the `[attention, feed-forward]` blocks' outputs before they are added to the residual stream, if there
    /// are any.
    pub block_output_norms: Option<[&'static str; 2]>,
    /// Embedding of distances, in families that can have relative positions.
    pub distances: Option<&'static str>,
    /// Output projection of the attention block.
    pub attention_output: &'static str,
    /// Normalisation of the attention block: over its sum with the residual stream (post-norm), or over its input (pre-norm).
    pub attention_norm: &'static str,
    pub intermediate: Intermediate,
    /// Linear layer after the activation of the feed-forward block.
    pub output: &'static str,
    /// Normalisation of the feed-forward block: over its sum with the residual stream (post-norm), or over its input (pre-norm).
    pub output_norm: &'static str,
}

/// Tensor names of a head that predicts tokens, without the prefix of the encoder. The head is a linear layer from the hidden
/// states to the width of the embeddings, an activation, a normalisation, and the product with each token's embedding, plus a
/// bias. Some families have only the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenHeadNames {
    /// Linear layer and normalisation before the product with the tokens' embeddings, if the head has them.
    pub transform: Option<TransformNames>,
    /// Embeddings that the head multiplies, `[vocab, embedding width]`. The input embeddings take their place if both are tied.
    pub decoder: &'static str,
    /// Names of the bias over tokens, `[separate vector, bias of the last linear layer]`; `None`: the head has no such bias. In
    /// transformers, prediction heads with tied embeddings use the separate vector, others the bias of the linear layer.
    /// Checkpoints hold either or both.
    pub bias: Option<[&'static str; 2]>,
    /// Activation of the prediction head; `None`: the activation of the encoder's feed-forward blocks.
    pub activation: Option<Activation>,
}

/// Tensor names of the transform in a prediction head: the layers between the hidden states and the product with the
/// token embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformNames {
    /// Linear layer from the hidden states to the width of the embeddings.
    pub dense: &'static str,
    /// Normalisation after the linear layer `dense` and the activation.
    pub norm: &'static str,
    /// Whether `[dense, norm]` have biases.
    pub biases: [bool; 2],
}

impl TransformNames {
    /// Makes the names of a transform whose linear layer and normalisation both have biases.
    pub(super) const fn biased(dense: &'static str, norm: &'static str) -> Self {
        Self { dense, norm, biases: [true, true] }
    }
}

impl TokenHeadNames {
    /// Makes the names of a prediction head whose transform has biases, with the activation of the encoder.
    pub(super) const fn biased(
        [dense, norm]: [&'static str; 2],
        decoder: &'static str,
        bias: [&'static str; 2],
    ) -> Self {
        Self { transform: Some(TransformNames::biased(dense, norm)), decoder, bias: Some(bias), activation: None }
    }

    /// Prediction head that is one matrix without transform or bias, by its tensor name in most families.
    pub(super) const LM_HEAD: Self = Self { transform: None, decoder: "lm_head.weight", bias: None, activation: None };

    /// Tensor that marks a checkpoint with this prediction head: the transform's linear layer, or else the tokens' embeddings.
    pub fn marker_tensor(&self) -> &'static str {
        self.transform.map_or(self.decoder, |transform| transform.dense)
    }
}

/// Tensor names of a discriminator's head, without the prefix of the encoder. The head is a linear layer, an activation, and a
/// linear layer to one logit: whether the token was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscriminatorNames {
    /// First linear layer; a checkpoint that has it is a discriminator.
    pub dense: &'static str,
    /// Linear layer to the logit.
    pub output: &'static str,
}

/// Number of groups of each grouped convolution that replaces a linear layer in SqueezeBERT. Such a convolution is a
/// linear layer, applied token by token, whose outputs depend only on the inputs in their own group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionGroups {
    /// Numbers of groups in the convolutions for `[queries, keys, values]`.
    pub query_key_value: [usize; 3],
    /// Number of groups of the output projection.
    pub attention_output: usize,
    /// Number of groups of the convolution before the activation.
    pub intermediate: usize,
    /// Number of groups of the convolution after the activation.
    pub output: usize,
}

/// Constant that a family adds to each embedding of plain text: the embedding of a feature, such as a layout box, at its
/// default in transformers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainTextConstant {
    /// Sum of the listed rows of embedding tables; a row listed twice is added twice.
    Rows(Vec<EmbeddingRow>),
    /// MarkupLM's embedding of a token that lies in no markup tree.
    Markup(Markup),
}

/// One row of an embedding table, by the table's tensor name and the row's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingRow {
    /// Tensor name of the embedding table, without `.weight`.
    pub table: String,
    /// Number of rows of the embedding table.
    pub rows: usize,
    /// Index of this row in the embedding table, counted from 0.
    pub row: usize,
}

/// MarkupLM's embedding of a path of tags and subscripts (Li et al. 2022, 3.1). Each depth has the sum of a tag row and a
/// subscript row. The sums of all depths are concatenated, and pass a linear layer, ReLU and a linear layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markup {
    /// Path of a token outside any markup: for each depth, the table rows `[empty tag, empty subscript]`.
    pub empty_path: Vec<[EmbeddingRow; 2]>,
    /// Width of the embedding tables of `empty_path`.
    pub width: usize,
    /// Linear layer before the ReLU.
    pub inner: &'static str,
    /// Number of outputs of `inner`.
    pub inner_width: usize,
    /// Linear layer after the ReLU.
    pub output: &'static str,
}

impl TensorNames {
    /// Makes names for layers without shared parameters, with the prefixes `{stem}.0`, `{stem}.1` and so on.
    pub(super) fn with_numbered_layers(parts: &'static LayerNames, stem: &str, config: &Config) -> Self {
        Self::new(parts, (0..config.num_hidden_layers).map(|number| format!("{stem}.{number}")).collect())
    }

    /// Checks the config's sizes, and makes tensor names by [`TensorNames::with_numbered_layers`]. Fails if a size fits no
    /// encoder, or if `layer_norm_eps` is implausible.
    pub(super) fn check_config_and_name(
        config: Config,
        parts: &'static LayerNames,
        stem: &str,
    ) -> Result<(Config, Self)> {
        let config = config.check_sizes()?;
        let names = Self::with_numbered_layers(parts, stem, &config);
        Ok((config, names))
    }

    /// Checks the config, and makes tensor names with numbered layers for a pre-norm model whose embeddings have no
    /// segments and no normalisation. `[words, positions]` are tensor names of embeddings; an empty name means that
    /// there is none. Fails if a size fits no encoder.
    pub(super) fn pre_norm(
        config: Config,
        (parts, stem): (&'static LayerNames, &str),
        [words, positions]: [&'static str; 2],
        final_norm: &'static str,
    ) -> Result<(Config, Self)> {
        let (config, names) = Self::check_config_and_name(config, parts, stem)?;
        let embeddings = EmbeddingNames { words, positions, segments: "" };
        Ok((config, Self { embeddings, embedding_norm: None, final_norm: Some(final_norm), ..names }))
    }

    /// Makes names with the layer parts `parts` and the layer prefixes `layers`; all other names are BERT's.
    pub(super) fn new(parts: &'static LayerNames, layers: Vec<String>) -> Self {
        Self {
            embeddings: EmbeddingNames {
                words: "embeddings.word_embeddings",
                positions: "embeddings.position_embeddings",
                segments: "embeddings.token_type_embeddings",
            },
            embedding_norm: Some("embeddings.LayerNorm"),
            plain_text: None,
            projection: None,
            layer_parts: parts,
            layers,
            biases: Biases::ALL,
            is_transposed: false,
            norms_add_one: false,
            initialisation: WeightInitialisation::default(),
            has_first_norm: true,
            convolutions: None,
            position_bias: None,
            disentangled: None,
            frequencies: &[],
            final_norm: None,
            alternative: None,
        }
    }

    /// Iterates over all naming schemes of the family: these names and their chain of alternatives.
    fn spellings(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |names| names.alternative.as_deref())
    }

    /// Weight name of the first layer's attention output projection, in each naming scheme of the family.
    pub fn marker_tensors(&self) -> Vec<String> {
        self.spellings().filter_map(Self::marker_tensor).collect()
    }

    /// Weight name of the first layer's attention output projection; `None` without layers.
    fn marker_tensor(&self) -> Option<String> {
        self.layers.first().map(|stem| format!("{stem}.{}.weight", self.layer_parts.attention_output))
    }

    /// Number of the layer in a tensor's name, which may exceed the model's last; `None` if the tensor belongs to no layer.
    pub fn layer_number(&self, tensor: &str) -> Option<usize> {
        let mut stems = self.spellings().filter_map(|names| names.layers.first()?.strip_suffix('0'));
        stems.find_map(|stem| tensor.strip_prefix(stem)?.split('.').next()?.parse().ok())
    }

    /// Returns the naming scheme of a checkpoint. It is the family's first scheme whose [marker tensor](Self::marker_tensors)
    /// the checkpoint has, as `has` tells, or `self`, the usual names, if there is none.
    pub fn matching_spelling(&self, has: impl Fn(&str) -> bool) -> &Self {
        self.spellings().find(|names| names.marker_tensor().is_some_and(|sign| has(&sign))).unwrap_or(self)
    }
}
