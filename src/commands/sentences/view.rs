//! `headscope view`: the attention of chosen heads over sentences, for a person.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};

use super::{HeadChoice, NamedSentence, SentenceChoice, attention, attention_maps, chosen, heads, load, view_of};
use crate::export::attention::{SentenceAttention, figure, grid, page, page_of_all};
use crate::export::page::glance::Thumbnails;
use crate::model::Model;
use crate::model::forward::Scratch;
use crate::model::grid::HeadPlace;
use crate::model::grid::visibility::Visibility;
use crate::model::source::ModelRef;
use crate::model::tokenizer::TokenizerOptions;
use crate::passes::pass::Pass;
use crate::passes::run::token_limit;
use crate::report::{AttentionMaps, MOST_TOKENS};
use crate::sequences::fold::units::Units;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::reading::{Context as Reads, Spacing};
use crate::sequences::sequence::Sequence;
use crate::sequences::span::WordSpan;
use crate::sequences::tokenize::SentenceTokenizer;
use crate::system::errors::{Class, Facts};
use crate::system::files::output::Output;
use crate::system::terminal::{self, print};

/// Sentences, heads, and how their attention is shown.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    pub model: ModelRef,
    /// How the tokenizer reads text.
    pub tokenizer: TokenizerOptions,
    /// The sentences that are shown.
    pub sentences: SentenceChoice,
    /// The heads that are shown, in this order.
    pub heads: HeadChoice,
    /// Whether weights are shown as numbers.
    pub numbers: bool,
    /// Longer sentences are skipped, or are an error if they were requested by number.
    pub max_tokens: Option<usize>,
    /// How words are given to the tokenizer.
    pub words: Spacing,
    /// Whether longer sentences of plain text are cut.
    pub truncate: bool,
    /// The token that speaks for a split word.
    pub from_token: FromToken,
    /// Files that are written in place of the terminal.
    pub outputs: Vec<(PathBuf, Drawing)>,
}

/// A format of what `headscope view` draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// A figure.
    Svg,
    /// A page.
    Html,
}

/// Shows the attention of heads, or draws it.
/// Fails if the model, a sentence or an output cannot be used.
pub fn view(options: &ViewOptions) -> Result<()> {
    let open = |(path, drawing): &(PathBuf, Drawing)| Ok((Output::open(path)?, *drawing));
    let outputs: Vec<(Output, Drawing)> = options.outputs.iter().map(open).collect::<Result<_>>()?;
    let (model, _) = load(&options.model, options.tokenizer)?;
    let heads = heads(&options.heads, &model).class(Class::Usage)?;
    let limit = token_limit(&model, options.max_tokens, Reads::Sentence).class(Class::Usage)?;
    let mut encoder = SentenceTokenizer::new(&model.tokenizer, limit, options.truncate).spacing(options.words);
    let sentences = chosen(&options.sentences, &mut encoder)?;
    let gates = Pass::PLAIN.gates();
    let draws_page = outputs.iter().any(|(_, drawing)| *drawing == Drawing::Html);
    let mut thumbnails = Vec::new();
    if draws_page && options.heads == HeadChoice::All {
        for NamedSentence { sequence, .. } in &sentences {
            ensure_short(sequence).class(Class::Usage)?;
            let sentence = (!matches!(options.sentences, SentenceChoice::Texts(_))).then_some(sequence.index);
            let maps = attention_maps(&model, sequence, &gates)?;
            thumbnails.push(Thumbnails::new(&AttentionMaps { sentence, ..maps }, model.grid()));
        }
    }
    let mut scratch = Scratch::default();
    let mut seen: Vec<SentenceAttention> = Vec::new();
    for sentence in &sentences {
        let weights = attention(&model, &sentence.sequence, &heads, &gates, &mut scratch)?;
        for (place, head) in heads.iter().enumerate() {
            seen.push(viewed(options, &model, sentence, &weights, (place, *head)));
        }
    }
    if outputs.is_empty() {
        let width = terminal::width();
        let grids: Vec<String> = seen.iter().map(|viewed| grid(viewed, options.numbers, width)).collect();
        return print(&grids.join("\n"));
    }
    for (mut output, drawing) in outputs {
        let bytes = match drawing {
            Drawing::Svg => figure(&seen).into_bytes(),
            Drawing::Html if thumbnails.is_empty() => page(&model.id, &heads, &seen)?,
            Drawing::Html => page_of_all(&model.id, &thumbnails)?,
        };
        output.write(&bytes)?;
        output.commit()?;
    }
    Ok(())
}

/// Fails if a sentence has more tokens than thumbnails have.
fn ensure_short(sequence: &Sequence) -> Result<()> {
    let (index, tokens) = (sequence.index, sequence.ids.len());
    let long = || {
        let error =
            anyhow!("sentence {index} has {tokens} tokens, and thumbnails of all heads have {MOST_TOKENS} at most");
        error.of_option("head").of_value("all").hint("choose a shorter one, or name heads: --head L0H0")
    };
    ensure!(tokens <= MOST_TOKENS, long());
    Ok(())
}

/// A sentence with the attention of one head between its words and special tokens.
fn viewed(
    options: &ViewOptions,
    model: &Model,
    NamedSentence { sequence, id }: &NamedSentence,
    weights: &[f32],
    (place, head): (usize, HeadPlace),
) -> SentenceAttention {
    let units = Units::new(sequence);
    let token = |token: usize| model.tokenizer.token(sequence.ids[token]).unwrap_or_default();
    let mut between = WordAttention::default();
    between.fold(view_of(weights, sequence.ids.len(), place, head), &units.spans, options.from_token);
    SentenceAttention {
        head,
        sentence: sequence.index,
        id: id.as_deref().map(str::to_owned),
        texts: units.texts(sequence, token),
        is_word: units.words.iter().map(Option::is_some).collect(),
        heads: units.heads(sequence),
        seen: seen(&units, model.architecture.config.visibility.of_layer(head.layer), sequence.ids.len()),
        weights: between,
    }
}

/// The units of which some token sees a token, of each unit `[units]`: what follows each other is seen.
fn seen(units: &Units, visibility: Visibility, tokens: usize) -> Vec<Range<usize>> {
    let of_unit = |unit: &WordSpan| {
        let (first, last) = (visibility.keys(unit.start(), tokens), visibility.keys(unit.end() - 1, tokens));
        let start = units.spans.partition_point(|other| other.end() <= first.start);
        start..units.spans.partition_point(|other| other.start() < last.end)
    };
    units.spans.iter().map(of_unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_sees_what_one_of_its_tokens_sees() {
        let units = Units { spans: WordSpan::whole([0..1, 1..3, 3..4]), ..Units::default() };
        assert_eq!(seen(&units, Visibility::ALL, 4), [0..3, 0..3, 0..3]);
        assert_eq!(seen(&units, Visibility::CAUSAL, 4), [0..1, 0..2, 0..3]);
        // Token 2 sees itself and the one before, token 3 the end of the word before.
        assert_eq!(seen(&units, Visibility::causal_window(2), 4), [0..1, 0..2, 1..3]);
    }
}
