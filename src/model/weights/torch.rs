//! The state dict in a file of `torch.save`: a zip archive of one pickle and a file for each storage.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::{StoredTensor, ValueType, pickle, zip};
use crate::model::files::ModelFile;

/// A state dict takes about 200 bytes for each tensor; a thousand layers of sixteen tensors each, 4 MB.
const LARGEST_PICKLE: u64 = 1 << 23;

/// Says how to make a file of it that can be read.
pub(super) fn with_way_out(problem: &anyhow::Error, path: &Path) -> anyhow::Error {
    let path = path.display().to_string();
    let part = problem.downcast_ref::<pickle::Nested>().map_or_else(String::new, |nested| format!("[{:?}]", nested.0));
    anyhow!(
        "{problem:#}. If the file is whole and you trust it, make one of it that can be read, in Python:\n  \
         import torch\n  \
         torch.save(torch.load({path:?}, map_location=\"cpu\", weights_only=True){part}, {path:?})"
    )
}

/// The tensors of a file, by name.
pub(super) fn tensors(file: &ModelFile) -> Result<Vec<(String, StoredTensor)>> {
    let size = file.size();
    let mut magic = zip::MAGIC;
    if size >= 4 {
        file.read_at(&mut magic, 0)?;
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
