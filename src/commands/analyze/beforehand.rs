//! Before the first pass: how a decoder reads the corpus, and how often each token is in all of it.

use std::borrow::Cow;
use std::sync::Arc;

use anyhow::{Result, anyhow};

use super::options::{AnalyzeOptions, Outcome, PartialOptions};
use super::selection::{GIVE_COUNTS, ONLY_ONCE, Selection};
use crate::commands::sentences::tokenizer_of;
use crate::corpus::{CorpusIdentity, Input, Scope, Unit};
use crate::model::Model;
use crate::model::parameters::Objective;
use crate::model::tokenizer::ModelTokenizer;
use crate::passes::run::counting::count;
use crate::sequences::counts::{Counting, TokenCounts};
use crate::sequences::reading::{Bos, Context, Context as Reads, Reading};
use crate::study::Counts;
use crate::system::errors::Facts;
use crate::system::progress;
use crate::system::terminal::say;

/// How often each token is in the whole corpus, as far as some study must know.
#[derive(Default)]
pub struct KnownCounts {
    /// The counts; `None` if no study needs them, or the corpus can be read only once.
    pub counts: Option<Arc<TokenCounts>>,
    pub sha256: Option<String>,
    pub counted: Option<CorpusIdentity>,
}

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

/// How the model reads a corpus whose units are these, if it is a decoder, and its tokenizer as it does: in documents where the
/// corpus marks them, unless the options say otherwise.
/// Fails if the options ask an encoder for what is of decoders, or for a token that no file names.
pub(super) fn reading<'a>(
    options: &AnalyzeOptions,
    model: &'a Model,
    unit: Unit,
) -> Result<(Option<Reading>, Cow<'a, ModelTokenizer>)> {
    let own = tokenizer_of(model, options.tokenizer)?;
    if !model.is_decoder() {
        let asked = [
            ("context", "document", options.context == Some(Context::Document)),
            ("bos", "always", options.bos == Bos::Always),
            ("bos", "never", options.bos == Bos::Never),
        ];
        return match asked.into_iter().find(|(_, _, asked)| *asked) {
            Some((option, value, _)) => Err(refusal(option, value, &model.id)),
            None => Ok((None, own)),
        };
    }
    let of_corpus = if unit == Unit::Documents { Context::Document } else { Context::Sentence };
    let context = options.context.unwrap_or(of_corpus);
    let tokenizer = match options.bos {
        Bos::Auto => own,
        Bos::Always => {
            let with = own.into_owned().always_beginning();
            Cow::Owned(with.map_err(|error| error.context("--bos always").of_option("bos").of_value("always"))?)
        }
        Bos::Never => Cow::Owned(own.into_owned().never_beginning()),
    };
    let begins_with = tokenizer.begins_with()?;
    Ok((Some(Reading { context, bos: options.bos, begins_with }), tokenizer))
}

fn refusal(option: &str, value: &str, id: &str) -> anyhow::Error {
    let why = if option == "context" {
        "reads each sentence by itself here: windows of documents are for decoders"
    } else {
        "has the special tokens that it was trained with: the option is for decoders"
    };
    anyhow!("--{option} {value}: `{id}` is an encoder, which {why}")
        .of_option(option)
        .of_value(value)
        .hint("leave it out")
}
