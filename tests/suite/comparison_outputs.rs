//! First lines of `compare` and `compare --numbers`, the findings at which they fail, and the files that they write.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::compare::{changed, compared, saved, set};
use crate::support::answers::Answers;
use crate::support::{headscope, path, run};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Three reports that differ in one label of L2H0. It is firm in the first, lost in the second and no longer firm in
/// the third.
fn reports() -> (TempDir, [PathBuf; 3]) {
    let (folder, report) = saved();
    let with = |name: &str, value: f64, error: f64| {
        changed(&folder, &report, name, |report| set(report, 8, "separator_mass", value, error))
    };
    let paths = [with("firm.json", 0.8, 0.01), with("lost.json", 0.4, 0.01), with("weaker.json", 0.58, 0.05)];
    (folder, paths)
}

fn status(command: &str, a: &Path, b: &Path, more: &[&str]) -> i32 {
    headscope(&[&[command, path(a), path(b), "-q"], more].concat()).output().unwrap().status.code().unwrap()
}

/// The options of the two comparisons, of labels and of numbers.
const COMPARISONS: [&[&str]; 2] = [&[], &["--numbers"]];

#[test]
fn compare_fails_only_on_the_findings_asked_for() {
    let (folder, [firm, lost, weaker]) = reports();
    let fails = |a: &Path, b: &Path| {
        let findings = ["any", "lost", "gained", "no-longer-firm", "corpora", "never", "gained,corpora"];
        let fails_on = |finding: &&str| status("compare", a, b, &["--fail-on", finding]) == 1;
        findings.into_iter().filter(fails_on).collect::<Vec<_>>()
    };
    assert_eq!(fails(&firm, &lost), ["any", "lost", "no-longer-firm"]);
    assert_eq!(fails(&lost, &firm), ["any", "gained", "gained,corpora"]);
    assert_eq!(fails(&firm, &weaker), ["no-longer-firm"]);
    assert_eq!(fails(&firm, &firm), [""; 0]);
    let less = changed(&folder, &firm, "less.json", |report| report["settings"]["limit"] = json!(9));
    assert_eq!(fails(&firm, &less), ["corpora", "gained,corpora"]);
    assert_eq!([status("compare", &firm, &lost, &[]), status("compare", &firm, &weaker, &[])], [1, 0]);
    assert_eq!(status("compare", &firm, &lost, &["--fail-on", "never,lost"]), 2);
    assert_eq!(status("compare", &firm, &lost, &["--fail-on", "banana"]), 2);
}

#[test]
fn lost_labels_are_stated_first() {
    let (folder, [firm, lost, weaker]) = reports();
    let mut answers = Answers::within(folder.path());
    let mut add_first_line = |title: &str, a: &Path, b: &Path, more: &[&str]| {
        let output = headscope(&[&["compare", path(a), path(b)], more].concat()).output().unwrap();
        answers.said(title, String::from_utf8(output.stdout).unwrap().split("\n\n").next().unwrap());
    };
    let (_, outcome) = compared(&firm, &lost, &[]);
    add_first_line(
        &format!("a label is lost and {} are kept", outcome["labels_by_outcome"]["kept"]),
        &firm,
        &lost,
        &[],
    );
    add_first_line("a label is firm no more", &firm, &weaker, &[]);
    // If a report is compared with itself, no label is firm on one side only.
    let (_, outcome) = compared(&firm, &firm, &[]);
    let undecided = &outcome["untold"];
    assert_eq!(
        (&undecided["firm_in_a"], &undecided["firm_in_b"], &undecided["firm_in_both"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(undecided["firm_in_neither"], outcome["labels_by_outcome"]["could_not_tell"]);
    add_first_line("a report and itself", &firm, &firm, &[]);
    // A different number of sentences is stated at the top.
    let fewer = changed(&folder, &firm, "fewer.json", |report| report["corpus"]["sentences"] = json!(7));
    for numbers in COMPARISONS {
        add_first_line(&format!("fewer sentences {}", numbers.concat()), &firm, &fewer, numbers);
    }
    answers.held("comparison-outputs-first-lines");
}

#[test]
fn file_names_determine_the_output_format() {
    let (folder, [firm, lost, _]) = reports();
    let mut answers = Answers::within(folder.path());
    for numbers in COMPARISONS {
        let at = |name: &str| folder.path().join(format!("{}{name}", numbers.len()));
        let sides = [&["compare", path(&firm), path(&lost)], numbers].concat();
        let [plain, packed, page] = ["o.json", "o.json.gz", "o.html"].map(at);
        let files = ["-o", path(&plain), "-o", path(&packed), "-o", path(&page)];
        let printed = headscope(&[&sides[..], &["-q"], &files].concat()).output().unwrap();
        assert_eq!((printed.status.code(), &*printed.stdout, &*printed.stderr), (Some(1), &b""[..], &b""[..]));
        let text = fs::read_to_string(&plain).unwrap();
        let mut unpacked = String::new();
        GzDecoder::new(fs::File::open(&packed).unwrap()).read_to_string(&mut unpacked).unwrap();
        for form in ["--json", "-o-"] {
            let printed = headscope(&[&sides[..], &[form]].concat()).output().unwrap().stdout;
            assert_eq!(String::from_utf8(printed).unwrap(), text);
        }
        assert_eq!(unpacked, text);
        assert!(fs::read_to_string(page).unwrap().contains("<!doctype html>"));
        assert_eq!(run(&[&sides[..], &["-o", "out.txt"]].concat()).unwrap_err().0, 2);
        // A comparison is not a report, so it is refused as one.
        for arguments in [["show", path(&plain)].as_slice(), &["compare", path(&firm), path(&packed)]] {
            let title = format!("{} of compare {}", arguments.join(" "), numbers.concat());
            answers.refused(&title, &run(arguments).unwrap_err());
        }
    }
    let table = ["compare", "--numbers", path(&firm), path(&lost), "-o", "changes.csv"];
    answers.refused(&table.join(" "), &run(&table).unwrap_err());
    answers.held("comparison-outputs-refusals");
}

#[test]
fn both_comparisons_refuse_models_of_different_shapes() {
    let (folder, [firm, ..]) = reports();
    let planted = folder.path().join("planted.json");
    run(&["analyze", "box:planted", "--limit", "60", "--no-run-info", "-q", "-o", path(&planted)]).unwrap();
    let mut answers = Answers::within(folder.path());
    for numbers in COMPARISONS {
        let arguments = [&["compare", path(&firm), path(&planted)], numbers].concat();
        answers.refused(&arguments.join(" "), &run(&arguments).unwrap_err());
    }
    answers.held("comparison-outputs-other-shapes");
}

#[test]
fn explain_knows_the_terms_of_comparisons() {
    let mut answers = Answers::new();
    for word in ["lost", "gained", "kept", "could not tell", "changed", "kappa", "significantly below", "one_sided"] {
        let text = run(&["explain", word]).unwrap();
        answers.said(word, text.lines().find(|line| line.contains("docs/methodology/compar")).unwrap());
    }
    answers.held("comparison-outputs-explained");
}

#[test]
fn a_page_lists_lost_labels_before_heads() {
    let (folder, [firm, lost, _]) = reports();
    let page = folder.path().join("page.html");
    status("compare", &firm, &lost, &["-o", path(&page)]);
    let html = fs::read_to_string(&page).unwrap();
    let mut answers = Answers::within(folder.path());
    let order: Vec<&str> = html.lines().filter(|line| line.starts_with("<h2") || line.starts_with("<p>")).collect();
    answers.said("the page", &order.join("\n"));
    // No label was gained, so the table has no such column.
    let heads = html.split("<h2").find(|part| part.contains("<th scope=col>first in a")).unwrap();
    assert!(heads.contains("<th scope=col>lost") && !heads.contains("<th scope=col>gained"), "{heads}");
    let outcome: Value = compared(&firm, &lost, &[]).1;
    let borderline = outcome["heads"].as_array().unwrap().iter().find_map(|head| {
        let first_label =
            head["labels"].as_array().unwrap().iter().find(|label| label["label"] == head["primary_a"])?;
        (first_label["a"]["standing"] == "borderline").then(|| head["primary_a"].as_str().unwrap().to_owned())
    });
    let borderline = borderline.expect("some head has a borderline label first");
    assert!(heads.contains(&format!(">{borderline} (borderline)")), "{heads}");
    let page = folder.path().join("numbers.html");
    status("compare", &firm, &lost, &["--numbers", "-o", path(&page)]);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("<th scope=col>outcome"), "{html}");
    answers.said("the page of numbers", html.lines().find(|line| line.starts_with("<h2")).unwrap());
    answers.held("comparison-outputs-pages");
}
