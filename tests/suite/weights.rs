//! Weights in every file form that is read, and in forms that are refused.

use crate::support;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{fixture, opened, path, run, tiny_bert, weight_files};
use candle_core::{DType, Device, Tensor, pickle, safetensors};
use headscope::model::families::architecture::Architecture;
use headscope::model::families::table::FAMILIES;
use headscope::model::parameters::Parameters;
use headscope::model::weights::Checkpoint;
use headscope::system::files::digest::hex;
use proptest::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Models of different families, some with relative positions.
const MODELS: [&str; 14] = [
    "tiny-bert-relative-key",
    "tiny-roberta",
    "tiny-xlm-roberta",
    "tiny-camembert",
    "tiny-distilbert",
    "tiny-electra",
    "tiny-albert",
    "tiny-mpnet",
    "tiny-roberta-relative-key-query",
    "tiny-markuplm",
    "tiny-rembert",
    "tiny-squeezebert",
    "tiny-longformer",
    "tiny-megatron-bert",
];

fn architecture(name: &str) -> Architecture {
    support::architecture(&fixture("models").join(name))
}

/// The weight files of a model in `fixtures/models`.
fn weights(name: &str) -> Vec<PathBuf> {
    weight_files(&fixture("models").join(name))
}

/// All tensors of a file, as candle reads them.
fn tensors(path: &Path) -> Vec<(String, Tensor)> {
    if path.extension().is_some_and(|extension| extension == "bin") {
        return pickle::read_all(path).unwrap();
    }
    safetensors::load(path, &Device::Cpu).unwrap().into_iter().collect()
}

fn load(architecture: &Architecture, paths: &[PathBuf]) -> Parameters {
    let checkpoint = Checkpoint::open(opened(paths), architecture.family).unwrap();
    Parameters::load(&checkpoint, architecture).unwrap()
}

#[test]
fn every_file_form_gives_equal_parameters() {
    for name in MODELS {
        let architecture = architecture(name);
        let expected = load(&architecture, &weights(name));
        let all: Vec<(String, Tensor)> = weights(name).iter().flat_map(|path| tensors(path)).collect();
        let prefix = architecture.family.prefix;
        let has_head = all.iter().any(|(name, _)| name.starts_with(prefix));
        // The tensors of the encoder alone, without the prefix.
        let bare: Vec<(String, Tensor)> = all
            .into_iter()
            .filter_map(|(name, tensor)| match name.strip_prefix(prefix) {
                Some(name) => Some((name.to_owned(), tensor)),
                None if has_head => None,
                None => Some((name, tensor)),
            })
            .collect();
        let folder = TempDir::new().unwrap();
        for prefix in ["", prefix] {
            for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
                for shards in 1..=3 {
                    let write = |(number, shard): (usize, &[(String, Tensor)])| {
                        let tensor = |(name, tensor): &(String, Tensor)| {
                            (format!("{prefix}{name}"), tensor.to_dtype(dtype).unwrap())
                        };
                        let path = folder.path().join(format!("{number}.safetensors"));
                        safetensors::save(&shard.iter().map(tensor).collect::<HashMap<_, _>>(), &path).unwrap();
                        path
                    };
                    let paths: Vec<_> = bare.chunks(bare.len().div_ceil(shards)).enumerate().map(write).collect();
                    let actual = load(&architecture, &paths);
                    assert!(actual == expected, "{name} with {prefix:?} as {dtype:?} in {shards} files");
                }
            }
        }
    }
}

#[test]
fn report_hash_covers_all_weight_files() {
    let folder = TempDir::new().unwrap();
    for name in ["tiny-distilbert", "tiny-electra"] {
        for entry in fixture("models").join(name).read_dir().unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        fs::copy(tiny_bert().join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
        let corpus = fixture("corpus/gold.conllu");
        let report = run(&["analyze", path(folder.path()), "-c", path(&corpus), "-o", "-", "--no-run-info"]).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let bytes: Vec<u8> = weights(name).iter().flat_map(|path| fs::read(path).unwrap()).collect();
        assert_eq!(report["model"]["weights_sha256"], hex(&Sha256::digest(&bytes)));
        assert_eq!(report["model"]["family"], name.trim_start_matches("tiny-"));
        assert_eq!(report["model"]["masked_lm_head"], name == "tiny-distilbert");
    }
}

#[test]
fn shared_layer_is_in_memory_once() {
    let albert = load(&architecture("tiny-albert"), &weights("tiny-albert"));
    // Three runs of two layers each: the first group twice, then the second group.
    assert_eq!((albert.layers.len(), albert.layer_indices), (4, vec![0, 1, 0, 1, 2, 3]));
}

#[test]
fn masked_lm_head_is_detected() {
    for name in MODELS {
        let architecture = architecture(name);
        let checkpoint = Checkpoint::open(opened(&weights(name)), architecture.family).unwrap();
        let bare =
            ["tiny-xlm-roberta", "tiny-electra", "tiny-mpnet", "tiny-roberta-relative-key-query", "tiny-markuplm"];
        assert_eq!(
            checkpoint.has_prefix(architecture.family.token_heads[0].marker_tensor()),
            !bare.contains(&name),
            "{name}"
        );
    }
}

/// A file of `torch.save` with this pickle and one storage of these float32 values.
fn pickled(folder: &Path, pickle: &[u8], values: &[f32]) -> PathBuf {
    let path = folder.join("pytorch_model.bin");
    let mut archive = ZipWriter::new(fs::File::create(&path).unwrap());
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    for (name, bytes) in [("model/data.pkl", pickle), ("model/byteorder", b"little"), ("model/data/0", &values)] {
        archive.start_file(name, stored).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
    path
}

/// The pickle of a state dict whose tensor `w` is a view of storage 0.
fn view(offset: u8, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let numbers = |sizes: &[u8]| sizes.iter().flat_map(|&size| [b'K', size]).collect::<Vec<u8>>();
    [
        b"\x80\x02}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
            .as_slice(),
        b"X\x01\0\0\x000X\x03\0\0\0cpuK\x06tQK",
        &[offset, b'('],
        &numbers(shape),
        b"t(",
        &numbers(strides),
        b"t\x89}tRu.",
    ]
    .concat()
}

#[test]
fn unusual_files_are_refused_with_a_hint() {
    let folder = TempDir::new().unwrap();
    let mut answers = Answers::within(folder.path());
    let mut refused = |title: &str, file: PathBuf| {
        let error = Checkpoint::open(opened(&[file]), FAMILIES[0]).err().unwrap();
        answers.said(title, &format!("{error:#}"));
    };
    let inner = view(0, &[2], &[1]);
    let outer = [b"\x80\x02}X\x0a\0\0\0state_dict".as_slice(), &inner[2..inner.len() - 1], b"s."].concat();
    refused("a state dict within a dict", pickled(folder.path(), &outer, &[0.0, 1.0]));
    for (title, pickle) in [
        (
            "a whole module, which only its own class can load",
            b"\x80\x02ctransformers.models.bert.modeling_bert\nBertModel\n)\x81.".as_slice(),
        ),
        ("`pickle_protocol=4` of `torch.save`, which `weights_only` does not read", b"\x80\x04}."),
        ("3, which it does", b"\x80\x03}."),
    ] {
        refused(title, pickled(folder.path(), pickle, &[]));
    }
    let path = folder.path().join("pytorch_model.bin");
    for (title, bytes) in [
        ("the header of a tar archive", [[0; 257].as_slice(), b"ustar\x0000", &[0; 248]].concat()),
        ("a pickle without an archive", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.".to_vec()),
    ] {
        fs::write(&path, bytes).unwrap();
        refused(title, path.clone());
    }
    answers.held("weights-ways-out");
}

#[test]
fn prefixes_of_encoder_pairs_belong_to_one_family() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.safetensors");
    let tensor = Tensor::new(&[1_f32], &Device::Cpu).unwrap();
    safetensors::save(&HashMap::from([("ctx_encoder.w".to_owned(), tensor)]), &path).unwrap();
    let has = |model_type: &str| {
        let family = FAMILIES.iter().find(|family| family.model_type == model_type).unwrap();
        Checkpoint::open(opened(std::slice::from_ref(&path)), *family).unwrap().tensor("w", &[1]).is_ok()
    };
    assert_eq!(["dpr", "bert", "roberta"].map(has), [true, false, false]);
}

#[test]
fn views_of_a_storage_are_read_or_refused() {
    let folder = TempDir::new().unwrap();
    let read = |offset: u8, shape: &[u8], strides: &[u8]| -> Result<Vec<f32>, String> {
        let path = pickled(folder.path(), &view(offset, shape, strides), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let shape: Vec<usize> = shape.iter().map(|&size| size.into()).collect();
        let tensor =
            Checkpoint::open(opened(&[path]), FAMILIES[0]).and_then(|checkpoint| checkpoint.tensor("w", &shape));
        tensor.map_err(|error| format!("{error:#}"))
    };
    assert_eq!(read(0, &[2, 3], &[3, 1]).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(read(1, &[2, 2], &[2, 1]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    // [[0, 1], [2, 3], [4, 5]] by columns, its second column alone, and every third value.
    assert_eq!(read(0, &[2, 3], &[1, 2]).unwrap(), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    assert_eq!(read(1, &[3, 1], &[2, 1]).unwrap(), [1.0, 3.0, 5.0]);
    assert_eq!(read(2, &[2], &[3]).unwrap(), [2.0, 5.0]);
    assert_eq!(read(0, &[0, 3], &[3, 1]).unwrap(), [0.0; 0]);
    let mut answers = Answers::within(folder.path());
    answers.said("beyond its storage", &read(1, &[2, 3], &[3, 1]).unwrap_err());
    answers.said("far beyond it", &read(0, &[2, 2], &[200, 200]).unwrap_err());
    // Expanded views: a row twice, a value four times, overlapping rows. One expansion exceeds the memory limit.
    assert_eq!(read(1, &[2, 3], &[0, 1]).unwrap(), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_eq!(read(5, &[2, 2], &[0, 0]).unwrap(), [5.0; 4]);
    assert_eq!(read(0, &[2, 2], &[1, 1]).unwrap(), [0.0, 1.0, 1.0, 2.0]);
    answers.said("a value four thousand million times", &read(0, &[255; 4], &[0; 4]).unwrap_err());
    answers.said("outside its storage", &read(7, &[1], &[1]).unwrap_err());
    answers.held("weights-views");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    /// A file with any damage to its bytes is read or refused.
    #[test]
    fn damaged_files_are_refused_or_read(
        which in 0..4_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        // The directory of a zip archive and the header of a safetensors file are at the ends.
        from_end in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let name = ["tiny-albert", "tiny-bert-pickle", "tiny-mpnet", "tiny-distilbert"][which];
        let original = &weights(name)[0];
        let mut bytes = fs::read(original).unwrap();
        for (place, byte) in changes {
            let near = bytes.len().min(6000);
            let place = place.index(near);
            let place = if from_end { bytes.len() - 1 - place } else { place };
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(original.file_name().unwrap());
        fs::write(&path, bytes).unwrap();
        let architecture = architecture(name);
        if let Ok(checkpoint) = Checkpoint::open(opened(&[path]), architecture.family) {
            let _ = Parameters::load(&checkpoint, &architecture);
        }
    }
}
