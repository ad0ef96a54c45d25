//! Study `frequency`: whether a head attends to rare or to common words (docs/methodology/frequency.md).

mod metrics;
mod sums;
#[cfg(test)]
mod tests;

use anstyle::AnsiColor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::Pass;
use crate::stats::blocks::{BLOCKS, BlocksWithTotal};
use crate::study::instruments::position::TargetRates;
use crate::study::labels::content::{self, assess_content, thresholds};
use crate::study::labels::{Detector, LabelStyle, Threshold, VerbPhrase};
use crate::study::metrics::metric::{self, Fraction};
use crate::study::section::{Section, View, ViewContext, stored};
use crate::study::{
    Card, Estimates, EstimationContext, Explanation, ObservedPasses, PassSpec, Study, TokenCountUse, columns,
};
use metrics::{FrequencyInputs, METRICS};
use sums::{FrequencyBlock, FrequencyHeadSums, FrequencySums};

pub struct Frequency;

const MIN_RARE_ARGMAX: Threshold = Threshold::rule(
    "rare_argmax",
    0.1,
    "how far above chance the `rare_argmax` of a `rare-words` head is; Voita et al. 2019 name no threshold, so it is the \
        one of the other labels by what a head attends to",
);

const RARE_WORDS_DETECTOR: Detector = Detector {
    thresholds: &thresholds(&MIN_RARE_ARGMAX),
    phrase: VerbPhrase::Fixed("has its largest weight among tokens of text on a rarest one"),
    style: LabelStyle::new(Some("rare"), AnsiColor::BrightMagenta),
    assess: |evidence, policy| assess_content("rare-words", "rare_argmax", None, &MIN_RARE_ARGMAX, (evidence, policy)),
    ..Detector::new_role(Explanation {
        name: "rare-words",
        measures: "The head's most attended token is one of the rarest of the sentence.",
        formula: "rare_argmax_over_chance >= {rare_argmax} and rare_argmax_over_position >= 0, firm if q <= {label_q}",
        chance: "chance.rare_argmax: |R|/|T|, and the head's own rare_argmax_expected",
        source: "Voita et al. 2019, section 5.3: a head that points to the least frequent tokens of a sentence.",
        caveats: "Special tokens are left out of the argmax, so most of the head's attention may be there. \
            Rare is what is rare in this corpus, unless counts of another are given.",
    })
};

/// Number of queries that the metrics of rare words rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Number of tokens outside the rarest of their sentence. Only sentences count whose rarest tokens are not among the
    /// commonest of the corpus.
    queries: u64,
}

stored!(Counted as frequency);

impl Section for Counted {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        View::from_summary(match self.queries {
            0 => {
                "No sentence has a token that is rarer than 500 others of the corpus, so no label of rare words was tested: it takes more text, or --counts FILE.\n"
            }
            _ => "",
        })
    }
}

impl Study for Frequency {
    type Section = Counted;

    const CARD: Card = Card {
        name: "frequency",
        allows_absent_heads: true,
        question: "Does each head go to rare words, or from rare words to common ones?",
        needs: "any corpus of more than 500 different tokens, counted beforehand; standard input needs --counts",
        is_default: true,
        token_counts: TokenCountUse::Needed,
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        is_share_metric: |metric| metric.starts_with("rare_") && !metric.contains("_over_"),
        base_metric_of: content::base_metric,
        labels: &[RARE_WORDS_DETECTOR],
        needs_language: true,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new_by_class(Pass::PLAIN, |subject, visibility| FrequencySums::new(subject.grid, visibility))]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByLayerClass<FrequencySums> = observed.first_sums();
        let classes = sums.map(VisibilityClassSums::new);
        let of_head = |block: Option<usize>, place: usize| {
            classes.for_layer(context.grid.layer_and_head(place).0).metric_values(block, Some(place))
        };
        let of_chance = |block: Option<usize>, class: usize| classes.values()[class].metric_values(block, None);
        // Queries that can attend to rare tokens.
        let others = classes.values().iter().map(|class| class.blocks.total().exposure.others.count);
        let queries = others.max().unwrap_or_default();
        let estimates = Estimates::new_by_class(&columns(self), context, sums.classes(), of_head, of_chance);
        (estimates, Counted { queries })
    }
}

/// Sums over the layers with one attention mask, with the probability of a rare token at each offset.
struct VisibilityClassSums<'a> {
    blocks: BlocksWithTotal<'a, FrequencyBlock>,
    /// Results of [`FrequencyBlock::rates`] without each block in turn, then over all blocks.
    rates: Vec<[TargetRates; 2]>,
}

impl<'a> VisibilityClassSums<'a> {
    fn new(sums: &'a FrequencySums) -> Self {
        let blocks = sums.blocks.with_total();
        let blocks_left_out = sums.blocks.iter().map(Some).chain([None]);
        let rates = blocks_left_out.map(|block| blocks.total().rates(block)).collect();
        Self { blocks, rates }
    }

    /// Values of all metrics, of the head with index `place` (`None`: chance levels), in one block (`None`: in all).
    fn metric_values(&self, block: Option<usize>, place: Option<usize>) -> Vec<Fraction> {
        let (sums, uniform) = (self.blocks.sums(block), FrequencyHeadSums::default());
        let [head, corpus_head] =
            [sums, self.blocks.total()].map(|sums| place.map_or(&uniform, |place| &sums.heads[place]));
        let rates = &self.rates[block.unwrap_or(BLOCKS)];
        let inputs = FrequencyInputs { exposure: &sums.exposure, sums: head, corpus_sums: corpus_head, rates };
        metric::cells(METRICS, |metric, cell| match place {
            Some(_) => (metric.value)(&inputs, cell),
            None => metric.chance.unwrap_or(metric.value)(&inputs, cell),
        })
    }
}
