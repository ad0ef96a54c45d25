//! A model in a subfolder of another one: sentence-transformers before version 2 kept the first of its modules,
//! the transformer, in `0_Transformer/` (before 0.3 in `0_BERT/` and the like), beside a `config.json` that names its own
//! version alone.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::file::ModelFile;
use super::names::{CONFIG, FIRST_MODULE, LONGEST_CONFIG};
use super::store::FileStore;

/// The folders in a folder that may be that of the first module.
pub(in crate::model) fn first_modules(folder: &Path) -> Vec<String> {
    let entries =
        folder.read_dir().into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    entries.filter(|name| name.starts_with(FIRST_MODULE) && folder.join(name).is_dir()).collect()
}

/// The files of the first module of a sentence encoder, in a folder of their own.
pub(super) struct Nested<'a> {
    pub folder: String,
    names: BTreeSet<String>,
    files: &'a dyn FileStore,
}

impl<'a> Nested<'a> {
    /// The files of the first module; `None` if it is in no subfolder, or if a model lies beside the subfolder.
    /// Fails if the outer `config.json` cannot be read.
    pub fn of(files: &'a dyn FileStore) -> Result<Option<Self>> {
        let names = files.names();
        let is_config = |name: &&String| {
            let parts: Vec<&str> = name.split('/').collect();
            matches!(parts[..], [folder, CONFIG] if folder.starts_with(FIRST_MODULE))
        };
        let Some(config) = names.iter().find(is_config) else { return Ok(None) };
        if names.contains(CONFIG) {
            let outer = files.fetch(CONFIG, LONGEST_CONFIG)?.text(LONGEST_CONFIG)?;
            let names_a_model =
                |outer: &Value| ["model_type", "architectures"].iter().any(|key| !outer[*key].is_null());
            // One that is no JSON is an error that its own reader tells.
            if serde_json::from_str(&outer).map_or(true, |outer: Value| names_a_model(&outer)) {
                return Ok(None);
            }
        }
        let folder = config.trim_end_matches(CONFIG).trim_end_matches('/').to_owned();
        let within = names.iter().filter_map(|name| name.strip_prefix(&folder)?.strip_prefix('/'));
        let names = within.map(str::to_owned).collect();
        Ok(Some(Self { folder, names, files }))
    }
}

impl FileStore for Nested<'_> {
    fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    fn fetch(&self, name: &str, most: u64) -> Result<ModelFile> {
        self.files.fetch(&format!("{}/{name}", self.folder), most)
    }
}
