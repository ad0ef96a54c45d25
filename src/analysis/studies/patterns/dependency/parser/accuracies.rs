//! Accuracies of parsers, and differences between two parsers, with intervals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::{GraphParser, NodeScores};
use super::sentence::{GoldHead, KeptSentence};
use crate::corpus::relation::scored_relations;
use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::blocks::{BLOCKS, PerBlock};
use crate::stats::interval::Interval;
use crate::study::show::wording::{percent, plus_minus_percent};

/// Accuracy of a parser with its interval. Null if nothing was scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Share of right predictions among the scored words, sentences, sources or pairs.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: Option<f64>,
    /// 95 % interval of `accuracy`. Null also if fewer than 10 blocks were scored.
    pub ci95: Option<Interval>,
}

impl Share {
    /// Formats the accuracy in per cent with the half-width of its interval.
    pub fn in_percent(&self) -> String {
        percent(self.accuracy) + &plus_minus_percent(self.ci95)
    }
}

/// Difference of two parsers' accuracies on the same words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// First accuracy less the second. Null if there is no comparison.
    #[schemars(range(min = -1, max = 1))]
    pub difference: Option<f64>,
    /// 95 % interval of `difference`.
    pub ci95: Option<Interval>,
}

/// Accuracy of one parser of trees, or of one model of links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParserAccuracy {
    /// Name of the parser or model.
    pub parser: String,
    /// Share of words for which the parser finds the gold syntactic head; for links, share of sources or pairs that are right.
    #[serde(flatten)]
    pub share: Share,
    /// Accuracy of the attention parser less the accuracy of this one. Null for the attention parser.
    pub ahead: Difference,
}

/// Computes an accuracy and its interval from counts per jackknife block. Both are `None` if there are no words.
pub fn measure_share(right: &PerBlock, words: &PerBlock) -> Share {
    if words.iter().all(|&words| words == 0.0) {
        return Share::default();
    }
    let share = Jackknife::new(right, words).with_scale(Scale::Share);
    Share { accuracy: Some(share.value()), ci95: share.interval() }
}

/// Computes the accuracy of one parser minus that of another on the same words. `more` and `less` are their numbers of
/// right predictions per jackknife block, and `words` has the number of words per block.
pub fn measure_difference(more: &PerBlock, less: &PerBlock, words: &PerBlock) -> Difference {
    let difference: PerBlock = std::array::from_fn(|block| more[block] - less[block]);
    let difference = Jackknife::new(&difference, words).with_scale(Scale::Difference);
    Difference { difference: Some(difference.value()), ci95: difference.interval() }
}

/// Computes the accuracy of each parser, and by how much the first parser is more accurate. All counts are per
/// jackknife block, and all parsers have the same words.
pub fn measure_accuracies(names: &[&str], right: &[Option<PerBlock>], words: &PerBlock) -> Vec<ParserAccuracy> {
    let has_words = words.iter().any(|&words| words > 0.0);
    let first = right[0];
    let accuracy = |(&name, right): (&&str, &Option<PerBlock>)| {
        let ahead = first.zip(*right).filter(|_| has_words && name != names[0]);
        ParserAccuracy {
            parser: name.to_owned(),
            share: right.map(|right| measure_share(&right, words)).unwrap_or_default(),
            ahead: ahead.map(|(first, right)| measure_difference(&first, &right, words)).unwrap_or_default(),
        }
    };
    names.iter().zip(right).map(accuracy).collect()
}

/// Number of words that a parser was scored on, and of words that it predicted right.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserHits {
    /// Number of scored words per jackknife block; in [`ParserTally`], also of scored roots or sentences.
    pub words: PerBlock,
    /// Number of right predictions per jackknife block.
    pub correct: PerBlock,
}

impl Default for ParserHits {
    fn default() -> Self {
        Self { words: [0.0; BLOCKS], correct: [0.0; BLOCKS] }
    }
}

impl ParserHits {
    fn count_prediction(&mut self, block: usize, is_right: bool) {
        self.words[block] += 1.0;
        self.correct[block] += f64::from(u8::from(is_right));
    }
}

/// Counts of one parser's predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParserTally {
    /// Predictions of syntactic heads, by relation. A word counts for `all`, for its relation and for its subtype.
    pub relations: BTreeMap<String, ParserHits>,
    /// Predictions on words that are roots. Right if the root node scores higher than any word.
    pub roots: ParserHits,
    /// Predictions on sentences of several words. Right if the predicted syntactic heads form a tree.
    pub trees: ParserHits,
}

/// A sentence with the prediction for each word: its likeliest syntactic head among the words, and whether the root is
/// likelier still.
pub type SentencePrediction<'a> = (&'a KeptSentence, Vec<(Option<usize>, bool)>);

impl GraphParser {
    /// Predicts the syntactic head of each word in each sentence.
    pub fn predict_sentences<'a>(&self, sentences: &[&'a KeptSentence]) -> Vec<SentencePrediction<'a>> {
        let mut scores = NodeScores::default();
        sentences.iter().map(|&sentence| (sentence, self.predict_heads(sentence, &mut scores))).collect()
    }
}

impl ParserTally {
    /// Counts the predictions. Sentences of one word are left out.
    pub fn new<'a>(predictions: impl IntoIterator<Item = SentencePrediction<'a>>) -> Self {
        let mut tally = Self::default();
        for (sentence, heads) in predictions.into_iter().filter(|(sentence, _)| sentence.words.len() > 1) {
            tally.trees.count_prediction(sentence.block, is_tree(&heads));
            for (word, (head, is_root)) in sentence.words.iter().zip(heads) {
                match word.gold {
                    GoldHead::Root => tally.roots.count_prediction(sentence.block, is_root),
                    GoldHead::Word(gold) if word.scored => {
                        for name in scored_relations(&word.relation) {
                            let hits = tally.relations.entry(name.to_owned()).or_default();
                            hits.count_prediction(sentence.block, head == Some(gold));
                        }
                    }
                    GoldHead::Word(_) | GoldHead::Unknown => {}
                }
            }
        }
        tally
    }
}

/// Whether predicted syntactic heads form a tree: exactly one word has the root as head, and every word leads to the root.
fn is_tree(heads: &[(Option<usize>, bool)]) -> bool {
    let up = |&word: &usize| heads[word].0.filter(|_| !heads[word].1);
    let leads_to_root = |word: usize| std::iter::successors(Some(word), up).nth(heads.len() + 1).is_none();
    heads.iter().filter(|(_, is_root)| *is_root).count() == 1 && (0..heads.len()).all(leads_to_root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_have_one_root_and_no_cycle() {
        let word = |head: usize| (Some(head), false);
        let root = (Some(0), true);
        assert!(is_tree(&[word(1), (Some(2), true), word(1)]));
        assert!(!is_tree(&[root, root, word(0)]), "two roots");
        assert!(!is_tree(&[word(1), word(0), root]), "a cycle beside the root");
        assert!(!is_tree(&[word(1), word(2), word(0)]), "no root");
    }
}
