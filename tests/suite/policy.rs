//! Policies from files, and saved reports that are relabelled under another policy.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, outcome, path, run, tiny_bert};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The exit status of a run, and its output or its error message.
fn status_and_text(arguments: &[&str]) -> (i32, String) {
    let output = headscope(arguments).output().unwrap();
    // The tests of the commands cover the note about an old command name.
    let is_note = output.status.success() && output.stderr.ends_with(b"goes with the next version\n");
    let text = if output.stderr.is_empty() || is_note { &output.stdout } else { &output.stderr };
    (output.status.code().unwrap(), String::from_utf8(text.clone()).unwrap())
}

fn relabel(report: &Path, policy: &Path, more: &[&str]) -> (i32, String) {
    status_and_text(&[&["relabel", path(report), "--policy", path(policy)], more].concat())
}

/// A folder with a report of the tiny model.
struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> Self {
        let context = Self(tempfile::tempdir().unwrap());
        context.analyze("report.json", &[]);
        context
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    fn analyze(&self, name: &str, more: &[&str]) -> PathBuf {
        let (model, corpus, output) = (tiny_bert(), fixture("corpus/gold.conllu"), self.path(name));
        let arguments = ["analyze", path(&model), "-c", path(&corpus), "-q", "--no-run-info", "-o", path(&output)];
        run(&[arguments.as_slice(), more].concat()).unwrap();
        output
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// The report after `change`, saved under another name.
    fn changed(&self, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
        let mut report = self.json("report.json");
        change(&mut report);
        self.file(name, serde_json::to_vec(&report).unwrap())
    }

    fn answers(&self) -> Answers {
        Answers::within(self.0.path())
    }

    fn diff(&self, b: &Path, more: &[&str]) -> (i32, String) {
        status_and_text(&[&["compare", "--numbers", path(&self.path("report.json")), path(b)], more].concat())
    }
}

/// Thresholds that are low enough for a random model to get labels of several kinds.
const LOOSE: &str = "entropy_ratio = 0.5\nsyntactic_margin = 0\nsyntactic_min_count = 3 # few\nlabel_q = 1\n";

#[test]
fn relabelling_equals_an_analysis_with_that_policy() {
    let context = TestFolder::new();
    let mut answers = context.answers();
    let policy = context.file("loose.toml", LOOSE);
    context.analyze("analysed.json", &["--policy", path(&policy)]);
    let report = context.path("report.json");
    let (json, csv) = (context.path("relabelled.json"), context.path("relabelled.csv"));
    let (status, text) = relabel(&report, &policy, &["-o", path(&json), "-o", path(&csv)]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("entropy_ratio: 0.8 -> 0.5\nsyntactic_margin: 0.1 -> 0\n"), "{text}");
    answers.said("before the heads that change", text.split("\n  L").next().unwrap());
    // Every change begins at one column, whether or not the first label changes.
    let changes: Vec<&str> = text.lines().filter(|line| line.starts_with("  L")).collect();
    let begins = |line: &&str| line.as_bytes()[9] == b' ' && line.as_bytes()[10] != b' ';
    assert!(!changes.is_empty() && changes.iter().all(begins), "{text}");
    assert_eq!(fs::read(&json).unwrap(), fs::read(context.path("analysed.json")).unwrap());
    assert!(fs::read_to_string(&csv).unwrap().contains("syntactic:"));
    // Back to the default policy: relabelling restores the first report byte by byte.
    let default = context.file("default.toml", "");
    let (_, text) = relabel(&json, &default, &["-o", "-"]);
    assert_eq!(text.into_bytes(), fs::read(&report).unwrap());
    let (status, text) = relabel(&report, &default, &[]);
    assert_eq!(status, 0, "{text}");
    answers.said("the policy that it has", &text);
    answers.held("policy-relabelled");
}

/// A report of six digits lacks only values that no policy needs. Even the loosest policy gives it the labels of an
/// analysis.
#[test]
fn relabelled_rounded_report_has_the_labels_of_an_analysis() {
    let context = TestFolder::new();
    let policy = context.file("loose.toml", LOOSE);
    context.analyze("rounded.json", &["--digits", "6"]);
    context.analyze("analysed.json", &["--digits", "6", "--policy", path(&policy)]);
    let relabelled = context.path("relabelled.json");
    let (status, text) = relabel(&context.path("rounded.json"), &policy, &["-o", path(&relabelled)]);
    assert_eq!(status, 0, "{text}");
    let labels = |name: &str| -> Vec<(Value, Value, Value)> {
        let report = context.json(name);
        let heads = report["heads"].as_array().unwrap().clone();
        let all = heads.iter().flat_map(|head| head["labels"].as_array().unwrap().clone());
        all.map(|label| (label["label"].clone(), label["borderline"].clone(), label["beyond"].clone())).collect()
    };
    let relabelled_labels = labels("relabelled.json");
    assert!(relabelled_labels.iter().any(|(label, ..)| label.as_str().unwrap().starts_with("syntactic:")));
    assert_eq!(relabelled_labels, labels("analysed.json"));
}

#[test]
fn min_count_overrides_the_policy_file() {
    let context = TestFolder::new();
    let policy = context.file("policy.toml", "syntactic_min_count = 3\nself_mass = 0.25\n");
    context.analyze("both.json", &["--policy", path(&policy), "--min-count", "200"]);
    let settings = &context.json("both.json")["settings"]["policy"];
    assert_eq!((&settings["syntactic_min_count"], &settings["self_mass"]), (&json!(200), &json!(0.25)));
}

#[test]
fn unusable_policies_and_reports_are_refused() {
    let context = TestFolder::new();
    let mut answers = context.answers();
    let (report, policy) =
        (context.path("report.json"), context.file("policy.toml", "self_mass = 0.5\nself_mas = 1\n"));
    answers.refused("relabel by a misspelt threshold", &relabel(&report, &policy, &[]));
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let analyze = ["analyze", path(&model), "-c", path(&corpus), "--policy", path(&policy)];
    answers.refused("analyze by it", &status_and_text(&analyze));
    let (_, missing) = relabel(&report, &context.path("missing.toml"), &[]);
    answers.said("no policy", missing.rsplit_once(": ").unwrap().0);

    let (good, output) = (context.file("good.toml", ""), context.path("new.json"));
    let text = context.file("text.json", "{\n  oops\n}\n");
    let newer = context.changed("newer.json", |report| report["schema_version"] = json!(99));
    let older = context.changed("older.json", |report| {
        report["heads"][3].as_object_mut().unwrap().remove("ci95");
    });
    let short = context.changed("short.json", |report| {
        report["heads"].as_array_mut().unwrap().pop();
    });
    let broken = context.changed("broken.json", |report| report["relations"][0]["by_head"] = json!([]));
    for report in [text, newer, older, short, broken] {
        let (status, message) = relabel(&report, &good, &["-o", path(&output)]);
        assert!(!output.exists());
        // The column depends on the length of the numbers before it.
        let (before, after) = message.split_once(" at column ").unwrap_or((&message, ""));
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
        answers.refused(path(&report), &(status, format!("{before}{after}")));
    }
    answers.held("policy-unusable");
}

#[test]
fn reports_without_their_evidence_are_refused() {
    let context = TestFolder::new();
    let mut answers = context.answers();
    type Change = fn(&mut Value);
    let broken: [(&str, Change); 5] = [
        ("empty.json", |report| report["heads"] = json!([])),
        ("twice.json", |report| report["heads"][1] = report["heads"][0].clone()),
        ("large.json", |report| report["model"]["heads"] = json!(1_u64 << 40)),
        ("bare.json", |report| report["heads"][0]["metrics"] = json!({})),
        ("hollow.json", |report| {
            drop(report["heads"][5]["metrics"].as_object_mut().unwrap().remove("entropy"));
        }),
    ];
    for (name, change) in broken {
        let report = context.changed(name, change);
        // Without its evidence, such a report would show no difference from any other report.
        answers.refused(&format!("compare with {name}"), &context.diff(&report, &[]));
        let relabelled = status_and_text(&["relabel", path(&report), "--preset", "voita2019"]);
        answers.refused(&format!("relabel {name}"), &relabelled);
    }
    answers.held("policy-without-evidence");
}

/// The planted heads with a positional role; see `tests/suite/in_the_box.rs`.
const PLANTED_POSITIONAL: [(&str, &str); 5] = [
    ("L0H0", "previous-token"),
    ("L0H1", "next-token"),
    ("L0H3", "offset:-2"),
    ("L2H0", "offset:2"),
    ("L2H1", "offset:-5"),
];

/// The mean confidence of the heads with a label and of the heads without, as the summary prints it.
fn confidences(report: &Value) -> [String; 2] {
    [false, true].map(|unlabelled| {
        let heads = report["heads"].as_array().unwrap().iter();
        let heads = heads.filter(|head| (head["primary"] == "unlabelled") == unlabelled);
        let known: Vec<f64> = heads.map(|head| head["metrics"]["confidence"].as_f64().unwrap()).collect();
        format!("{:.3}", known.iter().sum::<f64>() / known.len() as f64)
    })
}

/// The line about the preset in a summary or after relabelling.
fn preset_line(text: &str) -> &str {
    text.lines().find(|line| line.starts_with("Preset voita2019: ")).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn voita2019_finds_exactly_the_planted_positional_heads() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report.json");
    let summary =
        run(&["analyze", "--summary", "full", "box:planted", "--preset", "voita2019", "-o", path(&output)]).unwrap();
    let report: Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
    for head in report["heads"].as_array().unwrap() {
        let planted = PLANTED_POSITIONAL.iter().find(|(name, _)| head["name"] == *name).map(|(_, label)| *label);
        let labels: Vec<&str> =
            head["labels"].as_array().unwrap().iter().map(|label| label["label"].as_str().unwrap()).collect();
        assert_eq!(labels, planted.into_iter().collect::<Vec<_>>(), "{}", head["name"]);
        assert_eq!(head["primary"], planted.unwrap_or("unlabelled"));
        let near = head["nearest"].as_array().unwrap();
        let rules: Vec<&str> = near.iter().map(|near| near["rule"].as_str().unwrap()).collect();
        let known =
            |rule: &&str| ["offset_argmax[", "accuracy(", "rare_argmax"].iter().any(|own| rule.starts_with(own));
        assert!(rules.iter().all(known), "{rules:?}");
    }
    assert!(report["tests"]["significant"].is_number() && report["tests"]["count"].as_u64().unwrap() > 0);
    assert!(report["settings"]["policy"]["entropy_ratio"].is_null());
    // A planted positional head puts all its weight on one token, except at edge words without such a neighbour.
    let [positional, others] = confidences(&report);
    assert!(others < positional, "{positional} {others}");
    let line = preset_line(&summary);
    assert!([positional, others].iter().all(|mean| line.contains(mean.as_str())), "{line}");
    let mut answers = Answers::new();
    answers.said("the line of the preset", line);
    let pairs = summary.lines().filter(|line| line.contains("head-relation pair"));
    answers.said("tests of relations", &pairs.collect::<Vec<_>>().join("\n"));
    answers.held("policy-voita2019");
    let schema: Value = serde_json::from_str(&run(&["schema"]).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&report));
}

#[test]
fn relabelling_by_a_preset_equals_an_analysis_with_it() {
    let context = TestFolder::new();
    let report = context.path("report.json");
    let read = |name: &str| fs::read(context.path(name)).unwrap();
    context.analyze("preset.json", &["--preset", "voita2019"]);
    let (status, text) = status_and_text(&[
        "relabel",
        path(&report),
        "--preset",
        "voita2019",
        "-o",
        path(&context.path("relabelled.json")),
    ]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("offset_mass: 0.5 -> off\nself_mass: 0.5 -> off\n"), "{text}");
    preset_line(&text);
    assert!(read("relabelled.json") == read("preset.json"));
    // The settings of a policy file override the preset.
    let loose = context
        .file("loose.toml", "entropy_ratio = 0.5\nsyntactic_min_count = 3\nsyntactic_margin = 0\nlabel_q = 'off'\n");
    let presets = ["--preset", "voita2019", "--policy", path(&loose), "--preset", "clark2019"];
    // The preset would read words apart, which no relabelling can do.
    context.analyze("both.json", &[&presets[..], &["--words", "written"]].concat());
    let (_, text) = relabel(&report, &loose, &["--preset", "voita2019", "-o", "-"]);
    let (both, relabelled) = (context.json("both.json"), serde_json::from_str::<Value>(&text).unwrap());
    assert_eq!(both["heads"], relabelled["heads"]);
    assert_eq!(both["settings"]["policy"], relabelled["settings"]["policy"]);
    assert!(both["settings"]["policy"]["label_q"].is_null());
    assert_ne!(both["label_counts"]["broad"], 0);
    let caveats = relabelled["caveats"].as_array().unwrap();
    assert!(caveats.iter().any(|caveat| caveat["id"] == "significance-not-asked"), "{caveats:?}");
    assert!(both["settings"]["studies"].as_array().unwrap().contains(&json!("clark2019")));
    // Back to the default policy.
    let default = context.file("default.toml", "");
    let (_, text) = relabel(&context.path("preset.json"), &default, &["-o", "-"]);
    assert_eq!(text.into_bytes(), read("report.json"));
}

/// Thresholds of numbers, which belong to no rule that could be switched off.
const NEVER_OFF: [&str; 8] = [
    "syntactic_margin",
    "syntactic_min_count",
    "syntactic_specific_margin",
    "syntactic_beyond_margin",
    "link_margin",
    "link_beyond_margin",
    "min_queries",
    "min_sentences",
];

#[test]
fn policy_without_rules_gives_no_labels_and_no_nearest_rules() {
    let context = TestFolder::new();
    let names =
        context.json("report.json")["settings"]["policy"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let label_thresholds = names.iter().filter(|name| !name.starts_with("health_"));
    let (rules, numbers): (Vec<_>, Vec<_>) = label_thresholds.partition(|name| !NEVER_OFF.contains(&name.as_str()));
    assert_eq!(numbers.len(), NEVER_OFF.len());
    let off: Vec<String> = rules.iter().map(|name| format!("{name} = \"off\"\n")).collect();
    let policy = context.file("none.toml", off.concat() + "syntactic_min_count = 1000000\n");
    let (json, csv) = (context.path("none.json"), context.path("none.csv"));
    assert_eq!(relabel(&context.path("report.json"), &policy, &["-o", path(&json), "-o", path(&csv)]).0, 0);
    for head in context.json("none.json")["heads"].as_array().unwrap() {
        assert_eq!(
            (&head["primary"], &head["labels"], &head["nearest"]),
            (&json!("unlabelled"), &json!([]), &json!([]))
        );
    }
    // Every command that reads reports reads this one, and its summary is printed.
    assert_eq!(context.diff(&json, &[]).0, 0);
    assert_eq!(relabel(&json, &context.file("default.toml", ""), &[]).0, 0);
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let summary =
        run(&["analyze", "--summary", "full", path(&model), "-c", path(&corpus), "--policy", path(&policy)]).unwrap();
    let mut answers = context.answers();
    let counted = summary.lines().filter(|line| line.starts_with("   12  "));
    answers.said("all heads", &counted.collect::<Vec<_>>().join("\n"));
    answers.held("policy-without-rules");
}

#[test]
fn presets_are_refused_where_they_cannot_be_followed() {
    let context = TestFolder::new();
    let mut answers = context.answers();
    let report = context.path("report.json");
    answers.refused("relabel without a policy", &status_and_text(&["relabel", path(&report)]));
    answers.refused("relabel by clark2019", &status_and_text(&["relabel", path(&report), "--preset", "clark2019"]));
    answers.refused("merge by clark2019", &status_and_text(&["merge", "part.headscope", "--preset", "clark2019"]));
    // Both presets allow only their own labels, so they exclude each other in either order.
    for [one, other] in [["voita2019", "kovaleva2019"], ["kovaleva2019", "voita2019"]] {
        for command in [&["analyze"][..], &["relabel", path(&report)], &["merge", "part.headscope"]] {
            let both = status_and_text(&[command, &["--preset", one, "--preset", other]].concat());
            answers.refused(&format!("{} by {one} and {other}", command[0]), &both);
        }
    }
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let part = context.path("part.headscope");
    let shard = ["analyze", path(&model), "-c", path(&corpus), "--no-run-info", "--shard", "1/1", "-o", path(&part)];
    answers.refused("a shard by voita2019", &status_and_text(&[&shard[..], &["--preset", "voita2019"]].concat()));
    // The preset is given to `merge`.
    run(&shard).unwrap();
    let merged = run(&["merge", path(&part), "--preset", "voita2019", "--no-run-info", "-o", "-"]).unwrap();
    context.analyze("preset.json", &["--preset", "voita2019"]);
    assert!(merged.into_bytes() == fs::read(context.path("preset.json")).unwrap());
    // Standard input can be read once, which suffices for a preset that only sets a policy.
    let piped = ["analyze", path(&model), "-c", "-", "--format", "conllu", "--limit", "9", "--preset"];
    let text = fs::read(&corpus).unwrap();
    let voita = headscope(&[&piped[..], &["voita2019"]].concat()).write_stdin(text).output().unwrap();
    preset_line(&outcome(&voita).unwrap());
    answers.refused("clark2019 over standard input", &status_and_text(&[&piped[..], &["clark2019"]].concat()));
    answers.held("policy-presets");
}
