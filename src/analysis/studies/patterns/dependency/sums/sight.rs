//! Whether attention can be scored on an arc.

use crate::model::grid::visibility::Visibility;
use crate::sequences::fold::even::Even;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;

/// Whether an arc can be scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Scored,
    /// One of its words has the first token of what a decoder reads.
    WithFirst,
    /// Its words do not see each other, or in a decoder the later does not see the earlier.
    OutOfSight,
}

impl Sight {
    /// The sight of an arc from a dependent to its head, where queries see these keys in every layer.
    pub fn of(sequence: &Sequence, visibility: Visibility, from: FromToken, (dependent, head): (usize, usize)) -> Self {
        if sequence.begins_with(dependent) || sequence.begins_with(head) {
            return Self::WithFirst;
        }
        let even = Even::new(visibility, sequence.ids.len());
        let (earlier, later) = (&sequence.words[dependent.min(head)], &sequence.words[dependent.max(head)]);
        let is_seen = if visibility.is_causal() {
            even.between_words(later, earlier, from) > 0.0
        } else {
            even.are_in_sight(earlier, later, from)
        };
        if is_seen { Self::Scored } else { Self::OutOfSight }
    }
}
