//! Attention maps of all heads over one sentence, rounded and encoded as text for thumbnails.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::{HeadGrid, HeadPlace};

/// Maximum number of tokens of a mapped sentence. Longer maps would be too small to see in a thumbnail and would
/// make a page too large to mail. The maps of 144 heads have 144 * 32 * 32 letters, 147 kB.
pub const MAX_MAP_TOKENS: usize = 32;

/// The letters for the 64 levels of an attention weight, from 0/63 to 63/63. The alphabet is base64 (RFC 4648,
/// table 1), which needs no escape in JSON and HTML.
const LEVEL_LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The attention of every head over one sentence, rounded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionMaps {
    /// The attention head for which the sentence is a typical example; null for a sentence that the user gave.
    pub example_of: Option<HeadPlace>,
    /// Number of the sentence in the corpus, counted from 0; null for a sentence that the user gave.
    pub sentence: Option<u64>,
    /// The tokens of the sentence.
    #[schemars(length(min = 1, max = 32))]
    pub tokens: Vec<String>,
    /// The maps of the heads, layer by layer. A map has a letter for each pair of tokens: the weights from the first token to
    /// each token, then from the second, and so on. `A` to `Z`, `a` to `z`, `0` to `9`, `+` and `/` are weights of 0/63 to 63/63.
    pub maps: Vec<String>,
    /// The words and special tokens of the sentence, in order; empty in reports of 0.1.
    #[serde(default)]
    pub units: Vec<SentenceUnit>,
    /// Gold dependency arcs between the units; empty if the sentence has no gold tree.
    #[serde(default)]
    pub arcs: Vec<SentenceArc>,
}

/// A word or a special token of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentenceUnit {
    /// Text of the word or of the special token.
    pub text: String,
    /// Token range of the unit, `[start, end]`, counted from 0: its first token, and the token after its last.
    pub tokens: [usize; 2],
    /// Whether the unit is a word; otherwise it is a special token.
    pub is_word: bool,
}

/// A gold dependency arc between two units of the sentence. It begins at the unit that should attend: the dependent, or in a
/// decoder the later unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentenceArc {
    /// Index of the unit that should attend, counted from 0.
    pub from: usize,
    /// Index of the unit that should be attended to, counted from 0.
    pub to: usize,
    /// Dependency relation of the arc.
    pub relation: String,
}

impl AttentionMaps {
    /// Encodes the attention of all heads over a sentence that the user gave; `weights` is `[heads, tokens, tokens]`.
    pub fn new(tokens: Vec<String>, weights: &[f32]) -> Self {
        let maps = weights.chunks(tokens.len() * tokens.len()).map(encode_weights).collect();
        Self { example_of: None, sentence: None, tokens, maps, units: Vec::new(), arcs: Vec::new() }
    }

    /// The first reason why the maps do not fit a model with the heads of `grid`; `None` if they fit.
    pub fn defect(&self, grid: HeadGrid) -> Option<String> {
        let Self { tokens, maps, example_of, units, arcs, .. } = self;
        if let Some(defect) = grid.stray_head_defect("attention_maps", *example_of) {
            return Some(defect);
        }
        if !(1..=MAX_MAP_TOKENS).contains(&tokens.len()) {
            return Some(format!("`attention_maps` has {} tokens, and not from 1 to {MAX_MAP_TOKENS}", tokens.len()));
        }
        let is_whole = |map: &String| {
            map.len() == tokens.len() * tokens.len() && map.bytes().all(|letter| LEVEL_LETTERS.contains(&letter))
        };
        let is_there = |unit: &SentenceUnit| unit.tokens[0] < unit.tokens[1] && unit.tokens[1] <= tokens.len();
        let joins = |arc: &SentenceArc| arc.from.max(arc.to) < units.len();
        if !units.iter().all(is_there) || !arcs.iter().all(joins) {
            return Some("`attention_maps` has a word or an arc beyond its tokens".to_owned());
        }
        if maps.len() != grid.head_count() || !maps.iter().all(is_whole) {
            return Some("`attention_maps` has not a weight of each head for each pair of tokens".to_owned());
        }
        None
    }
}

/// Encodes attention weights (0 to 1) as letters, each weight rounded to the nearest of the 64 levels.
fn encode_weights(weights: &[f32]) -> String {
    let level = |weight: &f32| {
        let level = (weight.clamp(0.0, 1.0) * (LEVEL_LETTERS.len() - 1) as f32).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 63")]
        char::from(LEVEL_LETTERS[level as usize])
    };
    weights.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps() -> AttentionMaps {
        let tokens = ["[CLS]", "a"].map(str::to_owned).to_vec();
        AttentionMaps::new(tokens, &[1.0, 0.0, 0.5, 0.5, 0.0, 1.0, 0.99, 0.01])
    }

    #[test]
    fn weights_are_letters() {
        // 63 is `/`, 0 `A`; 31.5 is rounded away from zero to 32, `g`; 62.4 and 0.63 to 62, `+`, and 1, `B`.
        assert_eq!(maps().maps, ["/Agg", "A/+B"]);
    }

    fn grid(heads: usize) -> HeadGrid {
        HeadGrid { layers: 1, heads }
    }

    #[test]
    fn maps_are_of_all_heads_and_pairs() {
        assert_eq!(maps().defect(grid(2)), None);
        assert!(maps().defect(grid(3)).is_some());
        let with = |change: &dyn Fn(&mut AttentionMaps)| {
            let mut other = maps();
            change(&mut other);
            other.defect(grid(2)).is_some()
        };
        assert!(with(&|maps| maps.tokens.push("b".to_owned())));
        assert!(with(&|maps| maps.maps[0].push('A')));
        assert!(with(&|maps| maps.maps[1] = "AA<A".to_owned()));
        assert!(with(&|maps| maps.example_of = Some(HeadPlace { layer: 0, head: 2 })));
        let unit = |tokens: [usize; 2]| SentenceUnit { text: "a".to_owned(), tokens, is_word: true };
        assert!(!with(&|maps| maps.units.push(unit([1, 2]))));
        for tokens in [[1, 3], [1, 1], [2, 1]] {
            assert!(with(&|maps| maps.units.push(unit(tokens))), "{tokens:?}");
        }
        assert!(with(&|maps| maps.arcs.push(SentenceArc { from: 0, to: 0, relation: "det".to_owned() })));
        assert!(with(&|maps| maps.tokens.clear()));
        assert!(with(&|maps| maps.tokens = vec![String::new(); 33]));
    }
}
