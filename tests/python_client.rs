//! The Hub cache is shared with Python's `huggingface_hub`: each client finds the files that the other client fetched.
//!
//! The tests need `HEADSCOPE_PYTHON`, a Python with `huggingface_hub`. They run only with `--test python_client`;
//! `.ci/run` does so.

mod support;

use std::path::Path;
use std::process::Command;

use support::hub_server::{Hub, HubServer, MAIN_COMMIT, V1_COMMIT};
use support::{fixture, outcome};
use tempfile::TempDir;

const ID: &str = "acme/tiny-bert";

fn serve() -> HubServer {
    Hub::new(ID, fixture("models/tiny-bert")).start()
}

/// A command with its own `HF_HOME` and without inherited `HF_` variables. It is offline without a server.
fn command(program: &str, home: &Path, server: Option<&HubServer>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HF_")) {
        command.env_remove(name);
    }
    command.env("HF_HOME", home);
    match server {
        Some(server) => command.env("HF_ENDPOINT", server.url()),
        None => command.env("HF_HUB_OFFLINE", "1"),
    };
    command
}

/// Runs `headscope` and returns the report.
fn headscope(home: &Path, model: &str, server: Option<&HubServer>) -> String {
    let mut command = command(env!("CARGO_BIN_EXE_headscope"), home, server);
    command
        .args(["analyze", model, "--no-run-info", "--limit", "5", "-o", "-", "-c"])
        .arg(fixture("corpus/gold.conllu"));
    outcome(&command.output().unwrap()).unwrap()
}

/// Runs `tests/python_client.py` and returns its output.
fn python(home: &Path, arguments: &[&str], server: Option<&HubServer>) -> String {
    let program = std::env::var("HEADSCOPE_PYTHON").expect("HEADSCOPE_PYTHON is a Python with huggingface_hub");
    let mut command = command(&program, home, server);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_client.py")).args(arguments);
    outcome(&command.output().unwrap()).unwrap()
}

#[test]
fn headscope_finds_files_that_python_fetched() {
    let (home, server) = (TempDir::new().unwrap(), serve());
    println!("{}", python(home.path(), &["snapshot", ID, "main"], Some(&server)));
    python(home.path(), &["files", ID, "v1"], Some(&server));
    let earlier = server.requests().len();
    for (model, commit) in [(ID.to_owned(), MAIN_COMMIT), (format!("{ID}@v1"), V1_COMMIT)] {
        // headscope requests the revision and fetches no file.
        let online = headscope(home.path(), &model, Some(&server));
        assert!(online.contains(commit));
        assert_eq!(headscope(home.path(), &model, None), online);
    }
    assert_eq!(server.requests().len(), earlier + 2, "{:#?}", server.requests());
}

#[test]
fn python_finds_files_that_headscope_fetched() {
    let (home, server) = (TempDir::new().unwrap(), serve());
    for model in [ID, "acme/tiny-bert@v1", "acme/tiny-bert@refs/pr/5"] {
        headscope(home.path(), model, Some(&server));
    }
    let earlier = server.requests().len();
    for (revision, commit) in [("main", MAIN_COMMIT), ("v1", V1_COMMIT), (MAIN_COMMIT, MAIN_COMMIT)] {
        let listing = python(home.path(), &["files", ID, revision], None);
        assert!(listing.lines().filter(|line| line.contains(commit)).count() == 4, "{listing}");
        python(home.path(), &["snapshot", ID, revision], None);
    }
    // Online, Python requests the names and finds the bytes in the cache.
    python(home.path(), &["files", ID, "main"], Some(&server));
    let later = &server.requests()[earlier..];
    let files = later.iter().filter(|request| request.contains("/resolve"));
    assert!(files.clone().count() >= 4 && files.clone().all(|request| request.starts_with("HEAD ")), "{later:#?}");
    println!("{}", python(home.path(), &["scan"], None));
}
