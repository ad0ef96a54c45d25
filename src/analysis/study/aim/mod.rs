//! Aims of labels: the tokens to which a labelled head should attend. An aim has goals in each sequence, and a head's
//! attention is scored by them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::instruments::partners::Partners;
use super::labels::evidence::Direction;
use crate::corpus::relation::scored_relations;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::even::UniformAttention;
use crate::sequences::fold::roles::MAX_NEIGHBOUR_DISTANCE;
use crate::sequences::fold::units::DisplayUnits;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::{Sequence, TokenKind};

/// The tokens to which a head should attend according to one of its labels, in general terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aim {
    /// The other end of a relation's dependency arcs; `relation` is a name under which arcs are
    /// [scored](scored_relations).
    Partner {
        relation: String,
        /// The query of the arc: its dependent or its syntactic head.
        direction: Direction,
    },
    /// The token at this offset from the query, in tokens.
    Offset(i32),
    /// The two tokens before the query and the two tokens after it.
    Window,
    /// The first special token of the sequence.
    FirstSpecial,
    /// The first token of a decoder's sequence.
    FirstToken,
    Separators,
    Punctuation,
    /// Other words with this universal part of speech.
    Tag(String),
    /// Other words with the query word's part of speech.
    SameTag,
    /// Other occurrences of the query token.
    SameToken,
    /// All tokens, with equal weights (uniform attention).
    Spread,
}

/// Goals of an [`Aim`] in one sequence: for each query, the tokens or words to which it should attend.
#[derive(Clone, Debug)]
pub enum Goals {
    /// The arcs of a relation. A prediction is right if the most attended word is the other end of the arc.
    Partners {
        direction: Direction,
        /// Word indices of each arc, as `(dependent, syntactic head)`.
        arcs: Vec<(usize, usize)>,
        partners: Partners,
    },
    /// Query tokens, each with the tokens that it should attend to.
    Tokens(Vec<(usize, Vec<usize>)>),
    /// Query words, each with the words that it should attend to.
    Words(Vec<(usize, Vec<usize>)>),
    /// Query tokens that should attend uniformly, each with the entropy of uniform attention, in nats.
    Spread(Vec<(usize, f64)>),
}

/// How closely an attention head follows an [`Aim`] in one sequence, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Mean over queries of the score that the aim defines.
    ///
    /// For arcs, it is the share of right predictions. For tokens and words, it is the attention to the goals. For
    /// uniform attention, it is the entropy as a share of the largest possible.
    pub mean: f64,
    pub queries: u64,
}

impl Aim {
    /// Finds the goals of the aim in a sequence: the visible tokens or words to which each query should attend. `from`
    /// says how the tokens of a split word are pooled. `None` if no query has a goal.
    pub fn goals_in_sequence(&self, sequence: &Sequence, visibility: Visibility, from: FromToken) -> Option<Goals> {
        let text: Vec<usize> = sequence.text_positions().collect();
        let uniform = UniformAttention::new(visibility, sequence.ids.len());
        let sees_word =
            |query: usize, key: usize| uniform.word_weight(&sequence.words[query], &sequence.words[key], from) > 0.0;
        let to_kind = |wanted: TokenKind| {
            let goals: Vec<usize> =
                (0..sequence.kinds.len()).filter(|&token| sequence.kinds[token] == wanted).collect();
            let visible = |query: usize| goals.iter().copied().filter(|&key| visibility.sees(query, key)).collect();
            Goals::Tokens(text.iter().map(|&query| (query, visible(query))).collect())
        };
        let with_goals = |goals: &dyn Fn(usize) -> Vec<usize>| -> Vec<(usize, Vec<usize>)> {
            let visible = |query: usize| goals(query).into_iter().filter(|&key| visibility.sees(query, key)).collect();
            let queries = text.iter().map(|&query| (query, visible(query)));
            queries.filter(|(_, goals): &(usize, Vec<usize>)| !goals.is_empty()).collect()
        };
        let words_of_tag = |word: usize, tag: Option<&str>| -> (usize, Vec<usize>) {
            let has_tag = |other: usize| tag.is_some() && upos_tag(sequence, other) == tag;
            let others = sequence.counted_words().filter(|&other| other != word && has_tag(other));
            (word, others.filter(|&other| sees_word(word, other)).collect())
        };
        let is_text = |token: usize| sequence.kinds.get(token).is_some_and(|kind| !kind.is_special());
        let goals = match self {
            &Self::Partner { ref relation, direction } => {
                let is_seen = |&(dependent, head): &(usize, usize)| {
                    if direction.is_forward() { sees_word(dependent, head) } else { sees_word(head, dependent) }
                };
                let arcs = arcs_of_relation(sequence, relation).into_iter().filter(is_seen).collect();
                Goals::Partners { direction, arcs, partners: Partners::new(sequence, visibility, from) }
            }
            Self::Offset(offset) => {
                let key_at_offset =
                    |query: usize| query.checked_add_signed(*offset as isize).filter(|&key| is_text(key));
                Goals::Tokens(with_goals(&|query| key_at_offset(query).into_iter().collect()))
            }
            Self::Window => {
                let window =
                    |query: usize| query.saturating_sub(MAX_NEIGHBOUR_DISTANCE)..=query + MAX_NEIGHBOUR_DISTANCE;
                Goals::Tokens(with_goals(&|query| window(query).filter(|&key| key != query && is_text(key)).collect()))
            }
            Self::FirstSpecial => to_kind(TokenKind::FirstSpecial),
            Self::FirstToken => to_kind(TokenKind::First),
            Self::Separators => to_kind(TokenKind::Separator),
            Self::Punctuation => to_kind(TokenKind::Punctuation),
            Self::SameToken => {
                let ids = &sequence.ids;
                let same =
                    |query: usize| text.iter().copied().filter(move |&key| key != query && ids[key] == ids[query]);
                Goals::Tokens(with_goals(&|query| same(query).collect()))
            }
            Self::Tag(tag) => {
                Goals::Words(sequence.counted_words().map(|word| words_of_tag(word, Some(tag))).collect())
            }
            Self::SameTag => {
                let words = sequence.counted_words().map(|word| words_of_tag(word, upos_tag(sequence, word)));
                Goals::Words(words.filter(|(_, goals)| !goals.is_empty()).collect())
            }
            Self::Spread => Goals::Spread(text.into_iter().map(|query| (query, uniform.entropy(query))).collect()),
        };
        (!goals.is_empty()).then_some(goals)
    }
}

/// The arcs of a relation, as `(dependent, syntactic head)`; arcs from the root are left out.
fn arcs_of_relation(sequence: &Sequence, relation: &str) -> Vec<(usize, usize)> {
    let tree = sequence.tree.iter().flatten().enumerate();
    let of_relation = tree.filter(|(_, arc)| scored_relations(&arc.relation).any(|name| name == relation));
    of_relation.filter_map(|(dependent, arc)| Some((dependent, arc.head.word()?))).collect()
}

/// Universal part of speech of a word; `None` if the word has none.
fn upos_tag(sequence: &Sequence, word: usize) -> Option<&'static str> {
    Some(sequence.annotations.get(word)?.upos?.tag())
}

impl Goals {
    fn is_empty(&self) -> bool {
        let all_empty = |goals: &[(usize, Vec<usize>)]| goals.iter().all(|(_, goals)| goals.is_empty());
        match self {
            Self::Partners { arcs, .. } => arcs.is_empty(),
            Self::Tokens(goals) | Self::Words(goals) => all_empty(goals),
            Self::Spread(queries) => queries.is_empty(),
        }
    }

    /// Keeps the goals of the queries in one sentence of a window, given the indices of the sentence's `tokens` and
    /// `words`. `None` if no goal remains.
    pub fn goals_in_span(&self, tokens: &Range<usize>, words: &Range<usize>) -> Option<Self> {
        let goals_in = |goals: &[(usize, Vec<usize>)], part: &Range<usize>| {
            goals.iter().filter(|(query, _)| part.contains(query)).cloned().collect()
        };
        let goals = match self {
            Self::Partners { direction, arcs, partners } => {
                let arcs = arcs.iter().copied().filter(|(word, _)| words.contains(word)).collect();
                Self::Partners { direction: *direction, arcs, partners: partners.clone() }
            }
            Self::Tokens(goals) => Self::Tokens(goals_in(goals, tokens)),
            Self::Words(goals) => Self::Words(goals_in(goals, words)),
            Self::Spread(queries) => {
                Self::Spread(queries.iter().copied().filter(|(query, _)| tokens.contains(query)).collect())
            }
        };
        (!goals.is_empty()).then_some(goals)
    }

    /// Scores how closely one head meets the goals, given its `attention` between tokens and the attention between
    /// `words`.
    pub fn score(&self, attention: AttentionView<'_>, words: &WordAttention) -> Score {
        let (sum, queries) = match self {
            Self::Partners { direction, arcs, partners } => {
                let right = arcs
                    .iter()
                    .filter(|&&(word, other)| partners.predict_partner(words, *direction, word) == Some(other));
                (right.count() as f64, arcs.len())
            }
            Self::Tokens(goals) => {
                (weight_on_goals(goals, |query, key| f64::from(attention.row(query)[key])), goals.len())
            }
            Self::Words(goals) => (weight_on_goals(goals, |query, key| words.get(query, key)), goals.len()),
            Self::Spread(queries) => {
                let ratio = |&(query, most): &(usize, f64)| entropy(attention.row(query)) / most;
                (queries.iter().map(ratio).sum(), queries.len())
            }
        };
        Score { mean: sum / queries as f64, queries: queries as u64 }
    }

    /// For each unit of text, the indices of the units to which it should attend (its goals), `[units]`; `None` for a
    /// unit without goals.
    pub fn goals_by_unit(&self, units: &DisplayUnits) -> Vec<Option<Vec<usize>>> {
        let mut goals_of_units = vec![None; units.spans.len()];
        let mut add = |unit: Option<usize>, goals: Vec<usize>| {
            if let Some(unit) = unit {
                goals_of_units[unit].get_or_insert_with(Vec::new).extend(goals);
            }
        };
        let unit_of = |word: &usize| units.unit_of_word[*word];
        match self {
            Self::Partners { arcs, .. } => {
                arcs.iter().for_each(|(word, other)| add(Some(unit_of(word)), vec![unit_of(other)]));
            }
            Self::Tokens(goals) => goals.iter().for_each(|(query, goals)| {
                add(units.unit_at(*query), goals.iter().filter_map(|&key| units.unit_at(key)).collect());
            }),
            Self::Words(goals) => {
                goals.iter().for_each(|(query, goals)| add(Some(unit_of(query)), goals.iter().map(unit_of).collect()));
            }
            Self::Spread(_) => {}
        }
        goals_of_units
    }
}

/// The weight of all queries on their goals, summed; `weight(query, key)` is the weight of one pair.
fn weight_on_goals(goals: &[(usize, Vec<usize>)], weight: impl Fn(usize, usize) -> f64) -> f64 {
    let of_query = |(query, keys): &(usize, Vec<usize>)| keys.iter().map(|&key| weight(*query, key)).sum::<f64>();
    goals.iter().map(of_query).sum()
}

/// The entropy of an attention row, in nats.
fn entropy(row: &[f32]) -> f64 {
    row.iter().map(|&weight| f64::from(weight)).filter(|&weight| weight > 0.0).map(|weight| -weight * weight.ln()).sum()
}

#[cfg(test)]
mod tests;
