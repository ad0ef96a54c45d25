//! Counts on user-defined links, by type of links and jackknife block of sentences.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::study::instruments::linked::block::{LinkBlock, LinkHits};
use crate::study::instruments::linked::choice::LinkChoice;
use crate::study::instruments::linked::key::{LinkKey, direction_index};
use crate::study::instruments::linked::pairs::{LinkedPairs, PairsByDistance, PairsByLength};
use crate::study::instruments::linked::sources::{LinkSource, LinkedWords, SourcesOfLinkSet};
use crate::study::instruments::neighbours::{Neighbour, Neighbours};
use crate::study::instruments::partners::Partners;
use crate::study::instruments::position::{OffsetProfile, PositionPairs, ProfileSums, QueryKeyPair};
use crate::study::instruments::predictions::Predictions;
use crate::study::instruments::special_tokens::SpecialTokens;

/// Counts on one type of links.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkTypeSums {
    /// Number of links not scored because their target is not a candidate.
    pub out_of_sight: u64,
    /// Number of sources not scored because no candidate is a target, or because all are.
    pub no_choice: u64,
    /// Number of words of each class in sentences with a scored source.
    pub words: BTreeMap<Box<str>, u64>,
    /// Attention of each head from scored sources by offset to the key, `[layers * heads]`.
    pub profiles: Vec<ProfileSums>,
    /// Weight of uniform attention from scored sources to other words, by offset: to all words, and to targets alone.
    pub positions: PositionPairs,
    /// Number of candidate pairs by the distance between their words, in each fold (blocks of even, of odd index).
    pub separations: [PairsByLength; 2],
    pub blocks: Blocks<LinkBlock>,
}

merge_fields!(LinkTypeSums { out_of_sight, no_choice, words, profiles, positions, separations, blocks });

impl LinkTypeSums {
    fn new(grid: HeadGrid) -> Self {
        Self {
            out_of_sight: 0,
            no_choice: 0,
            words: BTreeMap::new(),
            profiles: vec![ProfileSums::default(); grid.head_count()],
            positions: PositionPairs::new(1),
            separations: Default::default(),
            blocks: Blocks::new(LinkBlock::default()),
        }
    }
}

/// Sums of the study `links`, for each type of links.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinksSums {
    grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    pub types: BTreeMap<LinkKey, LinkTypeSums>,
    #[serde(skip)]
    predictions: Predictions,
    /// Buffer for the pairs' weights after the average product correction.
    #[serde(skip)]
    corrected: Vec<f64>,
    /// Attention of each head in the previous sequence of the pack. It shows which targets the head chooses by position
    /// alone.
    #[serde(skip)]
    neighbours: Neighbours<WordAttention>,
}

impl LinksSums {
    pub fn new(grid: HeadGrid, classes: LayerClasses, from: FromToken) -> Self {
        Self { grid, classes, from, ..Self::default() }
    }
}

merge_fields!(LinksSums[grid, classes, from] { types });

/// Scored links of one type in the observed sequence.
#[derive(Debug)]
struct ScoredLinks {
    key: LinkKey,
    /// Scored sources, each with its candidates.
    sources: Vec<LinkSource>,
    /// Candidate pairs of words. `None` unless the type is undirected and the model an encoder.
    pairs: Option<LinkedPairs>,
}

/// The sequence being observed, with its scored links.
#[derive(Debug)]
pub struct LinksState {
    block: usize,
    links: Vec<ScoredLinks>,
    /// The previous sequence of the pack. Its attention shows which targets a head chooses by position alone.
    neighbour: Neighbour,
    /// Special tokens of the sequence. `None` if no link is scored.
    special: Option<SpecialTokens>,
    /// Candidates for the other word of a link, for each attention mask that layers have. In a decoder, [`Partners`]
    /// divides weights by uniform attention.
    partners: Vec<Partners>,
}

impl Sums for LinksSums {
    type SequenceState = LinksState;

    fn begin(&mut self, sequence: &Sequence) -> Option<LinksState> {
        let (grid, from, visibility) = (self.grid, self.from, self.classes.common_visibility());
        let block = block_of(sequence.family.number);
        if sequence.links.is_empty() {
            return None;
        }
        let neighbour = self.neighbours.begin(sequence, sequence.words.len());
        let mut state = LinksState { block, links: Vec::new(), neighbour, special: None, partners: Vec::new() };
        let (words, even) =
            (LinkedWords::new(sequence, visibility, from), UniformAttention::new(visibility, sequence.ids.len()));
        for links in &sequence.links {
            for key in LinkKey::from_link_set(links, visibility.is_causal()) {
                let SourcesOfLinkSet { mut scored, unseen_links: out_of_sight, sources_without_choice: no_choice } =
                    words.sources(links, key.side);
                let pairs = if key.is_undirected && key.side.is_none() { words.pairs(links) } else { None };
                let sums = self.types.entry(key.clone()).or_insert_with(|| LinkTypeSums::new(grid));
                sums.out_of_sight += out_of_sight;
                sums.no_choice += no_choice;
                if scored.is_empty() && pairs.is_none() {
                    continue;
                }
                let in_block = &mut sums.blocks[block];
                in_block.heads.resize(grid.head_count(), LinkHits::default());
                if let Some(pairs) = &pairs {
                    sums.separations[block % 2].entry(pairs.word_count()).or_default().add(pairs);
                    in_block.pairs += pairs.predicted_link_count() as u64;
                    in_block.pairs_chance += pairs.expected_linked_count();
                }
                if let Some(first) = scored.first() {
                    in_block.sentences += u64::from(sequence.family.is_first);
                    in_block.followers[0] += u64::from(neighbour.follows_other_group);
                    in_block.followers[1] += u64::from(neighbour.length().is_some());
                    let classes = words.sentence_classes(first.word).iter().filter(|_| words.has_classes);
                    classes.for_each(|&class| *sums.words.entry(class.into()).or_default() += 1);
                }
                for source in &mut scored {
                    neighbour.length().into_iter().for_each(|words| source.set_neighbour_candidates(words));
                    in_block.add_source(source);
                    let weight =
                        |key: usize| even.word_weight(&sequence.words[source.word], &sequence.words[key], from);
                    in_block.even_mass += source.targets.iter().map(|&target| weight(target)).sum::<f64>();
                    let others = (0..sequence.words.len()).filter(|&key| key != source.word);
                    sums.positions.add(others.map(|key| {
                        let target = source.is_target(key).then_some((0, 1.0));
                        QueryKeyPair { query: source.word, key, weight: weight(key), target }
                    }));
                }
                state.links.push(ScoredLinks { key, sources: scored, pairs });
            }
        }
        if !state.links.is_empty() {
            state.special = Some(SpecialTokens::new(sequence, from));
            let visibilities = self.classes.visibilities().iter();
            state.partners = visibilities.map(|&visibility| Partners::new(sequence, visibility, from)).collect();
        }
        // A sequence without scored links may be the neighbour of the next one.
        Some(state)
    }

    fn observe(&mut self, state: &mut LinksState, event: &mut Event<'_>) {
        let LinksState { block, links, neighbour, special, partners } = state;
        let input = match event {
            Event::Head(input) => input,
            Event::PackEnd => return self.neighbours.end_pack(),
            _ => return,
        };
        let (view, from) = (input.attention(), self.from);
        let attention = input.word_attention(from);
        self.neighbours.keep_value(neighbour, view.layer, view.head, || attention.clone());
        let Some(special) = special else { return };
        let head = self.grid.index(view.layer, view.head);
        let partners = &partners[self.classes.class_index(view.layer)];
        let elsewhere = self.neighbours.neighbour_value(neighbour, view.layer, view.head);
        let is_free = links.iter().flat_map(|links| &links.sources).any(|source| source.is_free);
        let predicted = if is_free { self.predictions.predict(attention) } else { &[] };
        for ScoredLinks { key, sources, pairs } in links {
            let sums = self.types.get_mut(key).expect("a type that was met has sums");
            let hits = &mut sums.blocks[*block].heads[head];
            let mut profile = OffsetProfile::default();
            let is_both_ways = key.is_undirected && key.side.is_none();
            for source in sources {
                for &direction in key.directions() {
                    let choice = LinkChoice { attention, partners, direction, is_undirected: is_both_ways };
                    let (word, slot) = (source.word, direction_index(direction));
                    let by_neighbour = elsewhere
                        .and_then(|attention| LinkChoice { attention, ..choice }.best_word(word, &source.elsewhere));
                    let best = if source.is_free && !is_both_ways {
                        predicted[word][slot]
                    } else {
                        choice.best_word(word, &source.candidates).expect("a source has candidates")
                    };
                    let right = |words: &[usize]| {
                        u64::from(choice.best_word(word, words).is_some_and(|word| source.is_target(word)))
                    };
                    hits.right[slot] += u64::from(source.is_target(best));
                    hits.among_all[slot] += right(&source.seen);
                    hits.among_class[slot] += right(&source.of_class);
                    if let Some(by_neighbour) = by_neighbour {
                        hits.beside[slot] += u64::from(source.is_target(best));
                        hits.elsewhere[slot] += u64::from(source.is_target(by_neighbour));
                    }
                    if direction.is_forward() || key.side.is_none() {
                        let most = choice.largest_weight(word, best, &source.candidates);
                        let direction = (!is_both_ways).then_some(direction);
                        hits.to_special[slot] += u64::from(special.largest_weight(view, word, direction) > most);
                    }
                }
                if key.directions()[0].is_forward() {
                    hits.mass += source.targets.iter().map(|&target| attention.get(source.word, target)).sum::<f64>();
                    profile.add(attention.row(source.word), source.word, 1.0);
                }
            }
            sums.profiles[head].add(&profile);
            if let Some(pairs) = pairs {
                pairs.corrected_weights(attention, &mut self.corrected);
                hits.pairs += pairs.hit_count(&self.corrected);
            }
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        let fits = |sums: &LinkTypeSums| {
            sums.profiles.len() == grid.head_count()
                && sums.positions.target_count() == 1
                && sums.separations.iter().flat_map(PairsByLength::values).all(PairsByDistance::is_consistent)
                && sums.blocks.is_valid(|block| block.is_consistent(grid.head_count()))
        };
        (self.grid, self.from, &self.classes) == (grid, from, classes) && self.types.values().all(fits)
    }
}
