//! The baseline of the parser that sees no attention: how far words are apart, and which words they are by their embeddings.
//!
//! Attention knows both, so that being ahead of distances alone says little of what heads compute (docs/methodology/parser.md).

use nalgebra::{DMatrix, SymmetricEigen};

use super::fit::TOLERANCE;
use super::graph::likeliest;
use super::minimise::minimise;
use super::sentence::{KeptSentence, KeptWord};
use super::sums::ParserSums;
use super::tally::Tally;
use crate::study::metrics::estimates::EstimationContext;
use crate::system::parallel::in_parallel;

/// Principal components of word embeddings that the baseline knows.
pub const COMPONENTS: usize = 40;

/// The penalties on the square of every parameter, of which each fold chooses one by its halves.
pub const RIDGES: [f64; 5] = [1e-4, 1e-3, 3e-3, 1e-2, 3e-2];

/// The length of the gradient at which a fit ends whose penalty is on trial.
const TRIAL_TOLERANCE: f64 = 1e-4;

/// Distances that are told apart: 1 to 10, 11 to 20, and farther, on either side.
const BUCKETS: usize = 24;

/// The parameters of a bucket: its own score, and the weights of the components of the word and of its candidate.
const OF_BUCKET: usize = 1 + 2 * COMPONENTS;

/// All parameters: those of the buckets, and the score of the root with the weights of the word's components.
const PARAMETERS: usize = BUCKETS * OF_BUCKET + 1 + COMPONENTS;

/// The bucket of another word's distance.
fn bucket(word: usize, candidate: usize) -> usize {
    let side = if candidate > word { BUCKETS / 2 } else { 0 };
    side + match candidate.abs_diff(word) {
        distance @ 1..=10 => distance - 1,
        11..=20 => 10,
        _ => 11,
    }
}

/// A sentence with the components of its words, `[words, COMPONENTS]`.
struct LexicalSentence<'a> {
    kept: &'a KeptSentence,
    components: Vec<f64>,
}

impl LexicalSentence<'_> {
    fn of(&self, word: usize) -> &[f64] {
        &self.components[word * COMPONENTS..][..COMPONENTS]
    }
}

/// The baseline as it was fitted on one fold.
pub struct LexicalFit {
    /// The words that it was fitted to.
    pub words: u64,
    /// The mean of `-ln p` of their heads, without the penalty.
    pub loss: f64,
    /// Steps of L-BFGS.
    pub steps: u64,
    /// The length of the gradient at the end.
    pub gradient: f64,
    /// The penalty that the fold chose.
    pub ridge: f64,
}

/// Fits the baseline on each fold, by its number, and tallies it on the other; `None` where the encoder gives no access to its
/// embeddings.
pub fn fitted(sums: &ParserSums, context: &EstimationContext) -> Option<([LexicalFit; 2], Tally)> {
    sums.embedding_width()?;
    let spaces = in_parallel(context.threads, [0, 1], |fold| Space::new(sums, &sums.in_fold(fold)));
    let trials: Vec<(usize, usize, f64)> = [0, 1]
        .into_iter()
        .flat_map(|fold| [0, 1].into_iter().flat_map(move |half| RIDGES.map(|ridge| (fold, half, ridge))))
        .collect();
    // What is fitted on one half of the fold leaves of the other, for each penalty.
    let losses = in_parallel(context.threads, trials, |(fold, half, ridge)| {
        let own = spaces[fold].sentences(sums, |block| block % 2 == fold && block / 2 % 2 == half);
        let others = spaces[fold].sentences(sums, |block| block % 2 == fold && block / 2 % 2 != half);
        let at = fit(&own, ridge, TRIAL_TOLERANCE).at;
        loss(&others, &at, None)
    });
    let chosen = [0, 1].map(|fold| {
        let of_ridge = |place: usize| losses[fold * 10 + place] + losses[fold * 10 + RIDGES.len() + place];
        let best = (0..RIDGES.len()).min_by(|&a, &b| of_ridge(a).total_cmp(&of_ridge(b))).expect("there are penalties");
        (fold, RIDGES[best])
    });
    let both = in_parallel(context.threads, chosen, |(fold, ridge)| {
        let own = spaces[fold].sentences(sums, |block| block % 2 == fold);
        let found = fit(&own, ridge, TOLERANCE);
        let words = words_of(&own);
        let fit = LexicalFit {
            words,
            loss: loss(&own, &found.at, None) / words.max(1) as f64,
            steps: found.steps,
            gradient: found.gradient,
            ridge,
        };
        let elsewhere = spaces[fold].sentences(sums, |block| block % 2 != fold);
        let heads = elsewhere.iter().map(|sentence| (sentence.kept, heads_of(sentence, &found.at)));
        (fit, Tally::of(heads))
    });
    let [(even, on_odd), (odd, on_even)] = <[_; 2]>::try_from(both).ok()?;
    Some(([even, odd], on_odd.and(&on_even)))
}

/// The leading components of the embeddings of a fold's words.
struct Space {
    mean: Vec<f64>,
    /// `[COMPONENTS, width]`, each by its standard deviation, so that a component has a variance of 1; 0 beyond the embeddings' own.
    directions: Vec<f64>,
}

impl Space {
    fn new(sums: &ParserSums, fold: &[&KeptSentence]) -> Self {
        let width = sums.embedding_width().unwrap_or(0);
        let words = || fold.iter().flat_map(|sentence| &sentence.words).filter_map(|word| sums.embedding(word));
        let count = words().count().max(1) as f64;
        let mut mean = vec![0.0; width];
        words().for_each(|word| mean.iter_mut().zip(word).for_each(|(mean, value)| *mean += value / count));
        let mut covariance = DMatrix::<f64>::zeros(width, width);
        for word in words() {
            let centred =
                nalgebra::DVector::from_iterator(width, word.iter().zip(&mean).map(|(value, mean)| value - mean));
            covariance.ger(1.0 / count, &centred, &centred, 1.0);
        }
        let SymmetricEigen { eigenvectors, eigenvalues } = SymmetricEigen::new(covariance);
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| eigenvalues[b].total_cmp(&eigenvalues[a]));
        let mut directions = vec![0.0; COMPONENTS * width];
        for (own, &place) in directions.chunks_exact_mut(width.max(1)).zip(&order) {
            // What does not vary but by rounding says nothing.
            if eigenvalues[place] > 1e-12 * eigenvalues[order[0]] {
                let scale = eigenvalues[place].sqrt().recip();
                own.iter_mut().zip(eigenvectors.column(place).iter()).for_each(|(own, value)| *own = value * scale);
            }
        }
        Self { mean, directions }
    }

    fn sentences<'a>(&self, sums: &'a ParserSums, takes: impl Fn(usize) -> bool) -> Vec<LexicalSentence<'a>> {
        let width = self.mean.len();
        let of_word = |word: &KeptWord| -> Vec<f64> {
            let Some(word) = sums.embedding(word) else { return vec![0.0; COMPONENTS] };
            let along = |direction: &[f64]| {
                let centred = word.iter().zip(&self.mean).map(|(value, mean)| value - mean);
                centred.zip(direction).map(|(value, direction)| value * direction).sum::<f64>()
            };
            self.directions.chunks_exact(width).map(along).collect()
        };
        let kept = sums.sentences.values().filter(|sentence| takes(sentence.block));
        kept.map(|kept| LexicalSentence { kept, components: kept.words.iter().flat_map(of_word).collect() }).collect()
    }
}

fn words_of(sentences: &[LexicalSentence<'_>]) -> u64 {
    let root = |sentence: &LexicalSentence<'_>| sentence.kept.words.len();
    let with_head = |sentence: &LexicalSentence<'_>| {
        sentence.kept.words.iter().filter(|word| word.gold.node(root(sentence)).is_some()).count() as u64
    };
    sentences.iter().map(with_head).sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The scores of all nodes of a sentence as heads of a word, `[nodes]`, the root last; its own is of no meaning.
fn score(sentence: &LexicalSentence<'_>, word: usize, at: &[f64], scores: &mut Vec<f64>) {
    let words = sentence.kept.words.len();
    scores.clear();
    for candidate in 0..words {
        let (own, _) = at[bucket(word, candidate) * OF_BUCKET..].split_at(OF_BUCKET);
        let (a, c) = own[1..].split_at(COMPONENTS);
        scores.push(own[0] + dot(a, sentence.of(word)) + dot(c, sentence.of(candidate)));
    }
    let root = &at[BUCKETS * OF_BUCKET..];
    scores.push(root[0] + dot(&root[1..], sentence.of(word)));
}

/// The sum of `-ln p` of the heads of all words with one, without the penalty; its derivatives are added to `slopes`.
fn loss(sentences: &[LexicalSentence<'_>], at: &[f64], mut slopes: Option<&mut [f64]>) -> f64 {
    let (mut total, mut scores) = (0.0, Vec::new());
    for sentence in sentences {
        let root = sentence.kept.words.len();
        for (word, kept) in sentence.kept.words.iter().enumerate() {
            let Some(gold) = kept.gold.node(root) else { continue };
            score(sentence, word, at, &mut scores);
            scores[word] = f64::NEG_INFINITY;
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
            total += sum.ln() - (scores[gold] - most);
            let Some(slopes) = slopes.as_deref_mut() else { continue };
            for (node, score) in scores.iter().enumerate().filter(|(node, _)| *node != word) {
                let excess = (score - most).exp() / sum - f64::from(u8::from(node == gold));
                let start = if node == root { BUCKETS } else { bucket(word, node) } * OF_BUCKET;
                let own = &mut slopes[start..];
                own[0] += excess;
                add(&mut own[1..=COMPONENTS], excess, sentence.of(word));
                if node < root {
                    add(&mut own[1 + COMPONENTS..OF_BUCKET], excess, sentence.of(node));
                }
            }
        }
    }
    total
}

fn add(slopes: &mut [f64], factor: f64, values: &[f64]) {
    slopes.iter_mut().zip(values).for_each(|(slope, value)| *slope += factor * value);
}

/// The likeliest parameters under a penalty.
fn fit(sentences: &[LexicalSentence<'_>], ridge: f64, tolerance: f64) -> super::minimise::Minimum {
    let words = words_of(sentences).max(1) as f64;
    minimise(PARAMETERS, tolerance, |at, gradient| {
        gradient.fill(0.0);
        let loss = loss(sentences, at, Some(gradient)) / words;
        gradient.iter_mut().zip(at).for_each(|(slope, at)| *slope = *slope / words + 2.0 * ridge * at);
        loss + ridge * dot(at, at)
    })
}

/// The likeliest head of each word among the other words, and whether the root is likelier.
fn heads_of(sentence: &LexicalSentence<'_>, at: &[f64]) -> Vec<(Option<usize>, bool)> {
    let mut scores = Vec::new();
    let of_word = |word: usize| {
        score(sentence, word, at, &mut scores);
        likeliest(word, &scores)
    };
    (0..sentence.kept.words.len()).map(of_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_their_buckets() {
        let of = |distances: &[usize]| -> Vec<usize> {
            distances.iter().map(|&distance| bucket(50, 50 - distance)).collect()
        };
        assert_eq!(of(&[1, 10, 11, 20, 21, 50]), [0, 9, 10, 10, 11, 11]);
        assert_eq!((bucket(0, 1), bucket(0, 20), bucket(0, 21)), (12, 22, 23));
    }
}
