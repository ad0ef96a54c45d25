//! Options checked against the model before a run.

use anyhow::{Result, anyhow};

use crate::model::config::Config;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::sequences::reading::{Context as Reads, DEFAULT_WINDOW_TOKENS};
use crate::system::errors::ErrorExt;

/// Maximum number of tokens in a sequence: `requested`, else the number of positions of the model. Windows of documents
/// have at most [`DEFAULT_WINDOW_TOKENS`] unless requested. Fails if `requested` is more than the model can run.
pub fn token_limit(config: &Config, requested: Option<usize>, context: Reads) -> Result<usize> {
    let positions = config.max_positioned_tokens();
    let most = if context == Reads::Document { DEFAULT_WINDOW_TOKENS.min(positions) } else { positions };
    let limit = requested.unwrap_or(most);
    let longest = config.max_runnable_tokens();
    if limit > longest {
        let error = anyhow!("--max-tokens {limit} is more than the {longest} {}", config.length_limit_phrase());
        return Err(error.with_option("max-tokens").with_value(limit));
    }
    Ok(limit)
}

/// Returns the heads to remove. Fails if the model lacks one of them.
pub fn check_heads(grid: HeadGrid, removed: &[HeadPlace]) -> Result<Vec<HeadPlace>> {
    if let Some(head) = grid.first_outside(removed.iter().copied()) {
        let error = anyhow!("--remove {head}: the model has {grid}, both counted from 0");
        return Err(error.with_option("remove").with_value(head));
    }
    Ok(removed.to_vec())
}
