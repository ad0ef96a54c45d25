//! Number of dependency arcs that each attention head predicts right, per relation and jackknife block of sentences.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::arcs::{AgreementCounts, DuplicateArcs, RelationSums, ScoredArc, scored_arcs};
use super::relation::scored_directions;
use super::specificity::ArcsBySentence;
use super::tags::{CUE_COUNT, Side};
use crate::corpus::relation::POOLED_RELATION;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{BLOCKS, Merge, block_of};
use crate::study::instruments::partners::Partners;
use crate::study::instruments::predictions::Predictions;
use crate::study::instruments::special_tokens::SpecialTokens;
use crate::study::labels::evidence::Direction;

/// A dependency relation as scored. In a decoder, only the later word sees the earlier one, so arcs are split by the side
/// of the syntactic head. Partials store the key as a string: a sign for the side, then the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RelationKey {
    pub name: String,
    /// Side of the dependent on which the syntactic head stands. `None` in encoders, where both words see each other.
    pub side: Option<Side>,
}

/// Signs for the side in the stored form of a key.
const SIDE_SIGNS: [(char, Option<Side>); 3] = [('=', None), ('<', Some(Side::Left)), ('>', Some(Side::Right))];

impl From<RelationKey> for String {
    fn from(RelationKey { name, side }: RelationKey) -> Self {
        let (sign, _) = SIDE_SIGNS.into_iter().find(|(_, of)| *of == side).expect("every side has a sign");
        format!("{sign}{name}")
    }
}

impl TryFrom<String> for RelationKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let of_sign = |(sign, side)| Some(Self { name: text.strip_prefix(sign)?.to_owned(), side });
        SIDE_SIGNS.into_iter().find_map(of_sign).ok_or_else(|| format!("`{text}` is no relation of a partial"))
    }
}

/// Whether an arc is scored, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArcStatus {
    Scored,
    /// Not scored: one of the arc's words contains the first token of a decoder's input.
    WithFirstToken,
    /// Not scored: the arc's two words do not see each other. In a decoder: the later word does not see the earlier one.
    OutOfSight,
}

impl ArcStatus {
    /// Determines whether an arc is scored. `visibility` says which keys a query sees in all layers.
    pub fn new(
        sequence: &Sequence,
        visibility: Visibility,
        from: FromToken,
        (dependent, head): (usize, usize),
    ) -> Self {
        if sequence.begins_with_word(dependent) || sequence.begins_with_word(head) {
            return Self::WithFirstToken;
        }
        let even = UniformAttention::new(visibility, sequence.ids.len());
        let (earlier, later) = (&sequence.words[dependent.min(head)], &sequence.words[dependent.max(head)]);
        let is_seen = if visibility.is_causal() {
            even.word_weight(later, earlier, from) > 0.0
        } else {
            even.see_each_other(earlier, later, from)
        };
        if is_seen { Self::Scored } else { Self::OutOfSight }
    }
}

/// Counts of all relations, per jackknife block of sentences.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct DependencySums {
    grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    /// Number of words not scored because they and their syntactic heads are [`ArcStatus::OutOfSight`].
    pub out_of_sight: u64,
    /// Number of words not scored because their arc is [`ArcStatus::WithFirstToken`].
    pub with_first: u64,
    /// Index of each relation in `agreements`, in `later`, and in each element of `blocks`.
    pub relations: BTreeMap<RelationKey, usize>,
    /// Counts, per relation, of the arcs that an attention head and a baseline both predict.
    pub agreements: Vec<AgreementCounts>,
    /// Counts, per relation, of the arcs in duplicate sentences: all but the first of a group of related sentences.
    pub later: Vec<DuplicateArcs>,
    /// Counts of each relation, `[BLOCKS][relations]`. A block without the last relations has a shorter list.
    pub blocks: Vec<Vec<RelationSums>>,
    #[serde(skip)]
    predictions: Predictions,
}

impl DependencySums {
    pub fn new(grid: HeadGrid, classes: LayerClasses, from: FromToken) -> Self {
        Self { classes, ..Self::from_blocks(grid, from, BTreeMap::new(), vec![Vec::new(); BLOCKS], Vec::new()) }
    }

    /// Creates sums from the counts per block. Assumes that no sentences are duplicates, and that every query sees every
    /// key.
    pub fn from_blocks(
        grid: HeadGrid,
        from: FromToken,
        relations: BTreeMap<RelationKey, usize>,
        blocks: Vec<Vec<RelationSums>>,
        agreements: Vec<AgreementCounts>,
    ) -> Self {
        let later = vec![DuplicateArcs::default(); relations.len()];
        Self { grid, from, relations, agreements, later, blocks, ..Self::default() }
    }

    /// Extends `later` and `agreements` to all relations.
    fn extend_to_relations(&mut self) {
        self.later.resize(self.relations.len(), DuplicateArcs::default());
        self.agreements.resize(self.relations.len(), AgreementCounts::default());
        self.agreements.iter_mut().for_each(|agreement| agreement.resize_for_heads(self.grid.head_count()));
    }

    /// Adds the counts of `other`, whose relations may have other indices.
    fn add_sums(&mut self, other: &Self) {
        self.out_of_sight += other.out_of_sight;
        self.with_first += other.with_first;
        let mut places = vec![0; other.relations.len()];
        for (key, &index) in &other.relations {
            places[index] = get_or_add_index(&mut self.relations, key.clone());
        }
        self.extend_to_relations();
        for ((agreement, later), &place) in other.agreements.iter().zip(&other.later).zip(&places) {
            self.agreements[place].merge(agreement);
            self.later[place].merge(later);
        }
        for (number, relations) in other.blocks.iter().enumerate() {
            let block = &mut self.blocks[number];
            for (relation, &place) in relations.iter().zip(&places).filter(|(relation, _)| relation.count > 0) {
                get_or_add_sums(block, place).merge(relation);
            }
        }
    }

    /// Returns the sums with relations indexed in the order of their names.
    fn sorted_by_name(&self) -> Self {
        let mut ordered = Self::new(self.grid, self.classes.clone(), self.from);
        ordered.relations = self.relations.keys().cloned().zip(0..).collect();
        ordered.add_sums(self);
        ordered
    }
}

/// Returns the index of a relation. A new relation gets the next index.
fn get_or_add_index(relations: &mut BTreeMap<RelationKey, usize>, key: RelationKey) -> usize {
    let next = relations.len();
    *relations.entry(key).or_insert(next)
}

/// Returns the counts of the relation with index `place`, and extends the list if it is too short.
fn get_or_add_sums(block: &mut Vec<RelationSums>, place: usize) -> &mut RelationSums {
    if block.len() <= place {
        block.resize(place + 1, RelationSums::default());
    }
    &mut block[place]
}

/// The sequence being observed, with its arcs.
#[derive(Debug)]
pub struct DependencyState {
    block: usize,
    /// Whether the sequence is the first of its group of related sentences.
    is_first: bool,
    arcs: Vec<ScoredArc>,
    by_sentence: ArcsBySentence,
    /// Candidates for the other end of an arc in a decoder, for each attention mask that layers have. Empty in an
    /// encoder.
    partners: Vec<Partners>,
    special_tokens: SpecialTokens,
}

/// Writes relations in the order of their names, so that equal sums are written as equal bytes.
impl Serialize for DependencySums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Sums from a file may be invalid; only valid sums can be reordered.
        let is_whole =
            self.grid.layers.checked_mul(self.grid.heads).is_some() && self.fits(self.grid, self.from, &self.classes);
        if is_whole { Self::serialize(&self.sorted_by_name(), serializer) } else { Self::serialize(self, serializer) }
    }
}

impl<'de> Deserialize<'de> for DependencySums {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl Merge for DependencySums {
    fn merge(&mut self, other: &Self) {
        let same = (self.grid, &self.classes, self.from) == (other.grid, &other.classes, other.from);
        assert!(same, "sums of one analysis");
        self.add_sums(other);
    }
}

impl Sums for DependencySums {
    type SequenceState = DependencyState;

    fn begin(&mut self, sequence: &Sequence) -> Option<DependencyState> {
        let (heads, from, visibility) = (self.grid.head_count(), self.from, self.classes.common_visibility());
        let is_causal = visibility.is_causal();
        let tree = sequence.tree.as_deref().unwrap_or_default();
        let relations = &mut self.relations;
        let index = |name: &str, side: Side| {
            get_or_add_index(relations, RelationKey { name: name.to_owned(), side: is_causal.then_some(side) })
        };
        let (with_first, out_of_sight) = (&mut self.with_first, &mut self.out_of_sight);
        let is_scored = |dependent: usize, head: usize| {
            let sight = ArcStatus::new(sequence, visibility, from, (dependent, head));
            *with_first += u64::from(sight == ArcStatus::WithFirstToken);
            *out_of_sight += u64::from(sight == ArcStatus::OutOfSight);
            sight == ArcStatus::Scored
        };
        let arcs = scored_arcs(tree, &sequence.annotations, is_scored, index);
        self.extend_to_relations();
        let visibilities = self.classes.visibilities().iter().filter(|_| is_causal && !arcs.is_empty());
        let partners = visibilities.map(|&visibility| Partners::new(sequence, visibility, from)).collect();
        let is_first = sequence.family.is_first;
        let block = block_of(sequence.family.number);
        let mut counted = BTreeSet::new();
        let sentences = sequence.counted_words_by_sentence();
        let sentence = |arc: &ScoredArc| sentences.partition_point(|words| words.end <= arc.dependent);
        for arc in &arcs {
            for &relation in &arc.relations {
                let sums = get_or_add_sums(&mut self.blocks[block], relation);
                sums.count_arc(arc, heads);
                sums.sentences += u64::from(counted.insert((relation, sentence(arc))) && is_first);
                if !is_first {
                    self.later[relation].count_arc(arc, heads);
                }
                if let Some(cue) = arc.cue {
                    self.agreements[relation].resize_for_cue(cue, heads);
                }
            }
        }
        let all = self.relations.iter().filter(|(key, _)| key.name == POOLED_RELATION);
        let all: Vec<usize> = all.map(|(_, &place)| place).collect();
        let by_sentence = ArcsBySentence::new(&arcs, sentence, is_causal, &all);
        by_sentence
            .compared_arc_counts()
            .for_each(|(relation, arcs)| get_or_add_sums(&mut self.blocks[block], relation).with_others += arcs);
        let special = SpecialTokens::new(sequence, from);
        Some(DependencyState { block, is_first, arcs, by_sentence, partners, special_tokens: special })
    }

    fn observe(&mut self, state: &mut DependencyState, event: &mut Event<'_>) {
        let DependencyState { block, is_first, arcs, by_sentence, partners, special_tokens: special } = state;
        let Event::Head(input) = event else { return };
        if arcs.is_empty() {
            return;
        }
        let view = input.attention();
        let head = self.grid.index(view.layer, view.head);
        let partners = partners.get(self.classes.class_index(view.layer));
        let words = input.word_attention(self.from);
        let predicted = if partners.is_none() { self.predictions.predict(words) } else { &[] };
        let block = &mut self.blocks[*block];
        by_sentence.reset_hits();
        for (place, arc) in arcs.iter().enumerate() {
            let right = match partners {
                None => predicted[arc.dependent].map(|predicted| u64::from(predicted == arc.head)),
                Some(partners) => Direction::BOTH.map(|direction| {
                    let is_seen =
                        scored_directions(Some(Side::from_positions(arc.head, arc.dependent))).contains(&direction);
                    u64::from(is_seen && partners.predict_partner(words, direction, arc.dependent) == Some(arc.head))
                }),
            };
            by_sentence.add_hits(place, right);
            let dependent = arc.dependent;
            let to_special = Direction::BOTH.map(|direction| {
                let largest_word_weight = match partners {
                    None if direction.is_forward() => words.get(dependent, predicted[dependent][0]),
                    None => words.get(predicted[dependent][1], dependent),
                    Some(partners) => partners.largest_weight(words, dependent),
                };
                u64::from(special.largest_weight(view, dependent, Some(direction)) > largest_word_weight)
            });
            for &relation in &arc.relations {
                block[relation].hits[head].merge(&right);
                block[relation].to_special[head].merge(&to_special);
                self.agreements[relation].add_hits(arc, head, right);
                if !*is_first {
                    self.later[relation].add_hits(arc, head, right);
                }
            }
        }
        for (relation, difference) in by_sentence.hits_over_expected() {
            block[relation].over_others[head].merge(&difference);
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        let (heads, relations) = (grid.head_count(), self.relations.len());
        let is_sound = |relation: &RelationSums| {
            let heads = if relation.count > 0 { heads } else { 0 };
            relation.cues.keys().all(|cue| cue.index() < CUE_COUNT)
                && relation.is_valid()
                && [relation.hits.len(), relation.to_special.len(), relation.over_others.len()] == [heads; 3]
        };
        let fits = |agreement: &AgreementCounts| {
            let of_cues = agreement.cues.iter().all(|of_heads| of_heads.is_empty() || of_heads.len() == heads);
            agreement.places.len() == heads && agreement.cues.len() <= CUE_COUNT && of_cues
        };
        (self.grid, self.from, &self.classes) == (grid, from, classes)
            && self.relations.values().copied().sorted_unstable().eq(0..relations)
            && self.agreements.len() == relations
            && self.agreements.iter().all(fits)
            && self.later.len() == relations
            && self.later.iter().all(|later| [0, heads].contains(&later.right.len()))
            && self.blocks.len() == BLOCKS
            && self.blocks.iter().all(|block| block.len() <= relations && block.iter().all(is_sound))
            && self.agreements.iter().zip(&self.later).enumerate().all(|(place, (agreement, later))| {
                let mut total = RelationSums::default();
                self.blocks.iter().filter_map(|block| block.get(place)).for_each(|sums| total.merge(sums));
                agreement.is_consistent_with(&total) && later.is_consistent_with(agreement, &total)
            })
    }
}
