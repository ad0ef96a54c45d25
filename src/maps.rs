//! `headscope maps`: the attention of chosen sentences, as tensors for a notebook.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use anyhow::{Context, Result, anyhow, bail, ensure};
use safetensors::{Dtype, View};
use serde_json::json;

use crate::attention::AttentionView;
use crate::corpus::{Content, Corpus, Sentence};
use crate::encode::{Encoded, SentenceEncoder};
use crate::export::output::Output;
use crate::model::encoder::{Scratch, Visitor};
use crate::model::{Fingerprint, Model};
use crate::observe::HeadGrid;
use crate::options::{MapsOptions, SentenceChoice};
use crate::pack::Pack;
use crate::progress::{self, Downloads};
use crate::report::ModelInfo;
use crate::run::token_limit;

/// Writes the attention of each chosen sentence as `attentions.<index>`, `[layers, heads, tokens, tokens]` f32.
///
/// # Errors
///
/// If the model, a sentence or the output cannot be used.
pub fn maps(options: &MapsOptions) -> Result<()> {
    let output = Output::open(&options.output)?;
    let files = options.model.resolve(&Downloads::default())?;
    let fingerprint = Fingerprint::start(&files);
    let loading = progress::step("loading the model");
    let model = Model::load(files)?;
    loading.finish_and_clear();

    let mut encoder = model.sentence_encoder(token_limit(&model, options.max_tokens)?, false);
    let sentences = chosen(&options.sentences, &mut encoder)?;
    let info = serde_json::to_string(&ModelInfo::new(&model, fingerprint.finish()?))?;
    let mut metadata = HashMap::from([("format".to_owned(), "headscope.maps".to_owned()), ("model".to_owned(), info)]);
    for sentence in &sentences {
        metadata.insert(format!("tokens.{}", sentence.index), json!(tokens(&model, sentence)).to_string());
        metadata.insert(format!("word_ids.{}", sentence.index), json!(word_ids(sentence)).to_string());
    }

    // Maps are computed when the writer asks for them, so that one sentence's are in memory at a time.
    let failure = RefCell::new(None);
    let tensors = sentences
        .into_iter()
        .map(|sentence| (format!("attentions.{}", sentence.index), Map::new(&model, sentence, &failure)));
    let written = safetensors::serialize_to_file(tensors, Some(metadata), output.working_path());
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    written.with_context(|| format!("cannot write `{}`", output.path().display()))?;
    output.commit()
}

fn chosen(choice: &SentenceChoice, encoder: &mut SentenceEncoder<'_>) -> Result<Vec<Encoded>> {
    let (path, format, indices) = match choice {
        SentenceChoice::Text(text) => {
            let sentence = Sentence { index: 0, line: 1, content: Content::Text(text.clone()) };
            let encoded = encoder.encode(sentence)?;
            return Ok(vec![encoded.map_err(|reason| anyhow!("cannot map a text {}", reason.describe()))?]);
        }
        SentenceChoice::Corpus { path, format, indices } => (path, *format, indices),
    };
    let mut missing = indices.clone();
    let mut sentences = Vec::new();
    let mut corpus = Corpus::open(path, format)?;
    let mut read = 0;
    while let Some(sentence) =
        (indices.is_empty() || !missing.is_empty()).then(|| corpus.next()).flatten().transpose()?
    {
        read += 1;
        let (index, line) = (sentence.index, sentence.line);
        let named = missing.iter().position(|&wanted| wanted == index).map(|found| missing.remove(found)).is_some();
        if !indices.is_empty() && !named {
            continue;
        }
        match encoder.encode(sentence)? {
            Ok(encoded) => sentences.push(encoded),
            Err(reason) if named => {
                bail!("{}:{line}: cannot map sentence {index}: it is one {}", path.display(), reason.describe())
            }
            Err(reason) => eprintln!("skipped sentence {index} at {}:{line}: {}", path.display(), reason.describe()),
        }
    }
    if let Some(index) = missing.first() {
        bail!("there is no sentence {index} in `{}`: it has {read}, counted from 0", path.display());
    }
    ensure!(!sentences.is_empty(), "corpus `{}` has no sentences to map", path.display());
    Ok(sentences)
}

fn tokens(model: &Model, sentence: &Encoded) -> Vec<String> {
    sentence.ids.iter().map(|&id| model.tokenizer.id_to_token(id).unwrap_or_default()).collect()
}

/// The word that each token belongs to, counted from 0; null for special tokens.
fn word_ids(sentence: &Encoded) -> Vec<Option<usize>> {
    let word_of = |token: usize| sentence.words.iter().position(|span| span.contains(&token));
    (0..sentence.ids.len()).map(word_of).collect()
}

/// A sentence whose attention is computed when its bytes are asked for.
struct Map<'a> {
    model: &'a Model,
    sentence: Encoded,
    /// `[layers, heads, tokens, tokens]`
    shape: [usize; 4],
    /// The writer's interface has no place for an error, so the first one waits here.
    failure: &'a RefCell<Option<anyhow::Error>>,
}

impl<'a> Map<'a> {
    fn new(model: &'a Model, sentence: Encoded, failure: &'a RefCell<Option<anyhow::Error>>) -> Self {
        let (HeadGrid { layers, heads }, tokens) = (model.grid(), sentence.ids.len());
        Self { model, sentence, shape: [layers, heads, tokens, tokens], failure }
    }

    fn compute(&self) -> Result<Vec<u8>> {
        let pack = Pack { sentences: vec![self.sentence.clone()] };
        let mut recorder = Recorder { heads: self.model.grid().heads, bytes: vec![0; self.data_len()] };
        self.model.encoder.forward(&pack, &mut Scratch::default(), &mut recorder)?;
        Ok(recorder.bytes)
    }
}

impl View for Map<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let bytes = self.compute().unwrap_or_else(|error| {
            self.failure.borrow_mut().get_or_insert(error);
            vec![0; self.data_len()]
        });
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of::<f32>()
    }
}

/// Copies every view to its place in `[layers, heads, tokens, tokens]`, little-endian as safetensors wants it.
struct Recorder {
    heads: usize,
    bytes: Vec<u8>,
}

impl Visitor for Recorder {
    fn attention(&mut self, _sentence: usize, view: AttentionView<'_>) {
        let size = size_of_val(view.weights());
        let place = (view.layer * self.heads + view.head) * size;
        for (bytes, weight) in self.bytes[place..place + size].chunks_exact_mut(size_of::<f32>()).zip(view.weights()) {
            bytes.copy_from_slice(&weight.to_le_bytes());
        }
    }
}
