//! Runs that a signal ends, as a job scheduler does at its time limit, and what they report about kept files.

use std::fs;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::answers::Answers;
use crate::support::{let_signals_end_programs, path};
use serde_json::Value;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headscope"));
    command.args(arguments);
    command
}

/// A run that continues until a signal ends it.
struct Running {
    child: Child,
    /// Held open, because closing it would end a corpus that is read from standard input.
    _stdin: Option<ChildStdin>,
}

impl Running {
    /// Starts a command and waits until `folder` has `files` files.
    fn until(mut command: Command, folder: &Path, files: usize) -> Self {
        let_signals_end_programs();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        while fs::read_dir(folder).map_or(0, Iterator::count) < files {
            assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
            thread::sleep(Duration::from_millis(1));
        }
        Self { child, _stdin: stdin }
    }

    fn send(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends the run by a signal. Returns its exit status, and its error without any notes before it.
    fn ended_by(self, signal: &str) -> (i32, String) {
        self.send(signal);
        let output = self.child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let error = stderr.lines().find(|line| line.starts_with("error: ") || line.starts_with('{'));
        (output.status.code().unwrap(), error.unwrap_or_default().to_owned())
    }
}

/// An analysis that waits for sentences on standard input.
const WAITING: [&str; 6] = ["analyze", "box:planted", "-c", "-", "--format", "text"];

#[test]
fn interrupted_shard_says_that_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("parts");
    let to = format!("{}/", path(&parts));
    let shard = || program(&[&WAITING[..], &["--shard", "3/8", "-o", &to]].concat());
    let mut answers = Answers::within(folder.path());
    answers.refused("a shard", &Running::until(shard(), &parts, 1).ended_by("-TERM"));
    assert_eq!(fs::read_dir(&parts).unwrap().count(), 0);
    let mut in_json = shard();
    in_json.args(["--error-format", "json"]);
    let (status, error) = Running::until(in_json, &parts, 1).ended_by("-INT");
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!((status, &error["status"], &error["code"]), (130, &130.into(), &"interrupted".into()));
    answers.said("a shard, in JSON", error["message"].as_str().unwrap());
    answers.held("interrupted-shard");
}

#[test]
fn interrupted_run_in_parts_counts_the_kept_parts() {
    let folder = tempfile::tempdir().unwrap();
    let [parts, report] = ["parts", "report.json"].map(|name| folder.path().join(name));
    let resume = ["analyze", "box:small", "-q", "-o", path(&report), "--resume", path(&parts), "--threads", "1"];
    // Two parts are whole, and the third is being written.
    let refusal = Running::until(program(&resume), &parts, 3).ended_by("-TERM");
    let kept = fs::read_dir(&parts).unwrap().count();
    assert!(kept >= 2);
    let mut answers = Answers::within(folder.path()).hiding(&format!("{kept} of "), "N of ");
    answers.refused("a run in parts", &refusal);
    assert!(!report.exists());
    let output = program(&resume).output().unwrap();
    assert!(output.status.success());
    answers.said("the same command", &String::from_utf8(output.stderr).unwrap());
    answers.held("interrupted-parts");
}

#[test]
fn interrupted_runs_say_that_outputs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let analysis = program(&[&WAITING[..], &["-o", path(&report)]].concat());
    let mut answers = Answers::within(folder.path());
    answers.refused("analyze", &Running::until(analysis, folder.path(), 1).ended_by("-HUP"));
    let maps = folder.path().join("maps.safetensors");
    let waiting = program(&["maps", "box:planted", "-c", "-", "--format", "text", "-o", path(&maps)]);
    answers.refused("maps", &Running::until(waiting, folder.path(), 1).ended_by("-TERM"));
    answers.held("interrupted-outputs");
    for (signal, status) in [("-USR1", 138), ("-USR2", 140), ("-ALRM", 142), ("-XCPU", 152)] {
        let waiting = program(&[&WAITING[..], &["-o", path(&report)]].concat());
        assert_eq!(Running::until(waiting, folder.path(), 1).ended_by(signal).0, status);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{signal}");
    }
}

/// A message that cannot be written does not keep a run from ending.
#[test]
fn signal_ends_a_run_that_cannot_write_messages() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    // Zeros fill the pipe, which holds 64 KiB and has no reader.
    let mut command = Command::new("sh");
    command.args(["-c", r#"head -c 65536 /dev/zero >&2; exec "$0" "$@""#, env!("CARGO_BIN_EXE_headscope")]);
    command.args(WAITING).args(["-o", path(&report)]);
    let mut running = Running::until(command, folder.path(), 1);
    running.send("-TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(143));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn interrupted_batch_says_that_reports_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let options: Vec<String> = (300..320).map(|limit| format!("first-{limit} = {{ limit = {limit} }}")).collect();
    let options = options.join("\n");
    let table = format!("[models]\nplanted = \"box:planted\"\n[corpora]\ngold = \"box:gold\"\n[options]\n{options}");
    fs::write(at("runs.toml"), table).unwrap();
    let reports = at("reports");
    let batch = program(&["batch", path(&at("runs.toml")), "-o", path(&reports)]);
    let mut answers = Answers::within(folder.path());
    answers.refused("batch", &Running::until(batch, &reports, 3).ended_by("-TERM"));
    answers.held("interrupted-batch");
    assert!(fs::metadata(reports.join("planted.gold.first-300.json")).is_ok());
}
