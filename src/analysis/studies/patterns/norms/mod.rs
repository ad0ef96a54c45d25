//! The norms of what each head writes, and the heads whose attention rests on a sink (docs/methodology/norms.md).

mod head_sums;
mod metrics;
pub mod observe;
mod section;
mod shares;
mod sinks;
mod sums;

use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByClass;
use crate::passes::pass::Pass;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric;
use crate::study::section::section as section_of;
use crate::study::{Card, Caveat, CaveatSubject, Observed, PassSpec, Study, columns};
use crate::system::parallel::in_parallel;
use metrics::{METRICS, NormInputs};
use section::{LayerMixing, NormsSection};
use shares::Shares;
use sums::AllNorms;

/// How much each head writes, and where it comes from.
pub struct Norms;

impl Study for Norms {
    type Section = NormsSection;

    const CARD: Card = Card {
        name: "norms",
        question: "How much does each head write, and is its attention to sinks more than a way to park it?",
        needs: "any corpus; the types of sinks also need the study `attention`",
        controls: &ControlKind::ALL,
        metrics: || metric::listed(METRICS),
        is_share: |metric| {
            metric.ends_with("_mass") || matches!(metric, "cancellation" | "constant_share" | "sentence_share")
        },
        labels: &[sinks::NO_OP, sinks::PARKED, sinks::OPPOSED, sinks::CONSTANT, sinks::BROADCAST, sinks::USED],
        caveats: CAVEATS,
        tables: &["mixing"],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::by_class(Pass::PLAIN, |subject, visibility| AllNorms::new(subject.grid, visibility))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByClass<AllNorms> = observed.sums();
        let grid = context.grid;
        let classes = sums.map(|sums| (sums, sums.blocks.with_total()));
        let of_place = |place: usize| classes.of_layer(grid.at(place).0);
        let shares = in_parallel(context.threads, 0..grid.count(), |place| {
            let (sums, blocks) = of_place(place);
            Shares::new(sums, blocks.total(), place)
        });
        let seen = |number: Option<usize>, place: usize| {
            let (_, blocks) = of_place(place);
            NormInputs::new((number, blocks.at(number), blocks.total()), grid, place, &shares[place])
        };
        let of_head = |number: Option<usize>, place: usize| seen(number, place).values();
        // The chance level depends on the head; the denominators are those of any head of the class.
        let first_of = |class: usize| {
            let layer = (0..grid.layers).find(|&layer| sums.classes().of(layer) == class);
            grid.index(layer.expect("a class has layers"), 0)
        };
        let of_chance = |number: Option<usize>, class: usize| {
            of_head(number, first_of(class)).iter().map(metric::Fraction::unknown).collect()
        };
        let chance = (0..grid.count()).map(|place| seen(None, place).chances());
        let estimates = Estimates::by_class(&columns(self), context, sums.classes(), of_head, of_chance);
        let mixing = (0..grid.layers).map(|layer| LayerMixing::new(sums.of_layer(layer), layer)).collect();
        (estimates.with_own_chance(&columns(self), chance), NormsSection { mixing })
    }
}

/// The limits of what the study shows.
const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "sink-types",
        text: "The type of a sink says how much of what the head writes comes from there and whether it differs, \
            not whether the model needs it: a constant part may matter, and an output that is small for its layer too.",
        about: CaveatSubject::Meaning,
        applies: |labelling| labelling.has_label(|label| label.starts_with(sinks::FAMILY)),
    },
    Caveat {
        id: "mixing-norms",
        text: "Mixing ratios are of the sizes of vectors, not of what they mean, and leave the feed-forward block out. In models \
            that normalise before their blocks the residual stream grows from layer to layer and is not normalised after the \
            sum: compare layers of one model, not models of different kinds.",
        about: CaveatSubject::Meaning,
        applies: |labelling| section_of::<NormsSection>(labelling.section).has_any(),
    },
];
