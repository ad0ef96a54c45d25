use super::*;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The variation of cells over two texts that fill the sequence but for one special token before, between and after.
fn variation(first: usize, second: usize, cell: impl Fn(usize, usize) -> f32) -> SegmentHeadSums<f64> {
    let tokens = first + second + 3;
    let mut design = RegressionDesign::new(tokens, [1..first + 1, first + 2..tokens - 1]).unwrap();
    let weights: Vec<f32> = (0..tokens * tokens).map(|place| cell(place / tokens, place % tokens)).collect();
    design.decompose_variance(AttentionView::new(0, 0, tokens, &weights))
}

/// 1 for tokens of the first text, -1 for those of the second.
fn side(first: usize, second: usize, token: usize) -> f32 {
    let of = |text: Range<usize>| f32::from(u8::from(text.contains(&token)));
    of(1..first + 1) - of(first + 2..first + second + 2)
}

fn near(found: &SegmentHeadSums<f64>, [total, column, offset, segment]: [f64; 4]) {
    let pairs = [(found.total, total), (found.column, column), (found.offset, offset), (found.segment, segment)];
    assert!(pairs.iter().all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
}

#[test]
fn a_uniform_head_has_no_variation() {
    near(&variation(5, 7, |_, _| 1.0 / 15.0), [0.0; 4]);
}

#[test]
fn columns_alone() {
    // 8 equal rows with one cell of 8 that is 1: each row varies by 1 - 1/8.
    near(&variation(2, 3, |_, key| f32::from(u8::from(key == 3))), [7.0, 7.0, 0.0, 0.0]);
}

#[test]
fn offsets_alone() {
    // Each of 8 tokens but the first has 1 on the token before: 7 rows that vary by 7/8. The columns, each less the
    // mean of its rows, sum to 1 - 7/8 for 7 and to -7/8 for the last: (7/64 + 49/64) / 8 goes to them.
    let column = 56.0 / 64.0 / 8.0;
    let found = variation(2, 3, |query, key| f32::from(u8::from(key + 1 == query)));
    near(&found, [49.0 / 8.0, column, 49.0 / 8.0 - column, 0.0]);
}

#[test]
fn sentences_alone() {
    // Two texts of 20 and specials that stand aside. Near keys are of the same sentence more often, which is offsets'.
    let sides = |query, key| side(20, 20, query) * side(20, 20, key);
    let found = variation(20, 20, sides);
    near(&found, [1600.0, 0.0, 1600.0 - found.segment, found.segment]);
    assert!(found.segment > 800.0, "{found:?}");
    // The other sentence in its place.
    let other = variation(20, 20, |query, key| -sides(query, key));
    near(&other, [1600.0, 0.0, found.offset, -found.segment]);
    // Not the special token of one's own sentence: those are two columns.
    let separator = variation(20, 20, |query, key| f32::from(u8::from(key == if query <= 21 { 21 } else { 42 })));
    assert!(separator.segment.abs() < 0.01 * separator.total, "{separator:?}");
}

#[test]
fn what_cannot_be_told_from_noise_is_none() {
    // 3 x 3 cells have 4 degrees of freedom beside rows and columns: two offsets' are left after columns and rows, one
    // of which the line takes, and the sentences.
    assert!(RegressionDesign::new(2, [0..1, 1..2]).is_none());
    assert!(RegressionDesign::new(5, [1..2, 3..4]).is_some());
}

/// Far keys are single offsets up to 10 tokens, and then the distance itself is a sum of a row and a column.
#[test]
fn offsets_have_so_many_degrees_of_freedom() {
    let mut least = f64::INFINITY;
    for tokens in (5..80).chain([128, 200, 512]) {
        let design = RegressionDesign::new(tokens, [1..2, 3..tokens - 1]).unwrap();
        let bins = OFFSET_BIN_COUNT.min(2 * tokens - 1);
        let expected = bins - 1 - usize::from(tokens <= 10);
        assert_eq!(design.degrees_of_freedom[1], expected as f64, "{tokens} tokens");
        assert_eq!(design.degrees_of_freedom[2], 1.0, "{tokens} tokens");
        let own =
            design.factor.iter().enumerate().map(|(term, row)| (row[term], row.iter().map(|a| a * a).sum::<f64>()));
        let shares = own.filter(|(own, _)| *own > 0.0).map(|(own, whole)| own * own / whole);
        least = shares.fold(least, f64::min);
    }
    assert!(least > 1e-5, "{least:e}");
}

#[test]
fn noise_explains_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut sums = SegmentHeadSums::<f64>::default();
    let (count, tokens) = (4000, 8);
    for _ in 0..count {
        let cells: Vec<f32> = (0..tokens * tokens).map(|_| random.random()).collect();
        let found = variation(2, 3, |query, key| cells[query * tokens + key]);
        sums.total += found.total;
        sums.column += found.column;
        sums.offset += found.offset;
        sums.segment += found.segment;
    }
    // Unadjusted, columns and offsets of 8 tokens would explain 7/56 and 13/56.
    let shares = [sums.column, sums.offset, sums.segment].map(|part| part / sums.total);
    assert!(shares.iter().all(|share| share.abs() < 0.004), "{shares:?}");
}

proptest! {
    #[test]
    fn parts_are_those_of_each(
        (first, second) in (1..12_usize, 1..12_usize),
        cells in prop::collection::vec(0.0..1.0_f32, 27 * 27),
        columns in prop::collection::vec(-1.0..1.0_f32, 27),
    ) {
        let n = first + second + 3;
        let plain = variation(first, second, |query, key| cells[query * n + key]);
        prop_assert!(plain.column + plain.offset + plain.segment <= plain.total + 1e-9);
        // A level for each row and each column leaves offsets and sentences as they are.
        let moved = variation(first, second, |query, key| cells[query * n + key] + columns[key] - 2.0 * columns[query]);
        prop_assert!((plain.offset - moved.offset).abs() < 1e-4, "{:?} {:?}", plain, moved);
        prop_assert!((plain.segment - moved.segment).abs() < 1e-4, "{:?} {:?}", plain, moved);
        // Half of each weight is a quarter of each part.
        let half = variation(first, second, |query, key| cells[query * n + key] / 2.0);
        prop_assert!((plain.offset - 4.0 * half.offset).abs() < 1e-9);
        // Read backwards all is as it was.
        let back = variation(second, first, |query, key| cells[(n - 1 - query) * n + n - 1 - key]);
        prop_assert!((plain.column - back.column).abs() < 1e-9 && (plain.segment - back.segment).abs() < 1e-9);
    }
}
