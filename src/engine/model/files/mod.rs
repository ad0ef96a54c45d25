//! The files of a model: their names, which ones are needed, opened files, and errors about missing files.

mod file;
mod gather;
mod missing;
mod modules;
pub(super) mod names;
mod store;

pub use file::ModelFile;
pub(super) use file::sha256;
#[cfg(feature = "hub")]
pub(super) use gather::readable_files;
pub(super) use gather::{files_in, gather_files, list_first_modules, list_subfolder_files};
#[cfg(feature = "hub")]
pub(super) use missing::MissingFile;
pub(super) use missing::ModelLocation;
pub(super) use store::FileStore;
pub use store::{AdapterFiles, ModelFiles, Pooling, TokenizerFiles};
