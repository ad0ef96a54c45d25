//! Labels as parts of sentences.

use super::evidence::Direction;
use super::{Detector, Label};

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

impl Detector {
    /// The phrase of one of this detector's labels.
    pub fn phrase_of(&self, label: &Label) -> String {
        let phrase = match (self.phrase, label.direction) {
            (Phrase::Fixed(phrase), _) => phrase,
            (Phrase::Directed { to_dependent, .. }, Some(Direction::HeadToDependent)) => to_dependent,
            (Phrase::Directed { to_head, .. }, _) => to_head,
        };
        phrase.replace("{}", self.parameter_of(&label.label).unwrap_or_default())
    }
}
