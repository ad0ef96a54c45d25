//! Options checked against the model before a run.

use anyhow::{Result, anyhow, ensure};

use crate::model::Model;
use crate::model::grid::HeadPlace;
use crate::sequences::reading::{Context as Reads, WINDOW_TOKENS};
use crate::system::errors::Facts;

/// The most tokens of a sequence: the option, or the positions of the model, in windows no more than [`WINDOW_TOKENS`] of them.
/// Fails if the option is more than the positions of the model.
pub fn token_limit(model: &Model, requested: Option<usize>, context: Reads) -> Result<usize> {
    let config = &model.architecture.config;
    let positions = config.positions();
    let most = if context == Reads::Document { WINDOW_TOKENS.min(positions) } else { positions };
    let limit = requested.unwrap_or(most);
    let longest = config.longest();
    let more = || anyhow!("--max-tokens {limit} is more than the {longest} {}", config.bound()).of_value(limit);
    ensure!(limit <= longest, more());
    Ok(limit)
}

/// The heads to remove.
/// Fails if the model does not have them.
pub fn heads_of(model: &Model, removed: &[HeadPlace]) -> Result<Vec<HeadPlace>> {
    let grid = model.grid();
    if let Some(head) = removed.iter().find(|place| place.layer >= grid.layers || place.head >= grid.heads) {
        let error = anyhow!("--remove {head}: the model has {grid}, both counted from 0");
        return Err(error.of_value(head));
    }
    Ok(removed.to_vec())
}
