//! Labels as parts of sentences.

use super::evidence::Direction;

/// A label as a verb phrase whose subject is the head; `{}` is the parameter of a label that has one.
#[derive(Clone, Copy, Debug)]
pub enum Phrase {
    /// One phrase.
    Fixed(&'static str),
    /// A phrase for each end of the arcs at which the attention starts.
    Directed {
        /// From the dependent to its head.
        to_head: &'static str,
        /// From the head to its dependent.
        to_dependent: &'static str,
    },
}

impl Phrase {
    /// The phrase for attention in this direction.
    pub fn of(self, direction: Option<Direction>) -> &'static str {
        match (self, direction) {
            (Self::Fixed(phrase), _) => phrase,
            (Self::Directed { to_dependent, .. }, Some(direction)) if !direction.is_forward() => to_dependent,
            (Self::Directed { to_head, .. }, _) => to_head,
        }
    }
}
