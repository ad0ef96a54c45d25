//! `headscope gate`: has a model lost a firm role of its heads?
//!
//! Compares two reports over equal corpora as `compare` does.
//! Passes only if every firm label of the first report was also measured in the second.

use anyhow::{Result, anyhow};
use itertools::Itertools as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::compare::outcome::{CompareOutcome, Doubt, Fate, HeadComparison, LabelComparison};
use super::compare::{Pairing, read_and_compare};
use super::sides::SidesOptions;
use super::sides::head_state::LabelStanding;
use crate::export::json::{self, JsonForm};
use crate::model::grid::HeadPlace;
use crate::study::show::wording::decimal;
use crate::system::counts::{format_count, plural};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::printable::one_line;
use crate::system::terminal::{print, write_stdout};

/// Form in which `headscope gate` prints its outcome.
#[derive(Clone, Copy)]
pub enum PrintedForm {
    /// One line with the verdict.
    Line,
    Json,
    Nothing,
}

/// Category of a label: its name up to the colon, as `syntactic` for `syntactic:obj`.
pub fn label_category(label: &str) -> &str {
    label.split_once(':').map_or(label, |(category, _)| category)
}

/// Version of the outcome's schema, raised when a key changes its meaning or goes away; new keys alone do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Whether a changed model has lost firm (significant) labels of its heads.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "headscope gate")]
pub struct GateOutcome {
    /// Version of this document's schema, raised when a key changes its meaning or goes away.
    pub schema_version: u32,
    /// Whether no firm label is lost.
    pub passed: bool,
    /// Label categories that were checked (`--family`), such as `syntactic`; empty if all roles were checked.
    pub families: Vec<String>,
    /// Number of checked labels, all of them firm before the change.
    pub firm: usize,
    /// Number of checked labels that are firm after the change, too.
    pub kept: usize,
    /// Checked labels that the analysis after the change shows neither to be lost nor to be kept, head by head.
    pub could_not_tell: Vec<GatedLabel>,
    /// Checked labels that are lost, head by head.
    pub lost: Vec<GatedLabel>,
}

/// A label of a head, with the evidence before the change (`a`) and after the change (`b`).
#[derive(Serialize, JsonSchema)]
pub struct GatedLabel {
    /// Layer and number of the head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The label, compared between the analyses before and after.
    #[serde(flatten)]
    pub label: LabelComparison,
}

/// Prints whether a firm role was lost; returns true if none was.
/// `categories`: label categories that count, such as `syntactic` ([`label_category`]); empty if all roles count.
/// Fails if a report cannot be read, the models have different heads, the texts differ, or no label is firm before.
/// Fails also if no label is lost, but a label that is firm before could not be measured after.
pub fn gate(sides: &SidesOptions, categories: Vec<String>, printed: PrintedForm) -> Result<bool> {
    let outcome =
        GateOutcome::new(read_and_compare(sides, &Pairing::OneLineage)?, categories).class(ErrorClass::Input)?;
    match printed {
        PrintedForm::Line => print(&format!("{}\n", outcome.in_words()))?,
        PrintedForm::Json => write_stdout(&json::to_json(&outcome, JsonForm::default())?)?,
        PrintedForm::Nothing => {}
    }
    Ok(outcome.passed)
}

impl GateOutcome {
    fn new(outcome: CompareOutcome, families: Vec<String>) -> Result<Self> {
        let [before, after] = [&outcome.a.file, &outcome.b.file];
        if let Some(corpora) = &outcome.corpora {
            let corpora = corpora.trim_end_matches('.');
            let error =
                anyhow!("a gate needs two reports over the same text, and `{before}` and `{after}` are not: {corpora}");
            return Err(error.hint("analyse both models over the same text"));
        }
        if let Some(units) = &outcome.too_few_units {
            return Err(anyhow!("no label can be tested: {units}").hint("analyse more text"));
        }
        if let Some(unread) = &outcome.unread {
            return Err(anyhow!("no label can be lost or kept: {}", unread.trim_end_matches('.')));
        }
        let is_wanted = |label: &LabelComparison| {
            families.is_empty() || families.iter().any(|wanted| wanted == label_category(&label.label))
        };
        let gated =
            |head: HeadComparison| head.labels.into_iter().map(move |label| GatedLabel { place: head.place, label });
        let labels = outcome.heads.into_iter().flat_map(gated);
        let firm: Vec<GatedLabel> =
            labels.filter(|one| one.label.is_firm_by_side()[0] && is_wanted(&one.label)).collect();
        let has_label = |family: &&String| firm.iter().any(|one| label_category(&one.label.label) == **family);
        let missing_label = match families.iter().find(|family| !has_label(family)) {
            Some(family) => Some(format!("{family} label")),
            None => firm.is_empty().then(|| "label".to_owned()),
        };
        if let Some(missing_label) = missing_label {
            return Err(anyhow!("`{before}` has no firm {missing_label}, so that none can be lost")
                .hint("`headscope show` lists the firm labels of a report; analyse more text, or name other labels"));
        }
        let count = firm.len();
        let (lost, not_lost): (Vec<GatedLabel>, Vec<_>) =
            firm.into_iter().partition(|one| one.label.outcome == Fate::Lost);
        let could_not_tell: Vec<GatedLabel> =
            not_lost.into_iter().filter(|one| one.label.outcome != Fate::Kept).collect();
        let unmeasured = |doubt| {
            matches!(doubt, Some(Doubt::NotMeasured | Doubt::OtherThresholds | Doubt::TooLittle | Doubt::Untested))
        };
        if let Some(GatedLabel { place, label: LabelComparison { label, doubt: Some(doubt), .. } }) =
            could_not_tell.iter().find(|one| unmeasured(one.label.doubt))
            && lost.is_empty()
        {
            let label = one_line(label);
            return Err(anyhow!("`{after}` does not say whether {place} {label} is lost: {}", doubt.phrase())
                .hint("analyse both models by the same command"));
        }
        let (passed, kept) = (lost.is_empty(), count - lost.len() - could_not_tell.len());
        Ok(Self { schema_version: SCHEMA_VERSION, passed, families, firm: count, kept, could_not_tell, lost })
    }

    fn in_words(&self) -> String {
        let Self { firm, kept, could_not_tell, lost, .. } = self;
        let is_any = self.families.is_empty();
        let noun = if is_any { "label".to_owned() } else { format!("{} label", self.families.join(" or ")) };
        let count = could_not_tell.len();
        let untold = if count > 0 { format!(", {count} could not tell") } else { String::new() };
        match &lost[..] {
            [] => format!("pass: no firm {noun} is lost ({kept} of {firm} kept{untold})"),
            lost => format!(
                "fail: {} of {} {} lost ({kept} kept{untold}): {}",
                lost.len(),
                format_count(*firm, &format!("firm {noun}")),
                plural(&lost.len(), "is", "are"),
                lost.iter().map(GatedLabel::in_words).join(", ")
            ),
        }
    }
}

impl GatedLabel {
    /// The label with its scores before and after, and the threshold after.
    fn in_words(&self) -> String {
        let (Self { place, label }, score) = (self, |score: f64| decimal(score, 2));
        let before = label.a.as_ref().map_or_else(String::new, |before| format!(" {}", score(before.score)));
        let after = match &label.b {
            None => "head removed or idle".to_owned(),
            Some(after) if after.standing == LabelStanding::WritesConstant => after.standing.phrase().to_owned(),
            Some(after) => format!("{} (threshold {})", score(after.score), score(after.threshold)),
        };
        format!("{place} {}{before} -> {after}", one_line(&label.label))
    }
}
