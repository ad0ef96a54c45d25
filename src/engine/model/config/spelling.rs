//! Reads the fields of a config from a `config.json`, under the key names that the family's files use.

use std::collections::BTreeMap;
use std::slice;

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fields::{parse_fields, wrong_field};
use crate::system::json::{UniqueKeys, describe_error};

/// Field of `Config`, with its names and default in the files of a family.
pub(in crate::model) struct ConfigKey {
    /// Name of the field in `Config`.
    pub field: &'static str,
    /// Names of the field in the file; the first one with a value counts. If empty, the file has the name `field`.
    pub names: &'static [&'static str],
    /// JSON value for a key that is null or missing. Empty: `Config` accepts or refuses the null or missing key itself.
    pub default: &'static str,
}

/// Parses the text of a `config.json` by `keys`; if two keys set one field, the earlier one has precedence. Fails if a field is
/// missing or has a value of another type. The error gives the key's name in the file, its line and its column.
pub(super) fn read<'a, T: DeserializeOwned>(text: &str, keys: impl Iterator<Item = &'a ConfigKey>) -> Result<T> {
    let UniqueKeys(mut file) = parse_fields::<UniqueKeys<Value>>(text)?;
    file.remove("_");
    let (mut names, mut values) = (BTreeMap::new(), Map::new());
    for key in keys {
        if names.contains_key(key.field) {
            continue;
        }
        let aliases = if key.names.is_empty() { slice::from_ref(&key.field) } else { key.names };
        let has_value = |name: &&&str| file.get(**name).is_some_and(|value| !value.is_null());
        let name = *aliases.iter().find(has_value).unwrap_or(&aliases[0]);
        names.insert(key.field, name);
        let value = match file.get(name) {
            None | Some(Value::Null) if !key.default.is_empty() => serde_json::from_str(key.default)?,
            None => continue,
            Some(value) => value.clone(),
        };
        values.insert(key.field.to_owned(), value);
    }
    serde_path_to_error::deserialize(Value::Object(values)).map_err(|error| {
        let words = describe_error(error.inner());
        let missing = words.strip_prefix("missing field `").and_then(|rest| names.get(rest.strip_suffix('`')?));
        let (name, words) = match missing {
            Some(name) => (".", format!("missing field `{name}`")),
            None => (names.get(error.path().to_string().as_str()).copied().unwrap_or("."), words),
        };
        let [line, column] = line_and_column(text, name);
        wrong_field(name, format!("{words} at line {line} column {column}"), line)
    })
}

/// `[line, column]` of a key's value, or of the object's end if the key is missing. As in `serde_json`'s errors, a scalar is
/// located by its end, and a list or an object by its beginning.
fn line_and_column(text: &str, name: &str) -> [usize; 2] {
    let values: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    // A value is borrowed from the text.
    let start = |value: &str| value.as_ptr().addr() - text.as_ptr().addr();
    let end = |value: &str| if value.starts_with(['[', '{']) { start(value) } else { start(value) + value.len() };
    let before = &text[..values.get(name).map_or(text.trim_end().len(), |value| end(value.get()))];
    [1 + before.matches('\n').count(), before.len() - before.rfind('\n').map_or(0, |at| at + 1)]
}

#[cfg(test)]
mod tests {
    use super::super::{Activation, Config, keys};
    use super::*;

    const KEYS: &[ConfigKey] = keys! {
        hidden_size: dim | n_embd, intermediate_size: _ = 8, hidden_act: activation = "relu",
        layer_norm_eps: norm_eps = 1e-5
    };

    fn read(more: &str) -> Result<Config> {
        let sizes =
            r#""vocab_size": 9, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 10"#;
        let text = format!("{{{sizes},\n{more}}}");
        Config::read(&text, &[KEYS])
    }

    #[test]
    fn names_with_a_value_count_and_others_do_not() {
        let found =
            read(r#""dim": null, "n_embd": 4, "hidden_size": 6, "layer_norm_eps": 1, "norm_eps": null"#).unwrap();
        assert_eq!((found.hidden_size, found.intermediate_size, found.layer_norm_eps), (4, 8, 1e-5));
        assert_eq!((found.hidden_act, found.type_vocab_size, found.tie_word_embeddings), (Activation::Relu, 0, true));
        let found =
            read(r#""dim": 2, "n_embd": 4, "intermediate_size": 6, "type_vocab_size": 2, "head_size": 3"#).unwrap();
        assert_eq!((found.hidden_size, found.intermediate_size, found.type_vocab_size), (2, 8, 0));
        assert_eq!(found.head_size, None);
    }

    #[test]
    fn errors_have_the_name_in_the_file_and_its_place() {
        let error = |more: &str| read(more).unwrap_err().to_string();
        assert_eq!(error(r#""hidden_size": 4"#), "missing field `dim` at line 2 column 17");
        let number = "expected a whole number of 0 or more at line";
        assert_eq!(error(r#""dim": null"#), format!("dim: invalid type: null, {number} 2 column 11"));
        assert_eq!(
            error("\"dim\":\n null, \"n_embd\": -1"),
            format!("n_embd: invalid value: integer `-1`, {number} 3 column 19")
        );
        assert_eq!(error("\"dim\":\n [1,\n 2]"), format!("dim: invalid type: sequence, {number} 3 column 1"));
        let refused = error(r#""dim": 4, "activation": "mish""#);
        assert!(refused.starts_with("activation \"mish\" is not supported (supported: gelu, "), "{refused}");
        assert!(refused.ends_with(" at line 2 column 30"), "{refused}");
    }
}
