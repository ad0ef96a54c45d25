//! Families of sentences, those that are no independent evidence, and the sampling unit, what counts as one independent draw.

use std::collections::HashMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::bounds::MAX_REMEMBERED;
use super::sentence::{Content, SentenceFamily};

#[cfg(test)]
mod tests;

/// How often sentences occur again; sentences that are skipped later are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats {
    pub read: u64,
    pub different: u64,
    /// The sentences whose words another sentence has, too.
    pub repeated: u64,
    pub families: u64,
    /// Sampling units that are different: documents in which a family begins, or families.
    #[serde(default)]
    pub units: u64,
    /// Sentences that could not be remembered: whatever is equal to one of them counts as different, and as a family.
    pub not_remembered: u64,
}

#[derive(Default)]
pub(super) struct Families {
    /// The known families, by the digest of their words or of their name.
    known: HashMap<u64, KnownFamily>,
    counts: Repeats,
    last_document: Option<u64>,
}

/// Eight bytes, so that an entry has sixteen.
struct KnownFamily {
    family: u32,
    again: bool,
}

impl Families {
    /// The family of the next sentence; `name` is what the corpus calls it, if it does. In a corpus whose units are documents
    /// a family has the number of the `document` that it begins in, and no name counts.
    pub(super) fn of(&mut self, content: &Content, name: Option<&str>, document: Option<u64>) -> SentenceFamily {
        self.counts.read += 1;
        let name = name.filter(|_| document.is_none());
        let (words, name) = (digest_of(content), name.map(|name| digest(NAME, [name])));
        let family = match self.known.get_mut(&words) {
            Some(known) => {
                let fresh = !std::mem::replace(&mut known.again, true);
                self.counts.repeated += 1 + u64::from(fresh);
                SentenceFamily { number: known.family.into(), is_first: false }
            }
            None => self.of_new(words, name, document),
        };
        if let Some(name) = name {
            self.remember(name, family.number);
        }
        family
    }

    fn of_new(&mut self, words: u64, name: Option<u64>, document: Option<u64>) -> SentenceFamily {
        self.counts.different += 1;
        let named = name.and_then(|name| self.known.get(&name));
        let next = SentenceFamily::alone(document.unwrap_or(self.counts.families));
        let family = named.map_or(next, |known| SentenceFamily { number: known.family.into(), is_first: false });
        self.counts.families += u64::from(family.is_first);
        let is_of_known_document = document.is_some() && document == self.last_document;
        self.counts.units += u64::from(family.is_first && !is_of_known_document);
        self.last_document = document.filter(|_| family.is_first).or(self.last_document);
        if self.remember(words, family.number) {
            return family;
        }
        self.counts.not_remembered += 1;
        // The digest is the number, so that the sentence is still in one block with every sentence that is equal to it.
        if family.is_first { SentenceFamily::alone(document.or(name).unwrap_or(words)) } else { family }
    }

    /// Keeps the family of a digest that is not known yet; false if there is no room.
    fn remember(&mut self, digest: u64, family: u64) -> bool {
        let room = self.known.len() < MAX_REMEMBERED;
        let Some(family) = u32::try_from(family).ok().filter(|_| room) else { return false };
        self.known.entry(digest).or_insert(KnownFamily { family, again: false });
        true
    }

    pub(super) fn counts(&self) -> Repeats {
        self.counts
    }
}

/// The kinds of digests: a text is not equal to words.
const TEXT: u8 = 0;
const WORDS: u8 = 1;
const NAME: u8 = 2;

/// The digest of a sentence's words, without annotations; running text is split at white space.
fn digest_of(content: &Content) -> u64 {
    match content {
        Content::Text(text) => digest(TEXT, text.split_whitespace()),
        Content::Words(words) => digest(WORDS, words.iter().map(|word| word.form.as_str())),
    }
}

/// 64 bits of SHA-256: the chance that any two that are remembered collide is below one in a million (`n² / 2^65`).
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

/// Documents that are units although only the ends of files mark them: fewer make fewer blocks than a test needs.
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
