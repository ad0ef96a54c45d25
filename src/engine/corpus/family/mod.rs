//! Families, groups of sentences that count as one observation, and the sampling unit: documents, sentences or families.

use std::collections::HashMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::bounds::MAX_REMEMBERED_DIGESTS;
use super::sentence::{Content, SentenceGroup};

#[cfg(test)]
mod tests;

/// Counts of sentences, repeated sentences and families; sentences that are skipped later are counted too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatCounts {
    pub read: u64,
    pub different: u64,
    /// Number of sentences whose words equal the words of another sentence, first copies included.
    pub repeated: u64,
    pub families: u64,
    /// Number of distinct sampling units: families, or documents in which a family begins.
    #[serde(default)]
    pub units: u64,
    /// Number of sentences beyond [`MAX_REMEMBERED_DIGESTS`]. Each repeat of such a sentence counts as distinct, and as a
    /// family.
    pub not_remembered: u64,
}

#[derive(Default)]
pub(super) struct FamilyAssigner {
    /// Families met so far, keyed by the digest of the words or of the family name.
    families_by_digest: HashMap<u64, RememberedFamily>,
    pub counts: RepeatCounts,
    /// Number of the document in which the latest family began; `None` where documents are not the sampling unit.
    last_document: Option<u64>,
}

/// Number of the family that a digest belongs to, and whether the sentence with this digest has recurred. It takes eight
/// bytes, so that an entry of the hash map takes sixteen.
struct RememberedFamily {
    family: u32,
    has_recurred: bool,
}

impl FamilyAssigner {
    /// Assigns the next sentence to a family; `name` is the family name in the corpus, if any. If `document` is given, documents
    /// are the sampling unit: `name` is ignored, and a new family takes the document's number.
    pub(super) fn assign(&mut self, content: &Content, name: Option<&str>, document: Option<u64>) -> SentenceGroup {
        self.counts.read += 1;
        let name = name.filter(|_| document.is_none());
        let (words, name) = (content_digest(content), name.map(|name| digest(NAME_PREFIX, [name])));
        let family = match self.families_by_digest.get_mut(&words) {
            Some(known) => {
                let is_first_repeat = !std::mem::replace(&mut known.has_recurred, true);
                self.counts.repeated += 1 + u64::from(is_first_repeat);
                SentenceGroup { number: known.family.into(), is_first: false }
            }
            None => self.assign_new(words, name, document),
        };
        if let Some(name) = name {
            self.remember(name, family.number);
        }
        family
    }

    fn assign_new(&mut self, words: u64, name: Option<u64>, document: Option<u64>) -> SentenceGroup {
        self.counts.different += 1;
        let named = name.and_then(|name| self.families_by_digest.get(&name));
        let next = SentenceGroup::new(document.unwrap_or(self.counts.families));
        let family = named.map_or(next, |known| SentenceGroup { number: known.family.into(), is_first: false });
        self.counts.families += u64::from(family.is_first);
        let is_of_known_document = document.is_some() && document == self.last_document;
        self.counts.units += u64::from(family.is_first && !is_of_known_document);
        self.last_document = document.filter(|_| family.is_first).or(self.last_document);
        if self.remember(words, family.number) {
            return family;
        }
        self.counts.not_remembered += 1;
        // The digest serves as the family number, so that equal sentences still fall into one block.
        if family.is_first { SentenceGroup::new(document.or(name).unwrap_or(words)) } else { family }
    }

    /// Records that a digest belongs to the family with this number, unless the digest is already known. Returns false if
    /// the table is full or the number exceeds 32 bits.
    fn remember(&mut self, digest: u64, family: u64) -> bool {
        let has_room = self.families_by_digest.len() < MAX_REMEMBERED_DIGESTS;
        let Some(family) = u32::try_from(family).ok().filter(|_| has_room) else { return false };
        self.families_by_digest.entry(digest).or_insert(RememberedFamily { family, has_recurred: false });
        true
    }
}

/// First byte of the digested bytes of running text. It differs from that of word lists and of family names, so that no two
/// kinds share a digest.
const TEXT_PREFIX: u8 = 0;
/// First byte of the digested bytes of a list of words.
const WORDS_PREFIX: u8 = 1;
/// First byte of the digested bytes of a family name.
const NAME_PREFIX: u8 = 2;

/// The digest of a sentence's words, without annotations; running text is split at white space.
fn content_digest(content: &Content) -> u64 {
    match content {
        Content::Text(text) => digest(TEXT_PREFIX, text.split_whitespace()),
        Content::Words(words) => digest(WORDS_PREFIX, words.iter().map(|word| word.form.as_str())),
    }
}

/// Digest of `pieces`: the first 64 bits of a SHA-256. Among `n` remembered digests, two collide with a probability of at
/// most `n² / 2^65`, below one in a million.
fn digest<'a>(kind: u8, pieces: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hash = Sha256::new();
    hash.update([kind]);
    for piece in pieces {
        hash.update((piece.len() as u64).to_le_bytes());
        hash.update(piece);
    }
    let hash = hash.finalize();
    u64::from_le_bytes(std::array::from_fn(|byte| hash[byte]))
}

/// Sampling unit: sentences of one unit fall into one jackknife block. Intervals and tests describe sampling over units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Documents, since sentences of one document are alike.
    Documents,
    /// Sentences, equal ones counted once: the corpus marks no documents, can be read only once, or `--unit` asks for them.
    #[default]
    Sentences,
    /// Families of sentences, as the corpus names them.
    Families,
}

impl Unit {
    /// Name of the sampling unit as `[singular, plural]`. A sentence is called `piece`, the noun for this corpus, such as
    /// `sentence` or `protein`.
    pub fn nouns(self, piece: &str) -> [String; 2] {
        match self {
            Self::Documents => ["document".to_owned(), "documents".to_owned()],
            Self::Sentences => [piece.to_owned(), format!("{piece}s")],
            Self::Families => [format!("family of {piece}s"), format!("families of {piece}s")],
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, many] = self.nouns("sentence");
        f.write_str(&many)
    }
}

/// Minimum number of documents for documents to be the sampling unit, if the corpus marks documents by file ends alone.
/// Fewer documents give too few jackknife blocks for a test.
pub(in crate::corpus) const MIN_UNMARKED_DOCUMENTS: u64 = 10;

/// Counts of document and family marks in the corpus files, which decide the sampling unit. Counting may stop at document
/// number [`MIN_UNMARKED_DOCUMENTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::corpus) struct UnitMarks {
    /// Number of documents; every file begins a new one.
    pub documents: u64,
    pub marks_documents: bool,
    pub names_families: bool,
}

impl UnitMarks {
    /// Sampling unit that the marks imply. Families, if the corpus names any; documents, if there are
    /// [`MIN_UNMARKED_DOCUMENTS`] or the corpus marks at least two; else sentences.
    pub fn unit(self) -> Unit {
        let has_documents = self.documents >= MIN_UNMARKED_DOCUMENTS || self.documents >= 2 && self.marks_documents;
        match (self.names_families, has_documents) {
            (true, _) => Unit::Families,
            (false, true) => Unit::Documents,
            (false, false) => Unit::Sentences,
        }
    }
}
