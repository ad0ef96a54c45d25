//! A study's section of the report.

use std::any::Any;

use super::labels::evidence::{Direction, UseTest};
use super::labels::policy::Policy;
use super::metrics::estimates::{Estimates, EstimationContext};
use super::metrics::number::Number;
use super::show::figure::Figure;
use super::show::summary::Summary;
use super::tracked::Tracked;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::control::ControlKind;

/// The part that a study adds to a report beside metrics and labels.
pub trait Section: Any + Send + Sync {
    /// Its keys in the report, and what stands under them.
    fn entries(&self) -> Vec<(&'static str, &dyn erased_serde::Serialize)> {
        Vec::new()
    }

    /// Makes what depends on the policy that of `policy`.
    fn correct(&mut self, _policy: &Policy) {}

    /// Holds it against the metrics of all studies, as soon as all are there.
    fn compare_with(&mut self, _all: &Estimates, _bench: &EstimationContext) {}

    /// Is told its like in a control with each seed, of the studies that are [controlled](super::Study::is_controlled).
    fn control(&mut self, _kind: ControlKind, _seeds: &[&dyn Section]) {}

    /// Is told the first label of every head, `[layers * heads]`, to say it where it names heads.
    fn name_heads(&mut self, _labels: &[String]) {}

    /// Its words for the summary, in whole lines; empty if it has none.
    fn summary(&self, _policy: &Policy) -> Summary {
        Summary::default()
    }

    /// Lines on one head for its card, none if it has nothing to say of it beside metrics and labels.
    fn of_head(&self, _head: HeadPlace, _policy: &Policy) -> Vec<String> {
        Vec::new()
    }

    /// The figures for a head's card.
    fn figures_of(&self, _head: HeadPlace) -> Vec<Figure> {
        Vec::new()
    }

    /// How well each head follows each relation that it knows.
    fn tracked(&self) -> Vec<Tracked> {
        Vec::new()
    }

    /// The numbers beside the metrics by which two analyses can be compared.
    fn numbers(&self, _policy: &Policy) -> Vec<Number<'_>> {
        Vec::new()
    }

    /// The test of whether the model uses the arcs that a label of a head is about, if it was made.
    fn use_of(&self, _head: HeadPlace, _label: &str, _direction: Option<Direction>) -> Option<UseTest> {
        None
    }

    /// The first thing that is missing for it to be whole, if anything.
    fn defect(&self, _grid: HeadGrid) -> Option<String> {
        None
    }
}

/// The section of a study that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Section for Nothing {}

/// The section as what the study made it.
/// Panics if it is of another study.
pub fn section<S: Section>(section: &dyn Section) -> &S {
    (section as &dyn Any).downcast_ref().expect("a study gets back the section that it made")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::registry::default_policy;

    #[test]
    fn a_study_without_a_section_says_nothing() {
        assert!(Nothing.entries().is_empty());
        assert!(Nothing.summary(&default_policy()).is_empty());
        assert_eq!(Nothing.defect(HeadGrid { layers: 1, heads: 1 }), None);
    }
}
