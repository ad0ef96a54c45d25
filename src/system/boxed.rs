//! What is in the box: models and a corpus that are part of the binary, so that it runs without any file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::system::interrupt;

/// All that is in the box has a name that begins so. No Hub id has a colon, and a file or folder of such a name can
/// be written with `./` before it.
pub const PREFIX: &str = "box:";

/// The model that is used where none is given.
pub const MODEL: &str = "box:small";

/// The corpus that is used where none is given, in CoNLL-U; fixtures/corpus/README.md says what is in it.
pub const CORPUS: &str = "box:gold";

static GOLD: &[u8] = include_bytes!("../../fixtures/corpus/gold.conllu");

/// A model folder in the binary: its name, and its files with theirs.
type BoxedModel = (&'static str, [(&'static str, &'static [u8]); 3]);

macro_rules! model {
    ($name:literal, $folder:literal) => {
        ($name, model!($folder, files "config.json", "tokenizer.json", "model.safetensors"))
    };
    ($folder:literal, files $($file:literal),*) => {
        [$(($file, include_bytes!(concat!("../../fixtures/models/", $folder, "/", $file)))),*]
    };
}

static MODELS: [BoxedModel; 2] = [model!("box:small", "small"), model!("box:planted", "planted")];

/// A folder that a model of the box was unpacked to, so that all that reads models reads folders. It is there as long
/// as any clone of this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked(Arc<Folder>);

#[derive(Debug, PartialEq, Eq)]
struct Folder(PathBuf);

impl Unpacked {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let mut list = interrupt::lock();
        // If it cannot be removed there is nobody left to tell: the report is written.
        let _ = fs::remove_dir_all(&self.0);
        list.forget(&self.0);
    }
}

/// Unpacks a model of the box into a temporary folder.
///
/// # Errors
///
/// If there is no such model, or no temporary folder can be written.
pub fn unpack(name: &str) -> Result<Unpacked> {
    let Some((_, files)) = MODELS.iter().find(|(known, _)| *known == name) else {
        let all: Vec<&str> = MODELS.iter().map(|(known, _)| *known).collect();
        bail!(unknown("model", name, &all));
    };
    let mut list = interrupt::lock();
    let made = TempDir::with_prefix("headscope-").context("cannot make a temporary folder for a model of the box")?;
    list.add(made.path());
    let folder = Folder(made.keep());
    drop(list);
    for (file, bytes) in files {
        let path = folder.0.join(file);
        fs::write(&path, bytes).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(Unpacked(Arc::new(folder)))
}

/// The name and the bytes of the corpus of the box that `path` names, if it names one; it is CoNLL-U.
///
/// # Errors
///
/// In words, with what there is, if there is no such corpus.
#[must_use]
pub fn corpus(path: &Path) -> Option<Result<(&'static str, &'static [u8]), String>> {
    let name = path.to_str().filter(|text| text.starts_with(PREFIX))?;
    Some(if name == CORPUS { Ok((CORPUS, GOLD)) } else { Err(unknown("corpus", name, &[CORPUS])) })
}

/// The model of the box that somebody means who leaves out or misspells [`PREFIX`].
#[must_use]
pub fn meant(name: &str) -> Option<&'static str> {
    let is_meant = |known: &&str| {
        let bare = known.strip_prefix(PREFIX).unwrap_or(known);
        *known != name && [*known, bare].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    MODELS.iter().map(|(known, _)| *known).find(is_meant)
}

fn unknown(what: &str, name: &str, all: &[&str]) -> String {
    let name = name.escape_debug();
    format!(
        "there is no {what} `{name}` in the box: it has {}. What is on disk under that name is `./{name}`",
        all.join(" and ")
    )
}
