//! Ablation of attention heads one by one: the replacement of a removed head, and the sentences that its effect is measured on.

use std::num::NonZeroU16;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::parameters::Objective;
use crate::sequences::derived::task::TaskKind;
use crate::stats::blocks::merge_fields;

/// Options of the removal of attention heads, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ablation {
    /// How the context of a removed head, its output before the output projection, is replaced.
    pub removal: Replacement,
    /// Number of masked variants of each sentence, 1 to 7. Each masks one word in seven; 7 variants mask every word once.
    #[schemars(range(min = 1, max = 7))]
    pub phases: u8,
    /// Largest number of sentences to draw from the corpus, by a digest of their numbers.
    #[schemars(range(min = 1))]
    pub sample: u64,
    /// The heads whose effect is measured; absent for all heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_of: Option<Choice>,
    /// Number of steps of the path from no head to all heads along which derivatives were integrated; absent if they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_steps: Option<NonZeroU16>,
}

/// Numbers of heads to remove one at a time, chosen by the first-order sensitivity of the loss to each head. Heads are chosen
/// on the even-numbered blocks of the sample and removed on the odd-numbered ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// Requested number of heads to which the loss is most sensitive; 0 for none.
    pub top: usize,
    /// Requested number of heads to which the loss is least sensitive; 0 for none.
    pub bottom: usize,
    /// Requested number of heads drawn at random from all heads outside `top` and `bottom`; 0 for none.
    pub random: usize,
}

impl FromStr for Choice {
    type Err = String;

    /// Parses a choice such as `top:20,bottom:20,random:20`; each of the three parts may be left out. Fails if a part is
    /// unknown, repeated or not above 0.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these";
        let mut choice = Self::default();
        for part in text.split(',') {
            let (name, count) = part.split_once(':').ok_or(expected)?;
            let place = match name {
                "top" => &mut choice.top,
                "bottom" => &mut choice.bottom,
                "random" => &mut choice.random,
                _ => return Err(expected.to_owned()),
            };
            let count = count.parse().ok().filter(|&count| count > 0 && *place == 0);
            *place = count.ok_or_else(|| format!("`{part}`: {expected}, each once and with a number from 1"))?;
        }
        Ok(choice)
    }
}

impl Default for Ablation {
    /// Mean ablation on 500 sentences. Each sentence runs once per head, from that head's layer on. For BERT-base, 500
    /// sentences of 25 tokens cost as much as 75 full passes over 12,500 tokens. That takes minutes, and gives some 1,700
    /// masked tokens.
    fn default() -> Self {
        Self { removal: Replacement::Mean, phases: 1, sample: 500, effect_of: None, gradient_steps: None }
    }
}

/// First equivalence margin of a head's effect: one hundredth of the effect of removing all heads together.
const MARGIN_SHARE_OF_TOTAL: f64 = 0.01;

/// Second equivalence margin of a head's effect: half of the total effect divided by the number of heads. So the average
/// head is never negligible. It is the smaller margin in models of more than 50 heads.
const MARGIN_SHARE_OF_MEAN: f64 = 0.5;

/// Returns the equivalence margin of a head's effect, at least 0, in the unit of `worth`, the effect of removing all
/// `heads` heads. It is one hundredth of `worth`, or half of `worth` per head if that is smaller.
pub fn equivalence_margin(worth: f64, heads: usize) -> f64 {
    MARGIN_SHARE_OF_TOTAL.min(MARGIN_SHARE_OF_MEAN / heads as f64) * worth.max(0.0)
}

/// Facts about a pass that its observers keep with their sums: the ablation, the prediction task and the user's task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassConditions {
    /// The replacement for heads that are ablated one by one; `None` in a pass without such heads, or before the pass
    /// begins.
    pub removal: Option<Replacement>,
    /// The prediction task whose loss is measured; `None` in a pass that predicts nothing.
    pub objective: Option<Objective>,
    /// The kind of the user's task whose items are scored; `None` in a pass over other sequences.
    pub task: Option<TaskKind>,
}

// A worker that began no pass knows no conditions.
merge_fields!(PassConditions { removal, objective, task });

/// How the context of a removed head is replaced, at every position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// The head's mean context over the positions of the same token class in the sampled sentences, without ablation.
    Mean,
    /// The head's mean context over all positions, which a model file can hold in the bias of the output projection. Layers that
    /// share their weights share the mean.
    Constant,
    /// A vector of zeros, so that the head writes nothing.
    Zero,
}

impl Replacement {
    /// The name of the replacement on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Constant => "constant",
            Self::Zero => "zero",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_by_hand() {
        // Half of an equal share is 1/32 of 16 heads, 1/100 of 50 heads, and 1/288 of 144 heads.
        assert_eq!([equivalence_margin(2.0, 16), equivalence_margin(2.0, 50)], [0.02, 0.02]);
        assert!((equivalence_margin(2.88, 144) - 0.01).abs() < 1e-15);
        assert_eq!(equivalence_margin(-0.3, 16), 0.0);
    }

    #[test]
    fn a_choice_is_read() {
        let read = |text: &str| text.parse::<Choice>();
        assert_eq!(read("top:2,random:30"), Ok(Choice { top: 2, bottom: 0, random: 30 }));
        let wrong = ["", "top", "top:", "top:0", "top:-1", "first:3", "top:2,top:3", "top:2,"];
        let errors = wrong.map(|text| format!("{text:?}: {}", read(text).unwrap_err()));
        insta::assert_snapshot!(errors.join("\n"), @r#"
        "": expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these
        "top": expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these
        "top:": `top:`: expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these, each once and with a number from 1
        "top:0": `top:0`: expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these, each once and with a number from 1
        "top:-1": `top:-1`: expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these, each once and with a number from 1
        "first:3": expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these
        "top:2,top:3": `top:3`: expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these, each once and with a number from 1
        "top:2,": expected heads by their gradient, such as top:20,bottom:20,random:20, or some of these
        "#);
    }
}
