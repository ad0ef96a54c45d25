use anyhow::anyhow;
use proptest::prelude::*;

use super::*;
use crate::corpus::SEGMENT_SENTENCES;
use crate::corpus::TreeHead;
use crate::corpus::{Annotation, SentenceGroup};
use crate::sequences::span::WordSpan;
use crate::sequences::test_support;

/// A sentence of this many words, each of one token with its own id, between `[CLS]` 1 and `[SEP]` 2.
fn sentence(index: u64, words: usize) -> Sequence {
    let mut sentence = test_support::sentence(index, words, "dep");
    let id = |token: usize| u32::try_from(index * 100).unwrap() + u32::try_from(token).unwrap() + 10;
    sentence.ids = (0..words + 2).map(|token| if token == 0 { 1 } else { id(token) }).collect();
    sentence.ids[words + 1] = 2;
    sentence.annotations = vec![Annotation { lemma: Some(index.to_string().into()), ..Annotation::default() }; words];
    sentence.document = index / SEGMENT_SENTENCES * SEGMENT_SENTENCES;
    sentence
}

fn windows(sentences: impl IntoIterator<Item = Sequence>, max_tokens: usize) -> Vec<Sequence> {
    Windows::new(sentences.into_iter().map(Ok), max_tokens).map(Result::unwrap).collect()
}

#[test]
fn a_window_is_its_sentences_with_words_arcs_and_annotations() {
    let [window] = &windows([sentence(4, 2), sentence(5, 1), sentence(6, 3)], 8)[..] else { panic!("one window") };
    assert_eq!(window.ids, [1, 411, 412, 511, 611, 612, 613, 2]);
    assert_eq!(window.words, [1..2, 2..3, 3..4, 4..5, 5..6, 6..7]);
    assert_eq!((window.index, window.family, window.segments.len()), (4, SentenceGroup::new(4), 8));
    let special: Vec<bool> = window.kinds.iter().map(|kind| kind.is_special()).collect();
    assert_eq!(special, [true, false, false, false, false, false, false, true]);
    // Each word's head is the one before it in its sentence.
    use TreeHead::{Root, Word};
    let heads: Vec<TreeHead> = window.tree.as_ref().unwrap().iter().map(|arc| arc.head).collect();
    assert_eq!(heads, [Root, Word(0), Root, Root, Word(3), Word(4)]);
    let lemmas: Vec<&str> = window.annotations.iter().filter_map(|annotation| annotation.lemma.as_deref()).collect();
    assert_eq!(lemmas, ["4", "4", "5", "6", "6", "6"]);
}

/// Two documents, of the sentences 0 to 3 and 4 to 5, of 3, 2, 4, 1 and 2, 2 words, read in windows of at most 8 tokens, two of
/// which are special: 3 + 2 words fit and 4 more do not; 4 + 1 fit; the second document begins a window.
#[test]
fn two_documents_by_hand() {
    let words = [3, 2, 4, 1, 2, 2];
    let sentences = (0..).zip(words).map(|(index, words)| {
        let document = if index < 4 { 0 } else { 4 };
        Sequence { document, ..sentence(index, words) }
    });
    let found = windows(sentences, 8);
    let shape = |window: &Sequence| (window.index, window.ids.len(), window.sentence_count());
    assert_eq!(found.iter().map(shape).collect::<Vec<_>>(), [(0, 7, 2), (2, 7, 2), (4, 6, 2)]);
    assert_eq!(found[1].texts, [1..5, 5..6]);
    assert_eq!(found[1].words_by_sentence(), [0..4, 4..5]);
    assert_eq!(found[1].text_positions_by_sentence(), [vec![1, 2, 3, 4], vec![5]]);
    // Each word's head is sought in its own sentence.
    assert_eq!(found[1].syntactic_head_candidates(), [0..4, 0..4, 0..4, 0..4, 4..5]);
    // Without a special token in front a decoder begins with a word, which counts nowhere.
    let mut bare = found[1].clone().with_decoder_first_token();
    (bare.ids, bare.kinds) = (bare.ids.split_off(1), [vec![TokenKind::First], vec![TokenKind::Text; 5]].concat());
    bare.words = WordSpan::whole_words((0..5).map(|word| word..word + 1));
    bare.texts = vec![0..4, 4..5];
    assert_eq!(bare.counted_words_by_sentence(), [1..4, 4..5]);
    assert_eq!(bare.text_positions_by_sentence(), [vec![1, 2, 3], vec![4]]);
}

#[test]
fn a_sentence_that_does_not_fit_begins_the_next_window() {
    let found = windows([sentence(0, 3), sentence(1, 3), sentence(2, 4), sentence(3, 1)], 8);
    assert_eq!(found.iter().map(|window| (window.index, window.ids.len())).collect::<Vec<_>>(), [(0, 8), (2, 7)]);
}

#[test]
fn a_window_ends_where_the_text_does() {
    let first = |sentences: [Sequence; 2]| windows(sentences, 99)[0].words.len();
    let [one, two] = [sentence(0, 3), sentence(1, 2)];
    assert_eq!(first([one.clone(), two.clone()]), 5);
    // Another document, a sentence left out between them, other fields, no tree; and the end of a segment.
    assert_eq!(first([one.clone(), Sequence { document: 1, ..two.clone() }]), 3);
    assert_eq!(first([one.clone(), sentence(2, 2)]), 3);
    assert_eq!(first([one.clone(), Sequence { entity_fields: Some("eid-head".into()), ..two.clone() }]), 3);
    assert_eq!(first([one, Sequence { tree: None, ..two }]), 3);
    assert_eq!(first([sentence(255, 3), sentence(256, 2)]), 3);
}

#[test]
fn a_window_counts_as_evidence_if_a_sentence_of_it_does() {
    let again = |index: u64| Sequence { family: SentenceGroup { number: 1, is_first: false }, ..sentence(index, 1) };
    let is_first = |sentences: [Sequence; 2]| windows(sentences, 9)[0].family;
    assert_eq!(is_first([again(4), sentence(5, 1)]), SentenceGroup { number: 1, is_first: true });
    assert_eq!(is_first([again(4), again(5)]), SentenceGroup { number: 1, is_first: false });
}

#[test]
fn an_error_ends_a_window_and_comes_after_it() {
    let sentences = [Ok(sentence(0, 1)), Err(anyhow!("broken"))];
    let mut windows = Windows::new(sentences.into_iter(), 9);
    assert_eq!(windows.next().unwrap().unwrap().words.len(), 1);
    assert!(windows.next().unwrap().is_err() && windows.next().is_none());
}

proptest! {
    /// Every sentence is in one window, in order, no window is too long, and none could take the next sentence.
    #[test]
    fn windows_are_full_and_lose_nothing(lengths in prop::collection::vec(1..9_usize, 1..40)) {
        let sentences: Vec<Sequence> = (0..).zip(&lengths).map(|(index, &words)| sentence(index, words)).collect();
        let found = windows(sentences.clone(), 12);
        let text = |sequences: &[Sequence]| -> Vec<u32> {
            sequences.iter().flat_map(|sequence| sequence.ids[super::text_range(sequence)].to_vec()).collect()
        };
        prop_assert_eq!(text(&found), text(&sentences));
        for pair in found.windows(2) {
            let next = lengths[usize::try_from(pair[1].index).unwrap()];
            prop_assert!(pair[0].ids.len() <= 12 && pair[0].ids.len() + next > 12);
        }
        for window in &found {
            prop_assert_eq!(window.words.len(), window.tree.as_ref().unwrap().len());
            prop_assert_eq!(window.words.len(), window.annotations.len());
        }
        let (early, late) = sentences.split_at(usize::try_from(found.last().unwrap().index).unwrap());
        prop_assert_eq!(found, [windows(early.to_vec(), 12), windows(late.to_vec(), 12)].concat());
    }
}

/// A window that begins with a sentence of an earlier document is in the block of its own.
#[test]
fn a_window_is_in_the_block_of_its_document() {
    let family = SentenceGroup { number: 1, is_first: false };
    let again = Sequence { family, document_number: Some(7), ..sentence(4, 1) };
    assert_eq!(windows([again.clone(), sentence(5, 1)], 9)[0].family.number, 7);
    assert_eq!(windows([Sequence { document_number: None, ..again }, sentence(5, 1)], 9)[0].family.number, 1);
}
