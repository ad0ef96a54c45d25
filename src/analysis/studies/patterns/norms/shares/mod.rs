//! Shares of variance in a head's output vectors. A share is no ratio of sums over blocks, so each block has a jackknife
//! pseudo-value (docs/methodology/norms.md).

use super::observe::{SINK_KIND_COUNT, VECTOR_COUNT};
use super::sums::{NormBlock, NormsSums};
use crate::study::metrics::metric::Fraction;
use crate::study::metrics::pseudo_values::{Replicate, pseudo_values};

/// Shares of variance of one head's output, and of its part from each kind of sink.
#[derive(Clone, Debug)]
pub struct OutputShares {
    /// Share of the output's mean square that is constant over all queries.
    pub constant: FractionsByBlock,
    /// Share of the output's variance that lies between sentences.
    pub sentence: FractionsByBlock,
    /// As `constant`, for the output's part from each kind of sink.
    pub sink_constant: [FractionsByBlock; SINK_KIND_COUNT],
    /// Share of `sum |s_i|²` that lies between sentences, where `s_i` is the output's part from a kind of sink. Unlike
    /// `sentence`, it is no variance component.
    pub sink_sentence: [FractionsByBlock; SINK_KIND_COUNT],
}

/// A fraction for each jackknife block, then one for all blocks.
pub type FractionsByBlock = Vec<Fraction>;

/// Sums of squares of vectors `x_i`, one per text query, as used in an analysis of variance.
#[derive(Clone, Copy, Debug, Default)]
struct SumsOfSquares {
    /// Sum of squared norms, `sum |x_i|²`.
    total: f64,
    /// Sum over sentences `s` of `n_s |mean x|²`, with the mean over the sentence's `n_s` vectors.
    sentence_means: f64,
    /// Number of vectors times the squared norm of their mean, `n |mean x|²`.
    grand_mean: f64,
    /// Number of vectors, `n`.
    count: f64,
    sentences: f64,
    /// Sum over sentences `s` of the squared number of vectors, `sum n_s²`.
    squared_counts: f64,
}

impl SumsOfSquares {
    /// Share of the mean square that is constant: `|mean x|² / mean |x|²`. `None` if it is not finite.
    fn constant_share(&self) -> Option<f64> {
        finite_or_none(self.grand_mean / self.total)
    }

    /// Share of `sum |x|²` that lies between sentences. `None` if it is not finite.
    fn between_sentence_share(&self) -> Option<f64> {
        finite_or_none((self.sentence_means - self.grand_mean) / self.total)
    }

    /// Variance component between sentences, as a share of the total variance. `None` if the vectors hardly vary.
    ///
    /// Unbiased analysis-of-variance estimates for one random factor with unequal groups (Searle, Casella & `McCulloch`
    /// 1992, section 3.6).
    fn between_sentence_component(&self) -> Option<f64> {
        let Self { total, sentence_means, grand_mean, count, sentences, squared_counts } = *self;
        let within = (total - sentence_means) / (count - sentences);
        let between = (sentence_means - grand_mean) / (sentences - 1.0);
        let size = (count - squared_counts / count) / (sentences - 1.0);
        let between_component = (between - within) / size;
        let variance = between_component + within;
        finite_or_none(between_component / variance).filter(|_| variance * count > MIN_VARIANCE * total)
    }

    /// Subtracts the sums of one block. The grand mean cannot be subtracted, so it is left at 0.
    fn subtract(&self, block: &Self) -> Self {
        Self {
            total: self.total - block.total,
            sentence_means: self.sentence_means - block.sentence_means,
            grand_mean: 0.0,
            count: self.count - block.count,
            sentences: self.sentences - block.sentences,
            squared_counts: self.squared_counts - block.squared_counts,
        }
    }
}

/// Minimum total variance for which `between_sentence_component` has a value, as a share of the mean square. Outputs are
/// f32, so their squares are accurate to about 1e-7.
const MIN_VARIANCE: f64 = 1e-6;

fn finite_or_none(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

impl OutputShares {
    /// Computes the shares of the head with index `place`. `total` has the sums over all blocks.
    pub fn new(sums: &NormsSums, total: &NormBlock, place: usize) -> Self {
        let gram = &sums.grams[place];
        let width = gram.len().isqrt().max(1);
        let quadratic_form = |a: &[f64], b: &[f64]| -> f64 {
            let row = |row: &[f32]| row.iter().zip(b).map(|(&entry, b)| f64::from(entry) * b).sum::<f64>();
            a.iter().zip(gram.chunks_exact(width)).map(|(a, entries)| a * row(entries)).sum()
        };
        let all: Vec<f64> = total.vector_components(place).collect();
        let by_block: Vec<Vec<f64>> =
            sums.blocks.iter().map(|block| block.vector_components(place).collect()).collect();
        let [output, sinks @ ..] = std::array::from_fn::<_, VECTOR_COUNT, _>(|vector| {
            let corpus = sums_of_squares(total, place, vector);
            let part_of = |vectors: &[f64]| -> Vec<f64> {
                let width = vectors.len() / VECTOR_COUNT;
                vectors[vector * width..][..width].to_vec()
            };
            let corpus_part = part_of(&all);
            let square = quadratic_form(&corpus_part, &corpus_part);
            let with_mean =
                |squares: SumsOfSquares, square: f64| SumsOfSquares { grand_mean: square / squares.count, ..squares };
            let without = |(block, vectors): (&NormBlock, &Vec<f64>)| {
                let own = sums_of_squares(block, place, vector);
                if own.count == 0.0 {
                    return None;
                }
                let vectors = part_of(vectors);
                // |M - m|² = |M|² - 2 <M, m> + |m|²
                let square = square - 2.0 * quadratic_form(&corpus_part, &vectors) + quadratic_form(&vectors, &vectors);
                Some(with_mean(corpus.subtract(&own), square))
            };
            let without: Vec<Option<SumsOfSquares>> = sums.blocks.iter().zip(&by_block).map(without).collect();
            (with_mean(corpus, square), without)
        });
        let fractions_of = |(corpus, without): &(SumsOfSquares, Vec<Option<SumsOfSquares>>), share| {
            jackknife_pseudovalues(corpus, without, share)
        };
        Self {
            constant: fractions_of(&output, SumsOfSquares::constant_share),
            sentence: fractions_of(&output, SumsOfSquares::between_sentence_component),
            sink_constant: sinks.each_ref().map(|sink| fractions_of(sink, SumsOfSquares::constant_share)),
            sink_sentence: sinks.each_ref().map(|sink| fractions_of(sink, SumsOfSquares::between_sentence_share)),
        }
    }
}

/// Sums of squares of one kind of vectors in one block. Vector 0 is the head's output; the others are its parts from each
/// kind of sink. The grand mean is left at 0.
fn sums_of_squares(block: &NormBlock, place: usize, vector: usize) -> SumsOfSquares {
    let (exposure, head) = (&block.exposure, &block.heads[place]);
    let (total, sentence_means) = match vector.checked_sub(1) {
        None => (head.square, head.mean_square),
        Some(sink) => (head.sink_square[sink], head.sink_mean_square[sink]),
    };
    SumsOfSquares {
        total: total.value(),
        sentence_means: sentence_means.value(),
        grand_mean: 0.0,
        count: exposure.queries as f64,
        sentences: exposure.sentences as f64,
        squared_counts: exposure.squared as f64,
    }
}

/// Jackknife pseudo-values of a share, one for each block, with the number of queries as weight. `without` has the sums
/// over all but each block.
fn jackknife_pseudovalues(
    corpus: &SumsOfSquares,
    without: &[Option<SumsOfSquares>],
    share: fn(&SumsOfSquares) -> Option<f64>,
) -> FractionsByBlock {
    let replicate = |without: &Option<SumsOfSquares>| {
        let without = without.as_ref()?;
        Some(Replicate { value: share(without)?, remaining_share: without.count / corpus.count })
    };
    pseudo_values(share(corpus), &without.iter().map(replicate).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
