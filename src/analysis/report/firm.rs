//! Labels that are roles, and roles that are firm (not borderline).

use crate::studies::registry::detector_of_label;
use crate::study::labels::Label;

/// Whether any of a head's labels is firm and counts as a role ([`is_firm_role`]).
pub fn has_firm_role(labels: &[Label]) -> bool {
    labels.iter().any(is_firm_role)
}

/// Whether a label counts as a role and is firm, not borderline.
pub fn is_firm_role(label: &Label) -> bool {
    !label.borderline && is_role(label)
}

/// Whether a label counts as a role. Labels that every untrained head has as well are no roles.
pub fn is_role(label: &Label) -> bool {
    detector_of_label(&label.label).is_none_or(|detector| detector.is_role)
}
