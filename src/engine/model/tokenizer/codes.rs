//! Byte-pair encoding within words, in the format of fastBPE and subword-nmt (Sennrich et al. 2016). Each line of `bpe.codes` has
//! a merge of two symbols and its count. Each line of `vocab.txt` has a piece and its count.
//! Every piece of a word except the last ends in `@@`; in merges, the last symbol of a word ends in `</w>`.

use std::collections::HashMap;

use anyhow::{Context, Result};
use itertools::{Itertools, Position};
use tokenizers::models::bpe::Vocab;

use crate::system::errors::ErrorExt;

/// Suffix of every piece of a word except the last.
pub(super) const CONTINUATION_MARK: &str = "@@";

/// Suffix of the last symbol of a word in `bpe.codes`.
const WORD_END: &str = "</w>";

/// Special tokens, which `vocab.txt` does not list. Their ids precede the ids of its pieces (fairseq's dictionary).
pub(super) const LEADING_SPECIAL_TOKENS: [&str; 4] = ["<s>", "<pad>", "</s>", "<unk>"];

/// The merges of `bpe.codes` with their ranks; the pair with the lowest rank is merged first.
#[derive(Debug, Default)]
pub(super) struct BpeCodes(HashMap<(String, String), usize>);

impl BpeCodes {
    /// Parses `bpe.codes`. Fails if a line has fewer than two symbols.
    pub fn parse(text: &str) -> Result<Self> {
        let mut ranks = HashMap::new();
        for (rank, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with("#version")) {
            let pair = line.split_whitespace().map(str::to_owned).next_tuple();
            let pair: (String, String) =
                pair.with_context(|| format!("line {} has no pair of symbols", rank + 1)).with_line(rank as u64 + 1)?;
            ranks.entry(pair).or_insert(rank);
        }
        Ok(Self(ranks))
    }

    /// Cuts a word into pieces; all pieces but the last end in [`CONTINUATION_MARK`].
    pub fn split_word(&self, word: &str) -> Vec<String> {
        let mut symbols: Vec<String> = word.chars().map(String::from).collect();
        let Some(last) = symbols.last_mut() else { return symbols };
        last.push_str(WORD_END);
        while let Some(pair) = self.next_merge(&symbols) {
            let mut merged: Vec<String> = Vec::with_capacity(symbols.len());
            let mut rest = symbols.into_iter().peekable();
            while let Some(mut symbol) = rest.next() {
                if symbol == pair.0 && rest.peek() == Some(&pair.1) {
                    symbol += &pair.1;
                    rest.next();
                }
                merged.push(symbol);
            }
            symbols = merged;
        }
        let piece = |(position, symbol): (Position, String)| match position {
            Position::First | Position::Middle => symbol + CONTINUATION_MARK,
            Position::Last | Position::Only => symbol.strip_suffix(WORD_END).unwrap_or(&symbol).to_owned(),
        };
        symbols.into_iter().with_position().map(piece).collect()
    }

    /// Finds the adjacent pair of symbols that is merged next: the pair with the lowest rank. `None` if no pair can be merged.
    fn next_merge(&self, symbols: &[String]) -> Option<(String, String)> {
        let pairs = symbols.iter().cloned().tuple_windows();
        pairs.filter_map(|pair| Some((*self.0.get(&pair)?, pair))).min_by_key(|(rank, _)| *rank).map(|(_, pair)| pair)
    }
}

/// Maps the special tokens, then the pieces of `vocab.txt`, to their ids. Counts are ignored, as in transformers.
pub(super) fn parse_vocabulary(text: &str) -> Vocab {
    let pieces = text.lines().map(|line| line.trim().rsplit_once(' ').map_or(line.trim(), |(piece, _)| piece));
    LEADING_SPECIAL_TOKENS.into_iter().chain(pieces).map(str::to_owned).zip(0..).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_by_the_merges_in_order() {
        let codes = BpeCodes::parse("n g</w> 9\nh o 7\nn h 5\nnh o 4\n").unwrap();
        let cut = |word: &str| codes.split_word(word).join(" ");
        // `ho` comes before `nh`, so `nho` is never made of them.
        assert_eq!(cut("nhong"), "n@@ ho@@ ng");
        assert_eq!(cut("nh"), "n@@ h");
        assert_eq!(cut("ngng"), "n@@ g@@ ng");
        assert_eq!([cut("a"), cut("")], ["a", ""]);
        insta::assert_snapshot!(BpeCodes::parse("a b 1\nc\n").unwrap_err(), @"line 2 has no pair of symbols");
    }

    #[test]
    fn pieces_follow_the_special_tokens() {
        let ids = parse_vocabulary("nho@@ 12\nng 7\n");
        assert_eq!((ids["<s>"], ids["<unk>"], ids["nho@@"], ids["ng"]), (0, 3, 4, 5));
    }
}
