//! The baseline parser without attention. It uses the distance between two words and their embeddings. Attention reflects
//! both. A lead over distances alone thus says little about what attention heads compute (docs/methodology/parser.md).

use std::collections::BTreeMap;

use itertools::Itertools;
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};

use super::fit::GRADIENT_TOLERANCE;
use super::optimum::{FitRecord, Minimum, dot, minimise};
use crate::model::forward::WordEmbeddings;
use crate::passes::setup::PassSetup;
use crate::stats::blocks::Merge;
use crate::study::metrics::estimates::EstimationContext;
use crate::system::parallel::parallel_map;

/// Word embeddings of the tokens in the sampled sentences. Empty for the untrained model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KeptEmbeddings {
    /// Whether [`Self::keep_embeddings`] stores embeddings.
    are_kept: bool,
    /// Embedding of each token, by token id.
    of_tokens: BTreeMap<u32, Vec<f32>>,
    /// Embeddings of the whole vocabulary during a pass. `None` if the model gives no access to them.
    #[serde(skip)]
    table: Option<WordEmbeddings>,
}

impl KeptEmbeddings {
    /// Creates an empty collection that will keep embeddings.
    pub fn new_enabled() -> Self {
        Self { are_kept: true, ..Self::default() }
    }

    pub fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.table.clone_from(&known.embeddings);
    }

    /// Copies the embeddings of `tokens` from the model, if embeddings are kept.
    pub fn keep_embeddings<'a>(&mut self, tokens: impl Iterator<Item = &'a u32>) {
        let Some(table) = self.table.as_ref().filter(|_| self.are_kept) else { return };
        for &token in tokens {
            self.of_tokens.entry(token).or_insert_with(|| table.get(token).to_vec());
        }
    }

    /// Number of values per embedding. `None` if no embedding is kept.
    pub fn embedding_width(&self) -> Option<usize> {
        self.of_tokens.values().next().map(Vec::len)
    }

    /// Returns the mean embedding of a word, given its token ids. `None` if a token's embedding is missing.
    pub fn mean_embedding(&self, tokens: &[u32]) -> Option<Vec<f64>> {
        let mut mean = vec![0.0; self.embedding_width()?];
        for token in tokens {
            let embedding = self.of_tokens.get(token)?;
            mean.iter_mut().zip(embedding).for_each(|(mean, &value)| *mean += f64::from(value));
        }
        mean.iter_mut().for_each(|value| *value /= tokens.len().max(1) as f64);
        Some(mean)
    }

    /// Whether all embeddings are finite and equally long. Embeddings read from a file may fail this.
    pub fn are_valid(&self) -> bool {
        let width = self.embedding_width();
        let is_embedding =
            |values: &Vec<f32>| Some(values.len()) == width && values.iter().all(|value| value.is_finite());
        self.of_tokens.values().all(is_embedding)
    }
}

impl Merge for KeptEmbeddings {
    fn merge(&mut self, other: &Self) {
        for (&token, embedding) in &other.of_tokens {
            self.of_tokens.entry(token).or_insert_with(|| embedding.clone());
        }
    }
}

/// Number of principal components of word embeddings that the baseline uses.
pub const COMPONENT_COUNT: usize = 40;

/// Candidate ridge penalties. Each fold selects one by fitting on one half of the fold and scoring on the other half.
pub const RIDGE_PENALTIES: [f64; 5] = [1e-4, 1e-3, 3e-3, 1e-2, 3e-2];

/// Gradient norm at or below which the fit of a candidate ridge penalty ends.
const TRIAL_TOLERANCE: f64 = 1e-4;

/// Number of distance buckets. On each side there are 12: distances 1 to 10 in words, 11 to 20, and farther.
const BUCKET_COUNT: usize = 24;

/// Number of parameters per distance bucket: a score, then weights of the principal components of the word's embedding,
/// then weights of the candidate's.
const BUCKET_PARAMETER_COUNT: usize = 1 + 2 * COMPONENT_COUNT;

/// Number of parameters of the baseline: for each bucket, then for the root. The root has a score, and weights of the
/// principal components of the word's embedding.
const PARAMETER_COUNT: usize = BUCKET_COUNT * BUCKET_PARAMETER_COUNT + 1 + COMPONENT_COUNT;

/// Returns the index of the distance bucket of a word and its candidate. Buckets of candidates to the left come first.
fn distance_bucket(word: usize, candidate: usize) -> usize {
    let side = if candidate > word { BUCKET_COUNT / 2 } else { 0 };
    side + match candidate.abs_diff(word) {
        distance @ 1..=10 => distance - 1,
        11..=20 => 10,
        _ => 11,
    }
}

/// A word whose syntactic head, or link target, is to be chosen among candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordCandidates {
    /// Index of the word in its sentence.
    pub word: usize,
    /// Word indices of the candidates, ascending. The index after the last word stands for the root.
    pub candidates: Vec<usize>,
    /// Indices in `candidates` of the gold candidates. Empty if the gold head or target is unknown.
    pub targets: Vec<usize>,
}

/// A sentence with the words whose syntactic heads or link targets are to be predicted.
#[derive(Clone, Debug)]
pub struct LexicalSentence<'a> {
    /// Index of the sentence's jackknife block.
    pub block: usize,
    /// Token ids of each word.
    pub words: Vec<&'a [u32]>,
    /// Words whose syntactic head or link target is to be predicted.
    pub choices: Vec<WordCandidates>,
}

/// A sentence with its words' embeddings projected on principal components.
struct ProjectedSentence<'a> {
    sentence: &'a LexicalSentence<'a>,
    /// Principal components of each word's embedding, `[words, COMPONENT_COUNT]`.
    components: Vec<f64>,
}

impl ProjectedSentence<'_> {
    /// Principal components of one word's embedding, `[COMPONENT_COUNT]`.
    fn word_components(&self, word: usize) -> &[f64] {
        &self.components[word * COMPONENT_COUNT..][..COMPONENT_COUNT]
    }

    /// Index that stands for the root among candidates: the number of words.
    fn root_index(&self) -> usize {
        self.sentence.words.len()
    }

    /// Words whose gold syntactic head or link target is known.
    fn choices_with_targets(&self) -> impl Iterator<Item = &WordCandidates> {
        self.sentence.choices.iter().filter(|choice| !choice.targets.is_empty())
    }
}

/// Fit of the baseline on one fold.
pub struct LexicalFit {
    pub record: FitRecord,
    /// Ridge penalty that the fold selected.
    pub ridge: f64,
}

/// The baseline of distances and embeddings, fitted on each fold. Each sentence is scored by the fit on the other fold.
pub struct LexicalBaseline {
    /// Fit on each fold.
    pub fits: [LexicalFit; 2],
    /// Score of each candidate, `[sentences][choices][candidates]`.
    pub scores: Vec<Vec<Vec<f64>>>,
}

impl LexicalBaseline {
    /// Fits the baseline on each fold, with the principal components of that fold, and scores all candidates.
    pub fn new(
        (embeddings, spaces): (&KeptEmbeddings, &[EmbeddingSpace; 2]),
        sentences: &[LexicalSentence<'_>],
        context: &EstimationContext,
    ) -> Self {
        let projected =
            parallel_map(context.threads, [0, 1], |fold: usize| spaces[fold].project_sentences(embeddings, sentences));
        let halves = [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter();
        let trials: Vec<_> = halves.flat_map(|(fold, half)| RIDGE_PENALTIES.map(|ridge| (fold, half, ridge))).collect();
        // For each penalty, the loss on the other half of the fold.
        let losses = parallel_map(context.threads, trials, |(fold, half, ridge)| {
            let [fitted, tested] = [half, 1 - half]
                .map(|half| sentences_in_blocks(&projected[fold], |block| block % 2 == fold && block / 2 % 2 == half));
            loss(&tested, &fit_parameters(&fitted, ridge, TRIAL_TOLERANCE).point, None)
        });
        let ridges = [0, 1].map(|fold| {
            let loss = |place: usize| losses[fold * 10 + place] + losses[fold * 10 + RIDGE_PENALTIES.len() + place];
            let best = (0..RIDGE_PENALTIES.len()).min_by(|&a, &b| loss(a).total_cmp(&loss(b)));
            (fold, RIDGE_PENALTIES[best.expect("there are penalties")])
        });
        let fitted = parallel_map(context.threads, ridges, |(fold, ridge)| {
            let in_fold = sentences_in_blocks(&projected[fold], |block| block % 2 == fold);
            let minimum = fit_parameters(&in_fold, ridge, GRADIENT_TOLERANCE);
            let words = count_words_with_targets(&in_fold);
            let loss = loss(&in_fold, &minimum.point, None) / words.max(1) as f64;
            (LexicalFit { record: minimum.to_fit_record(words, loss), ridge }, minimum.point)
        });
        let scores_of = |(place, sentence): (usize, &LexicalSentence<'_>)| {
            let other_fold = 1 - sentence.block % 2;
            let (projected, (_, at)) = (&projected[other_fold][place], &fitted[other_fold]);
            let of_choice = |choice: &WordCandidates| {
                let mut scores = Vec::new();
                score_candidates(projected, choice, at, &mut scores);
                scores
            };
            sentence.choices.iter().map(of_choice).collect()
        };
        let scores = sentences.iter().enumerate().map(scores_of).collect();
        let fits = fitted.into_iter().map(|(fit, _)| fit).collect_array();
        Self { fits: fits.expect("a fit for each fold"), scores }
    }
}

/// Returns the sentences in the jackknife blocks for which `has(block)` holds.
fn sentences_in_blocks<'a>(
    sentences: &'a [ProjectedSentence<'a>],
    has: impl Fn(usize) -> bool,
) -> Vec<&'a ProjectedSentence<'a>> {
    sentences.iter().filter(|one| has(one.sentence.block)).collect()
}

/// Leading principal components of the word embeddings in one fold.
pub struct EmbeddingSpace {
    /// Mean embedding over words, `[width]`.
    mean: Vec<f64>,
    /// Directions of the components, `[COMPONENT_COUNT, width]`, scaled so that each component has variance 1. Rows beyond the
    /// rank of the embeddings are 0.
    directions: Vec<f64>,
}

impl EmbeddingSpace {
    /// Computes the principal components of each fold, given the token ids of its words. `None` if no embedding is kept,
    /// because the model gives no access to embeddings.
    pub fn fit_folds(
        embeddings: &KeptEmbeddings,
        words: &[Vec<&[u32]>; 2],
        context: &EstimationContext,
    ) -> Option<[Self; 2]> {
        let width = embeddings.embedding_width()?;
        let spaces = parallel_map(context.threads, [0, 1], |fold: usize| Self::new(embeddings, width, &words[fold]));
        spaces.try_into().ok()
    }

    /// Computes the principal components of `words`, each given by its token ids.
    fn new(embeddings: &KeptEmbeddings, width: usize, words: &[&[u32]]) -> Self {
        let words = || words.iter().filter_map(|tokens| embeddings.mean_embedding(tokens));
        let count = words().count().max(1) as f64;
        let mut mean = vec![0.0; width];
        words().for_each(|word| mean.iter_mut().zip(word).for_each(|(mean, value)| *mean += value / count));
        let mut covariance = DMatrix::<f64>::zeros(width, width);
        for word in words() {
            let centred = DVector::from_iterator(width, word.iter().zip(&mean).map(|(value, mean)| value - mean));
            covariance.ger(1.0 / count, &centred, &centred, 1.0);
        }
        let SymmetricEigen { eigenvectors, eigenvalues } = SymmetricEigen::new(covariance);
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| eigenvalues[b].total_cmp(&eigenvalues[a]));
        let mut directions = vec![0.0; COMPONENT_COUNT * width];
        for (own, &place) in directions.chunks_exact_mut(width.max(1)).zip(&order) {
            // Leaves out directions that vary only by rounding.
            if eigenvalues[place] > 1e-12 * eigenvalues[order[0]] {
                let scale = eigenvalues[place].sqrt().recip();
                own.iter_mut().zip(eigenvectors.column(place).iter()).for_each(|(own, value)| *own = value * scale);
            }
        }
        Self { mean, directions }
    }

    /// Projects the words of each sentence on the components. A word without an embedding gets zeros.
    fn project_sentences<'a>(
        &self,
        embeddings: &KeptEmbeddings,
        sentences: &'a [LexicalSentence<'a>],
    ) -> Vec<ProjectedSentence<'a>> {
        let width = self.mean.len();
        let of_word = |tokens: &&[u32]| -> Vec<f64> {
            let Some(word) = embeddings.mean_embedding(tokens) else { return vec![0.0; COMPONENT_COUNT] };
            let along = |direction: &[f64]| {
                let centred = word.iter().zip(&self.mean).map(|(value, mean)| value - mean);
                centred.zip(direction).map(|(value, direction)| value * direction).sum::<f64>()
            };
            self.directions.chunks_exact(width).map(along).collect()
        };
        let project = |sentence: &'a LexicalSentence<'a>| ProjectedSentence {
            sentence,
            components: sentence.words.iter().flat_map(of_word).collect(),
        };
        sentences.iter().map(project).collect()
    }
}

/// Number of words whose gold syntactic head or link target is known.
fn count_words_with_targets(sentences: &[&ProjectedSentence<'_>]) -> u64 {
    sentences.iter().map(|sentence| sentence.choices_with_targets().count() as u64).sum()
}

/// Writes the score of each candidate to `scores`, under the parameters `at`.
fn score_candidates(sentence: &ProjectedSentence<'_>, choice: &WordCandidates, at: &[f64], scores: &mut Vec<f64>) {
    let (word, root) = (choice.word, sentence.root_index());
    let score_of = |&candidate: &usize| {
        if candidate == root {
            let of_root = &at[BUCKET_COUNT * BUCKET_PARAMETER_COUNT..];
            return of_root[0] + dot(&of_root[1..], sentence.word_components(word));
        }
        let parameters = &at[distance_bucket(word, candidate) * BUCKET_PARAMETER_COUNT..][..BUCKET_PARAMETER_COUNT];
        let (a, c) = parameters[1..].split_at(COMPONENT_COUNT);
        parameters[0] + dot(a, sentence.word_components(word)) + dot(c, sentence.word_components(candidate))
    };
    scores.clear();
    scores.extend(choice.candidates.iter().map(score_of));
}

/// Returns the loss without penalty: the mean of `-ln p` over a word's gold candidates, summed over words. Adds its
/// derivatives to `slopes`.
fn loss(sentences: &[&ProjectedSentence<'_>], at: &[f64], mut slopes: Option<&mut [f64]>) -> f64 {
    let (mut total, mut scores) = (0.0, Vec::new());
    for sentence in sentences {
        for choice in sentence.choices_with_targets() {
            score_candidates(sentence, choice, at, &mut scores);
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
            let share = 1.0 / choice.targets.len() as f64;
            total += sum.ln() - choice.targets.iter().map(|&target| scores[target] - largest).sum::<f64>() * share;
            let Some(slopes) = slopes.as_deref_mut() else { continue };
            let word = choice.word;
            for ((place, score), &node) in scores.iter().enumerate().zip(&choice.candidates) {
                let is_target = choice.targets.binary_search(&place).is_ok();
                let excess = (score - largest).exp() / sum - if is_target { share } else { 0.0 };
                let start = if node == sentence.root_index() { BUCKET_COUNT } else { distance_bucket(word, node) }
                    * BUCKET_PARAMETER_COUNT;
                let bucket_slopes = &mut slopes[start..];
                bucket_slopes[0] += excess;
                add_scaled(&mut bucket_slopes[1..=COMPONENT_COUNT], excess, sentence.word_components(word));
                if node < sentence.root_index() {
                    add_scaled(
                        &mut bucket_slopes[1 + COMPONENT_COUNT..BUCKET_PARAMETER_COUNT],
                        excess,
                        sentence.word_components(node),
                    );
                }
            }
        }
    }
    total
}

/// Adds `factor` times `values` to `slopes`.
fn add_scaled(slopes: &mut [f64], factor: f64, values: &[f64]) {
    slopes.iter_mut().zip(values).for_each(|(slope, value)| *slope += factor * value);
}

/// Fits the parameters by minimising the mean loss plus the ridge penalty.
fn fit_parameters(sentences: &[&ProjectedSentence<'_>], ridge: f64, tolerance: f64) -> Minimum {
    let words = count_words_with_targets(sentences).max(1) as f64;
    minimise(PARAMETER_COUNT, tolerance, |at, gradient| {
        gradient.fill(0.0);
        let loss = loss(sentences, at, Some(gradient)) / words;
        gradient.iter_mut().zip(at).for_each(|(slope, at)| *slope = *slope / words + 2.0 * ridge * at);
        loss + ridge * dot(at, at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_their_buckets() {
        let of = |distances: &[usize]| -> Vec<usize> {
            distances.iter().map(|&distance| distance_bucket(50, 50 - distance)).collect()
        };
        assert_eq!(of(&[1, 10, 11, 20, 21, 50]), [0, 9, 10, 10, 11, 11]);
        assert_eq!((distance_bucket(0, 1), distance_bucket(0, 20), distance_bucket(0, 21)), (12, 22, 23));
    }
}
