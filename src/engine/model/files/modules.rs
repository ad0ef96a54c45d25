//! Reads how a sentence encoder pools the last hidden states of a text, from the modules that sentence-transformers saves.

use std::path::{Component, Path};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::names::{CONFIG, MAX_CONFIG_BYTES, MODULES};
use super::store::{FileStore, Pooling};
use crate::system::errors::ErrorExt;

/// A module of a sentence encoder, as `modules.json` lists it: its folder and its Python class.
#[derive(Deserialize)]
struct SentenceEncoderModule {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// Pooling modes by their keys in the `config.json` of a pooling module. `mean_sqrt_len` differs from the mean in length only.
const POOLING_MODES: [(&str, Pooling); 5] = [
    ("pooling_mode_mean_tokens", Pooling::Mean),
    ("pooling_mode_mean_sqrt_len_tokens", Pooling::Mean),
    ("pooling_mode_cls_token", Pooling::First),
    ("pooling_mode_max_tokens", Pooling::Max),
    ("pooling_mode_lasttoken", Pooling::Last),
];

/// Reads how a model pools the hidden states of a text. Fails if its files cannot be read, or describe an unsupported pooling.
pub(super) fn read_pooling(files: &FileStore<'_>) -> Result<Pooling> {
    if !files.names.contains(MODULES) {
        return Ok(Pooling::Text);
    }
    let listed = files.fetch(MODULES, MAX_CONFIG_BYTES)?;
    let modules: Vec<SentenceEncoderModule> =
        serde_json::from_str(&listed.text(MAX_CONFIG_BYTES)?).cannot("use", listed.path().display())?;
    let mut pooling = Pooling::Text;
    for SentenceEncoderModule { path, kind } in modules {
        match kind.rsplit('.').next().unwrap_or_default() {
            // Vectors are compared by their angle, which normalisation keeps.
            "Transformer" | "Normalize" | "Dropout" => {}
            "Pooling" => {
                let is_inside = Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
                // Without a folder, `config.json` would be that of the model.
                ensure!(!path.is_empty(), "{MODULES} names no folder of its pooling");
                ensure!(is_inside, "{MODULES} names the folder {path:?}, which does not lie beside it");
                let config = files.fetch(&format!("{path}/{CONFIG}"), MAX_CONFIG_BYTES)?;
                pooling = parse_mode(&config.text(MAX_CONFIG_BYTES)?).cannot("use", config.path().display())?;
            }
            other => bail!("{MODULES} has a module {other:?}, which is not supported"),
        }
    }
    Ok(pooling)
}

/// Parses the `config.json` of a pooling module. Returns its only active mode, or the mean without one. Fails if several modes
/// are active, or one is unknown.
fn parse_mode(text: &str) -> Result<Pooling> {
    let keys: Map<String, Value> = serde_json::from_str(text).context("not an object of JSON")?;
    let is_on = |(key, value): &(&String, &Value)| key.starts_with("pooling_mode_") && **value == Value::Bool(true);
    let on: Vec<&str> = keys.iter().filter(is_on).map(|(key, _)| key.as_str()).collect();
    let known = |mode: &str| POOLING_MODES.into_iter().find(|(key, _)| *key == mode).map(|(_, pooling)| pooling);
    match on[..] {
        // The mean is the default of sentence-transformers.
        [] => Ok(Pooling::Mean),
        [mode] => known(mode).ok_or_else(|| anyhow!("it pools by `{}`, which is not supported", mode.escape_debug())),
        _ => bail!("it pools in several ways at once: {}", on.join(", ").escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_those_of_sentence_transformers() {
        let of = |mode: &str| {
            parse_mode(&format!(r#"{{"word_embedding_dimension": 8, "pooling_mode_{mode}": true}}"#)).unwrap()
        };
        let modes = ["mean_tokens", "mean_sqrt_len_tokens", "cls_token", "max_tokens", "lasttoken"].map(of);
        assert_eq!(modes, [Pooling::Mean, Pooling::Mean, Pooling::First, Pooling::Max, Pooling::Last]);
        assert_eq!(parse_mode(r#"{"pooling_mode_cls_token": false}"#).unwrap(), Pooling::Mean);
        let refused = |text: &str| parse_mode(text).unwrap_err().to_string();
        let texts = [
            r#"{"pooling_mode_weightedmean_tokens": true}"#,
            r#"{"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true}"#,
            "[]",
        ];
        insta::assert_snapshot!(texts.map(refused).join("\n"), @"
        it pools by `pooling_mode_weightedmean_tokens`, which is not supported
        it pools in several ways at once: pooling_mode_cls_token, pooling_mode_max_tokens
        not an object of JSON
        ");
    }
}
