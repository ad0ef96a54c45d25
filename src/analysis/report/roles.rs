//! How many heads have a role, which have no label, and which studies had too little evidence for any label.

use std::fmt;

use super::firm::{has_firm_role, is_firm_role};
use super::{HeadReport, Report};
use crate::study::labels::{
    ABSENT_LEGEND_ENTRY, BORDERLINE_MARK, CONSTANT_MARK, Near, REMOVED_LEGEND_ENTRY, TIED_MARK, UNDECIDED_LEGEND_ENTRY,
    UNLABELLED_LEGEND_ENTRY,
};
use crate::study::show::in_brief::Shortage;
use crate::study::{AnyStudy, columns};
use crate::system::counts::{format_count, plural};

impl Report {
    /// Whether a head writes a constant, whatever it attends to. `false` for all heads if every head of the model
    /// does.
    pub fn writes_constant(&self, head: &HeadReport) -> bool {
        self.model.constant_heads_unless_all().contains(&head.place)
    }

    /// The heads whose labels count as roles: all except heads that write a constant.
    pub fn non_constant_heads(&self) -> impl Iterator<Item = &HeadReport> {
        self.heads.iter().filter(|head| !self.writes_constant(head))
    }

    /// The marks after a head's first label: `?` borderline, `~` near tie, `=` head that writes a constant, `+2`
    /// two more labels.
    pub fn head_marks(&self, head: &HeadReport) -> String {
        let marks = [
            (head.labels.first().is_some_and(|label| label.borderline), BORDERLINE_MARK),
            (head.labels.iter().any(|label| label.tied), TIED_MARK),
            (self.writes_constant(head), CONSTANT_MARK),
        ];
        let marks: String = marks.iter().filter(|(applies, _)| *applies).map(|(_, mark)| *mark).collect();
        match head.labels.len() {
            0 | 1 => marks,
            labels => format!("{marks}+{}", labels - 1),
        }
    }
}

/// The heads whose first label is a firm role (not borderline), by falling margin of that label. Heads with equal margins
/// keep their order, and heads that write a constant are left out.
pub fn firm_heads_by_margin(report: &Report) -> Vec<&HeadReport> {
    let is_firm = |head: &&HeadReport| head.labels.first().is_some_and(is_firm_role);
    let mut firm: Vec<&HeadReport> = report.non_constant_heads().filter(is_firm).collect();
    firm.sort_by(|a, b| b.labels[0].margin.total_cmp(&a.labels[0].margin));
    firm
}

/// Counts of heads and labels for the summary; heads that write a constant are left out of all counts but `heads`.
/// The label `broad` is no role, since untrained heads have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleCounts {
    /// Number of heads that the model ran with, heads that write a constant included.
    heads: usize,
    /// Number of heads with a firm role.
    pub firm_roles: usize,
    /// Number of heads that have a firm label, but no firm role.
    firm_without_role: usize,
    /// Number of labels, firm and borderline, that the heads have together.
    labels: usize,
    /// Number of borderline labels among `labels`.
    borderline: usize,
}

impl RoleCounts {
    pub fn new(report: &Report) -> Self {
        let count = |condition: &dyn Fn(&HeadReport) -> bool| {
            report.non_constant_heads().filter(|head| condition(head)).count()
        };
        let firm = count(&|head| has_firm_role(&head.labels));
        let labels = || report.non_constant_heads().flat_map(|head| &head.labels);
        Self {
            heads: report.present_heads().count(),
            firm_roles: firm,
            firm_without_role: count(&|head| head.labels.iter().any(|label| !label.borderline)) - firm,
            labels: labels().count(),
            borderline: labels().filter(|label| label.borderline).count(),
        }
    }

    /// A sentence on the number of borderline labels; empty if there are none.
    pub fn borderline_labels_sentence(&self) -> String {
        let &Self { labels, borderline, .. } = self;
        if borderline == 0 {
            return String::new();
        }
        let labels = format_count(labels, "label");
        let are = plural(&borderline, "is", "are");
        format!("{borderline} of {labels} {are} borderline: score above the threshold, but not significantly.")
    }

    /// The start of a sentence on a number of heads: "At least N heads have". The number is a lower bound, since
    /// more text may show more heads.
    pub fn at_least_clause(&self, heads: usize) -> String {
        match heads {
            0 => format!("No head of {} is shown to have", self.heads),
            heads => format!("At least {} {}", self.share_of_heads(heads), plural(&heads, "has", "have")),
        }
    }

    /// The number of `heads` and their share of all heads: `12 of 144 heads (8 %)`.
    pub fn share_of_heads(&self, heads: usize) -> String {
        let share = 100.0 * heads as f64 / self.heads.max(1) as f64;
        format!("{heads} of {} ({share:.0} %)", format_count(self.heads, "head"))
    }
}

impl fmt::Display for RoleCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { firm_roles: firm, firm_without_role: without_role, .. } = self;
        write!(f, "{} a firm role", self.at_least_clause(firm))?;
        if without_role > 0 {
            write!(f, "; {without_role} more {} broad only", plural(&without_role, "is", "are"))?;
        }
        f.write_str(".")
    }
}

/// One line for each shortage of evidence that keeps studies from giving any label, with the names of the studies.
pub fn shortage_lines(report: &Report) -> Vec<String> {
    let line =
        |Shortage { missing_finding: of, count, things: [one, many], required: asked, threshold, .. }: Shortage| {
            let things = plural(&count, one, many);
            let threshold = threshold.map_or_else(String::new, |name| format!(" (`{name}`)"));
            format!("Too little for {of}: {count} {things}, where a label asks for {asked}{threshold}.")
        };
    shortages(report).into_iter().map(line).collect()
}

/// Shortages of evidence that keep whole studies from giving any label; equal shortages of several studies are one
/// entry.
pub(super) fn shortages(report: &Report) -> Vec<Shortage> {
    let mut shortages: Vec<Shortage> = Vec::new();
    for (study, _) in &report.sections.0 {
        let Some(shortage) = study_shortage(report, *study) else { continue };
        let is_equal = |other: &&mut Shortage| (other.count, &other.things) == (shortage.count, &shortage.things);
        match shortages.iter_mut().find(is_equal) {
            Some(other) => other.missing_finding = format!("{}, {}", other.missing_finding, study.card().name),
            None => shortages.push(shortage),
        }
    }
    shortages
}

/// The shortage of evidence that keeps a study from giving any label, judged by its metric with the most evidence;
/// `None` if there is enough.
fn study_shortage(report: &Report, study: &dyn AnyStudy) -> Option<Shortage> {
    let policy = &report.settings.policy;
    let card = study.card();
    if !card.all_labels().any(|detector| detector.is_on(policy)) {
        return None;
    }
    let ids: Vec<&str> = columns(study).into_iter().map(|column| column.id).collect();
    let is_own = |name: &str| ids.contains(&name.split_once('.').map_or(name, |(id, _)| id));
    let rest_on = report.denominators.cells().filter(|(name, _)| is_own(name)).map(|(_, rests_on)| *rests_on);
    let most = rest_on.max_by_key(|rests_on| (rests_on.sentences, rests_on.count))?;
    // A study that runs by default says itself if the corpus has nothing for it.
    let study_says_so = most.count == 0 && card.is_default_in_first_run();
    Shortage::for_labels(format!("a label of {}", card.name), &most, policy).filter(|_| !study_says_so)
}

impl HeadReport {
    /// Whether the head has no label, but might get one with more text. A nearest label may reach its threshold, or
    /// no rule was tested.
    pub fn is_undecided(&self) -> bool {
        let reaches = |near: &Near| near.ci95.is_none_or(|ci95| ci95.high() >= near.threshold);
        self.labels.is_empty() && !self.is_absent() && (self.nearest.is_empty() || self.nearest.iter().any(reaches))
    }

    /// The mark for a head without a label in the grid of heads, as `[mark, meaning]`; `None` for a head with a
    /// label.
    pub fn unlabelled_legend_entry(&self) -> Option<[&'static str; 2]> {
        let sign = match (self.is_absent(), self.is_undecided()) {
            (true, _) if self.is_removed() => REMOVED_LEGEND_ENTRY,
            (true, _) => ABSENT_LEGEND_ENTRY,
            (_, true) => UNDECIDED_LEGEND_ENTRY,
            _ => UNLABELLED_LEGEND_ENTRY,
        };
        self.labels.is_empty().then_some(sign)
    }
}
