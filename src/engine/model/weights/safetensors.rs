//! The header of a safetensors file (<https://huggingface.co/docs/safetensors>, "Format").

use anyhow::{Context, Result, anyhow, ensure};
use candle_core::DType;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::stored::{StoredTensor, VALUE_TYPES};
use crate::model::files::ModelFile;
use crate::system::errors::ErrorExt;

/// Maximum length of a header in the safetensors format, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Reads the tensors of a file, by name. `safetensors.torch.save_model` leaves out duplicate tensors, and its metadata maps
/// each to the stored tensor. Duplicates also get an entry here.
pub(super) fn read_tensors(file: &ModelFile) -> Result<Vec<(String, StoredTensor)>> {
    let (header, data_start) = read_header(file)?;
    let stored = |(name, info): (String, &TensorInfo)| {
        let readable = VALUE_TYPES.into_iter().find(|&dtype| Dtype::from(dtype) == info.dtype);
        let values = readable.ok_or_else(|| format!("{:?}", info.dtype));
        (name, locate_tensor(info, data_start, values))
    };
    let tensors = header.tensors();
    let aliases = header.metadata().iter().flatten();
    let aliases = aliases.filter(|(name, _)| !tensors.contains_key(name.as_str()));
    let aliases = aliases.filter_map(|(name, other)| Some((name.clone(), *tensors.get(other)?)));
    Ok(tensors.iter().map(|(name, info)| (name.clone(), *info)).chain(aliases).map(stored).collect())
}

/// Returns the place of a tensor in a file whose data begin at `data_start`, with the type of its values.
pub(super) fn locate_tensor(info: &TensorInfo, data_start: u64, value_type: Result<DType, String>) -> StoredTensor {
    let (start, end) = info.data_offsets;
    let byte_range = data_start + start as u64..data_start + end as u64;
    StoredTensor { value_type, shape: info.shape.clone(), strides: None, byte_range }
}

/// Returns (header of a file, offset of the data in bytes). Fails if the header is damaged, or the file's size differs from the
/// header's.
pub(super) fn read_header(file: &ModelFile) -> Result<(Metadata, u64)> {
    let size = file.size();
    let mut length = [0; 8];
    ensure!(size >= 8, "not a safetensors file: it has no header");
    file.read_at(&mut length, 0)?;
    let length = u64::from_le_bytes(length);
    ensure!(length <= MAX_HEADER_BYTES.min(size), "not a safetensors file: its header would be {length} bytes long");
    let mut header = vec![0; usize::try_from(length)?];
    file.read_at(&mut header, 8).context("the header is cut short")?;
    let header: Metadata = serde_json::from_slice(&header).context("the header is not that of safetensors")?;
    let data_start = 8 + length;
    let expected = data_start.saturating_add(header.data_len() as u64);
    ensure!(
        size == expected,
        anyhow!("the file has {size} bytes where its header says {expected}").hint("download it again")
    );
    Ok((header, data_start))
}
