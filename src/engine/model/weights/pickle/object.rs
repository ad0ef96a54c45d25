//! The objects that a pickle of a state dict makes.

use anyhow::{Result, bail};

use super::unusual::Unusual;

/// The number of an object.
pub(super) type Id = usize;

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

/// Python's names that a pickle may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global<'a> {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Storage(&'a str),
}

impl<'a> Global<'a> {
    pub(super) fn named(module: &'a str, name: &'a str) -> Result<Self> {
        Ok(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", name) if name.ends_with("Storage") => Self::Storage(name),
            _ => bail!(Unusual::Name(format!("{module}.{name}"))),
        })
    }
}

impl Object<'_> {
    /// Its kind, for messages.
    pub(super) fn describe(&self) -> &'static str {
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
