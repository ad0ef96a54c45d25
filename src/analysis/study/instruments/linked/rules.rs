//! Baseline rules that choose the target of a link without an attention head: by position or by class.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use crate::stats::blocks::{Merge, merge_fields};
use crate::study::labels::evidence::Side;

/// Names of the rules that choose a word of the source's class. Arrays of choices and of hits have this order.
pub const SAME_CLASS_RULES: [&str; 5] =
    ["class-left", "class-right", "class-nearest", "class-in-order", "class-longest-run"];

/// Names of the position rules without a parameter. Arrays of choices and of hits have this order.
pub const FIXED_PLACE_RULES: [&str; 5] = ["first", "last", "in-order", "proportional", "even"];

/// Candidates that the position rules choose for one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionChoices {
    /// Rank of each candidate: -1, -2, ... before the source, from the nearest on, and 1, 2, ... after it.
    pub ranks: Vec<i32>,
    /// Word that each rule of [`FIXED_PLACE_RULES`] chooses.
    pub fixed: [Option<usize>; FIXED_PLACE_RULES.len()],
}

impl PositionChoices {
    /// Computes the candidates that the position rules choose for the source `word`. `number` is the source's index among the
    /// `sources` sources of its sentence. `in_order` is the choice of the rule `in-order`; `tokens` returns the number of
    /// tokens of a word.
    pub fn new(
        word: usize,
        (number, sources): (usize, usize),
        candidates: &[usize],
        in_order: Option<usize>,
        tokens: impl Fn(usize) -> usize,
    ) -> Self {
        let before = candidates.partition_point(|&other| other < word);
        let to_i32 = |rank: usize| i32::try_from(rank).expect("a sentence has fewer than 2^31 words");
        let rank = |place: usize| if place < before { -to_i32(before - place) } else { to_i32(place - before + 1) };
        let last = candidates.len() - 1;
        // The nearest whole number to number * last / (sources - 1).
        let proportional = if sources > 1 { (2 * number * last + sources - 1) / (2 * (sources - 1)) } else { 0 };
        let longest = first_best(candidates.iter().copied(), |&other| tokens(other) as u64);
        let fixed = [Some(candidates[0]), Some(candidates[last]), in_order, Some(candidates[proportional]), longest];
        Self { ranks: (0..=last).map(rank).collect(), fixed }
    }
}

/// Hits of each position rule: sources for which the rule chooses a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionHits {
    /// Hits of each fixed offset from the source, by the offset in words.
    pub offsets: BTreeMap<i32, u64>,
    /// Hits of each rank rule, by rank k: the k-th candidate before the source (negative k) or after it.
    pub ranks: BTreeMap<i32, u64>,
    /// Hits of each rule of [`FIXED_PLACE_RULES`].
    pub fixed: [u64; FIXED_PLACE_RULES.len()],
}

merge_fields!(PositionHits { offsets, ranks, fixed });

/// A rule that chooses the target of a link by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionRule {
    /// The word at this offset from the source.
    Offset(i32),
    /// The k-th candidate after the source (positive k) or before it (negative k), counted from 1.
    Rank(i32),
    /// The rule with this index in [`FIXED_PLACE_RULES`].
    Fixed(usize),
}

impl PositionRule {
    /// The best offset rule, the best rank rule and the rules without a parameter.
    pub fn with_best_parameters(hits: &PositionHits) -> Vec<Self> {
        let parametrised =
            [Self::Offset(best_offset_or_rank(&hits.offsets)), Self::Rank(best_offset_or_rank(&hits.ranks))];
        parametrised.into_iter().chain((0..FIXED_PLACE_RULES.len()).map(Self::Fixed)).collect()
    }

    /// The position rule with the most hits; ties go to the first.
    pub fn best_rule(hits: &PositionHits) -> Self {
        first_best(Self::with_best_parameters(hits), |rule| rule.hit_count(hits)).expect("there are rules")
    }

    /// Number of sources for which the word that this rule chooses is a target.
    pub fn hit_count(self, hits: &PositionHits) -> u64 {
        let at = |counts: &BTreeMap<i32, u64>, place: i32| counts.get(&place).copied().unwrap_or_default();
        match self {
            Self::Offset(offset) => at(&hits.offsets, offset),
            Self::Rank(rank) => at(&hits.ranks, rank),
            Self::Fixed(rule) => hits.fixed[rule],
        }
    }

    pub fn name(self) -> String {
        match self {
            Self::Offset(offset) => format!("offset {offset:+}"),
            Self::Rank(rank) => format!("candidate {rank:+}"),
            Self::Fixed(rule) => FIXED_PLACE_RULES[rule].to_owned(),
        }
    }
}

/// The offset or rank with the most hits; 1 without hits. Ties go to the nearer one, then to the one on the right.
fn best_offset_or_rank(hits: &BTreeMap<i32, u64>) -> i32 {
    let best = hits.iter().max_by_key(|&(&place, &hits)| (hits, -i64::from(place).abs(), place));
    best.map_or(1, |(&place, _)| place)
}

/// The item with the largest `count`; ties go to the first. `None` without items.
pub fn first_best<T>(items: impl IntoIterator<Item = T>, count: impl Fn(&T) -> u64) -> Option<T> {
    let counted = items.into_iter().map(|item| (count(&item), item));
    counted.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, item)| item)
}

/// The class of a link's source, and the class rules that choose a target of the link. A class rule chooses the nearest
/// candidate of a class on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassChoice {
    /// Class of the source.
    pub class: Box<str>,
    /// The right rules, whose chosen candidate is a target, as `(class of the candidate, side)`.
    pub right: BTreeSet<(Box<str>, Side)>,
}

impl ClassChoice {
    /// Finds the class rules that choose a target for the source `word`. `candidates` and `targets` are ascending.
    pub fn new(word: usize, classes: &[&str], candidates: &[usize], targets: &[usize]) -> Self {
        let before = candidates.partition_point(|&other| other < word);
        let (left, right) = candidates.split_at(before);
        let is_target = |other: usize| targets.binary_search(&other).is_ok();
        let mut right_rules = BTreeSet::new();
        let mut nearest = |side: Side, others: &mut dyn Iterator<Item = usize>| {
            let mut nearer_classes = BTreeSet::new();
            let first = others.filter(|&other| nearer_classes.insert(classes[other]));
            right_rules.extend(first.filter(|&other| is_target(other)).map(|other| (classes[other].into(), side)));
        };
        nearest(Side::Left, &mut left.iter().rev().copied());
        nearest(Side::Right, &mut right.iter().copied());
        Self { class: classes[word].into(), right: right_rules }
    }
}

/// Hits of each class rule for the sources of one class: sources for which the rule chooses a target. A class rule
/// chooses the nearest candidate of a class on one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassHits {
    pub sources: u64,
    /// Hits of the rules for the source's left side, by the class of the candidate.
    pub left: BTreeMap<Box<str>, u64>,
    /// Hits of the rules for the source's right side, by the class of the candidate.
    pub right: BTreeMap<Box<str>, u64>,
}

merge_fields!(ClassHits { sources, left, right });

impl ClassHits {
    pub fn add(&mut self, choice: &ClassChoice) {
        self.sources += 1;
        for (class, side) in &choice.right {
            let hits = if *side == Side::Left { &mut self.left } else { &mut self.right };
            *hits.entry(class.clone()).or_default() += 1;
        }
    }

    /// Number of hits of one rule.
    fn hit_count(&self, (class, side): &(Box<str>, Side)) -> u64 {
        let hits = if *side == Side::Left { &self.left } else { &self.right };
        hits.get(class).copied().unwrap_or_default()
    }

    /// Whether no rule has more hits than there are sources.
    pub fn is_consistent(&self) -> bool {
        self.left.values().chain(self.right.values()).all(|&right| right <= self.sources)
    }

    /// The rule with the most hits among the rules for these candidate `classes`; ties go to the first. `None` without
    /// rules.
    fn best_rule(&self, classes: &BTreeSet<Box<str>>) -> Option<(Box<str>, Side)> {
        let rules_on = |hits: &BTreeMap<Box<str>, u64>, side: Side| -> Vec<(Box<str>, Side)> {
            hits.keys().filter(|class| classes.contains(*class)).map(|class| (class.clone(), side)).collect()
        };
        let rules = [rules_on(&self.left, Side::Left), rules_on(&self.right, Side::Right)].concat();
        first_best(rules, |rule| self.hit_count(rule))
    }
}

/// Minimum number of scored sources for a class to have a separate rule. With 30 sources, an accuracy has a standard
/// error of up to 9 points; with fewer, the bound is larger.
const MIN_SOURCES_FOR_RULE: u64 = 30;

/// Maximum number of candidate classes that have rules. Rules for all word forms find .18 of random links, where
/// chance is .05.
const MAX_RULE_CLASSES: usize = 50;

/// The commonest classes among candidates, at most `MAX_RULE_CLASSES`, from the number of words of each class.
pub fn commonest_classes(words: &BTreeMap<Box<str>, u64>) -> BTreeSet<Box<str>> {
    let classes = words.iter().sorted_by_key(|&(_, &count)| Reverse(count));
    classes.take(MAX_RULE_CLASSES).map(|(class, _)| class.clone()).collect()
}

/// The best class rule for the sources of each class, and one rule for all classes that have few sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRules {
    /// Best rule for each class with enough sources, as `(class of the candidate, side)`; `None` if no rule has a hit.
    rules_by_class: BTreeMap<Box<str>, Option<(Box<str>, Side)>>,
    /// Best rule for the sources of all classes with too few sources; `None` if no rule has a hit.
    shared_rule: Option<(Box<str>, Side)>,
}

impl ClassRules {
    /// Chooses the rules with the most hits, among rules for these candidate `classes`.
    pub fn choose_best(hits: &BTreeMap<Box<str>, ClassHits>, classes: &BTreeSet<Box<str>>) -> Self {
        let mut small_classes = ClassHits::default();
        let mut rules = Self::default();
        for (class, hits) in hits {
            if hits.sources < MIN_SOURCES_FOR_RULE {
                small_classes.merge(hits);
            } else {
                rules.rules_by_class.insert(class.clone(), hits.best_rule(classes));
            }
        }
        rules.shared_rule = small_classes.best_rule(classes);
        rules
    }

    /// Number of hits of these rules over all sources.
    pub fn hit_count(&self, hits: &BTreeMap<Box<str>, ClassHits>) -> u64 {
        let rule = |class: &str| self.rules_by_class.get(class).unwrap_or(&self.shared_rule).as_ref();
        hits.iter().filter_map(|(class, hits)| Some(hits.hit_count(rule(class)?))).sum()
    }
}
