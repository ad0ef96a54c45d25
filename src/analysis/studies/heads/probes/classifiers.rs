//! Linear discriminants on one or two blocks of features, computed from sums (Fisher 1936; Hastie et al. 2009, section 4.3), and
//! prediction with the trained classifiers.

use crate::linalg::cholesky::Cholesky;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply, multiply_add};

/// Linear classifiers of several probing tasks on the same features, evaluated together by one matrix product.
#[derive(Clone, Debug, Default)]
pub struct StackedClassifiers {
    features: usize,
    /// Weights of all tasks' classifiers side by side, `[features, columns]`: one column for each class of each task.
    weights: Vec<f32>,
    /// Bias of each column, `[columns]`.
    bias: Vec<f32>,
    /// `(index of a task, classes that the task's columns of weights score)`, in the order of the columns.
    parts: Vec<(usize, Vec<usize>)>,
}

impl StackedClassifiers {
    #[expect(clippy::cast_possible_truncation, reason = "scores are of float32 features")]
    pub fn new(features: usize, parts: Vec<(usize, Vec<usize>, LinearClassifier)>) -> Self {
        let columns: usize = parts.iter().map(|(_, classes, _)| classes.len()).sum();
        let mut stack = Self { features, weights: Vec::with_capacity(features * columns), ..Self::default() };
        for feature in 0..features {
            for (_, classes, linear) in &parts {
                let row = &linear.weights[feature * classes.len()..][..classes.len()];
                stack.weights.extend(row.iter().map(|&weight| weight as f32));
            }
        }
        for (task, classes, linear) in parts {
            stack.bias.extend(linear.bias.iter().map(|&bias| bias as f32));
            stack.parts.push((task, classes));
        }
        stack
    }

    /// Number of columns: classes of all tasks.
    fn column_count(&self) -> usize {
        self.bias.len()
    }

    /// Predicts the class of each word in each task, and calls `predicted(task, word, class)`. The predicted class
    /// has the largest score; ties go to the first class.
    ///
    /// Features are `[words, features]` with `stride`. `beside` has scores to be added; `scores` is a buffer for
    /// all scores.
    pub fn classify(
        &self,
        (rows, words, stride): (&[f32], usize, usize),
        beside: Option<EmbeddingScores<'_>>,
        scores: &mut Vec<f32>,
        mut predicted: impl FnMut(usize, usize, usize),
    ) {
        let columns = self.column_count();
        if columns == 0 || words == 0 {
            return;
        }
        scores.clear();
        match beside {
            Some(EmbeddingScores { kind_scores, stride, kinds }) => {
                kinds.iter().for_each(|kind| scores.extend_from_slice(&kind_scores[kind * stride..][..columns]));
            }
            None => scores.resize(words * columns, 0.0),
        }
        let rows = Matrix::with_row_stride(rows, words, self.features, stride);
        multiply_add(MatrixMut::new(scores, words, columns), rows, Matrix::new(&self.weights, self.features, columns));
        for (word, scores) in scores.chunks_exact(columns).enumerate() {
            let mut start = 0;
            for (task, classes) in &self.parts {
                let own = start..start + classes.len();
                let mut best = (f32::NEG_INFINITY, 0);
                for ((score, bias), &class) in scores[own.clone()].iter().zip(&self.bias[own.clone()]).zip(classes) {
                    if score + bias > best.0 {
                        best = (score + bias, class);
                    }
                }
                predicted(*task, word, best.1);
                start = own.end;
            }
        }
    }
}

/// Scores from the embedding part of one head's classifiers, to be added to the scores from the context part.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingScores<'a> {
    /// Scores of each distinct word embedding (kind), `[kinds, columns]`.
    kind_scores: &'a [f32],
    /// Number of elements from the start of one row of `kind_scores` to the start of the next.
    stride: usize,
    /// Index of each word's embedding among the distinct embeddings, `[words]`: its row in `kind_scores`.
    kinds: &'a [usize],
}

/// Classifiers on the contexts of one attention head.
#[derive(Clone, Debug, Default)]
pub struct HeadProbes {
    /// Classifiers on the head's context vectors alone.
    pub context_only: StackedClassifiers,
    /// Classifiers on embedding and context together, without the weights of the embedding. These weights are in
    /// [`LayerProbes::embedding_weights`].
    pub embedding_and_context: StackedClassifiers,
    /// Classifiers on the context alone for the control tasks.
    pub control: StackedClassifiers,
}

/// Classifiers on the vectors of one layer.
#[derive(Clone, Debug, Default)]
pub struct LayerProbes {
    /// Classifiers on the input of the layer.
    pub input: StackedClassifiers,
    /// Embedding part of all heads' classifiers on embedding and context, side by side, `[embedding, heads * columns]`.
    pub embedding_weights: Vec<f32>,
    pub heads: Vec<HeadProbes>,
}

impl LayerProbes {
    /// Multiplies the distinct word `embeddings` (kinds) by `embedding_weights`, into `scores`, `[kinds, heads *
    /// columns]`.
    pub fn score_embeddings(&self, embeddings: &[f32], kinds: usize, scores: &mut Vec<f32>) {
        let columns: usize = self.heads.iter().map(|head| head.embedding_and_context.column_count()).sum();
        scores.clear();
        scores.resize(kinds * columns, 0.0);
        if columns > 0 {
            let width = embeddings.len() / kinds.max(1);
            let weights = Matrix::new(&self.embedding_weights, width, columns);
            multiply(MatrixMut::new(scores, kinds, columns), Matrix::new(embeddings, kinds, width), weights);
        }
    }

    /// The columns of one head in `scores` from [`Self::score_embeddings`]. `None` if the head has no classifier on
    /// embedding and context.
    pub fn kind_scores<'a>(&self, head: usize, scores: &'a [f32], kinds: &'a [usize]) -> Option<EmbeddingScores<'a>> {
        let columns = self.heads[head].embedding_and_context.column_count();
        let stride = self.heads.len() * columns;
        (columns > 0).then(|| EmbeddingScores { kind_scores: &scores[head * columns..], stride, kinds })
    }
}

/// Ridge that is added to the diagonal of a covariance matrix, after the matrix was scaled to a mean diagonal of 1.
pub const RIDGE: f64 = 1e-3;

/// Share of the features' mean square below which their within-class variance counts as a rounding error, so that
/// the features are constant.
const MAX_CONSTANT_VARIANCE: f64 = 1e-9;

/// Numbers of training words of a task, by class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassWordCounts {
    /// Indices of the classes that have training words, ascending.
    pub classes: Vec<usize>,
    /// Number of words of each class in `classes`, above 0.
    pub words: Vec<f64>,
}

impl ClassWordCounts {
    pub fn new(words: &[u64]) -> Self {
        let present = words.iter().enumerate().filter(|(_, words)| **words > 0);
        let (classes, words) = present.map(|(class, &words)| (class, words as f64)).unzip();
        Self { classes, words }
    }

    /// Number of words of all classes.
    pub fn word_count(&self) -> f64 {
        self.words.iter().sum()
    }

    /// Degrees of freedom of the within-class covariance: words minus classes.
    fn degrees_of_freedom(&self) -> f64 {
        self.word_count() - self.classes.len() as f64
    }

    /// Feature sum of each class divided by `sqrt(words)`, `[classes, size]`. The Gram matrix of these rows is the
    /// uncentred between-class scatter.
    fn divided_by_root_counts(&self, sums: &[Vec<f64>]) -> Vec<f64> {
        let rows = sums.iter().zip(&self.words);
        rows.flat_map(|(sum, words)| sum.iter().map(move |value| value / words.sqrt())).collect()
    }
}

/// A linear classifier: the score of a class is `x · weights + bias` for features `x`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearClassifier {
    /// Weights for unscaled features, `[features, classes]`.
    pub weights: Vec<f64>,
    /// Bias of each class, `[classes]`.
    pub bias: Vec<f64>,
}

/// Statistics of a block of features: class means and within-class covariance, scaled so that the covariance's
/// trace is its dimension.
#[derive(Clone, Debug)]
pub struct FeatureBlock {
    /// Number of features.
    size: usize,
    /// Scaling factor of the block's features; 0 for constant features.
    scale: f64,
    /// Mean of the unscaled features over all words, `[size]`.
    centre: Vec<f64>,
    /// Class means minus the overall mean, scaled, `[size, classes]`.
    means: Vec<f64>,
    /// Within-class covariance, scaled and with the ridge added, `[size, size]`.
    covariance: Vec<f64>,
    /// Feature sum of each class, divided by the square root of its number of words, `[classes, size]`.
    rooted: Vec<f64>,
}

impl FeatureBlock {
    /// Computes the statistics from sums over words: products of features (`squares`, `[size, size]`), and the
    /// feature sums of each class.
    pub fn new(mut squares: Vec<f64>, sums: &[Vec<f64>], counts: &ClassWordCounts) -> Self {
        let (size, classes, total) = (sums.first().map_or(0, Vec::len), sums.len(), counts.word_count());
        let trace = |squares: &[f64]| squares.iter().step_by(size + 1).sum::<f64>();
        let all = trace(&squares);
        let rooted = counts.divided_by_root_counts(sums);
        let mut between = vec![0.0; size * size];
        let rows = Matrix::new(&rooted, classes, size);
        multiply(MatrixMut::new(&mut between, size, size), rows.transposed(), rows);
        squares.iter_mut().zip(&between).for_each(|(square, between)| *square -= between);
        let within = trace(&squares);
        let varies = size > 0 && within > MAX_CONSTANT_VARIANCE * all;
        let variance = within / counts.degrees_of_freedom();
        let scale = if varies { (size as f64 / variance).sqrt() } else { 0.0 };
        let factor = scale * scale / counts.degrees_of_freedom();
        squares.iter_mut().for_each(|square| *square *= factor);
        squares.iter_mut().step_by(size + 1).for_each(|square| *square += RIDGE);
        let centre: Vec<f64> = (0..size).map(|at| sums.iter().map(|sum| sum[at]).sum::<f64>() / total).collect();
        let mean = |at: usize, class: usize| scale * (sums[class][at] / counts.words[class] - centre[at]);
        let cells = (0..size).flat_map(|feature| (0..classes).map(move |class| (feature, class)));
        let means = cells.map(|(feature, class)| mean(feature, class)).collect();
        Self { size, scale, centre, means, covariance: squares, rooted }
    }

    /// Linear discriminant on the features of this block. `None` if their covariance is not positive definite.
    pub fn classifier(self, counts: &ClassWordCounts) -> Option<LinearClassifier> {
        Some(FactorizedBlock::new(self, counts)?.classifier(counts))
    }

    /// Weights for unscaled features, from weights for scaled ones.
    fn unscale_weights(&self, mut weights: Vec<f64>) -> Vec<f64> {
        weights.iter_mut().for_each(|weight| *weight *= self.scale);
        weights
    }

    /// Scores of the block's centre, `centre · weights`, `[classes]`.
    fn centre_scores(&self, weights: &[f64], classes: usize) -> Vec<f64> {
        let mut offset = vec![0.0; classes];
        for (centre, row) in self.centre.iter().zip(weights.chunks_exact(classes.max(1))) {
            offset.iter_mut().zip(row).for_each(|(sum, weight)| *sum += centre * weight);
        }
        offset
    }
}

/// A block of features with the Cholesky factor of its covariance.
pub struct FactorizedBlock {
    block: FeatureBlock,
    /// Cholesky factor `U` of the block's covariance.
    factor: Cholesky,
    /// Class means multiplied by the inverse of the transposed Cholesky factor `U` of the covariance: `U⁻ᵀ means`,
    /// `[size, classes]`.
    whitened_means: Vec<f64>,
}

/// Sum of squares of each column, `[classes]`.
fn column_squares(half: &[f64], classes: usize) -> Vec<f64> {
    let mut sums = vec![0.0; classes];
    for row in half.chunks_exact(classes.max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value * value);
    }
    sums
}

impl FactorizedBlock {
    /// Factorises the covariance of a block. `None` if the covariance is not positive definite, as when it has NaN.
    pub fn new(mut block: FeatureBlock, counts: &ClassWordCounts) -> Option<Self> {
        let factor = Cholesky::new(std::mem::take(&mut block.covariance), block.size)?;
        let mut half = block.means.clone();
        factor.solve_lower(&mut half, counts.classes.len());
        Some(Self { block, factor, whitened_means: half })
    }

    /// Linear discriminant on the features of this block: `x Σ⁻¹ μ - μ Σ⁻¹ μ / 2 + ln prior`. Features `x` and class
    /// means `μ` are centred at the overall mean; `Σ` is the within-class covariance.
    pub fn classifier(&self, counts: &ClassWordCounts) -> LinearClassifier {
        let classes = counts.classes.len();
        let mut weights = self.whitened_means.clone();
        self.factor.solve_upper(&mut weights, classes);
        let weights = self.block.unscale_weights(weights);
        let offsets = self.block.centre_scores(&weights, classes);
        LinearClassifier {
            weights,
            bias: class_biases(counts, &column_squares(&self.whitened_means, classes), &[offsets]),
        }
    }

    /// Columns for [`FactorizedBlock::joint_classifier`], `[size, columns]`: `U⁻ᵀ` times the within-class
    /// cross-covariance of this block with the `others`. `U` is this block's Cholesky factor.
    ///
    /// `crosses` has the products of both blocks' features, summed over all words, `[size, columns]`. Each other
    /// block has `columns / others.len()` columns.
    pub fn cross_columns(&self, mut crosses: Vec<f64>, others: &[FeatureBlock], counts: &ClassWordCounts) -> Vec<f64> {
        let (size, classes) = (self.block.size, counts.classes.len());
        let columns = crosses.len() / size.max(1);
        let mut between = vec![0.0; crosses.len()];
        let own = Matrix::new(&self.block.rooted, classes, size);
        for (place, other) in others.iter().enumerate() {
            let into = MatrixMut::with_row_stride(&mut between[place * other.size..], size, other.size, columns);
            multiply(into, own.transposed(), Matrix::new(&other.rooted, classes, other.size));
        }
        let scale = |other: &FeatureBlock| self.block.scale * other.scale / counts.degrees_of_freedom();
        let scales = others.iter().flat_map(|other| std::iter::repeat_n(scale(other), other.size));
        let scales: Vec<f64> = scales.collect();
        for (row, between) in crosses.chunks_exact_mut(columns.max(1)).zip(between.chunks_exact(columns.max(1))) {
            for ((cross, between), scale) in row.iter_mut().zip(between).zip(&scales) {
                *cross = (*cross - between) * scale;
            }
        }
        self.factor.solve_lower(&mut crosses, columns);
        crosses
    }

    /// Linear discriminant on the features of this block and of `other` together. Returns the weights of this block,
    /// and the weights of `other` with the bias of both.
    ///
    /// If the joint covariance is not positive definite, the classifier predicts from class priors alone. `crosses` has
    /// the columns of `other` from [`FactorizedBlock::cross_columns`], `[size, other.size]` with stride `step`.
    pub fn joint_classifier(
        &self,
        other: &FeatureBlock,
        (crosses, step): (&[f64], usize),
        counts: &ClassWordCounts,
    ) -> (Vec<f64>, LinearClassifier) {
        let (size, classes) = (self.block.size, counts.classes.len());
        let beside = Matrix::with_row_stride(crosses, size, other.size, step);
        // Regresses this block out of the other: first of its covariance (the Schur complement), below of its means.
        let mut left = vec![0.0; other.size * other.size];
        multiply(MatrixMut::new(&mut left, other.size, other.size), beside.transposed(), beside);
        left.iter_mut().zip(&other.covariance).for_each(|(left, covariance)| *left = covariance - *left);
        let mut half = vec![0.0; other.size * classes];
        let Some(factor) = Cholesky::new(left, other.size) else {
            let bias = class_biases(counts, &vec![0.0; classes], &[]);
            return (vec![0.0; size * classes], LinearClassifier { weights: half, bias });
        };
        let own = Matrix::new(&self.whitened_means, size, classes);
        multiply(MatrixMut::new(&mut half, other.size, classes), beside.transposed(), own);
        half.iter_mut().zip(&other.means).for_each(|(half, mean)| *half = mean - *half);
        factor.solve_lower(&mut half, classes);
        let [a, b] = [&self.whitened_means, &half].map(|half| column_squares(half, classes));
        let both: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
        factor.solve_upper(&mut half, classes);
        let mut weights = vec![0.0; size * classes];
        multiply(MatrixMut::new(&mut weights, size, classes), beside, Matrix::new(&half, other.size, classes));
        weights.iter_mut().zip(&self.whitened_means).for_each(|(weight, half)| *weight = half - *weight);
        self.factor.solve_upper(&mut weights, classes);
        let (weights, others) = (self.block.unscale_weights(weights), other.unscale_weights(half));
        let offsets = [self.block.centre_scores(&weights, classes), other.centre_scores(&others, classes)];
        (weights, LinearClassifier { weights: others, bias: class_biases(counts, &both, &offsets) })
    }
}

/// Bias of each class: `ln prior - distance / 2 - offsets`. The distance is `μ Σ⁻¹ μ` for class mean `μ` and
/// within-class covariance `Σ`; `offsets` are the scores of each feature block's centre.
fn class_biases(counts: &ClassWordCounts, distances: &[f64], offsets: &[Vec<f64>]) -> Vec<f64> {
    let total = counts.word_count();
    let of_class = |class: usize| {
        let offset: f64 = offsets.iter().map(|offset| offset[class]).sum();
        (counts.words[class] / total).ln() - distances[class] / 2.0 - offset
    };
    (0..counts.classes.len()).map(of_class).collect()
}
