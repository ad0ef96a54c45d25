//! The command line: parse, run, exit.

use std::process::ExitCode;

use headscope::commands::cli;
use headscope::system::errors::ErrorClass;
use headscope::system::files::output;
use headscope::system::interrupt::clean_up_when_interrupted;
use headscope::system::time_limit;

/// Memory allocator of statically linked builds. The allocator of musl is slow at many small allocations from several threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = cli::parse();
    output::register_stdout();
    time_limit::set_error_report(|error| {
        cli::requested_error_format().print_error(error);
        ErrorClass::from_error(error).status()
    });
    let outcome = clean_up_when_interrupted(cli::requested_error_format()).and_then(|()| (command.run)());
    let status = outcome.unwrap_or_else(|error| {
        cli::requested_error_format().print_error(&error);
        match ErrorClass::from_error(&error) {
            ErrorClass::Other => command.default_class.status(),
            class => class.status(),
        }
    });
    ExitCode::from(status)
}
