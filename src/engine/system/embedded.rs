//! The box: models and a corpus embedded in the binary, so that the program runs without any file.

use std::path::Path;

use anyhow::{Error, Result, anyhow};

use crate::system::counts::join_with_and;
use crate::system::errors::{ErrorExt, similar};

/// Prefix of the names of models and corpora that are embedded in the program. A Hub id has no colon, and a file or
/// folder of such a name is given as `./box:...`.
pub const EMBEDDED_PREFIX: &str = "box:";

/// Name of the default model, embedded in the binary, for command lines that need a model and name none.
pub const DEFAULT_MODEL: &str = "box:small";

/// Name of the default corpus, in CoNLL-U; fixtures/corpus/README.md describes it.
pub const DEFAULT_CORPUS: &str = "box:gold";

/// Bytes of the default corpus.
static GOLD_CORPUS: &[u8] = include_bytes!("../../../fixtures/corpus/gold.conllu");

/// Warning that an embedded corpus resembles the training text of an embedded model; `None` for all other pairs of model
/// and corpus.
pub fn overlap_warning(model: &str, corpus: &str) -> Option<&'static str> {
    (model == DEFAULT_MODEL && corpus == DEFAULT_CORPUS).then_some(
        "629 of the 700 sentences of box:gold resemble the training text of box:small (its labels hold on the other 71 too), so a loss measured \
         here says nothing about new text",
    )
}

/// The files of an embedded model, each as `(name, content)`.
pub type EmbeddedFiles = [(&'static str, &'static [u8]); 3];

macro_rules! model {
    ($name:literal, $folder:literal) => {
        ($name, model!($folder, files "config.json", "tokenizer.json", "model.safetensors"))
    };
    ($folder:literal, files $($file:literal),*) => {
        [$(($file, include_bytes!(concat!("../../../fixtures/models/", $folder, "/", $file)))),*]
    };
}

/// All embedded models, each as `(name, files)`.
static MODELS: [(&str, EmbeddedFiles); 3] =
    [model!("box:small", "small"), model!("box:planted", "planted"), model!("box:causal", "causal")];

/// Looks up the files of the embedded model `name`. Fails if there is none of that name; the error lists all names.
pub fn model(name: &str) -> Result<EmbeddedFiles> {
    let found = MODELS.iter().find(|(known, _)| *known == name);
    found.map(|(_, files)| *files).ok_or_else(|| {
        let all: Vec<&str> = MODELS.iter().map(|(known, _)| *known).collect();
        unknown_name_error("model", name, &all)
    })
}

/// Name and bytes (CoNLL-U) of the embedded corpus that `path` names; `None` if `path` lacks [`EMBEDDED_PREFIX`]. Fails if
/// there is no such corpus; the error lists all names.
pub fn corpus(path: &Path) -> Option<Result<(&'static str, &'static [u8])>> {
    let name = path.to_str().filter(|text| text.starts_with(EMBEDDED_PREFIX))?;
    Some(if name == DEFAULT_CORPUS {
        Ok((DEFAULT_CORPUS, GOLD_CORPUS))
    } else {
        Err(unknown_name_error("corpus", name, &[DEFAULT_CORPUS]))
    })
}

/// Name of the embedded model that equals `name`, except for letter case or a missing [`EMBEDDED_PREFIX`]; `None` if there
/// is none.
pub fn similar_name(name: &str) -> Option<&'static str> {
    let is_meant = |known: &&str| {
        let bare = known.strip_prefix(EMBEDDED_PREFIX).unwrap_or(known);
        *known != name && [*known, bare].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    MODELS.iter().map(|(known, _)| *known).find(is_meant)
}

/// Makes the error about an unknown name of an embedded model or corpus (`what`); it lists `all` names.
fn unknown_name_error(what: &str, name: &str, all: &[&str]) -> Error {
    let bare = |name| str::strip_prefix(name, EMBEDDED_PREFIX).unwrap_or(name);
    let closest = similar::closest_name(bare(name), all.iter().map(|known| bare(known)));
    let closest = closest.map(|known| format!("{EMBEDDED_PREFIX}{known}"));
    let shown = name.escape_debug();
    let error = anyhow!("there is no {what} `{shown}` in the box: it has {}", join_with_and(all))
        .with_value(name)
        .did_you_mean(closest);
    match Path::new(name).symlink_metadata() {
        Ok(_) => error.hint_after(" ", format!("What is on disk under that name is `./{shown}`.")),
        Err(_) => error,
    }
}
