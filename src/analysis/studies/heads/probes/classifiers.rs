//! Trained classifiers at work: scores of words, and the class of the largest.

use super::discriminant::LinearClassifier;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply, multiply_add};

#[derive(Clone, Debug, Default)]
pub struct Stack {
    features: usize,
    /// `[features, columns]`, the tasks' classes side by side.
    weights: Vec<f32>,
    /// `[columns]`
    bias: Vec<f32>,
    /// The tasks, each with its columns and the class of each.
    parts: Vec<(usize, Vec<usize>)>,
}

impl Stack {
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

    fn columns(&self) -> usize {
        self.bias.len()
    }

    /// Scores words, whose features are `[words, features]` with `stride`, and gives `of` the task, the word and the class of
    /// the largest score, the first of equal ones. `beside` is what is added to the scores.
    pub fn classify(
        &self,
        (rows, words, stride): (&[f32], usize, usize),
        beside: Option<KindScores<'_>>,
        scores: &mut Vec<f32>,
        mut of: impl FnMut(usize, usize, usize),
    ) {
        let columns = self.columns();
        if columns == 0 || words == 0 {
            return;
        }
        scores.clear();
        match beside {
            Some(KindScores { of_kinds, stride, kinds }) => {
                kinds.iter().for_each(|kind| scores.extend_from_slice(&of_kinds[kind * stride..][..columns]));
            }
            None => scores.resize(words * columns, 0.0),
        }
        let rows = Matrix::strided(rows, words, self.features, stride);
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
                of(*task, word, best.1);
                start = own.end;
            }
        }
    }
}

/// The products of the embeddings of kinds of words with weights, `[kinds, columns]`.
fn score_kinds((embeddings, kinds): (&[f32], usize), weights: &[f32], columns: usize, scores: &mut Vec<f32>) {
    scores.clear();
    scores.resize(kinds * columns, 0.0);
    if columns > 0 {
        let width = embeddings.len() / kinds.max(1);
        let weights = Matrix::new(weights, width, columns);
        multiply(MatrixMut::new(scores, kinds, columns), Matrix::new(embeddings, kinds, width), weights);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct KindScores<'a> {
    /// `[kinds, columns]` with a stride.
    of_kinds: &'a [f32],
    stride: usize,
    kinds: &'a [usize],
}

#[derive(Clone, Debug, Default)]
pub struct HeadProbes {
    pub alone: Stack,
    /// On embedding and contexts: the part of the contexts.
    pub together: Stack,
    pub control: Stack,
}

#[derive(Clone, Debug, Default)]
pub struct LayerProbes {
    pub input: Stack,
    /// The part of embeddings in the classifiers on embedding and contexts, of all heads, `[embedding, heads * columns]`.
    pub beside: Vec<f32>,
    pub heads: Vec<HeadProbes>,
}

impl LayerProbes {
    /// The scores that embeddings of kinds of words add to those on embedding and contexts, `[kinds, heads * columns]`.
    pub fn score_beside(&self, embeddings: &[f32], kinds: usize, scores: &mut Vec<f32>) {
        let columns = self.heads.iter().map(|head| head.together.columns()).sum();
        score_kinds((embeddings, kinds), &self.beside, columns, scores);
    }

    /// The result of [`LayerProbes::score_beside`] for the words of one head.
    pub fn kind_scores<'a>(&self, head: usize, scores: &'a [f32], kinds: &'a [usize]) -> Option<KindScores<'a>> {
        let columns = self.heads[head].together.columns();
        let stride = self.heads.len() * columns;
        (columns > 0).then(|| KindScores { of_kinds: &scores[head * columns..], stride, kinds })
    }
}
