//! The example of a GitHub workflow, by its own steps: no baseline, the same heads, and other heads.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::fixture;
use serde_json::{Value, json};

/// The scripts of the workflow, by the names of their steps.
fn steps() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/attention-heads.yml");
    let text = fs::read_to_string(page).unwrap();
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
    let found = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script]).current_dir(folder).env("PATH", found);
    command.envs([("MODEL", "box:planted"), ("CORPUS", "dev.conllu"), ("BASELINE", "baseline.json")]);
    command.env("GITHUB_STEP_SUMMARY", folder.join("summary.md")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_change_beyond_chance_fails_and_is_named() {
    assert_eq!(steps().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["Install", "Analyse", "Compare"]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::copy(fixture("corpus/gold.conllu"), at("dev.conllu")).unwrap();
    let done = step("Analyse", folder.path());
    assert!(done.status.success(), "{}", text(&done.stderr));

    let first = step("Compare", folder.path());
    assert!(first.status.success() && text(&first.stdout).starts_with("::notice::there is no baseline.json yet"));

    fs::copy(at("new.json"), at("baseline.json")).unwrap();
    let same = step("Compare", folder.path());
    assert!(same.status.success(), "{}{}", text(&same.stdout), text(&same.stderr));

    // A head that attended to separators, and does no more.
    let mut baseline: Value = serde_json::from_str(&fs::read_to_string(at("new.json")).unwrap()).unwrap();
    let head = &mut baseline["heads"][5];
    assert!(head["name"] == "L1H1" && head["metrics"]["separator_mass"].as_f64().unwrap() < 0.8);
    head["metrics"]["separator_mass"] = json!(0.95);
    head["ci95"]["separator_mass"] = json!([0.94, 0.96]);
    fs::write(at("baseline.json"), baseline.to_string()).unwrap();
    let changed = step("Compare", folder.path());
    let said = text(&changed.stdout);
    assert_eq!(changed.status.code(), Some(1), "{said}{}", text(&changed.stderr));
    assert!(said == "::error title=Heads have changed beyond chance::1 head: L1H1\n", "{said}");
    assert!(fs::read_to_string(at("summary.md")).unwrap().contains("L1H1"));
}
