//! The sums of links, by type and block of sentences.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::key::{LinkKey, slot};
use super::pairs::{LinkedPairs, PairsByLength, SeparatedPairs};
use super::rules::{ClassHits, PlaceHits, SAME_CLASS};
use super::sources::{LinkSource, LinkedWords, Sources};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::even::Even;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::study::instruments::fold_scores::ScoredSums;
use crate::study::instruments::neighbours::{Neighbour, Neighbours};
use crate::study::instruments::partners::{Partners, largest};
use crate::study::instruments::position::{Pair, PositionPairs, Profile, ProfileSums};
use crate::study::instruments::predictions::Predictions;
use crate::study::instruments::special_tokens::SpecialTokens;
use crate::study::labels::evidence::Direction;

/// The right choices of one head, by the places of [`Direction::OF_LINKS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkHits {
    /// Among the candidates.
    pub right: [u64; 2],
    /// Among all words, where the corpus names candidates.
    pub among_all: [u64; 2],
    /// Among the candidates of the source's class.
    pub among_class: [u64; 2],
    /// In a sequence with a neighbour, as `right`.
    pub beside: [u64; 2],
    /// By the weights at the same places of the neighbour.
    pub elsewhere: [u64; 2],
    /// Sources for which a special token has more weight than every candidate.
    pub to_special: [u64; 2],
    /// The weight on targets, from their sources.
    pub mass: ExactSum,
    /// Linked pairs among those with the largest corrected weights.
    pub pairs: u64,
}

merge_fields!(LinkHits { right, among_all, among_class, beside, elsewhere, to_special, mass, pairs });

/// The sums of a type in one block, or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBlock {
    /// Scored sources.
    pub count: u64,
    /// Sentences with one, the first of each family alone.
    pub sentences: u64,
    /// The shares of targets among candidates.
    pub chance: ExactSum,
    /// The weight of even attention on targets.
    pub even_mass: ExactSum,
    /// How often rules of place are right.
    pub places: PlaceHits,
    /// How often the rules of the same class are right.
    pub same_class: [u64; SAME_CLASS.len()],
    /// Sources in sentences whose words have classes.
    pub classed: u64,
    /// How often rules of classes are right, by the class of the source.
    pub classes: BTreeMap<Box<str>, ClassHits>,
    /// Sources with targets and other candidates of their class.
    pub with_class: u64,
    /// The shares of targets among the candidates of the source's class.
    pub class_chance: ExactSum,
    /// Sources whose candidates the corpus names.
    pub named: u64,
    /// Sentences behind one of another group, and those with a neighbour among them.
    pub followers: [u64; 2],
    /// Sources with candidates at the same places of a neighbour.
    pub with_neighbour: u64,
    /// Pairs of words with the largest corrected weights, as many as there are words.
    pub pairs: u64,
    /// Linked pairs among as many drawn at random.
    pub pairs_chance: ExactSum,
    /// `[layers * heads]`, empty until a head scores.
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
    fn scored(&self) -> u64 {
        self.count
    }
}

impl LinkBlock {
    /// Counts a source, and which rules are right for it.
    fn count(&mut self, source: &LinkSource) {
        self.count += 1;
        self.chance += source.chance();
        for &target in &source.targets {
            let offset = |word: usize| i32::try_from(word).expect("a sentence has fewer than 2^31 words");
            *self.places.offsets.entry(offset(target) - offset(source.word)).or_default() += 1;
        }
        for (place, &candidate) in source.candidates.iter().enumerate() {
            if source.is_target(candidate) {
                *self.places.ranks.entry(source.places.rank(place)).or_default() += 1;
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
            self.class_chance += source.targets_of_class() as f64 / source.of_class.len() as f64;
        }
        self.named += u64::from(!source.seen.is_empty());
        self.with_neighbour += u64::from(!source.elsewhere.is_empty());
    }

    /// Whether most sentences are as long as the one before, so that their places can be compared.
    pub fn are_aligned(&self) -> bool {
        let [followers, alike] = self.followers;
        alike > 0 && 2 * alike >= followers
    }

    /// Whether no part exceeds its whole, and the heads are as many as they should be, as they may not be in a file.
    fn adds_up(&self, heads: usize) -> bool {
        let PlaceHits { offsets, ranks, fixed } = &self.places;
        let rules = offsets.values().chain(ranks.values()).chain(fixed).chain(&self.same_class);
        let parts = [self.sentences, self.classed, self.with_class, self.named, self.with_neighbour];
        let within = |parts: [u64; 2], whole: u64| parts.into_iter().all(|part| part <= whole);
        let of_head = |hits: &LinkHits| {
            within(hits.right, self.count)
                && within(hits.among_all, self.named)
                && within(hits.among_class, self.with_class)
                && within(hits.beside, self.with_neighbour)
                && within(hits.elsewhere, self.with_neighbour)
                && within(hits.to_special, self.count)
                && hits.pairs <= self.pairs
        };
        rules.chain(&parts).all(|&right| right <= self.count)
            && self.followers[1] <= self.followers[0]
            && self.classes.values().all(ClassHits::adds_up)
            && self.classes.values().map(|hits| hits.sources).sum::<u64>() == self.classed
            && self.heads.len() == if self.count + self.pairs > 0 { heads } else { 0 }
            && self.heads.iter().all(of_head)
    }
}

/// The sums of one type.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TypeSums {
    /// Links whose target is no candidate.
    pub out_of_sight: u64,
    /// Sources that are not scored: no candidate is a target, or all are.
    pub no_choice: u64,
    /// Words of each class in sentences with a scored source.
    pub words: BTreeMap<Box<str>, u64>,
    /// The attention of each head's sources by offsets; `[layers * heads]`.
    pub profiles: Vec<ProfileSums>,
    /// The sources with all other words by offsets, and which are targets.
    pub positions: PositionPairs,
    /// The candidate pairs of each fold by how far apart their words are.
    pub separations: [PairsByLength; 2],
    /// The sums of each block.
    pub blocks: Blocks<LinkBlock>,
}

merge_fields!(TypeSums { out_of_sight, no_choice, words, profiles, positions, separations, blocks });

impl TypeSums {
    fn new(grid: HeadGrid) -> Self {
        Self {
            out_of_sight: 0,
            no_choice: 0,
            words: BTreeMap::new(),
            profiles: vec![ProfileSums::default(); grid.count()],
            positions: PositionPairs::new(1),
            separations: Default::default(),
            blocks: Blocks::new(LinkBlock::default()),
        }
    }
}

/// The sums of all types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinksSums {
    grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    pub types: BTreeMap<LinkKey, TypeSums>,
    #[serde(skip)]
    predictions: Predictions,
    #[serde(skip)]
    corrected: Vec<f64>,
    #[serde(skip)]
    neighbours: Neighbours<WordAttention>,
}

impl LinksSums {
    /// Empty sums for a model with `grid` heads whose queries see these keys, words folded by `from`.
    pub fn new(grid: HeadGrid, classes: LayerClasses, from: FromToken) -> Self {
        Self {
            grid,
            classes,
            from,
            types: BTreeMap::new(),
            predictions: Predictions::default(),
            corrected: Vec::new(),
            neighbours: Neighbours::default(),
        }
    }
}

merge_fields!(LinksSums[grid, classes, from] { types });

/// The links of one type in a sentence.
#[derive(Debug)]
struct ScoredLinks {
    key: LinkKey,
    sources: Vec<LinkSource>,
    pairs: Option<LinkedPairs>,
}

/// The links of a sequence.
#[derive(Debug)]
pub struct LinksState {
    block: usize,
    links: Vec<ScoredLinks>,
    neighbour: Neighbour,
    /// `None` if no link is scored.
    special: Option<SpecialTokens>,
    /// How weights are compared in each class of layers.
    partners: Vec<Partners>,
}

impl Sums for LinksSums {
    type SequenceState = LinksState;

    fn begin(&mut self, sequence: &Sequence) -> Option<LinksState> {
        let (grid, from, visibility) = (self.grid, self.from, self.classes.in_all_layers());
        let block = block_of(sequence.family.number);
        if sequence.links.is_empty() {
            return None;
        }
        let neighbour = self.neighbours.begin(sequence, sequence.words.len());
        let mut state = LinksState { block, links: Vec::new(), neighbour, special: None, partners: Vec::new() };
        let (words, even) = (LinkedWords::new(sequence, visibility, from), Even::new(visibility, sequence.ids.len()));
        for links in &sequence.links {
            for key in LinkKey::of(links, visibility.is_causal()) {
                let Sources { mut scored, out_of_sight, no_choice } = words.sources(links, key.side);
                let pairs = if key.is_undirected && key.side.is_none() { words.pairs(links) } else { None };
                let sums = self.types.entry(key.clone()).or_insert_with(|| TypeSums::new(grid));
                sums.out_of_sight += out_of_sight;
                sums.no_choice += no_choice;
                if scored.is_empty() && pairs.is_none() {
                    continue;
                }
                if let Some(pairs) = &pairs {
                    sums.separations[block % 2].entry(pairs.words()).or_default().add(pairs);
                }
                let in_block = &mut sums.blocks[block];
                in_block.heads.resize(grid.count(), LinkHits::default());
                if let Some(pairs) = &pairs {
                    in_block.pairs += pairs.taken() as u64;
                    in_block.pairs_chance += pairs.chance();
                }
                if let Some(first) = scored.first() {
                    in_block.sentences += u64::from(sequence.family.is_first);
                    in_block.followers[0] += u64::from(neighbour.follows);
                    in_block.followers[1] += u64::from(neighbour.length().is_some());
                    let classes = words.classes_around(first.word).iter().filter(|_| words.are_classed);
                    classes.for_each(|&class| *sums.words.entry(class.into()).or_default() += 1);
                }
                for source in &mut scored {
                    neighbour.length().into_iter().for_each(|words| source.beside(words));
                    in_block.count(source);
                    let weight =
                        |key: usize| even.between_words(&sequence.words[source.word], &sequence.words[key], from);
                    in_block.even_mass += source.targets.iter().map(|&target| weight(target)).sum::<f64>();
                    let others = (0..sequence.words.len()).filter(|&key| key != source.word);
                    sums.positions.add(others.map(|key| {
                        let target = source.is_target(key).then_some((0, 1.0));
                        Pair { query: source.word, key, weight: weight(key), target }
                    }));
                }
                state.links.push(ScoredLinks { key, sources: scored, pairs });
            }
        }
        if !state.links.is_empty() {
            state.special = Some(SpecialTokens::new(sequence, from));
            let kinds = self.classes.kinds().iter();
            state.partners = kinds.map(|&visibility| Partners::new(sequence, visibility, from)).collect();
        }
        // A sequence whose links are not scored may be the neighbour of the next.
        Some(state)
    }

    fn observe(&mut self, state: &mut LinksState, event: &mut Event<'_>) {
        let LinksState { block, links, neighbour, special, partners } = state;
        let input = match event {
            Event::Head(input) => input,
            Event::PackOver => return self.neighbours.end_pack(),
            _ => return,
        };
        let (view, from) = (input.attention(), self.from);
        let attention = input.words(from);
        self.neighbours.keep(neighbour, view.layer, view.head, || attention.clone());
        let Some(special) = special else { return };
        let head = self.grid.index(view.layer, view.head);
        let partners = &partners[self.classes.of(view.layer)];
        let elsewhere = self.neighbours.before(neighbour, view.layer, view.head);
        let is_free = links.iter().flat_map(|links| &links.sources).any(|source| source.is_free);
        let predicted = if is_free { self.predictions.of(attention) } else { &[] };
        for ScoredLinks { key, sources, pairs } in links {
            let sums = self.types.get_mut(key).expect("a type that was met has sums");
            let hits = &mut sums.blocks[*block].heads[head];
            let mut profile = Profile::default();
            let is_both_ways = key.is_undirected && key.side.is_none();
            for source in sources {
                for &direction in key.directions() {
                    let choice = LinkChoice { attention, partners, direction, is_both_ways };
                    let there = elsewhere
                        .and_then(|attention| LinkChoice { attention, ..choice }.of(source.word, &source.elsewhere));
                    let (word, slot) = (source.word, slot(direction));
                    let best = if source.is_free && !is_both_ways {
                        predicted[word][slot]
                    } else {
                        choice.of(word, &source.candidates).expect("a source has candidates")
                    };
                    let right =
                        |words: &[usize]| u64::from(choice.of(word, words).is_some_and(|word| source.is_target(word)));
                    hits.right[slot] += u64::from(source.is_target(best));
                    hits.among_all[slot] += right(&source.seen);
                    hits.among_class[slot] += right(&source.of_class);
                    if let Some(there) = there {
                        hits.beside[slot] += u64::from(source.is_target(best));
                        hits.elsewhere[slot] += u64::from(source.is_target(there));
                    }
                    if direction.is_forward() || key.side.is_none() {
                        let most = choice.most(word, best, &source.candidates);
                        let direction = (!is_both_ways).then_some(direction);
                        hits.to_special[slot] += u64::from(special.most(view, word, direction) > most);
                    }
                }
                if key.directions()[0].is_forward() {
                    hits.mass += source.targets.iter().map(|&target| attention.get(source.word, target)).sum::<f64>();
                    profile.add(attention.row(source.word), source.word, 1.0);
                }
            }
            sums.profiles[head].add(&profile);
            if let Some(pairs) = pairs {
                hits.pairs += pairs.right(attention, &mut self.corrected);
            }
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        let fits = |sums: &TypeSums| {
            sums.profiles.len() == grid.count()
                && sums.positions.targets() == 1
                && sums.separations.iter().flat_map(PairsByLength::values).all(SeparatedPairs::adds_up)
                && sums.blocks.fit(|block| block.adds_up(grid.count()))
        };
        (self.grid, self.from, &self.classes) == (grid, from, classes) && self.types.values().all(fits)
    }
}

/// The choice of a head among words.
struct LinkChoice<'a> {
    attention: &'a WordAttention,
    partners: &'a Partners,
    direction: Direction,
    /// Whether the weights of both directions are added, as of undirected links.
    is_both_ways: bool,
}

impl LinkChoice<'_> {
    /// The word with the largest weight, the first of equal ones.
    fn of(&self, word: usize, others: &[usize]) -> Option<usize> {
        let Self { attention, partners, direction, is_both_ways } = self;
        let weight = |other: usize| partners.weight(attention, *direction, word, other);
        if *is_both_ways {
            return largest(others.iter().copied(), |other| self.raw(word, other));
        }
        largest(others.iter().copied(), weight)
    }

    /// The weight between a word and another.
    fn raw(&self, word: usize, other: usize) -> f64 {
        let Self { attention, direction, is_both_ways, .. } = self;
        match direction.is_forward() {
            _ if *is_both_ways => f64::midpoint(attention.get(word, other), attention.get(other, word)),
            true => attention.get(word, other),
            false => attention.get(other, word),
        }
    }

    /// The largest weight on a candidate, by that on the chosen one where weights are compared as they are.
    fn most(&self, word: usize, best: usize, candidates: &[usize]) -> f64 {
        if self.partners.compares_lifts() {
            return candidates.iter().map(|&other| self.raw(word, other)).fold(0.0, f64::max);
        }
        self.raw(word, best)
    }
}
