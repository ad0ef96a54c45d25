//! Caveats of a run: the general ones, and those of its studies. docs/LIMITS.md has the argument and the full
//! references.

use super::{Caveat, CorpusInfo, ModelInfo};
use crate::stats::blocks::BLOCKS;
use crate::studies::label::Verdict;
use crate::studies::study::{About, Caveat as Known};

/// The facts that decide which caveats apply.
struct Run<'a> {
    model: &'a ModelInfo,
    corpus: &'a CorpusInfo,
    verdicts: &'a [Verdict],
}

/// A caveat, and the runs that it applies to.
type Entry = (Known, fn(&Run<'_>) -> bool);

const fn meaning(id: &'static str, text: &'static str) -> Known {
    Known { id, text, about: About::Meaning }
}

const fn certainty(id: &'static str, text: &'static str) -> Known {
    Known { id, text, about: About::Certainty }
}

const GENERAL: &[Entry] = &[
    (
        meaning(
            "attention-is-not-explanation",
            "A label says where a head attends, not what the model's output depends on \
                (Jain & Wallace 2019; Wiegreffe & Pinter 2019).",
        ),
        |_| true,
    ),
    (
        meaning(
            "weights-not-unique",
            "Some sentences have more tokens than a head has dimensions: there other attention weights would give the \
                same output (Brunner et al. 2020).",
        ),
        |run| run.corpus.longest > run.model.head_dim as u64,
    ),
    (
        meaning(
            "role-is-not-importance",
            "A head with a clear role need not matter to the model, and a head without a label may \
                (Budhraja et al. 2020).",
        ),
        |_| true,
    ),
    (
        meaning(
            "several-roles",
            "Some heads have several labels: the primary label is the one with the largest margin, not the only one.",
        ),
        |run| run.verdicts.iter().any(|verdict| verdict.labels.len() > 1),
    ),
    (certainty("borderline", "Some labels are borderline: their intervals reach across the threshold."), |run| {
        run.verdicts.iter().flat_map(|verdict| &verdict.labels).any(|label| label.borderline)
    }),
    (
        certainty(
            "this-kind-of-text",
            "Intervals and tests are about sentences like those of this corpus; other kinds of text differ by more.",
        ),
        |_| true,
    ),
    (
        certainty(
            "equal-files",
            "Some files of the corpus have the same contents: their sentences count twice, so the intervals and \
                q-values are too small.",
        ),
        |run| !run.corpus.repeated.is_empty(),
    ),
    (
        certainty("few-sentences", "There are fewer sentences than blocks to resample: the intervals are too narrow."),
        |run| run.corpus.sentences < BLOCKS as u64,
    ),
];

/// The caveats that apply to a run: of each kind the general ones first, then those of the studies.
pub fn of_run(
    model: &ModelInfo,
    corpus: &CorpusInfo,
    verdicts: &[Verdict],
    of_studies: Vec<&'static Known>,
) -> Vec<Caveat> {
    let run = Run { model, corpus, verdicts };
    let general = GENERAL.iter().filter(|(_, applies)| applies(&run)).map(|(caveat, _)| caveat);
    let mut caveats: Vec<&Known> = general.chain(of_studies).collect();
    caveats.sort_by_key(|caveat| caveat.about);
    caveats
        .into_iter()
        .map(|Known { id, text, .. }| Caveat { id: (*id).to_owned(), text: (*text).to_owned() })
        .collect()
}
