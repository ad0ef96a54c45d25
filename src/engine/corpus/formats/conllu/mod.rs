//! CoNLL-U, the format of Universal Dependencies (<https://universaldependencies.org/format.html>).
//!
//! Words are the lines with integer ids. A multiword token (`3-4`) gives the surface of its words; empty nodes (`5.1`) are
//! skipped. The sentence's text is `# text`, or else the forms joined as `SpaceAfter=No` says.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};

use super::reader::{Context, FileContext, Parsed};
use crate::corpus::annotation::{Annotation, Upos, WordClass, value_of};
use crate::corpus::bounds::{MAX_GENERATOR_BYTES, MAX_ID_BYTES, MAX_SENTENCE_BYTES, SentenceSize};
use crate::corpus::lines::Lines;
use crate::corpus::relation::{RelationNames, base};
use crate::corpus::sentence::links::{LinkSet, LinkTypes, LinksFrom};
use crate::corpus::sentence::written::{Written, WrittenPiece};
use crate::corpus::sentence::{Content, Sentence, TreeHead, Word, check_tree};
use crate::system::errors::Facts;
use crate::system::errors::similar::closest;
use crate::system::printable::excerpt;

#[cfg(test)]
mod tests;

pub(super) fn next(lines: &mut Lines, context: &mut Context) -> Result<Option<Parsed>> {
    let Context { relations, links: types, requested, links_from, classes, file, .. } = context;
    requested.iter().map(|name| &**name).chain(classes.as_deref()).try_for_each(ensure_column).about(lines.path())?;
    let (mut words, mut size) = (Vec::new(), SentenceSize::default());
    // The line of each word, for errors found only once the sentence is whole.
    let mut numbers = Vec::new();
    let (mut surface, mut noted, mut links) = (Surface::default(), Vec::<(usize, Box<str>)>::new(), Vec::new());
    let (mut first, mut begins_document, mut names) = (None, false, Comments::default());
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            if first.is_some() {
                break;
            }
            continue;
        }
        let parsed = if line.starts_with('#') {
            comment(line, file, &mut names).map(|newdoc| {
                begins_document |= newdoc;
                None
            })
        } else {
            columns(line).and_then(|columns| match columns[0] {
                id if is_pair(id, '.') => Ok(None),
                id if is_pair(id, '-') => surface.multiword(&columns, words.len(), &mut size).map(|()| None),
                _ => {
                    let value = noted_links(links_from.as_ref(), &columns);
                    noted.extend(value.map(|value| (words.len(), value.into())));
                    let further = (&**requested, classes.as_ref());
                    word(&columns, &mut surface, words.len(), &mut size, (relations, further)).map(Some)
                }
            })
        };
        if let Some(word) = parsed.at(lines.path(), lines.number())? {
            words.push(word);
            numbers.push(lines.number());
        }
        first.get_or_insert_with(|| lines.here());
    }
    let Some(origin) = first else { return Ok(None) };
    if let Err((word, problem)) = check_tree(&words) {
        bail!(problem.reworded(|problem| format!("column 7 (HEAD) {problem}")).at(lines.path(), numbers[word]));
    }
    for (word, value) in noted {
        let added = add_links(&mut links, links_from.as_ref(), (word, &value), words.len(), types);
        added.at(lines.path(), numbers[word])?;
    }
    surface.ensure_whole(words.len()).at(lines.path(), lines.number())?;
    let Comments { family, id, text } = names;
    let written = (!words.is_empty()).then(|| surface.written(&words, text.as_deref()));
    let sentence = Sentence { origin, id, links, written, ..Sentence::new(Content::Words(words)) };
    Ok(Some(Parsed { sentence, begins_document, family }))
}

#[derive(Default)]
struct Comments {
    family: Option<Box<str>>,
    id: Option<Arc<str>>,
    text: Option<String>,
}

/// Parses a comment line into `file` or `names`; true if it begins a document. Fails on CoNLL-U Plus, or on an unusable
/// `# family` or `# global.generated`.
fn comment(line: &str, file: &mut FileContext, names: &mut Comments) -> Result<bool> {
    let text = line.trim_start_matches('#');
    let (key, value) = text.split_once('=').map_or((text.trim(), ""), |(key, value)| (key.trim(), value.trim()));
    // <https://universaldependencies.org/ext-format.html>
    let plus = || anyhow!("this is CoNLL-U Plus (`{}`), which is not read", excerpt(line));
    ensure!(key != "global.columns", plus().hint("convert it to the ten columns of CoNLL-U"));
    match key {
        "global.Entity" => file.entity_fields = Some(value.into()),
        "global.generated" => {
            ensure!(
                !value.is_empty() && value.len() <= MAX_GENERATOR_BYTES,
                anyhow!("`# global.generated` has {} bytes", value.len())
                    .hint(format!("say in 1 to {MAX_GENERATOR_BYTES} by what the sentences were generated"))
            );
            file.generated = Some(value.into());
        }
        "family" => {
            let unnamed = || anyhow!("`# family` is empty").hint("give the family a name, or leave the comment out");
            ensure!(!value.is_empty(), unnamed());
            let before = names.family.replace(value.into());
            let second = || anyhow!("the sentence is in a second family, `{}`: it can be in one", excerpt(value));
            ensure!(before.as_deref().is_none_or(|before| before == value), second().of_value(value));
        }
        "text" if value.len() <= MAX_SENTENCE_BYTES => names.text = Some(value.to_owned()),
        "sent_id" if !value.is_empty() && value.len() <= MAX_ID_BYTES => names.id = Some(value.into()),
        _ => {}
    }
    Ok(matches!(key, "newdoc" | "newdoc id"))
}

fn word(
    columns: &[&str; COLUMNS],
    surface: &mut Surface,
    before: usize,
    size: &mut SentenceSize,
    (relations, (requested, classes)): (&mut RelationNames, (&[String], Option<&Arc<str>>)),
) -> Result<Word> {
    let [id, form, lemma, upos, _, features, head, relation, _, misc] = *columns;
    let expected = before + 1;
    let other = || anyhow!("column 1 (ID) is `{}`: expected {expected}", excerpt(id)).of_value(id);
    ensure!(number(id) == Some(expected), other());
    ensure!(!form.is_empty(), "column 2 (FORM) is empty");
    let head = match head {
        "_" => TreeHead::Unknown,
        "0" => TreeHead::Root,
        _ => {
            let other = || anyhow!("column 7 (HEAD) is `{}`: expected a word's number, 0 or _", excerpt(head));
            TreeHead::Word(number(head).ok_or_else(other).of_value(head)? - 1)
        }
    };
    relations.check(head, relation).reworded(|problem| format!("column 8 (DEPREL) {problem}")).of_value(relation)?;
    let entity = misc.split('|').find_map(|entry| entry.strip_prefix("Entity=")).unwrap_or_default();
    let value = |name: &str| named(name, columns).and_then(given);
    let requested: Box<[_]> = requested.iter().map(|name| value(name)).collect();
    let class = classes.and_then(|key| Some(WordClass::shared(key, value(key)?))).transpose()?;
    let further = requested.iter().flatten().chain(class.iter().map(|class| &class.name)).map(|value| &**value);
    size.add([form, lemma, features, relation, entity].into_iter().chain(further))?;
    let annotation = Annotation {
        upos: Upos::of(upos),
        // The lemma of the word `_` is `_`, which elsewhere means a missing value.
        lemma: if (form, lemma) == ("_", "_") { Some(lemma.into()) } else { given(lemma) },
        features: given(features),
        entity: given(entity),
        class,
        requested,
    };
    surface.word(before, space_after(misc));
    Ok(Word { form: form.to_owned(), head, relation: relation.to_owned(), annotation })
}

const NAMED: [(&str, usize); 7] =
    [("lemma", 2), ("upos", 3), ("xpos", 4), ("feats", 5), ("deprel", 7), ("deps", 8), ("misc", 9)];

fn ensure_column(name: &str) -> Result<()> {
    let (column, entry) = name.split_once('.').map_or((name, ""), |(column, entry)| (column, entry));
    let known = NAMED.map(|(known, _)| known);
    let error = || {
        let all = known.join(", ");
        let similar = closest(column, known)
            .map(|similar| if entry.is_empty() { similar.to_owned() } else { format!("{similar}.{entry}") });
        anyhow!("CoNLL-U has no column `{}`: {all}, or an entry as in `feats.Number`", excerpt(name))
            .of_value(name)
            .did_you_mean(similar)
    };
    ensure!(known.contains(&column), error());
    Ok(())
}

/// Looks up a column (`xpos`) or an entry in a column (`feats.Number`) by name; `None` if it is missing.
fn named<'a>(name: &str, columns: &[&'a str; COLUMNS]) -> Option<&'a str> {
    let (column, entry) = name.split_once('.').map_or((name, None), |(column, entry)| (column, Some(entry)));
    let value = columns[NAMED.into_iter().find(|(known, _)| *known == column)?.1];
    entry.map_or(Some(value), |entry| value_of(entry, value))
}

fn columns(line: &str) -> Result<[&str; COLUMNS]> {
    let (mut columns, mut count) = ([""; COLUMNS], 0);
    for column in line.split('\t') {
        if let Some(place) = columns.get_mut(count) {
            *place = column;
        }
        count += 1;
    }
    let is_cut = count < COLUMNS && number(columns[0]).is_some() && columns[count - 1].is_empty();
    ensure!(
        !is_cut,
        anyhow!("the line ends after column {}, within a word: `{}`", count - 1, excerpt(line))
            .hint("a form or lemma that is a line break has cut it: leave that token out, or write it as `_`")
    );
    ensure!(
        count == COLUMNS,
        "a CoNLL-U line has {COLUMNS} columns separated by tabs, this one has {count}: `{}`",
        excerpt(line),
    );
    Ok(columns)
}

/// The value of a column; `None` for `_` and for an empty column.
fn given(column: &str) -> Option<Box<str>> {
    (!matches!(column, "_" | "")).then(|| column.into())
}

/// Whether `id` is two numbers joined by `joint`, as `3-4` or `5.1`.
fn is_pair(id: &str, joint: char) -> bool {
    id.split_once(joint).is_some_and(|(a, b)| [a, b].iter().all(|n| n.parse::<u32>().is_ok()))
}

/// Number of columns: ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC.
const COLUMNS: usize = 10;

#[derive(Default)]
struct Surface {
    pieces: Vec<WrittenPiece>,
    words: usize,
}

impl Surface {
    /// Adds the line of a multiword token; `before` words precede it. Fails unless its range begins with the next word's number.
    fn multiword(&mut self, columns: &[&str; COLUMNS], before: usize, size: &mut SentenceSize) -> Result<()> {
        let [id, form, .., misc] = *columns;
        let expected = before + 1;
        let ends = id.split_once('-').and_then(|(first, last)| Some((number(first)?, number(last)?)));
        let last = ends.filter(|&(first, last)| first == expected && last >= first && self.words <= before);
        let other = || {
            let error = anyhow!("column 1 (ID) is `{}`: expected a range from {expected} on", excerpt(id));
            error.of_value(id).hint("put the line of a multiword token before the lines of its words")
        };
        let (_, last) = last.ok_or_else(other)?;
        // A treebank released without its text has underscores here; the words' own forms take their place.
        if !matches!(form, "_" | "") {
            size.add_surface(form)?;
            let (surface, words) = (Some(form.to_owned()), last - before);
            self.pieces.push(WrittenPiece { surface, words, space_after: space_after(misc) });
            self.words = last;
        }
        Ok(())
    }

    fn word(&mut self, before: usize, space_after: bool) {
        if before >= self.words {
            self.pieces.push(WrittenPiece::word(space_after));
            self.words = before + 1;
        }
    }

    fn ensure_whole(&self, words: usize) -> Result<()> {
        let lacking = || anyhow!("a multiword token ends with word {}, and the sentence with word {words}", self.words);
        ensure!(self.words <= words, lacking());
        Ok(())
    }

    /// Written text of a sentence: `text` if it has all words from left to right, else the forms joined as `SpaceAfter=No` says.
    fn written(&self, words: &[Word], text: Option<&str>) -> Written {
        let forms: Vec<&str> = words.iter().map(|word| word.form.as_str()).collect();
        let aligned = text.and_then(|text| Written::aligned(text, &forms, &self.pieces).ok());
        aligned.unwrap_or_else(|| Written::joined(&forms, &self.pieces))
    }
}

fn space_after(misc: &str) -> bool {
    !misc.split('|').any(|entry| entry == "SpaceAfter=No")
}

/// Parses a number from 1 on as CoNLL-U writes it: digits without a sign or leading zeros.
fn number(text: &str) -> Option<usize> {
    let plain = text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| plain)
}

fn noted_links<'a>(from: Option<&LinksFrom>, columns: &[&'a str; COLUMNS]) -> Option<&'a str> {
    match from? {
        LinksFrom::Deps => Some(columns[8]).filter(|deps| *deps != "_"),
        LinksFrom::Misc(key) => value_of(key, columns[9]),
    }
}

/// Adds the links in a word's DEPS or MISC `value` to `sets`; the sentence has `words` words. Fails if the value is malformed.
fn add_links(
    sets: &mut Vec<LinkSet>,
    from: Option<&LinksFrom>,
    (word, value): (usize, &str),
    words: usize,
    types: &mut LinkTypes,
) -> Result<()> {
    for (to, name) in targets(from, value)? {
        let set = LinkSet::of_type(sets, &types.plain(name)?);
        match to {
            Some(to) => set.link(word as u64 + 1, to, words).of_value(value)?,
            None => set.lost += 1,
        }
    }
    Ok(())
}

/// Parses a word's DEPS or MISC value into link targets. Each is a word number, counted from 1 (`None`: an empty node), and a
/// link type. A root gives no target.
fn targets<'a>(from: Option<&'a LinksFrom>, value: &'a str) -> Result<Vec<(Option<u64>, &'a str)>> {
    let wrong = |column: &str, found: &str, expected: &str| {
        anyhow!("{column} has `{}`: expected {expected}", excerpt(found)).of_value(found)
    };
    match from {
        None => Ok(Vec::new()),
        Some(LinksFrom::Misc(key)) => {
            let column = format!("column 10 (MISC), `{key}`,");
            let of_part = |part: &'a str| match number(part) {
                Some(to) => Ok((Some(to as u64), &**key)),
                None => bail!(wrong(&column, part, "numbers of words, separated by commas")),
            };
            value.split(',').map(str::trim).map(of_part).collect()
        }
        Some(LinksFrom::Deps) => {
            let mut found = Vec::new();
            for part in value.split('|') {
                let other = || wrong("column 9 (DEPS)", part, "HEAD:RELATION");
                let (head, relation) = part.split_once(':').ok_or_else(other)?;
                if head == "0" {
                    continue;
                }
                let to = if head.contains('.') { None } else { Some(number(head).ok_or_else(other)? as u64) };
                found.push((to, base(relation)));
            }
            Ok(found)
        }
    }
}
