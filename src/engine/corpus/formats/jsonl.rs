//! JSON lines: one object per line.
//!
//! `{"text": "..."}` is running text, and `{"words": [...]}` pre-split words. Optional keys beside `words`: `"text"`, the written
//! text, or `"space_after"`; `"heads"` (from 1, 0 for a root, null if not annotated) and `"relations"`, as in CoNLL-U; `"upos"`,
//! `"lemmas"` and `"feats"`; `"links"` by type, words counted from 1, with `"candidates"`, `"undirected"` and `"min_distance"`;
//! `"classes"` (docs/methodology/classes.md). `"id"`, `"document"` and `"family"` name the sentence, its document and its family.
//! Other keys are ignored: corpora keep sources there.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;

use anyhow::{Error, Result, anyhow, ensure};
use itertools::Itertools as _;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::reader::{DocumentName, JsonName, ParsedSentence, ReaderContext, next_line};
use crate::corpus::annotation::{Annotation, Upos, WordClass, entry_value};
use crate::corpus::bounds::{MAX_ID_BYTES, MAX_LINKS, MAX_WORDS, SentenceSize};
use crate::corpus::lines::Lines;
use crate::corpus::relation::RelationNames;
use crate::corpus::sentence::links::{LinkSet, LinkType, LinkTypes, word_position};
use crate::corpus::sentence::written_text::{Misalignment, SurfaceToken, WrittenText};
use crate::corpus::sentence::{Content, Sentence, TreeHead, Word, check_tree};
use crate::system::counts::{format_count, plural};
use crate::system::errors::ErrorExt;
use crate::system::json::describe_error_in_line;
use crate::system::printable::excerpt;

/// One line of a corpus in JSON lines, as it is deserialised.
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
    links: Option<BTreeMap<String, Vec<(u64, Targets)>>>,
    candidates: Option<BTreeMap<String, Vec<u64>>>,
    undirected: Option<Vec<String>>,
    min_distance: Option<BTreeMap<String, usize>>,
    classes: Option<BTreeMap<String, Vec<Option<Box<str>>>>>,
    id: Option<Value>,
    document: Option<JsonName>,
    family: Option<JsonName>,
    /// Other programs' key for `heads`. Beside `words`, it is an error without `heads`, since the tree would be lost.
    head: Option<IgnoredAny>,
    /// Other programs' key for `relations`. A line with `words` and this key, but without `relations`, is an error.
    deprel: Option<IgnoredAny>,
}

/// One target of a link source, or several, as word numbers counted from 1.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a link is `[from, to]` or `[from, [to, to]]`, words counted from 1")]
enum Targets {
    One(u64),
    Several(Vec<u64>),
}

pub(super) fn next(lines: &mut Lines, context: &mut ReaderContext) -> Result<Option<ParsedSentence>> {
    next_line(lines, |line| parse_line(line, context))
}

fn parse_line(json: &str, context: &mut ReaderContext) -> Result<ParsedSentence> {
    let ReaderContext {
        relations,
        link_types: types,
        requested_columns: requested,
        reads_classes,
        class_column: classes,
        file,
        ..
    } = context;
    // serde would also accept an array of the fields in order.
    ensure!(json.trim_start().starts_with('{'), "a line is an object with `words` or `text`: `{}`", excerpt(json));
    let mut line: Line = serde_json::from_str(json)
        .map_err(|error| anyhow!("not a sentence in JSON: {}: `{}`", describe_error_in_line(&error), excerpt(json)))?;
    line.classes = line.classes.filter(|_| *reads_classes);
    let (document, family) =
        (line.document.take().map(DocumentName::from), line.family.take().map(JsonName::into_text));
    ensure!(family.as_deref() != Some(""), anyhow!("`family` is empty").hint("give it a name, or leave it out"));
    let id = line.id.take().and_then(sentence_id);
    let sentence = if let Some(forms) = line.words.take() {
        let is_lost =
            (line.head.is_some() && line.heads.is_none()) || (line.deprel.is_some() && line.relations.is_none());
        let lost = || anyhow!("`words` have a tree under keys that are not read: `{}`", excerpt(json));
        ensure!(!is_lost, with_key_hint(json, lost()));
        let written = line.written_text(&forms)?;
        let links = line.take_link_sets(forms.len(), types)?;
        let lists = [aligned_lists(json, requested)?, aligned_lists(json, classes.as_slice())?];
        let words = line.into_annotated(forms, relations, (lists, classes.as_ref()))?;
        Sentence { id, links, written, ..Sentence::new(Content::Words(words)) }
    } else {
        Sentence { id, ..Sentence::new(Content::Text(line.take_running_text(json)?)) }
    };
    let begins_document = document != file.previous_document;
    file.previous_document = document;
    Ok(ParsedSentence { sentence, begins_document, family })
}

/// Id of a sentence: a string or a whole number. `None` for any other value, and for an empty or too long id.
fn sentence_id(id: Value) -> Option<Arc<str>> {
    let id = match id {
        Value::String(id) => id,
        Value::Number(number) if !number.is_f64() => number.to_string(),
        _ => return None,
    };
    Some(id.into()).filter(|id: &Arc<str>| (1..=MAX_ID_BYTES).contains(&id.len()))
}

/// Keys of JSON lines, each with the names under which other programs write the same data (spaCy, Stanza, Hugging Face's
/// datasets).
const KEY_ALIASES: [(&str, &[&str]); 7] = [
    ("words", &["tokens", "token", "forms", "form", "word"]),
    ("text", &["sentence", "sent"]),
    ("heads", &["head"]),
    ("relations", &["deprel", "deprels", "dep", "deps", "relation"]),
    ("upos", &["pos", "pos_tags", "upos_tags"]),
    ("lemmas", &["lemma"]),
    ("space_after", &["whitespace", "spaces"]),
];

/// Adds a hint to an error if the line has keys that other programs use: which keys to rename, and to what.
fn with_key_hint(json: &str, error: Error) -> Error {
    #[expect(
        clippy::zero_sized_map_values,
        reason = "serde reads no set of keys, and what stands under them is passed over"
    )]
    let keys: BTreeMap<String, IgnoredAny> = serde_json::from_str(json).unwrap_or_default();
    let other_name = |&(ours, others): &(&str, &[&str])| {
        let other = others.iter().find(|&&other| keys.contains_key(other) && !keys.contains_key(ours))?;
        Some(format!("`{other}` `{ours}`"))
    };
    let renamed = KEY_ALIASES.iter().filter_map(other_name).join(", ");
    if renamed.is_empty() { error } else { error.hint(format!("call {renamed}")) }
}

impl Line {
    /// Takes the running text of a line that has no `words`. Fails if there is no `text`, or if the line has a key that is
    /// only valid beside `words`.
    fn take_running_text(&mut self, json: &str) -> Result<String> {
        let ensure_missing = |keys: &[(&str, bool)]| match keys.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(anyhow!("`{name}` is of `words`, and there are none")),
            None => Ok(()),
        };
        ensure_missing(&[
            ("links", self.links.is_some()),
            ("candidates", self.candidates.is_some()),
            ("undirected", self.undirected.is_some()),
            ("min_distance", self.min_distance.is_some()),
        ])?;
        let neither = || with_key_hint(json, anyhow!("there is neither `words` nor `text`: `{}`", excerpt(json)));
        let text = self.text.take().ok_or_else(neither)?;
        ensure_missing(&self.list_lengths().map(|(name, length)| (name, length.is_some())))?;
        ensure_missing(&[("classes", self.classes.is_some())])?;
        Ok(text)
    }

    /// Takes the link sets of a sentence of `words` words, one per link type, out of the line.
    fn take_link_sets(&mut self, words: usize, types: &mut LinkTypes) -> Result<Vec<LinkSet>> {
        let links = self.links.take().unwrap_or_default();
        let mut candidates = self.candidates.take().unwrap_or_default();
        let mut distances = self.min_distance.take().unwrap_or_default();
        let mut undirected: BTreeSet<String> = self.undirected.take().into_iter().flatten().collect();
        let mut sets = Vec::with_capacity(links.len());
        let mut count = 0;
        for (name, pairs) in links {
            let is_undirected = undirected.remove(&name);
            let min_distance = distances.remove(&name).unwrap_or(1);
            let kind = LinkType { name: name.as_str().into(), is_undirected, min_distance };
            let mut set = LinkSet::new(types.intern(kind)?);
            let in_type = |problem: String| format!("`links`, `{}`: {problem}", excerpt(&name));
            for (from, targets) in pairs {
                let targets = match targets {
                    Targets::One(to) => vec![to],
                    Targets::Several(targets) => targets,
                };
                count += targets.len();
                let too_many = || anyhow!("`links` has more than {MAX_LINKS} links of one sentence");
                ensure!(count <= MAX_LINKS, too_many().hint("split the sentence"));
                for to in targets {
                    set.add_by_number(from, to, words).map_message(in_type)?;
                }
            }
            if let Some(numbers) = candidates.remove(&name) {
                let in_type = |problem: String| format!("`candidates`, `{}`: {problem}", excerpt(&name));
                let position = |number: u64| word_position(number, words).map_message(in_type);
                set.candidates = Some(numbers.into_iter().map(position).collect::<Result<_>>()?);
            }
            sets.push(set);
        }
        let without_links = [
            ("candidates", candidates.into_keys().next()),
            ("undirected", undirected.into_iter().next()),
            ("min_distance", distances.into_keys().next()),
        ];
        let first = without_links.into_iter().find_map(|(key, name)| Some((key, name?)));
        let Some((key, name)) = first else { return Ok(sets) };
        let error = anyhow!("`{key}` names the type `{}`, and `links` has none of that name", excerpt(&name));
        Err(error.with_value(&name).hint("give the type a list in `links`; it may be empty"))
    }

    /// Written text of the sentence, from `text` or from `space_after`; `None` if the line has neither. Fails if `text`
    /// does not have the words from left to right.
    fn written_text(&self, forms: &[String]) -> Result<Option<WrittenText>> {
        let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
        let spaces = self.space_after.as_deref().unwrap_or_default().iter().copied().chain(iter::repeat(true));
        let pieces: Vec<SurfaceToken> =
            forms.iter().zip(spaces).map(|(_, space_after)| SurfaceToken::single_word(space_after)).collect();
        let Some(text) = &self.text else {
            return Ok(self.space_after.is_some().then(|| WrittenText::join(&forms, &pieces)));
        };
        let misfit = |Misalignment { word, offset: at }: Misalignment| {
            let (column, rest) = (text.trim()[..at].chars().count() + 1, excerpt(&text.trim()[at..]));
            let error = match forms.get(word).map(|form| (nth_word(word), excerpt(form))) {
                Some((nth, form)) => anyhow!("{nth} is `{form}`, and at character {column} `text` has `{rest}`"),
                None => anyhow!("`text` has `{rest}` after its words, from character {column} on"),
            };
            error.hint("`text` has the words from left to right, with white space or nothing between them")
        };
        WrittenText::align(text, &forms, &pieces).map(Some).map_err(misfit)
    }

    /// Length of each list that should have one value per word, by its key; `None` for a missing key.
    fn list_lengths(&self) -> [(&'static str, Option<usize>); 6] {
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

    /// Makes the words of the line from `forms` and the line's lists of annotations. `requested` has the lists under the
    /// requested keys; `listed` has the list under `class_key`, if any.
    fn into_annotated(
        self,
        forms: Vec<String>,
        relations: &mut RelationNames,
        ([requested, listed], class_key): ([Vec<AlignedList<'_>>; 2], Option<&Arc<str>>),
    ) -> Result<Vec<Word>> {
        ensure!(self.heads.is_some() == self.relations.is_some(), "`heads` and `relations` come together");
        let lists = requested.iter().chain(&listed).map(|(name, list, _)| (*name, list.as_ref().map(Vec::len)));
        for (name, length) in self.list_lengths().into_iter().chain(lists) {
            ensure_length(name, length.unwrap_or(forms.len()), forms.len())?;
        }
        let listed = |word: usize| {
            let name = word_values(&listed, word).into_iter().flatten().next()?;
            Some(WordClass::new(class_key?, name))
        };
        let mut classes = word_classes(self.classes, forms.len(), class_key)?.into_iter();
        let mut words = Vec::with_capacity(forms.len().min(MAX_WORDS));
        let mut size = SentenceSize::default();
        let (mut heads, mut names) = (self.heads.into_iter().flatten(), self.relations.into_iter().flatten());
        let (mut upos, mut lemmas) = (self.upos.into_iter().flatten(), self.lemmas.into_iter().flatten());
        let mut feats = self.feats.into_iter().flatten();
        for form in forms {
            let (lemma, features) = (lemmas.next().flatten(), feats.next().flatten());
            let class = classes.next().flatten().map(Ok).or_else(|| listed(words.len())).transpose()?;
            let relation = names.next().flatten().unwrap_or_else(|| "_".to_owned());
            let requested = word_values(&requested, words.len());
            let optional = [&lemma, &features].map(|value| value.as_deref().unwrap_or_default());
            let kept = [&*form, &*relation].into_iter().chain(optional).chain(class.iter().map(|class| &*class.name));
            size.add(kept.chain(requested.iter().flatten().map(|value| &**value)))?;
            let head = match heads.next().flatten() {
                None => TreeHead::Unknown,
                Some(0) => TreeHead::Root,
                Some(head) => TreeHead::Word(usize::try_from(head - 1).unwrap_or(usize::MAX - 1)),
            };
            let check = relations.check(head, &relation);
            check
                .map_message(|problem| format!("{}: its relation {problem}", nth_word(words.len())))
                .with_value(&relation)?;
            let upos = upos.next().flatten().as_deref().and_then(Upos::of);
            let annotation = Annotation { upos, lemma, features, entity: None, class, requested };
            words.push(Word { form, head, relation, annotation });
        }
        let in_word = |(word, problem): (usize, Error)| {
            problem.map_message(|problem| format!("{}: its head {problem}", nth_word(word)))
        };
        check_tree(&words).map_err(in_word)?;
        Ok(words)
    }
}

/// A list that the run requested, with one value per word: `(key, values, entry)`. `values` is `None` if the line lacks
/// the list; `entry` is the entry to take from each value (`Number` for `feats.Number`).
type AlignedList<'a> = (&'a str, Option<Vec<Value>>, Option<&'a str>);

/// Looks up the lists of a line under the requested keys.
fn aligned_lists<'a, S: AsRef<str>>(json: &str, requested: &'a [S]) -> Result<Vec<AlignedList<'a>>> {
    if requested.is_empty() {
        return Ok(Vec::new());
    }
    let line: BTreeMap<String, Value> = serde_json::from_str(json)?;
    let list = |key: &str| line.get(key).and_then(Value::as_array).cloned();
    let aligned = |name: &'a str| match (list(name), name.split_once('.')) {
        (None, Some((key, entry))) => (key, list(key), Some(entry)),
        (list, _) => (name, list, None),
    };
    Ok(requested.iter().map(|name| aligned(name.as_ref())).collect())
}

/// The word's value in each of the requested lists; numbers and booleans are written as JSON.
fn word_values(lists: &[AlignedList<'_>], word: usize) -> Box<[Option<Box<str>>]> {
    let value = |(_, list, entry): &AlignedList<'_>| {
        let value = match &list.as_ref()?[word] {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            scalar => scalar.to_string(),
        };
        match entry {
            Some(entry) => entry_value(entry, &value).map(Box::from),
            None => Some(value.into()),
        }
    };
    lists.iter().map(value).collect()
}

/// Class of each word in the classification `wanted`, or in the line's only classification; empty without classes. Fails if
/// `wanted` is `None` and the line has several classifications. Also fails unless the classification has a valid class or null
/// for each word.
fn word_classes(
    given: Option<BTreeMap<String, Vec<Option<Box<str>>>>>,
    words: usize,
    wanted: Option<&Arc<str>>,
) -> Result<Vec<Option<Arc<WordClass>>>> {
    let mut given = given.unwrap_or_default();
    if let Some(key) = wanted {
        given.retain(|name, _| **name == **key);
    }
    let names = || given.keys().map(|name| format!("`{}`", excerpt(name))).join(", ");
    let several = || anyhow!("`classes` has {} keys, {}, and a word has one class", given.len(), names());
    ensure!(given.len() < 2, several().hint("name one of them with --classes, or keep one of the keys"));
    let Some((name, classes)) = given.into_iter().next() else { return Ok(Vec::new()) };
    ensure_length(&format!("classes.{name}"), classes.len(), words)?;
    let key: Arc<str> = wanted.map_or_else(|| name.into(), Arc::clone);
    classes.into_iter().map(|name| name.map(|name| WordClass::new(&key, name)).transpose()).collect()
}

/// Fails unless the list under the key `name` has one value per word.
fn ensure_length(name: &str, length: usize, words: usize) -> Result<()> {
    let entries = plural(&length, "entry", "entries");
    ensure!(length == words, "`{name}` has {length} {entries} for {}", format_count(words, "word"));
    Ok(())
}

/// Names a word in messages by its number, counted from 1 as in `heads`: `word 3`.
fn nth_word(position: usize) -> String {
    format!("word {}", position + 1)
}
