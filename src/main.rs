//! The command line: parse, run, exit.

use std::process::ExitCode;

use headscope::commands::cli::{self, Command};
use headscope::commands::saved::{cite, diff, export, relabel, show};
use headscope::commands::sentences::{maps, view};
use headscope::commands::{analyze, batch, counts, files, index, merge};
use headscope::system::errors::Class;
use headscope::system::interrupt::clean_up_when_interrupted;
use headscope::system::terminal::print;

/// The allocator of a static program: musl's own is slow where many small things are allocated on several threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = cli::parse();
    // `diff` says by its exit status whether analyses differ, as diff(1) does: 0 same, 1 different, more for trouble.
    let other = if matches!(command, Command::Diff(_)) { Class::Usage } else { Class::Other };
    let outcome = clean_up_when_interrupted().and_then(|()| match command {
        Command::Analyze(options) => analyze::analyze(&options).map(|()| 0),
        Command::Merge(options) => merge::merge(&options).map(|()| 0),
        Command::Relabel(options) => relabel::relabel(&options).map(|()| 0),
        Command::Export(options) => export::export(&options).map(|()| 0),
        Command::Diff(options) => diff::diff(&options).map(|same| u8::from(!same)),
        Command::View(options) => view::view(&options).map(|()| 0),
        Command::Maps(options) => maps::maps(&options).map(|()| 0),
        Command::Counts(options) => counts::counts(&options).map(|()| 0),
        Command::Index(options) => index::index(&options).map(|()| 0),
        Command::Show(options) => show::show(&options).map(|()| 0),
        Command::Cite(options) => cite::cite(&options).map(|()| 0),
        Command::Write(folder, files) => files::write(&folder, &files).map(|()| 0),
        Command::Batch(options) => batch::batch(&options).map(|()| 0),
        Command::Print(text) => print(&text).map(|()| 0),
    });
    let status = outcome.unwrap_or_else(|error| {
        cli::error_format().say(&error);
        match Class::of(&error) {
            Class::Other => other.status(),
            class => class.status(),
        }
    });
    ExitCode::from(status)
}
