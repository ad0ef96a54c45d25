//! The arguments of `headscope maps`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;

use super::arguments::{SentenceArguments, once, refuse_corpus};
use crate::commands::cli::shared::checks::{heads, lower_extension, unfit};
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::inputs::{NetworkArguments, TokenizerArguments};
use crate::commands::cli::shared::numbers;
use crate::commands::cli::shared::statuses::{RUNNING, help};
use crate::commands::sentences::HeadChoice;
use crate::commands::sentences::maps::{MapsOptions, maps};
use crate::model::grid::HeadPlace;

const EXAMPLES: &str = "\
Examples:
  headscope maps --text \"The cat sat on the mat.\" -o maps.safetensors
  headscope maps ./my-model --text \"The cat sat on the mat.\" -o maps.safetensors
  headscope maps --head L2H8 --text \"The cat sat.\" --text \"It slept.\" -o maps.safetensors
  headscope maps --rollout --text \"The cat sat on the mat.\" -o rollout.safetensors
  headscope maps google-bert/bert-base-uncased --corpus treebank.conllu --sentence 0 --sentence 7 -o maps.safetensors

In Python:
  from safetensors import safe_open
  maps = safe_open(\"maps.safetensors\", \"np\")
  maps.get_tensor(\"attentions.0\")    # [layers, heads, from, to]; each row sums to 1; 0 where nothing is seen
  maps.metadata()[\"tokens.0\"]        # the tokens, a JSON list; word_ids.0: the word of each token, words.0: the words;
                                      # of a treebank gold_heads.0 and relations.0, and sentence_id.0 where it has one
";

/// Write the attention of chosen sentences as tensors
///
/// For each sentence a float32 tensor `attentions.<index>` of shape [layers, heads, tokens, tokens], attention from the token of
/// the row to that of the column, in a safetensors file whose metadata holds the names of the axes, the tokens, the words, the word of each token, the gold tree and the name of the sentence where the
/// corpus has them, and the model's identity. With --head the shape is [heads, tokens, tokens], in the order in which they are
/// named. With --rollout there are `rollout.<index>` and `rollout_even.<index>` instead, [layers, tokens, tokens]: how much of each
/// token there is in each after each layer, if attention were all that moves anything, and the same of even attention.
#[derive(Args)]
#[command(after_help = help(EXAMPLES, RUNNING))]
pub struct MapsArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    model: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    tokenizer: TokenizerArguments,
    #[command(flatten)]
    wanted: SentenceArguments,
    /// Map only the heads of this layer, counted from 0. May be repeated
    #[arg(long = "layer", value_name = "N", conflicts_with = "heads")]
    layers: Vec<usize>,
    /// Map only this head: the tensors are then [heads, tokens, tokens]. May be repeated
    #[arg(long = "head", value_name = "L2H8", value_delimiter = ',')]
    heads: Vec<HeadPlace>,
    /// Write the rollout of all heads in place of their attention: attention of the layers multiplied up, the mean of each layer's
    /// heads mixed half with the identity (Abnar & Zuidema 2020), and the same of even attention
    #[arg(long, conflicts_with_all = ["layers", "heads", "removed"])]
    rollout: bool,
    /// Map no more than so many sentences
    #[arg(long, value_name = "N", value_parser = numbers::from::<u64>(1))]
    limit: Option<u64>,
    /// The safetensors file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Remove heads from the model, as `headscope analyze` does
    #[arg(long = "remove", value_name = "L0H3", value_delimiter = ',')]
    removed: Vec<HeadPlace>,
    /// Fail at the first sentence that would be skipped, and write nothing
    #[arg(long)]
    strict: bool,
}

impl MapsArguments {
    /// The command.
    pub fn command(self) -> Result<Command, Usage> {
        let model = self.network.model(self.model.as_deref())?;
        let (truncate, words, max_tokens) = (self.wanted.truncate, self.wanted.words, self.wanted.max_tokens());
        let sentences = self.wanted.choice(None, self.limit)?;
        if lower_extension(&self.output) != "safetensors" {
            return Err(unfit("write maps as", &self.output, "name a file .safetensors"));
        }
        refuse_corpus(std::slice::from_ref(&self.output), &sentences)?;
        let removed = heads(self.removed);
        let heads = if !self.heads.is_empty() {
            HeadChoice::Heads(once(self.heads))
        } else if self.layers.is_empty() {
            HeadChoice::All
        } else {
            HeadChoice::Layers(BTreeSet::from_iter(self.layers).into_iter().collect())
        };
        let (output, strict) = (self.output, self.strict);
        let rollout = self.rollout;
        let tokenizer = self.tokenizer.options();
        let options = MapsOptions {
            model,
            tokenizer,
            sentences,
            heads,
            rollout,
            output,
            max_tokens,
            words,
            truncate,
            strict,
            removed,
        };
        Ok(Command::new(move || maps(&options)))
    }
}
