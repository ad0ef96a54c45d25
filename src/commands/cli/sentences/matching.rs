//! The arguments of `headscope match`.

use clap::Args;

use super::{SentenceArguments, refuse_corpus_as_output};
use crate::commands::analyze::observe_half;
use crate::commands::analyze::options::AnalyzeOptions;
use crate::commands::cli::analyze::words::parse_options;
use crate::commands::cli::saved::compare::OutcomeArguments;
use crate::commands::cli::shared::inputs::{NetworkArguments, TokenizerArguments};
use crate::commands::cli::shared::report::threads_or_all;
use crate::commands::cli::shared::{Command, RUN_ERRORS, UsageError, help_with_statuses, numbers};
use crate::commands::sentences::matching::{HalfAnalyses, ObserveHalf, match_heads};
use crate::commands::sentences::{SentenceChoice, SentenceOptions};
use crate::corpus::CorpusScope;
use crate::sequences::shard::Shard;

const EXAMPLES: &str = "\
Examples:
  headscope match ./seed-1 ./seed-2 -c other.conllu -o match.json
  headscope compare seed-1.json seed-2.json --match match.json
  headscope match ./seed-1 ./seed-2 -c one.conllu --labels      # one corpus, both ways

Heads of a layer have no order, so that seeds have like heads in other places. Match over other text than that of the reports: \
partners that were chosen over the text of the labels agree on them too well. With --labels heads are matched over one half of the \
sampling units and labelled over the other; then both halves change roles.
";

/// Pair the heads of two models by their attention
///
/// Both models read the same sentences. Within each layer every head gets one partner, so that the sum of root mean square
/// Hellinger distances between their rows is least (the Hungarian method).
#[derive(Args)]
#[command(after_help = help_with_statuses(EXAMPLES, RUN_ERRORS))]
pub struct MatchArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary
    a: String,
    /// Model to match with A: same layers, heads and tokenizer
    b: String,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    tokenizer: TokenizerArguments,
    #[command(flatten)]
    wanted: SentenceArguments,
    /// Read at most N sentences
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = numbers::whole_number_parser_from::<u64>(1))]
    limit: u64,
    /// Read only shard I of N, from 1: every N-th segment of 256 sentences
    #[arg(long, value_name = "I/N", conflicts_with_all = ["texts", "sentences"])]
    shard: Option<Shard>,
    /// Analyse both models as well: match heads over one half of the corpus and compare their labels over the other, both ways
    ///
    /// The sampling units (documents, families or sentences) of even number are one half, the rest the other. Heads are matched
    /// over the sentences of one half that are among the first --limit. They are labelled over all of the other half, as a
    /// whole corpus
    #[arg(long, conflicts_with_all = ["texts", "sentences", "shard"])]
    labels: bool,
    /// Threads that analyse the models for --labels [default: one per core]
    #[arg(long, value_name = "N", requires = "labels", value_parser = numbers::whole_number_parser::<u16>(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    outcome: OutcomeArguments,
}

impl MatchArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let Self { a, b, network, tokenizer, wanted, limit, shard: asked, labels, threads, outcome } = self;
        let models = [network.model(Some(&a))?, network.model(Some(&b))?];
        let analyzed = labels.then(|| analysis_arguments(&wanted)).transpose()?;
        let mut sentences = wanted.options(tokenizer.options(), false, None, Some(limit))?;
        if let (SentenceChoice::Corpus { shard, .. }, Some(asked)) = (&mut sentences.choice, asked) {
            *shard = asked;
        }
        if let (SentenceChoice::Corpus { scope, .. }, true) = (&mut sentences.choice, labels) {
            *scope = CorpusScope::new(None, None);
        }
        refuse_corpus_as_output(&outcome.outputs, &sentences)?;
        let outputs = outcome.outcome_outputs("matched heads", &["json", "json.gz", "csv"])?;
        let threads = threads_or_all(threads);
        let SentenceOptions { tokenizer, max_tokens, spacing: words, truncate, .. } = sentences;
        let runs = analyzed.map(parse_options).transpose()?.map(|options| {
            let observe = models.clone().map(|model| -> ObserveHalf {
                let options = AnalyzeOptions {
                    model,
                    max_tokens,
                    tokenizer,
                    truncate,
                    threads,
                    spacing: words,
                    ..options.clone()
                };
                Box::new(move |half| observe_half(&options, half))
            });
            HalfAnalyses { observe, threads }
        });
        Ok(Command::new(move || match_heads(&models, &sentences, &outputs, runs.as_ref())))
    }
}

fn analysis_arguments(wanted: &SentenceArguments) -> Result<Vec<String>, UsageError> {
    let mut words = wanted.corpus_arguments()?;
    words.extend(["--output", "-", "--no-run-info"].map(str::to_owned));
    if wanted.truncate {
        words.push("--truncate".to_owned());
    }
    Ok(words)
}
