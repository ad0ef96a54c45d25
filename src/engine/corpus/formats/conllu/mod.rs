//! CoNLL-U, the format of Universal Dependencies (<https://universaldependencies.org/format.html>).
//!
//! Words are the lines with integer ids. A multiword token (`3-4`) gives the surface of its words; empty nodes (`5.1`) are
//! skipped. The sentence's text is `# text`, or else the forms joined as `SpaceAfter=No` says.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};

use super::reader::{FileContext, ParsedSentence, ReaderContext};
use crate::corpus::annotation::{Annotation, Upos, WordClass, entry_value};
use crate::corpus::bounds::{MAX_GENERATOR_BYTES, MAX_ID_BYTES, MAX_SENTENCE_BYTES, SentenceSize};
use crate::corpus::lines::Lines;
use crate::corpus::relation::{RelationNames, base_relation};
use crate::corpus::sentence::links::{ConlluLinkColumn, LinkSet, LinkTypes};
use crate::corpus::sentence::written_text::{SurfaceToken, WrittenText};
use crate::corpus::sentence::{Content, Sentence, TreeHead, Word, check_tree};
use crate::system::errors::ErrorExt;
use crate::system::errors::similar::closest_name;
use crate::system::printable::excerpt;

#[cfg(test)]
mod tests;

pub(super) fn next(lines: &mut Lines, context: &mut ReaderContext) -> Result<Option<ParsedSentence>> {
    let ReaderContext {
        relations,
        link_types: types,
        requested_columns: requested,
        links_from,
        class_column: classes,
        file,
        ..
    } = context;
    requested
        .iter()
        .map(|name| &**name)
        .chain(classes.as_deref())
        .try_for_each(ensure_column)
        .with_file(lines.path())?;
    let (mut words, mut size) = (Vec::new(), SentenceSize::default());
    // The line of each word, for errors found only once the sentence is whole.
    let mut word_lines = Vec::new();
    // The position of each word with links, and the value that has them.
    let mut link_values: Vec<(usize, Box<str>)> = Vec::new();
    let (mut surface, mut links) = (SurfaceBuilder::default(), Vec::new());
    let (mut first, mut comments) = (None, Comments::default());
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            if first.is_some() {
                break;
            }
            continue;
        }
        let parsed = if line.starts_with('#') {
            comments.add(line, file).map(|()| None)
        } else {
            split_columns(line).and_then(|columns| match columns[0] {
                id if is_number_pair(id, '.') => Ok(None),
                id if is_number_pair(id, '-') => surface.add_multiword(&columns, words.len(), &mut size).map(|()| None),
                _ => {
                    let value = link_value(links_from.as_ref(), &columns);
                    link_values.extend(value.map(|value| (words.len(), value.into())));
                    let further = (&**requested, classes.as_ref());
                    parse_word(&columns, &mut surface, words.len(), &mut size, (relations, further)).map(Some)
                }
            })
        };
        if let Some(word) = parsed.at_line(lines.path(), lines.number())? {
            words.push(word);
            word_lines.push(lines.number());
        }
        first.get_or_insert_with(|| lines.origin());
    }
    let Some(origin) = first else { return Ok(None) };
    if let Err((word, problem)) = check_tree(&words) {
        bail!(
            problem.map_message(|problem| format!("column 7 (HEAD) {problem}")).at_line(lines.path(), word_lines[word])
        );
    }
    for (word, value) in link_values {
        let added = add_links(&mut links, links_from.as_ref(), (word, &value), words.len(), types);
        added.at_line(lines.path(), word_lines[word])?;
    }
    let (end, count) = (surface.word_count, words.len());
    let cut_off = || anyhow!("a multiword token ends with word {end}, and the sentence with word {count}");
    ensure!(end <= count, cut_off().at_line(lines.path(), lines.number()));
    let Comments { begins_document, family, id, text } = comments;
    let written = (!words.is_empty()).then(|| surface.written_text(&words, text.as_deref()));
    let sentence = Sentence { origin, id, links, written, ..Sentence::new(Content::Words(words)) };
    Ok(Some(ParsedSentence { sentence, begins_document, family }))
}

/// Facts about a sentence from the comment lines before its words.
#[derive(Default)]
struct Comments {
    begins_document: bool,
    family: Option<Box<str>>,
    id: Option<Arc<str>>,
    text: Option<String>,
}

impl Comments {
    /// Parses a comment line. A fact about the whole file is stored in `file`. Fails on CoNLL-U Plus, or on an unusable
    /// `# family` or `# global.generated`.
    fn add(&mut self, line: &str, file: &mut FileContext) -> Result<()> {
        let text = line.trim_start_matches('#');
        let (key, value) = text.split_once('=').map_or((text.trim(), ""), |(key, value)| (key.trim(), value.trim()));
        // <https://universaldependencies.org/ext-format.html>
        let plus = || anyhow!("this is CoNLL-U Plus (`{}`), which is not read", excerpt(line));
        ensure!(key != "global.columns", plus().hint("convert it to the ten columns of CoNLL-U"));
        match key {
            "global.Entity" => file.entity_fields = Some(value.into()),
            "global.generated" => {
                let bad_length = || anyhow!("`# global.generated` has {} bytes", value.len());
                let way_out = || format!("say in 1 to {MAX_GENERATOR_BYTES} by what the sentences were generated");
                ensure!((1..=MAX_GENERATOR_BYTES).contains(&value.len()), bad_length().hint(way_out()));
                file.generator = Some(value.into());
            }
            "family" => {
                let unnamed =
                    || anyhow!("`# family` is empty").hint("give the family a name, or leave the comment out");
                ensure!(!value.is_empty(), unnamed());
                let before = self.family.replace(value.into());
                let second = || anyhow!("the sentence is in a second family, `{}`: it can be in one", excerpt(value));
                ensure!(before.as_deref().is_none_or(|before| before == value), second().with_value(value));
            }
            "text" if value.len() <= MAX_SENTENCE_BYTES => self.text = Some(value.to_owned()),
            "sent_id" if (1..=MAX_ID_BYTES).contains(&value.len()) => self.id = Some(value.into()),
            "newdoc" | "newdoc id" => self.begins_document = true,
            _ => {}
        }
        Ok(())
    }
}

/// Parses a word line. `before` is the number of words before it in the sentence.
fn parse_word(
    columns: &[&str; COLUMN_COUNT],
    surface: &mut SurfaceBuilder,
    before: usize,
    size: &mut SentenceSize,
    (relations, (requested, classes)): (&mut RelationNames, (&[String], Option<&Arc<str>>)),
) -> Result<Word> {
    let [id, form, lemma, upos, _, features, head, relation, _, misc] = *columns;
    let expected = before + 1;
    let wrong_id = || anyhow!("column 1 (ID) is `{}`: expected {expected}", excerpt(id)).with_value(id);
    ensure!(parse_number(id) == Some(expected), wrong_id());
    ensure!(!form.is_empty(), "column 2 (FORM) is empty");
    let wrong_head = || anyhow!("column 7 (HEAD) is `{}`: expected a word's number, 0 or _", excerpt(head));
    let head = match head {
        "_" => TreeHead::Unknown,
        "0" => TreeHead::Root,
        _ => TreeHead::Word(parse_number(head).ok_or_else(wrong_head).with_value(head)? - 1),
    };
    relations
        .check(head, relation)
        .map_message(|problem| format!("column 8 (DEPREL) {problem}"))
        .with_value(relation)?;
    let entity = misc.split('|').find_map(|entry| entry.strip_prefix("Entity=")).unwrap_or_default();
    let value = |name: &str| column_value(name, columns).and_then(value_if_present);
    let requested: Box<[_]> = requested.iter().map(|name| value(name)).collect();
    let class = classes.and_then(|key| Some(WordClass::new(key, value(key)?))).transpose()?;
    let optional = requested.iter().flatten().chain(class.iter().map(|class| &class.name)).map(|value| &**value);
    size.add([form, lemma, features, relation, entity].into_iter().chain(optional))?;
    let annotation = Annotation {
        upos: Upos::of(upos),
        // The lemma of the word `_` is `_`, which elsewhere means a missing value.
        lemma: if (form, lemma) == ("_", "_") { Some(lemma.into()) } else { value_if_present(lemma) },
        features: value_if_present(features),
        entity: value_if_present(entity),
        class,
        requested,
    };
    surface.add_word(before, has_space_after(misc));
    Ok(Word { form: form.to_owned(), head, relation: relation.to_owned(), annotation })
}

/// Columns that a run can request, with their indices.
const NAMED_COLUMNS: [(&str, usize); 7] =
    [("lemma", 2), ("upos", 3), ("xpos", 4), ("feats", 5), ("deprel", 7), ("deps", 8), ("misc", 9)];

/// Fails unless `name` is a column, or an entry of a column, that a run can request.
fn ensure_column(name: &str) -> Result<()> {
    let (column, entry) = name.split_once('.').unwrap_or((name, ""));
    let known = NAMED_COLUMNS.map(|(known, _)| known);
    if known.contains(&column) {
        return Ok(());
    }
    let similar = closest_name(column, known)
        .map(|similar| if entry.is_empty() { similar.to_owned() } else { format!("{similar}.{entry}") });
    let (shown, all) = (excerpt(name), known.join(", "));
    let error = anyhow!("CoNLL-U has no column `{shown}`: {all}, or an entry as in `feats.Number`");
    Err(error.with_value(name).did_you_mean(similar))
}

/// Value of a column (`xpos`), or of an entry in a column (`feats.Number`), by its name; `None` if it is missing.
fn column_value<'a>(name: &str, columns: &[&'a str; COLUMN_COUNT]) -> Option<&'a str> {
    let (column, entry) = name.split_once('.').map_or((name, None), |(column, entry)| (column, Some(entry)));
    let value = columns[NAMED_COLUMNS.into_iter().find(|(known, _)| *known == column)?.1];
    entry.map_or(Some(value), |entry| entry_value(entry, value))
}

/// Splits the line of a word or of a multiword token at its tabs. Fails unless it has ten columns.
fn split_columns(line: &str) -> Result<[&str; COLUMN_COUNT]> {
    let (mut columns, count) = ([""; COLUMN_COUNT], line.split('\t').count());
    columns.iter_mut().zip(line.split('\t')).for_each(|(column, text)| *column = text);
    let is_cut = count < COLUMN_COUNT && parse_number(columns[0]).is_some() && columns[count - 1].is_empty();
    let shown = || excerpt(line);
    let cut = || anyhow!("the line ends after column {}, within a word: `{}`", count - 1, shown());
    let way_out = "a form or lemma that is a line break has cut it: leave that token out, or write it as `_`";
    ensure!(!is_cut, cut().hint(way_out));
    ensure!(
        count == COLUMN_COUNT,
        "a CoNLL-U line has {COLUMN_COUNT} columns separated by tabs, this one has {count}: `{}`",
        shown(),
    );
    Ok(columns)
}

/// Value of a column; `None` if the column is empty or `_`, the mark of a missing value.
fn value_if_present(column: &str) -> Option<Box<str>> {
    (!matches!(column, "_" | "")).then(|| column.into())
}

/// Whether `id` is two numbers around the character `joint`, such as `3-4` or `5.1`.
fn is_number_pair(id: &str, joint: char) -> bool {
    id.split_once(joint).is_some_and(|(first, last)| [first, last].iter().all(|n| n.parse::<u32>().is_ok()))
}

/// Number of columns: ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC.
const COLUMN_COUNT: usize = 10;

/// Pieces from which the written text of a sentence is put together, one per word or multiword token.
#[derive(Default)]
struct SurfaceBuilder {
    pieces: Vec<SurfaceToken>,
    /// Number of words in `pieces`.
    word_count: usize,
}

impl SurfaceBuilder {
    /// Adds the line of a multiword token after the first `before` words of the sentence. Fails unless its range begins
    /// with the number of the next word.
    fn add_multiword(&mut self, columns: &[&str; COLUMN_COUNT], before: usize, size: &mut SentenceSize) -> Result<()> {
        let [id, form, .., misc] = *columns;
        let expected = before + 1;
        let ends = id.split_once('-').and_then(|(first, last)| Some((parse_number(first)?, parse_number(last)?)));
        let last = ends.filter(|&(first, last)| first == expected && last >= first && self.word_count <= before);
        let wrong_range = || anyhow!("column 1 (ID) is `{}`: expected a range from {expected} on", excerpt(id));
        let way_out = "put the line of a multiword token before the lines of its words";
        let (_, last) = last.ok_or_else(|| wrong_range().with_value(id).hint(way_out))?;
        // A treebank released without its text has underscores here; the words' own forms take their place.
        if !matches!(form, "_" | "") {
            size.add_surface(form)?;
            let (surface, words) = (Some(form.to_owned()), last - before);
            self.pieces.push(SurfaceToken { surface, word_count: words, space_after: has_space_after(misc) });
            self.word_count = last;
        }
        Ok(())
    }

    /// Adds the word with index `before`, unless it is part of a multiword token that was already added.
    fn add_word(&mut self, before: usize, space_after: bool) {
        if before >= self.word_count {
            self.pieces.push(SurfaceToken::single_word(space_after));
            self.word_count = before + 1;
        }
    }

    /// Written text of the sentence. It is `text`, if `text` contains all words from left to right; else the word forms,
    /// joined by spaces except where `SpaceAfter=No`.
    fn written_text(&self, words: &[Word], text: Option<&str>) -> WrittenText {
        let forms: Vec<&str> = words.iter().map(|word| word.form.as_str()).collect();
        let aligned = text.and_then(|text| WrittenText::align(text, &forms, &self.pieces).ok());
        aligned.unwrap_or_else(|| WrittenText::join(&forms, &self.pieces))
    }
}

/// Whether white space follows a word, by its MISC column: there is no `SpaceAfter=No`.
fn has_space_after(misc: &str) -> bool {
    !misc.split('|').any(|entry| entry == "SpaceAfter=No")
}

/// Parses a number from 1 on as CoNLL-U writes it: digits without a sign or leading zeros.
fn parse_number(text: &str) -> Option<usize> {
    text.parse().ok().filter(|_| text.starts_with(|first: char| matches!(first, '1'..='9')))
}

/// Value of the word's column, DEPS or MISC, from which links are read. `None` if the run reads no links from columns, if
/// DEPS is `_`, or if MISC lacks the entry.
fn link_value<'a>(from: Option<&ConlluLinkColumn>, columns: &[&'a str; COLUMN_COUNT]) -> Option<&'a str> {
    match from? {
        ConlluLinkColumn::Deps => Some(columns[8]).filter(|deps| *deps != "_"),
        ConlluLinkColumn::Misc(key) => entry_value(key, columns[9]),
    }
}

/// Adds to `sets` the links that `value`, a word's DEPS or MISC column, lists. The sentence has `words` words. Fails if the
/// value is malformed.
fn add_links(
    sets: &mut Vec<LinkSet>,
    from: Option<&ConlluLinkColumn>,
    (word, value): (usize, &str),
    words: usize,
    types: &mut LinkTypes,
) -> Result<()> {
    for (to, name) in link_targets(from, value)? {
        let set = LinkSet::get_or_add(sets, &types.get_by_name(name)?);
        match to {
            Some(to) => set.add_by_number(word as u64 + 1, to, words).with_value(value)?,
            None => set.dropped_links += 1,
        }
    }
    Ok(())
}

/// Parses a word's DEPS or MISC column into links: the number of each linked word, counted from 1 (`None` for an empty
/// node), with the link type. A root has no links.
fn link_targets<'a>(from: Option<&'a ConlluLinkColumn>, value: &'a str) -> Result<Vec<(Option<u64>, &'a str)>> {
    let wrong = |column: &str, value: &str, expected: &str| {
        anyhow!("{column} has `{}`: expected {expected}", excerpt(value)).with_value(value)
    };
    match from {
        None => Ok(Vec::new()),
        Some(ConlluLinkColumn::Misc(key)) => {
            let column = format!("column 10 (MISC), `{key}`,");
            let wrong = |part| wrong(&column, part, "numbers of words, separated by commas");
            let target = |part| Ok((Some(parse_number(part).ok_or_else(|| wrong(part))? as u64), &**key));
            value.split(',').map(str::trim).map(target).collect()
        }
        Some(ConlluLinkColumn::Deps) => {
            let mut targets = Vec::new();
            for part in value.split('|') {
                let wrong = || wrong("column 9 (DEPS)", part, "HEAD:RELATION");
                let (head, relation) = part.split_once(':').ok_or_else(wrong)?;
                if head == "0" {
                    continue;
                }
                let to = if head.contains('.') { None } else { Some(parse_number(head).ok_or_else(wrong)? as u64) };
                targets.push((to, base_relation(relation)));
            }
            Ok(targets)
        }
    }
}
