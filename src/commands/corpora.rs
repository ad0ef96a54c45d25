//! `headscope counts` and `headscope index`: prepare a corpus for analysis in shards.

use std::path::Path;

use anyhow::{Result, anyhow};

use super::sentences::with_tokenizer_options;
use crate::corpus::{CorpusScope, IndexCounts, Input, write_index};
use crate::model::Model;
use crate::model::source::ModelRef;
use crate::model::tokenizer::TokenizerOptions;
use crate::passes::run::counting::count_tokens;
use crate::passes::run::token_limit;
use crate::sequences::reading::{Context as Reads, Spacing};
use crate::system::counts::format_count;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output::Output;
use crate::system::parallel::core_count;
use crate::system::progress::{self, Downloads};
use crate::system::terminal::print;

/// Counts how often each token of a model's tokenizer occurs in a corpus, and writes the counts as JSON.
/// Fails if the model, the corpus or the output cannot be used, or the corpus has no token.
pub fn write_token_counts(
    model: &ModelRef,
    (options, words): (TokenizerOptions, Spacing),
    inputs: &[Input],
    path: &Path,
) -> Result<()> {
    let output = Output::open(path)?;
    let model = with_tokenizer_options(Model::load(model.resolve(&Downloads::default())?)?, options)?;
    let max_tokens = token_limit(&model.architecture.config, None, Reads::Sentence)?;
    let counting = progress::show_spinner("counting tokens");
    let tokenizer = (&model.tokenizer, Reads::Sentence, words);
    let (counts, corpus) =
        count_tokens(inputs, tokenizer, max_tokens, true, &CorpusScope::all_sentences(), core_count())?;
    counting.finish_and_clear();
    if counts.is_empty() {
        return Err(anyhow!("corpus `{}` has no tokens", corpus.name).with_file(&corpus.name)).class(ErrorClass::Input);
    }
    output.finish(counts.to_json(&model.tokenizer)?.as_bytes())
}

/// Writes an index of a corpus to `path`, from which a shard reads only its own segments of 256 sentences.
pub fn write_corpus_index(corpus: &[Input], path: &Path) -> Result<()> {
    let mut output = Output::open(path)?;
    let indexing = progress::show_spinner("indexing");
    let IndexCounts { files, sentences, segments } = write_index(corpus, |bytes| output.write(bytes))?;
    indexing.finish_and_clear();
    output.commit()?;
    let (sentences, segments) = (format_count(sentences, "sentence"), format_count(segments, "segment"));
    print(&format!("{sentences} in {segments}, of {}\n", format_count(files, "file")))
}
