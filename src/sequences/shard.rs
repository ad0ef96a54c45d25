//! Which part of a corpus one run of many takes.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::corpus::SEGMENT_SENTENCES;

/// Each has a segment at least, so that a corpus for as many has 16 million sentences.
const MOST: u32 = 1 << 16;

/// The `number`-th of `of` shards of a corpus, counted from 1: every `of`-th segment of [`SEGMENT_SENTENCES`] sentences.
///
/// Packs depend on nothing outside their segment, so shards compute what one run over everything computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct Shard {
    number: NonZeroU32,
    of: NonZeroU32,
}

impl Shard {
    /// The one shard that is the whole corpus.
    pub const WHOLE: Self = Self { number: NonZeroU32::MIN, of: NonZeroU32::MIN };

    /// Which of the shards this is, from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number.get()
    }

    /// How many shards there are.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of.get()
    }

    /// Whether the sentence with this 0-based number is in the shard.
    #[must_use]
    pub fn takes(self, sentence: u64) -> bool {
        sentence / SEGMENT_SENTENCES % u64::from(self.of()) == u64::from(self.number() - 1)
    }
}

/// Ascending numbers as engines of jobs take an array of them: `3,7-9`.
#[must_use]
pub fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|before, after| before + 1 == *after);
    let written = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => unreachable!("a chunk has an entry"),
    });
    written.collect::<Vec<_>>().join(",")
}

impl TryFrom<(u32, u32)> for Shard {
    type Error = String;

    fn try_from((number, of): (u32, u32)) -> Result<Self, String> {
        if of > MOST {
            return Err(format!("{of} shards are more than {MOST}: take fewer"));
        }
        let shard = NonZeroU32::new(number).zip(NonZeroU32::new(of)).filter(|_| number <= of);
        let shard = shard.map(|(number, of)| Self { number, of });
        shard.ok_or_else(|| format!("shard {number}/{of} is none of 1/{of} to {of}/{of}"))
    }
}

impl From<Shard> for (u32, u32) {
    fn from(shard: Shard) -> Self {
        (shard.number(), shard.of())
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        Self::try_from(numbers.ok_or("expected I/N: shard I, counted from 1, of N")?)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_is_in_one_shard() {
        for of in 1..6 {
            let shards: Vec<Shard> = (1..=of).map(|number| Shard::try_from((number, of)).unwrap()).collect();
            for sentence in 0..3000 {
                assert_eq!(shards.iter().filter(|shard| shard.takes(sentence)).count(), 1, "sentence {sentence}");
            }
        }
        let second: Shard = "2/3".parse().unwrap();
        assert_eq!([255, 256, 511, 512, 1024].map(|sentence| second.takes(sentence)), [false, true, true, false, true]);
    }

    #[test]
    fn numbers_are_written_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[3, 7, 8, 9, 11, 12]), "3,7-9,11-12");
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        let error = "1/4294967295".parse::<Shard>().unwrap_err();
        assert_eq!(error, "4294967295 shards are more than 65536: take fewer");
        for text in ["", "1", "0/2", "3/2", "1/0", "a/2", "1/2/3", "-1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        assert_eq!("8/8".parse::<Shard>().unwrap().to_string(), "8/8");
    }
}
