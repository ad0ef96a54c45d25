//! Tests of the table.

use super::*;
use crate::commands::cli::analyze::words::option_syntax;

fn names(text: &str) -> Vec<String> {
    parse_runs(text, &option_syntax(), false)
        .map_err(|wrong| wrong.why)
        .expect("a table")
        .into_iter()
        .map(|run| run.name)
        .collect()
}

/// Line of the first error in a table, and the message of that error.
fn error(text: &str) -> (usize, String) {
    let TableError { byte_position: at, why } =
        parse_runs(text, &option_syntax(), false).err().expect("something wrong");
    (text[..at].matches('\n').count() + 1, format!("{why:#}"))
}

const TWO: &str =
    "[models]\na = \"box:small\"\nb = { model = \"box:planted\", limit = 5 }\n[corpora]\ng = \"box:gold\"\n";

#[test]
fn runs_are_the_product() {
    assert_eq!(names(TWO), ["a.g", "b.g"]);
    let sets = format!("{TWO}[options]\nplain = {{}}\nmore = {{ with = [\"norms\", \"repeats\"] }}\n");
    assert_eq!(names(&sets), ["a.g.plain", "a.g.more", "b.g.plain", "b.g.more"]);
}

#[test]
fn what_is_nearer_to_the_run_overrides_what_is_farther() {
    let text = format!(
        "[defaults]\nlimit = 3\nno-run-info = true\n{TWO}[options]\nx = {{ limit = 9 }}\ny = {{ no-run-info = false }}\n"
    );
    let runs = parse_runs(&text, &option_syntax(), false).map_err(|wrong| wrong.why).unwrap();
    let given: Vec<(&str, &[String])> = runs.iter().map(|run| (&*run.name, &*run.report_options)).collect();
    let expected: [(&str, &[&str]); 4] = [
        ("a.g.x", &["--limit=9", "--no-run-info"]),
        ("a.g.y", &["--limit=3"]),
        ("b.g.x", &["--limit=9", "--no-run-info"]),
        ("b.g.y", &["--limit=5"]),
    ];
    for ((name, given), (expected_name, expected)) in given.into_iter().zip(expected) {
        assert_eq!((name, given), (expected_name, &expected.map_to_strings()[..]));
    }
    assert_eq!(runs[0].options.sentence_limit, Some(9));
    assert!(!runs[0].options.run_info && runs[1].options.run_info);
}

trait MapToStrings {
    fn map_to_strings(&self) -> Vec<String>;
}

impl MapToStrings for &[&str] {
    fn map_to_strings(&self) -> Vec<String> {
        self.iter().map(ToString::to_string).collect()
    }
}

#[test]
fn what_no_number_depends_on_is_not_what_a_report_is_made_of() {
    let of = |line: &str| {
        parse_runs(&format!("[defaults]\n{line}\n{TWO}"), &option_syntax(), false).map_err(|wrong| wrong.why).unwrap()
    };
    assert_eq!(of("threads = 1")[0].report_options, of("threads = 2")[0].report_options);
    assert_ne!(of("limit = 1")[0].report_options, of("limit = 2")[0].report_options);
}

#[test]
fn errors_name_the_line_the_value_and_the_way_out() {
    let with = |line: &str| error(&format!("{TWO}[options]\nx = {{ {line} }}\n"));
    for (line, expected) in [
        ("limt = 3", (7, "there is no option `limt` of `headscope analyze`; did you mean `limit`?")),
        (
            "output = \"x\"",
            (7, "`output` has no place here: reports are written to the folder of `headscope batch -o`"),
        ),
        ("corpus = \"x\"", (7, "`corpus` has no place here: corpora are named in [corpora]")),
        (
            "compact = true",
            (7, "`compact` has no place here: reports are indented here: `headscope batch --as json.gz` packs them"),
        ),
        ("truncate = 3", (7, "`truncate` is a switch: write true or false")),
        ("limit = [1]", (7, "`limit` is a text or a number")),
        ("with = []", (7, "`with` is an empty list: leave it out")),
        (
            "limit = 0",
            (7, "in run `a.g.x`: invalid value '0' for '--limit <N>': a whole number of 1 or more is expected"),
        ),
        (
            "truncate = true",
            (7, "in run `a.g.x`: --truncate is for plain text: a sentence without its end has another tree"),
        ),
    ] {
        assert_eq!(with(line), (expected.0, expected.1.to_owned()), "{line}");
    }
    let controls = "[defaults]\ncontrol = \"random-init\"\ncontrol-seeds = 0\n[models]\na = \"box:small\"\n[corpora]\ng = \"box:gold\"\n";
    let (line, why) = error(controls);
    insta::assert_snapshot!(format!("{line}: {why}"), @"3: in run `a.g`: invalid value '0' for '--control-seeds <N>': a whole number from 1 to 1000 is expected");
    for empty in ["g = []", "g = { corpus = [] }"] {
        let why = "`corpus` is an empty list: name at least one file".to_owned();
        assert_eq!(error(&format!("[models]\na = \"box:small\"\n[corpora]\n{empty}\n")), (4, why));
    }
    assert_eq!(error(""), (1, "there is nothing in [models]: name at least one, as in `name = \"...\"`".to_owned()));
    assert_eq!(
        error("[model]\n"),
        (1, "there is no part `model`: [defaults], [models], [corpora], [options]".to_owned())
    );
    let bad = "[models]\n\"a/b\" = \"box:small\"\n[corpora]\ng = \"box:gold\"\n";
    assert_eq!(error(bad).0, 2);
    // On some systems these are one file, or none.
    let errors = ["A = \"box:small\"\na", "CON", "nul", "com7"].map(|names| {
        let (line, why) = error(&format!("[models]\n{names} = \"box:small\"\n[corpora]\ng = \"box:gold\"\n"));
        format!("{line}: {why}")
    });
    insta::assert_snapshot!(errors.join("\n"), @"
    3: `A` and `a` are one file's name on systems that know no case: use another name
    2: `CON` becomes part of a file's name, and is that of a device on some systems: use another name
    2: `nul` becomes part of a file's name, and is that of a device on some systems: use another name
    2: `com7` becomes part of a file's name, and is that of a device on some systems: use another name
    ");
    let misspelt = "[models]\na = \"box:small\"\n[corpora]\ng = \"box:gld\"\n";
    let (line, why) = error(misspelt);
    insta::assert_snapshot!(format!("{line}: {why}"), @"4: in run `a.g`: there is no corpus `box:gld` in the box: it has box:gold; did you mean `box:gold`?");
}
