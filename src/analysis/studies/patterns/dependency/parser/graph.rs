//! A graph-based parser. It scores each word's candidate syntactic heads, and the root, from attention weights.

use std::iter::zip;

use multiversion::multiversion;

use super::optimum::centre_rows;
use super::sentence::{GoldHead, KeptSentence};
use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::studies::patterns::dependency::arcs::offset_class;

/// A graph-based parser. A candidate's score is linear in the attention from the dependent to the candidate and back, plus
/// a score of their distance.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphParser {
    /// Indices of the attention heads whose weights are used, ascending.
    pub heads: Vec<usize>,
    /// Coefficients of each attention head's weights, `[heads]`: of the weight from dependent to candidate, and of the
    /// weight from candidate to dependent.
    pub weights: Vec<[f64; 2]>,
    /// Score of the root as syntactic head, apart from attention.
    pub root_score: f64,
    /// Score of each offset class ([`offset_class`]), `[OFFSET_CLASS_COUNT]`. Empty if the parser uses no distances.
    pub distance_scores: Vec<f64>,
}

/// Buffers for the scores of one sentence, reused from sentence to sentence. Nodes are the words, followed by the root.
#[derive(Debug, Default)]
pub struct NodeScores {
    /// Weights of one attention head between nodes.
    weights: Vec<f32>,
    /// Scores of candidates (columns) as syntactic heads of dependents (rows), `[nodes, nodes]`.
    /// [`GraphParser::score_candidates`] sums attention from dependent to candidate here, and then adds all other
    /// evidence.
    by_dependent: Vec<f64>,
    /// Scores `[nodes, nodes]`, candidate by dependent, from the candidate's attention to the dependent.
    by_candidate: Vec<f64>,
}

impl GraphParser {
    /// Returns the score of each candidate as syntactic head of each dependent, `[nodes, nodes]`.
    pub fn score_candidates<'a>(&self, sentence: &KeptSentence, scores: &'a mut NodeScores) -> &'a [f64] {
        let (nodes, root) = (sentence.node_count(), sentence.words.len());
        let NodeScores { weights, by_dependent, by_candidate } = scores;
        for sums in [&mut *by_dependent, &mut *by_candidate] {
            sums.clear();
            sums.resize(nodes * nodes, 0.0);
        }
        for (&head, &both) in zip(&self.heads, &self.weights) {
            sentence.read_attention(head, weights);
            add_in_both_directions(weights, both, by_dependent, by_candidate);
        }
        for dependent in 0..root {
            for head in 0..nodes {
                let prior = match (head == root, self.distance_scores.is_empty() || head == dependent) {
                    (true, _) => self.root_score,
                    (false, true) => 0.0,
                    (false, false) => self.distance_scores[offset_class(dependent, head)],
                };
                by_dependent[dependent * nodes + head] += by_candidate[head * nodes + dependent] + prior;
            }
        }
        by_dependent
    }

    /// Replaces the scores in `by_dependent` by probabilities, for words with a known gold head: softmax over the other
    /// words and the root. Other entries are 0. Returns the sum of `-ln p` over gold heads.
    fn compute_probabilities(&self, sentence: &KeptSentence, scores: &mut NodeScores) -> f64 {
        let (nodes, root) = (sentence.node_count(), sentence.words.len());
        self.score_candidates(sentence, scores);
        let mut loss = 0.0;
        for (dependent, word) in sentence.words.iter().enumerate() {
            let row = &mut scores.by_dependent[dependent * nodes..][..nodes];
            let Some(gold) = word.gold.node_index(root) else {
                row.fill(0.0);
                continue;
            };
            row[dependent] = f64::NEG_INFINITY;
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let gold_score = row[gold] - largest;
            row.iter_mut().for_each(|score| *score = (*score - largest).exp());
            let total: f64 = row.iter().sum();
            loss += total.ln() - gold_score;
            row.iter_mut().for_each(|share| *share /= total);
        }
        scores.by_dependent[root * nodes..].fill(0.0);
        loss
    }

    /// Returns the sum of `-ln p` over gold heads. Adds its derivatives to `slopes`: by the weights, then by the root
    /// score, then by the distance scores.
    pub fn loss(&self, sentence: &KeptSentence, scores: &mut NodeScores, slopes: &mut [f64]) -> f64 {
        let (nodes, root) = (sentence.node_count(), sentence.words.len());
        let loss = self.compute_probabilities(sentence, scores);
        let NodeScores { weights, by_dependent, by_candidate } = scores;
        by_candidate.fill(0.0);
        let (by_head, others) = slopes.split_at_mut(2 * self.heads.len());
        for (dependent, word) in sentence.words.iter().enumerate() {
            let Some(gold) = word.gold.node_index(root) else { continue };
            let row = &mut by_dependent[dependent * nodes..][..nodes];
            // Probability minus target: the derivative by the score.
            row[gold] -= 1.0;
            for (head, &share) in row.iter().enumerate() {
                by_candidate[head * nodes + dependent] = share;
                if head == root {
                    others[0] += share;
                } else if !self.distance_scores.is_empty() && head != dependent {
                    others[1 + offset_class(dependent, head)] += share;
                }
            }
        }
        for (slopes, &head) in by_head.as_chunks_mut::<2>().0.iter_mut().zip(&self.heads) {
            sentence.read_attention(head, weights);
            let products = dot_in_both_directions(weights, by_dependent, by_candidate);
            slopes[0] += products[0];
            slopes[1] += products[1];
        }
        loss
    }

    /// Appends a row of regressors for each candidate of each word, centred by [`centre_rows`]. Attention is multiplied by
    /// `scales`, `[heads]`, one number for each direction. The outer products of the rows sum to the second derivatives of
    /// [`Self::loss`].
    #[expect(clippy::cast_possible_truncation, reason = "second derivatives need not be exact")]
    pub fn append_curvature_rows(
        &self,
        sentence: &KeptSentence,
        scales: &[[f64; 2]],
        scores: &mut NodeScores,
        rows: &mut Vec<f32>,
    ) {
        let (nodes, root) = (sentence.node_count(), sentence.words.len());
        self.compute_probabilities(sentence, scores);
        let NodeScores { weights, by_dependent, .. } = scores;
        let of_heads = 2 * self.heads.len();
        let width = of_heads + 1 + self.distance_scores.len();
        let dependents = || (0..root).filter(|&word| sentence.words[word].gold != GoldHead::Unknown);
        let start = rows.len();
        rows.resize(start + dependents().count() * nodes * width, 0.0);
        let rows = &mut rows[start..];
        for ((&head, scale), place) in zip(&self.heads, scales).zip(0..) {
            sentence.read_attention(head, weights);
            let scale = scale.map(|scale| scale as f32);
            for (of_word, dependent) in rows.chunks_exact_mut(nodes * width).zip(dependents()) {
                for (row, node) in of_word.chunks_exact_mut(width).zip(0..) {
                    row[2 * place] = scale[0] * weights[dependent * nodes + node];
                    row[2 * place + 1] = scale[1] * weights[node * nodes + dependent];
                }
            }
        }
        let mut mean = vec![0.0; width];
        for (of_word, dependent) in rows.chunks_exact_mut(nodes * width).zip(dependents()) {
            for (row, node) in of_word.chunks_exact_mut(width).zip(0..) {
                if node == root {
                    row[of_heads] = 1.0;
                } else if !self.distance_scores.is_empty() && node != dependent {
                    row[of_heads + 1 + offset_class(dependent, node)] = 1.0;
                }
            }
            centre_rows(of_word, &by_dependent[dependent * nodes..][..nodes], &mut mean);
        }
    }

    /// Predicts each word's syntactic head as [`likeliest_head`] does, `[words]`.
    pub fn predict_heads(&self, sentence: &KeptSentence, scores: &mut NodeScores) -> Vec<(Option<usize>, bool)> {
        let (nodes, root) = (sentence.node_count(), sentence.words.len());
        let rows = self.score_candidates(sentence, scores).chunks_exact(nodes).take(root);
        rows.enumerate().map(|(dependent, row)| likeliest_head(dependent, row)).collect()
    }
}

/// Returns the word with the highest score as syntactic head of `dependent`, and whether the root scores higher. The last
/// score of `row` is the root's. Ties go to the first word. `None` in a sentence of one word.
pub fn likeliest_head(dependent: usize, row: &[f64]) -> (Option<usize>, bool) {
    let root = row.len() - 1;
    let others = (0..root).filter(|&head| head != dependent);
    let head = others.reduce(|best, head| if row[head] > row[best] { head } else { best });
    (head, head.is_none_or(|head| row[root] > row[head]))
}

impl GoldHead {
    /// Returns the node index of the gold syntactic head; `root` is the root's node. `None` if the gold head is unknown.
    pub fn node_index(self, root: usize) -> Option<usize> {
        match self {
            Self::Root => Some(root),
            Self::Word(head) => Some(head),
            Self::Unknown => None,
        }
    }
}

/// Adds `out_weight` times the attention weights to `by_dependent`, and `back_weight` times the weights to `by_candidate`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn add_in_both_directions(
    weights: &[f32],
    [out_weight, back_weight]: [f64; 2],
    by_dependent: &mut [f64],
    by_candidate: &mut [f64],
) {
    for ((&weight, by_dependent), by_candidate) in weights.iter().zip(by_dependent).zip(by_candidate) {
        *by_dependent += out_weight * f64::from(weight);
        *by_candidate += back_weight * f64::from(weight);
    }
}

/// Returns the dot products of the attention weights with `by_dependent` and with `by_candidate`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn dot_in_both_directions(weights: &[f32], by_dependent: &[f64], by_candidate: &[f64]) -> [f64; 2] {
    let mut sums = [[0.0; LANES]; 2];
    let (weights, weights_left) = weights.as_chunks::<LANES>();
    let ((by_dependent, out_left), (by_candidate, back_left)) =
        (by_dependent.as_chunks::<LANES>(), by_candidate.as_chunks::<LANES>());
    for ((weights, by_dependent), by_candidate) in weights.iter().zip(by_dependent).zip(by_candidate) {
        for lane in 0..LANES {
            let weight = f64::from(weights[lane]);
            sums[0][lane] += weight * by_dependent[lane];
            sums[1][lane] += weight * by_candidate[lane];
        }
    }
    for (lane, &weight) in weights_left.iter().enumerate() {
        sums[0][lane] += f64::from(weight) * out_left[lane];
        sums[1][lane] += f64::from(weight) * back_left[lane];
    }
    sums.map(|sums| reduce_lanes(sums, |a, b| a + b))
}
