use super::*;
use crate::corpus::{Annotation, Upos};
use crate::sequences::sequence::{GoldArc, TokenKind};
use crate::sequences::span::WordSpan;

/// A sequence of this many tokens, with a word for each of these: whether its head and its part of speech are known.
fn sequence(tokens: usize, words: &[(bool, bool)]) -> Sequence {
    let head = |known| if known { TreeHead::Root } else { TreeHead::Unknown };
    let arc = |&(known, _): &(bool, bool)| GoldArc { head: head(known), relation: "dep".to_owned() };
    let annotation =
        |&(_, tagged): &(bool, bool)| Annotation { upos: tagged.then_some(Upos::Noun), ..Annotation::default() };
    Sequence {
        ids: vec![0; tokens],
        kinds: [vec![TokenKind::FirstSpecial], vec![TokenKind::Text; tokens - 1]].concat(),
        words: WordSpan::whole_words((0..words.len()).map(|word| word..word + 1)),
        tree: Some(words.iter().map(arc).collect()),
        annotations: words.iter().map(annotation).collect(),
        forms: vec!["word".to_owned(); words.len()],
        ..Sequence::default()
    }
}

fn tally() -> Tally {
    let mut tally = Tally::default();
    let nothing = LeftOutWords::default();
    tally.count_sequence(0, &sequence(5, &[(true, true); 3]), (true, None), &nothing);
    tally.count_sequence(2, &sequence(7, &[(true, false), (false, true)]), (true, Some(1)), &nothing);
    // Two tokens of text, the second of them unknown; the special token is no text, whatever its id.
    let kinds = vec![TokenKind::FirstSpecial, TokenKind::Text, TokenKind::Punctuation, TokenKind::Separator];
    let text =
        Sequence { ids: vec![1, 0, 1, 1], kinds, words: WordSpan::whole_words([1..2, 2..3]), ..Sequence::default() };
    tally.count_sequence(2, &text, (true, Some(1)), &nothing);
    tally.count_skip(2, SkipReason::NoTokens);
    tally.count_skip(0, SkipReason::TooManyTokens);
    tally.count_skip(0, SkipReason::TooManyTokens);
    tally.truncated = 1;
    tally.passed_over = 3;
    tally
}

fn legibility(letters: u64, foreign: &[(&str, u64)]) -> Legibility {
    let foreign = foreign.iter().map(|&(script, letters)| (script.to_owned(), letters)).collect();
    Legibility { letters, foreign, ..Legibility::default() }
}

fn file(sentences: u64, tokens: u64, words: u64, skipped: u64) -> FileTally {
    FileTally { sentences, tokens, words, skipped }
}

#[test]
fn sentences_are_counted_by_file_and_reason() {
    let expected = Tally {
        sentences: 3,
        tokens: 16,
        text_tokens: 12,
        unknown: 1,
        words: 7,
        longest: 7,
        skipped: [(SkipReason::TooManyTokens, 2), (SkipReason::NoTokens, 1)].into(),
        left_out: LeftOutWords::default(),
        shared_tokens: 0,
        legibility: Legibility::default(),
        truncated: 1,
        // Running text has no words that could be annotated.
        unannotated: 1,
        untagged: 1,
        passed_over: 3,
        windows: WindowTally::default(),
        files: vec![file(1, 5, 3, 2), file(0, 0, 0, 0), file(2, 11, 4, 1)],
    };
    assert_eq!(tally(), expected);
}

#[test]
fn merging_loses_no_count() {
    let mut other = Tally::default();
    other.count_sequence(3, &sequence(9, &[(false, false)]), (true, Some(0)), &LeftOutWords::default());
    // A word is left out, and so is the head of another; and the two words that are left share a token.
    let mut sharing = sequence(2, &[(true, true), (false, true)]);
    sharing.words = WordSpan::whole_words([1..2, 1..2]);
    let mut left_out = LeftOutWords { heads: 1, ..LeftOutWords::default() };
    left_out.add(WordSkip::NoTokens);
    other.count_sequence(0, &sharing, (true, None), &left_out);
    other.count_skip(1, SkipReason::WordWithoutTokens);
    other.count_skip(1, SkipReason::NoTokens);
    other.truncated = 4;
    other.legibility = legibility(3, &[("Greek", 1), ("Han", 1)]);
    other.passed_over = 2;
    let expected = Tally {
        sentences: 5,
        tokens: 27,
        text_tokens: 21,
        unknown: 9,
        words: 10,
        longest: 9,
        skipped: [(SkipReason::TooManyTokens, 2), (SkipReason::WordWithoutTokens, 1), (SkipReason::NoTokens, 2)].into(),
        left_out: LeftOutWords { skipped: [(WordSkip::NoTokens, 1)].into(), heads: 1, unread: None },
        shared_tokens: 1,
        legibility: legibility(5, &[("Greek", 3), ("Han", 1)]),
        truncated: 5,
        unannotated: 2,
        untagged: 2,
        passed_over: 2,
        windows: WindowTally::default(),
        files: vec![file(2, 7, 5, 2), file(0, 0, 0, 2), file(2, 11, 4, 1), file(1, 9, 1, 0)],
    };
    let mut merged = tally();
    merged.legibility = legibility(2, &[("Greek", 2)]);
    merged.merge(&other);
    assert_eq!(merged, expected);
    other.merge(&Tally { legibility: legibility(2, &[("Greek", 2)]), ..tally() });
    assert_eq!(other, expected);
}
