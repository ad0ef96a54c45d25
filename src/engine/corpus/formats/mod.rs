//! Formats of corpus files: one table entry each, which its reader's module has.

pub mod conllu;
pub mod fasta;
pub mod jsonl;
pub mod pairs;
pub mod reader;
pub mod rxn;
pub mod text;

use std::fmt;

use reader::FormatReader;

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
    /// All formats.
    pub const ALL: [Self; 6] = [Self::Conllu, Self::Text, Self::Jsonl, Self::Fasta, Self::Rxn, Self::Pairs];

    pub(in crate::corpus) fn entry(self) -> &'static FormatReader {
        match self {
            Self::Conllu => &conllu::ENTRY,
            Self::Text => &text::ENTRY,
            Self::Jsonl => &jsonl::ENTRY,
            Self::Fasta => &fasta::ENTRY,
            Self::Rxn => &rxn::ENTRY,
            Self::Pairs => &pairs::ENTRY,
        }
    }

    /// The file extensions of a format, in lower case.
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
