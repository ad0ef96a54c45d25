//! Tensors by name from the files of a checkpoint, in any naming scheme and file format. Tensors are read one by one into new
//! memory; files are neither mapped nor copied. Sizes stated in a file are checked against the file's length and `config.json`
//! before use.

mod foreign;
pub mod left;
pub mod pickle;
pub mod pruned;
mod safetensors;
mod stored;
mod torch;
mod zip;

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};

use super::families::Family;
use super::families::architecture::{Architecture, is_prunable};
use super::files::ModelFile;
use super::files::names::is_pickle;
use crate::system::counts::format_count;
use crate::system::errors::ErrorExt;
use foreign::foreign_kind;
use itertools::Itertools;
use stored::StoredTensor;

/// The weight files of a model, with all headers read.
pub struct Checkpoint {
    files: Vec<ModelFile>,
    /// (index in `files`, tensor) by tensor name.
    tensors: HashMap<String, (usize, StoredTensor)>,
    /// Name of a tensor in its file, by the name without prefix and wrapper parts. Tensors whose two names are equal may be
    /// missing.
    name_in_file: HashMap<String, String>,
    /// Architecture family, whose prefixes may precede tensor names.
    family: Family,
    /// Number of values that expanded tensors have beyond the stored ones, over all files. Values of an expanded tensor
    /// share stored locations.
    expanded_values: usize,
    /// Names of the tensors that have been read.
    read_names: Mutex<BTreeSet<String>>,
    /// Adapter that changes tensors as they are read; `None` without one.
    adapter: Option<Box<dyn Overlay>>,
}

/// Names of LayerNorm parameters: (current name, name in checkpoints from TensorFlow such as `google-bert/bert-base-uncased`).
const LAYER_NORM_ALIASES: [(&str, &str); 2] =
    [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];

/// Maximum number of values that a checkpoint may have in excess of the values stored in its files, through expanded tensors:
/// 256 MiB of float32. Without this bound, a file of a few bytes could claim any amount of memory. The segment embedding of the
/// largest models, expanded from one row, has some thousands of values.
const MAX_EXPANDED_VALUES: usize = 1 << 26;

/// A source of parameters by tensor name: a checkpoint, or random initial weights.
pub trait Tensors: Sync {
    /// Reads the values of the tensor `name`, row-major. Fails if there is no tensor of this name and shape.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>>;

    fn has_tensor(&self, name: &str) -> bool;
}

/// An adapter: updates and replacements of a checkpoint's tensors.
pub trait Overlay: Send + Sync {
    /// Returns the adapted values of the tensor `bare`, a name without prefixes; `base` reads the values in the checkpoint.
    /// Fails if an update does not fit the tensor.
    fn adapted_values(&self, bare: &str, shape: &[usize], base: &dyn Fn() -> Result<Vec<f32>>) -> Result<Vec<f32>>;

    /// Fails if an update or replacement was not applied although its tensor is needed. `is_needed` gets the tensor's
    /// name without prefix.
    fn ensure_updates_applied(&self, is_needed: &dyn Fn(&str) -> bool) -> Result<()>;
}

impl Tensors for Checkpoint {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        Self::tensor(self, name, shape)
    }

    fn has_tensor(&self, name: &str) -> bool {
        possible_names(self.family.prefix, name).iter().any(|name| self.tensors.contains_key(name))
    }
}

impl Checkpoint {
    /// Opens the weight files of a model and reads their headers. In a model with a task head, tensor names have `family`'s
    /// prefix. Fails if a file cannot be opened or is damaged, or if two files have the same tensor. Also fails if a tensor
    /// belongs to an unsupported part that changes the model's computation, such as an adapter.
    pub fn open(files: Vec<ModelFile>, family: Family) -> Result<Self> {
        Self::open_all(files, family, false)
    }

    /// Opens the weight file of an adapter. Fails as [`Checkpoint::open`], except that tensors of adapters are accepted.
    pub(in crate::model) fn open_adapter(file: ModelFile, family: Family) -> Result<Self> {
        Self::open_all(vec![file], family, true)
    }

    /// Opens weight files; `of_adapter` says whether tensors of adapters are accepted.
    fn open_all(files: Vec<ModelFile>, family: Family, of_adapter: bool) -> Result<Self> {
        let mut checkpoint = Self {
            files: Vec::new(),
            tensors: HashMap::new(),
            name_in_file: HashMap::new(),
            family,
            expanded_values: 0,
            read_names: Mutex::default(),
            adapter: None,
        };
        for file in files {
            let path = file.path().to_owned();
            checkpoint.add_file(file, of_adapter).cannot("read weights from", path.display())?;
        }
        Ok(checkpoint)
    }

    /// Sets the adapter that changes tensors as they are read.
    pub fn with_adapter(self, adapter: Option<Box<dyn Overlay>>) -> Self {
        Self { adapter, ..self }
    }

    pub(in crate::model) fn tensor_names(&self) -> impl Iterator<Item = &String> {
        self.tensors.keys()
    }

    /// Returns the number of rows of a matrix. Fails if there is no such tensor, or it has another number of dimensions than
    /// two.
    pub(in crate::model) fn row_count(&self, name: &str) -> Result<usize> {
        let shape = &self.tensors.get(name).with_context(|| format!("there is no tensor `{name}`"))?.1.shape;
        ensure!(shape.len() == 2, "tensor `{name}` has shape {shape:?}, and a factor of an update has two dimensions");
        Ok(shape[0])
    }

    /// Removes a prefix that no family knows, and that a program put before all tensor names of the encoder.
    pub fn without_unknown_prefix(mut self, architecture: &Architecture) -> Self {
        if let Some(prefix) = find_unknown_prefix(self.tensors.keys().map(String::as_str), architecture) {
            let bare = |name: &str| name.strip_prefix(&prefix).unwrap_or(name).to_owned();
            let name_in_file =
                self.tensors.keys().map(|name| (bare(name), self.name_in_file.get(name).unwrap_or(name).clone()));
            self.name_in_file = name_in_file.collect();
            self.tensors = self.tensors.into_iter().map(|(name, stored)| (bare(&name), stored)).collect();
        }
        self
    }

    /// Reads the header of a file, and adds its tensors.
    fn add_file(&mut self, file: ModelFile, of_adapter: bool) -> Result<()> {
        let tensors =
            if is_pickle(file.path()) { torch::read_tensors(&file)? } else { safetensors::read_tensors(&file)? };
        for (name_in_file, stored) in tensors {
            if let Some((description, way_out)) = foreign_kind(&name_in_file).filter(|_| !of_adapter) {
                let error = anyhow!("its tensor `{}` is part of {description}", name_in_file.escape_debug());
                return Err(error.hint(way_out));
            }
            self.expanded_values = self.expanded_values.saturating_add(stored.expanded_value_count());
            // `module.` is the prefix of a model within `torch.nn.DataParallel`.
            let mut wrappers = self.family.wrapper_prefixes.iter().chain([&"module."]);
            let bare = wrappers.find_map(|wrapper| name_in_file.strip_prefix(wrapper));
            let name = strip_wrapper_parts(bare.unwrap_or(&name_in_file));
            if name != name_in_file {
                self.name_in_file.insert(name.clone(), name_in_file);
            }
            if let Some((other, _)) = self.tensors.insert(name.clone(), (self.files.len(), stored)) {
                let other = self.files.get(other).unwrap_or(&file).path().display();
                bail!("it has a tensor `{}` that `{other}` has too", name.escape_debug());
            }
        }
        self.files.push(file);
        Ok(())
    }

    /// Whether any tensor name begins with `start`.
    pub fn has_prefix(&self, start: &str) -> bool {
        self.tensors.keys().any(|name| name.starts_with(start))
    }

    /// Reads a tensor as f32 under any of its possible names, and checks its shape and values.
    /// Fails if there is no such tensor (the error lists the closest names), the shape is not `shape`, or a value is not finite.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let Some((key, (file, stored))) = self.find_tensor(name) else {
            let files = self.files.iter().map(|file| format!("`{}`", file.path().display())).join(", ");
            let verb = if self.files.len() == 1 { "has" } else { "have" };
            let closest = self.describe_closest(name);
            const GATED_LAYERS_HINT: &str =
                " (there are gated layers, as of JinaBERT and MosaicBERT, of which config.json says nothing)";
            let gated = self.tensors.keys().any(|name| name.contains("mlp.gated_layers"));
            let why = if gated { GATED_LAYERS_HINT } else { "" };
            let error = anyhow!("{files} {verb} no tensor for {name}: {closest}{why}");
            return Err(self.files.iter().rev().fold(error, |error, file| error.with_file(file.path().display())));
        };
        self.read_names.lock().expect("nobody panics while reading").insert(key.clone());
        let file = &self.files[*file];
        let path = file.path();
        let description = format!("tensor {key} of `{}`", path.display());
        let base = || self.read_values(stored, file, shape, &description).with_file(path.display());
        match &self.adapter {
            Some(adapter) => adapter.adapted_values(key.strip_prefix(self.family.prefix).unwrap_or(&key), shape, &base),
            None => base(),
        }
    }

    /// Finds a tensor under any of its possible names. Returns (name found, (index of its file, tensor)).
    fn find_tensor(&self, name: &str) -> Option<(String, &(usize, StoredTensor))> {
        let mut names = possible_names(self.family.prefix, name).into_iter();
        names.find_map(|name| self.tensors.get(&name).map(|stored| (name, stored)))
    }

    /// Returns (index of the file that holds a tensor, name of the tensor in that file).
    fn name_in_file(&self, name: &str) -> Option<(usize, String)> {
        let (key, (file, _)) = self.find_tensor(name)?;
        Some((*file, self.name_in_file.get(&key).cloned().unwrap_or(key)))
    }

    /// Describes the tensor names that are most similar to `name`.
    fn describe_closest(&self, name: &str) -> String {
        let similarity = |other: &str| strsim::jaro_winkler(other, name);
        let names = self.tensors.keys().sorted_by(|a, b| similarity(b).total_cmp(&similarity(a)).then(a.cmp(b)));
        let quoted = names.take(3).map(|other| format!("`{}`", other.escape_debug())).join(", ");
        match self.tensors.len() {
            0 => "there are no tensors at all".to_owned(),
            count => {
                let tensors = format_count(count, "tensor");
                format!("of the {tensors} that there are, the closest by name are {quoted}")
            }
        }
    }

    /// Returns the error about a tensor whose shape is not `shape`. For an attention tensor, it suggests that heads were
    /// pruned.
    fn shape_error(&self, stored: &StoredTensor, shape: &[usize], name: &str) -> Error {
        let error = anyhow!("{name} has shape {:?}: config.json implies {shape:?}", stored.shape);
        let differing = stored.shape.iter().zip(shape).filter(|(is, implied)| is != implied).count();
        let is_of_attention = name.to_lowercase().contains("att") && is_prunable(&self.family);
        if !is_of_attention || stored.shape.len() != shape.len() || differing != 1 {
            return error;
        }
        error.hint_after("; ", "if heads were pruned before it was saved, `pruned_heads` of config.json names them")
    }

    /// Reads a tensor as f32, and checks its shape and values.
    fn read_values(&self, stored: &StoredTensor, file: &ModelFile, shape: &[usize], name: &str) -> Result<Vec<f32>> {
        ensure!(stored.shape == shape, self.shape_error(stored, shape, name));
        ensure!(
            stored.expanded_value_count() == 0 || self.expanded_values <= MAX_EXPANDED_VALUES,
            anyhow!(
                "{name} has values that lie in the same place, and all such tensors together {} more than there are in the \
                 file: more than {MAX_EXPANDED_VALUES} are not read",
                self.expanded_values
            )
            .hint_after("; ", "save it again, with .contiguous()")
        );
        let values = stored.read(file).with_context(|| name.to_owned())?;
        // Chunks let the compiler check several values at once.
        if !values.chunks(1 << 12).all(|chunk| chunk.iter().fold(true, |fine, x| fine & x.is_finite())) {
            let index = values.iter().position(|x| !x.is_finite()).expect("there is one");
            bail!("{name} holds {} at element {index}: the weights are damaged", values[index]);
        }
        Ok(values)
    }
}

/// Lists the names under which a file may have the tensor `name`: with and without `prefix`, and under TensorFlow's names.
fn possible_names(prefix: &str, name: &str) -> Vec<String> {
    let older =
        LAYER_NORM_ALIASES.into_iter().filter_map(|(new, old)| Some(format!("{}{old}", name.strip_suffix(new)?)));
    let spellings = std::iter::once(name.to_owned()).chain(older);
    spellings.flat_map(|name| ["", prefix].map(|prefix| format!("{prefix}{name}"))).collect()
}

/// Parts of tensor names that wrappers of PyTorch modules insert anywhere: `torch.compile`, fully sharded training,
/// checkpointed activations, deepspeed.
const WRAPPER_NAME_PARTS: [&str; 4] =
    ["_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"];

/// Removes the parts that wrappers of PyTorch modules insert into a tensor name.
fn strip_wrapper_parts(name: &str) -> String {
    name.split('.').filter(|part| !WRAPPER_NAME_PARTS.contains(part)).join(".")
}

/// Finds a prefix of all tensor names that no family knows: the text before the name of the first layer's output projection, if
/// there is only one such text. `None` if the family or its task heads have this prefix, or there is none.
fn find_unknown_prefix<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    architecture: &Architecture,
) -> Option<String> {
    let family = architecture.family;
    let endings = architecture.names.marker_tensors();
    let prefix = |name: &'a str| endings.iter().find_map(|ending| name.strip_suffix(ending.as_str()));
    let prefixes: BTreeSet<&str> =
        names.filter_map(prefix).filter(|prefix| prefix.is_empty() || prefix.ends_with('.')).collect();
    if prefixes.contains("") || prefixes.contains(family.prefix) {
        return None;
    }
    match prefixes.iter().filter_map(|prefix| prefix.strip_suffix(family.prefix)).at_most_one() {
        Ok(Some(outer)) => Some(outer.to_owned()),
        Ok(None) if prefixes.len() == 1 => prefixes.first().map(|prefix| (*prefix).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::families::bert::SMALL_CONFIG_JSON;

    const SIGN: &str = "encoder.layer.0.attention.output.dense.weight";

    fn found(before: &[&str]) -> Option<String> {
        let names: Vec<String> = before.iter().map(|before| format!("{before}{SIGN}")).collect();
        find_unknown_prefix(names.iter().map(String::as_str), &Architecture::parse(SMALL_CONFIG_JSON).unwrap())
    }

    #[test]
    fn a_prefix_is_what_stands_before_the_familys_own() {
        assert_eq!([found(&[""]), found(&["bert."]), found(&[])], [const { None }; 3]);
        assert_eq!(found(&["model.bert."]).as_deref(), Some("model."));
        assert_eq!(found(&["0.auto_model."]).as_deref(), Some("0.auto_model."));
        // The family's own tells one of several; without it there is no telling.
        assert_eq!(found(&["a.bert.", "b."]).as_deref(), Some("a."));
        assert_eq!(found(&["a.", "b."]), None);
    }

    #[test]
    fn wrappers_are_taken_out_of_names() {
        assert_eq!(strip_wrapper_parts("_orig_mod.bert._fsdp_wrapped_module.x"), "bert.x");
        assert_eq!(strip_wrapper_parts("bert.x"), "bert.x");
    }
}
