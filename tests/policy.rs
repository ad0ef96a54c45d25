//! Policies from files, and saved reports under another policy or held against each other.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::{fixture, headscope, outcome, path, run, tiny_bert};
use tempfile::TempDir;

/// A folder with a report of the tiny model.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        bench.analyze("report.json", &[]);
        bench
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

    /// The report after `change`, under another name.
    fn changed(&self, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
        let mut report = self.json("report.json");
        change(&mut report);
        self.file(name, serde_json::to_vec(&report).unwrap())
    }

    /// The exit status of a run, and what it printed or complained of, with the folder's path left out.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = headscope(arguments).output().unwrap();
        let text = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        let text = String::from_utf8(text.clone()).unwrap();
        (output.status.code().unwrap(), text.replace(&format!("{}/", path(self.0.path())), ""))
    }

    fn relabel(&self, report: &Path, policy: &Path, more: &[&str]) -> (i32, String) {
        self.run(&[&["relabel", path(report), "--policy", path(policy)], more].concat())
    }

    fn diff(&self, b: &Path, more: &[&str]) -> (i32, String) {
        self.run(&[&["diff", path(&self.path("report.json")), path(b)], more].concat())
    }
}

/// Low enough for a random model to have labels of several kinds.
const LOOSE: &str = "entropy_ratio = 0.5\nsyntactic_margin = 0\nsyntactic_min_count = 3 # few\nsyntactic_q = 1\n";

#[test]
fn relabelling_is_analysing_with_that_policy() {
    let bench = Bench::new();
    let policy = bench.file("loose.toml", LOOSE);
    bench.analyze("analysed.json", &["--policy", path(&policy)]);
    let report = bench.path("report.json");
    let (json, csv) = (bench.path("relabelled.json"), bench.path("relabelled.csv"));
    let (status, text) = bench.relabel(&report, &policy, &["-o", path(&json), "-o", path(&csv)]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("entropy_ratio: 0.8 -> 0.5\nsyntactic_margin: 0.1 -> 0\n"), "{text}");
    assert!(text.contains("of 12 heads change:\n  L"), "{text}");
    assert_eq!(fs::read(&json).unwrap(), fs::read(bench.path("analysed.json")).unwrap());
    assert!(fs::read_to_string(&csv).unwrap().contains("syntactic:"));
    // And back: the default policy gives what was there at first, byte for byte.
    let default = bench.file("default.toml", "");
    let (_, text) = bench.relabel(&json, &default, &["-o", "-"]);
    assert_eq!(text.into_bytes(), fs::read(&report).unwrap());
    assert_eq!(bench.relabel(&report, &default, &[]), (0, "No label changes.\n".to_owned()));
}

#[test]
fn the_command_line_has_the_last_word_on_the_fewest_words() {
    let bench = Bench::new();
    let policy = bench.file("policy.toml", "syntactic_min_count = 3\nself_mass = 0.25\n");
    bench.analyze("both.json", &["--policy", path(&policy), "--min-count", "200"]);
    let settings = &bench.json("both.json")["settings"]["policy"];
    assert_eq!((&settings["syntactic_min_count"], &settings["self_mass"]), (&json!(200), &json!(0.25)));
}

#[test]
fn policies_and_reports_that_cannot_be_used() {
    let bench = Bench::new();
    let (report, policy) = (bench.path("report.json"), bench.file("policy.toml", "self_mass = 0.5\nself_mas = 1\n"));
    let expected = "error: policy.toml:2: there is no threshold `self_mas`; did you mean `self_mass`?\n";
    assert_eq!(bench.relabel(&report, &policy, &[]), (1, expected.to_owned()));
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let analyze = ["analyze", path(&model), "-c", path(&corpus), "--policy", path(&policy)];
    assert_eq!(bench.run(&analyze), (1, expected.to_owned()));
    let missing = bench.path("missing.toml");
    assert!(bench.relabel(&report, &missing, &[]).1.starts_with("error: cannot read the policy `missing.toml`: "));

    let good = bench.file("good.toml", "");
    let refusal = |report: PathBuf| {
        let output = bench.path("new.json");
        let (status, message) = bench.relabel(&report, &good, &["-o", path(&output)]);
        assert_eq!(status, 1, "{message}");
        assert!(!output.exists());
        message
    };
    let text = bench.file("text.json", "{\n  oops\n}\n");
    assert!(refusal(text).starts_with("error: this is no report of headscope in JSON: text.json:2: "));
    let newer = refusal(bench.changed("newer.json", |report| report["schema_version"] = json!(99)));
    assert!(newer.starts_with("error: newer.json: its schema_version is 99 and this program reads 1: "), "{newer}");
    let older = refusal(bench.changed("older.json", |report| {
        report["heads"][3].as_object_mut().unwrap().remove("ci95");
    }));
    assert!(older.contains("analyse again: older.json:1: missing field `ci95`"), "{older}");
    let short = refusal(bench.changed("short.json", |report| {
        report["heads"].as_array_mut().unwrap().pop();
    }));
    assert_eq!(short, "error: short.json: the report is not whole: `heads` does not list 3 layers of 4 heads\n");
    let broken = refusal(bench.changed("broken.json", |report| report["relations"][0]["head"] = json!(7)));
    assert!(broken.contains("the relation `acl` does not list every head"), "{broken}");
}

#[test]
fn a_report_does_not_differ_from_itself() {
    let bench = Bench::new();
    let report = bench.path("report.json");
    assert_eq!(bench.diff(&report, &[]), (0, "No label, number or best head differs.\n".to_owned()));
    let (status, text) = bench.diff(&report, &["--json"]);
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &found["same"], &found["not_shared"]), (0, &json!(true), &json!([])));
    // One of the two may come from standard input.
    let piped = headscope(&["diff", "-", path(&report)]).write_stdin(fs::read(&report).unwrap()).output().unwrap();
    assert!(outcome(&piped).unwrap().starts_with("No label"));
}

#[test]
fn what_differs_is_said_and_is_the_exit_status() {
    let bench = Bench::new();
    let mut intervals = (0.0, 0.0);
    let other = bench.changed("other.json", |report| {
        report["heads"][1]["primary"] = json!("broad");
        let interval = &report["heads"][2]["ci95"]["uuas"];
        intervals = (interval[0].as_f64().unwrap(), interval[1].as_f64().unwrap());
        report["heads"][2]["ci95"]["uuas"] = json!([intervals.1 + 0.01, intervals.1 + 0.02]);
        report["corpus"]["name"] = json!("other.conllu");
    });
    let (status, text) = bench.diff(&other, &[]);
    assert_eq!(status, 1);
    for part in [
        "Not shared (a | b):\n  corpus.name: \"gold.conllu\" | \"other.conllu\"\n",
        "Primary labels that differ: 1\n  L0H1    unlabelled -> broad\n",
        "Numbers whose intervals are apart: 1\n  L0H2    uuas: ",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let found: Value = serde_json::from_str(&bench.diff(&other, &["--json"]).1).unwrap();
    assert_eq!(found["primary_labels"], json!([{ "head": "L0H1", "a": "unlabelled", "b": "broad" }]));
    assert_eq!((&found["metrics"][0]["of"], &found["metrics"][0]["metric"]), (&json!("L0H2"), &json!("uuas")));
    assert!((found["metrics"][0]["gap"].as_f64().unwrap() - 0.01).abs() < 1e-12);
    // The gap is tolerated, the label is not: how far its score moved is not known.
    let (status, text) = bench.diff(&other, &["--tolerance", "0.011"]);
    assert_eq!(status, 1);
    assert!(text.contains("Within the tolerance of 0.011: 1\n") && !text.contains("apart"), "{text}");
}

#[test]
fn a_best_head_moves_by_more_than_the_tolerance() {
    let bench = Bench::new();
    let mut leads = [0.0; 2];
    let other = bench.changed("other.json", |report| {
        let relation = &mut report["relations"][0];
        let (layer, head) = (relation["layer"].as_u64().unwrap(), relation["head"].as_u64().unwrap());
        let direction = relation["direction"].as_str().unwrap().to_owned();
        let best = relation["accuracy"].as_f64().unwrap();
        let entries = relation["by_head"].as_array().unwrap();
        let other = entries
            .iter()
            .position(|entry| (entry["layer"].as_u64(), entry["head"].as_u64()) != (Some(layer), Some(head)));
        let other = other.unwrap();
        let lead = best - entries[other][&direction].as_f64().unwrap();
        // Here the other head is a hundredth better.
        leads = [lead, 0.01];
        relation["by_head"][other][&direction] = json!(best + 0.01);
        relation["accuracy"] = json!(best + 0.01);
        (relation["layer"], relation["head"]) =
            (relation["by_head"][other]["layer"].clone(), relation["by_head"][other]["head"].clone());
    });
    let (status, text) = bench.diff(&other, &[]);
    assert!(status == 1 && text.contains("Relations whose best head moved: 1\n  acl: "), "{text}");
    let enough = (leads[0].max(leads[1]) + 1e-6).to_string();
    let (status, text) = bench.diff(&other, &["--tolerance", &enough]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("Within the tolerance"), "{text}");
}

#[test]
fn a_label_that_hardly_moves_is_tolerated() {
    let bench = Bench::new();
    let label = |label: &str, score: f64| json!({ "label": label, "score": score });
    bench.changed("report.json", |report| {
        report["heads"][0]["primary"] = json!("broad");
        report["heads"][0]["labels"] = json!([label("broad", 0.801)]);
    });
    let other = bench.changed("other.json", |report| {
        report["heads"][0]["primary"] = json!("unlabelled");
        report["heads"][0]["labels"] = json!([]);
        report["heads"][0]["nearest"] = json!([label("broad", 0.799)]);
    });
    assert_eq!(bench.diff(&other, &[]).0, 1);
    assert_eq!(bench.diff(&other, &["--tolerance", "0.001"]).0, 1);
    assert_eq!(bench.diff(&other, &["--tolerance", "0.003"]).0, 0);
    // Another policy is no small movement.
    let policy = bench.changed("policy.json", |report| {
        report["heads"][0]["primary"] = json!("unlabelled");
        report["heads"][0]["nearest"] = json!([label("broad", 0.801)]);
        report["settings"]["policy"]["entropy_ratio"] = json!(0.9);
    });
    assert_eq!(bench.diff(&policy, &["--tolerance", "0.003"]).0, 1);
}

#[test]
fn reports_that_share_little_are_compared_as_far_as_they_go() {
    let bench = Bench::new();
    let other = bench.changed("other.json", |report| {
        report["schema_version"] = json!(0);
        for head in report["heads"].as_array_mut().unwrap() {
            let head = head.as_object_mut().unwrap();
            head.remove("ci95");
            head["metrics"].as_object_mut().unwrap().remove("confidence");
            head["metrics"]["novelty"] = json!(1);
        }
        report["relations"].as_array_mut().unwrap().remove(0);
    });
    let (status, text) = bench.diff(&other, &[]);
    assert_eq!(status, 0, "{text}");
    for part in [
        "schema_version: 1 | 0",
        "`confidence` of 12 heads: only one report has a number",
        "`novelty` of 12 heads: only one",
        "relations that only one report has: acl",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let smaller = bench.changed("smaller.json", |report| {
        report["model"]["heads"] = json!(3);
        report["heads"].as_array_mut().unwrap().retain(|head| head["head"] != 3);
    });
    let (status, text) = bench.diff(&smaller, &[]);
    assert_eq!(status, 1);
    assert!(text.contains("heads and relations: the models have 3 x 4 and 3 x 3 heads"), "{text}");
}

#[test]
fn trouble_is_not_a_difference() {
    let bench = Bench::new();
    for (content, message) in
        [("[", "error: bad.json:1: "), ("{}", "error: bad.json is no report of headscope: missing field `model`")]
    {
        let (status, text) = bench.diff(&bench.file("bad.json", content), &[]);
        assert_eq!(status, 2);
        assert!(text.starts_with(message), "{text}");
    }
    // A report without its evidence does not differ from any other, so it is none.
    type Change = fn(&mut Value);
    let broken: [(&str, Change, &str); 5] = [
        ("empty.json", |report| report["heads"] = json!([]), "`heads` does not list 3 layers of 4 heads"),
        ("twice.json", |report| report["heads"][1] = report["heads"][0].clone(), "`heads` does not list 3 layers of 4"),
        ("large.json", |report| report["model"]["heads"] = json!(1_u64 << 63), "`heads` does not list 3 layers of 9"),
        ("bare.json", |report| report["heads"][0]["metrics"] = json!({}), "the head `L0H0` does not have every metric"),
        (
            "hollow.json",
            |report| drop(report["heads"][5]["metrics"].as_object_mut().unwrap().remove("entropy")),
            "the head `L1H1` does not have every metric",
        ),
    ];
    for (name, change, message) in broken {
        let path = bench.changed(name, change);
        let (status, text) = bench.diff(&path, &[]);
        assert_eq!(status, 2, "{name}");
        assert!(text.contains(message), "{text}");
        let (status, text) = bench.run(&["relabel", path.to_str().unwrap(), "--preset", "voita2019"]);
        assert_eq!(status, 1, "{name}");
        assert!(text.contains(message), "{text}");
    }
    assert_eq!(bench.diff(&bench.path("missing.json"), &[]).0, 2);
    assert_eq!(bench.diff(&bench.path("report.json"), &["--tolerance", "-1"]).0, 2);
    assert_eq!(bench.run(&["diff", "-", "-"]).0, 2);
}

/// The planted heads whose role is a place; see `tests/in_the_box.rs`.
const PLANTED_POSITIONAL: [(&str, &str); 5] = [
    ("L0H0", "previous-token"),
    ("L0H1", "next-token"),
    ("L0H3", "offset:-2"),
    ("L2H0", "offset:2"),
    ("L2H1", "offset:-5"),
];

/// The mean confidence of the heads with a label, and of those without, as the summary prints them.
fn confidences(report: &Value) -> [String; 2] {
    [false, true].map(|unlabelled| {
        let heads = report["heads"].as_array().unwrap().iter();
        let heads = heads.filter(|head| (head["primary"] == "unlabelled") == unlabelled);
        let known: Vec<f64> = heads.map(|head| head["metrics"]["confidence"].as_f64().unwrap()).collect();
        format!("{:.3}", known.iter().sum::<f64>() / known.len() as f64)
    })
}

#[test]
fn voita2019_finds_the_planted_places_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report.json");
    let summary = run(&["analyze", "box:planted", "--preset", "voita2019", "-o", path(&output)]).unwrap();
    let report: Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
    for head in report["heads"].as_array().unwrap() {
        let planted = PLANTED_POSITIONAL.iter().find(|(name, _)| head["name"] == *name).map(|(_, label)| *label);
        let labels: Vec<&str> =
            head["labels"].as_array().unwrap().iter().map(|label| label["label"].as_str().unwrap()).collect();
        assert_eq!(labels, planted.into_iter().collect::<Vec<_>>(), "{}", head["name"]);
        assert_eq!(head["primary"], planted.unwrap_or("unlabelled"));
        let near = head["nearest"].as_array().unwrap();
        let rules: Vec<&str> = near.iter().map(|near| near["rule"].as_str().unwrap()).collect();
        let known = |rule: &&str| rule.starts_with("offset_argmax[") || rule.starts_with("accuracy(");
        assert!(rules.iter().all(known), "{rules:?}");
    }
    assert!(report["tests"]["significant"].is_null() && report["tests"]["count"].as_u64().unwrap() > 0);
    assert!(report["settings"]["policy"]["entropy_ratio"].is_null());
    // A planted place puts all its weight on one token, but for the words at the edge that have no such place.
    let [positional, others] = confidences(&report);
    assert!(others < positional, "{positional} {others}");
    let line = format!(
        "Preset voita2019: positional heads 5, syntactic heads 0; mean confidence of them {positional}, of the others {others}"
    );
    assert!(summary.lines().any(|printed| printed == line), "no {line:?} in\n{summary}");
    assert!(summary.contains("no significance is asked of a label."), "{summary}");
    let schema: Value = serde_json::from_str(&run(&["schema"]).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&report));
}

#[test]
fn relabelling_by_a_preset_is_analysing_with_it() {
    let bench = Bench::new();
    let report = bench.path("report.json");
    let read = |name: &str| fs::read(bench.path(name)).unwrap();
    bench.analyze("preset.json", &["--preset", "voita2019"]);
    let (status, text) =
        bench.run(&["relabel", path(&report), "--preset", "voita2019", "-o", path(&bench.path("relabelled.json"))]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("offset_mass: 0.5 -> off\nself_mass: 0.5 -> off\n"), "{text}");
    assert!(text.contains("\nPreset voita2019: "), "{text}");
    assert!(read("relabelled.json") == read("preset.json"));
    // What a file sets, it sets on top of the preset.
    let loose = bench.file("loose.toml", "entropy_ratio = 0.5\nsyntactic_min_count = 3\nsyntactic_margin = 0\n");
    bench.analyze("both.json", &["--preset", "voita2019", "--policy", path(&loose), "--preset", "clark2019"]);
    let (_, text) = bench.relabel(&report, &loose, &["--preset", "voita2019", "-o", "-"]);
    let (both, relabelled) = (bench.json("both.json"), serde_json::from_str::<Value>(&text).unwrap());
    assert_eq!(both["heads"], relabelled["heads"]);
    assert_eq!(both["settings"]["policy"], relabelled["settings"]["policy"]);
    assert!(both["settings"]["policy"]["syntactic_q"].is_null());
    assert_ne!(both["label_counts"]["broad"], 0);
    let caveats = relabelled["caveats"].as_array().unwrap();
    assert!(caveats.iter().any(|caveat| caveat["id"] == "significance-not-asked"), "{caveats:?}");
    assert_eq!(both["settings"]["clark2019"], true);
    // And back.
    let default = bench.file("default.toml", "");
    let (_, text) = bench.relabel(&bench.path("preset.json"), &default, &["-o", "-"]);
    assert_eq!(text.into_bytes(), read("report.json"));
}

/// Thresholds that are numbers, and no rules that could be switched off.
const NEVER_OFF: [&str; 5] =
    ["syntactic_margin", "syntactic_min_count", "syntactic_beyond_margin", "min_queries", "min_sentences"];

#[test]
fn a_head_without_any_rule_is_near_to_nothing() {
    let bench = Bench::new();
    let names =
        bench.json("report.json")["settings"]["policy"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (rules, numbers): (Vec<_>, Vec<_>) = names.iter().partition(|name| !NEVER_OFF.contains(&name.as_str()));
    assert_eq!(numbers.len(), NEVER_OFF.len());
    let off: Vec<String> = rules.iter().map(|name| format!("{name} = \"off\"\n")).collect();
    let policy = bench.file("none.toml", off.concat() + "syntactic_min_count = 1000000\n");
    let (json, csv) = (bench.path("none.json"), bench.path("none.csv"));
    assert_eq!(bench.relabel(&bench.path("report.json"), &policy, &["-o", path(&json), "-o", path(&csv)]).0, 0);
    for head in bench.json("none.json")["heads"].as_array().unwrap() {
        assert_eq!(
            (&head["primary"], &head["labels"], &head["nearest"]),
            (&json!("unlabelled"), &json!([]), &json!([]))
        );
    }
    // Such a report is read by all that reads reports, and its summary is printed.
    assert_eq!(bench.diff(&json, &[]).0, 0);
    assert_eq!(bench.relabel(&json, &bench.file("default.toml", ""), &[]).0, 0);
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let summary = run(&["analyze", path(&model), "-c", path(&corpus), "--policy", path(&policy)]).unwrap();
    assert!(summary.contains("   12  no label (.)\n"), "{summary}");
}

#[test]
fn presets_are_given_where_they_can_be_followed() {
    let bench = Bench::new();
    let report = bench.path("report.json");
    let usage = |arguments: &[&str]| {
        let (status, message) = bench.run(arguments);
        assert_eq!(status, 2, "{message}");
        message
    };
    let neither = usage(&["relabel", path(&report)]);
    assert!(neither.contains("--policy <FILE>|--preset <PRESET>"), "{neither}");
    let relabel = usage(&["relabel", path(&report), "--preset", "clark2019"]);
    assert!(relabel.contains("--preset clark2019 is no policy, it measures more: give it to headscope analyze"));
    let merge = usage(&["merge", "part.headscope", "--preset", "clark2019"]);
    assert!(merge.contains("give it to headscope analyze --shard, whose partials carry it"), "{merge}");
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let part = bench.path("part.headscope");
    let shard = ["analyze", path(&model), "-c", path(&corpus), "--no-run-info", "--shard", "1/1", "-o", path(&part)];
    let labels = usage(&[&shard[..], &["--preset", "voita2019"]].concat());
    assert!(labels.contains("--preset voita2019 is about labels, and a shard has none yet"), "{labels}");
    // Merging takes the policy.
    run(&shard).unwrap();
    let merged = run(&["merge", path(&part), "--preset", "voita2019", "--no-run-info", "-o", "-"]).unwrap();
    bench.analyze("preset.json", &["--preset", "voita2019"]);
    assert!(merged.into_bytes() == fs::read(bench.path("preset.json")).unwrap());
    // Standard input can be read once, which is enough for a policy.
    let piped = ["analyze", path(&model), "-c", "-", "--format", "conllu", "--limit", "9", "--preset"];
    let text = fs::read(&corpus).unwrap();
    let voita = headscope(&[&piped[..], &["voita2019"]].concat()).write_stdin(text).output().unwrap();
    assert!(outcome(&voita).unwrap().contains("\nPreset voita2019: "));
    assert!(usage(&[&piped[..], &["clark2019"]].concat()).contains("the corpus is read again for the study clark2019"));
}
