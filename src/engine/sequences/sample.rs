//! A sample of the sentences of a corpus, drawn by their numbers.

use itertools::Itertools as _;
use sha2::{Digest, Sha256};

/// A sample of the sentences of a corpus: those whose numbers have the lowest SHA-256 digests. So all shards, and any other
/// program, draw the same sentences. Evenly spaced sentences would correlate with everything that depends on their numbers:
/// blocks, folds, masked words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The highest digest of a drawn sentence's number; `None` if all sentences are drawn.
    max_digest: Option<[u8; 32]>,
}

/// SHA-256 of the number of a sentence.
fn digest(sentence: u64) -> [u8; 32] {
    Sha256::digest(format!("headscope/sample/{sentence}")).into()
}

impl Sample {
    pub const ALL: Self = Self { max_digest: None };

    /// Draws `most` of the sentences whose numbers are below `of`; all sentences if `most` is `of` or more.
    pub fn new(most: u64, of: u64) -> Self {
        if most >= of {
            return Self::ALL;
        }
        let lowest = (0..of).map(digest).k_smallest(usize::try_from(most).unwrap_or(usize::MAX));
        // The default is 0, which no digest reaches, so that nothing is drawn.
        Self { max_digest: Some(lowest.max().unwrap_or_default()) }
    }

    /// Whether the sentence with this 0-based number is drawn.
    pub fn contains(self, sentence: u64) -> bool {
        self.max_digest.is_none_or(|highest| digest(sentence) <= highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(most: u64, of: u64) -> Vec<u64> {
        (0..of).filter(|&sentence| Sample::new(most, of).contains(sentence)).collect()
    }

    #[test]
    fn the_lowest_digests_are_drawn() {
        // By Python: sorted(range(10), key=lambda s: hashlib.sha256(f"headscope/sample/{s}".encode()).digest())[:3]
        assert_eq!(taken(3, 10), [1, 3, 9]);
        assert_eq!(taken(12, 1000), [12, 123, 180, 287, 299, 328, 465, 481, 504, 546, 822, 919]);
        assert_eq!(taken(5, 4), [0, 1, 2, 3]);
        assert_eq!(taken(0, 4), [0; 0]);
        assert!(Sample::ALL.contains(u64::MAX - 1));
    }

    #[test]
    fn both_parities_are_drawn() {
        let odd = taken(500, 1000).iter().filter(|sentence| **sentence % 2 == 1).count();
        // 250 are expected, with a standard deviation of sqrt(1000) / 4 = 7.9.
        assert!((220..=280).contains(&odd), "{odd}");
    }

    proptest! {
        #[test]
        fn so_many_are_drawn_and_more_hold_fewer(most in 0..40_u64, of in 1..200_u64) {
            let (few, more) = (taken(most, of), taken(most + 1, of));
            prop_assert_eq!(few.len() as u64, most.min(of));
            prop_assert!(few.iter().all(|sentence| more.contains(sentence)));
        }
    }
}
