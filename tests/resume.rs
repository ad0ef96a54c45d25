//! A run in parts, which goes on where it was cut off.

mod support;

use std::fs;
use std::path::Path;

use support::{fixture, headscope, path, run, tiny_bert};

fn arguments<'a>(model: &'a Path, corpus: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let common = ["analyze", path(model), "-c", path(corpus), "-q", "--no-run-info"];
    [&common[..], more].concat()
}

#[test]
fn a_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let [whole, again, parts] = ["whole.json", "again.json", "parts"].map(|name| folder.path().join(name));
    let with = ["--with", "dependence,drift", "--sample", "20"];
    let run_to = |output: &Path, more: &[&str]| {
        let more = [&with[..], &["-o", path(output)], more].concat();
        let found = headscope(&arguments(&model, &corpus, &more)).output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        (fs::read(output).unwrap(), String::from_utf8(found.stderr).unwrap())
    };
    let (expected, _) = run_to(&whole, &[]);
    let resume = ["--resume", path(&parts)];
    let (found, said) = run_to(&again, &resume);
    assert_eq!(found, expected);
    assert!(!said.contains("already"), "{said}");
    assert_eq!(fs::read_dir(&parts).unwrap().count(), 16);

    // As if it had been killed before the third and during the seventh.
    for part in ["3-of-16.headscope", "7-of-16.headscope"] {
        fs::remove_file(parts.join(part)).unwrap();
    }
    let (found, said) = run_to(&again, &resume);
    assert_eq!(found, expected);
    assert!(said.contains("14 of 16 parts were in"), "{said}");

    // What is there must be of this run, and whole.
    let refusal = |more: &[&str]| {
        let more = [&with[..], &resume, &["-o", path(&again)], more].concat();
        run(&arguments(&model, &corpus, &more)).unwrap_err()
    };
    let (status, error) = refusal(&["--max-tokens", "30"]);
    assert_eq!(status, 3);
    assert!(error.contains("1-of-16.headscope` is a part of another run: protocol.max_tokens is "), "{error}");
    fs::copy(parts.join("2-of-16.headscope"), parts.join("5-of-16.headscope")).unwrap();
    assert!(refusal(&[]).1.contains("5-of-16.headscope` is shard 2/16, not 5/16: remove it"));
    fs::write(parts.join("5-of-16.headscope"), "headscope partial 4\n").unwrap();
    assert!(refusal(&[]).1.contains("cannot use partial"));
}

/// The second of two stages has parts of its own.
#[test]
fn a_run_of_two_stages_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, again, parts] = ["whole.json", "again.json", "parts"].map(|name| folder.path().join(name));
    let others = "attention,trees,dependency,words,frequency,explained,coreference";
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
    // Parts that labels by another policy were before.
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "min_queries = 1\n").unwrap();
    fs::remove_file(parts.join("2-of-16-after.headscope")).unwrap();
    let (status, error) = resumed(&["--policy", path(&policy)]).unwrap_err();
    assert_eq!(status, 1);
    assert!(error.contains("2-of-16-after.headscope` was run after other sums"), "{error}");
}

#[test]
fn what_has_no_parts_is_refused() {
    let refusal = |more: &[&str]| {
        let (status, error) = run(&[&["analyze", "box:small", "--resume", "parts"], more].concat()).unwrap_err();
        assert_eq!(status, 2);
        error
    };
    assert!(refusal(&["--shard", "1/2"]).contains("cannot be used with"));
    assert!(refusal(&["-c", "-", "--format", "text"]).contains("the corpus is read again for --resume"));
}
