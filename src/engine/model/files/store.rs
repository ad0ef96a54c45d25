//! The files of one model and of its tokenizer, local or remote.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::ModelFile;
use super::names::{self, ADAPTER_CONFIG, ADAPTER_WEIGHTS, FIRST_MODULE, LONGEST_TOKENIZER, MODULES};
use crate::model::families::Architecture;
use crate::model::grid::HeadGrid;
use crate::system::errors::Facts;

/// The files of one model, all on this machine, and what its `config.json` says.
#[derive(Debug, Clone)]
pub struct ModelFiles {
    /// The Hub id, the name of a built-in model (`box:...`), or the folder's name; never a path, which a report should not
    /// disclose.
    pub id: String,
    /// The commit on the Hub; `None` for a folder.
    pub revision: Option<String>,
    pub config: ModelFile,
    pub architecture: Architecture,
    /// `tokenizer.json`, or other files that make a tokenizer.
    pub tokenizer: TokenizerFiles,
    /// The files of the weights, in the order of their names.
    pub weights: Vec<ModelFile>,
    pub adapter: Option<AdapterFiles>,
    /// How a sentence encoder pools, or why its pooling is unknown.
    pub pooling: Result<Pooling, String>,
}

impl ModelFiles {
    pub fn grid(&self) -> HeadGrid {
        self.architecture.grid()
    }

    /// The model's folder, and the subfolder of its weights, empty unless the model is the first module of a sentence encoder.
    /// `None` if the model is part of the binary.
    pub fn folder(&self) -> Option<(PathBuf, PathBuf)> {
        let beside = self.config.path().parent().filter(|folder| folder.is_dir() || *folder == Path::new(""))?;
        let name = beside.file_name().map(PathBuf::from).unwrap_or_default();
        let is_first_module = name.to_string_lossy().starts_with(FIRST_MODULE);
        let outer = beside.parent().filter(|outer| is_first_module && outer.join(MODULES).is_file());
        Some(outer.map_or_else(|| (beside.to_owned(), PathBuf::new()), |outer| (outer.to_owned(), name)))
    }
}

#[derive(Clone, Debug)]
pub struct AdapterFiles {
    /// The name of the adapter's folder.
    pub name: String,
    pub config: ModelFile,
    pub weights: ModelFile,
}

impl AdapterFiles {
    /// Opens the adapter in a folder. Fails if one of its files is missing.
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
    /// Their mean over tokens of text, where the model does not say how.
    Text,
    /// Their mean over all tokens.
    Mean,
    /// The first token's.
    First,
    /// The largest value of each dimension.
    Max,
    /// The last token's.
    Last,
}

impl Pooling {
    pub fn words(self) -> &'static str {
        match self {
            Self::Text => "the mean over tokens of text, since the model does not say how to pool",
            Self::Mean => "the mean over all tokens",
            Self::First => "the first token",
            Self::Max => "the largest value of each dimension",
            Self::Last => "the last token",
        }
    }
}

/// Access to the files of one model, local or remote. Each file is fetched when needed, because one can name others, as an
/// index names its shards.
pub(in crate::model) struct FileStore<'a> {
    /// The paths of all files relative to the model; none leaves its folder.
    pub names: BTreeSet<String>,
    pub fetch: Box<Fetch<'a>>,
}

/// Brings the named file to this machine and opens it. A remote file larger than the given number of bytes is refused before
/// the download.
type Fetch<'a> = dyn Fn(&str, u64) -> Result<ModelFile> + 'a;

impl FileStore<'_> {
    pub fn fetch(&self, name: &str, most: u64) -> Result<ModelFile> {
        (self.fetch)(name, most)
    }
}

/// The files of one tokenizer by their names, the vocabulary first.
#[derive(Clone, Debug)]
pub struct TokenizerFiles(Vec<(&'static str, ModelFile)>);

impl TokenizerFiles {
    pub(super) fn fetch(wanted: &[&'static str], files: &FileStore<'_>) -> Result<Self> {
        wanted.iter().map(|name| Ok((*name, files.fetch(name, LONGEST_TOKENIZER)?))).collect::<Result<_>>().map(Self)
    }

    /// Opens the tokenizer in a folder. Fails if there is none, or a file cannot be opened.
    pub fn find(folder: &Path) -> Result<Self> {
        let names = fs::read_dir(folder)
            .cannot("read", folder.display())?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        let wanted =
            names::tokenizer(&names).with_context(|| format!("there is no tokenizer in `{}`", folder.display()));
        let wanted = wanted.about(folder.display())?;
        wanted.iter().map(|name| Ok((*name, ModelFile::open(&folder.join(name))?))).collect::<Result<_>>().map(Self)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, ModelFile)> {
        self.0.iter()
    }

    pub(in crate::model) fn get(&self, name: &str) -> Option<&ModelFile> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, file)| file)
    }
}
