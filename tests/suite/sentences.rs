//! Walks through the table of docs/methodology/sentences.md. Each sentence template gets evidence just below and just
//! above its threshold.

use std::fs;
use std::path::Path;

use crate::compare::set;
use crate::support::answers::{Answers, without_decimals};
use crate::support::{fixture, path, run};
use serde_json::{Value, json};

/// The brief lines of a report and the card of a head, after a change of the evidence and a relabelling.
fn relabelled_text(folder: &Path, report: &Value, head: &str, change: &dyn Fn(&mut Value)) -> String {
    let [changed, policy, again] = ["changed.json", "policy.toml", "again.json"].map(|name| folder.join(name));
    let mut report = report.clone();
    change(&mut report);
    fs::write(&changed, report.to_string()).unwrap();
    fs::write(&policy, "label_q = 0.05\n").unwrap();
    run(&["relabel", path(&changed), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let relabelled: Value = serde_json::from_str(&fs::read_to_string(&again).unwrap()).unwrap();
    let brief: Vec<&str> =
        relabelled["in_brief"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let card = run(&["show", path(&again), head, "--all"]).unwrap();
    without_decimals(&(brief.join("\n") + "\n\n" + card.split("\nMetrics, ").next().unwrap()))
}

fn analyzed(folder: &Path, model: &str, studies: &str, more: &[&str]) -> Value {
    let (corpus, report) = (fixture("corpus/gold.conllu"), folder.join("report.json"));
    let common = ["analyze", model, "-c", path(&corpus), "--with", studies, "-q", "--no-run-info", "-o", path(&report)];
    run(&[&common, more].concat()).unwrap();
    serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap()
}

/// The entry of a head in a relation of the report.
fn head_of_relation<'a>(report: &'a mut Value, relation: &str, place: usize) -> &'a mut Value {
    let mut relations = report["relations"].as_array_mut().unwrap().iter_mut();
    &mut relations.find(|known| known["relation"] == relation).unwrap()["by_head"][place]
}

/// A step of the walk: its title, and its change of the evidence.
type Step<'a> = (&'a str, Box<dyn Fn(&mut Value) + 'a>);

/// Compares the text of the unchanged report with a snapshot, and the lines that each step removes and adds.
fn walk(folder: &Path, report: &Value, head: &str, name: &str, steps: &[Step<'_>]) {
    let before = relabelled_text(folder, report, head, &|_| ());
    let mut answers = Answers::within(folder);
    answers.said("as it is", &before);
    for (title, change) in steps {
        let after = relabelled_text(folder, report, head, change);
        let lines = |sign: &str, text: &str, other_text: &str| -> String {
            let known: Vec<&str> = other_text.lines().collect();
            text.lines().filter(|line| !known.contains(line)).flat_map(|line| [sign, line, "\n"]).collect()
        };
        answers.said(title, &(lines("- ", &before, &after) + &lines("+ ", &after, &before)));
    }
    answers.held(name);
}

#[test]
fn sentences_state_labels_as_firmly_as_tables() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "choice", &[]);
    // L2H1 has no label, and the threshold of separators is .6.
    let separator = |score: f64| move |report: &mut Value| set(report, 9, "separator_mass", score, 0.01);
    // The threshold is a lead of ten points over chance.
    let rare = |lead: f64, error: f64, share: f64| {
        move |report: &mut Value| {
            set(report, 9, "separator_mass", 0.1, 0.01);
            set(report, 9, "rare_argmax", share, error);
            set(report, 9, "rare_argmax_over_chance", lead, error);
            set(report, 9, "rare_argmax_over_position", lead, error);
        }
    };
    walk(
        folder.path(),
        &report,
        "L2H1",
        "sentences-labels",
        &[
            ("separators, just below", Box::new(separator(0.59))),
            ("separators, just above", Box::new(separator(0.61))),
            ("separators, firmly above", Box::new(separator(0.66))),
            ("rare words, just below", Box::new(rare(0.09, 0.01, 0.2))),
            ("rare words, just above", Box::new(rare(0.11, 0.01, 0.2))),
            ("rare words, firmly above", Box::new(rare(0.16, 0.01, 0.25))),
            // A token that gets more than half of the attention comes first.
            (
                "rare words, beside more than half of the attention",
                Box::new(|report: &mut Value| {
                    rare(0.16, 0.01, 0.25)(report);
                    set(report, 9, "first_special_mass", 0.51, 0.01);
                }),
            ),
        ],
    );
}

#[test]
fn label_is_near_from_half_of_its_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:planted", "attention", &[]);
    let rare = |lead: f64| {
        move |report: &mut Value| {
            for metric in ["rare_argmax_over_chance", "rare_argmax_over_position"] {
                set(report, 11, metric, lead, 0.001);
            }
        }
    };
    let steps: [Step<'_>; 2] = [("just below half", Box::new(rare(0.049))), ("just above half", Box::new(rare(0.051)))];
    walk(folder.path(), &report, "L2H3", "sentences-near-labels", &steps);
}

#[test]
fn sentences_state_how_far_relations_reach() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "choice", &[]);
    let tags = |difference: f64, error: f64| {
        move |report: &mut Value| {
            let versus = &mut head_of_relation(report, "case", 11)["versus_tags"]["dep->head"];
            (versus["difference"], versus["standard_error"]) = (json!(difference), json!(error));
        }
    };
    let below = |report: &mut Value| {
        tags(-0.2, 0.01)(report);
        head_of_relation(report, "case", 11)["versus_tags"]["dep->head"]["ci95"] = json!([-0.22, -0.18]);
    };
    let specific = |difference: f64| {
        move |report: &mut Value| {
            let specific = &mut head_of_relation(report, "case", 11)["specific"]["dep->head"];
            (specific["difference"], specific["standard_error"]) = (json!(difference), json!(0.01));
        }
    };
    walk(
        folder.path(),
        &report,
        "L2H3",
        "sentences-relations",
        &[
            ("beyond word classes", Box::new(tags(0.06, 0.01))),
            ("perhaps beyond word classes", Box::new(tags(0.03, 0.01))),
            ("about as good as word classes", Box::new(tags(-0.01, 0.01))),
            ("below word classes", Box::new(below)),
            ("beyond other arcs", Box::new(specific(0.1))),
            ("perhaps beyond other arcs", Box::new(specific(0.06))),
        ],
    );
}

#[test]
fn sentences_state_a_choice_above_its_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "choice", &[]);
    // L3H0 chooses by tokens. Tokens must restore .9 of the attention, and ten points more than special tokens restore.
    let rebuilt = |share: f64, over_special: f64| {
        move |report: &mut Value| {
            let head = &mut report["heads"][12];
            head["metrics"]["rebuilt"]["token"] = json!(share);
            head["standard_errors"]["rebuilt"]["token"] = json!(0.005);
            head["metrics"]["rebuilt_over_special"]["token"] = json!(over_special);
            head["standard_errors"]["rebuilt_over_special"]["token"] = json!(0.005);
        }
    };
    walk(
        folder.path(),
        &report,
        "L3H0",
        "sentences-choice",
        &[
            ("too little comes back", Box::new(rebuilt(0.89, 0.2))),
            ("too little more than from special tokens", Box::new(rebuilt(0.95, 0.09))),
            ("just enough", Box::new(rebuilt(0.903, 0.2))),
            ("firmly enough", Box::new(rebuilt(0.95, 0.2))),
        ],
    );
}

#[test]
fn sentences_state_removal_effects_by_their_q() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "effect,edges,probes", &["--sample", "200"]);
    let effect = |q: f64| move |report: &mut Value| report["effect"]["heads"][0]["q"] = json!(q);
    let edge = |q: f64| move |report: &mut Value| report["edges"]["heads"][0]["downstream"]["q"] = json!(q);
    let gain = |p: f64| {
        move |report: &mut Value| {
            for task in report["probes"].as_array_mut().unwrap() {
                task["heads"][0]["p"] = json!(p);
            }
        }
    };
    walk(
        folder.path(),
        &report,
        "L0H0",
        "sentences-removal",
        &[
            ("a small q of the effect", Box::new(effect(0.049))),
            ("a large q of the effect", Box::new(effect(0.051))),
            ("a small q of an edge", Box::new(edge(0.049))),
            ("a large q of an edge", Box::new(edge(0.051))),
            ("a small p of the gain", Box::new(gain(0.001))),
            ("a large p of the gain", Box::new(gain(0.06))),
        ],
    );
}

#[test]
fn sentences_state_prunable_heads_only_with_an_interval() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "pruning", &["--sample", "30"]);
    let interval = |ci95: Value| {
        move |report: &mut Value| {
            for curve in report["pruning"]["orders"].as_array_mut().unwrap() {
                for budget in curve["can_go"].as_array_mut().unwrap() {
                    (budget["share"], budget["ci95"]) = (json!(0.5), ci95.clone());
                }
            }
        }
    };
    let steps: [Step<'_>; 2] =
        [("no interval", Box::new(interval(Value::Null))), ("an interval", Box::new(interval(json!([0.25, 0.75]))))];
    walk(folder.path(), &report, "L0H0", "sentences-pruning", &steps);
}

#[test]
fn comparison_by_place_of_unrelated_models_is_stated() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "attention", &[]);
    let [a, b] = ["a.json", "b.json"].map(|name| folder.path().join(name));
    let compared = |weights: Option<&str>, more: &[&str]| {
        let mut other = report.clone();
        weights.iter().for_each(|hash| other["model"]["weights_sha256"] = json!(hash));
        fs::write(&a, report.to_string()).unwrap();
        fs::write(&b, other.to_string()).unwrap();
        run(&[&["compare", path(&a), path(&b)], more].concat()).unwrap()
    };
    let lines_about_place =
        |text: &str| text.lines().filter(|line| line.contains("by place")).collect::<Vec<_>>().join("\n");
    let hash = "0".repeat(64);
    let mut answers = Answers::new();
    for (title, weights, more) in [
        ("the same weights", None, &[][..]),
        ("other weights", Some(&*hash), &[]),
        ("other weights, matched", Some(&*hash), &["--matched"]),
    ] {
        answers.said(title, &lines_about_place(&compared(weights, more)));
    }
    answers.held("sentences-by-place");
}
