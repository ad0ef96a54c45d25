//! Arguments for models, tokenizers and corpora.

use std::path::PathBuf;

use clap::Args;

use super::{INPUT_HEADING, NamedValue, UsageError, named_value_parser};
use crate::corpus::{Format, Input};
use crate::model::source::ModelRef;
use crate::model::tokenizer::TokenizerOptions;
use crate::model::tokenizer::residues::Parting;
use crate::sequences::fold::words::FromToken;
use crate::sequences::reading::Spacing;
use crate::system::embedded;
use crate::system::errors::ErrorExt;

/// Sources of a model beside its name: the Hub or only its cache, and a LoRA adapter.
#[derive(Args)]
pub struct NetworkArguments {
    /// Do not ask the Hub: take the model from its cache
    #[arg(long, help_heading = INPUT_HEADING, hide_short_help = true)]
    pub offline: bool,
    /// Merge this LoRA adapter, a folder that peft saved, into the model
    #[arg(long, value_name = "FOLDER", requires = "model", help_heading = INPUT_HEADING, hide_short_help = true)]
    pub adapter: Option<PathBuf>,
}

/// Options of the model's tokenizer: how words and residue sequences are looked up and split.
#[derive(Args)]
pub struct TokenizerArguments {
    /// Look each word up as one entry of the model's vocabulary, as it is
    ///
    /// For vocabularies that are not of a language, where the model's folder does not say how text is split. A word without an
    /// entry becomes the unknown token. Words of plain text are separated by spaces
    #[arg(long, help_heading = INPUT_HEADING, hide_short_help = true)]
    tokens_as_words: bool,
    /// How to split sequences of residues: letters, spaced, kmer:K or kmer:K:STRIDE [default: as the vocabulary tells]
    ///
    /// `letters` leaves sequences as they are, and `spaced` puts a space between letters. `kmer:3` makes all words of three
    /// letters, each starting one letter (or STRIDE letters) after the last. A part between spaces that is an entry of the
    /// vocabulary is not split
    #[arg(long, value_name = "PARTING", conflicts_with = "tokens_as_words", help_heading = INPUT_HEADING, hide_short_help = true)]
    residues: Option<Parting>,
}

impl TokenizerArguments {
    pub fn options(&self) -> TokenizerOptions {
        TokenizerOptions { tokens_as_words: self.tokens_as_words, residues: self.residues }
    }
}

/// Corpora from which sentences are read, and their format.
#[derive(Args)]
pub struct CorpusArguments {
    /// A file or a folder; may be repeated [default: box:gold]
    ///
    /// A file may be compressed (.gz, .zst); `-` is standard input. Sentence numbers run on from one file to the next. box:gold
    /// is in the binary
    #[arg(short, long = "corpus", value_name = "PATH", help_heading = INPUT_HEADING)]
    pub corpus: Vec<PathBuf>,
    /// Corpus format
    ///
    /// Holds for every corpus; other files in a folder are skipped [default: by extension: .conllu, .conll, .txt, .text,
    /// .jsonl, .ndjson, .fasta, .fa, .faa, .rxn, .rsmi or .pairs]
    #[arg(long, value_parser = named_value_parser(FORMATS), requires = "corpus", help_heading = INPUT_HEADING)]
    pub format: Option<Format>,
}

pub const FORMATS: &[NamedValue<Format>] = &[
    (Format::Conllu, "conllu", "CoNLL-U"),
    (Format::Text, "text", "One sentence per line, a blank line between documents"),
    (Format::Jsonl, "jsonl", "One JSON object per line"),
    (Format::Fasta, "fasta", "Proteins, one record each"),
    (Format::Rxn, "rxn", "Reaction SMILES with atom numbers, one per line"),
    (Format::Pairs, "pairs", "Two texts, and the alignment of their words, one pair per line"),
];

pub const FROM_TOKEN: &[NamedValue<FromToken>] =
    &[(FromToken::Mean, "mean", "The mean over its tokens"), (FromToken::First, "first", "Its first token")];

pub const SPACINGS: &[NamedValue<Spacing>] = &[
    (Spacing::Written, "written", "In the text as it was written"),
    (Spacing::Spaced, "spaced", "One by one, each with a space before it"),
];

impl NetworkArguments {
    /// The named model, or the built-in default. Fails if a `box:` name is unknown.
    pub fn model(&self, argument: Option<&str>) -> Result<ModelRef, UsageError> {
        let model = ModelRef::parse(argument.unwrap_or(embedded::DEFAULT_MODEL));
        if let ModelRef::Bundled(name) = &model {
            embedded::model(name).with_option("model")?;
        }
        let model = if self.offline { model.without_network() } else { model };
        let Some(adapter) = self.adapter.clone() else { return Ok(model) };
        Ok(ModelRef::Adapted { base: Box::new(model), adapter })
    }
}

impl CorpusArguments {
    pub fn validate(self) -> Result<Vec<Input>, UsageError> {
        let corpora = if self.corpus.is_empty() { vec![embedded::DEFAULT_CORPUS.into()] } else { self.corpus };
        corpora.iter().map(|path| Input::parse(path, self.format)).collect()
    }
}
