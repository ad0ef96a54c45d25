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
use headscope::model::families::architecture::Architecture;
use headscope::model::files::ModelFile;
use serde_json::Value;
use tempfile::NamedTempFile;

/// A path under `fixtures/`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

/// The random model with three layers and four heads.
pub fn tiny_bert() -> PathBuf {
    fixture("models/tiny-bert")
}

/// The weight files in a folder of `fixtures/models`.
pub fn weight_files(folder: &Path) -> Vec<PathBuf> {
    let files = folder.read_dir().expect("a folder").map(|entry| entry.expect("a file").path());
    let has_weights = |path: &PathBuf| path.extension().is_some_and(|end| end == "safetensors" || end == "bin");
    let mut weights: Vec<_> = files.filter(has_weights).collect();
    weights.sort();
    weights
}

/// Opens the files of a model.
pub fn opened(paths: &[PathBuf]) -> Vec<ModelFile> {
    paths.iter().map(|path| ModelFile::open(path).expect("a file of a model")).collect()
}

/// The architecture that the `config.json` of a model folder describes.
pub fn architecture(folder: &Path) -> Architecture {
    let text = std::fs::read_to_string(folder.join("config.json")).expect("a config.json");
    Architecture::parse(&text).expect("a config.json that is supported")
}

/// The binary, without the environment variables that change its behaviour. Reports get all digits, for tests that
/// compute with them.
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

/// Runs the binary. Returns its output, or its exit status and message if it failed.
pub fn run(arguments: &[&str]) -> Result<String, (i32, String)> {
    outcome(&headscope(arguments).output().expect("the binary starts"))
}

/// The output of a finished run, or its exit status and message if it failed.
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

/// Whether no health check of the input fails.
pub fn fails_nothing(report: &Value) -> bool {
    report["corpus"]["health"].as_array().unwrap().iter().all(|check| check["fails"] == false)
}

/// A policy that relaxes three health checks, for models whose vocabulary has a few words.
pub fn any_input() -> NamedTempFile {
    let mut policy = NamedTempFile::new().unwrap();
    for check in ["unparted", "foreign_script", "unknown_tokens"] {
        writeln!(policy, "health_{check} = 1").unwrap();
    }
    policy
}

/// A path as a command-line argument.
pub fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Writes a copy of the small model to `to`, with `change` applied to each tensor.
pub fn changed_small(to: &Path, mut change: impl FnMut(&str, Tensor) -> Tensor) {
    let from = fixture("models/small");
    fs::create_dir(to).expect("a new folder");
    for name in ["config.json", "tokenizer.json"] {
        fs::copy(from.join(name), to.join(name)).expect("a file of the model");
    }
    let tensors = candle_core::safetensors::load(from.join("model.safetensors"), &Device::Cpu).expect("weights");
    // Sorted by name, because `change` may draw random numbers.
    let tensors: BTreeMap<String, Tensor> = tensors.into_iter().collect();
    let changed: HashMap<String, Tensor> =
        tensors.into_iter().map(|(name, tensor)| (name.clone(), change(&name, tensor))).collect();
    candle_core::safetensors::save(&changed, to.join("model.safetensors")).expect("a new file");
}

/// Runs an analysis on two threads, then as two shards on one thread each, merged in reverse order. The two reports
/// must have equal bytes.
/// `common` are the arguments without an output. The report of the first run stays in `whole`.
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

/// Lets signals end the programs that a test starts, however the tests were started. `nohup` ignores SIGHUP, and a
/// script ignores SIGINT and SIGQUIT for commands started with `&`.
///
/// A program inherits ignored signals but not caught signals (POSIX.1-2024, exec), so the tests catch them.
#[cfg(unix)]
pub fn let_signals_end_programs() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| {
        let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("Linux has it");
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        // A signal that is not ignored still ends the tests.
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 1) {
            signal_hook::flag::register(signal, Arc::default()).unwrap();
        }
    });
}
