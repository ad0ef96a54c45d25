//! The arguments of `headscope counts` and `headscope index`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::shared::inputs::{CorpusArguments, FORMATS, NetworkArguments, SPACINGS, TokenizerArguments};
use super::shared::{Command, READING, RUNNING, Usage, help, one_of, refuse_overlap};
use crate::commands::corpora::{counts, index};
use crate::corpus::{Format, Input};
use crate::sequences::reading::Spacing;

const EXAMPLES: &str = "\
Examples:
  headscope counts ./my-model --corpus wikipedia.txt.gz -o counts.json
  headscope analyze ./my-model --corpus treebank.conllu --counts counts.json -o report.json
  cat treebank.conllu | headscope analyze ./my-model --corpus - --format conllu --counts counts.json

The file is a JSON object from each token of the model's vocabulary to a whole number: {\"the\": 5071, \"##ing\": 312}.
";

/// Count the tokens of a corpus
///
/// Writes how often each token is there, as the model's tokenizer makes them. `headscope analyze --counts` takes that in
/// place of the counts of the corpus it analyses: for standard input, which it cannot count beforehand, for shards, which
/// would each count the whole corpus, or to call rare what is rare elsewhere.
#[derive(Args)]
#[command(after_help = help(EXAMPLES, RUNNING))]
pub struct CountsArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    model: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    tokenizer: TokenizerArguments,
    #[command(flatten)]
    corpora: CorpusArguments,
    /// How the words of a treebank are given to the tokenizer
    #[arg(long, value_name = "HOW", value_parser = one_of(SPACINGS), default_value = "written")]
    words: Spacing,
    /// The JSON file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl CountsArguments {
    pub fn command(self) -> Result<Command, Usage> {
        let (model, corpus) = (self.network.model(self.model.as_deref())?, self.corpora.validate()?);
        refuse_overlap(std::slice::from_ref(&self.output), &corpus)?;
        let tokenizer = self.tokenizer.options();
        Ok(Command::new(move || counts(&model, (tokenizer, self.words), &corpus, &self.output)))
    }
}

const INDEX_EXAMPLES: &str = "\
Examples:
  headscope index treebank.conllu -o treebank.index
  headscope index UD_English-EWT more.jsonl.gz -o corpus.index
  headscope analyze ./my-model -c treebank.conllu --index treebank.index --shard 1/100 -o parts/
";

/// Say where the parts of a corpus are, so that a shard reads its own alone
///
/// Writes where each segment of 256 sentences stands in its file, its digest, and of which family each sentence is. With
/// `headscope analyze --index` a shard reads its segments alone, and holds them against their digests; where studies remove heads,
/// those of the whole sample as well. The report is the same, byte for byte. A compressed file is read as a whole by each shard that
/// has a part of it.
#[derive(Args)]
#[command(after_help = help(INDEX_EXAMPLES, READING))]
pub struct IndexArguments {
    /// The corpus: files, also compressed (.gz, .zst), or folders, in the order in which `headscope analyze` is given them
    #[arg(required = true, value_name = "CORPUS")]
    corpus: Vec<PathBuf>,
    /// How to read every corpus; of a folder only the files of this format [default: by extension]
    #[arg(long, value_parser = one_of(FORMATS))]
    format: Option<Format>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl IndexArguments {
    pub fn command(self) -> Result<Command, Usage> {
        let corpus = CorpusArguments { corpus: self.corpus, format: self.format }.validate()?;
        if let Some(Input::Stdin(_)) = corpus.iter().find(|input| !input.can_be_read_again()) {
            return Err(anyhow!("standard input can be read only once: an index is of files"));
        }
        refuse_overlap(std::slice::from_ref(&self.output), &corpus)?;
        Ok(Command::new(move || index(&corpus, &self.output)))
    }
}
