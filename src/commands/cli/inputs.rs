//! The model and the sentences that commands are given.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::errors::Usage;
use crate::corpus::{Format, Input};
use crate::model::source::ModelRef;
use crate::sequences::fold::words::FromToken;
use crate::system::boxed;
use crate::system::errors::Facts;

/// Where models may come from.
#[derive(Args)]
pub(super) struct NetworkArguments {
    /// Do not ask the Hub: take the model from its cache
    #[arg(long)]
    pub(super) offline: bool,
}

/// Which sentences.
#[derive(Args)]
pub(super) struct CorpusArguments {
    /// A corpus: a file, also compressed (.gz, .zst), a folder, or `-` for standard input. May be repeated; sentences
    /// are numbered through [default: box:gold, which is in the binary]
    #[arg(short, long = "corpus", value_name = "PATH")]
    pub(super) corpus: Vec<PathBuf>,
    /// How to read every corpus; of a folder only the files of this format [default: by extension: .conllu, .conll,
    /// .txt, .text, .jsonl or .ndjson]
    #[arg(long, value_enum, requires = "corpus")]
    pub(super) format: Option<FormatArgument>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum FormatArgument {
    /// CoNLL-U
    Conllu,
    /// One sentence per line, a blank line between documents
    Text,
    /// One JSON object per line
    Jsonl,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum FromTokenArgument {
    /// The mean over its tokens
    Mean,
    /// Its first token
    First,
}

impl NetworkArguments {
    /// The model that is named; a name that is not in the box is refused as a corpus's is.
    pub(super) fn model(&self, argument: Option<&str>) -> Result<ModelRef, Usage> {
        let model = ModelRef::parse(argument.unwrap_or(boxed::MODEL));
        if let ModelRef::InTheBox(name) = &model {
            boxed::model(name).of_option("model")?;
        }
        Ok(if self.offline { model.offline() } else { model })
    }
}

impl CorpusArguments {
    /// The corpora that are named, or the one in the box.
    pub(super) fn validate(self) -> Result<Vec<Input>, Usage> {
        let format = self.format.map(|format| match format {
            FormatArgument::Conllu => Format::Conllu,
            FormatArgument::Text => Format::Text,
            FormatArgument::Jsonl => Format::Jsonl,
        });
        let corpora = if self.corpus.is_empty() { vec![boxed::CORPUS.into()] } else { self.corpus };
        corpora.iter().map(|path| Input::parse(path, format)).collect()
    }
}

impl FromTokenArgument {
    /// The same without clap.
    pub(super) fn value(self) -> FromToken {
        match self {
            Self::Mean => FromToken::Mean,
            Self::First => FromToken::First,
        }
    }
}
