//! Blocks of sentences: the unit that is resampled.

/// Sentence `s` of the corpus belongs to block `s mod 64` (METHODOLOGY, "Uncertainty").
///
/// The number is even, so the parity of the block is that of the sentence: the two folds are whole blocks.
pub const BLOCKS: usize = 64;

/// The block of the sentence with this 0-based number.
#[must_use]
pub fn block_of(sentence: u64) -> usize {
    usize::try_from(sentence % BLOCKS as u64).expect("less than BLOCKS")
}
