//! Sampled sequences with user-defined links, kept until models are fitted. They have every head's attention from sources
//! to candidates, or between the words of pairs.

use std::ops::Range;

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use serde::{Deserialize, Serialize};

use crate::corpus::LinkSet;
use crate::model::grid::visibility::LayerClasses;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::sequences::span::WordSpan;
use crate::stats::blocks::{BLOCKS, block_of};
use crate::studies::patterns::dependency::arcs::{OFFSET_CLASS_COUNT, offset_class};
use crate::studies::patterns::dependency::parser::lexical_baseline::{LexicalSentence, WordCandidates};
use crate::study::instruments::linked::choice::LinkChoice;
use crate::study::instruments::linked::key::{LinkKey, direction_index};
use crate::study::instruments::linked::pairs::LinkedPairs;
use crate::study::instruments::linked::sources::{LinkSource, LinkedWords};
use crate::study::instruments::partners::Partners;
use crate::study::labels::evidence::Direction;

/// Factor on the stored weights of pairs. The weights are at most 2 but often below 2^-14, where half precision loses
/// digits. A power of two adds no rounding.
const PAIR_WEIGHT_FACTOR: f32 = 1024.0;

/// Evidence that a model of links uses: attention, distances, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvidence {
    /// Whether the model uses the attention weights of all heads.
    pub has_heads: bool,
    /// Whether the model uses the distance from source to candidate, in classes ([`offset_class`]).
    pub has_distances: bool,
}

/// Links of one type in one sentence, with every attention head's weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptLinks {
    /// Type of the links and, in a decoder, the side of the target.
    pub key: LinkKey,
    /// Range of word indices of the sentence that contains the links.
    pub sentence: Range<usize>,
    /// Sources of links (the words that links start from), each with its candidates. Empty if pairs are scored instead.
    pub sources: Vec<LinkSource>,
    /// Pairs of words that may be linked. `None` unless the type is undirected and the model an encoder.
    pub pairs: Option<LinkedPairs>,
    /// Number of sources for which each attention head chooses a target, by [`Direction::BOTH_OF_LINKS`], `[heads]`.
    /// For pairs, the first entry is the number of linked pairs among the pairs with the largest corrected weights.
    pub hits: Vec<[u32; 2]>,
    /// Attention as half-precision bits. For sources, `[candidates of all sources, heads, 2]`: each head's attention
    /// from source to candidate and back. For pairs, `[pairs, heads]`: each head's attention between both words, summed
    /// over both directions and with the average product correction, times [`PAIR_WEIGHT_FACTOR`]. The sum is twice
    /// the result of [`LinkedPairs::corrected_weights`].
    terms: Vec<u16>,
}

impl KeptLinks {
    /// Selects the links that are scored under `key`. `None` if no link is.
    fn new(words: &LinkedWords<'_>, links: &LinkSet, key: &LinkKey, heads: usize) -> Option<Self> {
        let sentence = words.sentence_of(links)?;
        let is_of_pairs = scores_pairs(key);
        let pairs = if is_of_pairs { Some(words.pairs(links)?) } else { None };
        let mut sources = if is_of_pairs { Vec::new() } else { words.sources(links, key.side).scored };
        sources.iter_mut().for_each(|source| source.seen.clear());
        let kept = Self { key: key.clone(), sentence, sources, pairs, hits: vec![[0; 2]; heads], terms: Vec::new() };
        (kept.row_count() > 0).then_some(kept)
    }

    /// Number of rows of `terms`: candidates of all sources, or pairs.
    fn row_count(&self) -> usize {
        let candidates = || self.sources.iter().map(|source| source.candidates.len()).sum();
        self.pairs.as_ref().map_or_else(candidates, |pairs| pairs.pairs().len())
    }

    /// Number of weights per row of `terms`.
    fn row_width(&self) -> usize {
        self.hits.len() * if self.pairs.is_some() { 1 } else { 2 }
    }

    /// Memory of the attention weights, in bytes.
    pub fn attention_bytes(&self) -> u64 {
        (self.row_count() * self.row_width() * size_of::<u16>()) as u64
    }

    /// Stores the weights of one attention head, and counts its right choices. `corrected` is a buffer.
    fn keep_head(&mut self, head: usize, attention: &WordAttention, partners: &Partners, corrected: &mut Vec<f64>) {
        let width = self.row_width();
        self.terms.resize(self.row_count() * width, 0);
        let mut rows = self.terms.chunks_exact_mut(width);
        let as_count = |right: u64| u32::try_from(right).expect("a sentence has fewer than 2^32 words");
        if let Some(pairs) = &self.pairs {
            pairs.corrected_weights(attention, corrected);
            // The regressor is the corrected A + Aᵀ, and `corrected_weights` takes half of that sum.
            let terms =
                corrected.iter().map(|weight| f16::from_f64(2.0 * weight * f64::from(PAIR_WEIGHT_FACTOR)).to_bits());
            rows.zip(terms).for_each(|(row, term)| row[head] = term);
            self.hits[head][0] = as_count(pairs.hit_count(corrected));
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

    /// Calls `show` with each source and the regressors of its candidates, `[candidates, terms]`. The regressors in
    /// `evidence` are the weights of all attention heads, then indicators of the [`OFFSET_CLASS_COUNT`] offset classes.
    pub fn for_each_source(
        &self,
        evidence: LinkEvidence,
        rows: &mut Vec<f32>,
        mut show: impl FnMut(&LinkSource, &[f32]),
    ) {
        let of_heads = self.row_width();
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

    /// Writes the attention of all heads for a range of pairs, with average product correction, to `rows`, `[pairs,
    /// heads]`.
    pub fn write_pair_rows(&self, pairs: Range<usize>, rows: &mut Vec<f32>) {
        let bits = &self.terms[pairs.start * self.row_width()..pairs.end * self.row_width()];
        rows.resize(bits.len(), 0.0);
        bits.reinterpret_cast::<f16>().convert_to_f32_slice(rows);
        rows.iter_mut().for_each(|weight| *weight /= PAIR_WEIGHT_FACTOR);
    }

    /// Whether the links are valid for this many attention heads and words. Links read from a file may fail this.
    fn fits(&self, heads: usize, words: usize) -> bool {
        let is_of_pairs = scores_pairs(&self.key);
        let max_hits = self.pairs.as_ref().map_or(self.sources.len(), LinkedPairs::predicted_link_count);
        self.hits.len() == heads
            && self.sentence.start <= self.sentence.end
            && self.sentence.end <= words
            && (self.pairs.is_some(), self.sources.is_empty()) == (is_of_pairs, is_of_pairs)
            && self.sources.iter().all(|source| source.fits(words))
            && self.pairs.iter().all(|pairs| pairs.fits(words))
            && self.hits.as_flattened().iter().all(|&right| right as usize <= max_hits)
            && self.row_count().checked_mul(self.row_width()) == Some(self.terms.len())
            && self.terms.iter().all(|&bits| f16::from_bits(bits).is_finite())
    }
}

impl LinkEvidence {
    /// Number of regressors for this evidence: two per attention head, one per offset class, or both.
    pub fn term_count(self, heads: usize) -> usize {
        let of_heads = if self.has_heads { 2 * heads } else { 0 };
        of_heads + if self.has_distances { OFFSET_CLASS_COUNT } else { 0 }
    }
}

/// Whether pairs are scored instead of sources. True for undirected types in encoders.
pub fn scores_pairs(key: &LinkKey) -> bool {
    key.is_undirected && key.side.is_none()
}

/// A sampled sequence with its links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkedSequence {
    /// Index of the sequence's jackknife block.
    pub block: usize,
    /// Whether the sequence is the first of its group of related sentences.
    pub is_first: bool,
    /// Token ids of each word.
    pub words: Vec<Vec<u32>>,
    /// Class of each word, such as its UPOS. Empty if every word's class is its form.
    pub classes: Vec<Box<str>>,
    /// Links of each type in each sentence.
    pub links: Vec<KeptLinks>,
}

impl LinkedSequence {
    /// Memory of the attention weights, in bytes.
    pub fn attention_bytes(&self) -> u64 {
        self.links.iter().map(KeptLinks::attention_bytes).sum()
    }

    /// Converts the sequence and its `links` for the lexical baseline.
    pub fn to_lexical_sentence(&self, links: &KeptLinks) -> LexicalSentence<'_> {
        let choice = |source: &LinkSource| WordCandidates {
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

    /// Whether the sequence is valid for a model with `heads` attention heads. A sequence read from a file may fail this.
    pub fn fits(&self, heads: usize) -> bool {
        let words = self.words.len();
        self.block < BLOCKS
            && (self.classes.is_empty() || self.classes.len() == words)
            && self.links.iter().all(|links| links.fits(heads, words))
    }
}

/// A sequence with links during a pass, while its attention is being stored.
#[derive(Debug)]
pub struct ObservedLinks {
    pub kept: LinkedSequence,
    /// Candidates for the other word of a link, for each attention mask that layers have. In a decoder, [`Partners`]
    /// divides weights by uniform attention.
    partners: Vec<Partners>,
}

impl ObservedLinks {
    /// Prepares a sequence for a model with `heads` attention heads. `None` if none of its links is scored.
    pub fn new(sequence: &Sequence, classes: &LayerClasses, from: FromToken, heads: usize) -> Option<Self> {
        if sequence.links.is_empty() {
            return None;
        }
        let visibility = classes.common_visibility();
        let words = LinkedWords::new(sequence, visibility, from);
        let of_set = |set| -> Vec<KeptLinks> {
            let keys = LinkKey::from_link_set(set, visibility.is_causal());
            keys.iter().filter_map(|key| KeptLinks::new(&words, set, key, heads)).collect()
        };
        let links: Vec<KeptLinks> = sequence.links.iter().flat_map(of_set).collect();
        let tokens = |word: &WordSpan| sequence.ids[word.tokens.clone()].to_vec();
        let kept = LinkedSequence {
            block: block_of(sequence.family.number),
            is_first: sequence.family.is_first,
            words: sequence.words.iter().map(tokens).collect(),
            classes: words.classes().iter().filter(|_| words.has_classes).map(|&class| class.into()).collect(),
            links,
        };
        let partners =
            classes.visibilities().iter().map(|&visibility| Partners::new(sequence, visibility, from)).collect();
        (!kept.links.is_empty()).then_some(Self { kept, partners })
    }

    /// Stores the weights of one attention head, given its index and the index of its layer's attention mask.
    /// `corrected` is a buffer.
    pub fn keep_attention(
        &mut self,
        (head, class): (usize, usize),
        attention: &WordAttention,
        corrected: &mut Vec<f64>,
    ) {
        for links in &mut self.kept.links {
            links.keep_head(head, attention, &self.partners[class], corrected);
        }
    }
}
