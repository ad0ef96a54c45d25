//! How far the model's output moves without each head (docs/methodology/output-shift.md).

use std::fmt::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::Replacement;
use crate::passes::pass::{CorpusPortion, Pass};
use crate::sequences::reading::Context;
use crate::stats::interval::Interval;
use crate::studies::ablation::output_shifts::{OutputShiftTotals, OutputShifts, ShiftSum};
use crate::studies::ablation::removal::{RemovalSums, SingleHeadsAndAll};
use crate::study::metrics::metric::{self, Fraction, HeadMetric};
use crate::study::section::{Section, View, ViewContext, downcast_section, stored};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::wording::{aligned_table, counted_sequences, empty_sample_reason, plus_minus, sequence_noun};
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, Explanation, InBrief, ObservedPasses, PassSpec, Study,
    Summary, columns,
};
use crate::system::counts::format_count;

pub struct OutputShift;

impl Study for OutputShift {
    type Section = OutputShiftReport;

    const CARD: Card = Card {
        name: "output-shift",
        removes_heads: true,
        former_name: Some("drift"),
        question: "How far do the last hidden states move without each head?",
        needs: "any model and any corpus in files, read twice more: a pass over a sample for every two heads",
        metrics: || metric::explanations_with_keys(METRICS),
        caveats: REPORT_CAVEATS,
        range: |_| 0.0..=2.0,
        figures: &["output-shift"],
        drawn_metrics: &[("output_shift", "Turn of the output without it, 1 − cosine")],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass { portion: CorpusPortion::Sample, ..Pass::PLAIN }, |subject| {
            OutputShiftSums::new(subject.grid, SingleHeadsAndAll)
        })]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &OutputShiftSums = observed.first_sums();
        let estimates = Estimates::from_blocks(&columns(self), context, &sums.blocks, metric::table_values(METRICS));
        let output_shift = OutputShiftReport::new(sums, &estimates, context);
        (estimates, output_shift)
    }
}

const REPORT_CAVEATS: &[Caveat] = &[Caveat {
    id: "output-shift-no-worth",
    text: "Shift says how far the output turns without a head, not whether that is for better or worse, nor for what: no \
            task is measured; and it depends on what stands for the head.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<OutputShiftReport>(labelling.section).tokens > 0,
}];

const MAX_LISTED_HEADS: usize = 5;

/// How far the last hidden states move when heads are removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputShiftReport {
    /// Replacement for removed heads.
    pub removal: Option<Replacement>,
    /// Number of sentences with a text token.
    pub sentences: u64,
    /// Number of text tokens.
    pub tokens: u64,
    /// Shift with all heads removed, for comparison with the shifts of single heads.
    pub without_heads: MovedBy,
    /// Heads whose removal moves the last hidden states most, by falling shift; at most five.
    pub most: Vec<HeadShift>,
    /// Heads whose removal moves the last hidden states least, by rising shift; at most five, none of them in `most`.
    pub least: Vec<HeadShift>,
}

/// Shifts of single tokens and of sentence means when heads are removed, with their intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovedBy {
    /// Mean over text tokens of `1 - cos` between the last hidden states with all heads and without the removed ones.
    #[schemars(range(min = 0, max = 2))]
    pub output_shift: Option<f64>,
    /// 95 % interval of `output_shift`.
    pub output_ci95: Option<Interval>,
    /// Mean over sentences of `1 - cos` between the means of the last hidden states with all heads and without the removed ones.
    #[schemars(range(min = 0, max = 2))]
    pub pooled_shift: Option<f64>,
    /// 95 % interval of `pooled_shift`.
    pub pooled_ci95: Option<Interval>,
}

/// Shift of the output when one head is removed; values and intervals are the metrics `output_shift` and `pooled_shift`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadShift {
    /// Head that is removed.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Shift of the output without the head.
    #[serde(flatten)]
    pub moved: MovedBy,
}

impl OutputShiftReport {
    fn in_brief(&self) -> InBrief {
        let OutputShiftReport { without_heads, most, .. } = self;
        let found = most.first().zip(without_heads.output_shift).and_then(|(first, all)| {
            let (place, shift) = (first.place, first.moved.output_shift?);
            Some(format!(
                "Removing {place} moves the last hidden states most: 1 - cosine is {shift:.3}, and {all:.3} without any head."
            ))
        });
        InBrief { finding: found, ..InBrief::default() }
    }

    pub fn new(sums: &OutputShiftSums, estimates: &Estimates, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let head = |place: usize| {
            let (output_shift, output_ci95, _) = estimates.metric_estimate(place, "output_shift");
            let (pooled_shift, pooled_ci95, _) = estimates.metric_estimate(place, "pooled_shift");
            let moved = MovedBy { output_shift, output_ci95, pooled_shift, pooled_ci95 };
            HeadShift { place: context.grid.head_place(place), moved }
        };
        let mut heads: Vec<HeadShift> =
            (0..context.grid.head_count()).map(head).filter(|head| head.moved.output_shift.is_some()).collect();
        heads.sort_by(|a, b| b.moved.output_shift.partial_cmp(&a.moved.output_shift).expect("shifts are numbers"));
        let others = heads.split_off(MAX_LISTED_HEADS.min(heads.len()));
        Self {
            removal: sums.conditions.removal,
            sentences: total.sentences,
            tokens: total.tokens,
            without_heads: shift_without_heads(sums, &total),
            most: heads,
            least: others.into_iter().rev().take(MAX_LISTED_HEADS).collect(),
        }
    }

    fn write_summary(&self, out: &mut Summary, read: Context) -> fmt::Result {
        let Self { removal, sentences, tokens, without_heads, most, least } = self;
        let Some(removal) = removal.filter(|_| *tokens > 0) else {
            let why = empty_sample_reason("a token of text", read);
            return writeln!(out, "No sentence had a token of text, so no head was removed: {why}.");
        };
        let (by, tokens, read) = (removal.name(), format_count(*tokens, "token"), counted_sequences(*sentences, read));
        writeln!(
            out,
            "Heads removed one at a time (by {by}): change of the output, as 1 - cosine, of the last hidden states of {tokens} \
             (output shift) and of the means of {read} (pooled shift). Largest and smallest shifts, ± half of the 95 % interval:\n"
        )?;
        out.add_table(table(most.iter().chain(least), without_heads));
        Ok(())
    }
}

fn shift_without_heads(sums: &OutputShiftSums, total: &OutputShiftTotals) -> MovedBy {
    let estimate = |metric: fn(&OutputShiftTotals, Option<&OutputShifts>) -> Fraction| {
        let without_any = |sums: &OutputShiftTotals| metric(sums, Some(sums.without_all_heads()));
        (without_any(total).value(), Fraction::jackknife(|block| without_any(&sums.blocks[block])).interval())
    };
    let ((output_shift, output_ci95), (pooled_shift, pooled_ci95)) =
        (estimate(mean_token_shift), estimate(mean_sentence_shift));
    MovedBy { output_shift, output_ci95, pooled_shift, pooled_ci95 }
}

fn table<'a>(heads: impl Iterator<Item = &'a HeadShift>, without: &MovedBy) -> comfy_table::Table {
    let cell = |shift: Option<f64>, ci95: Option<Interval>| {
        let spread = plus_minus(ci95, 5);
        shift.map_or_else(|| "-".to_owned(), |shift| format!("{shift:.5}{spread}"))
    };
    let row = |name: String, moved: &MovedBy| {
        [name, cell(moved.output_shift, moved.output_ci95), cell(moved.pooled_shift, moved.pooled_ci95)]
    };
    let rows = heads.map(|HeadShift { place, moved }| row(place.to_string(), moved));
    let rows = rows.chain([row("all heads".to_owned(), without)]);
    aligned_table(["without", "output shift", "pooled shift"], rows, 1..)
}

stored!(OutputShiftReport as output_shift);

impl Section for OutputShiftReport {
    fn view(&self, ViewContext { run, .. }: ViewContext<'_>) -> View<'_> {
        View {
            in_brief: self.in_brief(),
            summary: Summary::from_writer(|out| self.write_summary(out, run.read)),
            figures: figures(self, run.read),
            ..View::default()
        }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let OutputShiftReport { most, least, .. } = self;
        grid.stray_head_defect("output_shift", most.iter().chain(least).map(|head| head.place))
    }
}

fn figures(shift: &OutputShiftReport, read: Context) -> Vec<Figure> {
    let OutputShiftReport { tokens, sentences, without_heads, most, least, .. } = shift;
    let Some(all) = without_heads.output_shift else { return Vec::new() };
    let row = |HeadShift { place, moved }: &HeadShift| {
        let MovedBy { output_shift, output_ci95, pooled_shift, pooled_ci95 } = *moved;
        let marks = vec![Mark::from_value(output_shift, output_ci95), Mark::from_value(pooled_shift, pooled_ci95)];
        ForestRow { name: place.to_string(), note: String::new(), marks }
    };
    let marks = ["tokens".to_owned(), format!("means of {}s", sequence_noun(read))];
    let rows = most.iter().chain(least.iter().rev()).map(row).collect();
    let chart =
        Chart::Forest(Forest::with_zero_line("1 - cosine of the output with and without the head", marks, rows));
    vec![Figure {
        name: "output-shift",
        title: "How far the output turns without a head".to_owned(),
        reading: format!(
            "The last hidden states of {}, and the means of {}, with one head removed: the heads \
             without which they turn most, then those without which they turn least, with 95 % intervals. Without any head the \
             tokens turn by {all:.3}.",
            format_count(*tokens, "token"),
            counted_sequences(*sentences, read)
        ),
        chart,
    }]
}

pub type OutputShiftSums = RemovalSums<SingleHeadsAndAll, OutputShiftTotals>;

/// Mean shift of a text token; `None` for `shifts` gives the chance level, 0.
fn mean_token_shift(moved: &OutputShiftTotals, shifts: Option<&OutputShifts>) -> Fraction {
    mean_shift(shifts.map(|shifts| &shifts.output), moved.tokens).with_evidence(moved.tokens, moved.sentences)
}

/// Mean shift of a sentence's mean vector; `None` for `shifts` gives the chance level, 0.
fn mean_sentence_shift(moved: &OutputShiftTotals, shifts: Option<&OutputShifts>) -> Fraction {
    mean_shift(shifts.map(|shifts| &shifts.pooled), moved.sequences).with_evidence(moved.sequences, moved.sentences)
}

/// Mean of a shift over its vectors; for `None`, 0 over the number of `eligible` vectors.
fn mean_shift(shift: Option<&ShiftSum>, eligible: u64) -> Fraction {
    shift.map_or(Fraction::new(0.0, eligible as f64), |shift| Fraction::new(shift.sum.value(), shift.vectors as f64))
}

const CHANCE_TEXT: &str = "0: nothing moves";
const CAVEATS: &str = "How far is not how much it matters: what moves may be read by nobody. Later heads make up for some of it. \
    It depends on what stands for the head (`settings.ablation`).";

pub const METRICS: &[HeadMetric<OutputShiftTotals>] = &[
    HeadMetric::<OutputShiftTotals>::single(|moved, head| mean_token_shift(moved, head.map(|head| &moved.without[head])))
        .with_explanation(Explanation {
            name: "output_shift",
            measures: "How far the last hidden states of tokens of text turn when the head is removed.",
            formula: "output_shift = mean over i in T of 1 - cos(h_i, h'_i), h_i the last hidden state with the head and h'_i \
                without it",
            chance: CHANCE_TEXT,
            source: "This project (docs/methodology/output-shift.md).",
            caveats: CAVEATS,
        }),
    HeadMetric::<OutputShiftTotals>::single(|moved, head| mean_sentence_shift(moved, head.map(|head| &moved.without[head])))
        .with_explanation(Explanation {
            name: "pooled_shift",
            measures: "How far the mean of a sentence's last hidden states turns when the head is removed.",
            formula: "pooled_shift = mean over sentences of 1 - cos(m, m'), m the mean of the last hidden states of all tokens \
                with the head and m' without it",
            chance: CHANCE_TEXT,
            source: "This project (docs/methodology/output-shift.md); the mean over tokens is how many sentence encoders make \
                the vector of a sentence (Reimers & Gurevych 2019).",
            caveats: CAVEATS,
        }),
];

#[cfg(test)]
mod tests;
