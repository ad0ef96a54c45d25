//! The parts of an installed program for the shell: completions, manual pages, and the build information.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;

use super::shared::{Command, DONE, Usage, WRITING, statuses};
use crate::passes::observation::identity::Tool;
use crate::passes::observation::partial;
use crate::report;
use crate::system::errors::{Class, Facts};
use crate::system::files::output::Output;
use crate::system::machine::processor;
use crate::system::terminal::print;

/// Print completions for a shell
///
/// Bash: `headscope completions bash > ~/.local/share/bash-completion/completions/headscope`. Zsh: to a file `_headscope` in a
/// folder of `fpath`. Fish: `headscope completions fish > ~/.config/fish/completions/headscope.fish`.
#[derive(Args)]
#[command(after_help = statuses(DONE, WRITING))]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages
///
/// One page for the program and one for each command: headscope.1, headscope-analyze.1 and so on. To read one without
/// installing it: `man -l FOLDER/headscope-analyze.1`.
#[derive(Args)]
#[command(after_help = statuses(DONE, WRITING))]
pub struct ManArguments {
    /// The folder to write to; it is made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

impl CompletionsArguments {
    /// The command; the script is for all commands, which are those of `root`.
    pub fn command(&self, mut root: clap::Command) -> Command {
        let (name, mut bytes) = (root.get_name().to_owned(), Vec::new());
        clap_complete::generate(self.shell, &mut root, name, &mut bytes);
        let text = String::from_utf8(bytes).expect("completions are text");
        Command::new(move || print(&text))
    }
}

impl ManArguments {
    /// The command; the pages are of `root` and its commands.
    pub fn command(self, mut root: clap::Command) -> Result<Command, Usage> {
        root.build();
        let commands = root.get_subcommands().filter(|command| command.get_name() != "help").cloned();
        let page = |command: clap::Command| -> Result<(String, Vec<u8>), Usage> {
            let name = command.get_display_name().unwrap_or_else(|| command.get_name());
            let (name, mut bytes) = (format!("{name}.1"), Vec::new());
            Man::new(command).render(&mut bytes).with_context(|| format!("cannot make the page {name}"))?;
            Ok((name, bytes))
        };
        let files = [root.clone()].into_iter().chain(commands).map(page).collect::<Result<Vec<_>, Usage>>()?;
        let folder = self.output;
        Ok(Command::new(move || {
            fs::create_dir_all(&folder).cannot("make the folder", folder.display()).class(Class::Output)?;
            files.iter().try_for_each(|(name, bytes)| Output::open(&folder.join(name))?.finish(bytes))
        }))
    }
}

/// The version, with what the program was built with and what it uses of this machine.
pub fn version() -> String {
    let Tool { name, version } = Tool::default();
    let features = [("hub", cfg!(feature = "hub")), ("parquet", cfg!(feature = "parquet"))];
    let features: Vec<&str> = features.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!(
        "{name} {version}\nfeatures: {features}\nsystem: {} {}\nprocessor path: {}\nreport schema: {}\npartial format: {}\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        processor::path(),
        report::SCHEMA_VERSION,
        partial::FORMAT_VERSION,
    )
}
