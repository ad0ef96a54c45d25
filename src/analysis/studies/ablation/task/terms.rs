//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "item",
    also: &["task", "foil"],
    meaning: "One question of a task of the user's own (`--task FILE`): a text with its label; a text with a mask or a prompt, whose \
            answer should be more probable than the foil; or a good and a bad text, where the good one should be more probable. The score of \
            an item is the log-probability of the label, or the difference of both. Items of one `family` are one sampling unit.",
    page: "tasks.md",
}];
