//! Tensors of a checkpoint that were not read. Outside the encoder they are counted. In the encoder they are an error, because
//! the program would then analyse another model than the saved one.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Checkpoint;
use crate::model::families::architecture::Architecture;
use crate::model::families::{EmbeddingNames, Family};
use crate::system::counts::format_count;
use crate::system::errors::ErrorExt;

/// Tensors of a checkpoint that are no part of the encoder, counted under the first part of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftTensors {
    /// First part of the tensor names, such as `pooler`, `cls` or `classifier`.
    pub name: String,
    /// Number of unread tensors with `name` as the first part of their names.
    pub tensors: u64,
}

/// Dot-separated parts of names of tensors that no family needs, such as buffers of positions and segments. Rotary frequencies
/// (`inv_freq`) follow from `config.json`.
const BUFFER_NAME_PARTS: [&str; 6] =
    ["position_ids", "token_type_ids", "inv_freq", "num_batches_tracked", "masked_bias", "encoder.version"];

impl Checkpoint {
    /// Counts the unread tensors outside the encoder, after the encoder was loaded; copies of read tensors do not count. A
    /// tensor belongs to the encoder if it shares its prefix and the first part of its name (`embeddings.`, `encoder.`) with a
    /// tensor that was read. Fails if a tensor of the encoder is unread, unless the family or `BUFFER_NAME_PARTS` lists it as
    /// unnecessary.
    pub fn unread_tensors(&self, architecture: &Architecture) -> Result<Vec<LeftTensors>> {
        let Family { prefix, token_heads, ignored_tensors: needless, .. } = architecture.family;
        let read = self.read_names.lock().expect("nobody panics while reading").clone();
        let locations: BTreeSet<(usize, u64)> = read.iter().filter_map(|name| self.location(name)).collect();
        let is_head = |name: &str| token_heads.iter().any(|head| head.decoder == name);
        let is_prefixed = read.iter().any(|name| !prefix.is_empty() && name.starts_with(prefix));
        let bare = |name: &str| name.strip_prefix(if is_prefixed { prefix } else { "" }).map(str::to_owned);
        let roots: BTreeSet<String> = read
            .iter()
            .filter_map(|name| bare(name))
            .filter(|name| !is_head(name))
            .map(|name| root_name(&name))
            .collect();
        // transformers makes both tables whether or not the model adds them.
        let EmbeddingNames { positions, segments, .. } = &architecture.names.embeddings;
        let is_needless = |name: &str| {
            let parts = BUFFER_NAME_PARTS.iter().chain(needless).chain([positions, segments]);
            parts.into_iter().any(|parts| format!(".{name}.").contains(&format!(".{parts}.")))
        };
        let is_copy = |name: &str| self.location(name).is_some_and(|location| locations.contains(&location));
        let is_in_encoder = |bare: &str| roots.contains(&root_name(bare)) && !is_head(bare);
        let unread = self.tensors.keys().filter(|name| !read.contains(*name) && !is_copy(name) && !is_needless(name));
        let (strangers, others): (Vec<&String>, Vec<&String>) =
            unread.partition(|name| bare(name).is_some_and(|bare| is_in_encoder(&bare)));
        if let Some(adapter) = &self.adapter {
            adapter.ensure_updates_applied(&is_in_encoder)?;
        }
        if let Some(first) = strangers.iter().min() {
            return Err(self.unread_tensor_error(first, strangers.len() - 1, architecture));
        }
        let counts = others.into_iter().map(|name| root_name(&bare(name).unwrap_or_else(|| name.clone()))).counts();
        Ok(counts.into_iter().sorted().map(|(name, count)| LeftTensors { name, tensors: count as u64 }).collect())
    }

    /// Checks the adapter's updates of a prediction head, after the head was read. Fails if an update was not applied, such as
    /// an update of output embeddings that are tied to the input embeddings.
    pub fn ensure_head_is_adapted(&self, Architecture { family, .. }: &Architecture) -> Result<()> {
        let is_head = |name: &str| family.token_heads.iter().any(|head| head.decoder == name);
        self.adapter.as_ref().map_or(Ok(()), |adapter| adapter.ensure_updates_applied(&is_head))
    }

    /// Returns the error about the unread encoder tensor `name`; `others` is the number of further unread ones.
    fn unread_tensor_error(&self, name: &str, others: usize, architecture: &Architecture) -> anyhow::Error {
        let (file, _) = &self.tensors[name];
        let path = self.files[*file].path().display();
        let more = if others > 0 { format!(", and {} more", format_count(others, "tensor")) } else { String::new() };
        let layers = architecture.config.num_hidden_layers;
        let is_surplus = architecture.names.layer_number(name.trim_start_matches(architecture.family.prefix));
        let (why, way_out) = match is_surplus.filter(|number| *number >= layers) {
            Some(number) => (
                format!("config.json counts {}, and this is of layer {number}", format_count(layers, "layer")),
                "set num_hidden_layers to the number of layers that the checkpoint has",
            ),
            None => (
                format!("no {} has it", architecture.family),
                "take the config.json that was saved with the weights; if the model was changed in code, its heads cannot be \
                 analysed without that change",
            ),
        };
        let text = format!("tensor `{}` of `{path}`{more}, would not be read: {why}", name.escape_debug());
        anyhow!("{text}").hint(way_out).with_file(path)
    }

    /// Returns (index of a tensor's file, offset of the tensor's values in that file); `None` if there is no such tensor.
    fn location(&self, name: &str) -> Option<(usize, u64)> {
        self.tensors.get(name).map(|(file, stored)| (*file, stored.byte_range.start))
    }
}

/// Returns the first dot-separated part of a tensor name.
fn root_name(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_owned()
}
