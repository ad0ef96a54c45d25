//! Models of links (docs/methodology/parser.md).
//!
//! Sources: a conditional logit model (`McFadden` 1974) on the attention between a source and its candidates, whose loss is
//! convex.
//!
//! Pairs: contact prediction (Rao et al. 2021), an L1-penalised logistic regression on the symmetrised and corrected
//! attention of all heads.

use std::iter::zip;

use multiversion::multiversion;

use super::kept_links::{KeptLinks, LinkEvidence};
use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::studies::patterns::dependency::parser::fit::{GRADIENT_TOLERANCE, RIDGE_PENALTY, ridge_penalty};
use crate::studies::patterns::dependency::parser::optimum::{
    BATCH_ROWS, Curvature, FitRecord, centre_rows, minimise_by_newton, minimise_with_l1,
};
use crate::study::instruments::linked::sources::LinkSource;

/// Conditional logit model that chooses the target of a source among its candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceModel {
    evidence: LinkEvidence,
    /// Coefficients of the regressors in `evidence`: attention heads in both directions, then offset classes.
    weights: Vec<f64>,
    /// Coefficients of each head's standardised attention: from the source, and to it, `[heads]`. 0 for attention that does
    /// not vary. Empty if the model uses no heads.
    pub standardised_weights: Vec<[f64; 2]>,
    /// Description of the fit. Its `loss` is `-ln p` averaged over the targets of a source, then over sources.
    pub record: FitRecord,
}

impl ChoiceModel {
    /// Fits the model to all sources of `links`.
    pub fn new(links: &[&KeptLinks], evidence: LinkEvidence, heads: usize) -> Self {
        let size = evidence.term_count(heads);
        let sources: u64 = links.iter().map(|links| links.sources.len() as u64).sum();
        let scales = standardising_scales(links, evidence, heads);
        let weights_at = |at: &[f64]| -> Vec<f64> { zip(at, &scales).map(|(at, scale)| at * scale).collect() };
        let (mut rows, mut shares) = (Vec::new(), Vec::new());
        let loss_at = |at: &[f64], gradient: &mut [f64]| {
            gradient.fill(0.0);
            let (weights, mut loss) = (weights_at(at), 0.0);
            for links in links {
                links.for_each_source(evidence, &mut rows, |source, rows| {
                    loss += write_probabilities(source, rows, &weights, &mut shares);
                    let share = 1.0 / source.targets.len() as f64;
                    // Probability minus target: the derivative by the score.
                    for (excess, &candidate) in zip(&mut shares, &source.candidates) {
                        *excess -= if source.is_target(candidate) { share } else { 0.0 };
                    }
                    add_scaled_rows(rows, &shares, gradient);
                });
            }
            for ((slope, scale), at) in zip(zip(&mut *gradient, &scales), at) {
                *slope = *slope * scale / sources as f64 + 2.0 * RIDGE_PENALTY * at;
            }
            loss / sources as f64 + ridge_penalty(at)
        };
        let minimum = minimise_by_newton(size, GRADIENT_TOLERANCE, loss_at, |at| {
            source_curvature(links, evidence, (&weights_at(at), &scales), sources)
        });
        let of_heads = if evidence.has_heads { 2 * heads } else { 0 };
        Self {
            evidence,
            weights: weights_at(&minimum.point),
            standardised_weights: minimum.point[..of_heads].as_chunks::<2>().0.to_vec(),
            record: minimum.to_fit_record(sources, minimum.value - ridge_penalty(&minimum.point)),
        }
    }

    /// Number of sources whose likeliest candidate is a target. Ties go to the first candidate.
    pub fn count_hits(&self, links: &KeptLinks) -> u64 {
        let (mut rows, mut scores, mut right) = (Vec::new(), Vec::new(), 0);
        links.for_each_source(self.evidence, &mut rows, |source, rows| {
            score_rows(rows, &self.weights, source.candidates.len(), &mut scores);
            right += u64::from(chooses_target(source, &scores));
        });
        right
    }
}

/// Whether the candidate with the largest score is a target of the source. Ties go to the first candidate.
pub fn chooses_target(source: &LinkSource, scores: &[f64]) -> bool {
    let best = (0..scores.len()).reduce(|best, next| if scores[next] > scores[best] { next } else { best });
    best.is_some_and(|best| source.is_target(source.candidates[best]))
}

/// Writes the probability of each candidate to `shares`. Returns the mean of `-ln p` over the targets.
fn write_probabilities(source: &LinkSource, rows: &[f32], weights: &[f64], shares: &mut Vec<f64>) -> f64 {
    score_rows(rows, weights, source.candidates.len(), shares);
    let largest = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let targets = zip(&*shares, &source.candidates).filter(|(_, candidate)| source.is_target(**candidate));
    let of_targets = targets.map(|(score, _)| score - largest).sum::<f64>() / source.targets.len() as f64;
    shares.iter_mut().for_each(|score| *score = (*score - largest).exp());
    let total: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= total);
    total.ln() - of_targets
}

/// Computes second derivatives of the loss by the standardised weights, `[terms, terms]`. Each source adds
/// `sum p (x - m)(x - m)ᵀ` over its candidates, with probabilities `p`, regressors `x`, and the mean `m = sum p x`.
#[expect(clippy::cast_possible_truncation, reason = "second derivatives need not be exact")]
fn source_curvature(
    links: &[&KeptLinks],
    evidence: LinkEvidence,
    (weights, scales): (&[f64], &[f64]),
    sources: u64,
) -> Vec<f64> {
    let size = weights.len();
    let mut sums = Curvature::new(size, 2.0 * RIDGE_PENALTY);
    let scales: Vec<f32> = scales.iter().map(|&scale| scale as f32).collect();
    let (mut row_buffer, mut shares, mut mean) = (Vec::new(), Vec::new(), vec![0.0_f32; size]);
    let mut pending = Vec::new();
    for links in links {
        links.for_each_source(evidence, &mut row_buffer, |source, rows| {
            write_probabilities(source, rows, weights, &mut shares);
            let start = pending.len();
            pending.extend(rows.iter().zip(scales.iter().cycle()).map(|(x, scale)| x * scale));
            centre_rows(&mut pending[start..], &shares, &mut mean);
            if pending.len() >= BATCH_ROWS * size {
                sums.add_rows(&pending, sources as f64);
                pending.clear();
            }
        });
    }
    if !pending.is_empty() {
        sums.add_rows(&pending, sources as f64);
    }
    sums.matrix
}

/// Returns factors that standardise the regressors, `[terms]`. Scaled attention has a standard deviation of 1 among a
/// source's candidates; attention that does not vary gets 0. Offset classes get 1.
fn standardising_scales(links: &[&KeptLinks], evidence: LinkEvidence, heads: usize) -> Vec<f64> {
    let (size, of_heads) = (evidence.term_count(heads), if evidence.has_heads { 2 * heads } else { 0 });
    let (mut squares, mut candidates, mut rows) = (vec![0.0; size], 0_usize, Vec::new());
    let mut mean = vec![0.0; size];
    for links in links {
        links.for_each_source(evidence, &mut rows, |source, rows| {
            let count = source.candidates.len();
            candidates += count;
            mean.fill(0.0);
            for row in rows.chunks_exact(size) {
                zip(&mut mean, row).for_each(|(mean, &x)| *mean += f64::from(x) / count as f64);
            }
            for row in rows.chunks_exact(size) {
                zip(zip(&mut squares, &mean), row).for_each(|((sum, mean), &x)| *sum += (f64::from(x) - mean).powi(2));
            }
        });
    }
    // Equal half-precision numbers differ from their mean by rounding alone.
    let scale = |sum: f64| if sum > 1e-20 * candidates as f64 { (candidates as f64 / sum).sqrt() } else { 0.0 };
    squares[..of_heads].iter().map(|&sum| scale(sum)).chain(std::iter::repeat_n(1.0, size - of_heads)).collect()
}

/// Writes the score of each row to `scores`: its dot product with the weights, `[count]`.
fn score_rows(rows: &[f32], weights: &[f64], count: usize, scores: &mut Vec<f64>) {
    scores.clear();
    scores.resize(count, 0.0);
    if !weights.is_empty() {
        multiply_rows(rows, weights, scores);
    }
}

/// Writes the dot product of each row with the weights to `scores`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn multiply_rows(rows: &[f32], weights: &[f64], scores: &mut [f64]) {
    for (row, score) in rows.chunks_exact(weights.len()).zip(scores) {
        let mut sums = [0.0; LANES];
        let ((row, row_left), (weights, weights_left)) = (row.as_chunks::<LANES>(), weights.as_chunks::<LANES>());
        for (row, weights) in row.iter().zip(weights) {
            for lane in 0..LANES {
                sums[lane] += f64::from(row[lane]) * weights[lane];
            }
        }
        for (lane, (&x, weight)) in row_left.iter().zip(weights_left).enumerate() {
            sums[lane] += f64::from(x) * weight;
        }
        *score = reduce_lanes(sums, |a, b| a + b);
    }
}

/// Adds each row times its factor to `slopes`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn add_scaled_rows(rows: &[f32], factors: &[f64], slopes: &mut [f64]) {
    if slopes.is_empty() {
        return;
    }
    for (row, factor) in rows.chunks_exact(slopes.len()).zip(factors) {
        for (slope, &x) in slopes.iter_mut().zip(row) {
            *slope += factor * f64::from(x);
        }
    }
}

/// Weight of the loss relative to the L1 penalty, `C` in scikit-learn. Rao et al. 2021, section 3.4, chose this value on
/// proteins outside their test set.
pub const LOSS_WEIGHT: f64 = 0.15;

/// Norm of the shortest subgradient at or below which the fit of contact prediction ends. The slope of the L1 penalty is 1.
pub const CONTACT_GRADIENT_TOLERANCE: f64 = 1e-4;

/// Logistic regression that predicts whether a pair of words is linked.
#[derive(Clone, Debug, PartialEq)]
pub struct ContactModel {
    /// Coefficient of each attention head's weights between the two words, `[heads]`. The weights are summed over both
    /// directions, with the average product correction.
    pub weights: Vec<f64>,
    /// Intercept: log-odds of a link between words whose regressors are all 0.
    bias: f64,
    pub record: FitRecord,
}

impl ContactModel {
    /// Fits the model to all pairs of `links`, which must include linked and unlinked pairs.
    pub fn new(links: &[&KeptLinks], heads: usize) -> Self {
        let of_links = || links.iter().flat_map(|links| &links.pairs);
        let pairs = of_links().map(|pairs| pairs.pairs().len() as u64).sum::<u64>();
        let linked = of_links().map(|pairs| pairs.linked_count() as u64).sum::<u64>();
        let mut start = vec![0.0; heads + 1];
        // Starts at the maximum-likelihood bias of a model without weights: the log odds of linked pairs.
        start[heads] = (linked as f64 / (pairs - linked) as f64).ln();
        let (mut rows, mut scores) = (Vec::new(), Vec::new());
        let loss_at = |at: &[f64], gradient: &mut [f64]| {
            gradient.fill(0.0);
            let (slopes, of_bias) = gradient.split_at_mut(heads);
            let mut loss = 0.0;
            for_each_pair_batch(links, &mut rows, |rows, labels| {
                score_rows(rows, &at[..heads], labels.len(), &mut scores);
                for (score, &(.., is_linked)) in scores.iter_mut().zip(labels) {
                    let logit = *score + at[heads];
                    let signed = if is_linked { -logit } else { logit };
                    // ln (1 + e^s) without overflow.
                    loss += signed.max(0.0) + (-signed.abs()).exp().ln_1p();
                    *score = LOSS_WEIGHT * (logistic(logit) - f64::from(u8::from(is_linked)));
                    of_bias[0] += *score;
                }
                add_scaled_rows(rows, &scores, slopes);
            });
            LOSS_WEIGHT * loss
        };
        let minimum =
            minimise_with_l1((start, heads), CONTACT_GRADIENT_TOLERANCE, loss_at, |at| pair_curvature(links, at));
        let penalty: f64 = minimum.point[..heads].iter().map(|weight| weight.abs()).sum();
        Self {
            weights: minimum.point[..heads].to_vec(),
            bias: minimum.point[heads],
            record: minimum.to_fit_record(pairs, (minimum.value - penalty) / LOSS_WEIGHT / pairs as f64),
        }
    }

    /// Number of linked pairs among the likeliest pairs. As many pairs are taken as the sentence has words.
    pub fn count_hits(&self, links: &KeptLinks) -> u64 {
        let Some(pairs) = &links.pairs else { return 0 };
        let (mut logits, mut scores, mut rows) = (Vec::with_capacity(pairs.pairs().len()), Vec::new(), Vec::new());
        for_each_pair_batch(&[links], &mut rows, |rows, labels| {
            score_rows(rows, &self.weights, labels.len(), &mut scores);
            logits.extend(scores.iter().map(|score| score + self.bias));
        });
        pairs.hit_count(&logits)
    }
}

/// Returns the probability with this log-odds.
fn logistic(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// Calls `show` with batches of pairs: corrected weights of all attention heads, `[pairs, heads]`, and
/// `(word, other, is_linked)` for each pair.
fn for_each_pair_batch(
    links: &[&KeptLinks],
    rows: &mut Vec<f32>,
    mut show: impl FnMut(&[f32], &[(usize, usize, bool)]),
) {
    for links in links {
        let pairs = links.pairs.as_ref().map_or(&[][..], |pairs| pairs.pairs());
        for (part, labels) in pairs.chunks(BATCH_ROWS).enumerate() {
            let start = part * BATCH_ROWS;
            links.write_pair_rows(start..start + labels.len(), rows);
            show(rows, labels);
        }
    }
}

/// Computes second derivatives of the loss by weights and bias, `[heads + 1, heads + 1]`: `C sum p (1 - p) x xᵀ` over
/// pairs. Here `p` is the probability of a link, `x` the inputs, and `C` is [`LOSS_WEIGHT`].
#[expect(clippy::cast_possible_truncation, reason = "second derivatives need not be exact")]
fn pair_curvature(links: &[&KeptLinks], at: &[f64]) -> Vec<f64> {
    let (size, heads) = (at.len(), at.len() - 1);
    let (mut sums, mut own, mut scores) = (Curvature::new(size, 0.0), Vec::new(), Vec::new());
    for_each_pair_batch(links, &mut Vec::new(), |rows, labels| {
        score_rows(rows, &at[..heads], labels.len(), &mut scores);
        own.clear();
        for (row, score) in rows.chunks_exact(heads).zip(&scores) {
            let share = logistic(score + at[heads]);
            let root = (LOSS_WEIGHT * share * (1.0 - share)).sqrt() as f32;
            own.extend(row.iter().map(|x| root * x));
            own.push(root);
        }
        sums.add_rows(&own, 1.0);
    });
    sums.matrix
}
