//! `headscope view` and `headscope maps`: the attention of chosen sentences.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;

use anyhow::anyhow;

use super::checks::{heads, lower_extension, refuse_overlap, unfit};
use super::errors::Usage;
use super::inputs::{CorpusArguments, FromTokenArgument, NetworkArguments};
use super::numbers;
use super::statuses::{RUNNING, help};
use crate::commands::options::{Drawing, HeadChoice, MapsOptions, SentenceChoice, ViewOptions};
use crate::model::grid::HeadPlace;
use crate::system::errors::Facts;

/// Texts, or sentences of a corpus.
#[derive(Args)]
struct SentenceArguments {
    /// This text; the first is sentence 0. May be repeated
    #[arg(long = "text", value_name = "TEXT", conflicts_with_all = ["corpus", "sentences", "format"])]
    texts: Vec<String>,
    #[command(flatten)]
    corpora: CorpusArguments,
    /// Only this sentence of the corpus, counted from 0. May be repeated
    #[arg(short, long = "sentence", value_name = "N", value_parser = numbers::from::<u64>(0))]
    sentences: Vec<u64>,
}

impl SentenceArguments {
    fn choice(self, find: Option<String>, limit: Option<u64>) -> Result<SentenceChoice, Usage> {
        let inputs = self.corpora.validate()?;
        if self.texts.is_empty() {
            let indices = BTreeSet::from_iter(self.sentences).into_iter().collect();
            return Ok(SentenceChoice::Corpus { inputs, indices, find, limit });
        }
        let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        Ok(SentenceChoice::Texts(self.texts.into_iter().take(most).collect()))
    }
}

/// Refuses outputs that are the corpus.
fn refuse_corpus(outputs: &[PathBuf], sentences: &SentenceChoice) -> Result<(), Usage> {
    match sentences {
        SentenceChoice::Corpus { inputs, .. } => refuse_overlap(outputs, inputs),
        SentenceChoice::Texts(_) => refuse_overlap(outputs, &[]),
    }
}

/// Each head once, in the order in which they are named.
fn once(mut heads: Vec<HeadPlace>) -> Vec<HeadPlace> {
    let mut seen = BTreeSet::new();
    heads.retain(|head| seen.insert(*head));
    heads
}

const VIEW_EXAMPLES: &str = "\
Examples:
  headscope view --head L2H8 --text \"The scientist thanked the assistant because she solved the problem.\"
  headscope view ./my-model --head L2H8,L3H1 --corpus treebank.conllu --find because
  headscope view ./my-model --head L2H8 --corpus treebank.conllu --sentence 7 --numbers
  headscope view ./my-model --head L2H8 --corpus treebank.conllu --sentence 7 -o sentence.svg -o sentence.html

Rows attend to columns, which are numbered as the rows are. A > stands before the head of the word in the tree, where the corpus has \
trees.
";

/// Show the attention of heads over sentences
///
/// In the terminal as blocks or numbers, word by word; or as a figure (.svg) or a page (.html) with arcs from each word to where
/// it attends most.
#[derive(Args)]
#[command(after_help = help(VIEW_EXAMPLES, RUNNING))]
pub(super) struct ViewArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    model: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    wanted: SentenceArguments,
    /// Show this head. May be repeated
    #[arg(long = "head", value_name = "L2H8", value_delimiter = ',', required = true)]
    heads: Vec<HeadPlace>,
    /// Only sentences of the corpus with this word, in capitals or not
    #[arg(long, value_name = "WORD", conflicts_with_all = ["texts", "sentences"])]
    find: Option<String>,
    /// Show no more than so many sentences
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = numbers::from::<u64>(1))]
    limit: u64,
    /// Show weights as numbers
    #[arg(long, conflicts_with = "outputs")]
    numbers: bool,
    /// Which token speaks for a word of several
    #[arg(long, value_enum, default_value_t = FromTokenArgument::Mean)]
    from_token: FromTokenArgument,
    /// Skip sentences of more tokens [default: as many as the model has positions]
    #[arg(long, value_name = "N", value_parser = numbers::from::<u32>(1))]
    max_tokens: Option<u32>,
    /// Write to this file in place of the terminal: .svg or .html. May be repeated
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
}

impl ViewArguments {
    pub(super) fn validate(self) -> Result<ViewOptions, Usage> {
        let model = self.network.model(self.model.as_deref())?;
        // Sentences that are named are shown however many they are.
        let named = self.wanted.texts.len().max(self.wanted.sentences.len());
        let sentences = self.wanted.choice(self.find, Some(self.limit.max(named as u64)))?;
        refuse_corpus(&self.outputs, &sentences)?;
        let drawing = |path: &PathBuf| match lower_extension(path).as_str() {
            "svg" => Ok((path.clone(), Drawing::Svg)),
            "html" => Ok((path.clone(), Drawing::Html)),
            _ => Err(anyhow!("`{}`: attention is drawn as .svg or .html", path.display()).about(path.display())),
        };
        Ok(ViewOptions {
            model,
            sentences,
            heads: once(self.heads),
            numbers: self.numbers,
            max_tokens: self.max_tokens.map(|tokens| tokens as usize),
            from_token: self.from_token.value(),
            outputs: self.outputs.iter().map(drawing).collect::<Result<_, Usage>>()?,
        })
    }
}

const MAPS_EXAMPLES: &str = "\
Examples:
  headscope maps --text \"The cat sat on the mat.\" -o maps.safetensors
  headscope maps ./my-model --text \"The cat sat on the mat.\" -o maps.safetensors
  headscope maps --head L2H8 --text \"The cat sat.\" --text \"It slept.\" -o maps.safetensors
  headscope maps google-bert/bert-base-uncased --corpus treebank.conllu --sentence 0 --sentence 7 -o maps.safetensors

In Python:
  from safetensors import safe_open
  maps = safe_open(\"maps.safetensors\", \"np\")
  maps.get_tensor(\"attentions.0\")    # [layers, heads, tokens, tokens]; each row sums to 1
  maps.metadata()[\"tokens.0\"]        # the tokens, a JSON list; word_ids.0: the word of each token, words.0: the words;
                                      # of a treebank gold_heads.0 and relations.0, and sentence_id.0 where it has one
";

/// Write the attention of chosen sentences as tensors
///
/// For each sentence a float32 tensor `attentions.<index>` of shape [layers, heads, tokens, tokens], in a safetensors
/// file whose metadata holds the tokens, the words, the word of each token, the gold tree and the name of the sentence where the
/// corpus has them, and the model's identity. With --head the shape is [heads, tokens, tokens], in the order in which they are
/// named.
#[derive(Args)]
#[command(after_help = help(MAPS_EXAMPLES, RUNNING))]
pub(super) struct MapsArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    model: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    wanted: SentenceArguments,
    /// Map only the heads of this layer, counted from 0. May be repeated
    #[arg(long = "layer", value_name = "N", conflicts_with = "heads")]
    layers: Vec<usize>,
    /// Map only this head: the tensors are then [heads, tokens, tokens]. May be repeated
    #[arg(long = "head", value_name = "L2H8", value_delimiter = ',')]
    heads: Vec<HeadPlace>,
    /// Map no more than so many sentences
    #[arg(long, value_name = "N", value_parser = numbers::from::<u64>(1))]
    limit: Option<u64>,
    /// The safetensors file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Skip sentences of more tokens [default: as many as the model has positions]
    #[arg(long, value_name = "N", value_parser = numbers::from::<u32>(1))]
    max_tokens: Option<u32>,
    /// Remove heads from the model, as `headscope analyze` does
    #[arg(long = "remove", value_name = "L0H3", value_delimiter = ',')]
    removed: Vec<HeadPlace>,
    /// Fail at the first sentence that would be skipped, and write nothing
    #[arg(long)]
    strict: bool,
}

impl MapsArguments {
    pub(super) fn validate(self) -> Result<MapsOptions, Usage> {
        let model = self.network.model(self.model.as_deref())?;
        let sentences = self.wanted.choice(None, self.limit)?;
        if lower_extension(&self.output) != "safetensors" {
            return Err(unfit("write maps as", &self.output, "name a file .safetensors"));
        }
        refuse_corpus(std::slice::from_ref(&self.output), &sentences)?;
        let max_tokens = self.max_tokens.map(|tokens| tokens as usize);
        let removed = heads(self.removed);
        let heads = if !self.heads.is_empty() {
            HeadChoice::Heads(once(self.heads))
        } else if self.layers.is_empty() {
            HeadChoice::All
        } else {
            HeadChoice::Layers(BTreeSet::from_iter(self.layers).into_iter().collect())
        };
        Ok(MapsOptions { model, sentences, heads, output: self.output, max_tokens, strict: self.strict, removed })
    }
}
