//! Corpora as a user names them: formats, compression, several, folders; and readers that take any bytes.

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use headscope::corpus::{
    Compression, Content, Corpus, FileKind, Format, Input, MAX_LINE_BYTES, Sentence, TreeHead, Word,
};
use proptest::prelude::*;
use serde_json::json;
use support::{analyze, fixture, path, run, tiny_bert};
use tempfile::TempDir;

fn word(form: &str, head: TreeHead, relation: &str) -> Word {
    Word::new(form, head, relation)
}

fn conllu(words: &[Word]) -> String {
    let line = |(position, word): (usize, &Word)| {
        let head = match word.head {
            TreeHead::Root => "0".to_owned(),
            TreeHead::Word(head) => (head + 1).to_string(),
            TreeHead::Unknown => "_".to_owned(),
        };
        format!("{}\t{}\t_\t_\t_\t_\t{head}\t{}\t_\t_\n", position + 1, word.form, word.relation)
    };
    words.iter().enumerate().map(line).collect::<String>() + "\n"
}

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
    });
    format!("{line}\n")
}

fn read(text: impl Into<Vec<u8>>, format: Format) -> Vec<Sentence> {
    Corpus::from_bytes("in memory", text.into(), format).map(Result::unwrap).collect()
}

fn error(text: impl Into<Vec<u8>>, format: Format) -> String {
    let mut corpus = Corpus::from_bytes("in memory", text.into(), format);
    let error = corpus.find_map(Result::err).expect("an error");
    assert!(corpus.next().is_none(), "a corpus ends after its first error");
    format!("{error:#}")
}

fn contents(sentences: Vec<Sentence>) -> Vec<Content> {
    sentences.into_iter().map(|sentence| sentence.content).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 0).unwrap()
}

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn open(paths: &[&Path], format: Option<Format>) -> Result<Corpus, String> {
    let inputs: Result<Vec<Input>, String> = paths.iter().map(|path| Input::parse(path, format)).collect();
    Corpus::open(&inputs?).map_err(|error| format!("{error:#}"))
}

fn texts(corpus: Corpus) -> Vec<(u64, String, String)> {
    corpus
        .map(|sentence| {
            let Sentence { index, origin, content } = sentence.unwrap();
            let text = match content {
                Content::Text(text) => text,
                Content::Words(words) => words.iter().map(|word| word.form.as_str()).collect::<Vec<_>>().join(" "),
            };
            let name = Path::new(&*origin.path).file_name().unwrap().to_string_lossy().into_owned();
            (index, format!("{name}:{}", origin.line), text)
        })
        .collect()
}

#[test]
fn json_lines_say_what_conllu_says() {
    let text = concat!(
        r#"{"text": "Go home."}"#,
        "\n\n",
        r#"{"words": ["Go", "home"], "heads": [0, 1], "relations": ["root", "advmod"], "id": {"n": [1]}}"#,
        "\r\n",
        r#"{"words": ["Go", ""]}"#,
        "\n",
        r#"{"text": "passed over", "words": ["kept"], "heads": [null], "relations": [null]}"#,
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
fn json_lines_that_are_none() {
    let cases = [
        ("[1]", "a line is an object with `words` or `text`: `[1]`"),
        ("{", "not a sentence in JSON: EOF while parsing an object at column 1: `{`"),
        (
            r#"{"words": "a b"}"#,
            r#"not a sentence in JSON: invalid type: string "a b", expected a sequence at column 15: `{"words": "a b"}`"#,
        ),
        (
            r#"{"text": "a", "text": "b"}"#,
            r#"not a sentence in JSON: duplicate field `text` at column 20: `{"text": "a", "text": "b"}`"#,
        ),
        (r#"{"sentence": "a"}"#, r#"there is neither `words` nor `text`: `{"sentence": "a"}`"#),
        (r#"{"text": "a", "heads": [0]}"#, "`heads` and `relations` are of `words`, and there are none"),
        (r#"{"words": ["a"], "heads": [0]}"#, "`heads` and `relations` come together"),
        (r#"{"words": ["a"], "heads": [0, 1], "relations": ["root"]}"#, "`heads` has 2 entries for 1 words"),
        (
            r#"{"words": ["a", "b"], "heads": [0, 3], "relations": ["root", "obj"]}"#,
            "word 2: its head is 3, but the sentence has 2 words",
        ),
        (
            r#"{"words": ["a", "b"], "heads": [2, 1], "relations": ["obj", "obj"]}"#,
            "word 1: its head leads into a cycle: 1 -> 2 -> 1",
        ),
        (
            r#"{"words": ["a", "b"], "heads": [0, 1], "relations": ["root", null]}"#,
            "word 2: its relation is `_`: a word with a head has a relation to it",
        ),
        (
            r#"{"words": ["a"], "heads": [0], "relations": ["all"]}"#,
            "word 1: its relation is `all`: that name stands for all relations",
        ),
        (r#"{"words": ["a"], "heads": [0], "relations": [""]}"#, "word 1: its relation is empty"),
    ];
    for (line, expected) in cases {
        assert_eq!(error(format!("{{\"text\": \"a\"}}\n{line}\n"), Format::Jsonl), format!("in memory:2: {expected}"));
    }
    let negative = error(r#"{"words": ["a"], "heads": [-1], "relations": ["root"]}"#, Format::Jsonl);
    assert!(negative.starts_with("in memory:1: not a sentence in JSON: invalid value: integer `-1`"), "{negative}");
    let deep = error("[".repeat(1 << 20), Format::Jsonl);
    assert!(deep.starts_with("in memory:1: a line is an object with `words` or `text`: `[[["), "{deep}");
    let nested = error(format!("{{\"other\": {}", "[".repeat(1 << 20)), Format::Jsonl);
    assert!(nested.contains("EOF while parsing a list"), "{nested}");
}

#[test]
fn conllu_plus_is_refused() {
    assert_eq!(
        error("# global.columns = ID FORM HEAD\n1\tGo\t0\n", Format::Conllu),
        "in memory:1: this is CoNLL-U Plus (`# global.columns = ID FORM HEAD`), which is not read: convert it to the ten \
         columns of CoNLL-U"
    );
    let files = folder(&[("a.conllup", b"")]);
    let error = Input::parse(&files.path().join("a.conllup"), None).unwrap_err();
    assert!(error.ends_with("a.conllup` by its extension: say --format conllu, text or jsonl"), "{error}");
}

#[test]
fn a_line_is_bounded() {
    // The line end counts: MAX_LINE_BYTES just fit.
    let mut text = vec![b'a'; MAX_LINE_BYTES - 1];
    text.push(b'\n');
    assert_eq!(read(text.clone(), Format::Text).len(), 1);
    text.insert(0, b'a');
    assert_eq!(
        error(text, Format::Text),
        "in memory:1: the line has more than 16777216 bytes: a corpus has a sentence or a word to a line"
    );
}

#[test]
fn several_corpora_are_one_numbered_through() {
    let tree = conllu(&[word("Go", TreeHead::Root, "root"), word("home", TreeHead::Word(0), "advmod")]);
    let files = folder(&[
        ("b.conllu", tree.as_bytes()),
        ("a.txt", b"one\n\ntwo\n"),
        ("c.jsonl.gz", &gzip(b"{\"text\": \"three\"}\n")),
        ("d.TXT.ZST", &zstd(b"four")),
    ]);
    let file = |name: &str| files.path().join(name);
    let named = [file("b.conllu"), file("a.txt"), file("c.jsonl.gz"), file("d.TXT.ZST")];
    let expected = [
        (0, "b.conllu:1", "Go home"),
        (1, "a.txt:1", "one"),
        (2, "a.txt:3", "two"),
        (3, "c.jsonl.gz:1", "three"),
        (4, "d.TXT.ZST:1", "four"),
    ]
    .map(|(index, at, text)| (index, at.to_owned(), text.to_owned()));
    let named: Vec<&Path> = named.iter().map(PathBuf::as_path).collect();
    assert_eq!(texts(open(&named, None).unwrap()), expected);
}

#[test]
fn gzip_members_and_zstd_frames_follow_one_another() {
    let files = folder(&[
        ("a.txt.gz", &[gzip(b"one\n"), gzip(b"two\n")].concat()),
        ("b.txt.zst", &[zstd(b"three\n"), zstd(b"four\n")].concat()),
    ]);
    let read: Vec<String> = texts(open(&[files.path()], None).unwrap()).into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(read, ["one", "two", "three", "four"]);
}

#[test]
fn a_corpus_may_be_in_the_program() {
    static BYTES: &[u8] = b"one\ntwo\n";
    let kind = FileKind { format: Format::Text, compression: Compression::None };
    let corpus = Corpus::open(&[Input::Embedded("box.txt", BYTES, kind)]).unwrap();
    assert_eq!((corpus.name(), corpus.bytes()), ("box.txt", Some(8)));
    let expected = [(0, "box.txt:1", "one"), (1, "box.txt:2", "two")];
    assert_eq!(texts(corpus), expected.map(|(index, at, text)| (index, at.to_owned(), text.to_owned())));
}

#[test]
#[cfg(unix)]
fn a_pipe_is_read_where_a_file_is_named() {
    let model = tiny_bert();
    let command = ["analyze", path(&model), "-c", "/dev/stdin", "--format", "text", "-o", "-"];
    let output = support::headscope(&command).write_stdin("the dog\nthe cat\n").output().unwrap();
    let report: serde_json::Value = serde_json::from_str(&support::outcome(&output).unwrap()).unwrap();
    assert_eq!(report["corpus"]["sentences"], 2);
}

#[test]
fn damaged_compression_names_the_file() {
    let long: Vec<u8> = (0..20_000).flat_map(|number| format!("sentence {number}\n").into_bytes()).collect();
    for (name, whole) in [("a.txt.gz", gzip(&long)), ("a.txt.zst", zstd(&long))] {
        let files = folder(&[(name, &whole[..whole.len() / 2])]);
        let file = files.path().join(name);
        let error = open(&[&file], None).unwrap().find_map(Result::err).expect("an error");
        let error = format!("{error:#}");
        assert!(error.starts_with(&format!("{} is cut short after line ", file.display())), "{error}");
    }
    for bytes in [gzip(b"one\n"), zstd(b"one\n")] {
        assert_eq!(
            error(bytes, Format::Text),
            "in memory:1: these are compressed bytes: the file's name must end in .gz or .zst, standard input is to be \
             decompressed first"
        );
    }
}

#[test]
fn a_folder_is_its_corpus_files_by_name() {
    let files = folder(&[
        ("b.txt", b"b\n"),
        ("a.txt.gz", &gzip(b"a\n")),
        ("C.jsonl", b"{\"text\": \"c\"}\n"),
        ("README.md", b"no sentence"),
        (".hidden.txt", b"no sentence"),
    ]);
    fs::create_dir(files.path().join("inner.txt")).unwrap();
    let corpus = open(&[files.path()], None).unwrap();
    assert_eq!(corpus.name(), files.path().file_name().unwrap().to_str().unwrap());
    let read: Vec<String> = texts(corpus).into_iter().map(|(_, at, _)| at).collect();
    // Capital letters come first in the order of bytes.
    assert_eq!(read, ["C.jsonl:1", "a.txt.gz:1", "b.txt:1"]);
    let identity = open(&[files.path()], None).unwrap().into_identity().unwrap();
    assert_eq!((identity.files.len(), identity.passed_over), (3, 3));

    let identity = open(&[files.path()], Some(Format::Jsonl)).unwrap().into_identity().unwrap();
    assert_eq!((identity.files.len(), identity.passed_over), (1, 5));
    let none = open(&[files.path()], Some(Format::Conllu)).err().unwrap();
    assert_eq!(
        none,
        format!(
            "corpus folder `{}` has no file whose extension is one of .conllu, .conll (also with .gz or .zst): it has 6 \
             other files or folders, and folders within a folder are not looked into",
            files.path().display()
        )
    );
}

#[test]
fn nothing_is_read_twice() {
    let files = folder(&[("a.txt", b"one\n")]);
    let file = files.path().join("a.txt");
    for paths in [[file.as_path(), &files.path().join("./a.txt")], [files.path(), &file]] {
        let error = open(&paths, None).err().unwrap();
        assert!(error.contains("a.txt` is given twice"), "{error}");
    }
    let error = open(&[Path::new("-"), Path::new("-")], Some(Format::Text)).err().unwrap();
    assert_eq!(error, "standard input is given twice: its sentences count once");
}

#[test]
fn hashes_are_of_the_files_as_they_are_stored() {
    use sha2::{Digest, Sha256};

    let long = "sentence\n".repeat(100_000);
    for (name, bytes) in [
        ("a.txt", long.clone().into_bytes()),
        ("a.txt.gz", gzip(long.as_bytes())),
        ("a.txt.zst", zstd(long.as_bytes())),
    ] {
        let files = folder(&[(name, &bytes)]);
        let expected = headscope::system::digest::hex(&Sha256::digest(&bytes));
        for read in [0, 1, 100_000] {
            let mut corpus = open(&[&files.path().join(name)], None).unwrap();
            assert_eq!(corpus.by_ref().take(read).count(), read);
            assert_eq!(corpus.into_identity().unwrap().files[0].sha256, expected, "{name} after {read} sentences");
        }
    }
}

#[test]
fn a_report_lists_its_files() {
    let tree = conllu(&[word("the", TreeHead::Word(1), "det"), word("dog", TreeHead::Root, "root")]);
    let partly = conllu(&[word("the", TreeHead::Unknown, "_"), word("dog", TreeHead::Root, "root")]);
    let long = format!("the cat\n{}\n", "dog ".repeat(200));
    let files = folder(&[
        ("a.conllu", format!("{tree}{partly}").as_bytes()),
        ("b.txt.gz", &gzip(long.as_bytes())),
        ("c.jsonl", b"{\"words\": [\"the\", \"dog\"]}\n"),
        ("notes.md", b""),
    ]);
    let report = analyze(files.path(), &["--min-count", "1"]);
    let corpus = &report["corpus"];
    assert_eq!(corpus["name"], files.path().file_name().unwrap().to_str().unwrap());
    let counts = |what: &serde_json::Value| ["sentences", "words", "tokens"].map(|key| what[key].as_u64().unwrap());
    // [CLS] the dog [SEP]: four tokens each.
    assert_eq!(counts(corpus), [4, 8, 16]);
    assert_eq!((corpus["unannotated"].as_u64(), corpus["passed_over"].as_u64()), (Some(2), Some(1)));
    let expected =
        [("a.conllu", "conllu", [2, 4, 8], 0), ("b.txt.gz", "text", [1, 2, 4], 1), ("c.jsonl", "jsonl", [1, 2, 4], 0)];
    for (file, (name, format, numbers, skipped)) in corpus["files"].as_array().unwrap().iter().zip(expected) {
        assert_eq!((file["name"].as_str(), file["format"].as_str()), (Some(name), Some(format)));
        assert_eq!(counts(file), numbers);
        assert_eq!(file["skipped"], skipped);
    }
    // Sentences are numbered through: a limit ends in the second file, and the third is hashed all the same.
    let limited = analyze(files.path(), &["--limit", "3"]);
    assert_eq!(limited["corpus"]["sentences"], 3);
    assert_eq!(limited["corpus"]["files"][2]["sentences"], 0);
    assert_eq!(limited["corpus"]["files"][2]["sha256"], corpus["files"][2]["sha256"]);
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
fn the_summary_lists_several_files() {
    let files = folder(&[("a.txt", b"the dog\n"), ("b.txt", b"the cat left\n"), ("c.md", b"")]);
    let (model, file) = (tiny_bert(), files.path().join("a.txt"));
    let name = files.path().file_name().unwrap().to_str().unwrap();
    let summary = run(&["analyze", path(&model), "-c", path(files.path())]).unwrap();
    let expected = format!(
        "\ncorpus  {name}: 2 sentences, 5 words, 9 tokens\n        a.txt (text): 1 sentences, 2 words, 4 tokens\n        \
         b.txt (text): 1 sentences, 3 words, 5 tokens\n"
    );
    assert!(summary.contains(&expected), "{summary}");
    assert!(summary.ends_with("\nIn the folders, files and folders that are no corpus files: 1.\n"), "{summary}");
    let summary = run(&["analyze", path(&model), "-c", path(&file)]).unwrap();
    assert!(summary.contains("\ncorpus  a.txt: 1 sentences, 2 words, 4 tokens\n\n"), "{summary}");
}

#[test]
fn maps_take_the_same_corpora() {
    let files = folder(&[("a.txt", b"the dog\n"), ("b.jsonl.gz", &gzip(b"{\"words\": [\"the\", \"cat\"]}\n"))]);
    let (model, output) = (tiny_bert(), files.path().join("maps.safetensors"));
    let (a, b) = (files.path().join("a.txt"), files.path().join("b.jsonl.gz"));
    let arguments = ["maps", path(&model), "-c", path(&a), "-c", path(&b), "--sentence", "1", "-o", path(&output)];
    run(&arguments).unwrap();
    let bytes = fs::read(&output).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["tokens.1"], r#"["[CLS]","the","cat","[SEP]"]"#);
}

#[test]
fn strict_turns_the_first_skip_into_a_failure() {
    let files = folder(&[("a.txt", b"the dog\n"), ("b.txt", b"\nthe cat\nthe dog and the cat\n\xe2\x80\x8b\n")]);
    let (model, output) = (tiny_bert(), files.path().join("report.json"));
    let folder = path(files.path());
    let analyze = ["analyze", path(&model), "-c", folder, "--strict", "--max-tokens", "6", "-o", path(&output)];
    let maps_output = files.path().join("maps.safetensors");
    let maps = ["maps", path(&model), "-c", folder, "--strict", "--max-tokens", "6", "-o", path(&maps_output)];
    for arguments in [analyze, maps] {
        let (status, message) = run(&arguments).unwrap_err();
        assert_eq!(
            (status, message.replace(folder, "DIR")),
            (
                1,
                "error: DIR/b.txt:3: sentence 2 would be skipped, it is one with more tokens than the limit (--strict)\n"
                    .to_owned()
            )
        );
    }
    assert!(!output.exists() && !maps_output.exists());
    let report = support::analyze(&files.path().join("a.txt"), &["--strict"]);
    assert_eq!(report["corpus"]["sentences"], 1);
}

#[test]
fn outputs_do_not_overlap() {
    let files = folder(&[("a.json", b"{\"text\": \"the dog\"}\n")]);
    let (model, corpus) = (tiny_bert(), files.path().join("a.json"));
    let gold = fixture("corpus/gold.conllu");
    let dotted = files.path().join("./b.json");
    let twice = run(&[
        "analyze",
        path(&model),
        "-c",
        path(&gold),
        "-o",
        path(&files.path().join("b.json")),
        "-o",
        path(&dotted),
    ]);
    let (status, message) = twice.unwrap_err();
    assert_eq!(status, 2);
    assert!(message.contains("the same output is given twice: `"), "{message}");
    let over = files.path().join("../").join(files.path().file_name().unwrap()).join("a.json");
    let over = run(&["analyze", path(&model), "-c", path(&corpus), "--format", "jsonl", "-o", path(&over)]);
    let (status, message) = over.unwrap_err();
    assert_eq!(status, 2);
    assert!(message.contains("is also a corpus: it would be overwritten"), "{message}");
    assert_eq!(fs::read(&corpus).unwrap(), b"{\"text\": \"the dog\"}\n");
}

/// Words that a format can hold, and a tree over them: each word's head comes before it, so there is no cycle.
fn trees(form: &'static str) -> impl Strategy<Value = Vec<Word>> {
    let relation = prop::sample::select(vec!["nsubj", "obl:tmod", "punct", "dep"]);
    prop::collection::vec((form, any::<prop::sample::Index>(), relation), 1..12).prop_map(|words| {
        let attach = |(position, (form, head, relation)): (usize, (String, prop::sample::Index, &str))| match position {
            0 => word(&form, TreeHead::Root, "root"),
            _ if head.index(7) == 0 => word(&form, TreeHead::Unknown, "_"),
            _ => word(&form, TreeHead::Word(head.index(position)), relation),
        };
        words.into_iter().enumerate().map(attach).collect()
    })
}

/// Bytes that come near to a format: its own pieces, put together at random, and any bytes between them.
fn scraps() -> impl Strategy<Value = Vec<u8>> {
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
    fn readers_take_any_bytes(bytes in scraps()) {
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
    fn what_is_written_as_conllu_is_read_back(trees in prop::collection::vec(trees("[^\\s#][^\\t\\r\\n]{0,8}"), 1..5)) {
        let text: String = trees.iter().map(|words| conllu(words)).collect();
        let expected: Vec<Content> = trees.into_iter().map(Content::Words).collect();
        prop_assert_eq!(contents(read(text.clone(), Format::Conllu)), expected.clone());
        prop_assert_eq!(contents(read(text.trim_end_matches('\n').replace('\n', "\r\n"), Format::Conllu)), expected);
    }

    #[test]
    fn what_is_written_as_json_is_read_back(trees in prop::collection::vec(trees("\\PC{0,8}"), 1..5)) {
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
