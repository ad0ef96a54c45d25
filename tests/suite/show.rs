//! `headscope show`: a saved report, or a part of it, as a person sees it.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{fixture, headscope, path, run};
use serde_json::Value;

/// A report over the gold corpus, in a folder of its own.
fn saved() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", "box:small", "-c", path(&corpus), "--with", "edges,effect", "--sample", "32"];
    run(&[&arguments[..], &["--no-run-info", "-q", "-o", path(&report)]].concat()).unwrap();
    let report = report.to_str().unwrap().to_owned();
    (folder, report)
}

#[test]
fn a_report_is_shown_again() {
    let (folder, report) = saved();
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", "box:small", "-c", path(&corpus), "--with", "edges,effect", "--sample", "32"];
    assert_eq!(run(&["show", &report]).unwrap(), run(&arguments).unwrap());

    let brief = run(&["show", &report]).unwrap();
    assert!(brief.contains("The labels with the strongest evidence") && brief.contains("--summary full"), "{brief}");
    let whole = run(&["show", &report, "--summary", "full"]).unwrap();
    for columns in [40, 60, 80, 120] {
        let shown =
            headscope(&["show", &report, "--summary", "full"]).env("COLUMNS", columns.to_string()).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        let wide: Vec<&str> = text.lines().filter(|line| line.trim_end().chars().count() > columns).collect();
        assert!(wide.is_empty(), "{wide:?}");
        assert_eq!(text.contains("(no room for: "), columns < 120, "{text}");
        // No word is broken: each is one of the summary at its full width.
        let bare = |word: &'_ str| word.trim_matches(['(', ')', ',']).to_owned();
        let words: BTreeSet<String> = whole.split_whitespace().map(bare).collect();
        let broken: Vec<String> = text.split_whitespace().map(bare).filter(|word| !words.contains(word)).collect();
        assert!(broken.iter().all(|word| ["no", "room", "for:"].contains(&&**word)), "{broken:?}");
    }
    // The whole report again.
    assert_eq!(run(&["show", &report, "--json"]).unwrap(), fs::read_to_string(&report).unwrap());
    assert!(run(&["show", &report, "--color", "always"]).unwrap().contains("\u{1b}["));
    assert!(!run(&["show", &report, "--color", "never"]).unwrap().contains("\u{1b}["));
    drop(folder);
}

/// What a user sees first fits on one screen.
#[test]
fn a_run_prints_at_most_25_lines() {
    let summary = run(&["analyze"]).unwrap();
    assert!(summary.lines().count() <= 25, "{summary}");
    for part in ["model   box:small", "corpus  box:gold", "\n L3  ", " syntactic:case ", "\nMore: --summary full "] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    // Of a decoder what it copies stands first.
    let summary = run(&["analyze", "box:causal"]).unwrap();
    let table = summary.split("beside").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).take(3).collect();
    assert_eq!(rows, ["induction", "previous-token", "first-token"], "{summary}");
    assert!(summary.lines().count() <= 25, "{summary}");
}

#[test]
fn a_summary_opens_with_what_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("report.json");
    let options = ["--with", "effect,repeats,norms", "--sample", "32", "--no-run-info", "--control", "random-init"];
    let arguments =
        [&["analyze", "-o", path(&saved), "--control-seeds", "1", "--summary", "full"], &options[..]].concat();
    let summary = run(&arguments).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let brief: Vec<&str> = report["in_brief"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let opening = brief.iter().fold(String::new(), |all, line| all + &format!("- {line}\n"));
    assert!(summary.contains(&format!(" tokens\n\n{opening}\nPrimary label of each head")), "{summary}");
    assert_eq!(brief.len(), 5, "{brief:?}");

    // The shares are those that the labels of the report come to.
    let firm = |label: &Value| label["borderline"] == false;
    let has_role =
        |head: &&Value| head["labels"].as_array().unwrap().iter().any(|label| firm(label) && label["label"] != "broad");
    let heads = report["heads"].as_array().unwrap();
    let roles = heads.iter().filter(has_role).count();
    let share = |count: usize| format!("{count} of 16 heads ({:.0} %)", 100.0 * count as f64 / 16.0);
    assert!(brief[0].starts_with(&format!("At least {} have a firm role: ", share(roles))), "{brief:?}");
    // How a head chooses is counted apart, by what it goes by.
    let by_position =
        heads.iter().filter(|head| head["chooses"]["label"] == "chooses:position" && firm(&head["chooses"]));
    let by_position: Vec<&str> = by_position.map(|head| head["name"].as_str().unwrap()).collect();
    assert!(brief[2].contains(&format!("{} position ({})", by_position.len(), by_position.join(", "))), "{brief:?}");
    let control = &report["controls"][0];
    assert!(brief[0].ends_with(&format!("an untrained model has {}.", control["firm_roles"])), "{brief:?}");
    // The head that costs most.
    let effects = report["effect"]["heads"].as_array().unwrap();
    let most = effects.iter().max_by(|a, b| a["effect"].as_f64().partial_cmp(&b["effect"].as_f64()).unwrap()).unwrap();
    let costliest = format!("Removing {} costs most: ", most["name"].as_str().unwrap());
    assert!(brief[3].starts_with(&costliest), "{brief:?}");

    // Every study that gives labels says which heads have them.
    let answers = summary.split("Heads by study and label").nth(1).unwrap();
    for study in ["attention", "dependency", "words", "frequency", "norms", "repeats", "coreference", "trees"] {
        assert!(answers.contains(&format!("\n  {study}: ")), "{study}: {summary}");
    }
    // It is made of the report, so that one of another version has it too.
    let mut older = report.clone();
    older.as_object_mut().unwrap().remove("in_brief");
    fs::write(&saved, older.to_string()).unwrap();
    assert!(run(&["show", path(&saved)]).unwrap().contains(&opening));
}

#[test]
fn labels_are_found_by_their_codes_and_families() {
    let (folder, report) = saved();
    let shown = |name: &str| run(&["show", &report, "--label", name]).unwrap();
    assert_eq!(shown("prev"), shown("previous-token"));
    assert_eq!(shown("case"), shown("syntactic:case"));
    assert_eq!(shown("syntactic"), shown("syntactic:<relation>"));
    let (_, unknown) = run(&["show", &report, "--label", "xyzzy"]).unwrap_err();
    assert!(unknown.contains("heads of this report have ") && unknown.contains("broad"), "{unknown}");
    // What gives it was not run.
    let (_, absent) = run(&["show", &report, "--label", "sink"]).unwrap_err();
    assert!(absent.contains("the study `norms` gives it, and was not run"), "{absent}");
    assert!(run(&["explain", "position"]).unwrap().contains("The label `chooses:position`"));
    assert!(run(&["explain", "sink"]).unwrap().contains("sink:no-op (label)"));

    let sums = folder.path().join("sums.headscope");
    let part = ["analyze", "--without", "choice", "--limit", "40", "--shard", "1/1", "-o", path(&sums)];
    run(&part).unwrap();
    let (_, message) = run(&["show", path(&sums)]).unwrap_err();
    let expected = format!(
        "`{0}` is a partial, the sums of a run, and no report: `headscope merge {0} -o report.json` makes the report of it\n",
        path(&sums)
    );
    assert!(message.ends_with(&expected), "{message}");
}

#[test]
fn a_table_without_rows_says_why() {
    let (folder, report) = saved();
    let csv = folder.path().join("table.csv");
    let refused = |table: &str| run(&["export", &report, "--table", table, "-o", path(&csv)]).unwrap_err().1;
    let none = refused("controls");
    assert!(none.contains("has no rows: no control was run") && none.contains("--control random-init"), "{none}");
    assert!(refused("pruning").contains("`headscope analyze --with pruning`"));
    assert!(!csv.exists());
}

#[test]
fn a_head_has_a_card() {
    let (_folder, report) = saved();
    let card = run(&["show", &report, "L2H3", "--all"]).unwrap();
    let has = |words: &str| assert!(card.contains(words), "{words}: {card}");
    has("L2H3 of box:small, over gold.conllu");
    has("syntactic:case");
    has("beyond word classes");
    has("dependency: the best head of case (dep->head)");
    has("effect: without it (by mean) the loss is");
    has("edges: shifted most beyond expectation by L");
    has("entropy");
    has("Source: ");

    let data: Value = serde_json::from_str(&run(&["show", &report, "L2H3", "--json"]).unwrap()).unwrap();
    let whole: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!(data["metrics"], whole["heads"][11]["metrics"]);
    assert_eq!(data["labels"], whole["heads"][11]["labels"]);
    assert!(data["studies"]["effect"][0].as_str().unwrap().starts_with("without it (by mean)"));
    // By itself a sentence and a table.
    let short = run(&["show", &report, "L2H3"]).unwrap();
    let paragraphs: Vec<&str> = short.split("\n\n").collect();
    assert_eq!(paragraphs.len(), 4, "{short}");
    assert!(card.starts_with(&paragraphs[..3].join("\n\n")), "{short}");
    assert_eq!(paragraphs[1], whole["heads"][11]["description"].as_str().unwrap());
    // Each syntactic label says how far it reaches.
    for label in whole["heads"][11]["labels"].as_array().unwrap() {
        let row = paragraphs[2].lines().find(|row| row.contains(label["label"].as_str().unwrap())).unwrap();
        let says = match label["beyond"].as_str() {
            Some("tags") => ", beyond word classes",
            Some("relation") => ", beyond other arcs",
            _ => ", beyond the offset",
        };
        // A borderline label is not said to be beyond anything.
        let is_firm = label["borderline"] == false;
        assert_eq!(row.trim_end().ends_with(says), is_firm && !label["beyond"].is_null(), "{row}");
        assert!(is_firm || !row.contains("beyond"), "{row}");
    }
    assert_eq!(paragraphs[3], format!("Everything on L2H3: headscope show {report} L2H3 --all\n"));
    assert_eq!(run(&["show", &report, "L2H3", "--all", "--json"]), run(&["show", &report, "L2H3", "--json"]));
    // A head without a label has what is nearest.
    let nearest = whole["heads"][8]["nearest"][0]["label"].as_str().unwrap();
    let unlabelled = run(&["show", &report, "L2H0"]).unwrap();
    assert!(unlabelled.lines().any(|line| line.trim_start().starts_with(nearest)), "{unlabelled}");
}

#[test]
fn a_head_without_a_label_for_lack_of_sentences_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let summary =
        run(&["analyze", "--summary", "full", "box:small", "--limit", "3", "--no-run-info", "-o", path(&report)])
            .unwrap();
    let why = "Too little for a label of attention, dependency, words, frequency, explained-variance: 3 sentences, where a label asks for 30 (`min_sentences`).\n";
    assert!(summary.contains(why), "{summary}");
    let card = run(&["show", path(&report), "L0H0"]).unwrap();
    assert!(card.contains(&format!("\n\nNo label.\n{why}")), "{card}");
    // Nothing was tested, so no head of the grid is one in which no role was found.
    assert!(summary.contains("   16  too little to say: "), "{summary}");
    assert!(!summary.contains("no role found"), "{summary}");
    assert!(summary.contains("(3 of 30 sentences; about "), "{summary}");
    // Numbers that round to zero have no sign.
    assert!(!card.contains("-0.000"), "{card}");
}

#[test]
fn heads_of_a_relation_and_of_a_label() {
    let (_folder, report) = saved();
    let shown = run(&["show", &report, "--relation", "case", "--top", "3"]).unwrap();
    assert_eq!(shown.lines().filter(|line| line.trim_start().starts_with('L')).count(), 3, "{shown}");
    let data: Value =
        serde_json::from_str(&run(&["show", &report, "--relation", "case", "--top", "3", "--json"]).unwrap()).unwrap();
    let whole: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let relations = whole["relations"].as_array().unwrap();
    let case = relations.iter().find(|relation| relation["relation"] == "case").unwrap();
    assert_eq!(data["heads"].as_array().unwrap().len(), 3);
    assert_eq!(data["heads"][0]["name"], "L2H3");
    assert_eq!(data["heads"][0]["accuracy"], case["accuracy"]);
    assert_eq!(data["offset_accuracy"], case["baseline"]["accuracy"]);

    for label in ["broad", "syntactic:case", "syntactic:<relation>"] {
        let shown = run(&["show", &report, "--label", label]).unwrap();
        let data: Value = serde_json::from_str(&run(&["show", &report, "--label", label, "--json"]).unwrap()).unwrap();
        for row in data.as_array().unwrap() {
            assert!(shown.contains(row["name"].as_str().unwrap()), "{shown}");
        }
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let (_folder, report) = saved();
    let refusal = |arguments: &[&str]| run(&[&["show", &report], arguments].concat()).unwrap_err().1;
    assert_eq!(
        refusal(&["L4H0"]),
        "error: there is no head L4H0: the model has 4 layers of 4 heads, both counted from 0\n"
    );
    assert!(
        refusal(&["--relation", "subject"]).starts_with("error: the report has no relation `subject`: it has all, ")
    );
    assert_eq!(refusal(&["--label", "brod"]), "error: there is no label `brod`; did you mean `broad`?\n");
    assert_eq!(
        refusal(&["--label", "induction"]),
        "error: no head has the label `induction` in this report: the study `repeats` gives it, and was not run: `--with repeats`\n"
    );
    assert!(refusal(&["L2H3", "--label", "broad"]).contains("cannot be used with"));
    assert!(run(&["explain", "L2H3"]).unwrap_err().1.contains("`headscope show report.json L2H3`"));
}
