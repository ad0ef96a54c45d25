//! Attention of each head to each class of words, computed from sums per block.

use super::section::{ClassHead, ClassKind, ClassMetrics, ClassesSection, Ratio};
use super::sums::{ClassBlock, ClassKindBlock, ClassesSums};
use crate::passes::observer::by_class::ByLayerClass;
use crate::stats::block_test::{Jackknife, Scale, effective_blocks};
use crate::stats::blocks::{BLOCKS, BlocksWithTotal, PerBlock};
use crate::study::instruments::position::TargetRates;
use crate::study::labels::content::POSITION_FACTOR;
use crate::study::metrics::estimates::{EstimationContext, jackknife_ratio};
use crate::study::metrics::metric::{Denominator, Fraction};
use crate::system::parallel::parallel_map;

/// Sums for one word class, over the layers with one attention mask.
struct WordClassSums<'a> {
    /// Denominators for all classes of one kind, such as `token`.
    key: BlocksWithTotal<'a, ClassKindBlock>,
    /// Sums for the class.
    class: BlocksWithTotal<'a, ClassBlock>,
    /// Probability that the word at each offset is in the class: with each block left out, then over all blocks,
    /// `[blocks + 1]`.
    rates: Vec<TargetRates>,
}

impl<'a> WordClassSums<'a> {
    fn new(sums: &'a ClassesSums, key: &str, class: &str) -> Self {
        let sums = &sums.keys[key];
        let (blocks, class_metrics) = (&sums.blocks, &sums.classes[class]);
        let (key, class) = (blocks.with_total(), class_metrics.with_total());
        let without = blocks
            .iter()
            .zip(class_metrics.iter())
            .map(|(block, class_metrics)| Some((&block.pairs, &class_metrics.targets)));
        let rates = without
            .chain([None])
            .map(|block| key.total().pairs.rates_from_sums(&class.total().targets, block))
            .collect();
        Self { key, class, rates }
    }

    /// Divides a sum by the number of queries in the block with index `number`; in all blocks for `None`.
    fn mean_over_queries(&self, number: Option<usize>, sum: f64) -> Fraction {
        Fraction::new(sum, self.key.sums(number).queries as f64)
    }

    /// Attention to the class, as expected from the head's attention by offset alone, summed over the queries in block
    /// `number`; in all blocks for `None`.
    fn expected_mass(&self, number: Option<usize>, place: usize) -> f64 {
        let [block, corpus] = [number, None].map(|number| &self.key.sums(number).profiles[place]);
        self.rates[number.unwrap_or(BLOCKS)].expected_score_part(block, corpus)
    }

    /// Divides a sum by the number of queries, with a jackknife interval. `sum` takes a block (all for `None`) and the
    /// class's sums in it. With `leaves_out`, the result keeps the jackknife replicates.
    fn jackknifed_ratio(
        &self,
        scale: Scale,
        leaves_out: bool,
        sum: impl Fn(Option<usize>, &ClassBlock) -> f64,
    ) -> Ratio {
        let found =
            jackknife_ratio(|number| self.mean_over_queries(number, sum(number, self.class.sums(number))), scale);
        Ratio {
            value: found.as_ref().map(Jackknife::value),
            ci95: found.as_ref().and_then(Jackknife::interval),
            standard_error: found.as_ref().and_then(Jackknife::standard_error),
            left_out: found.filter(|_| leaves_out),
        }
    }
}

/// Computes the attention of all heads to all classes.
pub(super) fn measure_classes(sums: &ByLayerClass<ClassesSums>, context: &EstimationContext) -> ClassesSection {
    let keys = &sums.values()[0].keys;
    let names = keys.iter().flat_map(|(key, sums)| sums.classes.keys().map(move |class| (&**key, &**class)));
    ClassesSection {
        classes: parallel_map(context.threads, names, |(key, class)| measure_class(sums, (key, class), context)),
        class_kinds: keys
            .iter()
            .map(|(key, sums)| ClassKind {
                key: key.to_string(),
                classes: sums.classes.len() as u64,
                is_crowded: sums.is_crowded,
            })
            .collect(),
    }
}

/// Computes the attention of all heads to one class, given its kind and its name.
fn measure_class(
    sums: &ByLayerClass<ClassesSums>,
    (key, class): (&str, &str),
    context: &EstimationContext,
) -> ClassMetrics {
    let layers = sums.map(|sums| WordClassSums::new(sums, key, class));
    let of_head = |place: usize| {
        let layer = layers.for_layer(context.grid.layer_and_head(place).0);
        let ratio = |scale: Scale, sum: &dyn Fn(Option<usize>, &ClassBlock) -> f64| {
            layer.jackknifed_ratio(scale, context.keeps_replicates, sum)
        };
        let value = |sum: f64| layer.mean_over_queries(None, sum).value();
        ClassHead {
            place: context.grid.head_place(place),
            mass: ratio(Scale::Share, &|_, class| class.attention_to_class(place)),
            chance: value(layer.class.total().even.value()),
            expected: value(layer.expected_mass(None, place)),
            over_chance: ratio(Scale::Real, &|_, class| class.attention_to_class(place) - class.even.value()),
            over_position: ratio(Scale::Real, &|number, class| {
                class.attention_to_class(place) - POSITION_FACTOR * layer.expected_mass(number, place)
            }),
        }
    };
    // All words are queries, whatever they see, so any class of layers gives the counts.
    let first = &layers.values()[0];
    let queries: PerBlock = std::array::from_fn(|block| first.key.sums(Some(block)).queries as f64);
    let total = first.key.total();
    ClassMetrics {
        key: key.to_owned(),
        class: class.to_owned(),
        words: first.class.total().words,
        queries: Denominator {
            count: total.queries,
            sentences: total.sentences,
            blocks: queries.iter().filter(|&&queries| queries > 0.0).count() as u64,
            effective_blocks: effective_blocks(&queries),
        },
        by_head: (0..context.grid.head_count()).map(of_head).collect(),
    }
}
