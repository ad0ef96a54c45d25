//! Selection of each label's best, most typical and worst example sentence in a pass over the corpus, with data to draw them.

use std::cmp::{Ordering, Reverse};
use std::ops::Range;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::units::DisplayUnits;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::stats::blocks::Merge;
use crate::study::aim::{Goals, Score};
use crate::study::instruments::partners::index_of_largest;
use crate::study::upstream::HeadAim;

/// Minimum length of a drawn sentence, in words. In shorter sentences, even uniform attention gives each token more
/// than 1/7.
pub const MIN_WORDS: usize = 5;

/// Rank of an example sentence among the scored sentences of its attention head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rank {
    /// Sentence with about the mean score of the whole corpus.
    Typical,
    /// Sentence with the highest score.
    Best,
    /// Sentence with the lowest score.
    Worst,
}

impl Rank {
    /// All ranks, in the order in which they pick their sentences. A rank cannot pick a sentence that an earlier
    /// rank picked.
    pub const ALL: [Self; 3] = [Self::Best, Self::Worst, Self::Typical];

    /// Number of candidate sentences to keep for this rank, so that at least one remains after the earlier ranks
    /// have picked.
    fn max_candidates(self) -> usize {
        match self {
            Self::Best => 1,
            Self::Worst => 2,
            Self::Typical => 3,
        }
    }
}

/// A sentence that may become an example for a head's label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Number of the sentence in the corpus, counted from 0.
    pub sentence: u64,
    pub score: f64,
    /// Number of queries over which `score` is a mean.
    pub queries: u64,
    pub drawn: Drawn,
}

/// Sort key of candidate sentences: distance from the score that the rank asks for, number of queries (more first),
/// position in the corpus.
type SortKey = (f64, Reverse<u64>, u64);

/// Sort key of a sentence for a rank; `mean` is the label's score over the whole corpus, which a typical sentence
/// is near.
fn sort_key(rank: Rank, mean: f64, Score { mean: score, queries }: Score, sentence: u64) -> SortKey {
    let distance = match rank {
        Rank::Best => -score,
        Rank::Worst => score,
        Rank::Typical => (score - mean).abs(),
    };
    (distance, Reverse(queries), sentence)
}

/// Order of sort keys, the best candidate first.
fn key_order(a: &SortKey, b: &SortKey) -> Ordering {
    a.0.total_cmp(&b.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
}

/// Candidate example sentences for one label of a head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeadCandidates {
    /// Number of sentences that were scored for the label.
    pub scored: u64,
    /// Candidates for each rank, in the order of [`Rank::ALL`]; the best candidate of a rank is first.
    ranks: [Vec<Candidate>; 3],
}

impl HeadCandidates {
    /// Picks one sentence per rank: the rank's first candidate that no earlier rank picked. The typical sentence
    /// comes first in the list.
    pub fn chosen_candidates(&self) -> Vec<(Rank, &Candidate)> {
        let mut chosen: Vec<(Rank, &Candidate)> = Vec::new();
        for (rank, candidates) in Rank::ALL.into_iter().zip(&self.ranks) {
            let is_new = |next: &&Candidate| chosen.iter().all(|(_, other)| other.sentence != next.sentence);
            if let Some(next) = candidates.iter().find(is_new) {
                chosen.push((rank, next));
            }
        }
        chosen.sort_by_key(|(rank, _)| *rank);
        chosen
    }

    /// Counts a scored sentence, and keeps it if it may become the best, worst or typical example. `draw` copies what
    /// the figure shows; it runs only if the sentence is kept.
    fn count_and_keep(&mut self, mean: f64, sentence: u64, score: Score, draw: impl FnOnce() -> Drawn) {
        let new = |rank| sort_key(rank, mean, score, sentence);
        let enters = |(rank, kept): (Rank, &Vec<Candidate>)| {
            kept.len() < rank.max_candidates()
                || kept.last().is_none_or(|last| key_order(&new(rank), &last.key(rank, mean)).is_lt())
        };
        self.scored += 1;
        if Rank::ALL.into_iter().zip(&self.ranks).any(enters) {
            let candidate = [Candidate { sentence, score: score.mean, queries: score.queries, drawn: draw() }];
            let ranks = Rank::ALL.into_iter().zip(&mut self.ranks);
            ranks.for_each(|(rank, kept)| insert_candidates(rank, kept, &candidate, mean));
        }
    }

    /// Adds the candidates and the count of another part of the corpus; `mean` is the label's score over the whole
    /// corpus.
    fn merge(&mut self, mean: f64, other: &Self) {
        self.scored += other.scored;
        for ((rank, kept), more) in Rank::ALL.into_iter().zip(&mut self.ranks).zip(&other.ranks) {
            insert_candidates(rank, kept, more, mean);
        }
    }

    /// Whether no rank has too many candidates, and all their numbers are valid. Sums read from a file are
    /// untrusted.
    fn is_valid(&self) -> bool {
        let fit = |(rank, kept): (Rank, &Vec<Candidate>)| {
            kept.len() <= rank.max_candidates() && kept.iter().all(|one| one.score.is_finite() && one.drawn.is_valid())
        };
        Rank::ALL.into_iter().zip(&self.ranks).all(fit)
    }
}

/// Adds candidates to those `kept` for a rank, and keeps the best of them.
fn insert_candidates(rank: Rank, kept: &mut Vec<Candidate>, more: &[Candidate], mean: f64) {
    kept.extend(more.iter().cloned());
    kept.sort_by(|a, b| key_order(&a.key(rank, mean), &b.key(rank, mean)));
    kept.truncate(rank.max_candidates());
}

impl Candidate {
    fn key(&self, rank: Rank, mean: f64) -> SortKey {
        sort_key(rank, mean, Score { mean: self.score, queries: self.queries }, self.sentence)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExampleSums {
    grid: HeadGrid,
    classes: LayerClasses,
    from: FromToken,
    /// Heads for whose label example sentences are sought, each with the keys that the label predicts (its aim).
    pub aims: Vec<HeadAim>,
    /// Texts that stand for special tokens in drawings: `[first special token, separator]`.
    special: [String; 2],
    /// Number of sentences of drawable length, counting one per sentence family (equal or grouped sentences).
    pub sentences: u64,
    /// Candidate sentences for each of `aims`, `[aims]`.
    pub kept: Vec<HeadCandidates>,
    /// For each of `aims`, the index of the first aim with equal goals in every sentence, `[aims]`. Goals are found
    /// only for that first aim.
    #[serde(skip)]
    equal_aim: Vec<usize>,
}

impl ExampleSums {
    pub fn new(
        grid: HeadGrid,
        classes: LayerClasses,
        from: FromToken,
        aims: Vec<HeadAim>,
        special: [String; 2],
    ) -> Self {
        let kept = vec![HeadCandidates::default(); aims.len()];
        let seen_by = |aimed: &HeadAim| classes.layer_visibility(grid.layer_and_head(aimed.place).0);
        let is_like = |a: &HeadAim, b: &HeadAim| a.aim == b.aim && seen_by(a) == seen_by(b);
        let first = |aimed: &HeadAim| aims.iter().position(|other| is_like(other, aimed));
        let equal_aim = aims.iter().filter_map(first).collect();
        Self { grid, classes, from, aims, special, sentences: 0, kept, equal_aim }
    }
}

/// Whether the sequence has a sentence of drawable length and is the first of its sentence family.
pub fn has_drawable_sentence(sequence: &Sequence) -> bool {
    sequence.family.is_first && sequence.words_by_sentence().iter().any(has_drawable_length)
}

fn has_drawable_length(words: &Range<usize>) -> bool {
    (MIN_WORDS..=MAX_WORDS).contains(&words.len())
}

/// State of a sequence with sentences of drawable length.
pub struct ExampleState {
    sequence: Sequence,
    sentences: Vec<ExampleSentence>,
}

/// A sentence of drawable length, with the keys that each head's label predicts in it.
struct ExampleSentence {
    /// Index of the sentence in its sequence.
    place: usize,
    /// Keys that each of `ExampleSums::aims` predicts in the sentence, `[aims]`. `None` where an aim predicts none, or
    /// equals an earlier aim.
    goals: Vec<Option<Goals>>,
}

impl ExampleSentence {
    /// The units of the sentence: its words and its special tokens.
    fn units(&self, sequence: &Sequence) -> DisplayUnits {
        if sequence.sentence_count() > 1 {
            DisplayUnits::sentence_in_window(sequence, self.place)
        } else {
            DisplayUnits::new(sequence)
        }
    }
}

impl Merge for ExampleSums {
    fn merge(&mut self, other: &Self) {
        assert_eq!((self.grid, &self.aims), (other.grid, &other.aims), "sums of one analysis");
        self.sentences += other.sentences;
        for ((aimed, kept), more) in self.aims.iter().zip(&mut self.kept).zip(&other.kept) {
            kept.merge(aimed.mean, more);
        }
    }
}

impl Sums for ExampleSums {
    type SequenceState = ExampleState;

    fn begin(&mut self, sequence: &Sequence) -> Option<ExampleState> {
        if !has_drawable_sentence(sequence) {
            return None;
        }
        let words = sequence.words_by_sentence();
        let sentence_goals = |(place, (aimed, &equal_aim)): (usize, (&HeadAim, &usize))| {
            let layer = self.grid.layer_and_head(aimed.place).0;
            (equal_aim == place)
                .then(|| aimed.aim.goals_in_sequence(sequence, self.classes.layer_visibility(layer), self.from))?
        };
        let goals: Vec<Option<Goals>> = self.aims.iter().zip(&self.equal_aim).enumerate().map(sentence_goals).collect();
        let mut sentences = Vec::new();
        for (place, words) in words.into_iter().enumerate().filter(|(_, words)| has_drawable_length(words)) {
            self.sentences += 1;
            let tokens = sequence.texts.get(place).filter(|_| sequence.sentence_count() > 1);
            let tokens = tokens.cloned().unwrap_or(0..sequence.ids.len());
            let in_part = |goals: &Option<Goals>| goals.as_ref()?.goals_in_span(&tokens, &words);
            let goals: Vec<Option<Goals>> = goals.iter().map(in_part).collect();
            if goals.iter().any(Option::is_some) {
                sentences.push(ExampleSentence { place, goals });
            }
        }
        (!sentences.is_empty()).then(|| ExampleState { sequence: sequence.clone(), sentences })
    }

    fn observe(&mut self, ExampleState { sequence, sentences }: &mut ExampleState, event: &mut Event<'_>) {
        let Event::Head(input) = event else { return };
        let (place, view) = (self.grid.index(input.view.layer, input.view.head), input.attention());
        for sentence in sentences {
            let aims = self.aims.iter().zip(&mut self.kept).zip(&self.equal_aim);
            for ((aimed, kept), &equal_aim) in aims.filter(|((aimed, _), _)| aimed.place == place) {
                let Some(goals) = &sentence.goals[equal_aim] else { continue };
                let words = input.word_attention(self.from);
                let score = goals.score(view, words);
                let draw = || {
                    let units = sentence.units(sequence);
                    Drawn::new((sequence, &units), goals, view, words, self.from, &self.special)
                };
                // Sentences of a window have consecutive numbers.
                kept.count_and_keep(aimed.mean, sequence.index + sentence.place as u64, score, draw);
            }
        }
    }

    fn fits(&self, grid: HeadGrid, from: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, self.from, &self.classes) == (grid, from, classes)
            && self.kept.len() == self.aims.len()
            && self.aims.iter().all(|aimed| aimed.place < grid.head_count() && aimed.mean.is_finite())
            && self.kept.iter().all(HeadCandidates::is_valid)
    }
}

/// Maximum length of a drawn sentence, in words: 16 words fit side by side on a card of the page. A page of 12 x 12
/// heads stays below 1 MB if half of them have three sentences of this length.
pub const MAX_WORDS: usize = 16;

/// Number of letters after which a drawn word is cut. Words of treebanks are shorter; URLs are longer.
const MAX_LETTERS: usize = 24;

/// Maximum number of special tokens in a drawn sentence: one on either side, and a few more from unusual
/// tokenizers.
const MAX_SPECIAL_TOKENS: usize = 8;

/// A sentence with the weights of one attention head, by units: its words and its special tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drawn {
    /// Text of each unit, `[units]`, cut after 24 letters.
    pub units: Vec<String>,
    /// Index of the unit that each unit attends to most, `[units]`. If the label is about arcs, only other words count; with
    /// `head->dep`, the entry is the word that attends most to the unit. A special token, or a word without a candidate, has
    /// its own index.
    pub to: Vec<usize>,
    /// Attention weight between each unit and its entry in `to`, `[units]`, from 0 to 1; 0 for special tokens.
    pub weights: Vec<f64>,
    /// Indices of the units whose entry in `to` agrees with the label.
    pub right: Vec<usize>,
    /// Indices of the units whose entry in `to` contradicts the label. A unit about which the label says nothing is in neither
    /// list.
    pub wrong: Vec<usize>,
    /// Index of each unit's gold syntactic head, `[units]`; the unit itself where it has none. Empty without a tree.
    pub heads: Vec<usize>,
}

impl Drawn {
    /// Computes the drawing of a sentence from its `units` and a head's weights. `special` has the texts `[first
    /// special token, separator]`.
    pub fn new(
        (sequence, units): (&Sequence, &DisplayUnits),
        goals: &Goals,
        view: AttentionView<'_>,
        words: &WordAttention,
        from: FromToken,
        special: &[String; 2],
    ) -> Self {
        let mut between = WordAttention::default();
        between.fold(view, &units.spans, from);
        let count = units.spans.len();
        let goes = |unit: usize| -> Option<(usize, f64)> {
            let word = units.words[unit]?;
            if let Goals::Partners { direction, partners, .. } = goals {
                let other = partners.predict_partner(words, *direction, word)?;
                let weight = if direction.is_forward() { words.get(word, other) } else { words.get(other, word) };
                return Some((units.unit_of_word[other], weight));
            }
            let to = index_of_largest(0..count, |key| between.get(unit, key))?;
            Some((to, between.get(unit, to)))
        };
        let (to, weights): (Vec<usize>, Vec<f64>) = (0..count)
            .map(|unit| goes(unit).map_or((unit, 0.0), |(to, weight)| (to, (weight * 1000.0).round() / 1000.0)))
            .unzip();
        let wanted = goals.goals_by_unit(units);
        let asked = (0..count).filter(|&unit| units.words[unit].is_some() && wanted[unit].is_some());
        let (right, wrong) = asked.partition(|&unit| wanted[unit].as_ref().is_some_and(|all| all.contains(&to[unit])));
        let texts = units.texts(sequence, |token| match sequence.kinds[token] {
            TokenKind::FirstSpecial | TokenKind::First => special[0].clone(),
            TokenKind::Separator => special[1].clone(),
            TokenKind::OtherSpecial => "[special]".to_owned(),
            // Text before the sentence in its window.
            TokenKind::Text | TokenKind::Punctuation => "…".to_owned(),
        });
        let heads =
            units.syntactic_heads(sequence).into_iter().enumerate().map(|(unit, head)| head.unwrap_or(unit)).collect();
        Self { units: texts.iter().map(|text| truncate_text(text)).collect(), to, weights, right, wrong, heads }
    }

    /// Whether all lists have a valid entry for each unit.
    pub fn is_valid(&self) -> bool {
        let Self { units, to, weights, right, wrong, heads } = self;
        let count = units.len();
        count <= MAX_WORDS + MAX_SPECIAL_TOKENS
            && to.len() == count
            && weights.len() == count
            && weights.iter().all(|weight| weight.is_finite())
            && (heads.is_empty() || heads.len() == count)
            && [to, right, wrong, heads].into_iter().flatten().all(|&unit| unit < count)
    }

    /// The words of the sentence, joined by spaces.
    pub fn text(&self) -> String {
        let is_word = |unit: &usize| self.to[*unit] != *unit || self.weights[*unit] > 0.0;
        (0..self.units.len()).filter(is_word).map(|unit| &self.units[unit]).join(" ")
    }
}

/// The text, cut after [`MAX_LETTERS`] letters.
fn truncate_text(text: &str) -> String {
    match text.char_indices().nth(MAX_LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
