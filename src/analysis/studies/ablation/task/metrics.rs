//! The metrics of heads removed from a task: one table.

use crate::studies::ablation::losses::{Item, Items};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, Keys, Metric};

pub fn values(items: &Items, head: Option<usize>) -> Vec<Fraction> {
    METRICS.iter().map(|metric| (metric.value)(items, head)).collect()
}

pub fn mean<'a>(items: impl Iterator<Item = &'a Item>, part: impl Fn(&Item) -> f64) -> Fraction {
    let (mut sum, mut count, mut units) = (0.0, 0, 0);
    for item in items {
        sum += part(item);
        count += 1;
        units += u64::from(item.is_first);
    }
    Fraction::new(sum, count as f64).over(count, units)
}

/// The mean rise of the loss without a head; nothing for chance.
pub fn effect<'a>(items: impl Iterator<Item = &'a Item>, head: Option<usize>) -> Fraction {
    mean(items, |item| item.score(None) - item.score(head))
}

fn right_effect<'a>(items: impl Iterator<Item = &'a Item>, head: Option<usize>) -> Fraction {
    share(items, |item| item.right(head) - item.right(None))
}

/// A share of predictions: `part` counts the predictions of an item that are in it. Tags have one prediction a word, other items one.
pub fn share<'a>(items: impl Iterator<Item = &'a Item>, part: impl Fn(&Item) -> f64) -> Fraction {
    let (mut sum, mut predictions, mut items_seen, mut units) = (0.0, 0.0, 0, 0);
    for item in items {
        sum += part(item);
        predictions += item.predictions();
        items_seen += 1;
        units += u64::from(item.is_first);
    }
    Fraction::new(sum, predictions).over(items_seen, units)
}

/// A metric of the items of a block, or of all blocks, and of the place of a head, `None` for chance.
type TaskMetric = Metric<fn(&Items, Option<usize>) -> Fraction>;

pub const METRICS: &[TaskMetric] = &[
    Metric {
        explanation: Explanation {
            name: "task_effect",
            measures: "How much the loss of a task of the user's own rises when the head is removed.",
            formula: "task_effect = mean over items of (score with the head - score without it), in nats, of triples in cosines; the score of an item is \
                ln p(label), with a foil less ln p(foil), of tags its sum over words, of a cloze item ln p(answer) - ln p(foil), of a pair ln p(good) - ln p(bad), of a triple \
                cos(anchor, positive) - cos(anchor, negative); the loss is minus the mean score",
            chance: "0: the head is not missed",
            source: "Removal of single heads from a task: Michel et al. 2019 (arXiv:1905.10650), section 3; minimal pairs: Warstadt \
                et al. 2020 (arXiv:1912.00582); masked texts word by word: Kauf & Ivanova 2023 (arXiv:2305.10588).",
            caveats: "It holds for these items alone. Other heads can compensate, so several heads may matter together and none \
                alone. It depends on what stands for the head: `settings.ablation`.",
        },
        keys: Keys::Single,
        value: |items, head| effect(items.values(), head),
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "task_right_effect",
            measures: "How much the share of items, or of tagged words, that the model has right changes when the head is removed.",
            formula: "task_right_effect = share of items, or of words, that are right without the head - the share with it; right is a score above 0, of \
                classes the label having the largest p",
            chance: "0: the head is not missed",
            source: "As `task_effect`: Michel et al. 2019 report the change in accuracy.",
            caveats: "Most heads change the score of an item without making it right or wrong, so this is coarser than `task_effect`.",
        },
        keys: Keys::Single,
        value: |items, head| right_effect(items.values(), head),
        chance: None,
    },
];
