//! How often a head's attention points from a word to its syntactic head (METHODOLOGY, "Dependency alignment").

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use crate::corpus::TreeHead;
use crate::corpus::relation::scored_as;
use crate::sequences::sequence::GoldArc;
use crate::sequences::words::WordAttention;
use crate::stats::search::{first_at_least, largest};
use crate::system::lanes::LANES;

/// The farthest offset of the baseline "the head is the word at `d+k`".
pub const MAX_BASELINE_OFFSET: i32 = 10;

/// The baseline's offsets: -10..=10 without 0.
pub const BASELINE_OFFSETS: usize = 2 * MAX_BASELINE_OFFSET as usize;

/// The offsets of the baseline in order, -10 first.
pub fn baseline_offsets() -> impl Iterator<Item = i32> {
    (-MAX_BASELINE_OFFSET..=MAX_BASELINE_OFFSET).filter(|&offset| offset != 0)
}

/// An arc that is scored: a word with a gold head in a sentence of at least two words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoredArc {
    /// The position of the dependent.
    pub dependent: usize,
    /// The position of its gold head.
    pub head: usize,
    /// The baseline offset that predicts it, as a place in [`baseline_offsets`]; `None` where the head is farther away.
    pub offset: Option<usize>,
    /// The relations that it counts for, as indices into the table of relations.
    pub relations: Vec<usize>,
}

/// The arcs of a tree that are scored; `index` gives a relation's place in the table.
pub fn scored_arcs(tree: &[GoldArc], mut index: impl FnMut(&str) -> usize) -> Vec<ScoredArc> {
    if tree.len() < 2 {
        return Vec::new();
    }
    let scored = tree.iter().enumerate().filter_map(|(dependent, arc)| match arc.head {
        TreeHead::Word(head) => Some((dependent, head, &arc.relation)),
        TreeHead::Root | TreeHead::Unknown => None,
    });
    scored
        .map(|(dependent, head, relation)| ScoredArc {
            dependent,
            head,
            offset: baseline_offsets().position(|offset| dependent.checked_add_signed(offset as isize) == Some(head)),
            relations: scored_as(relation).map(&mut index).collect(),
        })
        .collect()
}

/// How often one relation's arcs were predicted rightly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationSums {
    /// Arcs scored.
    pub count: u64,
    /// Arcs whose head is at each baseline offset, -10 first.
    pub offset_hits: [u64; BASELINE_OFFSETS],
    /// Arcs that each head predicts, by [`Direction::BOTH`]; `[layers * heads]`, empty until a head scores.
    pub hits: Vec<[u64; 2]>,
}

impl RelationSums {
    /// Counts an arc, and which offset predicts it.
    pub fn count(&mut self, arc: &ScoredArc, heads: usize) {
        self.hits.resize(heads, [0; 2]);
        self.count += 1;
        if let Some(offset) = arc.offset {
            self.offset_hits[offset] += 1;
        }
    }

    /// Adds another block's counts.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.offset_hits.iter_mut().zip(other.offset_hits).for_each(|(sum, hits)| *sum += hits);
        self.hits.resize(self.hits.len().max(other.hits.len()), [0; 2]);
        for (sum, hits) in self.hits.iter_mut().zip(&other.hits) {
            sum[0] += hits[0];
            sum[1] += hits[1];
        }
    }
}

/// How many arcs of one relation both a head and a fixed offset predict.
///
/// Which offset is the baseline is known only when all sentences are counted, so this is kept for every offset;
/// an arc is right for one offset at most, so it is one count per right prediction.
/// Only totals are needed (for the test of a head against its baseline), so it is not kept by block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// Arcs by head, direction ([`Direction::BOTH`]) and offset (-10 first); `[layers * heads]`, empty until a head
    /// scores.
    pub both: Vec<[[u64; BASELINE_OFFSETS]; 2]>,
}

impl Agreement {
    /// Makes room for `heads` heads.
    pub fn resize(&mut self, heads: usize) {
        self.both.resize(heads, [[0; BASELINE_OFFSETS]; 2]);
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Self) {
        self.resize(self.both.len().max(other.both.len()));
        let (sums, counts) =
            (self.both.as_flattened_mut().as_flattened_mut(), other.both.as_flattened().as_flattened());
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
}

/// The head that one attention head predicts for each word; the buffers are reused from sentence to sentence.
#[derive(Clone, Debug, Default)]
pub struct Predictions {
    /// `[width]`: one word's attention to the others, rounded up to whole vectors.
    others: Vec<f64>,
    /// `[width]`: the largest weight of each column so far.
    most: Vec<f64>,
    /// `[width]`: its row.
    chosen: Vec<u64>,
    /// `[words]`: by [`Direction::BOTH`].
    heads: Vec<[usize; 2]>,
}

impl Predictions {
    /// What `attention` predicts for each word, by [`Direction::BOTH`]; `[words]`.
    ///
    /// The diagonal is left out: a word is not its own head. Ties go to the lowest index.
    pub fn of(&mut self, attention: &WordAttention) -> &[[usize; 2]] {
        let words = attention.words();
        let width = words.next_multiple_of(LANES);
        self.others.clear();
        self.others.resize(width, NONE);
        self.most.clear();
        self.most.resize(width, NONE);
        self.chosen.clear();
        self.chosen.resize(width, 0);
        self.heads.clear();
        self.heads.resize(words, [0; 2]);
        predict(attention, &mut self.others, &mut self.most, &mut self.chosen, &mut self.heads);
        &self.heads
    }
}

/// Less than any weight.
const NONE: f64 = f64::NEG_INFINITY;

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
#[expect(clippy::cast_possible_truncation, reason = "indices of words, widened to the size of a weight")]
fn predict(
    attention: &WordAttention,
    others: &mut [f64],
    most: &mut [f64],
    chosen: &mut [u64],
    heads: &mut [[usize; 2]],
) {
    for (word, heads) in heads.iter_mut().enumerate() {
        let row = attention.row(word);
        others[..row.len()].copy_from_slice(row);
        others[word] = NONE;
        heads[0] = first_at_least(others, largest(others));
        for ((weight, most), chosen) in others.iter().zip(&mut *most).zip(&mut *chosen) {
            let better = *weight > *most;
            *most = if better { *weight } else { *most };
            *chosen = if better { word as u64 } else { *chosen };
        }
    }
    for (heads, chosen) in heads.iter_mut().zip(chosen) {
        heads[1] = *chosen as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::attention::AttentionView;
    use crate::sequences::words::FromToken;

    fn words(weights: &[f32], count: usize) -> WordAttention {
        let mut folded = WordAttention::default();
        let spans: Vec<_> = (0..count).map(|word| word..word + 1).collect();
        folded.fold(AttentionView::new(0, 0, count, weights), &spans, FromToken::Mean);
        folded
    }

    #[test]
    fn predictions_leave_the_word_itself_out() {
        let attention = words(&[0.75, 0.125, 0.125, 0.25, 0.5, 0.25, 0.0, 0.375, 0.625], 3);
        // Rows without the diagonal: word 0 ties between 1 and 2, word 1 between 0 and 2: the lowest wins; 2 -> 1.
        // Columns without the diagonal: into 0 most from 1, into 1 most from 2, into 2 most from 1.
        assert_eq!(Predictions::default().of(&attention), [[1, 1], [0, 2], [1, 1]]);
    }

    fn arc(head: TreeHead, relation: &str) -> GoldArc {
        GoldArc { head, relation: relation.to_owned() }
    }

    #[test]
    fn roots_and_words_alone_are_not_scored() {
        let tree = [arc(TreeHead::Word(1), "nsubj"), arc(TreeHead::Root, "root"), arc(TreeHead::Unknown, "obj")];
        let arcs = scored_arcs(&tree, |name| ["all", "nsubj"].iter().position(|known| *known == name).unwrap());
        // +1 is the first offset after the ten to the left.
        assert_eq!(arcs, [ScoredArc { dependent: 0, head: 1, offset: Some(10), relations: vec![0, 1] }]);
        assert_eq!(scored_arcs(&[arc(TreeHead::Root, "root")], |_| 0), []);
    }

    #[test]
    fn an_arc_is_right_for_one_offset_at_most() {
        let heads = [TreeHead::Word(2), TreeHead::Root, TreeHead::Word(1), TreeHead::Word(14)];
        let far = (0..11).map(|_| TreeHead::Root);
        let tree: Vec<GoldArc> = heads.into_iter().chain(far).map(|head| arc(head, "obj")).collect();
        let mut sums = RelationSums::default();
        // 0 -> 2 is +2, 2 -> 1 is -1, and 3 -> 14 is +11: too far.
        let arcs = scored_arcs(&tree, |_| 0);
        arcs.iter().for_each(|arc| sums.count(arc, 1));
        assert_eq!(sums.count, 3);
        let hits: Vec<i32> =
            baseline_offsets().zip(sums.offset_hits).filter(|(_, hits)| *hits > 0).map(|(k, _)| k).collect();
        assert_eq!(hits, [-1, 2]);
        assert_eq!(baseline_offsets().count(), BASELINE_OFFSETS);
    }
}
