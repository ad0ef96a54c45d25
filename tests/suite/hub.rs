//! Models named by Hub id, against a Hub on this machine: downloads, the cache, and what is said when it fails.

#![cfg(feature = "hub")]

use crate::support;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use crate::support::fixture;
use crate::support::hub_server::{Access, Fault, Hub, HubServer, MAIN_COMMIT, Ranges, V1_COMMIT, change, etag};
use serde_json::Value;
use tempfile::TempDir;

const ID: &str = "acme/tiny-bert";

fn tiny_bert() -> Hub {
    Hub::new(ID, fixture("models/tiny-bert"))
}

fn weights() -> Vec<u8> {
    fs::read(fixture("models/tiny-bert/model.safetensors")).unwrap()
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
        // The pauses between tries are milliseconds here.
        Self::new().with("HF_ENDPOINT", &server.url()).with("HEADSCOPE_HUB_WAIT", "0.001")
    }

    /// The same person, when the Hub is another one.
    fn at(&self, server: &HubServer) -> Self {
        Self { home: Rc::clone(&self.home), ..Self::of(server) }
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
                || upper.starts_with("HEADSCOPE_")
                || upper.ends_with("_PROXY")
                || upper == "TRANSFORMERS_OFFLINE"
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

    /// The messages on stderr of a run that succeeds.
    fn error_free(&self) -> String {
        let output = self.analyze(ID);
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// How many blobs are whole, and how many are not.
    fn blobs(&self) -> (usize, usize) {
        let entries = fs::read_dir(self.cached("blobs")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let (partial, whole): (Vec<_>, Vec<_>) = names.partition(|name| name.ends_with(".incomplete"));
        (whole.len(), partial.len())
    }

    /// The messages on stderr of a run that fails.
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
fn the_address_of_a_model_names_it() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let report = user.report("https://huggingface.co/acme/tiny-bert/tree/v1");
    assert_eq!(model_of(&report), (ID.to_owned(), V1_COMMIT.to_owned()));
}

#[test]
fn a_misspelt_folder_is_said_at_once_and_the_hub_asked_once() {
    let nearby = TempDir::new().unwrap();
    fs::create_dir(nearby.path().join("tiny-bort")).unwrap();
    fs::write(nearby.path().join("tiny-bort/config.json"), "{}").unwrap();
    // A port where nobody listens. With all tries there would be pauses of days.
    let closed = tiny_bert().start().url();
    let user = User::new().with("HF_ENDPOINT", &closed).with("HEADSCOPE_HUB_WAIT", "86400");
    let output = user.command("tiny-bert").current_dir(nearby.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(75));
    assert_says(&error, "note: there is no folder `tiny-bert`: the Hub is asked; or is `./tiny-bort` meant?\n");
    assert_says(&error, "cannot reach the Hub");
    assert!(error.ends_with("; or is the folder `./tiny-bort` meant?\n"), "{error}");
}

#[test]
fn a_proxy_that_does_not_answer_is_named_by_its_variable() {
    let closed = tiny_bert().start().url();
    let user = User::new().with("HTTPS_PROXY", &closed.replace("http://", "http://ada:secret@"));
    let error = user.with("HEADSCOPE_HUB_WAIT", "0.001").error(ID);
    assert_says(&error, "check the network, the proxy in HTTPS_PROXY and HF_ENDPOINT");
    assert!(!error.contains("secret"), "{error}");
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
    assert_says(&error, &format!("cannot reach the Hub at {url} ("));
    assert_says(
        &error,
        &format!(
            "), and `acme/tiny-bert` (revision `main`) is not in the Hub cache `{}`: check \
             the network and HF_ENDPOINT, or give a model folder",
            user.home.path().join("hub").display()
        ),
    );
    assert_says(&error, "onnection refused");
    assert_says(&error, "(tried 5 times)");
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
        let user = user.at(&faulty);
        assert_eq!(user.report(ID), online);
        // Asked once only, and said.
        assert_eq!(faulty.requests().len(), 1);
        assert_says(
            &String::from_utf8_lossy(&user.analyze(ID).stderr),
            &format!(
                "note: cannot reach the Hub at {}: using commit {MAIN_COMMIT} of `{ID}` from the cache",
                faulty.url()
            ),
        );
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
fn weights_that_come_short_are_not_used() {
    let faulty = tiny_bert().with_fault(Fault::ShortWeights).start();
    let user = User::of(&faulty);
    let size = weights().len();
    let error = user.error(ID);
    assert_says(&error, "cannot download model.safetensors of `acme/tiny-bert`");
    assert_says(&error, &format!("the connection broke off after {} of {size} bytes (tried 5 times)", size - 1));
    // The three small files are there, the weights are not, and no ref leads to half a model.
    assert_eq!(user.blobs(), (3, 1));
    assert!(!user.cached("refs").exists());

    let server = tiny_bert().start();
    let user = user.at(&server);
    assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.count("/acme/tiny-bert/resolve/1111111111111111111111111111111111111111/config.json"), 0);
    assert_eq!(user.blobs(), (4, 0));
}

#[test]
fn weights_that_come_long_are_thrown_away() {
    let faulty = tiny_bert().with_fault(Fault::LongWeights).start();
    let user = User::of(&faulty);
    assert_says(
        &user.error(ID),
        &format!("more than the {} bytes came that the Hub promised, and were thrown away: try again", weights().len()),
    );
    assert_eq!(user.blobs(), (3, 0));
}

#[test]
fn weights_that_come_changed_are_thrown_away() {
    let faulty = tiny_bert().with_fault(Fault::ChangedWeights).start();
    let user = User::of(&faulty);
    let mut weights = weights();
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
    assert_eq!(user.blobs(), (3, 0));
    // What comes in one piece is not asked for again.
    assert_eq!(faulty.count("/model.safetensors"), 1);
    assert!(!user.cached("refs").exists());
}

#[test]
#[cfg(unix)]
fn an_interrupted_download_goes_on_where_it_ended() {
    support::let_signals_end_programs();
    let slow = tiny_bert().with_fault(Fault::SlowWeights).start();
    let user = User::of(&slow);
    let partial = user.cached("blobs").join(format!("{}.incomplete", etag("model.safetensors", &weights())));
    let come = || fs::metadata(&partial).map_or(0, |partial| partial.len());
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let before = come();
        let mut run = user.command(ID).stderr(Stdio::null()).spawn().unwrap();
        while come() <= before {
            assert_eq!(run.try_wait().unwrap(), None, "nothing came of the weights");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args([signal, &run.id().to_string()]).status().unwrap().success());
        assert_eq!(run.wait().unwrap().code(), Some(status));
        assert_eq!(user.blobs(), (3, 1));
        assert!(!user.cached("refs").exists());
    }
    let server = tiny_bert().start();
    let come = come();
    let user = user.at(&server);
    assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [Some(come)]);
    assert_eq!(user.blobs(), (4, 0));
}

#[test]
fn a_hub_that_is_busy_is_asked_again() {
    let expected = User::of(&tiny_bert().start()).error_free();
    for (status, header) in
        [(429, Some(("Retry-After", "0"))), (429, Some(("RateLimit", "\"api\";r=0;t=0"))), (500, None), (503, None)]
    {
        let server = tiny_bert().with_fault(Fault::Busy(4, status, header)).start();
        let user = User::of(&server);
        let output = user.analyze(ID);
        assert!(output.status.success());
        let notes = String::from_utf8(output.stderr).unwrap();
        assert_says(&notes, &format!("note: {} answered {status}", server.url()));
        assert_says(&notes, "; try 2 of 5 in 0.001 s");
        assert_eq!(notes.lines().count(), expected.lines().count() + 4, "{notes}");
        assert_eq!(server.count("/api/models/acme/tiny-bert/revision/main"), 5);
    }
}

#[test]
fn a_hub_that_stays_busy_is_left_alone() {
    let busy = |header| tiny_bert().with_fault(Fault::Busy(u32::MAX, 429, header)).start();
    let server = busy(None);
    assert_says(&User::of(&server).error(ID), "answered 429 (too many requests) (tried 5 times)");
    assert_eq!(server.requests().len(), 5);
    let server = busy(Some(("Retry-After", "3600")));
    assert_says(
        &User::of(&server).error(ID),
        "answered 429 (too many requests), and asks to be left alone for 3600 s: try again then",
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_hub_that_does_not_answer_is_asked_again() {
    for fault in [Fault::Silent(1), Fault::Garbage(1)] {
        let server = tiny_bert().with_fault(fault).start();
        let user = User::of(&server).with("HF_HUB_ETAG_TIMEOUT", "1");
        assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
    }
    let server = tiny_bert().with_fault(Fault::Silent(u32::MAX)).start();
    let error = User::of(&server).with("HF_HUB_ETAG_TIMEOUT", "0.1").error(ID);
    assert_says(&error, "cannot reach the Hub");
    assert_says(&error, "timeout");
    assert_says(&error, "(tried 5 times)");
}

#[test]
fn weights_that_break_off_are_fetched_from_there() {
    let cut = |after, times, ranges| tiny_bert().with_fault(Fault::CutWeights { after, times, ranges }).start();
    let size = weights().len();
    let server = cut(5000, 2, Ranges::Known);
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(5000), Some(10000)]);
    // As often as it takes, as long as it goes on.
    let server = cut(size.div_ceil(12), u32::MAX, Ranges::Known);
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors").len(), 12);
    // From the beginning, where ranges are not known, or not understood.
    let server = cut(5000, 2, Ranges::Unknown);
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(5000), Some(5000)]);
    let server = cut(5000, 1, Ranges::Confused);
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(5000), None]);
}

#[test]
fn weights_that_stop_coming_are_fetched_from_there() {
    let server = tiny_bert().with_fault(Fault::StalledWeights(5000)).start();
    let user = User::of(&server).with("HF_HUB_DOWNLOAD_TIMEOUT", "1");
    assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(5000)]);
}

#[test]
fn weights_that_always_break_off_go_on_another_day() {
    let fault = Fault::CutWeights { after: 5000, times: u32::MAX, ranges: Ranges::Unknown };
    let faulty = tiny_bert().with_fault(fault).start();
    let user = User::of(&faulty);
    let error = user.error(ID);
    assert_says(&error, &format!("the connection broke off after 5000 of {} bytes", weights().len()));
    assert_says(&error, "(tried 5 times)");
    assert_eq!(user.blobs(), (3, 1));
    assert_says(&user.at(&faulty).offline().error(ID), "is not in the Hub cache");
    let server = tiny_bert().start();
    assert_eq!(model_of(&user.at(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [Some(5000)]);
}

#[test]
fn a_beginning_that_is_not_the_files_own_is_thrown_away() {
    let (weights, server) = (weights(), tiny_bert().start());
    let name = etag("model.safetensors", &weights);
    // Damaged, whole but damaged, and too long.
    for beginning in [vec![7; 5000], vec![7; weights.len()], vec![7; weights.len() + 5000]] {
        let user = User::of(&server);
        fs::create_dir_all(user.cached("blobs")).unwrap();
        fs::write(user.cached("blobs").join(format!("{name}.incomplete")), beginning).unwrap();
        assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
        assert!(fs::read(user.cached("blobs").join(&name)).unwrap() == weights);
        assert_eq!(user.blobs(), (4, 0));
    }
}

#[test]
fn processes_that_fetch_the_same_model_share_one_download() {
    let server = tiny_bert().with_fault(Fault::CutWeights { after: 20_000, times: 2, ranges: Ranges::Known }).start();
    let user = User::of(&server);
    let mut runs: Vec<_> =
        (0..4).map(|_| user.command(ID).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()).collect();
    for run in &mut runs {
        assert!(run.wait().unwrap().success());
    }
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(20_000), Some(40_000)]);
    assert_eq!(user.blobs(), (4, 0));
    drop(server);
    assert_eq!(model_of(&user.offline().report(ID)).1, MAIN_COMMIT);
}

#[test]
fn names_that_lead_out_of_the_cache_are_refused() {
    let error = |fault| User::of(&tiny_bert().with_fault(fault).start()).error(ID);
    assert_says(&error(Fault::Etag("\"../../evil\"")), "config.json of `acme/tiny-bert` came without a usable ETag");
    assert_says(&error(Fault::Commit("../../evil")), "calls `../../evil` a commit of `acme/tiny-bert`");
    let server = tiny_bert().with_fault(Fault::Sibling("../../evil")).start();
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
}

#[test]
fn a_hub_writes_nothing_on_the_terminal() {
    let error = User::of(&tiny_bert().with_fault(Fault::Commit("\u{1b}]0;evil\u{7}")).start()).error(ID);
    assert!(!error.contains('\u{1b}'), "{error}");
    assert_says(&error, "calls `\\u{1b}]0;evil\\u{7}` a commit");
}

#[test]
fn a_description_without_an_end_is_not_read_to_it() {
    let server = tiny_bert().with_fault(Fault::EndlessInfo).start();
    assert_says(&User::of(&server).error(ID), "something other than the description of a model");
}

#[test]
fn what_is_promised_to_be_too_large_is_not_fetched() {
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let hub = || tiny_bert().with_fault(Fault::Promise(file, 1 << 40));
        for server in [hub().start(), hub().with_plain_info().start()] {
            let user = User::of(&server);
            assert_says(&user.error(ID), &format!("{file} of `acme/tiny-bert` has 1099511627776 bytes: more than "));
        }
    }
}

#[test]
fn the_closest_model_of_the_cache_is_suggested() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    user.report(ID);
    assert_says(&user.error("acme/tiny-bret"), "; did you mean `acme/tiny-bert`, which is in the cache?");
    assert_says(&user.offline().error("tiny-bert"), "(`acme/tiny-bert` is)");
}

#[test]
fn a_token_that_is_withheld_is_not_sent() {
    let server = tiny_bert().with_access(Access::Private("hf_secret".into())).start();
    let user = User::of(&server).with("HF_TOKEN", "hf_secret").with("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
    assert_says(&user.error(ID), "and unset HF_HUB_DISABLE_IMPLICIT_TOKEN, which keeps it from being sent");
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
    for name in ["tokenizer.json", "tf_model.h5"] {
        fs::write(folder.path().join(name), "{}").unwrap();
    }
    let config = folder.path().join("config.json");
    fs::copy(fixture("models/tiny-bert/config.json"), &config).unwrap();
    let server = Hub::new(ID, folder.path()).start();
    let user = User::of(&server);
    assert_says(
        &user.error(ID),
        "`acme/tiny-bert` has no model.safetensors at revision `main`, but tf_model.h5 is there, weights of \
         TensorFlow, which are not read. To convert them, run in Python with transformers 4:",
    );
    // It is plain from the list of files, so nothing but config.json was fetched.
    assert_eq!(server.requests().len(), 3);

    // What config.json says comes first.
    fs::write(&config, r#"{"model_type": "gptj"}"#).unwrap();
    let server = Hub::new(ID, folder.path()).start();
    assert_says(&User::of(&server).error(ID), "model_type is gptj: of decoders those of");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_file_that_arrives_short_is_not_used_even_if_nobody_said_how_long_it_is() {
    let server = tiny_bert().with_fault(Fault::UnsizedTokenizer(500)).start();
    let user = User::of(&server);
    assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(user.blobs(), (4, 0));
    let whole = fs::read(fixture("models/tiny-bert/tokenizer.json")).unwrap();
    assert!(fs::read(user.cached("snapshots").join(MAIN_COMMIT).join("tokenizer.json")).unwrap() == whole);
}

#[test]
fn a_mirror_that_describes_no_files_serves_if_their_addresses_say_what_they_are() {
    let server = tiny_bert().with_plain_info().start();
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
    let server = tiny_bert().with_fault(Fault::OtherInfo).start();
    assert_says(&User::of(&server).error(ID), "describes model.safetensors of `acme/tiny-bert` as SHA-256 ");
}

#[test]
fn a_mirror_that_says_nothing_but_where_files_are_serves() {
    let whole = fs::read(fixture("models/tiny-bert/tokenizer.json")).unwrap();
    // The other host names the files where the description does not, and refuses a request with the token.
    for mirror in [tiny_bert(), tiny_bert().with_plain_info()] {
        let server = mirror.with_fault(Fault::MovedFiles).start();
        let user = User::of(&server).with("HF_TOKEN", "hf_secret");
        assert_eq!(model_of(&user.report(ID)).1, MAIN_COMMIT);
        let snapshot = user.cached("snapshots").join(MAIN_COMMIT);
        assert!(fs::read(snapshot.join("tokenizer.json")).unwrap() == whole);
    }
}

#[test]
fn what_cannot_be_checked_does_not_come_in() {
    // Its description has a digest, whatever its address is called.
    let named = || tiny_bert().with_fault(Fault::Etag("\"5d41402abc4b2a76b9719d911017c592\""));
    let server = named().start();
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
    let server = named().with_plain_info().start();
    assert_says(&User::of(&server).error(ID), "neither its size nor its digest, so that it cannot be checked");
}

#[test]
#[cfg(unix)]
fn what_is_damaged_in_the_cache_is_fetched_again() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let report = user.report(ID);
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let file = user.cached("snapshots").join(MAIN_COMMIT).join(name);
        let whole = fs::read(&file).unwrap();
        let mut changed = whole.clone();
        change(&mut changed);
        for damaged in [&whole[..whole.len() / 3], &changed] {
            fs::write(&file, damaged).unwrap();
            let error = user.at(&server).offline().error(ID);
            assert_says(&error, "a file in the Hub cache is damaged");
            assert_says(&error, name);
            assert_eq!(user.report(ID), report, "{name}");
            assert!(fs::read(&file).unwrap() == whole, "{name}");
        }
    }
    assert_eq!(user.blobs(), (4, 0));
}

/// A file in the place of a link, and a link to a whole blob of another file, are no files of the model.
#[test]
#[cfg(unix)]
fn what_is_no_link_to_its_blob_is_compared_as_well() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let report = user.report(ID);
    let snapshot = user.cached("snapshots").join(MAIN_COMMIT);
    let (file, whole) = (snapshot.join("model.safetensors"), weights());
    let mut changed = whole.clone();
    change(&mut changed);
    let other = fs::read_link(snapshot.join("tokenizer.json")).unwrap();
    for other in [None, Some(other)] {
        fs::remove_file(&file).unwrap();
        match other {
            None => fs::write(&file, &changed).unwrap(),
            Some(other) => std::os::unix::fs::symlink(other, &file).unwrap(),
        }
        assert_eq!(user.report(ID), report);
        assert!(fs::read(&file).unwrap() == whole);
    }
}

#[test]
#[cfg(unix)]
fn a_download_writes_through_no_link() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let mine = user.home.path().join("mine");
    fs::write(&mine, "keep").unwrap();
    let partial = user.cached("blobs").join(format!("{}.incomplete", etag("model.safetensors", &weights())));
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&mine, &partial).unwrap();
    user.report(ID);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "keep");
}

#[test]
#[cfg(unix)]
fn a_pipe_in_the_place_of_a_ref_is_not_waited_for() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    fs::create_dir_all(user.cached("refs")).unwrap();
    assert!(Command::new("mkfifo").arg(user.cached("refs/main")).status().unwrap().success());
    user.report(ID);
}

#[test]
fn passwords_in_addresses_are_not_shown() {
    let endpoint = "http://ada:secret@127.0.0.1:1";
    let error = User::new().with("HF_ENDPOINT", endpoint).with("HEADSCOPE_HUB_WAIT", "0.001").error(ID);
    assert_says(&error, "http://***@127.0.0.1:1");
    assert!(!error.contains("secret"), "{error}");
    let error = User::new().error("https://ada:secret@example.org/acme/tiny-bert");
    assert_says(&error, "https://***@example.org");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn a_redirect_to_what_is_no_address_of_the_web_is_refused_at_once() {
    let server = tiny_bert().with_fault(Fault::InfoAt("file:///etc/passwd")).start();
    let error = User::of(&server).error(ID);
    assert_says(&error, "leads on to `file://`, which is no address of the web");
    assert_eq!(server.requests().len(), 1, "{error}");
}

#[test]
fn weights_that_trickle_are_given_up() {
    let server = tiny_bert().with_fault(Fault::TrickledWeights(Duration::from_millis(50))).start();
    // The pace is measured over three times this.
    let error = User::of(&server).with("HF_HUB_DOWNLOAD_TIMEOUT", "0.2").error(ID);
    assert_says(&error, "bytes came in 0.");
    assert_says(&error, "(tried 5 times)");
}

#[test]
fn a_description_at_another_port_is_asked_for_without_the_token() {
    let server = tiny_bert().with_fault(Fault::InfoElsewhere).start();
    let error = User::of(&server).with("HF_TOKEN", "hf_secret").error(ID);
    // With a token, that server answers 400.
    assert_says(&error, "answered 404");
}

#[test]
fn a_cache_that_is_whole_is_read_and_not_written() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let report = user.report(ID);
    // No ref can be read or written any more; everything else is there.
    fs::remove_dir_all(user.cached("refs")).unwrap();
    fs::write(user.cached("refs"), "no folder").unwrap();
    assert_eq!(user.report(ID), report);
    assert_says(&user.error_free(), "note: cannot write `");
}

/// A folder with a model of `fixtures/models`, a tokenizer, and files that are not needed.
fn model_in_parts(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let (model, tokenizer) = (fixture("models").join(name), support::tiny_bert().join("tokenizer.json"));
    let files = model.read_dir().unwrap().map(|entry| entry.unwrap().path()).chain([tokenizer]);
    for file in files {
        fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    fs::write(folder.path().join("tf_model.h5"), "not needed").unwrap();
    folder
}

#[test]
fn a_model_in_shards_is_fetched_whole_and_no_more() {
    for name in ["tiny-electra", "tiny-distilbert", "tiny-albert"] {
        let folder = model_in_parts(name);
        let server = Hub::new(ID, folder.path()).start();
        let user = User::of(&server);
        let report = user.report(ID);
        let family = &serde_json::from_slice::<Value>(&report).unwrap()["model"]["family"];
        assert_eq!(family, name.trim_start_matches("tiny-"));
        assert!(server.requests().iter().all(|request| !request.contains("tf_model")));
        // Offline, from the cache.
        drop(server);
        assert_eq!(user.offline().report(ID), report);
    }
}

#[test]
fn an_index_on_the_hub_that_leaves_the_model() {
    let folder = model_in_parts("tiny-electra");
    let index = folder.path().join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("model-00002-of-00002", "../model-00002-of-00002")).unwrap();
    let server = Hub::new(ID, folder.path()).start();
    let user = User::of(&server);
    assert_says(
        &user.error(ID),
        "it lists the file \"../model-00002-of-00002.safetensors\", which does not lie beside it",
    );
    assert!(server.requests().iter().all(|request| !request.contains("00002")));
}
