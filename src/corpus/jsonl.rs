//! JSON lines: one object per line.
//!
//! `{"text": "..."}` is running text. `{"words": [...]}` has words that were split beforehand; beside them stand
//! `"heads"`, the number of each word's head counted from 1, 0 for a root and null where it is not annotated, and
//! `"relations"`, each word's relation to its head, as in CoNLL-U. `words` win over `text` where both are given, and
//! other keys are passed over: corpora keep ids and sources there.

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;

use super::lines::Lines;
use super::{Content, Origin, TreeHead, Word, excerpt, tree};

/// What a line may say.
#[derive(Deserialize)]
struct Line {
    text: Option<String>,
    words: Option<Vec<String>>,
    heads: Option<Vec<Option<u64>>>,
    relations: Option<Vec<Option<String>>>,
}

/// Reads the next sentence, or `None` at the end of the file.
///
/// # Errors
///
/// If the file cannot be read, is not UTF-8, or a line is no such object, or its heads do not form a tree;
/// each names the file, the line and the value.
pub(super) fn next(lines: &mut Lines) -> Result<Option<(Origin, Content)>> {
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        let parsed = content(line);
        let origin = lines.here();
        return Ok(Some((origin.clone(), parsed.context(origin)?)));
    }
    Ok(None)
}

fn content(line: &str) -> Result<Content> {
    // serde would take an array for the fields in their order.
    ensure!(line.trim_start().starts_with('{'), "a line is an object with `words` or `text`: `{}`", excerpt(line));
    let Line { text, words, heads, relations } = serde_json::from_str(line).map_err(|error| {
        // serde_json counts lines from the beginning of what it is given, which is one line.
        let problem = error.to_string().replace("at line 1 column", "at column");
        anyhow!("not a sentence in JSON: {problem}: `{}`", excerpt(line))
    })?;
    let Some(words) = words else {
        let Some(text) = text else { bail!("there is neither `words` nor `text`: `{}`", excerpt(line)) };
        ensure!(heads.is_none() && relations.is_none(), "`heads` and `relations` are of `words`, and there are none");
        return Ok(Content::Text(text));
    };
    let annotated = match (heads, relations) {
        (Some(heads), Some(relations)) => {
            for (name, count) in [("heads", heads.len()), ("relations", relations.len())] {
                ensure!(count == words.len(), "`{name}` has {count} entries for {} words", words.len());
            }
            heads.into_iter().zip(relations).collect()
        }
        (None, None) => vec![(None, None); words.len()],
        _ => bail!("`heads` and `relations` come together"),
    };
    let words = words.into_iter().zip(annotated).enumerate();
    let words: Vec<Word> = words
        .map(|(position, (form, (head, relation)))| word(form, head, relation).with_context(|| nth(position)))
        .collect::<Result<_>>()?;
    tree::check(&words).map_err(|(word, problem)| anyhow!("{}: its head {problem}", nth(word)))?;
    Ok(Content::Words(words))
}

fn word(form: String, head: Option<u64>, relation: Option<String>) -> Result<Word> {
    let head = match head {
        None => TreeHead::Unknown,
        Some(0) => TreeHead::Root,
        Some(head) => TreeHead::Word(usize::try_from(head - 1).unwrap_or(usize::MAX - 1)),
    };
    let relation = relation.unwrap_or_else(|| "_".to_owned());
    ensure!(!relation.is_empty(), "its relation is empty");
    tree::check_relation(head, &relation).map_err(|problem| anyhow!("its relation {problem}"))?;
    Ok(Word { form, head, relation })
}

/// A word as messages name it, counted from 1 as `heads` does.
fn nth(position: usize) -> String {
    format!("word {}", position + 1)
}
