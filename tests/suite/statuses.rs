//! Exit statuses by class of failure, and errors for programs.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{headscope, outcome, path, tiny_bert};
use serde_json::{Value, json};

/// The exit status of a run that fails, and its last error as JSON.
fn failure(arguments: &[&str]) -> (i32, Value) {
    let arguments = [arguments, &["--error-format", "json"]].concat();
    let (status, errors) = outcome(&headscope(&arguments).output().unwrap()).unwrap_err();
    let last = errors.lines().last().unwrap_or_default();
    let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("no JSON: {errors}"));
    assert_eq!(error["status"], json!(status));
    let keys: Vec<&str> = error.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys.len(), 7, "{keys:?}");
    (status, error)
}

/// The message and the hint of an error.
fn message_and_hint(error: &Value) -> String {
    format!("message {}\nhint {}", error["message"], error["hint"])
}

#[test]
fn every_error_class_has_a_status_and_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("bad.conllu"), "1\tThe\n").unwrap();
    fs::write(at("good.txt"), "The cat sat .\n").unwrap();
    fs::write(at("bad.toml"), "\nsyntactic_margn = 1\n").unwrap();
    fs::create_dir(at("empty")).unwrap();
    let (tiny, bad, good, empty) = (tiny_bert(), at("bad.conllu"), at("good.txt"), at("empty"));
    let (tiny, good) = (path(&tiny), path(&good));
    let no_place = at("absent/report.json");
    let policy = at("bad.toml");
    for (arguments, status, code) in [
        (vec!["analyze", "--limt", "3"], 2, "usage"),
        (vec!["analyze", tiny, "-c", good, "--max-tokens", "9999"], 2, "usage"),
        (vec!["analyze", tiny, "-c", good, "--remove", "L99H0"], 2, "usage"),
        (vec!["analyze", tiny, "-c", path(&bad)], 3, "input"),
        (vec!["analyze", tiny, "-c", good, "--policy", path(&policy)], 3, "input"),
        (vec!["relabel", path(&bad), "--preset", "voita2019"], 3, "input"),
        (vec!["merge", path(&bad), "-o", "-"], 3, "input"),
        (vec!["compare", "--numbers", path(&bad), path(&bad)], 3, "input"),
        (vec!["compare", path(&bad), path(&bad)], 3, "input"),
        (vec!["analyze", path(&empty), "-c", good], 4, "model"),
        (vec!["maps", path(&empty), "--text", "a", "-o", "x.safetensors"], 4, "model"),
        (vec!["analyze", tiny, "-c", good, "-o", path(&no_place)], 5, "output"),
        (vec!["show", path(&empty)], 3, "input"),
        (vec!["export", path(&bad), "-o", "x.html"], 3, "input"),
        (vec!["cite", path(&bad)], 3, "input"),
        (vec!["index", good, "-o", path(&no_place)], 5, "output"),
        (vec!["man", "-o", good], 5, "output"),
    ] {
        let (actual_status, error) = failure(&arguments);
        assert_eq!((actual_status, &error["code"]), (status, &json!(code)), "{arguments:?} {error}");
        assert!(listed(arguments[0]).contains(&status), "{arguments:?}");
    }
}

/// The exit statuses that the help of a command lists.
fn listed(command: &str) -> Vec<i32> {
    let help = String::from_utf8(headscope(&[command, "--help"]).output().unwrap().stdout).unwrap();
    let (_, statuses) = help.split_once("Exit status: ").unwrap_or_else(|| panic!("{command} has none: {help}"));
    statuses.split([',', ';']).filter_map(|part| part.split_whitespace().next()?.parse().ok()).collect()
}

#[test]
fn help_lists_every_possible_status() {
    let running = [0, 1, 2, 3, 4, 5, 75, 129, 130, 143];
    let reading = [0, 1, 2, 3, 5, 129, 130, 143];
    for command in ["analyze", "view", "maps", "counts"] {
        assert_eq!(listed(command), running, "{command}");
    }
    for command in ["relabel", "show", "export", "compare", "index", "cite"] {
        assert_eq!(listed(command), reading, "{command}");
    }
    for command in ["explain", "schema", "completions", "man"] {
        assert_eq!(listed(command), [0, 1, 2, 5, 129, 130, 143], "{command}");
    }
    assert_eq!(listed("merge"), [0, 1, 2, 3, 5, 6, 129, 130, 143]);
    assert_eq!(listed("batch"), [0, 2, 3, 4, 5, 75, 129, 130, 143]);
    assert_eq!(listed("--color=auto"), [0, 1, 2, 3, 4, 5, 6, 75, 129, 130, 143]);
}

#[test]
fn errors_name_their_place_and_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("bad.conllu"), "1\tThe\n").unwrap();
    fs::write(at("good.txt"), "The cat sat .\n").unwrap();
    fs::write(at("bad.toml"), "\nsyntactic_margn = 1\n").unwrap();
    let (bad, good, policy) = (at("bad.conllu"), at("good.txt"), at("bad.toml"));
    let place = |error: &Value| (error["file"].clone(), error["line"].clone());
    let mut answers = Answers::within(folder.path());

    let (_, error) = failure(&["analyze", "box:planted", "-c", path(&bad)]);
    assert_eq!(place(&error), (json!(path(&bad)), json!(1)), "{error}");
    let (_, error) = failure(&["analyze", "box:planted", "-c", path(&good), "--policy", path(&policy)]);
    assert_eq!(place(&error), (json!(path(&policy)), json!(2)), "{error}");
    assert_eq!(error["value"], json!("syntactic_margn"));
    answers.said("a threshold", &message_and_hint(&error));
    let absent = at("absent/report.json");
    let (_, error) = failure(&["analyze", "box:planted", "-c", path(&good), "-o", path(&absent)]);
    assert_eq!(place(&error), (json!(path(&absent)), json!(null)), "{error}");
    answers.said("a folder", &message_and_hint(&error));
    let spaced = at("my corpus.conllu");
    let (_, error) = failure(&["analyze", "box:planted", "-c", path(&spaced)]);
    assert_eq!(place(&error), (json!(path(&spaced)), json!(null)), "{error}");
    fs::write(at("t.toml"), "[defaults]\nlimit = 0\n[models]\nm = \"box:small\"\n[corpora]\nc = \"box:gold\"\n")
        .unwrap();
    let (table, out) = (at("t.toml"), at("out"));
    let (_, error) = failure(&["batch", path(&table), "-o", path(&out)]);
    assert_eq!(place(&error), (json!(path(&table)), json!(2)), "{error}");
    assert_eq!((&error["value"], &error["hint"]), (&json!("0"), &json!(null)), "{error}");
    let (_, error) = failure(&["analyze", "--limt", "3"]);
    assert_eq!(error["value"], json!("--limt"));
    answers.said("an option", &message_and_hint(&error));
    for arguments in [&["export"][..], &["export", "report.json", "--figure", "grid", "-o"]] {
        answers.said(&arguments.join(" "), &message_and_hint(&failure(arguments).1));
    }
    answers.held("statuses-places");
}

/// The arguments of a command, and the code, file, line and value of its error.
type BadInput<'a> = (Vec<&'a str>, &'a str, Option<&'a str>, Option<u64>, Option<&'a str>);

#[test]
fn json_errors_name_file_line_value_and_hint() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let file = |name: &str, bytes: &[u8]| {
        fs::write(at(name), bytes).unwrap();
        path(&at(name)).to_owned()
    };
    let good = file("good.txt", b"The cat sat .\n");
    let latin = file("latin.txt", b"The cat sat .\nA caf\xe9 .\n");
    let plus = file("plus.conllu", b"# global.columns = ID FORM\n");
    let gz = file("cut.txt.gz", &[0x1f, 0x8b, 8, 0]);
    let unknown = file("corpus.pdf", b"%PDF\n");
    let report = file("report.json", b"{\n\"schema_version\": x}");
    let counts = file("counts.json", b"{\n\"the\": -1}");
    let index = file("a.index", b"no index");
    let partial = file("a.headscope", b"headscope partial 999\n");
    let table = file("t.toml", b"[models]\nm = \"box:small\"\n[corpora]\nc = \"box:gold\"\n[defaults]\nlimt = 3\n");
    let (absent, spaced) = (at("absent folder"), at("my model"));
    let (absent, spaced, out) = (path(&absent), path(&spaced), at("out"));
    let output = file("out.pdf", b"");
    let cases: Vec<BadInput> = vec![
        (vec!["analyze", "-c", &latin], "input", Some(&latin), Some(2), None),
        (vec!["analyze", "-c", &plus], "input", Some(&plus), Some(1), None),
        (vec!["analyze", "-c", &gz], "input", Some(&gz), None, None),
        (vec!["analyze", "-c", &unknown], "usage", Some(&unknown), None, Some("pdf")),
        (vec!["analyze", "-c", absent], "input", Some(absent), None, None),
        (vec!["analyze", "-c", &good, "-c", &good], "input", Some(&good), None, None),
        (vec!["analyze", "-c", &good, "--counts", &counts], "input", Some(&counts), Some(2), None),
        (vec!["analyze", "-c", &good, "--index", &index], "input", Some(&index), None, None),
        (vec!["merge", &partial, "-o", "-"], "input", Some(&partial), None, Some("999")),
        (vec!["show", &report], "input", Some(&report), Some(2), None),
        (vec!["batch", &table, "-o", path(&out)], "usage", Some(&table), Some(6), Some("limt")),
        (vec!["analyze", spaced], "model", Some(spaced), None, None),
        (vec!["analyze", "box:smal"], "usage", None, None, Some("box:smal")),
        (vec!["analyze", "--shard", "auto", "-o", "a.headscope"], "usage", None, None, Some("auto")),
        (vec!["analyze", "-o", &output], "usage", Some(&output), None, Some("pdf")),
        (vec!["explain", "entrpy_ratio"], "usage", None, None, Some("entrpy_ratio")),
        (vec!["analyze", "--probe", "xpos"], "usage", None, None, Some("xpos")),
    ];
    let mut answers = Answers::within(folder.path());
    for (arguments, code, file, line, value) in cases {
        let (_, error) = failure(&arguments);
        let actual = (&error["code"], &error["file"], &error["line"], &error["value"]);
        assert_eq!(actual, (&json!(code), &json!(file), &json!(line), &json!(value)), "{arguments:?} {error}");
        answers.said(&arguments.join(" "), &message_and_hint(&error));
    }
    answers.held("statuses-errors");
}

#[test]
fn absent_part_of_a_report_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (report, out) = (at("report.json"), at("out.csv"));
    headscope(&["analyze", "-q", "--limit", "3", "-o", path(&report)]).assert().success();
    let (report, out, svg) = (path(&report), path(&out), at("out.svg"));
    let mut answers = Answers::within(folder.path());
    for (arguments, value) in [
        (&["show", report, "L9H9"][..], "L9H9"),
        (&["show", report, "--relation", "objj"], "objj"),
        (&["show", report, "--label", "bradd"], "bradd"),
        (&["export", report, "--table", "labls", "-o", out], "labls"),
        (&["export", report, "--figure", "gird", "-o", path(&svg)], "gird"),
        (&["export", report, "--figure", "heatmap:entrpy_ratio", "-o", path(&svg)], "entrpy_ratio"),
        (&["explain", "L2H8"], "L2H8"),
    ] {
        let (status, error) = failure(arguments);
        assert_eq!((status, &error["file"], &error["value"]), (2, &json!(null), &json!(value)), "{error}");
        answers.said(&arguments.join(" "), &message_and_hint(&error));
    }
    answers.held("statuses-parts");
}

#[test]
fn absent_corpus_has_one_status() {
    let folder = tempfile::tempdir().unwrap();
    let mut answers = Answers::within(folder.path());
    for name in ["absent", "absent.csv", "absent.txt"] {
        let absent = folder.path().join(name);
        for command in ["analyze", "counts", "index"] {
            let (corpus, output) = if command == "index" { (vec![], "a.index") } else { (vec!["-c"], "counts.json") };
            let output = folder.path().join(output);
            let mut arguments = [vec![command], corpus, vec![path(&absent)]].concat();
            if command != "analyze" {
                arguments.extend(["-o", path(&output)]);
            }
            let (status, error) = failure(&arguments);
            assert_eq!((status, &error["file"]), (3, &json!(path(&absent))), "{error}");
            answers.said(&format!("{command} {name}"), &message_and_hint(&error));
        }
    }
    answers.held("statuses-no-corpus");
}

#[test]
fn misspelt_name_in_the_box_has_one_status() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("model.toml"), "[models]\nm = \"box:smal\"\n[corpora]\nc = \"box:gold\"\n").unwrap();
    fs::write(at("corpus.toml"), "[models]\nm = \"box:small\"\n[corpora]\nc = \"box:gld\"\n").unwrap();
    let (out, counts, maps) = (at("out"), at("counts.json"), at("maps.safetensors"));
    let (model, corpus) = (at("model.toml"), at("corpus.toml"));
    let mut answers = Answers::within(folder.path());
    for arguments in [
        vec!["analyze", "box:smal"],
        vec!["analyze", "-c", "box:gld"],
        vec!["counts", "box:smal", "-o", path(&counts)],
        vec!["counts", "-c", "box:gld", "-o", path(&counts)],
        vec!["maps", "box:smal", "--text", "a", "-o", path(&maps)],
        vec!["maps", "-c", "box:gld", "-o", path(&maps)],
        vec!["batch", path(&model), "-o", path(&out)],
        vec!["batch", path(&corpus), "-o", path(&out)],
    ] {
        let (status, error) = failure(&arguments);
        assert_eq!((status, &error["code"]), (2, &json!("usage")), "{arguments:?} {error}");
        answers.said(&arguments.join(" "), &message_and_hint(&error));
    }
    answers.held("statuses-box");
}

/// The network's message may contain colons, as the text before a hint does.
#[cfg(feature = "hub")]
#[test]
fn hint_of_a_network_error_excludes_the_network_message() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", server.local_addr().unwrap());
    // The server hangs up before it answers.
    std::thread::spawn(move || server.incoming().for_each(drop));
    let cache = tempfile::tempdir().unwrap();
    let mut command = headscope(&["analyze", "acme/tiny-bert", "--error-format", "json"]);
    command.env("HF_HUB_CACHE", cache.path()).env("HF_ENDPOINT", &endpoint).env("HEADSCOPE_HUB_WAIT", "0");
    let (status, errors) = outcome(&command.output().unwrap()).unwrap_err();
    let error: Value = serde_json::from_str(errors.lines().last().unwrap()).unwrap();
    assert_eq!((status, &error["file"]), (75, &json!(null)), "{error}");
    let [message, hint] = ["message", "hint"].map(|key| error[key].as_str().unwrap());
    let mut answers = Answers::new().hiding(&endpoint, "ENDPOINT");
    answers.said("before what the network says", message.split(" (").next().unwrap());
    answers.said("the way out", hint);
    answers.held("statuses-network");
}

/// Nothing listens on the port, so the Hub does not answer.
#[cfg(feature = "hub")]
#[test]
fn unanswered_request_has_the_temporary_status() {
    let cache = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let mut command = headscope(&["analyze", "acme/tiny-bert", "--error-format", "json"]);
        command.args(more).env("HF_HUB_CACHE", cache.path()).env("HF_ENDPOINT", "http://127.0.0.1:9");
        command.env("HEADSCOPE_HUB_WAIT", "0");
        let (status, errors) = outcome(&command.output().unwrap()).unwrap_err();
        (status, serde_json::from_str::<Value>(errors.lines().last().unwrap()).unwrap())
    };
    let (status, error) = run(&[]);
    assert_eq!((status, &error["code"], &error["file"]), (75, &json!("temporary"), &json!(null)), "{error}");
    let mut answers = Answers::within(cache.path());
    answers.said("the way out", error["hint"].as_str().unwrap());
    let (status, error) = run(&["--offline"]);
    assert_eq!((status, &error["code"], &error["file"]), (4, &json!("model"), &json!(null)), "{error}");
    answers.said("offline", &message_and_hint(&error));
    answers.held("statuses-offline");
}
