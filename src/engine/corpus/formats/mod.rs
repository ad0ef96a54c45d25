//! Formats of corpus files, each with its reader.

pub mod conllu;
pub mod fasta;
pub mod jsonl;
pub mod pairs;
pub mod reader;
pub mod rxn;

use std::fmt;

use anyhow::Result;

use super::lines::Lines;
use super::sentence::{Content, Sentence};
use reader::{FormatReader, ParsedSentence, ReaderContext, next_line};

/// File format of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// CoNLL-U, Universal Dependencies' ten columns.
    Conllu,
    /// Plain text: one sentence per line, a blank line between documents.
    Text,
    /// JSON lines: one sentence per line, as words with or without a dependency tree, or as running text.
    Jsonl,
    /// FASTA: proteins, one record each.
    Fasta,
    /// Reaction SMILES with atom numbers, one reaction per line.
    Rxn,
    /// Two texts with an alignment of their words, one pair per line.
    Pairs,
}

impl Format {
    pub const ALL: [Self; 6] = [Self::Conllu, Self::Text, Self::Jsonl, Self::Fasta, Self::Rxn, Self::Pairs];

    pub(in crate::corpus) fn reader(self) -> &'static FormatReader {
        &READERS[self as usize]
    }

    pub fn extensions(self) -> &'static [&'static str] {
        self.reader().extensions
    }

    pub fn name(self) -> &'static str {
        self.reader().name
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The readers of all formats, in the order of the variants of [`Format`].
static READERS: [FormatReader; Format::ALL.len()] = [
    FormatReader { name: "conllu", extensions: &["conllu", "conll"], may_have_text: false, read: conllu::next },
    FormatReader { name: "text", extensions: &["txt", "text"], may_have_text: true, read: next_text },
    FormatReader { name: "jsonl", extensions: &["jsonl", "ndjson"], may_have_text: true, read: jsonl::next },
    FormatReader { name: "fasta", extensions: &["fasta", "fa", "faa"], may_have_text: true, read: fasta::next },
    FormatReader { name: "rxn", extensions: &["rxn", "rsmi"], may_have_text: false, read: rxn::next },
    FormatReader { name: "pairs", extensions: &["pairs"], may_have_text: false, read: pairs::next },
];

/// Reads the next line of plain text as a sentence. A blank line ends a document.
fn next_text(lines: &mut Lines, _: &mut ReaderContext) -> Result<Option<ParsedSentence>> {
    let before = lines.number();
    let parsed = next_line(lines, |line| Ok(Sentence::new(Content::Text(line.to_owned())).into()))?;
    let begins_document = lines.number() > before + 1;
    Ok(parsed.map(|parsed| ParsedSentence { begins_document, ..parsed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_its_own_reader() {
        for format in Format::ALL {
            let name = match format {
                Format::Conllu => "conllu",
                Format::Text => "text",
                Format::Jsonl => "jsonl",
                Format::Fasta => "fasta",
                Format::Rxn => "rxn",
                Format::Pairs => "pairs",
            };
            assert_eq!(format.reader().name, name);
        }
    }
}
