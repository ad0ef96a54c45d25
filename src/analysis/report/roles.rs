//! How many heads have a role.

use std::fmt;

use super::firm::{has_firm_role, is_firm_role};
use super::{HeadReport, Report};
use crate::study::labels::{BORDERLINE, CONSTANT, TIED};
use crate::system::counted::{counted, plural};

impl Report {
    /// Whether a head writes a constant beside heads that do not, so that nothing later depends on where it attends.
    pub fn is_constant(&self, head: &HeadReport) -> bool {
        self.model.constant_beside_others().contains(&head.place)
    }

    /// The heads whose labels count as roles: all but those that write a constant.
    pub fn at_work(&self) -> impl Iterator<Item = &HeadReport> {
        self.heads.iter().filter(|head| !self.is_constant(head))
    }

    /// The marks of the first label of a head: `?` if it is borderline, `~` if another one ties with it, `=` if the head writes a constant,
    /// `+2` for two more labels.
    pub fn marks(&self, head: &HeadReport) -> String {
        let marks = [
            (head.labels.first().is_some_and(|label| label.borderline), BORDERLINE),
            (head.labels.iter().any(|label| label.tied), TIED),
            (self.is_constant(head), CONSTANT),
        ];
        let marks: String = marks.iter().filter(|(is_there, _)| *is_there).map(|(_, mark)| *mark).collect();
        match head.labels.len() {
            0 | 1 => marks,
            labels => format!("{marks}+{}", labels - 1),
        }
    }
}

/// The heads at work whose first label is a firm role, by its falling margin over the threshold, the earlier one of equals first.
pub fn by_margin(report: &Report) -> Vec<&HeadReport> {
    let margin = |head: &HeadReport| Some(head.labels.first().filter(|label| is_firm_role(label))?.margin);
    let mut firm: Vec<(&HeadReport, f64)> = report.at_work().filter_map(|head| Some((head, margin(head)?))).collect();
    firm.sort_by(|a, b| b.1.total_cmp(&a.1));
    firm.into_iter().map(|(head, _)| head).collect()
}

/// How many heads at work have a firm label, by whether it is a role: the label of heads that attend to everything is none, for
/// untrained heads have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    heads: usize,
    /// Heads with a firm label that is a role.
    pub firm: usize,
    /// Other heads with a firm label.
    without_role: usize,
    labels: usize,
    borderline: usize,
}

impl Roles {
    /// The roles of the heads of a report.
    pub fn of(report: &Report) -> Self {
        let count = |is_it: &dyn Fn(&HeadReport) -> bool| report.at_work().filter(|head| is_it(head)).count();
        let firm = count(&|head| has_firm_role(&head.labels));
        let labels = || report.at_work().flat_map(|head| &head.labels);
        Self {
            heads: report.present_heads().count(),
            firm,
            without_role: count(&|head| head.labels.iter().any(|label| !label.borderline)) - firm,
            labels: labels().count(),
            borderline: labels().filter(|label| label.borderline).count(),
        }
    }

    /// How many labels are borderline, as a sentence; empty if none is.
    pub fn borderline(&self) -> String {
        let &Self { labels, borderline, .. } = self;
        if borderline == 0 {
            return String::new();
        }
        let labels = counted(labels, "label");
        let are = plural(&borderline, "is", "are");
        format!("{borderline} of {labels} {are} borderline: above the threshold, but not significantly.")
    }

    /// So many heads are shown to have something: of the others it is not shown, and more text would show more.
    pub fn at_least(&self, heads: usize) -> String {
        match heads {
            0 => format!("No head of {} is shown to have", self.heads),
            heads => format!("At least {} {}", self.share(heads), plural(&heads, "has", "have")),
        }
    }

    /// So many of the heads, with their share of all.
    pub fn share(&self, heads: usize) -> String {
        let share = 100.0 * heads as f64 / self.heads.max(1) as f64;
        format!("{heads} of {} ({share:.0} %)", counted(self.heads, "head"))
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { firm, without_role, .. } = self;
        write!(f, "{} a firm role", self.at_least(firm))?;
        if without_role > 0 {
            write!(f, "; {without_role} more {} broad only", plural(&without_role, "is", "are"))?;
        }
        f.write_str(".")
    }
}
