//! Sentences for `maps`, `match` and `view`: reads and tokenizes them, and computes the attention of chosen heads.

pub mod maps;
pub mod matching;
pub mod view;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, anyhow};

use crate::corpus::{Content, Corpus, CorpusScope, Input, Sentence};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::gates::Gates;
use crate::model::forward::visitor::{HeadView, Needs, Visitor};
use crate::model::forward::{PassStart, Scratch};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::source::ModelRef;
use crate::model::tokenizer::residues::Parting;
use crate::model::tokenizer::{ModelTokenizer, TokenizerOptions};
use crate::model::{Model, PendingHashes};
use crate::passes::run::token_limit;
use crate::report::{AttentionMaps, SentenceArc, SentenceUnit};
use crate::sequences::fold::units::DisplayUnits;
use crate::sequences::pack::Pack;
use crate::sequences::reading::{Context as Reads, Spacing};
use crate::sequences::sequence::Sequence;
use crate::sequences::shard::Shard;
use crate::sequences::tally::SkipReason;
use crate::sequences::tokenize::SentenceTokenizer;
use crate::system::counts::format_count;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::machine::memory;
use crate::system::printable::{one_line, shorten};
use crate::system::progress::{self, Downloads};
use crate::system::terminal::print_to_stderr;

/// Heads whose attention is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadChoice {
    All,
    /// All heads of these layers, counted from 0.
    Layers(Vec<usize>),
    /// Named heads, in this order.
    Heads(Vec<HeadPlace>),
}

/// Sentences to read.
pub enum SentenceChoice {
    /// Texts from the command line: the first is sentence 0.
    Texts(Vec<String>),
    /// Sentences of a corpus.
    Corpus {
        inputs: Vec<Input>,
        /// Wanted sentences by 0-based index, ascending; all if empty.
        indices: Vec<u64>,
        /// Word that each sentence must contain; `None` for all sentences.
        required_word: Option<String>,
        /// Maximum number of sentences to read; `None`: all.
        limit: Option<u64>,
        scope: CorpusScope,
        shard: Shard,
    },
}

pub struct NamedSentence {
    pub sequence: Sequence,
    pub id: Option<Arc<str>>,
}

pub struct SentenceOptions {
    pub choice: SentenceChoice,
    pub tokenizer: TokenizerOptions,
    /// Token limit: longer sentences are skipped, or are an error if requested by number. `None`: the model's limit.
    pub max_tokens: Option<usize>,
    /// Spacing of treebank words before they are tokenized.
    pub spacing: Spacing,
    /// Whether a sentence of plain text above the token limit is cut, not skipped.
    pub truncate: bool,
    /// Whether a sentence that cannot be analysed is an error; otherwise it is skipped.
    pub strict: bool,
}

impl SentenceOptions {
    /// Reads and tokenizes the chosen sentences for a model.
    /// If no sentences of a corpus are named, `is_wanted` selects them. If it selects none, all are returned.
    pub fn read(&self, model: &Model, is_wanted: impl Fn(&Sequence) -> bool) -> Result<Vec<NamedSentence>> {
        let config = &model.architecture.config;
        let limit = token_limit(config, self.max_tokens, Reads::Sentence).class(ErrorClass::Usage)?;
        let encoder =
            SentenceTokenizer::new(&model.tokenizer, limit, self.truncate).with_segments(config.type_vocab_size);
        read_sentences(&self.choice, &mut encoder.with_strict(self.strict).with_spacing(self.spacing), is_wanted)
    }
}

/// Loads a model with these tokenizer options, and hashes its files in the background.
pub fn load_with_options(model: &ModelRef, options: TokenizerOptions) -> Result<(Model, PendingHashes)> {
    let files = model.resolve(&Downloads::default())?;
    let fingerprint = PendingHashes::spawn(&files);
    let loading = progress::show_spinner("loading the model");
    let model = Model::load(files)?;
    loading.finish_and_clear();
    Ok((with_tokenizer_options(model, options)?, fingerprint))
}

/// Lists the chosen heads of a model. Fails if the model lacks one of them.
pub fn resolve_heads(choice: &HeadChoice, model: &Model) -> Result<Vec<HeadPlace>> {
    let (grid, id) = (model.grid(), &model.id);
    Ok(match choice {
        HeadChoice::All => grid.head_places().collect(),
        HeadChoice::Layers(layers) => {
            let HeadGrid { layers: count, heads } = grid;
            if let Some(layer) = layers.iter().find(|&&layer| layer >= count) {
                return Err(anyhow!("there is no layer {layer}: `{id}` has {count}, counted from 0").with_value(layer));
            }
            layers.iter().flat_map(|&layer| (0..heads).map(move |head| HeadPlace { layer, head })).collect()
        }
        HeadChoice::Heads(heads) => {
            if let Some(head) = heads.iter().find(|head| head.layer >= grid.layers || head.head >= grid.heads) {
                return Err(anyhow!("there is no head {head}: `{id}` has {grid}, both counted from 0").with_value(head));
            }
            if let Some(head) = heads.iter().find(|head| model.pruned_heads().contains(head)) {
                return Err(anyhow!("{head} is absent: `{id}` was saved without it (pruned_heads)").with_value(head));
            }
            heads.clone()
        }
    })
}

/// Computes the attention of these heads over a sentence, `[heads, tokens, tokens]`; zeros for absent heads.
pub fn compute_attention(
    model: &Model,
    sequence: &Sequence,
    heads: &[HeadPlace],
    gates: &Gates,
    scratch: &mut Scratch,
) -> Result<Vec<f32>> {
    let (tokens, size) = (sequence.ids.len(), sequence.ids.len() * sequence.ids.len());
    let needed = model.encoder.cost(&[tokens]).bytes.saturating_add((heads.len() * size * size_of::<f32>()) as u64);
    memory::ensure_available(needed, || {
        format!("the attention of {} over {tokens} tokens", format_count(heads.len(), "head"))
    })
    .map_err(|error| {
        let limit = memory::limit_option_for(needed);
        error.hint(format!("choose fewer heads or a shorter sentence, or let it have more by `--memory {limit}`"))
    })
    .class(ErrorClass::Input)?;
    let present = heads.iter().enumerate().filter(|(_, head)| !model.pruned_heads().contains(head));
    let places = present.map(|(place, head)| ((head.layer, head.head), place)).collect();
    let mut recorder = AttentionRecorder { head_indices: places, weights: vec![0.0; heads.len() * size] };
    let pack = Pack { sequences: vec![sequence.clone()] };
    model.encoder.forward_from(PassStart::Embeddings, &pack.batch(), gates, scratch, &mut recorder)?;
    Ok(recorder.weights)
}

pub fn attention_maps(model: &Model, sequence: &Sequence, gates: &Gates) -> Result<AttentionMaps> {
    let heads: Vec<HeadPlace> = model.grid().head_places().collect();
    let weights = compute_attention(model, sequence, &heads, gates, &mut Scratch::default())?;
    Ok(attention_maps_of_weights(model, sequence, &weights))
}

/// Attention maps of a sentence: the rounded `weights`, `[heads, tokens, tokens]`, and the words and the tree of the sentence.
pub fn attention_maps_of_weights(model: &Model, sequence: &Sequence, weights: &[f32]) -> AttentionMaps {
    let token = |token: usize| model.tokenizer.token(sequence.ids[token]).unwrap_or_default();
    let units = DisplayUnits::new(sequence);
    let texts = units.texts(sequence, token);
    let unit = |(unit, text): (usize, String)| {
        let span = &units.spans[unit];
        SentenceUnit { text, tokens: [span.start(), span.end()], is_word: units.words[unit].is_some() }
    };
    let is_causal = model.architecture.config.visibility.common_visibility().is_causal();
    let arc = |(unit, word): (usize, &Option<usize>)| {
        let gold = &sequence.tree.as_ref()?[(*word)?];
        let head = units.unit_of_word[gold.head.word()?];
        let [from, to] = if is_causal { [unit.max(head), unit.min(head)] } else { [unit, head] };
        Some(SentenceArc { from, to, relation: gold.relation.clone() })
    };
    AttentionMaps {
        units: texts.into_iter().enumerate().map(unit).collect(),
        arcs: units.words.iter().enumerate().filter_map(arc).collect(),
        ..AttentionMaps::new((0..sequence.ids.len()).map(token).collect(), weights)
    }
}

/// Visitor that copies the attention of chosen heads.
struct AttentionRecorder {
    /// Index in `weights` of each chosen head, by (layer, head).
    head_indices: BTreeMap<(usize, usize), usize>,
    /// Attention of the chosen heads, `[heads, tokens, tokens]`.
    weights: Vec<f32>,
}

impl Visitor for AttentionRecorder {
    fn needs(&self) -> Needs {
        Needs::ATTENTION
    }

    fn head(&mut self, _sequence: usize, &HeadView { attention: view, .. }: &HeadView<'_>) {
        let Some(place) = self.head_indices.get(&(view.layer, view.head)) else { return };
        let size = view.tokens() * view.tokens();
        let rows = self.weights[place * size..][..size].chunks_exact_mut(view.tokens());
        rows.zip(view.rows()).for_each(|(row, weights)| row.copy_from_slice(weights));
    }
}

/// View of the attention of one head in the weights from [`compute_attention`]; `place` is the index of the head there.
pub fn head_view(weights: &[f32], tokens: usize, place: usize, head: HeadPlace) -> AttentionView<'_> {
    AttentionView::new(head.layer, head.head, tokens, &weights[place * tokens * tokens..][..tokens * tokens])
}

/// Reads the chosen sentences. If no sentences of a corpus are named, `is_wanted` selects them.
/// If it selects none, all sentences are returned, up to the limit of `choice`.
/// Fails if the corpus cannot be read, a named sentence cannot be encoded, or there is no sentence.
pub fn read_sentences(
    choice: &SentenceChoice,
    encoder: &mut SentenceTokenizer<'_>,
    is_wanted: impl Fn(&Sequence) -> bool,
) -> Result<Vec<NamedSentence>> {
    match choice {
        SentenceChoice::Texts(texts) => {
            let of_text = |(index, text): (usize, &String)| {
                let sentence = Sentence::standalone("--text", Content::Text(text.clone()));
                match encoder.encode(Sentence { index: index as u64, ..sentence })? {
                    Ok(sequence) => Ok(NamedSentence { sequence, id: None }),
                    Err(reason) => {
                        let error = anyhow!("a text {} cannot go through the model", reason.describe());
                        Err(reason.with_hint(error))
                    }
                }
            };
            texts.iter().enumerate().map(of_text).collect::<Result<_>>().class(ErrorClass::Input)
        }
        SentenceChoice::Corpus { .. } => read_corpus_sentences(choice, encoder, is_wanted).class(ErrorClass::Input),
    }
}

/// Maximum number of skipped sentences that are printed one by one; further ones are counted.
const MAX_PRINTED_SKIPS: usize = 10;

fn read_corpus_sentences(
    choice: &SentenceChoice,
    encoder: &mut SentenceTokenizer<'_>,
    is_wanted: impl Fn(&Sequence) -> bool,
) -> Result<Vec<NamedSentence>> {
    let SentenceChoice::Corpus { inputs, indices, required_word: find, limit, scope, shard } = choice else {
        return Ok(Vec::new());
    };
    let mut missing = indices.clone();
    let (mut sentences, mut unwanted): (Vec<NamedSentence>, Vec<NamedSentence>) = (Vec::new(), Vec::new());
    let mut corpus = Corpus::open(inputs)?.with_scope(scope);
    let max_sentences = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let mut read_count = 0;
    let (mut named_skips, mut further_skips, mut first_skip) = (0, BTreeMap::<SkipReason, u64>::new(), None);
    while let Some(sentence) = (sentences.len() < max_sentences && (indices.is_empty() || !missing.is_empty()))
        .then(|| corpus.next())
        .flatten()
        .transpose()?
    {
        read_count += 1;
        let (index, origin, id) = (sentence.index, sentence.origin.clone(), sentence.id.clone());
        let named = missing.iter().position(|&wanted| wanted == index).map(|found| missing.remove(found)).is_some();
        let is_found = find.as_ref().is_none_or(|word| may_contain(&sentence.content, word));
        if !is_found || !shard.contains(index) || (!indices.is_empty() && !named) {
            continue;
        }
        match encoder.encode(sentence)? {
            Ok(sequence) => {
                if find.as_ref().is_none_or(|word| has_word(&sequence, word)) {
                    let target = if named || is_wanted(&sequence) { &mut sentences } else { &mut unwanted };
                    if target.len() < max_sentences {
                        target.push(NamedSentence { sequence, id });
                    }
                }
            }
            Err(reason) if named => {
                let error = anyhow!("sentence {index}, one {}, cannot go through the model", reason.describe());
                return Err(reason.with_hint(error).at_line(&origin.path, origin.line));
            }
            Err(reason) if named_skips < MAX_PRINTED_SKIPS => {
                named_skips += 1;
                first_skip.get_or_insert(reason);
                let place = one_line(&origin.to_string());
                print_to_stderr(&format!("skipped sentence {index} at {place}: it is one {}", reason.describe()));
            }
            Err(reason) => *further_skips.entry(reason).or_default() += 1,
        }
    }
    for (reason, count) in further_skips {
        print_to_stderr(&format!("skipped {count} more {}", reason.describe()));
    }
    if let Some(index) = missing.first().filter(|_| sentences.len() < max_sentences) {
        let missing =
            anyhow!("there is no sentence {index} in `{}`: it has {read_count}, counted from 0", corpus.name());
        return Err(missing.with_file(corpus.name()).with_value(index));
    }
    if sentences.is_empty() {
        sentences = unwanted;
    }
    if !sentences.is_empty() {
        return Ok(sentences);
    }
    let name = corpus.name();
    if let Some(word) = find {
        let shown = shorten(&word.escape_debug().to_string());
        return Err(anyhow!("no sentence of `{name}`, which has {read_count}, has the word `{shown}`").with_value(word));
    }
    let error = anyhow!("no sentence of `{name}`, which has {read_count}, can go through the model");
    Err(if let Some(reason) = first_skip { SkipReason::with_hint(reason, error) } else { error })
}

/// Whether a sentence may have a word, tested before the sentence is encoded.
fn may_contain(content: &Content, word: &str) -> bool {
    match content {
        Content::Words(words) => words.iter().any(|other| is_same_word(&other.form, word)),
        Content::Text(text) => text.to_lowercase().contains(&word.to_lowercase()),
    }
}

/// Whether a word of a tokenized sentence is `word`, without regard to case.
fn has_word(sequence: &Sequence, word: &str) -> bool {
    (0..sequence.words.len()).any(|other| is_same_word(sequence.form(other), word))
}

/// Whether two words are equal without regard to case.
fn is_same_word(form: &str, word: &str) -> bool {
    form.to_lowercase() == word.to_lowercase()
}

/// Tokenizer of a model with the options of a run.
/// Prints a note if the tokenizer lower-cases a cased vocabulary, and a note on how it splits sequences of residues.
/// Fails if the tokenizer does not map the entries of the vocabulary to themselves.
pub fn tokenizer_with_options(model: &Model, options: TokenizerOptions) -> Result<Cow<'_, ModelTokenizer>> {
    let tokenizer = model.tokenizer.with_options(options)?;
    if let Some(note) = tokenizer.round_trip.note().filter(|_| !tokenizer.looks_up_words) {
        print_to_stderr(&format!("note: {note}"));
    }
    let parting = tokenizer.parting.filter(|parting| *parting != Parting::Letters);
    if let Some(parting) = parting.filter(|_| !tokenizer.looks_up_words) {
        print_to_stderr(&format!(
            "note: the model is one of residues: sequences are parted as `{parting}` (--residues says otherwise)"
        ));
    }
    Ok(tokenizer)
}

pub fn with_tokenizer_options(mut model: Model, options: TokenizerOptions) -> Result<Model> {
    if let Cow::Owned(tokenizer) = tokenizer_with_options(&model, options)? {
        model.tokenizer = tokenizer;
    }
    Ok(model)
}
