//! Tag baseline of dependency relations (docs/methodology/dependency.md). A rule consists of a UPOS and a side. It predicts
//! that the syntactic head is the nearest word of that UPOS on that side. Only the rule with the gold head's UPOS and side
//! can be right, so one count per arc suffices.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::corpus::{Annotation, Upos};
pub use crate::study::labels::evidence::Side;

/// Number of word classes (UPOS tags).
const UPOS_COUNT: usize = Upos::ALL.len();

/// Number of tag rules, each with one UPOS and one side. Rules are ordered by UPOS name, left before right.
const RULE_COUNT: usize = UPOS_COUNT * Side::BOTH.len();

/// Number of cues: pairs of a dependent's UPOS and a tag rule.
pub const CUE_COUNT: usize = UPOS_COUNT * RULE_COUNT;

/// Index of a pair: the dependent's UPOS and the tag rule that predicts its syntactic head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cue(u16);

impl Cue {
    /// Returns the cue of an arc: the dependent's UPOS and the rule that predicts the arc. `None` if no rule predicts the
    /// arc, or if a word has no UPOS.
    pub fn from_arc(annotations: &[Annotation], dependent: usize, head: usize) -> Option<Self> {
        let upos = |word: usize| annotations.get(word).and_then(|annotation| annotation.upos);
        let (class, tag) = (upos(dependent)?, upos(head)?);
        let nearest = (dependent.min(head) + 1..dependent.max(head)).all(|word| upos(word) != Some(tag));
        let rule = tag as usize * Side::BOTH.len() + Side::from_positions(head, dependent) as usize;
        nearest.then(|| Self::new(class as usize, rule))
    }

    #[expect(clippy::cast_possible_truncation, reason = "below CUES, which is 578")]
    fn new(class: usize, rule: usize) -> Self {
        Self((class * RULE_COUNT + rule) as u16)
    }

    /// Index in lists of all cues. It is below [`CUE_COUNT`], unless the cue was read from a file.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Index of the best tag rule for each UPOS of the dependent, in the order of [`Upos::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagRules([usize; UPOS_COUNT]);

impl TagRules {
    /// Selects, for each UPOS of the dependent, the rule that predicts most arcs right. Among equals, the first tag by
    /// name, then the left side.
    pub fn select_best(hits: &BTreeMap<Cue, u64>) -> Self {
        let hits_of = |class: usize, rule: usize| hits.get(&Cue::new(class, rule)).copied().unwrap_or_default();
        Self(std::array::from_fn(|class| rule_with_most_hits(|rule| hits_of(class, rule))))
    }

    /// Each UPOS of the dependent paired with its best rule.
    pub fn cues(&self) -> impl Iterator<Item = Cue> {
        self.0.iter().enumerate().map(|(class, &rule)| Cue::new(class, rule))
    }

    /// Number of arcs that the rules predict right, given the number for each cue.
    pub fn count_hits(&self, hits: &BTreeMap<Cue, u64>) -> u64 {
        self.cues().filter_map(|cue| hits.get(&cue)).sum()
    }

    /// Best rule by the name of the dependent's UPOS. Tags for which no rule is right are left out.
    pub fn rules_by_tag(&self, hits: &BTreeMap<Cue, u64>) -> BTreeMap<String, TagRule> {
        let cues_with_hits = self.cues().enumerate().filter(|(_, cue)| hits.contains_key(cue));
        cues_with_hits
            .map(|(class, _)| (Upos::ALL[class].tag().to_owned(), TagRule::from_index(self.0[class])))
            .collect()
    }
}

/// Selects one rule for dependents of every UPOS, and returns it with the number of arcs that it predicts right. Ties go as
/// in [`TagRules::select_best`].
pub fn best_single_rule(hits: &BTreeMap<Cue, u64>) -> (TagRule, u64) {
    let hits_of =
        |rule: usize| hits.iter().filter(|(cue, _)| cue.index() % RULE_COUNT == rule).map(|(_, hits)| hits).sum();
    let rule = rule_with_most_hits(hits_of);
    (TagRule::from_index(rule), hits_of(rule))
}

/// Returns the index of the rule with the largest count; the first among equals.
fn rule_with_most_hits(count: impl Fn(usize) -> u64) -> usize {
    (0..RULE_COUNT).rev().max_by_key(|&rule| count(rule)).unwrap_or_default()
}

/// A rule of the tag baseline: the syntactic head of a word is the nearest word of this UPOS on this side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TagRule {
    /// UPOS of the predicted syntactic head.
    pub tag: String,
    /// Side of the dependent on which the syntactic head is predicted.
    pub side: Side,
}

impl TagRule {
    /// Converts the index of a rule to its UPOS and side.
    fn from_index(rule: usize) -> Self {
        let (class, side) = (rule / Side::BOTH.len(), rule % Side::BOTH.len());
        Self { tag: Upos::ALL[class].tag().to_owned(), side: Side::BOTH[side] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn annotated(tags: &[&str]) -> Vec<Annotation> {
        tags.iter().map(|tag| Annotation { upos: Upos::of(tag), ..Annotation::default() }).collect()
    }

    fn rule(tag: &str, side: Side) -> TagRule {
        TagRule { tag: tag.to_owned(), side }
    }

    #[test]
    fn one_rule_at_most_is_right_for_an_arc() {
        // the old dog saw a cat
        let words = annotated(&["DET", "ADJ", "NOUN", "VERB", "DET", "NOUN"]);
        let found = |dependent, head| {
            Cue::from_arc(&words, dependent, head)
                .map(|cue| (cue.index() / RULE_COUNT, TagRule::from_index(cue.index() % RULE_COUNT)))
        };
        let class = |upos: Upos| upos as usize;
        assert_eq!(found(0, 2), Some((class(Upos::Det), rule("NOUN", Side::Right))));
        assert_eq!(found(5, 3), Some((class(Upos::Noun), rule("VERB", Side::Left))));
        // Another noun is nearer.
        assert_eq!(found(0, 5), None);
        // The word itself is none of the words on either side, and neither is the head.
        assert_eq!(found(2, 5), Some((class(Upos::Noun), rule("NOUN", Side::Right))));
        let untagged = annotated(&["_", "NOUN", "_", "VERB"]);
        assert_eq!(
            [Cue::from_arc(&untagged, 0, 1), Cue::from_arc(&untagged, 1, 0), Cue::from_arc(&[], 0, 1)],
            [None; 3]
        );
        // A word without a tag does not interfere.
        assert!(Cue::from_arc(&untagged, 1, 3).is_some());
    }

    #[test]
    fn each_class_has_its_own_rule() {
        let words = annotated(&["NOUN", "VERB", "PRON", "NOUN"]);
        let cue = |dependent, head| Cue::from_arc(&words, dependent, head).unwrap();
        // Nouns: three times the verb on their right, twice that on their left; pronouns: once each.
        let hits = BTreeMap::from([(cue(0, 1), 3), (cue(3, 1), 2), (cue(2, 1), 1), (cue(2, 3), 1)]);
        let best = TagRules::select_best(&hits);
        let expected = [("NOUN", rule("VERB", Side::Right)), ("PRON", rule("NOUN", Side::Right))];
        assert_eq!(best.rules_by_tag(&hits), expected.map(|(class, rule)| (class.to_owned(), rule)).into());
        assert_eq!(best.count_hits(&hits), 3 + 1);
        // VERB left has 2 + 1 for all alike, VERB right 3: by tag, then left.
        assert_eq!(best_single_rule(&hits), (rule("VERB", Side::Left), 3));
        assert_eq!(best_single_rule(&BTreeMap::new()), (rule("ADJ", Side::Left), 0));
    }

    proptest! {
        /// The rules of all classes together are at least as good as any single rule, and no rule of a class is better.
        #[test]
        fn rules_by_class_are_no_worse_than_one_for_all(
            counts in prop::collection::btree_map(0..CUE_COUNT, 1..100_u64, 0..40),
        ) {
            let hits: BTreeMap<Cue, u64> =
                counts.into_iter().map(|(place, count)| (Cue::new(place / RULE_COUNT, place % RULE_COUNT), count)).collect();
            let best = TagRules::select_best(&hits);
            prop_assert!(best.count_hits(&hits) >= best_single_rule(&hits).1);
            let chosen: Vec<u64> = best.cues().map(|cue| hits.get(&cue).copied().unwrap_or_default()).collect();
            for (cue, &count) in &hits {
                prop_assert!(count <= chosen[cue.index() / RULE_COUNT]);
            }
        }
    }
}
