//! Corpus readers: formats, documents, annotations, bounds and arbitrary bytes.

use crate::corpora;
use crate::support;
use std::fs;

use crate::corpora::{conllu, contents, error, folder, gzip, open, read, word, zstd};
use crate::support::answers::Answers;
use crate::support::{analyze, fixture, path, run, tiny_bert};
use headscope::corpus::{
    Annotation, Content, Corpus, Format, Input, MAX_LINE_BYTES, MAX_RELATIONS, MAX_SENTENCE_BYTES, MAX_WORDS, Sentence,
    TreeHead, Upos, Word,
};
use proptest::prelude::*;
use serde_json::json;

fn jsonl(words: &[Word]) -> String {
    let head = |word: &Word| match word.head {
        TreeHead::Root => Some(0),
        TreeHead::Word(head) => Some(head + 1),
        TreeHead::Unknown => None,
    };
    let line = json!({
        "id": 7,
        "words": words.iter().map(|word| &word.form).collect::<Vec<_>>(),
        "heads": words.iter().map(head).collect::<Vec<_>>(),
        "relations": words.iter().map(|word| &word.relation).collect::<Vec<_>>(),
        "upos": words.iter().map(|word| word.annotation.upos.map(Upos::tag)).collect::<Vec<_>>(),
        "lemmas": words.iter().map(|word| &word.annotation.lemma).collect::<Vec<_>>(),
        "feats": words.iter().map(|word| &word.annotation.features).collect::<Vec<_>>(),
    });
    format!("{line}\n")
}

#[test]
fn json_lines_hold_text_or_annotated_words() {
    let text = concat!(
        r#"{"text": "Go home."}"#,
        "\n\n",
        r#"{"words": ["Go", "home"], "heads": [0, 1], "relations": ["root", "advmod"], "id": {"n": [1]}}"#,
        "\r\n",
        r#"{"words": ["Go", ""]}"#,
        "\n",
        r#"{"text": "kept", "words": ["kept"], "heads": [null], "relations": [null]}"#,
    );
    let expected = [
        Content::Text("Go home.".to_owned()),
        Content::Words(vec![word("Go", TreeHead::Root, "root"), word("home", TreeHead::Word(0), "advmod")]),
        Content::Words(vec![word("Go", TreeHead::Unknown, "_"), word("", TreeHead::Unknown, "_")]),
        Content::Words(vec![word("kept", TreeHead::Unknown, "_")]),
    ];
    let sentences = read(format!("\u{feff}{text}"), Format::Jsonl);
    assert_eq!(sentences.iter().map(|sentence| sentence.origin.line).collect::<Vec<_>>(), [1, 3, 4, 5]);
    assert_eq!(contents(sentences), expected);
}

#[test]
fn malformed_json_lines_are_refused() {
    let mut answers = Answers::new();
    for line in [
        "[1]",
        "{",
        r#"{"words": "a b"}"#,
        r#"{"text": "a", "text": "b"}"#,
        r#"{"sentence": "a"}"#,
        r#"{"text": "a", "heads": [0]}"#,
        r#"{"words": ["a"], "heads": [0]}"#,
        r#"{"words": ["a"], "heads": [0,1], "relations": ["root"]}"#,
        r#"{"words": ["a", "b"], "heads": [0,3], "relations": ["root", "obj"]}"#,
        r#"{"words": ["a", "b"], "heads": [2,1], "relations": ["obj", "obj"]}"#,
        r#"{"words": ["a", "b"], "heads": [0,1], "relations": ["root", null]}"#,
        r#"{"words": ["a"], "heads": [0], "relations": ["all"]}"#,
        r#"{"words": ["a"], "heads": [0], "relations": [""]}"#,
        r#"{"words": ["a"], "heads": [-1], "relations": ["root"]}"#,
        r#"{"text": "a", "upos": ["X"]}"#,
        r#"{"words": ["a", "b"], "lemmas": ["a"]}"#,
        r#"{"text": "a", "document": [1]}"#,
    ] {
        answers.said(line, &error(format!("{{\"text\": \"a\"}}\n{line}\n"), Format::Jsonl));
    }
    let deep = "[".repeat(1 << 20);
    answers.said("deep", &error(&*deep, Format::Jsonl));
    answers.said("deep within an object", &error(format!("{{\"other\": {deep}"), Format::Jsonl));
    answers.held("corpus-json-lines");
}

#[test]
fn conllu_plus_is_refused() {
    let files = folder(&[("a.conllup", b"")]);
    let mut answers = Answers::within(files.path());
    answers.said("columns", &error("# global.columns = ID FORM HEAD\n1\tGo\t0\n", Format::Conllu));
    let name_error = Input::parse(&files.path().join("a.conllup"), None).unwrap_err();
    answers.said("a name", &name_error.to_string());
    answers.held("corpus-conllu-plus");
}

/// A sentence of CoNLL-U. Each item has the columns of one word after its ID, separated by spaces.
fn conllu_sentence(words: &[&str]) -> String {
    let line = |(id, columns): (usize, &&str)| format!("{id}\t{}\n", columns.replace(' ', "\t"));
    (1..).zip(words).map(line).collect::<String>() + "\n"
}

#[test]
fn words_are_annotated() {
    let annotated = |upos, lemma: &str, features: Option<&str>, entity: Option<&str>| Annotation {
        upos,
        lemma: Some(lemma.into()),
        features: features.map(Into::into),
        entity: entity.map(Into::into),
        ..Annotation::default()
    };
    let text = [
        "# global.Entity = eid-etype\n",
        &conllu_sentence(&[
            "Dogs dog NOUN NNS Number=Plur|X=Y 2 nsubj _ SpaceAfter=No|Entity=(1-animal|Bridge=3<1",
            // A tag that is not a universal part of speech is left out.
            "bark _ VBP VBP _ 0 root _ XEntity=2",
            // `_` is a lemma only where the form is `_` too.
            "_ _ SYM _ _ 2 punct _ Entity=",
        ]),
        "# global.Entity = etype-eid\n",
        &conllu_sentence(&["Go go VERB _ _ 0 root _ _"]),
    ];
    let sentences = read(text.concat(), Format::Conllu);
    let fields = sentences.iter().map(|sentence| sentence.entity_fields.as_deref()).collect::<Vec<_>>();
    assert_eq!(fields, [Some("eid-etype"), Some("etype-eid")]);
    let words: Vec<Word> = sentences.into_iter().flat_map(corpora::words).collect();
    let actual: Vec<&Annotation> = words.iter().map(|word| &word.annotation).collect();
    let dogs = annotated(Some(Upos::Noun), "dog", Some("Number=Plur|X=Y"), Some("(1-animal"));
    let (underscore, go) = (annotated(Some(Upos::Sym), "_", None, None), annotated(Some(Upos::Verb), "go", None, None));
    assert_eq!(actual, [&dogs, &Annotation::default(), &underscore, &go]);

    let line = r#"{"words": ["a", "b"], "upos": ["DET", "?"], "lemmas": [null, "b"], "feats": ["F=1", null]}"#;
    let actual: Vec<Annotation> =
        read(line, Format::Jsonl).into_iter().flat_map(corpora::words).map(|word| word.annotation).collect();
    let det = Annotation { upos: Some(Upos::Det), features: Some("F=1".into()), ..Annotation::default() };
    assert_eq!(actual, [det, Annotation { lemma: Some("b".into()), ..Annotation::default() }]);
}

#[test]
fn requested_columns_and_keys_are_kept() {
    let asked = ["xpos", "feats.Number", "misc", "misc.Gloss", "ner", "ner.A"].map(str::to_owned);
    let kept = |text: String, format, asked: &[String]| -> Vec<Vec<Option<String>>> {
        let sentences = Corpus::from_bytes("text", text.into_bytes(), format).with_columns(asked);
        let words = sentences.flat_map(|sentence| corpora::words(sentence.unwrap()));
        words
            .map(|word| word.annotation.requested.iter().map(|value| value.as_deref().map(str::to_owned)).collect())
            .collect()
    };
    let text = conllu_sentence(&["a _ _ NNS X=Y|Number=Plur 0 root _ Gloss=b", "b _ _ _ _ 1 dep _ _"]);
    let some = |text: &str| Some(text.to_owned());
    // CoNLL-U has no columns for the last two keys.
    let first = vec![some("NNS"), some("Plur"), some("Gloss=b"), some("b")];
    assert_eq!(kept(text, Format::Conllu, &asked[..4]), [first, vec![None; 4]]);
    let text = r#"{"words": ["a", "b"], "ner": ["A=1", null], "xpos": [7, true], "misc": "no list", "feats": ["Number=Sing", null]}"#;
    let first = vec![some("7"), some("Sing"), None, None, some("A=1"), some("1")];
    let second = vec![some("true"), None, None, None, None, None];
    assert_eq!(kept(text.to_owned(), Format::Jsonl, &asked), [first, second]);
}

#[test]
fn documents_begin_at_the_marks_of_their_format() {
    let documents = |text: &str, format| read(text, format).iter().map(|s| s.document).collect::<Vec<_>>();
    let go = conllu_sentence(&["Go _ _ _ _ 0 root _ _"]);
    let text = ["# newdoc id = a\n", &go, &go, "# newdoc\n# text = b\n", &go, "# newdocument\n", &go].concat();
    assert_eq!(documents(&text, Format::Conllu), [0, 0, 2, 2]);
    assert_eq!(documents("\n\na\nb\n \n\nc\n\n", Format::Text), [0, 0, 2]);
    let json_line = |name: &str| format!("{{\"text\": \"a\"{name}}}\n\n");
    let json_documents =
        |names: &[&str]| documents(&names.iter().map(|name| json_line(name)).collect::<String>(), Format::Jsonl);
    // JSON Lines ignores blank lines.
    assert_eq!(json_documents(&["", "", ""]), [0, 0, 0]);
    let (a, b, one) = (r#", "document": "a""#, r#", "document": "b""#, r#", "document": 1"#);
    assert_eq!(json_documents(&[a, a, b, one, one, "", a]), [0, 0, 2, 3, 3, 5, 6]);
    // Each file begins a document.
    let files = folder(&[("a.txt", b"a\nb\n"), ("b.txt", b"c\nd\n"), ("c.jsonl", b"{\"text\": \"a\"}\n")]);
    let corpus = open(&[files.path()], None).unwrap();
    assert_eq!(corpus.map(|sentence| sentence.unwrap().document).collect::<Vec<_>>(), [0, 0, 2, 2, 4]);
}

/// The family number `n` of each sentence, or `-n - 1` unless it is the first of its family.
fn families(sentences: &[Sentence]) -> Vec<i64> {
    let number = |sentence: &Sentence| i64::try_from(sentence.family.number).unwrap();
    sentences.iter().map(|one| if one.family.is_first { number(one) } else { -number(one) - 1 }).collect()
}

#[test]
fn families_have_names_where_the_format_allows() {
    let word = |form: &str| conllu_sentence(&[&format!("{form} _ _ _ _ 0 root _ _")]);
    let sentence_of_family = |name: &str, form: &str| format!("# family = {name}\n{}", word(form));
    let long = "x".repeat(1 << 20);
    let text = [
        sentence_of_family("a", "one"),
        sentence_of_family("b b", "two"),
        word("three"),
        sentence_of_family("a", "four"),
        word("two"),
        sentence_of_family(&long, "five"),
    ];
    let expected = [0, 1, 2, -1, -2, 3];
    assert_eq!(families(&read(text.concat(), Format::Conllu)), expected);
    let json = |name: &str, text: &str| format!("{{\"text\": \"{text}\"{name}}}\n");
    let (a, b, three) = (r#", "family": "3""#, r#", "family": "b""#, r#", "family": 3"#);
    let text =
        [json(a, "one"), json(b, "two"), json("", "three"), json(three, "four"), json("", "two"), json("", "five")];
    assert_eq!(families(&read(text.concat(), Format::Jsonl)), expected);
    // Text has no family names. Equal sentences form a family across all files.
    let files = folder(&[("a.txt", b"one\ntwo\n"), ("b.txt", b"three\n one\n"), ("c.conllu", word("one").as_bytes())]);
    let corpus = open(&[files.path()], None).unwrap();
    assert_eq!(families(&corpus.map(Result::unwrap).collect::<Vec<_>>()), [0, 1, 2, -1, 3]);
}

#[test]
fn malformed_families_and_generators_are_refused() {
    let word = conllu_sentence(&["Go _ _ _ _ 0 root _ _"]);
    let mut answers = Answers::new();
    for comments in ["# family =\n", "#family\n", "# family = a\n# family = b\n", "# global.generated\n"] {
        answers.said(comments.trim_end(), &error(comments.to_owned() + &word, Format::Conllu));
    }
    let generated = |bytes: usize| format!("# global.generated = {}\n{word}", "x".repeat(bytes));
    assert_eq!(read(generated(256), Format::Conllu).len(), 1);
    answers.said("a long generator", &error(generated(257), Format::Conllu));
    // An equal comment may be repeated.
    assert_eq!(read(format!("# family = a\n# family = a\n{word}"), Format::Conllu).len(), 1);
    let empty = r#"{"text": "a", "family": ""}"#;
    answers.said(empty, &error(empty, Format::Jsonl));
    answers.held("corpus-families");
}

#[test]
fn files_name_their_generator() {
    let word = conllu_sentence(&["Go _ _ _ _ 0 root _ _"]);
    let generated = format!("{word}# global.generated = a grammar\n{word}");
    let files = folder(&[("a.conllu", generated.as_bytes()), ("b.conllu", word.as_bytes())]);
    let mut corpus = open(&[files.path()], None).unwrap();
    assert_eq!(corpus.by_ref().count(), 3);
    let identity = corpus.into_identity().unwrap();
    let generators: Vec<Option<&str>> = identity.files.iter().map(|file| file.generated.as_deref()).collect();
    assert_eq!(generators, [Some("a grammar"), None]);
    assert_eq!((identity.repeats.read, identity.repeats.different, identity.repeats.repeated), (3, 1, 3));
}

#[test]
fn sentences_and_lines_are_bounded() {
    let line = |id: usize, form: &str| format!("{id}\t{form}\t_\t_\t_\t_\t_\t_\t_\t_\n");
    // Each word takes three more bytes: underscores for lemma, features and relation.
    let fits = MAX_SENTENCE_BYTES / 2 - 3;
    let two = |second: usize| line(1, &"a".repeat(fits)) + &line(2, &"b".repeat(second));
    assert_eq!(read(two(fits), Format::Conllu).len(), 1);
    let mut answers = Answers::new();
    answers.said("bytes of CoNLL-U", &error(two(fits + 1), Format::Conllu));
    let json = format!(r#"{{"words": ["a"], "lemmas": ["{}"]}}"#, "a".repeat(MAX_SENTENCE_BYTES));
    answers.said("bytes of JSON", &error(json, Format::Jsonl));

    let words = |count: usize| (1..=count).map(|id| line(id, "a")).collect::<String>();
    assert_eq!(read(words(MAX_WORDS), Format::Conllu).len(), 1);
    answers.said("words of CoNLL-U", &error(words(MAX_WORDS + 1), Format::Conllu));
    let json = json!({ "words": vec!["a"; MAX_WORDS + 1] }).to_string();
    answers.said("words of JSON", &error(json, Format::Jsonl));

    // The line end counts, so a line of exactly `MAX_LINE_BYTES` is read.
    let mut text = vec![b'a'; MAX_LINE_BYTES - 1];
    text.push(b'\n');
    assert_eq!(read(text.clone(), Format::Text).len(), 1);
    text.insert(0, b'a');
    answers.said("a line", &error(text, Format::Text));
    answers.held("corpus-bounds");
}

#[test]
fn relations_are_bounded_over_the_whole_corpus() {
    let relation = |number: usize| format!("1\ta\t_\t_\t_\t_\t0\tr{number}\t_\t_\n\n");
    let text: String = (0..=MAX_RELATIONS).map(relation).collect();
    let one_file_error = error(&*text, Format::Conllu);
    let (before, last) = text.split_at(text.len() - relation(MAX_RELATIONS).len());
    assert_eq!(read(before, Format::Conllu).len(), MAX_RELATIONS);
    let files = folder(&[("a.conllu", before.as_bytes()), ("b.conllu", last.as_bytes())]);
    let of_two = open(&[files.path()], None).unwrap().find_map(Result::err).expect("an error");
    let mut answers = Answers::within(files.path());
    answers.said("one file", &one_file_error);
    answers.said("two files", &format!("{of_two:#}"));
    answers.held("corpus-relations");
}

#[test]
fn one_corpus_in_three_formats_gives_the_same_heads() {
    let gold = fs::read(fixture("corpus/gold.conllu")).unwrap();
    let sentences = &read(gold, Format::Conllu)[..60];
    let words = |sentence: &Sentence| match &sentence.content {
        Content::Words(words) => words.clone(),
        Content::Text(_) => panic!("a treebank"),
    };
    let (tree, json): (String, String) =
        sentences.iter().map(words).map(|words| (conllu(&words), jsonl(&words))).unzip();
    let files = folder(&[
        ("a.conllu", tree.as_bytes()),
        ("a.jsonl", json.as_bytes()),
        ("a.conllu.gz", &gzip(tree.as_bytes())),
        ("a.jsonl.zst", &zstd(json.as_bytes())),
    ]);
    let report = |name: &str| analyze(&files.path().join(name), &["--min-count", "5"]);
    let expected = report("a.conllu");
    for name in ["a.jsonl", "a.conllu.gz", "a.jsonl.zst"] {
        for key in ["heads", "relations", "chance"] {
            assert_eq!(report(name)[key], expected[key], "{key} of {name}");
        }
    }
}

#[test]
fn strict_turns_the_first_skip_into_a_failure() {
    let files = folder(&[("a.txt", b"the dog\n"), ("b.txt", b"\nthe cat\nthe dog and the cat\n\xe2\x80\x8b\n")]);
    let (model, output) = (tiny_bert(), files.path().join("report.json"));
    let folder = path(files.path());
    let analyze = ["analyze", path(&model), "-c", folder, "--strict", "--max-tokens", "6", "-o", path(&output)];
    let maps_output = files.path().join("maps.safetensors");
    let maps = ["maps", path(&model), "-c", folder, "--strict", "--max-tokens", "6", "-o", path(&maps_output)];
    let mut answers = Answers::within(files.path());
    for arguments in [analyze, maps] {
        answers.refused(arguments[0], &run(&arguments).unwrap_err());
    }
    answers.held("corpus-strict");
    assert!(!output.exists() && !maps_output.exists());
    let report = support::analyze(&files.path().join("a.txt"), &["--strict"]);
    assert_eq!(report["corpus"]["sentences"], 1);
}

/// Words that the format can hold, with a tree over them. Each head precedes its word, so there is no cycle.
fn trees(form: &'static str) -> impl Strategy<Value = Vec<Word>> {
    let relation = prop::sample::select(vec!["nsubj", "obl:tmod", "punct", "dep"]);
    prop::collection::vec((form, any::<prop::sample::Index>(), relation, annotations()), 1..12).prop_map(|words| {
        let attach = |(position, (form, head, relation, annotation))| {
            let (form, head, annotation): (String, prop::sample::Index, Annotation) = (form, head, annotation);
            let (head, relation) = match position {
                0 => (TreeHead::Root, "root"),
                _ if head.index(7) == 0 => (TreeHead::Unknown, "_"),
                _ => (TreeHead::Word(head.index(position)), relation),
            };
            Word { annotation, ..word(&form, head, relation) }
        };
        words.into_iter().enumerate().map(attach).collect()
    })
}

fn annotations() -> impl Strategy<Value = Annotation> {
    let text = |pattern| prop::option::of(pattern).prop_map(|text: Option<String>| text.map(Into::into));
    let lemma = text("[^_\\s][^\\t\\r\\n]{0,8}");
    (prop::option::of(prop::sample::select(Upos::ALL.to_vec())), lemma, text("[A-Z]=[a-z]"))
        .prop_map(|(upos, lemma, features)| Annotation { upos, lemma, features, ..Annotation::default() })
}

/// Bytes that resemble a format: its pieces in random order, with arbitrary bytes between them.
fn format_like_bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\n",
        "2\ton\t_\t_\t_\t_\t1\tadvmod\t_\t_",
        "1-2",
        "2.1",
        "\t",
        "_",
        "\n",
        "\r\n",
        "\n\n",
        "# global.columns = ID",
        "#",
        "\u{feff}",
        "0",
        "99999999999999999999",
        "-1",
        "{\"words\": [\"a\", \"b\"]",
        "{\"text\": \"",
        "\"}",
        ", \"heads\": [0, 1]",
        ", \"relations\": [\"root\", \"obj\"]}",
        "null",
        "[",
        "]",
        "}",
        "\\ud800",
        "1e999",
        "\u{0}",
        "all:",
        "é",
    ];
    let piece = prop_oneof![
        4 => prop::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn readers_take_any_bytes(bytes in format_like_bytes()) {
        for format in Format::ALL {
            for (expected, sentence) in Corpus::from_bytes("any", bytes.clone(), format).enumerate() {
                match sentence {
                    Ok(Sentence { index, origin, .. }) => {
                        prop_assert_eq!(index, expected as u64);
                        prop_assert!(origin.line > 0);
                    }
                    Err(error) => prop_assert!(format!("{error:#}").contains("any:"), "{error:#}"),
                }
            }
        }
    }

    #[test]
    fn conllu_round_trips(trees in prop::collection::vec(trees("[^_\\s#][^\\t\\r\\n]{0,8}"), 1..5)) {
        let text: String = trees.iter().map(|words| conllu(words)).collect();
        let expected: Vec<Content> = trees.into_iter().map(Content::Words).collect();
        prop_assert_eq!(contents(read(text.clone(), Format::Conllu)), expected.clone());
        prop_assert_eq!(contents(read(text.trim_end_matches('\n').replace('\n', "\r\n"), Format::Conllu)), expected);
    }

    #[test]
    fn json_lines_round_trip(trees in prop::collection::vec(trees("\\PC{0,8}"), 1..5)) {
        let text: String = trees.iter().map(|words| jsonl(words)).collect();
        prop_assert_eq!(contents(read(text, Format::Jsonl)), trees.into_iter().map(Content::Words).collect::<Vec<_>>());
    }

    #[test]
    fn compression_changes_nothing(lines in prop::collection::vec("[^\\r\\n]{0,40}", 0..40)) {
        let text = lines.join("\n");
        let files = folder(&[("a.txt.gz", &gzip(text.as_bytes())), ("a.txt.zst", &zstd(text.as_bytes()))]);
        let expected = contents(read(text, Format::Text));
        for name in ["a.txt.gz", "a.txt.zst"] {
            let corpus = open(&[&files.path().join(name)], None).unwrap();
            prop_assert_eq!(contents(corpus.map(Result::unwrap).collect()), expected.clone());
        }
    }
}
