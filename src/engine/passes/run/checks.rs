//! Options checked against the model before a run.

use anyhow::{Result, anyhow};

use crate::model::config::Config;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::sequences::reading::{Context as Reads, WINDOW_TOKENS};
use crate::system::errors::Facts;

/// The most tokens of a sequence: `requested`, else the positions of the model, or for windows of documents at most
/// [`WINDOW_TOKENS`]. Fails if `requested` exceeds the positions of the model.
pub fn token_limit(config: &Config, requested: Option<usize>, context: Reads) -> Result<usize> {
    let positions = config.positions();
    let most = if context == Reads::Document { WINDOW_TOKENS.min(positions) } else { positions };
    let limit = requested.unwrap_or(most);
    let longest = config.longest();
    if limit > longest {
        let error = anyhow!("--max-tokens {limit} is more than the {longest} {}", config.bound());
        return Err(error.of_option("max-tokens").of_value(limit));
    }
    Ok(limit)
}

/// Checks and returns the heads to remove. Fails if the model lacks one.
pub fn heads_of(grid: HeadGrid, removed: &[HeadPlace]) -> Result<Vec<HeadPlace>> {
    if let Some(head) = grid.stray(removed.iter().copied()) {
        let error = anyhow!("--remove {head}: the model has {grid}, both counted from 0");
        return Err(error.of_option("remove").of_value(head));
    }
    Ok(removed.to_vec())
}
