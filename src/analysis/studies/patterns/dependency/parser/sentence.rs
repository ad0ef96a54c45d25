//! A sentence of the sample: its arcs, and the attention between its words in every head.

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use serde::{Deserialize, Serialize};

use crate::corpus::TreeHead;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::visibility::LayerClasses;
use crate::sequences::fold::even::Even;
use crate::sequences::fold::lifts::Lifts;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::{GoldArc, Sequence, TokenKind};
use crate::sequences::span::WordSpan;
use crate::stats::blocks::{BLOCKS, block_of};
use crate::studies::patterns::dependency::sums::Sight;

/// Where the head of a word is, among the words that can be heads in its sentence and the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gold {
    Root,
    Word(usize),
    /// It is not annotated, or is none of the candidates.
    Unknown,
}

/// A word that can be a dependent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWord {
    pub gold: Gold,
    pub relation: String,
    /// Whether it is scored: its head is another word, and the two see each other.
    pub scored: bool,
    pub tokens: Vec<u32>,
}

/// A sentence with what the parser knows of it; its nodes are its words, and after them the root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptSentence {
    pub block: usize,
    pub is_first: bool,
    /// Its words; of a decoder those without its first token.
    pub words: Vec<KeptWord>,
    /// The attention of each head from node to node, `[heads, nodes, nodes]`, as the bits of half-precision numbers.
    attention: Vec<u16>,
}

impl KeptSentence {
    pub fn nodes(&self) -> usize {
        self.words.len() + 1
    }

    pub fn attention(&self, head: usize, weights: &mut Vec<f32>) {
        let size = self.nodes() * self.nodes();
        weights.resize(size, 0.0);
        self.attention[head * size..][..size].reinterpret_cast::<f16>().convert_to_f32_slice(weights);
    }

    pub fn bytes(&self) -> u64 {
        (self.attention.len() * size_of::<u16>()) as u64
    }

    /// Whether it is a sentence of a model with so many heads; one from a file may be anything.
    pub fn fits(&self, heads: usize) -> bool {
        let nodes = self.nodes();
        let size = nodes.checked_mul(nodes).and_then(|size| size.checked_mul(heads));
        let is_word = |(place, word): (usize, &KeptWord)| match word.gold {
            Gold::Word(head) => head < self.words.len() && head != place,
            Gold::Root | Gold::Unknown => !word.scored,
        };
        self.block < BLOCKS
            && size == Some(self.attention.len())
            && self.words.iter().enumerate().all(is_word)
            && self.attention.iter().all(|&bits| f16::from_bits(bits).is_finite())
    }
}

/// A sentence while its heads are seen.
#[derive(Debug)]
pub struct SeenSentence {
    pub kept: KeptSentence,
    /// The tokens of each word, and of the root, `[nodes]`.
    spans: Vec<WordSpan>,
    /// Whether some token stands for the root.
    has_root: bool,
    /// The factors that make attention comparable, in each class of layers.
    lifts: Vec<Lifts>,
}

impl SeenSentence {
    /// A sentence of a model with so many heads; `None` if no word has a head.
    pub fn new(sequence: &Sequence, classes: &LayerClasses, from: FromToken, heads: usize) -> Option<Self> {
        let tree = sequence.tree.as_deref()?;
        let (counted, visibility) = (sequence.counted_words(), classes.in_all_layers());
        let word = |(place, arc): (usize, &GoldArc)| {
            let gold = match arc.head {
                TreeHead::Root => Gold::Root,
                TreeHead::Word(head) if counted.contains(&head) => Gold::Word(head - counted.start),
                TreeHead::Word(_) | TreeHead::Unknown => Gold::Unknown,
            };
            let is_seen = |head| Sight::of(sequence, visibility, from, (place, head)) == Sight::Scored;
            let scored = arc.head.word().is_some_and(|head| counted.contains(&head) && is_seen(head));
            let tokens = sequence.ids[sequence.words[place].tokens.clone()].to_vec();
            KeptWord { gold, relation: arc.relation.clone(), scored, tokens }
        };
        let words: Vec<KeptWord> =
            tree.iter().enumerate().filter(|(place, _)| counted.contains(place)).map(word).collect();
        if words.iter().all(|word| word.gold == Gold::Unknown) {
            return None;
        }
        let nodes = words.len() + 1;
        let kept = KeptSentence {
            block: block_of(sequence.family.number),
            is_first: sequence.family.is_first,
            words,
            attention: vec![0; heads * nodes * nodes],
        };
        let root = root_token(&sequence.kinds);
        let mut spans = sequence.words[counted].to_vec();
        // Without such a token its row and its column stay empty.
        let place = root.unwrap_or_default();
        spans.push((place..place + 1).into());
        let even = |&visibility| Even::new(visibility, sequence.ids.len());
        let lifts = classes.kinds().iter().map(even).map(|even| Lifts::between(&spans, even, from)).collect();
        Some(Self { kept, spans, has_root: root.is_some(), lifts })
    }

    /// Keeps the attention of a head, given its place among all heads and its layer's class.
    pub fn keep(
        &mut self,
        (head, class): (usize, usize),
        view: AttentionView<'_>,
        from: FromToken,
        folded: &mut WordAttention,
    ) {
        folded.fold(view, &self.spans, from);
        let (nodes, lifts) = (self.spans.len(), &self.lifts[class]);
        let kept = &mut self.kept.attention[head * nodes * nodes..][..nodes * nodes];
        let known = if self.has_root { nodes } else { nodes - 1 };
        for query in 0..known {
            for key in (0..known).filter(|&key| key != query) {
                let weight = folded.get(query, key) * lifts.of(query, key);
                kept[query * nodes + key] = f16::from_f64(weight).to_bits();
            }
        }
    }
}

/// The token that stands for the root: the first special one, or the first that a decoder reads, or else the first separator.
fn root_token(kinds: &[TokenKind]) -> Option<usize> {
    let first = |wanted: &[TokenKind]| kinds.iter().position(|kind| wanted.contains(kind));
    first(&[TokenKind::FirstSpecial, TokenKind::First]).or_else(|| first(&[TokenKind::Separator]))
}
