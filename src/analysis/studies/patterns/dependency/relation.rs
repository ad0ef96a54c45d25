//! Report entries for one dependency relation: how well attention heads, the best fixed offset and tag rules predict it.

use std::collections::BTreeMap;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tags::{Side, TagRule};
use crate::model::grid::HeadPlace;
use crate::stats::block_test::{Estimate, Jackknife, Scale, standard_error_from_half_width};
use crate::stats::blocks::BLOCKS;
use crate::stats::interval::Interval;
use crate::study::instruments::fold_scores::ShareDifference;
use crate::study::labels::ThresholdBound;
use crate::study::labels::evidence::{self, ByDirection, Comparison, Direction, Specificity, TagComparison};
use crate::study::metrics::metric::Denominator;
use crate::study::show::wording::{percent, plus_minus_percent, signed_decimal, special_token_note};
use crate::study::tracked::{RelationScores, RelationSide, TrackingHead};
use crate::system::counts::format_count;

/// Returns the directions in which arcs with the syntactic head on `side` are scored. Both for `None` (encoders). In a
/// decoder, only the later word attends to the earlier.
pub fn scored_directions(side: Option<Side>) -> &'static [Direction] {
    match side {
        None => &Direction::BOTH,
        Some(Side::Left) => &[Direction::DependentToHead],
        Some(Side::Right) => &[Direction::HeadToDependent],
    }
}

/// Accuracies of the attention heads, the best fixed offset and the best tag rules on one relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationMetrics {
    /// Universal Dependencies relation with all its subtypes, or one subtype; `all` pools all relations but `punct`.
    pub relation: String,
    /// In a decoder, the side of the dependent on which the syntactic head stands. On the left the dependent sees its head, on
    /// the right the head sees its dependent. Absent in encoders, where both see each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Side")]
    pub side: Option<Side>,
    /// In a decoder, the share of the relation's words whose syntactic heads are on this side. Absent in encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", range(min = 0, max = 1))]
    pub share: Option<f64>,
    /// Number of scored words of the relation.
    pub count: u64,
    /// Number of sentences with a scored word, one per group of related sentences. Null in reports of version 0.1.
    pub sentences: Option<u64>,
    /// Number of blocks of sentences with a scored word.
    #[serde(default)]
    #[schemars(range(max = BLOCKS))]
    pub blocks: usize,
    /// Equivalent number of blocks of equal size: `(sum n)² / sum n²` over blocks, `n` the scored words of each.
    #[serde(default)]
    #[schemars(range(min = 0, max = BLOCKS))]
    pub effective_blocks: f64,
    /// Denominator of `specific`, a comparison with arcs of other relations: scored words in sentences that have such arcs.
    #[serde(default)]
    pub with_others: Denominator,
    /// Attention head with the highest accuracy on all data.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Direction in which the best attention head is most accurate.
    pub direction: Direction,
    /// Accuracy of the best attention head on all data. Biased upwards, since the head was chosen on these data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of attention heads chosen on one half of the sentences and scored on the other, pooled. Null if a half has no
    /// word.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// Best fixed offset as a baseline, with its accuracy.
    pub baseline: OffsetBaseline,
    /// Best rules by word classes as a baseline, with their accuracy. Null if no scored word of the relation has a UPOS.
    pub tag_baseline: Option<TagBaseline>,
    /// 95 % intervals of the accuracies of the best attention head and both baselines.
    pub ci95: RelationIntervals,
    /// Comparison of the best attention head with the best fixed offset.
    pub versus_offset: Comparison,
    /// Comparison of the best attention head with the best tag rules. Null if `tag_baseline` is.
    pub versus_tags: Option<TagComparison>,
    /// Accuracy of the best attention head by distance and side of the syntactic head.
    #[serde(default)]
    pub by_distance: Vec<AtDistance>,
    /// Accuracy of every attention head in both directions.
    pub by_head: Vec<HeadAccuracy>,
}

impl RelationMetrics {
    /// Name of the relation as printed, with the side of the syntactic head if it has one.
    pub fn title(&self) -> String {
        let side = self.side.map(|side| format!(" (head on the {})", side.name()));
        self.relation.clone() + &side.unwrap_or_default()
    }

    /// Returns a sentence on the best attention head of the relation, beside both baselines.
    pub fn best_head_line(&self) -> String {
        let Self { relation, count, direction, accuracy, baseline, tag_baseline, .. } = self;
        let tags = percent(tag_baseline.as_ref().map(|tags| tags.accuracy));
        let best = self.best_head();
        let wrong = percent(*best.where_offset_wrong.get(*direction));
        let special = special_token_note(*best.to_special.get(*direction));
        let share = self.share.map(|share| format!(", {} % of all", percent(Some(share)))).unwrap_or_default();
        format!(
            "the best head of {relation} ({}): {}{} % of {}{share} (best offset {:+}: {}, best tags: {tags}); {wrong} % where that offset \
             is wrong{special}",
            direction.name(),
            percent(Some(*accuracy)),
            plus_minus_percent(self.ci95.accuracy),
            format_count(*count, "word"),
            baseline.offset,
            percent(Some(baseline.accuracy)),
        )
    }

    /// Returns the relation with the accuracies of both baselines and of all attention heads, most accurate head first. Among
    /// equally accurate heads, the lower index comes first.
    pub fn ranked_heads(&self) -> RelationScores {
        let tracker = |head: &HeadAccuracy, direction: Direction| {
            let offset = head.versus_offset.get(direction).as_ref()?;
            let tags = head.versus_tags.get(direction).as_ref();
            Some(TrackingHead {
                place: head.place,
                direction,
                accuracy: (*head.accuracy.get(direction))?,
                ci95: *head.ci95.get(direction),
                where_offset_wrong: *head.where_offset_wrong.get(direction),
                over_offset: offset.difference,
                over_offset_ci95: offset.ci95,
                over_tags: tags.map(|tags| tags.difference),
                over_tags_ci95: tags.and_then(|tags| tags.ci95),
                q: offset.q,
            })
        };
        let heads = self.per_head_and_direction(tracker).sorted_by(|a, b| b.accuracy.total_cmp(&a.accuracy));
        RelationScores {
            relation: self.relation.clone(),
            part: self.side.zip(self.share).map(|(side, share)| RelationSide { side: side.name(), share }),
            words: self.count,
            offset: self.baseline.offset,
            offset_accuracy: self.baseline.accuracy,
            tags_accuracy: self.tag_baseline.as_ref().map(|tags| tags.accuracy),
            heads: heads.collect(),
        }
    }
}

/// Formats a difference of two accuracies in percentage points, with its sign and the half-width of its interval.
pub(super) fn signed_points(difference: f64, ci95: Option<Interval>) -> String {
    signed_decimal(100.0 * difference, 1) + &plus_minus_percent(ci95)
}

/// Sets [`RelationMetrics::share`], for relations that are split by the side of the syntactic head.
pub(super) fn set_side_shares(relations: &mut [RelationMetrics]) {
    let mut words: BTreeMap<String, u64> = BTreeMap::new();
    relations.iter().for_each(|relation| *words.entry(relation.relation.clone()).or_default() += relation.count);
    for relation in relations.iter_mut().filter(|relation| relation.side.is_some()) {
        relation.share = Some(relation.count as f64 / words[&relation.relation] as f64);
    }
}

/// Best rule of the form "the syntactic head is the word at `d + offset`".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OffsetBaseline {
    /// Offset in words with the highest accuracy on all data.
    pub offset: i32,
    /// Accuracy of the offset on all data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of the offsets chosen on one half of the sentences and scored on the other, pooled. Null if one half has no word.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
}

/// Best rules of the form "the syntactic head is the nearest word of this UPOS on this side", one for each UPOS of the dependent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TagBaseline {
    /// Accuracy on all data. Biased upwards, since the rules were chosen on these data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of the rules chosen on one half of the sentences and scored on the other, pooled. Null if one half has no word.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// Best rule for each UPOS of the dependent. A UPOS for which no rule is ever right is left out.
    pub rules: BTreeMap<String, TagRule>,
    /// Single rule that is best for dependents of every UPOS together.
    pub single: SingleRule,
}

/// Single rule that is best for dependents of every UPOS together, with its accuracy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SingleRule {
    /// UPOS of the predicted syntactic head, and side of the dependent on which it is predicted.
    #[serde(flatten)]
    pub rule: TagRule,
    /// Accuracy of the rule on all data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
}

/// 95 % intervals of a relation's accuracies, with the accuracies' keys. The chosen attention heads and rules are treated as
/// fixed. Null if fewer than 10 blocks have a scored word of the relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationIntervals {
    /// Interval of the best attention head's accuracy on all data.
    pub accuracy: Option<Interval>,
    /// Interval of `heldout_accuracy`: heads are chosen on one half of the sentences and scored on the other.
    pub heldout_accuracy: Option<Interval>,
    /// Intervals of the accuracies of the best fixed offset.
    pub baseline: BaselineIntervals,
    /// Intervals of the accuracies of the best tag rules. Null if no scored word of the relation has a UPOS.
    pub tag_baseline: Option<BaselineIntervals>,
}

/// 95 % intervals of a baseline's accuracies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineIntervals {
    /// Interval of `accuracy`: rules are chosen and scored on all data.
    pub accuracy: Option<Interval>,
    /// Interval of `heldout_accuracy`: rules are chosen on one half of the sentences and scored on the other.
    pub heldout_accuracy: Option<Interval>,
}

/// Accuracy of a relation's best attention head on words at one distance from their syntactic head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtDistance {
    /// Side of the dependent on which its syntactic head stands.
    pub side: Side,
    /// Distance of the syntactic head in words: `1`, `2`, `3-5`, `6-10` or `more`.
    pub distance: String,
    /// Number of scored words at this distance and side.
    pub count: u64,
    /// Accuracy of the relation's best attention head on the words at this distance and side. Null if `count` is 0.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: Option<f64>,
}

/// Accuracy of one attention head on one relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadAccuracy {
    /// Attention head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Share of words whose syntactic head this head predicts, by direction. Null for a direction that a decoder cannot see.
    #[serde(flatten)]
    pub accuracy: ByDirection<Option<f64>>,
    /// 95 % interval of the accuracy by direction. Null if the accuracy is, or if fewer than 10 blocks have a scored word.
    pub ci95: ByDirection<Option<Interval>>,
    /// Accuracy on the words that the best fixed offset gets wrong. Null if the accuracy is, or without such words. Without
    /// `--digits 17`, null for heads below the best fixed offset, except the relation's best head. Absent if both directions
    /// are null.
    #[serde(default, skip_serializing_if = "ByDirection::is_null")]
    pub where_offset_wrong: ByDirection<Option<f64>>,
    /// Share of words for which a special token has more weight than every other word. Null if the accuracy is, and for
    /// `head->dep` in decoders. Without `--digits 17`, null for heads below the best fixed offset, except the relation's best
    /// head. Absent if both directions are null.
    #[serde(default, skip_serializing_if = "ByDirection::is_null")]
    pub to_special: ByDirection<Option<f64>>,
    /// Comparison of the attention head with the relation's best fixed offset. Null if the accuracy is.
    #[serde(serialize_with = "evidence::write_comparisons")]
    pub versus_offset: ByDirection<Option<Comparison>>,
    /// Comparison of the attention head with the relation's best tag rules. Null if the accuracy or `tag_baseline` is. Without
    /// `--digits 17`, null for heads below the best fixed offset, except the relation's best head. Absent if both directions
    /// are null.
    #[serde(default, skip_serializing_if = "ByDirection::is_null")]
    pub versus_tags: ByDirection<Option<TagComparison>>,
    /// Accuracy of the attention head on the relation minus its accuracy on other relations' arcs in the same sentences. Null
    /// if the accuracy is, or if no sentence has both. Without `--digits 17`, null for heads below the best fixed offset,
    /// except the relation's best head. Absent if both directions are null.
    #[serde(default, skip_serializing_if = "ByDirection::is_null")]
    pub specific: ByDirection<Option<Specificity>>,
    /// Accuracy with each block left out, by direction, for the block test of two analyses.
    #[serde(skip)]
    pub left_out: ByDirection<Option<Jackknife>>,
}

/// A difference of two accuracies, tested against a margin.
pub(super) struct MarginExcess {
    /// Accuracy of the attention head minus the accuracy it is compared with.
    pub difference: ShareDifference,
    /// One-sided p-value of the test that the difference exceeds the margin. `None` without a standard error.
    pub p: Option<f64>,
    /// Whether the difference is at least the margin. In [`RelationMetrics::specificity_tests`], the head must also beat the
    /// best offset by the margin of a syntactic label.
    pub is_above_margin: bool,
}

impl MarginExcess {
    fn new(difference: ShareDifference, estimate: Option<Estimate>, margin: f64) -> Self {
        let p = estimate.map(|estimate| estimate.p_above(margin));
        Self { difference, p, is_above_margin: ThresholdBound::AtLeast.is_met(difference.value, margin) }
    }
}

impl RelationMetrics {
    /// Drops tests and further comparisons wherever an attention head is less accurate than the best offset. The
    /// accuracy, the difference and their intervals stay. The best head keeps everything.
    pub(super) fn drop_unlabelled_comparisons(&mut self) {
        for head in self.by_head.iter_mut().filter(|head| head.place != self.place) {
            for direction in Direction::BOTH {
                let versus = head.versus_offset.get_mut(direction);
                if let Some(Comparison { difference, ci95, .. }) = versus
                    && *difference < 0.0
                {
                    *versus = Some(Comparison::from_difference(*difference, *ci95));
                    *head.versus_tags.get_mut(direction) = None;
                    *head.specific.get_mut(direction) = None;
                    *head.to_special.get_mut(direction) = None;
                    *head.where_offset_wrong.get_mut(direction) = None;
                }
            }
        }
    }

    /// Returns `value(head, direction)` for each attention head in each direction, leaving out `None`. Both directions of a
    /// head are adjacent.
    pub(super) fn per_head_and_direction<'a, T>(
        &'a self,
        value: impl Fn(&'a HeadAccuracy, Direction) -> Option<T>,
    ) -> impl Iterator<Item = T> {
        let cells = self.by_head.iter().cartesian_product(Direction::BOTH);
        cells.filter_map(move |(head, direction)| value(head, direction))
    }

    /// Comparisons of each attention head in each scored direction with the best offset.
    pub fn offset_comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.per_head_and_direction(|head, direction| head.versus_offset.get(direction).as_ref())
    }

    /// Returns the accuracy of an attention head minus that of the better baseline. If both baselines are equally
    /// accurate, the tag rules count as the better one. `None` without a tag baseline.
    pub(super) fn versus_better_baseline(&self, head: &HeadAccuracy, direction: Direction) -> Option<ShareDifference> {
        let (tags, offset) = (head.versus_tags.get(direction).as_ref()?, head.versus_offset.get(direction).as_ref()?);
        Some(if self.tag_baseline.as_ref()?.accuracy >= self.baseline.accuracy {
            ShareDifference { value: tags.difference, ci95: tags.ci95, standard_error: tags.standard_error }
        } else {
            lead_over_offset(offset)
        })
    }

    /// Tests, for every attention head and direction, that its accuracy exceeds that of the best offset by `margin`.
    /// Ordered as in [`Self::per_head_and_direction`].
    pub(super) fn offset_tests(&self, margin: f64) -> Vec<MarginExcess> {
        self.offset_comparisons().map(|offset| self.test_difference(lead_over_offset(offset), margin)).collect()
    }

    /// Tests, for every attention head and direction, that its accuracy exceeds that of the better baseline by
    /// `margin`. Ordered as in [`Self::per_head_and_direction`]; empty without a tag baseline.
    pub(super) fn better_baseline_tests(&self, margin: f64) -> Vec<MarginExcess> {
        self.per_head_and_direction(|head, direction| {
            Some(self.test_difference(self.versus_better_baseline(head, direction)?, margin))
        })
        .collect()
    }

    /// Tests, for every attention head and direction, that its specificity exceeds `margin`. Specificity is the
    /// accuracy on this relation minus the accuracy on other arcs of the same sentences.
    ///
    /// [`MarginExcess::is_above_margin`] also requires, as a label does, that the head beats the best offset by
    /// `margin_over_offset`. Ordered as in [`Self::per_head_and_direction`].
    pub(super) fn specificity_tests(&self, margin: f64, margin_over_offset: f64) -> Vec<MarginExcess> {
        let test = |head: &HeadAccuracy, direction: Direction| {
            let &Specificity { difference: value, ci95, standard_error, .. } = head.specific.get(direction).as_ref()?;
            let offset = head.versus_offset.get(direction).as_ref();
            let is_labelled =
                offset.is_some_and(|versus| ThresholdBound::AtLeast.is_met(versus.difference, margin_over_offset));
            let estimate = standard_error.and_then(|error| self.with_others.estimate(value, error, Scale::Real));
            let excess = MarginExcess::new(ShareDifference { value, ci95, standard_error }, estimate, margin);
            Some(MarginExcess { is_above_margin: is_labelled && excess.is_above_margin, ..excess })
        };
        self.per_head_and_direction(test).collect()
    }

    /// Tests a difference of two accuracies on the relation's words against `margin`, by its standard error over blocks.
    fn test_difference(&self, difference: ShareDifference, margin: f64) -> MarginExcess {
        MarginExcess::new(difference, self.estimate_difference(difference.value, difference.standard_error), margin)
    }

    /// Returns the estimate of a difference of two accuracies. `None` without a standard error, or with too few blocks for
    /// a test.
    pub(super) fn estimate_difference(&self, value: f64, standard_error: Option<f64>) -> Option<Estimate> {
        let &Self { blocks, effective_blocks, .. } = self;
        let scale = Scale::Difference;
        Estimate { value, standard_error: standard_error?, blocks, effective_blocks, scale }.if_testable()
    }

    /// Returns the estimate of an attention head's lead over the best offset. A rounded report has no standard error; then
    /// the interval gives it.
    pub(super) fn estimate_offset_lead(&self, comparison: &Comparison) -> Option<Estimate> {
        let &Comparison { difference, ci95, standard_error, .. } = comparison;
        // From the upper half: intervals are cut at -1, and dropped differences are below 0.
        let of_interval =
            || Some(standard_error_from_half_width(ci95?.high() - difference, self.effective_blocks - 1.0));
        self.estimate_difference(difference, standard_error.or_else(of_interval))
    }

    /// Accuracies of the best attention head.
    fn best_head(&self) -> &HeadAccuracy {
        self.by_head.iter().find(|entry| entry.place == self.place).expect("the best head is one of the heads")
    }

    /// Whether the best attention head has a comparison with the best offset in the relation's `direction`. False only
    /// in a broken report.
    pub(super) fn is_best_head_scored(&self) -> bool {
        self.best_head().versus_offset.get(self.direction).is_some()
    }

    /// Copies the best attention head's comparisons from `by_head` to the relation's own fields.
    pub(super) fn set_best_head_comparisons(&mut self) {
        let HeadAccuracy { versus_offset, versus_tags, .. } = self.best_head();
        let (offset, tags) = (versus_offset.get(self.direction).clone(), versus_tags.get(self.direction).clone());
        (self.versus_offset, self.versus_tags) = (offset.expect("the best head was scored"), tags);
    }
}

/// Converts a comparison with the best offset to a difference of two shares.
fn lead_over_offset(&Comparison { difference: value, ci95, standard_error, .. }: &Comparison) -> ShareDifference {
    ShareDifference { value, ci95, standard_error }
}
