//! The objects in the pickle of a state dict, and the reasons why a file may hold no plain state dict.

use std::error::Error;
use std::fmt;

use anyhow::{Result, bail};
use itertools::Itertools;

/// Index of an object in the list of all objects of a pickle.
pub(super) type Id = usize;

/// An object in a pickle. It refers to other objects by [`Id`].
#[derive(Debug)]
pub(super) enum Object<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float,
    Text(&'a str),
    Global(Global<'a>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Storage { storage_type: &'a str, key: &'a str },
    Tensor { storage: Id, offset: Id, shape: Id, strides: Id },
}

/// The Python functions and classes that a pickle may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global<'a> {
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`.
    RebuildParameter,
    /// Storage class of this name, such as `FloatStorage`.
    Storage(&'a str),
}

impl<'a> Global<'a> {
    /// Returns the function or class with this module and name. Fails if no state dict needs it.
    pub(super) fn from_name(module: &'a str, name: &'a str) -> Result<Self> {
        Ok(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", name) if name.ends_with("Storage") => Self::Storage(name),
            _ => bail!(NotAStateDict::UnknownName(format!("{module}.{name}"))),
        })
    }
}

impl Object<'_> {
    /// Names the kind of the object, for messages.
    pub(super) fn kind_name(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a truth value",
            Self::Int(_) | Self::Float => "a number",
            Self::Text(_) => "a text",
            Self::Global(_) => "a function",
            Self::Tuple(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dict",
            Self::Storage { .. } => "a storage",
            Self::Tensor { .. } => "a tensor",
        }
    }
}

/// Why a `torch.save` file holds no plain state dict.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::model::weights) enum NotAStateDict {
    /// The tensors are in a nested dict; these keys lead to it.
    Nested(Vec<String>),
    /// The pickle refers to a class or function of this name, as the pickle of a whole module does.
    UnknownName(String),
    /// The pickle has this protocol version, which is not supported.
    Protocol(u8),
    /// The file is a tar archive, as very old versions of PyTorch wrote.
    Tar,
}

impl NotAStateDict {
    /// Whether PyTorch cannot load the file with `weights_only`: it is a whole module, a tar archive, or of a newer pickle
    /// protocol.
    pub(in crate::model::weights) fn needs_full_pickle(&self) -> bool {
        const MODULES: [&str; 3] = ["transformers.models.", "torch.nn.modules.", "sentence_transformers."];
        match self {
            Self::Nested(_) => false,
            Self::UnknownName(name) => MODULES.iter().any(|module| name.starts_with(module)),
            Self::Protocol(protocol) => *protocol >= 4,
            Self::Tar => true,
        }
    }
}

impl fmt::Display for NotAStateDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nested(keys) => {
                let keys = keys.iter().map(|key| format!("`{}`", key.escape_debug())).join(", and there under ");
                write!(f, "its tensors are not at the top but under {keys}, as what trains models saves them")
            }
            Self::UnknownName(name) => write!(
                f,
                "it refers to `{}`, which has no place in a state dict: nothing of it was executed",
                name.escape_debug()
            ),
            Self::Protocol(protocol) => write!(f, "it has protocol {protocol}: `torch.save` writes protocol 2"),
            Self::Tar => f.write_str("it is a tar archive, as the first versions of PyTorch wrote"),
        }
    }
}

impl Error for NotAStateDict {}
