//! Plain text: one sentence per line, a blank line between documents.

use super::lines::Lines;
use super::{Content, Origin};

/// Reads the next sentence, or `None` at the end of the file.
///
/// # Errors
///
/// If the file cannot be read or is not UTF-8.
pub(super) fn next(lines: &mut Lines) -> anyhow::Result<Option<(Origin, Content)>> {
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        let content = Content::Text(line.to_owned());
        return Ok(Some((lines.here(), content)));
    }
    Ok(None)
}
