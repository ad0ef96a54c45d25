//! JSON lines: one object per line.
//!
//! `{"text": "..."}` is running text. `{"words": [...]}` has words that were split beforehand; beside them stand
//! `"text"`, the text that they are in, or `"space_after"`, whether white space follows each;
//! `"heads"`, the number of each word's head counted from 1, 0 for a root and null where it is not annotated, and
//! `"relations"`, each word's relation to its head, as in CoNLL-U; and `"upos"`, `"lemmas"` and `"feats"`, each with an
//! entry per word or null. `"links"` has the links between words by their types, words counted from 1, and
//! `"candidates"`, `"undirected"` and `"min_distance"` say more of these types; `"classes"` has the class of each word
//! (docs/methodology/classes.md). `"id"` names the sentence, `"document"` its document, and `"family"` its family.
//! Other keys are passed over: corpora keep sources there.

mod links;

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use anyhow::{Error, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::reader::{Context, FormatReader, Name, Parsed};
use crate::corpus::annotation::{Annotation, Upos, WordClass, value_of};
use crate::corpus::bounds::{MAX_ID_BYTES, MAX_WORDS, SentenceSize};
use crate::corpus::lines::Lines;
use crate::corpus::relation::RelationNames;
use crate::corpus::sentence::links::LinkSet;
use crate::corpus::sentence::written::{Misfit, Written, WrittenPiece};
use crate::corpus::sentence::{Content, TreeHead, Word};
use crate::corpus::tree;
use crate::system::errors::Facts;
use crate::system::json::problem_in_line;
use crate::system::printable::excerpt;
use links::{LinkKeys, WrittenLink, classes, of_other_length};

pub(in crate::corpus) const ENTRY: FormatReader =
    FormatReader { name: "jsonl", extensions: &["jsonl", "ndjson"], may_have_text: true, read: next };

/// The keys of a line.
#[derive(Deserialize)]
struct Line {
    text: Option<String>,
    words: Option<Vec<String>>,
    heads: Option<Vec<Option<u64>>>,
    relations: Option<Vec<Option<String>>>,
    upos: Option<Vec<Option<String>>>,
    lemmas: Option<Vec<Option<Box<str>>>>,
    feats: Option<Vec<Option<Box<str>>>>,
    space_after: Option<Vec<bool>>,
    links: Option<BTreeMap<String, Vec<WrittenLink>>>,
    candidates: Option<BTreeMap<String, Vec<u64>>>,
    undirected: Option<Vec<String>>,
    min_distance: Option<BTreeMap<String, usize>>,
    classes: Option<BTreeMap<String, Vec<Option<Box<str>>>>>,
    id: Option<Value>,
    document: Option<Name>,
    family: Option<Name>,
    /// Other programs' names of `heads` and `relations`, which would be lost on a line that has words.
    head: Option<IgnoredAny>,
    deprel: Option<IgnoredAny>,
}

/// Reads the next sentence, or `None` at the end of the file.
fn next(lines: &mut Lines, context: &mut Context) -> Result<Option<Parsed>> {
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        let parsed = content(line, context);
        let origin = lines.here();
        let LineContent { content, id, links, written, document, family } = parsed.at(&origin.path, origin.line)?;
        let begins_document = document != context.file.document;
        context.file.document = document;
        return Ok(Some(Parsed { begins_document, family, id, links, written, ..Parsed::new(origin, content) }));
    }
    Ok(None)
}

/// A parsed line.
struct LineContent {
    content: Content,
    id: Option<Arc<str>>,
    links: Vec<LinkSet>,
    written: Option<Written>,
    document: Option<Name>,
    family: Option<Box<str>>,
}

fn content(json: &str, context: &mut Context) -> Result<LineContent> {
    let Context { relations, links: types, requested, reads_classes, classes, .. } = context;
    // serde would take an array for the fields in their order.
    ensure!(json.trim_start().starts_with('{'), "a line is an object with `words` or `text`: `{}`", excerpt(json));
    let mut line: Line = serde_json::from_str(json)
        .map_err(|error| anyhow!("not a sentence in JSON: {}: `{}`", problem_in_line(&error), excerpt(json)))?;
    line.classes = line.classes.filter(|_| *reads_classes);
    let (document, family) = (line.document.take(), line.family.take().map(Name::into_text));
    ensure!(family.as_deref() != Some(""), anyhow!("`family` is empty").hint("give it a name, or leave it out"));
    let id = line.id.take().and_then(sentence_id);
    let links = line.take_links();
    let Some(forms) = line.words.take() else {
        if let Some(name) = links.first() {
            bail!("{}", of_no_words(name));
        }
        let nothing = || renamed(json, anyhow!("there is neither `words` nor `text`: `{}`", excerpt(json)));
        let text = line.text.take().ok_or_else(nothing)?;
        let content = Content::Text(line.without_annotations(text)?);
        return Ok(LineContent { content, id, links: Vec::new(), written: None, document, family });
    };
    let is_lost = (line.head.is_some() && line.heads.is_none()) || (line.deprel.is_some() && line.relations.is_none());
    ensure!(!is_lost, renamed(json, anyhow!("`words` have a tree under keys that are not read: `{}`", excerpt(json))));
    let written = line.written(&forms)?;
    let links = links.read(forms.len(), types)?;
    let further = [RequestedKeys::new(json, requested)?, RequestedKeys::new(json, classes.as_slice())?];
    let content = Content::Words(line.annotated(forms, relations, (further, classes.as_ref()))?);
    Ok(LineContent { content, id, links, written, document, family })
}

/// The id of a sentence, a string or a whole number; files may keep anything else under that key.
fn sentence_id(id: Value) -> Option<Arc<str>> {
    let id = match id {
        Value::String(id) => id,
        Value::Number(number) if !number.is_f64() => number.to_string(),
        _ => return None,
    };
    Some(id.into()).filter(|id: &Arc<str>| (1..=MAX_ID_BYTES).contains(&id.len()))
}

/// Names that other programs have for our keys (spaCy, Stanza, Hugging Face's datasets).
const OTHER_NAMES: [(&str, &[&str]); 7] = [
    ("words", &["tokens", "token", "forms", "form", "word"]),
    ("text", &["sentence", "sent"]),
    ("heads", &["head"]),
    ("relations", &["deprel", "deprels", "dep", "deps", "relation"]),
    ("upos", &["pos", "pos_tags", "upos_tags"]),
    ("lemmas", &["lemma"]),
    ("space_after", &["whitespace", "spaces"]),
];

/// An error about a line, with what to call keys of it that are not read and may be meant.
fn renamed(json: &str, error: Error) -> Error {
    #[expect(
        clippy::zero_sized_map_values,
        reason = "serde reads no set of keys, and what stands under them is passed over"
    )]
    let keys: BTreeMap<String, IgnoredAny> = serde_json::from_str(json).unwrap_or_default();
    let other_name = |&(ours, others): &(&str, &[&str])| {
        let other = others.iter().find(|&&other| keys.contains_key(other) && !keys.contains_key(ours))?;
        Some(format!("`{other}` `{ours}`"))
    };
    let renamed: Vec<String> = OTHER_NAMES.iter().filter_map(other_name).collect();
    if renamed.is_empty() { error } else { error.hint(format!("call {}", renamed.join(", "))) }
}

fn of_no_words(name: &str) -> String {
    format!("`{name}` is of `words`, and there are none")
}

impl Line {
    fn take_links(&mut self) -> LinkKeys {
        let Self { links, candidates, undirected, min_distance, .. } = self;
        LinkKeys {
            links: links.take(),
            candidates: candidates.take(),
            undirected: undirected.take(),
            min_distance: min_distance.take(),
        }
    }

    fn without_annotations(self, text: String) -> Result<String> {
        let lengths = self.lengths().into_iter().find(|(_, length)| length.is_some()).map(|(name, _)| name);
        if let Some(name) = lengths.or_else(|| self.classes.as_ref().map(|_| "classes")) {
            bail!("{}", of_no_words(name));
        }
        Ok(text)
    }

    /// The text that the words are in, if the line says anything of it.
    fn written(&self, forms: &[String]) -> Result<Option<Written>> {
        let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
        let spaces = self.space_after.as_deref().unwrap_or_default().iter().copied().chain(iter::repeat(true));
        let pieces: Vec<WrittenPiece> =
            forms.iter().zip(spaces).map(|(_, space_after)| WrittenPiece::word(space_after)).collect();
        let Some(text) = &self.text else {
            return Ok(self.space_after.is_some().then(|| Written::joined(&forms, &pieces)));
        };
        let misfit = |Misfit { word, at }: Misfit| {
            let (column, rest) = (text.trim()[..at].chars().count() + 1, excerpt(&text.trim()[at..]));
            let error = match forms.get(word) {
                Some(form) => {
                    anyhow!("{} is `{}`, and at character {column} `text` has `{rest}`", nth(word), excerpt(form))
                }
                None => anyhow!("`text` has `{rest}` after its words, from character {column} on"),
            };
            error.hint("`text` has the words from left to right, with white space or nothing between them")
        };
        Written::aligned(text, &forms, &pieces).map(Some).map_err(misfit)
    }

    /// The keys that have an entry per word, and how many they have.
    fn lengths(&self) -> [(&'static str, Option<usize>); 6] {
        let Self { heads, relations, upos, lemmas, feats, space_after, .. } = self;
        [
            ("heads", heads.as_ref().map(Vec::len)),
            ("relations", relations.as_ref().map(Vec::len)),
            ("upos", upos.as_ref().map(Vec::len)),
            ("lemmas", lemmas.as_ref().map(Vec::len)),
            ("feats", feats.as_ref().map(Vec::len)),
            ("space_after", space_after.as_ref().map(Vec::len)),
        ]
    }

    fn annotated(
        self,
        forms: Vec<String>,
        relations: &mut RelationNames,
        ([requested, listed], class_key): ([RequestedKeys<'_>; 2], Option<&Arc<str>>),
    ) -> Result<Vec<Word>> {
        ensure!(self.heads.is_some() == self.relations.is_some(), "`heads` and `relations` come together");
        for (name, length) in self.lengths() {
            if let Some(length) = length.filter(|&length| length != forms.len()) {
                bail!("{}", of_other_length(name, length, forms.len()));
            }
        }
        requested.ensure_whole(forms.len())?;
        listed.ensure_whole(forms.len())?;
        let listed = |word: usize| {
            let name = listed.of_word(word).into_iter().flatten().next()?;
            Some(WordClass::shared(class_key?, name))
        };
        let mut classes = Entries(classes(self.classes, forms.len(), class_key)?.into_iter());
        let mut words = Vec::with_capacity(forms.len().min(MAX_WORDS));
        let mut size = SentenceSize::default();
        let (mut heads, mut names) = (entries(self.heads), entries(self.relations));
        let (mut upos, mut lemmas, mut feats) = (entries(self.upos), entries(self.lemmas), entries(self.feats));
        for form in forms {
            let (lemma, features) = (lemmas.next(), feats.next());
            let class = classes.next().map(Ok).or_else(|| listed(words.len())).transpose()?;
            let relation = names.next().unwrap_or_else(|| "_".to_owned());
            let requested = requested.of_word(words.len());
            let given = [&lemma, &features].map(|value| value.as_deref().unwrap_or_default());
            let kept = [&*form, &*relation].into_iter().chain(given).chain(class.iter().map(|class| &*class.name));
            size.add(kept.chain(requested.iter().flatten().map(|value| &**value)))?;
            let head = tree_head(heads.next());
            let check = relations.check(head, &relation);
            check.reworded(|problem| format!("{}: its relation {problem}", nth(words.len()))).of_value(&relation)?;
            let upos = upos.next().as_deref().and_then(Upos::of);
            let annotation = Annotation { upos, lemma, features, entity: None, class, requested };
            words.push(Word { form, head, relation, annotation });
        }
        let fault =
            |(word, problem): (usize, Error)| problem.reworded(|problem| format!("{}: its head {problem}", nth(word)));
        tree::check(&words).map_err(fault)?;
        Ok(words)
    }
}

/// The keys that a run keeps.
struct RequestedKeys<'a>(Vec<AlignedList<'a>>);

/// A key, the list that the line has under it, and the entry of features that is wanted.
type AlignedList<'a> = (&'a str, Option<Vec<Value>>, Option<&'a str>);

impl<'a> RequestedKeys<'a> {
    fn new<S: AsRef<str>>(json: &str, requested: &'a [S]) -> Result<Self> {
        if requested.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let line: BTreeMap<String, Value> = serde_json::from_str(json)?;
        let list = |key: &str| match line.get(key) {
            Some(Value::Array(list)) => Some(list.clone()),
            _ => None,
        };
        let of_name = |name: &'a str| match (list(name), name.split_once('.')) {
            (None, Some((key, entry))) => (key, list(key), Some(entry)),
            (found, _) => (name, found, None),
        };
        Ok(Self(requested.iter().map(|name| of_name(name.as_ref())).collect()))
    }

    fn ensure_whole(&self, words: usize) -> Result<()> {
        for (name, list, _) in &self.0 {
            let length = list.as_ref().map_or(words, Vec::len);
            ensure!(length == words, "{}", of_other_length(name, length, words));
        }
        Ok(())
    }

    /// The value of a word under each kept key; numbers and booleans are written as JSON.
    fn of_word(&self, word: usize) -> Box<[Option<Box<str>>]> {
        let value = |(_, list, entry): &AlignedList<'_>| {
            let value = match &list.as_ref()?[word] {
                Value::Null => return None,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            match entry {
                Some(entry) => value_of(entry, &value).map(Box::from),
                None => Some(value.into()),
            }
        };
        self.0.iter().map(value).collect()
    }
}

/// The entries of a list, one for each call of `next`; null and `None` where there is no list.
fn entries<T>(list: Option<Vec<Option<T>>>) -> Entries<T> {
    Entries(list.unwrap_or_default().into_iter())
}

struct Entries<T>(std::vec::IntoIter<Option<T>>);

impl<T> Entries<T> {
    fn next(&mut self) -> Option<T> {
        self.0.next().flatten()
    }
}

fn tree_head(number: Option<u64>) -> TreeHead {
    match number {
        None => TreeHead::Unknown,
        Some(0) => TreeHead::Root,
        Some(head) => TreeHead::Word(usize::try_from(head - 1).unwrap_or(usize::MAX - 1)),
    }
}

/// A word as messages name it, counted from 1 as `heads` does.
fn nth(position: usize) -> String {
    format!("word {}", position + 1)
}
