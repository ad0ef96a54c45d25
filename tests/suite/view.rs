//! `headscope view` as a user runs it: attention in the terminal, as a figure and as a page. Also the options that it
//! shares with `headscope maps`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, path, run};
use safetensors::SafeTensors;

const TEXT: [&str; 2] = ["--text", "The old teacher gave the children a book."];

#[test]
fn pipe_gets_no_colours_and_width_is_kept() {
    let arguments = [&["view", "--head", "L0H0,L1H1"], &TEXT[..]].concat();
    let plain = run(&arguments).unwrap();
    assert!(plain.starts_with("L0H0, sentence 0\n") && plain.contains("\nL1H1, sentence 0\n"), "{plain}");
    assert!(plain.contains("teacher") && plain.contains("[CLS]") && !plain.contains('\u{1b}'), "{plain}");
    let coloured = run(&[&arguments[..], &["--color", "always"]].concat()).unwrap();
    assert!(coloured.contains("\u{1b}[34m"), "{coloured}");
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    let narrow = headscope(&arguments).env("COLUMNS", "40").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    let grid = narrow.lines().filter(|line| line.contains("-> "));
    assert!(grid.clone().all(|line| line.chars().count() <= 40), "{narrow}");
    assert!(grid.count() > plain.lines().filter(|line| line.contains("-> ")).count(), "in several parts");
    let numbers = run(&[&arguments[..], &["--numbers"]].concat()).unwrap();
    assert!(!numbers.contains(['█', '▓', '▒', '░']) && numbers.contains(" ."), "{numbers}");
}

#[test]
fn sentences_with_a_word_are_found_and_the_tree_is_marked() {
    let gold = fixture("corpus/gold.conllu");
    let corpus = ["view", "--head", "L0H0", "-c", path(&gold)];
    let text = fs::read_to_string(&gold).unwrap();
    // The number of sentences that contain the word `the`.
    let has = |sentence: &&str| {
        sentence.lines().any(|line| line.split('\t').nth(1).is_some_and(|form| form.eq_ignore_ascii_case("the")))
    };
    let with_the = text.split("\n\n").filter(has).count();
    assert!(with_the > 0);
    let shown = |more: &[&str]| run(&[&corpus[..], more].concat());
    let result = shown(&["--find", "THE", "--limit", "1000"]).unwrap();
    assert_eq!(result.matches("L0H0, sentence ").count(), with_the);
    assert!(result.lines().any(|line| line.contains("->") && line.matches('>').count() > 1), "{result}");
    assert_eq!(shown(&["--find", "the"]).unwrap().matches("L0H0, sentence ").count(), with_the.min(3));
    assert_eq!(shown(&["--sentence", "0", "--sentence", "1"]).unwrap().matches("L0H0, sentence ").count(), 2);
    let mut answers = Answers::new();
    answers.said("the key", result.lines().last().unwrap());
    answers.refused("a word that is not there", &shown(&["--find", "qwertz"]).unwrap_err());
    answers.held("view-sentences");
}

#[test]
fn wrong_usage_of_view_is_refused() {
    let mut answers = Answers::new();
    for arguments in [
        &["view", "--text", "a"][..],
        &["view", "--head", "L99H0", "--text", "a"],
        &["view", "--head", "L0H0", "--text", "a", "--find", "a"],
        &["view", "--head", "L0H0", "--sentence", "5", "--find", "dog"],
        &["view", "--text", "a", "-o", "x.html"],
        &["view", "--head", "L0H0", "--text", "a", "--strict", "-o", "x.svg"],
        &["view", "--head", "L0H0", "--text", "a", "--layer", "1"],
        &["view", "--text", "a", "-o", "x.safetensors", "-o", "x.html"],
        &["view", "--text", "a", "--from-token", "first", "-o", "x.safetensors"],
        &["view", "--head", "L0H0", "--text", "a", "-o", "x.png"],
        &["view", "--text", "a", "--layer", "99", "-o", "x.safetensors"],
        &["view", "--text", "a", "--head", "L9H99", "-o", "x.safetensors"],
        &["view", "--text", "a", "--head", "L0H0", "--layer", "0", "-o", "x.safetensors"],
    ] {
        answers.refused(&arguments.join(" "), &run(arguments).unwrap_err());
    }
    answers.held("view-refusals");
}

#[test]
fn skipped_sentences_are_named_up_to_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("long.txt");
    fs::write(&corpus, "The old teacher gave the children a book.\n".repeat(14) + "Stop.\n").unwrap();
    let arguments = ["view", "--head", "L0H0", "--max-tokens", "8", "-c", path(&corpus)];
    let output = headscope(&arguments).output().unwrap();
    let run_with_notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{run_with_notes}");
    let lines: Vec<&str> = run_with_notes.lines().filter(|line| line.starts_with("skipped ")).collect();
    assert_eq!(lines.len(), 11, "{run_with_notes}");
    let mut answers = Answers::within(folder.path());
    answers.said("the last one that is named, and the others", &lines[9..].join("\n"));
    answers.held("view-skipped-sentences");
}

#[test]
fn attention_is_drawn_as_a_figure_and_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let draw = |svg: &Path, html: &Path, text: &str| {
        run(&["view", "--head", "L0H0,L1H1", "--text", text, "-o", path(svg), "-o", path(html)]).unwrap();
        [svg, html].map(|file| fs::read_to_string(file).unwrap())
    };
    let [svg, html] = draw(&at("a.svg"), &at("a.html"), "The <b>dog</b> left & slept.");
    assert_eq!(draw(&at("b.svg"), &at("b.html"), "The <b>dog</b> left & slept."), [svg.clone(), html.clone()]);
    assert!(svg.contains("<title>Attention of L0H0, L1H1</title>") && svg.contains("<path ") && !svg.contains("var("));
    assert!(html.contains("default-src 'none'"));
    let headings: Vec<&str> = html.lines().filter(|line| line.starts_with("<h2")).collect();
    let mut answers = Answers::within(folder.path());
    answers.said("the headings of a page", &headings.join("\n"));
    answers.held("view-page");
    // The interactive sentence has the heads in the order of the option.
    assert!(html.contains("data-heads=0 data-names=\"L0H0 L1H1\""));
    for text in [svg, html] {
        assert!(text.contains("&lt;") && !text.contains("<b>"));
    }
}

/// A tensor: its name, its shape and its bytes.
type Tensor = (String, Vec<usize>, Vec<u8>);

fn maps(arguments: &[&str]) -> (Vec<Tensor>, HashMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("maps.safetensors");
    run(&[&["view"], arguments, &["-o", path(&file)]].concat()).unwrap();
    let bytes = fs::read(&file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut result: Vec<Tensor> = tensors
        .tensors()
        .into_iter()
        .map(|(name, tensor)| (name, tensor.shape().to_vec(), tensor.data().to_vec()))
        .collect();
    result.sort();
    (result, SafeTensors::read_metadata(&bytes).unwrap().1.metadata().clone().unwrap())
}

#[test]
fn maps_of_some_heads_equal_their_part_of_all_maps() {
    let (all, metadata) = maps(&TEXT);
    let [layers, heads, tokens, _] = all[0].1[..] else { panic!("{:?}", all[0].1) };
    assert!(!metadata.contains_key("layers") && !metadata.contains_key("heads"));
    let size = tokens * tokens * 4;
    let head_bytes = |layer: usize, head: usize| &all[0].2[(layer * heads + head) * size..][..size];
    let last = layers - 1;
    let (one, metadata) = maps(&[&TEXT[..], &["--layer", &last.to_string()]].concat());
    assert_eq!(one[0].1, [1, heads, tokens, tokens]);
    assert_eq!(one[0].2, (0..heads).flat_map(|head| head_bytes(last, head).to_vec()).collect::<Vec<u8>>());
    assert_eq!(metadata["layers"], format!("[{last}]"));
    let (two, metadata) = maps(&[&TEXT[..], &["--head", "L1H1", "--head", "L0H0"]].concat());
    assert_eq!(two[0].1, [2, tokens, tokens]);
    assert_eq!(two[0].2, [head_bytes(1, 1), head_bytes(0, 0)].concat());
    assert_eq!(metadata["heads"], r#"["L1H1","L0H0"]"#);
}

#[test]
fn maps_metadata_has_words_trees_and_names() {
    let (texts, metadata) = maps(&["--text", "The dog left.", "--text", "It slept!"]);
    assert_eq!(texts.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["attentions.0", "attentions.1"]);
    assert_eq!(metadata["words.0"], r#"["The","dog","left","."]"#);
    assert_eq!(metadata["words.1"], r#"["It","slept","!"]"#);
    assert!(!metadata.contains_key("gold_heads.0") && !metadata.contains_key("sentence_id.0"));
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("two.conllu");
    let rows = "# sent_id = first\n1\tDogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\t_\t_\t_\t0\troot\t_\t_\n\n1\tHush\t_\t_\t_\t_\t_\t_\t_\t_\n\n";
    fs::write(&corpus, rows).unwrap();
    let (both, metadata) = maps(&["-c", path(&corpus)]);
    assert_eq!(both.len(), 2);
    assert_eq!((metadata["words.0"].as_str(), metadata["gold_heads.0"].as_str()), (r#"["Dogs","bark"]"#, "[1,null]"));
    assert_eq!(
        (metadata["relations.0"].as_str(), metadata["sentence_id.0"].as_str()),
        (r#"["nsubj","root"]"#, "first")
    );
    assert_eq!(metadata["gold_heads.1"], "[null]");
    assert!(!metadata.contains_key("sentence_id.1"));
    assert_eq!(maps(&["-c", path(&corpus), "--limit", "1"]).0.len(), 1);
}

/// Former command names do what the new commands do, and name the new command on one line.
#[test]
fn former_command_names_print_the_new_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let report = at("report.json");
    run(&["analyze", "box:planted", "--limit", "20", "-q", "-o", path(&report)]).unwrap();
    let run_with_notes = |arguments: &[&str]| {
        let output = headscope(arguments).output().unwrap();
        let [printed, run_with_notes] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{run_with_notes}");
        (printed, run_with_notes)
    };
    let (old, new) = (at("old.safetensors"), at("new.safetensors"));
    let mut answers = Answers::within(folder.path());
    for (before, after) in [
        (&["schema", "diff"][..], &["explain", "--schema", "numbers"][..]),
        (
            &["diff", path(&report), path(&report), "--only", "labels"],
            &["compare", path(&report), path(&report), "--numbers", "--only", "labels"],
        ),
        (&["schema"], &["explain", "--schema"]),
        (&["relabel", path(&report), "--preset", "voita2019"], &["show", path(&report), "--preset", "voita2019"]),
        (&["maps", "--text", "a", "-o", path(&old)], &["view", "--text", "a", "-o", path(&new)]),
    ] {
        let ((printed, note), expected) = (run_with_notes(before), run_with_notes(after));
        assert_eq!((&printed, ""), (&expected.0, &*expected.1), "{before:?}");
        assert_eq!(note.lines().count(), 1, "{note}");
        answers.said(&before.join(" "), &note);
    }
    assert_eq!(fs::read(old).unwrap(), fs::read(new).unwrap());
    // `export` with another policy writes the file that `relabel` writes.
    let (old, new) = (at("old.json"), at("new.json"));
    run_with_notes(&["relabel", path(&report), "--preset", "voita2019", "-o", path(&old)]);
    run(&["export", path(&report), "--preset", "voita2019", "-o", path(&new)]).unwrap();
    assert_eq!(fs::read(old).unwrap(), fs::read(new).unwrap());
    let changed = run(&["show", path(&report), "--preset", "voita2019", "--json"]).unwrap();
    let changed: serde_json::Value = serde_json::from_str(&changed).unwrap();
    assert!(changed["heads"][0]["primary"] != "broad", "labels of that analysis alone");
    for arguments in [
        &["show", path(&report), "--policy", "absent.toml"][..],
        &["export", path(&report), "--policy", "absent.toml", "-o", "x.json"],
        &["relabel", path(&report)],
    ] {
        answers.refused(&arguments.join(" "), &run(arguments).unwrap_err());
    }
    answers.held("view-old-names");
}
