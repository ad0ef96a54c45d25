//! How well each head follows a relation, as far as some study knows relations.

use serde::Serialize;

use super::labels::evidence::Direction;
use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;

/// A relation with both baselines, and all heads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tracked {
    pub relation: String,
    /// In a decoder, the side of the dependent on which the head stands; absent in encoders.
    #[serde(flatten)]
    pub part: Option<RelationPart>,
    /// Scored words.
    pub words: u64,
    /// The best fixed offset.
    pub offset: i32,
    pub offset_accuracy: f64,
    /// The accuracy of the nearest words of word classes; null where no such word has one.
    pub tags_accuracy: Option<f64>,
    /// Each head in both directions, the most accurate first.
    pub heads: Vec<Tracker>,
}

/// The words of a relation that have their heads on one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RelationPart {
    /// The side: `left` or `right`.
    pub side: &'static str,
    /// The share of the relation's words.
    pub share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tracker {
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The end of the ranking.
    pub direction: Direction,
    pub accuracy: f64,
    pub ci95: Option<Interval>,
    /// The accuracy on the words that the best fixed offset gets wrong; null where there are none.
    pub where_offset_wrong: Option<f64>,
    pub over_offset: f64,
    pub over_offset_ci95: Option<Interval>,
    /// Its accuracy less that of the word classes; null without any, and in rounded reports of heads below the offset.
    pub over_tags: Option<f64>,
    pub over_tags_ci95: Option<Interval>,
    /// q-value of the test that the head is above the offset by the margin of a syntactic label; null where the relation has too few words to be tested.
    pub q: Option<f64>,
}
