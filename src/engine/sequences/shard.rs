//! The shard: the part of a corpus that one of several runs takes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::corpus::SEGMENT_SENTENCES;
use crate::system::printable::shorten;

/// Maximum number of shards of a corpus. Each shard has at least one segment, so that a corpus with the maximum has at
/// least 16 million sentences.
const MAX_SHARDS: u32 = 1 << 16;

/// The part of a corpus that one of several runs takes: the `number`-th of `of` shards, counted from 1. It has every
/// `of`-th segment of [`SEGMENT_SENTENCES`] sentences. Packs do not cross segments, so all shards together compute exactly
/// what a single run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct Shard {
    number: u32,
    of: u32,
}

impl Shard {
    /// The whole corpus as one shard.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Parses the number of shards, from 1 to 65,536.
    pub fn parse_count(text: &str) -> Result<u32, String> {
        text.parse().ok().filter(|of| (1..=MAX_SHARDS).contains(of)).ok_or_else(bad_count_message)
    }

    /// Number of the shard, counted from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    pub fn shard_count(self) -> u32 {
        self.of
    }

    /// Whether the sentence with this 0-based number is in the shard.
    pub fn contains(self, sentence: u64) -> bool {
        sentence / SEGMENT_SENTENCES % u64::from(self.of) == u64::from(self.number - 1)
    }
}

fn bad_count_message() -> String {
    format!("a corpus is in 1 to {MAX_SHARDS} shards")
}

fn bad_number_message(number: impl fmt::Display, of: u32) -> String {
    format!("shard {number}/{of} is none of 1/{of} to {of}/{of}")
}

impl TryFrom<(u32, u32)> for Shard {
    type Error = String;

    fn try_from((number, of): (u32, u32)) -> Result<Self, String> {
        let of = Some(of).filter(|of| (1..=MAX_SHARDS).contains(of)).ok_or_else(bad_count_message)?;
        let shard = (1..=of).contains(&number).then_some(Self { number, of });
        shard.ok_or_else(|| bad_number_message(number, of))
    }
}

impl From<Shard> for (u32, u32) {
    fn from(shard: Shard) -> Self {
        (shard.number, shard.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let numbers = text.split_once('/').filter(|(number, of)| is_number(number) && is_number(of));
        let (number, of) = numbers.ok_or("expected I/N: shard I, counted from 1, of N")?;
        let of = Self::parse_count(of)?;
        Self::try_from((number.parse().map_err(|_| bad_number_message(shorten(number), of))?, of))
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
                assert_eq!(shards.iter().filter(|shard| shard.contains(sentence)).count(), 1, "sentence {sentence}");
            }
        }
        let second: Shard = "2/3".parse().unwrap();
        assert_eq!(
            [255, 256, 511, 512, 1024].map(|sentence| second.contains(sentence)),
            [false, true, true, false, true]
        );
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in ["1/0", "0/0", "1/65537", "1/4294967295", "1/99999999999"] {
            assert_eq!(text.parse::<Shard>().unwrap_err(), "a corpus is in 1 to 65536 shards", "{text}");
        }
        for text in ["0/2", "3/2", "99999999999/2"] {
            assert_eq!(text.parse::<Shard>().unwrap_err(), format!("shard {text} is none of 1/2 to 2/2"));
        }
        for text in ["", "1", "a/2", "1/2/3", "-1/2", "+1/2", "1/"] {
            let error = text.parse::<Shard>().unwrap_err();
            assert_eq!(error, "expected I/N: shard I, counted from 1, of N", "{text}");
        }
        assert_eq!("8/8".parse::<Shard>().unwrap().to_string(), "8/8");
    }
}
