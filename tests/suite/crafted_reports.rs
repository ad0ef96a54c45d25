//! Reports that somebody made to fool a terminal, a browser or a writer, through the real binary.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::support::answers::Answers;
use crate::support::{headscope, outcome, path, run};
use headscope::export::json;
use headscope::system::printable::is_unprintable;
use serde_json::Value;
use tempfile::TempDir;

/// A report of the model in the box with sections of many studies.
fn report() -> &'static Value {
    static REPORT: OnceLock<Value> = OnceLock::new();
    REPORT.get_or_init(|| {
        let with = "coreference,pruning,probes,knockout,edges,similarity,examples";
        let arguments =
            ["analyze", "--corpus", "box:gold", "--limit", "60", "--with", with, "--no-run-info", "-o", "-"];
        serde_json::from_str(&run(&arguments).unwrap()).unwrap()
    })
}

/// The report, changed, in a file.
fn saved(folder: &Path, report: &Value) -> PathBuf {
    let file = folder.join("report.json");
    fs::write(&file, report.to_string()).unwrap();
    file
}

/// A text with which every text of a report is replaced, one at a time.
const EVIL: &str = "x\nerror: forged \u{1b}[31m\u{9b}31m\u{202e} \" onmouseover='a' ><script>evil</script>";

/// The places of all texts in a report, of lists the first two items.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            (0..items.len().min(2)).for_each(|place| texts(&items[place], &format!("{at}/{place}"), found));
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                texts(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        _ => {}
    }
}

/// Makes sure that no line of what is printed was forged and a terminal obeys nothing of it.
fn assert_harmless(arguments: &[&str]) {
    let output = headscope(arguments).output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!printed.chars().any(|c| is_unprintable(c) && c != '\n'), "{arguments:?}: {printed:?}");
    let forged = printed.lines().find(|line| line.trim_start().starts_with("error: forged"));
    assert_eq!(forged, None, "{arguments:?}: {printed}");
}

/// Every text of the report is hostile that may be any, those under one key together and all at once.
#[test]
fn no_text_of_a_report_forges_a_line() {
    let folder = TempDir::new().unwrap();
    let mut places = Vec::new();
    texts(report(), "", &mut places);
    // What decides how the report is read stays as it is.
    let is_free = |place: &&String| {
        let mut one = report().clone();
        *one.pointer_mut(place).unwrap() = EVIL.into();
        json::parse("report.json", &one.to_string()).is_ok()
    };
    let places: Vec<&String> = places.iter().filter(is_free).collect();
    assert!(places.len() > 50, "{places:?}");
    let mut all = report().clone();
    for key in report().as_object().unwrap().keys() {
        let mut one = report().clone();
        for place in places.iter().filter(|place| place.split('/').nth(1) == Some(key)) {
            *one.pointer_mut(place).unwrap() = EVIL.into();
            *all.pointer_mut(place).unwrap() = EVIL.into();
        }
        assert_harmless(&["show", path(&saved(folder.path(), &one))]);
    }
    let file = saved(folder.path(), &all);
    let original = folder.path().join("original.json");
    fs::write(&original, report().to_string()).unwrap();
    let (file, original) = (path(&file), path(&original));
    let other = folder.path().join("out.json");
    run(&["show", file]).unwrap();
    for arguments in [
        &["show", file][..],
        &["show", file, "L1H1"],
        &["show", file, "--relation", "nsubj"],
        &["show", file, "--json"],
        &["cite", file],
        &["relabel", file, "--preset", "voita2019", "-o", path(&other)],
        &["relabel", file, "--preset", "voita2019", "-o", "-"],
        &["compare", "--numbers", file, original],
        &["compare", "--numbers", original, file, "--full"],
        &["compare", "--numbers", original, file, "--json"],
        &["compare", file, original, "--full"],
        &["compare", original, file, "--json"],
        &["show", file, "--heads"],
        &["cite", file, "--bibtex"],
    ] {
        assert_harmless(arguments);
    }
    page_is_ours(folder.path(), file);
}

/// Every tag of the page is one of the page's, with attributes that are the page's.
fn page_is_ours(folder: &Path, file: &str) {
    let page = folder.join("page.html");
    run(&["export", file, "-o", path(&page)]).unwrap();
    let html = fs::read_to_string(&page).unwrap();
    assert!(!html.chars().any(|c| is_unprintable(c) && c != '\n'));
    let (tags, _) = tags(&html);
    assert!(tags.len() > 1000, "{}", tags.len());
    let scripts = tags.iter().filter(|(name, _)| name == "script").count();
    assert_eq!(scripts, 1, "one script, the page's");
    for (name, attributes) in &tags {
        for attribute in attributes {
            assert!(!attribute.starts_with("on"), "<{name} {attribute}>");
            let known = attribute.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b':');
            assert!(known, "<{name} {attribute}>");
        }
    }
}

/// The tags of a page, each with the names of its attributes, by the rules of HTML (Living Standard, 13.2.5, states 6 to 40): an
/// attribute's value ends with the quote that it begins with, or, without one, with white space or `>`. With the text between.
fn tags(html: &str) -> (Vec<(String, Vec<String>)>, String) {
    let (mut tags, mut text) = (Vec::new(), String::new());
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        rest = &rest[open + 1..];
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            rest = rest.split_once('>').map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        rest = &rest[end..];
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            let Some(first) = rest.chars().next() else { break };
            if first == '>' {
                rest = &rest[1..];
                break;
            }
            let end = rest.find(|c: char| c.is_ascii_whitespace() || "=>/".contains(c)).unwrap_or(rest.len()).max(1);
            attributes.push(rest[..end].to_ascii_lowercase());
            rest = rest[end..].trim_start();
            if let Some(value) = rest.strip_prefix('=') {
                let value = value.trim_start();
                rest = match value.chars().next() {
                    Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).map_or("", |(_, after)| after),
                    _ => &value[value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len())..],
                };
            }
        }
        // What is between these is no markup.
        if ["script", "style"].contains(&name.as_str()) {
            rest = rest.split_once(&format!("</{name}>")).map_or("", |(_, after)| after);
        }
        tags.push((name, attributes));
    }
    (tags, text)
}

#[test]
fn tags_are_found_as_browsers_find_them() {
    let (found, text) = tags("a<b id=x onclick=y title=\"<i>\">c</b><script>'<u>'</script><br/>d");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let expected = [("b", names(&["id", "onclick", "title"])), ("script", names(&[])), ("br", names(&[]))];
    assert_eq!(found, expected.map(|(name, attributes)| (name.to_owned(), attributes)));
    assert_eq!(text, "ac");
}

/// The status and the message of a report that is refused.
fn refused(folder: &Path, change: impl FnOnce(&mut Value)) -> (i32, String) {
    let mut report = report().clone();
    change(&mut report);
    let (file, page) = (saved(folder, &report), folder.join("page.html"));
    let refused = run(&["export", path(&file), "-o", path(&page)]).unwrap_err();
    assert!(!page.exists() && refused.1.len() < 1000, "{}", refused.1);
    refused
}

#[test]
fn a_report_is_held_against_its_own_grid_and_against_bounds() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let mut answers = Answers::within(folder);
    let name = |report: &mut Value| report["heads"][3]["name"] = "L0H3 onmouseover=evil".into();
    answers.refused("a name", &refused(folder, name));
    let more = |list: &mut Value| {
        let list = list.as_array_mut().unwrap();
        list.push(list.last().unwrap().clone());
    };
    answers.refused("a head more", &refused(folder, |report| more(&mut report["heads"])));
    // A list of heads that is longer while the similarity has its pairs.
    let pairs = |report: &mut Value| {
        more(&mut report["heads"]);
        more(&mut report["similarity"]["disagreement"]);
        report["similarity"]["distance"].as_array_mut().unwrap().extend(vec![Value::Array(Vec::new()); 4]);
    };
    answers.refused("a head more, with its pairs", &refused(folder, pairs));
    let go = |report: &mut Value| {
        let list = report["pruning"]["orders"][0]["can_go"].as_array_mut().unwrap();
        *list = list.iter().cycle().take(100_000).cloned().collect();
    };
    answers.refused("shares that can go", &refused(folder, go));
    let unscored = |report: &mut Value| {
        let relation = &mut report["relations"][0];
        let (best, direction) = (relation["name"].clone(), relation["direction"].as_str().unwrap().to_owned());
        let heads = relation["by_head"].as_array_mut().unwrap();
        let head = heads.iter_mut().find(|head| head["name"] == best).unwrap();
        head["versus_offset"][&direction] = Value::Null;
    };
    answers.refused("a best head without a score", &refused(folder, unscored));
    let kind = |report: &mut Value| report["coreference"]["kinds"][0]["kind"] = "x".repeat(3_000_000).into();
    answers.refused("a long text", &refused(folder, kind));
    let large = |report: &mut Value| report["heads"][0]["metrics"]["entropy"] = 1e308.into();
    answers.refused("a large number", &refused(folder, large));
    answers.held("crafted-reports-bounds");
}

/// Heads that a checkpoint was saved without are places in lists of all heads.
#[test]
fn absent_heads_are_heads_of_the_model_and_have_no_label() {
    let folder = TempDir::new().unwrap();
    let mut answers = Answers::within(folder.path());
    for absent in [&["L9H0"][..], &["L0H1", "L0H0"], &["L0H1", "L0H1"], &["L0H1"]] {
        let change = |report: &mut Value| report["model"]["absent"] = absent.into();
        answers.refused(&absent.join(", "), &refused(folder.path(), change));
    }
    let label = |report: &mut Value| report["heads"][2]["primary"] = "absent".into();
    answers.refused("a label", &refused(folder.path(), label));
    answers.held("crafted-reports-absent-heads");
}

#[test]
fn a_long_name_is_drawn_in_time() {
    let folder = TempDir::new().unwrap();
    let mut report = report().clone();
    report["coreference"]["kinds"][0]["kind"] = "x ".repeat(30_000).into();
    report["model"]["id"] = "x".repeat(60_000).into();
    let (file, page) = (saved(folder.path(), &report), folder.path().join("page.html"));
    run(&["export", path(&file), "-o", path(&page)]).unwrap();
}

/// Collects the keys of all numbers that are not whole; the numbers of a list have the key of the list.
fn keys_of_numbers(value: &Value, key: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Number(number) if number.is_f64() => drop(found.insert(key.to_owned())),
        Value::Array(items) => items.iter().for_each(|item| keys_of_numbers(item, key, found)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| keys_of_numbers(value, key, found)),
        _ => {}
    }
}

/// Makes every number under this key that is not whole another.
fn change_numbers(value: &mut Value, wanted: &str, to: &dyn Fn(f64) -> f64, key: &str) {
    match value {
        Value::Number(number) if number.is_f64() && key == wanted => *value = to(number.as_f64().unwrap()).into(),
        Value::Array(items) => items.iter_mut().for_each(|item| change_numbers(item, wanted, to, key)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(key, value)| change_numbers(value, wanted, to, key));
        }
        _ => {}
    }
}

/// Some numbers of a report become parameters of distributions: numbers that no report has are refused.
#[test]
fn numbers_of_distributions_are_in_their_ranges() {
    let folder = TempDir::new().unwrap();
    let original = saved(folder.path(), report());
    let crafted = folder.path().join("crafted.json");
    let mut answers = Answers::within(folder.path());
    for number in [-1.0, 1.0, 1e-320, 1e8] {
        let mut changed = report().clone();
        change_numbers(&mut changed, "effective_blocks", &|_| number, "");
        fs::write(&crafted, changed.to_string()).unwrap();
        for numbers in [&[][..], &["--numbers"]] {
            let sides = ["compare", path(&original), path(&crafted)];
            let found = outcome(&headscope(&[&sides, numbers].concat()).output().unwrap());
            if (0.0..=64.0).contains(&number) {
                assert!(found.as_ref().err().is_none_or(|(status, _)| *status == 1), "{number} {found:?}");
            } else {
                answers.refused(&format!("{number} {}", numbers.concat()), &found.unwrap_err());
            }
        }
    }
    answers.held("crafted-reports-distributions");
}

/// The largest numbers that are read are drawn.
#[test]
fn figures_have_finite_numbers() {
    let mut keys = BTreeSet::new();
    keys_of_numbers(report(), "", &mut keys);
    let mut report = report().clone();
    for key in keys {
        let mut enlarged = report.clone();
        change_numbers(&mut enlarged, &key, &|number| 1e30_f64.copysign(number), "");
        enlarged["settings"] = report["settings"].clone();
        if json::parse("report.json", &enlarged.to_string()).is_ok() {
            report = enlarged;
        }
    }
    let folder = TempDir::new().unwrap();
    let (file, page) = (saved(folder.path(), &report), folder.path().join("page.html"));
    run(&["export", path(&file), "-o", path(&page)]).unwrap();
    let relations = folder.path().join("relations.svg");
    run(&["export", path(&file), "--figure", "relations", "-o", path(&relations)]).unwrap();
    for drawn in [page, relations] {
        let html = fs::read_to_string(drawn).unwrap();
        // The page's own script knows what is no number.
        let (before, script) = html.split_once("<script>").unwrap_or((&html, ""));
        let words = [before, script.split_once("</script>").map_or("", |(_, after)| after)];
        let mut words = words.into_iter().flat_map(|part| part.split(|c: char| !c.is_alphanumeric()));
        assert_eq!(words.find(|word| ["inf", "NaN"].contains(word)), None);
    }
}
