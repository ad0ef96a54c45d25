//! Study `words`: which words each head attends to, by part of speech and meaning (docs/methodology/words.md).

pub mod classes;
mod labels;
mod metrics;
mod observe;
mod sentence;
pub mod sums;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::Pass;
use crate::study::aim::Aim;
use crate::study::labels::{Label, content};
use crate::study::metrics::metric;
use crate::study::section::{Section, View, ViewContext, stored};
use crate::study::{Card, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, columns};
use metrics::{METRICS, VisibilityClassWords};
use observe::QuerySet;
use sums::WordsSums;

pub struct Words;

/// Numbers of queries that the metrics of the study `words` rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Looked {
    /// Number of words in sentences in which some word has a universal part of speech.
    tagged: u64,
    /// Number of text tokens that occur again in their sentence.
    repeated: u64,
}

stored!(Looked as words);

impl Section for Looked {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        View::from_summary(match self.tagged {
            0 => "No word has a part of speech (UPOS): no label of word classes was tested.\n",
            _ => "",
        })
    }
}

impl Study for Words {
    type Section = Looked;

    const CARD: Card = Card {
        name: "words",
        allows_absent_heads: true,
        question: "Which words does each head attend to: of a part of speech, of the query's own, like the query, or the \
            same again?",
        needs: "any corpus; for parts of speech one with universal tags",
        is_default: true,
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        is_share_metric: |metric| metric.ends_with("_mass") || metric.ends_with("_mass_expected"),
        base_metric_of: content::base_metric,
        labels: &[
            labels::TAG_DETECTOR,
            labels::SAME_TAG_DETECTOR,
            labels::SIMILAR_WORDS_DETECTOR,
            labels::SAME_TOKEN_DETECTOR,
        ],
        aim: aim_of_label,
        needs_language: true,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new_by_class(Pass::PLAIN, |subject, visibility| {
            WordsSums::new(subject.grid, visibility, subject.from_token)
        })]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByLayerClass<WordsSums> = observed.first_sums();
        let classes = sums.map(VisibilityClassWords::new);
        let of_head = |block: Option<usize>, place: usize| {
            classes.for_layer(context.grid.layer_and_head(place).0).metric_values(block, Some(place))
        };
        let of_chance = |block: Option<usize>, class: usize| classes.values()[class].metric_values(block, None);
        let queries = |queries: QuerySet| {
            classes.values().iter().map(|class| class.query_count(queries)).max().unwrap_or_default()
        };
        let words = Looked { tagged: queries(QuerySet::Words), repeated: queries(QuerySet::Repeated) };
        let estimates = Estimates::new_by_class(&columns(self), context, sums.classes(), of_head, of_chance);
        (estimates, words)
    }
}

/// Returns what a label says that the head attends to, and the key of the metric that measures it. `None` for other labels.
fn aim_of_label(label: &Label) -> Option<(Aim, Option<String>)> {
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
