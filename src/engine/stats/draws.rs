//! Draws of blocks with replacement (the bootstrap: Efron & Tibshirani 1993, chapter 13).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::blocks::{BLOCKS, PerBlock};

/// Seed of the draws, the year of the first paper (Efron 1979). It is the first eight bytes, little-endian, of the
/// `ChaCha8` key; the other bytes are 0.
pub const SEED: u64 = 1979;

/// Number of times that each block is drawn, for each of `draws` bootstrap samples of [`BLOCKS`] blocks. Every call gives
/// equal samples. A drawn block is one byte of the `ChaCha8` stream modulo 64, which has no bias and needs no library for
/// ranges.
pub fn bootstrap_block_counts(draws: usize) -> Vec<PerBlock> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&SEED.to_le_bytes());
    let mut stream = ChaCha8Rng::from_seed(key);
    let mut draw = || {
        let (mut bytes, mut counts) = ([0; BLOCKS], [0.0; BLOCKS]);
        stream.fill_bytes(&mut bytes);
        bytes.iter().for_each(|&byte| counts[usize::from(byte) % BLOCKS] += 1.0);
        counts
    };
    (0..draws).map(|_| draw()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_has_as_many_blocks_as_there_are() {
        let draws = bootstrap_block_counts(2000);
        assert!(draws.iter().all(|counts| counts.iter().sum::<f64>() == BLOCKS as f64));
        // Each block is drawn once on average; its standard error is sqrt(63/64/2000) = 0.022.
        for block in 0..BLOCKS {
            let mean = draws.iter().map(|counts| counts[block]).sum::<f64>() / 2000.0;
            assert!((mean - 1.0).abs() < 5.0 * 0.0222, "block {block} is drawn {mean} times");
        }
    }
}
