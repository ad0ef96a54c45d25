//! The arguments of `headscope view`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use anyhow::anyhow;

use super::arguments::{SentenceArguments, once, refuse_corpus};
use crate::commands::cli::shared::checks::{extension, lower_extension};
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::inputs::{FROM_TOKEN, NetworkArguments, TokenizerArguments};
use crate::commands::cli::shared::numbers;
use crate::commands::cli::shared::statuses::{RUNNING, help};
use crate::commands::cli::shared::values::one_of;
use crate::commands::sentences::HeadChoice;
use crate::commands::sentences::view::{Drawing, ShownArcs, ViewOptions, view};
use crate::model::grid::HeadPlace;
use crate::sequences::fold::words::FromToken;
use crate::system::errors::Facts;

const EXAMPLES: &str = "\
Examples:
  headscope view --head L2H8 --text \"The scientist thanked the assistant because she solved the problem.\"
  headscope view ./my-model --head L2H8,L3H1 --corpus treebank.conllu --find because
  headscope view ./my-model --head L2H8 --corpus treebank.conllu --sentence 7 --numbers
  headscope view ./my-model --head L2H8 --corpus treebank.conllu --relation obj --hide-special
  headscope view ./my-model --head L2H8 --corpus reactions.jsonl --link maps
  headscope view ./my-model --head L2H8 --corpus treebank.conllu --sentence 7 -o sentence.svg -o sentence.html
  headscope view ./my-model --head all --text \"The cat sat on the mat.\" -o heads.html

Rows attend to columns, which are numbered as the rows are. A > stands before the head of the word in the tree, where the corpus has \
trees.
";

/// Show the attention of heads over sentences
///
/// In the terminal as blocks or numbers, word by word; or as a figure (.svg) or a page (.html) with arcs from each word to where
/// it attends most. With --head all a page has the thumbnails of all heads, token by token.
#[derive(Args)]
#[command(after_help = help(EXAMPLES, RUNNING))]
pub struct ViewArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    model: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    tokenizer: TokenizerArguments,
    #[command(flatten)]
    wanted: SentenceArguments,
    /// Show this head, or `all` heads: on a page as thumbnails, in a figure as arcs one below the other. May be repeated
    #[arg(long = "head", value_name = "L2H8", value_delimiter = ',', required = true)]
    heads: Vec<ViewedHeads>,
    /// Only sentences of the corpus with this word, in capitals or not
    #[arg(long, value_name = "WORD", conflicts_with_all = ["texts", "sentences"])]
    find: Option<String>,
    /// Show no more than so many sentences
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = numbers::from::<u64>(1))]
    limit: u64,
    /// Draw only the arcs of this relation beside attention, and say which the head finds
    #[arg(long, value_name = "RELATION", conflicts_with = "texts")]
    relation: Option<String>,
    /// Draw the links of this type in place of the tree, and say which the head finds
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["texts", "relation"])]
    link: Option<String>,
    /// Leave special tokens out: words are drawn to the word that they attend to most
    #[arg(long)]
    hide_special: bool,
    /// Show weights as numbers
    #[arg(long, conflicts_with = "outputs")]
    numbers: bool,
    /// Which token speaks for a word of several
    #[arg(long, value_parser = one_of(FROM_TOKEN), default_value = "mean")]
    from_token: FromToken,
    /// Write to this file in place of the terminal: .svg or .html. May be repeated
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
}

/// A head, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ViewedHeads {
    All,
    One(HeadPlace),
}

impl FromStr for ViewedHeads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.parse().map(Self::One).map_err(|error: String| format!("{error}; `all` is every head"))
    }
}

/// The heads that were named, each once, or all.
fn choice(named: &[ViewedHeads]) -> HeadChoice {
    let heads = named.iter().map(|named| if let ViewedHeads::One(head) = named { Some(*head) } else { None });
    heads.collect::<Option<Vec<HeadPlace>>>().map_or(HeadChoice::All, |heads| HeadChoice::Heads(once(heads)))
}

impl ViewArguments {
    /// The command.
    pub fn command(self) -> Result<Command, Usage> {
        let model = self.network.model(self.model.as_deref())?;
        // Sentences that are named are shown however many they are.
        let (truncate, max_tokens) = (self.wanted.truncate, self.wanted.max_tokens());
        let named = self.wanted.texts.len().max(self.wanted.sentences.len());
        let words = self.wanted.words;
        let sentences = self.wanted.choice(self.find, Some(self.limit.max(named as u64)))?;
        refuse_corpus(&self.outputs, &sentences)?;
        let drawing = |path: &PathBuf| match lower_extension(path).as_str() {
            "svg" => Ok((path.clone(), Drawing::Svg)),
            "html" => Ok((path.clone(), Drawing::Html)),
            _ => {
                let error = anyhow!("`{}`: attention is drawn as .svg or .html", path.display());
                Err(error.about(path.display()).of_value(extension(path)))
            }
        };
        let gold = match (self.relation, self.link) {
            (Some(relation), _) => ShownArcs::Relation(relation),
            (None, Some(link)) => ShownArcs::Links(link),
            (None, None) => ShownArcs::Tree,
        };
        let options = ViewOptions {
            model,
            tokenizer: self.tokenizer.options(),
            sentences,
            heads: choice(&self.heads),
            gold,
            hides_special: self.hide_special,
            numbers: self.numbers,
            max_tokens,
            words,
            truncate,
            from_token: self.from_token,
            outputs: self.outputs.iter().map(drawing).collect::<Result<_, Usage>>()?,
        };
        Ok(Command::new(move || view(&options)))
    }
}
