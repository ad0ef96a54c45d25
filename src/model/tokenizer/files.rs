//! The files that make a tokenizer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::model::source::FileStore;

pub(in crate::model) const TOKENIZER: &str = "tokenizer.json";
pub(super) const WORDPIECE_VOCABULARY: &str = "vocab.txt";
pub(super) const BPE_VOCABULARY: &str = "vocab.json";
pub(super) const BPE_MERGES: &str = "merges.txt";
pub(super) const CONFIG: &str = "tokenizer_config.json";
pub(super) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
pub(super) const ADDED_TOKENS: &str = "added_tokens.json";

/// Files that make a tokenizer, the best first: the first set that is complete is taken.
const SETS: [&[&str]; 3] = [&[TOKENIZER], &[WORDPIECE_VOCABULARY], &[BPE_VOCABULARY, BPE_MERGES]];

/// What may stand beside them.
const SETTINGS: [&str; 3] = [CONFIG, SPECIAL_TOKENS, ADDED_TOKENS];

/// Models of sentencepiece, by the names they have in transformers.
const SENTENCEPIECE: [&str; 4] = ["sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"];

/// Which of the files that a model has, `names`, are its tokenizer; `None` if none are.
pub(in crate::model) fn wanted(names: &BTreeSet<String>) -> Option<Vec<&'static str>> {
    let there = |name: &&&'static str| names.contains(**name);
    let set = SETS.iter().find(|set| set.iter().all(|name| names.contains(*name)))?;
    Some(set.iter().chain(SETTINGS.iter().filter(there)).copied().collect())
}

/// What is there instead of a tokenizer, and why it is none; whether transformers can make one of it.
pub(in crate::model) fn instead(names: &BTreeSet<String>) -> Option<(String, bool)> {
    if let Some(name) = SENTENCEPIECE.into_iter().find(|name| names.contains(*name)) {
        return Some((format!("{name} is there, a sentencepiece model, which is not read"), true));
    }
    let there = [BPE_VOCABULARY, BPE_MERGES].into_iter().find(|name| names.contains(*name))?;
    let lacking = if there == BPE_VOCABULARY { BPE_MERGES } else { BPE_VOCABULARY };
    Some((format!("{there} is there, which is half a tokenizer: it needs {lacking} too"), false))
}

/// The files of one tokenizer by their names; the one that holds the vocabulary comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerFiles(pub(super) Vec<(&'static str, PathBuf)>);

impl TokenizerFiles {
    /// Fetches those that are [`wanted`].
    pub(in crate::model) fn fetch(wanted: &[&'static str], files: &dyn FileStore) -> Result<Self> {
        let fetch = |name: &&'static str| files.file(name).map(|path| path.map(|path| (*name, path))).transpose();
        wanted.iter().filter_map(fetch).collect::<Result<_>>().map(Self)
    }

    /// The tokenizer's files in a folder.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub fn find(folder: &Path) -> Result<Self> {
        let names = fs::read_dir(folder)
            .with_context(|| format!("cannot read `{}`", folder.display()))?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        let wanted = wanted(&names).with_context(|| format!("there is no tokenizer in `{}`", folder.display()))?;
        Ok(Self(wanted.into_iter().map(|name| (name, folder.join(name))).collect()))
    }

    /// Each file by its name.
    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, PathBuf)> {
        self.0.iter()
    }

    pub(super) fn path(&self, name: &str) -> Option<&Path> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, path)| path.as_path())
    }
}
