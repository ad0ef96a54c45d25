//! Caveats of a run; docs/LIMITS.md has references.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::corpus::{CorpusInfo, TextInfo};
use crate::corpus::Format;
use crate::model::grid::visibility::Visibility;
use crate::passes::observation::identity::ModelInfo;
use crate::sequences::reading::{Context, Reading};
use crate::stats::blocks::BLOCKS;
use crate::study::labels::Verdict;
use crate::study::{Caveat as CaveatText, CaveatSubject};

/// One limit on what the labels of the run mean, or on how certain they are (docs/LIMITS.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caveat {
    /// Stable short name of the caveat, such as `role-is-not-importance`.
    pub id: String,
    /// The caveat in words, with literature if there is any.
    pub text: String,
}

/// Facts about a run on which its caveats depend.
pub(super) struct RunFacts<'a> {
    pub model: &'a ModelInfo,
    pub corpus: &'a CorpusInfo,
    /// How the run read the text of the corpus; `None` if the report does not say.
    pub reading: Option<&'a Reading>,
    pub verdicts: &'a [Verdict],
}

impl RunFacts<'_> {
    /// Whether the text of the corpus meets `condition`; `false` for reports of version 0.1, which do not describe
    /// the text.
    fn text_meets(&self, condition: impl Fn(&TextInfo) -> bool) -> bool {
        self.corpus.text.as_ref().is_some_and(condition)
    }
}

/// A general caveat, with the function that decides whether it applies to a run.
type ConditionalCaveat = (CaveatText, fn(&RunFacts<'_>) -> bool);

/// Makes a general caveat on the meaning of labels; `applies` decides for which runs.
const fn meaning_caveat(id: &'static str, applies: fn(&RunFacts<'_>) -> bool, text: &'static str) -> ConditionalCaveat {
    (CaveatText { id, text, subject: CaveatSubject::Meaning, applies: |_| true }, applies)
}

/// Makes a general caveat on the certainty of labels; `applies` decides for which runs.
const fn certainty_caveat(
    id: &'static str,
    applies: fn(&RunFacts<'_>) -> bool,
    text: &'static str,
) -> ConditionalCaveat {
    (CaveatText { id, text, subject: CaveatSubject::Certainty, applies: |_| true }, applies)
}

/// The general caveats, which depend on the run and not on a study.
const GENERAL_CAVEATS: &[ConditionalCaveat] = &[
    meaning_caveat(
        "attention-is-not-explanation",
        |_| true,
        "A label says where a head attends, not what the model's output depends on \
            (Jain & Wallace 2019; Wiegreffe & Pinter 2019).",
    ),
    meaning_caveat(
        "weights-not-unique",
        |run| run.corpus.longest > run.model.head_dim as u64,
        "Some sentences have more tokens than a head has dimensions: there other attention weights would give the \
            same output (Brunner et al. 2020).",
    ),
    meaning_caveat(
        "role-is-not-importance",
        |_| true,
        "A head with a clear role need not matter to the model, and a head without a label may \
            (Budhraja et al. 2020).",
    ),
    meaning_caveat(
        "several-roles",
        |run| run.verdicts.iter().any(|verdict| verdict.labels.len() > 1),
        "Some heads have several labels: the primary label is the one with the largest margin, not the only one.",
    ),
    meaning_caveat(
        "windows",
        |run| {
            let longest = usize::try_from(run.corpus.longest).unwrap_or(usize::MAX);
            let nearest = run.model.visibility.common_visibility();
            // Causal attention has a separate caveat.
            let after = nearest.after.filter(|_| !nearest.is_causal());
            !Visibility { after, ..nearest }.is_full(longest)
        },
        "In some layers a token sees only those around it, so that each has more of its attention by chance: masses \
            are to be compared beside the chance level of their layer, and what is farther away reaches such a head \
            through other layers alone.",
    ),
    meaning_caveat(
        "causal",
        |run| run.model.visibility.are_causal(),
        "The model is a decoder, whose tokens see those before them alone: relations are scored by the side of the \
            head, and masses, uas and relations do not compare with an encoder's.",
    ),
    meaning_caveat(
        "sentences-alone",
        |run| run.reading.is_some_and(|reading| reading.context == Context::Sentence),
        "The decoder read each sentence by itself, which is not what it was trained on: the first token of each \
            sentence is the first that it sees, and nothing stands before the first words. `--context document` reads \
            the sentences of a document one after the other.",
    ),
    meaning_caveat(
        "residues",
        |run| run.model.residues,
        "The model is one of proteins: its words are residues, and offsets are distances along the chain, not in \
            space. Of language its labels say nothing.",
    ),
    meaning_caveat(
        "proteins-as-text",
        |run| reads_proteins_as_text(run.model, run.corpus),
        "The corpus is FASTA, and the tokenizer is not one of residues: words are pieces of sequences as it cuts \
            them, which mean something only to a model that was trained on such sequences.",
    ),
    meaning_caveat(
        "unread-corpus",
        |run| !run.corpus.health.could_read_text(),
        "The model could not read the corpus (`corpus.health`): scores are about something else than its text, and no \
            label is firm.",
    ),
    meaning_caveat(
        "unknown-tokens",
        |run| run.text_meets(TextInfo::has_many_unknown_tokens),
        "Many tokens are unknown to the vocabulary, and to the model they are all the same word: labels say what it \
            does with their places, not with this language.",
    ),
    meaning_caveat(
        "cut-up-words",
        |run| run.text_meets(TextInfo::has_split_words),
        "Words have more than two tokens on average, so most neighbours are parts of one word: labels at an offset \
            are about these, not about words.",
    ),
    meaning_caveat(
        "hardly-running-text",
        |run| run.text_meets(TextInfo::has_short_sentences),
        "Sentences have fewer than four words on average, so most words lack a neighbour on one side: what looks \
            farther rests on the few longer ones, which may be of another kind.",
    ),
    meaning_caveat(
        "generated",
        |run| run.corpus.files.iter().any(|file| file.generated.is_some()),
        "The corpus says that sentences of it were generated: intervals and tests are about more of these, not about \
            a language.",
    ),
    certainty_caveat(
        "borderline",
        |run| {
            let mut labels = run.verdicts.iter().flat_map(|verdict| &verdict.labels);
            run.corpus.health.could_read_text() && labels.any(|label| label.borderline)
        },
        "Some labels are borderline: above the threshold, but not significantly.",
    ),
    certainty_caveat(
        "this-kind-of-text",
        |_| true,
        "Intervals and tests are about more documents or sentences like those of this corpus (`corpus.unit`); other \
            kinds of text differ by more.",
    ),
    certainty_caveat(
        "equal-files",
        |run| !run.corpus.repeated.is_empty(),
        "Some files of the corpus have the same contents: their sentences count twice in every number, and once in \
            intervals and tests.",
    ),
    certainty_caveat(
        "equal-sentences",
        |run| run.text_meets(TextInfo::is_repetitive),
        "Many sentences are copies of others: they count each time in every number, and once in intervals and tests.",
    ),
    certainty_caveat(
        "few-sentences",
        |run| run.corpus.sentences < BLOCKS as u64 || run.text_meets(TextInfo::has_few_sentence_groups),
        "The corpus has fewer independent sentences than blocks: intervals and tests rest on little text.",
    ),
];

/// Whether the corpus is FASTA (proteins) while the model's tokens are not residues.
pub(super) fn reads_proteins_as_text(model: &ModelInfo, corpus: &CorpusInfo) -> bool {
    !model.residues && corpus.files.iter().any(|file| file.format == Format::Fasta)
}

/// Whether a general caveat is about the certainty of labels, not about their meaning.
pub fn is_about_certainty(id: &str) -> bool {
    GENERAL_CAVEATS.iter().any(|(caveat, _)| caveat.id == id && caveat.subject == CaveatSubject::Certainty)
}

/// The caveats that apply to a run: on the meaning of labels, then on their certainty. In both parts, general
/// caveats come before the studies' caveats (`of_studies`).
pub(super) fn caveats_for_run(run: &RunFacts<'_>, of_studies: Vec<&'static CaveatText>) -> Vec<Caveat> {
    let general = GENERAL_CAVEATS.iter().filter(|(_, applies)| applies(run)).map(|(caveat, _)| caveat);
    let mut caveats: Vec<&CaveatText> = general.chain(of_studies).collect();
    caveats.sort_by_key(|caveat| caveat.subject);
    let caveat = |CaveatText { id, text, .. }: &CaveatText| Caveat { id: (*id).to_owned(), text: (*text).to_owned() };
    caveats.into_iter().map(caveat).collect()
}
