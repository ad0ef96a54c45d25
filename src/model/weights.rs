//! Tensors by name from a checkpoint, whatever naming scheme it was written with.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};

/// A model's weights, mapped into memory.
pub struct Checkpoint {
    path: PathBuf,
    tensors: MmapedSafetensors,
    device: Device,
}

/// Before every tensor name of a bare encoder, or of an encoder inside a model with a task head.
const PREFIXES: [&str; 2] = ["", "bert."];

/// LayerNorm parameters, as they are called now and as checkpoints converted from TensorFlow call them
/// (`google-bert/bert-base-uncased`, for one).
const ALIASES: [(&str, &str); 2] = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];

impl Checkpoint {
    /// Maps a safetensors file.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or is not safetensors.
    pub fn open(path: &Path, device: &Device) -> Result<Self> {
        // SAFETY: the map is only read, and only while the weights are loaded. As with every mapped file,
        // a process that shortens the file during that time makes the read fail by SIGBUS; reading a copy into
        // memory would avoid it at twice the memory and start-up time of a model that is hundreds of megabytes.
        let tensors = unsafe { MmapedSafetensors::new(path) }
            .with_context(|| format!("cannot read weights from `{}`", path.display()))?;
        Ok(Self { path: path.to_owned(), tensors, device: device.clone() })
    }

    /// Loads a tensor as f32 under any of the names it may have, and checks its shape and its values.
    ///
    /// # Errors
    ///
    /// If no name is there (all that were tried are listed), the shape is not `shape`, or a value is not finite.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let names = candidates(name);
        let Some(found) = names.iter().find(|name| self.tensors.get(name).is_ok()) else {
            bail!("`{}` has no tensor for {name}: tried {}", self.path.display(), names.join(", "));
        };
        let at = || format!("tensor {found} of `{}`", self.path.display());
        let tensor = self.tensors.load(found, &self.device).with_context(at)?.to_dtype(DType::F32).with_context(at)?;
        ensure!(tensor.dims() == shape, "{} has shape {:?}: config.json implies {shape:?}", at(), tensor.dims());
        let values = tensor.flatten_all()?.to_vec1::<f32>()?;
        if let Some(place) = values.iter().position(|value| !value.is_finite()) {
            bail!("{} holds {} at element {place}: the weights are damaged", at(), values[place]);
        }
        Ok(tensor)
    }
}

/// The names that a tensor may have.
fn candidates(name: &str) -> Vec<String> {
    let mut spellings = vec![name.to_owned()];
    for (new, old) in ALIASES {
        if let Some(stem) = name.strip_suffix(new) {
            spellings.push(format!("{stem}{old}"));
        }
    }
    spellings.iter().flat_map(|name| PREFIXES.map(|prefix| format!("{prefix}{name}"))).collect()
}
