//! Maximum-likelihood fit of the attention parser, with a ridge penalty (docs/methodology/parser.md).

use std::num::NonZeroUsize;

use itertools::Itertools;

use super::graph::{GraphParser, NodeScores};
use super::optimum::{BATCH_ROWS, Curvature, FitRecord, minimise_by_newton};
use super::sentence::{GoldHead, KeptSentence};
use crate::studies::patterns::dependency::arcs::OFFSET_CLASS_COUNT;
use crate::system::parallel::parallel_map;

/// Factor of the ridge penalty, which multiplies the square of each parameter.
pub const RIDGE_PENALTY: f64 = 1e-4;

/// Gradient norm at or below which a fit ends.
pub const GRADIENT_TOLERANCE: f64 = 1e-6;

/// Returns the ridge penalty at the point `at` of parameter space.
pub fn ridge_penalty(at: &[f64]) -> f64 {
    RIDGE_PENALTY * at.iter().map(|at| at * at).sum::<f64>()
}

/// Computes `result(item, fold)` for items 0 to `count - 1` on both folds, in parallel. Returns `[fold 0, fold 1]` for each
/// item.
pub fn map_folds<T: Send>(
    threads: NonZeroUsize,
    count: usize,
    result: impl Fn(usize, usize) -> T + Sync,
) -> Vec<[T; 2]> {
    let work: Vec<(usize, usize)> = (0..count).cartesian_product([0, 1]).collect();
    let results = parallel_map(threads, work, |(item, fold)| result(item, fold));
    results.into_iter().tuples().map(|(even, odd)| [even, odd]).collect()
}

/// A parser fitted on one fold.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedParser {
    pub parser: GraphParser,
    /// Coefficients of each attention head's standardised attention: from the dependent, and to it, `[heads]`. 0 for
    /// attention that does not vary.
    pub standardised_weights: Vec<[f64; 2]>,
    pub record: FitRecord,
}

impl FittedParser {
    /// Fits a parser on the attention of `heads` (ascending indices). With `has_distances`, the parser also uses the
    /// distances between words.
    pub fn new(sentences: &[&KeptSentence], heads: &[usize], has_distances: bool) -> Self {
        let scales = standardising_scales(sentences, heads);
        let words: u64 = sentences.iter().map(|sentence| words_with_gold_head(sentence).count() as u64).sum();
        let parser_at = |at: &[f64]| {
            let (weights, others) = at.split_at(2 * heads.len());
            let weights = weights.as_chunks::<2>().0.iter().zip(&scales);
            GraphParser {
                heads: heads.to_vec(),
                weights: weights.map(|(weight, scale)| [weight[0] * scale[0], weight[1] * scale[1]]).collect(),
                root_score: others[0],
                distance_scores: others[1..].to_vec(),
            }
        };
        let size = 2 * heads.len() + 1 + if has_distances { OFFSET_CLASS_COUNT } else { 0 };
        let (mut scores, mut nodes) = (NodeScores::default(), NodeScores::default());
        let loss_at = |at: &[f64], gradient: &mut [f64]| {
            gradient.fill(0.0);
            let parser = parser_at(at);
            let loss: f64 = sentences.iter().map(|sentence| parser.loss(sentence, &mut scores, gradient)).sum();
            gradient.iter_mut().zip(scales.as_flattened()).for_each(|(slope, scale)| *slope *= scale);
            for (slope, at) in gradient.iter_mut().zip(at) {
                *slope = *slope / words as f64 + 2.0 * RIDGE_PENALTY * at;
            }
            loss / words as f64 + ridge_penalty(at)
        };
        let curvature = |at: &[f64]| {
            let (parser, mut rows) = (parser_at(at), Vec::new());
            let mut sums = Curvature::new(size, 2.0 * RIDGE_PENALTY);
            for (place, sentence) in sentences.iter().enumerate() {
                parser.append_curvature_rows(sentence, &scales, &mut nodes, &mut rows);
                if rows.len() >= BATCH_ROWS * size || place + 1 == sentences.len() {
                    sums.add_rows(&rows, words as f64);
                    rows.clear();
                }
            }
            sums.matrix
        };
        let minimum = minimise_by_newton(size, GRADIENT_TOLERANCE, loss_at, curvature);
        Self {
            parser: parser_at(&minimum.point),
            standardised_weights: minimum.point.as_chunks::<2>().0[..heads.len()].to_vec(),
            record: minimum.to_fit_record(words, minimum.value - ridge_penalty(&minimum.point)),
        }
    }
}

/// Indices of the words whose gold syntactic head is known.
fn words_with_gold_head(sentence: &KeptSentence) -> impl Iterator<Item = usize> {
    let words = sentence.words.iter().enumerate();
    words.filter(|(_, word)| word.gold != GoldHead::Unknown).map(|(place, _)| place)
}

/// Returns factors that standardise each attention head's weights, from a word and to it, `[heads]`. Scaled weights have a
/// standard deviation of 1 among a word's candidates. 0 for attention that does not vary.
fn standardising_scales(sentences: &[&KeptSentence], heads: &[usize]) -> Vec<[f64; 2]> {
    let candidates: usize =
        sentences.iter().map(|sentence| words_with_gold_head(sentence).count() * sentence.words.len()).sum();
    let mut weights = Vec::new();
    let of_head = |&head: &usize| {
        let mut squares = [0.0; 2];
        for sentence in sentences {
            let nodes = sentence.node_count();
            sentence.read_attention(head, &mut weights);
            for word in words_with_gold_head(sentence) {
                for (sum, places) in squares.iter_mut().zip([(word * nodes, 1), (word, nodes)]) {
                    let others = (0..nodes).filter(|&other| other != word);
                    let candidates = others.map(|other| f64::from(weights[places.0 + other * places.1]));
                    let (count, total) = ((nodes - 1) as f64, candidates.clone().sum::<f64>());
                    *sum += candidates.map(|weight| (weight - total / count).powi(2)).sum::<f64>();
                }
            }
        }
        squares.map(|sum| if sum > 0.0 { (candidates as f64 / sum).sqrt() } else { 0.0 })
    };
    heads.iter().map(of_head).collect()
}
