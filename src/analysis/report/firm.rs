//! Labels that are roles, and roles that are firm (not borderline).

use crate::studies::registry::detector_of_label;
use crate::study::labels::Label;

pub fn has_firm_role(labels: &[Label]) -> bool {
    labels.iter().any(is_firm_role)
}

/// Whether a label counts as a role and is not borderline.
pub fn is_firm_role(label: &Label) -> bool {
    !label.borderline && is_role(label)
}

/// Whether a label counts as a role. A label that every untrained head has as well does not.
pub fn is_role(label: &Label) -> bool {
    detector_of_label(&label.label).is_none_or(|detector| detector.is_role)
}
