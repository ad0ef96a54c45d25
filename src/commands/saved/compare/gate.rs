//! When a comparison fails: what a gate of continuous integration asks of it.

use super::outcome::{CompareOutcome, Fate, HeadComparison};

/// A finding on which `compare` ends with status 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    /// A label was lost or gained.
    Any,
    /// A label was lost.
    Lost,
    /// A label was gained.
    Gained,
    /// A label is firm in the first analysis and not in the second: lost, or not shown to be.
    NoLongerFirm,
    /// The two corpora are not the same.
    Corpora,
    /// Nothing.
    Never,
}

impl FailOn {
    /// Whether it asks for labels of the first analysis, and says nothing where none of them could be tested.
    pub fn is_of_lost(self) -> bool {
        matches!(self, Self::Lost | Self::NoLongerFirm)
    }

    /// Whether the comparison found it. Labels of how heads choose count as others do.
    pub fn is_met(self, outcome: &CompareOutcome) -> bool {
        let any = |wanted: &[Fate]| {
            outcome.heads.iter().flat_map(HeadComparison::all_labels).any(|label| wanted.contains(&label.outcome))
        };
        match self {
            Self::Any => any(&[Fate::Lost, Fate::Gained]),
            Self::Lost => any(&[Fate::Lost]),
            Self::Gained => any(&[Fate::Gained]),
            Self::NoLongerFirm => {
                let mut labels = outcome.heads.iter().flat_map(HeadComparison::all_labels);
                labels.any(|label| label.firm() == [true, false])
            }
            Self::Corpora => outcome.corpora.is_some(),
            Self::Never => false,
        }
    }
}
