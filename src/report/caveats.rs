//! What the labels of a run do not show. docs/LIMITS.md has the argument and the full references.

use super::{Caveat, CorpusInfo, ModelInfo};
use crate::studies::labels::{Policy, Verdict};
use crate::studies::metrics::Measurements;
use crate::studies::observe::BLOCKS;

/// What decides which caveats apply.
struct Run<'a> {
    model: &'a ModelInfo,
    corpus: &'a CorpusInfo,
    policy: &'a Policy,
    measured: &'a Measurements,
    verdicts: &'a [Verdict],
}

impl Run<'_> {
    fn has_label(&self, wanted: fn(&str) -> bool) -> bool {
        self.verdicts.iter().flat_map(|verdict| &verdict.labels).any(|label| wanted(&label.label))
    }

    fn has_trees(&self) -> bool {
        !self.measured.relations.is_empty()
    }
}

/// A caveat's id, its text, and the runs that it applies to.
type Entry = (&'static str, &'static str, fn(&Run<'_>) -> bool);

const CAVEATS: &[Entry] = &[
    (
        "attention-is-not-explanation",
        "A label says where a head attends, not what the model's output depends on \
            (Jain & Wallace 2019; Wiegreffe & Pinter 2019).",
        |_| true,
    ),
    (
        "weights-not-unique",
        "Some sentences have more tokens than a head has dimensions: there other attention weights would give the \
            same output (Brunner et al. 2020).",
        |run| run.corpus.longest > run.model.head_dim as u64,
    ),
    (
        "role-is-not-importance",
        "A head with a clear role need not matter to the model, and a head without a label may \
            (Budhraja et al. 2020).",
        |_| true,
    ),
    (
        "several-roles",
        "Some heads have several labels: the primary label is the one with the largest margin, not the only one.",
        |run| run.verdicts.iter().any(|verdict| verdict.labels.len() > 1),
    ),
    (
        "no-op",
        "Attention to special tokens may be a way of doing nothing (Clark et al. 2019; Kobayashi et al. 2020).",
        |run| run.has_label(|label| ["separator", "first-special"].contains(&label)),
    ),
    ("borderline", "Some labels are borderline: their intervals reach across the threshold.", |run| {
        run.verdicts.iter().flat_map(|verdict| &verdict.labels).any(|label| label.borderline)
    }),
    (
        "this-kind-of-text",
        "Intervals and tests are about sentences like those of this corpus; other kinds of text differ by more.",
        |_| true,
    ),
    ("few-sentences", "There are fewer sentences than blocks to resample: the intervals are too narrow.", |run| {
        run.corpus.sentences < BLOCKS as u64
    }),
    (
        "words-of-a-sentence",
        "The significance tests take words as independent, which those of one sentence are not; \
            the intervals of the differences do not.",
        |run| run.has_trees(),
    ),
    (
        "significance-not-asked",
        "The policy asks no significance of syntactic labels: some may be there by chance.",
        |run| run.policy.syntactic_q.is_none() && run.has_label(|label| label.starts_with("syntactic:")),
    ),
    (
        "selection",
        "The best head of a relation is the best of many tried: its `accuracy` is biased upwards, \
            `heldout_accuracy` is not.",
        |run| run.has_trees(),
    ),
    ("no-trees", "No word of the corpus has an annotated head: no syntactic label could be tested.", |run| {
        !run.has_trees()
    }),
];

/// The caveats that apply to a run.
pub fn of_run(
    model: &ModelInfo,
    corpus: &CorpusInfo,
    policy: &Policy,
    measured: &Measurements,
    verdicts: &[Verdict],
) -> Vec<Caveat> {
    let run = Run { model, corpus, policy, measured, verdicts };
    let applies = CAVEATS.iter().filter(|(.., applies)| applies(&run));
    applies.map(|(id, text, _)| Caveat { id: (*id).to_owned(), text: (*text).to_owned() }).collect()
}
