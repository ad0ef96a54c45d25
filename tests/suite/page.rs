//! The page, its figures and the flat tables, made by the real binary from a saved report alone.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{path, run, tiny_bert};
use serde_json::Value;
use tempfile::TempDir;

/// A report of the planted model over 60 sentences of the box, and its folder.
fn report(more: &[&str]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let arguments = ["analyze", "box:planted", "--limit", "60", "--no-run-info", "-q", "-o", path(&report)];
    run(&[&arguments[..], more].concat()).unwrap();
    (folder, report)
}

fn json(report: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap()
}

fn export(report: &Path, more: &[&str], output: &Path) -> String {
    run(&[&["export", path(report)], more, &["-o", path(output)]].concat()).unwrap();
    fs::read_to_string(output).unwrap()
}

/// The names of all tags that a browser would see in `html`.
fn tags(html: &str) -> Vec<String> {
    let name = |rest: &str| rest.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    html.split('<').skip(1).map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn page_is_one_file_made_from_a_saved_report_alone() {
    let folder = TempDir::new().unwrap();
    let (report, page) = (folder.path().join("report.json"), folder.path().join("page.html"));
    let arguments = ["analyze", "box:planted", "--limit", "60", "--no-run-info", "-q"];
    run(&[&arguments[..], &["-o", path(&report), "-o", path(&page)]].concat()).unwrap();
    let html = fs::read_to_string(&page).unwrap();
    assert_eq!(export(&report, &[], &folder.path().join("again.html")), html, "the same bytes");
    let json = json(&report);
    for head in json["heads"].as_array().unwrap() {
        let name = head["name"].as_str().unwrap();
        assert!(html.contains(&format!("<article class=card id=\"{name}\">")), "{name}");
        assert!(html.contains(&format!("href=\"#{name}\"")), "{name}");
    }
    // The page shows the card of the firm label with the largest margin first. Every planted head has a card.
    let margin = |head: &Value| head["labels"][0]["margin"].as_f64();
    let firm = json["heads"].as_array().unwrap().iter();
    let firm = firm.filter(|head| head["labels"][0]["borderline"] == false && head["primary"] != "broad");
    let most = firm.max_by(|a, b| margin(a).partial_cmp(&margin(b)).unwrap()).unwrap();
    let first = html.split("data-first=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let chosen = json["heads"].as_array().unwrap().iter().find(|head| head["name"] == first).unwrap();
    assert_eq!(margin(chosen), margin(most), "{first}");
    assert!(html.contains("<details class=caveats><summary>"), "caveats are folded");
    for caveat in json["caveats"].as_array().unwrap() {
        let id = format!("({})", caveat["id"].as_str().unwrap());
        assert_eq!(html.matches(&id).count(), 1, "{id} stands where it applies, once");
    }
    let heads = json["heads"].as_array().unwrap();
    for (metric, value) in json["chance"].as_object().unwrap() {
        let cells: Vec<(String, String)> = value.as_object().map_or_else(
            || vec![(metric.clone(), format!("/metrics/{metric}"))],
            |keys| keys.keys().map(|key| (format!("{metric}.{key}"), format!("/metrics/{metric}/{key}"))).collect(),
        );
        for (name, pointer) in cells {
            // A metric without any value has no table.
            let is_measured = heads.iter().any(|head| head.pointer(&pointer).is_some_and(Value::is_number));
            let table = format!("data-n=\"{}\"", name.replace('>', "&gt;"));
            assert_eq!(html.contains(&table), is_measured, "{name}");
        }
    }
    let named = |study: &str| html.contains(&format!("\">{study}</code>"));
    assert!(html.contains("<code>--with NAME</code>") && named("examples"), "what was not run is named");
    // The planted model predicts nothing, so the page suggests no study that needs a loss.
    assert_eq!(json["model"]["objective"], Value::Null);
    assert!(!named("effect"), "what would fail is not suggested");
    let beyond: Vec<&str> = html.lines().filter(|line| line.starts_with("<p><b>")).collect();
    let mut answers = Answers::within(folder.path());
    answers.said("what would fail is named with the reason", &beyond.join("\n"));
    answers.held("page-studies-beyond-a-model");
    assert!(html.contains("default-src 'none'"));
    for pattern in ["http://", "https://", "src=", "url(", "@import"] {
        assert!(!html.contains(pattern), "{pattern}");
    }
    assert!(html.len() < 1_000_000);
}

/// The names contain tags, quotes, bidirectional controls and a word of 10,000 letters.
#[test]
fn hostile_names_stay_text() {
    const EVIL: &str = "<script>alert(1)</SCRIPT><img onerror=x>\"'&{{7*7}}\u{202e}\u{1b}]]>";
    let folder = TempDir::new().unwrap();
    let model = folder.path().join(EVIL.replace('/', "|"));
    fs::create_dir(&model).unwrap();
    for entry in fs::read_dir(tiny_bert()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), model.join(entry.file_name())).unwrap();
    }
    let corpus = folder.path().join(format!("{}.conllu", EVIL.replace('/', "|")));
    let row = |id: u32, form: &str, head: u32, relation: &str| {
        format!("{id}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n")
    };
    let (long, relation) = ("y".repeat(10_000), "x".repeat(200));
    let sentence =
        [row(1, EVIL, 2, &format!("det{EVIL}")), row(2, "dog", 0, "root"), row(3, &long, 2, &relation), "\n".into()];
    fs::write(&corpus, sentence.concat().repeat(20)).unwrap();
    let report = folder.path().join("report.json");
    let arguments = ["analyze", path(&model), "-c", path(&corpus), "--min-count", "1", "--no-run-info", "-q"];
    run(&[&arguments[..], &["-o", path(&report)]].concat()).unwrap();
    let page = export(&report, &[], &folder.path().join("page.html"));
    let figure = export(&report, &["--figure", "relations"], &folder.path().join("figure.svg"));
    let both = folder.path().join("side.html");
    run(&["export", path(&report), path(&report), "-o", path(&both)]).unwrap();
    let changes = folder.path().join("changes.html");
    run(&["compare", "--numbers", path(&report), path(&report), "-o", path(&changes)]).unwrap();
    for text in [&page, &figure, &fs::read_to_string(both).unwrap(), &fs::read_to_string(changes).unwrap()] {
        let tags = tags(text);
        assert!(tags.iter().filter(|tag| *tag == "script").count() <= 1, "the page's own");
        assert!(!tags.iter().any(|tag| tag == "img" || tag == "SCRIPT"));
        assert!(!text.contains(['\u{202e}', '\u{1b}']));
        assert!(!text.contains("{{7*7}}") || !text.contains("49}}"), "text is no template");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(figure.contains("det&lt;script&gt;"));
    let table = export(&report, &["--table", "relations"], &folder.path().join("relations.csv"));
    assert!(table.contains(&relation), "a table has the whole name");
    assert!(!table.contains('\u{202e}'));
}

#[test]
fn separate_figures_have_colours_and_stable_bytes() {
    let (folder, report) = report(&["--min-count", "20", "--with", "output-shift"]);
    for name in ["grid", "layers", "heatmap:entropy", "heatmap:offset_mass.-1", "relations", "output-shift"] {
        let svg = export(&report, &["--figure", name], &folder.path().join("a.svg"));
        assert_eq!(svg, export(&report, &["--figure", name], &folder.path().join("b.svg")), "{name}");
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\""), "{name}");
        assert!(svg.contains("<title>") && svg.contains("<text ") && svg.ends_with("</svg>\n"), "{name}");
        assert!(!svg.contains("var(") && !svg.contains("NaN") && !svg.contains("inf"), "{name}");
        for tag in ["g", "text", "title", "svg"] {
            let opened = svg.matches(&format!("<{tag}>")).count() + svg.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{name}: {tag}");
        }
    }
}

/// Studies that run on request appear on the page, in figures and on the cards of heads.
#[test]
fn requested_studies_appear_in_figures_and_on_cards() {
    let folder = TempDir::new().unwrap();
    let (report, page) = (folder.path().join("report.json"), folder.path().join("page.html"));
    let studies = "effect,knockout,pruning,output-shift,edges,similarity,probes";
    let arguments = ["analyze", "box:small", "--limit", "40", "--no-run-info", "-q", "--with", studies];
    run(&[&arguments[..], &["-o", path(&report), "-o", path(&page)]].concat()).unwrap();
    let (json, html) = (json(&report), fs::read_to_string(&page).unwrap());
    for name in ["effects", "pruning", "output-shift", "edges", "similarity-map", "similarity-tree"] {
        let svg = export(&report, &["--figure", name], &folder.path().join("figure.svg"));
        let title = svg.split("<title").nth(1).and_then(|rest| rest.split(['>', '<']).nth(1)).unwrap();
        assert!(!title.is_empty() && html.contains(title), "{name}: `{title}` is not on the page");
    }
    // Clustering joins heads until one cluster is left. Each join is one polyline.
    let tree = export(&report, &["--figure", "similarity-tree"], &folder.path().join("tree.svg"));
    let heads = json["heads"].as_array().unwrap();
    let joins = tree.matches("<polyline").count() - 1;
    assert_eq!(joins, heads.len() - 1, "a join less than heads, and the cut");
    let cards: Vec<&str> = html.split("<article class=card id=").skip(1).collect();
    assert_eq!(cards.len(), heads.len());
    let after = |card: &str, tag: &str| -> Vec<String> {
        card.split(tag).skip(1).map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
    };
    let pictures = &after(cards[0], "<figcaption>")[..2];
    for (card, head) in cards.iter().zip(heads) {
        let name = &head["name"];
        assert!(card.contains("<b>effect</b>"), "the card of {name} has nothing of the effect");
        for picture in pictures {
            assert_eq!(card.matches(&format!("<figcaption>{picture}</figcaption>")).count(), 1, "{name}: {picture}");
        }
        // Other heads appear as links to their cards, without prose.
        assert!(after(card, "<span class=near>").len() > 1 && card.contains("<a href=\"#L"), "{name}");
        assert!(!card.contains("<b>edges</b>") && !card.contains("<b>similarity</b>"), "{name}");
    }
    // Followed relations are drawn beside both baselines, on the card as in the separate figure.
    let followed = heads.iter().find(|head| head["primary"].as_str().unwrap().starts_with("syntactic:")).unwrap();
    let name = followed["name"].as_str().unwrap();
    let svg = export(&report, &["--figure", &format!("relations:{name}")], &folder.path().join("figure.svg"));
    let relation = followed["primary"].as_str().unwrap().trim_start_matches("syntactic:");
    assert!(svg.contains(&format!(">{relation} (")) && svg.contains("word classes"), "{svg}");
    let card = cards[heads.iter().position(|head| head["name"] == name).unwrap()];
    assert!(card.contains(&format!(">{relation} (")), "{card}");
    let mut answers = Answers::within(folder.path());
    answers.said("the figures of a card", &after(card, "<figcaption>").join("\n"));
    answers.said("how it stands to other heads", &after(card, "<span class=near>").join("\n"));
    answers.held("page-card");
}

#[test]
fn tables_use_the_names_of_the_report() {
    let (folder, report) = report(&["--with", "edges"]);
    let json = json(&report);
    let heads = json["heads"].as_array().unwrap();
    let read = |name: &str| {
        let text = export(&report, &["--table", name], &folder.path().join("table.csv"));
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let rows: Vec<Vec<String>> =
            reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        (columns, rows)
    };
    let count = |key: &str| heads.iter().map(|head| head[key].as_array().unwrap().len()).sum::<usize>();
    let (columns, rows) = read("labels");
    assert_eq!(rows.len(), count("labels"));
    assert_eq!(columns[..5], ["layer", "head", "name", "label", "score"]);
    assert!(columns.contains(&"ci95_low".to_owned()) && !columns.contains(&"ci95".to_owned()), "{columns:?}");
    let (columns, rows) = read("heads");
    assert_eq!(rows.len(), heads.len());
    let column = |name: &str| columns.iter().position(|column| column == name).unwrap();
    let labelled = heads.iter().position(|head| !head["labels"][0].is_null()).unwrap();
    let score = rows[labelled][column("score")].parse::<f64>().unwrap();
    assert_eq!(Some(score), heads[labelled]["labels"][0]["score"].as_f64(), "as exact as the report");
    let relations = json["relations"].as_array().unwrap();
    assert_eq!(read("relations").1.len(), relations.len());
    let (columns, rows) = read("by_head");
    assert_eq!(rows.len(), relations.len() * heads.len());
    assert_eq!(columns[..6], ["relation", "layer", "head", "name", "dep->head", "head->dep"]);
    let (columns, rows) = read("edges");
    assert_eq!(rows.len() as u64, json["edges"]["pairs"].as_u64().unwrap());
    let ends = ["source.layer", "source.head", "source.name", "target.layer", "target.head", "target.name"];
    assert_eq!(columns[..6], ends);
    let (columns, rows) = read("metrics");
    assert_eq!(
        columns,
        ["layer", "head", "name", "metric", "value", "ci95_low", "ci95_high", "standard_error", "chance"]
    );
    assert_eq!(rows.len() % heads.len(), 0);
    assert_eq!(read("files").1.len(), 1);
}

#[test]
fn absent_parts_are_refused_with_the_existing_ones() {
    let (folder, report) = report(&[]);
    let refused = |arguments: &[&str]| run(&[&["export", path(&report)], arguments].concat()).unwrap_err();
    let (svg, csv, parquet) =
        (folder.path().join("x.svg"), folder.path().join("x.csv"), folder.path().join("x.parquet"));
    let mut answers = Answers::within(folder.path());
    for arguments in [
        ["--figure", "pruning", "-o", path(&svg)],
        ["--figure", "heatmap:entropi", "-o", path(&svg)],
        ["--table", "effects", "-o", path(&csv)],
        ["--figure", "grid", "-o", path(&csv)],
        ["--table", "heads", "-o", path(&svg)],
    ] {
        answers.refused(&arguments.join(" "), &refused(&arguments));
    }
    answers.held("page-refusals");
    assert!(!svg.exists() && !csv.exists(), "nothing is left half-written");
    let table = ["--table", "heads", "-o", path(&parquet)];
    if cfg!(feature = "parquet") {
        run(&[&["export", path(&report)], &table[..]].concat()).unwrap();
        let bytes = fs::read(&parquet).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    } else {
        assert!(refused(&table).1.contains("--features parquet"));
    }
}

#[test]
fn page_of_two_reports_names_heads_that_keep_their_label() {
    let (folder, a) = report(&[]);
    let b = folder.path().join("removed.json");
    let arguments = ["analyze", "box:planted", "--limit", "60", "--remove", "L0H0", "--no-run-info", "-q"];
    run(&[&arguments[..], &["-o", path(&b)]].concat()).unwrap();
    let page = folder.path().join("side.html");
    run(&["export", path(&a), path(&b), "-o", path(&page)]).unwrap();
    let html = fs::read_to_string(&page).unwrap();
    let [a_json, b_json] = [&a, &b].map(|report| json(report));
    let firsts = |json: &Value| -> Vec<String> {
        let heads = json["heads"].as_array().unwrap().iter();
        heads.map(|head| head["primary"].as_str().unwrap().to_owned()).collect()
    };
    let (first, second) = (firsts(&a_json), firsts(&b_json));
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    let kept = html.split("<h2 id=kept-title>").nth(1).unwrap().lines().nth(1).unwrap();
    assert!(kept.starts_with(&format!("<p>{same} of {} ", first.len())), "{kept}");
    let mut answers = Answers::within(folder.path());
    answers.said("which heads keep their label", kept);
    assert!(html.contains("<th scope=col>report<") && html.contains("<th scope=col>removed<"));
    let refused = run(&["export", path(&a), path(&b), "-o", path(&folder.path().join("x.csv"))]).unwrap_err();
    assert_eq!(refused.0, 2);
    // A column lists the labels that the last report lost or gained. The label counts show the change.
    let c = folder.path().join("other-policy.json");
    run(&["export", path(&a), "--preset", "voita2019", "-o", path(&c)]).unwrap();
    run(&["export", path(&a), path(&c), "-o", path(&page)]).unwrap();
    let (changed, c_json) = (fs::read_to_string(&page).unwrap(), json(&c));
    let labels = |head: &Value| -> Vec<String> {
        let labels = head["labels"].as_array().unwrap().iter();
        labels.map(|label| label["label"].as_str().unwrap().to_owned()).collect()
    };
    let heads = a_json["heads"].as_array().unwrap().iter().zip(c_json["heads"].as_array().unwrap());
    let gone: Vec<String> = heads
        .flat_map(|(before, after)| {
            labels(before).into_iter().filter(|label| !labels(after).contains(label)).collect::<Vec<_>>()
        })
        .collect();
    assert!(!gone.is_empty() && gone.iter().all(|label| changed.contains(&format!("−{label}"))), "{gone:?}");
    assert!(changed.contains("<th scope=col>changed in the last") && changed.contains("class=less style=\"width:"));
    // The page explains what is comparable only if a decoder stands beside an encoder.
    let decoder = folder.path().join("decoder.json");
    run(&["analyze", "box:causal", "--limit", "60", "--no-run-info", "-q", "-o", path(&decoder)]).unwrap();
    let beside = |one: &Path| {
        run(&["export", path(one), path(&decoder), "-o", path(&page)]).unwrap();
        fs::read_to_string(&page).unwrap()
    };
    let (mixed, alike) = (beside(&a), beside(&decoder));
    // Only the decoder was searched for `induction`.
    assert!(mixed.contains("induction<td class=n>–<td class=n>3"));
    // In models of other shapes, heads at equal positions form no pair.
    for (title, html) in [("an encoder and a decoder", mixed), ("two encoders", html), ("two decoders", alike)] {
        let caveats: Vec<&str> = html.lines().filter(|line| line.starts_with("<p class=caveat>")).collect();
        answers.said(title, &caveats.join("\n"));
    }
    answers.held("page-side-by-side");
}
