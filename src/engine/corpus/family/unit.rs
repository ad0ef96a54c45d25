//! The unit of evidence: what counts as one independent draw from the kind of text that a corpus is of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit whose number says in which block a sentence is, and so what intervals and tests are about more of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Documents: sentences of one document are alike.
    Documents,
    /// Sentences, equal ones being one: the corpus marks too few documents, or can be read only once.
    #[default]
    Sentences,
    /// Families of sentences, which the corpus names.
    Families,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Documents => "documents",
            Self::Sentences => "sentences",
            Self::Families => "families of sentences",
        })
    }
}

/// The fewest documents that are units: with fewer there are fewer blocks than a test needs.
pub(in crate::corpus) const FEWEST_DOCUMENTS: u64 = 10;

/// What decides the unit of a corpus, by the numbers of sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::corpus) struct UnitMarks {
    /// The first sentence of the [`FEWEST_DOCUMENTS`]th document; none if there are fewer.
    pub enough_documents: Option<u64>,
    /// The first sentence before that whose family is named; none if there is none.
    pub first_named: Option<u64>,
}

impl UnitMarks {
    /// The unit of the first `limit` sentences, or of all.
    pub fn unit(self, limit: Option<u64>) -> Unit {
        let within = |mark: Option<u64>| mark.is_some_and(|mark| limit.is_none_or(|limit| mark < limit));
        if within(self.first_named) {
            Unit::Families
        } else if within(self.enough_documents) {
            Unit::Documents
        } else {
            Unit::Sentences
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_documents_and_both_must_be_within_the_limit() {
        let marks = |enough_documents, first_named| UnitMarks { enough_documents, first_named };
        assert_eq!(marks(None, None).unit(None), Unit::Sentences);
        assert_eq!(
            [None, Some(41), Some(40)].map(|limit| marks(Some(40), None).unit(limit)),
            [Unit::Documents, Unit::Documents, Unit::Sentences]
        );
        assert_eq!(
            [None, Some(3)].map(|limit| marks(Some(40), Some(3)).unit(limit)),
            [Unit::Families, Unit::Sentences]
        );
    }
}
