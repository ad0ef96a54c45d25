//! Models named by Hub id, against a local Hub: downloads, the cache and error messages.

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

/// A new user, with an empty `HF_HOME` and no other setting.
struct User {
    home: Rc<TempDir>,
    variables: Vec<(&'static str, String)>,
}

impl User {
    fn new() -> Self {
        Self { home: Rc::new(TempDir::new().unwrap()), variables: Vec::new() }
    }

    fn for_server(server: &HubServer) -> Self {
        // Pauses between retries last only milliseconds here.
        Self::new().with("HF_ENDPOINT", &server.url()).with("HEADSCOPE_HUB_WAIT", "0.001")
    }

    /// This user with another Hub.
    fn at(&self, server: &HubServer) -> Self {
        Self { home: Rc::clone(&self.home), ..Self::for_server(server) }
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

    /// A path in the cache of the model.
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
        // No variable of whoever runs the tests may have an effect, least of all a token.
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

    /// The bytes of the report of a run that succeeds.
    fn report(&self, model: &str) -> Vec<u8> {
        let output = self.analyze(model);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(self.report_file()).unwrap()
    }

    /// The standard error of a run that succeeds.
    fn notes(&self) -> String {
        let output = self.analyze(ID);
        assert!(output.status.success());
        self.shown(&String::from_utf8(output.stderr).unwrap())
    }

    /// A text without the names that differ between runs.
    fn shown(&self, text: &str) -> String {
        let text = text.replace(self.home.path().to_str().unwrap(), "HOME");
        let endpoint = self.variables.iter().filter(|(name, _)| *name == "HF_ENDPOINT");
        endpoint.fold(text, |text, (_, url)| text.replace(url, "HUB"))
    }

    /// The number of complete blobs, and of incomplete ones.
    fn blobs(&self) -> (usize, usize) {
        let entries = fs::read_dir(self.cached("blobs")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let (partial, whole): (Vec<_>, Vec<_>) = names.partition(|name| name.ends_with(".incomplete"));
        (whole.len(), partial.len())
    }

    /// The standard error of a run that fails.
    fn error(&self, model: &str) -> String {
        let output = self.analyze(model);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{error}");
        assert!(!error.contains("panicked"), "{error}");
        error
    }

    /// The exit status and the error of a run that fails, without notes before it.
    fn refusal(&self, model: &str) -> (i32, String) {
        let (status, stderr) = outcome(&self.analyze(model)).unwrap_err();
        let error: Vec<&str> = stderr.lines().skip_while(|line| !line.starts_with("error: ")).collect();
        (status, self.shown(&error.join("\n")))
    }
}

/// The id and the revision of the model in a report.
fn model_and_revision(report: &[u8]) -> (String, String) {
    let report: Value = serde_json::from_slice(report).unwrap();
    let field = |name: &str| report["model"][name].as_str().unwrap_or_default().to_owned();
    (field("id"), field("revision"))
}

/// Answers with `SIZE` for the size of the weights.
fn sized_answers() -> Answers {
    let size = weights().len();
    Answers::new().hiding(&size.to_string(), "SIZE").hiding(&(size - 1).to_string(), "SIZE - 1")
}

#[test]
fn a_model_is_downloaded_once_and_then_runs_offline() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
    let online = user.report(ID);
    assert_eq!(model_and_revision(&online), (ID.to_owned(), MAIN_COMMIT.to_owned()));
    let first = server.requests();
    // One request for the revision, one for each of four files, and one more for each redirect.
    assert_eq!(first.len(), 9, "{first:#?}");

    assert_eq!(user.report(ID), online);
    assert_eq!(server.requests()[first.len()..], ["GET /api/models/acme/tiny-bert/revision/main"]);

    drop(server);
    assert_eq!(user.offline().report(ID), online);
}

#[test]
fn the_cache_has_the_layout_of_the_python_library() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
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
    // The cache holds nothing else.
    assert_eq!(fs::read_dir(user.cached("blobs")).unwrap().count(), 4);
    assert_eq!(fs::read_dir(user.cached("refs")).unwrap().count(), 1);
}

#[test]
fn a_model_may_be_named_by_its_address() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
    let report = user.report("https://huggingface.co/acme/tiny-bert/tree/v1");
    assert_eq!(model_and_revision(&report), (ID.to_owned(), V1_COMMIT.to_owned()));
}

#[test]
fn a_misspelt_folder_is_reported_after_one_request() {
    let nearby = TempDir::new().unwrap();
    fs::create_dir(nearby.path().join("tiny-bort")).unwrap();
    fs::write(nearby.path().join("tiny-bort/config.json"), "{}").unwrap();
    // Nobody listens at this port. The pauses between all retries would last days.
    let closed = tiny_bert().start().url();
    let user = User::new().with("HF_ENDPOINT", &closed).with("HEADSCOPE_HUB_WAIT", "86400");
    let output = user.command("tiny-bert").current_dir(nearby.path()).output().unwrap();
    let (status, message) = outcome(&output).unwrap_err();
    let mut answers = Answers::new();
    answers.refused("tiny-bert beside ./tiny-bort", &(status, user.shown(&message)));
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
    let user = User::for_server(&server);
    for revision in ["v1", "refs/pr/5"] {
        let report = user.report(&format!("{ID}@{revision}"));
        assert_eq!(model_and_revision(&report), (ID.to_owned(), V1_COMMIT.to_owned()));
        assert_eq!(fs::read_to_string(user.cached("refs").join(revision)).unwrap(), V1_COMMIT);
    }
    assert_eq!(server.count("/model.safetensors"), 1);
    // Another commit has the same weights. Their digest is requested, and their bytes are stored once.
    let commit = user.report(&format!("{ID}@{MAIN_COMMIT}"));
    assert_eq!(model_and_revision(&commit).1, MAIN_COMMIT);
    assert_eq!(fs::read_dir(user.cached("blobs")).unwrap().count(), 4);
    // A commit is found again without a ref.
    assert!(!user.cached("refs").join(MAIN_COMMIT).exists());
    drop(server);
    assert_eq!(user.offline().report(&format!("{ID}@{MAIN_COMMIT}")), commit);
}

#[test]
fn offline_runs_need_the_cache() {
    let mut answers = Answers::new();
    answers.refused("an empty cache", &User::new().offline().refusal(ID));
    answers.held("hub-offline");
}

#[test]
fn the_cache_replaces_an_unreachable_hub() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
    let online = user.report(ID);
    drop(server);
    assert_eq!(user.report(ID), online);
}

#[test]
fn an_unreachable_hub_without_a_cache_is_an_error() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
    drop(server);
    let mut answers = Answers::new();
    answers.refused("nobody listens", &user.refusal(ID));
    answers.held("hub-gone");
}

#[test]
fn the_cache_replaces_a_faulty_hub() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
    let online = user.report(ID);
    let mut answers = Answers::new();
    for fault in [Fault::Status(503), Fault::WebPage] {
        let title = format!("{fault:?}");
        let faulty = tiny_bert().with_fault(fault).start();
        let user = user.at(&faulty);
        assert_eq!(user.report(ID), online);
        // The Hub is asked only once, and a note says that the cache is used.
        assert_eq!(faulty.requests().len(), 1);
        answers.said(&format!("{title}, with a cache"), &user.notes());
        answers.refused(&format!("{title}, without"), &User::for_server(&faulty).refusal(ID));
    }
    answers.held("hub-out-of-order");
}

#[test]
fn missing_models_and_revisions_are_reported() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
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
    answers.refused("without a token", &User::for_server(&server).refusal(ID));
    let withheld = User::for_server(&server).with("HF_TOKEN", "hf_secret").with("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
    answers.refused("with one that is withheld", &withheld.refusal(ID));
    answers.held("hub-private");
    let user = User::for_server(&server).with("HF_TOKEN", "hf_secret");
    assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
    // The token may come from the file that a login writes.
    let user = User::for_server(&server);
    fs::write(user.token_file(), "hf_secret\n").unwrap();
    assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
}

#[test]
fn the_error_of_a_gated_model_says_what_to_accept() {
    let server = tiny_bert().with_access(Access::Gated("hf_secret".into())).start();
    let user = User::for_server(&server);
    let mut answers = Answers::new();
    answers.refused("without a token", &user.refusal(ID));
    let refusal = user.with("HF_TOKEN", "hf_other").refusal(ID);
    assert!(!refusal.1.contains("hf_other"), "{refusal:?}");
    answers.refused("with another one", &refusal);
    answers.held("hub-gated");
}

#[test]
fn truncated_weights_are_not_used() {
    let faulty = tiny_bert().with_fault(Fault::ShortWeights).start();
    let user = User::for_server(&faulty);
    let mut answers = sized_answers();
    answers.refused("a byte less", &user.refusal(ID));
    answers.held("hub-short");
    // The three small files are complete, the weights are not, and no ref leads to the incomplete model.
    assert_eq!(user.blobs(), (3, 1));
    assert!(!user.cached("refs").exists());

    let server = tiny_bert().start();
    let user = user.at(&server);
    assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.count("/acme/tiny-bert/resolve/1111111111111111111111111111111111111111/config.json"), 0);
    assert_eq!(user.blobs(), (4, 0));
}

#[test]
fn overlong_weights_are_discarded() {
    let faulty = tiny_bert().with_fault(Fault::LongWeights).start();
    let user = User::for_server(&faulty);
    let mut answers = sized_answers();
    answers.refused("a byte more", &user.refusal(ID));
    answers.held("hub-long");
    assert_eq!(user.blobs(), (3, 0));
}

#[test]
fn altered_weights_are_discarded() {
    let faulty = tiny_bert().with_fault(Fault::ChangedWeights).start();
    let user = User::for_server(&faulty);
    let mut weights = weights();
    let promised = etag("model.safetensors", &weights);
    change(&mut weights);
    let received = etag("model.safetensors", &weights);
    let mut answers = Answers::new().hiding(&received, "GOT").hiding(&promised, "PROMISED");
    answers.refused("another bit", &user.refusal(ID));
    answers.held("hub-changed");
    assert_eq!(user.blobs(), (3, 0));
    // A file that arrives in one piece is not requested again.
    assert_eq!(faulty.count("/model.safetensors"), 1);
    assert!(!user.cached("refs").exists());
}

#[test]
#[cfg(unix)]
fn an_interrupted_download_resumes() {
    support::let_signals_end_programs();
    let slow = tiny_bert().with_fault(Fault::SlowWeights).start();
    let user = User::for_server(&slow);
    let partial = user.cached("blobs").join(format!("{}.incomplete", etag("model.safetensors", &weights())));
    let downloaded = || fs::metadata(&partial).map_or(0, |partial| partial.len());
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let before = downloaded();
        let mut run = user.command(ID).stderr(Stdio::null()).spawn().unwrap();
        while downloaded() <= before {
            assert_eq!(run.try_wait().unwrap(), None, "nothing came of the weights");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args([signal, &run.id().to_string()]).status().unwrap().success());
        assert_eq!(run.wait().unwrap().code(), Some(status));
        assert_eq!(user.blobs(), (3, 1));
        assert!(!user.cached("refs").exists());
    }
    let server = tiny_bert().start();
    let downloaded = downloaded();
    let user = user.at(&server);
    assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [Some(downloaded)]);
    assert_eq!(user.blobs(), (4, 0));
}

#[test]
fn a_busy_hub_is_asked_again() {
    let expected = User::for_server(&tiny_bert().start()).notes();
    let mut answers = Answers::new();
    for (status, header) in
        [(429, Some(("Retry-After", "0"))), (429, Some(("RateLimit", "\"api\";r=0;t=0"))), (500, None), (503, None)]
    {
        let server = tiny_bert().with_fault(Fault::Busy(4, status, header)).start();
        let user = User::for_server(&server);
        let notes = user.notes();
        answers.said(&format!("{status} {header:?}"), &notes);
        assert_eq!(notes.lines().count(), expected.lines().count() + 4, "{notes}");
        assert_eq!(server.count("/api/models/acme/tiny-bert/revision/main"), 5);
    }
    answers.held("hub-busy");
}

#[test]
fn a_hub_that_stays_busy_is_given_up() {
    let busy = |header| tiny_bert().with_fault(Fault::Busy(u32::MAX, 429, header)).start();
    let server = busy(None);
    let mut answers = Answers::new();
    answers.refused("it does not say how long", &User::for_server(&server).refusal(ID));
    assert_eq!(server.requests().len(), 5);
    let server = busy(Some(("Retry-After", "3600")));
    answers.refused("it says how long", &User::for_server(&server).refusal(ID));
    answers.held("hub-stays-busy");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_silent_hub_is_asked_again() {
    for fault in [Fault::Silent(1), Fault::Garbage(1)] {
        let server = tiny_bert().with_fault(fault).start();
        let user = User::for_server(&server).with("HF_HUB_ETAG_TIMEOUT", "1");
        assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
    }
    let server = tiny_bert().with_fault(Fault::Silent(u32::MAX)).start();
    let mut answers = Answers::new();
    answers.refused("it never answers", &User::for_server(&server).with("HF_HUB_ETAG_TIMEOUT", "0.1").refusal(ID));
    answers.held("hub-silent");
}

#[test]
fn a_broken_download_resumes_where_it_broke_off() {
    let cut = |after, times, ranges| tiny_bert().with_fault(Fault::CutWeights { after, times, ranges }).start();
    let size = weights().len();
    let server = cut(5000, 2, Ranges::Known);
    assert_eq!(model_and_revision(&User::for_server(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(5000), Some(10000)]);
    // A download resumes as often as needed, as long as it makes progress.
    let server = cut(size.div_ceil(12), u32::MAX, Ranges::Known);
    assert_eq!(model_and_revision(&User::for_server(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors").len(), 12);
    // A download restarts if the server ignores ranges or mistakes them.
    let server = cut(5000, 2, Ranges::Unknown);
    assert_eq!(model_and_revision(&User::for_server(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(5000), Some(5000)]);
    let server = cut(5000, 1, Ranges::Confused);
    assert_eq!(model_and_revision(&User::for_server(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(5000), None]);
}

#[test]
fn a_stalled_download_resumes_where_it_stalled() {
    let server = tiny_bert().with_fault(Fault::StalledWeights(5000)).start();
    let user = User::for_server(&server).with("HF_HUB_DOWNLOAD_TIMEOUT", "1");
    assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(5000)]);
}

#[test]
fn a_download_that_always_breaks_off_resumes_in_a_later_run() {
    let fault = Fault::CutWeights { after: 5000, times: u32::MAX, ranges: Ranges::Unknown };
    let faulty = tiny_bert().with_fault(fault).start();
    let user = User::for_server(&faulty);
    let mut answers = sized_answers();
    answers.refused("the weights break off", &user.refusal(ID));
    assert_eq!(user.blobs(), (3, 1));
    answers.refused("offline afterwards", &user.at(&faulty).offline().refusal(ID));
    answers.held("hub-breaks-off");
    let server = tiny_bert().start();
    assert_eq!(model_and_revision(&user.at(&server).report(ID)).1, MAIN_COMMIT);
    assert_eq!(server.ranges("/model.safetensors"), [Some(5000)]);
}

#[test]
fn wrong_partial_files_are_discarded() {
    let (weights, server) = (weights(), tiny_bert().start());
    let name = etag("model.safetensors", &weights);
    // Three beginnings: damaged, damaged at full length, and too long.
    for beginning in [vec![7; 5000], vec![7; weights.len()], vec![7; weights.len() + 5000]] {
        let user = User::for_server(&server);
        fs::create_dir_all(user.cached("blobs")).unwrap();
        fs::write(user.cached("blobs").join(format!("{name}.incomplete")), beginning).unwrap();
        assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
        assert!(fs::read(user.cached("blobs").join(&name)).unwrap() == weights);
        assert_eq!(user.blobs(), (4, 0));
    }
}

#[test]
fn processes_that_fetch_the_same_model_share_one_download() {
    let server = tiny_bert().with_fault(Fault::CutWeights { after: 20_000, times: 2, ranges: Ranges::Known }).start();
    let user = User::for_server(&server);
    let mut runs: Vec<_> =
        (0..4).map(|_| user.command(ID).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()).collect();
    for run in &mut runs {
        assert!(run.wait().unwrap().success());
    }
    assert_eq!(server.ranges("/model.safetensors"), [None, Some(20_000), Some(40_000)]);
    assert_eq!(user.blobs(), (4, 0));
    drop(server);
    assert_eq!(model_and_revision(&user.offline().report(ID)).1, MAIN_COMMIT);
}

#[test]
fn implausible_answers_of_a_hub_are_refused() {
    let mut answers = Answers::new();
    for (title, hub) in [
        ("an ETag leads out of the cache", tiny_bert().with_fault(Fault::Etag("\"../../evil\""))),
        ("a commit leads out of the cache", tiny_bert().with_fault(Fault::Commit("../../evil"))),
        ("a description has no end", tiny_bert().with_fault(Fault::EndlessInfo)),
        ("a description is of other weights", tiny_bert().with_fault(Fault::OtherInfo)),
        ("a description is elsewhere", tiny_bert().with_fault(Fault::InfoAt("file:///etc/passwd"))),
        ("nothing can be checked", with_unknown_etags().with_plain_info()),
    ] {
        answers.refused(title, &User::for_server(&hub.start()).refusal(ID));
    }
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let hub = || tiny_bert().with_fault(Fault::Promise(file, 1 << 40));
        for (title, hub) in [("large", hub()), ("large by its address", hub().with_plain_info())] {
            answers.refused(&format!("{file} is {title}"), &User::for_server(&hub.start()).refusal(ID));
        }
    }
    answers.held("hub-not-believed");
    let server = tiny_bert().with_fault(Fault::Sibling("../../evil")).start();
    assert_eq!(model_and_revision(&User::for_server(&server).report(ID)).1, MAIN_COMMIT);
}

#[test]
fn a_hub_cannot_send_escape_sequences_to_the_terminal() {
    let error = User::for_server(&tiny_bert().with_fault(Fault::Commit("\u{1b}]0;evil\u{7}")).start()).error(ID);
    assert!(!error.contains('\u{1b}'), "{error}");
    assert!(error.contains("calls `\\u{1b}]0;evil\\u{7}` a commit"), "{error}");
}

#[test]
fn the_closest_model_of_the_cache_is_suggested() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
    user.report(ID);
    let mut answers = Answers::new();
    answers.refused("acme/tiny-bret", &user.refusal("acme/tiny-bret"));
    answers.refused("tiny-bert, offline", &user.offline().refusal("tiny-bert"));
    answers.held("hub-closest");
}

#[test]
fn deleted_blobs_are_downloaded_again() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
    let before = user.report(ID);
    // The links stay, but are broken. One of them leads to a blob that never existed.
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
    let user = User::for_server(&server);
    let mut answers = Answers::new();
    answers.refused("weights of TensorFlow", &user.refusal(ID));
    // The list of files shows it, so only config.json is downloaded.
    assert_eq!(server.requests().len(), 3);

    // An error in config.json comes first.
    fs::write(&config, r#"{"model_type": "gptj"}"#).unwrap();
    let server = Hub::new(ID, folder.path()).start();
    answers.refused("of a model that is not read", &User::for_server(&server).refusal(ID));
    answers.held("hub-without-safetensors");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn truncated_files_of_unknown_length_are_not_used() {
    let server = tiny_bert().with_fault(Fault::UnsizedTokenizer(500)).start();
    let user = User::for_server(&server);
    assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
    assert_eq!(user.blobs(), (4, 0));
    let whole = fs::read(fixture("models/tiny-bert/tokenizer.json")).unwrap();
    assert!(fs::read(user.cached("snapshots").join(MAIN_COMMIT).join("tokenizer.json")).unwrap() == whole);
}

#[test]
fn a_mirror_without_descriptions_serves_if_its_addresses_give_digests() {
    let server = tiny_bert().with_plain_info().start();
    assert_eq!(model_and_revision(&User::for_server(&server).report(ID)).1, MAIN_COMMIT);
}

#[test]
fn a_mirror_that_only_redirects_serves() {
    let whole = fs::read(fixture("models/tiny-bert/tokenizer.json")).unwrap();
    // Another host serves the files and refuses requests with the token. It names the files if the description does
    // not.
    for mirror in [tiny_bert(), tiny_bert().with_plain_info()] {
        let server = mirror.with_fault(Fault::MovedFiles).start();
        let user = User::for_server(&server).with("HF_TOKEN", "hf_secret");
        assert_eq!(model_and_revision(&user.report(ID)).1, MAIN_COMMIT);
        let snapshot = user.cached("snapshots").join(MAIN_COMMIT);
        assert!(fs::read(snapshot.join("tokenizer.json")).unwrap() == whole);
    }
}

/// A Hub whose `ETag`s are no known digest.
fn with_unknown_etags() -> Hub {
    tiny_bert().with_fault(Fault::Etag("\"5d41402abc4b2a76b9719d911017c592\""))
}

#[test]
fn files_with_unknown_etags_are_checked_by_their_description() {
    let server = with_unknown_etags().start();
    assert_eq!(model_and_revision(&User::for_server(&server).report(ID)).1, MAIN_COMMIT);
}

#[test]
#[cfg(unix)]
fn damaged_files_in_the_cache_are_downloaded_again() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
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

/// A file in place of a link, and a link to the blob of another file, are not taken for files of the model.
#[test]
#[cfg(unix)]
fn files_that_do_not_link_to_their_blob_are_checked_too() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
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
fn downloads_do_not_write_through_links() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
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
fn a_pipe_in_place_of_a_ref_does_not_block() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
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
fn a_redirect_to_another_scheme_is_refused_at_once() {
    let server = tiny_bert().with_fault(Fault::InfoAt("file:///etc/passwd")).start();
    User::for_server(&server).error(ID);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn slow_downloads_are_given_up() {
    let server = tiny_bert().with_fault(Fault::TrickledWeights(Duration::from_millis(50))).start();
    // The speed is measured over three times this timeout.
    let (status, error) = User::for_server(&server).with("HF_HUB_DOWNLOAD_TIMEOUT", "0.2").refusal(ID);
    let bytes = error.split(' ').find(|word| word.parse::<u32>().is_ok()).unwrap();
    let mut answers = Answers::new().hiding(&format!("{bytes} bytes"), "some bytes");
    answers.refused("a byte in 50 ms", &(status, error));
    answers.held("hub-trickle");
}

#[test]
fn a_description_at_another_port_is_asked_for_without_the_token() {
    let server = tiny_bert().with_fault(Fault::InfoElsewhere).start();
    let mut answers = Answers::new();
    // That server answers 400 to a request with a token.
    answers.refused("with a token", &User::for_server(&server).with("HF_TOKEN", "hf_secret").refusal(ID));
    answers.held("hub-another-port");
}

#[test]
fn a_complete_cache_is_read_without_writing() {
    let server = tiny_bert().start();
    let user = User::for_server(&server);
    let report = user.report(ID);
    // Refs can be neither read nor written. Everything else is in the cache.
    fs::remove_dir_all(user.cached("refs")).unwrap();
    fs::write(user.cached("refs"), "no folder").unwrap();
    assert_eq!(user.report(ID), report);
    // The cause after the last colon depends on the operating system.
    let mut answers = Answers::new();
    answers.said("a ref cannot be written", user.notes().rsplit_once(": ").unwrap().0);
    answers.held("hub-read-only");
}

/// A folder with a model of `fixtures/models`, a tokenizer, and a file that is not needed.
fn sharded_model(name: &str) -> TempDir {
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
fn only_needed_files_of_a_sharded_model_are_downloaded() {
    for name in ["tiny-electra", "tiny-distilbert", "tiny-albert"] {
        let folder = sharded_model(name);
        let server = Hub::new(ID, folder.path()).start();
        let user = User::for_server(&server);
        let report = user.report(ID);
        let family = &serde_json::from_slice::<Value>(&report).unwrap()["model"]["family"];
        assert_eq!(family, name.trim_start_matches("tiny-"));
        assert!(server.requests().iter().all(|request| !request.contains("tf_model")));
        // Offline, the model comes from the cache.
        drop(server);
        assert_eq!(user.offline().report(ID), report);
    }
}

#[test]
fn an_index_that_leads_out_of_the_model_is_refused() {
    let folder = sharded_model("tiny-electra");
    let index = folder.path().join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("model-00002-of-00002", "../model-00002-of-00002")).unwrap();
    let server = Hub::new(ID, folder.path()).start();
    let user = User::for_server(&server);
    let mut answers = Answers::new();
    answers.refused("a file that does not lie beside it", &user.refusal(ID));
    answers.held("hub-index");
    assert!(server.requests().iter().all(|request| !request.contains("00002")));
}
