//! The arguments of the commands that hold two analyses against each other.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;

use crate::commands::cli::shared::command::Usage;
use crate::commands::cli::shared::report::threads_or_all;
use crate::commands::cli::shared::{numbers, presets};
use crate::commands::reporting::policy::PolicyOptions;

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

/// The two analyses that were named, with the policy of both and the threads to work with.
pub struct NamedSides {
    pub a: PathBuf,
    pub b: PathBuf,
    pub policy: PolicyOptions,
    pub threads: NonZeroUsize,
}

impl SidesArguments {
    /// What was named.
    /// Fails if both are standard input, or a preset is one of studies.
    pub fn named(self) -> Result<NamedSides, Usage> {
        let Self { a, b, presets, policy, min_count, threads } = self;
        if a == Path::new("-") && a == b {
            return Err(anyhow!("standard input can be one of the reports, not both"));
        }
        presets::refuse_studies(&presets, "headscope analyze")?;
        let policy = PolicyOptions { presets: presets::named(&presets)?, file: policy, min_count };
        Ok(NamedSides { a, b, policy, threads: threads_or_all(threads) })
    }
}
