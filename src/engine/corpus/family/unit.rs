//! The sampling unit: what counts as one independent draw from the kind of text that a corpus is of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sampling unit: its number decides the block of a sentence, so intervals and tests are about more of these units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Documents: sentences of one document are alike.
    Documents,
    /// Sentences, equal ones being one: the corpus marks no documents, can be read only once, or `--unit` asks for them.
    #[default]
    Sentences,
    /// Families of sentences, which the corpus names.
    Families,
}

impl Unit {
    /// One unit, and several, in a corpus of these pieces: sentences or proteins.
    pub fn words(self, piece: &str) -> [String; 2] {
        match self {
            Self::Documents => ["document".to_owned(), "documents".to_owned()],
            Self::Sentences => [piece.to_owned(), format!("{piece}s")],
            Self::Families => [format!("family of {piece}s"), format!("families of {piece}s")],
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, many] = self.words("sentence");
        f.write_str(&many)
    }
}

/// Documents that are units although nothing but the ends of files marks them: with fewer there are fewer blocks than a test
/// needs.
pub(in crate::corpus) const ENOUGH_DOCUMENTS: u64 = 10;

/// The marks that decide the unit of a corpus, up to the [`ENOUGH_DOCUMENTS`]th document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::corpus) struct UnitMarks {
    /// Documents; a file begins one.
    pub documents: u64,
    pub marks_documents: bool,
    pub names_families: bool,
}

impl UnitMarks {
    /// The unit: families that are named; documents, where there are enough or the corpus marks several; else sentences.
    pub fn unit(self) -> Unit {
        let has_documents = self.documents >= ENOUGH_DOCUMENTS || self.documents >= 2 && self.marks_documents;
        match (self.names_families, has_documents) {
            (true, _) => Unit::Families,
            (false, true) => Unit::Documents,
            (false, false) => Unit::Sentences,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_documents_and_two_documents_need_a_mark() {
        let unit = |documents, marks_documents, names_families| {
            UnitMarks { documents, marks_documents, names_families }.unit()
        };
        assert_eq!(unit(12, true, true), Unit::Families);
        // Files alone are documents where there are ten; nine files without a mark may be nine parts of one corpus.
        assert_eq!([unit(9, false, false), unit(10, false, false)], [Unit::Sentences, Unit::Documents]);
        assert_eq!([unit(1, true, false), unit(2, true, false)], [Unit::Sentences, Unit::Documents]);
        assert_eq!(UnitMarks::default().unit(), Unit::Sentences);
    }
}
