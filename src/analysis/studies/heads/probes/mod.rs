//! Probes: the information in a head's output, read by linear discriminants on its contexts (METHODOLOGY, "Probes").

mod classifiers;
mod discriminant;
mod fit;
mod measure;
mod moments;
mod pack;
mod scores;
mod section;
mod sums;
mod task;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::control::ControlKind;
use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::Pass;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::{Section, section};
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject};
use fit::Probes;
use scores::ProbeScores;
use section::{ProbesSection, TaskProbes};
use sums::ProbeSums;

/// The information that a linear probe reads from each head.
pub struct LinearProbes;

/// The pass that sums are made of.
const SUMS: usize = 0;

/// The pass that words are classified in, once all sums are there.
const SCORES: usize = 1;

impl Study for LinearProbes {
    fn card(&self) -> &'static Card {
        &Card {
            name: "probes",
            question: "What can be read out of a head's output about a word, beyond the word itself?",
            needs: "a corpus with UPOS tags or dependency trees in files, read twice: one pass more, and two thirds of one for the \
                sums",
            by_default: false,
            settings_key: None,
        }
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass::PLAIN, Pass::PLAIN]
    }

    fn follows(&self, place: usize) -> bool {
        place == SCORES
    }

    fn is_controlled(&self, kind: ControlKind) -> bool {
        kind == ControlKind::RandomInit
    }

    fn observer(&self, place: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        let (grid, asked) = (subject.grid, subject.probes);
        if place == SUMS {
            return observer_of(ProbeSums::new(grid, asked));
        }
        let sums = subject.own.first().map(|own| observer::sums::<ProbeSums>(own.sums));
        let probes = sums.map_or_else(Probes::default, |sums| Probes::new(sums, subject.threads));
        observer_of(ProbeScores::new(grid, asked, probes))
    }

    fn restore(&self, place: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        if place == SUMS { observer::restored::<ProbeSums>(bytes) } else { observer::restored::<ProbeScores>(bytes) }
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let (sums, scores) = (observer::sums(observed[SUMS].sums), observer::sums(observed[SCORES].sums));
        let probes = measure::tasks(sums, scores, context);
        (Estimates::none(context.grid.count()), Box::new(ProbesSection { probes }))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("probes", generator.subschema_for::<Vec<TaskProbes>>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<ProbesSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const READ_NOT_USED: Caveat = Caveat {
            id: "probes-read-not-used",
            text: "A probe shows what can be read out of a head's output by a linear classifier, not that the model uses it, nor \
                that the head put it there: it may have been in what went into the layer.",
            about: About::Meaning,
        };
        let probed = section::<ProbesSection>(judged.section).probes.iter().any(|task| task.words > 0);
        if probed { vec![&READ_NOT_USED] } else { Vec::new() }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
