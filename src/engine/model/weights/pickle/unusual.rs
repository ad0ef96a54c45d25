//! Files of `torch.save` that hold no plain state dict, distinguished because each has its own remedy.

use std::error::Error;
use std::fmt;

/// A file of `torch.save` that holds something other than a plain state dict.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::model::weights) enum Unusual {
    /// The tensors are in a dict within the dict, under these keys.
    Nested(Vec<String>),
    /// It refers to a class or a function of this name, as a whole module does.
    Name(String),
    /// It was written by another protocol of pickles.
    Protocol(u8),
    /// It is a tar archive.
    Tar,
}

impl Unusual {
    /// Whether it takes more than PyTorch's reader of weights alone to load it: a whole module, a tar archive, a newer
    /// protocol.
    pub(in crate::model::weights) fn needs_all_of_pickle(&self) -> bool {
        const MODULES: [&str; 3] = ["transformers.models.", "torch.nn.modules.", "sentence_transformers."];
        match self {
            Self::Nested(_) => false,
            Self::Name(name) => MODULES.iter().any(|module| name.starts_with(module)),
            Self::Protocol(protocol) => *protocol >= 4,
            Self::Tar => true,
        }
    }

    /// Whether it names the settings of a training run as fairseq keeps them beside the tensors (`args`, `cfg`).
    pub(in crate::model::weights) fn is_like_fairseq(&self) -> bool {
        matches!(self, Self::Name(name) if name == "argparse.Namespace" || name.starts_with("omegaconf."))
    }
}

impl fmt::Display for Unusual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nested(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| format!("`{}`", key.escape_debug())).collect();
                let keys = keys.join(", and there under ");
                write!(f, "its tensors are not at the top but under {keys}, as what trains models saves them")
            }
            Self::Name(name) => write!(
                f,
                "it refers to `{}`, which has no place in a state dict: nothing of it was executed",
                name.escape_debug()
            ),
            Self::Protocol(protocol) => write!(f, "it has protocol {protocol}: `torch.save` writes protocol 2"),
            Self::Tar => f.write_str("it is a tar archive, as the first versions of PyTorch wrote"),
        }
    }
}

impl Error for Unusual {}
