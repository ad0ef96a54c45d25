//! Sums over one type of links in one block of sentences: how often each attention head and rule chooses a target.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::key::direction_index;
use super::rules::{ClassHits, PositionHits, SAME_CLASS_RULES, first_best};
use super::sources::LinkSource;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;
use crate::study::instruments::fold_scores::ScoredSums;
use crate::study::labels::evidence::Direction;

/// Hits of one attention head: sources of links for which the head chooses a target. They are counted for several sets of
/// words from which it chooses. Pairs of counts are in the order of [`Direction::BOTH_OF_LINKS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkHits {
    /// Hits among the candidates: the candidate with the largest weight is a target.
    pub right: [u64; 2],
    /// Hits among the words of [`LinkSource::seen`], which ignores the corpus's list of candidates. 0 if the corpus
    /// lists no candidates.
    pub among_all: [u64; 2],
    /// Hits among the candidates whose word class is the source's class.
    pub among_class: [u64; 2],
    /// Hits among the candidates, over the sources of [`LinkBlock::with_neighbour`]: the neighbouring sequence has the word
    /// indices of the source and of a candidate.
    pub beside: [u64; 2],
    /// Hits among the candidates whose word index also exists in the neighbouring sequence, by the weights at the same
    /// indices there: choices by position alone.
    pub elsewhere: [u64; 2],
    /// Number of sources for which a special token has a larger weight than every candidate.
    pub to_special: [u64; 2],
    /// Weight of sources on their targets, summed over sources.
    pub mass: ExactSum,
    /// Number of linked pairs among the pairs of words with the largest weights, after the average product
    /// correction.
    pub pairs: u64,
}

merge_fields!(LinkHits { right, among_all, among_class, beside, elsewhere, to_special, mass, pairs });

/// Sums over one type of links in one block of sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBlock {
    /// Number of scored sources.
    pub count: u64,
    /// Number of sentences with a scored source, counting one per sentence family (equal or grouped sentences).
    pub sentences: u64,
    /// Share of targets among the candidates, summed over sources.
    pub chance: ExactSum,
    /// Weight of uniform attention on the targets, summed over sources.
    pub even_mass: ExactSum,
    /// Hits of the rules that choose by position. A hit is a source for which the rule chooses a target.
    pub places: PositionHits,
    /// Hits of each rule of [`SAME_CLASS_RULES`].
    pub same_class: [u64; SAME_CLASS_RULES.len()],
    /// Number of sources in sentences where some words have classes.
    pub classed: u64,
    /// Hits of the rules that choose by class, by the class of the source.
    pub classes: BTreeMap<Box<str>, ClassHits>,
    /// Number of sources for which some, but not all, candidates of the source's class are targets.
    pub with_class: u64,
    /// Share of targets among the candidates of the source's class, summed over sources.
    pub class_chance: ExactSum,
    /// Number of sources for which the corpus lists the candidates explicitly.
    pub named: u64,
    /// Number of sentences whose preceding sentence is in another group of dependent sentences: `[all, similarly
    /// long]`.
    pub followers: [u64; 2],
    /// Number of sources for which the neighbouring sequence has the word indices of the source and of at least one
    /// candidate.
    pub with_neighbour: u64,
    /// Number of pairs of words with the largest weights after the average product correction: in each sentence, as
    /// many pairs as it has words.
    pub pairs: u64,
    /// Expected number of linked pairs if `pairs` pairs were chosen at random.
    pub pairs_chance: ExactSum,
    /// Hits of each attention head, `[layers * heads]`; empty until a head was scored.
    pub heads: Vec<LinkHits>,
}

merge_fields!(LinkBlock {
    count,
    sentences,
    chance,
    even_mass,
    places,
    same_class,
    classed,
    classes,
    with_class,
    class_chance,
    named,
    followers,
    with_neighbour,
    pairs,
    pairs_chance,
    heads,
});

impl ScoredSums for LinkBlock {
    fn scored_words(&self) -> u64 {
        self.count
    }
}

impl LinkBlock {
    /// Counts a source, and the hits of all rules for it.
    pub fn add_source(&mut self, source: &LinkSource) {
        self.count += 1;
        self.chance += source.chance();
        for &target in &source.targets {
            let offset = |word: usize| i32::try_from(word).expect("a sentence has fewer than 2^31 words");
            *self.places.offsets.entry(offset(target) - offset(source.word)).or_default() += 1;
        }
        for (place, &candidate) in source.candidates.iter().enumerate() {
            if source.is_target(candidate) {
                *self.places.ranks.entry(source.places.ranks[place]).or_default() += 1;
            }
        }
        let count = |hits: &mut [u64], choices: &[Option<usize>]| {
            for (hits, choice) in hits.iter_mut().zip(choices) {
                *hits += u64::from(choice.is_some_and(|word| source.is_target(word)));
            }
        };
        count(&mut self.places.fixed, &source.places.fixed);
        count(&mut self.same_class, &source.same_class);
        if let Some(choice) = &source.class {
            self.classed += 1;
            self.classes.entry(choice.class.clone()).or_default().add(choice);
        }
        if !source.of_class.is_empty() {
            self.with_class += 1;
            self.class_chance += source.target_count_in_class() as f64 / source.of_class.len() as f64;
        }
        self.named += u64::from(!source.seen.is_empty());
        self.with_neighbour += u64::from(!source.elsewhere.is_empty());
    }

    /// Whether at least half of the sentences are about as long as the sentence before them, so that equal positions in
    /// both can be compared.
    pub fn has_aligned_neighbours(&self) -> bool {
        let [followers, alike] = self.followers;
        alike > 0 && 2 * alike >= followers
    }

    /// Whether no count exceeds the count that includes it, and `heads` heads were counted. Sums read from a file are
    /// untrusted.
    pub fn is_consistent(&self, heads: usize) -> bool {
        let PositionHits { offsets, ranks, fixed } = &self.places;
        let rules = offsets.values().chain(ranks.values()).chain(fixed).chain(&self.same_class);
        let parts = [self.sentences, self.classed, self.with_class, self.named, self.with_neighbour];
        let at_most = |parts: [u64; 2], whole: u64| parts.into_iter().all(|part| part <= whole);
        let head_adds_up = |hits: &LinkHits| {
            at_most(hits.right, self.count)
                && at_most(hits.among_all, self.named)
                && at_most(hits.among_class, self.with_class)
                && at_most(hits.beside, self.with_neighbour)
                && at_most(hits.elsewhere, self.with_neighbour)
                && at_most(hits.to_special, self.count)
                && hits.pairs <= self.pairs
        };
        rules.chain(&parts).all(|&right| right <= self.count)
            && self.followers[1] <= self.followers[0]
            && self.classes.values().all(ClassHits::is_consistent)
            && self.classes.values().map(|hits| hits.sources).sum::<u64>() == self.classed
            && self.heads.len() == if self.count + self.pairs > 0 { heads } else { 0 }
            && self.heads.iter().all(head_adds_up)
    }

    /// A count of the attention head at index `place`; 0 if no head was scored.
    pub fn count_of_head(&self, place: usize, count: impl Fn(&LinkHits) -> u64) -> u64 {
        self.heads.get(place).map_or(0, count)
    }

    /// Number of sources for which the head at index `place` chooses a target in one direction.
    pub fn hit_count(&self, (place, direction): (usize, Direction)) -> u64 {
        self.count_of_head(place, |hits| hits.right[direction_index(direction)])
    }
}

/// The attention head with the most hits in one of the `directions`, as `(index, direction)`. Ties go to the first
/// head, then to the first direction.
pub fn best_head(sums: &LinkBlock, directions: &[Direction]) -> (usize, Direction) {
    let cells = (0..sums.heads.len()).flat_map(|place| directions.iter().map(move |&direction| (place, direction)));
    first_best(cells, |&cell| sums.hit_count(cell)).expect("there are heads")
}
