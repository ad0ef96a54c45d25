//! State of a head in one analysis of a comparison: its test result for a label, or why the head does nothing.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::Side;
use crate::model::grid::HeadPlace;
use crate::stats::block_test::TAIL_SHARE;
use crate::studies::registry;
use crate::study::labels::Assessment;
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;

/// Test result of a label for a head in one analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabelStanding {
    /// The label is firm: the score is significantly above the threshold.
    Firm,
    /// The label is borderline: the score is above the threshold, but not significantly.
    Borderline,
    /// The score is significantly below the threshold (one-sided test at 2.5 %), or the head is absent or removed. If a rule
    /// has several thresholds, one score is significantly below its threshold.
    OutOfReach,
    /// The label's rule is not met, but the score is not significantly below the threshold. The score may be above it if
    /// another condition of the rule fails, such as the absence of another label.
    WithinReach,
    /// The label's rule is not met, and the score rests on too few blocks for a test.
    Untested,
    /// The head writes a constant in this analysis only, so it has no role whatever it attends to.
    WritesConstant,
}

impl LabelStanding {
    pub fn new(assessment: &Assessment) -> Self {
        match assessment {
            Assessment { meets_rule: true, label, .. } if label.borderline => Self::Borderline,
            Assessment { meets_rule: true, .. } => Self::Firm,
            Assessment { p_below_threshold: None, .. } => Self::Untested,
            Assessment { p_below_threshold: Some(p), .. } if *p <= TAIL_SHARE => Self::OutOfReach,
            Assessment { .. } => Self::WithinReach,
        }
    }

    pub fn phrase(self) -> &'static str {
        match self {
            Self::Firm => "firm",
            Self::Borderline => "borderline",
            Self::OutOfReach => "significantly below",
            Self::WithinReach => "not significantly below",
            Self::Untested => "untested",
            Self::WritesConstant => "writes a constant",
        }
    }
}

/// Assessments of one head by the names of their labels.
pub fn assessments_by_label(assessments: &[Assessment]) -> BTreeMap<&str, &Assessment> {
    assessments.iter().map(|assessment| (assessment.label.label.as_str(), assessment)).collect()
}

/// Whether two policies have the same thresholds for a label.
pub fn has_same_thresholds(label: &str, policies: [&Policy; 2]) -> bool {
    let thresholds = registry::detector_of_label(label).map_or(&[][..], |detector| detector.thresholds);
    let mut all = thresholds.iter().copied().chain([&MIN_QUERIES, &MIN_SENTENCES]);
    all.all(|threshold| policies[0].get(threshold) == policies[1].get(threshold))
}

/// Reason why an attention head does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Idleness {
    /// The checkpoint was saved without the head.
    Absent,
    /// The run removed the head (`--remove`).
    Removed,
    /// The head writes a constant whatever it attends to (`model.constant_heads`).
    WritesConstant,
}

/// An attention head that does nothing in exactly one of two analyses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IdleHead {
    /// Layer and number of the head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The analysis in which the head does nothing: `a` or `b`.
    pub side: &'static str,
    /// Why the head does nothing in that analysis.
    pub why: Idleness,
}

impl Idleness {
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Removed => "removed",
            Self::WritesConstant => "writes a constant",
        }
    }
}

impl Side {
    /// Whether the head with index `place` is absent, removed or constant; `None` for a head that works.
    fn idleness(&self, place: usize) -> Option<Idleness> {
        let model = &self.context.model;
        if self.results.absent_heads.contains(&place) {
            Some(Idleness::Absent)
        } else if self.results.removed_heads.contains(&place) {
            Some(Idleness::Removed)
        } else {
            model.constant_heads.contains(&model.grid().head_place(place)).then_some(Idleness::WritesConstant)
        }
    }
}

/// Whether a head and its partner are absent, removed or constant, `[a, b]`; `None` for a head that works.
/// A head that writes a constant counts only if its partner works. Two such heads are compared by their attention.
pub fn pair_idleness([(a, place), (b, partner)]: [(&Side, usize); 2]) -> [Option<Idleness>; 2] {
    let both = [a.idleness(place), b.idleness(partner)];
    [0, 1].map(|side| both[side].filter(|why| *why != Idleness::WritesConstant || both[1 - side].is_none()))
}

/// Heads that are absent, removed or constant in exactly one analysis, by their place in that analysis.
/// `partners`: index in `b` of each head's partner, `[layers * heads]`.
pub fn heads_idle_on_one_side(a: &Side, b: &Side, partners: &[usize]) -> Vec<IdleHead> {
    let grid = a.context.model.grid();
    let idle = |(place, &partner): (usize, &usize)| match pair_idleness([(a, place), (b, partner)]) {
        [Some(why), None] => Some(IdleHead { place: grid.head_place(place), side: "a", why }),
        [None, Some(why)] => Some(IdleHead { place: grid.head_place(partner), side: "b", why }),
        _ => None,
    };
    partners.iter().enumerate().filter_map(idle).collect()
}

/// One line that names the heads in `idle`, at most `most` per analysis and reason; `None` without any.
pub fn idle_heads_sentence(idle: &[IdleHead], most: usize) -> Option<String> {
    let reasons = [Idleness::Absent, Idleness::Removed, Idleness::WritesConstant];
    let heads_of_kind = |(side, why): (&str, Idleness)| {
        let heads = idle.iter().filter(|head| head.side == side && head.why == why);
        let names: Vec<String> = heads.map(|head| head.place.to_string()).collect();
        let more = names.len().saturating_sub(most);
        let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = names[..names.len().min(most)].join(", ");
        (!names.is_empty()).then(|| format!("{shown}{and_more} ({} in {side})", why.phrase()))
    };
    let parts = ["a", "b"].into_iter().cartesian_product(reasons).filter_map(heads_of_kind).join("; ");
    (!parts.is_empty()).then(|| format!("Heads that do nothing on one side: {parts}."))
}
