//! Anaphors in a window of sentences. An anaphor is a mention of an entity that was mentioned before; its candidate
//! antecedents are earlier mentions.

use std::ops::Range;

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use crate::corpus::{Annotation, Mentions, TreeHead, Upos};
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;

/// Names of the kinds of anaphors. All lists by kind have this order. An anaphor can belong to several kinds.
pub const ANAPHOR_KINDS: [&str; 5] = ["all", "pronoun", "proper", "common", "other-lemma"];

/// Index in [`ANAPHOR_KINDS`] of all anaphors.
pub const ALL_ANAPHORS_KIND: usize = 0;
/// Index in [`ANAPHOR_KINDS`] of anaphors whose antecedents all have another lemma.
pub const OTHER_LEMMA_KIND: usize = 4;

/// Names of the rules that choose an antecedent without attention. All lists by baseline have this order.
pub const BASELINES: [&str; 3] = ["nearest", "same_lemma", "agreement"];

/// Universal Dependencies features that the baseline `agreement` compares between an anaphor and a candidate.
const AGREEMENT_FEATURES: [&str; 3] = ["Number", "Gender", "Person"];

/// Counts of windows and mentions, and of mentions that are not scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MentionCounts {
    /// Number of windows of sentences that were read.
    pub windows: u64,
    /// Number of mentions with a syntactic head word.
    pub mentions: u64,
    /// Number of mentions left out. Their syntactic head word is missing from the annotation or the tree, or is a decoder's
    /// first word.
    pub headless: u64,
    /// Number of brackets in the `Entity=` annotation that open or close no mention.
    pub unmatched: u64,
    /// Number of anaphors not scored because every candidate is a right antecedent.
    pub unscored: u64,
    /// Number of anaphors not scored because no visible candidate is an antecedent.
    pub out_of_sight: u64,
}

merge_fields!(MentionCounts { windows, mentions, headless, unmatched, unscored, out_of_sight });

/// Mentions and anaphors of one window of sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MentionWindow {
    /// Word indices of the mentions' head words, ascending and distinct.
    pub heads: Vec<usize>,
    /// Mentions of each entity, as indices into [`MentionWindow::heads`], ascending and distinct.
    entities: Vec<Vec<usize>>,
    /// Scored anaphors, which have both right and wrong candidates, sorted by head word.
    pub anaphors: Vec<Anaphor>,
    /// Counts of the window's mentions and of its unscored anaphors.
    pub counts: MentionCounts,
    /// Index in [`MentionWindow::heads`] of the first candidate antecedent, for each entry of [`MentionWindow::heads`].
    first_candidates: Vec<usize>,
}

/// A scored anaphor with its candidate antecedents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anaphor {
    /// Range of indices into [`MentionWindow::heads`] of the candidate antecedents. It ends before the anaphor's own index. The
    /// anaphor sees each candidate and, except in decoders, each candidate sees the anaphor.
    pub candidates: Range<usize>,
    /// Index in `MentionWindow::entities` of the anaphor's entity.
    entity_index: usize,
    /// Number of candidates that are mentions of the anaphor's entity.
    pub right_candidate_count: usize,
    /// Whether the anaphor belongs to each of the [`ANAPHOR_KINDS`].
    pub kinds: [bool; ANAPHOR_KINDS.len()],
    /// Index in [`MentionWindow::heads`] of the antecedent that each of the [`BASELINES`] chooses.
    pub baseline_choices: [usize; BASELINES.len()],
}

impl MentionWindow {
    /// Reads mentions and anaphors from a window's `Entity=` annotation. A candidate must be visible under `visibility`.
    pub fn new(sequence: &Sequence, visibility: Visibility, from: FromToken) -> Self {
        let words = &sequence.annotations;
        let values = words.iter().map(|word| word.entity.as_deref());
        let Mentions { mentions, unmatched } = Mentions::parse(values, sequence.entity_fields.as_deref());
        let tree_head = |word: usize| sequence.tree.as_ref().map_or(TreeHead::Unknown, |tree| tree[word].head);
        let counted = sequence.counted_words();
        let headed = mentions.iter().filter_map(|mention| Some((mention.entity, mention.head(tree_head)?)));
        // The order groups the mentions by entity.
        let headed: Vec<(&str, usize)> = headed.filter(|(_, head)| counted.contains(head)).sorted_unstable().collect();
        let heads = headed.iter().map(|&(_, head)| head).sorted_unstable().dedup().collect();
        let (mentions, headless) = (headed.len() as u64, (mentions.len() - headed.len()) as u64);
        let met = MentionCounts { windows: 1, mentions, headless, unmatched, ..MentionCounts::default() };
        let mut window = Self { heads, counts: met, ..Self::default() };
        let even = UniformAttention::new(visibility, sequence.ids.len());
        let span = |place: usize| &sequence.words[window.heads[place]];
        let is_candidate = |place: usize, other: usize| {
            if visibility.is_causal() {
                even.word_weight(span(place), span(other), from) > 0.0
            } else {
                even.see_each_other(span(place), span(other), from)
            }
        };
        let first = |place: usize| (0..place).find(|&other| is_candidate(place, other)).unwrap_or(place);
        window.first_candidates = (0..window.heads.len()).map(first).collect();
        for of_entity in headed.chunk_by(|a, b| a.0 == b.0) {
            let place = |(_, head): &(&str, usize)| window.heads.partition_point(|other| other < head);
            let mention_places: Vec<usize> = of_entity.iter().map(place).collect();
            window.entities.push(mention_places.iter().copied().dedup().collect());
            // The first mention has no antecedent, nor has another mention with its head word.
            mention_places
                .iter()
                .filter(|&&place| place > mention_places[0])
                .for_each(|&place| window.add_anaphor(place, words));
        }
        window.anaphors.sort_by_key(|anaphor| anaphor.candidates.end);
        window
    }

    /// Adds the mention with head word `heads[place]` as an anaphor of the last entity, or counts why it is not scored.
    fn add_anaphor(&mut self, place: usize, words: &[Annotation]) {
        let entity = self.entities.len() - 1;
        let places = &self.entities[entity];
        let candidates = self.first_candidates[place]..place;
        let before = |place: usize| places.partition_point(|&other| other < place);
        let of_entity = &places[before(candidates.start)..before(place)];
        if of_entity.is_empty() {
            self.counts.out_of_sight += 1;
            return;
        }
        if of_entity.len() == candidates.len() {
            self.counts.unscored += 1;
            return;
        }
        let word = |place: usize| &words[self.heads[place]];
        let anaphor_word = word(place);
        let nearest =
            |accepts: &dyn Fn(&Annotation) -> bool| candidates.clone().rev().find(|&other| accepts(word(other)));
        let chosen = [
            None,
            nearest(&|other| have_same_lemma(anaphor_word, other)),
            nearest(&|other| features_agree(anaphor_word, other)),
        ];
        let other_lemma = !of_entity.iter().any(|&other| have_same_lemma(anaphor_word, word(other)));
        let (is_pronoun, is_proper) = (anaphor_word.upos == Some(Upos::Pron), anaphor_word.upos == Some(Upos::Propn));
        let kinds = [true, is_pronoun, is_proper, !is_pronoun && !is_proper, other_lemma];
        let chosen = chosen.map(|found| found.unwrap_or(place - 1));
        let right = of_entity.len();
        self.anaphors.push(Anaphor {
            candidates,
            entity_index: entity,
            right_candidate_count: right,
            kinds,
            baseline_choices: chosen,
        });
    }

    /// Whether a candidate, an index into [`MentionWindow::heads`], is a mention of the anaphor's entity.
    pub fn is_antecedent(&self, anaphor: &Anaphor, candidate: usize) -> bool {
        self.entities[anaphor.entity_index].binary_search(&candidate).is_ok()
    }
}

/// Whether two words have equal lemmas, ignoring case.
fn have_same_lemma(a: &Annotation, b: &Annotation) -> bool {
    a.lemma.as_deref().zip(b.lemma.as_deref()).is_some_and(|(a, b)| a.to_lowercase() == b.to_lowercase())
}

/// Whether two words have equal values of each of the [`AGREEMENT_FEATURES`] features that both have.
fn features_agree(a: &Annotation, b: &Annotation) -> bool {
    AGREEMENT_FEATURES.iter().all(|name| feature_value(a, name).zip(feature_value(b, name)).is_none_or(|(a, b)| a == b))
}

/// Returns the value of a word's Universal Dependencies feature. `None` if the word lacks the feature.
fn feature_value<'a>(word: &'a Annotation, name: &str) -> Option<&'a str> {
    let features = word.features.as_deref()?.split('|');
    features.filter_map(|feature| feature.split_once('=')).find_map(|(known, value)| (known == name).then_some(value))
}
