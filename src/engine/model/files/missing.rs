//! The error of a model that lacks a file: what of use is there instead, and how to make the file of it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::path::Path;

use super::names::{self, BPE_MERGES, BPE_VOCABULARY, CONFIG, TOKENIZER, WEIGHTS, is_pickle};
use crate::system::errors::Facts;

/// The error of a model that lacks a needed file, as distinct from errors with a file that exists.
#[derive(Debug)]
pub(in crate::model) struct MissingFile(pub(super) String);

impl fmt::Display for MissingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for MissingFile {}

/// The place where files are looked for, in the words of an error message.
pub(in crate::model) enum Place<'a> {
    Folder(Cow<'a, Path>),
    #[cfg(feature = "hub")]
    Hub {
        id: &'a str,
        revision: &'a str,
    },
}

impl<'a> Place<'a> {
    /// The place of a folder on this machine.
    pub fn folder(path: &'a Path) -> Self {
        Self::Folder(path.into())
    }

    /// The place of a folder within.
    pub(super) fn within(&self, folder: &str) -> Place<'_> {
        match self {
            Self::Folder(path) => Place::Folder(path.join(folder).into()),
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => Place::Hub { id, revision },
        }
    }

    /// Says that `name` is missing, or is no file.
    pub(super) fn lacks(&self, name: &str) -> String {
        match self {
            Self::Folder(path) => {
                let path = path.join(name);
                let shown = path.display();
                match path.symlink_metadata() {
                    Err(_) => format!("`{shown}` is missing"),
                    Ok(found) if found.is_dir() => format!("`{shown}` is a folder and no file"),
                    Ok(found) if found.is_symlink() => format!("`{shown}` is a link that leads to no file"),
                    Ok(_) => format!("`{shown}` is no regular file"),
                }
            }
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => format!("`{id}` has no {name} at revision `{revision}`"),
        }
    }

    /// Says that `name` is not `there`, what of use is there instead, and how to make `name` of it.
    pub(super) fn explain_missing(&self, name: &str, there: &BTreeSet<String>) -> anyhow::Error {
        let lacks = self.lacks(name);
        let instead = if name == TOKENIZER {
            other_tokenizer(there)
        } else {
            self.other_weights(there, |form| name == WEIGHTS[0] || form == WeightsFormat::Adapter)
        };
        let Some(Substitute { found, after, way_out }) = instead else {
            let needs = if name == TOKENIZER {
                format!("a tokenizer is {}; there is {}", names::tokenizer_forms(), listed(there))
            } else {
                format!("a model has the files {CONFIG}, {TOKENIZER} and {}", WEIGHTS[0])
            };
            return self.missing(name, format!("{lacks}: {needs}"));
        };
        self.missing(name, format!("{lacks}, but {found}")).hint_after(after, way_out)
    }

    /// The error of a file that is not there, which `words` name.
    pub(super) fn missing(&self, name: &str, words: String) -> anyhow::Error {
        let error = anyhow::Error::new(MissingFile(words));
        match self {
            Self::Folder(path) => error.about(path.join(name).display()),
            #[cfg(feature = "hub")]
            Self::Hub { .. } => error,
        }
    }

    /// The file that is there in place of a model's weights, in one of the forms that matter, and what to do with it.
    fn other_weights(&self, names: &BTreeSet<String>, matters: impl Fn(WeightsFormat) -> bool) -> Option<Substitute> {
        let others = names.iter().filter_map(|name| OtherWeights::of(name));
        let found = others.filter(|found| matters(found.form)).min_by_key(|found| found.form)?;
        let (what, after, way_out) = found.way_out(self);
        Some(Substitute { found: format!("{} is there, {what}", found.name), after, way_out })
    }

    /// Python that loads the model with transformers and saves it in the form read here.
    fn recipe(&self, load: &str) -> String {
        match self {
            Self::Folder(path) => {
                let folder = path.display().to_string();
                format!(
                    "  from transformers import AutoModel\n  \
                     AutoModel.from_pretrained({folder:?}{load}).save_pretrained({folder:?})"
                )
            }
            // All of it goes to a new folder then, the tokenizer with the weights.
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => {
                let folder = id.rsplit('/').next().unwrap_or(id);
                format!(
                    "  from transformers import AutoModel, AutoTokenizer\n  \
                     AutoModel.from_pretrained({id:?}, revision={revision:?}{load}).save_pretrained({folder:?})\n  \
                     AutoTokenizer.from_pretrained({id:?}, revision={revision:?}).save_pretrained({folder:?})\n\
                     and give `./{folder}` as the model"
                )
            }
        }
    }
}

/// The names of files for a message, the first of many.
fn listed(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 12;
    let mut shown: Vec<&str> = names.iter().map(String::as_str).take(SHOWN).collect();
    let more = format!("{} more", names.len().saturating_sub(SHOWN));
    if names.len() > SHOWN {
        shown.push(&more);
    }
    shown.join(", ")
}

/// The file that is there in place of a tokenizer that can be read, and what to do with it.
fn other_tokenizer(names: &BTreeSet<String>) -> Option<Substitute> {
    let there = [BPE_VOCABULARY, BPE_MERGES].into_iter().find(|name| names.contains(*name))?;
    let lacking = if there == BPE_VOCABULARY { BPE_MERGES } else { BPE_VOCABULARY };
    let found = format!("{there} is there, which is half a tokenizer");
    Some(Substitute { found, after: ": ", way_out: format!("it needs {lacking} too") })
}

/// A file that exists in place of a missing one, and the way out, which follows the characters in `after`.
struct Substitute {
    found: String,
    after: &'static str,
    way_out: String,
}

/// Weights in a form, or under a name, that is not read here.
struct OtherWeights<'a> {
    name: &'a str,
    form: WeightsFormat,
}

/// The formats, in the order of how clearly each one shows what to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WeightsFormat {
    Adapter,
    Variant,
    Fairseq,
    TensorFlow,
    Flax,
    Onnx,
}

impl<'a> OtherWeights<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ends = |end: &str| Path::new(name).extension().is_some_and(|extension| extension == end);
        let form = match name {
            "adapter_config.json" | "adapter_model.safetensors" | "adapter_model.bin" if name == path => {
                WeightsFormat::Adapter
            }
            // `model.fp16.safetensors`: transformers' `variant`.
            _ if name == path && is_variant(name) => WeightsFormat::Variant,
            // `model.pt`, `checkpoint_best.pt`: the names of fairseq.
            _ if name == path && ends("pt") => WeightsFormat::Fairseq,
            // With shards and their index.
            _ if name.starts_with("tf_model") => WeightsFormat::TensorFlow,
            _ if name.starts_with("flax_model") => WeightsFormat::Flax,
            // Often in a folder of their own.
            _ if ends("onnx") => WeightsFormat::Onnx,
            _ => return None,
        };
        Some(Self { name: path, form })
    }

    /// A description of the weights, the characters before the way out, and the way out.
    fn way_out(&self, place: &Place) -> (&'static str, &'static str, String) {
        let (what, load) = match self.form {
            WeightsFormat::Adapter => {
                let way_out = "name the model that it was trained on, and this folder with --adapter";
                return ("which belongs to an adapter (PEFT), not a model", ": ", way_out.to_owned());
            }
            WeightsFormat::Variant => {
                let (stem, extension) =
                    if is_pickle(Path::new(self.name)) { ("pytorch_model", "bin") } else { ("model", "safetensors") };
                return ("weights under another name", ": ", format!("call them {stem}.{extension}"));
            }
            WeightsFormat::Fairseq => {
                let way_out = "convert a checkpoint of fairseq by the script that transformers has for its family \
                    (convert_roberta_original_pytorch_checkpoint_to_pytorch.py, for one); a state dict of torch.save is read \
                    under the name pytorch_model.bin";
                return ("a PyTorch file under a name that is not read", ": ", way_out.to_owned());
            }
            WeightsFormat::TensorFlow => ("weights of TensorFlow, which are not read", ", from_tf=True"),
            WeightsFormat::Flax => ("weights of Flax, which are not read", ", from_flax=True"),
            WeightsFormat::Onnx => {
                let way_out = "take the model it was exported from";
                return ("an exported graph, which is not read", ": ", way_out.to_owned());
            }
        };
        // transformers 5 no longer reads the weights of TensorFlow and Flax.
        let recipe = place.recipe(load);
        (what, ". ", format!("To convert them, run in Python with transformers 4:\n{recipe}"))
    }
}

/// Whether a file has weights in a form that is read, under a name with a variant in it.
fn is_variant(name: &str) -> bool {
    let of = |stem: &str, extension: &str| {
        let variant = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(extension));
        variant.is_some_and(|variant| !variant.is_empty())
    };
    of("model.", ".safetensors") || of("pytorch_model.", ".bin")
}
