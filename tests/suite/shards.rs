//! `headscope analyze --shard` and `headscope merge`: shards merge to the report of one run, or are refused.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, outcome, parts_add_up, path, run, tiny_bert};
use serde_json::Value;
use tempfile::TempDir;

/// 600 short sentences in three segments. Some have no tokens, some are too long for `--max-tokens 8`, most are
/// repeated, and some name their family.
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

    /// Writes a shard with the settings of [`Shards::analyze`] and `more`. Returns its path.
    fn shard(&self, name: &str, shard: &str, more: &[&str]) -> String {
        let file = self.file(name);
        self.analyze(&[&["--shard", shard, "-o", &file, "-q"], more].concat());
        file
    }

    fn refusal(&self, parts: &[&str]) -> (i32, String) {
        let output = self.file("refused.json");
        let refusal = run(&[&["merge", "-o", &output], parts].concat()).unwrap_err();
        assert!(!Path::new(&output).exists());
        refusal
    }

    fn answers(&self) -> Answers {
        Answers::within(self.folder.path())
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
    // There are only three segments, so five shards leave some empty.
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

/// 600 sentences in `count` documents. Every seventh sentence `n` has the words of sentence `n % 100`.
fn documents(folder: &Path, count: usize) -> PathBuf {
    let sentence = |number: usize| {
        let begins =
            if number.is_multiple_of(600 / count) && number / (600 / count) < count { "# newdoc\n" } else { "" };
        let own = if number.is_multiple_of(7) { number % 100 } else { number };
        // The digits of the number in base five give each sentence its own words.
        let form = |word: u32| ["the", "saw", "left", "one", "two"][own / 5_usize.pow(word - 1) % 5];
        let words = (1..=4).map(|word| format!("{word}\t{}\t_\t_\t_\t_\t{}\tdep\t_\t_\n", form(word), word - 1));
        format!("{begins}{}\n", words.collect::<String>())
    };
    let file = folder.join("documents.conllu");
    fs::write(&file, (0..600).map(sentence).collect::<String>()).unwrap();
    file
}

#[test]
fn documents_are_the_unit_in_every_kind_of_run() {
    let mut shards = Shards::new();
    let unit = |report: &str| serde_json::from_str::<Value>(report).unwrap()["corpus"]["unit"].clone();
    shards.corpus = documents(shards.folder.path(), 9);
    // Nine documents are too few for a test, but documents are still the unit.
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
fn threads_change_no_byte_of_a_partial() {
    let shards = Shards::new();
    let bytes = |threads: &str| {
        fs::read(shards.shard(&format!("{threads}.headscope"), "1/2", &["--threads", threads])).unwrap()
    };
    assert!(bytes("1") == bytes("4"));
}

#[test]
fn limit_applies_to_the_whole_corpus() {
    let shards = Shards::new();
    let whole = shards.analyze(&["-o", "-", "--limit", "300"]);
    let part = |number: u32| shards.shard(&format!("{number}.headscope"), &format!("{number}/3"), &["--limit", "300"]);
    let (first, second, third) = (part(1), part(2), part(3));
    assert!(run(&["merge", "--no-run-info", "-o", "-", &first, &second, &third]).unwrap() == whole);
}

#[test]
fn merged_report_describes_the_runs_of_all_shards() {
    let shards = Shards::new();
    let (model, mut answers) = (tiny_bert(), shards.answers());
    let mut part = |number: u32| {
        let (shard, file) = (format!("{number}/2"), shards.file(&format!("{number}.headscope")));
        let arguments = ["analyze", path(&model), "-c", path(&shards.corpus), "--shard", &shard, "-o", &file];
        let printed = run(&[&arguments[..], &["--threads", "1"]].concat()).unwrap();
        answers.said(&shard, &printed);
        file
    };
    let merged = run(&["merge", "-o", "-", &part(1), &part(2)]).unwrap();
    let report: Value = serde_json::from_str(&merged).unwrap();
    assert_eq!(report["run"]["shards"], 2);
    assert_eq!(report["run"]["threads"], 1);
    assert_eq!(report["run"]["os"], std::env::consts::OS);
    answers.held("shards-run");
}

#[test]
fn incomplete_or_mixed_parts_are_refused() {
    let shards = Shards::new();
    let one = shards.shard("one.headscope", "1/2", &[]);
    let two = shards.shard("two.headscope", "2/2", &[]);
    let again = shards.shard("again.headscope", "2/2", &[]);
    let third = shards.shard("third.headscope", "3/3", &[]);
    let limited = shards.shard("limited.headscope", "2/2", &["--limit", "500"]);
    let first_token = shards.shard("first.headscope", "2/2", &["--from-token", "first"]);

    let mut answers = shards.answers();
    let mut refused = |title: &str, parts: &[&str]| answers.refused(title, &shards.refusal(parts));
    refused("one of two", &[&one]);
    // The error names at most ten missing parts.
    for count in ["1/12", "1/11"] {
        refused(count, &[&shards.shard("many.headscope", count, &[])]);
    }
    refused("one twice", &[&one, &two, &again]);
    refused("one of two and one of three", &[&one, &third]);
    refused("another limit", &[&one, &limited]);
    refused("another fold", &[&one, &first_token]);

    fs::write(&shards.corpus, fs::read_to_string(&shards.corpus).unwrap() + "\n").unwrap();
    refused("a corpus that has changed", &[&one, &shards.shard("changed.headscope", "2/2", &[])]);
    fs::write(&shards.corpus, "").unwrap();
    let (one, two) = (shards.shard("1.headscope", "1/2", &[]), shards.shard("2.headscope", "2/2", &[]));
    refused("a corpus without sentences", &[&one, &two]);
    answers.held("shards-refusals");
}

/// The error names the model or the corpus of a part, not a setting that differs with them.
#[test]
fn errors_name_the_model_or_corpus_that_differs() {
    let shards = Shards::new();
    let one = shards.shard("one.headscope", "1/2", &[]);
    let mut answers = shards.answers();
    let mut refused = |title: &str, corpus: &Path, model: &str, to: &str| {
        let file = shards.file(to);
        run(&["analyze", model, "-c", path(corpus), "--shard", "2/2", "-o", &file, "-q"]).unwrap();
        answers.refused(title, &shards.refusal(&[&one, &file]));
    };
    let (model, gold) = (tiny_bert(), fixture("corpus/gold.conllu"));
    refused("another model", &shards.corpus, "box:planted", "model.headscope");
    refused("another corpus", &gold, path(&model), "corpus.headscope");
    // With equal names, the contents differ.
    let folder = shards.folder.path().join("b");
    fs::create_dir(&folder).unwrap();
    fs::copy(&gold, folder.join("corpus.conllu")).unwrap();
    refused("a corpus of the same name", &folder.join("corpus.conllu"), path(&model), "renamed.headscope");
    let other = shards.folder.path().join("tiny-bert");
    fs::create_dir(&other).unwrap();
    for entry in fs::read_dir(&model).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), other.join(entry.file_name())).unwrap();
    }
    let mut weights = fs::read(other.join("model.safetensors")).unwrap();
    *weights.last_mut().unwrap() ^= 1;
    fs::write(other.join("model.safetensors"), weights).unwrap();
    refused("a model of the same name", &shards.corpus, path(&other), "weights.headscope");
    answers.held("shards-names");
}

#[test]
fn files_that_are_no_partials_are_refused() {
    let shards = Shards::new();
    let one = shards.shard("one.headscope", "1/1", &[]);
    let mut bytes = fs::read(&one).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let damaged = shards.file("damaged.headscope");
    fs::write(&damaged, bytes).unwrap();
    let mut answers = shards.answers();
    answers.refused("a damaged one", &shards.refusal(&[&damaged]));
    answers.refused("a corpus", &shards.refusal(&[path(&shards.corpus)]));
    answers.refused("nothing", &shards.refusal(&[&shards.file("nowhere.headscope")]));
    answers.held("shards-no-partial");
}

#[test]
fn wrong_usage_of_shards_is_refused() {
    let (model, gold) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let mut answers = Answers::new();
    for more in [
        "-o part.headscope",
        "--shard 1/2",
        "--shard 1/2 -o report.json",
        "--shard 1/2 -o a.headscope -o b.headscope",
        "--shard 3/2 -o a.headscope",
        "--shard 1/2 -o a.headscope --min-count 5",
        "--shard 1/0 -o a.headscope",
        "--shard auto/0 -o a.headscope",
        "--shard 1/65537 -o a.headscope",
        "--shard auto/99999999999 -o a.headscope",
        "--shard 99999999999/2 -o a.headscope",
    ] {
        let command = ["analyze", path(&model), "-c", path(&gold)].into_iter().chain(more.split(' '));
        answers.refused(more, &run(&command.collect::<Vec<_>>()).unwrap_err());
    }
    answers.held("shards-usage");
}

/// Partials hold classes of layers. Layers with different visibility, and layers of decoders, have different classes.
#[test]
fn shards_merge_for_models_with_several_layer_classes() {
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

/// A partial has no labels, so options about labels are refused. Every other output is a report.
#[test]
fn merge_refuses_outputs_that_it_cannot_write() {
    let shards = Shards::new();
    let (one, merged) = (shards.shard("one.headscope", "1/1", &[]), shards.file("merged.headscope"));
    let mut answers = shards.answers();
    for labels in [["--policy", "/nonexist"], ["--min-count", "7"], ["--preset", "voita2019"]] {
        let refusal = run(&[&["merge", &one, "-o", &merged], &labels[..]].concat()).unwrap_err();
        answers.refused(&labels.join(" "), &refusal);
    }
    assert!(!Path::new(&merged).exists());
    run(&["merge", &one, "-o", &merged]).unwrap();
    assert!(fs::read(&merged).unwrap() == fs::read(&one).unwrap());
    answers.refused("-o x.txt", &run(&["merge", &one, "-o", &shards.file("x.txt")]).unwrap_err());
    answers.held("shards-outputs");
}

/// One part of several is no report and cannot become a report alone.
#[test]
fn part_in_place_of_a_report_is_refused_with_the_way_out() {
    let shards = Shards::new();
    let third = shards.shard("3-of-8.headscope", "3/8", &[]);
    let csv = shards.file("heads.csv");
    let mut answers = shards.answers();
    let mut refused = |title: &str, part: &str| {
        let errors = [&["show", part][..], &["export", part, "-o", &csv], &["cite", part]]
            .map(|arguments| run(arguments).unwrap_err());
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        answers.refused(title, &errors[0]);
    };
    refused("a shard", &third);
    let with = ["--with", "probes", "--without", "trees,words,frequency,explained-variance"];
    let first = shards.shard("first.headscope", "1/1", &with);
    let after = shards.shard("after.headscope", "2/2", &[&with[..], &["--after", &first]].concat());
    refused("the first of two stages", &first);
    refused("a shard of the second", &after);
    let bytes = fs::read(&third).unwrap();
    fs::write(&third, &bytes[..bytes.len() - 1]).unwrap();
    refused("a damaged shard", &third);
    answers.refused("compare", &run(&["compare", "--numbers", &after, &after]).unwrap_err());
    answers.held("shards-no-report");
}

/// The output of a job of a job array. `set` are variables of its environment.
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
fn job_array_runs_until_no_part_is_missing() {
    let shards = Shards::new();
    let whole = shards.analyze(&["-o", "-"]);
    let (parts, mut answers) = (shards.file("parts"), shards.answers());
    let slurm = |id| job(&shards, &[("SLURM_ARRAY_TASK_ID", id)], &[]);
    slurm("1").unwrap();
    // As if the second job had been killed, and the third job had met a full disk or a failing machine.
    slurm("3").unwrap();
    let third = Path::new(&parts).join("3-of-3.headscope");
    let bytes = fs::read(&third).unwrap();
    let begun = [&bytes[..30], &vec![0; bytes.len() - 30]].concat();
    let mut refusals = Vec::new();
    let zeros = [vec![0; bytes.len()], vec![0; 5], [&[0; 512], &bytes[512..]].concat(), begun];
    for left in [bytes.len() - 1, 30, 5, 0].map(|length| bytes[..length].to_vec()).into_iter().chain(zeros) {
        fs::write(&third, left).unwrap();
        let output = headscope(&["merge", "--missing", "3", &parts]).output().unwrap();
        refusals.push(outcome(&output).unwrap_err());
        assert_eq!(output.stdout, b"2-3\n");
    }
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:?}");
    answers.refused("one is damaged", &refusals[0]);
    answers.said("it is run again", &slurm("3").unwrap().1);
    assert!(fs::read(&third).unwrap() == bytes);
    answers.refused("one is missing", &run(&["merge", "-o", "-", &parts]).unwrap_err());
    // Other schedulers count from 0.
    job(&shards, &[("JOB_COMPLETION_INDEX", "1")], &[]).unwrap();
    assert_eq!(run(&["merge", "--missing", "3", &parts]).unwrap(), "");
    assert!(run(&["merge", "--no-run-info", "-o", "-", &parts]).unwrap() == whole);
    // Existing parts stay untouched.
    let before = fs::metadata(&third).unwrap().modified().unwrap();
    let (printed, notes) = slurm("3").unwrap();
    assert_eq!(printed, "");
    answers.said("it is there", &notes);
    assert_eq!(fs::metadata(&third).unwrap().modified().unwrap(), before);
    answers.held("shards-array");
}

#[test]
fn part_of_another_analysis_is_replaced_only_by_name() {
    let shards = Shards::new();
    let other = |more: &[&str]| job(&shards, &[("AWS_BATCH_JOB_ARRAY_INDEX", "0")], more);
    other(&[]).unwrap();
    let mut answers = shards.answers();
    answers.refused("another fold", &other(&["--from-token", "first"]).unwrap_err());
    answers.held("shards-another-analysis");
    let file = shards.file("parts/1-of-3.headscope");
    let before = fs::read(&file).unwrap();
    shards.analyze(&["--shard", "1/3", "-o", &file, "-q", "--from-token", "first"]);
    assert!(fs::read(&file).unwrap() != before);
}

#[test]
fn missing_shards_are_listed_for_one_run_only() {
    let shards = Shards::new();
    let empty = shards.file("empty");
    fs::create_dir(&empty).unwrap();
    let mut answers = shards.answers();
    let mut missing = |title: &str, count: &str, parts: &[&str]| {
        let output = headscope(&[&["merge", "--missing", count], parts].concat()).output().unwrap();
        answers.refused(title, &outcome(&output).unwrap_err());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(missing("all are missing", "8", &[&empty]), "1-8\n");
    let one = shards.shard("one.headscope", "4/8", &[]);
    assert_eq!(missing("one is there", "8", &[&one]), "1-3,5-8\n");
    assert_eq!(missing("it is of others", "9", &[&one]), "");
    let limited = shards.shard("limited.headscope", "5/8", &["--limit", "500"]);
    missing("another limit", "8", &[&one, &limited]);
    missing("a corpus", "8", &[path(&shards.corpus)]);
    for count in ["0", "65537", "99999999999", "x"] {
        missing(&format!("of {count}"), count, &[&one]);
    }
    missing("with an output", "8", &[&one, "-o", "report.json"]);
    let report = run(&["merge", &empty, "-o", &shards.file("report.json")]);
    answers.refused("a report of none", &report.unwrap_err());
    answers.held("shards-missing");
}

#[test]
fn job_without_a_number_is_refused() {
    let (shards, mut answers) = (Shards::new(), Answers::new());
    let (slurm, other) = (("SLURM_ARRAY_TASK_ID", "1"), ("JOB_COMPLETION_INDEX", "1"));
    for set in [&[("SLURM_ARRAY_TASK_ID", "0")][..], &[slurm, other], &[]] {
        answers.refused(&format!("{set:?}"), &job(&shards, set, &[]).unwrap_err());
    }
    assert!(!Path::new(&shards.file("parts")).exists());
    answers.held("shards-job");
}

/// The second stage is a separate job array.
#[test]
fn job_array_runs_the_second_stage() {
    let shards = Shards::new();
    let with = ["--with", "probes", "--without", "trees,words,frequency,explained-variance"];
    let whole = shards.analyze(&[&with[..], &["-o", "-"]].concat());
    let [first, after, merged] = ["first", "after", "merged.headscope"].map(|name| shards.file(name));
    let mut answers = shards.answers();
    for id in ["1", "2", "3"] {
        let (says, _) = job_to("first", &shards, &[("SLURM_ARRAY_TASK_ID", id)], &with).unwrap();
        answers.said(&format!("job {id} of the first stage"), &says);
    }
    let report = run(&["merge", &first, "-o", &shards.file("report.json")]);
    answers.refused("a report of the first stage", &report.unwrap_err());
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
    // A job array of the first stage would have no work.
    let (status, [printed, error]) = missing(&[&first]);
    assert_eq!(printed, "");
    answers.refused("the first stage is whole", &(status, error));
    run(&["merge", &first, "-o", &merged]).unwrap();
    let second = |id: &str| {
        let more = [&with[..], &["--after", &merged]].concat();
        job_to("after", &shards, &[("JOB_COMPLETION_INDEX", id)], &more).unwrap()
    };
    for id in ["2", "0"] {
        answers.said(&format!("job {id} of the second stage"), &second(id).0);
    }
    let (status, [printed, _]) = missing(&[&after]);
    assert_eq!((status, &*printed), (6, "2\n"));
    answers.refused("one is missing", &run(&["merge", &merged, &after, "-o", "-"]).unwrap_err());
    second("1");
    assert_eq!(missing(&[&after]), (0, [String::new(), String::new()]));
    answers.said("it is there", &second("1").1);
    let report = |parts: &[&str]| run(&[&["merge", "--no-run-info", "-o", "-"], parts].concat()).unwrap();
    assert!(report(&[&merged, &after]) == whole);

    // Both stages in one folder merge to the report, but `--missing` needs the parts of one stage.
    for part in fs::read_dir(&after).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&part, Path::new(&first).join(part.file_name().unwrap())).unwrap();
    }
    assert!(report(&[&first]) == whole);
    let (status, [printed, error]) = missing(&[&first]);
    assert_eq!(printed, "");
    answers.refused("both stages", &(status, error));
    answers.held("shards-stages");
}

/// A folder of parts, and of other entries whose names are names of parts.
#[test]
#[cfg(unix)]
fn only_files_count_as_parts() {
    let shards = Shards::new();
    let parts = shards.file("parts");
    job(&shards, &[("SLURM_ARRAY_TASK_ID", "1")], &[]).unwrap();
    let at = |name: &str| Path::new(&parts).join(name);
    assert!(std::process::Command::new("mkfifo").arg(at("2-of-3.headscope")).status().unwrap().success());
    fs::create_dir(at("3-of-3.headscope")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("4-of-3.headscope")).unwrap();
    let mut answers = shards.answers();
    answers.refused("two are none", &run(&["merge", "-o", "-", &parts]).unwrap_err());
    assert_eq!(run(&["merge", "--missing", "3", &parts]).unwrap_err().0, 6);
    for id in ["2", "3"] {
        answers.refused(&format!("job {id}"), &job(&shards, &[("SLURM_ARRAY_TASK_ID", id)], &[]).unwrap_err());
    }
    // A link to a part is a part.
    fs::rename(at("1-of-3.headscope"), shards.file("elsewhere")).unwrap();
    std::os::unix::fs::symlink(shards.file("elsewhere"), at("1-of-3.headscope")).unwrap();
    answers.refused("the third is a link to one", &run(&["merge", "-o", "-", &parts]).unwrap_err());
    answers.held("shards-no-file");
}

/// Reports, parts and logs beside the files of a corpus do not change the corpus.
#[test]
fn other_files_in_the_folder_of_a_corpus_change_no_run() {
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

/// A script that runs again and again submits the missing jobs, or fails.
#[test]
#[cfg(unix)]
fn submit_script_fails_if_it_cannot_tell_the_missing_jobs() {
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
    let search_path =
        format!("{}:{}:{}", folder.join("bin").display(), program.display(), std::env::var("PATH").unwrap());
    let submit = || {
        let mut command = std::process::Command::new("bash");
        let status =
            command.args(["-c", script]).current_dir(folder).env("PATH", &search_path).output().unwrap().status;
        let submitted = fs::read_to_string(folder.join("submitted.txt")).unwrap_or_default();
        let _ = fs::remove_file(folder.join("submitted.txt"));
        (status.code().unwrap(), submitted)
    };
    let merge = "--kill-on-invalid-dep=yes --dependency=afterok:17 merge.sh";
    assert_eq!(submit(), (0, format!("--parsable --array=1-8 array.sh\n{merge}\n")));
    let part = shards.shard("parts/5-of-8.headscope", "5/8", &[]);
    assert_eq!(submit(), (0, format!("--parsable --array=1-4,6-8 array.sh\n{merge}\n")));
    // A machine that fails while it writes leaves zeros.
    let bytes = fs::read(&part).unwrap();
    fs::write(&part, vec![0; bytes.len()]).unwrap();
    assert_eq!(submit(), (0, format!("--parsable --array=1-8 array.sh\n{merge}\n")));
    fs::write(&part, "something else\n").unwrap();
    assert_eq!(submit(), (1, String::new()));
    // A complete first stage has no missing part, and the second stage needs another command.
    fs::remove_file(&part).unwrap();
    let with = ["--with", "probes", "--without", "trees,words,frequency,explained-variance"];
    for number in 1..=7 {
        shards.shard(&format!("parts/{number}-of-8.headscope"), &format!("{number}/8"), &with);
    }
    assert_eq!(submit(), (0, format!("--parsable --array=8 array.sh\n{merge}\n")));
    shards.shard("parts/8-of-8.headscope", "8/8", &with);
    assert_eq!(submit(), (1, String::new()));
}
