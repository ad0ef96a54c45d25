//! Batches of tokens from different sentences, over which debiased HSIC (similarity of the heads' outputs) is summed.

use std::ops::Range;

use multiversion::multiversion;

use super::compare::HeadPairs;
use crate::linalg::lanes::dot;
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};

/// Outputs of all heads for the text tokens of a pack, compared in batches of tokens from different sentences.
///
/// Heads arrive layer by layer: the outputs of a layer become kernels once the layer is complete.
#[derive(Clone, Debug, Default)]
pub struct PackOutputs {
    /// Jackknife block of the pack's first sentence. All batches of the pack count for this block.
    block: usize,
    /// Index in the pack of the first token of each sentence.
    starts: Vec<usize>,
    /// Batch of each token of the pack.
    assignment: BatchAssignment,
    /// Number of (head, sentence) pairs of the current layer that were added so far.
    heads_added: usize,
    /// Contexts of the current layer, `[heads, tokens, head_dim]`, with the tokens in the order of batches.
    contexts: Vec<f32>,
    /// Contexts of the current layer times the Gram matrix of the head's output projection, in the order of
    /// `contexts`.
    products: Vec<f32>,
    /// Number of heads whose kernels `centred` already has.
    heads: usize,
    /// U-centred kernels of each batch, `[batches]`, each `[heads, pairs of tokens]`.
    centred: Vec<Vec<f32>>,
}

/// Sums over the batches of a pack. A batch is a set of tokens on which HSIC is estimated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batches {
    /// Jackknife block for which the batches count.
    pub block: usize,
    /// Number of batches.
    pub count: u64,
    /// Number of tokens in all batches.
    pub tokens: u64,
    /// Summed `(n - 3) HSIC1` of each pair of heads, for batches of `n` tokens. Pairs of a head with itself are
    /// included.
    pub covariances: Vec<f64>,
}

/// Minimum number of tokens `n` of a batch, since HSIC1 divides by `n (n - 3)`.
const MIN_TOKENS: usize = 4;

/// Round-robin assignment of the tokens of a pack to batches, sentence by sentence. There is one batch more than
/// the longest sentence has tokens.
///
/// So no batch has two tokens of a sentence, and sentences of equal length put tokens of one position into
/// different batches.
#[derive(Clone, Copy, Debug, Default)]
struct BatchAssignment {
    /// Number of tokens of the pack.
    tokens: usize,
    /// Number of tokens of the pack's longest sentence.
    longest: usize,
}

impl BatchAssignment {
    /// Index of a batch's first token among the pack's tokens sorted by batch.
    fn batch_start(self, batch: usize) -> usize {
        let batches = self.longest + 1;
        batch * (self.tokens / batches) + batch.min(self.tokens % batches)
    }

    /// Index of a token among the pack's tokens sorted by batch, from its index in the pack.
    fn index_in_batches(self, token: usize) -> usize {
        let batches = self.longest + 1;
        self.batch_start(token % batches) + token / batches
    }

    /// Index ranges of the batches that have enough tokens.
    fn batch_ranges(self) -> impl Iterator<Item = Range<usize>> {
        (0..=self.longest)
            .map(move |batch| self.batch_start(batch)..self.batch_start(batch + 1))
            .filter(|batch| batch.len() >= MIN_TOKENS)
    }
}

impl PackOutputs {
    /// Begins a sentence with this number of text `tokens` and returns the sentence's number. All sentences begin
    /// before the first head.
    pub fn begin_sentence(&mut self, block: usize, tokens: usize) -> usize {
        if self.starts.is_empty() {
            self.block = block;
        }
        self.starts.push(self.assignment.tokens);
        self.assignment.tokens += tokens;
        self.assignment.longest = self.assignment.longest.max(tokens);
        self.starts.len() - 1
    }

    /// Adds a head's contexts and their products with the output projection's Gram matrix, `[tokens, head_dim]`
    /// each, for the text tokens of a sentence.
    pub fn add_head<'a>(
        &mut self,
        sentence: usize,
        (head, heads): (usize, usize),
        written: impl Iterator<Item = [&'a [f32]; 2]>,
    ) {
        let tokens = self.assignment.tokens;
        for (token, vectors) in (self.starts[sentence]..).zip(written) {
            let place = head * tokens + self.assignment.index_in_batches(token);
            for (vector, into) in vectors.into_iter().zip([&mut self.contexts, &mut self.products]) {
                let width = vector.len();
                into.resize(heads * tokens * width, 0.0);
                into[place * width..][..width].copy_from_slice(vector);
            }
        }
        self.heads_added += 1;
        if self.heads_added == heads * self.starts.len() {
            self.end_layer(heads);
        }
    }

    /// Turns the outputs of the layer that is complete into kernels.
    fn end_layer(&mut self, heads: usize) {
        let tokens = self.assignment.tokens;
        let width = self.contexts.len() / (heads * tokens);
        self.centred.resize_with(self.assignment.batch_ranges().count(), Vec::new);
        let mut kernel = Vec::new();
        for (batch, centred) in self.assignment.batch_ranges().zip(&mut self.centred) {
            for head in 0..heads {
                let rows = (head * tokens + batch.start) * width..(head * tokens + batch.end) * width;
                let [contexts, products] =
                    [&mut self.contexts, &mut self.products].map(|values| &mut values[rows.clone()]);
                subtract_mean(contexts, width);
                subtract_mean(products, width);
                inner_products(contexts, products, width, &mut kernel);
                u_centre(&kernel, batch.len(), centred);
            }
        }
        self.heads += heads;
        self.heads_added = 0;
    }

    /// Ends the pack of a model with this number of `heads` and returns its sums. `None` without a batch, or if a
    /// head is missing.
    pub fn end_pack(&mut self, heads: usize) -> Option<Batches> {
        let batches = (self.heads == heads && !self.centred.is_empty()).then(|| self.sum_over_batches(heads));
        self.starts.clear();
        self.centred.iter_mut().for_each(Vec::clear);
        (self.assignment, self.heads, self.heads_added) = (BatchAssignment::default(), 0, 0);
        batches.filter(|batches| batches.count > 0)
    }

    /// Sums the products of each pair of heads' kernels over the batches.
    fn sum_over_batches(&self, heads: usize) -> Batches {
        let covariances = vec![0.0; HeadPairs(heads).pair_count_with_self()];
        let mut sums = Batches { block: self.block, covariances, ..Batches::default() };
        let mut gram = vec![0.0_f32; heads * heads];
        for (batch, centred) in self.assignment.batch_ranges().zip(&self.centred) {
            let n = batch.len();
            let centred = Matrix::new(centred, heads, n * (n - 1) / 2);
            multiply(MatrixMut::new(&mut gram, heads, heads), centred, centred.transposed());
            let mut cells = sums.covariances.iter_mut();
            for (later, row) in gram.chunks_exact(heads).enumerate() {
                // Each pair of tokens counts in both orders.
                let values = row[..=later].iter().map(|&value| 2.0 * f64::from(value) / n as f64);
                values.zip(cells.by_ref()).for_each(|(value, sum)| *sum += value);
            }
            sums.count += 1;
            sums.tokens += n as u64;
        }
        sums
    }
}

/// Subtracts the mean vector from all rows. U-centring removes the mean as well, but f32 loses precision there if
/// the mean is large.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn subtract_mean(rows: &mut [f32], width: usize) {
    let n = rows.len() / width;
    let mut mean = vec![0.0_f32; width];
    for row in rows.chunks_exact(width) {
        for (sum, value) in mean.iter_mut().zip(row) {
            *sum += value;
        }
    }
    for sum in &mut mean {
        *sum /= n as f32;
    }
    for row in rows.chunks_exact_mut(width) {
        for (value, mean) in row.iter_mut().zip(&mean) {
            *value -= mean;
        }
    }
}

/// Computes the inner products `contexts_i · products_j` of all pairs of tokens `i < j`, ordered by `j`, then by
/// `i`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn inner_products(contexts: &[f32], products: &[f32], width: usize, into: &mut Vec<f64>) {
    into.clear();
    // Loops: closures of iterators would not be compiled for the instruction set.
    for (j, product) in products.chunks_exact(width).enumerate() {
        for context in contexts.chunks_exact(width).take(j) {
            into.push(f64::from(dot(context, product)));
        }
    }
}

/// U-centres a symmetric `n` x `n` matrix without diagonal, by subtracting unbiased row and column effects (Székely
/// & Rizzo 2014, definition 2). `kernel` has the cells `i < j`; the results are appended to `centred`.
///
/// The inner product of two centred matrices, over both orders of `i` and `j`, is `n (n - 3) HSIC1` (Song et al.
/// 2012).
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
#[expect(clippy::cast_possible_truncation, reason = "products of pairs are summed in f32")]
fn u_centre(kernel: &[f64], n: usize, centred: &mut Vec<f32>) {
    let mut rows = vec![0.0; n];
    let mut cells = kernel;
    for j in 1..n {
        let (row, rest) = cells.split_at(j);
        for (sum, value) in rows.iter_mut().zip(row) {
            *sum += value;
        }
        for value in row {
            rows[j] += value;
        }
        cells = rest;
    }
    let less = n as f64 - 2.0;
    let all = rows.iter().sum::<f64>() / (less * (n as f64 - 1.0));
    for row in &mut rows {
        *row /= less;
    }
    let mut cells = kernel;
    for j in 1..n {
        let (row, rest) = cells.split_at(j);
        for (value, sum) in row.iter().zip(&rows) {
            centred.push((value - sum - rows[j] + all) as f32);
        }
        cells = rest;
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    /// The sums of a pack of sentences whose heads write numbers, each a row; projections are 1.
    fn batches(sentences: &[Vec<Vec<f32>>]) -> Option<Batches> {
        let (mut outputs, heads) = (PackOutputs::default(), sentences.first()?.len());
        for sentence in sentences {
            outputs.begin_sentence(0, sentence[0].len());
        }
        for (number, sentence) in sentences.iter().enumerate() {
            for (head, values) in sentence.iter().enumerate() {
                outputs.add_head(number, (head, heads), values.chunks_exact(1).map(|value| [value, value]));
            }
        }
        outputs.end_pack(heads)
    }

    /// Sentences of one token each.
    fn tokens(heads: &[&[f32]]) -> Batches {
        let sentence = |token: usize| heads.iter().map(|head| vec![head[token]]).collect();
        batches(&(0..heads[0].len()).map(sentence).collect::<Vec<_>>()).expect("batches")
    }

    #[test]
    fn hsic_by_hand() {
        // Two batches: the tokens of even number and those of odd number.
        let (z, l) = ([1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]);
        let twice = |values: [f32; 4]| values.iter().flat_map(|&value| [value, value]).collect::<Vec<f32>>();
        let sums = tokens(&[&twice(z), &twice(l)]);
        assert_eq!((sums.count, sums.tokens), (2, 8));
        let [zz, zl, ll] = sums.covariances[..] else { panic!("three pairs") };
        for (found, expected) in [(zz, 8.0 / 3.0), (zl, -4.0 / 3.0), (ll, 8.0 / 3.0)] {
            assert!((found / 2.0 - expected).abs() < 1e-6, "{found}");
        }
    }

    #[test]
    fn what_is_the_same_for_all_tokens_is_nothing() {
        let z = [1.0, -1.0, 3.0, 2.0, 0.5, -2.0, 1.0, 7.0, 1.0, 2.0];
        let shifted = z.map(|value| value + 100.0);
        let sums = tokens(&[&z, &shifted]);
        let [a, b, c] = sums.covariances[..] else { panic!("three pairs") };
        assert!((a - b).abs() < 1e-3 * a && (a - c).abs() < 1e-3 * a, "{a} {b} {c}");
    }

    #[test]
    fn no_batch_has_two_tokens_of_a_sentence() {
        // Three sentences never make a batch of four tokens, however long they are.
        let long = vec![vec![1.0; 50]];
        assert_eq!(batches(&vec![long.clone(); 3]), None);
        let five = batches(&vec![long; 5]).expect("batches");
        // 250 tokens in 51 batches: 46 of five and 5 of four.
        assert_eq!((five.count, five.tokens), (51, 250));
        // The second sentence begins with token 4 of all, the third with token 7.
        let assignment = BatchAssignment { tokens: 9, longest: 4 };
        assert_eq!(
            (0..9).map(|token| assignment.index_in_batches(token)).collect::<Vec<_>>(),
            [0, 2, 4, 6, 8, 1, 3, 5, 7]
        );
    }

    #[test]
    fn a_pack_leaves_nothing_to_the_next() {
        let sentence = |value: f32| vec![vec![value], vec![value * value]];
        let pack: Vec<_> = (0..9_u8).map(|value| sentence(f32::from(value))).collect();
        let (mut outputs, mut found) = (PackOutputs::default(), Vec::new());
        for _ in 0..2 {
            for _ in &pack {
                outputs.begin_sentence(3, 1);
            }
            for (number, sentence) in pack.iter().enumerate() {
                for (head, values) in sentence.iter().enumerate() {
                    outputs.add_head(number, (head, 2), std::iter::once([&values[..]; 2]));
                }
            }
            found.push(outputs.end_pack(2));
        }
        assert_eq!(found[0], found[1]);
        assert!(found[0].as_ref().is_some_and(|batches| batches.block == 3));
        // A pack in which not all heads were shown gives nothing.
        outputs.begin_sentence(0, 5);
        assert_eq!(outputs.end_pack(2), None);
    }

    /// Two heads that share nothing but have `between` of their variance between sentences: their CKA over packs, in as
    /// many batches as the longest sentence requires, and in batches of 256 tokens over all sentences.
    fn independent(between: f32, random: &mut ChaCha8Rng) -> [f64; 2] {
        const WIDTH: usize = 64;
        let normal = |count: usize, scale: f32, random: &mut ChaCha8Rng| -> Vec<f32> {
            StandardNormal.sample_iter(random).take(count).map(|value: f32| scale.sqrt() * value).collect()
        };
        let sentence = |random: &mut ChaCha8Rng| {
            let tokens = random.random_range(4..40);
            [0, 1].map(|_| {
                let common = normal(WIDTH, between, random);
                let own = normal(tokens * WIDTH, 1.0 - between, random);
                own.iter().zip(common.iter().cycle()).map(|(own, common)| own + common).collect::<Vec<_>>()
            })
        };
        let sentences: Vec<[Vec<f32>; 2]> = (0..256).map(|_| sentence(random)).collect();
        let compared = |pack: &[[Vec<f32>; 2]], batch: Option<usize>| {
            let mut outputs = PackOutputs::default();
            for sentence in pack {
                outputs.begin_sentence(0, sentence[0].len() / WIDTH);
            }
            if let Some(batch) = batch {
                outputs.assignment.longest = outputs.assignment.tokens / batch - 1;
            }
            for (number, sentence) in pack.iter().enumerate() {
                for (head, contexts) in sentence.iter().enumerate() {
                    outputs.add_head(number, (head, 2), contexts.chunks_exact(WIDTH).map(|context| [context; 2]));
                }
            }
            outputs.end_pack(2).expect("batches").covariances
        };
        let cka = |packs: Vec<Vec<f64>>| {
            let sum = |place: usize| packs.iter().map(|covariances| covariances[place]).sum::<f64>();
            sum(1) / (sum(0) * sum(2)).sqrt()
        };
        // About 512 tokens are a pack.
        let packs = sentences.chunks(24).map(|pack| compared(pack, None)).collect();
        [cka(packs), cka(vec![compared(&sentences, Some(256))])]
    }

    #[test]
    fn independent_heads_are_alike_only_where_tokens_of_a_sentence_meet() {
        const DRAWS: usize = 20;
        let mut random = ChaCha8Rng::seed_from_u64(2012);
        for between in [0.6, 0.9] {
            let found: Vec<[f64; 2]> = (0..DRAWS).map(|_| independent(between, &mut random)).collect();
            let [apart, together] = [0, 1].map(|way| {
                let mean = found.iter().map(|cka| cka[way]).sum::<f64>() / DRAWS as f64;
                let squares = found.iter().map(|cka| (cka[way] - mean).powi(2)).sum::<f64>();
                (mean, (squares / (DRAWS - 1) as f64 / DRAWS as f64).sqrt())
            });
            println!("{between} between sentences: {apart:.4?} apart, {together:.4?} together");
            assert!(apart.0.abs() < 0.02 && together.0 > 0.03, "{apart:?} {together:?}");
        }
    }
}
