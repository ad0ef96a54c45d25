//! Report entries for one dependency relation: how well heads and two baselines predict it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tags::{Side, TagRule};
use crate::model::grid::HeadPlace;
use crate::stats::block_test::{Estimate, Jackknife, Scale, error_of_half};
use crate::stats::blocks::BLOCKS;
use crate::stats::interval::Interval;
use crate::study::instruments::fold_scores::ShareDifference;
use crate::study::labels::Bound;
use crate::study::labels::evidence::{self, ByDirection, Comparison, Direction, Specificity, TagComparison};
use crate::study::metrics::metric::Denominator;
use crate::study::show::wording::{more_to_special, percent, plus_minus_percent};
use crate::study::tracked::{RelationPart, Tracked, Tracker};
use crate::system::counted::counted;

/// The directions in which arcs with the head on a side are scored. In a decoder, the later word attends to the earlier.
pub fn directions(side: Option<Side>) -> &'static [Direction] {
    match side {
        None => &Direction::BOTH,
        Some(Side::Left) => &[Direction::DependentToHead],
        Some(Side::Right) => &[Direction::HeadToDependent],
    }
}

/// How well the heads, the best fixed offset and the best tags predict one relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationMetrics {
    /// Universal Dependencies relation, with subtype if any; `all` pools all but `punct`.
    pub relation: String,
    /// In a decoder, the side of the dependent on which the head stands: on the left the dependent sees its head, on the right
    /// the head sees its dependent. Absent in encoders, where both see each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Side")]
    pub side: Option<Side>,
    /// In a decoder, the share of the relation's words that have their heads on this side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", range(min = 0, max = 1))]
    pub share: Option<f64>,
    /// Scored words.
    pub count: u64,
    /// Sentences with such a word, one per group of related sentences; null in reports of 0.1.
    pub sentences: Option<u64>,
    /// Blocks with such a word.
    #[serde(default)]
    #[schemars(range(max = BLOCKS))]
    pub blocks: usize,
    /// `(sum n)² / sum n²` over these blocks, `n` the words of each: the equivalent number of blocks of equal size.
    #[serde(default)]
    #[schemars(range(min = 0, max = BLOCKS))]
    pub effective_blocks: f64,
    /// Scored words in sentences that have other arcs: the basis of `specific` of each head.
    #[serde(default)]
    pub with_others: Denominator,
    /// The best head on all data.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The direction in which it is best.
    pub direction: Direction,
    /// Its accuracy on all data: biased upwards, since it was chosen on the same data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of the heads chosen on one half of the sentences and scored on the other, pooled;
    /// null where one half has no such word.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// The best fixed offset.
    pub baseline: OffsetBaseline,
    /// The best rules by word classes; null where no such word has a UPOS.
    pub tag_baseline: Option<TagBaseline>,
    /// The 95 % intervals of the accuracies above.
    pub ci95: RelationIntervals,
    /// The best head against the best fixed offset.
    pub versus_offset: Comparison,
    /// The best head against the best tags; null where `tag_baseline` is.
    pub versus_tags: Option<TagComparison>,
    /// The accuracy of the best head by how far away the syntactic head is, and on which side.
    #[serde(default)]
    pub by_distance: Vec<AtDistance>,
    /// Every head in both directions.
    pub by_head: Vec<HeadAccuracy>,
}

impl RelationMetrics {
    pub fn title(&self) -> String {
        let side = self.side.map(|side| format!(" (head on the {})", side.name()));
        self.relation.clone() + &side.unwrap_or_default()
    }

    pub fn of_best_head(&self) -> String {
        let Self { relation, count, direction, accuracy, baseline, tag_baseline, .. } = self;
        let tags = percent(tag_baseline.as_ref().map(|tags| tags.accuracy));
        let best = self.best();
        let wrong = percent(*best.where_offset_wrong.get(*direction));
        let special = more_to_special(*best.to_special.get(*direction));
        let share = self.share.map(|share| format!(", {} % of all", percent(Some(share)))).unwrap_or_default();
        format!(
            "the best head of {relation} ({}): {}{} % of {}{share} (best offset {:+}: {}, best tags: {tags}); {wrong} % where that offset \
             is wrong{special}",
            direction.name(),
            percent(Some(*accuracy)),
            plus_minus_percent(self.ci95.accuracy),
            counted(*count, "word"),
            baseline.offset,
            percent(Some(baseline.accuracy)),
        )
    }

    /// Both baselines and all heads, most accurate first; among equals, in the order of the model.
    pub fn tracked(&self) -> Tracked {
        let tracker = |head: &HeadAccuracy, direction: Direction| {
            let versus = head.versus_offset.get(direction).as_ref()?;
            let tags = head.versus_tags.get(direction).as_ref();
            Some(Tracker {
                place: head.place,
                direction,
                accuracy: (*head.accuracy.get(direction))?,
                ci95: *head.ci95.get(direction),
                where_offset_wrong: *head.where_offset_wrong.get(direction),
                over_offset: versus.difference,
                over_offset_ci95: versus.ci95,
                over_tags: tags.map(|tags| tags.difference),
                over_tags_ci95: tags.and_then(|tags| tags.ci95),
                q: versus.q,
            })
        };
        let mut heads: Vec<Tracker> = self.each(tracker).collect();
        heads.sort_by(|a, b| b.accuracy.total_cmp(&a.accuracy));
        Tracked {
            relation: self.relation.clone(),
            part: self.side.zip(self.share).map(|(side, share)| RelationPart { side: side.name(), share }),
            words: self.count,
            offset: self.baseline.offset,
            offset_accuracy: self.baseline.accuracy,
            tags_accuracy: self.tag_baseline.as_ref().map(|tags| tags.accuracy),
            heads,
        }
    }
}

/// Sets the share of each part's words, for relations that are split by side.
pub(super) fn set_shares(relations: &mut [RelationMetrics]) {
    let mut words: BTreeMap<String, u64> = BTreeMap::new();
    relations.iter().for_each(|relation| *words.entry(relation.relation.clone()).or_default() += relation.count);
    for relation in relations.iter_mut().filter(|relation| relation.side.is_some()) {
        relation.share = Some(relation.count as f64 / words[&relation.relation] as f64);
    }
}

/// The best rule of the form "the head is the word at `d + offset`".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OffsetBaseline {
    /// The offset in words that is best on all data.
    pub offset: i32,
    /// Its accuracy on all data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of the offsets chosen on one half of the sentences and scored on the other, pooled.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
}

/// The best rules of the form "the head is the nearest word of this UPOS on this side", one for each UPOS of the
/// dependent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TagBaseline {
    /// The accuracy of the rules that are best on all data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of the rules chosen on one half of the sentences and scored on the other, pooled.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// The rules, by the UPOS of the dependent; without those for which no rule is ever right.
    pub rules: BTreeMap<String, TagRule>,
    /// The one rule that is best for all dependents alike.
    pub single: SingleRule,
}

/// The one rule that is best for all dependents alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SingleRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: TagRule,
    /// Its accuracy on all data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
}

/// The intervals of a relation's accuracies, for the heads and rules as selected; keyed like the accuracies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationIntervals {
    /// Interval of the best head's accuracy.
    pub accuracy: Option<Interval>,
    /// Interval of the accuracy of the heads chosen on the other half.
    pub heldout_accuracy: Option<Interval>,
    /// Interval of the best fixed offset's accuracy.
    pub baseline: BaselineIntervals,
    /// Interval of the best tags' accuracy.
    pub tag_baseline: Option<BaselineIntervals>,
}

/// The intervals of a baseline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineIntervals {
    /// Interval of the accuracy of the rule that is best on all data.
    pub accuracy: Option<Interval>,
    /// Interval of the accuracy of the rule that was chosen on the other half.
    pub heldout_accuracy: Option<Interval>,
}

/// The accuracy on words at one distance from their head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtDistance {
    /// The side of the dependent on which its head is.
    pub side: Side,
    /// The distance in words: `1`, `2`, `3-5`, `6-10` or `more`.
    pub distance: String,
    /// Scored words.
    pub count: u64,
    /// The accuracy of the relation's best head on them; null where there are none.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: Option<f64>,
}

/// One head's accuracy on one relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadAccuracy {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Accuracy by direction; null for a direction in which a decoder does not see.
    #[serde(flatten)]
    pub accuracy: ByDirection<Option<f64>>,
    /// Its 95 % interval; null where no two blocks have such a word.
    pub ci95: ByDirection<Option<Interval>>,
    /// Accuracy on the words that the best fixed offset gets wrong; null without such words. Without `--digits 17`, also null for
    /// heads below the best fixed offset other than the best head: no policy labels them. Absent where both directions are null.
    #[serde(default, skip_serializing_if = "ByDirection::is_null")]
    pub where_offset_wrong: ByDirection<Option<f64>>,
    /// Share of words for which a special token has more weight than every other word. Null where `accuracy` is, for `head->dep`
    /// in decoders, and for heads below the best fixed offset like `where_offset_wrong`. Absent where both directions are null.
    #[serde(default, skip_serializing_if = "ByDirection::is_null")]
    pub to_special: ByDirection<Option<f64>>,
    /// The head against the relation's best fixed offset; null where `accuracy` is.
    #[serde(serialize_with = "evidence::write_comparisons")]
    pub versus_offset: ByDirection<Option<Comparison>>,
    /// The head against the relation's best tags; null where no such word has a UPOS and, like `where_offset_wrong`, for heads
    /// below the best fixed offset. Absent where both directions are null.
    #[serde(default, skip_serializing_if = "ByDirection::is_null")]
    pub versus_tags: ByDirection<Option<TagComparison>>,
    /// The head's accuracy on the relation less that on the other arcs of the same sentences; null without other arcs and, like
    /// `where_offset_wrong`, for heads below the best fixed offset. Absent where both directions are null.
    #[serde(default, skip_serializing_if = "ByDirection::is_null")]
    pub specific: ByDirection<Option<Specificity>>,
    /// Accuracy without each block, for the block test of two analyses.
    #[serde(skip)]
    pub left_out: ByDirection<Option<Jackknife>>,
}

pub(super) struct MarginExcess {
    pub difference: ShareDifference,
    /// One-sided p-value; `None` without a standard error.
    pub p: Option<f64>,
    pub is_above: bool,
}

impl RelationMetrics {
    /// Keeps only accuracy and difference, with intervals, for heads below the best offset other than the best head.
    pub(super) fn drop_what_no_policy_labels(&mut self) {
        for head in self.by_head.iter_mut().filter(|head| head.place != self.place) {
            for direction in Direction::BOTH {
                let versus = head.versus_offset.get_mut(direction);
                if let Some(Comparison { difference, ci95, .. }) = versus
                    && *difference < 0.0
                {
                    *versus = Some(Comparison::of_difference(*difference, *ci95));
                    *head.versus_tags.get_mut(direction) = None;
                    *head.specific.get_mut(direction) = None;
                    *head.to_special.get_mut(direction) = None;
                    *head.where_offset_wrong.get_mut(direction) = None;
                }
            }
        }
    }

    /// The values of `of` for each head and direction, without `None`; both directions of the first head come first.
    pub(super) fn each<'a, T>(
        &'a self,
        of: impl Fn(&'a HeadAccuracy, Direction) -> Option<T>,
    ) -> impl Iterator<Item = T> {
        self.by_head.iter().flat_map(move |head| Direction::BOTH.map(|direction| of(head, direction))).flatten()
    }

    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.each(|head, direction| head.versus_offset.get(direction).as_ref())
    }

    /// A head against the better baseline (the tags if equal); `None` without a tag baseline.
    pub(super) fn versus_better(&self, head: &HeadAccuracy, direction: Direction) -> Option<ShareDifference> {
        let (tags, offset) = (head.versus_tags.get(direction).as_ref()?, head.versus_offset.get(direction).as_ref()?);
        Some(if self.tag_baseline.as_ref()?.accuracy >= self.baseline.accuracy {
            ShareDifference { value: tags.difference, ci95: tags.ci95, standard_error: tags.standard_error }
        } else {
            over_offset(offset)
        })
    }

    /// Block tests of every head against the best offset plus a margin, in the order of [`Self::each`].
    pub(super) fn tests(&self, margin: f64) -> Vec<MarginExcess> {
        self.comparisons().map(|offset| self.test(over_offset(offset), margin)).collect()
    }

    /// Block tests of every head against the better baseline plus a margin, in the order of [`Self::each`]. Empty without a tag
    /// baseline.
    pub(super) fn tests_beyond(&self, margin: f64) -> Vec<MarginExcess> {
        self.each(|head, direction| Some(self.test(self.versus_better(head, direction)?, margin))).collect()
    }

    /// Block tests of every head against other arcs plus a margin, in the order of [`Self::each`]. `is_above` also requires a
    /// label.
    pub(super) fn tests_specific(&self, margin: f64, margin_over_offset: f64) -> Vec<MarginExcess> {
        let test = |head: &HeadAccuracy, direction: Direction| {
            let &Specificity { difference: value, ci95, standard_error, .. } = head.specific.get(direction).as_ref()?;
            let offset = head.versus_offset.get(direction).as_ref();
            let is_labelled = offset.is_some_and(|versus| Bound::AtLeast.holds(versus.difference, margin_over_offset));
            let estimate = standard_error.and_then(|error| self.with_others.estimate(value, error, Scale::Real));
            Some(MarginExcess {
                difference: ShareDifference { value, ci95, standard_error },
                p: estimate.map(|estimate| estimate.p_above(margin)),
                is_above: is_labelled && Bound::AtLeast.holds(value, margin),
            })
        };
        self.each(test).collect()
    }

    /// The block test of a difference of two accuracies over the relation's words.
    fn test(&self, difference: ShareDifference, margin: f64) -> MarginExcess {
        let ShareDifference { value, standard_error, .. } = difference;
        let p = self.estimate(value, standard_error).map(|estimate| estimate.p_above(margin));
        MarginExcess { difference, p, is_above: Bound::AtLeast.holds(value, margin) }
    }

    /// The estimate of a difference of two accuracies; `None` without a standard error, or with too few blocks for a test.
    pub(super) fn estimate(&self, value: f64, standard_error: Option<f64>) -> Option<Estimate> {
        let &Self { blocks, effective_blocks, .. } = self;
        let scale = Scale::Difference;
        Estimate { value, standard_error: standard_error?, blocks, effective_blocks, scale }.testable()
    }

    /// A head's difference from the best offset. In a rounded report, the standard error is derived from the interval.
    pub(super) fn estimate_of(&self, comparison: &Comparison) -> Option<Estimate> {
        let &Comparison { difference, ci95, standard_error, .. } = comparison;
        // From the upper half: intervals are cut at -1, and dropped differences are below 0.
        let of_interval = || Some(error_of_half(ci95?.high() - difference, self.effective_blocks - 1.0));
        self.estimate(difference, standard_error.or_else(of_interval))
    }

    fn best(&self) -> &HeadAccuracy {
        self.by_head.iter().find(|entry| entry.place == self.place).expect("the best head is one of the heads")
    }

    /// Whether the best head was compared with the best offset, as every scored head is.
    pub(super) fn has_scored_best(&self) -> bool {
        self.best().versus_offset.get(self.direction).is_some()
    }

    /// Copies the best head's comparisons from the list of all heads.
    pub(super) fn compare_best(&mut self) {
        let HeadAccuracy { versus_offset, versus_tags, .. } = self.best();
        let (offset, tags) = (versus_offset.get(self.direction).clone(), versus_tags.get(self.direction).clone());
        (self.versus_offset, self.versus_tags) = (offset.expect("the best head was scored"), tags);
    }
}

fn over_offset(&Comparison { difference: value, ci95, standard_error, .. }: &Comparison) -> ShareDifference {
    ShareDifference { value, ci95, standard_error }
}
