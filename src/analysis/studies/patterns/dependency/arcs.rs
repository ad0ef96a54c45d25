//! Counts of arcs where a head's attention points from a word to its syntactic head (docs/methodology/dependency.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tags::{CUES, Cue, Side};
use crate::corpus::Annotation;
use crate::corpus::relation::scored_as;
use crate::sequences::sequence::GoldArc;
use crate::stats::blocks::{Merge, merge_fields};
use crate::study::instruments::fold_scores::ScoredSums;

/// The farthest offset of the baseline "the head is the word at `d+k`".
pub const MAX_BASELINE_OFFSET: i32 = 10;

/// The baseline's offsets: -10..=10 without 0.
pub const BASELINE_OFFSETS: usize = 2 * MAX_BASELINE_OFFSET as usize;

pub fn baseline_offsets() -> impl Iterator<Item = i32> {
    (-MAX_BASELINE_OFFSET..=MAX_BASELINE_OFFSET).filter(|&offset| offset != 0)
}

/// Classes of an arc's offset: each offset of the baseline, farther to the left, farther to the right.
pub const PLACES: usize = BASELINE_OFFSETS + 2;

/// The offset class of a head: its index in [`baseline_offsets`], or one of the two classes that follow.
pub fn place_of(dependent: usize, head: usize) -> usize {
    let (farthest, is_after) = (BASELINE_OFFSETS / 2, head > dependent);
    match head.abs_diff(dependent) {
        distance if distance > farthest => BASELINE_OFFSETS + usize::from(is_after),
        distance if is_after => farthest + distance - 1,
        distance => farthest - distance,
    }
}

/// A scored arc: a word with a gold head in a sentence of at least two words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoredArc {
    pub dependent: usize,
    pub head: usize,
    /// The offset class of the head, one of [`PLACES`].
    pub place: usize,
    pub tagged: bool,
    /// The rule of the tag baseline that predicts the arc, with the dependent's UPOS.
    pub cue: Option<Cue>,
    /// The relations for which the arc counts, as indices into the table of relations.
    pub relations: Vec<usize>,
}

/// The arcs of a tree for which `takes(dependent, head)` holds. `index` returns the index of a relation with the head on a side.
pub fn scored_arcs(
    tree: &[GoldArc],
    annotations: &[Annotation],
    mut takes: impl FnMut(usize, usize) -> bool,
    mut index: impl FnMut(&str, Side) -> usize,
) -> Vec<ScoredArc> {
    if tree.len() < 2 {
        return Vec::new();
    }
    let arcs = tree.iter().enumerate();
    arcs.filter_map(|(dependent, arc)| Some((dependent, arc.head.word()?, &arc.relation)))
        .filter(|&(dependent, head, _)| takes(dependent, head))
        .map(|(dependent, head, relation)| ScoredArc {
            dependent,
            head,
            place: place_of(dependent, head),
            tagged: annotations.get(dependent).is_some_and(|annotation| annotation.upos.is_some()),
            cue: Cue::of(annotations, dependent, head),
            relations: scored_as(relation).map(|name| index(name, Side::of(head, dependent))).collect(),
        })
        .collect()
}

/// Sums of shares are kept in units of `2^-32`, so that addition is exact in any order.
pub const UNIT: u128 = 1 << 32;

/// Converts a sum of [`RelationSums::over_others`] to a number of arcs.
pub fn in_arcs(sum: i64) -> f64 {
    sum as f64 / UNIT as f64
}

/// Whether a sum can come from shares of this many arcs; one from a file may not.
pub fn is_within(sum: i64, arcs: u64) -> bool {
    u128::from(sum.unsigned_abs()) <= u128::from(arcs) * UNIT
}

/// Counts of one relation's arcs, and of the right predictions of each head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationSums {
    pub count: u64,
    /// Sentences with such an arc, one per group of related sentences.
    pub sentences: u64,
    /// Arcs by the offset class of their head.
    pub places: [u64; PLACES],
    pub tagged: u64,
    /// Arcs by the dependent's UPOS and the rule that predicts them, without arcs that no rule predicts.
    pub cues: BTreeMap<Cue, u64>,
    /// Arcs in sentences that have other arcs, among those that `all` pools.
    pub with_others: u64,
    /// Right predictions on these arcs, less those expected from the sentences' other arcs ([`in_arcs`]); shaped as `hits`.
    pub over_others: Vec<[i64; 2]>,
    /// Right predictions by head and [`Direction::BOTH`](crate::study::labels::evidence::Direction::BOTH), `[layers * heads]`.
    pub hits: Vec<[u64; 2]>,
    /// Arcs for whose dependent a special token has more weight than every other word. Shaped as `hits`.
    pub to_special: Vec<[u64; 2]>,
}

merge_fields!(RelationSums { count, sentences, places, tagged, cues, with_others, over_others, hits, to_special });

impl ScoredSums for RelationSums {
    fn scored(&self) -> u64 {
        self.count
    }
}

impl RelationSums {
    pub fn of_heads(heads: usize) -> Self {
        Self { hits: vec![[0; 2]; heads], ..Self::default() }
    }

    pub fn count(&mut self, arc: &ScoredArc, heads: usize) {
        self.hits.resize(heads, [0; 2]);
        self.to_special.resize(heads, [0; 2]);
        self.over_others.resize(heads, [0; 2]);
        self.count += 1;
        self.places[arc.place] += 1;
        self.tagged += u64::from(arc.tagged);
        if let Some(cue) = arc.cue {
            *self.cues.entry(cue).or_default() += 1;
        }
    }

    /// Whether no part exceeds its whole; sums from a file may be invalid.
    pub fn adds_up(&self) -> bool {
        let parts = [self.sentences, self.tagged, self.with_others, self.places.iter().sum()];
        let of_heads = self.hits.as_flattened().iter().chain(self.to_special.as_flattened());
        parts.iter().chain(of_heads).all(|&part| part <= self.count)
            && self.cues.values().sum::<u64>() <= self.tagged
            && self.over_others.as_flattened().iter().all(|&sum| is_within(sum, self.with_others))
    }
}

/// Counts of one relation's arcs that both a head and a baseline predict.
///
/// The best offset and the best rules are known only after all sentences, so agreements are counted for every offset and rule. An
/// arc agrees with at most one of each. Only totals are needed, so there are no blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// Right predictions by head, direction ([`Direction::BOTH`](crate::study::labels::evidence::Direction::BOTH)) and offset
    /// class, `[layers * heads]`. Empty until an arc is counted.
    pub places: Vec<[[u64; PLACES]; 2]>,
    /// Right predictions by [`Cue::place`], head and direction. Entries of cues that do not occur are empty: a relation has 20
    /// cues on average, and `all` has 250 in EWT dev.
    pub cues: Vec<Vec<[u64; 2]>>,
}

merge_fields!(Agreement { places, cues });

impl Agreement {
    pub fn resize(&mut self, heads: usize) {
        self.places.resize(heads, [[0; PLACES]; 2]);
    }

    pub fn resize_for(&mut self, cue: Cue, heads: usize) {
        let place = cue.place();
        self.cues.resize(self.cues.len().max(place + 1), Vec::new());
        self.cues[place].resize(heads, [0; 2]);
    }

    /// Adds 1 for each direction in which a head was right; the lists must have room.
    pub fn add(&mut self, arc: &ScoredArc, head: usize, right: [u64; 2]) {
        add_at(&mut self.places[head], arc.place, right);
        if let Some(cue) = arc.cue {
            self.cues[cue.place()][head].merge(&right);
        }
    }

    /// Whether the agreements are possible given the right predictions of heads and baselines in `total`.
    pub fn is_within(&self, total: &RelationSums) -> bool {
        let mut met = vec![0; self.cues.len().max(CUES)];
        total.cues.iter().for_each(|(cue, count)| met[cue.place()] = *count);
        let within = |head: usize, direction: usize| {
            let right = total.hits.get(head).map_or(0, |hits| hits[direction]);
            let places = self.places[head][direction].iter().zip(&total.places);
            let cues = self.cues.iter().map(|heads| heads.get(head).map_or(0, |both| both[direction]));
            places.clone().all(|(both, baseline)| both <= baseline)
                && cues.clone().zip(&met).all(|(both, baseline)| both <= *baseline)
                && places.map(|(both, _)| both).sum::<u64>() <= right
                && cues.sum::<u64>() <= right
        };
        (0..self.places.len()).all(|head| within(head, 0) && within(head, 1))
    }

    /// A head's right predictions in a direction, among the arcs of one cue.
    pub fn of_cue(&self, cue: Cue, head: usize, direction: usize) -> u64 {
        self.cues.get(cue.place()).and_then(|heads| heads.get(head)).map_or(0, |both| both[direction])
    }
}

fn add_at([first, second]: &mut [[u64; PLACES]; 2], place: usize, right: [u64; 2]) {
    first[place] += right[0];
    second[place] += right[1];
}

/// One relation's arcs in later sentences of a group: no independent evidence, so tests against an offset leave them out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuplicateArcs {
    /// Arcs by the offset class of their head.
    pub words: [u64; PLACES],
    /// Right predictions as in [`Agreement::places`], `[layers * heads]`. Empty without such arcs.
    pub right: Vec<[[u64; PLACES]; 2]>,
}

merge_fields!(DuplicateArcs { words, right });

impl DuplicateArcs {
    pub fn count(&mut self, arc: &ScoredArc, heads: usize) {
        self.right.resize(heads, [[0; PLACES]; 2]);
        self.words[arc.place] += 1;
    }

    /// Adds 1 for each direction in which a head was right about a counted arc.
    pub fn add(&mut self, arc: &ScoredArc, head: usize, right: [u64; 2]) {
        add_at(&mut self.right[head], arc.place, right);
    }

    /// Whether `total` includes these arcs, and `all` their right and wrong predictions.
    pub fn is_within(&self, all: &Agreement, total: &RelationSums) -> bool {
        if self.right.is_empty() {
            return self.words == [0; PLACES];
        }
        let holds = |place: usize, right: u64, all: u64| {
            let wrong = self.words[place].checked_sub(right);
            let all_wrong = total.places[place].checked_sub(all);
            right <= all && wrong.zip(all_wrong).is_some_and(|(wrong, all)| wrong <= all)
        };
        let mut of_directions = self.right.as_flattened().iter().zip(all.places.as_flattened());
        of_directions.all(|(right, all)| (0..PLACES).all(|place| holds(place, right[place], all[place])))
    }

    /// A head's right predictions in a direction: of all arcs, and of those in the offset class `place`.
    pub fn right(&self, (head, direction): (usize, usize), place: usize) -> [u64; 2] {
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
        let expected = ScoredArc { dependent: 0, head: 1, place: 10, tagged: false, cue: None, relations: vec![0, 1] };
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
        arcs.iter().for_each(|arc| sums.count(arc, 1));
        assert_eq!(sums.count, 4);
        let hits: Vec<i32> =
            baseline_offsets().zip(sums.places).filter(|(_, hits)| *hits > 0).map(|(k, _)| k).collect();
        assert_eq!((hits, &sums.places[BASELINE_OFFSETS..]), (vec![-1, 2], &[1, 1][..]));
        assert_eq!(baseline_offsets().count(), BASELINE_OFFSETS);
    }

    #[test]
    fn agreements_merge_whoever_met_a_cue() {
        let words: Vec<Annotation> = [Upos::Det, Upos::Noun, Upos::Verb]
            .map(|upos| Annotation { upos: Some(upos), ..Annotation::default() })
            .into();
        let tree = [arc(TreeHead::Word(1), "det"), arc(TreeHead::Word(2), "nsubj"), arc(TreeHead::Root, "root")];
        let arcs = scored_arcs(&tree, &words, |_, _| true, |_, _| 0);
        let of = |arc: &ScoredArc, right: [u64; 2]| {
            let mut agreement = Agreement::default();
            agreement.resize(1);
            agreement.resize_for(arc.cue.unwrap(), 1);
            agreement.add(arc, 0, right);
            agreement
        };
        let (first, second) = (of(&arcs[0], [1, 0]), of(&arcs[1], [1, 1]));
        for (mut sum, other) in [(first.clone(), &second), (second.clone(), &first)] {
            sum.merge(other);
            let counts = |arc: &ScoredArc| [0, 1].map(|direction| sum.of_cue(arc.cue.unwrap(), 0, direction));
            assert_eq!((counts(&arcs[0]), counts(&arcs[1])), ([1, 0], [1, 1]));
            // Both heads are the next word.
            assert_eq!(sum.places[0].map(|places| places[10]), [2, 1]);
        }
    }
}
