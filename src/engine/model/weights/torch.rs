//! The state dict in a `torch.save` file. The file is a zip archive with one pickle and one file for each storage. Before
//! PyTorch 1.6, it was a sequence of pickles followed by the storages.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use candle_core::DType;
use itertools::Itertools;

use super::pickle::{NotAStateDict, PickledTensor};
use super::stored::StoredTensor;
use super::{pickle, zip};
use crate::model::files::ModelFile;
use crate::system::errors::ErrorExt;

/// Maximum accepted size of a pickle, in bytes. A state dict takes about 200 bytes a tensor: 4 MB for a thousand layers of
/// sixteen tensors.
const MAX_PICKLE_BYTES: u64 = 1 << 23;

/// Hint for checkpoints of fairseq, which PyTorch's weights-only reader refuses, and whose tensor names differ from
/// transformers'.
const FAIRSEQ_HINT: &str = "Checkpoints of fairseq do: convert it by the script that transformers has for its family \
    (convert_roberta_original_pytorch_checkpoint_to_pytorch.py, for one), and take the folder that the script writes";

/// Adds a hint to an error: how to convert the file to one that this program can read.
fn with_conversion_hint(problem: anyhow::Error, path: &Path) -> anyhow::Error {
    // fairseq keeps the settings of a training run beside the tensors (`args`, `cfg`).
    if let Some(NotAStateDict::UnknownName(name)) = problem.downcast_ref()
        && (name == "argparse.Namespace" || name.starts_with("omegaconf."))
    {
        return problem.hint_after(". ", FAIRSEQ_HINT);
    }
    let path = path.display().to_string();
    let load =
        |safely: &str, part: &str| format!("torch.load({path:?}, map_location=\"cpu\", weights_only={safely}){part}");
    let (trust, lines) = match problem.downcast_ref::<NotAStateDict>() {
        // PyTorch's weights-only reader refuses these files, and its full reader executes them. So no message recommends the full
        // reader for a file that names anything but a module.
        Some(unusual) if unusual.needs_full_pickle() => (
            "you trust it, for this runs the code that it holds",
            vec![
                format!("model = {}", load("False", "")),
                "model = model.state_dict() if hasattr(model, \"state_dict\") else model.get(\"state_dict\", model)"
                    .to_owned(),
                format!("torch.save(model, {path:?})"),
            ],
        ),
        unusual => {
            let keys = if let Some(NotAStateDict::Nested(keys)) = unusual { keys.as_slice() } else { &[] };
            let part = keys.iter().map(|key| format!("[{key:?}]")).join("");
            ("you trust it", vec![format!("torch.save({}, {path:?})", load("True", &part))])
        }
    };
    let way_out = format!(
        "If the file is whole and {trust}, make one of it that can be read, in Python:\n  import torch\n  {}",
        lines.join("\n  ")
    );
    problem.hint_after(". ", way_out)
}

/// The mark of a tar archive: (offset of the mark in the header, its bytes) (POSIX.1-1988, ustar).
const TAR_MARK: (u64, &[u8]) = (257, b"ustar");

/// Reads the tensors of a file, by name. Fails with a conversion hint if the file holds no plain state dict.
pub(super) fn read_tensors(file: &ModelFile) -> Result<Vec<(String, StoredTensor)>> {
    read_any_format(file).map_err(|problem| with_conversion_hint(problem, file.path()))
}

/// Reads the tensors of a file in the current format or the format before PyTorch 1.6.
fn read_any_format(file: &ModelFile) -> Result<Vec<(String, StoredTensor)>> {
    let is_zip = has_bytes_at(file, &zip::MAGIC, 0)?;
    if !is_zip && has_bytes_at(file, TAR_MARK.1, TAR_MARK.0).unwrap_or(false) {
        bail!(NotAStateDict::Tar);
    }
    if has_bytes_at(file, pickle::LEGACY_MAGIC, 0)? {
        return read_legacy_tensors(file);
    }
    ensure!(is_zip, "it is neither a zip archive, as PyTorch has written since version 1.6, nor what it wrote before");
    let entries = zip::read_entries(file)?;
    let of_pickle = |name: &str| name == "data.pkl" || name.ends_with("/data.pkl");
    let pickle = entries.iter().find(|entry| of_pickle(&entry.name));
    let pickle = pickle.context("it has no data.pkl: it was not written by PyTorch")?;
    let root = pickle.name.strip_suffix("data.pkl").expect("it ends so");
    let storages: HashMap<&str, _> =
        entries.iter().filter_map(|entry| Some((entry.name.strip_prefix(root)?, &entry.byte_range))).collect();
    if let Some(place) = storages.get("byteorder") {
        let is_little = place.end - place.start == 6 && has_bytes_at(file, b"little", place.start).unwrap_or(false);
        ensure!(is_little, "it was written by a machine of another byte order");
    }
    let length = pickle.byte_range.end - pickle.byte_range.start;
    ensure!(length <= MAX_PICKLE_BYTES, "its pickle has {length} bytes: no model has so many tensors");
    let mut bytes = vec![0; usize::try_from(length)?];
    file.read_at(&mut bytes, pickle.byte_range.start)?;
    locate_tensors(pickle::read_tensors(&bytes)?, |key| {
        let storage = format!("data/{key}");
        let place = storages.get(storage.as_str()).map(|place| (*place).clone());
        place.ok_or_else(|| format!("`{}`", storage.escape_debug()))
    })
}

/// Whether a file has the bytes `mark` at offset `at`.
fn has_bytes_at(file: &ModelFile, mark: &[u8], at: u64) -> Result<bool> {
    let mut bytes = vec![0; mark.len()];
    if file.size() < at + mark.len() as u64 {
        return Ok(false);
    }
    file.read_at(&mut bytes, at)?;
    Ok(bytes == mark)
}

/// Locates tensors in the file. `place` returns the byte range of a storage from its key; if the storage is missing, it returns
/// its name.
fn locate_tensors(
    tensors: HashMap<&str, PickledTensor>,
    place: impl Fn(&str) -> Result<Range<u64>, String>,
) -> Result<Vec<(String, StoredTensor)>> {
    let stored_tensor = |(name, tensor): (&str, PickledTensor)| {
        let what = || format!("tensor `{}`", name.escape_debug());
        let place = place(tensor.key).map_err(|missing| anyhow!("{}: {missing} is missing", what()))?;
        Ok((name.to_owned(), locate_tensor(&tensor, place).with_context(what)?))
    };
    tensors.into_iter().map(stored_tensor).collect()
}

/// Reads the tensors of a file from before PyTorch 1.6. It consists of pickles and then the storages, each preceded by its
/// number of values (`_legacy_save` of `torch/serialization.py`).
fn read_legacy_tensors(file: &ModelFile) -> Result<Vec<(String, StoredTensor)>> {
    let size = file.size();
    let mut bytes = vec![0; usize::try_from(size.min(MAX_PICKLE_BYTES))?];
    file.read_at(&mut bytes, 0)?;
    let pickles = pickle::read_legacy(&bytes)?;
    let mut places: HashMap<&str, Range<u64>> = HashMap::new();
    let mut end = pickles.bytes as u64;
    for (key, storage_type) in pickles.storages {
        let what = || format!("storage `{}`", key.escape_debug());
        let mut count = [0; 8];
        file.read_at(&mut count, end).with_context(what).hint("download it again")?;
        let start = end + 8;
        let bytes = bytes_per_value(storage_type).with_context(what)?.checked_mul(u64::from_le_bytes(count));
        let place = bytes.and_then(|bytes| Some(start..start.checked_add(bytes)?)).filter(|place| place.end <= size);
        let place = place.with_context(|| format!("{} reaches beyond the file", what())).hint("download it again")?;
        end = place.end;
        ensure!(places.insert(key, place).is_none(), "{} is there twice", what());
    }
    ensure!(end == size, anyhow!("{} bytes follow its last storage", size - end).hint("download it again"));
    locate_tensors(pickles.tensors, |key| {
        places.get(key).cloned().ok_or_else(|| format!("storage `{}`", key.escape_debug()))
    })
}

/// Returns the size in bytes of one value of a storage type. Fails for an unknown type.
fn bytes_per_value(storage_type: &str) -> Result<u64> {
    Ok(match storage_type {
        "BoolStorage" | "ByteStorage" | "CharStorage" => 1,
        "HalfStorage" | "BFloat16Storage" | "ShortStorage" => 2,
        "FloatStorage" | "IntStorage" => 4,
        "DoubleStorage" | "LongStorage" => 8,
        other => bail!("values of a {} cannot be passed over", other.escape_debug()),
    })
}

/// Locates a tensor in its storage, which occupies the given byte range of the file. Fails if the tensor begins outside its
/// storage.
fn locate_tensor(tensor: &PickledTensor, Range { start, end }: Range<u64>) -> Result<StoredTensor> {
    let values = match tensor.storage_type {
        "DoubleStorage" => Ok(DType::F64),
        "FloatStorage" => Ok(DType::F32),
        "HalfStorage" => Ok(DType::F16),
        "BFloat16Storage" => Ok(DType::BF16),
        other => Err(other.trim_end_matches("Storage").to_owned()),
    };
    let begin = tensor.offset.checked_mul(StoredTensor::bytes_per_value(&values));
    let begin = begin.and_then(|offset| start.checked_add(offset)).filter(|begin| *begin <= end);
    let begin = begin.context("it begins outside its storage")?;
    let sizes = |sizes: &[u64]| sizes.iter().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>();
    let (shape, strides) = (sizes(&tensor.shape)?, sizes(&tensor.strides)?);
    Ok(StoredTensor { value_type: values, shape, strides: Some(strides), byte_range: begin..end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_of_fairseq_is_converted_and_never_executed() {
        let way_out = |name: &str| {
            let problem = anyhow::Error::new(NotAStateDict::UnknownName(name.to_owned()));
            format!("{:#}", with_conversion_hint(problem, Path::new("pytorch_model.bin")))
        };
        let messages = ["argparse.Namespace", "omegaconf.dictconfig.DictConfig", "posix.system"].map(way_out);
        insta::assert_snapshot!(messages.join("\n"), @r#"
        it refers to `argparse.Namespace`, which has no place in a state dict: nothing of it was executed. Checkpoints of fairseq do: convert it by the script that transformers has for its family (convert_roberta_original_pytorch_checkpoint_to_pytorch.py, for one), and take the folder that the script writes
        it refers to `omegaconf.dictconfig.DictConfig`, which has no place in a state dict: nothing of it was executed. Checkpoints of fairseq do: convert it by the script that transformers has for its family (convert_roberta_original_pytorch_checkpoint_to_pytorch.py, for one), and take the folder that the script writes
        it refers to `posix.system`, which has no place in a state dict: nothing of it was executed. If the file is whole and you trust it, make one of it that can be read, in Python:
          import torch
          torch.save(torch.load("pytorch_model.bin", map_location="cpu", weights_only=True), "pytorch_model.bin")
        "#);
    }
}
