//! `config.json` of a checkpoint: the architecture family, the sizes, the tensor names, and the attention heads that the
//! checkpoint lacks.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, bail, ensure};
use itertools::Itertools;
use serde_json::Value;

use super::table::FAMILIES;
use super::{Family, TensorNames};
use crate::model::config::{Config, lookup};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::system::counts::format_count;
use crate::system::errors::ErrorExt;
use crate::system::printable::shorten;

/// Endings of the names of encoder classes in transformers, after the name of the family: `BertModel`, `BertForMaskedLM`,
/// `BertGenerationEncoder`, `DPRContextEncoder`.
const CLASS_SUFFIXES: [&str; 5] = ["Model", "For", "Encoder", "ContextEncoder", "QuestionEncoder"];

/// Contents of a `config.json`: family, sizes and tensor names.
#[derive(Clone, Debug)]
pub struct Architecture {
    pub family: Family,
    pub config: Config,
    pub names: TensorNames,
}

impl Architecture {
    /// Numbers of layers and of attention heads per layer.
    pub fn grid(&self) -> HeadGrid {
        HeadGrid { layers: self.config.num_hidden_layers, heads: self.config.num_attention_heads }
    }

    /// Parses the text of a `config.json`. Fails if it is not JSON, names a family that is not supported, lacks a field, or holds
    /// sizes that fit no encoder.
    pub fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text).context("not valid JSON")?;
        ensure_supported(&json)?;
        let family = find_family(&json)?;
        for flag in ["is_decoder", "add_cross_attention"] {
            match json.get(flag) {
                None | Some(Value::Null | Value::Bool(false)) => {}
                Some(Value::Bool(true)) => {
                    bail!(
                        "{flag} is true: of this model_type only encoders are supported, whose tokens attend in both \
                         directions"
                    )
                }
                Some(other) => {
                    let error = anyhow!("{flag} is {}: expected true or false", shorten(&other.to_string()));
                    bail!(error.with_value(other.as_str().unwrap_or(&other.to_string())))
                }
            }
        }
        let (mut config, names) = (family.read)(text)?;
        config.absent = parse_pruned_heads(&json, &family, &config, &names.layers)?;
        ensure!(
            !config.position_embedding_type.is_relative() || names.layer_parts.distances.is_some(),
            "position_embedding_type is relative, which is not supported for {family} (supported: absolute)"
        );
        Ok(Self { family, config, names })
    }
}

/// Architectures that cannot be analysed: (values of `model_type`, reason).
const UNSUPPORTED_MODELS: &[(&[&str], &str)] = &[
    (&["fnet"], "it mixes tokens by a Fourier transform and has no attention heads"),
    (&["funnel"], "it pools the sequence between blocks, so its attention is not a weight for each pair of tokens"),
    (
        &["nystromformer", "yoso", "mra", "reformer", "perceiver", "mamba", "mamba2", "rwkv"],
        "its attention is not a weight for each pair of tokens",
    ),
    (&["xlnet"], "it attends in two streams over permuted orders"),
    (&["xlm", "flaubert"], "its tokenizer is code that is not in the files of the model"),
    (&["gpt_oss"], "it has a learned sink: the weights of a row do not sum to 1"),
    (&["gptj", "gemma", "phi"], SUPPORTED_DECODERS),
    (&["mixtral", "qwen2_moe", "qwen3_moe"], "layers of experts are not supported"),
];

const SUPPORTED_DECODERS: &str = "the supported decoders are Gemma 2 and 3, GPT-2, GPT-Neo, GPT-NeoX, Llama, Mistral, ModernBERT, OPT, Qwen2, Qwen3 and SmolLM3";

/// Fails if a `config.json` describes an unsupported architecture, quantised weights, or a model of text and another medium.
fn ensure_supported(json: &Value) -> Result<()> {
    if let Some(model_type) = json.get("model_type").and_then(Value::as_str)
        && let Some((_, why)) = UNSUPPORTED_MODELS.iter().find(|(refused, _)| refused.contains(&model_type))
    {
        bail!(anyhow!("model_type is {model_type}: {why}").with_value(model_type));
    }
    let has_value = |key: &str| json.get(key).is_some_and(|value| !value.is_null());
    ensure!(!has_value("quantization_config"), "quantization_config is there: only unquantised weights are read");
    let is_clip = json.get("model_type").is_some_and(|model_type| model_type == "clip");
    if has_value("text_config") && !has_value("num_hidden_layers") && !is_clip {
        bail!(
            "config.json is of a model of text and something else: its text model is under text_config, which is not read"
        );
    }
    Ok(())
}

/// Finds the family of a `config.json` by `model_type` or else by a class in `architectures`. Fails if it is not supported.
fn find_family(json: &Value) -> Result<Family> {
    let supported = || FAMILIES.iter().map(|family| family.model_type).join(", ");
    match json.get("model_type") {
        Some(Value::String(model_type)) => {
            let families: Vec<(&str, Family)> = FAMILIES.iter().map(|family| (family.model_type, *family)).collect();
            lookup("model_type", model_type, &families)
        }
        None | Some(Value::Null) => {
            let classes = json.get("architectures").and_then(Value::as_array).into_iter().flatten();
            let of_class = |class: &str| {
                FAMILIES.iter().find(|family| {
                    let rest = class.strip_prefix(family.class_prefix);
                    rest.is_some_and(|rest| CLASS_SUFFIXES.iter().any(|end| rest.starts_with(end)))
                })
            };
            let found = classes.filter_map(Value::as_str).find_map(of_class);
            found
                .copied()
                .context("there is no model_type, and architectures names no class of a supported one")
                .hint(format!("add the model's own, as in `\"model_type\": \"bert\"` (supported: {})", supported()))
        }
        Some(other) => {
            let shown = shorten(&other.to_string());
            bail!(anyhow!("model_type is {shown}: expected a text (supported: {})", supported()).with_value(other))
        }
    }
}

/// Families whose attention heads transformers 4 can prune, by their `model_type`.
const PRUNABLE_FAMILIES: [&str; 22] = [
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "distilbert",
    "electra",
    "albert",
    "splinter",
    "visual_bert",
    "bert-generation",
    "ernie",
    "layoutlm",
    "markuplm",
    "rembert",
    "data2vec-text",
    "roberta-prelayernorm",
    "megatron-bert",
    "xlm-roberta-xl",
    "esm",
    "t5",
    "mt5",
    "gpt2",
];

/// Whether transformers can run pruned models of a family.
pub(in crate::model) fn is_prunable(family: &Family) -> bool {
    PRUNABLE_FAMILIES.contains(&family.model_type)
}

/// Parses `pruned_heads` into the absent attention heads, ascending. `prune_heads` of transformers 4 cuts the rows of a head
/// out of the projections to queries, keys and values, and its columns out of the output projection. The other heads keep
/// their numbers, and embeddings of distances are not cut.
///
/// `stems` has the name prefixes of all layers; layers with equal prefixes share weights and lack the same heads. Keys of
/// `pruned_heads` number only layers with distinct weights, from 0, in the order of `stems`. Fails if a layer or head does
/// not exist, a layer has no heads left, or the family cannot be pruned.
fn parse_pruned_heads(json: &Value, family: &Family, config: &Config, stems: &[String]) -> Result<Vec<HeadPlace>> {
    let layers = match json.get("pruned_heads") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(layers)) => layers,
        Some(other) => return Err(wrong_format_error(other)),
    };
    let distinct_stems: Vec<&String> = stems.iter().unique().collect();
    let mut absent = BTreeSet::new();
    for (key, value) in layers {
        let numbers = value.as_array().map(|heads| heads.iter().map(Value::as_u64).collect::<Option<BTreeSet<u64>>>());
        let numbers = numbers.flatten().ok_or_else(|| wrong_format_error(value))?;
        let stem = key.parse().ok().and_then(|layer: usize| distinct_stems.get(layer)).copied();
        let count = format_count(distinct_stems.len(), "layer");
        let no_such_layer = || {
            anyhow!("pruned_heads names layer {}: the model has {count} with weights, counted from 0", shorten(key))
                .with_value(key)
        };
        let stem = stem.ok_or_else(no_such_layer)?;
        let heads = config.num_attention_heads;
        if let Some(head) = numbers.iter().find(|&&head| head >= heads as u64) {
            let had = format_count(heads, "head");
            let error = anyhow!("pruned_heads names head {head} of layer {key}, which had {had}, counted from 0");
            return Err(error.with_value(head));
        }
        let error = || anyhow!("pruned_heads leaves layer {key} without a head, and transformers runs no such layer");
        ensure!(numbers.len() < heads, error().with_value(value));
        let of_layer = |(layer, _)| (0..heads).map(move |head| HeadPlace { layer, head });
        let places = stems.iter().enumerate().filter(|(_, other)| *other == stem).flat_map(of_layer);
        absent.extend(places.filter(|place| numbers.contains(&(place.head as u64))));
    }
    ensure!(
        absent.is_empty() || is_prunable(family),
        anyhow!("pruned_heads is there, and transformers runs no {family} without some of its heads")
            .hint("analyse the model as it was before")
    );
    Ok(absent.into_iter().collect())
}

/// Returns the error that `pruned_heads` has another form than transformers'.
fn wrong_format_error(value: &Value) -> anyhow::Error {
    let shown = shorten(&value.to_string());
    anyhow!("pruned_heads holds {shown}: expected layers with lists of heads, such as {{\"0\": [2, 5]}}")
        .with_value(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_name_of_its_own() {
        assert!(FAMILIES.iter().map(|family| family.model_type).all_unique());
        // Otherwise a tensor of the encoder could be taken for one of the head's.
        assert!(FAMILIES.iter().all(|family| family.prefix.ends_with('.')));
    }

    /// A config with all the names that any family reads.
    fn config(model_type: &str, layers: u64) -> String {
        // These have no embeddings of another width.
        let embedding = if ["squeezebert", "deberta", "deberta-v2"].contains(&model_type) { 8 } else { 4 };
        format!(
            r#"{{"model_type": "{model_type}", "vocab_size": 9, "hidden_size": 8, "dim": 8, "embedding_size": {embedding},
            "num_hidden_layers": {layers}, "n_layers": {layers}, "num_attention_heads": 2, "n_heads": 2,
            "intermediate_size": 8, "hidden_dim": 8, "hidden_act": "gelu", "activation": "gelu",
            "max_position_embeddings": 10, "input_embedding_size": 4, "output_embedding_size": 6, "max_length": 10,
            "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": {layers}, "num_heads": 2, "encoder_layers": {layers},
            "encoder_attention_heads": 2, "encoder_ffn_dim": 8,
            "num_key_value_heads": 1, "rotary_pct": 0.5, "n_embd": 8, "n_layer": {layers}, "n_head": 2, "n_positions": 10, "ffn_dim": 8,
            "attention_types": [[["global"], {layers}]], "text_config": {{"num_hidden_layers": {layers}}}}}"#
        )
    }

    #[test]
    fn a_family_is_told_by_a_class_where_it_is_not_named() {
        for family in FAMILIES {
            for class in CLASS_SUFFIXES.map(|end| format!("{}{end}", family.class_prefix)) {
                let named = format!("\"architectures\": [\"Strange\", \"{class}\"], \"x\"");
                let text = config(family.model_type, 2).replace("\"model_type\"", &named);
                assert_eq!(Architecture::parse(&text).unwrap().family.model_type, family.model_type, "{class}");
            }
        }
        let error = |model_type: &str| {
            let text = config("bert", 2).replace("\"bert\"", model_type);
            Architecture::parse(&text).unwrap_err().to_string()
        };
        assert!(error("1").starts_with("model_type is 1: expected a text (supported: bert, "));
        assert!(error("null").starts_with("there is no model_type, and architectures names no class"));
        assert!(error(&format!("[{}0]", "0, ".repeat(1000))).len() < 1000);
    }

    #[test]
    fn a_switch_is_true_or_false() {
        let errors = ["1", "\"yes\""].map(|value| {
            let text = config("bert", 2).replace('{', &format!("{{\"is_decoder\": {value}, "));
            Architecture::parse(&text).unwrap_err().to_string()
        });
        insta::assert_snapshot!(errors.join("\n"), @r#"
        is_decoder is 1: expected true or false
        is_decoder is "yes": expected true or false
        "#);
        let text = config("bert", 2).replace('{', "{\"is_decoder\": null, ");
        assert!(Architecture::parse(&text).is_ok());
    }

    #[test]
    fn every_family_names_its_layers_and_checks_their_number() {
        for family in FAMILIES {
            let found = Architecture::parse(&config(family.model_type, 2)).unwrap();
            assert_eq!((found.family.model_type, found.names.layers.len()), (family.model_type, 2));
            let error = Architecture::parse(&config(family.model_type, 1 << 62)).unwrap_err().to_string();
            assert_eq!(error, "num_hidden_layers is 4611686018427387904: no model has more than 1024");
        }
    }

    /// Heads that a BERT of two layers and three heads, or an ALBERT whose one layer is run twice, lacks by `pruned_heads`.
    fn absent(model_type: &str, pruned: &str) -> Result<Vec<String>, String> {
        let text = format!(
            r#"{{"model_type": "{model_type}", "vocab_size": 9, "hidden_size": 12, "embedding_size": 4, "num_hidden_layers": 2,
            "num_attention_heads": 3, "intermediate_size": 8, "hidden_act": "gelu", "max_position_embeddings": 10,
            "pruned_heads": {pruned}}}"#
        );
        let found = Architecture::parse(&text).map_err(|error| error.to_string())?;
        Ok(found.config.absent.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn pruned_heads_are_absent_from_the_layers_that_have_their_weights() {
        assert_eq!(absent("bert", "{}").unwrap(), [""; 0]);
        assert_eq!(absent("bert", "null").unwrap(), [""; 0]);
        assert_eq!(absent("bert", r#"{"0": []}"#).unwrap(), [""; 0]);
        assert_eq!(absent("bert", r#"{"1": [2, 0, 2], "0": [1]}"#).unwrap(), ["L0H1", "L1H0", "L1H2"]);
        assert_eq!(absent("albert", r#"{"0": [1]}"#).unwrap(), ["L0H1", "L1H1"]);
        assert_eq!(absent("mpnet", "{}").unwrap(), [""; 0]);
    }

    #[test]
    fn what_no_model_was_pruned_to_is_named() {
        let configs = [
            ("bert", "[1]"),
            ("bert", r#"{"0": 1}"#),
            ("bert", r#"{"0": [-1]}"#),
            ("bert", r#"{"2": [0]}"#),
            ("albert", r#"{"1": [0]}"#),
            ("bert", r#"{"x": [0]}"#),
            ("bert", r#"{"0": [3]}"#),
            ("bert", r#"{"0": [0, 1, 2]}"#),
            ("mpnet", r#"{"0": [0]}"#),
        ];
        let errors = configs.map(|(model_type, pruned)| absent(model_type, pruned).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"), @r#"
        pruned_heads holds [1]: expected layers with lists of heads, such as {"0": [2, 5]}
        pruned_heads holds 1: expected layers with lists of heads, such as {"0": [2, 5]}
        pruned_heads holds [-1]: expected layers with lists of heads, such as {"0": [2, 5]}
        pruned_heads names layer 2: the model has 2 layers with weights, counted from 0
        pruned_heads names layer 1: the model has 1 layer with weights, counted from 0
        pruned_heads names layer x: the model has 2 layers with weights, counted from 0
        pruned_heads names head 3 of layer 0, which had 3 heads, counted from 0
        pruned_heads leaves layer 0 without a head, and transformers runs no such layer
        pruned_heads is there, and transformers runs no mpnet without some of its heads: analyse the model as it was before
        "#);
    }
}
