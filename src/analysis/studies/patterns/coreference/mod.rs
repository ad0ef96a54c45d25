//! Coreference: how often a head's attention points from a mention of an entity to an earlier one (METHODOLOGY,
//! "Coreference").

mod anaphors;
mod figure;
mod labels;
mod metrics;
mod section;
mod sums;

use std::ops::RangeInclusive;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Sequences};
use crate::study::labels::Detector;
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Keys;
use crate::study::section::{Section, section};
use crate::study::show::figure::Figure;
use crate::study::show::table::Table;
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject, columns};
use metrics::{CoreferenceInputs, METRICS, best_baselines};
use section::{Coreference, CoreferenceSection};
use sums::CoreferenceSums;

/// Which heads find what a word refers back to.
pub struct Antecedents;

impl Study for Antecedents {
    fn card(&self) -> &'static Card {
        &Card {
            name: "coreference",
            question: "Which heads attend from a mention of an entity to an earlier one, better than nearness, the same lemma or \
                agreement find it?",
            needs: "a corpus with `Entity=` annotation, read twice: windows of whole sentences go through the model where they \
                have an anaphor",
            by_default: false,
            settings_key: None,
        }
    }

    fn in_first_run(&self) -> bool {
        true
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { sequences: Sequences::Windows, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(CoreferenceSums::new(subject.grid, subject.from))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<CoreferenceSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn range(&self, metric: &str) -> RangeInclusive<f64> {
        if metric == "coreference_accuracy" { 0.0..=1.0 } else { -1.0..=1.0 }
    }

    fn detectors(&self) -> &'static [Detector] {
        const { &[labels::COREFERENCE] }
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums = observer::sums::<CoreferenceSums>(observed[0].sums);
        let blocks = sums.blocks().with_total();
        let best = best_baselines(blocks.total());
        let of_head =
            |number: Option<usize>, place: usize| CoreferenceInputs::head(blocks.at(number), best, place).values();
        let of_chance = |number: Option<usize>| CoreferenceInputs::chance(blocks.at(number), best).values();
        let section = CoreferenceSection { coreference: Coreference::new(sums, context) };
        (Estimates::new(&columns(self), context, of_head, of_chance), Box::new(section))
    }

    fn figures(&self, found: &dyn Section, _: &Policy) -> Vec<Figure> {
        figure::figures(&section::<CoreferenceSection>(found).coreference)
    }

    fn tables(&self, found: &dyn Section) -> Vec<Table> {
        vec![Table::of("coreference", &section::<CoreferenceSection>(found).coreference.kinds)]
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("coreference", generator.subschema_for::<Coreference>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<CoreferenceSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const NO_ENTITIES: Caveat = Caveat {
            id: "no-entities",
            text: "No word of the corpus has an entity annotated: no coreference label could be tested.",
            about: About::Certainty,
        };
        const GIVEN_MENTIONS: Caveat = Caveat {
            id: "given-mentions",
            text: "The mentions that coreference chooses from are those of the annotation: that a head finds them by itself is not \
                shown.",
            about: About::Meaning,
        };
        let found = &crate::study::section::section::<CoreferenceSection>(judged.section).coreference;
        vec![if found.mentions > 0 { &GIVEN_MENTIONS } else { &NO_ENTITIES }]
    }
}

#[cfg(test)]
mod tests;
