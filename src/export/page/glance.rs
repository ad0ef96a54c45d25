//! Thumbnails of the attention of every head over one sentence: their data, which the page's script draws.

use minijinja::value::Value;
use serde::Serialize;

use crate::export::svg::escaped;
use crate::model::grid::HeadGrid;
use crate::report::AttentionMaps;
use crate::system::printable::one_line;

/// The thumbnails of one sentence.
#[derive(Serialize)]
pub struct Thumbnails {
    /// The sentence and where it is from.
    about: String,
    /// The data that the script draws, as attributes of an element.
    data: Value,
}

impl Thumbnails {
    /// The thumbnails of maps of a model's heads.
    pub fn new(maps: &AttentionMaps, grid: HeadGrid) -> Self {
        // A token is put on one line before it is JSON, which knows no other escapes than its own.
        let tokens: Vec<String> = maps.tokens.iter().map(|token| one_line(token)).collect();
        let tokens = escaped(&serde_json::Value::from(tokens).to_string());
        // Maps are letters that HTML does not escape, without a space.
        let data = format!("data-heads={} data-tokens=\"{tokens}\" data-maps=\"{}\"", grid.heads, maps.maps.join(" "));
        Self { about: about(maps), data: Value::from_safe_string(data) }
    }
}

/// The sentence and where it is from.
fn about(maps: &AttentionMaps) -> String {
    let text = maps.tokens.join(" ");
    match (maps.sentence, maps.example_of) {
        (Some(sentence), Some(head)) => format!(
            "Sentence {sentence} of the corpus: {text}. It is the typical example of {head}, and the longest of those of the eight heads \
             whose firm roles are the furthest above their thresholds."
        ),
        (Some(sentence), None) => format!("Sentence {sentence} of the corpus: {text}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_others_stay_in_their_attribute() {
        let tokens = vec!["\"><script>".to_owned(), "\u{202e}\n".to_owned()];
        let maps = AttentionMaps::new(tokens, &[1.0, 0.0, 0.5, 0.5]);
        let data = Thumbnails::new(&maps, HeadGrid { layers: 1, heads: 1 }).data.to_string();
        assert!(!data.contains(['<', '>', '\u{202e}', '\n']), "{data}");
        let json = data.split("data-tokens=\"").nth(1).unwrap().split('"').next().unwrap();
        let json = json.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
        let read: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(read[0], "\"><script>");
        assert!(data.ends_with("data-maps=\"/Agg\""), "{data}");
    }
}
