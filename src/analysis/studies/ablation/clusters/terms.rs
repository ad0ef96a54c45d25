//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "stand-in",
    also: &["one_will_do", "all_but_one", "random_sets"],
    meaning: "Of a cluster, of the study `cluster-effect`: the model loses more without all of its heads than without each, added \
            up, beyond chance. One will do if without all but one the change is surely negligible, whichever is kept; beside it \
            stands in how many of 20 random sets of as many heads of the same layers one would do as well.",
    page: "similarity.md",
}];
