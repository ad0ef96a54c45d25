//! Study `norms`: the norm of each head's output, and the types of heads that attend to a sink (docs/methodology/norms.md).

mod metrics;
pub mod observe;
mod shares;
mod sinks;
mod sums;

use std::fmt::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::HeadGrid;
use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::Pass;
use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::blocks::BLOCKS;
use crate::stats::exact::ExactSum;
use crate::stats::interval::Interval;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::section::{Section, View, ViewContext, downcast_section, stored};
use crate::study::show::summary::Summary;
use crate::study::show::table::TableRows;
use crate::study::show::wording::{aligned_table, percent, plus_minus_percent};
use crate::study::{Card, Caveat, CaveatSubject, ObservedPasses, PassSpec, Study, columns};
use crate::system::parallel::parallel_map;
use metrics::{METRICS, NormInputs};
use shares::OutputShares;
use sums::{MixingSums, NormsSums};

pub struct Norms;

impl Study for Norms {
    type Section = NormsSection;

    const CARD: Card = Card {
        name: "norms",
        question: "How much does each head write, and is its attention to sinks more than a way to park it?",
        needs: "any corpus; the types of sinks also need the study `attention`",
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        is_share_metric: |metric| {
            metric.ends_with("_mass") || matches!(metric, "cancellation" | "constant_share" | "sentence_share")
        },
        labels: &[
            sinks::NO_OP_DETECTOR,
            sinks::PARKED_DETECTOR,
            sinks::OPPOSED_DETECTOR,
            sinks::CONSTANT_DETECTOR,
            sinks::BROADCAST_DETECTOR,
            sinks::USED_DETECTOR,
        ],
        caveats: CAVEATS,
        tables: &["mixing"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new_by_class(Pass::PLAIN, |subject, visibility| NormsSums::new(subject.grid, visibility))]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByLayerClass<NormsSums> = observed.first_sums();
        let grid = context.grid;
        let classes = sums.map(|sums| (sums, sums.blocks.with_total()));
        let class_of = |place: usize| classes.for_layer(grid.layer_and_head(place).0);
        let shares = parallel_map(context.threads, 0..grid.head_count(), |place| {
            let (sums, blocks) = class_of(place);
            OutputShares::new(sums, blocks.total(), place)
        });
        let inputs = |number: Option<usize>, place: usize| {
            let (_, blocks) = class_of(place);
            let (block, first) = (blocks.sums(number), grid.index(grid.layer_and_head(place).0, 0));
            NormInputs {
                exposure: &block.exposure,
                corpus_exposure: &blocks.total().exposure,
                sums: &block.heads[place],
                layer_sums: &block.heads[first..first + grid.heads],
                shares: &shares[place],
                block_index: number.unwrap_or(BLOCKS),
            }
        };
        let of_head = |number: Option<usize>, place: usize| inputs(number, place).metric_values();
        // Only the chance level depends on the head: all heads of a class have equal denominators.
        let first_head_of = |class: usize| {
            let layer = (0..grid.layers).find(|&layer| sums.classes().class_index(layer) == class);
            grid.index(layer.expect("a class has layers"), 0)
        };
        let of_chance = |number: Option<usize>, class: usize| {
            of_head(number, first_head_of(class)).iter().map(metric::Fraction::without_numerator).collect()
        };
        let chance = (0..grid.head_count()).map(|place| inputs(None, place).chance_levels());
        let estimates = Estimates::new_by_class(&columns(self), context, sums.classes(), of_head, of_chance);
        let mixing = (0..grid.layers).map(|layer| LayerMixing::new(sums.for_layer(layer), layer)).collect();
        (estimates.with_own_chance(&columns(self), chance), NormsSection { mixing })
    }
}

const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "sink-types",
        text: "The type of a sink says how much of what the head writes comes from there and whether it differs, \
            not whether the model needs it: a constant part may matter, and an output that is small for its layer too.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| labelling.has_label(|label| label.starts_with("sink:")),
    },
    Caveat {
        id: "mixing-norms",
        text: "Mixing ratios are of the sizes of vectors, not of what they mean, and leave the feed-forward block out. In models \
            that normalise before their blocks the residual stream grows from layer to layer and is not normalised after the \
            sum: compare layers of one model, not models of different kinds.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| downcast_section::<NormsSection>(labelling.section).has_mixing_ratio(),
    },
];

/// Report section `mixing`: how much of a token's vector each layer mixes in from other tokens.
pub struct NormsSection {
    pub mixing: Vec<LayerMixing>,
}

/// How much of a token's vector one layer mixes in from other tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerMixing {
    /// Layer, counted from 0.
    pub layer: usize,
    /// Mean of `|mixed| / (|mixed| + |preserved|)` over text tokens; null without text. `mixed` comes from other tokens by
    /// attention. `preserved` is the token's residual vector plus its attention to itself. Both include the normalisation of
    /// their sum, or of what attention writes, if any.
    #[schemars(range(min = 0, max = 1))]
    pub mixing_ratio: Option<f64>,
    /// 95 % interval of `mixing_ratio`.
    pub ci95: Option<Interval>,
    /// Mean mixing ratio if all heads of the layer attended uniformly to the keys that a token sees.
    #[schemars(range(min = 0, max = 1))]
    pub even: Option<f64>,
}

impl LayerMixing {
    pub fn new(sums: &NormsSums, layer: usize) -> Self {
        let queries = sums.blocks.map_blocks(|block| block.exposure.queries as f64);
        let mean = |part: fn(&MixingSums) -> ExactSum| {
            let ratios = sums.blocks.map_blocks(|block| part(&block.layers[layer]).value());
            let mean = Jackknife::new(&ratios, &queries).with_scale(Scale::Share);
            (Some(mean.value()).filter(|mean| mean.is_finite()), mean.interval())
        };
        let ((mixing_ratio, ci95), (even, _)) = (mean(|sums| sums.ratio), mean(|sums| sums.even));
        Self { layer, mixing_ratio, ci95, even }
    }
}

impl NormsSection {
    /// Whether any layer has a mixing ratio.
    pub fn has_mixing_ratio(&self) -> bool {
        self.mixing.iter().any(|layer| layer.mixing_ratio.is_some())
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        writeln!(
            out,
            "Mixing ratio: the share of a token's vector that comes from other tokens, after attention, residual connection and \
             normalisation (where that follows), in %, ± half of the 95 % interval, beside the ratio of even attention:\n"
        )?;
        let row = |LayerMixing { layer, mixing_ratio, ci95, even }: &LayerMixing| {
            [format!("L{layer}"), percent(*mixing_ratio) + &plus_minus_percent(*ci95), percent(*even)]
        };
        out.add_table(aligned_table(["", "mixing ratio", "even attention"], self.mixing.iter().map(row), 1..));
        Ok(())
    }
}

stored!(NormsSection { mixing: Vec<LayerMixing> });

impl Section for NormsSection {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        let summary = if self.has_mixing_ratio() {
            Summary::from_writer(|out| self.write_summary(out))
        } else {
            Summary::default()
        };
        View { summary, tables: vec![TableRows::new("mixing", &self.mixing)], ..View::default() }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let is_whole = self.mixing.iter().map(|one| one.layer).eq(0..grid.layers);
        (!is_whole).then(|| "`mixing` does not have each layer of the model once".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::visitor::MixingRatios;
    use crate::model::grid::visibility::Visibility;
    use crate::passes::observer::{Event, Sums};
    use crate::sequences::sequence::TokenKind::{FirstSpecial, Text};
    use crate::sequences::test_support::sequence;
    use crate::studies::registry::default_policy;

    const GRID: HeadGrid = HeadGrid { layers: 2, heads: 1 };

    #[test]
    fn a_layers_ratio_is_the_mean_over_tokens_of_text() {
        let mut sums = NormsSums::new(GRID, Visibility::ALL);
        let mut state = sums.begin(&sequence(&[FirstSpecial, Text, Text])).unwrap();
        let mixing = MixingRatios { ratios: &[0.875, 0.5, 0.25], uniform_ratios: &[0.0, 0.75, 0.5] };
        sums.observe(&mut state, &mut Event::Mixing { layer: 1, mixing });
        let of_layer = |layer| LayerMixing::new(&sums, layer);
        let expected = LayerMixing { layer: 1, mixing_ratio: Some(0.375), ci95: None, even: Some(0.625) };
        assert_eq!(of_layer(1), expected);
        let section = NormsSection { mixing: vec![of_layer(0), of_layer(1)] };
        let summary = section.view(ViewContext::new(&default_policy())).summary.to_string();
        assert!(summary.lines().any(|line| line.split_whitespace().eq(["L1", "37.5", "62.5"])), "{summary}");
        assert_eq!(section.defect(GRID), None);
        let short = NormsSection { mixing: vec![of_layer(1)] };
        assert_eq!(short.defect(GRID).unwrap(), "`mixing` does not have each layer of the model once");
    }

    #[test]
    fn without_text_there_is_no_ratio() {
        let mut sums = NormsSums::new(GRID, Visibility::ALL);
        let _ = sums.begin(&sequence(&[FirstSpecial]));
        let layer = LayerMixing::new(&sums, 0);
        assert_eq!(layer, LayerMixing { layer: 0, mixing_ratio: None, ci95: None, even: None });
        let section = NormsSection { mixing: vec![layer] };
        assert!(!section.has_mixing_ratio() && section.view(ViewContext::new(&default_policy())).summary.is_empty());
    }
}
