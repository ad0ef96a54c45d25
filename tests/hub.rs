//! Models named by Hub id, against a Hub on this machine: downloads, the cache, and what is said when it fails.

#![cfg(feature = "hub")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use support::fixture;
use support::hub_server::{Access, Fault, Hub, HubServer, MAIN_COMMIT, V1_COMMIT, change, etag};
use tempfile::TempDir;

const ID: &str = "acme/tiny-bert";

fn tiny_bert() -> Hub {
    Hub::new(ID, fixture("models/tiny-bert"))
}

/// Somebody who has just come: an empty `HF_HOME`, and no other setting.
struct User {
    home: Rc<TempDir>,
    variables: Vec<(&'static str, String)>,
}

impl User {
    fn new() -> Self {
        Self { home: Rc::new(TempDir::new().unwrap()), variables: Vec::new() }
    }

    fn of(server: &HubServer) -> Self {
        Self::new().with("HF_ENDPOINT", &server.url())
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    fn offline(self) -> Self {
        self.with("HF_HUB_OFFLINE", "1")
    }

    fn token_file(&self) -> PathBuf {
        self.home.path().join("token")
    }

    /// The model's part of the cache.
    fn cached(&self, path: &str) -> PathBuf {
        self.home.path().join("hub/models--acme--tiny-bert").join(path)
    }

    fn report_file(&self) -> PathBuf {
        self.home.path().join("report.json")
    }

    fn command(&self, model: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headscope"));
        command.args(["analyze", model, "--no-run-info", "--limit", "20", "-o"]).arg(self.report_file());
        command.arg("--corpus").arg(fixture("corpus/gold.conllu"));
        // Nothing of whoever runs the tests may come in, least of all a token.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let upper = name.to_uppercase();
            if upper.starts_with("HF_")
                || upper.starts_with("HUGGING")
                || upper.ends_with("_PROXY")
                || upper == "NO_COLOR"
            {
                command.env_remove(name);
            }
        }
        command.env("HF_HOME", self.home.path()).envs(self.variables.iter().cloned());
        command
    }

    fn analyze(&self, model: &str) -> Output {
        self.command(model).output().unwrap()
    }

    /// The report's bytes, for a run that succeeds.
    fn report(&self, model: &str) -> Vec<u8> {
        let output = self.analyze(model);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(self.report_file()).unwrap()
    }

    /// What is said on stderr, for a run that fails.
    fn error(&self, model: &str) -> String {
        let output = self.analyze(model);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{error}");
        assert!(!error.contains("panicked"), "{error}");
        error
    }
}

/// The model's id and revision in a report.
fn model_of(report: &[u8]) -> (String, String) {
    let report: Value = serde_json::from_slice(report).unwrap();
    let field = |name: &str| report["model"][name].as_str().unwrap_or_default().to_owned();
    (field("id"), field("revision"))
}

#[track_caller]
fn assert_says(error: &str, expected: &str) {
    assert!(error.contains(expected), "expected: {expected}\nfound: {error}");
}

#[test]
fn a_model_is_downloaded_once_and_then_runs_offline() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let online = user.report(ID);
    assert_eq!(model_of(&online), (ID.to_owned(), MAIN_COMMIT.to_owned()));
    let first = server.requests();
    // What the revision is, four files, and one more request for each that lies elsewhere.
    assert_eq!(first.len(), 9, "{first:#?}");

    assert_eq!(user.report(ID), online);
    assert_eq!(server.requests()[first.len()..], ["GET /api/models/acme/tiny-bert/revision/main"]);

    drop(server);
    assert_eq!(user.offline().report(ID), online);
}

#[test]
fn the_cache_has_the_form_that_python_knows() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    user.report(ID);
    assert_eq!(fs::read_to_string(user.cached("refs/main")).unwrap(), MAIN_COMMIT);
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        let file = user.cached("snapshots").join(MAIN_COMMIT).join(name);
        let bytes = fs::read(&file).unwrap();
        assert!(bytes == fs::read(fixture("models/tiny-bert").join(name)).unwrap(), "{name}");
        if cfg!(unix) {
            assert_eq!(fs::read_link(&file).unwrap(), Path::new("../../blobs").join(etag(name, &bytes)), "{name}");
        }
    }
    // Nothing else is left behind.
    assert_eq!(fs::read_dir(user.cached("blobs")).unwrap().count(), 4);
    assert_eq!(fs::read_dir(user.cached("refs")).unwrap().count(), 1);
}

#[test]
fn a_revision_is_resolved_to_its_commit() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    for revision in ["v1", "refs/pr/5"] {
        let report = user.report(&format!("{ID}@{revision}"));
        assert_eq!(model_of(&report), (ID.to_owned(), V1_COMMIT.to_owned()));
        assert_eq!(fs::read_to_string(user.cached("refs").join(revision)).unwrap(), V1_COMMIT);
    }
    assert_eq!(server.count("/model.safetensors"), 1);
    // The same weights under another commit: their name is asked for, their bytes are not kept twice.
    let commit = user.report(&format!("{ID}@{MAIN_COMMIT}"));
    assert_eq!(model_of(&commit).1, MAIN_COMMIT);
    assert_eq!(fs::read_dir(user.cached("blobs")).unwrap().count(), 4);
    // A commit needs no ref to be found again.
    assert!(!user.cached("refs").join(MAIN_COMMIT).exists());
    drop(server);
    assert_eq!(user.offline().report(&format!("{ID}@{MAIN_COMMIT}")), commit);
}

#[test]
fn offline_and_not_in_the_cache() {
    let user = User::new().offline();
    assert_says(
        &user.error(ID),
        &format!(
            "`acme/tiny-bert` (revision `main`) is not in the Hub cache `{}`, and HF_HUB_OFFLINE forbids to ask the \
             Hub: unset HF_HUB_OFFLINE or download the model first",
            user.home.path().join("hub").display()
        ),
    );
}

#[test]
fn a_hub_that_is_gone_is_replaced_by_the_cache() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let online = user.report(ID);
    drop(server);
    assert_eq!(user.report(ID), online);
}

#[test]
fn a_hub_that_is_gone_and_nothing_in_the_cache() {
    let server = tiny_bert().start();
    let (user, url) = (User::of(&server), server.url());
    drop(server);
    let error = user.error(ID);
    assert_says(
        &error,
        &format!(
            "cannot reach the Hub at {url}, and `acme/tiny-bert` (revision `main`) is not in the Hub cache `{}`: check \
             the network and HF_ENDPOINT, or give a model folder",
            user.home.path().join("hub").display()
        ),
    );
    assert_says(&error, "onnection refused");
}

#[test]
fn a_hub_that_is_out_of_order_is_replaced_by_the_cache() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let online = user.report(ID);
    for (fault, cause) in [
        (Fault::Status(503), "answered 503"),
        (Fault::WebPage, "it answered with something other than the description of a model"),
    ] {
        let faulty = tiny_bert().with_fault(fault).start();
        let user = User { home: Rc::clone(&user.home), ..User::of(&faulty) };
        assert_eq!(user.report(ID), online);
        assert_says(&User::of(&faulty).error(ID), cause);
    }
}

#[test]
fn a_model_that_does_not_exist() {
    let server = tiny_bert().start();
    let (user, url) = (User::of(&server), server.url());
    assert_says(
        &user.error("acme/no-bert"),
        &format!(
            "cannot read model `acme/no-bert` ({url} answered 401): either no folder and no Hub model has this name, \
             or the model is private or gated and no token was sent; check the name, or put an access token into \
             HF_TOKEN or the file `{}`",
            user.token_file().display()
        ),
    );
    assert_says(
        &user.with("HF_TOKEN", "hf_any").error("acme/no-bert"),
        &format!(
            "no folder and no Hub model is named `acme/no-bert` ({url} answered 404 for revision `main`): check the \
             name"
        ),
    );
}

#[test]
fn a_revision_that_does_not_exist() {
    let server = tiny_bert().start();
    assert_says(
        &User::of(&server).error("acme/tiny-bert@v9"),
        &format!(
            "model `acme/tiny-bert` has no revision `v9` ({} answered 404): check what stands after the `@`; without \
             it, `main` is meant",
            server.url()
        ),
    );
}

#[test]
fn a_private_model_needs_its_token() {
    let server = tiny_bert().with_access(Access::Private("hf_secret".into())).start();
    assert_says(&User::of(&server).error(ID), "no token was sent");
    let user = User::of(&server).with("HF_TOKEN", "hf_secret");
    assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
    // From the file that a login writes.
    let user = User::of(&server);
    fs::write(user.token_file(), "hf_secret\n").unwrap();
    assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
}

#[test]
fn a_gated_model_says_what_to_accept() {
    let server = tiny_bert().with_access(Access::Gated("hf_secret".into())).start();
    let (user, url) = (User::of(&server), server.url());
    assert_says(
        &user.error(ID),
        &format!(
            "`acme/tiny-bert` is gated ({url} answered 401): accept its terms at {url}/acme/tiny-bert and put an access \
             token into HF_TOKEN or the file `{}`",
            user.token_file().display()
        ),
    );
    let error = user.with("HF_TOKEN", "hf_other").error(ID);
    assert_says(
        &error,
        &format!(
            "`acme/tiny-bert` is gated ({url} answered 403): accept its terms at {url}/acme/tiny-bert as the owner of \
             the token from HF_TOKEN"
        ),
    );
    assert!(!error.contains("hf_other"), "{error}");
}

#[test]
fn weights_that_come_short_are_thrown_away() {
    let faulty = tiny_bert().with_fault(Fault::ShortWeights).start();
    let user = User::of(&faulty);
    let size = fs::metadata(fixture("models/tiny-bert/model.safetensors")).unwrap().len();
    let error = user.error(ID);
    assert_says(&error, "cannot download model.safetensors of `acme/tiny-bert`");
    assert_says(
        &error,
        &format!("{} bytes came where the Hub promised {size}, and were thrown away: try again", size - 1),
    );
    // The three small files stay, nothing of the weights does, and no ref leads to half a model.
    assert_eq!(fs::read_dir(user.cached("blobs")).unwrap().count(), 3);
    assert!(!user.cached("refs").exists());

    let server = tiny_bert().start();
    let user = user.with("HF_ENDPOINT", &server.url());
    assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.count("/acme/tiny-bert/resolve/1111111111111111111111111111111111111111/config.json"), 0);
}

#[test]
fn weights_that_come_changed_are_thrown_away() {
    let faulty = tiny_bert().with_fault(Fault::ChangedWeights).start();
    let user = User::of(&faulty);
    let mut weights = fs::read(fixture("models/tiny-bert/model.safetensors")).unwrap();
    let promised = etag("model.safetensors", &weights);
    change(&mut weights);
    let got = etag("model.safetensors", &weights);
    let error = user.error(ID);
    assert_says(&error, "cannot download model.safetensors of `acme/tiny-bert`");
    assert_says(
        &error,
        &format!(
            "model.safetensors came with SHA-256 {got} where the Hub promised {promised}, and was thrown away: try again"
        ),
    );
    assert_eq!(fs::read_dir(user.cached("blobs")).unwrap().count(), 3);
    assert!(!user.cached("refs").exists());
}

#[test]
#[cfg(unix)]
fn an_interrupted_download_leaves_nothing_half_done() {
    let slow = tiny_bert().with_fault(Fault::SlowWeights).start();
    let user = User::of(&slow);
    let half_done = || {
        let blobs = fs::read_dir(user.cached("blobs")).into_iter().flatten();
        blobs.filter(|blob| blob.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".incomplete")).count()
    };
    for signal in ["-INT", "-TERM"] {
        let mut run = user.command(ID).stderr(Stdio::null()).spawn().unwrap();
        // The three small files are whole, and the weights are on their way.
        while half_done() == 0 || fs::read_dir(user.cached("blobs")).unwrap().count() < 4 {
            assert_eq!(run.try_wait().unwrap(), None, "nothing came of the weights");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args([signal, &run.id().to_string()]).status().unwrap().success());
        assert_eq!(run.wait().unwrap().code(), Some(130));
        assert_eq!(half_done(), 0);
        assert_eq!(fs::read_dir(user.cached("blobs")).unwrap().count(), 3);
        assert!(!user.cached("refs").exists());
    }
}

#[test]
fn files_that_were_deleted_by_hand_come_again() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let before = user.report(ID);
    // The links stay and lead nowhere; one of them to something that was never there.
    fs::remove_dir_all(user.cached("blobs")).unwrap();
    #[cfg(unix)]
    {
        let link = user.cached("snapshots").join(MAIN_COMMIT).join("config.json");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("../../blobs/gone", &link).unwrap();
    }
    assert_eq!(user.report(ID), before);
}

#[test]
fn a_model_without_safetensors_says_how_to_convert_it() {
    let folder = TempDir::new().unwrap();
    for name in ["config.json", "tokenizer.json", "pytorch_model.bin"] {
        fs::write(folder.path().join(name), "{}").unwrap();
    }
    let server = Hub::new(ID, folder.path()).start();
    let user = User::of(&server);
    assert_says(
        &user.error(ID),
        "`acme/tiny-bert` has no model.safetensors at revision `main`, but pytorch_model.bin is there, weights as a \
         Python pickle, which is not read. To convert them, run in Python:",
    );
    // It is plain from the list of files, so nothing was fetched.
    assert_eq!(server.requests().len(), 1);
}
