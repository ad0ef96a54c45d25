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
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::passes::observer::{self, Observer, observer_of, sums};
use crate::study::aim::Aim;
use crate::study::labels::policy::Policy;
use crate::study::labels::{Detector, Label};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::{Fraction, Keys};
use crate::study::section::Section;
use crate::study::show::summary::Summary;
use crate::study::{Card, Observed, Study, Subject, columns};
use metrics::METRICS;
use observe::Queries;
use sums::{WordHeadSums, WordInputs, WordsBlock, WordsSums};

/// Which words each head attends to, by word class and likeness.
pub struct Words;

/// The section `words` of the report.
#[derive(Deserialize)]
struct WordsSection {
    words: Looked,
}

/// Queries that metrics of words rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Looked {
    /// Words of sentences in which some word has a universal part of speech.
    tagged: u64,
    /// Tokens of text that are there again in their sentence.
    repeated: u64,
}

impl Section for WordsSection {
    fn entries(&self) -> Vec<(&'static str, &dyn erased_serde::Serialize)> {
        vec![("words", &self.words)]
    }

    fn summary(&self, _: &Policy) -> Summary {
        match self.words.tagged {
            0 => "No word has a part of speech (UPOS): no label of word classes was tested.\n".into(),
            _ => Summary::default(),
        }
    }
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
        observer_of(WordsSums::new(subject.grid, subject.from))
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

    fn aim(&self, label: &Label) -> Option<(Aim, Option<String>)> {
        let (aim, metric) = match label.label.as_str() {
            "same-tag" => (Aim::SameTag, "same_tag_mass".to_owned()),
            "same-token" => (Aim::SameToken, "same_token_mass".to_owned()),
            other => {
                let tag = other.strip_prefix("tag:")?;
                (Aim::Tag(tag.to_owned()), format!("tag_mass.{tag}"))
            }
        };
        Some((aim, Some(metric)))
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &WordsSums = sums(observed[0].sums);
        let (blocks, rates) = (sums.blocks().with_total(), sums.rates());
        let cells = |block: &WordsBlock, sums: &WordHeadSums, of_chance: bool| -> Vec<Fraction> {
            let (corpus, uniform) = (&blocks.total().exposure, &block.uniform);
            let seen = WordInputs { exposure: &block.exposure, corpus, sums, uniform, rates: &rates };
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
            let block = blocks.at(number);
            cells(block, &block.heads[place], false)
        };
        let of_chance = |number: Option<usize>| {
            let block = blocks.at(number);
            let likened = block.exposure.queries[Queries::Likened as usize];
            cells(block, &WordHeadSums { masses: block.uniform, likened, ..WordHeadSums::default() }, true)
        };
        let queries = |queries: Queries| blocks.total().exposure.queries[queries as usize];
        let words = Looked { tagged: queries(Queries::Words), repeated: queries(Queries::Repeated) };
        (Estimates::new(&columns(self), context, of_head, of_chance), Box::new(WordsSection { words }))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("words", generator.subschema_for::<Looked>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<WordsSection>(report)?))
    }
}
