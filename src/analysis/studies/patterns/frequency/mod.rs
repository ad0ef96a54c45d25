//! Rare and common words: whether a head goes to the one or the other (METHODOLOGY, "Frequency").

mod metrics;
mod sums;
#[cfg(test)]
mod tests;

use anstyle::AnsiColor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::stats::blocks::BLOCKS;
use crate::study::labels::content::{self, assess_content, thresholds};
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::labels::{Detector, LabelStyle, Parameter};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Fraction;
use crate::study::section::{Section, stored};
use crate::study::show::summary::Summary;
use crate::study::{Card, Counts, Observed, PassSpec, Study, columns};
use metrics::{FrequencyInputs, METRICS};
use sums::{FrequencyHeadSums, FrequencySums};

/// Whether each head goes to rare or to common words.
pub struct Frequency;

const RARE_ARGMAX: Threshold = Threshold::rule(
    "rare_argmax",
    0.1,
    "how far above chance the `rare_argmax` of a `rare-words` head is; Voita et al. 2019 name no threshold, so it is the \
        one of the other labels by what a head attends to",
);

const RARE_WORDS: Detector = Detector {
    explanation: Explanation {
        name: "rare-words",
        measures: "The head's most attended token is one of the rarest of the sentence.",
        formula: "rare_argmax_over_chance >= {rare_argmax} and rare_argmax_over_position >= 0, firm if q <= {label_q}",
        chance: "chance.rare_argmax: |R|/|T|, and the head's own rare_argmax_expected",
        source: "Voita et al. 2019, section 5.3: a head that points to the least frequent tokens of a sentence.",
        caveats: "Special tokens are left out of the argmax, so most of the head's attention may be there. \
            Rare is what is rare in this corpus, unless counts of another are given.",
    },
    thresholds: &thresholds(&RARE_ARGMAX),
    is_role: true,
    parameter: Parameter::None,
    shown: LabelStyle { code: Some("rare"), colour: AnsiColor::BrightMagenta, in_controls: false },
    assess: |evidence, policy| {
        assess_content("rare-words", "rare_argmax", None, &RARE_ARGMAX, (evidence, policy)).into_iter().collect()
    },
};

/// The section `frequency` of the report.
#[derive(Deserialize)]
pub struct FrequencySection {
    frequency: Counted,
}

/// Queries that metrics of rare words rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Counted {
    /// Tokens that are not among the rarest of their sentence, in sentences whose rarest are not among the commonest of
    /// the corpus.
    queries: u64,
}

stored!(FrequencySection { frequency: Counted });

impl Section for FrequencySection {
    fn summary(&self, _: &Policy) -> Summary {
        match self.frequency.queries {
            0 => "No sentence has a token beyond the 500 commonest: no label of rare words was tested.\n".into(),
            _ => Summary::default(),
        }
    }
}

impl Study for Frequency {
    type Section = FrequencySection;

    const CARD: Card = Card {
        name: "frequency",
        question: "Does each head go to rare words, or from rare words to common ones?",
        needs: "any corpus of more than 500 different tokens, whose tokens are counted beforehand; with --counts standard \
            input, too",
        by_default: true,
        counts: Counts::Needed,
        controls: &ControlKind::ALL,
        metrics: || metric::listed(METRICS),
        is_share: |metric| metric.starts_with("rare_") && !metric.contains("_over_"),
        made_of: content::made_of,
        labels: &[RARE_WORDS],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| FrequencySums::new(subject.grid))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &FrequencySums = observed.sums();
        let (blocks, uniform) = (sums.blocks.with_total(), FrequencyHeadSums::default());
        // Without each block, and last without none.
        let left_out = sums.blocks.iter().map(Some).chain([None]);
        let rates: Vec<_> = left_out.map(|block| blocks.total().rates(block)).collect();
        let seen = |number: Option<usize>, [sums, whole]: [&FrequencyHeadSums; 2], of_chance: bool| -> Vec<Fraction> {
            let (exposure, rates) = (&blocks.at(number).exposure, &rates[number.unwrap_or(BLOCKS)]);
            let seen = FrequencyInputs { exposure, sums, whole, rates };
            let value = |metric: &metrics::FrequencyMetric| {
                if of_chance { metric.chance.unwrap_or(metric.value)(&seen, 0) } else { (metric.value)(&seen, 0) }
            };
            METRICS.iter().map(value).collect()
        };
        let of_head = |number: Option<usize>, place: usize| {
            seen(number, [&blocks.at(number).heads[place], &blocks.total().heads[place]], false)
        };
        let of_chance = |number: Option<usize>| seen(number, [&uniform, &uniform], true);
        let frequency = Counted { queries: blocks.total().exposure.others };
        (Estimates::new(&columns(self), context, of_head, of_chance), FrequencySection { frequency })
    }
}
