//! Health checks of a run's input, and messages for failing checks: the cause, and what to do.

use super::corpus::ratio;
use super::{CorpusInfo, ModelInfo, Report};
use crate::corpus::{CorpusIdentity, TakenDocuments, Unit};
use crate::passes::observation::identity::Protocol;
use crate::sequences::tally::{SkipReason, Tally};
use crate::studies::registry;
use crate::study::AnyStudy;
use crate::study::health::{Health, HealthCheck, HealthId};
use crate::study::labels::policy::Policy;
use crate::study::section::Section;
use crate::study::show::wording::{decimal, whole_percent};
use crate::system::embedded;

pub fn run_health(corpus: &CorpusIdentity, tally: &Tally, model: &ModelInfo, policy: &Policy) -> Health {
    let (repeats, legibility) = (&corpus.repeats, &tally.legibility);
    let skipped: u64 = tally.skipped.values().sum();
    let value = |id: HealthId| match id {
        HealthId::Unparted => ratio(legibility.unparted, tally.sentences),
        HealthId::ForeignScript => ratio(legibility.foreign.values().sum(), legibility.letters),
        HealthId::UnknownTokens => ratio(tally.unknown, tally.text_tokens),
        HealthId::TokensPerWord => tokens_per_word(tally, model),
        HealthId::OneTokenSentences => ratio(legibility.of_one_token, tally.sentences),
        HealthId::LowerCased => ratio(legibility.lower_cased, tally.words),
        HealthId::Skipped => ratio(skipped, tally.sentences.saturating_add(skipped)),
        HealthId::Repeated => ratio(repeats.read.saturating_sub(repeats.different), repeats.read),
        HealthId::Units => Some(repeats.units as f64),
    };
    Health::new(value, policy)
}

/// Tokens of text per word. If words are longer on average than the vocabulary's mean entry, tokens per stretch of text
/// as long as that entry. `None` without text, or if the mean length of the entries is unknown.
fn tokens_per_word(tally: &Tally, model: &ModelInfo) -> Option<f64> {
    let per_entry = model.tokenizer.as_ref()?.round_trip.characters_per_entry()?;
    let usual = (tally.legibility.characters as f64 / per_entry).max(tally.words as f64);
    (usual > 0.0).then(|| tally.text_tokens as f64 / usual)
}

/// Whether a run analyses sentences of the corpus, and not only the items of a task.
pub fn analyses_corpus(protocol: &Protocol, sections: &[(&'static dyn AnyStudy, Box<dyn Section>)]) -> bool {
    let has_task = protocol.task.is_some();
    !has_task || sections.iter().any(|(study, _)| registry::reads_corpus(*study, has_task))
}

impl Report {
    /// Whether the run analyses sentences of the corpus, and not only the items of a task.
    pub fn analyses_corpus(&self) -> bool {
        analyses_corpus(&self.settings.protocol, &self.sections.0)
    }

    /// The name of the corpus that was analysed, or of the task if the run analysed only the items of a task.
    pub fn subject(&self) -> String {
        let task = self.settings.protocol.task.as_ref().filter(|_| !self.analyses_corpus());
        task.map_or_else(|| self.corpus.name.clone(), |task| format!("the task {}", task.name))
    }

    /// Whether a run with a task read the built-in corpus because no corpus was named.
    pub fn uses_builtin_corpus_for_task(&self) -> bool {
        self.settings.protocol.task.is_some() && self.corpus.name == embedded::DEFAULT_CORPUS
    }

    /// A sentence on why no label is firm and what to do, if the model could not read the corpus; else `None`. The
    /// sentence names the first failing check as the cause.
    pub fn unreadable_corpus_warning(&self) -> Option<String> {
        let [why, way_out] = self.corpus.reading_failure_and_advice(&self.model).filter(|_| self.analyses_corpus())?;
        Some(format!("No label is firm, since the model could not read the corpus: {why}: {way_out}."))
    }

    /// A sentence on why no label could be tested and what to do, if the corpus has too few sampling units; else `None`.
    pub(super) fn untested_labels_warning(&self) -> Option<String> {
        let Self { model, corpus, .. } = self;
        let [piece, _] = model.text_units();
        let units = corpus.unit_shortage_text(&self.denominators, piece).filter(|_| self.analyses_corpus())?;
        Some(format!("No label could be tested, since the corpus has {units}: {}.", corpus.advice_for_more_units()))
    }
}

impl CorpusInfo {
    /// Numbers of documents read and available, if `--limit` left some documents out; else `None`.
    fn documents_under_limit(&self) -> Option<TakenDocuments> {
        self.documents.filter(|documents| documents.taken < documents.of)
    }

    /// Advice for a corpus with too few sampling units.
    fn advice_for_more_units(&self) -> &'static str {
        match self.unit {
            _ if self.documents_under_limit().is_some() => "raise --limit, or give `--unit sentences`",
            Unit::Sentences => "give more text",
            _ => "give more text, or `--unit sentences` if its documents need not be told apart",
        }
    }

    /// `[cause, advice]` if the model could not read the corpus; `None` if it could.
    pub fn reading_failure_and_advice(&self, model: &ModelInfo) -> Option<[String; 2]> {
        let mut unread = self.health.failing_reading_checks();
        let cause = unread.next()?;
        let [fact, way_out] = self.failed_check_message(cause, model);
        let fact = unread.fold(fact, |facts, check| facts + "; " + &self.failed_check_message(check, model)[0]);
        Some([fact, way_out])
    }

    /// Messages about failed health checks that leave labels firm, without a full stop.
    pub(super) fn minor_check_messages(&self, model: &ModelInfo) -> Vec<String> {
        let others = self.health.failing_checks().filter(|check| !check.id.affects_firmness());
        others.map(|check| self.failed_check_message(check, model).join(": ")).collect()
    }

    /// The message for a failing health check, as `[what is wrong, what to do]`.
    fn failed_check_message(&self, check: &HealthCheck, model: &ModelInfo) -> [String; 2] {
        let [sentence, word] = model.text_units();
        let value = check.value.unwrap_or_default();
        let share = whole_percent(value);
        let message = |fact: String, way_out: &str| [fact, way_out.to_owned()];
        match check.id {
            HealthId::Unparted => message(
                format!(
                    "{share} of its {sentence}s have a stretch of letters that is longer than every entry of the vocabulary, and one \
                     unknown token"
                ),
                "part them: `--residues spaced` for letters, `--residues kmer:K` for k-mers",
            ),
            HealthId::ForeignScript => {
                let scripts = self.text.iter().flat_map(|text| &text.foreign_letters);
                let script = scripts.max_by_key(|(_, letters)| **letters).map_or("foreign", |(script, _)| &**script);
                message(
                    format!(
                        "{share} of its letters are of scripts in which the vocabulary has no words, most of them {script}"
                    ),
                    "take a model of the corpus's language, or a multilingual one",
                )
            }
            HealthId::UnknownTokens => message(
                format!("{share} of its tokens of text are unknown to the vocabulary"),
                "take a corpus of what the model was trained on, or check that the tokenizer's files are the model's own",
            ),
            HealthId::TokensPerWord => message(
                format!(
                    "its {word}s have {} times as many tokens as the vocabulary's entries suggest",
                    decimal(value, 1)
                ),
                "take a model of the corpus's language, or leave out codes, numbers and other text that is no language",
            ),
            HealthId::OneTokenSentences => message(
                format!("{share} of its {sentence}s have a single token, which has no other to attend to"),
                "give whole sentences: `words` of JSON lines, CoNLL-U, or plain text with a sentence a line",
            ),
            HealthId::LowerCased => message(
                format!("{share} of its {word}s lose their capitals, and the vocabulary is cased"),
                "put `\"do_lower_case\": false` into tokenizer_config.json",
            ),
            HealthId::Skipped => {
                let reason = SkipReason::ALL.into_iter().max_by_key(|reason| self.skipped.get(reason));
                let reason = reason.unwrap_or(SkipReason::NoTokens);
                let way_out = match reason {
                    SkipReason::TooManyTokens => {
                        "raise --max-tokens if the model has more positions, cut plain text with --truncate, or split it into sentences"
                    }
                    SkipReason::WordWithoutTokens | SkipReason::NoTokens => {
                        "check that the tokenizer's files are the model's own, or leave such text out"
                    }
                };
                message(format!("{share} of its {sentence}s are left out, most of them {}", reason.describe()), way_out)
            }
            HealthId::Repeated => message(
                format!("{share} of its {sentence}s are copies of earlier ones, which tests count once"),
                "leave the copies out",
            ),
            HealthId::Units => {
                let [one, many] = self.unit.nouns(sentence);
                let units = format!("{value:.0} {}", if value == 1.0 { one } else { many });
                let limit = self.documents_under_limit().map_or_else(String::new, |TakenDocuments { taken, of }| {
                    format!(", since --limit took {taken} of {of} documents")
                });
                let fact = format!("it has {units}, and a test asks for {:.0}{limit}", check.threshold);
                message(fact, self.advice_for_more_units())
            }
        }
    }
}
