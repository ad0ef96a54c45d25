use super::*;
use crate::sequences::sequence::TokenKind;
use crate::sequences::test_support::sequence as sentence;
use TokenKind::{FirstSpecial, Punctuation, Separator, Text};

/// `[CLS] a b . [SEP]`
const KINDS: [TokenKind; 5] = [FirstSpecial, Text, Text, Punctuation, Separator];

/// Rows in eighths, so that sums are exact.
const WEIGHTS: [f32; 25] = [
    0.25, 0.25, 0.25, 0.25, 0.0, //
    0.125, 0.5, 0.25, 0.125, 0.0, // a
    0.25, 0.5, 0.0, 0.0, 0.25, // b
    0.0, 0.125, 0.25, 0.25, 0.375, // .
    0.0, 0.0, 0.0, 0.25, 0.75,
];

fn observed() -> TokenSums<f64> {
    let roles = TokenRoles::new(&sentence(&KINDS));
    sum_token_attention(&roles, AttentionView::new(0, 0, 5, &WEIGHTS), &mut RowBuffers::default())
}

fn exposure() -> TokenExposure {
    let mut exposure = TokenExposure::default();
    exposure.count_sentence(&TokenRoles::new(&sentence(&KINDS)), Visibility::ALL);
    exposure
}

#[test]
fn offsets_stay_on_text() {
    let (sums, counts) = (observed(), exposure());
    let at = |offset: i32| usize::try_from(offset + 8).unwrap();
    // -1: b to a 1/2, . to b 1/4; a has only [CLS] before it.
    assert_eq!((sums.offset_mass[at(-1)], counts.offset_queries[at(-1)]), (0.75, 2));
    // 0: 1/2 + 0 + 1/4
    assert_eq!((sums.offset_mass[at(0)], counts.offset_queries[at(0)]), (0.75, 3));
    // +1: a to b 1/4, b to . 0
    assert_eq!((sums.offset_mass[at(1)], counts.offset_queries[at(1)]), (0.25, 2));
    // +2: a to .
    assert_eq!((sums.offset_mass[at(2)], counts.offset_queries[at(2)]), (0.125, 1));
    assert_eq!((sums.offset_mass[at(3)], counts.offset_queries[at(3)]), (0.0, 0));
    // One sentence, and none for what it has not.
    assert_eq!((counts.queries.sentences, counts.separators.sentences), (1, 1));
    assert_eq!([2, 3].map(|offset| counts.offset_sentences[at(offset)]), [1, 0]);
}

#[test]
fn the_most_attended_key_may_be_special() {
    let sums = observed();
    // a looks at itself, b at a, . at [SEP], which is no offset.
    assert_eq!(sums.offset_argmax[8], 1.0);
    assert_eq!(sums.offset_argmax[7], 1.0);
    assert_eq!(sums.offset_argmax.iter().sum::<f64>(), 2.0);
}

#[test]
fn masses_by_kind_of_token() {
    let sums = observed();
    // a: b 1/4 + . 1/8; b: a 1/2 + . 0; .: b 1/4 + a 1/8
    assert_eq!(sums.window_mass, 0.375 + 0.5 + 0.375);
    assert_eq!(sums.first_special_mass, 0.125 + 0.25 + 0.0);
    assert_eq!(sums.separator_mass, 0.0 + 0.25 + 0.375);
    assert_eq!(sums.separator_self_mass, 0.75);
    assert_eq!(sums.punctuation_mass, 0.125 + 0.0 + 0.25);
    // The largest weights away from [SEP]: 1/2, 1/2, 1/4.
    assert_eq!(sums.confidence, 0.5 + 0.5 + 0.25);
}

#[test]
fn distance_is_over_the_mass_on_text() {
    let sums = observed();
    // a: (1/4 x 1 + 1/8 x 2) / (7/8) = 4/7; b: (1/2 x 1) / (1/2) = 1; .: (1/8 x 2 + 1/4 x 1) / (5/8) = 4/5
    assert!((sums.distance - (4.0 / 7.0 + 1.0 + 0.8)).abs() < 1e-15);
    assert_eq!(sums.distance_queries, 3.0);
}

#[test]
fn entropy_in_nats() {
    let ln2 = std::f64::consts::LN_2;
    // a: 1/2, 1/4, 1/8, 1/8 = 1.75 bits; b: 1/2, 1/4, 1/4 = 1.5 bits;
    // .: 1/8 x 3 + 1/4 x 2 + 1/4 x 2 bits and 3/8 ln(8/3) nats
    let last = (0.375 + 1.0) * ln2 + 0.375 * (8.0_f64 / 3.0).ln();
    assert!((observed().entropy - (3.25 * ln2 + last)).abs() < 1e-12);
    // [CLS]: four quarters, 2 bits.
    assert!((observed().first_special_entropy - 2.0 * ln2).abs() < 1e-12);
    assert!((exposure().max_entropy.value() - 3.0 * 5.0_f64.ln()).abs() < 1e-12);
}

#[test]
fn a_row_without_mass_on_text_has_no_distance() {
    let roles = TokenRoles::new(&sentence(&[FirstSpecial, Text, Separator]));
    let weights = [1.0, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 1.0];
    let sums = sum_token_attention(&roles, AttentionView::new(0, 0, 3, &weights), &mut RowBuffers::default());
    assert_eq!((sums.distance, sums.distance_queries), (0.0, 0.0));
}

#[test]
fn ties_go_to_the_lowest_index() {
    // a b between [CLS] and [SEP]; both look at a and b with equal weight.
    let roles = TokenRoles::new(&sentence(&[FirstSpecial, Text, Text, Separator]));
    let weights = [0.25, 0.25, 0.25, 0.25, 0.125, 0.375, 0.375, 0.125].repeat(2);
    let (queries, others) = (&weights[4..8], &weights[..4]);
    let weights = [others, queries, queries, others].concat();
    let sums = sum_token_attention(&roles, AttentionView::new(0, 0, 4, &weights), &mut RowBuffers::default());
    assert_eq!((sums.offset_argmax[8], sums.offset_argmax[7], sums.offset_argmax[9]), (1.0, 1.0, 0.0));
}

#[test]
fn a_pair_of_segments_has_text_on_both_sides_of_a_separator() {
    // [CLS] a [SEP] b c [SEP]
    let roles = TokenRoles::new(&sentence(&[FirstSpecial, Text, Separator, Text, Text, Separator]));
    assert_eq!(roles.text_runs, [1..2, 3..5]);
    assert_eq!(roles.is_not_separator[..6], [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
    let uniform = [1.0 / 6.0; 36];
    let sums = sum_token_attention(&roles, AttentionView::new(0, 0, 6, &uniform), &mut RowBuffers::default());
    // Distances among a, b and c: (0 + 2 + 3 + 2 + 0 + 1 + 3 + 1 + 0) / 3 keys.
    assert!((sums.distance - 4.0).abs() < 1e-6);
    // +2: a to b; +1: b to c; +3: a to c.
    let mut exposure = TokenExposure::default();
    exposure.count_sentence(&roles, Visibility::ALL);
    assert_eq!(exposure.offset_queries[9..12], [1, 1, 1]);
}

#[test]
fn rows_longer_than_a_vector_after_shorter_ones() {
    // 38 tokens of text, all looking at token 36 with 3/4 and at themselves with 1/4.
    let mut buffers = RowBuffers::default();
    for tokens in [5, 38, 17, 38] {
        let last = tokens - 2;
        let mut weights = vec![0.0; tokens * tokens];
        for query in 0..tokens {
            weights[query * tokens + query] += 0.25;
            weights[query * tokens + last] += 0.75;
        }
        let roles = TokenRoles::new(&sentence(&vec![Text; tokens]));
        let sums = sum_token_attention(&roles, AttentionView::new(0, 0, tokens, &weights), &mut buffers);
        // 3/4 of the distances to the last but one: last (last + 1) / 2 before it, 1 after it.
        assert_eq!(sums.distance, 0.75 * ((last * (last + 1) / 2) + 1) as f64);
        assert_eq!(sums.offset_mass[8], 0.25 * tokens as f64 + 0.75);
        assert_eq!(sums.offset_argmax.iter().sum::<f64>(), 10.0_f64.min(tokens as f64));
    }
}
