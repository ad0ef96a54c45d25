//! Activation patching: which heads carry a task's answer from a text to its corrupted version (docs/methodology/interchange.md).

mod section;
mod sums;
mod view;

use crate::passes::pass::{CorpusPortion, Pass, Sequences};
use crate::sequences::derived::task::TaskKind;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{self, Fraction, Metric};
use crate::study::section::downcast_section;
use crate::study::show::terms::Term;
use crate::study::verdict_rule::VerdictRule;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, columns,
};
use section::InterchangeResult;
use sums::{ExchangedItem, ExchangedItems, InterchangeSums, SingleHeads};

/// Study that exchanges head contexts between a text and its corrupted version.
pub struct Interchange;

impl Study for Interchange {
    type Section = InterchangeResult;

    const CARD: Card = Card {
        name: "interchange",
        question: "Which heads carry the answer of a task of yours from the words that it depends on?",
        needs: "cloze items (`--task`) with `corrupted`, and a model that predicts masked or next tokens; no corpus: \
            a pass over both texts of a sample of the items for every two heads, and one",
        task_kinds: &[TaskKind::Cloze],
        metrics: || metric::explanations_with_keys(METRICS),
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["interchange"],
        tables: &["interchange"],
        options: &["positions"],
        verdicts: VERDICTS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = Pass { sequences: Sequences::Interchange, portion: CorpusPortion::Sample, ..Pass::PLAIN };
        vec![PassSpec::new(pass, |subject| InterchangeSums::new(subject.grid, SingleHeads))]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &InterchangeSums = observed.first_sums();
        let result = InterchangeResult::new(sums, observed.left_out_sentences(), context);
        // Shares of a gap that may be 0 are meaningless.
        let if_gap_is_shown = |value: Fraction| if result.gap_is_shown { value } else { Fraction::NONE };
        let cells = |items: &ExchangedItems, head: Option<usize>| {
            metric_values(items, head).into_iter().map(if_gap_is_shown).collect()
        };
        let estimates = Estimates::from_blocks(&columns(self), context, &sums.blocks, cells);
        let interchange = result.with_metrics(&estimates);
        (estimates, interchange)
    }
}

/// Values of every metric for the head with index `head`; 0 for `None` (chance).
fn metric_values(items: &ExchangedItems, head: Option<usize>) -> Vec<Fraction> {
    METRICS
        .iter()
        .map(|metric| share_of_gap(items, |item| head.map_or(0.0, |head| (metric.value)(item, head))))
        .collect()
}

/// Change of the items' scores, summed over items, as a share of the summed gap: the score lost by corrupting the
/// text.
fn share_of_gap(items: &ExchangedItems, change: impl Fn(&ExchangedItem) -> f64) -> Fraction {
    let sum = |part: &dyn Fn(&ExchangedItem) -> f64| items.values().map(part).sum::<f64>();
    let units = items.values().filter(|item| item.is_first).count() as u64;
    Fraction::new(sum(&change), sum(&ExchangedItem::gap)).with_evidence(items.len() as u64, units)
}

/// Metric of exchanged contexts: its value is computed from an item and the head's index.
type InterchangeMetric = Metric<fn(&ExchangedItem, usize) -> f64>;

const SOURCE: &str = "Activation patching: Vig et al. 2020 (arXiv:2004.12265); Zhang & Nanda 2024 (arXiv:2309.16042), \
    which compares kinds of corruption and of scores.";
const METRIC_CAVEATS: &str = "It holds for this corruption alone: another one finds other heads. Null unless the summed gap \
    is 4 standard errors above 0. Shares of heads do not add up to 1.";

const METRICS: &[InterchangeMetric] = &[
    InterchangeMetric::single(ExchangedItem::restored_score).with_explanation(Explanation {
        name: "restored",
        measures: "How much of the score that a corruption of the text destroys comes back in the corrupted text when \
            the head alone has its contexts of the true text.",
        formula: "restored = sum over items of (d(corrupted text, contexts of the head from the text) - d(corrupted \
            text)) / sum of (d(text) - d(corrupted text)), d = ln p(answer) - ln p(foil)",
        chance: "0: the head writes the same in both texts, or nobody reads it",
        source: SOURCE,
        caveats: METRIC_CAVEATS,
    }),
    InterchangeMetric::single(ExchangedItem::destroyed_score).with_explanation(Explanation {
        name: "destroyed",
        measures: "How much of that score is lost in the true text when the head alone has its contexts of the \
            corrupted text.",
        formula: "destroyed = sum over items of (d(text) - d(text, contexts of the head from the corrupted text)) / \
            sum of (d(text) - d(corrupted text)), d as in restored",
        chance: "0: as restored",
        source: SOURCE,
        caveats: METRIC_CAVEATS,
    }),
];

const VERDICTS: &[VerdictRule] = &[
    VerdictRule {
        verdict: "a head `restores`, is `needed`, or `carries`, which is both",
        statistic: "sum over items of the change in the score less .05 of the gap, for `restored` and for `destroyed`; none where the \
            summed gap is not 4 standard errors above 0",
        margin: "0",
        test_family: "both numbers of all heads whose sum is above it",
        min_evidence: MIN_EVIDENCE,
        printed: "`restored` and `destroyed` with their intervals, both q",
    },
    VerdictRule {
        verdict: "a head `opposes`",
        statistic: "the sum of the change and .05 of the gap, likewise",
        margin: "0",
        test_family: "both numbers of all heads whose sum is below it",
        min_evidence: MIN_EVIDENCE,
        printed: "as `carries`",
    },
];
const MIN_EVIDENCE: &str = "{min_queries} items in {min_sentences} units";

const CAVEATS: &[Caveat] = &[Caveat {
    id: "interchange-corruption",
    text: "That a head carries an answer holds for the corruption of these items: to exchange one word and to exchange a pattern find \
            different heads, and of heads that do the same none may be needed.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<InterchangeResult>(labelling.section).items > 0,
}];

const TERMS: &[Term] = &[Term {
    name: "carries",
    other_names: &["corrupted", "restores", "needed", "opposes", "gap"],
    meaning: "A head carries the answer of a task from a text to where it is predicted if its contexts alone restore more than 5 % of what \
            a corruption of the text destroys, and destroy more than 5 % when they come from the corrupted text. With the first alone it \
            restores, with the second alone it is needed; it opposes where either is below -5 %. The gap is what the corruption destroys.",
    page: "interchange.md",
}];

#[cfg(test)]
mod tests;
