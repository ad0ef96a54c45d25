//! `headscope analyze --shard` and `headscope merge`: shards come to what one run comes to, or are refused.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{fixture, headscope, outcome, parts_add_up, path, run, tiny_bert};
use serde_json::Value;
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
        assert_eq!(status, if message.contains(" missing: ") { 6 } else { 3 }, "{message}");
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
                shards.shard(&format!("part-{number}-of-{count}.headscope"), &shard, &["--threads", threads])
            })
            .collect();
        parts.reverse();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let merged = run(&[&["merge", "--no-run-info", "--min-count", "30", "-o", "-"], &parts[..]].concat()).unwrap();
        assert!(merged == whole, "{count} shards");
    }
}

/// 600 sentences in so many documents, every seventh one as the one 100 before it.
fn documents(folder: &Path, count: usize) -> PathBuf {
    let sentence = |number: usize| {
        let begins =
            if number.is_multiple_of(600 / count) && number / (600 / count) < count { "# newdoc\n" } else { "" };
        let own = if number.is_multiple_of(7) { number % 100 } else { number };
        // The number in base five, so that the words of each are others.
        let form = |word: u32| ["the", "saw", "left", "one", "two"][own / 5_usize.pow(word - 1) % 5];
        let words = (1..=4).map(|word| format!("{word}\t{}\t_\t_\t_\t_\t{}\tdep\t_\t_\n", form(word), word - 1));
        format!("{begins}{}\n", words.collect::<String>())
    };
    let file = folder.join("documents.conllu");
    fs::write(&file, (0..600).map(sentence).collect::<String>()).unwrap();
    file
}

#[test]
fn ten_documents_are_blocks_however_the_corpus_is_run() {
    let mut shards = Shards::new();
    let unit = |report: &str| serde_json::from_str::<Value>(report).unwrap()["corpus"]["unit"].clone();
    shards.corpus = documents(shards.folder.path(), 9);
    // Too few for any test, and the unit all the same.
    assert_eq!(unit(&shards.analyze(&["-o", "-"])), "documents");
    assert_eq!(unit(&shards.analyze(&["-o", "-", "--unit", "sentences"])), "sentences");
    shards.corpus = documents(shards.folder.path(), 10);
    assert_eq!(unit(&shards.analyze(&["-o", "-", "--limit", "541"])), "documents");
    let options = ["--with", "segments,output-shift", "--sample", "50"];
    let options = &options[..];
    let whole = shards.analyze(&[options, &["-o", "-", "--threads", "1"]].concat());
    assert_eq!(unit(&whole), "documents");
    assert!(whole == shards.analyze(&[options, &["-o", "-", "--threads", "3"]].concat()));
    let parts =
        ["1/2", "2/2"].map(|shard| shards.shard(&format!("{}.headscope", shard.replace('/', "-of-")), shard, options));
    assert!(whole == run(&["merge", "--no-run-info", "-o", "-", &parts[0], &parts[1]]).unwrap());
    let folder = shards.file("resumed");
    assert!(whole == shards.analyze(&[options, &["-o", "-", "--resume", &folder]].concat()));
}

#[test]
fn a_partial_is_the_same_for_any_number_of_threads() {
    let shards = Shards::new();
    let bytes = |threads: &str| {
        fs::read(shards.shard(&format!("{threads}.headscope"), "1/2", &["--threads", threads])).unwrap()
    };
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

    assert_eq!(shards.refusal(&[&one]), "error: 1 of 2 shards is missing: 2/2\n");
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

/// Whoever runs several models or corpora reads which of them a part is of, not a setting that differs with them.
#[test]
fn parts_of_two_models_or_corpora_are_told_apart_by_name() {
    let shards = Shards::new();
    let one = shards.shard("one.headscope", "1/2", &[]);
    let of_corpus = |corpus: &Path, model: &str, to: &str| {
        let file = shards.file(to);
        run(&["analyze", model, "-c", path(corpus), "--shard", "2/2", "-o", &file, "-q"]).unwrap();
        file
    };
    let other = of_corpus(&shards.corpus, "box:planted", "model.headscope");
    let expected = "error: cannot merge `one.headscope` and `model.headscope`: the model is `tiny-bert` in one and `box:planted` in \
                    the other\n";
    assert_eq!(shards.refusal(&[&one, &other]), expected);
    let model = tiny_bert();
    let other = of_corpus(&fixture("corpus/gold.conllu"), path(&model), "corpus.headscope");
    let expected = "error: cannot merge `one.headscope` and `corpus.headscope`: the corpus is `corpus.conllu` in one and \
                    `gold.conllu` in the other\n";
    assert_eq!(shards.refusal(&[&one, &other]), expected);
    // Of one name they differ in their content.
    let folder = shards.folder.path().join("b");
    fs::create_dir(&folder).unwrap();
    let renamed = folder.join("corpus.conllu");
    fs::copy(fixture("corpus/gold.conllu"), &renamed).unwrap();
    let message = shards.refusal(&[&one, &of_corpus(&renamed, path(&model), "renamed.headscope")]);
    assert!(message.contains("`renamed.headscope`: corpus.files.0.sha256 is "), "{message}");
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
    assert!(usage(&["-o", "part.headscope"]).contains("with --shard I/N"));
    assert!(usage(&["--shard", "1/2"]).contains("give one -o FILE.headscope"));
    assert!(usage(&["--shard", "1/2", "-o", "report.json"]).contains("`report.json` is no partial"));
    assert!(usage(&["--shard", "1/2", "-o", "a.headscope", "-o", "b.headscope"]).contains("give one -o"));
    assert!(usage(&["--shard", "3/2", "-o", "a.headscope"]).contains("shard 3/2 is none of 1/2 to 2/2"));
    let labels = usage(&["--shard", "1/2", "-o", "a.headscope", "--min-count", "5"]);
    assert!(labels.contains("--min-count is about labels"), "{labels}");
    let count = "a corpus is in 1 to 65536 shards";
    for shard in ["1/0", "auto/0", "1/65537", "auto/99999999999"] {
        assert!(usage(&["--shard", shard, "-o", "a.headscope"]).contains(count), "{shard}");
    }
    assert!(usage(&["--shard", "99999999999/2", "-o", "a.headscope"]).contains("is none of 1/2 to 2/2"));
}

/// Layers whose queries see other keys, and decoders, are of classes that partials hold.
#[test]
fn shards_of_models_of_several_classes_merge() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["tiny-modernbert", "tiny-mistral"] {
        let model = folder.path().join(name);
        fs::create_dir(&model).unwrap();
        for entry in fs::read_dir(fixture("models").join(name)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), model.join(entry.file_name())).unwrap();
        }
        fs::copy(tiny_bert().join("tokenizer.json"), model.join("tokenizer.json")).unwrap();
        let (corpus, whole) = (fixture("corpus/gold.conllu"), folder.path().join(format!("{name}.json")));
        let studies = ["--with", "norms,repeats,coreference,similarity"];
        let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "120", "--no-run-info"];
        parts_add_up(&[&common[..], &studies].concat(), &whole);
    }
}

#[test]
fn a_partial_has_no_labels() {
    let shards = Shards::new();
    let (one, merged) = (shards.shard("one.headscope", "1/1", &[]), shards.file("merged.headscope"));
    for labels in [["--policy", "/nonexist"], ["--min-count", "7"], ["--preset", "voita2019"]] {
        let (status, error) = run(&[&["merge", &one, "-o", &merged], &labels[..]].concat()).unwrap_err();
        assert_eq!(status, 2, "{error}");
        assert!(error.contains(&format!("{} ", labels[0])) && error.contains("is about labels"), "{error}");
    }
    assert!(!Path::new(&merged).exists());
    run(&["merge", &one, "-o", &merged]).unwrap();
    assert!(fs::read(&merged).unwrap() == fs::read(&one).unwrap());
}

#[test]
fn what_merge_writes_is_listed_where_an_output_is_neither() {
    let shards = Shards::new();
    let one = shards.shard("one.headscope", "1/1", &[]);
    let (status, error) = run(&["merge", &one, "-o", &shards.file("x.txt")]).unwrap_err();
    assert_eq!(status, 2);
    let expected = "use .json or .json.gz or .csv or .html, or .headscope alone for the sums of all shards\n";
    assert!(error.contains(expected), "{error}");
}

/// A part of several is no report, and nothing makes one of it alone.
#[test]
fn a_part_in_the_place_of_a_report_says_what_makes_one() {
    let shards = Shards::new();
    let third = shards.shard("3-of-8.headscope", "3/8", &[]);
    let csv = shards.file("heads.csv");
    let refused = |part: &str| {
        let errors = [&["show", part][..], &["export", part, "-o", &csv], &["cite", part]].map(|arguments| {
            let (status, error) = run(arguments).unwrap_err();
            assert_eq!(status, 3, "{error}");
            error.replace(&shards.file(""), "")
        });
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        errors[0].clone()
    };
    assert_eq!(
        refused(&third),
        "error: `3-of-8.headscope` is a partial, shard 3/8 of a run, and no report: `headscope merge` makes the report of the \
         partials of all 8\n"
    );
    let with = ["--with", "probes", "--without", "trees,words,frequency,explained-variance"];
    let first = shards.shard("first.headscope", "1/1", &with);
    let after = shards.shard("after.headscope", "2/2", &[&with[..], &["--after", &first]].concat());
    let of_both = ", and no report: `headscope merge` makes the report of the partials of both stages\n";
    for (part, what) in [(&first, "the sums of the first"), (&after, "shard 2/2 of the second")] {
        let error = refused(part);
        assert!(error.ends_with(&format!("is a partial, {what} of two stages{of_both}")), "{error}");
    }
    let (status, error) = run(&["compare", "--numbers", &after, &after]).unwrap_err();
    assert_eq!(status, 3);
    let expected =
        "says nothing by itself: `headscope merge -o FILE.headscope` makes one of all partials of both stages\n";
    assert!(error.ends_with(expected), "{error}");
    let bytes = fs::read(&third).unwrap();
    fs::write(&third, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(
        refused(&third),
        "error: cannot use partial `3-of-8.headscope`: it is damaged or cut short: run its shard again\n"
    );
}

/// The output of a job of an array; `set` are variables of its environment.
fn job(shards: &Shards, set: &[(&str, &str)], more: &[&str]) -> Result<(String, String), (i32, String)> {
    job_to("parts", shards, set, more)
}

fn job_to(
    folder: &str,
    shards: &Shards,
    set: &[(&str, &str)],
    more: &[&str],
) -> Result<(String, String), (i32, String)> {
    let model = tiny_bert();
    let parts = format!("{}/", shards.file(folder));
    let common = ["analyze", path(&model), "-c", path(&shards.corpus), "--max-tokens", "8", "--no-run-info"];
    let mut command = headscope(&[&common[..], &["--shard", "auto/3", "-o", &parts], more].concat());
    for engine in ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"] {
        command.env_remove(engine);
    }
    command.envs(set.iter().copied());
    let output = command.output().unwrap();
    outcome(&output).map(|printed| (printed, String::from_utf8(output.stderr).unwrap()))
}

#[test]
fn an_array_of_jobs_is_run_until_nothing_is_missing() {
    let shards = Shards::new();
    let whole = shards.analyze(&["-o", "-"]);
    let parts = shards.file("parts");
    let slurm = |id| job(&shards, &[("SLURM_ARRAY_TASK_ID", id)], &[]);
    slurm("1").unwrap();
    // As if the second had been killed, and the third had come to a disk that was full, or its machine had failed.
    slurm("3").unwrap();
    let third = Path::new(&parts).join("3-of-3.headscope");
    let bytes = fs::read(&third).unwrap();
    let begun = [&bytes[..30], &vec![0; bytes.len() - 30]].concat();
    let zeros = [vec![0; bytes.len()], vec![0; 5], [&[0; 512], &bytes[512..]].concat(), begun];
    for left in [bytes.len() - 1, 30, 5, 0].map(|length| bytes[..length].to_vec()).into_iter().chain(zeros) {
        fs::write(&third, left).unwrap();
        let output = headscope(&["merge", "--missing", "3", &parts]).output().unwrap();
        assert_eq!(output.status.code(), Some(6));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "2-3\n");
        let said = String::from_utf8(output.stderr).unwrap();
        let expected =
            "3-of-3.headscope`: it is damaged or cut short: run its shard again\nerror: 2 of 3 shards are missing\n";
        assert!(said.starts_with("warning: cannot use partial `") && said.ends_with(expected), "{said}");
    }
    assert!(slurm("3").unwrap().1.contains("3-of-3.headscope` is damaged or cut short: shard 3/3 is run again"));
    assert!(fs::read(&third).unwrap() == bytes);
    let (status, error) = run(&["merge", "-o", "-", &parts]).unwrap_err();
    assert_eq!((status, &*error), (6, "error: 1 of 3 shards is missing: 2/3\n"));
    // Other engines count from 0.
    job(&shards, &[("JOB_COMPLETION_INDEX", "1")], &[]).unwrap();
    assert_eq!(run(&["merge", "--missing", "3", &parts]).unwrap(), "");
    assert!(run(&["merge", "--no-run-info", "-o", "-", &parts]).unwrap() == whole);
    // What is there is left there.
    let before = fs::metadata(&third).unwrap().modified().unwrap();
    let (printed, said) = slurm("3").unwrap();
    assert_eq!(printed, "");
    assert!(
        said.contains("shard 3/3 of this analysis is in `") && said.contains("3-of-3.headscope` already"),
        "{said}"
    );
    assert_eq!(fs::metadata(&third).unwrap().modified().unwrap(), before);
}

#[test]
fn a_part_of_another_analysis_is_kept_in_a_folder_and_replaced_where_it_is_named() {
    let shards = Shards::new();
    let other = |more: &[&str]| job(&shards, &[("AWS_BATCH_JOB_ARRAY_INDEX", "0")], more);
    other(&[]).unwrap();
    let (status, error) = other(&["--from-token", "first"]).unwrap_err();
    assert_eq!(status, 5, "{error}");
    let expected = "1-of-3.headscope` is of another analysis: protocol.from_token is \"mean\" in one and \"first\" in the other (now)";
    assert!(error.contains(expected), "{error}");
    let file = shards.file("parts/1-of-3.headscope");
    let before = fs::read(&file).unwrap();
    shards.analyze(&["--shard", "1/3", "-o", &file, "-q", "--from-token", "first"]);
    assert!(fs::read(&file).unwrap() != before);
}

#[test]
fn what_is_missing_is_told_of_shards_of_one_run() {
    let shards = Shards::new();
    let empty = shards.file("empty");
    fs::create_dir(&empty).unwrap();
    let missing = |of: &str, parts: &[&str]| {
        let output = headscope(&[&["merge", "--missing", of], parts].concat()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(&shards.file(""), "");
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(missing("8", &[&empty]), (6, "1-8\n".to_owned(), "error: 8 of 8 shards are missing\n".to_owned()));
    let one = shards.shard("one.headscope", "4/8", &[]);
    assert_eq!(missing("8", &[&one]).1, "1-3,5-8\n");
    let (status, printed, error) = missing("9", &[&one]);
    assert_eq!((status, &*printed), (3, ""));
    assert_eq!(error, "error: `one.headscope` is shard 4/8 and not of 9: was the corpus run in 8?\n");
    let limited = shards.shard("limited.headscope", "5/8", &["--limit", "500"]);
    assert!(missing("8", &[&one, &limited]).2.contains("protocol.limit is null in one and 500 in the other"));
    assert_eq!(missing("8", &[path(&shards.corpus)]).0, 3);
    for of in ["0", "65537", "99999999999", "x"] {
        let (status, _, error) = missing(of, &[&one]);
        assert!(status == 2 && error.contains("a corpus is in 1 to 65536 shards"), "{error}");
    }
    let (status, error) = run(&["merge", &empty, "-o", &shards.file("report.json")]).unwrap_err();
    assert_eq!((status, &*error), (6, "error: no shard is there yet: run them, or name their partials\n"));
    assert_eq!(missing("8", &[&one, "-o", "report.json"]).0, 2);
}

#[test]
fn a_job_without_a_number_is_refused() {
    let shards = Shards::new();
    let refusal = |set: &[(&str, &str)]| {
        let (status, error) = job(&shards, set, &[]).unwrap_err();
        assert_eq!(status, 2, "{error}");
        error
    };
    assert!(refusal(&[]).contains("this is no job of an array"));
    assert!(refusal(&[("SLURM_ARRAY_TASK_ID", "0")]).contains("have the numbers 1 to 3"));
    let two = [("SLURM_ARRAY_TASK_ID", "1"), ("JOB_COMPLETION_INDEX", "1")];
    assert!(refusal(&two).contains("SLURM_ARRAY_TASK_ID=1 and JOB_COMPLETION_INDEX=1 are set"));
    assert!(!Path::new(&shards.file("parts")).exists());
}

/// The second stage is an array of its own, of other jobs.
#[test]
fn an_array_of_jobs_runs_the_second_stage() {
    let shards = Shards::new();
    let with = ["--with", "probes", "--without", "trees,words,frequency,explained-variance"];
    let whole = shards.analyze(&[&with[..], &["-o", "-"]].concat());
    let [first, after, merged] = ["first", "after", "merged.headscope"].map(|name| shards.file(name));
    for id in ["1", "2", "3"] {
        let (says, _) = job_to("first", &shards, &[("SLURM_ARRAY_TASK_ID", id)], &with).unwrap();
        assert!(says.contains("this is the first of two stages"), "{says}");
    }
    let (status, error) = run(&["merge", &first, "-o", &shards.file("report.json")]).unwrap_err();
    assert_eq!(status, 6, "{error}");
    assert!(error.contains("all shards of the second of two stages are missing: merge those of the first"), "{error}");
    let missing = |parts: &[&str]| {
        let output = headscope(&[&["merge", "--missing", "3"], parts].concat()).output().unwrap();
        (output.status.code().unwrap(), [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()))
    };
    let third = Path::new(&first).join("3-of-3.headscope");
    let bytes = fs::read(&third).unwrap();
    fs::remove_file(&third).unwrap();
    let (status, [printed, _]) = missing(&[&first]);
    assert_eq!((status, &*printed), (6, "3\n"));
    fs::write(&third, bytes).unwrap();
    // An array of the first stage would have nothing to do.
    let (status, [printed, error]) = missing(&[&first]);
    assert_eq!((status, &*printed), (6, ""));
    assert!(error.contains("all shards of the second of two stages are missing: merge those of the first"), "{error}");
    run(&["merge", &first, "-o", &merged]).unwrap();
    let second = |id: &str| {
        let more = [&with[..], &["--after", &merged]].concat();
        job_to("after", &shards, &[("JOB_COMPLETION_INDEX", id)], &more).unwrap()
    };
    for (id, shard) in [("2", "3/3"), ("0", "1/3")] {
        let (printed, _) = second(id);
        let says = ": the second stage is done; its sentences are counted in the first\n";
        assert!(printed.starts_with(&format!("shard {shard} of ")) && printed.ends_with(says), "{printed}");
    }
    let (status, [printed, _]) = missing(&[&after]);
    assert_eq!((status, &*printed), (6, "2\n"));
    let (status, error) = run(&["merge", &merged, &after, "-o", "-"]).unwrap_err();
    assert_eq!((status, &*error), (6, "error: 1 of 3 shards that were run with --after is missing: 2/3\n"));
    second("1");
    assert_eq!(missing(&[&after]), (0, [String::new(), String::new()]));
    assert!(second("1").1.contains("2-of-3-after.headscope` already"));
    let report = |parts: &[&str]| run(&[&["merge", "--no-run-info", "-o", "-"], parts].concat()).unwrap();
    assert!(report(&[&merged, &after]) == whole);

    // Both stages in one folder make the report, but what is missing is told of one.
    for part in fs::read_dir(&after).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&part, Path::new(&first).join(part.file_name().unwrap())).unwrap();
    }
    assert!(report(&[&first]) == whole);
    let (status, [printed, error]) = missing(&[&first]);
    assert_eq!((status, &*printed), (3, ""));
    let expected = "1-of-3-after.headscope` of the second, and what is missing is told of one: name the parts of one stage, as in \
                    `*-of-3.headscope` or `*-of-3-after.headscope`, or keep each stage in a folder of its own\n";
    assert!(
        error.contains("1-of-3.headscope` is of the first of two stages and `") && error.ends_with(expected),
        "{error}"
    );
}

/// A folder of parts and of whatever else has their names.
#[test]
#[cfg(unix)]
fn what_is_no_file_is_no_part() {
    let shards = Shards::new();
    let parts = shards.file("parts");
    job(&shards, &[("SLURM_ARRAY_TASK_ID", "1")], &[]).unwrap();
    let at = |name: &str| Path::new(&parts).join(name);
    assert!(std::process::Command::new("mkfifo").arg(at("2-of-3.headscope")).status().unwrap().success());
    fs::create_dir(at("3-of-3.headscope")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("4-of-3.headscope")).unwrap();
    let (status, error) = run(&["merge", "-o", "-", &parts]).unwrap_err();
    assert_eq!((status, &*error), (6, "error: 2 of 3 shards are missing: 2/3, 3/3\n"));
    assert_eq!(run(&["merge", "--missing", "3", &parts]).unwrap_err().0, 6);
    for id in ["2", "3"] {
        let (status, error) = job(&shards, &[("SLURM_ARRAY_TASK_ID", id)], &[]).unwrap_err();
        assert_eq!(status, 5, "{error}");
        assert!(error.contains(&format!("{id}-of-3.headscope`: it is no file: remove it")), "{error}");
    }
    // A link to a part is one.
    fs::rename(at("1-of-3.headscope"), shards.file("elsewhere")).unwrap();
    std::os::unix::fs::symlink(shards.file("elsewhere"), at("1-of-3.headscope")).unwrap();
    assert!(run(&["merge", "-o", "-", &parts]).unwrap_err().1.contains("2 of 3 shards are missing: 2/3, 3/3"));
}

/// Reports, parts and logs that lie beside the files of a corpus make it no other.
#[test]
fn what_is_written_into_the_folder_of_a_corpus_splits_no_run() {
    let shards = Shards::new();
    let folder = shards.folder.path().join("treebank");
    fs::create_dir(&folder).unwrap();
    fs::rename(&shards.corpus, folder.join("a.conllu")).unwrap();
    fs::write(folder.join("README.md"), "no corpus\n").unwrap();
    let shards = Shards { corpus: folder.clone(), ..shards };
    let whole = shards.analyze(&["-o", "-"]);
    let report: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(report["corpus"]["passed_over"], 1);
    let one = shards.shard("1.headscope", "1/2", &[]);
    fs::write(folder.join("task-1.log"), "done\n").unwrap();
    let two = shards.shard("2.headscope", "2/2", &[]);
    for parts in [[&one, &two], [&two, &one]] {
        assert!(run(&["merge", "--no-run-info", "-o", "-", parts[0], parts[1]]).unwrap() == whole);
    }
}

/// The script that is called again and again submits what is missing, or fails.
#[test]
#[cfg(unix)]
fn what_submits_jobs_fails_where_it_cannot_tell_which() {
    use std::os::unix::fs::PermissionsExt;

    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/SCALE.md")).unwrap();
    let is_script = |block: &&str| block.contains("# submit.sh:");
    let script = page.split("```").find(is_script).unwrap().strip_prefix("bash\n").unwrap();
    let shards = Shards::new();
    let folder = shards.folder.path();
    fs::create_dir(folder.join("bin")).unwrap();
    let sbatch = folder.join("bin/sbatch");
    fs::write(&sbatch, "#!/bin/sh\necho \"$*\" >> submitted.txt\necho 17\n").unwrap();
    fs::set_permissions(&sbatch, fs::Permissions::from_mode(0o755)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_headscope")).parent().unwrap();
    let found = format!("{}:{}:{}", folder.join("bin").display(), program.display(), std::env::var("PATH").unwrap());
    let submit = || {
        let mut command = std::process::Command::new("bash");
        let status = command.args(["-c", script]).current_dir(folder).env("PATH", &found).output().unwrap().status;
        let submitted = fs::read_to_string(folder.join("submitted.txt")).unwrap_or_default();
        let _ = fs::remove_file(folder.join("submitted.txt"));
        (status.code().unwrap(), submitted)
    };
    let merge = "--kill-on-invalid-dep=yes --dependency=afterok:17 merge.sh";
    assert_eq!(submit(), (0, format!("--parsable --array=1-8 array.sh\n{merge}\n")));
    let part = shards.shard("parts/5-of-8.headscope", "5/8", &[]);
    assert_eq!(submit(), (0, format!("--parsable --array=1-4,6-8 array.sh\n{merge}\n")));
    // Zeros are what a machine leaves that fails while it writes.
    let bytes = fs::read(&part).unwrap();
    fs::write(&part, vec![0; bytes.len()]).unwrap();
    assert_eq!(submit(), (0, format!("--parsable --array=1-8 array.sh\n{merge}\n")));
    fs::write(&part, "something else\n").unwrap();
    assert_eq!(submit(), (1, String::new()));
    // Of the first of two stages nothing is missing, and the second is begun otherwise.
    fs::remove_file(&part).unwrap();
    let with = ["--with", "probes", "--without", "trees,words,frequency,explained-variance"];
    for number in 1..=7 {
        shards.shard(&format!("parts/{number}-of-8.headscope"), &format!("{number}/8"), &with);
    }
    assert_eq!(submit(), (0, format!("--parsable --array=8 array.sh\n{merge}\n")));
    shards.shard("parts/8-of-8.headscope", "8/8", &with);
    assert_eq!(submit(), (1, String::new()));
}
