//! `headscope compare`: labels of two analyses, each kept, gained, lost or undecided.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{changed_small, fixture, headscope, path, run};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A report of the small model over the gold corpus, and its folder.
pub fn saved() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("a.json");
    let corpus = fixture("corpus/gold.conllu");
    run(&["analyze", "box:small", "-c", path(&corpus), "--with", "choice", "--no-run-info", "-q", "-o", path(&report)])
        .unwrap();
    (folder, report)
}

pub fn compared(a: &Path, b: &Path, more: &[&str]) -> (i32, Value) {
    let output = headscope(&[&["compare", path(a), path(b), "--json"], more].concat()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let outcome = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {:?}", output.stderr));
    (output.status.code().unwrap(), outcome)
}

pub fn changed(folder: &TempDir, a: &Path, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut report = serde_json::from_str(&fs::read_to_string(a).unwrap()).unwrap();
    change(&mut report);
    let at = folder.path().join(name);
    fs::write(&at, serde_json::to_vec(&report).unwrap()).unwrap();
    at
}

/// Sets a metric of a head, its standard error and its interval.
pub fn set(report: &mut Value, head: usize, metric: &str, value: f64, error: f64) {
    let head = &mut report["heads"][head];
    head["metrics"][metric] = json!(value);
    head["ci95"][metric] = json!([value - 2.0 * error, value + 2.0 * error]);
    head["standard_errors"][metric] = json!(error);
}

fn label<'a>(outcome: &'a Value, head: usize, name: &str) -> &'a Value {
    let labels = outcome["heads"][head]["labels"].as_array().unwrap();
    labels.iter().find(|label| label["label"] == name).unwrap_or_else(|| panic!("no {name} in {labels:#?}"))
}

#[test]
fn a_report_keeps_its_own_labels() {
    let (folder, a) = saved();
    let (status, outcome) = compared(&a, &a, &[]);
    assert_eq!((status, &outcome["changed"], &outcome["not_shared"]), (0, &json!(false), &json!([])));
    let counts = &outcome["heads_by_outcome"];
    assert_eq!((&counts["gained"], &counts["lost"], &counts["changed"]), (&json!(0), &json!(0), &json!(0)));
    let report: Value = serde_json::from_str(&fs::read_to_string(&a).unwrap()).unwrap();
    let count = |outcome: &str| counts[outcome].as_u64().unwrap();
    assert_eq!(count("kept") + count("could_not_tell") + count("none"), 16);
    for (head, compared) in report["heads"].as_array().unwrap().iter().zip(outcome["heads"].as_array().unwrap()) {
        // The label `broad`, which untrained heads have too, is not compared.
        let labels: Vec<&Value> =
            head["labels"].as_array().unwrap().iter().filter(|label| label["label"] != "broad").collect();
        let firm = labels.iter().any(|label| label["borderline"] == false);
        let expected = if firm {
            "kept"
        } else if labels.is_empty() {
            "none"
        } else {
            "could_not_tell"
        };
        assert_eq!(compared["outcome"], expected, "{compared:#}");
        assert_eq!((&compared["primary_a"], &compared["primary_b"]), (&head["primary"], &head["primary"]));
        assert_eq!(compared["labels"].as_array().unwrap().len(), labels.len());
        assert_eq!(compared["choice"]["a"], head["chooses"]["label"]);
    }
    let agreement = &outcome["agreement"]["first_label"];
    assert_eq!(
        (&agreement["things"], &agreement["share"], &agreement["kappa"]),
        (&json!(16), &json!(1.0), &json!(1.0))
    );
    assert!(agreement["kappa_ci95"][0].as_f64().unwrap() < 1.0, "agreement of 16 heads is not certain");
    assert!(
        outcome["agreement"]["choice"]["things"] == 16 && outcome["choices_by_outcome"]["kept"].as_u64().unwrap() > 0
    );
    let text = run(&["compare", path(&a), path(&a), "--full"]).unwrap();
    let sentences: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    let mut answers = Answers::within(folder.path());
    answers.said("a report and itself, without tables", &sentences.join("\n"));
    answers.held("compare-itself");
}

#[test]
fn a_kept_label_beyond_word_classes_on_one_side_is_listed() {
    let (folder, a) = saved();
    // L2H3 predicts determiners' heads no better than word classes do. In `b.json` it is thirty points better.
    let b = changed(&folder, &a, "b.json", |report| {
        let relations = report["relations"].as_array_mut().unwrap();
        let det = relations.iter_mut().find(|relation| relation["relation"] == "det").unwrap();
        let tags = &mut det["by_head"][11]["versus_tags"]["dep->head"];
        (tags["difference"], tags["ci95"]) = (json!(0.3), json!([0.25, 0.35]));
        tags["standard_error"] = json!(0.025);
    });
    let (status, outcome) = compared(&a, &b, &[]);
    assert_eq!(status, 0, "it is no change of a label");
    let det = label(&outcome, 11, "syntactic:det");
    assert_eq!(
        (&det["outcome"], &det["a"]["beyond"], &det["b"]["beyond"]),
        (&json!("kept"), &json!("relation"), &json!("tags"))
    );
    assert_eq!(label(&outcome, 0, "next-token")["a"]["beyond"], Value::Null);
    let mut answers = Answers::within(folder.path());
    for (title, a, b) in [("in b", &a, &b), ("in a", &b, &a), ("in neither", &a, &a)] {
        let text = run(&["compare", path(a), path(b), "--full"]).unwrap();
        let head_lines: Vec<&str> = text.lines().filter(|line| line.contains("L2H3")).collect();
        answers.said(&format!("L2H3 is beyond word classes {title}"), &head_lines.join("\n"));
    }
    answers.held("compare-beyond-word-classes");
}

#[test]
fn labels_are_lost_gained_or_undecided() {
    let (folder, report) = saved();
    // Three heads by their `separator_mass` (threshold .6): lost, gained, too uncertain.
    let a = changed(&folder, &report, "x.json", |report| {
        set(report, 8, "separator_mass", 0.8, 0.01);
        set(report, 9, "separator_mass", 0.2, 0.01);
        set(report, 10, "separator_mass", 0.8, 0.01);
    });
    let b = changed(&folder, &report, "y.json", |report| {
        set(report, 8, "separator_mass", 0.4, 0.01);
        set(report, 9, "separator_mass", 0.8, 0.01);
        set(report, 10, "separator_mass", 0.58, 0.05);
    });
    let (status, outcome) = compared(&a, &b, &[]);
    assert_eq!((status, &outcome["changed"]), (1, &json!(true)));
    assert_eq!(label(&outcome, 8, "separator")["outcome"], "lost");
    assert_eq!(label(&outcome, 8, "separator")["b"]["standing"], "out_of_reach");
    assert_eq!(label(&outcome, 9, "separator")["outcome"], "gained");
    let undecided = label(&outcome, 10, "separator");
    assert_eq!((&undecided["outcome"], &undecided["doubt"]), (&json!("could_not_tell"), &json!("within_reach")));
    let families = outcome["families"].as_array().unwrap();
    let separator = families.iter().find(|family| family["family"] == "separator").unwrap();
    assert_eq!((&separator["lost"], &separator["gained"]), (&json!(1), &json!(1)));

    // Rarity depends on corpus size unless both reports used one file of counts.
    let rare = |name: &str, times: u64, counts: Option<&str>| {
        changed(&folder, &report, name, |report| {
            set(report, 9, "separator_mass", 0.2, 0.01);
            for metric in ["rare_argmax", "rare_argmax_over_chance", "rare_argmax_over_position"] {
                set(report, 9, metric, 0.3, 0.01);
            }
            report["corpus"]["tokens"] = json!(report["corpus"]["tokens"].as_u64().unwrap() * times);
            counts.iter().for_each(|file| report["settings"]["counts"] = json!(file));
        })
    };
    let outcome_and_doubt = |a: &Path, b: &Path| {
        let outcome = compared(a, b, &[]).1;
        let label = label(&outcome, 9, "rare-words");
        [&label["outcome"], &label["doubt"]].map(Clone::clone)
    };
    let (own_counts, twice_the_tokens) = (rare("own.json", 1, None), rare("twice.json", 2, None));
    assert_eq!(outcome_and_doubt(&own_counts, &own_counts), [json!("kept"), Value::Null]);
    assert_eq!(outcome_and_doubt(&own_counts, &twice_the_tokens), [json!("could_not_tell"), json!("other_counts")]);
    let [given_counts, given_counts_twice] =
        [("given.json", 1), ("both.json", 2)].map(|(name, times)| rare(name, times, Some("file")));
    assert_eq!(outcome_and_doubt(&given_counts, &given_counts_twice), [json!("kept"), Value::Null]);
    assert_eq!(outcome_and_doubt(&given_counts, &own_counts)[1], json!("other_counts"));

    // All formats and tables agree.
    let at = |name: &str| folder.path().join(name);
    let (json_file, csv, page) = (at("o.json"), at("o.csv"), at("o.html"));
    let (json_file, csv, page) = (path(&json_file), path(&csv), path(&page));
    let output = headscope(&["compare", path(&a), path(&b), "-o", json_file, "-o", csv, "-o", page]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let mut answers = Answers::within(folder.path());
    let separator: Vec<&str> = text.lines().filter(|line| line.contains("separator")).collect();
    answers.said("the label of separators", &separator.join("\n"));
    assert_eq!(serde_json::from_str::<Value>(&fs::read_to_string(json_file).unwrap()).unwrap(), outcome);
    let table = fs::read_to_string(csv).unwrap();
    assert!(
        table.starts_with("layer,head,name,partner,outcome,primary_a,primary_b,kept,gained,lost,could_not_tell,"),
        "{table}"
    );
    assert_eq!(table.lines().count(), 17);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains(">lost<"), "{html}");
    answers.said("the title of the page", html.lines().find(|line| line.starts_with("<title>")).unwrap());
    let labels = at("labels.csv");
    headscope(&["compare", path(&a), path(&b), "--table", "labels", "-o", path(&labels)]).output().unwrap();
    let labels = fs::read_to_string(labels).unwrap();
    let row = labels
        .lines()
        .find(|line| line.contains("L2H0,separator,separator,lost,"))
        .unwrap_or_else(|| panic!("{labels}"));
    assert!(row.contains(",firm,separator_mass,0.8,") && row.contains(",out_of_reach,separator_mass,0.4,"), "{row}");

    // `compare --numbers` lists the first two as changes and the third as firm on one side only.
    let output =
        headscope(&["compare", "--numbers", path(&a), path(&b), "--only", "labels", "--json"]).output().unwrap();
    let diff: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = |list: &Value| -> Vec<String> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| format!("{} {}", one["name"], one["label"]).replace('"', ""))
            .collect()
    };
    assert_eq!(names(&diff["one_sided"]), ["L2H2 separator"]);
    assert!(names(&diff["labels"]).contains(&"L2H0 separator".to_owned()), "{diff:#}");
    let text =
        String::from_utf8(headscope(&["compare", "--numbers", path(&a), path(&b)]).output().unwrap().stdout).unwrap();
    answers.said("on one side only", text.split("\n\n").find(|part| part.contains("  L2H2 separator ")).unwrap());
    answers.held("compare-labels");
}

#[test]
fn changes_of_choice_labels_are_compared() {
    let (folder, report) = saved();
    let saved_report: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let heads = saved_report["heads"].as_array().unwrap();
    let is_firm =
        |head: &&Value| head["chooses"]["label"] == "chooses:position" && head["chooses"]["borderline"] == false;
    let place = heads.iter().position(|head| is_firm(&head)).expect("some head goes by position");
    let b = changed(&folder, &report, "b.json", |report| {
        let head = &mut report["heads"][place];
        for variant in ["special", "position", "token", "position_token"] {
            head["metrics"]["rebuilt"][variant] = json!(0.1);
            head["ci95"]["rebuilt"][variant] = json!([0.09, 0.11]);
            head["standard_errors"]["rebuilt"][variant] = json!(0.005);
        }
        set(report, place, "context", 0.9, 0.005);
    });
    let (status, outcome) = compared(&report, &b, &[]);
    let choice = &outcome["heads"][place]["choice"];
    assert_eq!((status, &choice["outcome"]), (1, &json!("lost")), "{choice:#}");
    assert_eq!((&choice["a"], &choice["b"]), (&json!("chooses:position"), &json!(null)));
    assert_eq!(outcome["choices_by_outcome"]["lost"], 1);
    let output =
        headscope(&["compare", "--numbers", path(&report), path(&b), "--only", "labels", "--json"]).output().unwrap();
    let diff: Value = serde_json::from_slice(&output.stdout).unwrap();
    let labels: Vec<&str> =
        diff["labels"].as_array().unwrap().iter().map(|one| one["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"chooses:position"), "{diff:#}");
}

#[test]
fn the_outcome_of_compare_matches_its_schema() {
    let (folder, a) = saved();
    let b = changed(&folder, &a, "b.json", |report| set(report, 8, "separator_mass", 0.8, 0.01));
    let (_, outcome) = compared(&a, &b, &[]);
    let schema: Value = serde_json::from_str(&run(&["schema", "compare"]).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&outcome).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    assert_eq!(outcome["schema_version"], 1);
    let mut wrong = outcome.clone();
    wrong["heads"][0]["outcome"] = json!("banana");
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn incomparable_inputs_are_refused() {
    let (folder, a) = saved();
    let planted = folder.path().join("planted.json");
    run(&["analyze", "box:planted", "--limit", "60", "--no-run-info", "-q", "-o", path(&planted)]).unwrap();
    let mut answers = Answers::within(folder.path());
    for arguments in [
        &["compare", path(&a), path(&planted)][..],
        &["compare", "-", "-"],
        &["compare", path(&a), path(&a), "-o", "out.txt"],
    ] {
        answers.refused(&arguments.join(" "), &run(arguments).unwrap_err());
    }
    answers.held("compare-refusals");
    // Labels with different thresholds are not comparable.
    let b = changed(&folder, &a, "b.json", |report| report["settings"]["policy"]["separator_mass"] = json!(0.7));
    let (status, outcome) = compared(&a, &b, &[]);
    let labels: Vec<&Value> =
        outcome["heads"].as_array().unwrap().iter().flat_map(|head| head["labels"].as_array().unwrap()).collect();
    let separator: Vec<&&Value> = labels.iter().filter(|label| label["label"] == "separator").collect();
    assert!(
        status == 0 && !separator.is_empty() && separator.iter().all(|label| label["doubt"] == "other_thresholds"),
        "{separator:#?}"
    );
}

/// Calibration in small: labels over random halves of a corpus are almost never called lost or gained.
#[test]
fn random_halves_of_a_corpus_keep_their_labels() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let sentences: Vec<&str> = text.split_inclusive("\n\n").collect();
    let mut random = ChaCha8Rng::seed_from_u64(35);
    let (mut kept, mut moved) = (0, 0);
    for number in 0..4 {
        let mut places: Vec<usize> = (0..sentences.len()).collect();
        places.shuffle(&mut random);
        let (first, second) = places.split_at_mut(sentences.len() / 2);
        let [a, b] = [("a", first), ("b", second)].map(|(side, half)| {
            half.sort_unstable();
            let corpus = folder.path().join(format!("{number}{side}.conllu"));
            fs::write(&corpus, half.iter().map(|&place| sentences[place]).collect::<String>()).unwrap();
            let report = corpus.with_extension("json");
            run(&["analyze", "box:small", "-c", path(&corpus), "-q", "-o", path(&report)]).unwrap();
            report
        });
        let (_, outcome) = compared(&a, &b, &[]);
        let count = |fate: &str| outcome["labels_by_outcome"][fate].as_u64().unwrap();
        kept += count("kept");
        moved += count("lost") + count("gained");
    }
    // With equal scores, a label is called changed with probability at most .00125. Among fewer than 100 labels, two
    // changes occur in less than 1 % of such tests.
    assert!(kept >= 20 && moved <= 1, "{kept} kept, {moved} lost or gained");
}

/// `compare`, `compare --numbers` and `gate` count the same labels: firm ones, except `broad` and `chooses:*`.
#[test]
fn all_comparisons_count_the_same_labels() {
    let (folder, a) = saved();
    let b = folder.path().join("b.json");
    let corpus = fixture("corpus/gold.conllu");
    run(&["analyze", "box:small", "-c", path(&corpus), "--with", "choice", "--remove", "L1H3", "-q", "-o", path(&b)])
        .unwrap();
    for (a, b) in [(&a, &a), (&a, &b), (&b, &a)] {
        let (_, outcome) = compared(a, b, &["--matched"]);
        let count = |key: &str| outcome["labels_by_outcome"][key].as_u64().unwrap();
        let undecided = |key: &str| outcome["untold"][key].as_u64().unwrap();
        let firm = count("kept")
            + count("lost")
            + count("gained")
            + ["firm_in_a", "firm_in_b", "firm_in_both"].map(undecided).iter().sum::<u64>();
        assert!(firm > 5);
        let stdout = |more: &[&str]| {
            let output = headscope(&[more, &[path(a), path(b)]].concat()).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let text = stdout(&["compare"]);
        assert!(text.starts_with(&format!("{firm} ")), "{text}");
        // Labels that are firm on neither side are not listed as firm on one side.
        let listed = text.split("Firm labels that were not kept").nth(1).unwrap_or_default();
        assert_eq!(listed.is_empty(), firm == count("kept"), "{text}");
        assert!(!listed.lines().any(|line| line.matches("borderline").count() == 2), "{text}");
        let numbers = stdout(&["compare", "--numbers"]);
        assert!(numbers.lines().any(|line| line.starts_with(&format!("{firm} "))), "{numbers}");
        let before = count("kept") + count("lost") + undecided("firm_in_a") + undecided("firm_in_both");
        let gate = stdout(&["gate"]);
        let (verdict, told) = if count("lost") == 0 { ("pass: ", count("kept")) } else { ("fail: ", count("lost")) };
        assert!(gate.starts_with(verdict) && gate.contains(&format!("{told} of {before} ")), "{gate}");
    }
}

/// Without a firm label before, none can be lost: a gate then refuses instead of passing.
#[test]
fn a_gate_without_labels_does_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    let report = |name: &str, limit: &str| {
        let (file, corpus) = (folder.path().join(name), fixture("corpus/gold.conllu"));
        run(&["analyze", "box:small", "-c", path(&corpus), "--limit", limit, "-q", "-o", path(&file)]).unwrap();
        file
    };
    let (none, some) = (report("none.json", "8"), report("some.json", "300"));
    let mut answers = Answers::within(folder.path());
    // A text that is too short has no tested labels.
    for (a, b, finding) in [(&none, &some, "lost"), (&none, &some, "no-longer-firm"), (&some, &none, "lost")] {
        let arguments = ["compare", path(a), path(b), "-q", "--fail-on", finding];
        answers.refused(&arguments.join(" "), &run(&arguments).unwrap_err());
    }
    answers.held("compare-without-firm-labels");
    // Without `--fail-on`, the comparison succeeds.
    run(&["compare", path(&none), path(&some), "-q"]).unwrap();
}

/// For heads below the best fixed offset a report keeps only accuracy and difference. It still gives the outcomes that
/// its partial gives.
#[test]
fn rounded_reports_and_partials_give_equal_outcomes() {
    let (folder, gold) = (tempfile::tempdir().unwrap(), fixture("corpus/gold.conllu"));
    let changed = folder.path().join("changed");
    changed_small(&changed, |name, tensor| {
        if name.contains("layer.2.attention.self.query") { tensor.zeros_like().unwrap() } else { tensor }
    });
    let at = |name: &str| path(&folder.path().join(name)).to_owned();
    let [reports, partials] = ["json", "headscope"].map(|end| ["a", "b"].map(|name| at(&format!("{name}.{end}"))));
    for (place, model) in ["box:small", path(&changed)].into_iter().enumerate() {
        let corpus = ["analyze", model, "-c", path(&gold), "-q", "--digits", "6"];
        run(&[&corpus[..], &["-o", &reports[place], "--partial", &partials[place]]].concat()).unwrap();
    }
    let outcomes = |[a, b]: &[String; 2]| -> Vec<[Value; 5]> {
        let command = ["compare", a, b, "--matched", "--json", "--fail-on", "never"];
        let outcome: Value = serde_json::from_str(&run(&command).unwrap()).unwrap();
        let heads = outcome["heads"].as_array().unwrap().iter();
        let labels = heads.flat_map(|head| head["labels"].as_array().unwrap().iter().map(move |label| (head, label)));
        let outcomes = labels.map(|(head, label)| {
            [&head["name"], &label["label"], &label["outcome"], &label["a"]["standing"], &label["b"]["standing"]]
                .map(Value::clone)
        });
        outcomes.collect()
    };
    let of_reports = outcomes(&reports);
    assert_eq!(of_reports, outcomes(&partials));
    let is_lost = |one: &&[Value; 5]| one[1].as_str().unwrap().starts_with("syntactic:") && one[2] == "lost";
    assert!(of_reports.iter().filter(is_lost).count() > 2, "{of_reports:?}");
}
