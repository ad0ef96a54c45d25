//! Blocks of sentences: the unit that is resampled.

/// The sentences of family `f` belong to block `f mod 64` (METHODOLOGY, "Uncertainty").
///
/// The number is even, so the parity of the block is that of the family: the two folds are whole blocks.
pub const BLOCKS: usize = 64;

/// The block of the family with this 0-based number.
#[must_use]
pub fn block_of(family: u64) -> usize {
    usize::try_from(family % BLOCKS as u64).expect("less than BLOCKS")
}
