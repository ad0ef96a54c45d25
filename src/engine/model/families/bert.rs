//! BERT (Devlin et al. 2019): transformers' `BertModel`, identical models under other names, and models that change one part of
//! BERT or add embeddings to it.

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;

use super::{
    Biases, EmbeddingRow, Family, Intermediate, LayerNames, Markup, PlainTextConstant, PositionBiasNames,
    QueryKeyValue, TensorNames, TokenHeadNames,
};
use crate::model::config::{
    Activation, Config, ConfigKey, MAX_SIZE, PositionEmbedding, config_struct, config_value, keys, parse_fields,
    wrong_value,
};
use crate::system::errors::ErrorExt;
use crate::system::printable::shorten;

pub(super) const BERT: Family = Family {
    model_type: "bert",
    class_prefix: "Bert",
    prefix: "bert.",
    wrapper_prefixes: &[],
    ignored_tensors: &[],
    token_heads: &[HEAD],
    discriminator: None,
    read,
};

/// Tensor names of BERT's masked-LM head.
pub(super) const HEAD: TokenHeadNames = TokenHeadNames::biased(
    ["cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"],
    "cls.predictions.decoder.weight",
    ["cls.predictions.bias", "cls.predictions.decoder.bias"],
);

/// Tensor names of a BERT layer, which RoBERTa and ELECTRA share.
pub(super) const LAYER: LayerNames = LayerNames {
    query_key_value: QueryKeyValue::Separate(["attention.self.query", "attention.self.key", "attention.self.value"]),
    query_key_norms: None,
    block_output_norms: None,
    distances: Some("attention.self.distance_embedding"),
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    intermediate: Intermediate::Plain("intermediate.dense"),
    output: "output.dense",
    output_norm: "output.LayerNorm",
};

/// Tensor names of a BERT layer in families with absolute positions only.
pub(super) const LAYER_WITHOUT_DISTANCES: LayerNames = LayerNames { distances: None, ..LAYER };

/// Checks the config, and makes BERT's tensor names for absolute positions. Fails if a size fits no encoder.
pub(super) fn check_and_name_absolute(config: Config) -> Result<(Config, TensorNames)> {
    TensorNames::check_config_and_name(config, &LAYER_WITHOUT_DISTANCES, "encoder.layer")
}

fn read(text: &str) -> Result<(Config, TensorNames)> {
    match read_alibi(text)? {
        Some(alibi) => Ok(alibi),
        None => TensorNames::check_config_and_name(Config::parse(text)?, &LAYER, "encoder.layer"),
    }
}

const JINA_LAYER: LayerNames = LayerNames {
    intermediate: Intermediate::GateFirst("mlp.gated_layers"),
    output: "mlp.wo",
    output_norm: "mlp.layernorm",
    ..LAYER_WITHOUT_DISTANCES
};

const MOSAIC_LAYER: LayerNames =
    LayerNames { query_key_value: QueryKeyValue::Stacked("attention.self.Wqkv"), ..JINA_LAYER };

const ALIBI_KEYS: &[ConfigKey] = keys! {
    hidden_act = "gelu", layer_norm_eps, type_vocab_size, tie_word_embeddings: _ = true
};

/// Reads the config of a BERT whose attention heads subtract a multiple of the distance from their scores (ALiBi, Press et al.
/// 2022), in both directions: JinaBERT v2 (Günther et al. 2023), MosaicBERT (Portes et al. 2023), DNABERT-2 (Zhou et al. 2024).
/// `None` for other models. Fails if a field has a value that is not supported.
fn read_alibi(text: &str) -> Result<Option<(Config, TensorNames)>> {
    // These two keys may have a value of any type in a BERT without ALiBi.
    let position_type = config_value!(text, position_embedding_type: Value = Value::Null)?;
    let starting_size = config_value!(text, alibi_starting_size: Value = Value::Null)?;
    if position_type != "alibi" && starting_size.is_null() {
        return Ok(None);
    }
    // Files and classes of the model's own code.
    let code = config_value!(text, auto_map: Value = Value::Null)?.to_string();
    let variant = || {
        let why = "JinaBERT v2 of the code, de, es and zh models, which normalises queries and keys, is not supported";
        anyhow!("auto_map names qk-post-norm: {why}").with_value(shorten(&code))
    };
    ensure!(!code.contains("qk-post-norm"), variant());
    let config = Config::read(text, &[ALIBI_KEYS])?;
    let position_type = config_value!(text, position_embedding_type: Option<String> = None)?;
    // Length of a table in MosaicBERT's code; JinaBERT has no such key.
    let starting_size = config_value!(text, alibi_starting_size: Option<usize> = None)?;
    // Type of JinaBERT's feed-forward block: `original`, `geglu` or `reglu`.
    let block_type = config_value!(text, feed_forward_type: Option<String> = None)?;
    let is_jina = starting_size.is_none() && position_type.is_some();
    let (gated, hidden_act, parts) = match block_type.as_deref() {
        Some("geglu") => (true, Activation::Gelu, &JINA_LAYER),
        Some("reglu") => (true, Activation::Relu, &JINA_LAYER),
        Some("original") => (false, config.hidden_act, &LAYER_WITHOUT_DISTANCES),
        None if is_jina => (false, config.hidden_act, &LAYER_WITHOUT_DISTANCES),
        None => (true, config.hidden_act, &MOSAIC_LAYER),
        Some(other) => {
            let shown = shorten(other);
            bail!(anyhow!("feed_forward_type is {shown} (supported: original, geglu, reglu)").with_value(other))
        }
    };
    let config =
        Config { gated, position_embedding_type: PositionEmbedding::None, is_unbounded: true, hidden_act, ..config };
    let (config, names) = TensorNames::check_config_and_name(config, parts, "encoder.layer")?;
    let biases = Biases { intermediate: !gated, ..Biases::ALL };
    Ok(Some((config, TensorNames { biases, position_bias: Some(PositionBiasNames::Slopes), ..names })))
}

pub(super) fn read_bert_generation(text: &str) -> Result<(Config, TensorNames)> {
    check_and_name_absolute(Config { type_vocab_size: 0, ..Config::parse(text)? })
}

config_struct! {
    /// Keys of transformers' `BigBirdConfig` that [`Config`] lacks, with its defaults.
    struct BigBirdConfig {
        attention_type: String = "block_sparse".to_owned(),
        block_size: usize = 64,
        num_random_blocks: usize = 3,
        use_bias: bool = true,
        rescale_embeddings: bool = false,
    }
}

impl BigBirdConfig {
    /// Length in tokens of the longest sequence with full attention; `None` if there is no limit. `BigBirdModel` computes full
    /// attention up to the minimum number of blocks for block-sparse attention: two global blocks, three window blocks, and
    /// twice the number of random blocks. Fails if `attention_type` is unknown or `block_size` is 0.
    fn full_attention_limit(&self) -> Result<Option<usize>> {
        match self.attention_type.as_str() {
            "original_full" => Ok(None),
            "block_sparse" => {
                let blocks = self.num_random_blocks.saturating_mul(2).saturating_add(5);
                let tokens = blocks.saturating_mul(self.block_size);
                ensure!(tokens > 0, anyhow!("block_size is 0").with_value(0));
                Ok(Some(tokens))
            }
            other => bail!(
                anyhow!("attention_type {other:?} is not supported (supported: original_full, block_sparse)")
                    .with_value(other)
            ),
        }
    }
}

pub(super) fn read_big_bird(text: &str) -> Result<(Config, TensorNames)> {
    let options: BigBirdConfig = parse_fields(text)?;
    ensure!(options.use_bias, "use_bias is false: queries, keys and values without biases are not supported");
    ensure!(!options.rescale_embeddings, "rescale_embeddings is true: rescaled embeddings are not supported");
    check_and_name_absolute(Config { full_attention: options.full_attention_limit()?, ..Config::parse(text)? })
}

pub(super) fn read_ernie(text: &str) -> Result<(Config, TensorNames)> {
    let has_task = config_value!(text, use_task_id: bool = false)?;
    let rows = config_value!(text, task_type_vocab_size: usize = 3)?;
    let (config, names) = check_and_name_absolute(Config::parse(text)?)?;
    let task = EmbeddingRow { table: "embeddings.task_type_embeddings".to_owned(), rows, row: 0 };
    Ok((config, TensorNames { plain_text: has_task.then(|| PlainTextConstant::Rows(vec![task])), ..names }))
}

/// Names of the embedding tables for the bounding box of a word in LayoutLM: left and right, top and bottom, height and width.
const BOX_FEATURES: [&str; 6] = ["x", "x", "y", "y", "h", "w"];

pub(super) fn read_layoutlm(text: &str) -> Result<(Config, TensorNames)> {
    let rows = config_value!(text, max_2d_position_embeddings: usize = 1024)?;
    let (config, names) = check_and_name_absolute(Config::parse(text)?)?;
    let zero =
        |feature: &str| EmbeddingRow { table: format!("embeddings.{feature}_position_embeddings"), rows, row: 0 };
    Ok((config, TensorNames { plain_text: Some(PlainTextConstant::Rows(BOX_FEATURES.map(zero).into())), ..names }))
}

/// Maximum depth of a markup tree; published models have 50 levels.
const MAX_MARKUP_DEPTH: usize = 1 << 10;

pub(super) fn read_markuplm(text: &str) -> Result<(Config, TensorNames)> {
    let padding = config_value!(text, pad_token_id: u32 = 0)?;
    let depth = config_value!(text, max_depth: usize = 50)?;
    let width = config_value!(text, xpath_unit_hidden_size: usize = 32)?;
    let tag_rows = config_value!(text, max_xpath_tag_unit_embeddings: usize = 256)?;
    let subscript_rows = config_value!(text, max_xpath_subs_unit_embeddings: usize = 1024)?;
    let empty_tag = config_value!(text, tag_pad_id: usize = 216)?;
    let empty_subscript = config_value!(text, subs_pad_id: usize = 1001)?;
    let (config, names) = check_and_name_absolute(Config { padding: Some(padding), ..Config::parse(text)? })?;
    for (name, size, most) in [("max_depth", depth, MAX_MARKUP_DEPTH), ("xpath_unit_hidden_size", width, MAX_SIZE)] {
        ensure!((1..=most).contains(&size), wrong_value(name, size, format_args!("1 to {most} are expected")));
    }
    let none = |depth: usize| {
        let tag = ("tag", tag_rows, empty_tag);
        let subscript = ("subs", subscript_rows, empty_subscript);
        [tag, subscript].map(|(kind, rows, row)| {
            let table = format!("embeddings.xpath_embeddings.xpath_{kind}_sub_embeddings.{depth}");
            EmbeddingRow { table, rows, row }
        })
    };
    let markup = Markup {
        empty_path: (0..depth).map(none).collect(),
        width,
        inner: "embeddings.xpath_embeddings.xpath_unitseq2_inner",
        // `XPathEmbeddings` always has this width.
        inner_width: 4 * config.hidden_size,
        output: "embeddings.xpath_embeddings.inner2emb",
    };
    Ok((config, TensorNames { plain_text: Some(PlainTextConstant::Markup(markup)), ..names }))
}

/// The `config.json` of a small BERT, for tests.
#[cfg(test)]
pub(in crate::model) const SMALL_CONFIG_JSON: &str = r#"{"model_type": "bert", "vocab_size": 9, "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "hidden_act": "gelu",
    "max_position_embeddings": 10}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_refused_by_the_name_of_its_code() {
        let text = r#"{"position_embedding_type": "alibi",
            "auto_map": {"AutoModel": "jinaai/jina-bert-v2-qk-post-norm--modeling_bert.JinaBertModel"}}"#;
        insta::assert_snapshot!(read(text).unwrap_err(), @"auto_map names qk-post-norm: JinaBERT v2 of the code, de, es and zh models, which normalises queries and keys, is not supported");
    }

    #[test]
    fn attention_is_full_up_to_eleven_blocks() {
        let of = |text: &str| parse_fields::<BigBirdConfig>(text).unwrap().full_attention_limit();
        // The limit that transformers states for google/bigbird-roberta-base.
        assert_eq!(of("{}").unwrap(), Some(704));
        assert_eq!(of(r#"{"block_size": 2, "num_random_blocks": 1}"#).unwrap(), Some(14));
        assert_eq!(of(r#"{"attention_type": "original_full"}"#).unwrap(), None);
        assert_eq!(of(r#"{"block_size": 0}"#).unwrap_err().to_string(), "block_size is 0");
        let error = of(r#"{"attention_type": "dense"}"#).unwrap_err().to_string();
        assert_eq!(error, "attention_type \"dense\" is not supported (supported: original_full, block_sparse)");
        assert_eq!(of(r#"{"num_random_blocks": 18446744073709551615}"#).unwrap(), Some(usize::MAX));
    }
}
