//! A sentence as it is drawn: where each word's attention goes, and where a label says that it should.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::forward::attention::AttentionView;
use crate::sequences::fold::units::Units;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::study::aim::Goals;
use crate::study::instruments::partners::largest;

/// The most words of a drawn sentence: this many fit side by side on a card of the page, and a page of 12 x 12 heads,
/// half of them with three such sentences, stays below 1 MB.
pub const MOST_WORDS: usize = 16;

/// Most letters of a word that are kept: the words of treebanks are shorter, addresses of web pages are not.
const MOST_LETTERS: usize = 24;

/// Most special tokens beside the words: two around a sentence, and a few of unusual tokenizers.
const MOST_SPECIAL: usize = 8;

/// A sentence with the attention of one head, by units: its words and its special tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drawn {
    /// The text of each unit, `[units]`; of a word of more than 24 letters the beginning.
    pub units: Vec<String>,
    /// The unit that each unit attends to most, `[units]`. With a label of arcs the word that it attends to most, or, of
    /// `head->dep`, that attends to it most. Of special tokens themselves: they are not asked.
    pub to: Vec<usize>,
    /// Attention to each unit, `[units]`; 0 of special tokens.
    pub weights: Vec<f64>,
    /// Units that go where the label says.
    pub right: Vec<usize>,
    /// Units of which the label says where they go, and that go elsewhere.
    pub wrong: Vec<usize>,
    /// The gold head of each unit, `[units]`; itself where it has none. Empty without a tree.
    pub heads: Vec<usize>,
}

impl Drawn {
    /// A sentence, the units of a sequence, with a head's attention; `special` are the first special token and separators.
    pub fn new(
        (sequence, units): (&Sequence, &Units),
        goals: &Goals,
        view: AttentionView<'_>,
        words: &WordAttention,
        from: FromToken,
        special: &[String; 2],
    ) -> Self {
        let mut between = WordAttention::default();
        between.fold(view, &units.spans, from);
        let count = units.spans.len();
        let goes = |unit: usize| -> Option<(usize, f64)> {
            let word = units.words[unit]?;
            if let Goals::Partners { direction, partners, .. } = goals {
                let other = partners.of(words, *direction, word)?;
                let weight = if direction.is_forward() { words.get(word, other) } else { words.get(other, word) };
                return Some((units.of_word[other], weight));
            }
            let to = largest(0..count, |key| between.get(unit, key))?;
            Some((to, between.get(unit, to)))
        };
        let (to, weights): (Vec<usize>, Vec<f64>) =
            (0..count).map(|unit| goes(unit).map_or((unit, 0.0), |(to, weight)| (to, thousandths(weight)))).unzip();
        let wanted = goals.of_units(units);
        let asked = (0..count).filter(|&unit| units.words[unit].is_some() && wanted[unit].is_some());
        let (right, wrong) =
            asked.partition(|&unit| wanted[unit].as_ref().is_some_and(|goals| goals.contains(&to[unit])));
        let texts = units.texts(sequence, |token| match sequence.kinds[token] {
            TokenKind::FirstSpecial | TokenKind::First => special[0].clone(),
            TokenKind::Separator => special[1].clone(),
            TokenKind::OtherSpecial => "[special]".to_owned(),
            // What stands before a sentence in its window.
            TokenKind::Text | TokenKind::Punctuation => "…".to_owned(),
        });
        let heads = units.heads(sequence).into_iter().enumerate().map(|(unit, head)| head.unwrap_or(unit)).collect();
        Self { units: texts.iter().map(|text| clipped(text)).collect(), to, weights, right, wrong, heads }
    }

    pub fn is_whole(&self) -> bool {
        let Self { units, to, weights, right, wrong, heads } = self;
        let count = units.len();
        count <= MOST_WORDS + MOST_SPECIAL
            && to.len() == count
            && weights.len() == count
            && weights.iter().all(|weight| weight.is_finite())
            && (heads.is_empty() || heads.len() == count)
            && [to, right, wrong, heads].into_iter().flatten().all(|&unit| unit < count)
    }

    pub fn text(&self) -> String {
        let is_word = |unit: &usize| self.to[*unit] != *unit || self.weights[*unit] > 0.0;
        let words = (0..self.units.len()).filter(is_word).map(|unit| self.units[unit].as_str());
        words.collect::<Vec<_>>().join(" ")
    }
}

fn thousandths(weight: f64) -> f64 {
    (weight * 1000.0).round() / 1000.0
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
