//! Readers of corpus files: their common interface, and their memory.

use std::sync::Arc;

use anyhow::Result;
use serde::Deserialize;

use crate::corpus::lines::Lines;
use crate::corpus::relation::RelationNames;
use crate::corpus::sentence::links::{LinkSet, LinkTypes, LinksFrom};
use crate::corpus::sentence::written::Written;
use crate::corpus::sentence::{Content, Origin};

/// A format's table entry.
pub(in crate::corpus) struct FormatReader {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// The file extensions of the format, in lower case.
    pub extensions: &'static [&'static str],
    /// Whether a file may have running text, which can be cut.
    pub may_have_text: bool,
    /// Reads the next sentence of a file, or `None` at its end; errors name the file, the line and the value.
    pub read: fn(&mut Lines, &mut Context) -> Result<Option<Parsed>>,
}

/// A sentence as a reader hands it over, not yet numbered.
pub(in crate::corpus) struct Parsed {
    pub origin: Origin,
    pub content: Content,
    /// Whether a document begins with it, as far as the file says; the first of a file begins one in any case.
    pub begins_document: bool,
    /// The name of its family, where the file has one for it; not empty.
    pub family: Option<Box<str>>,
    /// Its own name, where the file has one for it.
    pub id: Option<Arc<str>>,
    /// The links between its words.
    pub links: Vec<LinkSet>,
    /// The text that its words are in, where the file says how they were written.
    pub written: Option<Written>,
    /// How many of its words are of the first of two texts, which a model reads as a pair; `None` of one text.
    pub first_text: Option<usize>,
}

impl Parsed {
    /// A sentence without further facts.
    pub(in crate::corpus) fn new(origin: Origin, content: Content) -> Self {
        Self {
            origin,
            content,
            begins_document: false,
            family: None,
            id: None,
            links: Vec::new(),
            written: None,
            first_text: None,
        }
    }
}

/// The memory of readers from sentence to sentence.
#[derive(Default)]
pub(in crate::corpus) struct Context {
    /// The relation names of the whole corpus.
    pub relations: RelationNames,
    /// The types of links of the whole corpus.
    pub links: LinkTypes,
    /// The columns and keys that a run keeps of every word.
    pub requested: Arc<[String]>,
    /// Where CoNLL-U has links, if they are wanted.
    pub links_from: Option<LinksFrom>,
    /// Whether words get their classes; of several kinds a run has to name one.
    pub reads_classes: bool,
    /// The column or key that has the class of each word, if a run names one.
    pub classes: Option<Arc<str>>,
    /// The context of the file.
    pub file: FileContext,
}

/// The memory of readers of the file that they read.
#[derive(Default)]
pub(in crate::corpus) struct FileContext {
    /// The fields of [`Annotation::entity`](crate::corpus::Annotation::entity) in the order that the file declares.
    pub entity_fields: Option<Arc<str>>,
    /// The document of the sentence before, where sentences name theirs.
    pub document: Option<Name>,
    /// The generator of the sentences, if the file names one.
    pub generated: Option<Box<str>>,
    /// Whether the sentence before ends without white space after it.
    pub is_glued: bool,
}

impl FileContext {
    /// Whether a sentence follows the one before it without white space, and keeps that of the next. The first of a segment
    /// does not, for nothing before it need be read.
    pub(in crate::corpus) fn glue(&mut self, begins_segment: bool, written: Option<&Written>) -> bool {
        let is_glued = self.is_glued && !begins_segment;
        self.is_glued = written.is_some_and(|written| !written.space_after);
        is_glued
    }
}

/// The name of a document or of a family, as JSON has it.
///
/// Sentences that follow each other under one name are of one document; all sentences under one name are of one family.
#[derive(Deserialize, PartialEq)]
#[serde(untagged, expecting = "`document` and `family` are a string or a whole number each")]
pub(crate) enum Name {
    Text(Box<str>),
    Number(i64),
}

impl Name {
    /// The name as text.
    pub(crate) fn into_text(self) -> Box<str> {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string().into(),
        }
    }
}
