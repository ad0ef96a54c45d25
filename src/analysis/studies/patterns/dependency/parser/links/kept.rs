//! Sampled sequences with links named by the user: sources with candidates, or pairs, and every head's attention between them.

use std::ops::Range;

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use serde::{Deserialize, Serialize};

use crate::model::grid::visibility::LayerClasses;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{BLOCKS, block_of};
use crate::studies::patterns::dependency::arcs::{OFFSET_CLASSES, offset_class};
use crate::studies::patterns::dependency::parser::lexical::{LexicalChoice, LexicalSentence};
use crate::study::instruments::linked::choice::LinkChoice;
use crate::study::instruments::linked::key::{LinkKey, direction_index};
use crate::study::instruments::linked::pairs::LinkedPairs;
use crate::study::instruments::linked::sources::{LinkSource, LinkedWords};
use crate::study::instruments::partners::Partners;
use crate::study::labels::evidence::Direction;

/// Factor on the corrected weights of pairs as stored. The weights are at most 2 but often below 2^-14, where half precision
/// loses digits. A power of two adds no rounding.
const PAIR_SCALE: f32 = 1024.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvidence {
    pub has_heads: bool,
    pub has_distances: bool,
}

/// Links of one type in one sentence, with every attention head's weights on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptLinks {
    pub key: LinkKey,
    /// Range of the words of the sentence that contains the links.
    pub sentence: Range<usize>,
    /// Scored sources of the links; empty if pairs are scored instead.
    pub sources: Vec<LinkSource>,
    /// Candidate pairs of words; only for undirected types in encoders.
    pub pairs: Option<LinkedPairs>,
    /// Number of each attention head's right choices per direction ([`Direction::BOTH_OF_LINKS`]), `[heads]`. For pairs, the first
    /// entry counts the linked pairs among those with the largest corrected weights.
    pub hits: Vec<[u32; 2]>,
    /// Attention as half-precision bits. For sources: each head's weights from source to candidate and back, `[rows, heads, 2]`,
    /// a row per candidate of each source. For pairs: corrected weights times [`PAIR_SCALE`], `[pairs, heads]`.
    terms: Vec<u16>,
}

impl KeptLinks {
    /// Selects the links that are scored under `key`. `None` if there are none.
    fn new(words: &LinkedWords<'_>, links: &crate::corpus::LinkSet, key: &LinkKey, heads: usize) -> Option<Self> {
        let sentence = words.sentence_of(links)?;
        let is_of_pairs = scores_pairs(key);
        let pairs = if is_of_pairs { Some(words.pairs(links)?) } else { None };
        let mut sources = if is_of_pairs { Vec::new() } else { words.sources(links, key.side).scored };
        sources.iter_mut().for_each(|source| source.seen.clear());
        let kept = Self { key: key.clone(), sentence, sources, pairs, hits: vec![[0; 2]; heads], terms: Vec::new() };
        (kept.rows() > 0).then_some(kept)
    }

    fn rows(&self) -> usize {
        let candidates = || self.sources.iter().map(|source| source.candidates.len()).sum();
        self.pairs.as_ref().map_or_else(candidates, |pairs| pairs.pairs().len())
    }

    fn width(&self) -> usize {
        self.hits.len() * if self.pairs.is_some() { 1 } else { 2 }
    }

    pub fn bytes(&self) -> u64 {
        (self.rows() * self.width() * size_of::<u16>()) as u64
    }

    fn keep(&mut self, head: usize, attention: &WordAttention, partners: &Partners, corrected: &mut Vec<f64>) {
        let width = self.width();
        self.terms.resize(self.rows() * width, 0);
        let mut rows = self.terms.chunks_exact_mut(width);
        let as_count = |right: u64| u32::try_from(right).expect("a sentence has fewer than 2^32 words");
        if let Some(pairs) = &self.pairs {
            pairs.corrected_weights(attention, corrected);
            // The feature is the corrected A + Aᵀ: twice the result of `correct`, which takes half of A + Aᵀ.
            let terms = corrected.iter().map(|weight| f16::from_f64(2.0 * weight * f64::from(PAIR_SCALE)).to_bits());
            rows.zip(terms).for_each(|(row, term)| row[head] = term);
            self.hits[head][0] = as_count(pairs.linked_among_top(corrected));
            return;
        }
        for source in &self.sources {
            for &candidate in &source.candidates {
                let row = rows.next().expect("a row for each candidate");
                let weight = |direction| partners.weight(attention, direction, source.word, candidate);
                for direction in Direction::BOTH_OF_LINKS {
                    row[2 * head + direction_index(direction)] = f16::from_f64(weight(direction)).to_bits();
                }
            }
            for &direction in self.key.directions() {
                let choice = LinkChoice { attention, partners, direction, is_undirected: false };
                let word = choice.best_word(source.word, &source.candidates);
                let is_right = word.is_some_and(|word| source.is_target(word));
                self.hits[head][direction_index(direction)] += u32::from(is_right);
            }
        }
    }

    /// Calls `show` with each source and the regressors of its candidates, `[candidates, terms]`. If `evidence` includes them,
    /// these are the weights of all attention heads, then indicators of [`OFFSET_CLASSES`] offset classes.
    pub fn for_each_source(
        &self,
        evidence: LinkEvidence,
        rows: &mut Vec<f32>,
        mut show: impl FnMut(&LinkSource, &[f32]),
    ) {
        let of_heads = self.width();
        let width = evidence.term_count(self.hits.len());
        let mut terms = self.terms.chunks_exact(of_heads);
        for source in &self.sources {
            rows.clear();
            rows.resize(source.candidates.len() * width, 0.0);
            for (place, &candidate) in source.candidates.iter().enumerate() {
                let row = &mut rows[place * width..][..width];
                let bits = terms.next().expect("terms for each candidate");
                let (heads, distances) = row.split_at_mut(if evidence.has_heads { of_heads } else { 0 });
                if evidence.has_heads {
                    bits.reinterpret_cast::<f16>().convert_to_f32_slice(heads);
                }
                if evidence.has_distances {
                    distances[offset_class(source.word, candidate)] = 1.0;
                }
            }
            show(source, rows);
        }
    }

    /// Writes the corrected weights of all attention heads for a range of pairs into `rows`, `[pairs, heads]`.
    pub fn write_pair_rows(&self, pairs: Range<usize>, rows: &mut Vec<f32>) {
        let bits = &self.terms[pairs.start * self.width()..pairs.end * self.width()];
        rows.resize(bits.len(), 0.0);
        bits.reinterpret_cast::<f16>().convert_to_f32_slice(rows);
        rows.iter_mut().for_each(|weight| *weight /= PAIR_SCALE);
    }

    /// Whether the links are valid for this many attention heads and words. Links read from a file may fail this.
    fn fits(&self, heads: usize, words: usize) -> bool {
        let is_of_pairs = scores_pairs(&self.key);
        let max_hits = self.pairs.as_ref().map_or(self.sources.len(), LinkedPairs::top_count);
        self.hits.len() == heads
            && self.sentence.start <= self.sentence.end
            && self.sentence.end <= words
            && (self.pairs.is_some(), self.sources.is_empty()) == (is_of_pairs, is_of_pairs)
            && self.sources.iter().all(|source| source.fits(words))
            && self.pairs.iter().all(|pairs| pairs.fits(words))
            && self.hits.as_flattened().iter().all(|&right| right as usize <= max_hits)
            && self.rows().checked_mul(self.width()) == Some(self.terms.len())
            && self.terms.iter().all(|&bits| f16::from_bits(bits).is_finite())
    }
}

impl LinkEvidence {
    pub fn term_count(self, heads: usize) -> usize {
        let of_heads = if self.has_heads { 2 * heads } else { 0 };
        of_heads + if self.has_distances { OFFSET_CLASSES } else { 0 }
    }
}

/// Whether pairs are scored instead of sources, as for undirected types in encoders.
pub fn scores_pairs(key: &LinkKey) -> bool {
    key.is_undirected && key.side.is_none()
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkedSequence {
    pub block: usize,
    pub is_first: bool,
    /// Token ids of each word.
    pub words: Vec<Vec<u32>>,
    /// Class of each word; empty if no word has a class other than its form.
    pub classes: Vec<Box<str>>,
    pub links: Vec<KeptLinks>,
}

impl LinkedSequence {
    pub fn bytes(&self) -> u64 {
        self.links.iter().map(KeptLinks::bytes).sum()
    }

    pub fn to_lexical_sentence(&self, links: &KeptLinks) -> LexicalSentence<'_> {
        let choice = |source: &LinkSource| LexicalChoice {
            word: source.word,
            candidates: source.candidates.clone(),
            targets: (0..source.candidates.len()).filter(|&place| source.is_target(source.candidates[place])).collect(),
        };
        LexicalSentence {
            block: self.block,
            words: self.words.iter().map(Vec::as_slice).collect(),
            choices: links.sources.iter().map(choice).collect(),
        }
    }

    pub fn fits(&self, heads: usize) -> bool {
        let words = self.words.len();
        self.block < BLOCKS
            && (self.classes.is_empty() || self.classes.len() == words)
            && self.links.iter().all(|links| links.fits(heads, words))
    }
}

/// A sequence with links whose attention is being observed.
#[derive(Debug)]
pub struct ObservedLinks {
    pub kept: LinkedSequence,
    /// Candidates, and factors that make their weights comparable, for each class of layers with equal visibility.
    partners: Vec<Partners>,
}

impl ObservedLinks {
    /// Prepares a sequence; `heads` is the number of attention heads of the model. `None` if no link of the sequence is scored.
    pub fn new(sequence: &Sequence, classes: &LayerClasses, from: FromToken, heads: usize) -> Option<Self> {
        if sequence.links.is_empty() {
            return None;
        }
        let visibility = classes.in_all_layers();
        let words = LinkedWords::new(sequence, visibility, from);
        let of_set = |set| -> Vec<KeptLinks> {
            let keys = LinkKey::from_link_set(set, visibility.is_causal());
            keys.iter().filter_map(|key| KeptLinks::new(&words, set, key, heads)).collect()
        };
        let links: Vec<KeptLinks> = sequence.links.iter().flat_map(of_set).collect();
        let tokens = |word: &crate::sequences::span::WordSpan| sequence.ids[word.tokens.clone()].to_vec();
        let kept = LinkedSequence {
            block: block_of(sequence.family.number),
            is_first: sequence.family.is_first,
            words: sequence.words.iter().map(tokens).collect(),
            classes: words.classes().iter().filter(|_| words.have_classes).map(|&class| class.into()).collect(),
            links,
        };
        let partners =
            classes.visibilities().iter().map(|&visibility| Partners::new(sequence, visibility, from)).collect();
        (!kept.links.is_empty()).then_some(Self { kept, partners })
    }

    /// Keeps the weights of an attention head, given its index and its layer's visibility class; `corrected` is a buffer.
    pub fn keep_head(&mut self, (head, class): (usize, usize), attention: &WordAttention, corrected: &mut Vec<f64>) {
        for links in &mut self.kept.links {
            links.keep(head, attention, &self.partners[class], corrected);
        }
    }
}
