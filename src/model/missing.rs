//! What is said of a model that lacks a file: what of use is there instead, and how to make the file of it.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::{CONFIG, WEIGHTS};
use super::tokenizer::{self, TOKENIZER};

/// Where files are looked for, in the words of an error message.
pub(super) enum Place<'a> {
    Folder(&'a Path),
    #[cfg(feature = "hub")]
    Hub {
        id: &'a str,
        revision: &'a str,
    },
}

impl Place<'_> {
    /// Says that `name` is not there.
    pub fn lacks(&self, name: &str) -> String {
        match self {
            Self::Folder(path) => format!("`{}` is missing", path.join(name).display()),
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => format!("`{id}` has no {name} at revision `{revision}`"),
        }
    }

    /// Says that `name` is not among `names`, what of use is there instead, and how to make `name` of it.
    pub fn explain_missing(&self, name: &str, names: &BTreeSet<String>) -> String {
        let lacks = self.lacks(name);
        if name == TOKENIZER
            && let Some((found, convertible)) = tokenizer::instead(names)
        {
            let recipe = format!(
                ". To make {name} of it, run in Python, with sentencepiece and protobuf installed:\n{}",
                self.recipe("AutoTokenizer", "")
            );
            return format!("{lacks}, but {found}{}", if convertible { &recipe } else { "" });
        }
        if name == WEIGHTS
            && let Some(found) = names.iter().find_map(|name| OtherWeights::of(name))
        {
            return format!("{lacks}, but {} is there, {}", found.name, found.way_out(self));
        }
        format!("{lacks}: a model has the files {CONFIG}, {TOKENIZER} and {WEIGHTS}")
    }

    /// Python that loads what there is with transformers and saves it in the form read here.
    fn recipe(&self, class: &str, load: &str) -> String {
        match self {
            Self::Folder(path) => {
                let folder = path.display().to_string();
                format!(
                    "  from transformers import {class}\n  \
                     {class}.from_pretrained({folder:?}{load}).save_pretrained({folder:?})"
                )
            }
            // All of it goes to a new folder then, the tokenizer with the weights.
            #[cfg(feature = "hub")]
            Self::Hub { id, revision } => {
                let folder = id.rsplit('/').next().unwrap_or(id);
                let load = if class == "AutoModel" { load } else { "" };
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

/// Weights in a form that is not read here.
struct OtherWeights<'a> {
    name: &'a str,
    form: Form,
}

enum Form {
    TensorFlow,
    Flax,
    Onnx,
}

impl<'a> OtherWeights<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let form = match name {
            // With shards and their index.
            _ if name.starts_with("tf_model") => Form::TensorFlow,
            _ if name.starts_with("flax_model") => Form::Flax,
            _ if Path::new(name).extension().is_some_and(|extension| extension == "onnx") => Form::Onnx,
            _ => return None,
        };
        Some(Self { name, form })
    }

    fn way_out(&self, place: &Place) -> String {
        let (what, load) = match self.form {
            Form::TensorFlow => ("weights of TensorFlow, which are not read", ", from_tf=True"),
            Form::Flax => ("weights of Flax, which are not read", ", from_flax=True"),
            Form::Onnx => {
                return "an exported graph, which is not read: take the model it was exported from".to_owned();
            }
        };
        // transformers 5 no longer reads the weights of TensorFlow and Flax.
        format!("{what}. To convert them, run in Python with transformers 4:\n{}", place.recipe("AutoModel", load))
    }
}
