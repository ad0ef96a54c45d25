//! The documentation of labels and metrics: the one text that `explain` prints and docs/detectors.md is made from.

/// Source of a definition that this project made.
pub const OURS: &str = "Defined here.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub name: &'static str,
    /// The meaning of the label or metric for a head, as a sentence.
    pub measures: &'static str,
    /// The formula; symbols as in docs/methodology/units.md. A threshold's name in braces is replaced by its default.
    pub formula: &'static str,
    /// Value of the label or metric for a head without any preference.
    pub chance: &'static str,
    /// The source of the definition or of the threshold.
    pub source: &'static str,
    /// Conclusions that the number does not allow; empty if there are none.
    pub caveats: &'static str,
}
