//! Helpers that the integration tests share.
#![allow(dead_code, reason = "each test crate uses a part")]

pub mod answers;
pub mod hub_server;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;
#[cfg(unix)]
use std::sync::{Arc, Once};

use assert_cmd::Command;
use candle_core::{Device, Tensor};
use headscope::model::families::Architecture;
use headscope::model::files::ModelFile;
use serde_json::Value;
use tempfile::NamedTempFile;

/// A file of `fixtures/`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

/// The random model of three layers and four heads.
pub fn tiny_bert() -> PathBuf {
    fixture("models/tiny-bert")
}

/// The files of weights in a folder of `fixtures/models`.
pub fn weight_files(folder: &Path) -> Vec<PathBuf> {
    let files = folder.read_dir().expect("a folder").map(|entry| entry.expect("a file").path());
    let has_weights = |path: &PathBuf| path.extension().is_some_and(|end| end == "safetensors" || end == "bin");
    let mut weights: Vec<_> = files.filter(has_weights).collect();
    weights.sort();
    weights
}

/// Files of a model, opened.
pub fn opened(paths: &[PathBuf]) -> Vec<ModelFile> {
    paths.iter().map(|path| ModelFile::open(path).expect("a file of a model")).collect()
}

/// The architecture that the `config.json` of a model folder describes.
pub fn architecture(folder: &Path) -> Architecture {
    let text = std::fs::read_to_string(folder.join("config.json")).expect("a config.json");
    Architecture::parse(&text).expect("a config.json that is supported")
}

/// The binary, with no variable set that changes what it does. Reports have all digits, for tests that compute from them.
pub fn headscope(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headscope"));
    for variable in [
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_TOKEN",
        "HF_ENDPOINT",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HTTPS_PROXY",
        "https_proxy",
        "NO_COLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
    ] {
        command.env_remove(variable);
    }
    command.args(arguments.first());
    let has = |start: &str| arguments.iter().any(|argument| argument.starts_with(start));
    let writes_a_report = arguments.first().is_some_and(|&name| name == "analyze" || name == "merge") && has("-o");
    if writes_a_report && !has("--digits") {
        command.arg("--digits=17");
    }
    command.args(arguments.iter().skip(1));
    command
}

/// Runs the binary; what it printed, or, if it failed, its message.
pub fn run(arguments: &[&str]) -> Result<String, (i32, String)> {
    outcome(&headscope(arguments).output().expect("the binary starts"))
}

/// The output of a finished run, or, if it failed, its exit status and message.
pub fn outcome(output: &Output) -> Result<String, (i32, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err((output.status.code().expect("not killed by a signal"), text(&output.stderr)))
}

/// Analyses a corpus with the tiny model and parses the report.
pub fn analyze(corpus: &Path, more: &[&str]) -> Value {
    let model = tiny_bert();
    let mut arguments = vec!["analyze", path(&model), "--corpus", path(corpus), "-o", "-", "--no-run-info"];
    arguments.extend(more);
    serde_json::from_str(&run(&arguments).expect("a report")).expect("JSON")
}

/// Whether no check of the input fails in a report.
pub fn fails_nothing(report: &Value) -> bool {
    report["corpus"]["health"].as_array().unwrap().iter().all(|check| check["fails"] == false)
}

/// A policy by which a model could read any corpus, for models whose vocabulary has a few words.
pub fn any_input() -> NamedTempFile {
    let mut policy = NamedTempFile::new().unwrap();
    for check in ["unparted", "foreign_script", "unknown_tokens"] {
        writeln!(policy, "health_{check} = 1").unwrap();
    }
    policy
}

/// A path as an argument.
pub fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The small model with each of its tensors changed, as the folder `to`.
pub fn changed_small(to: &Path, mut change: impl FnMut(&str, Tensor) -> Tensor) {
    let from = fixture("models/small");
    fs::create_dir(to).expect("a new folder");
    for name in ["config.json", "tokenizer.json"] {
        fs::copy(from.join(name), to.join(name)).expect("a file of the model");
    }
    let tensors = candle_core::safetensors::load(from.join("model.safetensors"), &Device::Cpu).expect("weights");
    // In the order of their names: a change may draw random numbers.
    let tensors: BTreeMap<String, Tensor> = tensors.into_iter().collect();
    let changed: HashMap<String, Tensor> =
        tensors.into_iter().map(|(name, tensor)| (name.clone(), change(&name, tensor))).collect();
    candle_core::safetensors::save(&changed, to.join("model.safetensors")).expect("a new file");
}

/// Runs an analysis, `common` without an output, at once on two threads, and as two shards on one each that are merged in reverse:
/// the reports have the same bytes. That of all at once is left in `whole`.
pub fn parts_add_up(common: &[&str], whole: &Path) {
    run(&[common, &["-o", path(whole), "--threads", "2"]].concat()).unwrap();
    let parts = [1, 2].map(|part| whole.with_file_name(format!("{part}.headscope")));
    for (part, file) in (1..).zip(&parts) {
        run(&[common, &["--shard", &format!("{part}/2"), "-o", path(file), "--threads", "1"]].concat()).unwrap();
    }
    let merged = whole.with_file_name("merged.json");
    run(&["merge", path(&parts[1]), path(&parts[0]), "--no-run-info", "-q", "-o", path(&merged)]).unwrap();
    assert_eq!(fs::read(&merged).unwrap(), fs::read(whole).unwrap());
}

/// Lets the signals that end a program reach those that a test starts, however the tests were started: `nohup` has SIGHUP ignored,
/// and a script has SIGINT and SIGQUIT ignored for what it starts with `&`.
///
/// A program inherits what is ignored and not what is caught (POSIX.1-2024, exec), so the tests catch them.
#[cfg(unix)]
pub fn let_signals_end_programs() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| {
        let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("Linux has it");
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        // What is not ignored ends the tests, as it should.
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 1) {
            signal_hook::flag::register(signal, Arc::default()).unwrap();
        }
    });
}
