//! Checks that several commands share: outputs that overwrite nothing, heads that are named once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::command::Usage;
use crate::corpus::Input;
use crate::model::grid::HeadPlace;
use crate::system::files::output;

/// Refuses outputs that would overwrite one another or a corpus, however they are spelt.
pub fn refuse_overlap(outputs: &[PathBuf], corpora: &[Input]) -> Result<(), Usage> {
    let mut seen = BTreeSet::new();
    for output in outputs {
        let destination = output::destination(output);
        if corpora.iter().filter_map(Input::path).any(|corpus| output::destination(corpus) == destination) {
            return Err(format!("output `{}` is also a corpus: it would be overwritten", output.display()));
        }
        if !seen.insert(destination) {
            return Err(format!("the same output is given twice: `{}`", output.display()));
        }
    }
    Ok(())
}

/// Refuses outputs that are no pages.
pub fn refuse_other_than_pages(outputs: &[PathBuf], of: &str) -> Result<(), Usage> {
    match outputs.iter().find(|path| lower_extension(path) != "html") {
        Some(other) => Err(format!("cannot write {of} as `{}`: name a file .html", other.display())),
        None => Ok(()),
    }
}

/// Each head once, ascending.
pub fn heads(named: Vec<HeadPlace>) -> Vec<HeadPlace> {
    BTreeSet::from_iter(named).into_iter().collect()
}

pub fn lower_extension(path: &Path) -> String {
    path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default()
}
