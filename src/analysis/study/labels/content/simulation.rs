//! Simulated false discovery rate of labels of content. Sentences are drawn for heads with known leads over chance.
//! They are then processed like real sentences: sums by block, ratios, tests, correction for multiple testing.

use std::num::NonZeroUsize;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::model::grid::HeadGrid;
use crate::stats::block_test::Scale;
use crate::stats::blocks::{BLOCKS, block_of};
use crate::studies::registry::default_policy;
use crate::study::labels::{MeasuredScore, correct_for_multiple_tests};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric::{Column, Fraction, MetricKeys, Metrics};
use crate::study::section::NoSection;

/// Margin over uniform attention that the simulated label requires.
const TEST_MARGIN: Threshold = Threshold::rule("content_mass", 0.1, "as the labels of words have it");

/// Column of estimates for one of the simulated leads, a number without bounds.
const fn column(id: &'static str) -> Column {
    Column { id, keys: MetricKeys::Single, scale: Scale::Real, bounds: [f64::NEG_INFINITY, f64::INFINITY] }
}

const COLUMNS: [Column; 2] = [column("x_over_chance"), column("x_over_position")];

/// True leads of the simulated heads, `[lead over uniform attention, lead over position]`. A label is true if the
/// first lead is above the margin and the second above 0. The hardest heads are exactly at these limits.
const TRUE_LEADS: [[f64; 2]; 10] = [
    [0.1, 0.2],
    [0.1, 0.2],
    [0.1, 0.1],
    [0.1, 0.0],
    [0.3, 0.0],
    [0.3, -0.1],
    [0.0, 0.1],
    [-0.05, -0.1],
    [0.2, 0.1],
    [0.3, 0.15],
];

/// Largest difference between a head's lead in a sentence and its true lead.
const MAX_LEAD_DEVIATION: f64 = 0.4;

/// Draws a corpus of sentences with 1 to 8 queries, in which the heads' leads vary at random. Returns the sums by
/// block, `[BLOCKS][heads][leads]`, as `[numerator, denominator]`.
fn draw_corpus(sentences: u64, heads: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<[[f64; 2]; 2]>> {
    let mut blocks = vec![vec![[[0.0; 2]; 2]; heads]; BLOCKS];
    for sentence in 0..sentences {
        let queries = f64::from(rng.random_range(1..9_u8));
        for (head, sums) in blocks[block_of(sentence)].iter_mut().enumerate() {
            for (cell, [above, below]) in sums.iter_mut().enumerate() {
                *above += queries
                    * (TRUE_LEADS[head % TRUE_LEADS.len()][cell]
                        + rng.random_range(-MAX_LEAD_DEVIATION..MAX_LEAD_DEVIATION));
                *below += queries;
            }
        }
    }
    blocks
}

/// The assessment of every head on a simulated corpus.
fn assess_heads(sentences: u64, heads: usize, rng: &mut ChaCha8Rng) -> Vec<Assessment> {
    let blocks = draw_corpus(sentences, heads, rng);
    let grid = HeadGrid { layers: 1, heads };
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    let of_head = |block: Option<usize>, head: usize| {
        let chosen = block.map_or(&blocks[..], |block| &blocks[block..=block]);
        let sum = |cell: usize, part: usize| chosen.iter().map(|block| block[head][cell][part]).sum();
        (0..2).map(|cell| Fraction::new(sum(cell, 0), sum(cell, 1))).collect::<Vec<_>>()
    };
    let estimates = Estimates::new(&COLUMNS, &context, of_head, |block| of_head(block, 0));
    let policy = default_policy();
    let assess = |head: usize| {
        let basis = *estimates.denominators.get("x_over_chance", None).expect("a column");
        let errors = &estimates.standard_errors[head];
        let metrics: Metrics<MeasuredScore> = estimates.heads[head].zip_map(errors, |&score, error| MeasuredScore {
            score,
            estimate: score
                .zip(error.copied().flatten())
                .and_then(|(score, error)| basis.estimate(score, error, Scale::Real)),
            ..MeasuredScore::default()
        });
        let evidence = Evidence { place: head, metrics: &metrics, section: &NoSection, earlier_assessments: &[] };
        assess_content("x", "x", None, &TEST_MARGIN, (&evidence, &policy)).pop().expect("both leads are numbers")
    };
    let mut assessed: Vec<Assessment> = (0..heads).map(assess).collect();
    correct_for_multiple_tests(&mut assessed, &policy);
    assessed
}

#[test]
fn labels_of_content_are_seldom_false_and_mostly_found() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for sentences in [64, 300] {
        let (heads, corpora) = (40, 300);
        let (mut shares, mut at_margin, mut found, mut there) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..corpora {
            let assessed = assess_heads(sentences, heads, &mut rng);
            let is_true = |head: usize| {
                TRUE_LEADS[head % TRUE_LEADS.len()][0] > 0.1 && TRUE_LEADS[head % TRUE_LEADS.len()][1] > 0.0
            };
            let fired: Vec<usize> = (0..heads).filter(|&head| !assessed[head].label.borderline).collect();
            let wrong = fired.iter().filter(|&&head| !is_true(head)).count();
            shares += wrong as f64 / fired.len().max(1) as f64;
            found += (fired.len() - wrong) as f64;
            there += (0..heads).filter(|&head| is_true(head)).count() as f64;
            // The first head is exactly at its margin, and surely above position.
            let p = assessed[0].label.test.p.expect("something varies");
            at_margin += f64::from(u8::from(p <= 0.05));
        }
        let [shares, at_margin] = [shares, at_margin].map(|sum| sum / f64::from(corpora));
        println!(
            "{sentences} sentences: {:.1} % of labels are false, {:.1} % of heads at the margin are above it at 5 %, {:.1} % of \
             what is true is found",
            100.0 * shares,
            100.0 * at_margin,
            100.0 * found / there
        );
        assert!(shares <= 0.05, "{shares} of the labels are false");
        assert!((0.02..=0.09).contains(&at_margin), "{at_margin} of the heads at the margin");
        assert!(found / there > 0.7, "{found} of {there}");
    }
}
