//! Some of the sentences of a corpus, chosen evenly over it.

/// At most this many sentences of a corpus, at even distances: chosen by their numbers alone, so that all shards choose
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    most: u64,
    of: u64,
}

impl Sample {
    /// Every sentence.
    pub const ALL: Self = Self { most: 0, of: 0 };

    /// `most` of `of` sentences, all of them if there are no more.
    pub fn new(most: u64, of: u64) -> Self {
        if most < of { Self { most, of } } else { Self::ALL }
    }

    /// Whether the sentence with this 0-based number is chosen: the last of each `most`-th part of the corpus.
    pub fn takes(self, sentence: u64) -> bool {
        let Self { most, of } = self;
        let parts = |sentences: u64| u128::from(sentences) * u128::from(most) / u128::from(of);
        of == 0 || parts(sentence + 1) > parts(sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(most: u64, of: u64) -> Vec<u64> {
        (0..of).filter(|&sentence| Sample::new(most, of).takes(sentence)).collect()
    }

    #[test]
    fn sentences_at_even_distances() {
        assert_eq!(taken(3, 10), [3, 6, 9]);
        assert_eq!(taken(5, 4), [0, 1, 2, 3]);
        assert_eq!(taken(0, 4), [0; 0]);
        assert!(Sample::ALL.takes(u64::MAX - 1));
    }

    proptest! {
        #[test]
        fn so_many_are_chosen_and_no_gap_is_much_wider(most in 1..40_u64, of in 1..400_u64) {
            let taken = taken(most, of);
            prop_assert_eq!(taken.len() as u64, most.min(of));
            let widest = taken.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
            prop_assert!(widest <= of.div_ceil(most));
        }
    }
}
