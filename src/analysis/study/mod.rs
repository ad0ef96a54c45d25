//! A study: one question asked of every attention head.

pub mod aim;
pub mod card;
pub mod health;
pub mod instruments;
pub mod labels;
pub mod metrics;
pub mod pass_spec;
pub mod saved;
pub mod section;
pub mod show;
pub mod tracked;
pub mod upstream;
pub mod verdict_rule;

use schemars::{Schema, SchemaGenerator};

use crate::stats::block_test::Scale;
use metrics::metric::{Column, MetricKeys};
use section::{KeyValues, ParseValue, Section, Stored};

pub use card::{Card, Caveat, CaveatSubject, Labelling, TokenCountUse};
pub use labels::policy::Policy;
pub use metrics::estimates::{Estimates, EstimationContext};
pub use metrics::explanation::Explanation;
pub use metrics::unit::Unit;
pub use pass_spec::{ObservedPass, ObservedPasses, PassSpec, Subject};
pub use show::in_brief::InBrief;
pub use show::summary::Summary;
pub use show::table::TableRows;
pub use show::terms::Term;
pub use upstream::{Ranking, UpstreamResults};
pub use verdict_rule::VerdictRule;

/// One question asked of every head: its passes, and the metrics and the section of the report computed from them.
///
/// A study is a folder of [`crate::studies`] and a line of [`crate::studies::registry::STUDIES`]; nothing else names it.
pub trait Study: Sync {
    /// Type of the study's section of the report; [`section::NoSection`] if the study has no section.
    type Section: Stored;

    const CARD: Card;

    /// The passes over the corpus that the study observes. Each pass has separate sums.
    fn passes(&self) -> Vec<PassSpec>;

    /// Computes the metrics, with intervals and chance levels, and the section of the report, from the sums that
    /// were `observed`.
    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section);

    /// Returns the results of this study that later studies build on.
    fn upstream_results(
        &self,
        _observed: &ObservedPasses<'_>,
        _section: &Self::Section,
        _labels: &Labelling<'_>,
    ) -> UpstreamResults {
        UpstreamResults::default()
    }
}

/// A [`Study`] as an object: the type of its section is erased, and the functions of [`Stored`] are methods.
pub trait AnyStudy: Sync {
    fn card(&self) -> &'static Card;

    fn passes(&self) -> Vec<PassSpec>;

    /// The study's passes over task items if the run has a task, else its other passes. A study with passes of only one kind
    /// has these passes in every run.
    fn passes_for(&self, has_task: bool) -> Vec<PassSpec> {
        let (items, others): (Vec<_>, Vec<_>) =
            self.passes().into_iter().partition(|spec| spec.pass.sequences.are_task_items());
        let is_of_items = others.is_empty() || (has_task && !items.is_empty());
        if is_of_items { items } else { others }
    }

    /// As [`Study::measure`], with the section as a trait object.
    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Box<dyn Section>);

    /// Returns the results of this study that later studies build on. The study's section is `labelling.section`.
    fn upstream_results(&self, observed: &ObservedPasses<'_>, labelling: &Labelling<'_>) -> UpstreamResults;

    /// Each key of the section in a report, with its value.
    fn entries<'a>(&self, section: &'a dyn Section) -> Vec<(&'static str, &'a dyn erased_serde::Serialize)>;

    /// Each key of the section in a report, with the schema of its value.
    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)>;

    /// The section's key called `name`, with the function that parses the key's value; `None` if the section has no
    /// such key.
    fn parser(&self, name: &str) -> Option<(&'static str, ParseValue)>;

    /// Builds the section from the values of its keys. Fails with the first missing key, as text.
    fn section_from_values(&self, values: &mut KeyValues) -> Result<Box<dyn Section>, &'static str>;
}

impl<S: Study> AnyStudy for S {
    fn card(&self) -> &'static Card {
        &S::CARD
    }

    fn passes(&self) -> Vec<PassSpec> {
        Study::passes(self)
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let (estimates, section) = Study::measure(self, observed, context);
        (estimates, Box::new(section))
    }

    fn upstream_results(&self, observed: &ObservedPasses<'_>, labelling: &Labelling<'_>) -> UpstreamResults {
        Study::upstream_results(self, observed, section::downcast_section(labelling.section), labelling)
    }

    fn entries<'a>(&self, section: &'a dyn Section) -> Vec<(&'static str, &'a dyn erased_serde::Serialize)> {
        S::Section::KEYS.iter().map(|key| (key.name, (key.value)(section::downcast_section(section)))).collect()
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        S::Section::KEYS.iter().map(|key| (key.name, (key.schema)(generator))).collect()
    }

    fn parser(&self, name: &str) -> Option<(&'static str, ParseValue)> {
        S::Section::KEYS.iter().find(|key| key.name == name).map(|key| (key.name, key.parse))
    }

    fn section_from_values(&self, values: &mut KeyValues) -> Result<Box<dyn Section>, &'static str> {
        Ok(Box::new(S::Section::from_values(values)?))
    }
}

/// The columns of the study's metrics, with the scales and bounds of its card.
pub fn columns(study: &dyn AnyStudy) -> Vec<Column> {
    let card = study.card();
    let column = |(explanation, keys): (&'static Explanation, MetricKeys)| {
        let scale = if (card.is_share_metric)(explanation.name) { Scale::Share } else { Scale::Real };
        let range = (card.range)(explanation.name);
        Column { id: explanation.name, keys, scale, bounds: [*range.start(), *range.end()] }
    };
    (card.metrics)().into_iter().map(column).collect()
}
