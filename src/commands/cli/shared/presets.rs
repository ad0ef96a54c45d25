//! `--preset`, to follow a published analysis, and `--policy`, to label a saved report anew.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use super::UsageError;
use crate::commands::reporting::PolicyOptions;
use crate::evaluation::presets::{PRESETS, Preset};
use crate::system::errors::ErrorExt;

pub fn preset_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(PRESETS.iter().map(|preset| PossibleValue::new(preset.name).help(preset.description)))
}

/// Parser of `--preset` for commands that measure nothing. Help lists only policies; [`ensure_policies`] refuses other presets.
pub fn policy_preset_parser() -> PossibleValuesParser {
    let value = |preset: &Preset| PossibleValue::new(preset.name).help(preset.description).hide(!preset.is_policy());
    PossibleValuesParser::new(PRESETS.iter().map(value))
}

/// Presets with these names, without duplicates; clap has checked the names.
/// Fails if two of the presets are exclusive, since an exclusive preset gives its own labels and no others.
pub fn presets_by_name(names: &[String]) -> Result<Vec<&'static Preset>, UsageError> {
    let presets: Vec<&Preset> = PRESETS.iter().filter(|preset| names.iter().any(|name| name == preset.name)).collect();
    let exclusive: Vec<&str> = presets.iter().filter(|preset| preset.is_exclusive).map(|preset| preset.name).collect();
    if let [one, other, ..] = exclusive[..] {
        return Err(anyhow!("--preset {one} and --preset {other}: each gives its own labels and no others")
            .with_option("preset")
            .hint("give one of them"));
    }
    Ok(presets)
}

/// Fails if a preset adds studies, since a command on saved results runs none.
/// The hint names `instead`, a command that takes the preset.
pub fn ensure_policies(names: &[String], instead: &str) -> Result<(), UsageError> {
    let presets = presets_by_name(names)?;
    let Some(Preset { name, .. }) = presets.iter().find(|preset| !preset.is_policy()) else { return Ok(()) };
    let error = anyhow!("--preset {name} is no policy, it measures more");
    Err(error.with_value(name).hint(format!("give it to {instead}")))
}

/// Policy (file or presets) by which a saved report is labelled anew.
#[derive(Args)]
pub struct PolicyArguments {
    /// Label every head anew by the thresholds of this TOML file; what it leaves out has its default, or the preset's value
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Label every head anew by the thresholds of a published analysis; --policy overrides them
    #[arg(long = "preset", value_name = "PRESET", value_parser = policy_preset_parser())]
    presets: Vec<String>,
}

impl PolicyArguments {
    pub fn options(self) -> Result<Option<PolicyOptions>, UsageError> {
        ensure_policies(&self.presets, "headscope analyze")?;
        let is_asked = self.policy.is_some() || !self.presets.is_empty();
        let options =
            PolicyOptions { presets: presets_by_name(&self.presets)?, policy_file: self.policy, min_count: None };
        Ok(is_asked.then_some(options))
    }
}
