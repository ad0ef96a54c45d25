//! The policy by which a command labels.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::evaluation::plan;
use crate::evaluation::presets;
use crate::evaluation::presets::Preset;
use crate::report::Report;
use crate::study::labels::policy::{Policy, Value};
use crate::system::errors::{Class, Facts};

/// The threshold that `--min-count` sets.
const MIN_COUNT: &str = "syntactic_min_count";

/// The sources of the labels' thresholds; each overrides those before it.
#[derive(Clone, Debug, Default)]
pub struct PolicyOptions {
    /// The published analyses whose thresholds it starts from.
    pub presets: Vec<&'static Preset>,
    /// A file that sets thresholds.
    pub file: Option<PathBuf>,
    /// Fewest scored words of a syntactic label.
    pub min_count: Option<u64>,
}

impl PolicyOptions {
    /// Makes sure that these studies measured what the presets label.
    /// Fails if one that a preset needs is not among them.
    pub fn ensure_measured(&self, studies: &[String]) -> Result<()> {
        match presets::missing(&self.presets, &plan::studies(studies)?) {
            Some((preset, study)) => {
                Err(anyhow!("--preset {preset} labels what the study `{study}` measures, which was not run")
                    .of_value(preset)
                    .hint(format!("headscope analyze --with {study}")))
                .class(Class::Usage)
            }
            None => Ok(()),
        }
    }

    /// A saved report of this name, with the labels that it has by this policy.
    /// Fails if the policy file cannot be used, or the report lacks what a preset labels.
    pub fn applied(&self, report: Report, name: &str) -> Result<Report> {
        self.ensure_measured(&report.settings.protocol.studies).cannot("label", name)?;
        Ok(report.relabel(self.policy()?))
    }

    /// The default policy or that of presets, with what the policy file and the command line set.
    /// Fails if the policy file cannot be used.
    pub fn policy(&self) -> Result<Policy> {
        self.over(presets::policy(&[]))
    }

    /// `policy`, or that of presets if there are any, with what the policy file and the command line set.
    /// Fails if the policy file cannot be used.
    pub fn over(&self, policy: Policy) -> Result<Policy> {
        let policy = if self.presets.is_empty() { policy } else { presets::policy(&self.presets) };
        let policy = match &self.file {
            Some(file) => policy.with_file(file)?,
            None => policy,
        };
        Ok(policy.with(self.min_count.map(|count| (MIN_COUNT, Value::Count(count)))))
    }
}

/// A saved report of this name, with the labels that it has by another policy if one is given.
/// Fails if the policy file cannot be used, or the report lacks what a preset labels.
pub fn labelled(report: Report, policy: Option<&PolicyOptions>, name: &str) -> Result<Report> {
    match policy {
        Some(policy) => policy.applied(report, name),
        None => Ok(report),
    }
}
