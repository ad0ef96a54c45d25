//! The example of a GitHub workflow, run step by step: no baseline, unchanged heads, changed heads, and other text.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::answers::Answers;
use crate::support::fixture;
use serde_json::{Value, json};

fn workflow() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/attention-heads.yml")).unwrap()
}

/// The scripts of the workflow, with the names of their steps.
fn steps() -> Vec<(String, String)> {
    let text = workflow();
    let mut steps: Vec<(String, String)> = Vec::new();
    let mut name = None;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(named) = line.trim().strip_prefix("- name: ") {
            name = Some(named.to_owned());
        } else if line.trim() == "run: |" {
            let indent = line.len() - line.trim_start().len() + 2;
            let mut script = String::new();
            while let Some(line) = lines.next_if(|line| line.trim().is_empty() || line.starts_with(&" ".repeat(indent)))
            {
                script.push_str(line.get(indent..).unwrap_or_default());
                script.push('\n');
            }
            steps.push((name.take().expect("a step that runs has a name"), script));
        }
    }
    steps
}

/// Runs a step as GitHub does, with the program on the path.
fn step(name: &str, folder: &Path) -> Output {
    let (_, script) = steps().into_iter().find(|(step, _)| step == name).expect("a step of that name");
    let program = Path::new(env!("CARGO_BIN_EXE_headscope")).parent().unwrap();
    let search_path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script])
        .current_dir(folder)
        .env("PATH", search_path);
    command.envs([("MODEL", "box:planted"), ("CORPUS", "dev.conllu"), ("BASELINE", "baseline.json")]);
    let gate = workflow().lines().find_map(|line| line.strip_prefix("  FAIL_ON: ").map(str::to_owned));
    command.env("FAIL_ON", gate.expect("what stops a change"));
    command.env("GITHUB_STEP_SUMMARY", folder.join("summary.md")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Makes a baseline from the report. In the baseline, L1H1 puts the share `separators` of its attention on separators.
fn baseline(folder: &Path, separators: f64) {
    let mut baseline: Value = serde_json::from_str(&fs::read_to_string(folder.join("new.json")).unwrap()).unwrap();
    let head = &mut baseline["heads"][5];
    assert!(head["name"] == "L1H1" && head["metrics"]["separator_mass"].as_f64().unwrap() < 0.2);
    head["metrics"]["separator_mass"] = json!(separators);
    head["ci95"]["separator_mass"] = json!([separators - 0.01, separators + 0.01]);
    head["standard_errors"]["separator_mass"] = json!(0.005);
    fs::write(folder.join("baseline.json"), baseline.to_string()).unwrap();
}

#[test]
fn lost_label_fails_the_step_and_is_named() {
    assert_eq!(steps().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["Install", "Analyse", "Compare"]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let corpus = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    fs::write(at("dev.conllu"), &corpus).unwrap();
    let analyse = || {
        let done = step("Analyse", folder.path());
        assert!(done.status.success(), "{}", text(&done.stderr));
    };
    analyse();

    let first = step("Compare", folder.path());
    assert!(first.status.success(), "{}", text(&first.stderr));
    let mut answers = Answers::within(folder.path());
    answers.said("no baseline", &text(&first.stdout));

    fs::copy(at("new.json"), at("baseline.json")).unwrap();
    let same = step("Compare", folder.path());
    assert!(same.status.success() && same.stdout.is_empty(), "{}{}", text(&same.stdout), text(&same.stderr));

    // A changed number below the threshold of its label is reported and stops nothing.
    baseline(folder.path(), 0.3);
    let moved = step("Compare", folder.path());
    assert!(moved.status.success() && moved.stdout.is_empty(), "{}{}", text(&moved.stdout), text(&moved.stderr));
    let summary = fs::read_to_string(at("summary.md")).unwrap();
    assert!(summary.contains(" separator_mass  L1H1 "), "{summary}");
    let verdicts: Vec<&str> = summary.lines().filter(|line| line.contains("beyond chance")).collect();
    answers.said("numbers of the same heads, and with one that moved", &verdicts.join("\n"));

    // A head that attended to separators no longer does.
    baseline(folder.path(), 0.95);
    let lost = step("Compare", folder.path());
    let printed = text(&lost.stdout);
    assert_eq!(lost.status.code(), Some(1), "{printed}{}", text(&lost.stderr));
    assert!(printed.starts_with("::error title=Attention heads::") && printed.lines().count() == 1, "{printed}");
    answers.said("a lost label", &printed);
    let summary = fs::read_to_string(at("summary.md")).unwrap();
    let lost: Vec<&str> = summary.lines().filter(|line| line.contains("L1H1 separator")).collect();
    answers.said("the same in the summary", &lost.join("\n"));

    // A comparison over other text proves less than it seems to.
    fs::copy(at("new.json"), at("baseline.json")).unwrap();
    let half = corpus.match_indices("\n\n").nth(corpus.matches("\n\n").count() / 2).unwrap().0;
    fs::write(at("dev.conllu"), &corpus[..half + 2]).unwrap();
    analyse();
    let other = step("Compare", folder.path());
    let printed = text(&other.stdout);
    assert_eq!(other.status.code(), Some(1), "{printed}");
    answers.said("other text", &printed);
    answers.held("workflow-compare");

    // A file that is no report is an error, not a lost label.
    fs::write(at("baseline.json"), "{}").unwrap();
    let trouble = step("Compare", folder.path());
    assert_eq!(trouble.status.code(), Some(3), "{}", text(&trouble.stderr));
}
