//! `headscope analyze --shard` and `headscope merge`: shards come to what one run comes to, or are refused.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{fixture, path, run, tiny_bert};
use tempfile::TempDir;

/// 600 short sentences in three segments; some have no tokens, some are too long for `--max-tokens 8`, most occur again,
/// and some name their family.
fn corpus(folder: &Path) -> PathBuf {
    let sentence = |number: usize| -> String {
        let words = number % 7 + 1;
        let line = |word: usize| {
            let form = if number % 50 == 9 { "\u{200b}" } else { ["the", "cat", "sat", "."][(number + word) % 4] };
            let relation = ["root", "det", "nsubj", "obl:tmod", "punct"][if word == 1 { 0 } else { 1 + number % 4 }];
            format!("{word}\t{form}\t_\t_\t_\t_\t{}\t{relation}\t_\t_\n", word - 1)
        };
        let family = if number.is_multiple_of(5) { format!("# family = {}\n", number % 10) } else { String::new() };
        [family].into_iter().chain((1..=words).map(line)).chain(["\n".to_owned()]).collect()
    };
    let file = folder.join("corpus.conllu");
    fs::write(&file, (0..600).map(sentence).collect::<String>()).unwrap();
    file
}

struct Shards {
    folder: TempDir,
    corpus: PathBuf,
}

impl Shards {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let corpus = corpus(folder.path());
        Self { folder, corpus }
    }

    fn file(&self, name: &str) -> String {
        path(&self.folder.path().join(name)).to_owned()
    }

    fn analyze(&self, more: &[&str]) -> String {
        let model = tiny_bert();
        let arguments = ["analyze", path(&model), "-c", path(&self.corpus), "--max-tokens", "8", "--no-run-info"];
        run(&[&arguments, more].concat()).unwrap()
    }

    /// Writes a shard, by default of the settings of [`Shards::analyze`], and gives its path.
    fn shard(&self, name: &str, shard: &str, more: &[&str]) -> String {
        let file = self.file(name);
        self.analyze(&[&["--shard", shard, "-o", &file, "-q"], more].concat());
        file
    }

    fn refusal(&self, parts: &[&str]) -> String {
        let output = self.file("refused.json");
        let (status, message) = run(&[&["merge", "-o", &output], parts].concat()).unwrap_err();
        assert_eq!(status, 3, "{message}");
        assert!(!Path::new(&output).exists());
        message.replace(&self.file(""), "")
    }
}

#[test]
fn shards_merge_to_the_report_of_one_run() {
    let shards = Shards::new();
    let whole = shards.analyze(&["-o", "-", "--min-count", "30"]);
    let report: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(report["corpus"]["skipped"]["no_tokens"], 12);
    assert_ne!(report["corpus"]["skipped"]["too_many_tokens"], 0);
    let text = &report["corpus"]["text"];
    assert_eq!((&text["sentences_read"], &text["not_remembered"]), (&600.into(), &0.into()));
    assert!(text["families"].as_u64() < text["different_sentences"].as_u64(), "{text}");
    assert_ne!(report["relations"], Value::Array(Vec::new()));
    // Three segments: four shards and more leave some empty.
    for count in [1, 2, 3, 5, 8] {
        let mut parts: Vec<String> = (1..=count)
            .map(|number| {
                let threads = if number % 2 == 0 { "1" } else { "3" };
                let shard = format!("{number}/{count}");
                shards.shard(&format!("part-{number}.headscope"), &shard, &["--threads", threads])
            })
            .collect();
        parts.reverse();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let merged = run(&[&["merge", "--no-run-info", "--min-count", "30", "-o", "-"], &parts[..]].concat()).unwrap();
        assert!(merged == whole, "{count} shards");
    }
}

#[test]
fn a_partial_is_the_same_for_any_number_of_threads() {
    let shards = Shards::new();
    let bytes = |threads: &str| fs::read(shards.shard("part.headscope", "1/2", &["--threads", threads])).unwrap();
    assert!(bytes("1") == bytes("4"));
}

#[test]
fn a_limit_is_one_of_the_whole_corpus() {
    let shards = Shards::new();
    let whole = shards.analyze(&["-o", "-", "--limit", "300"]);
    let part = |number: u32| shards.shard(&format!("{number}.headscope"), &format!("{number}/3"), &["--limit", "300"]);
    let (first, second, third) = (part(1), part(2), part(3));
    assert!(run(&["merge", "--no-run-info", "-o", "-", &first, &second, &third]).unwrap() == whole);
}

#[test]
fn the_runs_of_shards_are_told_together() {
    let shards = Shards::new();
    let model = tiny_bert();
    let part = |number: u32| {
        let (shard, file) = (format!("{number}/2"), shards.file(&format!("{number}.headscope")));
        let arguments = ["analyze", path(&model), "-c", path(&shards.corpus), "--shard", &shard, "-o", &file];
        let told = run(&[&arguments[..], &["--threads", "1"]].concat()).unwrap();
        assert!(told.starts_with(&format!("shard {number}/2 of corpus.conllu: ")), "{told}");
        file
    };
    let merged = run(&["merge", "-o", "-", &part(1), &part(2)]).unwrap();
    let report: Value = serde_json::from_str(&merged).unwrap();
    assert_eq!(report["run"]["shards"], 2);
    assert_eq!(report["run"]["threads"], 1);
    assert_eq!(report["run"]["os"], std::env::consts::OS);
}

#[test]
fn parts_that_make_no_whole_are_refused() {
    let shards = Shards::new();
    let one = shards.shard("one.headscope", "1/2", &[]);
    let two = shards.shard("two.headscope", "2/2", &[]);
    let again = shards.shard("again.headscope", "2/2", &[]);
    let third = shards.shard("third.headscope", "3/3", &[]);
    let limited = shards.shard("limited.headscope", "2/2", &["--limit", "500"]);
    let first_token = shards.shard("first.headscope", "2/2", &["--from-token", "first"]);

    assert_eq!(shards.refusal(&[&one]), "error: 1 of 2 shards are missing: 2/2\n");
    // Ten are named.
    let of_many = ["1/12", "1/11"].map(|of| shards.refusal(&[&shards.shard("many.headscope", of, &[])]));
    assert!(
        of_many[0].ends_with(" 10/12, 11/12, and 1 more\n") && of_many[1].ends_with(" 10/11, 11/11\n"),
        "{of_many:?}"
    );
    assert_eq!(
        shards.refusal(&[&one, &two, &again]),
        "error: `two.headscope` and `again.headscope` are both shard 2/2: give each shard once\n"
    );
    assert_eq!(
        shards.refusal(&[&one, &third]),
        "error: cannot merge `one.headscope` and `third.headscope`: one is of 2 shards and the other of 3\n"
    );
    let limit = shards.refusal(&[&one, &limited]);
    assert!(limit.contains("`limited.headscope`: protocol.limit is null in one and 500 in the other"), "{limit}");
    let fold = shards.refusal(&[&one, &first_token]);
    assert!(fold.contains("protocol.from_token is \"mean\" in one and \"first\" in the other"), "{fold}");

    fs::write(&shards.corpus, fs::read_to_string(&shards.corpus).unwrap() + "\n").unwrap();
    let changed = shards.shard("changed.headscope", "2/2", &[]);
    let corpus = shards.refusal(&[&one, &changed]);
    assert!(
        corpus.contains("cannot merge `one.headscope` and `changed.headscope`: corpus.files.0.sha256 is "),
        "{corpus}"
    );
}

#[test]
fn another_model_is_refused() {
    let shards = Shards::new();
    let one = shards.shard("one.headscope", "1/2", &[]);
    let other = shards.folder.path().join("tiny-bert");
    fs::create_dir(&other).unwrap();
    for entry in fs::read_dir(tiny_bert()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), other.join(entry.file_name())).unwrap();
    }
    let mut weights = fs::read(other.join("model.safetensors")).unwrap();
    *weights.last_mut().unwrap() ^= 1;
    fs::write(other.join("model.safetensors"), weights).unwrap();
    let two = shards.file("two.headscope");
    let arguments = ["analyze", path(&other), "-c", path(&shards.corpus), "--max-tokens", "8", "--no-run-info"];
    run(&[&arguments[..], &["--shard", "2/2", "-o", &two, "-q"]].concat()).unwrap();
    let message = shards.refusal(&[&one, &two]);
    assert!(message.contains("model.weights_sha256 is "), "{message}");
}

#[test]
fn what_is_no_partial_is_refused() {
    let shards = Shards::new();
    let one = shards.shard("one.headscope", "1/1", &[]);
    let mut bytes = fs::read(&one).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let damaged = shards.file("damaged.headscope");
    fs::write(&damaged, bytes).unwrap();
    assert_eq!(
        shards.refusal(&[&damaged]),
        "error: cannot use partial `damaged.headscope`: it is damaged or cut short: run its shard again\n"
    );
    let corpus = path(&shards.corpus);
    assert!(shards.refusal(&[corpus]).contains("it is not what `headscope analyze --shard` writes"));
    assert!(
        shards.refusal(&[&shards.file("nowhere.headscope")]).contains("cannot use partial `nowhere.headscope`: No")
    );
}

#[test]
fn a_corpus_without_sentences_is_refused_when_its_shards_are_merged() {
    let shards = Shards::new();
    fs::write(&shards.corpus, "").unwrap();
    let (one, two) = (shards.shard("1.headscope", "1/2", &[]), shards.shard("2.headscope", "2/2", &[]));
    assert_eq!(shards.refusal(&[&one, &two]), "error: corpus `corpus.conllu` has no sentences\n");
}

#[test]
fn wrong_usage_of_shards() {
    let model = tiny_bert();
    let gold = fixture("corpus/gold.conllu");
    let usage = |more: &[&str]| {
        let (status, message) = run(&[&["analyze", path(&model), "-c", path(&gold)], more].concat()).unwrap_err();
        assert_eq!(status, 2, "{message}");
        message
    };
    assert!(usage(&["-o", "part.headscope"]).contains("written with --shard I/N"));
    assert!(usage(&["--shard", "1/2"]).contains("give one -o FILE.headscope"));
    assert!(usage(&["--shard", "1/2", "-o", "report.json"]).contains("`report.json` is no partial"));
    assert!(usage(&["--shard", "1/2", "-o", "a.headscope", "-o", "b.headscope"]).contains("give one -o"));
    assert!(usage(&["--shard", "3/2", "-o", "a.headscope"]).contains("shard 3/2 is none of 1/2 to 2/2"));
    let labels = usage(&["--shard", "1/2", "-o", "a.headscope", "--min-count", "5"]);
    assert!(labels.contains("--min-count is about labels"), "{labels}");
}
