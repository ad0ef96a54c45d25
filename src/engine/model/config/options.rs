//! Options of an encoder's parts: activation, positions, order of blocks, normalisation, and factor of the embeddings.

use anyhow::{Result, anyhow, bail};
use itertools::Itertools;
use serde::Deserialize;

use crate::system::errors::ErrorExt;
use crate::system::printable::shorten;

/// Activation between the two linear layers of a feed-forward block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Activation {
    /// `x Phi(x)` by the error function, as transformers' `gelu` and `gelu_python`; the default of most families.
    #[default]
    Gelu,
    /// Tanh approximation of GELU (Hendrycks & Gimpel 2016). Several names in `config.json` mean this function.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `x / (1 + e^-x)`, transformers' `silu` and `swish`.
    Silu,
    /// `x / (1 + e^(-1.702 x))`, transformers' `quick_gelu`.
    QuickGelu,
    /// `tanh x`, as in poolers.
    Tanh,
}

impl Activation {
    /// All activations, by their names in `config.json`.
    pub const ALL: &[(&str, Self)] = &[
        ("gelu", Self::Gelu),
        ("gelu_python", Self::Gelu),
        ("gelu_new", Self::GeluTanh),
        ("gelu_pytorch_tanh", Self::GeluTanh),
        ("gelu_fast", Self::GeluTanh),
        ("gelu_accurate", Self::GeluTanh),
        ("relu", Self::Relu),
        ("silu", Self::Silu),
        ("swish", Self::Silu),
        ("quick_gelu", Self::QuickGelu),
        ("tanh", Self::Tanh),
    ];
}

impl TryFrom<String> for Activation {
    type Error = anyhow::Error;

    fn try_from(name: String) -> Result<Self> {
        lookup("activation", &name, Self::ALL)
    }
}

/// Way in which a model encodes the positions of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PositionEmbedding {
    /// An embedding of each position, added to that of the word.
    #[default]
    Absolute,
    /// An embedding of each distance, whose product with the query is added to the score (Shaw et al. 2018).
    RelativeKey,
    /// As `RelativeKey`, and the embedding's product with the key is added too (Huang et al. 2020, method 4).
    RelativeKeyQuery,
    /// No position embedding: positions act only on the attention scores, or not at all.
    #[serde(skip)]
    None,
}

impl PositionEmbedding {
    /// Whether the model has an embedding of each distance between two tokens.
    pub fn is_relative(self) -> bool {
        matches!(self, Self::RelativeKey | Self::RelativeKeyQuery)
    }
}

impl TryFrom<String> for PositionEmbedding {
    type Error = anyhow::Error;

    fn try_from(name: String) -> Result<Self> {
        let all = [
            ("absolute", Self::Absolute),
            ("relative_key", Self::RelativeKey),
            ("relative_key_query", Self::RelativeKeyQuery),
        ];
        let of_others = match name.as_str() {
            "alibi" => "it is supported of the model_type bert alone (Jina v2)",
            "rotary" => {
                "this is jina-embeddings-v3 as its own code has it; what transformers saves of it has the model_type \
                 jina_embeddings_v3, which is supported"
            }
            _ => return lookup("position_embedding_type", &name, &all),
        };
        bail!(anyhow!("position_embedding_type is {name}: {of_others}").with_value(name))
    }
}

/// Order of a layer's attention block, feed-forward block and normalisations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockPlan {
    /// Post-norm: normalises the sum of each block and the residual stream (Vaswani et al. 2017).
    #[default]
    Post,
    /// Pre-norm: normalises the input of each block, and the output of the last layer (Xiong et al. 2020).
    Pre,
    /// Pre-norm with parallel blocks: the attention and feed-forward blocks both read the layer's input (Wang & Komatsuzaki
    /// 2021).
    Parallel,
}

impl BlockPlan {
    /// Whether the inputs of blocks are normalised (pre-norm), instead of the sums of blocks and residual stream.
    pub fn is_pre_norm(self) -> bool {
        self != Self::Post
    }
}

/// Function that normalises hidden states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormKind {
    /// Layer normalisation: subtracts the mean, and divides by the standard deviation (Ba et al. 2016).
    #[default]
    Layer,
    /// RMS normalisation: divides by the root of the mean square (Zhang & Sennrich 2019).
    RootMeanSquare,
}

/// Factor by which token embeddings are multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum EmbeddingScale {
    /// Token embeddings are not scaled.
    #[default]
    One,
    /// Token embeddings are multiplied by this number.
    Constant(f32),
    /// ESM's `token_dropout` (Rives et al. 2021): a mask has no embedding, and other embeddings are multiplied by
    /// `(1 - 0.15 * 0.8) / (1 - r)`. `r` is the share of masks in the sequence; the factor is 1 at the share of masks in
    /// training.
    WithoutMasks {
        /// Token id of the mask.
        mask: u32,
    },
}

impl EmbeddingScale {
    /// Returns a function from a token id to the factor of its embedding in the sequence `ids`. Under `WithoutMasks`, the
    /// factor of a mask is 0.
    pub fn token_factor(self, ids: &[u32]) -> impl Fn(u32) -> f32 {
        /// Share of mask tokens in training: 15 % of the tokens were selected, and 80 % of these became masks.
        const TRAINING_MASK_SHARE: f32 = 0.15 * 0.8;
        let (factor, mask) = match self {
            Self::One => (1.0, None),
            Self::Constant(factor) => (factor, None),
            Self::WithoutMasks { mask } => {
                let masks = ids.iter().filter(|&&id| id == mask).count();
                ((1.0 - TRAINING_MASK_SHARE) / (1.0 - masks as f32 / ids.len() as f32), Some(mask))
            }
        };
        move |id| if Some(id) == mask { 0.0 } else { factor }
    }
}

/// Looks up `name` in the pairs `all` of names and values. Fails if no pair has this name; the error begins with `what`, the
/// kind of name, and lists all names.
pub fn lookup<T: Copy>(what: &str, name: &str, all: &[(&str, T)]) -> Result<T> {
    let Some((_, found)) = all.iter().find(|(known, _)| *known == name) else {
        let known = all.iter().map(|(known, _)| *known).join(", ");
        bail!(anyhow!("{what} {:?} is not supported (supported: {known})", shorten(name)).with_value(name));
    };
    Ok(*found)
}

/// Mapping from distances to rows of DeBERTa's table of distance embeddings, which has `2 * span` rows (He et al. 2021). A
/// distance is the query position less the key position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceRowMap {
    /// Half the number of rows of the embedding table.
    pub span: usize,
    /// Number of distance buckets in each direction. Distances up to half this number have a row each; longer distances
    /// share rows in logarithmic ranges. `None`: each distance has its own row.
    pub buckets: Option<usize>,
    /// Longest distance, in tokens, that the buckets were made for.
    pub longest_distance: usize,
}

impl DistanceRowMap {
    /// Row of the embedding table for a distance (`make_log_bucket_position` in Microsoft's code and transformers').
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded up from a number above 0")]
    pub fn row(self, distance: isize) -> usize {
        let n = distance.unsigned_abs();
        let middle = self.buckets.map_or(usize::MAX, |buckets| buckets / 2);
        let place = if n <= middle {
            n
        } else {
            let whole = ((self.longest_distance - 1) as f64 / middle as f64).ln();
            ((n as f64 / middle as f64).ln() / whole * (middle - 1) as f64).ceil() as usize + middle
        };
        let (span, place) = (self.span.cast_signed(), place.min(2 * self.span).cast_signed());
        (if distance < 0 { span - place } else { span + place }).clamp(0, 2 * span - 1).cast_unsigned()
    }

    /// Number of rows of the embedding table.
    pub fn rows(self) -> usize {
        2 * self.span
    }
}

#[cfg(test)]
mod tests {
    use super::DistanceRowMap;

    #[test]
    fn places_of_distances() {
        let all = DistanceRowMap { span: 4, buckets: None, longest_distance: 4 };
        assert_eq!([-9, -4, -1, 0, 3, 4].map(|distance| all.row(distance)), [0, 0, 3, 4, 7, 7]);
        // Computed with transformers' `make_log_bucket_position(distance, 8, 24)`.
        let some = DistanceRowMap { span: 8, buckets: Some(8), longest_distance: 24 };
        let found = [0, 1, 4, 5, 6, 7, 8, 9, 12, 13, 22, 23].map(|distance| some.row(distance) - 8);
        assert_eq!(found, EXPECTED);
        let below = [1, 4, 5, 12, 23].map(|distance: isize| 8 - some.row(-distance));
        assert_eq!(below, [1, 4, 5, EXPECTED[8], 7]);
    }

    const EXPECTED: [usize; 12] = [0, 1, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7];
}
