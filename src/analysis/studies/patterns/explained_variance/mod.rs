//! Study `explained-variance`: how much of a head's attention known cues explain (docs/methodology/explained-variance.md).

mod cues;
mod least_squares;
mod metrics;
mod observe;
mod positions;
mod sentence;
mod shares;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::Pass;
use crate::stats::blocks::{BLOCKS, BlocksWithTotal};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::section::{Section, View, ViewContext, stored};
use crate::study::{Card, ObservedPasses, PassSpec, Study, TokenCountUse, columns};
use cues::{CUE_GROUPS, cue_name};
use metrics::{ExplainedInputs, METRICS, PLACE_DETECTOR};
use sentence::{ALL_KEYS, KEY_SET_COUNT, TEXT_KEYS};
use shares::{ALL_CUES_INDEX, KeySetShares, collect_by_layer, key_set_shares, unique_index};
use sums::ExplainedSums;

/// Study `explained-variance`: how much of the variance of each head's attention is explained by known cues.
pub struct ExplainedVariance;

impl Study for ExplainedVariance {
    type Section = Summed;

    const CARD: Card = Card {
        name: "explained-variance",
        allows_absent_heads: true,
        former_name: Some("explained"),
        question: "How much of each head's attention do all known cues explain together, what does each add, and how much is \
            left?",
        needs: "any corpus; parts of speech, trees and counts of tokens are cues where there are any",
        is_default: true,
        token_counts: TokenCountUse::Useful,
        metrics: || metric::explanations_with_keys(METRICS),
        labels: &[PLACE_DETECTOR],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new_by_class(Pass::PLAIN, |subject, visibility| ExplainedSums::new(subject.grid, visibility))]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByLayerClass<ExplainedSums> = observed.first_sums();
        let classes =
            sums.map(|sums| (key_set_shares(sums, context), sums.blocks.with_total(), sums.places.with_total()));
        let inputs = |class: &_, head: Option<usize>, block: Option<usize>| {
            let (shares, blocks, places): &(_, BlocksWithTotal<_>, BlocksWithTotal<_>) = class;
            let places = [places.total(), places.sums(block)];
            ExplainedInputs { shares, sums: blocks.sums(block), places, head, block }.metric_values()
        };
        let of_head = |block: Option<usize>, place: usize| {
            inputs(classes.for_layer(context.grid.layer_and_head(place).0), Some(place), block)
        };
        let of_chance = |block: Option<usize>, class: usize| inputs(&classes.values()[class], None, block);
        let estimates = Estimates::new_by_class(&columns(self), context, sums.classes(), of_head, of_chance);
        let all = collect_by_layer(&classes.map(|(shares, ..)| shares), context.grid);
        (estimates, Summed::new(&all, |place| context.has_head(place)))
    }
}

/// Explained variance in two forms: of attention over all keys, and of attention over other text tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summed {
    /// Explained variance of attention over all keys.
    #[serde(rename = "all-keys")]
    all_keys: FormSummed,
    /// Explained variance of attention over the other text tokens.
    text: FormSummed,
}

/// Cues used in one form, and how much of the attention they explain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct FormSummed {
    /// Names of the cues that occur in the corpus.
    cues: Vec<String>,
    /// Share of variance that all cues explain together, mean over heads; null if a head has no value.
    explained: Option<f64>,
    /// Share of variance that each group of cues adds to all others, mean over heads; without groups that the corpus lacks.
    unique: BTreeMap<String, f64>,
}

/// Mean over heads of the share at index `share`. Only heads for which `has_head` holds count. `None` if one of them has no
/// value.
fn mean_share(shares: &KeySetShares, has_head: impl Fn(usize) -> bool, share: usize) -> Option<f64> {
    let present = shares.heads.iter().enumerate().filter(|(place, _)| has_head(*place));
    let values: Option<Vec<f64>> = present.map(|(_, head)| head[share][BLOCKS].value()).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

impl Summed {
    pub fn new(shares: &[KeySetShares; KEY_SET_COUNT], has_head: impl Fn(usize) -> bool) -> Self {
        let form = |form: usize| {
            let shares = &shares[form];
            let unique = CUE_GROUPS.iter().enumerate().filter_map(|(place, group)| {
                Some((group.name.to_owned(), mean_share(shares, &has_head, unique_index(place))?))
            });
            FormSummed {
                cues: shares.cues.iter().map(|&cue| cue_name(cue)).collect(),
                explained: mean_share(shares, &has_head, ALL_CUES_INDEX),
                unique: unique.collect(),
            }
        };
        Self { all_keys: form(ALL_KEYS), text: form(TEXT_KEYS) }
    }
}

impl FormSummed {
    /// Returns a line with the explained share and its three largest groups, such as
    /// `59 % over all keys (sinks 33, position 7, classes 2)`.
    fn summary_line(&self, denominator: &str) -> Option<String> {
        let largest = self.unique.iter().sorted_by(|a, b| b.1.total_cmp(a.1)).take(3);
        let largest = largest.map(|(name, share)| format!("{name} {:.0}", 100.0 * share)).join(", ");
        Some(format!("  {:.0} % over {denominator} ({largest})\n", 100.0 * self.explained?))
    }
}

stored!(Summed as explained_variance);

impl Section for Summed {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        let Summed { all_keys, text } = self;
        let forms = [all_keys.summary_line("all keys"), text.summary_line("other tokens of text")];
        let forms: String = forms.into_iter().flatten().collect();
        if forms.is_empty() {
            return View::default();
        }
        View::from_summary(format!(
            "Variance of attention explained by known cues, mean of heads (in brackets: what goes where one group alone is left out; the rest is shared \
             between groups):\n{forms}"
        ))
    }
}
