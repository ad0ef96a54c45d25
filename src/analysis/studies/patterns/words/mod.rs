//! Word classes and meaning: which words each head attends to, by what they are (METHODOLOGY, "Word classes and
//! meaning").

mod labels;
mod metrics;
mod observe;
mod sentence;
pub mod sums;
/// The aim of a label, and the metric that is the mean of it.
fn aim(label: &Label) -> Option<(Aim, Option<String>)> {
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

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::stats::blocks::BLOCKS;
use crate::study::aim::Aim;
use crate::study::labels::Label;
use crate::study::labels::content;
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::metrics::metric::Fraction;
use crate::study::section::{Section, stored};
use crate::study::show::summary::Summary;
use crate::study::{Card, Observed, PassSpec, Study, columns};
use metrics::METRICS;
use observe::Queries;
use sums::{WordHeadSums, WordInputs, WordsSums};

/// The words that each head attends to, by word class and likeness.
pub struct Words;

/// The section `words` of the report.
#[derive(Deserialize)]
pub struct WordsSection {
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

stored!(WordsSection { words: Looked });

impl Section for WordsSection {
    fn summary(&self, _: &Policy) -> Summary {
        match self.words.tagged {
            0 => "No word has a part of speech (UPOS): no label of word classes was tested.\n".into(),
            _ => Summary::default(),
        }
    }
}

impl Study for Words {
    type Section = WordsSection;

    const CARD: Card = Card {
        name: "words",
        question: "Which words does each head attend to: of a part of speech, of the query's own, like the query, or the \
            same again?",
        needs: "any corpus; for parts of speech one with universal tags",
        by_default: true,
        controls: &ControlKind::ALL,
        metrics: || metric::listed(METRICS),
        is_share: |metric| metric.ends_with("_mass") || metric.ends_with("_mass_expected"),
        made_of: content::made_of,
        labels: &[labels::TAG, labels::SAME_TAG, labels::SIMILAR_WORDS, labels::SAME_TOKEN],
        aim,
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| WordsSums::new(subject.grid, subject.from))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &WordsSums = observed.sums();
        let blocks = sums.blocks.with_total();
        // Without each block, and last without none.
        let left_out = sums.blocks.iter().map(Some).chain([None]);
        let rates: Vec<_> = left_out.map(|block| blocks.total().rates(block)).collect();
        let cells = |number: Option<usize>, [sums, whole]: [&WordHeadSums; 2], of_chance: bool| -> Vec<Fraction> {
            let (block, corpus, rates) =
                (blocks.at(number), &blocks.total().exposure, &rates[number.unwrap_or(BLOCKS)]);
            let seen = WordInputs { exposure: &block.exposure, corpus, sums, whole, uniform: &block.uniform, rates };
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
            cells(number, [&blocks.at(number).heads[place], &blocks.total().heads[place]], false)
        };
        let of_chance = |number: Option<usize>| {
            let block = blocks.at(number);
            let likened = block.exposure.queries[Queries::Likened as usize];
            let even = WordHeadSums { masses: block.uniform, likened, ..WordHeadSums::default() };
            cells(number, [&even, &even], true)
        };
        let queries = |queries: Queries| blocks.total().exposure.queries[queries as usize];
        let words = Looked { tagged: queries(Queries::Words), repeated: queries(Queries::Repeated) };
        (Estimates::new(&columns(self), context, of_head, of_chance), WordsSection { words })
    }
}
