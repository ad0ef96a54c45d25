//! How many words a parser gets right, by block.

use std::collections::BTreeMap;

use super::graph::{NodeScores, Parser};
use super::sentence::{Gold, KeptSentence};
use crate::corpus::relation::scored_as;
use crate::stats::blocks::{BLOCKS, PerBlock};

/// Words, and those that are right, by block.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserHits {
    pub words: PerBlock,
    pub right: PerBlock,
}

impl Default for ParserHits {
    fn default() -> Self {
        Self { words: [0.0; BLOCKS], right: [0.0; BLOCKS] }
    }
}

impl ParserHits {
    fn count(&mut self, block: usize, is_right: bool) {
        self.words[block] += 1.0;
        self.right[block] += f64::from(u8::from(is_right));
    }

    fn merge(&mut self, other: &Self) {
        for (own, other) in [(&mut self.words, &other.words), (&mut self.right, &other.right)] {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// The words of each relation, by the names under which arcs are scored.
    pub relations: BTreeMap<String, ParserHits>,
    /// The roots of sentences: right is that the root is likelier than any word.
    pub roots: ParserHits,
    /// Sentences of several words: right is that their predicted heads form a tree.
    pub trees: ParserHits,
}

impl Tally {
    /// Counts the correct predictions of a parser on some sentences; one-word sentences score nothing.
    pub fn new(parser: &Parser, sentences: &[&KeptSentence]) -> Self {
        let mut scores = NodeScores::default();
        Self::of(sentences.iter().map(|&sentence| (sentence, parser.heads_of(sentence, &mut scores))))
    }

    /// Counts the correct predictions among the likeliest word of each word of some sentences, and whether the root is likelier.
    pub fn of<'a>(predicted: impl IntoIterator<Item = (&'a KeptSentence, Vec<(Option<usize>, bool)>)>) -> Self {
        let mut tally = Self::default();
        for (sentence, found) in predicted.into_iter().filter(|(sentence, _)| sentence.words.len() > 1) {
            tally.trees.count(sentence.block, is_tree(&found));
            for (word, (head, is_root)) in sentence.words.iter().zip(found) {
                match word.gold {
                    Gold::Root => tally.roots.count(sentence.block, is_root),
                    Gold::Word(gold) if word.scored => {
                        for name in scored_as(&word.relation) {
                            let hits = tally.relations.entry(name.to_owned()).or_default();
                            hits.count(sentence.block, head == Some(gold));
                        }
                    }
                    Gold::Word(_) | Gold::Unknown => {}
                }
            }
        }
        tally
    }

    pub fn and(mut self, other: &Self) -> Self {
        for (name, hits) in &other.relations {
            self.relations.entry(name.clone()).or_default().merge(hits);
        }
        self.roots.merge(&other.roots);
        self.trees.merge(&other.trees);
        self
    }
}

/// Whether predicted heads form a tree: one word has the root for its head, and from every other the heads lead to it.
fn is_tree(heads: &[(Option<usize>, bool)]) -> bool {
    let up = |word: usize| heads[word].0.filter(|_| !heads[word].1);
    let leads_to_root = |word: usize| {
        let mut at = Some(word);
        (0..=heads.len()).any(|_| {
            at = at.and_then(up);
            at.is_none()
        })
    };
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
