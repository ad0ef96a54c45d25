//! Links of JSON lines: how they are read, refused, scored as trees are, and merged from shards.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::families::esm_with_vocabulary;
use crate::support::answers::Answers;
use crate::support::{fixture, headscope, parts_add_up, path, run, tiny_bert};
use serde_json::{Value, json};
use tempfile::tempdir;

/// The sentences of the gold corpus as JSON lines; `links` makes the links of a sentence from its rows.
fn gold(links: impl Fn(&[Vec<&str>]) -> Value) -> String {
    let corpus = fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let mut lines = String::new();
    for block in corpus.trim_end().split("\n\n") {
        let rows = block.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect());
        let rows: Vec<Vec<&str>> = rows.collect();
        let [forms, upos] = [1, 3].map(|column| rows.iter().map(|row| row[column]).collect::<Vec<_>>());
        writeln!(lines, "{}", json!({"words": forms, "upos": upos, "links": links(&rows)})).unwrap();
    }
    lines
}

/// The arcs of all relations as links, by base name of the relation.
fn relation_links(rows: &[Vec<&str>]) -> Value {
    let mut links = json!({});
    for row in rows.iter().filter(|row| row[6] != "0") {
        let [from, to] = [0, 6].map(|column| row[column].parse::<u64>().unwrap());
        let name = row[7].split(':').next().unwrap();
        let links_of_relation = links.as_object_mut().unwrap().entry(name).or_insert(json!([]));
        links_of_relation.as_array_mut().unwrap().push(json!([from, to]));
    }
    links
}

#[test]
fn links_from_trees_are_scored_as_trees() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("links.jsonl");
    fs::write(&corpus, gold(relation_links)).unwrap();
    let report = |corpus: &str| -> Value {
        let others = "attention,norms,trees,words,frequency,explained-variance,repeats,coreference,choice";
        let arguments = ["analyze", "box:small", "-c", corpus, "--words", "spaced", "--without", others];
        let report = run(&[&arguments[..], &["--no-run-info", "-q", "-o", "-"]].concat()).unwrap();
        serde_json::from_str(&report).unwrap()
    };
    let (trees, links) = (report(path(&fixture("corpus/gold.conllu"))), report(path(&corpus)));
    assert_eq!((&trees["links"], &links["relations"]), (&json!([]), &json!([])));
    let (mut equal, mut compared) = (0, 0);
    for relation in trees["relations"].as_array().unwrap() {
        let is_same_relation = |links: &&Value| links["type"] == relation["relation"] && links["no_choice"] == 0;
        let Some(links) = links["links"].as_array().unwrap().iter().find(is_same_relation) else { continue };
        assert_eq!(links["count"], relation["count"]);
        for (tree, link) in relation["by_head"].as_array().unwrap().iter().zip(links["by_head"].as_array().unwrap()) {
            for [tree_key, link_key] in [["dep->head", "from"], ["head->dep", "to"]] {
                compared += 1;
                equal += usize::from(tree[tree_key] == link["accuracy"][link_key]);
                assert_eq!(tree["to_special"][tree_key], link["to_special"][link_key]);
            }
        }
        // Links share the rules of word classes with trees, except that rare classes share one rule.
        let [tags, rules] =
            [&relation["tag_baseline"], &links["by_class_rules"]].map(|rules| rules["accuracy"].as_f64().unwrap());
        assert!(rules <= tags + 1e-12, "{rules} {tags}");
    }
    assert!(compared >= 16 * 2 * 10 && equal == compared, "{equal} of {compared}");
}

#[test]
fn shards_merge_to_the_same_links() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("links.jsonl");
    fs::write(&corpus, gold(relation_links)).unwrap();
    let model = tiny_bert();
    let common = ["analyze", path(&model), "-c", path(&corpus), "--no-run-info", "-q"];
    let whole = scratch.path().join("whole.json");
    parts_add_up(&common, &whole);
    for (table, rows) in [("links", 1), ("links_by_head", 12), ("link_rules", 14)] {
        let file = scratch.path().join(format!("{table}.csv"));
        run(&["export", path(&whole), "--table", table, "-o", path(&file)]).unwrap();
        let exported = fs::read_to_string(&file).unwrap();
        assert!(exported.lines().count() > rows && exported.starts_with("type,"), "{table}: {exported}");
    }
}

#[test]
fn report_without_links_does_not_mention_links() {
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let printed = run(&["analyze", path(&model), "-c", path(&corpus), "--summary", "full", "--limit", "100"]).unwrap();
    assert!(!printed.to_lowercase().contains("links"), "{printed}");
}

#[test]
fn meaningless_links_are_refused_with_their_line() {
    let scratch = tempdir().unwrap();
    let [corpus, pairs] = ["bad.jsonl", "bad.pairs"].map(|name| scratch.path().join(name));
    let mut answers = Answers::within(scratch.path());
    for keys in [
        r#""links": {"maps": [[2, 3]]}"#,
        r#""links": {"maps": [[0, 1]]}"#,
        r#""links": {"maps": [[2, 2]]}"#,
        r#""links": {"maps": [[2, [1, 2]]]}"#,
        r#""links": {"maps": [[2, "1"]]}"#,
        r#""links": {"": []}"#,
        r#""links": {"maps": []}, "candidates": {"maps": [3]}"#,
        r#""links": {"maps": []}, "candidates": {"map": [1]}"#,
        r#""undirected": ["contact"]"#,
        r#""links": {"contact": []}, "min_distance": {"contacts": 6}"#,
        r#""classes": {"element": ["C"]}"#,
        r#""classes": {"element": ["C", "O"], "ring": ["a", "b"]}"#,
        r#""links": {"bond": []}, "undirected": ["bond"]"#,
        r#""text": "C O", "links": {"bond": []}"#,
    ] {
        let good = r#"{"words": ["C", "O"], "links": {"bond": [[1, 2]]}}"#;
        let words = if keys.starts_with(r#""text""#) { "" } else { r#""words": ["C", "O"], "# };
        fs::write(&corpus, format!("{good}\n{{{words}{keys}}}\n")).unwrap();
        answers.refused(keys, &report(&corpus, &[]).unwrap_err());
    }
    fs::write(&pairs, "a b ||| c ||| 0-1\n").unwrap();
    answers.refused("a ||| pair", &report(&pairs, &[]).unwrap_err());
    answers.held("links-meaningless");
}

#[test]
fn treebanks_have_links_in_two_columns() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("deps.conllu");
    let sentence = |deps: &str, misc: &str| {
        let rows = [
            ["Cats", "NOUN", "2", "nsubj", "2:nsubj|3:nsubj", "_"],
            ["sit", "VERB", "0", "root", "0:root", "_"],
            ["sleep", "VERB", "2", "conj", deps, misc],
            [".", "PUNCT", "2", "punct", "2:punct|4.1:dep", "Ref=1,2"],
        ];
        let lines = rows.iter().zip(1..).map(|([form, upos, head, relation, deps, misc], id)| {
            format!("{id}\t{form}\t_\t{upos}\t_\t_\t{head}\t{relation}\t{deps}\t{misc}\n")
        });
        lines.collect::<String>() + "\n"
    };
    let links = |text: &str, from: &str| {
        fs::write(&corpus, text).unwrap();
        let model = tiny_bert();
        let report = run(&["analyze", path(&model), "-c", path(&corpus), "--links-from", from, "-q", "-o", "-"])?;
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["settings"]["links_from"], from);
        let actual =
            report["links"].as_array().unwrap().iter().map(|links| {
                format!("{} {} {}", links["type"].as_str().unwrap(), links["count"], links["out_of_sight"])
            });
        Ok::<Vec<String>, (i32, String)>(actual.collect())
    };
    let good = sentence("2:conj:and", "Ref=1");
    // The dependent of an empty node has no link that can be scored.
    assert_eq!(links(&good, "deps").unwrap(), ["conj 1 0", "nsubj 1 0", "punct 1 0"]);
    assert_eq!(links(&good, "misc:Ref").unwrap(), ["Ref 2 0"]);
    let mut answers = Answers::within(scratch.path());
    for (deps, misc, from) in [
        ("2conj", "_", "deps"),
        ("9:conj", "_", "deps"),
        ("3:conj", "_", "deps"),
        ("2:conj", "Ref=one", "misc:Ref"),
        ("2:conj:and", "Ref=1", "enhanced"),
    ] {
        answers.refused(&format!("{deps} {misc} from {from}"), &links(&sentence(deps, misc), from).unwrap_err());
    }
    let without = report(&corpus, &["--links-from", "deps", "--without", "links"]);
    answers.refused("links from a column, without the study", &without.unwrap_err());
    answers.held("links-of-columns");
}

/// A report over a corpus with options, as JSON.
fn report(corpus: &Path, options: &[&str]) -> Result<Value, (i32, String)> {
    let model = tiny_bert();
    let arguments = ["analyze", path(&model), "-c", path(corpus), "--no-run-info", "-q", "-o", "-"];
    run(&[&arguments[..], options].concat()).map(|report| serde_json::from_str(&report).unwrap())
}

#[test]
fn link_table_equals_links_in_json_lines() {
    let scratch = tempdir().unwrap();
    let [json, table, corpus] = ["links.jsonl", "links.tsv", "gold.conllu"].map(|name| scratch.path().join(name));
    fs::write(&json, gold(relation_links)).unwrap();
    fs::copy(fixture("corpus/gold.conllu"), &corpus).unwrap();
    let mut rows = "type\tsentence\tfrom\tto\n".to_owned();
    for (number, line) in gold(relation_links).lines().enumerate() {
        let links: Value = serde_json::from_str(line).unwrap();
        for (name, pairs) in links["links"].as_object().unwrap() {
            for pair in pairs.as_array().unwrap() {
                writeln!(rows, "{name}\t#{number}\t{}\t{}", pair[0], pair[1]).unwrap();
            }
        }
    }
    fs::write(&table, &rows).unwrap();
    let without = ["--words", "spaced", "--unit", "sentences"];
    let (json, beside) = (
        report(&json, &without).unwrap(),
        report(&corpus, &[&without[..], &["--links", path(&table)]].concat()).unwrap(),
    );
    assert!(json["links"].as_array().unwrap().len() > 10);
    assert_eq!(json["links"], beside["links"]);
    let source = &beside["settings"]["links"]["file"];
    assert_eq!(source["name"], "links.tsv");
    assert_eq!(source["sha256"].as_str().map(str::len), Some(64));
    // Shards give each sentence its own links. A limited corpus keeps the links of its sentences.
    let model = tiny_bert();
    let common = ["analyze", path(&model), "-c", path(&corpus), "--links", path(&table), "--no-run-info", "-q"];
    parts_add_up(&common, &scratch.path().join("whole.json"));
    // Links from another file make another run.
    let part = |shard: &str| {
        let out = scratch.path().join(format!("{}.headscope", &shard[..1]));
        run(&[&common[..], &["--shard", shard, "-o", path(&out)]].concat()).unwrap();
        out
    };
    let first = part("1/2");
    fs::write(&table, rows.lines().take(50).collect::<Vec<_>>().join("\n")).unwrap();
    let second = part("2/2");
    let mut answers = Answers::within(scratch.path());
    let merged = run(&["merge", path(&first), path(&second), "-o", "-"]);
    answers.refused("shards with links of two files", &merged.unwrap_err());
    answers.held("links-of-two-files");
}

#[test]
fn wrong_link_table_is_refused_before_the_model_loads() {
    let scratch = tempdir().unwrap();
    let table = scratch.path().join("links.tsv");
    let corpus = fixture("corpus/gold.conllu");
    let mut answers = Answers::within(scratch.path());
    for (rows, options) in [
        ("#0\t1\t2\tx\n#100000\t1\t2\tx\n", &["--limit", "10"][..]),
        ("#0\t1\t200\tx\n", &[]),
        ("#0\t1\t2\tx\n", &["--min-distance", "y=6"]),
        ("#0\t1\t2\tx\n", &["--min-distance", "x"]),
        ("#0\t1\t2\tx\n", &["--without", "links"]),
    ] {
        fs::write(&table, format!("sentence\tfrom\tto\ttype\n{rows}")).unwrap();
        let arguments = ["analyze", "/no/model", "-c", path(&corpus), "--links", path(&table), "-q"];
        let refused = run(&[&arguments[..], options].concat()).unwrap_err();
        answers.refused(&format!("{rows}{}", options.join(" ")), &refused);
    }
    for links in ["/no/links.tsv", path(scratch.path())] {
        answers.refused(links, &report(&corpus, &["--links", links]).unwrap_err());
    }
    answers.held("links-of-a-table");
}

/// An option that leaves nothing to score gets a note.
#[test]
fn option_without_links_gets_a_note() {
    let scratch = tempdir().unwrap();
    let (model, corpus, table) = (tiny_bert(), fixture("corpus/gold.conllu"), scratch.path().join("links.tsv"));
    fs::write(&table, "sentence\tfrom\tto\ttype\n#0\t1\t2\tx\n#0\t1\t2\ty\n#0\t1\t3\ty\n").unwrap();
    let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "20"];
    let summary = run(&[&common[..], &["--links-from", "misc:Nothing"]].concat()).unwrap();
    let line = summary.lines().find(|line| line.contains("misc:Nothing")).unwrap();
    let far = ["--links", path(&table), "--min-distance", "x=2", "--min-distance", "y=2"];
    let output = headscope(&[&common[..], &far].concat()).output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    let note = notes.lines().find(|line| line.contains("x=2")).unwrap();
    assert!(output.status.success() && !notes.contains("y=2"), "{notes}");
    let mut answers = Answers::new();
    answers.said("a column without links", line);
    answers.said("links that are all too short", note);
    answers.held("links-not-found");
}

/// With an index, a shard reads only its own part. The first shard checks the table against the whole corpus.
#[test]
fn indexed_corpus_is_checked_once_against_a_link_table() {
    let scratch = tempdir().unwrap();
    let [index, table] = ["gold.index", "links.tsv"].map(|name| scratch.path().join(name));
    let corpus = fixture("corpus/gold.conllu");
    run(&["index", path(&corpus), "-o", path(&index)]).unwrap();
    fs::write(&table, "sentence\tfrom\tto\ttype\n#100000\t1\t2\tx\n").unwrap();
    let links = ["--links", path(&table), "--index", path(&index), "-q"];
    let out = scratch.path().join("part.headscope");
    let mut answers = Answers::within(scratch.path());
    for more in [&["-o", "-"][..], &["--shard", "1/2", "-o", path(&out)], &["--shard", "2/2", "-o", path(&out)]] {
        let refused = run(&[&["analyze", "/no/model", "-c", path(&corpus)], &links[..], more].concat());
        answers.refused(&more.join(" "), &refused.unwrap_err());
    }
    answers.held("links-beside-an-index");
}

#[test]
fn rules_find_the_nearest_comma() {
    let scratch = tempdir().unwrap();
    let rules = scratch.path().join("rules.toml");
    let rule = "from = { upos = 'VERB' }\nto = { upos = 'PUNCT' }\nside = 'right'\nnearest = true\n";
    fs::write(&rules, format!("[punct]\n{rule}[nothing]\nfrom = {{ upos = 'VERB' }}\nto = {{ form = 'qq' }}\n"))
        .unwrap();
    let corpus = fixture("corpus/gold.conllu");
    let made = report(&corpus, &["--link-rules", path(&rules)]).unwrap();
    let links = made["links"].as_array().unwrap();
    assert_eq!((links.len(), &links[0]["type"]), (1, &json!("punct")));
    // The rule's link is the first candidate of a class to the right.
    let best = links[0]["by_class_rules"]["accuracy"].as_f64().unwrap();
    assert!(best > 0.99, "{best}");
    assert_eq!(made["settings"]["links"]["rules"]["name"], "rules.toml");
}

/// Two proteins; contacts must be at least six residues apart.
#[test]
fn link_table_gives_contacts_of_fasta_records() {
    let scratch = tempdir().unwrap();
    let model = esm_with_vocabulary();
    let [fasta, table] = ["p.fasta", "contacts.tsv"].map(|name| scratch.path().join(name));
    fs::write(&fasta, ">P1\nMKTAYIAKQRQISFVKSHFS\n>P2 second\nGIVEQCC-TSICSLYQLENYCN\n").unwrap();
    fs::write(&table, "sentence\tfrom\tto\ttype\nP1\t1\t9\tcontact\nP1\t3\t4\tcontact\nP2\t21\t2\tcontact\n").unwrap();
    let options = ["--links", path(&table), "--undirected", "contact", "--min-distance", "contact=6"];
    let arguments = ["analyze", path(model.path()), "-c", path(&fasta), "--no-run-info", "-q", "-o", "-"];
    let report: Value = serde_json::from_str(&run(&[&arguments[..], &options].concat()).unwrap()).unwrap();
    let contact = &report["links"][0];
    assert_eq!(contact["type"], "contact");
    // Both ends of two contacts count. The third contact is closer than six residues.
    assert_eq!((&contact["count"], &contact["out_of_sight"]), (&json!(4), &json!(2)));
    assert!(contact["pairs"]["taken"].as_u64().unwrap() > 0, "{contact}");
    assert_eq!(report["settings"]["links"]["min_distance"]["contact"], 6);
    // A model without tokens for residues cannot read the proteins.
    let model = tiny_bert();
    let words = ["analyze", path(&model), "-c", path(&fasta), "-q"];
    let mut answers = Answers::within(scratch.path());
    answers.refused("a model of words", &run(&[&words[..], &options].concat()).unwrap_err());
    answers.held("links-of-residues");
    // A truncated protein keeps the links between its first ten residues.
    let cut = run(&[&arguments[..], &options, &["--max-tokens", "12", "--truncate"]].concat()).unwrap();
    let cut: Value = serde_json::from_str(&cut).unwrap();
    assert_eq!((&cut["links"][0]["count"], &cut["links"][0]["out_of_sight"]), (&json!(2), &json!(4)));
}

/// Each second text is the first text reversed, and is aligned with it accordingly.
#[test]
fn alignments_link_the_texts_of_a_pair() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("made-up.pairs");
    let words = ["the", "dog", "and", "the", "cat"];
    let line = |number: usize| {
        let first: Vec<&str> = (0..4).map(|place| words[(number + place * place) % 5]).collect();
        let second: Vec<&str> = first.iter().rev().copied().collect();
        format!("{} ||| {} ||| 0-3 1-2 2-1 3-0\n", first.join(" "), second.join(" "))
    };
    fs::write(&corpus, (0..40).map(line).collect::<String>()).unwrap();
    let report = report(&corpus, &[]).unwrap();
    let align = &report["links"][0];
    assert_eq!((&align["type"], &align["count"], &align["out_of_sight"]), (&json!("align"), &json!(160), &json!(0)));
    // Each of four words of the first text has four candidates, the words of the second text.
    assert_eq!((&align["chance"], report["corpus"]["words"].as_u64()), (&json!(0.25), Some(320)));
    assert_eq!(align["by_place"]["accuracy"], 0.25);
}

/// Links of three kinds: reactions with their atom maps, arcs of trees, and random contacts of words.
#[test]
fn untrained_heads_follow_links_by_chance_alone() {
    const SEEDS: usize = 10;
    let scratch = tempdir().unwrap();
    let [arcs, contacts] = ["arcs.jsonl", "contacts.jsonl"].map(|name| scratch.path().join(name));
    fs::write(&arcs, gold(relation_links)).unwrap();
    // Links each word to a word that a hash of its letters selects.
    let random = |rows: &[Vec<&str>]| {
        let count = rows.len() as u64;
        let other = |row: &Vec<&str>| {
            row[1].bytes().fold(7_u64, |mixed, byte| mixed * 31 % 1_009 + u64::from(byte)) % count + 1
        };
        let links = rows.iter().zip(1..).map(|(row, word)| (word, other(row))).filter(|(word, other)| word != other);
        json!({"contact": links.map(|(word, other)| json!([word, other])).collect::<Vec<_>>()})
    };
    let contact_lines = gold(random).replace("\"upos\"", "\"undirected\":[\"contact\"],\"upos\"");
    fs::write(&contacts, contact_lines).unwrap();
    let model = tiny_bert();
    let summary = ["--summary", "full", "--without", "attention,words,frequency,explained-variance"];
    let printed = run(&[&["analyze", path(&model), "-c", path(&contacts)], &summary[..]].concat()).unwrap();
    let line = printed.lines().find(|line| line.contains("Links of contact: ")).expect("a line on pairs");
    let mut answers = Answers::new();
    answers.said("links of contact", line);
    answers.held("links-of-random-contacts");
    for (corpus, most) in [(fixture("corpus/reactions.jsonl"), 1), (arcs, 20), (contacts, 1)] {
        let others = "attention,trees,words,classes,frequency,explained-variance";
        let seeds = SEEDS.to_string();
        let control = ["--control", "random-init", "--control-seeds", &seeds, "--without", others];
        let arguments = ["analyze", path(&model), "-c", path(&corpus), "-q", "--no-run-info", "-o", "-"];
        let report: Value = serde_json::from_str(&run(&[&arguments[..], &control].concat()).unwrap()).unwrap();
        let labels = |control: &Value| control["label_counts"]["link:<type>"].as_u64().unwrap();
        let actual: u64 = report["controls"].as_array().unwrap().iter().map(labels).sum();
        let types =
            report["links"].as_array().unwrap().iter().filter(|links| links["count"].as_u64() >= Some(100)).count();
        assert!((1..=most).contains(&types), "{types}");
        let tests = 12 * types * SEEDS;
        assert!(actual as f64 <= 0.05 * tests as f64, "{}: {actual} of {tests}", corpus.display());
    }
}

#[test]
fn paper_table_has_eight_columns_of_links() {
    let scratch = tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let (corpus, saved, csv, tex) = (at("links.jsonl"), at("report.json"), at("links.csv"), at("links.tex"));
    fs::write(&corpus, gold(relation_links)).unwrap();
    run(&["analyze", "box:small", "-c", path(&corpus), "-q", "-o", path(&saved)]).unwrap();
    for file in [&csv, &tex] {
        run(&["export", path(&saved), "--table", "paper_links", "-o", path(file)]).unwrap();
    }
    let text = fs::read_to_string(&csv).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("links,sources,head,accuracy,place,same_class,held_out,firm"));
    assert!(
        lines.clone().count() > 5 && lines.any(|line| line.starts_with("det,") && line.ends_with(",true")),
        "{text}"
    );
    let latex = fs::read_to_string(&tex).unwrap();
    assert!(latex.contains("links & sources & head & accuracy & place & same class & held out & firm"), "{latex}");
}
