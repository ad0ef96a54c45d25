//! Output files: no output overwrites an input, and no temporary file is left behind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::{fixture, headscope, outcome, path, run, tiny_bert};
use tempfile::TempDir;

/// A folder with a copy of the tiny model, a corpus, a policy, a report and a partial.
struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> Self {
        let context = Self(tempfile::tempdir().unwrap());
        fs::create_dir(context.path("m")).unwrap();
        for entry in fs::read_dir(tiny_bert()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), context.path("m").join(entry.file_name())).unwrap();
        }
        fs::copy(fixture("corpus/gold.conllu"), context.path("c.conllu")).unwrap();
        fs::write(context.path("p.json"), "self_mass = 0.5\n").unwrap();
        let common = ["--limit", "20", "-q", "--no-run-info"];
        context.run(&[&["analyze", "m", "-c", "c.conllu", "-o", "r.json"][..], &common].concat()).unwrap();
        let shard = ["analyze", "m", "-c", "c.conllu", "--shard", "1/1", "-o", "a.headscope"];
        context.run(&[&shard[..], &common].concat()).unwrap();
        context
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the binary in the folder.
    fn run(&self, arguments: &[&str]) -> Result<String, (i32, String)> {
        outcome(&headscope(arguments).current_dir(self.0.path()).output().unwrap())
    }

    /// All files with their bytes, including the files of the model.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let list = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        let mut files = [list(self.0.path()), list(&self.path("m"))].concat();
        files.sort();
        files.into_iter().filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

#[test]
fn no_output_overwrites_an_input() {
    let context = TestFolder::new();
    for (name, file) in [("partial.json", "a.headscope"), ("report.csv", "r.json"), ("corpus.json", "c.conllu")] {
        fs::hard_link(context.path(file), context.path(name)).unwrap();
    }
    let before = context.files();
    let corpus = ["-c", "c.conllu", "--limit", "20"];
    let cases: &[&[&str]] = &[
        &["maps", "m", "--text", "the dog", "-o", "m/model.safetensors"],
        &["analyze", "m", "-o", "m/config.json"],
        &["analyze", "m", "-o", "m/tokenizer.json"],
        &["analyze", "m", "--policy", "p.json", "-o", "p.json"],
        &["analyze", "m", "-o", "corpus.json"],
        &["merge", "a.headscope", "-o", "partial.json"],
        &["merge", "partial.json", "-o", "partial.json"],
        &["merge", "a.headscope", "--policy", "p.json", "-o", "p.json"],
        &["relabel", "r.json", "--preset", "voita2019", "-o", "r.json"],
        &["relabel", "r.json", "--preset", "voita2019", "-o", "report.csv"],
        &["relabel", "r.json", "--policy", "p.json", "-o", "p.json"],
    ];
    let mut answers = Answers::within(context.0.path());
    for arguments in cases {
        let more = if arguments[0] == "analyze" { &corpus[..] } else { &[] };
        let refusal = context.run(&[arguments, more].concat()).expect_err("it overwrote an input");
        answers.refused(&arguments.join(" "), &refusal);
        assert!(context.files() == before, "{arguments:?}");
    }
    // Standard output may be an input, too: `>> c.conllu`.
    for report in [&["-o", "-"][..], &[]] {
        let stdout = fs::OpenOptions::new().append(true).open(context.path("c.conllu")).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_headscope"))
            .args(["analyze", "m", "-c", "c.conllu"])
            .args(report)
            .current_dir(context.0.path())
            .stdout(stdout)
            .output()
            .unwrap();
        answers.refused(&format!("analyze m {} >> c.conllu", report.join(" ")), &outcome(&output).unwrap_err());
        assert!(context.files() == before);
    }
    // Standard input may be an input, too.
    let stdin = fs::File::open(context.path("corpus.json")).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_headscope"))
        .args(["analyze", "m", "-c", "-", "--format", "conllu", "-o", "corpus.json"])
        .current_dir(context.0.path())
        .stdin(stdin)
        .output()
        .unwrap();
    answers.refused("analyze m -c - -o corpus.json < corpus.json", &outcome(&output).unwrap_err());
    answers.held("outputs-inputs");
    assert!(context.files() == before);
}

/// A child that waits for a corpus that never comes. Its output lies in its own folder.
#[cfg(unix)]
mod waiting {
    use std::process::{Child, ChildStdin, Command, Stdio};

    use super::*;
    use crate::support::let_signals_end_programs;

    struct Waiting {
        folder: TempDir,
        child: Child,
        /// Held open, because closing it would end the corpus and with it the run.
        _stdin: Option<ChildStdin>,
    }

    impl Waiting {
        /// Starts `script` with the program as `$0` and the program's arguments. Waits until the run has created its
        /// temporary output.
        fn start(script: &str, command: &str, model: &str) -> Self {
            let_signals_end_programs();
            let folder = tempfile::tempdir().unwrap();
            let name = if command == "maps" { "maps.safetensors" } else { "report.json" };
            let output = folder.path().join(name);
            let mut child = Command::new("sh")
                .args(["-c", script, env!("CARGO_BIN_EXE_headscope"), command, model])
                .args(["-c", "-", "--format", "text", "-o", path(&output)])
                .env("TMPDIR", folder.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let stdin = child.stdin.take();
            while fs::read_dir(folder.path()).unwrap().count() < 1 {
                assert_eq!(child.try_wait().unwrap(), None, "it ended before it made its files");
                std::thread::yield_now();
            }
            Self { folder, child, _stdin: stdin }
        }

        fn send(&self, signal: &str) {
            let killed = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
            assert!(killed.success());
        }

        fn left(&self) -> usize {
            fs::read_dir(self.folder.path()).unwrap().count()
        }
    }

    #[test]
    fn interrupted_run_leaves_no_file() {
        let model = tiny_bert();
        let run = r#"exec "$0" "$@""#;
        for (command, model) in [("analyze", path(&model)), ("maps", path(&model)), ("analyze", "box:planted")] {
            for (signal, status) in [("-INT", 130), ("-HUP", 129), ("-QUIT", 131), ("-TERM", 143)] {
                let mut waiting = Waiting::start(run, command, model);
                waiting.send(signal);
                assert_eq!(waiting.child.wait().unwrap().code(), Some(status), "{command} {signal}");
                assert_eq!(waiting.left(), 0, "{command} {signal}");
            }
        }
    }

    /// A script starts `headscope ... &` and `nohup headscope ...` with ignored signals. Ignored signals stay ignored,
    /// and the other signals still clean up.
    #[test]
    fn ignored_signals_stay_ignored() {
        for (ignored, sent, status) in [("INT", "-TERM", 143), ("HUP", "-INT", 130), ("HUP INT QUIT", "-TERM", 143)] {
            let mut waiting =
                Waiting::start(&format!(r#"trap '' {ignored}; exec "$0" "$@""#), "analyze", "box:planted");
            ignored.split(' ').for_each(|signal| waiting.send(&format!("-{signal}")));
            waiting.send(sent);
            assert_eq!(waiting.child.wait().unwrap().code(), Some(status), "{ignored} {sent}");
            assert_eq!(waiting.left(), 0);
        }
    }

    #[test]
    fn next_run_removes_files_of_a_killed_run() {
        let mut killed = Waiting::start(r#"exec "$0" "$@""#, "analyze", "box:planted");
        killed.send("-KILL");
        killed.child.wait().unwrap();
        assert_eq!(killed.left(), 1);
        let report = killed.folder.path().join("next.json");
        run(&["analyze", "box:planted", "--limit", "2", "-q", "-o", path(&report)]).unwrap();
        assert_eq!(killed.left(), 1, "the report alone");
        assert!(report.exists());
    }
}

#[test]
#[cfg(unix)]
fn file_size_limit_is_an_error_and_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    fs::write(&report, "old").unwrap();
    // `ulimit -f` counts blocks of 512 bytes.
    let output = std::process::Command::new("sh")
        .args(["-c", r#"ulimit -f 8; exec "$0" "$@""#, env!("CARGO_BIN_EXE_headscope")])
        .args(["analyze", "box:planted", "--limit", "20", "-q", "-o", path(&report)])
        .output()
        .unwrap();
    let mut answers = Answers::within(folder.path());
    answers.refused("ulimit -f 8", &outcome(&output).unwrap_err());
    answers.held("outputs-limit");
    assert_eq!(fs::read_to_string(&report).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A message that cannot be written stops no run.
#[test]
#[cfg(target_os = "linux")]
fn closed_or_full_standard_error_stops_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("c.txt");
    // The second sentence is too long, so standard error gets a note.
    fs::write(&corpus, format!("the dog\n{}\n", "the ".repeat(200))).unwrap();
    let (model, maps) = (tiny_bert(), folder.path().join("maps.safetensors"));
    for redirection in ["2>&-", "2>/dev/full"] {
        let run = |arguments: &[&str]| {
            let script = format!(r#"exec "$0" "$@" {redirection}"#);
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &script, env!("CARGO_BIN_EXE_headscope")]).args(arguments);
            command.status().unwrap().code()
        };
        assert_eq!(run(&["maps", path(&model), "-c", path(&corpus), "-o", path(&maps)]), Some(0), "{redirection}");
        assert!(fs::remove_file(&maps).is_ok());
        assert_eq!(run(&["analyze", "./absent", "-c", path(&corpus)]), Some(4), "{redirection}");
    }
}

/// A closed standard output discards the printed text, as /dev/null does, and never writes into a file. A full standard
/// output is an error.
#[test]
#[cfg(target_os = "linux")]
fn closed_standard_output_is_fine_but_full_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let redirected = |arguments: &[&str], redirection: &str| {
        let script = format!(r#"exec "$0" "$@" {redirection}"#);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_headscope")]).args(arguments);
        outcome(&command.output().unwrap())
    };
    let analyze = ["analyze", "box:planted", "--limit", "20", "--no-run-info", "-o", path(&report)];
    assert_eq!(redirected(&analyze, ""), redirected(&analyze, "2>&1"));
    let whole = fs::read(&report).unwrap();
    for (arguments, redirection) in
        [(&analyze[..], ">&-"), (&analyze, ">&- 2>&- <&-"), (&["show", path(&report)], ">&-")]
    {
        assert_eq!(redirected(arguments, redirection), Ok(String::new()), "{arguments:?}");
        assert_eq!(fs::read(&report).unwrap(), whole);
    }
    let mut answers = Answers::within(folder.path());
    answers.refused("show > /dev/full", &redirected(&["show", path(&report)], ">/dev/full").unwrap_err());
    answers.held("outputs-full");
}
