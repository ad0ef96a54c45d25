//! Study `attention`: attention by offset, to special tokens and punctuation, and its spread (docs/methodology/attention.md).

mod labels;
mod metrics;
pub mod sums;
pub mod tokens;

use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::Pass;
use crate::study::aim::Aim;
use crate::study::metrics::metric;
use crate::study::metrics::unit::Unit;
use crate::study::section::NoSection;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, columns,
};
use metrics::{METRICS, chance_levels, metric_values};
use sums::AttentionSums;

pub struct Attention;

impl Study for Attention {
    type Section = NoSection;

    const CARD: Card = Card {
        name: "attention",
        allows_absent_heads: true,
        question: "Where does each head attend: to an offset, to special tokens or punctuation, or broadly?",
        needs: "any corpus",
        is_default: true,
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        labels: &[
            labels::PREVIOUS_TOKEN_DETECTOR,
            labels::NEXT_TOKEN_DETECTOR,
            labels::OFFSET_DETECTOR,
            labels::SELF_TOKEN_DETECTOR,
            labels::LOCAL_DETECTOR,
            labels::SEPARATOR_DETECTOR,
            labels::FIRST_SPECIAL_DETECTOR,
            labels::FIRST_TOKEN_DETECTOR,
            labels::PUNCTUATION_DETECTOR,
            labels::BROAD_DETECTOR,
        ],
        caveats: CAVEATS,
        // Shares of mass can exceed 1: rows of f32 weights sum to 1 up to rounding.
        range: |metric| 0.0..=if metric == "offset_argmax" { 1.0 } else { f64::INFINITY },
        is_share_metric: |metric| !matches!(metric, "mean_distance" | "entropy"),
        unit: |metric| match metric {
            "mean_distance" => Unit::Tokens,
            "entropy" => Unit::Nats,
            _ => Unit::Shares,
        },
        drawn_metrics: &[("offset_mass", "Attention by offset, in tokens")],
        aim: |label| aim_of_label(&label.label).map(|(aim, metric)| (aim, Some(metric))),
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new_by_class(Pass::PLAIN, |subject, visibility| AttentionSums::new(subject.grid, visibility))]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByLayerClass<AttentionSums> = observed.first_sums();
        let blocks = sums.map(|sums| sums.blocks.with_total());
        let of_head = |block: Option<usize>, place: usize| {
            let sums = blocks.for_layer(context.grid.layer_and_head(place).0).sums(block);
            metric_values(&sums.exposure, &sums.heads[place])
        };
        let of_chance = |block: Option<usize>, class: usize| {
            let sums = blocks.values()[class].sums(block);
            chance_levels(&sums.exposure, &sums.uniform)
        };
        (Estimates::new_by_class(&columns(self), context, sums.classes(), of_head, of_chance), NoSection)
    }
}

const CAVEATS: &[Caveat] = &[Caveat {
    id: "no-op",
    text: "Attention to special tokens may be a way of doing nothing (Clark et al. 2019; Kobayashi et al. 2020).",
    subject: CaveatSubject::Meaning,
    applies: |labelling| labelling.has_label(|label| labels::NO_OP_CANDIDATES.contains(&label)),
}];

/// Target of attention that a label claims, and the metric that measures it. `None` for labels of other studies.
fn aim_of_label(label: &str) -> Option<(Aim, String)> {
    let at_offset = |offset: i32| (Aim::Offset(offset), format!("offset_mass.{offset}"));
    let at_metric = |aim: Aim, metric: &str| (aim, metric.to_owned());
    Some(match label {
        "previous-token" => at_offset(-1),
        "next-token" => at_offset(1),
        "self" => at_offset(0),
        "local" => at_metric(Aim::Window, "window_mass"),
        "first-special" => at_metric(Aim::FirstSpecial, "first_special_mass"),
        "first-token" => at_metric(Aim::FirstToken, "first_token_mass"),
        "separator" => at_metric(Aim::Separators, "separator_mass"),
        "punctuation" => at_metric(Aim::Punctuation, "punctuation_mass"),
        "broad" => at_metric(Aim::Spread, "entropy_ratio"),
        _ => at_offset(label.strip_prefix("offset:")?.parse().ok()?),
    })
}
