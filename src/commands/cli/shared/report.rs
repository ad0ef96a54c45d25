//! Arguments for output files and labelling, for commands that write reports.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use itertools::Itertools as _;

use super::{
    NamedValue, OUTPUT_HEADING, UsageError, extension, has_extension, lower_extension, named_value_parser, numbers,
    presets,
};
use crate::commands::reporting::{PolicyOptions, ReportOptions};
use crate::evaluation::presets::Preset;
use crate::export::json::{Digits, JsonForm};
use crate::export::summary::Detail;
use crate::export::{OutputTarget, ReportFormat};
use crate::passes::observation::partial;
use crate::system::errors::ErrorExt;
use crate::system::parallel::core_count;

/// Options that `analyze` and `merge` have in common: where the report goes, and how it is labelled.
#[derive(Args)]
pub struct ReportArguments {
    /// Write a report: .json, .json.gz, .csv or .html; may be repeated
    ///
    /// The extension says how: JSON, packed JSON, CSV or a page (.html); `-` writes JSON to standard output. `merge` also writes one
    /// partial, FILE.headscope
    #[arg(short, long = "output", value_name = "FILE", help_heading = OUTPUT_HEADING)]
    pub outputs: Vec<PathBuf>,
    /// Write JSON on one line, not indented: some 8 % fewer bytes
    #[arg(long, requires = "outputs", help_heading = OUTPUT_HEADING, hide_short_help = true)]
    pub compact: bool,
    /// Significant digits of the numbers in reports and summary; 17 keep all
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser::<Digits>(Digits::RANGE), default_value = "6", help_heading = OUTPUT_HEADING, hide_short_help = true)]
    pub digits: Digits,
    /// Do not print the summary
    #[arg(short, long, help_heading = OUTPUT_HEADING)]
    pub quiet: bool,
    /// How much the summary says
    #[arg(long, value_parser = named_value_parser(DETAILS), default_value = "brief", help_heading = OUTPUT_HEADING, hide_short_help = true)]
    pub summary: Detail,
    /// Set thresholds of the labels: a TOML file
    ///
    /// It has any of the keys of `settings.policy` in a report; "off" switches a rule off
    #[arg(long, value_name = "FILE", help_heading = OUTPUT_HEADING)]
    pub policy: Option<PathBuf>,
    /// Fewest words of a relation for a syntactic label [default: that of the policy, 100]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser_from::<u64>(0), help_heading = OUTPUT_HEADING, hide_short_help = true)]
    pub min_count: Option<u64>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser::<u16>(1..=1024), help_heading = OUTPUT_HEADING)]
    pub threads: Option<u16>,
    /// Leave time, threads and host out of the report, so that equal runs give equal bytes
    #[arg(long, help_heading = OUTPUT_HEADING, hide_short_help = true)]
    pub no_run_info: bool,
}

pub const DETAILS: &[NamedValue<Detail>] =
    &[(Detail::Brief, "brief", "What fits on one screen"), (Detail::Full, "full", "Also what each study found")];

impl ReportArguments {
    /// Options of the requested reports. `also` names other outputs of the command, for the error on an unknown extension.
    pub fn validate(self, named: &[String], also: &str) -> Result<ReportOptions, UsageError> {
        let target = |path: &PathBuf| output_target(path, self.compact, also);
        let outputs: Vec<OutputTarget> = self.outputs.iter().map(target).collect::<Result<_, _>>()?;
        let to_stdout = outputs.iter().any(|target| matches!(target, OutputTarget::Stdout(_)));
        Ok(ReportOptions {
            threads: threads_or_all(self.threads),
            digits: self.digits,
            summary_detail: Some(self.summary).filter(|_| !self.quiet && !to_stdout),
            outputs,
            policy: PolicyOptions {
                presets: presets::presets_by_name(named)?,
                policy_file: self.policy,
                min_count: self.min_count,
            },
        })
    }

    /// Name of the first labelling option that was given: `--min-count`, `--policy` or `preset`; `None` if none was given.
    pub fn labelling_option(&self, preset: Option<&Preset>) -> Option<String> {
        let options = [
            self.min_count.map(|_| "--min-count".to_owned()),
            self.policy.as_ref().map(|_| "--policy".to_owned()),
            preset.map(|preset| format!("--preset {}", preset.name)),
        ];
        options.into_iter().flatten().next()
    }
}

/// Number of threads to use: `threads`, or one per core.
pub fn threads_or_all(threads: Option<u16>) -> NonZeroUsize {
    threads.map_or_else(core_count, |threads| NonZeroUsize::new(threads.into()).expect("in range"))
}

/// Outputs for these paths; JSON is indented, or on one line with `compact`.
pub fn output_targets(paths: &[PathBuf], compact: bool) -> Result<Vec<OutputTarget>, UsageError> {
    paths.iter().map(|path| output_target(path, compact, "")).collect()
}

fn output_target(path: &Path, compact: bool, also: &str) -> Result<OutputTarget, UsageError> {
    if path == Path::new("-") {
        return Ok(OutputTarget::Stdout(JsonForm { is_compact: compact, is_gzipped: false }));
    }
    let extensions = || ReportFormat::ALL.iter().map(|(extension, _)| format!(".{extension}")).join(" or ");
    if lower_extension(path) == partial::EXTENSION {
        let shown = path.display();
        return Err(anyhow!("`{shown}` would be a partial").with_file(shown).hint(format!(
            "give it to `headscope analyze` as --partial FILE, or with --shard I/N, or use {}",
            extensions()
        )));
    }
    let entry = ReportFormat::ALL.iter().find(|(name, _)| has_extension(path, name));
    let entry = entry.ok_or_else(|| {
        let shown = path.display();
        let unknown = anyhow!("cannot tell the format of output `{shown}` by its extension");
        unknown.with_file(shown).with_value(extension(path)).hint(format!("use {}{also}", extensions()))
    })?;
    let writer = if let ReportFormat::Json(form) = entry.1 {
        ReportFormat::Json(JsonForm { is_compact: compact, ..form })
    } else {
        entry.1
    };
    Ok(OutputTarget::File(path.to_owned(), writer))
}
