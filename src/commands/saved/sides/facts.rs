//! The facts about two runs that they do not share.

use serde_json::{Value, json};

use super::Side;
use super::described::Fact;

/// The single values in which the descriptions of two runs differ, by their keys in a report.
pub fn not_shared(a: &Side, b: &Side) -> Vec<Fact> {
    let [a, b] = [a, b].map(|side| {
        let of = &side.circumstances;
        json!({ "tool": of.tool, "model": of.model, "corpus": of.corpus, "settings": of.settings })
    });
    facts("", &a, &b)
}

/// The relative difference of two numbers that are one, since a report keeps six digits and a partial all of them.
const ROUNDING: f64 = 5e-6;

/// Whether two values are the same but for the digits that a report keeps.
pub fn are_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(ours), Value::Number(theirs)) if ours.is_f64() || theirs.is_f64() => {
            let near = |(a, b): (f64, f64)| (a - b).abs() <= ROUNDING * a.abs().max(b.abs());
            ours.as_f64().zip(theirs.as_f64()).is_some_and(near)
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| are_same(a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let is_there = |(key, a): (&String, &Value)| theirs.get(key).is_some_and(|b| are_same(a, b));
            ours.len() == theirs.len() && ours.iter().all(is_there)
        }
        _ => a == b,
    }
}

fn facts(at: &str, a: &Value, b: &Value) -> Vec<Fact> {
    match (a, b) {
        _ if are_same(a, b) => Vec::new(),
        (Value::Object(whole), Value::Null) | (Value::Null, Value::Object(whole)) => {
            // What one side lacks is named value by value.
            whole.keys().flat_map(|key| facts(&format!("{at}.{key}"), &a[key], &b[key])).collect()
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let more = theirs.keys().filter(|key| !ours.contains_key(*key));
            let inner = |key: &String| if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            ours.keys().chain(more).flat_map(|key| facts(&inner(key), &a[key], &b[key])).collect()
        }
        // Items of equally long lists are held against each other by their places: `corpus.files[0].sha256`.
        (Value::Array(ours), Value::Array(theirs))
            if ours.len() == theirs.len() && ours.iter().all(Value::is_object) =>
        {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.flat_map(|(place, (a, b))| facts(&format!("{at}[{place}]"), a, b)).collect()
        }
        _ => vec![Fact { key: at.to_owned(), a: a.clone(), b: b.clone() }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(key: &str, a: Value, b: Value) -> Fact {
        Fact { key: key.to_owned(), a, b }
    }

    #[test]
    fn items_of_equally_long_lists_are_named_by_their_places() {
        let a = json!({ "files": [{ "path": "x" }, { "path": "y", "sha256": "1" }], "sizes": [1, 2] });
        let b = json!({ "files": [{ "path": "x" }, { "path": "y", "sha256": "2" }], "sizes": [1, 3] });
        let found = facts("", &a, &b);
        assert_eq!(
            found,
            [named("files[1].sha256", json!("1"), json!("2")), named("sizes", json!([1, 2]), json!([1, 3]))]
        );
        let longer = json!({ "files": [{ "path": "x" }], "sizes": [1, 2] });
        assert_eq!(facts("", &a, &longer), [named("files", a["files"].clone(), longer["files"].clone())]);
    }

    #[test]
    fn an_object_that_one_side_lacks_is_named_value_by_value() {
        let (a, b) = (json!({ "documents": { "taken": 51, "of": 318 } }), json!({ "documents": null }));
        let found = facts("", &a, &b);
        assert_eq!(
            found,
            [named("documents.of", json!(318), Value::Null), named("documents.taken", json!(51), Value::Null)]
        );
    }

    #[test]
    fn single_values_are_named_by_their_keys() {
        let a = json!({ "model": { "id": "x", "layers": 2, "old": [1] }, "same": 1 });
        let b = json!({ "model": { "id": "y", "layers": 2, "new": true }, "same": 1 });
        let found = facts("", &a, &b);
        assert_eq!(
            found,
            [
                named("model.id", json!("x"), json!("y")),
                named("model.old", json!([1]), Value::Null),
                named("model.new", Value::Null, json!(true)),
            ]
        );
    }
}
