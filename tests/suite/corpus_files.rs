//! Corpora on the command line: several files, folders, pipes, links and compression; and inputs that are refused.

use crate::support;
use std::fs;
use std::path::{Path, PathBuf};

use crate::corpora::{conllu, error, folder, gzip, open, texts, word, zstd};
use crate::support::answers::Answers;
use crate::support::{analyze, fixture, path, run, tiny_bert};
use headscope::corpus::{Compression, Corpus, FileKind, Format, Input, TreeHead};
use headscope::system::errors::ErrorClass;

#[test]
fn several_corpora_are_numbered_as_one() {
    let tree = conllu(&[word("Go", TreeHead::Root, "root"), word("home", TreeHead::Word(0), "advmod")]);
    let files = folder(&[
        ("b.conllu", tree.as_bytes()),
        ("a.txt", b"one\n\ntwo\n"),
        ("c.jsonl.gz", &gzip(b"{\"text\": \"three\"}\n")),
        ("d.TXT.ZST", &zstd(b"four")),
    ]);
    let file = |name: &str| files.path().join(name);
    let paths = [file("b.conllu"), file("a.txt"), file("c.jsonl.gz"), file("d.TXT.ZST")];
    let expected = [
        (0, "b.conllu:1", "Go home"),
        (1, "a.txt:1", "one"),
        (2, "a.txt:3", "two"),
        (3, "c.jsonl.gz:1", "three"),
        (4, "d.TXT.ZST:1", "four"),
    ]
    .map(|(index, at, text)| (index, at.to_owned(), text.to_owned()));
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    assert_eq!(texts(open(&paths, None).unwrap()), expected);
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
fn a_corpus_may_be_embedded_in_the_program() {
    static BYTES: &[u8] = b"one\ntwo\n";
    let kind = FileKind { format: Format::Text, compression: Compression::None };
    let corpus = Corpus::open(&[Input::Embedded("box.txt", BYTES, kind)]).unwrap();
    assert_eq!((corpus.name(), corpus.bytes()), ("box.txt", Some(8)));
    let expected = [(0, "box.txt:1", "one"), (1, "box.txt:2", "two")];
    assert_eq!(texts(corpus), expected.map(|(index, at, text)| (index, at.to_owned(), text.to_owned())));
}

#[test]
#[cfg(unix)]
fn a_pipe_may_be_named_as_a_file() {
    let model = tiny_bert();
    let command = ["analyze", path(&model), "-c", "/dev/stdin", "--format", "text", "-o", "-"];
    let output = support::headscope(&command).write_stdin("the dog\nthe cat\n").output().unwrap();
    let report: serde_json::Value = serde_json::from_str(&support::outcome(&output).unwrap()).unwrap();
    assert_eq!(report["corpus"]["sentences"], 2);
}

#[test]
fn unreadable_compression_is_reported() {
    let long: Vec<u8> = (0..20_000).flat_map(|number| format!("sentence {number}\n").into_bytes()).collect();
    let (gz, zst, plain) = (gzip(&long), zstd(&long), &b"the dog and the cat\n"[..]);
    let cases = [
        ("cut.txt.gz", &gz[..gz.len() / 2]),
        ("cut.txt.zst", &zst[..zst.len() / 2]),
        ("plain.txt.gz", plain),
        ("plain.txt.zst", plain),
    ];
    let files = folder(&cases);
    let mut answers = Answers::within(files.path());
    for (name, _) in cases {
        let error = open(&[&files.path().join(name)], None).unwrap().find_map(Result::err).expect("an error");
        answers.said(name, format!("{error:#}").split_inclusive(" after line ").next().unwrap());
    }
    for (name, bytes) in [("gzip in memory", gzip(b"one\n")), ("zstd in memory", zstd(b"one\n"))] {
        answers.said(name, &error(bytes, Format::Text));
    }
    answers.held("corpus-files-compression");
}

#[test]
fn a_folder_is_read_in_the_order_of_file_names() {
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
    // Files are in byte order, so capital letters come first.
    assert_eq!(read, ["C.jsonl:1", "a.txt.gz:1", "b.txt:1"]);
    assert_eq!(count_files(files.path(), None), (3, 3));
    assert_eq!(count_files(files.path(), Some(Format::Jsonl)), (1, 5));
    let mut answers = Answers::within(files.path());
    answers.said("no CoNLL-U", &open(&[files.path()], Some(Format::Conllu)).err().unwrap());
    answers.held("corpus-files-folder");
}

#[test]
fn repeated_inputs_are_refused() {
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
fn hashes_cover_the_stored_bytes() {
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
    let counts =
        |section: &serde_json::Value| ["sentences", "words", "tokens"].map(|key| section[key].as_u64().unwrap());
    // `[CLS] the dog [SEP]`: each sentence has four tokens.
    assert_eq!(counts(corpus), [4, 8, 16]);
    assert_eq!((corpus["unannotated"].as_u64(), corpus["passed_over"].as_u64()), (Some(2), Some(1)));
    let expected =
        [("a.conllu", "conllu", [2, 4, 8], 0), ("b.txt.gz", "text", [1, 2, 4], 1), ("c.jsonl", "jsonl", [1, 2, 4], 0)];
    for (file, (name, format, numbers, skipped)) in corpus["files"].as_array().unwrap().iter().zip(expected) {
        assert_eq!((file["name"].as_str(), file["format"].as_str()), (Some(name), Some(format)));
        assert_eq!(counts(file), numbers);
        assert_eq!(file["skipped"], skipped);
    }
    // A limit takes equally many sentences of each file. Hashes still cover whole files.
    let limited = analyze(files.path(), &["--limit", "3"]);
    assert_eq!(limited["corpus"]["sentences"], 3);
    let file_values = |report: &serde_json::Value, key: &str| {
        report["corpus"]["files"].as_array().unwrap().iter().map(|file| file[key].clone()).collect::<Vec<_>>()
    };
    assert_eq!(file_values(&limited, "sentences"), [1, 1, 1]);
    assert_eq!(file_values(&limited, "sha256"), file_values(&report, "sha256"));
}

#[test]
fn a_limit_is_shared_among_files_and_its_shards_equal_one_run() {
    // The first file has only 10 sentences, so 510 come from the second. That makes three segments of 256 sentences.
    let lines = |count: usize| "the dog saw the cat\n".repeat(count).into_bytes();
    let files = folder(&[("a.txt", &lines(10)), ("b.txt", &lines(600))]);
    let (folder, model) = (tempfile::tempdir().unwrap(), tiny_bert());
    let file = |name: &str| folder.path().join(name);
    let analyze = |options: &[&str]| {
        let common = ["analyze", path(&model), "-c", path(files.path()), "--limit", "520", "--no-run-info", "-q"];
        run(&[&common[..], options].concat()).unwrap()
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
fn maps_reads_several_corpora() {
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
fn overlapping_outputs_are_refused() {
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
fn a_file_with_two_names_is_refused() {
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
fn the_report_names_equal_files() {
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
fn a_corpus_that_changes_between_readings_is_an_input_error() {
    let files = folder(&[("a.txt", b"one\n")]);
    let identity = || open(&[files.path()], None).unwrap().into_identity().unwrap();
    let before = identity();
    // Other files in the folder are not part of the corpus.
    fs::write(files.path().join("task.log"), "done\n").unwrap();
    before.ensure_same(&identity()).unwrap();
    fs::write(files.path().join("a.txt"), "two\n").unwrap();
    let error = before.ensure_same(&identity()).unwrap_err();
    assert_eq!(ErrorClass::from_error(&error), ErrorClass::Input);
    let mut answers = Answers::new().hiding(files.path().file_name().unwrap().to_str().unwrap(), "FOLDER");
    answers.said("a file that changed", &error.to_string());
    answers.held("corpus-files-changed");
}

/// The number of corpus files in a folder, and the number of files passed over.
fn count_files(folder: &Path, format: Option<Format>) -> (usize, u64) {
    let corpus = open(&[folder], format).unwrap();
    let passed_over = corpus.ignored_entries();
    (corpus.into_identity().unwrap().files.len(), passed_over)
}

/// Creates a named pipe.
#[cfg(unix)]
fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

#[test]
#[cfg(unix)]
fn folders_pass_over_everything_but_files() {
    use std::os::unix::fs::symlink;

    let files = folder(&[("a.txt", b"one\n"), (".headscope-x1Yz.partial", b""), (".headscope-notes", b"")]);
    make_pipe(&files.path().join("b.txt"));
    fs::create_dir(files.path().join("c.txt")).unwrap();
    symlink("c.txt", files.path().join("d.txt")).unwrap();
    // Passed over: the pipe, the folder, the link to it and the hidden file. The unfinished output of another run is
    // ignored.
    assert_eq!(count_files(files.path(), None), (1, 4));
}

#[test]
#[cfg(unix)]
fn broken_links_are_reported_as_links() {
    use std::os::unix::fs::symlink;

    let files = folder(&[]);
    let file = |name: &str| files.path().join(name);
    symlink("nowhere.txt", file("broken.txt")).unwrap();
    symlink("loop", file("loop")).unwrap();
    let mut answers = Answers::within(files.path());
    // The number of the error depends on the operating system.
    let mut add_error = |title: &str, path: &Path| {
        answers.said(title, open(&[path], None).err().unwrap().split(" (os error ").next().unwrap());
    };
    add_error("to nothing", &file("broken.txt"));
    add_error("to itself", &file("loop"));
    // A broken link in a folder is an error, since its file is missing.
    add_error("in a folder", files.path());
    fs::write(file("a.txt"), "one\n").unwrap();
    add_error("through a file", &file("a.txt/b.txt"));
    answers.held("corpus-files-links");
}

#[test]
#[cfg(unix)]
fn pipes_are_not_read_twice_nor_devices_without_end() {
    let files = folder(&[("a.txt", b"one\n")]);
    let fifo = files.path().join("b.txt");
    make_pipe(&fifo);
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

/// A few compressed bytes that expand enormously are not read to the end.
#[test]
fn decompressed_text_is_bounded() {
    // 80 lines of 1 MiB of spaces each.
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
