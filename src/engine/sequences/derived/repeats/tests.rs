use super::*;

/// `first special, r_1 .. r_3, filler, r_1 .. r_3, last special`, with the tokens of the text numbered from 10.
fn sequence(number: usize) -> (Sequence, DrawnLengths) {
    let draw = DrawnLengths { sequence_number: number, copy_length: 3, filler_length: 1 };
    (with_two_copies(&Frame::bert_for_tests(1), &draw, &[10, 11, 12, 13]), draw)
}

#[test]
fn two_copies_in_a_frame() {
    let (sequence, _) = sequence(7);
    assert_eq!(sequence.ids, [1, 10, 11, 12, 13, 10, 11, 12, 2]);
    assert_eq!(
        (sequence.index, sequence.kinds[0], sequence.kinds[8]),
        (7, TokenKind::FirstSpecial, TokenKind::Separator)
    );
    assert_eq!(sequence.words, (1..8).map(|token| token..token + 1).collect::<Vec<_>>());
    let copies = Copies::find(&sequence).unwrap();
    assert_eq!(copies, Copies { text: 1..8, copy_length: 3, copy_distance: 4, masked_token: None });
    assert_eq!((0..9).filter_map(|token| copies.copy_of_token(token)).collect::<Vec<_>>(), [0, 0, 1, 1]);
    assert_eq!([2, 3, 6, 7].map(|token| copies.copy_of_token(token)), [Some(0), Some(0), Some(1), Some(1)]);
    assert_eq!(copies.equal_token_pairs().collect::<Vec<_>>(), [(1, 5), (2, 6), (3, 7), (5, 1), (6, 2), (7, 3)]);
}

#[test]
fn one_mask_at_a_time_in_the_second_copy() {
    let (sequence, draw) = sequence(0);
    let variants = masked_variants(&sequence, 9, &draw);
    let mut places: Vec<usize> =
        variants.iter().map(|variant| Copies::find(variant).unwrap().masked_token.unwrap()).collect();
    assert!(variants.iter().all(|variant| variant.ids.iter().filter(|&&id| id == 9).count() == 1));
    places.sort_unstable();
    assert_eq!(places, [5, 6, 7]);
}

#[test]
fn copies_are_found_among_few_tokens() {
    // The first token of a copy comes again in it, and in the filler.
    let draw = DrawnLengths { sequence_number: 0, copy_length: 5, filler_length: 2 };
    let tokens = [10, 11, 10, 10, 11, 10, 11];
    let sequence = with_two_copies(&Frame::bert_for_tests(1), &draw, &tokens);
    assert_eq!(
        Copies::find(&sequence).unwrap(),
        Copies { text: 1..13, copy_length: 5, copy_distance: 7, masked_token: None }
    );
    let places: Vec<usize> = masked_variants(&sequence, 9, &draw)
        .iter()
        .map(|variant| Copies::find(variant).unwrap().masked_token.unwrap())
        .collect();
    assert!(places.len() == 5 && places.iter().all(|place| (8..13).contains(place)), "{places:?}");
}

#[test]
fn text_without_copies_has_none() {
    let (mut sequence, _) = sequence(0);
    sequence.ids = (0..9).collect();
    assert_eq!(Copies::find(&sequence), None);
    assert_eq!(Copies::find(&Sequence::default()), None);
}

/// Expected order from Python: `sorted(range(5), key=lambda i:
/// hashlib.sha256(f"headscope/repeat-mask/1/3/{i}".encode()).digest())`.
#[test]
fn choices_are_those_of_the_digests() {
    assert_eq!(order_by_digest("repeat-mask", "3", (0..5).collect::<Vec<usize>>()), [3, 2, 0, 4, 1]);
    let draws: Vec<DrawnLengths> = (0..BLOCKS).map(DrawnLengths::new).collect();
    assert!(
        draws
            .iter()
            .all(|draw| COPY_LENGTHS.contains(&draw.copy_length) && FILLER_LENGTHS.contains(&draw.filler_length))
    );
    let mut shifts: Vec<usize> = draws.iter().map(|draw| draw.copy_length + draw.filler_length).collect();
    shifts.sort_unstable();
    shifts.dedup();
    assert!(shifts.len() > 10, "no fixed offset fits: {shifts:?}");
}
