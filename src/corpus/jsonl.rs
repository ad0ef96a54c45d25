//! JSON lines: one object per line.
//!
//! `{"text": "..."}` is running text. `{"words": [...]}` has words that were split beforehand; beside them stand
//! `"heads"`, the number of each word's head counted from 1, 0 for a root and null where it is not annotated, and
//! `"relations"`, each word's relation to its head, as in CoNLL-U; and `"upos"`, `"lemmas"` and `"feats"`, each with an
//! entry per word or null. `"document"` names the sentence's document,
//! `"family"` its family. `words` win over `text` where both are given, and
//! other keys are passed over: corpora keep ids and sources there.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde::Deserialize;

use super::annotation::{Annotation, Upos};
use super::bounds::{MAX_WORDS, SentenceSize};
use super::lines::Lines;
use super::reader::{Context, Entry, Name, Parsed};
use super::relation::RelationNames;
use super::sentence::{Content, TreeHead, Word, excerpt};
use super::tree;

pub(super) const ENTRY: Entry =
    Entry { name: "jsonl", extensions: &["jsonl", "ndjson"], may_have_text: true, read: next };

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
    document: Option<Name>,
    family: Option<Name>,
}

/// Reads the next sentence, or `None` at the end of the file.
fn next(lines: &mut Lines, context: &mut Context) -> Result<Option<Parsed>> {
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        let parsed = content(line, &mut context.relations);
        let origin = lines.here();
        let (content, document, family) = parsed.with_context(|| origin.clone())?;
        let begins_document = document != context.file.document;
        context.file.document = document;
        return Ok(Some(Parsed { origin, content, begins_document, family }));
    }
    Ok(None)
}

fn content(json: &str, relations: &mut RelationNames) -> Result<(Content, Option<Name>, Option<Box<str>>)> {
    // serde would take an array for the fields in their order.
    ensure!(json.trim_start().starts_with('{'), "a line is an object with `words` or `text`: `{}`", excerpt(json));
    let mut line: Line = serde_json::from_str(json).map_err(|error| {
        // serde_json counts lines from the beginning of what it is given, which is one line.
        let problem = error.to_string().replace("at line 1 column", "at column");
        anyhow!("not a sentence in JSON: {problem}: `{}`", excerpt(json))
    })?;
    let (document, family) = (line.document.take(), line.family.take().map(Name::into_text));
    ensure!(family.as_deref() != Some(""), "`family` is empty: give it a name, or leave it out");
    let content = match line.words.take() {
        Some(words) => Content::Words(line.annotated(words, relations)?),
        None => match line.text.take() {
            Some(text) => Content::Text(line.without_annotations(text)?),
            None => bail!("there is neither `words` nor `text`: `{}`", excerpt(json)),
        },
    };
    Ok((content, document, family))
}

impl Line {
    fn without_annotations(self, text: String) -> Result<String> {
        let given = self.lengths().into_iter().find(|(_, length)| length.is_some());
        if let Some((name, _)) = given {
            bail!("`{name}` is of `words`, and there are none");
        }
        Ok(text)
    }

    /// The keys that have an entry per word, and how many they have.
    fn lengths(&self) -> [(&'static str, Option<usize>); 5] {
        let Self { heads, relations, upos, lemmas, feats, .. } = self;
        [
            ("heads", heads.as_ref().map(Vec::len)),
            ("relations", relations.as_ref().map(Vec::len)),
            ("upos", upos.as_ref().map(Vec::len)),
            ("lemmas", lemmas.as_ref().map(Vec::len)),
            ("feats", feats.as_ref().map(Vec::len)),
        ]
    }

    fn annotated(self, forms: Vec<String>, relations: &mut RelationNames) -> Result<Vec<Word>> {
        ensure!(self.heads.is_some() == self.relations.is_some(), "`heads` and `relations` come together");
        for (name, length) in self.lengths() {
            if let Some(length) = length.filter(|&length| length != forms.len()) {
                bail!("`{name}` has {length} entries for {} words", forms.len());
            }
        }
        let mut words = Vec::with_capacity(forms.len().min(MAX_WORDS));
        let mut size = SentenceSize::default();
        let (mut heads, mut names) = (entries(self.heads), entries(self.relations));
        let (mut upos, mut lemmas, mut feats) = (entries(self.upos), entries(self.lemmas), entries(self.feats));
        for form in forms {
            let (lemma, features) = (lemmas.next(), feats.next());
            let relation = names.next().unwrap_or_else(|| "_".to_owned());
            let kept = [&*form, &*relation, lemma.as_deref().unwrap_or(""), features.as_deref().unwrap_or("")];
            size.add(&kept)?;
            let head = tree_head(heads.next());
            let check = relations.check(head, &relation);
            check.map_err(|problem| anyhow!("{}: its relation {problem}", nth(words.len())))?;
            let upos = upos.next().as_deref().and_then(Upos::of);
            words.push(Word { form, head, relation, annotation: Annotation { upos, lemma, features, entity: None } });
        }
        tree::check(&words).map_err(|(word, problem)| anyhow!("{}: its head {problem}", nth(word)))?;
        Ok(words)
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
