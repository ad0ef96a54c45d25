//! `headscope index` and `analyze --index`: shards read only their own part, and the merged report does not change.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::corpora::gzip;
use crate::support::answers::Answers;
use crate::support::{headscope, path, run, tiny_bert};
use headscope::corpus::{Corpus, Index, IndexCounts, Input, SEGMENT_SENTENCES, Sentence, write_index};
use serde_json::Value;

/// The concatenation of `one` over the numbers from 0 to `count - 1`.
fn all(count: usize, one: &dyn Fn(usize) -> String) -> String {
    (0..count).map(one).collect()
}

/// Writes six files. `a.conllu` has 300 sentences with documents, families and a declaration, and blank lines at its
/// end. `b.jsonl` has 200 lines in named documents.
/// `c.txt` is empty, and `d.txt` has only blank lines. `e.txt` has 600 lines of text with blank lines between them.
/// `f.txt.gz` has 900 such lines, compressed.
fn corpus(folder: &Path) -> Vec<PathBuf> {
    let conllu = |number: usize| {
        let word = ["the", "cat", "sat", "on"][number % 4];
        let begins = if number % 70 == 3 { "# newdoc\n" } else { "" };
        let entity = if number == 100 { "# global.Entity = etype-identity\n" } else { "" };
        let family = if number.is_multiple_of(9) { format!("# family = {}\n", number % 4) } else { String::new() };
        format!("{begins}{entity}{family}1\t{word}{}\t_\t_\t_\t_\t0\troot\t_\t_\n\n", number % 11)
    };
    let json = |number: usize| format!("{{\"text\": \"the cat {number} .\", \"document\": {}}}\n", number / 150);
    let text = |number: usize| format!("the cat sat {} .\n{}", number % 13, if number % 40 == 39 { "\n" } else { "" });
    let files = [
        ("a.conllu", all(300, &conllu) + "\n \n"),
        ("b.jsonl", all(200, &json)),
        ("c.txt", String::new()),
        ("d.txt", "\n\n".to_owned()),
        ("e.txt", format!("\u{feff}{}", all(600, &text).replace('\n', "\r\n"))),
    ];
    let mut paths = Vec::new();
    for (name, contents) in files {
        paths.push(folder.join(name));
        fs::write(folder.join(name), contents).unwrap();
    }
    paths.push(folder.join("f.txt.gz"));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(all(900, &text).as_bytes()).unwrap();
    fs::write(folder.join("f.txt.gz"), packed.finish().unwrap()).unwrap();
    paths
}

fn inputs(files: &[PathBuf]) -> Vec<Input> {
    files.iter().map(|file| Input::parse(file, None).unwrap()).collect()
}

/// Writes the index of `files` to `at`.
fn indexed(files: &[PathBuf], at: &Path) -> (IndexCounts, Arc<Index>) {
    let mut bytes = Vec::new();
    let add = |more: &[u8]| {
        bytes.extend_from_slice(more);
        Ok(())
    };
    let index_counts = write_index(&inputs(files), add).unwrap();
    fs::write(at, bytes).unwrap();
    (index_counts, Arc::new(Index::open(at).unwrap()))
}

/// As [`corpus`], without the names of families.
fn corpus_without_families(folder: &Path) -> Vec<PathBuf> {
    let files = corpus(folder);
    let lines = fs::read_to_string(&files[0]).unwrap();
    let unnamed = lines.lines().filter(|line| !line.starts_with("# family")).map(|line| format!("{line}\n"));
    fs::write(&files[0], unnamed.collect::<String>()).unwrap();
    files
}

#[test]
fn selected_segments_have_their_sentences() {
    check_segment_sentences(corpus, None);
    // Documents: 6 in `a.conllu`, where five begin after the first; 2 in `b.jsonl`; 15 of 40 lines in `e.txt`; 23 in
    // `f.txt.gz`.
    check_segment_sentences(corpus_without_families, Some(6 + 2 + 15 + 23 - 1));
}

fn check_segment_sentences(corpus: fn(&Path) -> Vec<PathBuf>, last_document: Option<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let files = corpus(folder.path());
    let (index_counts, index) = indexed(&files, &folder.path().join("corpus.index"));
    assert_eq!(index_counts, IndexCounts { files: 6, sentences: 2000, segments: 8 });
    let mut whole = Corpus::open(&inputs(&files)).unwrap();
    let all: Vec<Sentence> = whole.by_ref().collect::<Result<_, _>>().unwrap();
    let identity = whole.into_identity().unwrap();
    assert_eq!(all[1999].document_number, last_document);
    assert!(all.iter().any(|sentence| !sentence.family.is_first) && all.iter().any(|it| it.entity_fields.is_some()));
    // Every subset of the segments.
    for chosen in 0..1_u32 << index_counts.segments {
        let wanted = |sentence: u64| chosen >> (sentence / SEGMENT_SENTENCES) & 1 == 1;
        let corpus = Corpus::open(&inputs(&files)).unwrap().with_index(Some(&index)).unwrap();
        let mut corpus = corpus.with_selected_segments(|mut sentences| sentences.any(wanted));
        let expected: Vec<&Sentence> = all.iter().filter(|sentence| wanted(sentence.index)).collect();
        let actual: Vec<Sentence> = corpus.by_ref().collect::<Result<_, _>>().unwrap();
        assert!(actual.iter().eq(expected), "{chosen:b}");
        assert_eq!(corpus.into_identity().unwrap(), identity);
    }
}

/// The header of a record ends the record before it, also in the next segment.
#[test]
fn segments_end_before_a_record_header() {
    let folder = tempfile::tempdir().unwrap();
    let record = |number: usize| format!("; {number}\n>p{number} made up\nMKTA\n{}\n\n", ["GG", "-", "W*"][number % 3]);
    let text = all(700, &record);
    let files = [folder.path().join("a.fa"), folder.path().join("b.faa.gz")];
    fs::write(&files[0], &text).unwrap();
    fs::write(&files[1], gzip(text.as_bytes())).unwrap();
    let (index_counts, index) = indexed(&files, &folder.path().join("corpus.index"));
    assert_eq!(index_counts, IndexCounts { files: 2, sentences: 1400, segments: 6 });
    let all: Vec<Sentence> = Corpus::open(&inputs(&files)).unwrap().collect::<Result<_, _>>().unwrap();
    for segment in 0..6 {
        let corpus = Corpus::open(&inputs(&files)).unwrap().with_index(Some(&index)).unwrap();
        let actual = corpus
            .with_selected_segments(|mut sentences| sentences.any(|sentence| sentence / SEGMENT_SENTENCES == segment));
        let actual: Vec<Sentence> = actual.collect::<Result<_, _>>().unwrap();
        assert!(actual.iter().eq(all.iter().filter(|it| it.index / SEGMENT_SENTENCES == segment)), "{segment}");
    }
}

#[test]
fn only_the_selected_segment_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.txt");
    // Each line has 16 bytes.
    fs::write(&file, all(2560, &|number| format!("the cat sat{number:4}\n"))).unwrap();
    let files = [file];
    let (_, index) = indexed(&files, &folder.path().join("a.index"));
    let corpus = Corpus::open(&inputs(&files)).unwrap().with_index(Some(&index)).unwrap();
    let mut corpus = corpus.with_selected_segments(|sentences| sentences.start == 5 * SEGMENT_SENTENCES);
    let (read, bytes) = (corpus.bytes_read(), corpus.bytes());
    assert_eq!(corpus.by_ref().count(), 256);
    assert_eq!((read.load(Ordering::Relaxed), bytes), (256 * 16, Some(256 * 16)));
}

#[test]
fn empty_corpora_can_be_indexed() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.txt", "b.conllu"].map(|name| folder.path().join(name));
    fs::write(&files[0], "").unwrap();
    fs::write(&files[1], "\n").unwrap();
    let (index_counts, index) = indexed(&files, &folder.path().join("a.index"));
    assert_eq!(index_counts, IndexCounts { files: 2, sentences: 0, segments: 1 });
    let corpus =
        Corpus::open(&inputs(&files)).unwrap().with_index(Some(&index)).unwrap().with_selected_segments(|_| true);
    let expected = Corpus::open(&inputs(&files)).unwrap().into_identity().unwrap();
    assert_eq!(corpus.into_identity().unwrap(), expected);
}

#[test]
fn index_changes_no_byte_of_a_report() {
    let mut answers = Answers::new();
    answers.said("families", &check_reports_with_index("families", corpus));
    answers.said("documents", &check_reports_with_index("documents", corpus_without_families));
    answers.held("index-made");
}

/// Returns the line that `headscope index` prints.
fn check_reports_with_index(unit: &str, corpus: fn(&Path) -> Vec<PathBuf>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let files = corpus(folder.path());
    let (model, at) = (tiny_bert(), folder.path().join("corpus.index"));
    let named: Vec<&str> = files.iter().map(|file| path(file)).collect();
    let printed = run(&[&["index"], &named[..], &["-o", path(&at)]].concat()).unwrap();
    let corpora = named.iter().flat_map(|file| ["-c", file]);
    let common: Vec<&str> =
        ["analyze", path(&model), "--no-run-info", "-q", "--max-tokens", "16"].into_iter().chain(corpora).collect();
    // These options need the whole corpus, documents, a sample, and head replacements that are estimated on the whole
    // sample.
    let options =
        ["--with", "segments,output-shift", "--sample", "40", "--control", "shuffled-words", "--control-seeds", "1"];
    let whole = run(&[&common[..], &options, &["-o", "-"]].concat()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&whole).unwrap()["corpus"]["unit"], unit);
    let parts = folder.path().join("parts");
    let parts_folder = format!("{}/", path(&parts));
    for shard in ["1/3", "2/3", "3/3"] {
        run(&[&common[..], &options, &["--index", path(&at), "--shard", shard, "-o", &parts_folder]].concat()).unwrap();
    }
    let merged = run(&["merge", "--no-run-info", "-o", "-", path(&parts)]).unwrap();
    assert!(merged == whole);
    // A run in parts accepts the index as well.
    let resumed = folder.path().join("resumed");
    let resume = ["--index", path(&at), "--resume", path(&resumed), "-o", "-"];
    assert!(run(&[&common[..], &options, &resume].concat()).unwrap() == whole);
    printed
}

#[test]
fn only_an_avoidable_full_read_gets_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.txt");
    fs::write(&file, all(600, &|number| format!("the cat sat {number:4}\n"))).unwrap();
    let (model, at, part) = (tiny_bert(), folder.path().join("a.index"), folder.path().join("part.headscope"));
    run(&["index", path(&file), "-o", path(&at)]).unwrap();
    let mut answers = Answers::within(folder.path());
    let part = path(&part);
    for more in [&["--shard", "1/2", "-o", part][..], &["--shard", "1/1", "-o", part], &[]] {
        let arguments = ["analyze", path(&model), "-c", path(&file), "--index", path(&at), "-q"];
        let output = headscope(&[&arguments[..], more].concat()).output().unwrap();
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{notes}");
        answers.said(&format!("--index {}", more.join(" ")), &notes);
    }
    answers.held("index-all-is-read");
}

#[test]
fn changed_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.txt");
    let text = all(600, &|number| format!("the cat sat {number:4}\n"));
    fs::write(&file, &text).unwrap();
    let (model, at) = (tiny_bert(), folder.path().join("a.index"));
    run(&["index", path(&file), "-o", path(&at)]).unwrap();
    let (part, counts) = (folder.path().join("part.headscope"), folder.path().join("counts.json"));
    run(&["counts", path(&model), "-c", path(&file), "-o", path(&counts)]).unwrap();
    let shard = |shard: &str| {
        let arguments = ["analyze", path(&model), "-c", path(&file), "--index", path(&at), "-q", "-o", path(&part)];
        run(&[&arguments[..], &["--counts", path(&counts), "--shard", shard]].concat())
    };
    // One letter changes, in the second of three segments. A shard that does not read this segment does not notice the
    // change.
    fs::write(&file, text.replacen(" 300\n", " 30x\n", 1)).unwrap();
    shard("1/3").unwrap();
    fs::remove_file(&part).unwrap();
    let changed = shard("2/3").unwrap_err();
    let mut answers = Answers::within(folder.path());
    answers.refused("another letter", &changed);
    // A shard that reads the whole corpus to count its tokens notices the change.
    let uncounted = ["analyze", path(&model), "-c", path(&file), "--index", path(&at), "-q", "-o", path(&part)];
    answers.refused("without --counts", &run(&[&uncounted[..], &["--shard", "1/3"]].concat()).unwrap_err());
    answers.held("index-another-corpus");
    assert!(!part.exists());
    // Bytes that cannot be read after the change give the error about the change.
    fs::write(&file, [&text.as_bytes()[..300 * 17], b"\xff", &text.as_bytes()[300 * 17 + 1..]].concat()).unwrap();
    assert_eq!(shard("2/3").unwrap_err(), changed);
    // Another size is noticed at once.
    fs::write(&file, text.clone() + "one more\n").unwrap();
    assert_eq!(shard("1/3").unwrap_err(), changed);
    fs::write(&file, &text).unwrap();
    shard("2/3").unwrap();
}

#[test]
fn index_of_another_corpus_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["a.txt", "b.txt"] {
        fs::write(at(name), "the cat sat\n").unwrap();
    }
    let (a, b, index) = (at("a.txt"), at("b.txt"), at("a.index"));
    run(&["index", path(&a), "-o", path(&index)]).unwrap();
    let mut answers = Answers::within(folder.path());
    for (title, more) in [
        ("of another file", vec!["-c", path(&b), "--index", path(&index)]),
        ("of one file of two", vec!["-c", path(&a), "-c", path(&b), "--index", path(&index)]),
        ("of another format", vec!["-c", path(&a), "--format", "jsonl", "--index", path(&index)]),
        ("no index", vec!["-c", path(&a), "--index", path(&b)]),
        ("with a limit", vec!["-c", path(&a), "--index", path(&index), "--limit", "1"]),
    ] {
        answers.refused(title, &run(&[&["analyze", "box:planted", "-q"], &more[..]].concat()).unwrap_err());
    }
    let stdin_result = run(&["index", "-", "--format", "text", "-o", path(&index)]);
    answers.refused("of standard input", &stdin_result.unwrap_err());
    answers.held("index-refusals");
}
