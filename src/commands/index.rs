//! `headscope index`: where each segment of a corpus stands, for shards that read their own part alone.

use std::path::Path;

use anyhow::Result;

use crate::corpus::{IndexCounts, Input, write_index};
use crate::system::counted::counted;
use crate::system::files::output::Output;
use crate::system::progress;
use crate::system::terminal::print;

/// Reads a corpus to its end and writes its index.
/// Fails if the corpus or the output cannot be used.
pub fn index(corpus: &[Input], path: &Path) -> Result<()> {
    let mut output = Output::open(path)?;
    let indexing = progress::step("indexing");
    let IndexCounts { files, sentences, segments } = write_index(corpus, |bytes| output.write(bytes))?;
    indexing.finish_and_clear();
    output.commit()?;
    let (sentences, segments) = (counted(sentences, "sentence"), counted(segments, "segment"));
    print(&format!("{sentences} in {segments}, of {}\n", counted(files, "file")))
}
