//! Accuracies of attention heads and rules on one type of links, and their differences, computed from counts.

use super::link::{
    BestRule, ByEnd, HeadLinks, LeadTest, Leads, LinkIntervals, LinkMetrics, PairCounts, RuleAccuracy, RuleGroup,
    RuleLead,
};
use super::sums::LinkTypeSums;
use crate::stats::block_test::{Jackknife, Scale, effective_blocks};
use crate::stats::blocks::PerBlock;
use crate::study::instruments::fold_scores::{FoldScores, HitCounts, ShareDifference};
use crate::study::instruments::linked::block::{LinkBlock, LinkHits, best_head};
use crate::study::instruments::linked::key::{LinkKey, direction_index};
use crate::study::instruments::linked::pairs::distance_baseline;
use crate::study::instruments::linked::rules::{
    ClassRules, PositionRule, SAME_CLASS_RULES, commonest_classes, first_best,
};
use crate::study::labels::evidence::Direction;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::metrics::metric::Denominator;

/// Accuracies of heads and rules on one type of links, on both folds.
type LinkScores<'a> = FoldScores<'a, LinkBlock>;

/// A rule's accuracy, and its number of right choices per jackknife block.
type ScoredRule = (RuleAccuracy, PerBlock);

impl LinkMetrics {
    /// Computes the metrics of one type of links. `None` if no source is scored.
    #[expect(clippy::too_many_lines, reason = "one field after the other")]
    pub(super) fn new(key: &LinkKey, sums: &LinkTypeSums, context: &EstimationContext) -> Option<Self> {
        let grid = context.grid;
        let blocks: Vec<Option<&LinkBlock>> = sums.blocks.iter().map(Some).collect();
        let empty = LinkBlock { heads: vec![LinkHits::default(); grid.head_count()], ..LinkBlock::default() };
        let scored = LinkScores::new(&blocks, &empty);
        let total = &scored.total;
        if total.count == 0 {
            return None;
        }
        let best_head = |sums: &LinkBlock| best_head(sums, key.directions());
        let best = best_head(total);
        let (heldout_accuracy, heldout_ci95) = scored.held_out_accuracy(best_head, |sums, &best| sums.hit_count(best));

        let (rules, [by_place, by_class, by_class_rules]) = measure_rules(&scored, sums);
        let with_class = scored.per_block(|sums| sums.with_class as f64);
        let class_chance = scored.per_block(|sums| sums.class_chance.value());
        let pairs = scored.per_block(|sums| sums.pairs as f64);
        let is_aligned = total.has_aligned_neighbours() && total.with_neighbour > 0;
        let with_neighbour = scored.per_block(|sums| if is_aligned { sums.with_neighbour as f64 } else { 0.0 });

        let is_scored = |direction: Direction| key.directions().contains(&direction);
        let is_forward = is_scored(Direction::From);
        let of_head = |place: usize| {
            let right = ByEnd::new(|direction| {
                is_scored(direction).then(|| scored.per_block(|sums| sums.hit_count((place, direction)) as f64))
            });
            let leads = ByEnd::new(|direction| {
                let right = right.get(direction).as_ref()?;
                let rules = rules.iter().map(|(_, by_block)| measure_lead(&scored, right, by_block)).collect();
                let count = |sums: &LinkBlock, counts: fn(&LinkHits) -> [u64; 2]| {
                    sums.count_of_head(place, |hits| counts(hits)[direction_index(direction)]) as f64
                };
                let among = scored.per_block(|sums| count(sums, |hits| hits.among_class));
                let above: PerBlock = std::array::from_fn(|block| among[block] - class_chance[block]);
                let among_class = (total.with_class > 0).then(|| RuleLead::new(&Jackknife::new(&above, &with_class)));
                let more_than_neighbour =
                    scored.per_block(|sums| count(sums, |hits| hits.beside) - count(sums, |hits| hits.elsewhere));
                let same_places =
                    is_aligned.then(|| RuleLead::new(&Jackknife::new(&more_than_neighbour, &with_neighbour)));
                let test = LeadTest::default();
                Some(Leads { rules, among_class, same_places, over_place: test, over_class: test, over_all: test })
            });
            let share = |count: fn(&LinkHits) -> [u64; 2], sources: u64| {
                ByEnd::new(|direction| {
                    let is_shown = is_scored(direction) && sources > 0;
                    is_shown.then(|| {
                        total.count_of_head(place, |hits| count(hits)[direction_index(direction)]) as f64
                            / sources as f64
                    })
                })
            };
            let mass = scored.per_block(|sums| sums.heads.get(place).map_or(0.0, |hits| hits.mass.value()));
            let mass = is_forward.then(|| Jackknife::new(&mass, &scored.words).with_scale(Scale::Share));
            let expected =
                sums.positions.rates(0, None).expected_score_part(&sums.profiles[place], &sums.profiles[place]);
            let linked = scored.per_block(|sums| sums.count_of_head(place, |hits| hits.pairs) as f64);
            let precision = (total.pairs > 0).then(|| Jackknife::new(&linked, &pairs).with_scale(Scale::Share));
            let mut to_special = share(|hits| hits.to_special, total.count);
            if key.side.is_some() {
                to_special.to = None;
            }
            HeadLinks {
                place: grid.head_place(place),
                accuracy: share(|hits| hits.right, total.count),
                ci95: ByEnd::new(|direction| scored.accuracy_interval(right.get(direction).as_ref()?)),
                among_all: share(|hits| hits.among_all, total.named),
                among_class: share(|hits| hits.among_class, total.with_class),
                same_places: share(|hits| hits.elsewhere, if is_aligned { total.with_neighbour } else { 0 }),
                to_special,
                mass: mass.as_ref().map(Jackknife::value),
                mass_ci95: mass.as_ref().and_then(Jackknife::interval),
                mass_expected: is_forward.then(|| expected / total.count as f64),
                precision_at_length: precision.as_ref().map(Jackknife::value),
                precision_ci95: precision.as_ref().and_then(Jackknife::interval),
                leads,
                left_out: ByEnd::new(|direction| {
                    let right = right.get(direction).as_ref().filter(|_| context.keeps_replicates)?;
                    Some(Jackknife::new(right, &scored.words).with_scale(Scale::Share))
                }),
            }
        };
        let by_head: Vec<HeadLinks> = (0..grid.head_count()).map(of_head).collect();
        let mean = |sum: f64| sum / total.count as f64;
        Some(Self {
            name: key.name.to_string(),
            undirected: key.is_undirected,
            side: key.side,
            count: total.count,
            sentences: total.sentences,
            blocks: scored.words.iter().filter(|&&words| words > 0.0).count(),
            effective_blocks: effective_blocks(&scored.words),
            out_of_sight: sums.out_of_sight,
            no_choice: sums.no_choice,
            place: grid.head_place(best.0),
            direction: best.1,
            accuracy: scored.accuracy(total.hit_count(best)),
            heldout_accuracy,
            chance: mean(total.chance.value()),
            mass_chance: is_forward.then(|| mean(total.even_mass.value())),
            by_place: by_place.expect("there are rules of place"),
            by_class: by_class.expect("there are rules of the same class"),
            by_class_rules,
            ci95: LinkIntervals { accuracy: *by_head[best.0].ci95.get(best.1), heldout_accuracy: heldout_ci95 },
            with_class: source_denominator(total.with_class, total, &with_class),
            with_neighbour: source_denominator(
                if is_aligned { total.with_neighbour } else { 0 },
                total,
                &with_neighbour,
            ),
            class_chance: (total.with_class > 0).then(|| total.class_chance.value() / total.with_class as f64),
            pairs: (total.pairs > 0).then(|| PairCounts {
                taken: total.pairs,
                chance: total.pairs_chance.value() / total.pairs as f64,
                by_separation: distance_baseline(&sums.separations),
            }),
            rules: rules.into_iter().map(|(accuracy, _)| accuracy).collect(),
            by_head,
        })
    }
}

/// Returns the denominator of a metric over `count` sources; `by_block` is their number per jackknife block.
fn source_denominator(count: u64, total: &LinkBlock, by_block: &PerBlock) -> Denominator {
    Denominator {
        count,
        sentences: total.sentences,
        blocks: by_block.iter().filter(|&&sources| sources > 0.0).count() as u64,
        effective_blocks: effective_blocks(by_block),
    }
}

/// Returns all rules, and the best rule of each [`RuleGroup`] with its held-out accuracy.
fn measure_rules(scored: &LinkScores<'_>, sums: &LinkTypeSums) -> (Vec<ScoredRule>, [Option<BestRule>; 3]) {
    let total = &scored.total;
    let rule = |group: RuleGroup, name: &str, hits: HitCounts| {
        (RuleAccuracy { group, rule: name.to_owned(), accuracy: scored.accuracy(hits.count) }, hits.by_block)
    };
    let of_place = |place: PositionRule| {
        rule(RuleGroup::Place, &place.name(), scored.count_hits(|sums| place.hit_count(&sums.places)))
    };
    let mut rules: Vec<ScoredRule> =
        PositionRule::with_best_parameters(&total.places).into_iter().map(of_place).collect();
    let accuracy = total.chance.value() / total.count as f64;
    let chance = RuleAccuracy { group: RuleGroup::Place, rule: "chance".to_owned(), accuracy };
    rules.push((chance, scored.per_block(|sums| sums.chance.value())));
    for (number, name) in SAME_CLASS_RULES.into_iter().enumerate() {
        rules.push(rule(RuleGroup::SameClass, name, scored.count_hits(|sums| sums.same_class[number])));
    }
    let commonest = commonest_classes(&sums.words);
    let class_rules = |sums: &LinkBlock| ClassRules::choose_best(&sums.classes, &commonest);
    if total.classed > 0 {
        let best = class_rules(total);
        let hits = scored.count_hits(|sums| best.hit_count(&sums.classes));
        rules.push(rule(RuleGroup::ClassRules, "class rules", hits));
    }
    let best = |group: RuleGroup, (heldout_accuracy, heldout_ci95)| {
        let of_group = rules.iter().map(|(accuracy, _)| accuracy).filter(|rule| rule.group == group);
        let best = of_group.reduce(|best, next| if next.accuracy > best.accuracy { next } else { best })?;
        Some(BestRule { rule: best.rule.clone(), accuracy: best.accuracy, heldout_accuracy, heldout_ci95 })
    };
    let place = scored
        .held_out_accuracy(|sums| PositionRule::best_rule(&sums.places), |sums, rule| rule.hit_count(&sums.places));
    let same_class = scored.held_out_accuracy(
        |sums| first_best(0..SAME_CLASS_RULES.len(), |&rule| sums.same_class[rule]).unwrap_or_default(),
        |sums, &rule| sums.same_class[rule],
    );
    let by_rules = scored.held_out_accuracy(class_rules, |sums, rules| rules.hit_count(&sums.classes));
    let best =
        [best(RuleGroup::Place, place), best(RuleGroup::SameClass, same_class), best(RuleGroup::ClassRules, by_rules)];
    (rules, best)
}

/// Returns an attention head's accuracy minus that of a rule, given right choices per jackknife block.
fn measure_lead(scored: &LinkScores<'_>, head: &PerBlock, rule: &PerBlock) -> RuleLead {
    let ShareDifference { value, standard_error, .. } = scored.share_difference(head, rule);
    RuleLead { difference: value, standard_error }
}
