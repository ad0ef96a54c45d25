//! A report that was saved: read, found whole or not, and written with fewer digits.

use std::collections::BTreeSet;
use std::mem::take;

use serde::de::Error as _;

use super::{HeadReport, Report, Sections, Settings};
use crate::evaluation::plan;
use crate::study::labels::ABSENT;
use crate::study::section::{Completion, Section};
use crate::study::{AnyStudy, columns, saved};
use crate::system::json::value_of;
use crate::system::parallel::both;

/// Tells the sections what they need of the settings, of each other and of the first labels of the heads.
pub(super) fn inform(
    sections: &mut [(&'static dyn AnyStudy, Box<dyn Section>)],
    settings: &Settings,
    first: &[String],
) {
    let facts = [
        Completion::Labels(first),
        Completion::Reading(settings.protocol.context()),
        Completion::Phases(settings.protocol.ablation.map(|ablation| ablation.phases)),
        above_baseline(settings, sections),
    ];
    for (_, section) in sections {
        facts.iter().for_each(|fact| section.complete(fact));
    }
}

/// Whether the model is shown to be above the baseline of its task, for sections that depend on it.
fn above_baseline(settings: &Settings, sections: &[(&'static dyn AnyStudy, Box<dyn Section>)]) -> Completion<'static> {
    let views = sections.iter().map(|(_, section)| section.view(&settings.policy));
    let tested =
        settings.protocol.task.as_ref().and_then(|_| views.into_iter().find_map(|view| view.is_above_baseline));
    Completion::AboveBaseline(tested)
}

impl Report {
    /// Reads a report with the sections of all its studies.
    /// Fails if it is no report, or lacks something that one of its studies writes.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        // The settings come before what is long, and name the studies.
        let settings: Option<Settings> = value_of(text, "settings");
        let sections = || {
            let settings = settings.ok_or_else(|| serde_json::Error::missing_field("settings"))?;
            let studies = plan::studies(&settings.protocol.studies).map_err(serde_json::Error::custom)?;
            saved::sections(&studies, text).map(|sections| (studies, sections))
        };
        let (report, sections) = both(|| serde_json::from_str::<Self>(text), sections);
        let (mut report, (studies, sections)) = (report?, sections?);
        // The report in the form of this version.
        report.settings.protocol.studies = plan::names(&studies);
        report.sections = Sections(studies.into_iter().zip(sections).collect());
        // One that is not whole is refused for that; its sections cannot be completed.
        if report.defect().is_some() {
            return Ok(report);
        }
        let first: Vec<String> = report.heads.iter().map(|head| head.primary.clone()).collect();
        inform(&mut report.sections.0, &report.settings, &first);
        report.describe();
        Ok(report)
    }

    /// The report as it is written with fewer digits than there are.
    pub fn rounded(mut self) -> Self {
        let all = self.sections.0.iter_mut().map(|(_, section)| section);
        all.for_each(|section| section.complete(&Completion::Rounded));
        self
    }

    /// The first fault of a report that has not every head, each with the same metrics, and whole sections.
    pub fn defect(&self) -> Option<String> {
        let grid = self.model.grid();
        let count = grid.layers.checked_mul(grid.heads).filter(|&count| count > 0 && count == self.heads.len());
        if count.is_none() || !grid.is(self.heads.iter().map(|head| head.place)) {
            return Some(format!("`heads` does not list {grid}"));
        }
        if let Some(defect) = self.model.defect() {
            return Some(defect);
        }
        let removed = &self.settings.protocol.removed;
        if let Some(stray) = grid.stray(removed.iter().copied()) {
            return Some(format!("`settings.removed` has {stray}, which the model has not"));
        }
        let is_misjudged = |head: &&HeadReport| {
            let is_stray = head.is_removed() && !removed.contains(&head.place);
            is_stray || (head.primary == ABSENT) != self.model.absent.contains(&head.place)
        };
        if let Some(head) = self.heads.iter().find(is_misjudged) {
            return Some(format!("`primary` of the head `{}` does not fit `model.absent`", head.place));
        }
        let names = |head: &HeadReport| {
            let names = |names: BTreeSet<String>| (!names.is_empty()).then_some(names);
            let metrics = names(head.metrics.cells().map(|(name, _)| name).collect())?;
            (metrics == head.ci95.cells().map(|(name, _)| name).collect()).then_some(metrics)
        };
        let expected = names(&self.heads[0]);
        // There are studies that have none.
        let has_metrics = self.sections.0.iter().any(|(study, _)| !columns(*study).is_empty());
        if has_metrics && let Some(head) = self.heads.iter().find(|head| expected.is_none() || names(head) != expected)
        {
            return Some(lacking(head));
        }
        let of_maps = self.attention_maps.as_ref().and_then(|maps| maps.defect(grid));
        of_maps.or_else(|| self.sections.0.iter().find_map(|(_, section)| section.defect(grid)))
    }

    /// Puts all metrics in the order of the tables, and gives the first fault of a report that this version could not have
    /// written: it has every metric of its studies.
    pub fn complete(&mut self) -> Option<String> {
        let expected = self.sections.0.iter().flat_map(|(study, _)| columns(*study)).collect::<Vec<_>>();
        for head in &mut self.heads {
            let ordered = (take(&mut head.metrics).in_order(&expected), take(&mut head.ci95).in_order(&expected));
            let (Some(metrics), Some(ci95)) = ordered else { return Some(lacking(head)) };
            (head.metrics, head.ci95) = (metrics, ci95);
            let Some(chance) = take(&mut head.chance).those_in_order(&expected) else {
                return Some(format!("the head `{}` has a chance level of what is no metric", head.place));
            };
            head.chance = chance;
            let Some(denominators) = take(&mut head.denominators).those_in_order(&expected) else {
                return Some(format!("the head `{}` has a denominator of what is no metric", head.place));
            };
            head.denominators = denominators;
        }
        let chance = (take(&mut self.chance).in_order(&expected), take(&mut self.chance_ci95).in_order(&expected));
        let (Some(chance), Some(chance_ci95)) = chance else {
            return Some("`chance` does not have every metric".to_owned());
        };
        (self.chance, self.chance_ci95) = (chance, chance_ci95);
        None
    }
}

fn lacking(head: &HeadReport) -> String {
    format!("the head `{}` does not have every metric", head.place)
}
