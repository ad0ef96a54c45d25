//! `headscope maps`: the attention of chosen sentences, as tensors for a notebook.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use serde_json::json;

use crate::commands::options::{MapsOptions, SentenceChoice};
use crate::corpus::{Content, Corpus, Sentence};
use crate::model::forward::visitor::{HeadView, Needs, Visitor};
use crate::model::forward::{Scratch, Start};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::{Fingerprint, Model};
use crate::passes::identity::ModelInfo;
use crate::passes::pass::Pass;
use crate::passes::run::{heads_of, token_limit};
use crate::sequences::pack::Pack;
use crate::sequences::sequence::Sequence;
use crate::sequences::tokenize::{SentenceTokenizer, Tokenized};
use crate::system::failure::{Class, Classify};
use crate::system::output::Output;
use crate::system::progress::{self, Downloads};
use crate::system::terminal::{one_line, say};

/// Writes the attention of each chosen sentence as `attentions.<index>`, `[layers, heads, tokens, tokens]` f32.
///
/// # Errors
///
/// If the model, a sentence or the output cannot be used.
pub fn maps(options: &MapsOptions) -> Result<()> {
    let mut output = Output::open(&options.output)?;
    let files = options.model.resolve(&Downloads::default())?;
    let fingerprint = Fingerprint::start(&files);
    let loading = progress::step("loading the model");
    let model = Model::load(files)?;
    loading.finish_and_clear();

    let removed = heads_of(&model, &options.removed).class(Class::Usage)?;
    let gates = Pass::PLAIN.without(&removed).gates();
    let limit = token_limit(&model, options.max_tokens).class(Class::Usage)?;
    let mut encoder = SentenceTokenizer::new(&model.tokenizer, limit, false).strict(options.strict);
    let sentences = chosen(&options.sentences, &mut encoder).class(Class::Input)?;
    let info = ModelInfo::new(&model, fingerprint.finish()?);
    output.write(&header(&model, &info, &removed, &sentences)?)?;
    let mut scratch = Scratch::default();
    for sentence in sentences {
        let size = tensor_bytes(shape(&model, &sentence));
        let mut recorder = Recorder { heads: model.grid().heads, bytes: vec![0; size] };
        let pack = Pack { sentences: vec![sentence] };
        model.encoder.forward_from(Start::Embeddings, &pack.batch(), &gates, &mut scratch, &mut recorder)?;
        output.write(&recorder.bytes)?;
    }
    output.commit()
}

/// `[layers, heads, tokens, tokens]`
fn shape(model: &Model, sentence: &Sequence) -> [usize; 4] {
    let (HeadGrid { layers, heads }, tokens) = (model.grid(), sentence.ids.len());
    [layers, heads, tokens, tokens]
}

fn tensor_bytes(shape: [usize; 4]) -> usize {
    shape.iter().product::<usize>() * size_of::<f32>()
}

/// The beginning of a safetensors file with one tensor per sentence, in order: its length and its JSON
/// (<https://huggingface.co/docs/safetensors>, "Format").
///
/// Written here and not by the safetensors crate, which wants all tensors first: so one sentence's attention is in
/// memory at a time. Keys are sorted, so equal inputs give equal bytes.
fn header(model: &Model, info: &ModelInfo, removed: &[HeadPlace], sentences: &[Sequence]) -> Result<Vec<u8>> {
    let mut metadata = BTreeMap::from([
        ("format".to_owned(), "headscope.maps".to_owned()),
        ("model".to_owned(), serde_json::to_string(info)?),
    ]);
    if !removed.is_empty() {
        metadata.insert("removed".to_owned(), serde_json::to_string(removed)?);
    }
    let mut entries = BTreeMap::new();
    let mut start = 0;
    for sentence in sentences {
        let (index, shape) = (sentence.index, shape(model, sentence));
        let end = start + tensor_bytes(shape);
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] });
        entries.insert(format!("attentions.{index}"), entry);
        metadata.insert(format!("tokens.{index}"), json!(tokens(model, sentence)).to_string());
        metadata.insert(format!("word_ids.{index}"), json!(word_ids(sentence)).to_string());
        start = end;
    }
    entries.insert("__metadata__".to_owned(), json!(metadata));
    let mut json = serde_json::to_vec(&entries)?;
    // Tensors begin at a multiple of eight bytes; the format pads with spaces.
    json.resize(json.len().next_multiple_of(8), b' ');
    Ok([(json.len() as u64).to_le_bytes().as_slice(), &json].concat())
}

fn chosen(choice: &SentenceChoice, encoder: &mut SentenceTokenizer<'_>) -> Result<Vec<Sequence>> {
    let (inputs, indices) = match choice {
        SentenceChoice::Text(text) => {
            let encoded = encoder.encode(Sentence::single("--text", Content::Text(text.clone())))?;
            match encoded {
                Tokenized::Sequence(sequence) => return Ok(vec![*sequence]),
                Tokenized::Skipped(reason) => bail!("cannot map a text {}{}", reason.describe(), reason.way_out()),
            }
        }
        SentenceChoice::Corpus { inputs, indices } => (inputs, indices),
    };
    let mut missing = indices.clone();
    let mut sentences = Vec::new();
    let mut corpus = Corpus::open(inputs)?;
    let mut read = 0;
    while let Some(sentence) =
        (indices.is_empty() || !missing.is_empty()).then(|| corpus.next()).flatten().transpose()?
    {
        read += 1;
        let (index, origin) = (sentence.index, sentence.origin.clone());
        let named = missing.iter().position(|&wanted| wanted == index).map(|found| missing.remove(found)).is_some();
        if !indices.is_empty() && !named {
            continue;
        }
        match encoder.encode(sentence)? {
            Tokenized::Sequence(sequence) => sentences.push(*sequence),
            Tokenized::Skipped(reason) if named => {
                bail!("{origin}: cannot map sentence {index}: it is one {}{}", reason.describe(), reason.way_out())
            }
            Tokenized::Skipped(reason) => {
                let at = one_line(&origin.to_string());
                say(&format!("skipped sentence {index} at {at}: it is one {}", reason.describe()));
            }
        }
    }
    if let Some(index) = missing.first() {
        bail!("there is no sentence {index} in `{}`: it has {read}, counted from 0", corpus.name());
    }
    ensure!(!sentences.is_empty(), "corpus `{}` leaves nothing to map: it has {read} sentences", corpus.name());
    Ok(sentences)
}

fn tokens(model: &Model, sentence: &Sequence) -> Vec<String> {
    sentence.ids.iter().map(|&id| model.tokenizer.token(id).unwrap_or_default()).collect()
}

/// The word that each token belongs to, counted from 0; null for special tokens.
fn word_ids(sentence: &Sequence) -> Vec<Option<usize>> {
    let word_of = |token: usize| sentence.words.iter().position(|span| span.contains(&token));
    (0..sentence.ids.len()).map(word_of).collect()
}

/// Copies every view to its place in `[layers, heads, tokens, tokens]`, little-endian as safetensors wants it.
struct Recorder {
    heads: usize,
    bytes: Vec<u8>,
}

impl Visitor for Recorder {
    fn needs(&self) -> Needs {
        Needs::ATTENTION
    }

    fn head(&mut self, _sequence: usize, &HeadView { attention: view, .. }: &HeadView<'_>) {
        let size = size_of::<f32>() * view.tokens() * view.tokens();
        let place = (view.layer * self.heads + view.head) * size;
        let places = self.bytes[place..place + size].chunks_exact_mut(size_of::<f32>());
        for (bytes, weight) in places.zip(view.rows().flatten()) {
            bytes.copy_from_slice(&weight.to_le_bytes());
        }
    }
}
