//! Corpora as a user names them: several, folders, pipes, links, compression; and what is no corpus.

use crate::support;
use std::fs;
use std::path::{Path, PathBuf};

use crate::corpora::{conllu, error, folder, gzip, open, texts, word, zstd};
use crate::support::answers::Answers;
use crate::support::{analyze, fixture, path, run, tiny_bert};
use headscope::corpus::{Compression, Corpus, FileKind, Format, Input, TreeHead};
use headscope::system::errors::Class;

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
fn compression_that_cannot_be_read_is_said_so() {
    let long: Vec<u8> = (0..20_000).flat_map(|number| format!("sentence {number}\n").into_bytes()).collect();
    let (gz, zst, plain) = (gzip(&long), zstd(&long), &b"the dog and the cat\n"[..]);
    let named = [
        ("cut.txt.gz", &gz[..gz.len() / 2]),
        ("cut.txt.zst", &zst[..zst.len() / 2]),
        ("plain.txt.gz", plain),
        ("plain.txt.zst", plain),
    ];
    let files = folder(&named);
    let mut answers = Answers::within(files.path());
    for (name, _) in named {
        let error = open(&[&files.path().join(name)], None).unwrap().find_map(Result::err).expect("an error");
        answers.said(name, format!("{error:#}").split_inclusive(" after line ").next().unwrap());
    }
    for (name, bytes) in [("gzip in memory", gzip(b"one\n")), ("zstd in memory", zstd(b"one\n"))] {
        answers.said(name, &error(bytes, Format::Text));
    }
    answers.held("corpus-files-compression");
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
    assert_eq!(counted(files.path(), None), (3, 3));
    assert_eq!(counted(files.path(), Some(Format::Jsonl)), (1, 5));
    let mut answers = Answers::within(files.path());
    answers.said("no CoNLL-U", &open(&[files.path()], Some(Format::Conllu)).err().unwrap());
    answers.held("corpus-files-folder");
}

#[test]
fn nothing_is_read_twice() {
    let files = folder(&[("a.txt", b"one\n")]);
    let file = files.path().join("a.txt");
    let mut answers = Answers::within(files.path());
    for (title, paths) in [
        ("a file", [file.as_path(), &files.path().join("./a.txt")]),
        ("a file and its folder", [files.path(), &file]),
        ("the box", [Path::new("box:gold"); 2]),
        ("standard input", [Path::new("-"); 2]),
    ] {
        let format = (title == "standard input").then_some(Format::Text);
        answers.said(title, &open(&paths, format).err().unwrap());
    }
    answers.held("corpus-files-twice");
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
        let expected = headscope::system::files::digest::hex(&Sha256::digest(&bytes));
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
    // A limit takes as many of each file, and all of them are hashed whole.
    let limited = analyze(files.path(), &["--limit", "3"]);
    assert_eq!(limited["corpus"]["sentences"], 3);
    let of_files = |report: &serde_json::Value, key: &str| {
        report["corpus"]["files"].as_array().unwrap().iter().map(|file| file[key].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of_files(&limited, "sentences"), [1, 1, 1]);
    assert_eq!(of_files(&limited, "sha256"), of_files(&report, "sha256"));
}

#[test]
fn a_limit_is_shared_by_files_and_shards_of_it_come_to_the_same_report() {
    // 10 of the first file, which has no more, and 510 of the second: three segments of 256 sentences.
    let lines = |count: usize| "the dog saw the cat\n".repeat(count).into_bytes();
    let files = folder(&[("a.txt", &lines(10)), ("b.txt", &lines(600))]);
    let (folder, model) = (tempfile::tempdir().unwrap(), tiny_bert());
    let file = |name: &str| folder.path().join(name);
    let analyze = |options: &[&str]| {
        let run_on = ["analyze", path(&model), "-c", path(files.path()), "--limit", "520", "--no-run-info", "-q"];
        run(&[&run_on[..], options].concat()).unwrap()
    };
    analyze(&["-o", path(&file("whole.json"))]);
    let whole = fs::read_to_string(file("whole.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let read: Vec<u64> = [0, 1].map(|file| report["corpus"]["files"][file]["sentences"].as_u64().unwrap()).into();
    assert_eq!(read, [10, 510]);
    for shard in ["1/2", "2/2"] {
        analyze(&["--shard", shard, "-o", path(&file(&format!("{}.headscope", &shard[..1])))]);
    }
    let merged = file("merged.json");
    let parts = [file("1.headscope"), file("2.headscope")];
    run(&["merge", path(&parts[0]), path(&parts[1]), "--no-run-info", "-q", "-o", path(&merged)]).unwrap();
    assert_eq!(fs::read_to_string(merged).unwrap(), whole);
    analyze(&["--resume", path(&file("parts")), "-o", path(&file("resumed.json"))]);
    assert_eq!(fs::read_to_string(file("resumed.json")).unwrap(), whole);
}

#[test]
fn the_summary_lists_several_files() {
    let files = folder(&[("a.txt", b"the dog\n"), ("b.txt", b"the cat left\n"), ("c.md", b"")]);
    let (model, file) = (tiny_bert(), files.path().join("a.txt"));
    let name = files.path().file_name().unwrap().to_str().unwrap();
    let mut answers = Answers::new().hiding(name, "FOLDER");
    for (title, corpus) in [("two files", files.path()), ("one file", file.as_path())] {
        let summary = run(&["analyze", "--summary", "full", path(&model), "-c", path(corpus)]).unwrap();
        let (before, after) = summary.split_at(summary.find("Intervals and tests: ").expect("the end of the summary"));
        let corpus = before.lines().find(|line| line.starts_with("corpus "));
        answers.said(title, &format!("{}\n{after}", corpus.unwrap_or_default()));
    }
    answers.held("corpus-files-summary");
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
fn outputs_do_not_overlap() {
    let files = folder(&[("a.json", b"{\"text\": \"the dog\"}\n")]);
    let (model, corpus) = (tiny_bert(), files.path().join("a.json"));
    let gold = fixture("corpus/gold.conllu");
    let dotted = files.path().join("./b.json");
    let name = files.path().file_name().unwrap();
    let mut answers = Answers::new().hiding(name.to_str().unwrap(), "FOLDER").hiding(path(files.path()), "DIR");
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
    answers.refused("an output twice", &twice.unwrap_err());
    let over = files.path().join("../").join(name).join("a.json");
    let over = run(&["analyze", path(&model), "-c", path(&corpus), "--format", "jsonl", "-o", path(&over)]);
    answers.refused("an output over a corpus", &over.unwrap_err());
    answers.held("corpus-files-outputs");
    assert_eq!(fs::read(&corpus).unwrap(), b"{\"text\": \"the dog\"}\n");
}

#[test]
#[cfg(unix)]
fn a_file_of_two_names_is_read_once() {
    let files = folder(&[("a.txt", b"one\n")]);
    let file = |name: &str| files.path().join(name);
    fs::hard_link(file("a.txt"), file("b.txt")).unwrap();
    let mut answers = Answers::within(files.path());
    answers.said("a hard link", &open(&[files.path()], None).err().unwrap());
    fs::remove_file(file("b.txt")).unwrap();
    std::os::unix::fs::symlink("a.txt", file("b.txt")).unwrap();
    answers.said("a symbolic link", &open(&[files.path()], None).err().unwrap());
    answers.held("corpus-files-two-names");
}

#[test]
fn equal_files_are_named() {
    let files = folder(&[("a.txt", b"one\n"), ("b.txt", b"two\n"), ("c.txt", b"one\n"), ("d.txt", b"one\n")]);
    fs::write(files.path().join("e.txt"), "").unwrap();
    fs::write(files.path().join("f.txt"), "").unwrap();
    let identity = open(&[files.path()], None).unwrap().into_identity().unwrap();
    let names: Vec<[&str; 2]> = identity.equal_files().iter().map(|pair| pair.map(|file| file.name.as_str())).collect();
    assert_eq!(names, [["a.txt", "c.txt"], ["a.txt", "d.txt"]]);
}

#[test]
fn a_report_says_that_files_are_equal() {
    let text = b"the cat sat .\n".as_slice();
    let files = folder(&[("a.txt", text), ("b.txt", text)]);
    let report = analyze(files.path(), &[]);
    assert_eq!(report["corpus"]["repeated"], serde_json::json!([["a.txt", "b.txt"]]));
    let caveats = report["caveats"].as_array().unwrap();
    assert!(caveats.iter().any(|caveat| caveat["id"] == "equal-files"), "{caveats:?}");
    let model = tiny_bert();
    let summary = run(&["analyze", "--summary", "full", path(&model), "-c", path(files.path())]).unwrap();
    let mut answers = Answers::new();
    answers.said("the summary", summary.lines().find(|line| line.contains("a.txt and b.txt")).unwrap());
    answers.held("corpus-files-equal");
    fs::remove_file(files.path().join("b.txt")).unwrap();
    assert!(analyze(files.path(), &[])["corpus"].get("repeated").is_none());
}

#[test]
fn a_corpus_that_changes_between_two_readings_is_an_input_that_cannot_be_used() {
    let files = folder(&[("a.txt", b"one\n")]);
    let identity = || open(&[files.path()], None).unwrap().into_identity().unwrap();
    let before = identity();
    // What lies beside it is no part of it.
    fs::write(files.path().join("task.log"), "done\n").unwrap();
    before.ensure_same(&identity()).unwrap();
    fs::write(files.path().join("a.txt"), "two\n").unwrap();
    let error = before.ensure_same(&identity()).unwrap_err();
    assert_eq!(Class::of(&error), Class::Input);
    let mut answers = Answers::new().hiding(files.path().file_name().unwrap().to_str().unwrap(), "FOLDER");
    answers.said("a file that changed", &error.to_string());
    answers.held("corpus-files-changed");
}

/// The files of a folder that are a corpus, and the others.
fn counted(folder: &Path, format: Option<Format>) -> (usize, u64) {
    let corpus = open(&[folder], format).unwrap();
    let passed_over = corpus.ignored_entries();
    (corpus.into_identity().unwrap().files.len(), passed_over)
}

/// A named pipe.
#[cfg(unix)]
fn pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

#[test]
#[cfg(unix)]
fn what_is_no_file_is_passed_over_in_a_folder() {
    use std::os::unix::fs::symlink;

    let files = folder(&[("a.txt", b"one\n"), (".headscope-x1Yz.partial", b""), (".headscope-notes", b"")]);
    pipe(&files.path().join("b.txt"));
    fs::create_dir(files.path().join("c.txt")).unwrap();
    symlink("c.txt", files.path().join("d.txt")).unwrap();
    // The pipe, the folder, the link to it, and the hidden file; not what another run is writing.
    assert_eq!(counted(files.path(), None), (1, 4));
}

#[test]
#[cfg(unix)]
fn links_that_lead_to_no_file_are_said_to_be_links() {
    use std::os::unix::fs::symlink;

    let files = folder(&[]);
    let file = |name: &str| files.path().join(name);
    symlink("nowhere.txt", file("broken.txt")).unwrap();
    symlink("loop", file("loop")).unwrap();
    let mut answers = Answers::within(files.path());
    // Systems number errors differently.
    let mut said = |title: &str, path: &Path| {
        answers.said(title, open(&[path], None).err().unwrap().split(" (os error ").next().unwrap());
    };
    said("to nothing", &file("broken.txt"));
    said("to itself", &file("loop"));
    // A broken link in a folder is a file that is missed.
    said("in a folder", files.path());
    fs::write(file("a.txt"), "one\n").unwrap();
    said("through a file", &file("a.txt/b.txt"));
    answers.held("corpus-files-links");
}

#[test]
#[cfg(unix)]
fn what_can_be_read_only_once_is_not_read_again_nor_without_end() {
    let files = folder(&[("a.txt", b"one\n")]);
    let fifo = files.path().join("b.txt");
    pipe(&fifo);
    assert!(Input::parse(&files.path().join("a.txt"), None).unwrap().can_be_read_again());
    let mut answers = Answers::within(files.path());
    for more in [["--control", "random-init"], ["--preset", "clark2019"]] {
        let (model, file) = (tiny_bert(), files.path().join("a.txt"));
        let arguments = ["analyze", path(&model), "-c", path(&file), "-c", path(&fifo)];
        answers.refused(&more.join(" "), &run(&[&arguments[..], &more].concat()).unwrap_err());
    }
    let endless = run(&["analyze", path(&tiny_bert()), "-c", "/dev/zero", "--format", "text"]);
    answers.refused("a device without end", &endless.unwrap_err());
    answers.held("corpus-files-devices");
}

/// A few bytes that become many are not read to their end.
#[test]
fn compressed_bytes_become_no_more_than_text_does() {
    // Lines of a megabyte of spaces, 80 MB of them.
    let bytes = zstd(&[&[b' '; (1 << 20) - 1][..], b"\n"].concat().repeat(80));
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let files = folder(&[("a.txt.zst", &bytes)]);
    let error = open(&[&files.path().join("a.txt.zst")], None).unwrap().find_map(Result::err).expect("an error");
    let error = format!("{error:#}");
    let (place, reason) = error.split_once(" compressed bytes ").unwrap();
    assert!(place.contains("a.txt.zst:65: "), "{error}");
    let mut answers = Answers::new();
    answers.said("compressed bytes", reason);
    answers.held("corpus-files-many-bytes");
}
