//! The sizes and options of an encoder, under the names of BERT's `config.json`, whatever names its own family uses.

pub mod cost;
mod fields;
mod options;
mod rotary;
mod spelling;

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use crate::model::grid::HeadPlace;
use crate::model::grid::visibility::LayerClasses;
use crate::system::errors::ErrorExt;

pub(super) use fields::{parse_fields, wrong_value};
pub(super) use options::lookup;
pub use options::{Activation, BlockPlan, DistanceRowMap, EmbeddingScale, NormKind, PositionEmbedding};
pub use rotary::{Rotary, RotaryScaling, parse_rotary};
pub(super) use spelling::ConfigKey;

/// The sizes and options of an encoder, with the names of transformers' `BertConfig`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Config {
    /// Rows of the token embedding.
    pub vocab_size: usize,
    /// Width of the input embeddings, if a linear layer leads from them to `hidden_size`; `None`: they have that width.
    #[serde(skip)]
    pub embedding_size: Option<usize>,
    /// Width of the token embeddings that the masked-LM head multiplies; `None`: as wide as the input embeddings.
    #[serde(skip)]
    pub output_embedding_size: Option<usize>,
    /// Width of the hidden states.
    pub hidden_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    /// Width of one attention head's queries, keys and values; `None`: `hidden_size / num_attention_heads`.
    #[serde(default)]
    pub head_size: Option<usize>,
    /// Number of key and value heads per layer; groups of attention heads share a key and value head (grouped-query attention,
    /// Ainslie et al. 2023). `None`: one per attention head.
    #[serde(default)]
    pub key_value_heads: Option<usize>,
    /// Factor of the attention scores; `None`: `1 / sqrt(head_dim)`.
    #[serde(skip)]
    pub score_scale: Option<f64>,
    /// Bound `c` of the attention scores, which become `c tanh(score / c)`; `None`: no bound.
    #[serde(skip)]
    pub score_cap: Option<f32>,
    /// Order of the blocks and normalisations in a layer.
    #[serde(skip)]
    pub blocks: BlockPlan,
    /// Kind of all normalisations: layer norm or RMS norm.
    #[serde(skip)]
    pub norm: NormKind,
    /// Whether a feed-forward block is a gated linear unit (Shazeer 2020).
    #[serde(skip)]
    pub gated: bool,
    /// Factor of the token embeddings, applied before other embeddings are added and normalised.
    #[serde(skip)]
    pub embedding_scale: EmbeddingScale,
    /// Width between the two linear layers of a feed-forward block.
    pub intermediate_size: usize,
    /// Activation of the feed-forward blocks.
    pub hidden_act: Activation,
    /// Number of rows of the position embedding. Without a position embedding: tokens of the longest sequence for which
    /// the model was made.
    pub max_position_embeddings: usize,
    #[serde(default)]
    pub position_embedding_type: PositionEmbedding,
    /// Id of the padding token, in families that number positions from it as RoBERTa does: the first token then has
    /// position `padding + 1`. `None`: the first token has the position `first_position`.
    #[serde(skip)]
    pub padding: Option<u32>,
    /// Position of the first token if `padding` is `None`.
    #[serde(skip)]
    pub first_position: usize,
    /// Rotary position encoding of each layer, `[layers]`; `None` for a layer without rotation. Empty if no layer
    /// rotates.
    #[serde(skip)]
    pub rotary: Vec<Option<Rotary>>,
    /// Visible keys of each query, for each layer.
    #[serde(skip)]
    pub visibility: LayerClasses,
    /// Attention heads that were pruned before the checkpoint was saved, ascending. The checkpoint has no weights for them.
    #[serde(skip)]
    pub absent: Vec<HeadPlace>,
    /// Whether `max_position_embeddings` is no limit, since nothing in the model depends on an absolute position.
    #[serde(skip)]
    pub is_unbounded: bool,
    /// Length in tokens of the longest sequence with full attention. Longer ones have sparse attention and do not run. `None`: no
    /// limit.
    #[serde(skip)]
    pub full_attention: Option<usize>,
    /// Rows of the segment embedding; 0: there is none, and segments do not matter. Default 2, as in transformers' `BertConfig`.
    #[serde(default = "fields::default_segments")]
    pub type_vocab_size: usize,
    /// Epsilon, added to the variance in layer normalisation. Default 1e-12, as in transformers' `BertConfig`.
    #[serde(default = "fields::default_epsilon")]
    pub layer_norm_eps: f64,
    /// Standard deviation of the weights before training. Default 0.02, as in every family of transformers.
    pub initializer_range: f64,
    /// Whether the head that predicts tokens uses their input embeddings. Default true, as in most families of transformers.
    #[serde(default = "fields::default_tied")]
    pub tie_word_embeddings: bool,
    /// Soft bound `c` of the logits, each becoming `c tanh(logit / c)` (Gemma Team 2024). `None`: no bound.
    #[serde(skip)]
    pub logit_cap: Option<f32>,
}

/// Makes the list of a family's config keys, each written `field: name | other_name = default`. Without names, the key has the
/// field's name; with the name `_`, the field is not read from the file.
macro_rules! keys {
    ($($field:ident $(: $($name:tt)|+)? $(= $default:literal)?),+ $(,)?) => {
        &[$($crate::model::config::ConfigKey {
            field: { let _ = std::mem::offset_of!($crate::model::config::Config, $field); stringify!($field) },
            names: &[$($(stringify!($name)),+)?],
            default: concat!($(stringify!($default))?),
        }),+]
    };
}
pub(super) use keys;

/// Declares a struct of keys of a `config.json`, each with its default: `key: Type = default`.
macro_rules! config_struct {
    ($(#[$attribute:meta])* struct $name:ident { $($(#[$key_attribute:meta])* $key:ident: $kind:ty = $default:expr),+ $(,)? }) => {
        $(#[$attribute])*
        #[derive(serde::Deserialize)]
        #[serde(default)]
        struct $name { $($(#[$key_attribute])* $key: $kind),+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default),+ }
            }
        }
    };
}
pub(super) use config_struct;

/// Reads one key of the text of a `config.json`: `text, key: Type = default`, or without a default. The default is that
/// of the family's configuration class in transformers (`BertConfig`, `GPT2Config` and so on), or `None` for a missing
/// key. Fails if the key is missing without a default, or has a value of another type.
macro_rules! config_value {
    ($text:expr, $key:ident: $kind:ty) => {{
        #[derive(serde::Deserialize)]
        struct OneKey {
            $key: $kind,
        }
        $crate::model::config::parse_fields::<OneKey>($text).map(|OneKey { $key }| $key)
    }};
    ($text:expr, $key:ident: $kind:ty = $default:expr) => {{
        $crate::model::config::config_struct! { struct OneKey { $key: $kind = $default } }
        $crate::model::config::parse_fields::<OneKey>($text).map(|OneKey { $key }| $key)
    }};
}
pub(super) use config_value;

/// Config fields that every family reads, under BERT's names unless the family's own list gives other names.
const SHARED_KEYS: &[ConfigKey] = keys! {
    vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, max_position_embeddings,
    hidden_act, type_vocab_size: _ = 0, initializer_range = 0.02, tie_word_embeddings
};

/// Maximum of any size in a config: the largest vocabularies have about a million entries (XLM-V, Liang et al. 2023). The product
/// of two sizes and a small number then fits into 64 bits.
pub(super) const MAX_SIZE: usize = 1 << 24;

/// Maximum number of layers; DeepNet (Wang et al. 2022) has 1000, to show that such a depth can be trained.
const MAX_LAYERS: usize = 1 << 10;

/// Maximum number of attention heads in a model: Llama 70B (Touvron et al. 2023) has 80 layers of 64. The sums of each head take
/// about 100 KB in each worker.
pub const MAX_ATTENTION_HEADS: usize = 1 << 13;

impl Config {
    /// Reads the text of a `config.json` by lists of keys; an earlier list has precedence. A field in no list gets its default,
    /// whatever the file says. Sizes are not checked.
    pub(super) fn read(text: &str, lists: &[&[ConfigKey]]) -> Result<Self> {
        spelling::read(text, lists.iter().chain([&SHARED_KEYS]).copied().flatten())
    }

    /// Parses the text of a `config.json` with BERT's names. Fails if a field is missing or has an unsupported value.
    pub fn parse(text: &str) -> Result<Self> {
        let config = Self::read(text, &[keys! { type_vocab_size, layer_norm_eps, position_embedding_type }])?;
        ensure!(config.type_vocab_size > 0, anyhow!("type_vocab_size is 0").with_value(0));
        Ok(config)
    }

    /// Checks the sizes, and returns the config unchanged. Fails if a size is zero, too large, or does not fit the other sizes.
    pub fn check_sizes(self) -> Result<Self> {
        let sizes = [
            ("vocab_size", self.vocab_size, MAX_SIZE),
            ("hidden_size", self.hidden_size, MAX_SIZE),
            ("embedding_size", self.embedding_width(), MAX_SIZE),
            ("output_embedding_size", self.output_embedding_width(), MAX_SIZE),
            ("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS),
            ("num_attention_heads", self.num_attention_heads, MAX_SIZE),
            ("intermediate_size", self.intermediate_size, MAX_SIZE),
            ("max_position_embeddings", self.max_position_embeddings, MAX_SIZE),
        ];
        for (name, size, most) in sizes {
            ensure!(size > 0, anyhow!("{name} is 0").with_value(0));
            ensure!(size <= most, wrong_value(name, size, format_args!("no model has more than {most}")));
        }
        let types = self.type_vocab_size;
        ensure!(types <= MAX_SIZE, anyhow!("type_vocab_size is {types}").with_value(types));
        let (hidden, heads) = (self.hidden_size, self.num_attention_heads);
        ensure!(
            self.head_size.is_some() || hidden.is_multiple_of(heads),
            "hidden_size {hidden} is not a multiple of num_attention_heads {heads}"
        );
        let size = self.head_dim();
        let width = size.saturating_mul(heads);
        ensure!((1..=MAX_SIZE).contains(&width), "{heads} heads of {size} values are {width}");
        let groups = self.key_value_heads.unwrap_or(heads);
        let reason = format_args!("it has to divide num_attention_heads {heads}");
        ensure!(groups > 0 && heads.is_multiple_of(groups), wrong_value("num_key_value_heads", groups, reason));
        let (layers, all) = (self.num_hidden_layers, self.num_hidden_layers * heads);
        ensure!(
            all <= MAX_ATTENTION_HEADS,
            "num_hidden_layers {layers} times num_attention_heads {heads} are {all} heads: no model has more than {MAX_ATTENTION_HEADS}"
        );
        let (positions, padding) = (self.max_position_embeddings, self.padding.unwrap_or(0));
        let none =
            || anyhow!("max_position_embeddings {positions} leaves no position after the padding index {padding}");
        ensure!(self.max_positioned_tokens() > 0, none().with_value(positions));
        // A smaller epsilon is 0 in f32, and a larger one exceeds the variance; models have 1e-12 to 1e-5.
        let plausible = f64::from(f32::MIN_POSITIVE)..=1.0;
        let epsilon = self.layer_norm_eps;
        let implausible =
            || wrong_value("layer_norm_eps", format!("{epsilon:e}"), "a small positive number is expected");
        ensure!(plausible.contains(&epsilon), implausible());
        Ok(self)
    }

    /// Width of one attention head's queries, keys and values.
    pub fn head_dim(&self) -> usize {
        self.head_size.unwrap_or(self.hidden_size / self.num_attention_heads)
    }

    /// Width of a layer's concatenated attention heads: the number of inputs of the output projection.
    pub fn heads_width(&self) -> usize {
        self.num_attention_heads * self.head_dim()
    }

    /// Attention heads of a layer that were not pruned, ascending.
    pub fn present_heads(&self, layer: usize) -> Vec<usize> {
        (0..self.num_attention_heads).filter(|&head| !self.absent.contains(&HeadPlace { layer, head })).collect()
    }

    /// Factor of the attention scores.
    pub fn score_scale(&self) -> f64 {
        self.score_scale.unwrap_or(1.0 / (self.head_dim() as f64).sqrt())
    }

    /// Number of outputs of the first linear layer of a feed-forward block.
    pub fn feed_forward_width(&self) -> usize {
        if self.gated { 2 * self.intermediate_size } else { self.intermediate_size }
    }

    /// Width of the input embeddings.
    pub fn embedding_width(&self) -> usize {
        self.embedding_size.unwrap_or(self.hidden_size)
    }

    /// Width of the token embeddings that the masked-LM head multiplies.
    pub fn output_embedding_width(&self) -> usize {
        self.output_embedding_size.unwrap_or(self.embedding_width())
    }

    /// Number of parameters in a checkpoint that stores the weights of `layers` layers, without biases and norms. Weights that
    /// layers share are stored only once.
    pub fn parameter_count(&self, layers: usize) -> u64 {
        let rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size;
        let feed_forward = self.feed_forward_width() + self.intermediate_size;
        let layer = (4 * self.heads_width() + feed_forward) * self.hidden_size;
        // Sizes are at most 2^24 and layers 2^10, so that no product or sum reaches 2^62.
        (rows * self.embedding_width() + layers * layer) as u64
    }

    /// Length in tokens of the longest sequence with a position for every token and full attention.
    pub fn max_positioned_tokens(&self) -> usize {
        let embedded = self.max_position_embeddings.saturating_sub(self.first_position_row());
        self.full_attention.map_or(embedded, |longest| embedded.min(longest))
    }

    /// Length in tokens of the longest sequence that can run: [`Config::max_positioned_tokens`], or more if
    /// [`Config::is_unbounded`].
    pub fn max_runnable_tokens(&self) -> usize {
        if self.is_unbounded { self.full_attention.unwrap_or(MAX_SIZE) } else { self.max_positioned_tokens() }
    }

    /// Phrase for messages that follows the number [`Config::max_positioned_tokens`] and says why longer sequences do not run.
    pub fn length_limit_phrase(&self) -> &'static str {
        match self.full_attention {
            Some(longest) if longest == self.max_positioned_tokens() => {
                "tokens over which the model's attention is full: over more it is sparse, which is not supported"
            }
            _ => "positions of the model",
        }
    }

    /// Row of the position embedding for the first token of a sequence.
    fn first_position_row(&self) -> usize {
        self.padding.map_or(self.first_position, |padding| padding as usize + 1)
    }

    /// Row of the position embedding for each token of a sentence. If positions are counted from the padding index, a padding
    /// token in the text has that index for its position and does not count.
    pub fn position_rows<'a>(&self, ids: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
        let padding = self.padding;
        let mut next = self.first_position_row();
        ids.iter().map(move |&id| {
            if Some(id) == padding {
                return id as usize;
            }
            next += 1;
            next - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = r#"{"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 8, "hidden_act": "swish", "max_position_embeddings": 10}"#;
        Config::parse(text).unwrap()
    }

    #[test]
    fn what_a_config_leaves_out() {
        let config = config();
        assert_eq!((config.type_vocab_size, config.layer_norm_eps), (2, 1e-12));
        assert_eq!(
            (config.hidden_act, config.position_embedding_type),
            (Activation::Silu, PositionEmbedding::Absolute)
        );
        assert_eq!((config.head_dim(), config.embedding_width(), config.max_positioned_tokens()), (4, 8, 10));
    }

    #[test]
    fn fields_of_another_type_are_named() {
        let text = r#"{"vocab_size": 9, "hidden_size": null}"#;
        let error = Config::parse(text).unwrap_err().to_string();
        assert_eq!(error, "hidden_size: invalid type: null, expected a whole number of 0 or more at line 1 column 37");
    }

    #[test]
    fn an_initializer_range_of_null_is_the_default() {
        let text = r#"{"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 8, "hidden_act": "gelu_python", "max_position_embeddings": 10, "initializer_range": null}"#;
        let found = Config::parse(text).unwrap();
        assert_eq!((found.initializer_range, found.hidden_act), (0.02, Activation::Gelu));
        // Three tables of 8 columns and 9 + 10 + 2 rows, and one layer of 4 * 8 * 8 + 2 * 8 * 8 weights.
        assert_eq!(found.parameter_count(1), 21 * 8 + 6 * 64);
    }

    #[test]
    fn positions_are_counted_from_0_or_from_the_padding_index() {
        let rows = |padding| Config { padding, ..config() }.position_rows(&[0, 5, 1, 7]).collect::<Vec<_>>();
        assert_eq!(rows(None), [0, 1, 2, 3]);
        // The third token is padding.
        assert_eq!(rows(Some(1)), [2, 3, 1, 4]);
        let config = Config { padding: Some(1), ..config() };
        assert_eq!(config.max_positioned_tokens(), 8);
        assert_eq!(config.position_rows(&[0; 8]).last(), Some(9));
        let longest = |full_attention| Config { full_attention, ..config.clone() }.max_positioned_tokens();
        assert_eq!((longest(Some(7)), longest(Some(9))), (7, 8));
    }

    #[test]
    fn sizes_that_fit_no_encoder() {
        let error = |config: Config| config.check_sizes().unwrap_err().to_string();
        assert!(config().check_sizes().is_ok());
        let padded = Config { padding: Some(9), ..config() };
        assert_eq!(error(padded), "max_position_embeddings 10 leaves no position after the padding index 9");
        let padded = Config { padding: Some(u32::MAX), ..config() };
        assert_eq!(error(padded), "max_position_embeddings 10 leaves no position after the padding index 4294967295");
        let deep = Config { num_hidden_layers: usize::MAX, ..config() };
        assert_eq!(error(deep), "num_hidden_layers is 18446744073709551615: no model has more than 1024");
        let many = Config { num_hidden_layers: 1 << 10, num_attention_heads: 16, hidden_size: 16, ..config() };
        assert_eq!(
            error(many),
            "num_hidden_layers 1024 times num_attention_heads 16 are 16384 heads: no model has more than 8192"
        );
        let wide = Config { hidden_size: 1 << 40, ..config() };
        assert_eq!(error(wide), "hidden_size is 1099511627776: no model has more than 16777216");
    }
}
