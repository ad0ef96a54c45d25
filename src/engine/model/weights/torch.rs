//! The state dict in a file of `torch.save`: a zip archive of one pickle and a file for each storage, or what it wrote before
//! PyTorch 1.6, pickles with the storages behind them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::pickle::Unusual;
use super::{StoredTensor, ValueType, pickle, zip};
use crate::model::files::ModelFile;
use crate::system::errors::Facts;

/// A state dict takes about 200 bytes for each tensor; a thousand layers of sixteen tensors each, 4 MB.
const LARGEST_PICKLE: u64 = 1 << 23;

/// PyTorch's weights-only reader refuses such a file, and transformers names its tensors otherwise.
const FAIRSEQ: &str = "Checkpoints of fairseq do: convert it by the script that transformers has for its family \
    (convert_roberta_original_pytorch_checkpoint_to_pytorch.py, for one), and take the folder that the script writes";

/// Says how to make a file of it that can be read.
pub(super) fn with_way_out(problem: anyhow::Error, path: &Path) -> anyhow::Error {
    if problem.downcast_ref::<Unusual>().is_some_and(Unusual::is_like_fairseq) {
        return problem.hint_after(". ", FAIRSEQ);
    }
    let path = path.display().to_string();
    let load =
        |safely: &str, part: &str| format!("torch.load({path:?}, map_location=\"cpu\", weights_only={safely}){part}");
    let (trust, lines) = match problem.downcast_ref::<Unusual>() {
        // Python's reader of weights alone reads neither, and a reader that does executes the file. So no message
        // recommends one for a file that names anything but a module.
        Some(unusual) if unusual.needs_all_of_pickle() => (
            "you trust it, for this runs the code that it holds",
            vec![
                format!("model = {}", load("False", "")),
                "model = model.state_dict() if hasattr(model, \"state_dict\") else model.get(\"state_dict\", model)"
                    .to_owned(),
                format!("torch.save(model, {path:?})"),
            ],
        ),
        unusual => {
            let keys = if let Some(Unusual::Nested(keys)) = unusual { keys.as_slice() } else { &[] };
            let part = keys.iter().map(|key| format!("[{key:?}]")).collect::<Vec<_>>().concat();
            ("you trust it", vec![format!("torch.save({}, {path:?})", load("True", &part))])
        }
    };
    let way_out = format!(
        "If the file is whole and {trust}, make one of it that can be read, in Python:\n  import torch\n  {}",
        lines.join("\n  ")
    );
    problem.hint_after(". ", way_out)
}

/// The place of this mark in the header of a tar archive (POSIX.1-1988, ustar).
const TAR_MARK: (u64, [u8; 5]) = (257, *b"ustar");

/// The tensors of a file, by name.
pub(super) fn tensors(file: &ModelFile) -> Result<Vec<(String, StoredTensor)>> {
    let size = file.size();
    let mut magic = zip::MAGIC;
    if size >= 4 {
        file.read_at(&mut magic, 0)?;
    }
    let mut mark = [0; TAR_MARK.1.len()];
    if magic != zip::MAGIC && file.read_at(&mut mark, TAR_MARK.0).is_ok() && mark == TAR_MARK.1 {
        bail!(Unusual::Tar);
    }
    if is_legacy(file)? {
        return legacy(file);
    }
    ensure!(
        size >= 4 && magic == zip::MAGIC,
        "it is neither a zip archive, as PyTorch has written since version 1.6, nor what it wrote before"
    );
    let entries = zip::entries(file)?;
    let of_pickle = |name: &str| name == "data.pkl" || name.ends_with("/data.pkl");
    let Some(pickle) = entries.iter().find(|entry| of_pickle(&entry.name)) else {
        bail!("it has no data.pkl: it was not written by PyTorch");
    };
    let root = pickle.name.strip_suffix("data.pkl").expect("it ends so");
    let storages: HashMap<&str, _> =
        entries.iter().filter_map(|entry| Some((entry.name.strip_prefix(root)?, &entry.place))).collect();
    if let Some(place) = storages.get("byteorder") {
        let mut order = [0; 6];
        let known = place.end - place.start == 6 && file.read_at(&mut order, place.start).is_ok();
        ensure!(known && order == *b"little", "it was written by a machine of another byte order");
    }
    let length = pickle.place.end - pickle.place.start;
    ensure!(length <= LARGEST_PICKLE, "its pickle has {length} bytes: no model has so many tensors");
    let mut bytes = vec![0; usize::try_from(length)?];
    file.read_at(&mut bytes, pickle.place.start)?;
    let tensors = pickle::tensors(&bytes)?;
    let stored = |(name, tensor): (&str, pickle::PickledTensor)| {
        let at = || format!("tensor `{}`", name.escape_debug());
        let storage = format!("data/{}", tensor.key);
        let place = storages
            .get(storage.as_str())
            .with_context(|| format!("{}: `{}` is missing", at(), storage.escape_debug()))?;
        Ok((name.to_owned(), stored(&tensor, place.start, place.end).with_context(at)?))
    };
    tensors.into_iter().map(stored).collect()
}

/// Whether a file is of `torch.save` of before PyTorch 1.6.
fn is_legacy(file: &ModelFile) -> Result<bool> {
    let mut start = [0; pickle::LEGACY_MAGIC.len()];
    let is_long_enough = file.size() >= start.len() as u64;
    if is_long_enough {
        file.read_at(&mut start, 0)?;
    }
    Ok(is_long_enough && start == pickle::LEGACY_MAGIC)
}

/// The tensors of a file of before PyTorch 1.6: pickles, and behind them each storage after its number of values
/// (`_legacy_save` of `torch/serialization.py`).
fn legacy(file: &ModelFile) -> Result<Vec<(String, StoredTensor)>> {
    let size = file.size();
    let mut bytes = vec![0; usize::try_from(size.min(LARGEST_PICKLE))?];
    file.read_at(&mut bytes, 0)?;
    let found = pickle::legacy(&bytes)?;
    let mut places: HashMap<&str, Range<u64>> = HashMap::new();
    let mut end = found.bytes as u64;
    for (key, storage_type) in found.storages {
        let at = || format!("storage `{}`", key.escape_debug());
        let mut count = [0; 8];
        file.read_at(&mut count, end).with_context(at).hint("download it again")?;
        let start = end + 8;
        let bytes = value_bytes(storage_type).with_context(at)?.checked_mul(u64::from_le_bytes(count));
        let place = bytes.and_then(|bytes| Some(start..start.checked_add(bytes)?)).filter(|place| place.end <= size);
        let place = place.with_context(|| format!("{} reaches beyond the file", at())).hint("download it again")?;
        end = place.end;
        ensure!(places.insert(key, place).is_none(), "{} is there twice", at());
    }
    ensure!(end == size, anyhow!("{} bytes follow its last storage", size - end).hint("download it again"));
    let stored = |(name, tensor): (&str, pickle::PickledTensor)| {
        let at = || format!("tensor `{}`", name.escape_debug());
        let place = places.get(tensor.key);
        let place = place.with_context(|| format!("{}: storage `{}` is missing", at(), tensor.key.escape_debug()))?;
        Ok((name.to_owned(), stored(&tensor, place.start, place.end).with_context(at)?))
    };
    found.tensors.into_iter().map(stored).collect()
}

/// The bytes of a value of a storage.
fn value_bytes(storage_type: &str) -> Result<u64> {
    Ok(match storage_type {
        "BoolStorage" | "ByteStorage" | "CharStorage" => 1,
        "HalfStorage" | "BFloat16Storage" | "ShortStorage" => 2,
        "FloatStorage" | "IntStorage" => 4,
        "DoubleStorage" | "LongStorage" => 8,
        other => bail!("values of a {} cannot be passed over", other.escape_debug()),
    })
}

/// A tensor as a view of the storage at `start` to `end` of the file.
fn stored(tensor: &pickle::PickledTensor, start: u64, end: u64) -> Result<StoredTensor> {
    let values = match tensor.storage_type {
        "DoubleStorage" => ValueType::F64,
        "FloatStorage" => ValueType::F32,
        "HalfStorage" => ValueType::F16,
        "BFloat16Storage" => ValueType::Bf16,
        other => ValueType::Other(other.trim_end_matches("Storage").to_owned()),
    };
    let begin = tensor.offset.checked_mul(values.bytes()).and_then(|offset| start.checked_add(offset));
    let begin = begin.filter(|begin| *begin <= end).context("it begins outside its storage")?;
    let sizes = |sizes: &[u64]| sizes.iter().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>();
    let (shape, strides) = (sizes(&tensor.shape)?, sizes(&tensor.strides)?);
    Ok(StoredTensor { values, shape, strides: Some(strides), place: begin..end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_of_fairseq_is_converted_and_never_executed() {
        let way_out = |name: &str| {
            let problem = anyhow::Error::new(Unusual::Name(name.to_owned()));
            format!("{:#}", with_way_out(problem, Path::new("pytorch_model.bin")))
        };
        for name in ["argparse.Namespace", "omegaconf.dictconfig.DictConfig"] {
            let error = way_out(name);
            assert!(error.contains(name) && error.contains("the script that transformers has"), "{error}");
            assert!(!error.contains("torch.load"), "{error}");
        }
        assert!(way_out("posix.system").contains("weights_only=True"));
    }
}
