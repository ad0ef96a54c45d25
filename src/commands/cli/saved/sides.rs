//! The arguments of the commands that hold two analyses against each other: the two, and where the outcome goes.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;

use crate::commands::cli::shared::report::{targets, threads_or_all};
use crate::commands::cli::shared::{Usage, has_extension, numbers, presets, refuse_overlap, unfit};
use crate::commands::reporting::{OutcomeOutputs, PolicyOptions};
use crate::commands::saved::sides::SidesOptions;
use crate::export::summary::Detail;

/// Two analyses, and how both are labelled.
#[derive(Args)]
pub struct SidesArguments {
    /// A report in JSON, or a partial (.headscope); `-` reads a report from standard input
    a: PathBuf,
    /// Another
    b: PathBuf,
    /// Label both sides by a published analysis. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_parser = presets::any())]
    presets: Vec<String>,
    /// Set thresholds of both sides: a TOML file; what it leaves out stays as each report has it, or has its default
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Fewest words of a relation on either side, for a syntactic label and for a comparison [default: that of the policy, 100]
    #[arg(long, value_name = "N", value_parser = numbers::from::<u64>(0))]
    min_count: Option<u64>,
    /// Threads that work out the numbers of partials [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u16>(1..=1024))]
    threads: Option<u16>,
}

/// Where the outcome of a comparison goes.
#[derive(Args)]
pub struct OutcomeArguments {
    /// Print all of it, not one page
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print the outcome as JSON, whose schema `headscope explain --schema` has; `-o -` is the same
    #[arg(long)]
    json: bool,
    /// Do not print the outcome
    #[arg(short, long, conflicts_with_all = ["full", "json"])]
    quiet: bool,
    /// Write the outcome to this file as well, all of it, in the format of its extension: .json, .json.gz, .html (a page)
    /// or .csv (a table, of labels alone). May be repeated
    #[arg(short, long = "output", value_name = "FILE")]
    pub outputs: Vec<PathBuf>,
}

impl OutcomeArguments {
    /// The destinations of `what`, which can be written in these formats.
    /// Fails if a file is named twice, or has another extension.
    pub fn outputs(self, what: &str, formats: &[&str]) -> Result<OutcomeOutputs, Usage> {
        let Self { full, json, quiet, mut outputs } = self;
        refuse_overlap(&outputs, &[])?;
        let to_stdout = Path::new("-");
        let is_known = |path: &Path| path == to_stdout || formats.iter().any(|format| has_extension(path, format));
        if let Some(other) = outputs.iter().find(|path| !is_known(path)) {
            let (last, rest) = formats.split_last().expect("there are formats");
            let way_out = format!("name a file .{} or .{last}", rest.join(", ."));
            return Err(unfit(&format!("write {what} as"), other, &way_out));
        }
        if json && !outputs.iter().any(|path| path == to_stdout) {
            outputs.push(to_stdout.to_owned());
        }
        let is_printed = !quiet && !outputs.iter().any(|path| path == to_stdout);
        let detail = if full { Detail::Full } else { Detail::Brief };
        Ok(OutcomeOutputs { targets: targets(&outputs, false)?, printed: is_printed.then_some(detail) })
    }
}

impl SidesArguments {
    /// The options of both sides.
    /// Fails if both are standard input, or a preset is one of studies.
    pub fn named(self) -> Result<SidesOptions, Usage> {
        let Self { a, b, presets, policy, min_count, threads } = self;
        if a == Path::new("-") && a == b {
            return Err(anyhow!("standard input can be one of the reports, not both"));
        }
        presets::refuse_studies(&presets, "headscope analyze")?;
        let policy = PolicyOptions { presets: presets::named(&presets)?, file: policy, min_count };
        Ok(SidesOptions { files: [a, b], policy, threads: threads_or_all(threads) })
    }
}
