//! Names and words crafted to deceive a terminal, a spreadsheet or a parser.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use crate::support::answers::Answers;
use crate::support::{headscope, path, run, tiny_bert};
use headscope::passes::observation::partial;
use headscope::system::printable::is_unprintable;
use serde_json::Value;
use tempfile::TempDir;

/// Escape sequences that set the window title, print in red in two ways, and reverse the direction of text.
const EVIL: &str = "\u{1b}]0;evil\u{7}\u{1b}[31m\u{9b}31m\u{202e}";

struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The tiny model in a folder with a hostile name.
    fn model(&self) -> PathBuf {
        let folder = self.path(&format!("model{EVIL}"));
        fs::create_dir(&folder).unwrap();
        for entry in fs::read_dir(tiny_bert()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
        folder
    }

    /// A treebank with hostile words, relations and file name.
    fn corpus(&self) -> PathBuf {
        let path = self.path(&format!("corpus{EVIL}.conllu"));
        let word = |id: u32, form: &str, head: u32, relation: &str| {
            format!("{id}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n")
        };
        let sentence = [
            word(1, &format!("the{EVIL}"), 2, &format!("det{EVIL}")),
            word(2, "dog", 0, "root"),
            word(3, "=1+1", 2, "=cmd|' /C calc'!A0"),
            word(4, "\"a,b\"", 2, "@x\",y"),
            "\n".to_owned(),
        ];
        fs::write(&path, sentence.concat().repeat(20)).unwrap();
        path
    }
}

/// The whole output. Asserts that its only unprintable characters are line ends.
fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(!shown.chars().any(|c| is_unprintable(c) && c != '\n'), "{shown:?}");
    shown
}

#[test]
fn outputs_escape_hostile_names() {
    let context = TestFolder::new();
    let (model, corpus) = (context.model(), context.corpus());
    let (json, csv) = (context.path("report.json"), context.path("heads.csv"));
    let arguments =
        ["analyze", "--summary", "full", path(&model), "-c", path(&corpus), "--min-count", "1", "--no-run-info"];
    let output = headscope(&[&arguments[..], &["-o", path(&json), "-o", path(&csv)]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    // The summary shows the names with escapes.
    assert!(shown(&output).contains("model\\u{1b}]0;evil\\u{7}"));
    assert!(shown(&output).contains("det\\u{1b}]0;evil\\u{7}"));

    // JSON holds the names unchanged, with escapes.
    let text = fs::read_to_string(&json).unwrap();
    assert!(!text.chars().any(|c| is_unprintable(c) && c != '\n'));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["model"]["id"], format!("model{EVIL}"));
    let relations = report["relations"].as_array().unwrap();
    for relation in [format!("det{EVIL}"), "=cmd|' /C calc'!A0".to_owned(), "@x\",y".to_owned()] {
        assert!(relations.iter().any(|entry| entry["relation"] == relation), "{relation}");
    }
    let printed = headscope(&[&arguments[..], &["-o", "-"]].concat()).output().unwrap();
    assert_eq!(shown(&printed), text);

    // Each row has as many cells as the header, and no cell is a formula.
    let mut table = csv::Reader::from_path(&csv).unwrap();
    let mut rows = vec![table.headers().unwrap().clone()];
    rows.extend(table.records().map(Result::unwrap));
    assert_eq!(rows.len(), 1 + 12);
    for cell in rows.iter().flatten() {
        assert!(!cell.chars().any(is_unprintable), "{cell:?}");
        assert!(!cell.starts_with(['=', '+', '-', '@']) || cell.parse::<f64>().is_ok(), "{cell:?}");
    }
}

#[test]
fn maps_prints_no_hostile_word() {
    let context = TestFolder::new();
    let (model, maps) = (context.model(), context.path("maps.safetensors"));
    let text = format!("the dog{EVIL} \"=1\"");
    let output = headscope(&["maps", path(&model), "--text", &text, "-o", path(&maps)]).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    shown(&output);
    let bytes = fs::read(&maps).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = metadata.metadata().clone().unwrap();
    let tokens: Vec<String> = serde_json::from_str(&metadata["tokens.0"]).unwrap();
    assert_eq!(tokens.first().map(String::as_str), Some("[CLS]"));
}

#[test]
fn errors_escape_hostile_arguments() {
    let context = TestFolder::new();
    let (model, corpus) = (context.model(), context.corpus());
    let (model, corpus) = (path(&model), path(&corpus));
    let evil = |before: &str, after: &str| format!("{before}{EVIL}{after}");
    let broken = context.path(&evil("broken", ".conllu"));
    fs::write(&broken, format!("1{EVIL}\tGo\n")).unwrap();
    let (absent, other) = (evil("absent", ".conllu"), evil("corpus", ".xml"));
    let (option, name, output) = (evil("--bo", ""), evil("separ", "ator"), evil("report", ".xml"));
    let cases: &[&[&str]] = &[
        &["analyze", EVIL, "-c", corpus],
        &["analyze", model, "-c", &absent],
        &["analyze", model, "-c", &other],
        &["analyze", model, "-c", path(&broken)],
        &["analyze", model, "-c", corpus, "-o", &output],
        &["analyze", model, "-c", corpus, "--limit", EVIL],
        &["analyze", model, "-c", corpus, "--format", EVIL],
        &["analyze", &option],
        &["maps", model, "--text", "a", "-o", &output],
        &["explain", &name],
        &[EVIL],
    ];
    for arguments in cases {
        let output = headscope(arguments).output().unwrap();
        assert!(!output.status.success());
        // clap leaves out text that it takes for an escape sequence, so only the second one is sought.
        assert!(shown(&output).contains("\\u{9b}31m"), "{arguments:?}: {}", shown(&output));
    }
}

#[test]
fn errors_escape_hostile_names_in_model_files() {
    let context = TestFolder::new();
    let (model, corpus) = (context.model(), context.corpus());
    let evil = "\\u001b]0;evil\\u0007\\u009b31m\\u202e";
    let tokenizer = fs::read_to_string(model.join("tokenizer.json")).unwrap();
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    for (file, text) in [
        ("tokenizer.json", tokenizer.replace("\"letter\": 195", &format!("\"letter{evil}\": 900"))),
        ("config.json", config.replace("\"bert\"", &format!("\"bert{evil}\""))),
        ("config.json", config.replace("\"gelu\"", &format!("\"gelu{evil}\""))),
    ] {
        let original = fs::read(model.join(file)).unwrap();
        fs::write(model.join(file), &text).unwrap();
        let output = headscope(&["analyze", path(&model), "-c", path(&corpus)]).output().unwrap();
        assert!(!output.status.success(), "{file}: {text}");
        shown(&output);
        fs::write(model.join(file), original).unwrap();
    }
}

#[test]
fn a_name_cannot_forge_a_message() {
    let context = TestFolder::new();
    let forged = "x\nerror: forged\u{200b}\u{2028}";
    let file = context.path(&format!("{forged}.conllu"));
    fs::write(&file, "1\tGo\n").unwrap();
    let model = tiny_bert();
    let cases: &[&[&str]] = &[
        &["analyze", path(&model), "-c", path(&file)],
        &["analyze", path(&model), "-c", forged],
        &["analyze", &format!("./{forged}")],
        &["explain", forged],
        &[forged],
    ];
    for arguments in cases {
        let output = headscope(arguments).output().unwrap();
        assert!(!output.status.success());
        let shown = shown(&output);
        assert!(shown.contains("forged\\u{200b}\\u{2028}"), "{shown}");
        assert_eq!(shown.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{shown}");
    }
}

/// Collects the JSON pointers of all texts in a value.
fn collect_texts(value: &Value, at: &str, pointers: &mut Vec<String>) {
    match value {
        Value::String(_) => pointers.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| collect_texts(item, &format!("{at}/{place}"), pointers));
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                collect_texts(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        _ => {}
    }
}

/// One text of a partial's header at a time is hostile. No output but JSON contains its control characters.
#[test]
fn no_text_of_a_partial_reaches_a_terminal_or_a_table() {
    let context = TestFolder::new();
    let [whole, crafted, csv, page] = ["a.headscope", "b.headscope", "b.csv", "b.html"].map(|name| context.path(name));
    let corpus = context.corpus();
    run(&["analyze", path(&tiny_bert()), "-c", path(&corpus), "--shard", "1/1", "-o", path(&whole)]).unwrap();
    let bytes = fs::read(&whole).unwrap();
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n').skip(1);
    let header: Value = serde_json::from_slice(lines.next().unwrap()).unwrap();
    let rest = lines.next().unwrap();
    let sums = zstd::decode_all(&rest[..rest.len() - 32]).unwrap();
    let mut places = Vec::new();
    collect_texts(&header, "", &mut places);
    assert!(places.contains(&"/identity/model/family".to_owned()), "{places:?}");
    let mut merged = 0;
    for place in places {
        let mut changed = header.clone();
        *changed.pointer_mut(&place).unwrap() = format!("x{EVIL}\nerror: forged").into();
        fs::write(&crafted, partial::assemble(&changed.to_string(), &sums).unwrap()).unwrap();
        let output = headscope(&["merge", path(&crafted), "-o", path(&csv), "-o", path(&page)]).output().unwrap();
        shown(&output);
        if !output.status.success() {
            continue;
        }
        merged += 1;
        for file in [&csv, &page] {
            let text = fs::read_to_string(file).unwrap();
            let is_plain = text.chars().all(|c| !is_unprintable(c) || matches!(c, '\n' | '\r'));
            assert!(is_plain, "{place}: {}", file.display());
        }
    }
    assert!(merged > 5, "{merged} were merged");
}

/// Opening a pipe without a writer blocks.
#[test]
#[cfg(unix)]
fn a_pipe_in_place_of_a_file_does_not_block() {
    let context = TestFolder::new();
    let (file, index, pipe) = (context.path("a.txt"), context.path("a.index"), context.path("pipe.txt"));
    fs::write(&file, "the dog\n").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    run(&["index", path(&file), "-o", path(&index)]).unwrap();
    let model = tiny_bert();
    let analyze =
        |corpus, index| run(&["analyze", path(&model), "-c", path(corpus), "--index", path(index)]).unwrap_err();
    let mut answers = Answers::within(context.0.path());
    answers.refused("a pipe as an index", &analyze(&file, &pipe));
    answers.refused("a pipe with an index", &analyze(&pipe, &index));
    answers.refused("an index of a pipe", &run(&["index", path(&pipe), "-o", path(&index)]).unwrap_err());
    let folder = context.path("model");
    fs::create_dir(&folder).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(folder.join("config.json")).status().unwrap().success());
    answers.refused("a pipe in a model", &run(&["analyze", path(&folder), "-c", path(&file)]).unwrap_err());
    answers.held("hostile-pipes");
}
