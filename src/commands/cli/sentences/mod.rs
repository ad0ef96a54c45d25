//! Arguments that choose sentences and heads, for `headscope view`, `headscope maps` and `headscope match`.

pub mod matching;
pub mod view;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::shared::inputs::{CorpusArguments, FORMATS, SPACINGS};
use super::shared::{UsageError, ensure_truncatable, named_value_parser, numbers, refuse_overlap};
use crate::commands::sentences::{SentenceChoice, SentenceOptions};
use crate::corpus::CorpusScope;
use crate::model::tokenizer::TokenizerOptions;
use crate::sequences::reading::Spacing;
use crate::sequences::shard::Shard;

/// Sentences to read: texts on the command line, or sentences of a corpus.
#[derive(Args)]
pub struct SentenceArguments {
    /// Text to read (sentence 0, 1, ...). May be repeated
    #[arg(long = "text", value_name = "TEXT", conflicts_with_all = ["corpus", "sentences", "format"])]
    pub texts: Vec<String>,
    #[command(flatten)]
    corpora: CorpusArguments,
    /// Only this sentence of the corpus, counted from 0. May be repeated
    #[arg(short, long = "sentence", value_name = "N", value_parser = numbers::whole_number_parser_from::<u64>(0))]
    pub sentences: Vec<u64>,
    /// How the words of a treebank are given to the tokenizer
    #[arg(long, value_name = "HOW", value_parser = named_value_parser(SPACINGS), default_value = "written")]
    words: Spacing,
    /// Skip sentences over N tokens [default: the model's number of positions]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser_from::<u32>(1))]
    max_tokens: Option<u32>,
    /// Cut longer sentences of plain text instead of skipping them
    #[arg(long)]
    pub truncate: bool,
}

impl SentenceArguments {
    /// The `--corpus` and `--format` arguments, as words of a command line.
    /// Fails if a path is not UTF-8.
    pub fn corpus_arguments(&self) -> Result<Vec<String>, UsageError> {
        let CorpusArguments { corpus, format } = &self.corpora;
        let mut words = Vec::new();
        for path in corpus {
            let text = path.to_str().ok_or_else(|| anyhow!("the name `{}` is no UTF-8", path.display()))?;
            words.extend(["--corpus".to_owned(), text.to_owned()]);
        }
        let format = format.and_then(|format| FORMATS.iter().find(|(known, ..)| *known == format));
        words.extend(format.into_iter().flat_map(|(_, name, _)| ["--format".to_owned(), (*name).to_owned()]));
        Ok(words)
    }

    /// Validates the arguments. `tokenizer` says how text becomes tokens. With `strict`, skipping a sentence is an error.
    /// `find` is a word that sentences of a corpus must have, and `limit` the maximum number of sentences.
    /// Fails if the corpora cannot be used, or `--truncate` is given and no corpus can have plain text.
    pub fn options(
        self,
        tokenizer: TokenizerOptions,
        strict: bool,
        find: Option<String>,
        limit: Option<u64>,
    ) -> Result<SentenceOptions, UsageError> {
        let Self { texts, corpora, sentences, words, max_tokens, truncate } = self;
        let inputs = corpora.validate()?;
        let choice = if texts.is_empty() {
            if truncate {
                ensure_truncatable(&inputs)?;
            }
            let indices = BTreeSet::from_iter(sentences).into_iter().collect();
            let (scope, shard) = (CorpusScope::all_sentences(), Shard::WHOLE);
            SentenceChoice::Corpus { inputs, indices, required_word: find, limit, scope, shard }
        } else {
            let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
            SentenceChoice::Texts(texts.into_iter().take(most).collect())
        };
        let max_tokens = max_tokens.map(|tokens| tokens as usize);
        Ok(SentenceOptions { choice, tokenizer, max_tokens, spacing: words, truncate, strict })
    }
}

/// Fails if an output is also a corpus, or is given twice.
pub fn refuse_corpus_as_output(outputs: &[PathBuf], sentences: &SentenceOptions) -> Result<(), UsageError> {
    match &sentences.choice {
        SentenceChoice::Corpus { inputs, .. } => refuse_overlap(outputs, inputs),
        SentenceChoice::Texts(_) => refuse_overlap(outputs, &[]),
    }
}
