//! `--preset`: the published analyses that a command follows.

use clap::builder::{PossibleValue, PossibleValuesParser};

use anyhow::anyhow;

use super::command::Usage;
use crate::evaluation::presets::{PRESETS, Preset};
use crate::system::errors::Facts;

/// Reads the name of any preset.
pub fn any() -> PossibleValuesParser {
    PossibleValuesParser::new(PRESETS.iter().map(|preset| PossibleValue::new(preset.name).help(preset.about)))
}

/// The presets that are policies, where nothing is measured; an error of its own refuses the others.
pub fn policies() -> PossibleValuesParser {
    let value = |preset: &Preset| PossibleValue::new(preset.name).help(preset.about).hide(!preset.is_policy());
    PossibleValuesParser::new(PRESETS.iter().map(value))
}

/// The presets of these names, each once; clap has checked the names. At most one of them may have only labels of its
/// own.
pub fn named(names: &[String]) -> Result<Vec<&'static Preset>, Usage> {
    let presets: Vec<&Preset> = PRESETS.iter().filter(|preset| names.iter().any(|name| name == preset.name)).collect();
    let alone: Vec<&str> = presets.iter().filter(|preset| preset.alone).map(|preset| preset.name).collect();
    match alone[..] {
        [one, other, ..] => {
            Err(anyhow!("--preset {one} and --preset {other}: each gives its own labels and no others")
                .of_option("preset")
                .hint("give one of them"))
        }
        _ => Ok(presets),
    }
}

/// Refuses presets that only measure more where nothing is measured; `instead` takes them.
pub fn refuse_studies(names: &[String], instead: &str) -> Result<(), Usage> {
    match named(names)?.iter().find(|preset| !preset.is_policy()) {
        Some(preset) => Err(anyhow!("--preset {} is no policy, it measures more", preset.name)
            .of_value(preset.name)
            .hint(format!("give it to {instead}"))),
        None => Ok(()),
    }
}
