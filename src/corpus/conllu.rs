//! CoNLL-U, the format of Universal Dependencies (<https://universaldependencies.org/format.html>).
//!
//! Words are the lines with integer ids. Multiword-token ranges (`3-4`) and empty nodes (`5.1`) are passed over:
//! the words they stand for have lines of their own.

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::lines::Lines;
use super::{Content, Origin, TreeHead, Word, excerpt, tree};

/// ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC.
const COLUMNS: usize = 10;

/// The most words of a sentence. A sentence is held in memory whole; no encoder takes more than some thousand tokens.
const MAX_WORDS: usize = 1_000_000;

/// Reads the next sentence, or `None` at the end of the file.
///
/// # Errors
///
/// If the file cannot be read, is not UTF-8, or a line is not CoNLL-U, or the heads do not form a tree;
/// each names the file, the line and the value.
pub(super) fn next(lines: &mut Lines) -> Result<Option<(Origin, Content)>> {
    let mut words = Vec::new();
    // The line of each word, for errors found only once the sentence is whole.
    let mut numbers = Vec::new();
    let mut first = None;
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            if first.is_some() {
                break;
            }
            continue;
        }
        let parsed = if line.starts_with('#') { comment(line) } else { word(line, words.len()) };
        let origin = lines.here();
        if let Some(word) = parsed.with_context(|| origin.clone())? {
            words.push(word);
            numbers.push(origin.line);
        }
        first.get_or_insert(origin);
    }
    let Some(origin) = first else { return Ok(None) };
    if let Err((word, problem)) = tree::check(&words) {
        bail!("{}: column 7 (HEAD) {problem}", lines.at(numbers[word]));
    }
    Ok(Some((origin, Content::Words(words))))
}

/// Passes a comment over, unless it says that the columns are others.
fn comment(line: &str) -> Result<Option<Word>> {
    // <https://universaldependencies.org/ext-format.html>
    let key = line.trim_start_matches('#').split('=').next().unwrap_or_default().trim();
    ensure!(
        key != "global.columns",
        "this is CoNLL-U Plus (`{}`), which is not read: convert it to the ten columns of CoNLL-U",
        excerpt(line),
    );
    Ok(None)
}

/// Parses one line; `None` for a multiword-token range or an empty node. `before` words came before it.
fn word(line: &str, before: usize) -> Result<Option<Word>> {
    let fields: Vec<&str> = line.split('\t').collect();
    ensure!(
        fields.len() == COLUMNS,
        "a CoNLL-U line has {COLUMNS} columns separated by tabs, this one has {}: `{}`",
        fields.len(),
        excerpt(line),
    );
    let [id, form, head, relation] = [fields[0], fields[1], fields[6], fields[7]];
    if is_pair(id, '-') || is_pair(id, '.') {
        return Ok(None);
    }
    let expected = before + 1;
    ensure!(expected <= MAX_WORDS, "the sentence has more than {MAX_WORDS} words: a blank line ends a sentence");
    ensure!(number(id) == Some(expected), "column 1 (ID) is `{}`: expected {expected}", excerpt(id));
    ensure!(!form.is_empty(), "column 2 (FORM) is empty");
    let head = match head {
        "_" => TreeHead::Unknown,
        "0" => TreeHead::Root,
        _ => match number(head) {
            Some(head) => TreeHead::Word(head - 1),
            None => bail!("column 7 (HEAD) is `{}`: expected a word's number, 0 or _", excerpt(head)),
        },
    };
    ensure!(!relation.is_empty(), "column 8 (DEPREL) is empty");
    tree::check_relation(head, relation).map_err(|problem| anyhow!("column 8 (DEPREL) {problem}"))?;
    Ok(Some(Word { form: form.to_owned(), head, relation: relation.to_owned() }))
}

/// A number from 1 as CoNLL-U writes it: digits without a sign or leading zeros.
fn number(text: &str) -> Option<usize> {
    let plain = text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| plain)
}

/// Whether `id` is two numbers joined by `joint`.
fn is_pair(id: &str, joint: char) -> bool {
    id.split_once(joint).is_some_and(|(a, b)| [a, b].iter().all(|n| n.parse::<u32>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Format, Sentence};
    use super::*;

    /// `FORM HEAD DEPREL` per word, filled up to ten columns.
    fn line(id: &str, form: &str, head: &str, relation: &str) -> String {
        format!("{id}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n")
    }

    fn read(text: &str) -> Result<Vec<Sentence>> {
        Corpus::from_bytes("test.conllu", text.as_bytes().to_vec(), Format::Conllu).collect()
    }

    fn words(text: &str) -> Vec<(String, TreeHead)> {
        match read(text).unwrap().remove(0).content {
            Content::Words(words) => words.into_iter().map(|word| (word.form, word.head)).collect(),
            Content::Text(_) => panic!("CoNLL-U has words"),
        }
    }

    fn error(text: &str) -> String {
        format!("{:#}", read(text).unwrap_err())
    }

    #[test]
    fn ranges_and_empty_nodes_are_passed_over() {
        let text = [
            "# text = vámonos al mar\n".to_owned(),
            line("1-2", "vámonos", "_", "_"),
            line("1", "vamos", "0", "root"),
            line("2", "nos", "1", "obj"),
            line("2.1", "we", "_", "_"),
            line("3", "mar", "_", "obl"),
        ];
        let expected = [
            ("vamos".to_owned(), TreeHead::Root),
            ("nos".to_owned(), TreeHead::Word(0)),
            ("mar".to_owned(), TreeHead::Unknown),
        ];
        assert_eq!(words(&text.concat()), expected);
    }

    #[test]
    fn line_ends_byte_order_mark_and_last_line_do_not_matter() {
        let plain = format!("# one\n{}\n{}", line("1", "Go", "0", "root"), line("1", "Stop", "0", "root"));
        let odd = format!("\u{feff}{}", plain.trim_end().replace('\n', "\r\n"));
        let expected = read(&plain).unwrap();
        assert_eq!(expected.len(), 2);
        assert_eq!((expected[0].origin.line, expected[1].origin.line, expected[1].index), (1, 4, 1));
        assert_eq!(read(&odd).unwrap(), expected);
    }

    #[test]
    fn errors_name_file_line_and_value() {
        let root = line("1", "Go", "0", "root");
        let cases = [
            (
                "1 Go 0\n".to_owned(),
                "test.conllu:1: a CoNLL-U line has 10 columns separated by tabs, this one has 1: `1 Go 0`",
            ),
            (line("x", "Go", "0", "root"), "test.conllu:1: column 1 (ID) is `x`: expected 1"),
            (format!("{root}{}", line("3", "on", "1", "obl")), "test.conllu:2: column 1 (ID) is `3`: expected 2"),
            (line("1", "", "0", "root"), "test.conllu:1: column 2 (FORM) is empty"),
            (line("1", "Go", "-1", "root"), "test.conllu:1: column 7 (HEAD) is `-1`: expected a word's number, 0 or _"),
            (line("1", "Go", "00", "root"), "test.conllu:1: column 7 (HEAD) is `00`: expected a word's number, 0 or _"),
            (line("+1", "Go", "0", "root"), "test.conllu:1: column 1 (ID) is `+1`: expected 1"),
            (line("1", "Go", "0", ""), "test.conllu:1: column 8 (DEPREL) is empty"),
            (
                line("1", "Go", "2", "_"),
                "test.conllu:1: column 8 (DEPREL) is `_`: a word with a head has a relation to it",
            ),
            (
                line("1", "Go", "0", "all:x"),
                "test.conllu:1: column 8 (DEPREL) is `all:x`: that name stands for all relations",
            ),
            (
                format!("{root}{}", line("2", "on", "7", "obl")),
                "test.conllu:2: column 7 (HEAD) is 7, but the sentence has 2 words",
            ),
            (line("1", "Go", "1", "dep"), "test.conllu:1: column 7 (HEAD) leads into a cycle: 1 -> 1"),
            (
                format!("{}{}{root}", line("1", "a", "2", "dep"), line("2", "b", "1", "dep")).replace("1\tGo", "3\tGo"),
                "test.conllu:1: column 7 (HEAD) leads into a cycle: 1 -> 2 -> 1",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(error(&text), expected);
        }
    }

    #[test]
    fn a_long_chain_is_no_cycle() {
        let chain: String = (1..=20_000).map(|id| line(&id.to_string(), "x", &(id - 1).to_string(), "dep")).collect();
        assert_eq!(words(&chain).len(), 20_000);
    }
}
