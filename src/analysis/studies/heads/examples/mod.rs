//! Sentences that show what labels say: of each head the one that shows it most, one that is typical, and one in which it fails
//! (METHODOLOGY, "Examples").

mod drawn;
mod figure;
mod report;
mod section;
mod sums;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::Section;
use crate::study::{Card, Observed, Study, Subject};
use report::Examples;
use section::ExamplesSection;
use sums::ExampleSums;

/// Example sentences that show the aims of labels.
pub struct ExampleSentences;

/// The first of these tokens that the vocabulary has, else how it is called here.
fn written(subject: &Subject<'_>, tokens: [&str; 2], otherwise: &str) -> String {
    tokens.into_iter().find(|token| (subject.token_id)(token).is_some()).unwrap_or(otherwise).to_owned()
}

impl Study for ExampleSentences {
    fn card(&self) -> &'static Card {
        &Card {
            name: "examples",
            question: "Which sentences show what the labels say?",
            needs: "a corpus in files, read once more when the labels are known; the report then holds sentences of the corpus",
            by_default: false,
            settings_key: None,
        }
    }

    fn follows(&self, _: usize) -> bool {
        true
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        let special =
            [written(subject, ["[CLS]", "<s>"], "[first]"), written(subject, ["[SEP]", "</s>"], "[separator]")];
        observer_of(ExampleSums::new(subject.grid, subject.from, subject.found.aims.clone(), special))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<ExampleSums>(bytes)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &ExampleSums = observer::sums(observed[0].sums);
        let section = ExamplesSection { examples: Examples::new(sums, context.grid) };
        (Estimates::none(context.grid.count()), Box::new(section))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("examples", generator.subschema_for::<Examples>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<ExamplesSection>(report)?))
    }
}

#[cfg(test)]
mod tests;
