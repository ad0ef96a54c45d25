//! Token counts of a corpus, and the rank and commonness of each token.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};

use super::sequence::Sequence;
use crate::model::tokenizer::ModelTokenizer;
use crate::stats::blocks::Merge;
use crate::system::errors::ErrorExt;
use crate::system::files::digest::hex;
use crate::system::files::input;
use crate::system::json::{UniqueKeys, describe_error};
use sha2::{Digest, Sha256};

/// Maximum size of a file of counts, 64 MiB: some hundred bytes for each of 500,000 tokens.
const MAX_COUNTS_BYTES: u64 = 64 << 20;

/// Number of occurrences of each token id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenCounter(BTreeMap<u32, u64>);

impl TokenCounter {
    pub fn add(&mut self, sequence: &Sequence) {
        sequence.text_tokens().for_each(|token| *self.0.entry(token.id).or_default() += 1);
    }

    pub fn merge(&mut self, others: &Self) {
        Merge::merge(&mut self.0, &others.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Formats the counts as a JSON object from token to count. Fails if an id has no token in the vocabulary.
    pub fn to_json(&self, tokenizer: &ModelTokenizer) -> Result<String> {
        let named = self.0.iter().map(|(&id, count)| {
            let token = tokenizer.token(id).ok_or_else(|| anyhow!("no token of the vocabulary has the id {id}"))?;
            Ok((token, *count))
        });
        let named: BTreeMap<String, u64> = named.collect::<Result<_>>()?;
        Ok(serde_json::to_string_pretty(&named)? + "\n")
    }

    /// Reads a file that [`TokenCounter::to_json`] made, and returns its SHA-256 too. Fails on any other file, or on a
    /// token that the vocabulary lacks.
    pub fn read(path: &Path, tokenizer: &ModelTokenizer) -> Result<(Self, String)> {
        let file = path.display();
        let text = input::read_to_string(path, MAX_COUNTS_BYTES).cannot("read the counts", &file)?;
        let counts = Self::parse(&text, path, tokenizer).with_file(&file)?;
        Ok((counts, hex(&Sha256::digest(text.as_bytes()))))
    }

    fn parse(text: &str, path: &Path, tokenizer: &ModelTokenizer) -> Result<Self> {
        let file = path.display();
        let named: UniqueKeys<u64> = serde_json::from_str(text).map_err(|error| {
            anyhow!("the counts `{file}` are no JSON object from tokens to whole numbers: {}", describe_error(&error))
                .with_line(error.line() as u64)
        })?;
        let mut counts = BTreeMap::new();
        let mut sum = 0_u64;
        for (token, count) in named.0 {
            let shown = token.escape_debug();
            let id = tokenizer.id(&token).with_context(|| {
                format!("the counts `{file}` have the token `{shown}`, which is not in the model's vocabulary")
            });
            let id = id.with_value(&token).hint("`headscope counts` writes the counts of a model's own tokens")?;
            sum = sum.checked_add(count).with_context(|| format!("the counts `{file}` add up to more than 2^64"))?;
            counts.insert(id, count);
        }
        ensure!(sum > 0, "the counts `{file}` count nothing");
        Ok(Self(counts))
    }

    /// Computes ranks and commonness from the counts.
    pub fn finish(&self) -> TokenCounts {
        let mut by_count: BTreeMap<u64, u64> = BTreeMap::new();
        for &count in self.0.values().filter(|count| **count > 0) {
            *by_count.entry(count).or_default() += 1;
        }
        let total: u64 = by_count.iter().map(|(count, types)| count * types).sum();
        // From the rarest token up: the occurrences of rarer tokens, and the number of types left.
        let (mut rarer, mut types_left) = (0, by_count.values().sum::<u64>());
        let absent = Frequency { count: 0, rank: types_left + 1, commonness: 0.0 };
        let mut frequencies = BTreeMap::from([(0, absent)]);
        for (&count, &types) in &by_count {
            types_left -= types;
            let commonness = (rarer as f64 + (count * types) as f64 / 2.0) / total as f64;
            frequencies.insert(count, Frequency { count, rank: types_left + 1, commonness });
            rarer += count * types;
        }
        let tokens = self.0.iter().map(|(&id, count)| (id, frequencies[count])).collect();
        TokenCounts { frequencies: tokens, absent }
    }
}

/// Frequency of a token in a corpus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    /// Number of occurrences of the token.
    pub count: u64,
    /// Frequency rank of the token: one more than the number of more frequent tokens.
    pub rank: u64,
    /// Share of all occurrences that belong to rarer tokens, plus half the share that belongs to equally frequent tokens,
    /// this token included; from 0 to 1.
    pub commonness: f64,
}

/// Distribution of token ids, from which tokens are drawn in proportion to their counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unigrams {
    /// Cumulative count and id of each token that occurs, ascending by id.
    cumulative_counts: Vec<(u64, u32)>,
}

impl Unigrams {
    /// Takes pairs of token id and count, ascending by id. Panics if no token occurs.
    pub fn new(counts: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let mut total = 0;
        let cumulative = |(id, count): (u32, u64)| {
            total += count;
            (total, id)
        };
        let tokens: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).map(cumulative).collect();
        assert!(!tokens.is_empty(), "tokens that occur");
        Self { cumulative_counts: tokens }
    }

    /// Token at place `number` in the list of all occurrences, sorted by token id; `number` is taken modulo the number of
    /// occurrences.
    pub fn token_at(&self, number: u64) -> u32 {
        let total = self.cumulative_counts[self.cumulative_counts.len() - 1].0;
        let index = self.cumulative_counts.partition_point(|(cumulative, _)| *cumulative <= number % total);
        self.cumulative_counts[index].1
    }
}

/// Frequency of each token of a corpus.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenCounts {
    /// Frequency of each token that the corpus has, by token id.
    frequencies: BTreeMap<u32, Frequency>,
    /// Frequency of a token that the corpus does not have.
    absent: Frequency,
}

impl TokenCounts {
    /// Frequency of the token with this id.
    pub fn get(&self, id: u32) -> Frequency {
        self.frequencies.get(&id).copied().unwrap_or(self.absent)
    }

    /// Distribution of the counted tokens; `None` if nothing was counted.
    pub fn unigrams(&self) -> Option<Unigrams> {
        let counts = || self.frequencies.iter().map(|(&id, frequency)| (id, frequency.count));
        counts().any(|(_, count)| count > 0).then(|| Unigrams::new(counts()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::sequence::TokenKind::{FirstSpecial, Punctuation, Text};
    use crate::sequences::test_support::sequence;

    #[test]
    fn ranks_and_commonness_by_hand() {
        let mut counting = TokenCounter::default();
        // 7 five times, 8 and 9 twice, 10 once; the special token is not counted.
        let ids = [0, 7, 7, 7, 7, 7, 8, 8, 9, 9, 10];
        let mut kinds = vec![Text; ids.len()];
        (kinds[0], kinds[1]) = (FirstSpecial, Punctuation);
        counting.add(&Sequence { ids: ids.to_vec(), ..sequence(&kinds) });
        let counts = counting.finish();
        let of = |id: u32| (counts.get(id).count, counts.get(id).rank, counts.get(id).commonness);
        assert_eq!(of(7), (5, 1, 0.75));
        assert_eq!([of(8), of(9)], [(2, 2, 0.3); 2]);
        assert_eq!(of(10), (1, 4, 0.05));
        // A token that is not there, and the special one.
        assert_eq!([of(11), of(0)], [(0, 5, 0.0); 2]);
    }
}
