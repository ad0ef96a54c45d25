//! `pruned_heads` of `config.json`: attention heads without weights in the checkpoint.
//!
//! `prune_heads` of transformers 4 cuts the rows of an attention head out of the projections to queries, keys and values, and
//! its columns out of the output projection. Other heads keep their numbers, and embeddings of distances are not cut.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, ensure};
use itertools::Itertools;
use serde_json::Value;

use super::Family;
use crate::model::config::Config;
use crate::model::grid::HeadPlace;
use crate::system::counted::format_count;
use crate::system::errors::Facts;
use crate::system::printable::shortened;

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

/// Parses `pruned_heads` into the absent attention heads, ascending. `stems` has the name prefixes of all layers; layers with
/// equal prefixes share weights and lack the same heads. Keys of `pruned_heads` number only layers with distinct weights, in
/// the order of `stems`. Fails if a layer or head does not exist, a layer has no heads left, or the family cannot be pruned.
pub(super) fn parse_pruned_heads(
    json: &Value,
    family: &Family,
    config: &Config,
    stems: &[String],
) -> Result<Vec<HeadPlace>> {
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
            anyhow!("pruned_heads names layer {}: the model has {count} with weights, counted from 0", shortened(key))
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
    let shown = shortened(&value.to_string());
    anyhow!("pruned_heads holds {shown}: expected layers with lists of heads, such as {{\"0\": [2, 5]}}")
        .with_value(value)
}

#[cfg(test)]
mod tests {
    use crate::model::families::Architecture;

    /// What a BERT of two layers and three heads, or an ALBERT whose one layer is run twice, lacks by `pruned_heads`.
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
        insta::assert_snapshot!(errors.join("\n"), @"");
    }
}
