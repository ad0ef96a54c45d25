//! The command line: parse, run, exit.

use std::io;
use std::process::ExitCode;

use headscope::cli::{self, Command};
use headscope::export::output::clean_up_when_interrupted;
use headscope::{maps, run};

/// What a shell reports of a program that Ctrl-C ended: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

fn main() -> ExitCode {
    let command = cli::parse();
    let outcome = clean_up_when_interrupted(INTERRUPTED).and_then(|()| match command {
        Command::Analyze(options) => run::analyze(&options),
        Command::Maps(options) => maps::maps(&options),
        Command::Print(text) => run::print(&text),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // `headscope explain | head`: the reader has what it wanted.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
