//! Weights that lack a tensor or have one of another shape, of every family: a named error, or the numbers of the whole file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::golden::{Golden, check_forward, of_ids};
use crate::support::{self, fixture, opened};
use anyhow::Result;
use headscope::model::families::Architecture;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use safetensors::SafeTensors;
use safetensors::tensor::{Metadata, TensorView};
use tempfile::TempDir;

/// A model of `fixtures/models` whose weights are one file, with a golden.
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

    /// The encoder of a file with these weights.
    fn load(&self, folder: &TempDir, weights: &HashMap<String, TensorView<'_>>) -> Result<PackedEncoder> {
        let path = folder.path().join("model.safetensors");
        safetensors::serialize_to_file(weights, None, &path).unwrap();
        let checkpoint = Checkpoint::open(opened(&[path]), self.architecture.family)?;
        Ok(PackedEncoder::new(Parameters::load(&checkpoint, &self.architecture)?))
    }

    /// Whether a damaged file is refused; one that is not has to give the whole file's numbers.
    fn refuses(&self, folder: &TempDir, damaged: &HashMap<String, TensorView<'_>>, tensor: &str) -> bool {
        match self.load(folder, damaged) {
            Err(error) => {
                let message = format!("{error:#}");
                // The last two parts, `query.weight`: what stands before them may be another family's. Where a tensor tells
                // which of two spellings the file has, the other spelling's are missed.
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
fn no_damage_gives_other_numbers() {
    let folder = TempDir::new().unwrap();
    let (mut models, mut refused, mut needless) = (0, 0, Vec::new());
    for model in TinyModel::all() {
        let (_, header): (usize, Metadata) = SafeTensors::read_metadata(&model.weights).unwrap();
        let tensors = SafeTensors::deserialize(&model.weights).unwrap();
        let whole: HashMap<String, TensorView<'_>> = tensors.tensors().into_iter().collect();
        models += 1;
        for name in header.tensors().keys() {
            // A file may have tied embeddings under either name; this random model's two are not equal.
            if name == "luke.embeddings.word_embeddings.weight" {
                continue;
            }
            let mut damaged = whole.clone();
            let tensor = damaged.remove(name).unwrap();
            let is_needed = model.refuses(&folder, &damaged, name);
            refused += usize::from(is_needed);
            if !is_needed {
                needless.push(format!("{} {name}", model.name));
                continue;
            }
            // A row less; of a matrix its columns as rows, which in a square one is no other shape.
            let shape = tensor.shape().to_vec();
            let row = tensor.data().len() / shape[0];
            let shorter = [&[shape[0] - 1], &shape[1..]].concat();
            let turned: Vec<usize> = shape.iter().rev().copied().collect();
            let cut = TensorView::new(tensor.dtype(), shorter, &tensor.data()[row..]).unwrap();
            let others =
                [Some(cut), (turned != shape).then(|| TensorView::new(tensor.dtype(), turned, tensor.data()).unwrap())];
            for other in others.into_iter().flatten() {
                damaged.insert(name.clone(), other);
                assert!(model.refuses(&folder, &damaged, name), "{} {name} of another shape", model.name);
            }
        }
    }
    println!("{models} models, {refused} tensors needed, not needed: {needless:#?}");
    assert!(models > 45 && refused > 1000, "{models} {refused}");
}
