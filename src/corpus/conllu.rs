//! CoNLL-U, the format of Universal Dependencies (<https://universaldependencies.org/format.html>).
//!
//! Words are the lines with integer ids. Multiword-token ranges (`3-4`) and empty nodes (`5.1`) are passed over:
//! the words they stand for have lines of their own.

use anyhow::{Context, Result, bail, ensure};

use super::source::Lines;
use super::{Content, Head, Sentence, Word};
use crate::observe::dependency::{ALL, base};

/// ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC.
const COLUMNS: usize = 10;

/// Reads the next sentence, or `None` at the end of the corpus.
///
/// # Errors
///
/// If the corpus cannot be read, is not UTF-8, or a line is not CoNLL-U, or the heads do not form a tree;
/// each names the file, the line and the value.
pub(super) fn next(lines: &mut Lines, index: u64) -> Result<Option<Sentence>> {
    let mut words = Vec::new();
    // The line of each word, for errors found only once the sentence is whole.
    let mut origins = Vec::new();
    let mut first_line = None;
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            if first_line.is_some() {
                break;
            }
            continue;
        }
        let parsed = if line.starts_with('#') { Ok(None) } else { word(line, words.len()) };
        let number = lines.number();
        first_line.get_or_insert(number);
        if let Some(word) = parsed.with_context(|| lines.at(number))? {
            words.push(word);
            origins.push(number);
        }
    }
    let Some(line) = first_line else { return Ok(None) };
    if let Err((word, problem)) = check_tree(&words) {
        bail!("{}: {problem}", lines.at(origins[word]));
    }
    Ok(Some(Sentence { index, line, content: Content::Tree(words) }))
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
    ensure!(number(id) == Some(expected), "column 1 (ID) is `{}`: expected {expected}", excerpt(id));
    ensure!(!form.is_empty(), "column 2 (FORM) is empty");
    let head = match head {
        "_" => Head::Unknown,
        "0" => Head::Root,
        _ => match number(head) {
            Some(head) => Head::Word(head - 1),
            None => bail!("column 7 (HEAD) is `{}`: expected a word's number, 0 or _", excerpt(head)),
        },
    };
    ensure!(!relation.is_empty(), "column 8 (DEPREL) is empty");
    let attached = matches!(head, Head::Word(_));
    ensure!(!attached || relation != "_", "column 8 (DEPREL) is `_`: a word with a head has a relation to it");
    ensure!(base(relation) != ALL, "column 8 (DEPREL) is `{}`: that name stands for all relations", excerpt(relation));
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

/// Checks that heads are in range and lead to a root; the error names the word and the problem.
fn check_tree(words: &[Word]) -> Result<(), (usize, String)> {
    let next = |word: usize| match words[word].head {
        Head::Word(head) => Some(head),
        Head::Root | Head::Unknown => None,
    };
    for word in 0..words.len() {
        if let Some(head) = next(word).filter(|&head| head >= words.len()) {
            let (head, last) = (head + 1, words.len());
            return Err((word, format!("column 7 (HEAD) is {head}, but the sentence has {last} words")));
        }
    }
    // For each word the walk that met it first: a walk that meets itself has found a cycle.
    let mut met_by = vec![None; words.len()];
    for start in 0..words.len() {
        let mut at = Some(start);
        while let Some(word) = at {
            if met_by[word] == Some(start) {
                return Err((word, format!("the heads form a cycle: {}", cycle(word, next))));
            }
            if met_by[word].is_some() {
                break;
            }
            met_by[word] = Some(start);
            at = next(word);
        }
    }
    Ok(())
}

/// `2 -> 5 -> 2`: the heads from `word` until it comes back.
fn cycle(word: usize, next: impl Fn(usize) -> Option<usize>) -> String {
    let mut shown = vec![(word + 1).to_string()];
    let mut at = next(word);
    while let Some(other) = at {
        shown.push((other + 1).to_string());
        at = next(other).filter(|_| other != word);
    }
    shown.join(" -> ")
}

/// The beginning of a value, short enough for an error message, control characters made visible.
fn excerpt(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Format};
    use super::*;

    /// `FORM HEAD DEPREL` per word, filled up to ten columns.
    fn line(id: &str, form: &str, head: &str, relation: &str) -> String {
        format!("{id}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n")
    }

    fn read(text: &str) -> Result<Vec<Sentence>> {
        Corpus::new("test.conllu", Box::new(std::io::Cursor::new(text.to_owned())), Format::Conllu, None).collect()
    }

    fn words(text: &str) -> Vec<(String, Head)> {
        match read(text).unwrap().remove(0).content {
            Content::Tree(words) => words.into_iter().map(|word| (word.form, word.head)).collect(),
            Content::Text(_) => panic!("CoNLL-U has trees"),
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
        let expected =
            [("vamos".to_owned(), Head::Root), ("nos".to_owned(), Head::Word(0)), ("mar".to_owned(), Head::Unknown)];
        assert_eq!(words(&text.concat()), expected);
    }

    #[test]
    fn line_ends_byte_order_mark_and_last_line_do_not_matter() {
        let plain = format!("# one\n{}\n{}", line("1", "Go", "0", "root"), line("1", "Stop", "0", "root"));
        let odd = format!("\u{feff}{}", plain.trim_end().replace('\n', "\r\n"));
        let expected = read(&plain).unwrap();
        assert_eq!(expected.len(), 2);
        assert_eq!((expected[0].line, expected[1].line, expected[1].index), (1, 4, 1));
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
            (line("1", "Go", "1", "dep"), "test.conllu:1: the heads form a cycle: 1 -> 1"),
            (
                format!("{}{}{root}", line("1", "a", "2", "dep"), line("2", "b", "1", "dep")).replace("1\tGo", "3\tGo"),
                "test.conllu:1: the heads form a cycle: 1 -> 2 -> 1",
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
