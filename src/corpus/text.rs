//! Plain text: one sentence per line, a blank line between documents.

use super::source::Lines;
use super::{Content, Sentence};

/// Reads the next sentence, or `None` at the end of the corpus.
///
/// # Errors
///
/// If the corpus cannot be read or is not UTF-8.
pub(super) fn next(lines: &mut Lines, index: u64) -> anyhow::Result<Option<Sentence>> {
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        let content = Content::Text(line.to_owned());
        return Ok(Some(Sentence { index, line: lines.number(), content }));
    }
    Ok(None)
}
