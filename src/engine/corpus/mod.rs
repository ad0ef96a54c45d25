//! Corpora: the files of the inputs, their lines, and one reader per format that streams [`Sentence`]s.

mod annotation;
mod bounds;
mod family;
mod files;
pub mod formats;
mod index;
mod lines;
mod mentions;
pub mod relation;
mod sentence;
mod source;

pub use annotation::{Annotation, Upos, WordClass};
pub use bounds::{
    MAX_FILE_LINKS, MAX_LINE_BYTES, MAX_LINK_TYPES, MAX_LINKS, MAX_RELATION_BYTES, MAX_RELATIONS,
    MAX_REMEMBERED_DIGESTS, MAX_SENTENCE_BYTES, MAX_WORDS,
};
pub use family::{RepeatCounts, Unit};
pub use files::input::{FileKind, Input};
pub use formats::Format;
pub(crate) use formats::reader::JsonName as ItemName;
pub use index::{Index, SEGMENT_SENTENCES};
pub use lines::Compression;
pub use mentions::{Mention, Mentions};
pub use sentence::links::{ConlluLinkColumn, LinkSet, LinkType, LinkTypeOptions};
pub use sentence::written_text::WrittenText;
pub use sentence::{Content, Origin, Sentence, SentenceGroup, TreeHead, Word};
pub use source::indexing::{IndexCounts, write_index};
pub use source::links::file::LinkFile;
pub use source::links::rules::LinkRules;
pub use source::links::{LinkOptions, LinkSources, NamedDigest};
pub use source::scope::{CorpusScope, UnitHalf};
pub use source::{AnnotationOptions, Corpus, CorpusIdentity, FileIdentity, TakenDocuments};
