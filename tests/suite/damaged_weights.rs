//! Weights without a tensor, or with a tensor of another shape, for every family. The file is refused with a named
//! error, or gives the numbers of the intact file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::golden::{Golden, check_forward, of_ids};
use crate::support::{self, fixture, opened};
use anyhow::Result;
use headscope::model::families::architecture::Architecture;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use safetensors::SafeTensors;
use safetensors::tensor::{Metadata, TensorView};
use tempfile::TempDir;

/// A model of `fixtures/models` with one file of weights and a golden.
struct TinyModel {
    name: String,
    architecture: Architecture,
    weights: Vec<u8>,
    golden: Golden,
}

impl TinyModel {
    fn all() -> Vec<Self> {
        let mut folders: Vec<PathBuf> =
            fixture("models").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        folders.iter().filter_map(|folder| Self::read(folder)).collect()
    }

    fn read(folder: &Path) -> Option<Self> {
        let name = folder.file_name()?.to_str()?.to_owned();
        let (weights, golden) =
            (folder.join("model.safetensors"), fixture("goldens").join(format!("{name}.safetensors")));
        (weights.is_file() && golden.is_file() && name.starts_with("tiny-")).then(|| Self {
            name,
            architecture: support::architecture(folder),
            weights: std::fs::read(weights).unwrap(),
            golden: Golden::read(&golden),
        })
    }

    /// Writes these weights to a file and loads the encoder.
    fn load(&self, folder: &TempDir, weights: &HashMap<String, TensorView<'_>>) -> Result<PackedEncoder> {
        let path = folder.path().join("model.safetensors");
        safetensors::serialize_to_file(weights, None, &path).unwrap();
        let checkpoint = Checkpoint::open(opened(&[path]), self.architecture.family)?;
        Ok(PackedEncoder::new(Parameters::load(&checkpoint, &self.architecture)?))
    }

    /// Whether a damaged file is refused. A file that is accepted must give the numbers of the intact one.
    fn refuses(&self, folder: &TempDir, damaged: &HashMap<String, TensorView<'_>>, tensor: &str) -> bool {
        match self.load(folder, damaged) {
            Err(error) => {
                let message = format!("{error:#}");
                // The error names the last two parts, such as `query.weight`, since the prefix may differ between
                // families. If the tensor decides between two spellings of names, the error lists tensors of the other
                // spelling.
                let is_named = tensor.rsplit('.').take(2).all(|part| message.contains(part))
                    || message.contains("has no tensor for ");
                assert!(is_named && message.contains("model.safetensors"), "{} {tensor}: {message}", self.name);
                true
            }
            Ok(encoder) => {
                let sequence = |(index, sentence): (u64, &crate::golden::Forward)| {
                    of_ids(index, &sentence.ids, &sentence.segments)
                };
                let sentences = (0..).zip(&self.golden.expected).map(sequence).collect();
                let layers = self.architecture.config.num_hidden_layers;
                println!("{} without {tensor}", self.name);
                check_forward(&encoder, layers, sentences, &self.golden.expected);
                false
            }
        }
    }
}

#[test]
fn damaged_weights_change_no_number() {
    let folder = TempDir::new().unwrap();
    let (mut models, mut refused, mut needless) = (0, 0, Vec::new());
    for model in TinyModel::all() {
        let (_, header): (usize, Metadata) = SafeTensors::read_metadata(&model.weights).unwrap();
        let tensors = SafeTensors::deserialize(&model.weights).unwrap();
        let intact: HashMap<String, TensorView<'_>> = tensors.tensors().into_iter().collect();
        models += 1;
        for name in header.tensors().keys() {
            // A file may name tied embeddings either way. In this random model the two differ.
            if name == "luke.embeddings.word_embeddings.weight" {
                continue;
            }
            let mut damaged = intact.clone();
            let tensor = damaged.remove(name).unwrap();
            let is_needed = model.refuses(&folder, &damaged, name);
            refused += usize::from(is_needed);
            if !is_needed {
                needless.push(format!("{} {name}", model.name));
                continue;
            }
            // Two other shapes: one row fewer, and the dimensions reversed, unless that is no change.
            let shape = tensor.shape().to_vec();
            let row = tensor.data().len() / shape[0];
            let shorter = [&[shape[0] - 1], &shape[1..]].concat();
            let reversed: Vec<usize> = shape.iter().rev().copied().collect();
            let cut = TensorView::new(tensor.dtype(), shorter, &tensor.data()[row..]).unwrap();
            let others = [
                Some(cut),
                (reversed != shape).then(|| TensorView::new(tensor.dtype(), reversed, tensor.data()).unwrap()),
            ];
            for other in others.into_iter().flatten() {
                damaged.insert(name.clone(), other);
                assert!(model.refuses(&folder, &damaged, name), "{} {name} of another shape", model.name);
            }
        }
    }
    println!("{models} models, {refused} tensors needed, not needed: {needless:#?}");
    assert!(models > 45 && refused > 1000, "{models} {refused}");
}
