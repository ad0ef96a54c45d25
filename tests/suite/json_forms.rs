//! Compact and gzipped JSON: every command that writes a report can write these forms, and every command that reads a
//! report reads them.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::support::answers::Answers;
use crate::support::{headscope, path, run};
use flate2::read::GzDecoder;
use serde_json::Value;

#[test]
fn compact_and_gzipped_reports_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (plain, packed, compact) = (at("a.json"), at("a.json.gz"), at("b.json"));
    let analyze = ["analyze", "box:planted", "--limit", "60", "--no-run-info", "-q"];
    run(&[&analyze[..], &["-o", path(&plain), "-o", path(&packed)]].concat()).unwrap();
    let text = fs::read_to_string(&plain).unwrap();
    let mut unpacked = String::new();
    GzDecoder::new(fs::File::open(&packed).unwrap()).read_to_string(&mut unpacked).unwrap();
    assert!(unpacked == text, "the same report");
    assert!(fs::metadata(&packed).unwrap().len() * 4 < text.len() as u64);

    // One line, with equal values.
    run(&["export", path(&packed), "--compact", "-o", path(&compact)]).unwrap();
    let one_line = fs::read_to_string(&compact).unwrap();
    assert!(one_line.lines().count() == 1 && one_line.ends_with('\n') && one_line.len() < text.len());
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(value(&one_line), value(&text));
    let printed = run(&[&analyze[..5], &["--compact", "-o", "-"]].concat()).unwrap();
    assert!(printed == one_line);

    // Every command that reads a report reads it gzipped, also from standard input.
    let (shown, packed_path) = (run(&["show", path(&plain)]).unwrap(), path(&packed));
    assert_eq!(run(&["show", packed_path]).unwrap(), shown);
    let piped = headscope(&["show", "-"]).write_stdin(fs::read(&packed).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), shown);
    run(&["compare", "--numbers", packed_path, path(&plain)]).unwrap();
    run(&["compare", packed_path, path(&compact)]).unwrap();
    assert_eq!(run(&["cite", packed_path]).unwrap(), run(&["cite", path(&plain)]).unwrap());
    let relabelled = at("again.json.gz");
    run(&["relabel", packed_path, "--preset", "voita2019", "--compact", "-o", path(&relabelled)]).unwrap();
    run(&["export", path(&relabelled), "-o", path(&at("page.html"))]).unwrap();
}

#[test]
fn numbers_have_six_digits_by_default() {
    /// The rounded report may leave out values of heads below a relation's best offset, and standard errors of heads.
    fn check(rounded: &Value, all: &Value, may_lack: bool) {
        match (rounded, all) {
            (Value::Number(rounded), Value::Number(all)) if all.is_f64() => {
                let rounded_all = format!("{:.5e}", all.as_f64().unwrap()).parse::<f64>().unwrap();
                assert_eq!(rounded.as_f64(), Some(rounded_all));
            }
            (Value::Array(rounded), Value::Array(all)) => {
                assert_eq!(rounded.len(), all.len());
                rounded.iter().zip(all).for_each(|(rounded, all)| check(rounded, all, may_lack));
            }
            (Value::Object(rounded), Value::Object(all)) => {
                let versus = all.get("versus_offset").filter(|_| all.contains_key("dep->head"));
                let may_lack = may_lack
                    || versus.is_some_and(|versus| {
                        ["dep->head", "head->dep"].iter().any(|at| versus[at]["difference"].as_f64() < Some(0.0))
                    });
                assert!(rounded.keys().all(|key| all.contains_key(key)));
                for (key, value) in all {
                    match rounded.get(key) {
                        Some(rounded) if !rounded.is_null() || !may_lack => {
                            check(rounded, value, may_lack || key == "standard_errors");
                        }
                        _ => assert!(may_lack, "{key}"),
                    }
                }
            }
            _ => assert_eq!(rounded, all),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (short, whole) = (at("short.json"), at("whole.json"));
    let analyze = |digits: &str, to: &Path| {
        run(&["analyze", "box:planted", "--limit", "60", "--no-run-info", digits, "-o", path(to)]).unwrap()
    };
    let (printed, printed_with_all_digits) = (analyze("--digits=6", &short), analyze("--digits=17", &whole));
    let read = |file: &Path| fs::read_to_string(file).unwrap();
    let [rounded, all] = [&short, &whole].map(|file| serde_json::from_str(&read(file)).unwrap());
    check(&rounded, &all, false);
    assert!(read(&short).len() * 10 < read(&whole).len() * 6);

    // A standard error that is left out follows from the interval.
    let [short_errors, whole_errors] = [&short, &whole].map(|file| {
        let table = at("metrics.csv");
        run(&["export", path(file), "--table", "metrics", "-o", path(&table)]).unwrap();
        let table = read(&table);
        let column = table.lines().next().unwrap().split(',').position(|name| name == "standard_error").unwrap();
        let error = |line: &str| line.split(',').nth(column).unwrap().parse::<f64>().ok();
        table.lines().skip(1).map(error).collect::<Vec<_>>()
    });
    assert_eq!(short_errors.len(), whole_errors.len());
    for (short, whole) in short_errors.into_iter().zip(whole_errors) {
        assert_eq!(short.is_some(), whole.is_some());
        let (short, whole) = (short.unwrap_or_default(), whole.unwrap_or_default());
        // The tolerance covers a standard error that was left out and one that was rounded to four digits.
        assert!((short - whole).abs() <= 1e-3 * whole, "{short} {whole}");
    }
    let errors = |report: &Value| report["heads"][0]["standard_errors"].as_object().unwrap().len();
    assert!(errors(&rounded) < errors(&all));

    // The summary shows the numbers that are saved.
    assert_eq!(run(&["show", path(&short)]).unwrap(), printed);
    assert_eq!(run(&["show", path(&whole)]).unwrap(), printed_with_all_digits);
    // Runs the program without the arguments that tests add.
    let by_itself = at("default.json");
    let analysis = ["analyze", "box:planted", "--limit", "60", "--no-run-info", "-q", "-o", path(&by_itself)];
    assert!(std::process::Command::new(env!("CARGO_BIN_EXE_headscope")).args(analysis).status().unwrap().success());
    assert!(read(&by_itself) == read(&short));
    // A command that reads a report keeps its numbers.
    let again = at("again.json");
    run(&["export", path(&short), "-o", path(&again)]).unwrap();
    assert!(read(&again) == read(&short));
}

#[test]
fn damaged_reports_and_unknown_formats_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        file
    };
    let pack = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let (bomb, text) = (pack(&vec![b' '; 8 << 20]), pack(b"{\"schema_version\": 4}"));
    let mut answers = Answers::within(folder.path()).hiding(&format!("{} bytes", bomb.len()), "N bytes");
    for (name, bytes) in
        [("bomb.json.gz", &bomb[..]), ("cut.json.gz", &text[..text.len() - 9]), ("text.json.gz", &pack(b"no report"))]
    {
        answers.refused(name, &run(&["show", path(&at(name, bytes))]).unwrap_err());
    }
    // The extension alone is no format.
    answers.refused("report.gz", &run(&["analyze", "box:planted", "-o", "report.gz"]).unwrap_err());
    answers.refused("--digits 2", &run(&["analyze", "--digits", "2"]).unwrap_err());
    answers.held("json-forms-refusals");
}

#[test]
fn tag_baseline_rules_have_their_own_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let report = at("a.json");
    run(&["analyze", "box:small", "--limit", "200", "-q", "-o", path(&report)]).unwrap();
    let table = |name: &str| {
        let file = at("table.csv");
        run(&["export", path(&report), "--table", name, "-o", path(&file)]).unwrap();
        fs::read_to_string(file).unwrap()
    };
    let relations = table("relations");
    let columns: Vec<&str> = relations.lines().next().unwrap().split(',').collect();
    assert!(!columns.iter().any(|column| column.contains("rules")), "{columns:?}");
    assert!(columns.contains(&"tag_baseline.accuracy") && columns.len() < 60, "{}", columns.len());
    let whole: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let rules = table("rules");
    assert!(rules.starts_with("relation,dependent,tag,side\n"), "{rules}");
    let expected: usize = whole["relations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|relation| relation["tag_baseline"]["rules"].as_object().map_or(0, serde_json::Map::len))
        .sum();
    assert_eq!(rules.lines().count() - 1, expected);
}
