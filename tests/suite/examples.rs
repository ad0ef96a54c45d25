//! The study `examples`: sentences that illustrate labels.

use std::fs;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{path, run};
use safetensors::SafeTensors;
use serde_json::Value;

/// The option that limits `analyze` and `maps` to 60 sentences of the box.
const LIMIT: [&str; 2] = ["--limit", "60"];

fn analyze(more: &[&str]) -> String {
    let arguments = ["analyze", "box:planted", "-c", "box:gold", "--with", "examples", "--no-run-info", "-q"];
    run(&[&arguments[..], &LIMIT, more].concat()).unwrap()
}

/// The score of L0H0 for the label `previous-token` in each sentence of 5 to 16 words, from the maps alone.
fn scores(maps: &Path) -> Vec<(u64, f64)> {
    let bytes = fs::read(maps).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = header.metadata().clone().unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut scores: Vec<(u64, f64)> = Vec::new();
    for (name, tensor) in tensors.tensors() {
        let index = name.strip_prefix("attentions.").unwrap();
        let words: Vec<String> = serde_json::from_str(&metadata[&format!("words.{index}")]).unwrap();
        if !(5..=16).contains(&words.len()) {
            continue;
        }
        let [heads, tokens, keys] = tensor.shape()[..] else { panic!("{:?}", tensor.shape()) };
        assert_eq!((heads, tokens), (1, keys));
        let weights: Vec<f32> =
            tensor.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
        // Text tokens except the first, whose previous token is special.
        let queries = 2..tokens - 1;
        let sum: f64 = queries.clone().map(|query| f64::from(weights[query * tokens + query - 1])).sum();
        scores.push((index.parse().unwrap(), sum / queries.len() as f64));
    }
    scores.sort_by_key(|(index, _)| *index);
    scores
}

#[test]
fn examples_have_the_scores_of_the_maps() {
    let folder = tempfile::tempdir().unwrap();
    let report: Value = serde_json::from_str(&analyze(&["-o", "-"])).unwrap();
    let maps = folder.path().join("maps.safetensors");
    let arguments = ["maps", "box:planted", "-c", "box:gold", "--head", "L0H0", "-o", path(&maps)];
    run(&[&arguments[..], &LIMIT].concat()).unwrap();
    let scores = scores(&maps);
    let examples = &report["examples"];
    assert_eq!(examples["sentences"].as_u64(), Some(scores.len() as u64));
    let head_examples = &examples["heads"][0];
    assert_eq!(
        (head_examples["label"].as_str(), head_examples["scored"].as_u64()),
        (Some("previous-token"), Some(scores.len() as u64))
    );
    assert_eq!(head_examples["mean"], report["heads"][0]["metrics"]["offset_mass"]["-1"]);
    let chosen = head_examples["examples"].as_array().unwrap();
    let ranks: Vec<&str> = chosen.iter().map(|example| example["rank"].as_str().unwrap()).collect();
    assert_eq!(ranks, ["typical", "best", "worst"]);
    for example in chosen {
        let index = example["sentence"].as_u64().unwrap();
        let (_, expected) = scores.iter().find(|(other, _)| *other == index).unwrap();
        assert!((example["score"].as_f64().unwrap() - expected).abs() < 1e-6, "{index}");
    }
    let all = || scores.iter().map(|(_, score)| *score);
    let [best, worst] = [1, 2].map(|place| chosen[place]["score"].as_f64().unwrap());
    assert!((best - all().fold(f64::NEG_INFINITY, f64::max)).abs() < 1e-6);
    assert!((worst - all().fold(f64::INFINITY, f64::min)).abs() < 1e-6);
}

#[test]
fn threads_and_shards_change_no_example() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let whole = analyze(&["-o", "-", "--threads", "1"]);
    assert_eq!(analyze(&["-o", "-", "--threads", "2"]), whole);
    let partials = |name: &str, more: &[&str]| -> Vec<String> {
        let one = |shard: &str| {
            let file = at(&format!("{name}-{}.headscope", &shard[..1]));
            analyze(&[&["--shard", shard, "-o", path(&file)], more].concat());
            path(&file).to_owned()
        };
        ["1/2", "2/2"].map(one).to_vec()
    };
    let merge = |partials: &[String], output: &Path| {
        let partials: Vec<&str> = partials.iter().map(String::as_str).collect();
        run(&[&["merge"], &partials[..], &["--no-run-info", "-q", "-o", path(output)]].concat()).unwrap();
    };
    let (first, report) = (at("first.headscope"), at("report.json"));
    merge(&partials("first", &[]), &first);
    let second = partials("second", &["--after", path(&first)]);
    merge(&[&[path(&first).to_owned()], &second[..]].concat(), &report);
    assert_eq!(fs::read_to_string(&report).unwrap(), whole);
}

#[test]
fn figures_and_pages_draw_the_examples() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (report, page) = (at("report.json"), at("page.html"));
    analyze(&["-o", path(&report), "-o", path(&page)]);
    let figure = |name: &str| {
        run(&["export", path(&report), "--figure", name, "-o", path(&at("x.svg"))])?;
        Ok::<_, (i32, String)>(fs::read_to_string(at("x.svg")).unwrap())
    };
    let svg = figure("examples:L0H0").unwrap();
    assert_eq!(figure("examples:L0H0").unwrap(), svg, "the same bytes");
    assert!(svg.contains("<title>L0H0, previous-token: ") && svg.contains("sentence ") && !svg.contains("var("));
    assert_eq!(svg.matches("<tspan").count(), svg.matches("</tspan>").count());
    let mut answers = Answers::within(folder.path());
    for none in ["examples:L9H9", "nothing"] {
        answers.refused(none, &figure(none).unwrap_err());
    }
    let html = fs::read_to_string(&page).unwrap();
    let json: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let heads = json["examples"]["heads"].as_array().unwrap();
    assert_eq!(html.matches("<details class=drawn>").count(), heads.len());
    let card = run(&["show", path(&report), "L0H0", "--all"]).unwrap();
    // Processors may rank nearly tied sentences differently, so the sentences are left out.
    let ranks: Vec<&str> = card.lines().filter_map(|line| Some(line.split_once(", sentence ")?.0)).collect();
    answers.said("the card", &ranks.join("\n"));
    answers.held("examples-drawn");
    // A page without the study draws no sentence and names the option for it.
    let without = at("without.html");
    run(&["analyze", "box:planted", "--limit", "60", "-q", "-o", path(&without)]).unwrap();
    let html = fs::read_to_string(&without).unwrap();
    assert!(!html.contains("<details class=drawn>") && html.contains(">examples</code>"));
}

#[test]
fn hostile_words_stay_text() {
    const EVIL: &str = "<script>alert(1)</SCRIPT>\"'&{{7*7}}\u{202e}\u{1b}]]>";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let long = "y".repeat(10_000);
    let row = |id: usize, form: &str| format!("{id}\t{form}\t_\t_\t_\t_\t{}\tdep\t_\t_\n", id - 1);
    let sentence = |number: usize| -> String {
        let words = [EVIL, &long, "the", "dog", "ran", &format!("w{number}")];
        words
            .iter()
            .enumerate()
            .map(|(place, form)| row(place + 1, form).replace("0\tdep", "0\troot"))
            .collect::<String>()
            + "\n"
    };
    fs::write(at("evil.conllu"), (0..60).map(sentence).collect::<String>()).unwrap();
    let (corpus, report, page) = (at("evil.conllu"), at("report.json"), at("page.html"));
    let arguments = ["analyze", "box:planted", "-c", path(&corpus), "--with", "examples", "-q"];
    run(&[&arguments[..], &["--min-count", "5", "-o", path(&report), "-o", path(&page)]].concat()).unwrap();
    run(&["export", path(&report), "--figure", "examples:L0H0", "-o", path(&at("x.svg"))]).unwrap();
    for file in [&page, &at("x.svg")] {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains("&lt;script&gt;ale"), "the words are there");
        assert!(!text.contains("<script>alert") && !text.contains(['\u{202e}', '\u{1b}']));
        assert!(!text.contains(&"y".repeat(30)), "a long word is cut");
    }
}
