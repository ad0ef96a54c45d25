//! Treebanks that are read as written text, with the real binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::answers::Answers;
use crate::support::{path, run};

/// "I didn't go, sorry." and "The dog's cat." as treebanks have them: multiword tokens, and no space before
/// punctuation.
const TREEBANK: &str = "\
# text = I didn't go, sorry.
1\tI\t_\tPRON\t_\t_\t4\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\t_\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\t_\tPART\t_\t_\t4\tadvmod\t_\t_
4\tgo\t_\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
5\t,\t_\tPUNCT\t_\t_\t4\tpunct\t_\t_
6\tsorry\t_\tADJ\t_\t_\t4\tparataxis\t_\tSpaceAfter=No
7\t.\t_\tPUNCT\t_\t_\t4\tpunct\t_\tSpaceAfter=No

1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tdog\t_\tNOUN\t_\t_\t0\troot\t_\tSpaceAfter=No
3\t's\t_\tPART\t_\t_\t2\tcase\t_\t_
4\tcat\t_\tNOUN\t_\t_\t2\tdep\t_\tSpaceAfter=No
5\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_

";

/// The metadata of maps over a corpus or over texts.
fn maps(folder: &Path, arguments: &[&str]) -> BTreeMap<String, Value> {
    let file = folder.join("maps.safetensors");
    run(&[&["maps", "-o", path(&file)], arguments].concat()).unwrap();
    let bytes = fs::read(&file).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = metadata.metadata().clone().unwrap();
    metadata.into_iter().filter_map(|(key, value)| Some((key, serde_json::from_str(&value).ok()?))).collect()
}

fn corpus(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    path(&file).to_owned()
}

#[test]
fn treebank_tokens_match_the_tokens_of_the_text() {
    let folder = TempDir::new().unwrap();
    let treebank = corpus(folder.path(), "a.conllu", TREEBANK);
    let texts = ["--text", "I didn't go, sorry.", "--text", "The dog's cat."];
    for model in ["box:causal", "box:small"] {
        let written = maps(folder.path(), &[model, "--corpus", &treebank]);
        let expected = maps(folder.path(), &[&[model], &texts[..]].concat());
        for key in ["tokens.0", "tokens.1"] {
            assert_eq!(written[key], expected[key], "{model}");
        }
        assert_eq!(written["words.0"], serde_json::json!(["I", "did", "n't", "go", ",", "sorry", "."]));
        // With `--words spaced`, the contraction is split between its words.
        let spaced = maps(folder.path(), &[model, "--corpus", &treebank, "--words", "spaced"]);
        assert_ne!(spaced["tokens.0"], written["tokens.0"], "{model}");
    }
}

/// BERT's tokenizer splits at white space and punctuation. Both readings agree where words end there. They differ where
/// two words stand in one run of letters.
#[test]
fn wordpiece_readings_agree_where_words_end_at_punctuation() {
    let folder = TempDir::new().unwrap();
    let treebank = corpus(folder.path(), "a.conllu", TREEBANK);
    let read = |how| maps(folder.path(), &["box:small", "--corpus", &treebank, "--words", how]);
    let [written, spaced] = ["written", "spaced"].map(read);
    assert_eq!((&written["tokens.1"], &written["word_ids.1"]), (&spaced["tokens.1"], &spaced["word_ids.1"]));
    assert_eq!(written["tokens.0"].as_array().unwrap()[2..5], ["didn", "'", "t"]);
    assert_eq!(spaced["tokens.0"].as_array().unwrap()[2..6], ["did", "n", "'", "t"]);
    // Three quarters of the token `didn` belong to the word `did`.
    assert_eq!(written["word_shares.0"], serde_json::json!([[2, 1, 0.75], [2, 2, 0.25]]));
    assert!(!written.contains_key("word_shares.1"));
}

#[test]
fn json_lines_use_their_text_or_their_spaces() {
    let folder = TempDir::new().unwrap();
    let words = r#""words": ["The", "dog", "'s", "cat", "."]"#;
    let lines = format!(
        "{{{words}, \"text\": \"The dog's cat.\"}}\n{{{words}, \"space_after\": [true, false, true, false, true]}}\n"
    );
    let lines = corpus(folder.path(), "a.jsonl", &lines);
    let actual = maps(folder.path(), &["box:causal", "--corpus", &lines]);
    let expected = maps(folder.path(), &["box:causal", "--text", "The dog's cat."]);
    assert_eq!([&actual["tokens.0"], &actual["tokens.1"]], [&expected["tokens.0"]; 2]);
    let mut answers = Answers::within(folder.path());
    for line in [
        r#"{"words": ["a", "b"], "text": "a, b"}"#,
        r#"{"words": ["a"], "text": "a b"}"#,
        r#"{"words": ["a"], "space_after": [true, false]}"#,
        r#"{"tokens": ["a"], "head": [0], "deprel": ["root"]}"#,
        r#"{"words": ["a"], "head": [0], "deprel": ["root"]}"#,
    ] {
        let wrong = corpus(folder.path(), "wrong.jsonl", line);
        let output = folder.path().join("maps.safetensors");
        answers.refused(line, &run(&["maps", "--corpus", &wrong, "-o", path(&output)]).unwrap_err());
    }
    answers.held("written-json-lines");
}

/// A report says how words were read and which words were left out. Shards with different readings belong to different
/// analyses.
#[test]
fn report_says_how_its_words_were_read() {
    let folder = TempDir::new().unwrap();
    let french = "1-2\tau\t_\t_\t_\t_\t_\t_\t_\t_\n1\tà\t_\t_\t_\t_\t3\tcase\t_\t_\n2\tle\t_\t_\t_\t_\t3\tdet\t_\t_\n\
                  3\tcat\t_\t_\t_\t_\t0\troot\t_\t_\n4\t\u{200b}\t_\t_\t_\t_\t3\tdep\t_\t_\n\
                  5\tsat\t_\t_\t_\t_\t4\tdep\t_\t_\n\n";
    let treebank = corpus(folder.path(), "a.conllu", &format!("{TREEBANK}{french}"));
    let file = folder.path().join("report.json");
    let analyze = |more: &[&str]| {
        let summary =
            run(&[&["analyze", "box:small", "--corpus", &treebank, "--summary", "full", "-o", path(&file)], more]
                .concat())
            .unwrap();
        let report: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        (report, summary)
    };
    let (written, summary) = analyze(&[]);
    assert_eq!(written["settings"]["words"], "written");
    let left_out = serde_json::json!({"no_characters": 1, "no_tokens": 1});
    assert_eq!(
        (&written["corpus"]["words_left_out"], &written["corpus"]["heads_left_out"]),
        (&left_out, &Value::from(1))
    );
    assert_eq!((&written["corpus"]["words"], &written["corpus"]["unannotated"]), (&Value::from(15), &Value::from(0)));
    let mut answers = Answers::within(folder.path());
    let line = summary.lines().find(|line| line.contains("Words left out"));
    answers.said("the summary", line.unwrap());
    let (spaced, _) = analyze(&["--words", "spaced"]);
    assert_eq!((&spaced["settings"]["words"], &spaced["corpus"]["sentences"]), (&"spaced".into(), &2.into()));
    assert_eq!(analyze(&["--preset", "clark2019"]).0["settings"]["words"], "spaced");
    assert_eq!(analyze(&["--preset", "clark2019", "--words", "written"]).0["settings"]["words"], "written");
    let strict = run(&["analyze", "box:small", "--corpus", &treebank, "--strict", "-o", path(&file)]);
    answers.refused("--strict", &strict.unwrap_err());
    let shard = |name: &str, which: &str, how: &str| {
        let part = folder.path().join(name);
        let shard =
            ["analyze", "box:small", "--corpus", &treebank, "--shard", which, "--words", how, "-o", path(&part)];
        run(&shard).unwrap();
        path(&part).to_owned()
    };
    let (one, two) = (shard("one.headscope", "1/2", "written"), shard("two.headscope", "2/2", "spaced"));
    answers.refused("shards of two readings", &run(&["merge", &one, &two, "-o", path(&file)]).unwrap_err());
    answers.held("written-reports");
}
