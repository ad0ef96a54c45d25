//! A run in parts, which resumes where it was interrupted.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, path, run, tiny_bert};
use headscope::passes::observation::partial;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn arguments<'a>(model: &'a Path, corpus: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let common = ["analyze", path(model), "-c", path(corpus), "-q", "--no-run-info"];
    [&common[..], more].concat()
}

#[test]
fn run_resumes_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let [whole, again, parts] = ["whole.json", "again.json", "parts"].map(|name| folder.path().join(name));
    let with = ["--with", "edges,output-shift", "--sample", "20"];
    let run_to = |output: &Path, more: &[&str]| {
        let more = [&with[..], &["-o", path(output)], more].concat();
        let finished = headscope(&arguments(&model, &corpus, &more)).output().unwrap();
        assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
        (fs::read(output).unwrap(), String::from_utf8(finished.stderr).unwrap())
    };
    let (expected, _) = run_to(&whole, &[]);
    let resume = ["--resume", path(&parts)];
    let (bytes, notes) = run_to(&again, &resume);
    assert_eq!(bytes, expected);
    assert!(!notes.contains("already"), "{notes}");
    assert_eq!(fs::read_dir(&parts).unwrap().count(), 16);

    // As if the run had been killed before the third part and during the seventh.
    for part in ["3-of-16.headscope", "7-of-16.headscope"] {
        fs::remove_file(parts.join(part)).unwrap();
    }
    let (bytes, notes) = run_to(&again, &resume);
    assert_eq!(bytes, expected);
    let version = format!("this program reads {}", partial::FORMAT_VERSION);
    let mut answers = Answers::within(folder.path()).hiding(&version, "this program reads N");
    answers.said("two parts are missing", &notes);

    // Existing parts must be whole and must belong to this run.
    let refusal = |more: &[&str]| {
        let more = [&with[..], &resume, &["-o", path(&again)], more].concat();
        run(&arguments(&model, &corpus, &more)).unwrap_err()
    };
    answers.refused("parts of another run", &refusal(&["--max-tokens", "30"]));
    fs::copy(parts.join("2-of-16.headscope"), parts.join("5-of-16.headscope")).unwrap();
    answers.refused("another part", &refusal(&[]));
    fs::write(parts.join("5-of-16.headscope"), "headscope partial 4\n").unwrap();
    answers.refused("a part of another version", &refusal(&[]));
    // A truncated part is run again.
    let bytes = fs::read(parts.join("6-of-16.headscope")).unwrap();
    fs::write(parts.join("5-of-16.headscope"), &bytes[..bytes.len() / 2]).unwrap();
    let (bytes, notes) = run_to(&again, &resume);
    assert_eq!(bytes, expected);
    answers.said("a part was cut short", &notes);
    answers.held("resume-parts");
}

/// The second of two stages has its own parts.
#[test]
fn run_of_two_stages_resumes_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, again, parts] = ["whole.json", "again.json", "parts"].map(|name| folder.path().join(name));
    let others = "attention,trees,dependency,words,frequency,explained-variance,coreference";
    let common = ["analyze", "box:small", "--with", "probes", "--without", others, "--no-run-info", "-q", "-o"];
    run(&[&common[..], &[path(&whole)]].concat()).unwrap();
    let resumed = |more: &[&str]| run(&[&common[..], &[path(&again), "--resume", path(&parts)], more].concat());
    resumed(&[]).unwrap();
    assert_eq!(fs::read(&again).unwrap(), fs::read(&whole).unwrap());
    assert_eq!(fs::read_dir(&parts).unwrap().count(), 32);
    for part in ["16-of-16.headscope", "1-of-16-after.headscope"] {
        fs::remove_file(parts.join(part)).unwrap();
    }
    resumed(&[]).unwrap();
    assert_eq!(fs::read(&again).unwrap(), fs::read(&whole).unwrap());
    // Parts of the second stage that rest on labels by another policy: all parts, then some.
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 1\n").unwrap();
    let mut answers = Answers::within(folder.path());
    for count in [16, 15] {
        let refusal = resumed(&["--policy", path(&policy)]).unwrap_err();
        answers.refused(&format!("{count} parts by another policy"), &refusal);
        fs::remove_file(parts.join("2-of-16-after.headscope")).ok();
    }
    // Sums of another machine may differ in their last digits.
    let third = parts.join("3-of-16-after.headscope");
    let bytes = fs::read(&third).unwrap();
    alter(&third, |header| {
        let start = header.find("\"sums\":\"").unwrap() + 8;
        format!("{}{}{}", &header[..start], "0".repeat(64), &header[start + 64..])
    });
    answers.refused("a part after other sums", &resumed(&[]).unwrap_err());
    answers.held("resume-stages");
    fs::write(&third, bytes).unwrap();
    // After the refusals, the run still resumes.
    resumed(&[]).unwrap();
    assert_eq!(fs::read(&again).unwrap(), fs::read(&whole).unwrap());
}

/// Alters the header of a part, and the checksum with it.
fn alter(part: &Path, alter: impl Fn(&str) -> String) {
    let bytes = fs::read(part).unwrap();
    let lines: Vec<&[u8]> = bytes.splitn(3, |byte| *byte == b'\n').collect();
    let header = alter(std::str::from_utf8(lines[1]).unwrap());
    let sums = &lines[2][..lines[2].len() - 32];
    let mut altered = [lines[0], b"\n", header.as_bytes(), b"\n", sums].concat();
    altered.extend(Sha256::digest(&altered).to_vec());
    fs::write(part, altered).unwrap();
}

#[test]
fn runs_without_parts_are_refused() {
    let mut answers = Answers::new();
    for more in [&["--shard", "1/2"][..], &["-c", "-", "--format", "text"]] {
        let refusal = run(&[&["analyze", "box:small", "--resume", "parts"], more].concat()).unwrap_err();
        answers.refused(&more.join(" "), &refusal);
    }
    answers.held("resume-usage");
}

/// A part with a valid checksum but impossible counts: more unknown tokens than tokens.
#[test]
fn part_with_impossible_counts_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let [report, parts] = ["report.json", "parts"].map(|name| folder.path().join(name));
    let resumed = arguments(&model, &corpus, &["--resume", path(&parts), "-o", path(&report)]);
    run(&resumed).unwrap();

    let part = parts.join("1-of-16.headscope");
    let bytes = fs::read(&part).unwrap();
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n').skip(1);
    let mut header: Value = serde_json::from_slice(lines.next().unwrap()).unwrap();
    header["tally"]["unknown"] = 10_000_000.into();
    let rest = lines.next().unwrap();
    let sums = zstd::decode_all(&rest[..rest.len() - 32]).unwrap();
    fs::write(&part, partial::assemble(&header.to_string(), &sums).unwrap()).unwrap();
    fs::remove_file(&report).unwrap();
    let mut answers = Answers::within(folder.path());
    for arguments in [resumed, vec!["merge", path(&parts), "-o", path(&report)]] {
        answers.refused(arguments[0], &run(&arguments).unwrap_err());
        assert!(!report.exists());
    }
    answers.held("resume-impossible");
}
