//! What labels claim, for the studies that put it to the test.

use serde::{Deserialize, Serialize};

use super::evidence::Direction;

/// The claim of a label that a head's attention follows the arcs of a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArcClaim {
    /// The head's place in lists of all heads.
    pub place: usize,
    /// The label.
    pub label: String,
    /// The relation, by a name under which arcs are [scored](crate::corpus::relation::scored_as).
    pub relation: String,
    /// The end of the arc at which the head's attention starts.
    pub direction: Direction,
    /// The offset from the dependent to its head that is right most often, in words.
    pub offset: i32,
}
