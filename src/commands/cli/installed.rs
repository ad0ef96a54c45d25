//! What an installed program brings for the shell: completions, manual pages, and what it was built with.

use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;

use super::arguments::{CompletionsArguments, ManArguments};
use super::errors::Usage;
use crate::commands::files::OutputFile;
use crate::passes::observation::identity::Tool;
use crate::passes::observation::partial;
use crate::report;
use crate::system::processor;

impl CompletionsArguments {
    /// The script for all commands, which are those of `root`.
    pub(super) fn text(&self, mut root: Command) -> String {
        let (name, mut bytes) = (root.get_name().to_owned(), Vec::new());
        clap_complete::generate(self.shell, &mut root, name, &mut bytes);
        String::from_utf8(bytes).expect("completions are text")
    }
}

impl ManArguments {
    /// The folder and the pages of `root` and its commands.
    pub(super) fn files(self, mut root: Command) -> Result<(PathBuf, Vec<OutputFile>), Usage> {
        root.build();
        let commands = root.get_subcommands().filter(|command| command.get_name() != "help").cloned();
        let page = |command: Command| {
            let name = command.get_display_name().unwrap_or_else(|| command.get_name());
            let (name, mut bytes) = (format!("{name}.1"), Vec::new());
            Man::new(command).render(&mut bytes).with_context(|| format!("cannot make the page {name}"))?;
            Ok(OutputFile { name, bytes })
        };
        let files = [root.clone()].into_iter().chain(commands).map(page).collect::<Result<_, Usage>>()?;
        Ok((self.output, files))
    }
}

/// The version, with what the program was built with and what it uses of this machine.
pub(super) fn version() -> String {
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
