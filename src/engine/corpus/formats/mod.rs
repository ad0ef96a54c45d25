//! Formats of corpus files: one table entry each, which its reader's module has.

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
use reader::{Context, FormatReader, Parsed, next_line};

/// A corpus file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// CoNLL-U, Universal Dependencies' ten columns.
    Conllu,
    /// One sentence per line, a blank line between documents.
    Text,
    /// One JSON object per line: words, with or without heads and relations, or text.
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

    pub(in crate::corpus) fn entry(self) -> &'static FormatReader {
        match self {
            Self::Conllu => &conllu::ENTRY,
            Self::Text => &TEXT,
            Self::Jsonl => &jsonl::ENTRY,
            Self::Fasta => &fasta::ENTRY,
            Self::Rxn => &rxn::ENTRY,
            Self::Pairs => &pairs::ENTRY,
        }
    }

    pub fn extensions(self) -> &'static [&'static str] {
        self.entry().extensions
    }

    /// The name that the command line and the report have for it.
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const TEXT: FormatReader =
    FormatReader { name: "text", extensions: &["txt", "text"], may_have_text: true, read: next_text };

/// Reads the next sentence of plain text, in which a blank line stands between documents.
fn next_text(lines: &mut Lines, _: &mut Context) -> Result<Option<Parsed>> {
    let before = lines.number();
    let parsed = next_line(lines, |line| Ok(Sentence::new(Content::Text(line.to_owned())).into()))?;
    let begins_document = lines.number() > before + 1;
    Ok(parsed.map(|parsed| Parsed { begins_document, ..parsed }))
}
