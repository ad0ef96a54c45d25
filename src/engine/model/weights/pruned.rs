//! The weights of a model without some of its attention heads, in files with unchanged shapes and tensor names. Each head has
//! its own inputs of the output projection; with zero weights at these inputs, the head writes nothing. A constant in place of
//! the head's context adds one vector at every position, which goes into the projection's bias. Queries, keys and values stay.
//! Except for the projection's weight and bias, tensors are copied byte by byte, one at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use candle_core::DType;
use itertools::Itertools;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::stored::StoredTensor;
use super::{Checkpoint, Tensors, safetensors as format, torch};
use crate::model::files::names::{WEIGHT_FILES, is_index, is_pickle};
use crate::model::files::{ModelFile, ModelFiles};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::system::errors::{ErrorClass, ErrorExt};

/// Attention heads to remove, each with the constant that replaces its context, `[head_dim]`; `None` for zeros.
pub type RemovedHeads = BTreeMap<HeadPlace, Option<Vec<f32>>>;

/// The weight files of a model without some of its attention heads, ready to be written.
pub struct PrunedWeights {
    files: Vec<ModelFile>,
    /// Changes to the tensors of each file.
    changes: Vec<TensorChanges>,
}

/// Changes to the tensors of a file, by tensor name. Locations would not do, because several tensors may share one.
type TensorChanges = BTreeMap<String, TensorChange>;

/// A change to one tensor.
enum TensorChange {
    /// The weights at these inputs of a projection become zero.
    ZeroInputs(ProjectionLayout, Vec<Range<usize>>),
    /// All values are replaced by these, row-major.
    Values(Vec<f32>),
}

/// Shape of an output projection's weights, and their order in the tensor.
#[derive(Clone, Copy, Debug)]
struct ProjectionLayout {
    /// Number of outputs of the projection.
    outputs: usize,
    /// Number of inputs of the projection, over all attention heads in the file.
    inputs: usize,
    /// Whether the weights are stored as `[inputs, outputs]`.
    transposed: bool,
    /// Number of groups of a convolution of width 1, where an output has weights only for the inputs in its group; `None` for
    /// a linear layer.
    groups: Option<usize>,
}

impl ProjectionLayout {
    /// Returns the shape of the tensor in the file. A convolution has a third dimension, its width of 1.
    fn shape(self) -> Vec<usize> {
        match self.groups {
            Some(groups) => vec![self.outputs, self.inputs / groups, 1],
            None if self.transposed => vec![self.inputs, self.outputs],
            None => vec![self.outputs, self.inputs],
        }
    }

    /// Returns the index of the weight from `input` to `output`; `None` between groups of a grouped convolution.
    fn index(self, output: usize, input: usize) -> Option<usize> {
        match self.groups {
            Some(groups) => {
                let (rows, columns) = (self.outputs / groups, self.inputs / groups);
                (output / rows == input / columns).then(|| output * columns + input % columns)
            }
            None if self.transposed => Some(input * self.outputs + output),
            None => Some(output * self.inputs + input),
        }
    }
}

impl PrunedWeights {
    /// Prepares the weights of `files` without the `removed` attention heads. Fails if the model has an adapter, if a head does
    /// not exist or is absent already, or if the weights cannot be read. Also fails if a head is not removed from all layers
    /// that share its weights, or if a constant replaces a head and the output projection has no bias.
    pub fn new(files: &ModelFiles, removed: &RemovedHeads) -> Result<Self> {
        Self::read_changes(files, removed).class(ErrorClass::Model)
    }

    /// As [`PrunedWeights::new`], but its errors lack [`ErrorClass::Model`].
    fn read_changes(files: &ModelFiles, removed: &RemovedHeads) -> Result<Self> {
        let ModelFiles { architecture, weights, id, .. } = files;
        let config = &architecture.config;
        ensure!(
            files.adapter.is_none(),
            anyhow!("`{id}` has an adapter, and a pruned model would lack it")
                .hint("merge it with merge_and_unload() in Python, save the model, and prune that")
        );
        let checkpoint = Checkpoint::open(weights.clone(), architecture.family)?.without_unknown_prefix(architecture);
        let names = architecture.names.matching_spelling(|name| checkpoint.has_tensor(name));
        if let Some(absent) = removed.keys().find(|head| config.absent.contains(head)) {
            let error = anyhow!("{absent} is absent: `{id}` was saved without it (pruned_heads)").with_value(absent);
            return Err(error.hint("leave it out").class(ErrorClass::Usage));
        }
        let head_dim = config.head_dim();
        let mut changes: Vec<TensorChanges> = weights.iter().map(|_| BTreeMap::new()).collect();
        for (stem, heads) in group_by_stem(architecture.grid(), &names.layers, removed).class(ErrorClass::Usage)? {
            let name = |part: &str| format!("{stem}.{}.{part}", names.layer_parts.attention_output);
            // Heads are absent in all layers that share weights, so any such layer will do.
            let present = config.present_heads(names.layers.iter().position(|layer| layer == stem).expect("a layer"));
            let layout = ProjectionLayout {
                outputs: config.hidden_size,
                inputs: present.len() * head_dim,
                transposed: names.is_transposed,
                groups: names.convolutions.map(|groups| groups.attention_output),
            };
            let range = |head: usize| {
                let place = present.iter().position(|&present| present == head).expect("a head that is there");
                place * head_dim..(place + 1) * head_dim
            };
            let weight = checkpoint.tensor(&name("weight"), &layout.shape())?;
            let mut set_change = |part: &str, change| {
                let (file, name_in_file) = checkpoint.name_in_file(&name(part)).expect("it was read");
                changes[file].insert(name_in_file, change);
            };
            if heads.values().any(|constant| constant.is_some()) {
                ensure!(
                    names.biases.attention_output,
                    anyhow!("the output projections of `{id}` have no bias, so no constant can stand for a head")
                        .hint("remove heads by zero: `headscope analyze --with pruning --removal zero`")
                );
                let mut bias: Vec<f64> =
                    checkpoint.tensor(&name("bias"), &[layout.outputs])?.into_iter().map(f64::from).collect();
                for (&head, constant) in heads.iter().filter_map(|(head, constant)| Some((head, constant.as_ref()?))) {
                    let count = constant.len();
                    ensure!(
                        count == head_dim,
                        "the constant of a head has {count} values, and the heads of `{id}` have {head_dim}"
                    );
                    for (output, sum) in bias.iter_mut().enumerate() {
                        let weights = range(head).zip(constant);
                        let weights = weights.filter_map(|(input, value)| Some((layout.index(output, input)?, value)));
                        *sum += weights.map(|(at, value)| f64::from(weight[at]) * f64::from(*value)).sum::<f64>();
                    }
                }
                #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
                set_change("bias", TensorChange::Values(bias.into_iter().map(|sum| sum as f32).collect()));
            }
            set_change("weight", TensorChange::ZeroInputs(layout, heads.keys().map(|&head| range(head)).collect()));
        }
        Ok(Self { files: weights.clone(), changes })
    }

    /// Returns the names of the files that [`write`](Self::write) writes, in the order of the model's files.
    pub fn names(&self) -> Vec<String> {
        let name = |file: &ModelFile| safetensors_name(&file.path().file_name().unwrap_or_default().to_string_lossy());
        self.files.iter().map(name).collect()
    }

    /// Writes file `number` as safetensors.
    /// Fails if a tensor cannot be read, or `out` cannot be written.
    pub fn write(&self, number: usize, out: &mut dyn Write) -> Result<()> {
        let (file, changes) = (&self.files[number], &self.changes[number]);
        let path = file.path().display();
        write(file, changes, out).cannot("write what is pruned of", path)?;
        file.ensure_unchanged()
    }

    /// Returns (file name, content) of the index of several weight files; `None` if there is only one file. Fails if tensor
    /// names cannot be read.
    pub fn index(&self) -> Result<Option<(&'static str, String)>> {
        if self.files.len() < 2 {
            return Ok(None);
        }
        let (mut map, mut total) = (BTreeMap::new(), 0);
        for ((file, changes), name) in self.files.iter().zip(&self.changes).zip(self.names()) {
            for tensor in written_tensors(file, changes)?.0 {
                total += tensor.byte_count();
                map.insert(tensor.name, name.clone());
            }
        }
        let index = serde_json::json!({"metadata": {"total_size": total}, "weight_map": map});
        let name = WEIGHT_FILES.into_iter().find(|name| is_index(name)).expect("there is one");
        Ok(Some((name, serde_json::to_string_pretty(&index)?)))
    }
}

/// Returns the name that transformers gives to a weight file saved as safetensors.
fn safetensors_name(name: &str) -> String {
    match name.strip_suffix(".bin") {
        Some(stem) => format!("{}.safetensors", stem.replacen("pytorch_model", "model", 1)),
        None => name.to_owned(),
    }
}

/// The removed attention heads of each layer, keyed by the stem of the layer's tensor names. Each head has the constant
/// that replaces its context, if any.
type HeadsByStem<'a> = BTreeMap<&'a str, BTreeMap<usize, &'a Option<Vec<f32>>>>;

/// Groups the removed attention heads by the stem of their layer's tensor names; layers with equal stems share weights. Fails
/// if a head does not exist, or is not removed from all layers that share its weights.
fn group_by_stem<'a>(grid: HeadGrid, stems: &'a [String], removed: &'a RemovedHeads) -> Result<HeadsByStem<'a>> {
    if let Some(stray) = grid.first_outside(removed.keys().copied()) {
        return Err(anyhow!("there is no head {stray}: the model has {grid}, both counted from 0").with_value(stray));
    }
    let mut heads = HeadsByStem::new();
    for (&HeadPlace { layer, head }, constant) in removed {
        let sharing = (0..grid.layers).filter(|&other| stems[other] == stems[layer]);
        let sharing_heads: BTreeSet<HeadPlace> = sharing.map(|layer| HeadPlace { layer, head }).collect();
        if let Some(unremoved) = sharing_heads.iter().find(|place| !removed.contains_key(place)) {
            return Err(anyhow!("L{layer}H{head} shares its weights with {unremoved}, which would go as well")
                .with_value(HeadPlace { layer, head })
                .hint(format!("give `--heads {}`, which go together", sharing_heads.iter().join(","))));
        }
        heads.entry(&stems[layer]).or_default().insert(head, constant);
    }
    Ok(heads)
}

/// A tensor to be written: its name, its place in the model's file, and the type of the written values.
struct WrittenTensor {
    name: String,
    stored: StoredTensor,
    /// Type of the values in the written file.
    dtype: Dtype,
}

/// The metadata of a safetensors file; `None` if it has none.
type FileMetadata = Option<HashMap<String, String>>;

/// Returns (tensors of a file in the order of writing, metadata of the file). Changed values are float32, or float64 if the
/// tensor was; a narrower type would round them.
fn written_tensors(file: &ModelFile, changes: &TensorChanges) -> Result<(Vec<WrittenTensor>, FileMetadata)> {
    let (mut tensors, metadata): (Vec<WrittenTensor>, _) = if is_pickle(file.path()) {
        let tensors = torch::read_tensors(file)?;
        // Tensors of other types, such as position ids, are no parameters.
        let written = |(name, stored): (String, StoredTensor)| {
            let dtype = stored.value_type.as_ref().ok().map(|&dtype| Dtype::from(dtype))?;
            Some(WrittenTensor { name, stored, dtype })
        };
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        (tensors.into_iter().filter_map(written).collect(), Some(metadata))
    } else {
        let (header, start) = format::read_header(file)?;
        let written = |(name, info): (String, &TensorInfo)| WrittenTensor {
            name,
            stored: format::locate_tensor(info, start, Ok(DType::F32)),
            dtype: info.dtype,
        };
        (header.tensors().into_iter().map(written).collect(), header.metadata().clone())
    };
    for tensor in &mut tensors {
        let is_new = matches!(changes.get(&tensor.name), Some(TensorChange::Values(_)));
        if (is_new && tensor.dtype != Dtype::F64) || tensor.stored.noncontiguous_strides().is_some() {
            tensor.dtype = Dtype::F32;
        }
    }
    // Wider values come first, so that all are aligned.
    tensors.sort_by(|a, b| b.dtype.bitsize().cmp(&a.dtype.bitsize()).then_with(|| a.name.cmp(&b.name)));
    Ok((tensors, metadata))
}

/// Writes one file as safetensors, with its changes applied.
fn write(file: &ModelFile, changes: &TensorChanges, out: &mut dyn Write) -> Result<()> {
    let (tensors, metadata) = written_tensors(file, changes)?;
    let mut end = 0;
    let infos = tensors.iter().map(|tensor| {
        let start = end;
        end += tensor.byte_count();
        let info = TensorInfo { dtype: tensor.dtype, shape: tensor.stored.shape.clone(), data_offsets: (start, end) };
        (tensor.name.clone(), info)
    });
    let mut header = serde_json::to_vec(&Metadata::new(metadata, infos.collect())?)?;
    // The data begins at a multiple of eight bytes, as with the format's reference writer.
    header.resize(header.len().next_multiple_of(8), b' ');
    let begun = out.write_all(&(header.len() as u64).to_le_bytes());
    begun.and_then(|()| out.write_all(&header)).class(ErrorClass::Output)?;
    for tensor in &tensors {
        let bytes = tensor.bytes(file, changes.get(&tensor.name));
        let bytes = bytes.with_context(|| format!("tensor {}", tensor.name.escape_debug()))?;
        out.write_all(&bytes).class(ErrorClass::Output)?;
    }
    Ok(())
}

impl WrittenTensor {
    /// Returns the number of bytes that the tensor takes in the written file.
    fn byte_count(&self) -> usize {
        self.stored.shape.iter().product::<usize>() * self.dtype.bitsize() / 8
    }

    /// Returns the bytes of the tensor in the written file, with `change` applied.
    fn bytes(&self, file: &ModelFile, change: Option<&TensorChange>) -> Result<Vec<u8>> {
        let width = self.dtype.bitsize() / 8;
        let as_f32 = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut bytes: Vec<u8> = match change {
            Some(TensorChange::Values(values)) if self.dtype == Dtype::F64 => {
                values.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect()
            }
            Some(TensorChange::Values(values)) => as_f32(values),
            _ if self.stored.noncontiguous_strides().is_some() => as_f32(&self.stored.read(file)?),
            _ => {
                let mut bytes = vec![0; self.byte_count()];
                file.read_at(&mut bytes, self.stored.byte_range.start)?;
                bytes
            }
        };
        if let Some(TensorChange::ZeroInputs(layout, inputs)) = change {
            for input in inputs.iter().cloned().flatten() {
                for at in (0..layout.outputs).filter_map(|output| layout.index(output, input)) {
                    bytes[at * width..][..width].fill(0);
                }
            }
        }
        Ok(bytes)
    }
}

/// Whether transformers or other libraries use a file name for the weights of a whole model.
pub fn is_weight_file(name: &Path) -> bool {
    const WEIGHT_EXTENSIONS: [&str; 10] =
        ["safetensors", "bin", "h5", "msgpack", "onnx", "ot", "pt", "pth", "ckpt", "gguf"];
    let extension = name.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    extension.is_some_and(|extension| WEIGHT_EXTENSIONS.contains(&extension.as_str()))
        || name.file_name().is_some_and(|name| is_index(&name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_by_hand() {
        // Two outputs of four inputs.
        let plain = ProjectionLayout { outputs: 2, inputs: 4, transposed: false, groups: None };
        assert_eq!([plain.index(1, 2), ProjectionLayout { transposed: true, ..plain }.index(1, 2)], [Some(6), Some(5)]);
        // In two groups, output 1 has the weights of inputs 2 and 3.
        let grouped = ProjectionLayout { groups: Some(2), ..plain };
        assert_eq!([grouped.index(0, 1), grouped.index(1, 1), grouped.index(1, 3)], [Some(1), None, Some(3)]);
        let shapes = [plain, ProjectionLayout { transposed: true, ..plain }, grouped].map(ProjectionLayout::shape);
        assert_eq!(shapes, [vec![2, 4], vec![4, 2], vec![2, 2, 1]]);
    }

    #[test]
    fn names_are_those_of_transformers() {
        let names =
            ["model.safetensors", "pytorch_model.bin", "pytorch_model-00001-of-00002.bin"].map(safetensors_name);
        assert_eq!(names, ["model.safetensors", "model.safetensors", "model-00001-of-00002.safetensors"]);
        assert!(
            ["tf_model.h5", "model.safetensors.index.json", "x.ONNX"]
                .iter()
                .all(|name| is_weight_file(Path::new(name)))
        );
        assert!(!["tokenizer.model", "vocab.json", "spiece.model"].iter().any(|name| is_weight_file(Path::new(name))));
    }
}
