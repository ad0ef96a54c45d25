//! How far the model's output moves without each head (docs/methodology/output-shift.md).

mod section;

use crate::passes::pass::{Pass, Portion};
use crate::studies::ablation::removal::EachHead;
use crate::study::metrics::metric;
use crate::study::section::section;
use crate::study::{Card, Caveat, CaveatSubject, Estimates, EstimationContext, Observed, PassSpec, Study, columns};
use section::{METRICS, OutputShiftReport, OutputShiftSums};

pub struct OutputShift;

impl Study for OutputShift {
    type Section = OutputShiftReport;

    const CARD: Card = Card {
        name: "output-shift",
        removes_heads: true,
        formerly: Some("drift"),
        question: "How far do the last hidden states move without each head?",
        needs: "any model and any corpus in files, read twice more: a pass over a sample for every two heads",
        metrics: || metric::listed(METRICS),
        caveats: CAVEATS,
        range: |_| 0.0..=2.0,
        figures: &["output-shift"],
        drawn: &[("output_shift", "Turn of the output without it, 1 − cosine")],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass { portion: Portion::Sample, ..Pass::PLAIN }, |subject| {
            OutputShiftSums::new(subject.grid, EachHead)
        })]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &OutputShiftSums = observed.sums();
        let estimates = Estimates::of_blocks(&columns(self), context, &sums.blocks, metric::values(METRICS));
        let output_shift = OutputShiftReport::new(sums, &estimates, context);
        (estimates, output_shift)
    }
}

const CAVEATS: &[Caveat] = &[Caveat {
    id: "output-shift-no-worth",
    text: "Shift says how far the output turns without a head, not whether that is for better or worse, nor for what: no \
            task is measured; and it depends on what stands for the head.",
    about: CaveatSubject::Meaning,
    applies: |labelling| section::<OutputShiftReport>(labelling.section).tokens > 0,
}];

#[cfg(test)]
mod tests;
