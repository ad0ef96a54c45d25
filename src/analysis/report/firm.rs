//! Roles among the labels, and firm ones among the roles.

use crate::studies::registry::detector_of;
use crate::study::labels::Label;

pub fn has_firm_role(labels: &[Label]) -> bool {
    labels.iter().any(is_firm_role)
}

pub fn is_firm_role(label: &Label) -> bool {
    !label.borderline && is_role(label)
}

/// Whether a label is a role: a label that every untrained head also has is none.
pub fn is_role(label: &Label) -> bool {
    detector_of(&label.label).is_none_or(|detector| detector.is_role)
}
