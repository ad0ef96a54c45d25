//! How often each token is in the whole corpus, before the first pass begins.

use std::sync::Arc;

use anyhow::Result;

use super::options::{AnalyzeOptions, Outcome, PartialOptions};
use super::selection::{GIVE_COUNTS, ONLY_ONCE, Selection};
use crate::corpus::{CorpusIdentity, Input, Scope};
use crate::model::Model;
use crate::model::parameters::Objective;
use crate::model::tokenizer::ModelTokenizer;
use crate::passes::run::counting::count;
use crate::sequences::counts::{Counting, TokenCounts};
use crate::sequences::reading::Context as Reads;
use crate::study::Counts;
use crate::system::progress;
use crate::system::terminal::say;

/// How often each token is in the whole corpus, as far as some study must know.
#[derive(Default)]
pub struct KnownCounts {
    /// The counts; `None` if no study needs them, or the corpus can be read only once.
    pub counts: Option<Arc<TokenCounts>>,
    /// The SHA-256 of the file that they are from.
    pub sha256: Option<String>,
    /// The corpus that they are from.
    pub counted: Option<CorpusIdentity>,
}

/// Counts the tokens of the corpus, or reads the file of counts.
/// Fails if either cannot be read.
pub fn known(
    options: &AnalyzeOptions,
    selection: &Selection,
    (model, tokenizer, context): (&Model, &ModelTokenizer, Reads),
    max_tokens: usize,
    scope: &Scope,
) -> Result<KnownCounts> {
    let studies = selection.studies();
    for name in selection.uncounted() {
        say(&format!("the study {name} is left out: {ONLY_ONCE}: {GIVE_COUNTS}"));
    }
    // Replacements of words are drawn by the frequency of each token.
    let replaces = model.objective == Some(Objective::ReplacedTokens) && options.predicting().is_some();
    if !replaces && studies.iter().all(|study| study.card().counts == Counts::Unused) {
        return Ok(KnownCounts::default());
    }
    if let Some(file) = &options.counts {
        let (counts, sha256) = Counting::read(file, tokenizer)?;
        return Ok(KnownCounts { counts: Some(Arc::new(counts.finish())), sha256: Some(sha256), counted: None });
    }
    if !options.corpus.iter().all(Input::can_be_read_again) {
        for study in studies.iter().filter(|study| study.card().counts == Counts::Useful) {
            say(&format!(
                "the study {} does without how common tokens are: {ONLY_ONCE}: {GIVE_COUNTS}",
                study.card().name
            ));
        }
        return Ok(KnownCounts::default());
    }
    let is_part = matches!(&options.outcome, Outcome::Partial(PartialOptions { shard, .. }) if shard.of() > 1);
    if options.index.is_some() && is_part {
        say(
            "note: --index: this run reads all of the corpus, to count its tokens: give --counts FILE, which `headscope counts` writes",
        );
    }
    let counting = progress::step("counting tokens");
    let tokenizer = (tokenizer, context, options.words);
    let (counts, corpus) = count(&options.corpus, tokenizer, max_tokens, options.truncate, scope, options.threads)?;
    counting.finish_and_clear();
    Ok(KnownCounts { counts: Some(Arc::new(counts.finish())), sha256: None, counted: Some(corpus) })
}
