//! `headscope view`: shows the attention of chosen heads over sentences, in the terminal, as a figure or as a page.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use itertools::Itertools as _;

use super::{
    HeadChoice, NamedSentence, SentenceChoice, SentenceOptions, attention_maps_of_weights, compute_attention,
    head_view, load_with_options, resolve_heads,
};
use crate::corpus::LinkSet;
use crate::corpus::relation::scored_relations;
use crate::export::attention::{GoldArcs, SentenceAttention, arcs_figure, attention_page, text_grid};
use crate::export::page::ShownSentence;
use crate::model::Model;
use crate::model::forward::Scratch;
use crate::model::grid::HeadPlace;
use crate::model::grid::visibility::Visibility;
use crate::model::source::ModelRef;
use crate::passes::pass::Pass;
use crate::report::{AttentionMaps, MAX_MAP_TOKENS, SentenceArc};
use crate::sequences::fold::units::DisplayUnits;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;
use crate::sequences::span::WordSpan;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output::Output;
use crate::system::printable::one_line;
use crate::system::terminal::{self, print};

pub struct ViewOptions {
    pub model: ModelRef,
    pub sentences: SentenceOptions,
    pub heads: HeadChoice,
    pub shown_arcs: ShownArcs,
    pub hides_special_tokens: bool,
    pub prints_numbers: bool,
    pub from_token: FromToken,
    pub outputs: Vec<(PathBuf, DrawingFormat)>,
}

/// Arcs that are drawn beside attention: of the tree, of one relation, or of one link type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownArcs {
    Tree,
    Relation(String),
    Links(String),
}

impl ShownArcs {
    /// Arcs of a sentence as `[from, to]` word indices.
    /// An arc goes from a dependent to its syntactic head, or from the source of a link to its target.
    /// Returns `None` if arcs of a tree are shown and the sentence has no tree.
    fn word_arcs(&self, sequence: &Sequence) -> Option<Vec<[usize; 2]>> {
        let of_tree = |takes: &dyn Fn(&str) -> bool| {
            let arcs = sequence.tree.as_ref()?.iter().enumerate().filter(|(_, arc)| takes(&arc.relation));
            Some(arcs.filter_map(|(word, arc)| Some([word, arc.head.word()?])).collect())
        };
        match self {
            Self::Tree => of_tree(&|_| true),
            Self::Relation(wanted) => of_tree(&|relation| scored_relations(relation).any(|name| name == *wanted)),
            Self::Links(wanted) => {
                let sets = sequence.links.iter().filter(|links| *links.link_type.name == **wanted);
                let of_set = |links: &LinkSet| -> Vec<[usize; 2]> {
                    links.targets.iter().flat_map(|(&from, to)| to.iter().map(move |&to| [from, to])).collect()
                };
                Some(sets.flat_map(of_set).collect())
            }
        }
    }

    /// Arcs of a sentence between units (words and special tokens), as `[from, to]`, ascending.
    /// Returns `None` if arcs of a tree are shown and the sentence has no tree.
    fn unit_arcs(&self, sequence: &Sequence, units: &DisplayUnits) -> Option<GoldArcs> {
        let (name, end) = match self {
            Self::Tree => (None, "head"),
            Self::Relation(name) => (Some(name.clone()), "head"),
            Self::Links(name) => (Some(name.clone()), "target"),
        };
        let arcs = self.word_arcs(sequence)?.into_iter().map(|ends| ends.map(|word| units.unit_of_word[word]));
        Some(GoldArcs { name, end_noun: end, arcs: arcs.sorted_unstable().collect() })
    }

    /// Whether a sentence has an arc of the wanted relation or link type; always true for a tree.
    fn has_arc_in(&self, sequence: &Sequence) -> bool {
        *self == Self::Tree || self.word_arcs(sequence).is_some_and(|arcs| !arcs.is_empty())
    }

    /// Fails if no sentence has an arc of the wanted relation or link type; the hint names relations or types that occur.
    fn ensure_arcs_in(&self, sentences: &[NamedSentence]) -> Result<()> {
        let sequences = || sentences.iter().map(|sentence| &sentence.sequence);
        let (option, name, present): (_, _, BTreeSet<&str>) = match self {
            Self::Tree => return Ok(()),
            Self::Relation(name) => {
                let relations = sequences().flat_map(|sequence| sequence.tree.iter().flatten());
                ("relation", name, relations.map(|arc| &*arc.relation).collect())
            }
            Self::Links(name) => {
                let links = sequences().flat_map(|sequence| &sequence.links);
                ("link", name, links.map(|links| &*links.link_type.name).collect())
            }
        };
        if sequences().any(|sequence| self.has_arc_in(sequence)) {
            return Ok(());
        }
        let present: Vec<&str> = present.into_iter().collect();
        let way_out = match &present[..] {
            [] => "name a corpus that has them with --corpus".to_owned(),
            _ => format!("the first ones have {}", present.join(", ")),
        };
        let kind = if option == "link" { "links of the type" } else { "the relation" };
        Err(anyhow!("no sentence that may be shown has {kind} `{}`", one_line(name)))
            .with_option(option)
            .with_value(name)
            .hint(one_line(&way_out))
    }
}

/// Format of a drawing of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawingFormat {
    Svg,
    Html,
}

pub fn view(options: &ViewOptions) -> Result<()> {
    let open = |(path, drawing): &(PathBuf, DrawingFormat)| Ok((Output::open(path)?, *drawing));
    let outputs: Vec<(Output, DrawingFormat)> = options.outputs.iter().map(open).collect::<Result<_>>()?;
    let (model, _) = load_with_options(&options.model, options.sentences.tokenizer)?;
    let heads = resolve_heads(&options.heads, &model).class(ErrorClass::Usage)?;
    let sentences = options.sentences.read(&model, |sequence| options.shown_arcs.has_arc_in(sequence))?;
    options.shown_arcs.ensure_arcs_in(&sentences).class(ErrorClass::Usage)?;
    let gates = Pass::PLAIN.removal_gates();
    let draws_page = outputs.iter().any(|(_, drawing)| *drawing == DrawingFormat::Html);
    let shows_all_heads = options.heads == HeadChoice::All;
    let mut scratch = Scratch::default();
    let mut drawn: Vec<SentenceAttention> = Vec::new();
    let mut page_sentences: Vec<ShownSentence> = Vec::new();
    for sentence in &sentences {
        let sequence = &sentence.sequence;
        if draws_page && shows_all_heads {
            ensure_thumbnails_fit(sequence).class(ErrorClass::Usage)?;
        }
        let weights = compute_attention(&model, sequence, &heads, &gates, &mut scratch)?;
        if draws_page {
            let index = (!matches!(options.sentences.choice, SentenceChoice::Texts(_))).then_some(sequence.index);
            let mut maps = AttentionMaps { sentence: index, ..attention_maps_of_weights(&model, sequence, &weights) };
            if options.shown_arcs != ShownArcs::Tree {
                maps.arcs = page_arcs(options, &model, sequence);
            }
            page_sentences.push(if shows_all_heads {
                ShownSentence::with_thumbnails(&maps, model.grid())
            } else {
                ShownSentence::for_heads(&maps, &heads)
            });
        }
        for (place, head) in heads.iter().enumerate() {
            drawn.push(sentence_attention(options, &model, sentence, &weights, (place, *head)));
        }
    }
    if outputs.is_empty() {
        let width = terminal::stdout_width();
        return print(&drawn.iter().map(|viewed| text_grid(viewed, options.prints_numbers, width)).join("\n"));
    }
    for (output, drawing) in outputs {
        let bytes = match drawing {
            DrawingFormat::Svg => arcs_figure(&drawn).into_bytes(),
            DrawingFormat::Html => {
                attention_page(&model.id, &page_sentences, if shows_all_heads { &[] } else { &heads }, &drawn)?
            }
        };
        output.finish(&bytes)?;
    }
    Ok(())
}

/// Fails if the sentence has too many tokens for thumbnails of all heads.
fn ensure_thumbnails_fit(sequence: &Sequence) -> Result<()> {
    let (index, tokens) = (sequence.index, sequence.ids.len());
    ensure!(
        tokens <= MAX_MAP_TOKENS,
        anyhow!("sentence {index} has {tokens} tokens, and thumbnails of all heads have {MAX_MAP_TOKENS} at most")
            .with_option("head")
            .with_value("all")
            .hint("choose a shorter one, or name heads: --head L0H0")
    );
    Ok(())
}

/// Arcs of a relation, or links of a type, as the page draws them. In a decoder they go from the later word to the earlier one.
fn page_arcs(options: &ViewOptions, model: &Model, sequence: &Sequence) -> Vec<SentenceArc> {
    let Some(GoldArcs { name, arcs, .. }) = options.shown_arcs.unit_arcs(sequence, &DisplayUnits::new(sequence)) else {
        return Vec::new();
    };
    let is_causal = model.architecture.config.visibility.common_visibility().is_causal();
    let arc = |[from, to]: [usize; 2]| {
        let [from, to] = if is_causal { [from.max(to), from.min(to)] } else { [from, to] };
        SentenceArc { from, to, relation: name.clone().unwrap_or_default() }
    };
    arcs.into_iter().map(arc).collect()
}

/// Folds the attention of one head over a sentence to its words and special tokens. `place` is the head's index in `weights`.
fn sentence_attention(
    options: &ViewOptions,
    model: &Model,
    NamedSentence { sequence, id }: &NamedSentence,
    weights: &[f32],
    (place, head): (usize, HeadPlace),
) -> SentenceAttention {
    let units =
        if options.hides_special_tokens { DisplayUnits::words_only(sequence) } else { DisplayUnits::new(sequence) };
    let token = |token: usize| model.tokenizer.token(sequence.ids[token]).unwrap_or_default();
    let mut between = WordAttention::default();
    between.fold(head_view(weights, sequence.ids.len(), place, head), &units.spans, options.from_token);
    SentenceAttention {
        head,
        sentence: sequence.index,
        id: id.as_deref().map(str::to_owned),
        unit_texts: units.texts(sequence, token),
        is_word: units.words.iter().map(Option::is_some).collect(),
        gold: options.shown_arcs.unit_arcs(sequence, &units),
        visible_units: visible_units(
            &units,
            model.architecture.config.visibility.layer_visibility(head.layer),
            sequence.ids.len(),
        ),
        weights: between,
    }
}

/// Range of units that the tokens of each unit can see, `[units]`.
fn visible_units(units: &DisplayUnits, visibility: Visibility, tokens: usize) -> Vec<Range<usize>> {
    let of_unit = |unit: &WordSpan| {
        let (first, last) =
            (visibility.visible_keys(unit.start(), tokens), visibility.visible_keys(unit.end() - 1, tokens));
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
        let units = DisplayUnits { spans: WordSpan::whole_words([0..1, 1..3, 3..4]), ..DisplayUnits::default() };
        assert_eq!(visible_units(&units, Visibility::ALL, 4), [0..3, 0..3, 0..3]);
        assert_eq!(visible_units(&units, Visibility::CAUSAL, 4), [0..1, 0..2, 0..3]);
        // Token 2 sees itself and the one before, token 3 the end of the word before.
        assert_eq!(visible_units(&units, Visibility::causal_window(2), 4), [0..1, 0..2, 1..3]);
    }
}
