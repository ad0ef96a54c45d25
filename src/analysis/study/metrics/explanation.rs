//! The documentation of labels and metrics: the one text that `explain` prints and docs/detectors.md is made from.

/// Source text of a label or metric that this project defined.
pub const DEFINED_HERE: &str = "Defined here.";

/// The documentation of a label or a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Name of the label or id of the metric.
    pub name: &'static str,
    /// Meaning of the metric or label for a head, as a sentence.
    pub measures: &'static str,
    /// The formula, with the symbols of docs/methodology/units.md. A threshold's name in braces is replaced by its
    /// default.
    pub formula: &'static str,
    /// Value of the label or metric for a head without any preference, as text.
    pub chance: &'static str,
    /// The source of the definition or of the threshold: a publication, or "Defined here.".
    pub source: &'static str,
    /// Conclusions that the number does not allow; empty if there are none.
    pub caveats: &'static str,
}
