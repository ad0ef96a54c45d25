//! Plain text: one sentence per line, a blank line between documents.

use anyhow::Result;

use super::reader::{Context, FormatReader, Parsed};
use crate::corpus::lines::Lines;
use crate::corpus::sentence::Content;

pub(in crate::corpus) const ENTRY: FormatReader =
    FormatReader { name: "text", extensions: &["txt", "text"], may_have_text: true, read: next };

/// Reads the next sentence, or `None` at the end of the file.
fn next(lines: &mut Lines, _: &mut Context) -> Result<Option<Parsed>> {
    let mut begins_document = false;
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            begins_document = true;
            continue;
        }
        let content = Content::Text(line.to_owned());
        return Ok(Some(Parsed { begins_document, ..Parsed::new(lines.here(), content) }));
    }
    Ok(None)
}
