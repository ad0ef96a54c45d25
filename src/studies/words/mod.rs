//! Word classes and meaning: which words each head attends to, by what they are (METHODOLOGY, "Word classes and
//! meaning").

mod labels;
mod metrics;
mod observe;
mod sentence;
pub mod sums;
#[cfg(test)]
mod tests;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};
use serde::Deserialize;

use super::content::{Content, ContentLabel, tested};
use super::explanation::Explanation;
use super::label::Detector;
use super::metric::{self, Bench, Estimates, Fraction, Keys};
use super::section::Section;
use super::study::{Card, Observed, Study, Subject, columns};
use crate::corpus::Upos;
use crate::passes::observer::{self, Observer, sums, watching};
use labels::{FAMILIES, is_labelled};
use metrics::METRICS;
use observe::Queries;
use sums::{HeadSums, Seen, WordsBlock, WordsSums};

/// Which words each head attends to, by word class and likeness.
pub struct Words;

/// The key of its section.
const KEY: &str = "words";

/// The metric of each label but those of tags.
const SINGLE: [(&str, &str); 3] =
    [("same-tag", "same_tag_mass"), ("similar-words", "similarity_gain"), ("same-token", "same_token_mass")];

/// The labels, each with its metric.
fn label_metrics() -> impl Iterator<Item = (String, String)> {
    let tags = Upos::ALL.into_iter().filter(|tag| is_labelled(*tag));
    let tags = tags.map(|tag| (format!("tag:{}", tag.tag()), format!("tag_mass.{}", tag.tag())));
    tags.chain(SINGLE.map(|(label, metric)| (label.to_owned(), metric.to_owned())))
}

/// A saved section.
#[derive(Deserialize)]
struct Saved {
    words: Vec<ContentLabel>,
}

fn section(labels: Vec<ContentLabel>) -> Box<dyn Section> {
    let none = "Too few words have a UPOS or are there again: no label of word classes or meaning was tested.";
    Box::new(Content::new(KEY, FAMILIES, none, labels))
}

impl Study for Words {
    fn card(&self) -> &'static Card {
        &Card {
            name: "words",
            question: "Which words does each head attend to: of a part of speech, of the query's own, like the query, or the \
                same again?",
            needs: "any corpus; for parts of speech one with universal tags",
            by_default: true,
            settings_key: None,
        }
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        watching(WordsSums::new(subject.grid, subject.from))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<WordsSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn detectors(&self) -> &'static [Detector] {
        const { &[labels::TAG, labels::SAME_TAG, labels::SIMILAR_WORDS, labels::SAME_TOKEN] }
    }

    fn measure(&self, observed: &[Observed<'_>], bench: &Bench) -> (Estimates, Box<dyn Section>) {
        let sums: &WordsSums = sums(observed[0].sums);
        let (total, rates) = (sums.total(), sums.rates());
        let block = |block: Option<usize>| block.map_or(&total, |block| &sums.blocks()[block]);
        let cells = |block: &WordsBlock, sums: &HeadSums, of_chance: bool| -> Vec<Fraction> {
            let seen = Seen { exposure: &block.exposure, corpus: &total.exposure, sums, rates: &rates };
            let value = |metric: &'static metric::Metric<_>| match metric.chance {
                Some(chance) if of_chance => chance,
                _ => metric.value,
            };
            METRICS
                .iter()
                .flat_map(|metric| metric.keys.places().map(|cell| value(metric)(&seen, cell)).collect::<Vec<_>>())
                .collect()
        };
        let of_head = |number: Option<usize>, place: usize| {
            let block = block(number);
            cells(block, &block.heads[place], false)
        };
        let of_chance = |number: Option<usize>| {
            let block = block(number);
            let likened = block.exposure.queries[Queries::Likened as usize];
            cells(block, &HeadSums { masses: block.uniform, likened, ..HeadSums::default() }, true)
        };
        let estimates = Estimates::new(&columns(self), bench, of_head, of_chance);
        (estimates, section(tested(label_metrics(), &columns(self), bench, of_head, of_chance)))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![(KEY, generator.subschema_for::<Vec<ContentLabel>>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(section(serde_json::from_str::<Saved>(report)?.words))
    }
}
