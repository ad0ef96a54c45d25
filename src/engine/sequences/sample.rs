//! A random sample of the sentences of a corpus.

use std::collections::BinaryHeap;

use sha2::{Digest, Sha256};

/// A sample of the sentences of a corpus: as many as are asked for, those with the lowest digests of their numbers, so
/// that all shards choose the same.
///
/// The places of a sample at even distances would go together with all that goes by number: blocks, folds and masked
/// words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The highest digest that is chosen; `None` if no sentence is.
    highest: Option<NumberDigest>,
}

/// SHA-256 of the ASCII text `headscope/sample/` and the number of a sentence.
type NumberDigest = [u8; 32];

fn digest_of(sentence: u64) -> NumberDigest {
    Sha256::digest(format!("headscope/sample/{sentence}")).into()
}

impl Sample {
    /// Every sentence.
    pub const ALL: Self = Self { highest: Some([u8::MAX; 32]) };

    /// `most` of `of` sentences, all of them if there are no more.
    pub fn new(most: u64, of: u64) -> Self {
        if most >= of {
            return Self::ALL;
        }
        let mut lowest = BinaryHeap::new();
        for digest in (0..of).map(digest_of) {
            if (lowest.len() as u64) < most {
                lowest.push(digest);
            } else if let Some(mut highest) = lowest.peek_mut().filter(|highest| digest < **highest) {
                *highest = digest;
            }
        }
        Self { highest: lowest.peek().copied() }
    }

    /// Whether the sentence with this 0-based number is chosen.
    pub fn takes(self, sentence: u64) -> bool {
        self == Self::ALL || self.highest.is_some_and(|highest| digest_of(sentence) <= highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(most: u64, of: u64) -> Vec<u64> {
        (0..of).filter(|&sentence| Sample::new(most, of).takes(sentence)).collect()
    }

    /// Computed by `sorted(sorted(range(of), key=lambda s: sha256(f"headscope/sample/{s}".encode()).digest())[:most])`.
    #[test]
    fn the_lowest_digests_are_chosen() {
        assert_eq!(taken(3, 10), [1, 3, 9]);
        assert_eq!(taken(12, 1000), [12, 123, 180, 287, 299, 328, 465, 481, 504, 546, 822, 919]);
        assert_eq!(taken(5, 4), [0, 1, 2, 3]);
        assert_eq!(taken(0, 4), [0; 0]);
        assert!(Sample::ALL.takes(u64::MAX - 1));
    }

    /// Half of 1,000 sentences is of blocks of both parities, about as often: the standard deviation is 8.
    #[test]
    fn both_folds_are_sampled() {
        let odd = taken(500, 1000).iter().filter(|&&sentence| sentence % 2 == 1).count();
        assert!((220..280).contains(&odd), "{odd}");
    }

    proptest! {
        #[test]
        fn so_many_are_chosen_and_a_larger_sample_has_the_smaller(most in 0..40_u64, more in 0..40_u64, of in 1..400_u64) {
            let (smaller, larger) = (taken(most, of), taken(most + more, of));
            prop_assert_eq!(smaller.len() as u64, most.min(of));
            prop_assert!(smaller.iter().all(|sentence| larger.contains(sentence)));
        }
    }
}
