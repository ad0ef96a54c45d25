//! Tensors by name from a checkpoint, whatever naming scheme it was written with.
//!
//! Tensors are read one by one into memory of their own, so that a model takes its own size and no more:
//! neither a mapping nor a copy of the file stays beside it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use candle_core::{DType, Device, Tensor};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

/// A safetensors file whose header was read.
pub struct Checkpoint {
    path: PathBuf,
    file: File,
    header: Metadata,
    /// Where in the file the tensors begin.
    data_start: u64,
    /// What may stand before every name.
    prefix: &'static str,
}

/// LayerNorm parameters, as they are called now and as checkpoints converted from TensorFlow call them
/// (`google-bert/bert-base-uncased`, for one).
const ALIASES: [(&str, &str); 2] = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];

/// The longest header that the safetensors format allows, in bytes.
const LONGEST_HEADER: u64 = 100_000_000;

impl Checkpoint {
    /// Opens a safetensors file and reads its header. In a model with a task head, `prefix` stands before every name.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, is not safetensors, or is not as long as its header says.
    pub fn open(path: &Path, prefix: &'static str) -> Result<Self> {
        Self::read_header(path, prefix).with_context(|| format!("cannot read weights from `{}`", path.display()))
    }

    fn read_header(path: &Path, prefix: &'static str) -> Result<Self> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length).context("not a safetensors file: it has no header")?;
        let length = u64::from_le_bytes(length);
        ensure!(length <= LONGEST_HEADER.min(size), "not a safetensors file: its header would be {length} bytes long");
        let mut header = vec![0; usize::try_from(length)?];
        file.read_exact(&mut header).context("the header is cut short")?;
        let header: Metadata = serde_json::from_slice(&header).context("the header is not that of safetensors")?;
        let data_start = 8 + length;
        let whole = data_start + header.data_len() as u64;
        ensure!(size == whole, "the file has {size} bytes where its header says {whole}: download it again");
        Ok(Self { path: path.to_owned(), file, header, data_start, prefix })
    }

    /// Reads a tensor as f32 under any of the names it may have, and checks its shape and its values.
    ///
    /// # Errors
    ///
    /// If no name is there (all that were tried are listed), the shape is not `shape`, or a value is not finite.
    pub fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let names = candidates(self.prefix, name);
        let found = names.iter().find_map(|name| Some((name, self.header.info(name)?.clone())));
        let Some((found, info)) = found else {
            bail!("`{}` has no tensor for {name}: tried {}", self.path.display(), names.join(", "));
        };
        let at = format!("tensor {found} of `{}`", self.path.display());
        ensure!(info.shape == shape, "{at} has shape {:?}: config.json implies {shape:?}", info.shape);
        let values = self.values(&info).with_context(|| at.clone())?;
        if let Some(place) = values.iter().position(|value| !value.is_finite()) {
            bail!("{at} holds {} at element {place}: the weights are damaged", values[place]);
        }
        Ok(values)
    }

    fn values(&mut self, info: &TensorInfo) -> Result<Vec<f32>> {
        let (start, end) = info.data_offsets;
        self.file.seek(SeekFrom::Start(self.data_start + start as u64))?;
        let count = info.shape.iter().product();
        match info.dtype {
            Dtype::F32 => {
                let mut values = vec![0.0_f32; count];
                self.file.read_exact(bytemuck::cast_slice_mut(&mut values))?;
                // The format is little-endian.
                values.iter_mut().for_each(|value| *value = f32::from_bits(u32::from_le(value.to_bits())));
                Ok(values)
            }
            Dtype::F16 | Dtype::BF16 => {
                let mut bytes = vec![0; end - start];
                self.file.read_exact(&mut bytes)?;
                let dtype = DType::try_from(info.dtype)?;
                let tensor = Tensor::from_raw_buffer(&bytes, dtype, &[count], &Device::Cpu)?;
                Ok(tensor.to_dtype(DType::F32)?.to_vec1()?)
            }
            other => Err(anyhow!("has type {other:?}: float32, float16 and bfloat16 can be read")),
        }
    }
}

/// The names that a tensor may have.
fn candidates(prefix: &str, name: &str) -> Vec<String> {
    let mut spellings = vec![name.to_owned()];
    for (new, old) in ALIASES {
        if let Some(stem) = name.strip_suffix(new) {
            spellings.push(format!("{stem}{old}"));
        }
    }
    spellings.iter().flat_map(|name| ["", prefix].map(|prefix| format!("{prefix}{name}"))).collect()
}
