//! `headscope maps`: the attention of chosen sentences, or its rollout, as tensors for a notebook.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use serde_json::json;

use super::{HeadChoice, NamedSentence, SentenceOptions, compute_attention, load_with_options, resolve_heads};
use crate::model::Model;
use crate::model::forward::Scratch;
use crate::model::grid::visibility::Visibility;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::source::ModelRef;
use crate::passes::observation::identity::ModelInfo;
use crate::passes::pass::Pass;
use crate::passes::run::check_heads;
use crate::sequences::sequence::Sequence;
use crate::system::counts::format_count;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output::Output;

/// Maximum length in bytes of a header that the safetensors crate reads (`MAX_HEADER_SIZE`).
const MAX_HEADER_BYTES: usize = 100_000_000;

pub struct MapsOptions {
    pub model: ModelRef,
    pub sentences: SentenceOptions,
    pub heads: HeadChoice,
    /// Whether to write the attention rollout in place of the attention.
    pub rollout: bool,
    pub output: PathBuf,
    /// The heads that are removed from the model, ascending.
    pub removed_heads: Vec<HeadPlace>,
}

/// Writes the attention of each chosen sentence as f32 tensors, from the row's token to the column's token.
/// The tensor `attentions.<index>` is `[layers, heads, tokens, tokens]`, or `[heads, tokens, tokens]` for named heads.
/// With `rollout`, the tensors are `rollout.<index>` and, for uniform attention, `rollout_even.<index>`.
/// Both are `[layers, tokens, tokens]`.
pub fn write_attention_tensors(options: &MapsOptions) -> Result<()> {
    let mut output = Output::open(&options.output)?;
    let (model, fingerprint) = load_with_options(&options.model, options.sentences.tokenizer)?;
    let removed = check_heads(model.grid(), &options.removed_heads).class(ErrorClass::Usage)?;
    let heads = resolve_heads(&options.heads, &model).class(ErrorClass::Usage)?;
    let gates = Pass::PLAIN.with_removed(&removed).removal_gates();
    let sentences = options.sentences.read(&model, |_| true)?;
    let info = ModelInfo::new(&model, fingerprint.finish()?);
    let header = TensorFileHeader { options, model: &model, info: &info, heads: &heads, removed: &removed };
    output.write(&header.to_bytes(&sentences)?)?;
    let mut scratch = Scratch::default();
    for NamedSentence { sequence, .. } in &sentences {
        let tokens = sequence.ids.len();
        let mut weights = compute_attention(&model, sequence, &heads, &gates, &mut scratch)?;
        if options.rollout {
            let visibility = |layer| model.architecture.config.visibility.layer_visibility(layer);
            let present = |layer| model.architecture.config.present_heads(layer).len();
            weights = rollout(&weights, model.grid(), present, tokens);
            weights.extend(uniform_rollout((0..model.grid().layers).map(visibility), tokens));
        }
        for weights in weights.chunks(tokens * tokens) {
            output.write(&weights.iter().flat_map(|weight| weight.to_le_bytes()).collect::<Vec<u8>>())?;
        }
    }
    output.commit()
}

/// Content of the header of a safetensors file: the model, the heads and the options.
struct TensorFileHeader<'a> {
    options: &'a MapsOptions,
    model: &'a Model,
    info: &'a ModelInfo,
    heads: &'a [HeadPlace],
    /// Heads that are removed from the model.
    removed: &'a [HeadPlace],
}

fn head_names(heads: &[HeadPlace]) -> String {
    json!(heads.iter().map(ToString::to_string).collect::<Vec<_>>()).to_string()
}

impl TensorFileHeader<'_> {
    /// Names and shapes of the tensors of a sentence, in the order of the file.
    fn tensor_shapes(&self, sentence: &Sequence) -> Vec<(String, Vec<usize>)> {
        let index = sentence.index;
        if !self.options.rollout {
            return vec![(format!("attentions.{index}"), self.attention_shape(sentence))];
        }
        let shape = vec![self.model.grid().layers, sentence.ids.len(), sentence.ids.len()];
        ["rollout", "rollout_even"].map(|name| (format!("{name}.{index}"), shape.clone())).into()
    }

    /// Shape of a sentence's attention tensor: `[heads, tokens, tokens]` for named heads, else `[layers, heads, tokens,
    /// tokens]`.
    fn attention_shape(&self, sentence: &Sequence) -> Vec<usize> {
        let (heads, tokens) = (self.heads.len(), sentence.ids.len());
        match &self.options.heads {
            HeadChoice::Heads(_) => vec![heads, tokens, tokens],
            HeadChoice::All | HeadChoice::Layers(_) => {
                let of_layer = self.model.grid().heads;
                vec![heads / of_layer, of_layer, tokens, tokens]
            }
        }
    }

    /// Names of the axes of every tensor in the file.
    fn axis_names(&self) -> &'static [&'static str] {
        match &self.options.heads {
            _ if self.options.rollout => &["layer", "from", "to"],
            HeadChoice::Heads(_) => &["head", "from", "to"],
            HeadChoice::All | HeadChoice::Layers(_) => &["layer", "head", "from", "to"],
        }
    }

    /// Header of a safetensors file: its length, then JSON that lists the tensors of all sentences in order
    /// (<https://huggingface.co/docs/safetensors>, "Format").
    ///
    /// The safetensors crate needs all tensors at once. With this header, only one sentence's attention is in memory at a time.
    /// Keys are sorted, so that equal inputs give equal bytes.
    fn to_bytes(&self, sentences: &[NamedSentence]) -> Result<Vec<u8>> {
        let mut metadata = BTreeMap::from([
            ("axes".to_owned(), json!(self.axis_names()).to_string()),
            ("format".to_owned(), "headscope.maps".to_owned()),
            ("model".to_owned(), serde_json::to_string(self.info)?),
        ]);
        if !self.removed.is_empty() {
            metadata.insert("removed".to_owned(), head_names(self.removed));
        }
        match &self.options.heads {
            HeadChoice::All => {}
            HeadChoice::Layers(layers) => drop(metadata.insert("layers".to_owned(), json!(layers).to_string())),
            HeadChoice::Heads(heads) => drop(metadata.insert("heads".to_owned(), head_names(heads))),
        }
        let mut entries = BTreeMap::new();
        let mut start = 0;
        for NamedSentence { sequence, id } in sentences {
            let index = sequence.index;
            for (name, shape) in self.tensor_shapes(sequence) {
                let end = start + shape.iter().product::<usize>() * size_of::<f32>();
                entries.insert(name, json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] }));
                start = end;
            }
            let mut add = |key: &str, text: String| metadata.insert(format!("{key}.{index}"), text);
            add("tokens", json!(token_texts(self.model, sequence)).to_string());
            add("word_ids", json!(sequence.words_by_token()).to_string());
            if sequence.shared_token_count() > 0 {
                add("word_shares", json!(word_shares(sequence)).to_string());
            }
            let words: Vec<&str> = (0..sequence.words.len()).map(|word| sequence.form(word)).collect();
            add("words", json!(words).to_string());
            if let Some(tree) = &sequence.tree {
                add("gold_heads", json!(tree.iter().map(|arc| arc.head.word()).collect::<Vec<_>>()).to_string());
                let relations: Vec<&str> = tree.iter().map(|arc| arc.relation.as_str()).collect();
                add("relations", json!(relations).to_string());
            }
            if let Some(id) = id {
                add("sentence_id", id.to_string());
            }
        }
        entries.insert("__metadata__".to_owned(), json!(metadata));
        let mut json = serde_json::to_vec(&entries)?;
        ensure_header_readable(json.len(), sentences.len())?;
        // Tensors begin at a multiple of eight bytes; the format pads with spaces.
        json.resize(json.len().next_multiple_of(8), b' ');
        Ok([(json.len() as u64).to_le_bytes().as_slice(), &json].concat())
    }
}

/// Fails if the header of `header` bytes is longer than the safetensors crate accepts.
fn ensure_header_readable(header: usize, sentences: usize) -> Result<()> {
    let sentences = format_count(sentences, "sentence");
    ensure!(
        header <= MAX_HEADER_BYTES,
        anyhow!(
            "the words of {sentences} need a header of {header} bytes, and readers of safetensors take {MAX_HEADER_BYTES}"
        )
        .hint("write fewer sentences to a file")
        .class(ErrorClass::Output)
    );
    Ok(())
}

fn token_texts(model: &Model, sentence: &Sequence) -> Vec<String> {
    sentence.ids.iter().map(|&id| model.tokenizer.token(id).unwrap_or_default()).collect()
}

/// Shares of words in tokens that belong to several words, each as `(token, word, share)`, with indices from 0.
fn word_shares(sentence: &Sequence) -> Vec<(usize, usize, f64)> {
    let words = sentence.words.iter().enumerate();
    let shares = words.flat_map(|(word, span)| span.shares().map(move |(token, share)| (token, word, share)));
    shares.filter(|(.., share)| *share < 1.0).collect()
}

/// Attention rollout of every layer (Abnar & Zuidema 2020, arXiv:2005.00928, section 3), `[layers, tokens, tokens]`.
///
/// `attention` is `[layers, heads, tokens, tokens]`, over one sentence. `R_l = Ã_l R_(l-1)`, where `R_0` is the identity.
/// `Ã_l` is half the mean of the layer's heads and half the identity, which stands for the residual stream. Rows sum to 1.
/// `present` gives the number of heads that a layer has; absent heads have zeros.
fn rollout(attention: &[f32], grid: HeadGrid, present: impl Fn(usize) -> usize, tokens: usize) -> Vec<f32> {
    let of_layer = |(layer, heads): (usize, &[f32])| {
        let sum = |cell: usize| heads.iter().skip(cell).step_by(tokens * tokens).sum::<f32>();
        (0..tokens * tokens).map(|cell| sum(cell) / present(layer) as f32).collect()
    };
    cumulative_products(attention.chunks_exact(grid.heads * tokens * tokens).enumerate().map(of_layer), tokens)
}

/// Attention rollout of uniform attention over the keys that each query sees, `[layers, tokens, tokens]`.
fn uniform_rollout(layers: impl Iterator<Item = Visibility>, tokens: usize) -> Vec<f32> {
    let even = |visibility: Visibility| {
        let mut attention = vec![0.0; tokens * tokens];
        for (query, row) in attention.chunks_exact_mut(tokens).enumerate() {
            let keys = visibility.visible_keys(query, tokens);
            let weight = 1.0 / keys.len() as f32;
            row[keys].fill(weight);
        }
        attention
    };
    cumulative_products(layers.map(even), tokens)
}

/// Attention rollout: cumulative matrix products over `layers`, `[layers, tokens, tokens]`. Each factor is the mean of
/// a layer's matrix and the identity.
fn cumulative_products(layers: impl Iterator<Item = Vec<f32>>, tokens: usize) -> Vec<f32> {
    let mut products: Vec<f32> = Vec::new();
    let mut before: Vec<f32> = (0..tokens * tokens).map(|cell| f32::from(u8::from(cell % (tokens + 1) == 0))).collect();
    for mut mixed in layers {
        mixed.iter_mut().for_each(|weight| *weight *= 0.5);
        mixed.iter_mut().step_by(tokens + 1).for_each(|weight| *weight += 0.5);
        let mut product = vec![0.0; tokens * tokens];
        for (row, weights) in product.chunks_exact_mut(tokens).zip(mixed.chunks_exact(tokens)) {
            for (weight, below) in weights.iter().zip(before.chunks_exact(tokens)) {
                row.iter_mut().zip(below).for_each(|(sum, share)| *sum += weight * share);
            }
        }
        products.extend_from_slice(&product);
        before = product;
    }
    products
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_no_longer_than_what_is_read() {
        ensure_header_readable(MAX_HEADER_BYTES, 1).unwrap();
        let error = ensure_header_readable(MAX_HEADER_BYTES + 1, 2000).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"the words of 2000 sentences need a header of 100000001 bytes, and readers of safetensors take 100000000: write fewer sentences to a file");
    }

    #[test]
    fn an_example_by_hand() {
        // Two layers of two heads over two tokens. The means are [0 1; 1 0] and [.5 .5; 0 1].
        let first = [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0];
        let second = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
        let found = rollout(&[first, second].concat(), HeadGrid { layers: 2, heads: 2 }, |_| 2, 2);
        // Mixed they are [.5 .5; .5 .5] and [.75 .25; 0 1]; the second times the first is the first.
        assert_eq!(found, [0.5; 8]);
    }

    #[test]
    fn of_a_head_that_looks_at_itself_all_stays() {
        let identity = [1.0, 0.0, 0.0, 1.0];
        let found = rollout(&[identity, identity].concat(), HeadGrid { layers: 2, heads: 1 }, |_| 1, 2);
        assert_eq!(found, [identity, identity].concat());
    }

    #[test]
    fn even_attention_halves_what_stays_with_each_layer() {
        let found = uniform_rollout([Visibility::ALL; 3].into_iter(), 4);
        for layer in 0..3_u8 {
            let stays = 0.5_f32.powi(i32::from(layer) + 1);
            for (cell, weight) in found[usize::from(layer) * 16..][..16].iter().enumerate() {
                let expected = (1.0 - stays) / 4.0 + if cell % 5 == 0 { stays } else { 0.0 };
                assert!((weight - expected).abs() < 1e-7, "{weight} {expected}");
            }
        }
    }
}
