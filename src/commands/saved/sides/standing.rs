//! How a head stands to a label: it has it, it has it not, or the test cannot tell.

use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::block_test::TAIL;
use crate::studies::registry;
use crate::study::labels::Assessment;
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;

/// How a head stands to a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabelStanding {
    /// The label is firm.
    Firm,
    /// The head has the label, and the test does not show it.
    Borderline,
    /// The one-sided test at 2.5 % finds that the rule does not fire.
    OutOfReach,
    /// The rule does not fire, and the test does not show that it would not with more sentences.
    WithinReach,
    /// The rule does not fire, and there is no test: the score rests on too few blocks.
    Untested,
    /// The head writes a constant on this side and not on the other, so that it has no role here wherever it attends.
    WritesConstant,
}

impl LabelStanding {
    /// The standing of a head that was assessed for the label.
    pub fn of(assessment: &Assessment) -> Self {
        match assessment {
            Assessment { fires: true, label, .. } if label.borderline => Self::Borderline,
            Assessment { fires: true, .. } => Self::Firm,
            Assessment { p_of_failing: None, .. } => Self::Untested,
            Assessment { p_of_failing: Some(p), .. } if *p <= TAIL => Self::OutOfReach,
            Assessment { .. } => Self::WithinReach,
        }
    }

    /// The standing in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Firm => "firm",
            Self::Borderline => "borderline",
            Self::OutOfReach => "out of reach",
            Self::WithinReach => "within reach",
            Self::Untested => "untested",
            Self::WritesConstant => "writes a constant",
        }
    }
}

/// Whether two policies have the same thresholds for a label.
pub fn same_rule(label: &str, policies: [&Policy; 2]) -> bool {
    let own = registry::detector_of(label).map_or(&[][..], |detector| detector.thresholds);
    let [ours, theirs] = policies;
    own.iter()
        .copied()
        .chain([&MIN_QUERIES, &MIN_SENTENCES])
        .all(|threshold| ours.get(threshold) == theirs.get(threshold))
}
