//! Saved reports: reading them, checking that they are complete, and rounding before they are written.

use std::mem::take;

use serde::de::Error as _;

use super::{HeadReport, Report, Sections, Settings, in_brief};
use crate::evaluation::plan;
use crate::stats::block_test::standard_error_from_half_width;
use crate::study::labels::ABSENT;
use crate::study::metrics::metric::{Denominator, Metrics, StandardErrors};
use crate::study::section::{LateFact, SectionFacts, ViewContext};
use crate::study::{columns, saved};
use crate::system::json::read_key;
use crate::system::parallel::run_both;

impl Report {
    /// Completes the sections with the first label of each head. From the completed sections, fills in the report's
    /// `facts`, the heads' descriptions and the opening sentences.
    pub(super) fn fill_derived_fields(&mut self) {
        let (Settings { protocol, policy }, sections) = (&self.settings, &mut self.sections.0);
        let first: Vec<String> = self.heads.iter().map(|head| head.primary.clone()).collect();
        sections.iter_mut().for_each(|(_, section)| section.add_late_fact(&LateFact::Labels(&first)));
        let mut views = sections.iter().map(|(_, section)| section.view(ViewContext::new(policy)));
        self.facts = SectionFacts {
            read: protocol.context(),
            phases: protocol.ablation.map(|ablation| ablation.phases),
            labels: self.heads.iter().map(|head| head.place).zip(first).collect(),
            is_above_baseline: protocol.task.as_ref().and_then(|_| views.find_map(|view| view.is_above_baseline)),
        };
        let known = ViewContext { policy: &self.settings.policy, run: &self.facts };
        self.heads.iter_mut().for_each(|head| head.description = in_brief::head_sentence(head, &self.sections, known));
        self.in_brief = in_brief::opening_sentences(self);
    }

    /// Parses a saved report with the sections of all its studies. Fails if the text is no report, or if it lacks a
    /// key that one of its studies writes.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        // The settings come before what is long, and name the studies.
        let settings: Option<Settings> = read_key(text, "settings");
        let sections = || {
            let settings = settings.ok_or_else(|| serde_json::Error::missing_field("settings"))?;
            let studies = plan::studies(&settings.protocol.studies).map_err(serde_json::Error::custom)?;
            saved::read_sections(&studies, text).map(|sections| (studies, sections))
        };
        let (report, sections) = run_both(|| serde_json::from_str::<Self>(text), sections);
        let (mut report, (studies, sections)) = (report?, sections?);
        // Studies get the names that they have in this version.
        report.settings.protocol.studies = plan::study_names(&studies);
        report.sections = Sections(studies.into_iter().zip(sections).collect());
        // The caller refuses a report with a defect. Its sections cannot be completed.
        if report.defect().is_none() {
            report.fill_derived_fields();
        }
        Ok(report)
    }

    /// Prepares the report to be written with numbers rounded by `round`. It drops the standard errors that can be
    /// computed from the rounded intervals.
    pub fn rounded(mut self, round: impl Fn(f64) -> f64 + Copy) -> Self {
        for head in &mut self.heads {
            let implied = implied_errors(head, &self.denominators, round);
            let is_implied = head.standard_errors.zip_map(&implied, |error, implied| match (error, implied.copied()) {
                (None, Some(None)) => true,
                (&Some(error), Some(Some(implied))) => (error - implied).abs() <= IMPLIED_ERROR_TOLERANCE * error,
                _ => false,
            });
            head.standard_errors.drop_where(&is_implied);
        }
        let all = self.sections.0.iter_mut().map(|(_, section)| section);
        all.for_each(|section| section.add_late_fact(&LateFact::Rounded));
        self
    }

    /// The standard errors of each head: the stored ones, or those computed from the head's intervals.
    pub fn standard_errors(&self) -> impl Iterator<Item = StandardErrors> {
        self.heads.iter().map(move |head| {
            let implied = implied_errors(head, &self.denominators, |number| number);
            let short = |implied: f64| format!("{implied:.3e}").parse().expect("a number");
            implied
                .zip_map(&head.standard_errors, |&implied, written| written.map_or(implied.map(short), |error| *error))
        })
    }

    /// The first fault of an incomplete report; `None` if the report is complete. A complete report has every head,
    /// the same metrics for each, and complete sections.
    pub fn defect(&self) -> Option<String> {
        let grid = self.model.grid();
        let count = grid.layers.checked_mul(grid.heads).filter(|&count| count > 0 && count == self.heads.len());
        if count.is_none() || !grid.equals_all_heads(self.heads.iter().map(|head| head.place)) {
            return Some(format!("`heads` does not list {grid}"));
        }
        let removed = &self.settings.protocol.removed;
        let stray = || grid.stray_head_defect("settings.removed", removed.iter().copied());
        if let Some(defect) = self.model.defect().or_else(stray) {
            return Some(defect);
        }
        let contradicts_model = |head: &&HeadReport| {
            let is_stray = head.is_removed() && !removed.contains(&head.place);
            is_stray || (head.primary == ABSENT) != self.model.absent.contains(&head.place)
        };
        if let Some(head) = self.heads.iter().find(contradicts_model) {
            return Some(format!("`primary` of the head `{}` does not fit `model.absent`", head.place));
        }
        let expected = &self.heads[0].metrics;
        let has_all = |head: &HeadReport| head.metrics.has_same_cells(expected) && head.ci95.has_same_cells(expected);
        // Some studies have no metrics.
        let has_metrics = self.sections.0.iter().any(|(study, _)| !columns(*study).is_empty());
        if has_metrics
            && let Some(head) = self.heads.iter().find(|head| expected.cells().next().is_none() || !has_all(head))
        {
            return Some(missing_metric_message(head));
        }
        let of_maps = self.attention_maps.as_ref().and_then(|maps| maps.defect(grid));
        of_maps.or_else(|| self.sections.0.iter().find_map(|(_, section)| section.defect(grid)))
    }

    /// Sorts all metrics into the order of the metric tables. Fails if an expected metric is missing, or if a
    /// metric is unknown.
    pub fn order_metrics(&mut self) -> Result<(), String> {
        let expected = self.sections.0.iter().flat_map(|(study, _)| columns(*study)).collect::<Vec<_>>();
        for head in &mut self.heads {
            let place = head.place;
            let stray = |value: &str| format!("the head `{place}` has a {value} of what is no metric");
            let ordered = take(&mut head.metrics)
                .sorted_by_columns(&expected)
                .zip(take(&mut head.ci95).sorted_by_columns(&expected));
            (head.metrics, head.ci95) = ordered.ok_or_else(|| missing_metric_message(head))?;
            let chance = take(&mut head.chance).sorted_by_present_columns(&expected);
            head.chance = chance.ok_or_else(|| stray("chance level"))?;
            let denominators = take(&mut head.denominators).sorted_by_present_columns(&expected);
            head.denominators = denominators.ok_or_else(|| stray("denominator"))?;
        }
        let chance = take(&mut self.chance)
            .sorted_by_columns(&expected)
            .zip(take(&mut self.chance_ci95).sorted_by_columns(&expected));
        (self.chance, self.chance_ci95) = chance.ok_or("`chance` does not have every metric")?;
        Ok(())
    }
}

/// Largest relative difference at which a standard error counts as implied by its interval and is left out. It is
/// the error of rounding to four digits.
const IMPLIED_ERROR_TOLERANCE: f64 = 5e-4;

/// Largest relative difference between the two halves of an interval that counts as symmetric. Halves differ
/// because the ends and the value are rounded.
const SYMMETRY_TOLERANCE: f64 = 1e-2;

/// The standard error of each metric of a head, computed from the metric's interval after rounding by `round`. Null
/// where the interval is not symmetric about the value.
fn implied_errors(head: &HeadReport, common: &Metrics<Denominator>, round: impl Fn(f64) -> f64) -> StandardErrors {
    let own = common.zip_map(&head.denominators, |common, own| own.copied().flatten().unwrap_or(*common));
    let halves = head.ci95.zip_map(&head.metrics, |interval, value| {
        let (interval, value) = ((*interval)?, round(value.copied().flatten()?));
        let [below, above] = [value - round(interval.low()), round(interval.high()) - value];
        let half = below.midpoint(above);
        ((above - below).abs() <= SYMMETRY_TOLERANCE * half).then_some(half)
    });
    halves.zip_map(&own, |half, denominator| {
        let freedom = denominator?.effective_blocks - 1.0;
        half.filter(|_| freedom > 0.0).map(|half| standard_error_from_half_width(half, freedom))
    })
}

/// The message for a head that lacks a metric.
fn missing_metric_message(head: &HeadReport) -> String {
    format!("the head `{}` does not have every metric", head.place)
}
