//! Checks that several commands share: outputs that overwrite nothing, heads that are named once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::command::Usage;
use crate::corpus::Input;
use crate::model::grid::HeadPlace;
use crate::system::errors::Facts;
use crate::system::files::output;

/// Refuses outputs that would overwrite one another or a corpus, however they are spelt.
pub fn refuse_overlap(outputs: &[PathBuf], corpora: &[Input]) -> Result<(), Usage> {
    let mut seen = BTreeSet::new();
    for output in outputs {
        let destination = output::destination(output);
        if corpora.iter().filter_map(Input::path).any(|corpus| output::destination(corpus) == destination) {
            let error = anyhow!("output `{}` is also a corpus: it would be overwritten", output.display());
            return Err(error.about(output.display()));
        }
        if !seen.insert(destination) {
            return Err(anyhow!("the same output is given twice: `{}`", output.display()).about(output.display()));
        }
    }
    Ok(())
}

/// Makes sure that some of the corpora may have plain text, which alone can be cut.
pub fn ensure_truncatable(corpora: &[Input]) -> Result<(), Usage> {
    if corpora.iter().any(Input::may_have_text) {
        return Ok(());
    }
    Err(anyhow!("--truncate is for plain text: a sentence without its end has another tree").of_option("truncate"))
}

/// Refuses outputs that are no pages.
pub fn refuse_other_than_pages(outputs: &[PathBuf], of: &str) -> Result<(), Usage> {
    match outputs.iter().find(|path| lower_extension(path) != "html") {
        Some(other) => Err(unfit(&format!("write {of} as"), other, "name a file .html")),
        None => Ok(()),
    }
}

/// The error of an output whose name tells another format.
pub fn unfit(what: &str, output: &Path, way_out: &str) -> Usage {
    let shown = output.display();
    anyhow!("cannot {what} `{shown}`").about(shown).of_value(extension(output)).hint(way_out)
}

/// Each head once, ascending.
pub fn heads(named: Vec<HeadPlace>) -> Vec<HeadPlace> {
    BTreeSet::from_iter(named).into_iter().collect()
}

pub fn lower_extension(path: &Path) -> String {
    extension(path).to_lowercase()
}

/// Whether a file's name, lower or upper case, ends in an extension, which may be of two parts: `json.gz`.
pub fn has_extension(path: &Path, extension: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.strip_suffix(extension).and_then(|stem| stem.strip_suffix('.')).is_some_and(|stem| !stem.is_empty())
}

/// A file's name after its last dot, empty if there is none.
pub fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().into_owned()
}
