//! The metrics of heads whose contexts are exchanged: one table.

use super::sums::{ExchangedItem, Items};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, Keys, Metric};

/// Every cell of the table; `head` is the place of a head, `None` for chance.
pub fn values(items: &Items, head: Option<usize>) -> Vec<Fraction> {
    METRICS.iter().map(|metric| share(items, |item| head.map_or(0.0, |head| (metric.value)(item, head)))).collect()
}

/// The sum over items of a change in the score over that of the gap.
fn share(items: &Items, change: impl Fn(&ExchangedItem) -> f64) -> Fraction {
    let sum = |part: &dyn Fn(&ExchangedItem) -> f64| items.values().map(part).sum::<f64>();
    let units = items.values().filter(|item| item.is_first).count() as u64;
    Fraction::new(sum(&change), sum(&ExchangedItem::gap)).over(items.len() as u64, units)
}

/// A metric of an item and of the place of a head: the change in its score.
type InterchangeMetric = Metric<fn(&ExchangedItem, usize) -> f64>;

const SOURCE: &str = "Activation patching: Vig et al. 2020 (arXiv:2004.12265); Zhang & Nanda 2024 (arXiv:2309.16042), which compares \
    kinds of corruption and of scores.";
const CAVEATS: &str = "It holds for this corruption alone: another one finds other heads. Null unless the summed gap is 4 standard errors \
    above 0. Shares of heads do not add up to 1.";

/// All metrics of exchanged heads, in the order of the report.
pub const METRICS: &[InterchangeMetric] = &[
    Metric {
        explanation: Explanation {
            name: "restored",
            measures: "How much of the score that a corruption of the text destroys comes back in the corrupted text when the head alone \
                has its contexts of the true text.",
            formula: "restored = sum over items of (d(corrupted text, contexts of the head from the text) - d(corrupted text)) / sum of \
                (d(text) - d(corrupted text)), d = ln p(answer) - ln p(foil)",
            chance: "0: the head writes the same in both texts, or nobody reads it",
            source: SOURCE,
            caveats: CAVEATS,
        },
        keys: Keys::Single,
        value: ExchangedItem::restored,
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "destroyed",
            measures: "How much of that score is lost in the true text when the head alone has its contexts of the corrupted text.",
            formula: "destroyed = sum over items of (d(text) - d(text, contexts of the head from the corrupted text)) / sum of \
                (d(text) - d(corrupted text)), d as in restored",
            chance: "0: as restored",
            source: SOURCE,
            caveats: CAVEATS,
        },
        keys: Keys::Single,
        value: ExchangedItem::destroyed,
        chance: None,
    },
];
