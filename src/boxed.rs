//! What is in the box: models and a corpus that are part of the binary, so that it runs without any file.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// All that is in the box has a name that begins so. No Hub id has a colon, and a file or folder of such a name can
/// be written with `./` before it.
pub const PREFIX: &str = "box:";

/// The model that is used where none is given.
pub const MODEL: &str = "box:planted";

/// The corpus that is used where none is given, in CoNLL-U; fixtures/corpus/README.md says what is in it.
pub const CORPUS: &str = "box:gold";

static GOLD: &[u8] = include_bytes!("../fixtures/corpus/gold.conllu");

/// A model folder in the binary: its name, and its files with theirs.
type BoxedModel = (&'static str, [(&'static str, &'static [u8]); 3]);

macro_rules! model {
    ($name:literal, $folder:literal) => {
        ($name, model!($folder, files "config.json", "tokenizer.json", "model.safetensors"))
    };
    ($folder:literal, files $($file:literal),*) => {
        [$(($file, include_bytes!(concat!("../fixtures/models/", $folder, "/", $file)))),*]
    };
}

static MODELS: [BoxedModel; 1] = [model!("box:planted", "planted")];

/// A folder that a model of the box was unpacked to, so that all that reads models reads folders. It is there as long
/// as any clone of this is.
#[derive(Clone, Debug)]
pub struct Unpacked(Arc<TempDir>);

impl Unpacked {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl PartialEq for Unpacked {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Unpacked {}

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
    let folder = TempDir::with_prefix("headscope-").context("cannot make a temporary folder for a model of the box")?;
    for (file, bytes) in files {
        let path = folder.path().join(file);
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

fn unknown(what: &str, name: &str, all: &[&str]) -> String {
    let name = name.escape_debug();
    format!(
        "there is no {what} `{name}` in the box: it has {}. What is on disk under that name is `./{name}`",
        all.join(" and ")
    )
}
