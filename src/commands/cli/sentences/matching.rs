//! The arguments of `headscope match`.

use clap::Args;

use super::arguments::{SentenceArguments, refuse_corpus};
use crate::commands::cli::saved::sides::OutcomeArguments;
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::inputs::{NetworkArguments, TokenizerArguments};
use crate::commands::cli::shared::numbers;
use crate::commands::cli::shared::statuses::{RUNNING, help};
use crate::commands::sentences::SentenceChoice;
use crate::commands::sentences::matching::{MatchOptions, match_heads};
use crate::sequences::shard::Shard;

const EXAMPLES: &str = "\
Examples:
  headscope match ./seed-1 ./seed-2 -c other.conllu -o match.json
  headscope compare seed-1.json seed-2.json --match match.json
  headscope match ./seed-1 ./seed-2 -c one.conllu --shard 1/2 -o match.json

Heads of a layer have no order, so that seeds have like heads in other places. Match over other text than that of the reports: \
partners that were chosen over the text of the labels agree on them too well. Of one corpus match over --shard 1/2 and compare \
what `headscope analyze --shard 2/2 -o FILE.headscope` wrote of both, and the other way round.
";

/// Pair the heads of two models by their attention
///
/// Both models read the same sentences. Within each layer every head gets a partner of its own, so that the root mean squares of
/// Hellinger distances between their rows add up to the least (the Hungarian method).
#[derive(Args)]
#[command(after_help = help(EXAMPLES, RUNNING))]
pub struct MatchArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary
    a: String,
    /// Another with the same layers, heads and tokenizer
    b: String,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    tokenizer: TokenizerArguments,
    #[command(flatten)]
    wanted: SentenceArguments,
    /// Read no more than so many sentences
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = numbers::from::<u64>(1))]
    limit: u64,
    /// Read only shard I of N of the corpus, counted from 1: every N-th 256 sentences
    #[arg(long, value_name = "I/N", conflicts_with_all = ["texts", "sentences"])]
    shard: Option<Shard>,
    #[command(flatten)]
    outcome: OutcomeArguments,
}

impl MatchArguments {
    /// The command.
    pub fn command(self) -> Result<Command, Usage> {
        let Self { a, b, network, tokenizer, wanted, limit, shard: asked, outcome } = self;
        let models = [network.model(Some(&a))?, network.model(Some(&b))?];
        let (words, truncate, max_tokens) = (wanted.words, wanted.truncate, wanted.max_tokens());
        let mut sentences = wanted.choice(None, Some(limit))?;
        if let (SentenceChoice::Corpus { shard, .. }, Some(asked)) = (&mut sentences, asked) {
            *shard = asked;
        }
        refuse_corpus(outcome.files(), &sentences)?;
        let outputs = outcome.outputs("matched heads", &["json", "json.gz", "csv"])?;
        let tokenizer = tokenizer.options();
        let options = MatchOptions { models, tokenizer, sentences, max_tokens, words, truncate, outputs };
        Ok(Command::new(move || match_heads(&options)))
    }
}
