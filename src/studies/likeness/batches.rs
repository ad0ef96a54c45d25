//! Batches of tokens of different sentences: what debiased HSIC is summed over.

use multiversion::multiversion;

use super::pairs::Pairs;
use crate::model::forward::matmul::{Matrix, MatrixMut, multiply};
use crate::system::lanes::dot;

/// What all heads write for the tokens of text of one sentence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The block of the sentence.
    pub block: usize,
    /// The number of its tokens of text.
    pub tokens: usize,
    /// `[heads, tokens, head_dim]`: their contexts.
    pub contexts: Vec<f32>,
    /// The same times the Gram matrix of the head's output projection.
    pub products: Vec<f32>,
}

/// The sums over the batches of a pack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batches {
    /// Batches.
    pub count: u64,
    /// Their tokens.
    pub tokens: u64,
    /// For each pair of heads, and of each with itself, the sum of `(n - 3) HSIC1`.
    pub covariances: Vec<f64>,
}

/// HSIC1 divides by `n (n - 3)`: a batch has at least so many tokens.
const LEAST: usize = 4;

impl Batches {
    /// Deals the tokens of a pack out to batches: one after the other, sentence by sentence, to one more batch than the
    /// longest sentence has tokens.
    ///
    /// So no batch has two tokens of a sentence, and sentences of equal length do not put the same position into the same
    /// batch. Batches of fewer than four tokens are left out.
    pub fn of(pack: &[Written], heads: usize) -> Self {
        let mut sums = Self { covariances: vec![0.0; Pairs(heads).count_with_self()], ..Self::default() };
        let Some(longest) = pack.iter().map(|written| written.tokens).max().filter(|&longest| longest > 0) else {
            return sums;
        };
        let dealt = pack.iter().enumerate().flat_map(|(at, written)| (0..written.tokens).map(move |token| (at, token)));
        let dealt: Vec<(usize, usize)> = dealt.collect();
        let mut room = Room::default();
        for batch in 0..=longest {
            let tokens: Vec<(usize, usize)> = dealt.iter().skip(batch).step_by(longest + 1).copied().collect();
            if tokens.len() >= LEAST {
                sums.add(pack, &tokens, heads, &mut room);
            }
        }
        sums
    }

    fn add(&mut self, pack: &[Written], tokens: &[(usize, usize)], heads: usize, room: &mut Room) {
        let n = tokens.len();
        let pairs = n * (n - 1) / 2;
        let Room { contexts, products, kernel, centred, gram } = room;
        centred.clear();
        for head in 0..heads {
            gather(pack, tokens, head, heads, |written| &written.contexts, contexts);
            gather(pack, tokens, head, heads, |written| &written.products, products);
            inner_products(contexts, products, n, kernel);
            u_centre(kernel, n, centred);
        }
        gram.resize(heads * heads, 0.0);
        let centred = Matrix::new(centred, heads, pairs);
        multiply(MatrixMut::new(gram, heads, heads), centred, centred.transposed());
        let mut sums = self.covariances.iter_mut();
        for (later, row) in gram.chunks_exact(heads).enumerate() {
            // A pair of tokens is there in both orders.
            let values = row[..=later].iter().map(|&value| 2.0 * f64::from(value) / n as f64);
            values.zip(sums.by_ref()).for_each(|(value, sum)| *sum += value);
        }
        self.count += 1;
        self.tokens += n as u64;
    }
}

/// Buffers, from batch to batch.
#[derive(Default)]
struct Room {
    contexts: Vec<f32>,
    products: Vec<f32>,
    kernel: Vec<f64>,
    /// `[heads, pairs of tokens]`
    centred: Vec<f32>,
    gram: Vec<f32>,
}

/// The vectors of a head for some tokens of a pack less their mean, `[n, head_dim]`: U-centring takes the mean away in any
/// case, but in f32 not all of it.
fn gather(
    pack: &[Written],
    tokens: &[(usize, usize)],
    head: usize,
    heads: usize,
    part: impl Fn(&Written) -> &Vec<f32>,
    into: &mut Vec<f32>,
) {
    into.clear();
    let mut width = 0;
    for &(at, token) in tokens {
        let written = &pack[at];
        let values = part(written);
        width = values.len() / (heads * written.tokens);
        into.extend_from_slice(&values[(head * written.tokens + token) * width..][..width]);
    }
    let mut mean = vec![0.0_f32; width];
    into.chunks_exact(width).for_each(|row| mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value));
    mean.iter_mut().for_each(|sum| *sum /= tokens.len() as f32);
    into.chunks_exact_mut(width).for_each(|row| row.iter_mut().zip(&mean).for_each(|(value, mean)| *value -= mean));
}

/// `contexts_i · products_j` of all `i < j`, by `j`, then by `i`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn inner_products(contexts: &[f32], products: &[f32], n: usize, into: &mut Vec<f64>) {
    into.clear();
    let width = contexts.len() / n;
    // Loops, for what an iterator calls is not compiled for the instruction set.
    for (j, product) in products.chunks_exact(width).enumerate() {
        for context in contexts.chunks_exact(width).take(j) {
            into.push(f64::from(dot(context, product)));
        }
    }
}

/// Takes from each cell of a symmetric matrix without a diagonal, of which `kernel` has the cells `i < j`, what its row and
/// its column add to all cells, without bias (Székely & Rizzo 2014, definition 2), and appends the cells to `centred`.
///
/// The inner product of two such matrices, over both orders of `i` and `j`, is `n (n - 3) HSIC1` (Song et al. 2012).
#[expect(clippy::cast_possible_truncation, reason = "products of pairs are summed in f32")]
fn u_centre(kernel: &[f64], n: usize, centred: &mut Vec<f32>) {
    let mut rows = vec![0.0; n];
    let cells = || (0..n).flat_map(|j| (0..j).map(move |i| (i, j)));
    for ((i, j), value) in cells().zip(kernel) {
        rows[i] += value;
        rows[j] += value;
    }
    let less = n as f64 - 2.0;
    let all = rows.iter().sum::<f64>() / (less * (n as f64 - 1.0));
    rows.iter_mut().for_each(|row| *row /= less);
    centred.extend(cells().zip(kernel).map(|((i, j), value)| (value - rows[i] - rows[j] + all) as f32));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sentences of one token each, heads of one number each, projections of 1.
    fn tokens(heads: &[&[f32]]) -> Vec<Written> {
        let written = |token: usize| {
            let contexts: Vec<f32> = heads.iter().map(|head| head[token]).collect();
            Written { block: 0, tokens: 1, products: contexts.clone(), contexts }
        };
        (0..heads[0].len()).map(written).collect()
    }

    #[test]
    fn hsic_by_hand() {
        // Two batches: the tokens of even number and those of odd number.
        let (z, l) = ([1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]);
        let twice = |values: [f32; 4]| values.iter().flat_map(|&value| [value, value]).collect::<Vec<f32>>();
        let sums = Batches::of(&tokens(&[&twice(z), &twice(l)]), 2);
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
        let sums = Batches::of(&tokens(&[&z, &shifted]), 2);
        let [a, b, c] = sums.covariances[..] else { panic!("three pairs") };
        assert!((a - b).abs() < 1e-3 * a && (a - c).abs() < 1e-3 * a, "{a} {b} {c}");
    }

    #[test]
    fn no_batch_has_two_tokens_of_a_sentence() {
        // Three sentences never make a batch of four tokens, however long they are.
        let long = Written { block: 0, tokens: 50, contexts: vec![1.0; 50], products: vec![1.0; 50] };
        assert_eq!(Batches::of(&vec![long.clone(); 3], 1).count, 0);
        let five = Batches::of(&vec![long; 5], 1);
        // 250 tokens in 51 batches: 46 of five and 5 of four.
        assert_eq!((five.count, five.tokens), (51, 250));
        assert_eq!(Batches::of(&[], 3).covariances, [0.0; 6]);
    }
}
