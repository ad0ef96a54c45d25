//! The words of the study that are neither labels nor metrics.

use crate::study::show::terms::Term;

/// The words, in the order in which a reader of its summary meets them.
pub const TERMS: &[Term] = &[Term {
    name: "item",
    also: &["task", "foil"],
    meaning: "One question of a task of the user's own (`--task FILE`): a text with a mask or a prompt, whose answer should be more \
            probable than the foil, or two texts, the first of which should be more probable. The score of an item is the difference \
            of the two log-probabilities, and the model is right where it is above 0. Items of one `family` are one sampling unit.",
    page: "tasks.md",
}];
