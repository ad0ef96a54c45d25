//! The arguments of `headscope index`.

use std::path::PathBuf;

use clap::Args;

use anyhow::anyhow;

use super::shared::checks::refuse_overlap;
use super::shared::command::{Command, Usage};
use super::shared::inputs::{CorpusArguments, FORMATS};
use super::shared::statuses::{READING, help};
use super::shared::values::one_of;
use crate::commands::index::index;
use crate::corpus::{Format, Input};

const EXAMPLES: &str = "\
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
#[command(after_help = help(EXAMPLES, READING))]
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
    /// The command.
    pub fn command(self) -> Result<Command, Usage> {
        let corpus = CorpusArguments { corpus: self.corpus, format: self.format }.validate()?;
        if let Some(Input::Stdin(_)) = corpus.iter().find(|input| !input.can_be_read_again()) {
            return Err(anyhow!("standard input can be read only once: an index is of files"));
        }
        refuse_overlap(std::slice::from_ref(&self.output), &corpus)?;
        Ok(Command::new(move || index(&corpus, &self.output)))
    }
}
