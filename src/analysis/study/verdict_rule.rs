//! The rules of verdicts: each is a row of the table in docs/detectors.md.

use std::fmt;

use itertools::Itertools;

use super::labels::Detector;
use super::labels::policy::{Policy, Threshold, Value};

/// The rule of a verdict: its test statistic, the null value or margin of the test, and the numbers printed with
/// the verdict.
#[derive(Clone, Copy, Debug)]
pub struct VerdictRule {
    /// The verdict in the words of reports and summaries.
    pub verdict: &'static str,
    /// The number that the verdict's test is about, such as the effect on the loss.
    pub statistic: &'static str,
    /// Null value or margin that the statistic is tested against. A threshold's name in braces is replaced by its
    /// default.
    pub margin: &'static str,
    /// The family of tests: the tests that are corrected together by Benjamini & Hochberg.
    pub test_family: &'static str,
    /// Minimum evidence for the verdict, as text. A threshold's name in braces is replaced by its default.
    pub min_evidence: &'static str,
    /// The numbers that reports print beside the verdict.
    pub printed: &'static str,
}

/// A row of the table of verdicts in docs/detectors.md, cell by cell.
pub struct VerdictRow([String; 6]);

impl VerdictRow {
    pub const HEADINGS: [&'static str; 6] =
        ["verdict", "statistic", "null or margin", "family of the correction", "least evidence", "printed beside it"];

    /// The cells verdict, statistic, margin and family; the cells for minimum evidence and printed numbers are left
    /// out.
    pub fn main_cells(self) -> [String; 4] {
        let [verdict, statistic, margin, family, ..] = self.0;
        [verdict, statistic, margin, family]
    }

    /// The row of a verdict's rule; names of thresholds in its texts are replaced by their values in `policy`.
    pub fn from_rule(rule: &VerdictRule, policy: &Policy) -> Self {
        let VerdictRule { verdict, statistic, margin, test_family: family, min_evidence: least, printed } = *rule;
        Self([verdict, statistic, margin, family, least, printed].map(|text| policy.fill_thresholds(text)))
    }

    /// The table row of a detector, which gives all its labels by one rule. Names of thresholds are replaced by their
    /// values in `policy`.
    pub fn from_detector(detector: &Detector, policy: &Policy) -> Self {
        let Detector { explanation, thresholds, .. } = detector;
        let margin =
            |threshold: &&&Threshold| matches!(threshold.default, Value::Share(_)) && threshold.name != "label_q";
        let margins = thresholds.iter().filter(margin).map(|one| format!("{} {}", one.name, one.default)).join(", ");
        let count = thresholds.iter().find(|threshold| matches!(threshold.default, Value::Count(_)));
        let least = count.map_or("{min_queries} queries in {min_sentences} sentences".to_owned(), |count| {
            format!("{{{}}} words in {{min_sentences}} sentences", count.name)
        });
        let margins = if margins.is_empty() { "off by default".to_owned() } else { margins };
        let statistic = format!("`{}`", explanation.formula.replace('|', "\\|"));
        let (family, printed) = ("all heads and labels of this row", "score, interval, threshold, q");
        let name = format!("`{}`", explanation.name);
        Self([&name, &statistic, &margins, family, &least, printed].map(|text| policy.fill_thresholds(text)))
    }
}

impl fmt::Display for VerdictRow {
    /// Writes the row as Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", self.0.join(" | "))
    }
}
