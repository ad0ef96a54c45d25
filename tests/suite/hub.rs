//! Models named by Hub id, against a Hub on this machine: downloads, the cache, and what is said when it fails.

#![cfg(feature = "hub")]

use crate::support;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use crate::support::answers::Answers;
use crate::support::hub_server::{Access, Fault, Hub, HubServer, MAIN_COMMIT, Ranges, V1_COMMIT, change, etag};
use crate::support::{fixture, outcome};
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
    fn notes(&self) -> String {
        let output = self.analyze(ID);
        assert!(output.status.success());
        self.shown(&String::from_utf8(output.stderr).unwrap())
    }

    /// A text without the names of this run.
    fn shown(&self, text: &str) -> String {
        let text = text.replace(self.home.path().to_str().unwrap(), "HOME");
        let endpoint = self.variables.iter().filter(|(name, _)| *name == "HF_ENDPOINT");
        endpoint.fold(text, |text, (_, url)| text.replace(url, "HUB"))
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

    /// The exit status and the error of a run that fails, without the notes before it.
    fn refusal(&self, model: &str) -> (i32, String) {
        let (status, said) = outcome(&self.analyze(model)).unwrap_err();
        let error: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("error: ")).collect();
        (status, self.shown(&error.join("\n")))
    }
}

/// The model's id and revision in a report.
fn model_of(report: &[u8]) -> (String, String) {
    let report: Value = serde_json::from_slice(report).unwrap();
    let field = |name: &str| report["model"][name].as_str().unwrap_or_default().to_owned();
    (field("id"), field("revision"))
}

/// The answers of a test, in which `SIZE` is that of the weights.
fn sized_answers() -> Answers {
    let size = weights().len();
    Answers::new().hiding(&size.to_string(), "SIZE").hiding(&(size - 1).to_string(), "SIZE - 1")
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
    let (status, said) = outcome(&output).unwrap_err();
    let mut answers = Answers::new();
    answers.refused("tiny-bert beside ./tiny-bort", &(status, user.shown(&said)));
    answers.held("hub-misspelt");
}

#[test]
fn a_proxy_that_does_not_answer_is_named_by_its_variable() {
    let closed = tiny_bert().start().url();
    let user = User::new().with("HTTPS_PROXY", &closed.replace("http://", "http://ada:secret@"));
    let error = user.with("HEADSCOPE_HUB_WAIT", "0.001").error(ID);
    assert!(!error.contains("secret"), "{error}");
    let way_out = error.lines().last().unwrap().rsplit(": ").next().unwrap();
    let mut answers = Answers::new();
    answers.said("the way out", way_out);
    answers.held("hub-proxy");
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
    let mut answers = Answers::new();
    answers.refused("an empty cache", &User::new().offline().refusal(ID));
    answers.held("hub-offline");
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
    let user = User::of(&server);
    drop(server);
    let mut answers = Answers::new();
    answers.refused("nobody listens", &user.refusal(ID));
    answers.held("hub-gone");
}

#[test]
fn a_hub_that_is_out_of_order_is_replaced_by_the_cache() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let online = user.report(ID);
    let mut answers = Answers::new();
    for fault in [Fault::Status(503), Fault::WebPage] {
        let title = format!("{fault:?}");
        let faulty = tiny_bert().with_fault(fault).start();
        let user = user.at(&faulty);
        assert_eq!(user.report(ID), online);
        // Asked once only, and said.
        assert_eq!(faulty.requests().len(), 1);
        answers.said(&format!("{title}, with a cache"), &user.notes());
        answers.refused(&format!("{title}, without"), &User::of(&faulty).refusal(ID));
    }
    answers.held("hub-out-of-order");
}

#[test]
fn a_model_or_revision_that_does_not_exist() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let mut answers = Answers::new();
    answers.refused("a revision", &user.refusal("acme/tiny-bert@v9"));
    answers.refused("a model, without a token", &user.refusal("acme/no-bert"));
    answers.refused("a model, with one", &user.with("HF_TOKEN", "hf_any").refusal("acme/no-bert"));
    answers.held("hub-absent");
}

#[test]
fn a_private_model_needs_its_token() {
    let server = tiny_bert().with_access(Access::Private("hf_secret".into())).start();
    let mut answers = Answers::new();
    answers.refused("without a token", &User::of(&server).refusal(ID));
    let withheld = User::of(&server).with("HF_TOKEN", "hf_secret").with("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
    answers.refused("with one that is withheld", &withheld.refusal(ID));
    answers.held("hub-private");
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
    let user = User::of(&server);
    let mut answers = Answers::new();
    answers.refused("without a token", &user.refusal(ID));
    let refusal = user.with("HF_TOKEN", "hf_other").refusal(ID);
    assert!(!refusal.1.contains("hf_other"), "{refusal:?}");
    answers.refused("with another one", &refusal);
    answers.held("hub-gated");
}

#[test]
fn weights_that_come_short_are_not_used() {
    let faulty = tiny_bert().with_fault(Fault::ShortWeights).start();
    let user = User::of(&faulty);
    let mut answers = sized_answers();
    answers.refused("a byte less", &user.refusal(ID));
    answers.held("hub-short");
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
    let mut answers = sized_answers();
    answers.refused("a byte more", &user.refusal(ID));
    answers.held("hub-long");
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
    let mut answers = Answers::new().hiding(&got, "GOT").hiding(&promised, "PROMISED");
    answers.refused("another bit", &user.refusal(ID));
    answers.held("hub-changed");
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
    let expected = User::of(&tiny_bert().start()).notes();
    let mut answers = Answers::new();
    for (status, header) in
        [(429, Some(("Retry-After", "0"))), (429, Some(("RateLimit", "\"api\";r=0;t=0"))), (500, None), (503, None)]
    {
        let server = tiny_bert().with_fault(Fault::Busy(4, status, header)).start();
        let user = User::of(&server);
        let notes = user.notes();
        answers.said(&format!("{status} {header:?}"), &notes);
        assert_eq!(notes.lines().count(), expected.lines().count() + 4, "{notes}");
        assert_eq!(server.count("/api/models/acme/tiny-bert/revision/main"), 5);
    }
    answers.held("hub-busy");
}

#[test]
fn a_hub_that_stays_busy_is_left_alone() {
    let busy = |header| tiny_bert().with_fault(Fault::Busy(u32::MAX, 429, header)).start();
    let server = busy(None);
    let mut answers = Answers::new();
    answers.refused("it does not say how long", &User::of(&server).refusal(ID));
    assert_eq!(server.requests().len(), 5);
    let server = busy(Some(("Retry-After", "3600")));
    answers.refused("it says how long", &User::of(&server).refusal(ID));
    answers.held("hub-stays-busy");
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
    let mut answers = Answers::new();
    answers.refused("it never answers", &User::of(&server).with("HF_HUB_ETAG_TIMEOUT", "0.1").refusal(ID));
    answers.held("hub-silent");
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
    let mut answers = sized_answers();
    answers.refused("the weights break off", &user.refusal(ID));
    assert_eq!(user.blobs(), (3, 1));
    answers.refused("offline afterwards", &user.at(&faulty).offline().refusal(ID));
    answers.held("hub-breaks-off");
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
fn a_hub_that_cannot_be_believed_is_refused() {
    let mut answers = Answers::new();
    for (title, hub) in [
        ("an ETag leads out of the cache", tiny_bert().with_fault(Fault::Etag("\"../../evil\""))),
        ("a commit leads out of the cache", tiny_bert().with_fault(Fault::Commit("../../evil"))),
        ("a description has no end", tiny_bert().with_fault(Fault::EndlessInfo)),
        ("a description is of other weights", tiny_bert().with_fault(Fault::OtherInfo)),
        ("a description is elsewhere", tiny_bert().with_fault(Fault::InfoAt("file:///etc/passwd"))),
        ("nothing can be checked", with_a_name_that_says_nothing().with_plain_info()),
    ] {
        answers.refused(title, &User::of(&hub.start()).refusal(ID));
    }
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let hub = || tiny_bert().with_fault(Fault::Promise(file, 1 << 40));
        for (title, hub) in [("large", hub()), ("large by its address", hub().with_plain_info())] {
            answers.refused(&format!("{file} is {title}"), &User::of(&hub.start()).refusal(ID));
        }
    }
    answers.held("hub-not-believed");
    let server = tiny_bert().with_fault(Fault::Sibling("../../evil")).start();
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
}

#[test]
fn a_hub_writes_nothing_on_the_terminal() {
    let error = User::of(&tiny_bert().with_fault(Fault::Commit("\u{1b}]0;evil\u{7}")).start()).error(ID);
    assert!(!error.contains('\u{1b}'), "{error}");
    assert!(error.contains("calls `\\u{1b}]0;evil\\u{7}` a commit"), "{error}");
}

#[test]
fn the_closest_model_of_the_cache_is_suggested() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    user.report(ID);
    let mut answers = Answers::new();
    answers.refused("acme/tiny-bret", &user.refusal("acme/tiny-bret"));
    answers.refused("tiny-bert, offline", &user.offline().refusal("tiny-bert"));
    answers.held("hub-closest");
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
    let mut answers = Answers::new();
    answers.refused("weights of TensorFlow", &user.refusal(ID));
    // It is plain from the list of files, so nothing but config.json was fetched.
    assert_eq!(server.requests().len(), 3);

    // What config.json says comes first.
    fs::write(&config, r#"{"model_type": "gptj"}"#).unwrap();
    let server = Hub::new(ID, folder.path()).start();
    answers.refused("of a model that is not read", &User::of(&server).refusal(ID));
    answers.held("hub-without-safetensors");
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

/// A Hub whose `ETag` of every file is no digest that is known.
fn with_a_name_that_says_nothing() -> Hub {
    tiny_bert().with_fault(Fault::Etag("\"5d41402abc4b2a76b9719d911017c592\""))
}

#[test]
fn a_file_is_checked_by_its_description_whatever_its_address_is_called() {
    let server = with_a_name_that_says_nothing().start();
    assert_eq!(model_of(&User::of(&server).report(ID)).1, MAIN_COMMIT);
}

#[test]
#[cfg(unix)]
fn what_is_damaged_in_the_cache_is_fetched_again() {
    let server = tiny_bert().start();
    let user = User::of(&server);
    let report = user.report(ID);
    let mut answers = Answers::new();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let file = user.cached("snapshots").join(MAIN_COMMIT).join(name);
        let whole = fs::read(&file).unwrap();
        let mut changed = whole.clone();
        change(&mut changed);
        for (title, damaged) in [("cut short", &whole[..whole.len() / 3]), ("changed", &changed[..])] {
            fs::write(&file, damaged).unwrap();
            answers.refused(&format!("{name} is {title}"), &user.at(&server).offline().refusal(ID));
            assert_eq!(user.report(ID), report, "{name}");
            assert!(fs::read(&file).unwrap() == whole, "{name}");
        }
    }
    answers.held("hub-damaged");
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
    assert!(error.contains("http://***@127.0.0.1:1"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    let error = User::new().error("https://ada:secret@example.org/acme/tiny-bert");
    assert!(error.contains("https://***@example.org"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn a_redirect_to_what_is_no_address_of_the_web_is_refused_at_once() {
    let server = tiny_bert().with_fault(Fault::InfoAt("file:///etc/passwd")).start();
    User::of(&server).error(ID);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn weights_that_trickle_are_given_up() {
    let server = tiny_bert().with_fault(Fault::TrickledWeights(Duration::from_millis(50))).start();
    // The pace is measured over three times this.
    let (status, error) = User::of(&server).with("HF_HUB_DOWNLOAD_TIMEOUT", "0.2").refusal(ID);
    let bytes = error.split(' ').find(|word| word.parse::<u32>().is_ok()).unwrap();
    let mut answers = Answers::new().hiding(&format!("{bytes} bytes"), "some bytes");
    answers.refused("a byte in 50 ms", &(status, error));
    answers.held("hub-trickle");
}

#[test]
fn a_description_at_another_port_is_asked_for_without_the_token() {
    let server = tiny_bert().with_fault(Fault::InfoElsewhere).start();
    let mut answers = Answers::new();
    // With a token, that server answers 400.
    answers.refused("with a token", &User::of(&server).with("HF_TOKEN", "hf_secret").refusal(ID));
    answers.held("hub-another-port");
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
    // The system says why.
    let mut answers = Answers::new();
    answers.said("a ref cannot be written", user.notes().rsplit_once(": ").unwrap().0);
    answers.held("hub-read-only");
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
    let mut answers = Answers::new();
    answers.refused("a file that does not lie beside it", &user.refusal(ID));
    answers.held("hub-index");
    assert!(server.requests().iter().all(|request| !request.contains("00002")));
}
