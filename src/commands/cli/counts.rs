//! The arguments of `headscope counts`.

use std::path::PathBuf;

use clap::Args;

use super::shared::checks::refuse_overlap;
use super::shared::command::{Command, Usage};
use super::shared::inputs::{CorpusArguments, NetworkArguments, SPACINGS, TokenizerArguments};
use super::shared::statuses::{RUNNING, help};
use super::shared::values::one_of;
use crate::commands::counts::counts;
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
    /// The command.
    pub fn command(self) -> Result<Command, Usage> {
        let (model, corpus) = (self.network.model(self.model.as_deref())?, self.corpora.validate()?);
        refuse_overlap(std::slice::from_ref(&self.output), &corpus)?;
        let tokenizer = self.tokenizer.options();
        Ok(Command::new(move || counts(&model, (tokenizer, self.words), &corpus, &self.output)))
    }
}
