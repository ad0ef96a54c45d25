//! Assigns tokens to words, by the byte ranges of both in the text.

use std::ops::Range;

use tokenizers::Encoding;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::sequences::span::WordSpan;

/// Assigns tokens to words; `words` has the byte range of each word in the encoded text, ascending. `None` for a word
/// without tokens.
///
/// A token belongs to the words that have visible characters in it, in shares by the number of these characters. A token
/// without visible characters is shared equally by the words that overlap it. The space before a word belongs to no word, even
/// inside the word's token. A token of space alone joins the token after it if the tokenizer cut both from one piece, as
/// sentencepiece cuts `▁` and `(`. Otherwise it belongs to no word.
pub(super) fn word_spans(encoding: &Encoding, text: &str, words: &[Range<usize>]) -> Vec<Option<WordSpan>> {
    let (special, pieces) = (encoding.get_special_tokens_mask(), encoding.get_word_ids());
    let mut spans: Vec<Option<WordSpan>> = vec![None; words.len()];
    let mut owners = Vec::new();
    // The last word that has a token. Earlier words get no more tokens, so words share tokens only at their ends.
    let mut last = 0;
    // The first of the preceding tokens that are white space alone.
    let mut first_blank: Option<usize> = None;
    for (token, &(start, end)) in encoding.get_offsets().iter().enumerate() {
        if special[token] == 1 {
            first_blank = None;
            continue;
        }
        find_owners(start..end, text, words, last, &mut owners);
        let [(first, share), ..] = owners[..] else {
            first_blank = first_blank.filter(|&blank| pieces[blank] == pieces[token]).or(Some(token));
            continue;
        };
        if let Some(blank) =
            first_blank.take().filter(|&blank| pieces[blank] == pieces[token] && spans[first].is_none())
        {
            spans[first] = Some(WordSpan { tokens: blank..token, first_share: 1.0, last_share: share });
        }
        for &(word, share) in &owners {
            let span =
                spans[word].get_or_insert(WordSpan { tokens: token..token, first_share: share, last_share: share });
            (span.tokens.end, span.last_share) = (token + 1, share);
            last = word;
        }
    }
    spans
}

/// Finds the words that overlap a token's byte range, from word number `from` on. Writes each with its share of the token
/// to `owners`.
fn find_owners(token: Range<usize>, text: &str, words: &[Range<usize>], from: usize, owners: &mut Vec<(usize, f64)>) {
    owners.clear();
    let first = from + words[from..].partition_point(|word| word.end <= token.start);
    let overlapping = words[first..].iter().take_while(|word| word.start < token.end);
    let overlapping = (first..).zip(overlapping).filter(|(_, word)| !word.is_empty());
    owners.extend(overlapping.map(|(word, _)| (word, 1.0)));
    if owners.len() < 2 {
        return;
    }
    for (word, share) in &mut *owners {
        let overlap = words[*word].start.max(token.start)..words[*word].end.min(token.end);
        *share = text.get(overlap).unwrap_or_default().chars().filter(|&c| is_visible(c)).count() as f64;
    }
    if owners.iter().any(|(_, count)| *count > 0.0) {
        owners.retain(|(_, count)| *count > 0.0);
    } else {
        owners.iter_mut().for_each(|(_, count)| *count = 1.0);
    }
    let total: f64 = owners.iter().map(|(_, count)| count).sum();
    owners.iter_mut().for_each(|(_, count)| *count /= total);
}

/// Whether a character is visible: no white space, and none that tokenizers may drop or treat as a space, such as U+200B or
/// the soft hyphen.
fn is_visible(c: char) -> bool {
    !c.is_whitespace()
        && !matches!(c, '\u{fe00}'..='\u{fe0f}')
        && !matches!(c.general_category(), GeneralCategory::Format | GeneralCategory::Control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The spans of words in a text whose tokens, between two special ones, have these places and are of these pieces.
    fn spans(text: &str, tokens: &[(Range<usize>, u32)], words: &[Range<usize>]) -> Vec<Option<WordSpan>> {
        let count = tokens.len() + 2;
        let around = |inner: Vec<(usize, usize)>| [vec![(0, 0)], inner, vec![(0, 0)]].concat();
        let special = [vec![1], vec![0; tokens.len()], vec![1]].concat();
        let encoding = Encoding::new(
            vec![0; count],
            vec![0; count],
            vec![String::new(); count],
            [vec![None], tokens.iter().map(|(_, piece)| Some(*piece)).collect(), vec![None]].concat(),
            around(tokens.iter().map(|(place, _)| (place.start, place.end)).collect()),
            special,
            vec![1; count],
            Vec::new(),
            std::iter::empty().collect(),
        );
        word_spans(&encoding, text, words)
    }

    fn whole(spans: &[Range<usize>]) -> Vec<Option<WordSpan>> {
        spans.iter().cloned().map(|span| Some(span.into())).collect()
    }

    #[test]
    fn the_space_before_a_word_is_of_none() {
        // "I go." as byte-level BPE cuts it: I, Ġgo, the stop.
        let words = [0..1, 2..4, 4..5];
        assert_eq!(spans("I go.", &[(0..1, 0), (1..4, 1), (4..5, 2)], &words), whole(&[1..2, 2..3, 3..4]));
        // A space that is a whole piece belongs to no word; a space that was cut from a word's piece belongs to that word.
        let words = [0..1, 3..4];
        assert_eq!(spans("I  (", &[(0..1, 0), (1..2, 1), (2..4, 2)], &words), whole(&[1..2, 3..4]));
        assert_eq!(spans("I  (", &[(0..1, 0), (1..2, 1), (2..3, 2), (3..4, 2)], &words), whole(&[1..2, 3..5]));
    }

    #[test]
    fn a_token_is_shared_by_characters() {
        // "didn't go" as did, n't, go by the tokens didn, 't, go: of didn three quarters are of did.
        let words = [0..3, 3..6, 7..9];
        let shared = |tokens, first, last| Some(WordSpan { tokens, first_share: first, last_share: last });
        let expected = [shared(1..2, 0.75, 0.75), shared(1..3, 0.25, 1.0), Some((3..4).into())];
        assert_eq!(spans("didn't go", &[(0..4, 0), (4..6, 0), (6..9, 1)], &words), expected);
        // One token for three words; one word is an accented letter of two bytes.
        let thirds = [0..1, 1..3, 3..4].map(|_| shared(1..2, 1.0 / 3.0, 1.0 / 3.0));
        assert_eq!(spans("aéb", &[(0..4, 0)], &[0..1, 1..3, 3..4]), thirds);
        // Without a space before the token it shares.
        let halves = [shared(1..2, 0.5, 0.5), shared(1..2, 0.5, 0.5)];
        assert_eq!(spans(" ab", &[(0..3, 0)], &[1..2, 2..3]), halves);
    }

    #[test]
    fn characters_that_are_not_seen_count_where_there_are_no_others() {
        // The word U+200B, first within the token of the next word, then as a separate token.
        let text = "a \u{200b} b";
        let words = [0..1, 2..5, 6..7];
        let found = spans(text, &[(0..1, 0), (1..7, 1)], &words);
        assert_eq!(found, [Some((1..2).into()), None, Some((2..3).into())]);
        assert_eq!(spans(text, &[(0..1, 0), (1..5, 1), (5..7, 2)], &words), whole(&[1..2, 2..3, 3..4]));
        assert_eq!(spans(text, &[(0..1, 0)], &words), [Some((1..2).into()), None, None]);
    }

    #[test]
    fn the_tokens_of_a_character_are_of_its_word() {
        // Three tokens of the bytes of one character, and a token of half of it and the next.
        assert_eq!(spans("👍x", &[(0..4, 0), (0..4, 0), (0..4, 0), (4..5, 0)], &[0..4, 4..5]), whole(&[1..4, 4..5]));
        let found = spans("👍x", &[(0..4, 0), (0..5, 0)], &[0..4, 4..5]);
        let shared = |tokens, first, last| Some(WordSpan { tokens, first_share: first, last_share: last });
        assert_eq!(found, [shared(1..3, 1.0, 0.5), shared(2..3, 0.5, 0.5)]);
        // Two tokens of characters that a normaliser made one: what words share stands at their ends.
        let found = spans("xy", &[(0..2, 0), (0..2, 0)], &[0..1, 1..2]);
        assert_eq!(found, [shared(1..2, 0.5, 0.5), shared(1..3, 0.5, 1.0)]);
    }

    proptest! {
        /// Shares of each token sum to 1 or 0, whatever the tokenizer says.
        #[test]
        fn shares_of_a_token_sum_to_one(
            text in "[a é\u{200b}👍]{0,8}",
            cuts in prop::collection::vec((0..20_usize, 0..20_usize), 0..6),
            tokens in prop::collection::vec((0..20_usize, 0..20_usize, 0..3_u32), 0..8),
        ) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let at = |place: usize| places[place % places.len()];
            let mut ends: Vec<usize> = cuts.iter().flat_map(|&(a, b)| [at(a), at(b)]).collect();
            ends.sort_unstable();
            let words: Vec<Range<usize>> = ends.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
            let tokens: Vec<_> = tokens.iter().map(|&(a, b, piece)| (at(a).min(at(b))..at(a).max(at(b)), piece)).collect();
            let spans: Vec<WordSpan> = spans(&text, &tokens, &words).into_iter().flatten().collect();
            for token in 0..tokens.len() + 2 {
                let shares = spans.iter().flat_map(WordSpan::shares).filter(|(of, _)| *of == token);
                let sum: f64 = shares.map(|(_, share)| share).sum();
                prop_assert!(sum == 0.0 || (sum - 1.0).abs() < 1e-12, "{token}: {sum} in {spans:?}");
            }
            prop_assert!(spans.windows(2).all(|pair| pair[0].end() <= pair[1].end() && pair[0].start() <= pair[1].start()));
        }
    }
}
