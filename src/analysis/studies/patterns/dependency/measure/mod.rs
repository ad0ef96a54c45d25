//! Accuracies of attention heads and baselines on one dependency relation, and their differences, computed from counts.

use itertools::Itertools;

use super::arcs::{
    AgreementCounts, BASELINE_OFFSET_COUNT, DuplicateArcs, MAX_BASELINE_OFFSET, OFFSET_CLASS_COUNT, RelationSums,
    baseline_offsets, fixed_point_to_arcs,
};
use super::relation::{
    AtDistance, BaselineIntervals, HeadAccuracy, OffsetBaseline, RelationIntervals, RelationMetrics, SingleRule,
    TagBaseline, scored_directions,
};
use super::sums::{DependencySums, RelationKey};
use super::tags::{Side, TagRules, best_single_rule};
use crate::stats::block_test::{Jackknife, Scale, effective_blocks};
use crate::stats::blocks::{Merge, PerBlock};
use crate::stats::significance::mcnemar_p;
use crate::study::instruments::fold_scores::{FoldScores, HitCounts, ShareDifference};
use crate::study::instruments::linked::rules::first_best;
use crate::study::labels::evidence::{Comparison, Direction, Specificity, TagComparison};
use crate::study::metrics::estimates::EstimationContext;
use crate::study::metrics::metric::Denominator;

#[cfg(test)]
mod tests;

impl RelationMetrics {
    /// Computes a relation's metrics from its sums per block (`None` for a block without its words). `later` counts arcs of
    /// duplicate sentences, which tests leave out.
    pub(super) fn new(
        key: &RelationKey,
        blocks: &[Option<&RelationSums>],
        (agreement, later): (&AgreementCounts, &DuplicateArcs),
        context: &EstimationContext,
    ) -> Self {
        let grid = context.grid;
        let scored = ArcScores::new(blocks, &RelationSums::for_heads(grid.head_count()));
        let total = &scored.total;
        let best_head = |sums: &RelationSums| best_head(sums, key.side, |place| context.has_head(place));
        let best = best_head(total);
        let (heldout_accuracy, heldout_interval) =
            scored.held_out_accuracy(best_head, |sums, &best| sums.right_predictions(best));

        let offset = best_offset_index(total);
        let by_offset = scored.count_hits(|sums| sums.places[offset]);
        let (heldout_offset, heldout_offset_interval) =
            scored.held_out_accuracy(best_offset_index, |sums, &offset| sums.places[offset]);
        let tags = (total.tagged > 0).then(|| measure_tag_baseline(&scored));

        let of_head = |place: usize| {
            let mut entry = HeadAccuracy { place: grid.head_place(place), ..HeadAccuracy::default() };
            for &direction in scored_directions(key.side).iter().filter(|_| context.has_head(place)) {
                let side = direction as usize;
                let head = scored.count_hits(|sums| sums.right_predictions((place, side)));
                let both_right = agreement.places[place][side][offset];
                let [later_right, later_both] = later.hit_counts((place, side), offset);
                let later_alone = [later_right, later.words[offset]].map(|right| right - later_both);
                let special =
                    scored.per_block(|sums| sums.to_special.get(place).map_or(0.0, |counts| counts[side] as f64));
                let to_special = special.iter().sum::<f64>() / total.count as f64;
                *entry.accuracy.get_mut(direction) = Some(scored.accuracy(head.count));
                *entry.ci95.get_mut(direction) = scored.accuracy_interval(&head.by_block);
                *entry.where_offset_wrong.get_mut(direction) =
                    ratio(head.count - both_right, total.count - by_offset.count);
                *entry.to_special.get_mut(direction) = (key.side.is_none() || side == 0).then_some(to_special);
                *entry.versus_offset.get_mut(direction) =
                    Some(scored.compare_with_offset(&head, &by_offset, both_right, later_alone));
                *entry.versus_tags.get_mut(direction) = tags.as_ref().map(|(rules, hits, _)| {
                    let both_right = rules.cues().map(|cue| agreement.hits_on_cue(cue, place, side)).sum();
                    scored.compare_with_tags(&head, hits, both_right)
                });
                *entry.specific.get_mut(direction) = scored.specificity(place, side);
                *entry.left_out.get_mut(direction) = context
                    .keeps_replicates
                    .then(|| Jackknife::new(&head.by_block, &scored.words).with_scale(Scale::Share));
            }
            entry
        };
        let by_head: Vec<HeadAccuracy> = (0..grid.head_count()).map(of_head).collect();
        let direction = Direction::BOTH[best.1];
        let (tag_baseline, tag_intervals) = tags.map(|(_, _, baseline)| baseline).unzip();
        Self {
            relation: key.name.clone(),
            side: key.side,
            share: None,
            count: total.count,
            sentences: Some(total.sentences),
            blocks: blocks.iter().flatten().filter(|sums| sums.count > 0).count(),
            effective_blocks: effective_blocks(&scored.words),
            with_others: scored.specificity_denominator(),
            place: grid.head_place(best.0),
            direction,
            accuracy: scored.accuracy(total.right_predictions(best)),
            heldout_accuracy,
            baseline: OffsetBaseline {
                offset: offset_at(offset),
                accuracy: scored.accuracy(by_offset.count),
                heldout_accuracy: heldout_offset,
            },
            tag_baseline,
            ci95: RelationIntervals {
                accuracy: *by_head[best.0].ci95.get(direction),
                heldout_accuracy: heldout_interval,
                baseline: BaselineIntervals {
                    accuracy: scored.accuracy_interval(&by_offset.by_block),
                    heldout_accuracy: heldout_offset_interval,
                },
                tag_baseline: tag_intervals,
            },
            versus_offset: by_head[best.0].versus_offset.get(direction).clone().expect("the best head was scored"),
            versus_tags: by_head[best.0].versus_tags.get(direction).clone(),
            by_distance: accuracies_by_distance(&total.places, &agreement.places[best.0][best.1]),
            by_head,
        }
    }
}

/// Right predictions, per block, of simple parsers on one relation. Each is chosen on one fold and scored on the other.
pub struct BaselineParsers {
    /// Number of scored words of the relation.
    pub scored_words: PerBlock,
    /// Right predictions of the best attention head in its best direction. `None` if a fold has no word of the relation.
    pub best_head: Option<PerBlock>,
    /// Right predictions of the best fixed offset. `None` if a fold has no word of the relation.
    pub best_offset: Option<PerBlock>,
    /// Right predictions of the best tag rules. `None` if a fold has no word of the relation, or if no word has a UPOS.
    pub best_tags: Option<PerBlock>,
    /// Right predictions of the parser that chooses the next word.
    pub next_word: PerBlock,
}

impl BaselineParsers {
    /// Scores the parsers on one relation; `heads` is the model's number of attention heads. A decoder's two sides of a
    /// relation are summed, since a direction is right on one side only.
    pub fn new(sums: &DependencySums, relation: &str, heads: usize) -> Self {
        let keys = || sums.relations.iter().filter(|(key, _)| key.name == relation);
        let of_block = |block: &Vec<RelationSums>| {
            let mut sides = keys().filter_map(|(_, &place)| block.get(place));
            let mut sums = sides.next()?.clone();
            sides.for_each(|side| sums.merge(side));
            Some(sums)
        };
        let blocks: Vec<Option<RelationSums>> = sums.blocks.iter().map(of_block).collect();
        let blocks: Vec<Option<&RelationSums>> = blocks.iter().map(Option::as_ref).collect();
        let scored = ArcScores::new(&blocks, &RelationSums::for_heads(heads));
        let by_block = |hits: Option<HitCounts>| hits.map(|hits| hits.by_block);
        let tags = || {
            scored.count_held_out_hits(
                |sums| TagRules::select_best(&sums.cues),
                |sums, rules| rules.count_hits(&sums.cues),
            )
        };
        let head = |sums: &RelationSums| best_head(sums, None, |_| true);
        let next = baseline_offsets().position(|offset| offset == 1).expect("an offset of the baseline");
        Self {
            best_head: by_block(scored.count_held_out_hits(head, |sums, &best| sums.right_predictions(best))),
            best_offset: by_block(scored.count_held_out_hits(best_offset_index, |sums, &offset| sums.places[offset])),
            best_tags: (scored.total.tagged > 0).then(tags).and_then(by_block),
            next_word: scored.count_hits(|sums| sums.places[next]).by_block,
            scored_words: scored.words,
        }
    }
}

/// Accuracies of one relation's predictors on both folds.
type ArcScores<'a> = FoldScores<'a, RelationSums>;

impl ArcScores<'_> {
    /// Returns how much more accurate an attention head is on the relation than on other arcs of the same sentences.
    /// `None` if no sentence has both.
    fn specificity(&self, place: usize, direction: usize) -> Option<Specificity> {
        let of_head = |sums: &RelationSums| {
            sums.over_others.get(place).map_or(0.0, |differences| fixed_point_to_arcs(differences[direction]))
        };
        let jackknife = Jackknife::new(&self.per_block(of_head), &self.words_with_other_arcs());
        (self.total.with_others > 0).then(|| Specificity {
            difference: jackknife.value(),
            ci95: jackknife.interval(),
            standard_error: jackknife.standard_error(),
            p: None,
            q: None,
        })
    }

    /// Number of the relation's words, per jackknife block, in sentences that also have arcs of other relations.
    fn words_with_other_arcs(&self) -> PerBlock {
        self.per_block(|sums| sums.with_others as f64)
    }

    /// Denominator of [`HeadAccuracy::specific`]: words of the relation in sentences that also have arcs of other
    /// relations.
    fn specificity_denominator(&self) -> Denominator {
        let words = self.words_with_other_arcs();
        Denominator {
            count: self.total.with_others,
            sentences: self.total.sentences,
            blocks: words.iter().filter(|&&words| words > 0.0).count() as u64,
            effective_blocks: effective_blocks(&words),
        }
    }

    /// Compares an attention head with an offset; `both` is the number of words that both predict right. `McNemar`'s
    /// test leaves out the words in duplicate sentences; `later` counts those that only one predicts right, `[head
    /// only, offset only]`.
    fn compare_with_offset(&self, head: &HitCounts, offset: &HitCounts, both: u64, later: [u64; 2]) -> Comparison {
        let ShareDifference { value: difference, ci95, standard_error } =
            self.share_difference(&head.by_block, &offset.by_block);
        let (head_only, offset_only) = (head.count - both - later[0], offset.count - both - later[1]);
        let mcnemar_p = Some(mcnemar_p(head_only, offset_only));
        let [head_only, offset_only] = [head_only, offset_only].map(Some);
        Comparison { difference, ci95, standard_error, head_only, offset_only, mcnemar_p, p: None, q: None }
    }

    /// Compares an attention head with the tag rules; `both` is the number of words that both predict right.
    fn compare_with_tags(&self, head: &HitCounts, tags: &HitCounts, both: u64) -> TagComparison {
        let ShareDifference { value: difference, ci95, standard_error } =
            self.share_difference(&head.by_block, &tags.by_block);
        let (head_only, tags_only) = (head.count - both, tags.count - both);
        let (lead, lead_ci95) = (difference, ci95);
        TagComparison { difference, ci95, standard_error, head_only, tags_only, lead, lead_ci95, p: None, q: None }
    }
}

/// Returns the best tag rules, their right predictions, and the report's entry on them with its intervals.
fn measure_tag_baseline(scored: &ArcScores<'_>) -> (TagRules, HitCounts, (TagBaseline, BaselineIntervals)) {
    let best = |sums: &RelationSums| TagRules::select_best(&sums.cues);
    let rules = best(&scored.total);
    let hits = scored.count_hits(|sums| rules.count_hits(&sums.cues));
    let (heldout_accuracy, heldout_interval) =
        scored.held_out_accuracy(best, |sums, rules| rules.count_hits(&sums.cues));
    let (rule, single_hits) = best_single_rule(&scored.total.cues);
    let baseline = TagBaseline {
        accuracy: scored.accuracy(hits.count),
        heldout_accuracy,
        rules: rules.rules_by_tag(&scored.total.cues),
        single: SingleRule { rule, accuracy: scored.accuracy(single_hits) },
    };
    let ci95 =
        BaselineIntervals { accuracy: scored.accuracy_interval(&hits.by_block), heldout_accuracy: heldout_interval };
    (rules, hits, (baseline, ci95))
}

/// Returns `part / total`. `None` if `total` is 0.
fn ratio(part: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| part as f64 / total as f64)
}

/// Names of the distance classes, each with its largest distance in words.
const DISTANCE_CLASSES: [(&str, i32); 5] =
    [("1", 1), ("2", 2), ("3-5", 5), ("6-10", MAX_BASELINE_OFFSET), ("more", i32::MAX)];

/// Returns the accuracy at each distance on each side, near before far, left before right. `words` and `right` are counts
/// by offset class.
fn accuracies_by_distance(words: &[u64; OFFSET_CLASS_COUNT], right: &[u64; OFFSET_CLASS_COUNT]) -> Vec<AtDistance> {
    let offsets: Vec<i32> = baseline_offsets().chain([i32::MIN + 1, i32::MAX]).collect();
    let (mut nearer, mut accuracies) = (0, Vec::new());
    for (name, farthest) in DISTANCE_CLASSES {
        for side in Side::BOTH {
            let is_in = |&place: &usize| {
                let offset = offsets[place];
                (offset < 0) == (side == Side::Left) && offset.abs() > nearer && offset.abs() <= farthest
            };
            let sum = |counts: &[u64; OFFSET_CLASS_COUNT]| {
                (0..OFFSET_CLASS_COUNT).filter(is_in).map(|place| counts[place]).sum::<u64>()
            };
            let (count, right) = (sum(words), sum(right));
            accuracies.push(AtDistance { side, distance: name.to_owned(), count, accuracy: ratio(right, count) });
        }
        nearer = farthest;
    }
    accuracies
}

impl RelationSums {
    /// Number of right predictions of an attention head in one direction.
    fn right_predictions(&self, (place, direction): (usize, usize)) -> u64 {
        self.hits.get(place).map_or(0, |hits| hits[direction])
    }
}

/// Returns the index and direction of the attention head with most right predictions. Among equals, the lowest index, then
/// the first direction. `has` says whether the model has a head.
fn best_head(sums: &RelationSums, side: Option<Side>, has: impl Fn(usize) -> bool) -> (usize, usize) {
    let directions = scored_directions(side).iter().map(|&direction| direction as usize);
    let first = directions.clone().next().expect("a side has a direction");
    let present = (0..sums.hits.len()).filter(|&place| has(place));
    first_best(present.cartesian_product(directions), |&cell| sums.right_predictions(cell)).unwrap_or((0, first))
}

/// Returns the index in [`baseline_offsets`] of the offset with most right predictions. Among equals, the shorter distance,
/// then the right.
fn best_offset_index(sums: &RelationSums) -> usize {
    let rank = |&slot: &usize| {
        let offset = offset_at(slot);
        (sums.places[slot], -offset.abs(), offset)
    };
    (0..BASELINE_OFFSET_COUNT).max_by_key(rank).expect("there are offsets")
}

/// Returns the offset in words at an index in [`baseline_offsets`].
fn offset_at(slot: usize) -> i32 {
    baseline_offsets().nth(slot).expect("a slot of the baseline")
}
