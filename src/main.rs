//! The command line: parse, run, exit.

use std::process::ExitCode;

use headscope::cli::{self, Command};
use headscope::export::output::{clean_up_when_interrupted, print, printable};
use headscope::{maps, run};

/// What a shell reports of a program that Ctrl-C ended: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

fn main() -> ExitCode {
    let command = cli::parse();
    let outcome = clean_up_when_interrupted(INTERRUPTED).and_then(|()| match command {
        Command::Analyze(options) => run::analyze(&options),
        Command::Merge(options) => run::merge(&options),
        Command::Maps(options) => maps::maps(&options),
        Command::Print(text) => print(&text),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("error: {}", printable(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
