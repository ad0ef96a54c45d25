//! How many words a parser gets right, by block.

use std::collections::BTreeMap;

use super::graph::{NodeScores, Parser};
use super::sentence::{Gold, KeptSentence};
use crate::corpus::relation::scored_as;
use crate::stats::blocks::{BLOCKS, PerBlock};

/// Words, and those that are right, by block.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserHits {
    /// The words.
    pub words: PerBlock,
    /// Those that are right.
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

/// What a parser gets right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// The words of each relation, by the names under which arcs are scored.
    pub relations: BTreeMap<String, ParserHits>,
    /// The roots of sentences: right is that the root is likelier than any word.
    pub roots: ParserHits,
}

impl Tally {
    /// Of a parser on some sentences; one-word sentences score nothing.
    pub fn new(parser: &Parser, sentences: &[&KeptSentence]) -> Self {
        let (mut tally, mut scores) = (Self::default(), NodeScores::default());
        for sentence in sentences.iter().filter(|sentence| sentence.words.len() > 1) {
            let found = parser.heads_of(sentence, &mut scores);
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

    /// The same with those of other sentences.
    pub fn and(mut self, other: &Self) -> Self {
        for (name, hits) in &other.relations {
            self.relations.entry(name.clone()).or_default().merge(hits);
        }
        self.roots.merge(&other.roots);
        self
    }
}
