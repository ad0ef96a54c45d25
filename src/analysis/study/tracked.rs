//! Accuracies of attention heads on a relation, in a form that all studies that score relations share.

use serde::Serialize;

use super::labels::evidence::Direction;
use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;

/// A relation with its two baselines (best offset, word classes) and the accuracy of every attention head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelationScores {
    /// Name of the relation in the corpus.
    pub relation: String,
    /// In a decoder, the part of the relation's words whose syntactic heads stand on one side; `None` in an
    /// encoder.
    #[serde(flatten)]
    pub part: Option<RelationSide>,
    /// Number of scored words.
    pub words: u64,
    /// The fixed offset with the highest accuracy, in words.
    pub offset: i32,
    pub offset_accuracy: f64,
    /// Accuracy of the word-class baseline, which predicts the nearest word of a class; null where no word has a
    /// class.
    pub tags_accuracy: Option<f64>,
    /// Accuracy of each attention head in both directions, the most accurate first.
    pub heads: Vec<TrackingHead>,
}

/// Words of a relation with their syntactic head on one side, left or right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RelationSide {
    /// Side of the word on which its syntactic head stands: `left` or `right`.
    pub side: &'static str,
    /// Share of the relation's words that have their syntactic head on this side.
    pub share: f64,
}

/// Accuracy of one attention head on a relation, in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrackingHead {
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The query of the dependency arc: its dependent or its syntactic head.
    pub direction: Direction,
    pub accuracy: f64,
    /// 95 % interval of `accuracy`.
    pub ci95: Option<Interval>,
    /// Accuracy on the words for which the best fixed offset is wrong; null if there are no such words. A rounded
    /// report also has null for heads less accurate than the best offset, except the relation's best head.
    pub where_offset_wrong: Option<f64>,
    /// Accuracy minus the accuracy of the best fixed offset.
    pub over_offset: f64,
    /// 95 % interval of `over_offset`.
    pub over_offset_ci95: Option<Interval>,
    /// Accuracy minus the accuracy of the word-class baseline; null without that baseline. A rounded report also has null
    /// for heads below the best offset, except the relation's best head.
    pub over_tags: Option<f64>,
    /// 95 % interval of `over_tags`.
    pub over_tags_ci95: Option<Interval>,
    /// q-value of the test that the head beats the best offset by the margin of a syntactic label; null where there
    /// are too few words.
    pub q: Option<f64>,
}
