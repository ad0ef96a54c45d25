//! The arguments of `headscope view`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::anyhow;
use clap::Args;
use itertools::Itertools as _;

use super::{SentenceArguments, refuse_corpus_as_output};
use crate::commands::cli::shared::inputs::{FROM_TOKEN, NetworkArguments, TokenizerArguments};
use crate::commands::cli::shared::{
    Command, RUN_ERRORS, UsageError, extension, help_with_statuses, lower_extension, named_value_parser, numbers,
    sorted_heads,
};
use crate::commands::sentences::HeadChoice;
use crate::commands::sentences::maps::{MapsOptions, write_attention_tensors};
use crate::commands::sentences::view::{DrawingFormat, ShownArcs, ViewOptions, view};
use crate::model::grid::HeadPlace;
use crate::sequences::fold::words::FromToken;
use crate::system::errors::ErrorExt;

const EXAMPLES: &str = "\
Examples:
  headscope view --head L2H8 --text \"The scientist thanked the assistant because she solved the problem.\"
  headscope view ./my-model --head L2H8,L3H1 --corpus treebank.conllu --find because
  headscope view ./my-model --head L2H8 --corpus treebank.conllu --sentence 7 --numbers
  headscope view ./my-model --head L2H8 --corpus treebank.conllu --relation obj --hide-special
  headscope view ./my-model --head L2H8 --corpus reactions.jsonl --link maps
  headscope view ./my-model --head L2H8 --corpus treebank.conllu --sentence 7 -o sentence.svg -o sentence.html
  headscope view ./my-model --head all --text \"The cat sat on the mat.\" -o heads.html
  headscope view ./my-model --text \"The cat sat.\" --text \"It slept.\" -o maps.safetensors
  headscope view ./my-model --rollout --text \"The cat sat on the mat.\" -o rollout.safetensors

Rows attend to columns, which are numbered as the rows are. A > stands before the head of the word in the tree, where the corpus has \
trees.

A file .safetensors has for each sentence a float32 tensor `attentions.<index>` of shape [layers, heads, tokens, tokens], attention from the \
token of the row to that of the column; with --head it is [heads, tokens, tokens]. Its metadata hold tokens, words, the word of each \
token, the gold tree, the name of the sentence and the model's identity. In Python:
  from safetensors import safe_open
  maps = safe_open(\"maps.safetensors\", \"np\")
  maps.get_tensor(\"attentions.0\")    # each row sums to 1; 0 where nothing is seen
  maps.metadata()[\"tokens.0\"]        # a JSON list; also word_ids.0, words.0, gold_heads.0, relations.0, sentence_id.0
";

/// Show the attention of heads over sentences
///
/// Prints attention as blocks or numbers, word by word. With -o, draws arcs from each word to where it attends most, in a
/// figure (.svg) or a page (.html). Or writes tensors (.safetensors) of all heads, layers or chosen heads. A page is
/// interactive, and shows all heads as thumbnails with --head all.
#[derive(Args)]
#[command(after_help = help_with_statuses(EXAMPLES, RUN_ERRORS))]
pub struct ViewArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    model: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    tokenizer: TokenizerArguments,
    #[command(flatten)]
    wanted: SentenceArguments,
    /// Show this head, or `all` heads: as thumbnails on a page, as arcs one below the other in a figure. May be repeated. A
    /// tensor file has all heads by default
    #[arg(long = "head", value_name = "L2H8", value_delimiter = ',', required_unless_present = "outputs")]
    heads: Vec<HeadArgument>,
    /// Tensors only: the heads of this layer, counted from 0. May be repeated
    #[arg(long = "layer", value_name = "N", hide_short_help = true, requires = "outputs", conflicts_with = "heads")]
    layers: Vec<usize>,
    /// Tensors only: attention rollout (Abnar & Zuidema 2020) in place of attention, the product over layers of the heads'
    /// mean, mixed half with the identity. Writes `rollout.<index>`, and `rollout_even.<index>` for even attention: [layers,
    /// tokens, tokens]
    #[arg(long, hide_short_help = true, requires = "outputs", conflicts_with_all = ["layers", "heads", "removed"])]
    rollout: bool,
    /// Tensors only: remove heads, as `headscope analyze --remove` does
    #[arg(long = "remove", value_name = "L0H3", hide_short_help = true, value_delimiter = ',', requires = "outputs")]
    removed: Vec<HeadPlace>,
    /// Tensors only: fail at the first sentence to be skipped, and write nothing
    #[arg(long, hide_short_help = true, requires = "outputs")]
    strict: bool,
    /// Only sentences of the corpus with this word, in capitals or not
    #[arg(long, value_name = "WORD", conflicts_with_all = ["texts", "sentences"])]
    find: Option<String>,
    /// Show at most N sentences [default: 3; for tensors, all]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser_from::<u64>(1))]
    limit: Option<u64>,
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
    /// How the tokens of a split word are pooled [default: mean]
    #[arg(long, value_parser = named_value_parser(FROM_TOKEN))]
    from_token: Option<FromToken>,
    /// Write to this file, not the terminal: .svg, .html or .safetensors. May be repeated, except for tensors
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
}

const TENSOR_EXTENSION: &str = "safetensors";
/// Maximum number of sentences that are shown by default.
const DEFAULT_MAX_SENTENCES: u64 = 3;

/// Value of `--head`: all heads, or one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadArgument {
    All,
    One(HeadPlace),
}

impl FromStr for HeadArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.parse().map(Self::One).map_err(|error: String| format!("{error}; `all` is every head"))
    }
}

fn head_choice(named: &[HeadArgument]) -> HeadChoice {
    let heads = named.iter().map(|named| if let HeadArgument::One(head) = named { Some(*head) } else { None });
    heads.collect::<Option<Vec<HeadPlace>>>().map_or(HeadChoice::All, |heads| {
        HeadChoice::Heads(heads.into_iter().unique_by(|head| (head.layer, head.head)).collect())
    })
}

/// Fails if one of the `options`, each as (name, whether it is given), is given.
/// `purpose` says in the error what the options are for.
fn refuse_given_options(options: [(&str, bool); 4], purpose: &str, hint: &str) -> Result<(), UsageError> {
    let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(anyhow!("--{option} is for {purpose}").with_option(option).hint(hint))
}

impl ViewArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let tensors = self.outputs.iter().find(|path| lower_extension(path) == TENSOR_EXTENSION).cloned();
        if let Some(output) = tensors {
            return self.tensor_command(output);
        }
        let drawing = |path: &PathBuf| match lower_extension(path).as_str() {
            "svg" => Ok((path.clone(), DrawingFormat::Svg)),
            "html" => Ok((path.clone(), DrawingFormat::Html)),
            _ => {
                let error = anyhow!("`{}`: attention is written as .svg, .html or .safetensors", path.display());
                Err(error.with_file(path.display()).with_value(extension(path)))
            }
        };
        let outputs = self.outputs.iter().map(drawing).collect::<Result<_, UsageError>>()?;
        self.refuse_tensor_options()?;
        let model = self.network.model(self.model.as_deref())?;
        // The limit never cuts off sentences that the user names.
        let named = self.wanted.texts.len().max(self.wanted.sentences.len());
        let limit = self.limit.unwrap_or(DEFAULT_MAX_SENTENCES).max(named as u64);
        let sentences = self.wanted.options(self.tokenizer.options(), self.strict, self.find, Some(limit))?;
        refuse_corpus_as_output(&self.outputs, &sentences)?;
        let gold = match (self.relation, self.link) {
            (Some(relation), _) => ShownArcs::Relation(relation),
            (None, Some(link)) => ShownArcs::Links(link),
            (None, None) => ShownArcs::Tree,
        };
        let options = ViewOptions {
            model,
            sentences,
            heads: head_choice(&self.heads),
            shown_arcs: gold,
            hides_special_tokens: self.hide_special,
            prints_numbers: self.numbers,
            from_token: self.from_token.unwrap_or_default(),
            outputs,
        };
        Ok(Command::new(move || view(&options)))
    }

    /// Fails if an option for tensors is given, or `--head` is missing, although attention is drawn or printed.
    fn refuse_tensor_options(&self) -> Result<(), UsageError> {
        let of_tensors = [
            ("layer", !self.layers.is_empty()),
            ("rollout", self.rollout),
            ("remove", !self.removed.is_empty()),
            ("strict", self.strict),
        ];
        let hint = "write a file .safetensors: -o maps.safetensors";
        refuse_given_options(of_tensors, "attention as tensors", hint)?;
        if self.heads.is_empty() {
            return Err(anyhow!("no head is named")
                .with_option("head")
                .hint("name heads, as in --head L2H8, or --head all"));
        }
        Ok(())
    }

    fn tensor_command(self, output: PathBuf) -> Result<Command, UsageError> {
        if self.outputs.len() > 1 {
            let two = anyhow!("`{}`: a file of tensors is written alone", output.display());
            return Err(two.with_file(output.display()).hint("run the command once more for the others"));
        }
        let of_words = [
            ("from-token", self.from_token.is_some()),
            ("relation", self.relation.is_some()),
            ("link", self.link.is_some()),
            ("hide-special", self.hide_special),
        ];
        refuse_given_options(of_words, "attention between words, and tensors are between tokens", "leave it out")?;
        let model = self.network.model(self.model.as_deref())?;
        let sentences = self.wanted.options(self.tokenizer.options(), self.strict, self.find, self.limit)?;
        refuse_corpus_as_output(std::slice::from_ref(&output), &sentences)?;
        let heads = match (&self.heads[..], &self.layers[..]) {
            ([], []) => HeadChoice::All,
            ([], layers) => HeadChoice::Layers(BTreeSet::from_iter(layers).into_iter().copied().collect()),
            (heads, _) => head_choice(heads),
        };
        let (rollout, removed) = (self.rollout, sorted_heads(self.removed));
        let options = MapsOptions { model, sentences, heads, rollout, output, removed_heads: removed };
        Ok(Command::new(move || write_attention_tensors(&options)))
    }
}
