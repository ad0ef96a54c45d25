//! Simulates how often `compare` raises false alarms, and how often it finds true changes (its power).
//! Scores of two corpora are drawn for heads with known true scores. They are tested and corrected as in a real comparison.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::label_fate;
use super::outcome::Fate;
use crate::commands::saved::sides::head_state::LabelStanding;
use crate::stats::block_test::{Estimate, Scale};
use crate::studies::registry::default_policy;
use crate::study::labels::{Assessment, MeasuredScore, ThresholdBound, assess, correct_for_multiple_tests};

const THRESHOLD: f64 = 0.5;
const BLOCK_COUNT: usize = 64;

/// Standard deviation of a block's score; the mean over all 64 blocks has a standard error of .02.
const BLOCK_SD: f64 = 0.16;

/// Draws the block scores of one corpus for heads with the true scores `scores`.
/// The heads are assessed, and their tests are corrected together.
fn simulate_assessments(scores: &[f64], rng: &mut ChaCha8Rng) -> Vec<Assessment> {
    let mut assess_one = |score: &f64| {
        // The sum of twelve uniform numbers from 0 to 1 has mean 6 and variance 1.
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let blocks: Vec<f64> = (0..BLOCK_COUNT).map(|_| score + BLOCK_SD * normal()).collect();
        let mean = blocks.iter().sum::<f64>() / BLOCK_COUNT as f64;
        let variance = blocks.iter().map(|block| (block - mean).powi(2)).sum::<f64>() / (BLOCK_COUNT - 1) as f64;
        let estimate = Estimate {
            value: mean,
            standard_error: (variance / BLOCK_COUNT as f64).sqrt(),
            blocks: BLOCK_COUNT,
            effective_blocks: BLOCK_COUNT as f64,
            scale: Scale::Real,
        };
        let measured = MeasuredScore { score: Some(mean), estimate: Some(estimate), ..MeasuredScore::default() };
        assess("x", "x", measured, ThresholdBound::AtLeast, Some(THRESHOLD)).expect("a score and a threshold")
    };
    let mut all: Vec<Assessment> = scores.iter().map(&mut assess_one).collect();
    correct_for_multiple_tests(&mut all, &default_policy());
    all
}

/// Draws `pairs` pairs of corpora, and returns the outcomes of each head's label, `[heads, pairs with the label]`.
/// Pairs of corpora in which the head has the label in neither corpus are left out.
fn simulate_outcomes(a: &[f64], b: &[f64], pairs: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<Fate>> {
    let mut found = vec![Vec::new(); a.len()];
    for _ in 0..pairs {
        let sides = [simulate_assessments(a, rng), simulate_assessments(b, rng)];
        for (head, found) in found.iter_mut().enumerate() {
            let [a, b] = [&sides[0][head], &sides[1][head]];
            if a.meets_rule || b.meets_rule {
                let standings = [a, b].map(|side| Some(LabelStanding::new(side)));
                found.push(label_fate(standings).unwrap_or(Fate::CouldNotTell));
            }
        }
    }
    found
}

/// Number of `outcomes` that are in `wanted`.
fn count_outcomes(outcomes: &[Fate], wanted: &[Fate]) -> f64 {
    outcomes.iter().filter(|fate| wanted.contains(fate)).count() as f64
}

/// Tests that unchanged labels are rarely called lost or gained.
/// True scores are equal in both corpora, and range from far below the threshold to far above it.
#[test]
fn false_alarms_are_rare() {
    let scores: Vec<f64> = (0..21).map(|step| THRESHOLD - 0.1 + 0.01 * f64::from(step)).collect();
    let pairs = 3000;
    let found = simulate_outcomes(&scores, &scores, pairs, &mut ChaCha8Rng::seed_from_u64(33));
    let false_changes: Vec<f64> =
        found.iter().map(|of| count_outcomes(of, &[Fate::Lost, Fate::Gained]) / pairs as f64).collect();
    println!("said to be lost or gained, by the distance from the threshold: {false_changes:?}");
    // At the threshold, one test must err upwards and the other downwards, each at 2.5 %, in either order: .00125.
    // More than 12 of 3000 pairs then occur in less than 1 of 1000 runs.
    assert!(false_changes.iter().all(|share| *share <= 12.0 / pairs as f64), "{false_changes:?}");
    // A head at or below the threshold should not have the label: both sides err.
    let below = found[..=10].iter().map(|of| count_outcomes(of, &[Fate::Kept])).sum::<f64>();
    let kept = found.iter().map(|of| count_outcomes(of, &[Fate::Kept])).sum::<f64>();
    assert!(below / kept <= 0.01, "{below} of {kept}");
    // Five standard errors above the threshold a label is kept; one above it most often cannot be told.
    assert!(count_outcomes(&found[20], &[Fate::Kept]) / pairs as f64 > 0.99);
    assert!(count_outcomes(&found[12], &[Fate::CouldNotTell]) / found[12].len() as f64 > 0.7);
}

/// Tests that a label is called lost or gained if the true score crosses the threshold far enough.
#[test]
fn clear_changes_are_found() {
    let pairs = 500;
    let (far, near) = (THRESHOLD + 0.1, THRESHOLD + 0.02);
    let (a, b) = ([far, near, far, THRESHOLD - 0.1], [THRESHOLD - 0.1, THRESHOLD - 0.02, far, far]);
    let found = simulate_outcomes(&a, &b, pairs, &mut ChaCha8Rng::seed_from_u64(34));
    let share = |head: usize, fate: Fate| count_outcomes(&found[head], &[fate]) / pairs as f64;
    assert!(share(0, Fate::Lost) > 0.99, "{}", share(0, Fate::Lost));
    assert!(share(3, Fate::Gained) > 0.99 && share(2, Fate::Kept) > 0.99);
    // One standard error on either side is too little to tell; the label is never said to be kept.
    assert!(share(1, Fate::CouldNotTell) > 0.7, "{}", share(1, Fate::CouldNotTell));
    assert!(share(1, Fate::Kept) < 0.01);
}
