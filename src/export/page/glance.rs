//! The attention of heads over one sentence, as data that the page's script draws: to play with, and as thumbnails.

use minijinja::value::Value;
use serde::Serialize;
use serde_json::json;

use crate::export::svg::escaped;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::report::{AttentionMaps, SentenceUnit};
use crate::system::printable::one_line;

#[derive(Serialize)]
pub struct ShownSentence {
    /// Whether it has thumbnails of all heads.
    has_thumbnails: bool,
    about: String,
    /// The data that the script draws, as attributes of an element.
    data: Value,
}

impl ShownSentence {
    /// The attention of all heads of a model, with thumbnails.
    pub fn of_all(maps: &AttentionMaps, grid: HeadGrid) -> Self {
        Self::new(maps, &format!("data-heads={}", grid.heads))
    }

    pub fn of_chosen(maps: &AttentionMaps, heads: &[HeadPlace]) -> Self {
        let names: Vec<String> = heads.iter().map(ToString::to_string).collect();
        Self { has_thumbnails: false, ..Self::new(maps, &format!("data-heads=0 data-names=\"{}\"", names.join(" "))) }
    }

    fn new(maps: &AttentionMaps, heads: &str) -> Self {
        // A text is put on one line before it is JSON, which knows no other escapes than its own.
        let json = |value: &serde_json::Value| escaped(&value.to_string());
        let tokens = json(&maps.tokens.iter().map(|token| one_line(token)).collect());
        let unit = |unit: &SentenceUnit| json!([one_line(&unit.text), unit.tokens[0], unit.tokens[1], unit.is_word]);
        let units = json(&maps.units.iter().map(unit).collect());
        let arcs = json(&maps.arcs.iter().map(|arc| json!([arc.from, arc.to, one_line(&arc.relation)])).collect());
        // Maps are letters that HTML does not escape, without a space.
        let maps_of_heads = maps.maps.join(" ");
        let data = format!(
            "{heads} data-tokens=\"{tokens}\" data-units=\"{units}\" data-arcs=\"{arcs}\" data-maps=\"{maps_of_heads}\""
        );
        Self { has_thumbnails: true, about: about(maps), data: Value::from_safe_string(data) }
    }
}

fn about(maps: &AttentionMaps) -> String {
    let words: Vec<&str> = maps.units.iter().filter(|unit| unit.is_word).map(|unit| unit.text.as_str()).collect();
    let text = if words.is_empty() { maps.tokens.join(" ") } else { words.join(" ") };
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
    use crate::report::SentenceArc;

    #[test]
    fn tokens_of_others_stay_in_their_attribute() {
        let tokens = vec!["\"><script>".to_owned(), "\u{202e}\n".to_owned()];
        let maps = AttentionMaps::new(tokens, &[1.0, 0.0, 0.5, 0.5]);
        let data = ShownSentence::of_all(&maps, HeadGrid { layers: 1, heads: 1 }).data.to_string();
        assert!(!data.contains(['<', '>', '\u{202e}', '\n']), "{data}");
        let json = data.split("data-tokens=\"").nth(1).unwrap().split('"').next().unwrap();
        let json = json.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
        let read: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(read[0], "\"><script>");
        assert!(data.ends_with("data-maps=\"/Agg\""), "{data}");
        let unit = SentenceUnit { text: "\"><b>\n".to_owned(), tokens: [0, 1], is_word: true };
        let arcs = vec![SentenceArc { from: 0, to: 0, relation: "<i>".to_owned() }];
        let chosen = ShownSentence::of_chosen(
            &AttentionMaps { units: vec![unit], arcs, ..maps },
            &[HeadPlace { layer: 0, head: 0 }],
        );
        let data = chosen.data.to_string();
        assert!(data.starts_with("data-heads=0 data-names=\"L0H0\" ") && !data.contains(['<', '>', '\n']), "{data}");
        assert!(data.contains("data-arcs=\"[[0,0,&quot;&lt;i&gt;&quot;]]\""), "{data}");
    }
}
