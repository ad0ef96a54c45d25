//! The state dict in a file of `torch.save`: a zip archive of one pickle and a file for each storage.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::pickle::Unusual;
use super::{StoredTensor, ValueType, pickle, zip};
use crate::model::files::ModelFile;
use crate::system::errors::Facts;

/// A state dict takes about 200 bytes for each tensor; a thousand layers of sixteen tensors each, 4 MB.
const LARGEST_PICKLE: u64 = 1 << 23;

/// Says how to make a file of it that can be read.
pub(super) fn with_way_out(problem: anyhow::Error, path: &Path) -> anyhow::Error {
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
    ensure!(size >= 4 && magic == zip::MAGIC, "it is not a zip archive, as PyTorch has written since version 1.6");
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
