//! Simulated coverage of the 95 % intervals of distances and of CKA, on corpora drawn for two heads with a known
//! distance and a known CKA.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::batches::PackOutputs;
use super::measure::PairsByBlock;
use super::sums::SimilaritySums;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::stats::interval::Interval;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// Number of dimensions of a head's outputs.
const HEAD_DIM: usize = 4;

/// Weight of the first head's output `x` in the second head's output `y = 0.6 x + 0.8 z`, with independent Gaussian
/// `x` and `z`.
///
/// Their covariance is 0.6 times the identity, so their CKA is 0.6 squared.
const COMMON_WEIGHT: f32 = 0.6;
/// True CKA of the two heads' outputs.
const TRUE_CKA: f64 = 0.36;

/// True mean squared distance of the two heads' attention rows.
const TRUE_SQUARED_DISTANCE: f64 = 0.2;

/// Draws a corpus of sentences of random lengths, in packs of random numbers of sentences.
fn draw_corpus(random: &mut ChaCha8Rng) -> SimilaritySums {
    let mut sums = SimilaritySums::new(GRID, &LayerClasses::default());
    let mut index = 0_usize;
    for _ in 0..80 {
        let sentence = |index: usize, random: &mut ChaCha8Rng| {
            let tokens = random.random_range(3..25);
            let first: Vec<f32> = StandardNormal.sample_iter(&mut *random).take(tokens * HEAD_DIM).collect();
            let own: Vec<f32> = StandardNormal.sample_iter(&mut *random).take(tokens * HEAD_DIM).collect();
            let second: Vec<f32> = first.iter().zip(&own).map(|(x, z)| COMMON_WEIGHT * x + 0.8 * z).collect();
            // The heads differ by another measure in each sentence.
            let square = TRUE_SQUARED_DISTANCE * random.random_range(0.0..2.0) * tokens as f64;
            (index % 64, [first, second], square)
        };
        let next = index + random.random_range(12..30);
        let sentences: Vec<_> = (index..next).map(|index| sentence(index, random)).collect();
        index = next;
        let mut outputs = PackOutputs::default();
        for (block, [first, _], square) in &sentences {
            sums.add_distances(*block, first.len() / HEAD_DIM, [&[*square], &[]]);
            outputs.begin_sentence(*block, first.len() / HEAD_DIM);
        }
        for (number, (_, heads, _)) in sentences.iter().enumerate() {
            for (head, contexts) in heads.iter().enumerate() {
                outputs.add_head(number, (head, 2), contexts.chunks_exact(HEAD_DIM).map(|context| [context; 2]));
            }
        }
        outputs.end_pack(2).iter().for_each(|batches| sums.add_batches(batches));
    }
    sums
}

#[test]
fn intervals_cover_what_is_true() {
    const CORPORA: usize = 300;
    let mut random = ChaCha8Rng::seed_from_u64(1936);
    let (mut distances, mut similarity) = (0, 0);
    for _ in 0..CORPORA {
        let sums = draw_corpus(&mut random);
        let by_block = PairsByBlock(&sums.blocks);
        let has = |interval: Option<Interval>, truth: f64| {
            interval.is_some_and(|interval| interval.low() <= truth && truth <= interval.high())
        };
        distances += usize::from(has(by_block.distance_ci95([0, 1]), TRUE_SQUARED_DISTANCE.sqrt()));
        similarity += usize::from(has(by_block.cka_ci95([0, 1]), TRUE_CKA));
    }
    println!("of {CORPORA} intervals {distances} have the distance and {similarity} the CKA");
    // 285 are expected; the standard deviation is 3.8. Percentile intervals of 64 blocks cover a little less.
    assert!((270..=297).contains(&distances) && (264..=297).contains(&similarity), "{distances} {similarity}");
}
