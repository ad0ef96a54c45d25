//! Links of JSON lines: read, refused, scored as trees are, and the same in shards.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::families::esm_with_vocabulary;
use crate::support::{fixture, headscope, parts_add_up, path, run, tiny_bert};
use serde_json::{Value, json};
use tempfile::tempdir;

/// The sentences of the gold corpus, with the arcs of each relation as links; `links` says how a line goes on.
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

/// The arcs of all relations, by their base names.
fn of_relations(rows: &[Vec<&str>]) -> Value {
    let mut links = json!({});
    for row in rows.iter().filter(|row| row[6] != "0") {
        let [from, to] = [0, 6].map(|column| row[column].parse::<u64>().unwrap());
        let name = row[7].split(':').next().unwrap();
        let of_relation = links.as_object_mut().unwrap().entry(name).or_insert(json!([]));
        of_relation.as_array_mut().unwrap().push(json!([from, to]));
    }
    links
}

#[test]
fn links_made_of_trees_are_scored_as_trees_are() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("links.jsonl");
    fs::write(&corpus, gold(of_relations)).unwrap();
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
        let of_it = |links: &&Value| links["type"] == relation["relation"] && links["no_choice"] == 0;
        let Some(links) = links["links"].as_array().unwrap().iter().find(of_it) else { continue };
        assert_eq!(links["count"], relation["count"]);
        for (tree, link) in relation["by_head"].as_array().unwrap().iter().zip(links["by_head"].as_array().unwrap()) {
            for [of_tree, of_link] in [["dep->head", "from"], ["head->dep", "to"]] {
                compared += 1;
                equal += usize::from(tree[of_tree] == link["accuracy"][of_link]);
                assert_eq!(tree["to_special"][of_tree], link["to_special"][of_link]);
            }
        }
        // Links share the rules of word classes with trees, except that rare classes have one rule together.
        let [tags, rules] =
            [&relation["tag_baseline"], &links["by_class_rules"]].map(|rules| rules["accuracy"].as_f64().unwrap());
        assert!(rules <= tags + 1e-12, "{rules} {tags}");
    }
    assert!(compared >= 16 * 2 * 10 && equal == compared, "{equal} of {compared}");
}

#[test]
fn shards_come_to_the_same_links() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("links.jsonl");
    fs::write(&corpus, gold(of_relations)).unwrap();
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
fn without_links_nothing_is_said_of_them() {
    let (model, corpus) = (tiny_bert(), fixture("corpus/gold.conllu"));
    let printed = run(&["analyze", path(&model), "-c", path(&corpus), "--summary", "full", "--limit", "100"]).unwrap();
    assert!(!printed.to_lowercase().contains("links"), "{printed}");
}

#[test]
fn links_that_cannot_be_meant_are_refused_with_their_line() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("bad.jsonl");
    let cases = [
        (r#""links": {"maps": [[2, 3]]}"#, "`links`, `maps`: there is no word 3: the sentence has the words 1 to 2"),
        (r#""links": {"maps": [[0, 1]]}"#, "there is no word 0"),
        (r#""links": {"maps": [[2, 2]]}"#, "word 2 is linked to itself: leave that link out"),
        (r#""links": {"maps": [[2, [1, 2]]]}"#, "word 2 is linked to itself"),
        (r#""links": {"maps": [[2, "1"]]}"#, "a link is `[from, to]` or `[from, [to, to]]`"),
        (r#""links": {"": []}"#, "a type of links has no name"),
        (r#""links": {"maps": []}, "candidates": {"maps": [3]}"#, "`candidates`, `maps`: there is no word 3"),
        (
            r#""links": {"maps": []}, "candidates": {"map": [1]}"#,
            "`candidates` names the type `map`, and `links` has none of that name: give the type a list",
        ),
        (r#""undirected": ["contact"]"#, "`undirected` names the type `contact`"),
        (r#""links": {"contact": []}, "min_distance": {"contacts": 6}"#, "`min_distance` names the type `contacts`"),
        (r#""classes": {"element": ["C"]}"#, "`classes.element` has 1 entry for 2 words"),
        (
            r#""classes": {"element": ["C", "O"], "ring": ["a", "b"]}"#,
            "`classes` has 2 keys, `element`, `ring`, and a word has one class",
        ),
    ];
    let refused = |line: &str| {
        let good = r#"{"words": ["C", "O"], "links": {"bond": [[1, 2]]}}"#;
        fs::write(&corpus, format!("{good}\n{line}\n")).unwrap();
        let (status, message) = run(&["analyze", path(&tiny_bert()), "-c", path(&corpus), "-q"]).unwrap_err();
        assert_eq!(status, 3, "{message}");
        assert!(message.contains("bad.jsonl:2"), "{message}");
        message
    };
    for (keys, expected) in cases {
        let message = refused(&format!(r#"{{"words": ["C", "O"], {keys}}}"#));
        assert!(message.contains(expected), "{keys}: {message}");
    }
    let message = refused(r#"{"words": ["C", "O"], "links": {"bond": []}, "undirected": ["bond"]}"#);
    assert!(message.contains("links of the type `bond` are undirected here, and have a direction before"), "{message}");
    let message = refused(r#"{"text": "C O", "links": {"bond": []}}"#);
    assert!(message.contains("`links` is of `words`, and there are none"), "{message}");
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
        let found =
            report["links"].as_array().unwrap().iter().map(|links| {
                format!("{} {} {}", links["type"].as_str().unwrap(), links["count"], links["out_of_sight"])
            });
        Ok::<Vec<String>, (i32, String)>(found.collect())
    };
    let good = sentence("2:conj:and", "Ref=1");
    // The dependent of an empty node has no link that could be scored.
    assert_eq!(links(&good, "deps").unwrap(), ["conj 1 0", "nsubj 1 0", "punct 1 0"]);
    assert_eq!(links(&good, "misc:Ref").unwrap(), ["Ref 2 0"]);
    for (deps, misc, from, expected) in [
        ("2conj", "_", "deps", "deps.conllu:3: column 9 (DEPS) has `2conj`: expected HEAD:RELATION"),
        ("9:conj", "_", "deps", "there is no word 9: the sentence has the words 1 to 4"),
        ("3:conj", "_", "deps", "word 3 is linked to itself"),
        ("2:conj", "Ref=one", "misc:Ref", "column 10 (MISC), `Ref`, has `one`: expected numbers of words"),
    ] {
        let (status, message) = links(&sentence(deps, misc), from).unwrap_err();
        assert_eq!(status, 3, "{message}");
        assert!(message.contains(expected) && message.contains("deps.conllu:3"), "{message}");
    }
    let (status, message) = links(&good, "enhanced").unwrap_err();
    assert!(status == 2 && message.contains("`deps` or `misc:KEY`"), "{message}");
    let model = tiny_bert();
    let without = ["analyze", path(&model), "-c", path(&corpus), "--links-from", "deps", "--without", "links"];
    let (status, message) = run(&without).unwrap_err();
    assert!(status == 2 && message.contains("is about the study links: give --with links as well"), "{message}");
}

/// A report over a corpus with options, as JSON.
fn report(corpus: &Path, options: &[&str]) -> Result<Value, (i32, String)> {
    let model = tiny_bert();
    let arguments = ["analyze", path(&model), "-c", path(corpus), "--no-run-info", "-q", "-o", "-"];
    run(&[&arguments[..], options].concat()).map(|report| serde_json::from_str(&report).unwrap())
}

#[test]
fn a_table_beside_a_treebank_gives_the_links_of_json_lines() {
    let scratch = tempdir().unwrap();
    let [json, table, corpus] = ["links.jsonl", "links.tsv", "gold.conllu"].map(|name| scratch.path().join(name));
    fs::write(&json, gold(of_relations)).unwrap();
    fs::copy(fixture("corpus/gold.conllu"), &corpus).unwrap();
    let mut rows = "type\tsentence\tfrom\tto\n".to_owned();
    for (number, line) in gold(of_relations).lines().enumerate() {
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
    // Shards give each sentence its own links, and a limit those that it has in the whole corpus.
    let model = tiny_bert();
    let common = ["analyze", path(&model), "-c", path(&corpus), "--links", path(&table), "--no-run-info", "-q"];
    parts_add_up(&common, &scratch.path().join("whole.json"));
    // Links of another file make another run.
    let part = |shard: &str| {
        let out = scratch.path().join(format!("{}.headscope", &shard[..1]));
        run(&[&common[..], &["--shard", shard, "-o", path(&out)]].concat()).unwrap();
        out
    };
    let first = part("1/2");
    fs::write(&table, rows.lines().take(50).collect::<Vec<_>>().join("\n")).unwrap();
    let second = part("2/2");
    let (status, message) = run(&["merge", path(&first), path(&second), "-o", "-"]).unwrap_err();
    assert!(status == 3 && message.contains("protocol.links.file.sha256"), "{message}");
}

#[test]
fn a_table_that_does_not_fit_is_refused_before_the_model_is_loaded() {
    let scratch = tempdir().unwrap();
    let table = scratch.path().join("links.tsv");
    let corpus = fixture("corpus/gold.conllu");
    let refused = |rows: &str, options: &[&str]| {
        fs::write(&table, format!("sentence\tfrom\tto\ttype\n{rows}")).unwrap();
        let arguments = ["analyze", "/no/model", "-c", path(&corpus), "--links", path(&table), "-q"];
        run(&[&arguments[..], options].concat()).unwrap_err()
    };
    let (status, message) = refused("#0\t1\t2\tx\n#100000\t1\t2\tx\n", &["--limit", "10"]);
    assert!(status == 3 && message.contains("links.tsv:3: there is no sentence #100000"), "{message}");
    let (status, message) = refused("#0\t1\t200\tx\n", &[]);
    assert!(
        status == 3 && message.contains("links.tsv:2: sentence of") && message.contains("no word 200"),
        "{message}"
    );
    let (status, message) = refused("#0\t1\t2\tx\n", &["--min-distance", "y=6"]);
    assert!(status == 3 && message.contains("--min-distance names the type `y`, and links are of `x`"), "{message}");
    let (status, message) = refused("#0\t1\t2\tx\n", &["--min-distance", "x"]);
    assert!(status == 2 && message.contains("expected TYPE=N"), "{message}");
    let (status, message) = refused("#0\t1\t2\tx\n", &["--without", "links"]);
    assert!(status == 2 && message.contains("is about the study links: give --with links as well"), "{message}");
    let model = tiny_bert();
    let missing = ["analyze", path(&model), "-c", path(&corpus), "--links", "/no/links.tsv", "-q"];
    let (status, message) = run(&missing).unwrap_err();
    assert!(status == 3 && message.contains("cannot read the links `/no/links.tsv`"), "{message}");
    let folder = ["analyze", path(&model), "-c", path(&corpus), "--links", path(scratch.path()), "-q"];
    let (status, message) = run(&folder).unwrap_err();
    assert!(status == 3 && message.contains("it is a folder"), "{message}");
}

/// An option that leaves nothing to score says so.
#[test]
fn what_finds_no_link_is_said() {
    let scratch = tempdir().unwrap();
    let (model, corpus, table) = (tiny_bert(), fixture("corpus/gold.conllu"), scratch.path().join("links.tsv"));
    fs::write(&table, "sentence\tfrom\tto\ttype\n#0\t1\t2\tx\n#0\t1\t2\ty\n#0\t1\t3\ty\n").unwrap();
    let common = ["analyze", path(&model), "-c", path(&corpus), "--limit", "20"];
    let said = run(&[&common[..], &["--links-from", "misc:Nothing"]].concat()).unwrap();
    assert!(said.contains("it has no link that --links-from misc:Nothing could find"), "{said}");
    let far = ["--links", path(&table), "--min-distance", "x=2", "--min-distance", "y=2"];
    let output = headscope(&[&common[..], &far].concat()).output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("note: --min-distance x=2: no link of `x` is between words so far apart\n"), "{notes}");
    assert!(output.status.success() && !notes.contains("y=2"), "{notes}");
}

/// By an index a shard reads its own part alone: the first one holds the table against the whole corpus.
#[test]
fn a_table_is_held_against_an_indexed_corpus_once() {
    let scratch = tempdir().unwrap();
    let [index, table] = ["gold.index", "links.tsv"].map(|name| scratch.path().join(name));
    let corpus = fixture("corpus/gold.conllu");
    run(&["index", path(&corpus), "-o", path(&index)]).unwrap();
    fs::write(&table, "sentence\tfrom\tto\ttype\n#100000\t1\t2\tx\n").unwrap();
    let links = ["--links", path(&table), "--index", path(&index), "-q"];
    let refused =
        |more: &[&str]| run(&[&["analyze", "/no/model", "-c", path(&corpus)], &links[..], more].concat()).unwrap_err();
    let out = scratch.path().join("part.headscope");
    for more in [&["-o", "-"][..], &["--shard", "1/2", "-o", path(&out)]] {
        let (status, message) = refused(more);
        assert!(status == 3 && message.contains("links.tsv:2: there is no sentence #100000"), "{message}");
    }
    let (status, message) = refused(&["--shard", "2/2", "-o", path(&out)]);
    assert!(status == 4 && message.contains("/no/model"), "{message}");
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
    // The first candidate of a class to the right is what the rule says.
    let best = links[0]["by_class_rules"]["accuracy"].as_f64().unwrap();
    assert!(best > 0.99, "{best}");
    assert_eq!(made["settings"]["links"]["rules"]["name"], "rules.toml");
}

/// Two proteins whose contacts are six residues apart and more.
#[test]
fn contacts_beside_fasta_are_those_of_json_lines() {
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
    // Both ends of two contacts; the third is closer than six residues.
    assert_eq!((&contact["count"], &contact["out_of_sight"]), (&json!(4), &json!(2)));
    assert!(contact["pairs"]["taken"].as_u64().unwrap() > 0, "{contact}");
    assert_eq!(report["settings"]["links"]["min_distance"]["contact"], 6);
    // A model that has no token for a residue cannot be asked.
    let model = tiny_bert();
    let words = ["analyze", path(&model), "-c", path(&fasta), "-q"];
    let (status, message) = run(&[&words[..], &options].concat()).unwrap_err();
    assert!(status == 3 && message.contains("links are between the 20 residues, and the model reads"), "{message}");
    // Of a protein that is cut, the links between its first ten residues are left.
    let cut = run(&[&arguments[..], &options, &["--max-tokens", "12", "--truncate"]].concat()).unwrap();
    let cut: Value = serde_json::from_str(&cut).unwrap();
    assert_eq!((&cut["links"][0]["count"], &cut["links"][0]["out_of_sight"]), (&json!(2), &json!(4)));
}

/// Each second text is the first one backwards, and aligned with it so.
#[test]
fn alignments_cross_the_texts_of_a_pair() {
    let scratch = tempdir().unwrap();
    let corpus = scratch.path().join("made-up.pairs");
    let words = ["the", "dog", "and", "the", "cat"];
    let line = |number: usize| {
        let first: Vec<&str> = (0..4).map(|place| words[(number + place * place) % 5]).collect();
        let second: Vec<&str> = first.iter().rev().copied().collect();
        format!("{} ||| {} ||| 0-3 1-2 2-1 3-0\n", first.join(" "), second.join(" "))
    };
    fs::write(&corpus, (0..40).map(line).collect::<String>()).unwrap();
    let found = report(&corpus, &[]).unwrap();
    let align = &found["links"][0];
    assert_eq!((&align["type"], &align["count"], &align["out_of_sight"]), (&json!("align"), &json!(160), &json!(0)));
    // Each of four words of the first text has four candidates, which are the words of the second.
    assert_eq!((&align["chance"], found["corpus"]["words"].as_u64()), (&json!(0.25), Some(320)));
    assert_eq!(align["by_place"]["accuracy"], 0.25);
    let refused = scratch.path().join("refused.pairs");
    fs::write(&refused, "a b ||| c ||| 0-1\n").unwrap();
    let (status, message) = report(&refused, &[]).unwrap_err();
    assert!(status == 3 && message.contains("refused.pairs:1: `0-1`: the second text has no word 1"), "{message}");
}

/// Links of three kinds: reactions with their maps, the arcs of trees, and contacts of words that are drawn at random.
#[test]
fn untrained_heads_follow_links_by_chance_alone() {
    const SEEDS: usize = 10;
    let scratch = tempdir().unwrap();
    let [arcs, contacts] = ["arcs.jsonl", "contacts.jsonl"].map(|name| scratch.path().join(name));
    fs::write(&arcs, gold(of_relations)).unwrap();
    // Of each word to one that an odd number of its letters leads to.
    let random = |rows: &[Vec<&str>]| {
        let count = rows.len() as u64;
        let other = |row: &Vec<&str>| {
            row[1].bytes().fold(7_u64, |mixed, byte| mixed * 31 % 1_009 + u64::from(byte)) % count + 1
        };
        let links = rows.iter().zip(1..).map(|(row, word)| (word, other(row))).filter(|(word, other)| word != other);
        json!({"contact": links.map(|(word, other)| json!([word, other])).collect::<Vec<_>>()})
    };
    let of_contacts = gold(random).replace("\"upos\"", "\"undirected\":[\"contact\"],\"upos\"");
    fs::write(&contacts, of_contacts).unwrap();
    let model = tiny_bert();
    let summary = ["--summary", "full", "--without", "attention,words,frequency,explained-variance"];
    let printed = run(&[&["analyze", path(&model), "-c", path(&contacts)], &summary[..]].concat()).unwrap();
    let line = printed.lines().find(|line| line.contains("Links of contact: ")).expect("a line on pairs");
    assert!(line.contains(" (largest of 12 heads on this text), as many as words, are linked;"), "{line}");
    assert!(line.contains("of the separations that are linked most often "), "{line}");
    for (corpus, most) in [(fixture("corpus/reactions.jsonl"), 1), (arcs, 20), (contacts, 1)] {
        let others = "attention,trees,words,classes,frequency,explained-variance";
        let seeds = SEEDS.to_string();
        let control = ["--control", "random-init", "--control-seeds", &seeds, "--without", others];
        let arguments = ["analyze", path(&model), "-c", path(&corpus), "-q", "--no-run-info", "-o", "-"];
        let report: Value = serde_json::from_str(&run(&[&arguments[..], &control].concat()).unwrap()).unwrap();
        let labels = |control: &Value| control["label_counts"]["link:<type>"].as_u64().unwrap();
        let found: u64 = report["controls"].as_array().unwrap().iter().map(labels).sum();
        let types =
            report["links"].as_array().unwrap().iter().filter(|links| links["count"].as_u64() >= Some(100)).count();
        assert!((1..=most).contains(&types), "{types}");
        let tests = 12 * types * SEEDS;
        assert!(found as f64 <= 0.05 * tests as f64, "{}: {found} of {tests}", corpus.display());
    }
}

#[test]
fn a_paper_has_eight_columns_of_links() {
    let scratch = tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let (corpus, saved, csv, tex) = (at("links.jsonl"), at("report.json"), at("links.csv"), at("links.tex"));
    fs::write(&corpus, gold(of_relations)).unwrap();
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
