//! Sampled sentences, kept until the parser is fitted: gold arcs, and every head's attention between words.

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use serde::{Deserialize, Serialize};

use crate::corpus::TreeHead;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::visibility::LayerClasses;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::lifts::LiftFactors;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::{GoldArc, Sequence, TokenKind};
use crate::sequences::span::WordSpan;
use crate::stats::blocks::{BLOCKS, block_of};
use crate::studies::patterns::dependency::sums::ArcStatus;

/// Gold syntactic head of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GoldHead {
    Root,
    /// Index of the syntactic head among the kept words.
    Word(usize),
    /// No annotated syntactic head, or one that is no candidate, such as a decoder's first word.
    Unknown,
}

/// A word of a sampled sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWord {
    /// Gold syntactic head of the word.
    pub gold: GoldHead,
    /// Relation of the word to its gold syntactic head.
    pub relation: String,
    /// Whether predictions for the word are scored: its gold head is another word, and the two words see each other.
    pub scored: bool,
    /// Token ids of the word.
    pub tokens: Vec<u32>,
}

/// A sampled sentence with its attention. Its nodes are its words, followed by the root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptSentence {
    /// Index of the sentence's jackknife block.
    pub block: usize,
    /// Whether the sentence is the first of its group of related sentences.
    pub is_first: bool,
    /// Words of the sentence. In a decoder, the word that contains the first token is left out.
    pub words: Vec<KeptWord>,
    /// Attention between nodes in each attention head, `[heads, nodes, nodes]`, as half-precision bits.
    attention: Vec<u16>,
}

impl KeptSentence {
    /// Number of nodes: the words and the root.
    pub fn node_count(&self) -> usize {
        self.words.len() + 1
    }

    /// Writes one attention head's weights between nodes to `weights`, `[nodes, nodes]`.
    pub fn read_attention(&self, head: usize, weights: &mut Vec<f32>) {
        let size = self.node_count() * self.node_count();
        weights.resize(size, 0.0);
        self.attention[head * size..][..size].reinterpret_cast::<f16>().convert_to_f32_slice(weights);
    }

    /// Memory of the attention weights, in bytes.
    pub fn attention_bytes(&self) -> u64 {
        (self.attention.len() * size_of::<u16>()) as u64
    }

    /// Whether the sentence is valid for a model with `heads` attention heads. A sentence read from a file may fail this.
    pub fn fits(&self, heads: usize) -> bool {
        let nodes = self.node_count();
        let size = nodes.checked_mul(nodes).and_then(|size| size.checked_mul(heads));
        let is_word = |(place, word): (usize, &KeptWord)| match word.gold {
            GoldHead::Word(head) => head < self.words.len() && head != place,
            GoldHead::Root | GoldHead::Unknown => !word.scored,
        };
        self.block < BLOCKS
            && size == Some(self.attention.len())
            && self.words.iter().enumerate().all(is_word)
            && self.attention.iter().all(|&bits| f16::from_bits(bits).is_finite())
    }
}

/// A sentence during a pass, while its attention is being stored.
#[derive(Debug)]
pub struct ObservedSentence {
    pub kept: KeptSentence,
    /// Token range of each node: of each word, then of the token that stands for the root, `[nodes]`.
    spans: Vec<WordSpan>,
    /// Whether some token of the sequence stands for the root.
    has_root: bool,
    /// Factors that divide a decoder's attention by uniform attention, for each attention mask that layers have.
    lifts: Vec<LiftFactors>,
}

impl ObservedSentence {
    /// Prepares a sequence for a model with `heads` attention heads. `None` if no word has a known gold head.
    pub fn new(sequence: &Sequence, classes: &LayerClasses, from: FromToken, heads: usize) -> Option<Self> {
        let tree = sequence.tree.as_deref()?;
        let (counted, visibility) = (sequence.counted_words(), classes.common_visibility());
        let word = |(place, arc): (usize, &GoldArc)| {
            let gold = match arc.head {
                TreeHead::Root => GoldHead::Root,
                TreeHead::Word(head) if counted.contains(&head) => GoldHead::Word(head - counted.start),
                TreeHead::Word(_) | TreeHead::Unknown => GoldHead::Unknown,
            };
            let is_seen = |head| ArcStatus::new(sequence, visibility, from, (place, head)) == ArcStatus::Scored;
            let scored = arc.head.word().is_some_and(|head| counted.contains(&head) && is_seen(head));
            let tokens = sequence.ids[sequence.words[place].tokens.clone()].to_vec();
            KeptWord { gold, relation: arc.relation.clone(), scored, tokens }
        };
        let words: Vec<KeptWord> =
            tree.iter().enumerate().filter(|(place, _)| counted.contains(place)).map(word).collect();
        if words.iter().all(|word| word.gold == GoldHead::Unknown) {
            return None;
        }
        let nodes = words.len() + 1;
        let kept = KeptSentence {
            block: block_of(sequence.family.number),
            is_first: sequence.family.is_first,
            words,
            attention: vec![0; heads * nodes * nodes],
        };
        let root = root_position(&sequence.kinds);
        let mut spans = sequence.words[counted].to_vec();
        // Without a root token, the root's row and column stay 0, and this span is unused.
        let place = root.unwrap_or_default();
        spans.push((place..place + 1).into());
        let even = |&visibility| UniformAttention::new(visibility, sequence.ids.len());
        let lifts =
            classes.visibilities().iter().map(even).map(|even| LiftFactors::from_spans(&spans, even, from)).collect();
        Some(Self { kept, spans, has_root: root.is_some(), lifts })
    }

    /// Stores the attention of one head, times the lift factors. `head` is its index; `class` is the index of its layer's class
    /// in `LayerClasses`. `folded` is a buffer for the attention between words.
    pub fn keep_attention(
        &mut self,
        (head, class): (usize, usize),
        view: AttentionView<'_>,
        from: FromToken,
        folded: &mut WordAttention,
    ) {
        folded.fold(view, &self.spans, from);
        let (nodes, lifts) = (self.spans.len(), &self.lifts[class]);
        let kept = &mut self.kept.attention[head * nodes * nodes..][..nodes * nodes];
        let attended_nodes = if self.has_root { nodes } else { nodes - 1 };
        for query in 0..attended_nodes {
            for key in (0..attended_nodes).filter(|&key| key != query) {
                let weight = folded.get(query, key) * lifts.get(query, key);
                kept[query * nodes + key] = f16::from_f64(weight).to_bits();
            }
        }
    }
}

/// Returns the index of the token that stands for the root: the first special token, a decoder's first token, or else the
/// first separator.
fn root_position(kinds: &[TokenKind]) -> Option<usize> {
    let first = |wanted: &[TokenKind]| kinds.iter().position(|kind| wanted.contains(kind));
    first(&[TokenKind::FirstSpecial, TokenKind::First]).or_else(|| first(&[TokenKind::Separator]))
}
