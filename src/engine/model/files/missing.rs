//! Errors about missing files of a model. Each names a usable file that exists instead, and how to convert it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::path::Path;

use itertools::Itertools;

use super::names::{self, BPE_MERGES, BPE_VOCABULARY, CONFIG, TOKENIZER, WEIGHT_FILES, is_pickle};
use crate::system::errors::ErrorExt;

/// The error that a needed file of a model is missing. The separate type distinguishes it from errors in existing files. It
/// holds the message.
#[derive(Debug)]
pub(in crate::model) struct MissingFile(pub(super) String);

impl fmt::Display for MissingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for MissingFile {}

/// The folder or Hub revision that should hold a model's files, for error messages.
pub(in crate::model) enum ModelLocation<'a> {
    Folder(Cow<'a, Path>),
    #[cfg(feature = "hub")]
    Hub {
        id: &'a str,
        revision: &'a str,
    },
}

impl ModelLocation<'_> {
    /// Returns the location of the subfolder `folder`; for a Hub model, the whole revision.
    pub(super) fn subfolder(&self, folder: &str) -> ModelLocation<'_> {
        match self {
            Self::Folder(path) => ModelLocation::Folder(path.join(folder).into()),
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => ModelLocation::Hub { id, revision },
        }
    }

    /// Returns a clause that says that the file `name` is missing, or is no regular file.
    pub(super) fn describe_missing(&self, name: &str) -> String {
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

    /// Returns the error that the file `name` is not among the files `there`. It names a usable file among them, and how to
    /// make `name` from that file.
    pub(super) fn explain_missing(&self, name: &str, there: &BTreeSet<String>) -> anyhow::Error {
        let lacks = self.describe_missing(name);
        let instead = if name == TOKENIZER {
            find_unpaired_bpe_file(there)
        } else {
            self.find_other_weights(there, |form| name == WEIGHT_FILES[0] || form == UnreadableFormat::Adapter)
        };
        let Some((found, after, way_out)) = instead else {
            let needs = if name == TOKENIZER {
                format!("a tokenizer is {}; there is {}", names::describe_tokenizer_sets(), join_names(there))
            } else {
                format!("a model has the files {CONFIG}, {TOKENIZER} and {}", WEIGHT_FILES[0])
            };
            return self.missing_error(name, format!("{lacks}: {needs}"));
        };
        self.missing_error(name, format!("{lacks}, but {found}")).hint_after(after, way_out)
    }

    /// Returns the error that the file `name` is missing, with `words` as its message.
    pub(super) fn missing_error(&self, name: &str, words: String) -> anyhow::Error {
        let error = anyhow::Error::new(MissingFile(words));
        match self {
            Self::Folder(path) => error.with_file(path.join(name).display()),
            #[cfg(feature = "hub")]
            Self::Hub { .. } => error,
        }
    }

    /// Finds a weight file in an unreadable format for which `matters` returns true, and says how to convert it. `None` if
    /// there is no such file.
    fn find_other_weights(
        &self,
        names: &BTreeSet<String>,
        matters: impl Fn(UnreadableFormat) -> bool,
    ) -> Option<AlternativeFile> {
        let others = names.iter().filter_map(|name| Some((UnreadableFormat::from_path(name)?, name)));
        let (form, name) = others.filter(|(form, _)| matters(*form)).min_by_key(|(form, _)| *form)?;
        let (what, after, way_out) = form.describe_remedy(name, self);
        Some((format!("{name} is there, {what}"), after, way_out))
    }

    /// Returns Python code that loads the model with transformers and saves it in a format that this program reads.
    fn conversion_code(&self, load: &str) -> String {
        match self {
            Self::Folder(path) => {
                let folder = path.display().to_string();
                format!(
                    "  from transformers import AutoModel\n  \
                     AutoModel.from_pretrained({folder:?}{load}).save_pretrained({folder:?})"
                )
            }
            // The model is saved to a new folder, so the tokenizer is saved with the weights.
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

/// Joins file names for a message; a long list is truncated.
fn join_names(names: &BTreeSet<String>) -> String {
    const MAX_SHOWN_NAMES: usize = 12;
    let more = (names.len() > MAX_SHOWN_NAMES).then(|| format!("{} more", names.len() - MAX_SHOWN_NAMES));
    names.iter().take(MAX_SHOWN_NAMES).cloned().chain(more).join(", ")
}

/// Finds one of the two files of a BPE tokenizer if the other is missing, with the hint to add the missing one.
fn find_unpaired_bpe_file(names: &BTreeSet<String>) -> Option<AlternativeFile> {
    let there = [BPE_VOCABULARY, BPE_MERGES].into_iter().find(|name| names.contains(*name))?;
    let lacking = if there == BPE_VOCABULARY { BPE_MERGES } else { BPE_VOCABULARY };
    let found = format!("{there} is there, which is half a tokenizer");
    Some((found, ": ", format!("it needs {lacking} too")))
}

/// A usable file in place of a missing one: (clause about it, separator before the hint, hint how to use it).
type AlternativeFile = (String, &'static str, String);

/// Formats and file names of weights that this program does not read. Variants with the clearest remedy come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnreadableFormat {
    /// An adapter (PEFT) in place of a model.
    Adapter,
    /// Readable weights with a variant in their name, such as `model.fp16.safetensors`.
    Variant,
    Fairseq,
    TensorFlow,
    Flax,
    /// An exported graph.
    Onnx,
}

impl UnreadableFormat {
    /// Recognises the format of a file by its name; `None` for any other file.
    fn from_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ends = |end: &str| Path::new(name).extension().is_some_and(|extension| extension == end);
        Some(match name {
            "adapter_config.json" | "adapter_model.safetensors" | "adapter_model.bin" if name == path => Self::Adapter,
            // `model.fp16.safetensors`: transformers' `variant`.
            _ if name == path && is_variant(name) => Self::Variant,
            // `model.pt`, `checkpoint_best.pt`: the names of fairseq.
            _ if name == path && ends("pt") => Self::Fairseq,
            // The prefix covers shards and their index.
            _ if name.starts_with("tf_model") => Self::TensorFlow,
            _ if name.starts_with("flax_model") => Self::Flax,
            // ONNX files often lie in a subfolder.
            _ if ends("onnx") => Self::Onnx,
            _ => return None,
        })
    }

    /// Returns (description of the weight file `name`, separator before the hint, hint how to get readable weights).
    fn describe_remedy(self, name: &str, place: &ModelLocation) -> (&'static str, &'static str, String) {
        // transformers 5 no longer reads the weights of TensorFlow and Flax.
        let recipe =
            |load| format!("To convert them, run in Python with transformers 4:\n{}", place.conversion_code(load));
        let (what, way_out) = match self {
            Self::Adapter => (
                "which belongs to an adapter (PEFT), not a model",
                "name the model that it was trained on, and this folder with --adapter".to_owned(),
            ),
            Self::Variant => {
                let known = if is_pickle(Path::new(name)) { WEIGHT_FILES[2] } else { WEIGHT_FILES[0] };
                ("weights under another name", format!("call them {known}"))
            }
            Self::Fairseq => {
                let way_out = "convert a checkpoint of fairseq by the script that transformers has for its family \
                    (convert_roberta_original_pytorch_checkpoint_to_pytorch.py, for one); a state dict of torch.save is read \
                    under the name pytorch_model.bin";
                ("a PyTorch file under a name that is not read", way_out.to_owned())
            }
            Self::TensorFlow => {
                return ("weights of TensorFlow, which are not read", ". ", recipe(", from_tf=True"));
            }
            Self::Flax => return ("weights of Flax, which are not read", ". ", recipe(", from_flax=True")),
            Self::Onnx => ("an exported graph, which is not read", "take the model it was exported from".to_owned()),
        };
        (what, ": ", way_out)
    }
}

/// Whether a weight file is in a readable format, but has a variant in its name (`model.fp16.safetensors`).
fn is_variant(name: &str) -> bool {
    let has_variant = |stem: &str, extension: &str| {
        let variant = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(extension));
        variant.is_some_and(|variant| !variant.is_empty())
    };
    has_variant("model.", ".safetensors") || has_variant("pytorch_model.", ".bin")
}
