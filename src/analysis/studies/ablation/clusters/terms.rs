//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "stand-in",
    also: &["one_will_do", "all_but_one"],
    meaning: "Of a cluster, of the study `cluster-effect`: the model loses more without all of its heads than without each, added \
            up. One will do if without all but one it loses no more than is negligible.",
    section: "Removal of a cluster",
}];
