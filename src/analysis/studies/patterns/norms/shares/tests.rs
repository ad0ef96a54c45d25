use super::*;
use crate::stats::blocks::BLOCKS;

fn close(actual: Option<f64>, expected: f64) {
    let actual = actual.unwrap();
    assert!((actual - expected).abs() < 1e-9, "{actual}, not {expected}");
}

/// Vectors of one number: 1 and 3 in a sentence, 5 and 7 in another.
fn two_sentences() -> SumsOfSquares {
    SumsOfSquares {
        total: 84.0,
        sentence_means: 8.0 + 72.0,
        grand_mean: 64.0,
        count: 4.0,
        sentences: 2.0,
        squared_counts: 8.0,
    }
}

#[test]
fn an_example_by_hand() {
    let squares = two_sentences();
    close(squares.constant_share(), 64.0 / 84.0);
    close(squares.between_sentence_share(), 16.0 / 84.0);
    // W = (84 - 80) / 2 = 2, the mean square between is 16, n_0 = (4 - 8/4) / 1 = 2: B = (16 - 2) / 2 = 7.
    close(squares.between_sentence_component(), 7.0 / 9.0);
}

#[test]
fn nothing_of_nothing_is_no_share() {
    let nothing = SumsOfSquares::default();
    assert_eq!(
        [nothing.constant_share(), nothing.between_sentence_share(), nothing.between_sentence_component()],
        [None; 3]
    );
    // One sentence alone does not show how much sentences differ.
    let one = SumsOfSquares {
        total: 10.0,
        sentence_means: 8.0,
        grand_mean: 8.0,
        count: 2.0,
        sentences: 1.0,
        squared_counts: 4.0,
    };
    assert_eq!(one.between_sentence_component(), None);
    assert!(
        jackknife_pseudovalues(&nothing, &vec![None; BLOCKS], SumsOfSquares::constant_share)
            .iter()
            .all(|share| share.value().is_none())
    );
}

#[test]
fn fractions_without_a_block_are_the_share_without_it() {
    // Three blocks: the two sentences above, and one of 2 and 2.
    let whole = SumsOfSquares {
        total: 92.0,
        sentence_means: 88.0,
        grand_mean: 400.0 / 6.0,
        count: 6.0,
        sentences: 3.0,
        squared_counts: 12.0,
    };
    let mut without = vec![None; BLOCKS];
    without[0] = Some(SumsOfSquares {
        total: 82.0,
        sentence_means: 80.0,
        grand_mean: 64.0,
        count: 4.0,
        sentences: 2.0,
        squared_counts: 8.0,
    });
    without[1] = Some(SumsOfSquares {
        total: 18.0,
        sentence_means: 16.0,
        grand_mean: 16.0,
        count: 4.0,
        sentences: 2.0,
        squared_counts: 8.0,
    });
    without[2] = Some(two_sentences());
    for share in [
        SumsOfSquares::constant_share,
        SumsOfSquares::between_sentence_share,
        SumsOfSquares::between_sentence_component,
    ] {
        let found = jackknife_pseudovalues(&whole, &without, share);
        let theta = share(&whole).unwrap();
        close(found[BLOCKS].value(), theta);
        assert!(found[3..BLOCKS].iter().all(|fraction| fraction.value().is_none()));
        let others: Vec<f64> = (0..3).map(|block| share(without[block].as_ref().unwrap()).unwrap()).collect();
        // Each block has a third of the queries, so that what the others' fractions come to is their mean.
        for (block, expected) in others.iter().enumerate() {
            let rest = (0..3).filter(|other| *other != block).map(|other| found[other].value().unwrap());
            close(Some(rest.sum::<f64>() / 2.0), *expected);
        }
    }
}
