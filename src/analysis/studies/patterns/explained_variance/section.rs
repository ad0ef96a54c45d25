//! The section `explained_variance` of the report: the cues that were used, and what they explain in the mean of all heads.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cues::{GROUPS, name};
use super::sentence::{ALL_KEYS, FORMS, TEXT};
use super::shares::{FormShares, Shares};
use crate::stats::blocks::BLOCKS;
use crate::study::labels::policy::Policy;
use crate::study::metrics::metric::Fraction;
use crate::study::section::{Section, View, stored};

pub struct ExplainedSection {
    pub explained_variance: Summed,
}

/// The two forms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summed {
    /// Over all keys.
    #[serde(rename = "all-keys")]
    all_keys: FormSummed,
    /// Over the other tokens of text.
    text: FormSummed,
}

/// One form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct FormSummed {
    /// The cues that the corpus has.
    cues: Vec<String>,
    /// The share that all explain, in the mean of all heads.
    explained: Option<f64>,
    /// The share that each group adds to all others, in the mean of all heads; without groups that the corpus lacks.
    unique: BTreeMap<String, f64>,
}

/// The mean of a share over the heads that the model has; none if some of them has none.
fn mean(
    shares: &FormShares,
    has: impl Fn(usize) -> bool,
    of: impl Fn(&Shares<Vec<Fraction>>) -> &Vec<Fraction>,
) -> Option<f64> {
    let present = shares.heads.iter().enumerate().filter(|(place, _)| has(*place));
    let known: Option<Vec<f64>> = present.map(|(_, head)| of(head)[BLOCKS].value()).collect();
    known.filter(|known| !known.is_empty()).map(|known| known.iter().sum::<f64>() / known.len() as f64)
}

impl Summed {
    pub fn new(shares: &[FormShares; FORMS], has: impl Fn(usize) -> bool) -> Self {
        let form = |form: usize| {
            let shares = &shares[form];
            let unique = GROUPS.iter().enumerate().filter_map(|(place, group)| {
                Some((group.name.to_owned(), mean(shares, &has, |head| &head.unique[place])?))
            });
            FormSummed {
                cues: shares.cues.iter().map(|&cue| name(cue)).collect(),
                explained: mean(shares, &has, |head| &head.all),
                unique: unique.collect(),
            }
        };
        Self { all_keys: form(ALL_KEYS), text: form(TEXT) }
    }
}

const NAMED: usize = 3;

impl FormSummed {
    /// The share as a line: `59 % over all keys (sinks 33, position 7, classes 2)`.
    fn words(&self, over: &str) -> Option<String> {
        let mut groups: Vec<(&String, f64)> = self.unique.iter().map(|(name, share)| (name, *share)).collect();
        groups.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named = groups.iter().take(NAMED).map(|(name, share)| format!("{name} {:.0}", 100.0 * share));
        let named = named.collect::<Vec<_>>().join(", ");
        Some(format!("  {:.0} % over {over} ({named})\n", 100.0 * self.explained?))
    }
}

stored!(ExplainedSection { explained_variance: Summed });

impl Section for ExplainedSection {
    fn view(&self, _: &Policy) -> View<'_> {
        let Summed { all_keys, text } = &self.explained_variance;
        let forms = [all_keys.words("all keys"), text.words("other tokens of text")];
        let forms: String = forms.into_iter().flatten().collect();
        if forms.is_empty() {
            return View::default();
        }
        View::saying(format!(
            "Variance of attention explained by known cues, mean of heads (in brackets: what goes where one group alone is left out; the rest is shared \
             between groups):\n{forms}"
        ))
    }
}
