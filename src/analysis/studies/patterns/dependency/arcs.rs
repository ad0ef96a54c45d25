//! Counts of arcs where an attention head points from a word to its syntactic head (docs/methodology/dependency.md).

use std::collections::BTreeMap;
use std::iter::zip;

use serde::{Deserialize, Serialize};

use super::tags::{CUE_COUNT, Cue, Side};
use crate::corpus::Annotation;
use crate::corpus::relation::scored_relations;
use crate::sequences::sequence::GoldArc;
use crate::stats::blocks::{Merge, merge_fields};
use crate::study::instruments::fold_scores::ScoredSums;

/// Largest distance, in words, of the offset baseline. The baseline predicts the word at `d + k` as syntactic head of word
/// `d`.
pub const MAX_BASELINE_OFFSET: i32 = 10;

/// Number of offsets that the baseline tries: -10 to 10 without 0.
pub const BASELINE_OFFSET_COUNT: usize = 2 * MAX_BASELINE_OFFSET as usize;

/// Returns the offsets that the baseline tries, in words, ascending.
pub fn baseline_offsets() -> impl Iterator<Item = i32> {
    (-MAX_BASELINE_OFFSET..=MAX_BASELINE_OFFSET).filter(|&offset| offset != 0)
}

/// Number of offset classes of an arc. The classes are the offsets of the baseline, then all offsets farther left, then all
/// farther right.
pub const OFFSET_CLASS_COUNT: usize = BASELINE_OFFSET_COUNT + 2;

/// Returns the offset class of the arc from `dependent` to `head`: an index in [`baseline_offsets`], or the class of all
/// offsets farther left or right.
pub fn offset_class(dependent: usize, head: usize) -> usize {
    let (farthest, is_after) = (BASELINE_OFFSET_COUNT / 2, head > dependent);
    match head.abs_diff(dependent) {
        distance if distance > farthest => BASELINE_OFFSET_COUNT + usize::from(is_after),
        distance if is_after => farthest + distance - 1,
        distance => farthest - distance,
    }
}

/// A scored arc: from a word, the dependent, to its gold syntactic head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoredArc {
    /// Index of the dependent among the words.
    pub dependent: usize,
    /// Index of the syntactic head among the words.
    pub head: usize,
    /// Offset class of the syntactic head relative to the dependent; see [`offset_class`].
    pub offset_class: usize,
    /// Whether the dependent has a universal part of speech (UPOS).
    pub has_upos: bool,
    /// Rule of the tag baseline that predicts this arc, with the dependent's UPOS. `None` if no rule predicts it.
    pub cue: Option<Cue>,
    /// Indices of the relations that count this arc, such as `all`, `nsubj` and `nsubj:pass`.
    pub relations: Vec<usize>,
}

/// Returns the arcs of a tree for which `is_scored(dependent, head)` holds. `index` returns a relation's index, given its
/// name and the side of the syntactic head.
pub fn scored_arcs(
    tree: &[GoldArc],
    annotations: &[Annotation],
    mut is_scored: impl FnMut(usize, usize) -> bool,
    mut index: impl FnMut(&str, Side) -> usize,
) -> Vec<ScoredArc> {
    if tree.len() < 2 {
        return Vec::new();
    }
    let arcs = tree.iter().enumerate();
    arcs.filter_map(|(dependent, arc)| Some((dependent, arc.head.word()?, &arc.relation)))
        .filter(|&(dependent, head, _)| is_scored(dependent, head))
        .map(|(dependent, head, relation)| ScoredArc {
            dependent,
            head,
            offset_class: offset_class(dependent, head),
            has_upos: annotations.get(dependent).is_some_and(|annotation| annotation.upos.is_some()),
            cue: Cue::from_arc(annotations, dependent, head),
            relations: scored_relations(relation)
                .map(|name| index(name, Side::from_positions(head, dependent)))
                .collect(),
        })
        .collect()
}

/// Number that represents one arc in fixed-point sums. Integer sums are exact in any order of addition.
pub const FIXED_POINT_UNIT: u128 = 1 << 32;

/// Converts a fixed-point sum, such as [`RelationSums::over_others`], to a number of arcs.
pub fn fixed_point_to_arcs(sum: i64) -> f64 {
    sum as f64 / FIXED_POINT_UNIT as f64
}

/// Whether a fixed-point sum lies between `-arcs` and `arcs` arcs. A sum read from a file may fail this.
pub fn is_possible_sum(sum: i64, arcs: u64) -> bool {
    u128::from(sum.unsigned_abs()) <= u128::from(arcs) * FIXED_POINT_UNIT
}

/// Counts of one relation's arcs, and of the arcs that each attention head predicts right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationSums {
    /// Number of scored arcs.
    pub count: u64,
    /// Number of sentences with an arc of the relation. Related sentences count once.
    pub sentences: u64,
    /// Number of arcs in each offset class of the syntactic head.
    pub places: [u64; OFFSET_CLASS_COUNT],
    /// Number of arcs whose dependent has a UPOS.
    pub tagged: u64,
    /// Number of arcs that each rule of the tag baseline predicts, by the rule and the dependent's UPOS ([`Cue`]).
    pub cues: BTreeMap<Cue, u64>,
    /// Number of arcs in sentences that also have arcs of other relations. Arcs of `punct` do not count as other arcs.
    pub with_others: u64,
    /// Right predictions of each attention head on the arcs that `with_others` counts, minus those expected from its
    /// accuracy on arcs of other relations in the same sentences. In fixed point ([`FIXED_POINT_UNIT`]), with the shape
    /// of `hits`.
    pub over_others: Vec<[i64; 2]>,
    /// Number of arcs that each attention head predicts right, by
    /// [`Direction::BOTH`](crate::study::labels::evidence::Direction::BOTH), `[layers * heads]`.
    pub hits: Vec<[u64; 2]>,
    /// Number of arcs whose dependent gives a special token more weight than every other word, with the shape of `hits`.
    pub to_special: Vec<[u64; 2]>,
}

merge_fields!(RelationSums { count, sentences, places, tagged, cues, with_others, over_others, hits, to_special });

impl ScoredSums for RelationSums {
    fn scored_words(&self) -> u64 {
        self.count
    }
}

impl RelationSums {
    /// Creates empty counts for `heads` attention heads.
    pub fn for_heads(heads: usize) -> Self {
        Self { hits: vec![[0; 2]; heads], ..Self::default() }
    }

    /// Counts one arc, and makes room for the counts of `heads` attention heads.
    pub fn count_arc(&mut self, arc: &ScoredArc, heads: usize) {
        self.hits.resize(heads, [0; 2]);
        self.to_special.resize(heads, [0; 2]);
        self.over_others.resize(heads, [0; 2]);
        self.count += 1;
        self.places[arc.offset_class] += 1;
        self.tagged += u64::from(arc.has_upos);
        if let Some(cue) = arc.cue {
            *self.cues.entry(cue).or_default() += 1;
        }
    }

    /// Whether no count exceeds the number of arcs. Sums read from a file may fail this.
    pub fn is_valid(&self) -> bool {
        let parts = [self.sentences, self.tagged, self.with_others, self.places.iter().sum()];
        let of_heads = self.hits.as_flattened().iter().chain(self.to_special.as_flattened());
        parts.iter().chain(of_heads).all(|&part| part <= self.count)
            && self.cues.values().sum::<u64>() <= self.tagged
            && self.over_others.as_flattened().iter().all(|&sum| is_possible_sum(sum, self.with_others))
    }
}

/// Counts of one relation's arcs that both an attention head and a baseline predict.
///
/// The best offset and the best tag rules are known only after all sentences, so arcs are counted for every offset and
/// rule. At most one offset and one rule predict an arc. Only totals are needed, so there are no blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreementCounts {
    /// Number of arcs that an attention head predicts right, by head, direction
    /// ([`Direction::BOTH`](crate::study::labels::evidence::Direction::BOTH)) and offset class, `[layers * heads]`. Empty
    /// until an arc is counted.
    pub places: Vec<[[u64; OFFSET_CLASS_COUNT]; 2]>,
    /// Number of arcs that an attention head predicts right, by [`Cue::index`], head and direction. Most cues do not occur and
    /// have empty entries: in EWT dev, a relation has 20 cues on average, and `all` has 250.
    pub cues: Vec<Vec<[u64; 2]>>,
}

merge_fields!(AgreementCounts { places, cues });

impl AgreementCounts {
    /// Makes room for the counts of `heads` attention heads.
    pub fn resize_for_heads(&mut self, heads: usize) {
        self.places.resize(heads, [[0; OFFSET_CLASS_COUNT]; 2]);
    }

    /// Makes room for the counts of `heads` attention heads on one cue.
    pub fn resize_for_cue(&mut self, cue: Cue, heads: usize) {
        let place = cue.index();
        self.cues.resize(self.cues.len().max(place + 1), Vec::new());
        self.cues[place].resize(heads, [0; 2]);
    }

    /// Adds `right` (0 or 1 per direction) to the counts of attention head `head`. [`Self::resize_for_heads`] and
    /// [`Self::resize_for_cue`] must have made room.
    pub fn add_hits(&mut self, arc: &ScoredArc, head: usize, right: [u64; 2]) {
        zip(&mut self.places[head], right).for_each(|(hits, right)| hits[arc.offset_class] += right);
        if let Some(cue) = arc.cue {
            self.cues[cue.index()][head].merge(&right);
        }
    }

    /// Whether no count exceeds the baseline's right predictions in `total`, and no head's counts add up to more than
    /// that head's right predictions. Counts read from a file may fail this.
    pub fn is_consistent_with(&self, total: &RelationSums) -> bool {
        let mut cue_arcs = vec![0; self.cues.len().max(CUE_COUNT)];
        total.cues.iter().for_each(|(cue, count)| cue_arcs[cue.index()] = *count);
        let is_consistent = |head: usize, direction: usize| {
            let right = total.hits.get(head).map_or(0, |hits| hits[direction]);
            let places = self.places[head][direction].iter().zip(&total.places);
            let cues = self.cues.iter().map(|heads| heads.get(head).map_or(0, |both| both[direction]));
            places.clone().all(|(both, baseline)| both <= baseline)
                && cues.clone().zip(&cue_arcs).all(|(both, baseline)| both <= *baseline)
                && places.map(|(both, _)| both).sum::<u64>() <= right
                && cues.sum::<u64>() <= right
        };
        (0..self.places.len()).all(|head| is_consistent(head, 0) && is_consistent(head, 1))
    }

    /// Returns the number of arcs with this cue that an attention head predicts right in one direction.
    pub fn hits_on_cue(&self, cue: Cue, head: usize, direction: usize) -> u64 {
        self.cues.get(cue.index()).and_then(|heads| heads.get(head)).map_or(0, |both| both[direction])
    }
}

/// Counts of one relation's arcs in duplicate sentences: all but the first of a group of related sentences. Tests against
/// an offset leave these arcs out, since they are no independent evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuplicateArcs {
    /// Number of arcs in duplicate sentences, for each offset class of the syntactic head.
    pub words: [u64; OFFSET_CLASS_COUNT],
    /// Number of duplicate arcs that each attention head predicts right, with the shape of [`AgreementCounts::places`].
    /// Empty if there are no duplicate arcs.
    pub right: Vec<[[u64; OFFSET_CLASS_COUNT]; 2]>,
}

merge_fields!(DuplicateArcs { words, right });

impl DuplicateArcs {
    /// Counts one arc, and makes room for `heads` attention heads.
    pub fn count_arc(&mut self, arc: &ScoredArc, heads: usize) {
        self.right.resize(heads, [[0; OFFSET_CLASS_COUNT]; 2]);
        self.words[arc.offset_class] += 1;
    }

    /// Adds `right` (0 or 1 per direction) to the counts of attention head `head`. The arc must have been counted.
    pub fn add_hits(&mut self, arc: &ScoredArc, head: usize, right: [u64; 2]) {
        zip(&mut self.right[head], right).for_each(|(hits, right)| hits[arc.offset_class] += right);
    }

    /// Whether each attention head has at most as many right and wrong predictions in duplicate sentences as in all
    /// sentences. `all` and `total` are the counts over all sentences.
    pub fn is_consistent_with(&self, all: &AgreementCounts, total: &RelationSums) -> bool {
        if self.right.is_empty() {
            return self.words == [0; OFFSET_CLASS_COUNT];
        }
        let holds = |place: usize, right: u64, all: u64| {
            let wrong = self.words[place].checked_sub(right);
            let all_wrong = total.places[place].checked_sub(all);
            right <= all && wrong.zip(all_wrong).is_some_and(|(wrong, all)| wrong <= all)
        };
        zip(self.right.as_flattened(), all.places.as_flattened())
            .all(|(right, all)| (0..OFFSET_CLASS_COUNT).all(|place| holds(place, right[place], all[place])))
    }

    /// Returns how many arcs in duplicate sentences an attention head predicts right in one direction:
    /// `[in all offset classes, in the offset class place]`.
    pub fn hit_counts(&self, (head, direction): (usize, usize), place: usize) -> [u64; 2] {
        self.right.get(head).map_or([0; 2], |both| [both[direction].iter().sum(), both[direction][place]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{TreeHead, Upos};

    fn arc(head: TreeHead, relation: &str) -> GoldArc {
        GoldArc { head, relation: relation.to_owned() }
    }

    #[test]
    fn roots_and_words_alone_are_not_scored() {
        let tree = [arc(TreeHead::Word(1), "nsubj"), arc(TreeHead::Root, "root"), arc(TreeHead::Unknown, "obj")];
        let arcs = scored_arcs(
            &tree,
            &[],
            |_, _| true,
            |name, _| ["all", "nsubj"].iter().position(|known| *known == name).unwrap(),
        );
        // +1 is the first offset after the ten to the left.
        let expected =
            ScoredArc { dependent: 0, head: 1, offset_class: 10, has_upos: false, cue: None, relations: vec![0, 1] };
        assert_eq!(arcs, [expected]);
        assert_eq!(scored_arcs(&[arc(TreeHead::Root, "root")], &[], |_, _| true, |_, _| 0), []);
    }

    #[test]
    fn a_head_is_at_one_offset_or_farther_away() {
        let heads = [TreeHead::Word(2), TreeHead::Root, TreeHead::Word(1), TreeHead::Word(14)];
        let far = (0..11).map(|word| if word == 10 { TreeHead::Word(0) } else { TreeHead::Root });
        let tree: Vec<GoldArc> = heads.into_iter().chain(far).map(|head| arc(head, "obj")).collect();
        let mut sums = RelationSums::default();
        // 0 -> 2 is +2, 2 -> 1 is -1, 3 -> 14 is +11 and 14 -> 0 is -14: too far.
        let arcs = scored_arcs(&tree, &[], |_, _| true, |_, _| 0);
        arcs.iter().for_each(|arc| sums.count_arc(arc, 1));
        assert_eq!(sums.count, 4);
        let hits: Vec<i32> =
            baseline_offsets().zip(sums.places).filter(|(_, hits)| *hits > 0).map(|(k, _)| k).collect();
        assert_eq!((hits, &sums.places[BASELINE_OFFSET_COUNT..]), (vec![-1, 2], &[1, 1][..]));
        assert_eq!(baseline_offsets().count(), BASELINE_OFFSET_COUNT);
    }

    #[test]
    fn agreements_merge_whoever_met_a_cue() {
        let words: Vec<Annotation> = [Upos::Det, Upos::Noun, Upos::Verb]
            .map(|upos| Annotation { upos: Some(upos), ..Annotation::default() })
            .into();
        let tree = [arc(TreeHead::Word(1), "det"), arc(TreeHead::Word(2), "nsubj"), arc(TreeHead::Root, "root")];
        let arcs = scored_arcs(&tree, &words, |_, _| true, |_, _| 0);
        let of = |arc: &ScoredArc, right: [u64; 2]| {
            let mut agreement = AgreementCounts::default();
            agreement.resize_for_heads(1);
            agreement.resize_for_cue(arc.cue.unwrap(), 1);
            agreement.add_hits(arc, 0, right);
            agreement
        };
        let (first, second) = (of(&arcs[0], [1, 0]), of(&arcs[1], [1, 1]));
        for (mut sum, other) in [(first.clone(), &second), (second.clone(), &first)] {
            sum.merge(other);
            let counts = |arc: &ScoredArc| [0, 1].map(|direction| sum.hits_on_cue(arc.cue.unwrap(), 0, direction));
            assert_eq!((counts(&arcs[0]), counts(&arcs[1])), ([1, 0], [1, 1]));
            // Both heads are the next word.
            assert_eq!(sum.places[0].map(|places| places[10]), [2, 1]);
        }
    }
}
