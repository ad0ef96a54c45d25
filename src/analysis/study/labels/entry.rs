//! An entry of `explain`: the documentation of a label or a metric as text.

use std::fmt;

use itertools::Itertools;

use super::policy::{Policy, Threshold};
use crate::study::metrics::explanation::Explanation;

/// The documentation of a label or a metric, as `headscope explain` prints it.
#[derive(Clone, Copy)]
pub struct Entry {
    pub explanation: &'static Explanation,
    /// The thresholds of a label; `None` for a metric.
    pub thresholds: Option<&'static [&'static Threshold]>,
}

impl Entry {
    pub fn name(&self) -> &'static str {
        self.explanation.name
    }

    /// Heading and text of each field that follows the entry's first sentence.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let Explanation { formula, chance, source, caveats, .. } = self.explanation;
        let thresholds = self.thresholds.map_or_else(String::new, |thresholds| {
            let shown = thresholds.iter().join("; ");
            if shown.is_empty() { "none".to_owned() } else { shown }
        });
        let fields = [
            ("Formula", self.fill_thresholds(formula)),
            ("Chance level", self.fill_thresholds(chance)),
            ("Default threshold", thresholds),
            ("Source", (*source).to_owned()),
            ("Caveats", self.fill_thresholds(caveats)),
        ];
        fields.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Replaces each threshold's name in braces by the threshold's default.
    pub fn fill_thresholds(&self, text: &str) -> String {
        Policy::with_defaults(self.thresholds.unwrap_or_default().iter().copied()).fill_thresholds(text)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.thresholds.is_some() { "label" } else { "metric" };
        writeln!(f, "{} ({kind})\n\n{}\n", self.name(), self.explanation.measures)?;
        self.fields().iter().try_for_each(|(name, text)| writeln!(f, "{name}: {text}"))
    }
}
