//! Whether the model uses the arcs that its heads are labelled for: masked words with the one weight to their partner cut
//! (METHODOLOGY, "Use of an arc").

mod figure;
mod section;
mod sums;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Phases, Portion, Sequences};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::{Section, section};
use crate::study::show::figure::Figure;
use crate::study::show::table::Table;
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject};
use section::{LabelUse, UseSection};
use sums::UseSums;

/// The use of arcs: whether the model uses the arcs of syntactic labels.
pub struct ArcUse;

impl Study for ArcUse {
    fn card(&self) -> &'static Card {
        &Card {
            name: "use",
            question: "Does the model use the arcs that its heads are labelled for?",
            needs: "a model with a masked-LM head or that of a discriminator, and a corpus with dependency trees in files, read once more when the labels \
                are known: seven passes over a sample of its sentences, and two for each arc of a label",
            by_default: false,
            settings_key: None,
        }
    }

    fn follows(&self, _: usize) -> bool {
        true
    }

    fn builds_on(&self) -> &'static [&'static str] {
        &["dependency"]
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { sequences: Sequences::Corrupted(Phases::All), portion: Portion::Sample, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(UseSums::new(subject.grid, subject.from, subject.found.claims.clone()))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<UseSums>(bytes)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &UseSums = observer::sums(observed[0].sums);
        (Estimates::none(context.grid.count()), Box::new(UseSection::new(sums, context)))
    }

    fn figures(&self, found: &dyn Section, _: &Policy) -> Vec<Figure> {
        figure::figures(&section::<UseSection>(found).use_of_arcs)
    }

    fn tables(&self, found: &dyn Section) -> Vec<Table> {
        vec![Table::of("use", &section::<UseSection>(found).use_of_arcs)]
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("use_of_arcs", generator.subschema_for::<Vec<LabelUse>>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<UseSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const ONE_WEIGHT: Caveat = Caveat {
            id: "use-of-one-weight",
            text: "`used` says that a masked word is harder to predict without this head's weight to its partner than without an \
                equal weight elsewhere. A label without it may still be of use to other words, to other tasks, or beside other \
                heads that do the same.",
            about: About::Meaning,
        };
        let tested = section::<UseSection>(judged.section).use_of_arcs.iter().any(|label| label.test.used.is_some());
        if tested { vec![&ONE_WEIGHT] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests;
