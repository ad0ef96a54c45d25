//! The table of docs/methodology/sentences.md walked: each template of a sentence with evidence just below what it needs, and just
//! above.

use std::fs;
use std::path::Path;

use crate::compare::set;
use crate::support::{fixture, path, run};
use serde_json::{Value, json};

/// All that is said of heads by a report whose evidence is changed, labelled anew: the lines in brief, each head in a sentence, and
/// the card of one.
fn said(folder: &Path, report: &Value, head: &str, label_q: f64, change: &dyn Fn(&mut Value)) -> String {
    let [changed, policy, again] = ["changed.json", "policy.toml", "again.json"].map(|name| folder.join(name));
    let mut report = report.clone();
    change(&mut report);
    fs::write(&changed, report.to_string()).unwrap();
    fs::write(&policy, format!("label_q = {label_q:e}\n")).unwrap();
    run(&["relabel", path(&changed), "--policy", path(&policy), "-o", path(&again)]).unwrap();
    let found: Value = serde_json::from_str(&fs::read_to_string(&again).unwrap()).unwrap();
    let brief = found["in_brief"].as_array().unwrap().iter();
    let heads = found["heads"].as_array().unwrap().iter().map(|head| &head["description"]);
    let lines: Vec<&str> = brief.chain(heads).map(|line| line.as_str().unwrap()).collect();
    lines.join("\n") + "\n" + &run(&["show", path(&again), head, "--all"]).unwrap()
}

fn analyzed(folder: &Path, model: &str, studies: &str, more: &[&str]) -> Value {
    let (corpus, report) = (fixture("corpus/gold.conllu"), folder.join("report.json"));
    let common = ["analyze", model, "-c", path(&corpus), "--with", studies, "-q", "--no-run-info", "-o", path(&report)];
    run(&[&common, more].concat()).unwrap();
    serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap()
}

/// A head of a relation of the report.
fn of_relation<'a>(report: &'a mut Value, relation: &str, place: usize) -> &'a mut Value {
    let mut relations = report["relations"].as_array_mut().unwrap().iter_mut();
    &mut relations.find(|known| known["relation"] == relation).unwrap()["by_head"][place]
}

/// A step of the walk: its evidence, what is said by it, and what is not.
type Step<'a> = (Box<dyn Fn(&mut Value) + 'a>, &'a [&'a str], &'a [&'a str]);

fn walk(folder: &Path, report: &Value, head: &str, steps: &[Step<'_>]) {
    for (number, (change, is_said, is_not_said)) in steps.iter().enumerate() {
        let text = said(folder, report, head, 0.05, change);
        is_said.iter().for_each(|words| assert!(text.contains(words), "step {number}: no `{words}` in\n{text}"));
        is_not_said.iter().for_each(|words| assert!(!text.contains(words), "step {number}: `{words}` in\n{text}"));
    }
}

#[test]
fn labels_are_said_as_firmly_as_they_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "choice", &[]);
    // L2H1 has no label, and the threshold of separators is .6.
    let separator = |score: f64| -> Step<'_> {
        let (is, not): (&[&str], &[&str]) = match score {
            0.59 => (&["L2H1 has no label"], &["attends to separators (separator 0.59"]),
            0.61 => (&["L2H1 perhaps attends to separators (separator 0.61"], &["L2H1 attends to"]),
            _ => (&["L2H1 attends to separators (separator 0.66"], &["L2H1 perhaps"]),
        };
        (Box::new(move |report| set(report, 9, "separator_mass", score, 0.01)), is, not)
    };
    walk(folder.path(), &report, "L2H1", &[0.59, 0.61, 0.66].map(separator));

    // A lead of ten points over chance.
    let rare = |lead: f64, error: f64, share: f64| {
        move |report: &mut Value| {
            set(report, 9, "separator_mass", 0.1, 0.01);
            set(report, 9, "rare_argmax", share, error);
            set(report, 9, "rare_argmax_over_chance", lead, error);
            set(report, 9, "rare_argmax_over_position", lead, error);
        }
    };
    let rarest = "has its largest weight among tokens of text on a rarest one (rare-words 0.";
    walk(
        folder.path(),
        &report,
        "L2H1",
        &[
            (Box::new(rare(0.09, 0.01, 0.2)), &["L2H1 has no label"], &["L2H1 has its largest weight"]),
            (Box::new(rare(0.11, 0.01, 0.2)), &["L2H1 perhaps has its largest weight"], &["L2H1 has its largest"]),
            (
                Box::new(rare(0.16, 0.01, 0.25)),
                &[rarest, "above chance: 25 % where chance is 9 %)"],
                &["L2H1 perhaps", "gives the first special token"],
            ),
            // What more than half of the attention is on is said first.
            (
                Box::new(|report: &mut Value| {
                    rare(0.16, 0.01, 0.25)(report);
                    set(report, 9, "first_special_mass", 0.51, 0.01);
                }),
                &["L2H1 gives the first special token 51 % of its attention, and has its largest weight"],
                &[],
            ),
        ],
    );
}

#[test]
fn a_label_is_near_from_half_of_its_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:planted", "attention", &[]);
    let rare = |lead: f64| {
        move |report: &mut Value| {
            for metric in ["rare_argmax_over_chance", "rare_argmax_over_position"] {
                set(report, 11, metric, lead, 0.001);
            }
        }
    };
    let none = "L2H3 has no label, and none is near";
    walk(
        folder.path(),
        &report,
        "L2H3",
        &[
            (Box::new(rare(0.049)), &[none], &["(nearest is"]),
            (Box::new(rare(0.051)), &["L2H3 has no label (nearest is rare-words: 0.05, where 0.10 is asked)"], &[none]),
        ],
    );
}

#[test]
fn relations_are_said_as_far_as_they_reach() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "choice", &[]);
    let tags = |difference: f64, error: f64| {
        move |report: &mut Value| {
            let versus = &mut of_relation(report, "case", 11)["versus_tags"]["dep->head"];
            (versus["difference"], versus["standard_error"]) = (json!(difference), json!(error));
        }
    };
    let below = |report: &mut Value| {
        tags(-0.2, 0.01)(report);
        of_relation(report, "case", 11)["versus_tags"]["dep->head"]["ci95"] = json!([-0.22, -0.18]);
    };
    let specific = |difference: f64| {
        move |report: &mut Value| {
            let specific = &mut of_relation(report, "case", 11)["specific"]["dep->head"];
            (specific["difference"], specific["standard_error"]) = (json!(difference), json!(0.01));
        }
    };
    let (strongest, firm) =
        ("The relation with the strongest evidence is case: L2H3 is right for ", "At least 7 of 16 heads");
    let (perhaps, none) = ("No relation is followed firmly; perhaps", "No head of 16 is shown to have a firm role");
    let not_beyond = "the head is not shown to be beyond word classes";
    let [is_of_it, is_not] =
        ["syntactic:case is beyond other arcs", "syntactic:case is not shown to be beyond other arcs"];
    walk(
        folder.path(),
        &report,
        "L2H3",
        &[
            (Box::new(|_: &mut Value| {}), &[strongest, firm], &[perhaps, none]),
            (
                Box::new(tags(0.06, 0.01)),
                &["the head is beyond word classes", "syntactic:case is beyond word classes"],
                &[not_beyond],
            ),
            (
                Box::new(tags(0.03, 0.01)),
                &[not_beyond, "case is not shown to be beyond word classes"],
                &["; the head is beyond"],
            ),
            (Box::new(tags(-0.01, 0.01)), &[not_beyond], &["; the head is 1.0", "syntactic:case is 1.0"]),
            (
                Box::new(below),
                &["; the head is 20.0 ±2.0 points below", "syntactic:case is 20.0 ±2.0 points below"],
                &[not_beyond],
            ),
            (Box::new(specific(0.1)), &[is_of_it], &[is_not]),
            (Box::new(specific(0.06)), &[is_not], &[is_of_it, "; the head is beyond"]),
        ],
    );
}

#[test]
fn how_a_head_chooses_is_said_above_its_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyzed(folder.path(), "box:small", "choice", &[]);
    // L3H0 goes by tokens: .9 has to come back from them, and ten points more than from special tokens.
    let rebuilt = |share: f64, over_special: f64| {
        move |report: &mut Value| {
            let head = &mut report["heads"][12];
            head["metrics"]["rebuilt"]["token"] = json!(share);
            head["standard_errors"]["rebuilt"]["token"] = json!(0.005);
            head["metrics"]["rebuilt_over_special"]["token"] = json!(over_special);
            head["standard_errors"]["rebuilt_over_special"]["token"] = json!(0.005);
        }
    };
    let goes_by = "goes by which tokens there are (chooses:token";
    walk(
        folder.path(),
        &report,
        "L3H0",
        &[
            (Box::new(rebuilt(0.89, 0.2)), &[], &["which tokens there are"]),
            (Box::new(rebuilt(0.95, 0.09)), &[], &["which tokens there are"]),
            (Box::new(rebuilt(0.903, 0.2)), &["perhaps goes by which tokens there are"], &["it goes by which tokens"]),
            (Box::new(rebuilt(0.95, 0.2)), &[goes_by], &["perhaps goes by which"]),
        ],
    );
}

#[test]
fn what_removal_does_is_said_by_its_q() {
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
    let (costs, shifts) = ("Removing L0H0 costs most: ", "shifts the attention of L1H3 by ");
    walk(
        folder.path(),
        &report,
        "L0H0",
        &[
            (Box::new(effect(0.049)), &["it raises the loss by", costs], &[]),
            (
                Box::new(effect(0.051)),
                &[costs],
                &["L0H0 attends to the token after (next-token 1.00 [1.00, 1.00], chance 0.06); it raises"],
            ),
            (Box::new(edge(0.049)), &[shifts, "over what the averages of both heads predict"], &[]),
            (Box::new(edge(0.051)), &[], &[shifts]),
            (
                Box::new(gain(0.001)),
                &["adds 5.8 points to a linear reading of relation", ", to which both neighbours' embeddings add "],
                &[],
            ),
            (Box::new(gain(0.06)), &[], &["adds 5.8 points to a linear reading of relation"]),
        ],
    );
}

#[test]
fn heads_that_can_go_are_told_with_their_interval_alone() {
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
    let (told, beside) = (
        " of the heads can be removed together",
        "; 50 % in the best of 3 random orders, so this order is no better than chance here.",
    );
    walk(
        folder.path(),
        &report,
        "L0H0",
        &[
            (Box::new(interval(Value::Null)), &[], &[told]),
            (
                Box::new(interval(json!([0.25, 0.75]))),
                &["50 % [25, 75] of the heads can be removed together", beside],
                &[],
            ),
        ],
    );
}

#[test]
fn heads_of_models_that_are_not_one_lineage_are_compared_by_place_and_that_is_said() {
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
    let (hash, by_place) = ("0".repeat(64), "their heads are compared by place");
    assert!(!compared(None, &[]).contains(by_place));
    assert!(compared(Some(&hash), &[]).contains(by_place));
    assert!(!compared(Some(&hash), &["--matched"]).contains(by_place));
}
