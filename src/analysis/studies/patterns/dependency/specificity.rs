//! Specificity: how much better an attention head finds one relation's arcs than the other arcs of the same sentences.
//! A head that follows all arcs alike beats a fixed offset on every relation, even with relation names permuted within
//! sentences.
//!
//! The other arcs come from the sentence's pool: the arcs that the relation `all` counts, which are all but `punct`. A
//! decoder scores only one direction of an arc, so its sentences have one pool for each side of the syntactic head.

use std::collections::BTreeMap;

use super::arcs::{FIXED_POINT_UNIT, ScoredArc};
use super::tags::Side;
use crate::stats::blocks::Merge;

/// Arcs of one relation in one sentence. In a decoder, relations that differ in the side of the syntactic head are
/// distinct.
#[derive(Clone, Debug)]
struct RelationGroup {
    relation_index: usize,
    arc_count: u64,
    /// Number of arcs in the pool that are not of the relation.
    other_arc_count: u64,
    /// Whether the relation's arcs are in the pool, the arcs with which relations are compared. False for `punct`.
    is_pooled: bool,
    /// Index of the pool: the sentence's arcs with which the relation's arcs are compared.
    pool_index: usize,
}

/// Arcs of a sequence, grouped by sentence and relation. Each group is compared with the other arcs of its sentence.
#[derive(Clone, Debug, Default)]
pub struct ArcsBySentence {
    groups: Vec<RelationGroup>,
    /// Index of each arc's pool (`None` for `punct`), and an index in `groups` for each of the arc's relations.
    pool_and_groups: Vec<(Option<usize>, Vec<usize>)>,
    /// Right predictions of the current attention head by direction, `[[pools], [groups]]`. A pool has all arcs of a sentence
    /// but `punct`; in a decoder, all on one side.
    hits: [Vec<[u64; 2]>; 2],
}

impl ArcsBySentence {
    /// Groups `arcs` by sentence and relation. `sentence` returns the index of an arc's sentence. `all` has the relation
    /// indices of the pooled relation: one index in an encoder, one for each side of the syntactic head in a decoder.
    pub fn new(arcs: &[ScoredArc], sentence: impl Fn(&ScoredArc) -> usize, is_causal: bool, all: &[usize]) -> Self {
        let (mut pool_indices, mut group_indices) = (BTreeMap::new(), BTreeMap::new());
        let (mut places, mut pooled_arcs) = (Vec::new(), Vec::<u64>::new());
        let mut groups: Vec<RelationGroup> = Vec::new();
        for arc in arcs {
            let number = sentence(arc);
            let side = is_causal.then_some(Side::from_positions(arc.head, arc.dependent));
            let pool = *pool_indices.entry((number, side)).or_insert(pooled_arcs.len());
            pooled_arcs.resize(pool_indices.len(), 0);
            let is_pooled = arc.relations.iter().any(|relation| all.contains(relation));
            pooled_arcs[pool] += u64::from(is_pooled);
            let group_of = |&relation: &usize| {
                let group = *group_indices.entry((number, relation)).or_insert_with(|| {
                    groups.push(RelationGroup {
                        relation_index: relation,
                        arc_count: 0,
                        other_arc_count: 0,
                        is_pooled,
                        pool_index: pool,
                    });
                    groups.len() - 1
                });
                groups[group].arc_count += 1;
                group
            };
            places.push((is_pooled.then_some(pool), arc.relations.iter().map(group_of).collect()));
        }
        for group in &mut groups {
            group.other_arc_count = pooled_arcs[group.pool_index] - if group.is_pooled { group.arc_count } else { 0 };
        }
        let hits = [vec![[0; 2]; pooled_arcs.len()], vec![[0; 2]; groups.len()]];
        Self { groups, pool_and_groups: places, hits }
    }

    /// Returns pairs of a relation's index and its number of arcs in one sentence. Sentences without arcs of other
    /// relations are left out.
    pub fn compared_arc_counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.groups
            .iter()
            .filter(|group| group.other_arc_count > 0)
            .map(|group| (group.relation_index, group.arc_count))
    }

    /// Clears the right predictions, before the next attention head.
    pub fn reset_hits(&mut self) {
        self.hits.iter_mut().for_each(|hits| hits.fill([0; 2]));
    }

    /// Adds `right` (0 or 1 per direction) for the arc with index `arc` to the right predictions of its relations and its
    /// pool. A pool has all arcs of a sentence except `punct`, in a decoder all with their syntactic heads on one side.
    pub fn add_hits(&mut self, arc: usize, right: [u64; 2]) {
        let (pool, groups) = &self.pool_and_groups[arc];
        let [pool_hits, group_hits] = &mut self.hits;
        pool.iter().for_each(|&pool| pool_hits[pool].merge(&right));
        groups.iter().for_each(|&group| group_hits[group].merge(&right));
    }

    /// Returns, for each relation in each sentence, the relation's index and `n (a - b)` per direction, in fixed point
    /// ([`FIXED_POINT_UNIT`]). Sentences without arcs of other relations are left out.
    ///
    /// The sentence has `n` arcs of the relation. The attention head predicts a share `a` of them right, and a share
    /// `b` of the sentence's arcs of other relations.
    pub fn hits_over_expected(&self) -> impl Iterator<Item = (usize, [i64; 2])> {
        let [pool_hits, group_hits] = &self.hits;
        self.groups.iter().zip(group_hits).filter(|(group, _)| group.other_arc_count > 0).map(|(group, hits)| {
            let difference = |direction: usize| {
                let relation_hits = hits[direction];
                let other_hits =
                    pool_hits[group.pool_index][direction] - if group.is_pooled { relation_hits } else { 0 };
                let expected = (u128::from(group.arc_count * other_hits) * FIXED_POINT_UNIT
                    + u128::from(group.other_arc_count / 2))
                    / u128::from(group.other_arc_count);
                let signed = |arcs: u128| i64::try_from(arcs).expect("a sentence has fewer than 2^31 arcs");
                signed(u128::from(relation_hits) * FIXED_POINT_UNIT) - signed(expected)
            };
            (group.relation_index, [0, 1].map(difference))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::arcs::{fixed_point_to_arcs, is_possible_sum};
    use super::*;

    fn arc(dependent: usize, relations: &[usize]) -> ScoredArc {
        ScoredArc { dependent, head: 9, offset_class: 0, has_upos: false, cue: None, relations: relations.to_vec() }
    }

    /// Two objects, a subject and a determiner in one sentence; a lone object in the next; a comma, which `all` does not pool.
    #[test]
    fn a_relation_is_held_against_the_other_arcs_of_its_sentence() {
        let [all, obj, nsubj, det, punct] = [0, 1, 2, 3, 4];
        let arcs = [
            arc(0, &[all, obj]),
            arc(1, &[all, obj]),
            arc(2, &[all, nsubj]),
            arc(3, &[all, det]),
            arc(4, &[punct]),
            arc(5, &[all, obj]),
        ];
        let mut beside = ArcsBySentence::new(&arcs, |arc| usize::from(arc.dependent == 5), false, &[all]);
        let counts: Vec<_> = beside.compared_arc_counts().collect();
        assert_eq!(counts, [(obj, 2), (nsubj, 1), (det, 1), (punct, 1)]);
        // From the dependent both objects and the subject are right; the other way the determiner and the lone object.
        for _ in 0..2 {
            beside.reset_hits();
            for (place, right) in [[1, 0], [1, 0], [1, 0], [0, 1], [0, 0], [0, 1]].into_iter().enumerate() {
                beside.add_hits(place, right);
            }
        }
        let found: Vec<_> =
            beside.hits_over_expected().map(|(place, sums)| (place, sums.map(fixed_point_to_arcs))).collect();
        // Objects: 2 (2/2 - 1/2) and 2 (0 - 1/2); the subject: 1 - 2/3 and 0 - 1/3; and so on. The comma: 0 - 3/4, 0 - 1/4.
        let expected =
            [(obj, [1.0, -1.0]), (nsubj, [1.0 / 3.0, -1.0 / 3.0]), (det, [-1.0, 1.0]), (punct, [-0.75, -0.25])];
        for ((place, sums), (expected_place, expected)) in found.iter().zip(expected) {
            assert_eq!(*place, expected_place);
            assert!(sums.iter().zip(expected).all(|(sum, expected)| (sum - expected).abs() < 1e-9), "{found:?}");
        }
        assert!(is_possible_sum(i64::MIN, 1 << 31) && !is_possible_sum(-(1 << 33), 1));
    }

    /// Names that are permuted within a sentence say nothing: over all permutations the differences are 0 in the mean.
    #[test]
    fn permuted_names_have_nothing_of_their_own() {
        let right = [[1, 0], [1, 1], [0, 0], [1, 0]];
        let mut sum = 0.0;
        for own in 0..4 {
            for other in (0..4).filter(|&other| other != own) {
                let name = |place: usize| if place == own || place == other { 1 } else { 2 };
                let arcs: Vec<ScoredArc> = (0..4).map(|place| arc(place, &[0, name(place)])).collect();
                let mut beside = ArcsBySentence::new(&arcs, |_| 0, false, &[0]);
                beside.reset_hits();
                right.into_iter().enumerate().for_each(|(place, right)| beside.add_hits(place, right));
                let of_name =
                    |(place, sums): (usize, [i64; 2])| if place == 1 { fixed_point_to_arcs(sums[0]) } else { 0.0 };
                sum += beside.hits_over_expected().map(of_name).sum::<f64>();
            }
        }
        assert!(sum.abs() < 1e-6, "{sum}");
    }
}
