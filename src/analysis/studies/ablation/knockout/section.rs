//! Report section `knockout`: whether the model uses the arcs that each syntactic label claims for an attention head.

use std::fmt::{self, Write};

use super::sums::{ArcLosses, KnockoutSums, LabelArcLosses};
use crate::model::grid::HeadGrid;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::BLOCKS;
use crate::stats::interval::Interval;
use crate::stats::significance::q_values_above_margin;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, UseOffOffset, UseTest};
use crate::study::section::{LabelUse, LateFact, Section, View, ViewContext, stored};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::wording::{aligned_table, plus_minus, signed_decimal, significance_text};
use crate::study::upstream::ArcClaim;
use crate::study::{EstimationContext, Policy, Summary, TableRows};
use crate::system::counts::{format_count, plural};

#[derive(Clone, Debug, PartialEq)]
pub struct KnockoutSection {
    pub knockout: Vec<LabelUse>,
}

impl KnockoutSection {
    pub fn new(sums: &KnockoutSums, context: &EstimationContext) -> Self {
        let of_claim = |(number, claim): (usize, &ArcClaim)| LabelUse {
            place: context.grid.head_place(claim.place),
            label: claim.label.clone(),
            direction: claim.direction,
            test: test_arc_use(&std::array::from_fn(|block| sums.blocks[block][number])),
        };
        Self { knockout: sums.claims.iter().enumerate().map(of_claim).collect() }
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        if self.knockout.is_empty() {
            return writeln!(out, "No head has a syntactic label, so no use of an arc was tested.");
        }
        let used = self.knockout.iter().filter(|label| label.test.used == Some(true)).count();
        let tested = self.knockout.iter().filter(|label| label.test.used.is_some()).count();
        writeln!(
            out,
            "Use of arcs: the loss of a masked or replaced word once the head's weights on its partner and on a word as far away are \
             exchanged, less that before, in nats a word, all other weights dealt out at random in both; over all arcs, and over \
             those off the best offset. {}:\n",
            if tested == 0 {
                "No label was tested".to_owned()
            } else {
                let labels = format_count(tested, "label");
                format!("{used} of {labels} tested {} of arcs that are used", plural(&used, "is", "are"))
            }
        )?;
        out.table_with_optional_columns(table(&self.knockout), COLUMN_DROP_ORDER);
        writeln!(out)?;
        let untested = self.knockout.len() - tested;
        if untested > 0 {
            let least = format_count(policy.count(&MIN_QUERIES), "such arc");
            writeln!(
                out,
                "Labels not tested: {untested}, with fewer than {least} in the sample (`--sample` sets its size), or with \
                 arcs of too few sentences."
            )?;
        }
        Ok(())
    }
}

/// Mean rise of the loss per arc when the attention on a label's arcs is exchanged, with its test.
fn test_arc_use(blocks: &[LabelArcLosses; BLOCKS]) -> UseTest {
    let left_out = |part: fn(&LabelArcLosses) -> ArcLosses| {
        let more = blocks.each_ref().map(|losses| part(losses).loss_increase());
        let arcs = blocks.each_ref().map(|losses| part(losses).arcs as f64);
        Jackknife::new(&more, &arcs)
    };
    let arcs = |part: fn(&LabelArcLosses) -> ArcLosses| blocks.iter().map(|losses| part(losses).arcs).sum::<u64>();
    let (all, off_offset) = (left_out(LabelArcLosses::total), left_out(|losses| losses.off_offset));
    let loss = |left_out: &Jackknife| Some(left_out.value()).filter(|loss| loss.is_finite());
    UseTest {
        arcs: arcs(LabelArcLosses::total),
        blocks: all.blocks(),
        loss: loss(&all),
        ci95: all.interval(),
        standard_error: all.standard_error(),
        p: all.p_above(0.0),
        off_offset: UseOffOffset {
            arcs: arcs(|losses| losses.off_offset),
            loss: loss(&off_offset),
            ci95: off_offset.interval(),
        },
        ..UseTest::default()
    }
}

/// Indices of the table columns, in the order in which a table that is too wide drops them: first arcs, then arcs off
/// offset, use off offset, direction, used, use and q.
const COLUMN_DROP_ORDER: &[usize] = &[3, 6, 7, 2, 8, 4, 5];

/// Formats a loss with the half-width of its 95 % interval; `-` without a loss.
fn loss_text(loss: Option<f64>, ci95: Option<Interval>) -> String {
    let Some(loss) = loss else { return "-".to_owned() };
    signed_decimal(loss, 3) + &plus_minus(ci95, 3)
}

fn table(labels: &[LabelUse]) -> comfy_table::Table {
    let row = |LabelUse { place, label, direction, test }: &LabelUse| {
        let UseTest { arcs, loss, ci95, q, used, off_offset, .. } = test;
        [
            place.to_string(),
            label.clone(),
            direction.name().to_owned(),
            arcs.to_string(),
            loss_text(*loss, *ci95),
            q.map_or_else(|| "-".to_owned(), significance_text),
            off_offset.arcs.to_string(),
            loss_text(off_offset.loss, off_offset.ci95),
            match used {
                Some(true) => "yes",
                Some(false) => "not shown",
                None => "not tested",
            }
            .to_owned(),
        ]
    };
    let header = ["head", "label", "direction", "arcs", "use", "q", "arcs off offset", "use off offset", "used"];
    aligned_table(header, labels.iter().map(row), 3..8)
}

stored!(KnockoutSection { knockout: Vec<LabelUse> });

impl Section for KnockoutSection {
    fn add_late_fact(&mut self, completion: &LateFact<'_>) {
        let LateFact::Policy(policy) = completion else { return };
        let least = policy.count(&MIN_QUERIES);
        let p_above = |LabelUse { test, .. }: &LabelUse| {
            test.p.filter(|_| test.arcs >= least && test.loss.is_some_and(|loss| loss > 0.0))
        };
        let p: Vec<Option<f64>> = self.knockout.iter().map(p_above).collect();
        for (LabelUse { test, .. }, q) in self.knockout.iter_mut().zip(q_values_above_margin(&p)) {
            let used = policy.rule(&LABEL_Q).is_none_or(|most| q.is_some_and(|q| q <= most));
            (test.q, test.used) = (q, (test.p.is_some() && test.arcs >= least).then_some(used && q.is_some()));
        }
    }

    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        View {
            summary: Summary::from_writer(|out| self.write_summary(out, policy)),
            figures: figures(&self.knockout),
            tables: vec![TableRows::new("knockout", &self.knockout)],
            use_tests: self.knockout.clone(),
            ..View::default()
        }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        grid.stray_head_defect("knockout", self.knockout.iter().map(|label| label.place))
    }
}

fn figures(labels: &[LabelUse]) -> Vec<Figure> {
    let row = |LabelUse { place, label, direction, test }: &LabelUse| ForestRow {
        name: format!("{place} {label}"),
        note: format!("{} {}", direction.name(), if test.used == Some(true) { "used" } else { "not shown" }),
        marks: vec![Mark::from_value(test.loss, test.ci95)],
    };
    let tested: Vec<ForestRow> = labels.iter().filter(|label| label.test.used.is_some()).map(row).collect();
    if tested.is_empty() {
        return Vec::new();
    }
    vec![Figure {
        name: "knockout",
        title: "Use of the arcs that heads are labelled for".to_owned(),
        reading: "The loss of a masked word once the weights of the head on its partner and on a word as far away are \
            exchanged, less that before, with the weights on all other words dealt out at random in both, with 95 % intervals: \
            labels whose arcs are used lie to the right of 0."
            .to_owned(),
        chart: Chart::Forest(Forest::with_zero_line(
            "loss more once the weights are exchanged, in nats a word",
            ["use"],
            tested,
        )),
    }]
}
