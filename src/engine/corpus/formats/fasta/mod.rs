//! FASTA, the format of protein sequences (Pearson & Lipman 1988): one record is one sentence, and its residues are the text.
//!
//! A record is a line `>id description` and the lines up to the next header. Lower case, which marks regions of low complexity or
//! insertions, is read as capitals. Gaps (`-`, `.`) are dropped, as is a stop (`*`) at the end of a protein.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};

use super::reader::{ParsedSentence, ReaderContext};
use crate::corpus::bounds::{MAX_ID_BYTES, MAX_SENTENCE_BYTES};
use crate::corpus::lines::Lines;
use crate::corpus::sentence::{Content, Origin, Sentence};
use crate::system::errors::ErrorExt;
use crate::system::printable::excerpt;

#[cfg(test)]
mod tests;

/// First character of a header line and, as `COMMENT_MARK`, of a comment line.
const HEADER_MARK: char = '>';
/// First character of a comment line.
const COMMENT_MARK: char = ';';

/// Reads the next record, or `None` at the end of the file. A record without residues becomes a sentence without tokens.
pub(super) fn next(lines: &mut Lines, _: &mut ReaderContext) -> Result<Option<ParsedSentence>> {
    let Some((origin, id)) = next_header(lines)? else { return Ok(None) };
    let mut protein = Protein::default();
    // The header of the next record is left for the next call.
    while lines.first_byte()?.is_some_and(|first| char::from(first) != HEADER_MARK) {
        let Some(line) = lines.next()? else { break };
        let added = if line.starts_with(COMMENT_MARK) { Ok(()) } else { protein.add(line) };
        added.at_line(lines.path(), lines.number())?;
    }
    Ok(Some(Sentence { origin, id, ..Sentence::new(Content::Text(protein.residues)) }.into()))
}

/// Reads up to the next header line, and returns its location and its id, the first word after `>`. `None` at the end of
/// the file.
fn next_header(lines: &mut Lines) -> Result<Option<(Origin, Option<Arc<str>>)>> {
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() || line.starts_with(COMMENT_MARK) {
            continue;
        }
        let header = line.strip_prefix(HEADER_MARK).ok_or_else(|| {
            anyhow!("a sequence without a header: `{}`", excerpt(line)).hint(
                "a record begins with a line `>id description`; a text with a sentence a line is read by --format text",
            )
        });
        let id =
            header.map(|header| header.split_whitespace().next().filter(|id| id.len() <= MAX_ID_BYTES).map(Arc::from));
        let origin = lines.origin();
        return Ok(Some((origin, id.at_line(lines.path(), lines.number())?)));
    }
    Ok(None)
}

/// A protein read so far.
#[derive(Default)]
struct Protein {
    residues: String,
    /// Whether a stop (`*`) was read, after which the sequence may not go on.
    has_stopped: bool,
}

impl Protein {
    /// Adds the residues of a line as capitals, without gaps and a final stop. Fails on a character that is no residue, on
    /// a residue after a stop, and on a protein that is too long.
    fn add(&mut self, line: &str) -> Result<()> {
        for (column, letter) in (1..).zip(line.trim_end().chars()) {
            match letter {
                ' ' | '\t' | '-' | '.' => {}
                '*' => self.has_stopped = true,
                'a'..='z' | 'A'..='Z' if self.has_stopped => bail!(
                    anyhow!("`{letter}` at column {column} comes after a stop (`*`), where a protein ends")
                        .with_value(letter)
                        .hint("leave out the stop and what follows it, or make a record of each part")
                ),
                'a'..='z' | 'A'..='Z' => self.residues.push(letter.to_ascii_uppercase()),
                other => {
                    bail!(anyhow!("`{}` at column {column} is no residue", other.escape_debug()).with_value(other).hint(
                        if "<[".contains(other) {
                            "special tokens such as `<mask>` stand in plain text: a sequence a line, by --format text"
                        } else {
                            "a sequence has letters, gaps (`-`, `.`), and a stop (`*`) at its end"
                        }
                    ))
                }
            }
        }
        let too_long =
            || anyhow!("the protein has more than {MAX_SENTENCE_BYTES} residues: no encoder takes that much");
        ensure!(self.residues.len() <= MAX_SENTENCE_BYTES, too_long().hint("split it into records"));
        Ok(())
    }
}
