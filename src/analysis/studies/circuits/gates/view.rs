//! View of the report section `gates`: summary, brief sentence, figure, head cards and table.

use std::fmt::{self, Write};

use itertools::Itertools;

use super::section::{FitAgreement, FoldOfGates, GatedHead, GatesResult, MAX_LOSS_RISE, NoSet, SetsAlone};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::Replacement;
use crate::sequences::reading::Context;
use crate::studies::ablation::losses::loss_unit;
use crate::studies::ablation::removal::scored_counts_text;
use crate::study::section::{HeadCard, LateFact, Section, View, ViewContext};
use crate::study::show::wording::{TableColumn, capitalize, column_table, decimal, plus_minus, whole_percent};
use crate::study::show::{Chart, Figure, Forest, ForestRow, InBrief, Mark, Summary, TableRows};
use crate::system::counts::format_count;

impl Section for GatesResult {
    fn add_late_fact(&mut self, known: &LateFact<'_>) {
        if let LateFact::Policy(policy) = known {
            self.judge(policy);
        }
    }

    fn view(&self, ViewContext { run, .. }: ViewContext<'_>) -> View<'_> {
        let alone = self.alone.as_ref().filter(|_| self.together);
        View {
            in_brief: InBrief { finding: alone.map(|alone| self.verdict_sentence(alone)), ..InBrief::default() },
            summary: Summary::from_writer(|out| self.write_summary(out, run.read)),
            figures: self.figure().into_iter().collect(),
            tables: vec![TableRows::new("gates", &self.heads)],
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let head = self.heads.iter().find(|head| head.place == place);
        let Some((kept, head)) = head.and_then(|head| Some((head.kept?, head))) else { return HeadCard::default() };
        let gates = head.mean_gates().map(|gate| decimal(gate, 2)).join(" and ");
        HeadCard::from_iter([format!(
            "kept in {kept} of {} fits of all gates together (mean gate {gates} in the halves of the sample)",
            self.fit_count()
        )])
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let GatesResult { heads, folds, .. } = self;
        let has_gates = |fold: &FoldOfGates| fold.fits.iter().all(|fit| fit.gates.len() == grid.head_count());
        if !grid.equals_all_heads(heads.iter().map(|head| head.place)) || !folds.iter().all(has_gates) {
            return Some("`gates` does not have each head of the model once, layer by layer".to_owned());
        }
        let sets = folds.iter().flat_map(|fold| &fold.set);
        let stray =
            grid.first_outside(sets.chain(self.alone.iter().flat_map(SetsAlone::heads_in_either_set)).copied())?;
        Some(format!("the sets of `gates` have {stray}, which the model has not"))
    }
}

impl GatedHead {
    /// Mean gate of the head over the fits to each half of the sample. A half without fits has no entry.
    fn mean_gates(&self) -> impl Iterator<Item = f64> {
        [self.gate_even, self.gate_odd].into_iter().flatten()
    }
}

impl SetsAlone {
    /// Heads in the kept set of at least one half of the sample.
    fn heads_in_either_set(&self) -> impl Iterator<Item = &HeadPlace> {
        self.in_both.iter().chain(&self.in_one)
    }

    /// The margin as text: its share of the reference quantity, and its value in `unit`.
    fn margin_text(&self, unit: &str) -> String {
        format!("{:.0} % of {} ({} {unit})", 100.0 * MAX_LOSS_RISE, self.of.noun_phrase(), decimal(self.margin, 4))
    }

    /// Names the heads in the kept sets of the two halves of the sample: `2 heads in the sets of both halves (L0H1
    /// L1H2), 1 in one (L0H0)`.
    fn named_heads_text(&self) -> String {
        let joined = |heads: &[HeadPlace]| heads.iter().join(" ");
        let both = match self.in_both.len() {
            0 => "no head in the sets of both halves".to_owned(),
            count => format!("{} in the sets of both halves ({})", format_count(count, "head"), joined(&self.in_both)),
        };
        match self.in_one.len() {
            0 => both,
            count => format!("{both}, {count} in one ({})", joined(&self.in_one)),
        }
    }
}

impl GatesResult {
    /// Unit of the loss: cosines for a task of triples, nats otherwise.
    fn loss_unit_name(&self) -> &'static str {
        loss_unit(self.task)
    }

    /// Denominator of a mean loss: `an item` or `a token`.
    fn loss_denominator(&self) -> &'static str {
        if self.task.is_some() { "an item" } else { "a token" }
    }

    /// Sentence for the positive verdict: the heads that do the task together, and the rise of the loss without all
    /// other heads.
    fn verdict_sentence(&self, alone: &SetsAlone) -> String {
        let unit = self.loss_unit_name();
        format!(
            "Heads that do the task together: {}. Alone on the other half they cost {:+.4}{} {unit} {}, below {}.",
            alone.named_heads_text(),
            alone.rise,
            plus_minus(alone.rise_ci95, 4),
            self.loss_denominator(),
            alone.margin_text(unit)
        )
    }

    /// Reason why no heads are said to do the task together, as a clause; `None` if some heads are.
    fn no_verdict_reason(&self) -> Option<String> {
        let [token, sentence] = if self.task.is_some() { ["item", "unit"] } else { ["token", "sentence"] };
        Some(match self.obstacle? {
            NoSet::NothingScored => {
                format!("a half of the sample has no {token} to score (`--sample` draws more, where there are more)")
            }
            NoSet::NothingLost => {
                "in a half of the sample the loss does not rise without any head, so there is no price for a head"
                    .to_owned()
            }
            NoSet::NotAboveBaseline => "the model is not shown to be above the baseline of the task".to_owned(),
            NoSet::OneAnswer => "one answer is right for most items of the task: mix the answers".to_owned(),
            NoSet::TooFew => {
                format!(
                    "{} of {} are too few",
                    format_count(self.masked_tokens, token),
                    format_count(self.sentences, sentence)
                )
            }
            NoSet::NoInterval => "the rise of the loss has no interval over so few blocks".to_owned(),
            NoSet::RiseNotBelow => {
                let margin =
                    self.alone.as_ref().map_or_else(String::new, |alone| alone.margin_text(self.loss_unit_name()));
                format!("the rise of the loss is not shown to be below {margin}")
            }
        })
    }

    fn write_summary(&self, out: &mut Summary, read: Context) -> fmt::Result {
        let unit = self.loss_unit_name();
        let why_none = self.no_verdict_reason();
        let (Some(loss), true) = (self.loss, self.fit_count() > 0) else {
            return writeln!(out, "No gates were fitted: {}.", why_none.unwrap_or_default());
        };
        writeln!(
            out,
            "Gates of all heads (towards the {}) fitted together to each half of the sample, from several starts: least loss and price of \
             open gates. {}, {loss:.3} {unit} {} with all heads.\n",
            self.removal.map_or("", Replacement::name),
            scored_counts_text([self.masked_tokens, self.sentences], self.objective, self.task, read),
            self.loss_denominator(),
        )?;
        out.add_table(table(&self.folds));
        if let Some(agreement) = self.folds_agree {
            writeln!(out, "\nA fit of one half and one of the other agree on {}.", agreement.agreement_text())?;
        }
        self.write_heads_by_fits(out)?;
        let Some(alone) = &self.alone else {
            return writeln!(out, "No heads are said to do the task together: {}.", why_none.unwrap_or_default());
        };
        let random = alone.random_rises.iter().map(|rise| format!("{rise:+.4}")).join(", ");
        let right =
            alone.right_change.map_or_else(String::new, |right| format!(", {:+.1} points right", 100.0 * right));
        match why_none {
            None => writeln!(out, "{}", self.verdict_sentence(alone))?,
            Some(why) => writeln!(
                out,
                "No heads are said to do the task together: {why}. {} alone on the other half cost {:+.4}{} {unit} {}{right}.",
                capitalize(&alone.named_heads_text()),
                alone.rise,
                plus_minus(alone.rise_ci95, 4),
                self.loss_denominator()
            )?,
        }
        writeln!(out, "Random sets of as many heads: {random} {unit}.")
    }

    /// Writes the names of the heads by the number of fits that keep them, largest number first.
    fn write_heads_by_fits(&self, out: &mut Summary) -> fmt::Result {
        let fits = self.fit_count();
        for count in (1..=fits).rev() {
            let heads = self.heads.iter().filter(|head| head.kept == Some(count)).map(|head| head.place).join(" ");
            if !heads.is_empty() {
                writeln!(out, "Kept in {count} of {fits} fits: {heads}.")?;
            }
        }
        Ok(())
    }

    fn figure(&self) -> Option<Figure> {
        let fits = self.fit_count();
        let mean = |head: &GatedHead| head.mean_gates().sum::<f64>();
        let known = self.heads.iter().filter_map(|head| Some((head.kept?, head)));
        let order = known.sorted_by(|a, b| b.0.cmp(&a.0).then(mean(b.1).total_cmp(&mean(a.1)))).collect_vec();
        let row = |(kept, head): &(usize, &GatedHead)| ForestRow {
            name: head.place.to_string(),
            note: format!("kept in {kept} of {fits}"),
            marks: vec![Mark::from_value(head.gate_even, None), Mark::from_value(head.gate_odd, None)],
        };
        let scale = "mean gate: 0 what replaces the head, 1 the head";
        let rows = order.iter().map(row).collect();
        let (forest, left_out) = Forest::heads_with_zero_line(scale, &["even blocks", "odd blocks"], rows, "gates");
        (!order.is_empty()).then(|| Figure {
            name: "gates",
            title: "Which heads stay open when all gates are fitted together".to_owned(),
            reading: format!(
                "Each row has the mean gate of a head in the fits to either half of the sample, where the loss and the price of open gates \
                 are least together. That is no verdict on the head.{left_out}"
            ),
            chart: Chart::Forest(forest),
        })
    }
}

impl FitAgreement {
    /// Agreement of the fits as text: `96 % of the heads (Cohen's kappa 0.92)`.
    fn agreement_text(self) -> String {
        let kappa = self.kappa.map_or_else(String::new, |kappa| format!(" (Cohen's kappa {})", decimal(kappa, 2)));
        format!("{} of the heads{kappa}", whole_percent(self.share))
    }
}

/// Table of both halves of the sample: price of an open gate, number of fits, and agreement of the fits.
fn table(folds: &[FoldOfGates]) -> comfy_table::Table {
    const COLUMNS: [TableColumn<FoldOfGates>; 7] = [
        ("blocks", true, |fold| fold.blocks.clone()),
        ("price of a head", false, |fold| fold.price.map_or_else(|| "-".to_owned(), |price| decimal(price, 4))),
        ("fits", false, |fold| fold.fits.len().to_string()),
        ("in a minimum", false, |fold| fold.fits.iter().filter(|fit| fit.converged).count().to_string()),
        ("evaluations", false, |fold| fold.fits.iter().map(|fit| fit.evaluations).sum::<u64>().to_string()),
        ("heads in 4 of 5", false, |fold| fold.set.len().to_string()),
        ("starts agree on", true, |fold| {
            fold.starts_agree.map_or_else(|| "-".to_owned(), FitAgreement::agreement_text)
        }),
    ];
    column_table(&COLUMNS, &folds.iter().collect_vec())
}
