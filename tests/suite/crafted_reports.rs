//! Reports crafted to deceive a terminal, a browser or a writer.

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

/// Writes a report to a file.
fn saved(folder: &Path, report: &Value) -> PathBuf {
    let file = folder.join("report.json");
    fs::write(&file, report.to_string()).unwrap();
    file
}

/// The hostile text that replaces texts of a report.
const EVIL: &str = "x\nerror: forged \u{1b}[31m\u{9b}31m\u{202e} \" onmouseover='a' ><script>evil</script>";

/// Collects the JSON pointers of all texts in a value, for the first two items of each list.
fn collect_texts(value: &Value, at: &str, pointers: &mut Vec<String>) {
    match value {
        Value::String(_) => pointers.push(at.to_owned()),
        Value::Array(items) => {
            (0..items.len().min(2)).for_each(|place| collect_texts(&items[place], &format!("{at}/{place}"), pointers));
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                collect_texts(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        _ => {}
    }
}

/// Asserts that no printed line is forged and no control character is printed.
fn assert_harmless(arguments: &[&str]) {
    let output = headscope(arguments).output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!printed.chars().any(|c| is_unprintable(c) && c != '\n'), "{arguments:?}: {printed:?}");
    let forged = printed.lines().find(|line| line.trim_start().starts_with("error: forged"));
    assert_eq!(forged, None, "{arguments:?}: {printed}");
}

/// Hostile texts replace all texts that may be arbitrary: those under one key together, then all at once.
#[test]
fn no_text_of_a_report_forges_a_line() {
    let folder = TempDir::new().unwrap();
    let mut places = Vec::new();
    collect_texts(report(), "", &mut places);
    // Texts that decide how the report is read stay unchanged.
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
    assert_page_is_not_forged(folder.path(), file);
}

/// Asserts that the page has one script, and that no attribute has a strange name or handles an event.
fn assert_page_is_not_forged(folder: &Path, file: &str) {
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
            let is_plain = attribute.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b':');
            assert!(is_plain, "<{name} {attribute}>");
        }
    }
}

/// The tags of a page with the names of their attributes, and the text between the tags.
///
/// The parser follows HTML (Living Standard, 13.2.5, states 6 to 40). A quoted value ends with its quote, an unquoted
/// one at white space or `>`.
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
        // The content of these elements is not markup.
        if ["script", "style"].contains(&name.as_str()) {
            rest = rest.split_once(&format!("</{name}>")).map_or("", |(_, after)| after);
        }
        tags.push((name, attributes));
    }
    (tags, text)
}

#[test]
fn tags_are_parsed_as_in_browsers() {
    let (actual, text) = tags("a<b id=x onclick=y title=\"<i>\">c</b><script>'<u>'</script><br/>d");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let expected = [("b", names(&["id", "onclick", "title"])), ("script", names(&[])), ("br", names(&[]))];
    assert_eq!(actual, expected.map(|(name, attributes)| (name.to_owned(), attributes)));
    assert_eq!(text, "ac");
}

/// The exit status and the error of exporting a report that is refused.
fn refused(folder: &Path, change: impl FnOnce(&mut Value)) -> (i32, String) {
    let mut report = report().clone();
    change(&mut report);
    let (file, page) = (saved(folder, &report), folder.join("page.html"));
    let refused = run(&["export", path(&file), "-o", path(&page)]).unwrap_err();
    assert!(!page.exists() && refused.1.len() < 1000, "{}", refused.1);
    refused
}

#[test]
fn reports_that_contradict_their_grid_or_exceed_bounds_are_refused() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let mut answers = Answers::within(folder);
    let name = |report: &mut Value| report["heads"][3]["name"] = "L0H3 onmouseover=evil".into();
    answers.refused("a name", &refused(folder, name));
    let repeat_last = |list: &mut Value| {
        let list = list.as_array_mut().unwrap();
        list.push(list.last().unwrap().clone());
    };
    answers.refused("a head more", &refused(folder, |report| repeat_last(&mut report["heads"])));
    // One head more, and pairs in the section `similarity` to match.
    let pairs = |report: &mut Value| {
        repeat_last(&mut report["heads"]);
        repeat_last(&mut report["similarity"]["disagreement"]);
        report["similarity"]["distance"].as_array_mut().unwrap().extend(vec![Value::Array(Vec::new()); 4]);
    };
    answers.refused("a head more, with its pairs", &refused(folder, pairs));
    let too_many_shares = |report: &mut Value| {
        let list = report["pruning"]["orders"][0]["can_go"].as_array_mut().unwrap();
        *list = list.iter().cycle().take(100_000).cloned().collect();
    };
    answers.refused("shares that can go", &refused(folder, too_many_shares));
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

/// `absent` must list heads of the model in order, once each, and they must have no label.
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

/// Collects the keys of all floating-point numbers. The numbers of a list have the key of the list.
fn collect_float_keys(value: &Value, key: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Number(number) if number.is_f64() => drop(keys.insert(key.to_owned())),
        Value::Array(items) => items.iter().for_each(|item| collect_float_keys(item, key, keys)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| collect_float_keys(value, key, keys)),
        _ => {}
    }
}

/// Applies `to` to every floating-point number under the key `wanted`.
fn map_floats(value: &mut Value, wanted: &str, to: &dyn Fn(f64) -> f64, key: &str) {
    match value {
        Value::Number(number) if number.is_f64() && key == wanted => *value = to(number.as_f64().unwrap()).into(),
        Value::Array(items) => items.iter_mut().for_each(|item| map_floats(item, wanted, to, key)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(key, value)| map_floats(value, wanted, to, key));
        }
        _ => {}
    }
}

/// Some numbers of a report become parameters of distributions, so impossible values are refused.
#[test]
fn impossible_distribution_parameters_are_refused() {
    let folder = TempDir::new().unwrap();
    let original = saved(folder.path(), report());
    let crafted = folder.path().join("crafted.json");
    let mut answers = Answers::within(folder.path());
    for number in [-1.0, 1.0, 1e-320, 1e8] {
        let mut changed = report().clone();
        map_floats(&mut changed, "effective_blocks", &|_| number, "");
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

/// The largest numbers that the reader accepts can be drawn.
#[test]
fn figures_have_finite_numbers() {
    let mut keys = BTreeSet::new();
    collect_float_keys(report(), "", &mut keys);
    let mut report = report().clone();
    for key in keys {
        let mut enlarged = report.clone();
        map_floats(&mut enlarged, &key, &|number| 1e30_f64.copysign(number), "");
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
        // The page's own script may name NaN.
        let (before, script) = html.split_once("<script>").unwrap_or((&html, ""));
        let words = [before, script.split_once("</script>").map_or("", |(_, after)| after)];
        let mut words = words.into_iter().flat_map(|part| part.split(|c: char| !c.is_alphanumeric()));
        assert_eq!(words.find(|word| ["inf", "NaN"].contains(word)), None);
    }
}
