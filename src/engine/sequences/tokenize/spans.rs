//! Which tokens each word of a text has, by the places of both in the text.

use std::ops::Range;

use tokenizers::Encoding;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::sequences::span::WordSpan;

/// The tokens of each of `words`, ranges of bytes of the text that was encoded, ascending; `None` for a word without any.
///
/// A token is of the words that have a character in it, in shares by the number of these; characters that are not seen
/// count only where there are no others. The space before a word is of none, even as a part of the word's token. A token
/// of nothing but that space goes with the token after it, if the tokenizer cut both from one piece, as sentencepiece cuts
/// `▁` and `(`; else it is of no word.
pub(super) fn word_spans(encoding: &Encoding, text: &str, words: &[Range<usize>]) -> Vec<Option<WordSpan>> {
    let (special, pieces) = (encoding.get_special_tokens_mask(), encoding.get_word_ids());
    let mut spans: Vec<Option<WordSpan>> = vec![None; words.len()];
    let mut owners = Vec::new();
    // The last word that has a token: none before it has another, so words share tokens at their ends alone.
    let mut last = 0;
    let mut blanks: Option<usize> = None;
    for (token, &(start, end)) in encoding.get_offsets().iter().enumerate() {
        if special[token] == 1 {
            blanks = None;
            continue;
        }
        owners_of(start..end, text, words, last, &mut owners);
        let [(first, share), ..] = owners[..] else {
            blanks = blanks.filter(|&blank| pieces[blank] == pieces[token]).or(Some(token));
            continue;
        };
        if let Some(blank) = blanks.take().filter(|&blank| pieces[blank] == pieces[token] && spans[first].is_none()) {
            spans[first] = Some(WordSpan { tokens: blank..token, first: 1.0, last: share });
        }
        for &(word, share) in &owners {
            let span = spans[word].get_or_insert(WordSpan { tokens: token..token, first: share, last: share });
            (span.tokens.end, span.last) = (token + 1, share);
            last = word;
        }
    }
    spans
}

/// The words from `from` on that have a part of a token, which has these bytes of the text, each with its share.
fn owners_of(token: Range<usize>, text: &str, words: &[Range<usize>], from: usize, owners: &mut Vec<(usize, f64)>) {
    owners.clear();
    let first = from + words[from..].partition_point(|word| word.end <= token.start);
    let own = words[first..].iter().take_while(|word| word.start < token.end);
    let own = own.enumerate().filter(|(_, word)| !word.is_empty());
    owners.extend(own.map(|(place, _)| (first + place, 1.0)));
    if owners.len() < 2 {
        return;
    }
    for (word, share) in &mut *owners {
        let both = words[*word].start.max(token.start)..words[*word].end.min(token.end);
        *share = text.get(both).unwrap_or_default().chars().filter(|&c| is_seen(c)).count() as f64;
    }
    if owners.iter().any(|(_, seen)| *seen > 0.0) {
        owners.retain(|(_, seen)| *seen > 0.0);
    } else {
        owners.iter_mut().for_each(|(_, seen)| *seen = 1.0);
    }
    let all: f64 = owners.iter().map(|(_, seen)| seen).sum();
    owners.iter_mut().for_each(|(_, seen)| *seen /= all);
}

/// Whether a character is seen: no white space, and none of those that a tokenizer may drop or take for white space, such
/// as U+200B, the soft hyphen and variation selectors.
fn is_seen(c: char) -> bool {
    !c.is_whitespace()
        && !matches!(c, '\u{fe00}'..='\u{fe0f}')
        && !matches!(c.general_category(), GeneralCategory::Format | GeneralCategory::Control)
}
