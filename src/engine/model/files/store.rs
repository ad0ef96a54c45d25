//! The files of one model and of its tokenizer, local or remote.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::ModelFile;
use super::names::{self, ADAPTER_CONFIG, ADAPTER_WEIGHTS, FIRST_MODULE, MAX_TOKENIZER_BYTES, MODULES};
use crate::model::families::architecture::Architecture;
use crate::model::grid::HeadGrid;
use crate::system::errors::ErrorExt;

/// The opened files of one model, and the architecture that its `config.json` describes.
#[derive(Debug, Clone)]
pub struct ModelFiles {
    /// Name of the model: its Hub id, `box:...` for a built-in model, or its folder's name; never a path, to keep that private.
    pub id: String,
    /// Commit of the model on the Hub; `None` for a folder or a built-in model.
    pub revision: Option<String>,
    pub config: ModelFile,
    pub architecture: Architecture,
    /// Files of the tokenizer: `tokenizer.json`, or others that make one.
    pub tokenizer: TokenizerFiles,
    /// Weight files, in the order of their names.
    pub weights: Vec<ModelFile>,
    pub adapter: Option<AdapterFiles>,
    /// How the model pools the last hidden states of a text, or the reason why its pooling is unknown.
    pub pooling: Result<Pooling, String>,
}

impl ModelFiles {
    pub fn grid(&self) -> HeadGrid {
        self.architecture.grid()
    }

    /// Returns (the model's folder, the subfolder of its weights). The subfolder is empty unless the model is the first module of
    /// a sentence encoder. `None` if the model is part of the binary.
    pub fn folders(&self) -> Option<(PathBuf, PathBuf)> {
        let beside = self.config.path().parent().filter(|folder| folder.is_dir() || *folder == Path::new(""))?;
        let name = beside.file_name().map(PathBuf::from).unwrap_or_default();
        let is_first_module = name.to_string_lossy().starts_with(FIRST_MODULE);
        let outer = beside.parent().filter(|outer| is_first_module && outer.join(MODULES).is_file());
        Some(outer.map_or_else(|| (beside.to_owned(), PathBuf::new()), |outer| (outer.to_owned(), name)))
    }
}

#[derive(Clone, Debug)]
pub struct AdapterFiles {
    /// Name of the adapter's folder, or the model's id if the adapter lies beside the model's weights.
    pub name: String,
    pub config: ModelFile,
    pub weights: ModelFile,
}

impl AdapterFiles {
    /// Opens the files of the LoRA adapter in a folder. Fails if one is missing or cannot be opened.
    pub fn open(folder: &Path) -> Result<Self> {
        let config = folder.join(ADAPTER_CONFIG);
        let weights = ADAPTER_WEIGHTS.into_iter().map(|name| folder.join(name)).find(|path| path.exists());
        let weights = weights.with_context(|| format!("there is no {} in `{}`", ADAPTER_WEIGHTS[0], folder.display()));
        let weights = weights.hint("an adapter has the files adapter_config.json and adapter_model.safetensors")?;
        let name = folder.file_name().map_or("adapter".into(), |name| name.to_string_lossy()).into_owned();
        Ok(Self { name, config: ModelFile::open(&config)?, weights: ModelFile::open(&weights)? })
    }
}

/// How the last hidden states of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Mean over tokens of text, because the model does not say how to pool.
    Text,
    /// Mean over all tokens.
    Mean,
    /// Hidden state of the first token.
    First,
    /// Largest value of each dimension over all tokens.
    Max,
    /// Hidden state of the last token.
    Last,
}

impl Pooling {
    /// Names the pooling, in words.
    pub fn description(self) -> &'static str {
        match self {
            Self::Text => "the mean over tokens of text, since the model does not say how to pool",
            Self::Mean => "the mean over all tokens",
            Self::First => "the first token",
            Self::Max => "the largest value of each dimension",
            Self::Last => "the last token",
        }
    }
}

/// Access to the files of one model, local or remote. Each file is fetched only when needed, because a file can name further
/// files (an index names its shards).
pub(in crate::model) struct FileStore<'a> {
    /// Paths of all files, relative to the model's folder; none leads outside the folder.
    pub names: BTreeSet<String>,
    /// Fetches and opens a file by its name.
    pub fetch: Box<Fetch<'a>>,
}

/// A function (file name, maximum number of bytes) that fetches and opens a file. It refuses a larger remote file before the
/// download.
type Fetch<'a> = dyn Fn(&str, u64) -> Result<ModelFile> + 'a;

impl FileStore<'_> {
    /// Fetches and opens the file `name` of at most `most` bytes.
    pub fn fetch(&self, name: &str, most: u64) -> Result<ModelFile> {
        (self.fetch)(name, most)
    }
}

/// The files of one tokenizer with their names, the vocabulary first.
#[derive(Clone, Debug)]
pub struct TokenizerFiles(Vec<(&'static str, ModelFile)>);

impl TokenizerFiles {
    /// Fetches the `wanted` tokenizer files.
    pub(super) fn fetch(wanted: &[&'static str], files: &FileStore<'_>) -> Result<Self> {
        wanted.iter().map(|name| Ok((*name, files.fetch(name, MAX_TOKENIZER_BYTES)?))).collect::<Result<_>>().map(Self)
    }

    /// Opens the tokenizer files in a folder. Fails if no set of tokenizer files is complete, or a file cannot be opened.
    pub fn find(folder: &Path) -> Result<Self> {
        let names = fs::read_dir(folder)
            .cannot("read", folder.display())?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        let wanted = names::select_tokenizer_files(&names)
            .with_context(|| format!("there is no tokenizer in `{}`", folder.display()));
        let wanted = wanted.with_file(folder.display())?;
        wanted.iter().map(|name| Ok((*name, ModelFile::open(&folder.join(name))?))).collect::<Result<_>>().map(Self)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, ModelFile)> {
        self.0.iter()
    }

    pub(in crate::model) fn get(&self, name: &str) -> Option<&ModelFile> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, file)| file)
    }
}
