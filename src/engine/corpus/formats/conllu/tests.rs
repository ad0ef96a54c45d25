use super::*;
use crate::corpus::{Corpus, Format, Sentence};

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
        (line("1", "Go", "2", "_"), "test.conllu:1: column 8 (DEPREL) is `_`: a word with a head has a relation to it"),
        (
            line("1", "Go", "0", "all:x"),
            "test.conllu:1: column 8 (DEPREL) is `all:x`: that name stands for all relations",
        ),
        (
            format!("{root}{}", line("2", "on", "7", "obl")),
            "test.conllu:2: column 7 (HEAD) is 7, but the sentence has 2 words",
        ),
        (line("1", "Go", "1", "dep"), "test.conllu:1: column 7 (HEAD) is 1, the word itself: the head of a root is 0"),
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
fn only_two_numbers_are_a_range_or_an_empty_node() {
    for id in ["1-x", "x-2", "1.", ".1", "1-"] {
        assert_eq!(error(&line(id, "a", "0", "root")), format!("test.conllu:1: column 1 (ID) is `{id}`: expected 1"));
    }
}

/// `FORM MISC` per line, filled up.
fn written(text: Option<&str>, lines: &[(&str, &str, &str)]) -> (String, Vec<String>, bool) {
    let comment = text.map_or_else(String::new, |text| format!("# text = {text}\n"));
    let line = |(id, form, misc): &(&str, &str, &str)| format!("{id}\t{form}\t_\t_\t_\t_\t_\t_\t_\t{misc}\n");
    let lines: String = lines.iter().map(line).collect();
    let written = read(&format!("{comment}{lines}")).unwrap().remove(0).written.unwrap();
    let words = written.word_ranges.iter().map(|word| written.text[word.clone()].to_owned()).collect();
    (written.text, words, written.space_after)
}

#[test]
fn the_text_is_the_comment_or_what_the_lines_say() {
    let lines = [
        ("1", "I", "_"),
        ("2-3", "didn't", "_"),
        ("2", "did", "SpaceAfter=No"),
        ("3", "n't", "_"),
        ("4", "go", "SpaceAfter=No"),
        ("5", ",", "Gloss=x|SpaceAfter=No"),
        ("5.1", "so", "_"),
        ("6", "sorry", "SpaceAfter=No"),
    ];
    let words = ["I", "did", "n't", "go", ",", "sorry"].map(str::to_owned).to_vec();
    assert_eq!(written(None, &lines), ("I didn't go,sorry".to_owned(), words.clone(), false));
    assert_eq!(written(Some("I didn't go, sorry"), &lines), ("I didn't go, sorry".to_owned(), words.clone(), false));
    // A comment that is of another sentence says nothing.
    assert_eq!(written(Some("He didn't go, sorry"), &lines), ("I didn't go,sorry".to_owned(), words, false));
    let german = [("1-2", "Zum", "_"), ("1", "zu", "_"), ("2", "dem", "_"), ("3", "Haus", "_")];
    let words = ["Zu", "m", "Haus"].map(str::to_owned).to_vec();
    assert_eq!(written(None, &german), ("Zum Haus".to_owned(), words, true));
    // A treebank whose texts were taken out has underscores; the words then stand for themselves.
    let unknown = [("1-2", "_", "SpaceAfter=No"), ("1", "zu", "_"), ("2", "dem", "_")];
    assert_eq!(written(None, &unknown), ("zu dem".to_owned(), ["zu", "dem"].map(str::to_owned).to_vec(), true));
}

#[test]
fn a_multiword_token_stands_before_its_words() {
    let (first, second) = (line("1", "Go", "0", "root"), line("2", "on", "1", "obl"));
    let range = |id: &str| line(id, "Goon", "_", "_");
    let hint = ": put the line of a multiword token before the lines of its words";
    for (text, expected) in [
        (
            format!("{}{first}", range("2-3")),
            format!("test.conllu:1: column 1 (ID) is `2-3`: expected a range from 1 on{hint}"),
        ),
        (
            format!("{}{first}", range("1-0")),
            format!("test.conllu:1: column 1 (ID) is `1-0`: expected a range from 1 on{hint}"),
        ),
        (
            format!("{}{first}{}{second}", range("1-2"), range("2-3")),
            format!("test.conllu:3: column 1 (ID) is `2-3`: expected a range from 2 on{hint}"),
        ),
        (
            format!("{}{first}{second}", range("1-4")),
            "test.conllu:3: a multiword token ends with word 4, and the sentence with word 2".to_owned(),
        ),
    ] {
        assert_eq!(error(&text), expected);
    }
}

#[test]
fn a_line_break_in_a_form_is_told() {
    let text = format!("{}2\t\n\t\n\tSPACE\t_\t_\t1\tdep\t_\t_\n", line("1", "Go", "0", "root"));
    assert_eq!(
        error(&text),
        "test.conllu:2: the line ends after column 1, within a word: `2\\t`: a form or lemma that is a line break has cut it: \
         leave that token out, or write it as `_`"
    );
}

/// Whether sentences follow the one before without white space: never the first of a file or of a segment.
#[test]
fn sentences_may_be_glued() {
    let sentence = |misc: &str| format!("1\tGo\t_\t_\t_\t_\t_\t_\t_\t{misc}\n\n");
    let text: String = (0..258).map(|index| sentence(if index == 1 { "_" } else { "SpaceAfter=No" })).collect();
    let glued: Vec<u64> =
        read(&text).unwrap().iter().filter(|sentence| sentence.follows_without_space).map(|s| s.index).collect();
    let expected: Vec<u64> = (1..258).filter(|index| ![2, 256].contains(index)).collect();
    assert_eq!(glued, expected);
}

#[test]
fn a_byte_order_mark_is_one_at_the_beginning_alone() {
    let text = format!("\u{feff}{}\u{feff}{}", line("1", "a", "0", "root"), line("2", "b", "1", "dep"));
    assert_eq!(
        error(&text),
        "test.conllu:2: column 1 (ID) is `\u{feff}2`: expected 2".replace('\u{feff}', "\\u{feff}")
    );
}

#[test]
fn messages_show_the_beginning_of_long_values_and_cycles() {
    let shown = |length: usize| error(&line(&"x".repeat(length), "a", "0", "root"));
    let ring = |words: usize| -> String {
        (1..=words).map(|id| line(&id.to_string(), "a", &(id % words + 1).to_string(), "dep")).collect()
    };
    let errors = [shown(60), shown(61), error(&ring(11)), error(&ring(12))];
    insta::assert_snapshot!(errors.join("\n"), @"
    test.conllu:1: column 1 (ID) is `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`: expected 1
    test.conllu:1: column 1 (ID) is `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...`: expected 1
    test.conllu:1: column 7 (HEAD) leads into a cycle: 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 10 -> 11 -> 1
    test.conllu:1: column 7 (HEAD) leads into a cycle: 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 10 -> 11 -> 12 -> ...
    ");
}

#[test]
fn a_long_chain_is_no_cycle() {
    let chain: String = (1..=20_000).map(|id| line(&id.to_string(), "x", &(id - 1).to_string(), "dep")).collect();
    assert_eq!(words(&chain).len(), 20_000);
}
