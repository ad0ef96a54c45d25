//! Roles, and firm ones among the labels.

use crate::studies::registry::detector_of;
use crate::study::labels::Label;

/// Whether one of these labels of a head is firm and a role.
pub fn has_firm_role(labels: &[Label]) -> bool {
    labels.iter().any(is_firm_role)
}

/// Whether a label is firm and a role.
pub fn is_firm_role(label: &Label) -> bool {
    !label.borderline && is_role(label)
}

/// Whether a label is a role: not one that every untrained head has, too.
pub fn is_role(label: &Label) -> bool {
    detector_of(&label.label).is_none_or(|detector| detector.is_role)
}
