use super::*;
use crate::corpus::SEGMENT_SENTENCES;
use crate::sequences::sequence::TokenKind::{FirstSpecial, Separator, Text};

/// `[CLS]` of id 1, `tokens` tokens of the sentence's own number, `[SEP]` of id 2; documents end with their segment.
fn sentence(index: u64, tokens: usize) -> Sequence {
    let text = std::iter::repeat_n(u32::try_from(index).unwrap() + 10, tokens);
    let ids: Vec<u32> = [1].into_iter().chain(text).chain([2]).collect();
    let kinds = [FirstSpecial].into_iter().chain(std::iter::repeat_n(Text, tokens)).chain([Separator]).collect();
    let document = index / SEGMENT_SENTENCES * SEGMENT_SENTENCES;
    Sequence { index, document, segments: vec![0; ids.len()], ids, kinds, ..Sequence::default() }
}

fn pairs(lengths: &[(u64, usize)]) -> (Vec<Sequence>, u64) {
    let sentences = lengths.iter().map(|&(index, tokens)| Ok(sentence(index, tokens)));
    let mut pairs = PairPacker::new(sentences, MAX_PAIR_TOKENS);
    let packed = pairs.by_ref().map(Result::unwrap).collect();
    (packed, pairs.left_out)
}

#[test]
fn sentences_are_taken_until_a_sequence_is_full() {
    // 60 + 60 < 125, so the third is taken too; the fourth and fifth are the next sequence, at the document's end.
    let (packed, dropped) = pairs(&[(0, 60), (1, 60), (2, 60), (3, 7), (4, 8)]);
    assert_eq!(dropped, 0);
    assert_eq!(packed.len(), 2);
    assert_eq!(packed[0].ids.len(), MAX_PAIR_TOKENS);
    let ids = [vec![1], vec![13; 7], vec![2], vec![14; 8], vec![2]].concat();
    assert_eq!((&packed[1].ids, packed[1].segments.len()), (&ids, ids.len()));
    assert_eq!(packed[1].kinds.iter().filter(|&&kind| kind == Separator).count(), 2);
}

#[test]
fn the_longer_segment_loses_tokens_at_random_ends() {
    let orders: std::collections::BTreeSet<Vec<u32>> = (0..20)
        .map(|index| pairs(&[(2 * index, 100), (2 * index + 1, 30)]).0.remove(0))
        .map(|pair| {
            assert_eq!(pair.ids.len(), MAX_PAIR_TOKENS);
            // 130 - 125 tokens are lost, all of the longer segment.
            assert_eq!(pair.ids.iter().filter(|&&id| id == pair.ids[1]).count(), 95);
            pair.ids
        })
        .collect();
    assert_eq!(orders.len(), 20);
}

#[test]
fn a_chunk_of_one_sentence_gives_up_its_document() {
    // 1 is a chunk by itself: the rest of the document goes, up to sentence 255.
    let (packed, dropped) = pairs(&[(1, 130), (2, 10), (3, 10), (256, 10), (257, 10)]);
    assert_eq!((packed.len(), dropped), (1, 3));
    assert_eq!(packed[0].index, 256);
    // A last sentence alone is left out.
    assert_eq!(pairs(&[(0, 70), (1, 70), (2, 10)]).1, 1);
    assert_eq!(pairs(&[]), (vec![], 0));
}

#[test]
fn the_packing_depends_on_the_sentences_alone() {
    let sentences: Vec<(u64, usize)> =
        (0..300).map(|index| (index, 3 + usize::try_from(index * 7 % 40).unwrap())).collect();
    let (early, late) = sentences.split_at(256);
    assert_eq!(pairs(&sentences).0, [pairs(early).0, pairs(late).0].concat());
}

#[test]
fn no_pair_reaches_over_the_end_of_a_document() {
    // Documents of two, one and three sentences, all of which one sequence would hold.
    let documents = [(0, 0), (1, 0), (2, 2), (3, 3), (4, 3), (5, 3)];
    let sentences = documents.map(|(index, document)| Ok(Sequence { document, ..sentence(index, 10) }));
    let mut pairs = PairPacker::new(sentences.into_iter(), MAX_PAIR_TOKENS);
    let packed: Vec<Sequence> = pairs.by_ref().map(Result::unwrap).collect();
    assert_eq!(
        packed.iter().map(|pair| (pair.index, pair.document, pair.ids.len())).collect::<Vec<_>>(),
        [(0, 0, 23), (3, 3, 33),]
    );
    // The one alone.
    assert_eq!(pairs.left_out, 1);
}
