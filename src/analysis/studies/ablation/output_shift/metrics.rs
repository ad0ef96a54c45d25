//! The metrics of the output shift: one table.

use crate::studies::ablation::output_shifts::{OutputShiftTotals, OutputShifts, ShiftSum};
use crate::studies::ablation::removal::{EachHead, RemovalSums};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, Keys, Metric};

pub type OutputShiftSums = RemovalSums<EachHead, OutputShiftTotals>;

pub fn values(moved: &OutputShiftTotals, head: Option<usize>) -> Vec<Fraction> {
    METRICS.iter().map(|metric| (metric.value)(moved, head)).collect()
}

pub fn output(moved: &OutputShiftTotals, shifts: Option<&OutputShifts>) -> Fraction {
    mean(shifts.map(|shifts| &shifts.output), moved.tokens).over(moved.tokens, moved.sentences)
}

pub fn pooled(moved: &OutputShiftTotals, shifts: Option<&OutputShifts>) -> Fraction {
    mean(shifts.map(|shifts| &shifts.pooled), moved.sequences).over(moved.sequences, moved.sentences)
}

fn mean(shift: Option<&ShiftSum>, eligible: u64) -> Fraction {
    shift.map_or(Fraction::new(0.0, eligible as f64), |shift| Fraction::new(shift.sum.value(), shift.vectors as f64))
}

const CHANCE: &str = "0: nothing moves";
const CAVEATS: &str = "How far is not how much it matters: what moves may be read by nobody. Later heads make up for some of it. \
    It depends on what stands for the head (`settings.ablation`).";

/// A metric of the shifts of a block, or of all blocks, and of the place of a head, `None` for chance.
type OutputShiftMetric = Metric<fn(&OutputShiftTotals, Option<usize>) -> Fraction>;

pub const METRICS: &[OutputShiftMetric] = &[
    Metric {
        explanation: Explanation {
            name: "output_shift",
            measures: "How far the last hidden states of tokens of text turn when the head is removed.",
            formula: "output_shift = mean over i in T of 1 - cos(h_i, h'_i), h_i the last hidden state with the head and h'_i \
                without it",
            chance: CHANCE,
            source: "This project (docs/methodology/output-shift.md).",
            caveats: CAVEATS,
        },
        keys: Keys::Single,
        value: |moved, head| output(moved, head.map(|head| &moved.without[head])),
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "pooled_shift",
            measures: "How far the mean of a sentence's last hidden states turns when the head is removed.",
            formula: "pooled_shift = mean over sentences of 1 - cos(m, m'), m the mean of the last hidden states of all tokens \
                with the head and m' without it",
            chance: CHANCE,
            source: "This project (docs/methodology/output-shift.md); the mean over tokens is how many sentence encoders make \
                the vector of a sentence (Reimers & Gurevych 2019).",
            caveats: CAVEATS,
        },
        keys: Keys::Single,
        value: |moved, head| pooled(moved, head.map(|head| &moved.without[head])),
        chance: None,
    },
];
