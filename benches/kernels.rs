//! The parts of the packed encoder and of the statistics by themselves: `cargo bench --bench kernels`.
//!
//! Widths are those of `MiniLM` (hidden 384, heads of 32) and of BERT-base (hidden 768, heads of 64); `n` is the number of
//! tokens, or of words: 20 is a sentence, 128 a paragraph, 512 the longest sequence of most models.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use headscope::corpus::TreeHead;
use headscope::linalg::lanes::LANES;
use headscope::linalg::matmul::{Matrix, MatrixMut, multiply};
use headscope::model::config::Activation;
use headscope::model::forward::attention::AttentionView;
use headscope::model::forward::kernels;
use headscope::model::grid::visibility::Visibility;
use headscope::sequences::fold::lifts::LiftFactors;
use headscope::sequences::fold::roles::TokenRoles;
use headscope::sequences::fold::words::{FromToken, WordAttention};
use headscope::sequences::sequence::{GoldArc, Sequence, TokenKind};
use headscope::sequences::span::WordSpan;
use headscope::studies::patterns::attention::tokens as token;
use headscope::studies::patterns::attention::tokens::RowBuffers;
use headscope::studies::patterns::trees::spanning::{GoldEdges, TreeBuffers};
use headscope::study::instruments::predictions::Predictions;

const LENGTHS: [usize; 3] = [20, 128, 512];

fn main() {
    divan::main();
}

/// Values without a pattern that a branch predictor or a denormal number could profit or suffer from.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|place| ((place * 7919 + 13) % 1009) as f32 / 1009.0 - 0.5).collect()
}

/// The weights of a linear layer over a pack of 512 tokens; items are floating-point operations, so G items/s are
/// GFLOP/s. With as many threads as cores this is what data-parallel products can reach here.
#[divan::bench(args = [(384, 1152), (384, 384), (384, 1536), (1536, 384), (768, 2304), (768, 3072), (3072, 768)], threads = [1, 2])]
fn linear(bencher: Bencher, (inputs, outputs): (usize, usize)) {
    let tokens = 512;
    bencher
        .counter(ItemsCount::new(2 * tokens * inputs * outputs))
        .with_inputs(|| (values(tokens * inputs), values(inputs * outputs), vec![0.0; tokens * outputs]))
        .bench_refs(|(states, weights, out)| {
            multiply(
                MatrixMut::new(out, tokens, outputs),
                Matrix::new(states, tokens, inputs),
                Matrix::new(weights, inputs, outputs),
            );
        });
}

/// Scores of one head over one sentence, `[n, 32] x [32, n]`, the keys among those of twelve heads.
#[divan::bench(args = LENGTHS)]
fn scores(bencher: Bencher, n: usize) {
    let stride = n.next_multiple_of(LANES);
    let (query, key) = (values(n * 32), values(n * 3 * 384));
    let mut out = vec![0.0; n * stride];
    bencher.counter(ItemsCount::new(2 * n * n * 32)).bench_local(|| {
        multiply(
            MatrixMut::with_row_stride(black_box(&mut out), n, n, stride),
            Matrix::new(&query, n, 32),
            Matrix::with_row_stride(&key, n, 32, 3 * 384).transposed(),
        );
    });
}

/// The context of one head over one sentence, `[n, n] x [n, 32]`, its values among those of twelve heads.
#[divan::bench(args = LENGTHS)]
fn context(bencher: Bencher, n: usize) {
    let (weights, value) = (values(n * n), values(n * 3 * 384));
    let mut out = vec![0.0; n * 32];
    bencher.counter(ItemsCount::new(2 * n * n * 32)).bench_local(|| {
        multiply(
            MatrixMut::new(black_box(&mut out), n, 32),
            Matrix::new(&weights, n, n),
            Matrix::with_row_stride(&value, n, 32, 3 * 384),
        );
    });
}

/// Items are weights.
#[divan::bench(args = LENGTHS)]
fn softmax_and_entropy(bencher: Bencher, n: usize) {
    let stride = n.next_multiple_of(LANES);
    let scores = values(n * stride);
    let mut entropies = vec![0.0; n];
    let mut out = scores.clone();
    bencher.counter(ItemsCount::new(n * n)).bench_local(|| {
        out.copy_from_slice(&scores);
        kernels::softmax(black_box(&mut out), n, stride, &mut entropies);
    });
}

/// Items are values.
#[divan::bench(args = [1536, 3072])]
fn bias_gelu(bencher: Bencher, width: usize) {
    let (states, bias) = (values(512 * width), values(width));
    let mut out = states.clone();
    bencher.counter(ItemsCount::new(512 * width)).bench_local(|| {
        out.copy_from_slice(&states);
        kernels::activate(Activation::Gelu, false, black_box(&mut out), &bias);
    });
}

/// Items are values.
#[divan::bench(args = [384, 768])]
fn bias_residual_norm(bencher: Bencher, width: usize) {
    let (update, row) = (values(512 * width), values(width));
    let mut states = values(512 * width);
    bencher.counter(ItemsCount::new(512 * width)).bench_local(|| {
        kernels::add_norm(&update, &row, black_box(&mut states), &row, &row, 1e-12);
    });
}

/// `[CLS] text [SEP]`, a mark at every tenth token, each word's head two before it.
fn sentence(n: usize) -> Sequence {
    let mut kinds = vec![TokenKind::Text; n];
    kinds[0] = TokenKind::FirstSpecial;
    kinds[n - 1] = TokenKind::Separator;
    (10..n - 1).step_by(10).for_each(|token| kinds[token] = TokenKind::Punctuation);
    Sequence { index: 0, ids: vec![0; n], segments: vec![0; n], kinds, words: spans(n), ..Sequence::default() }
}

/// Three words in four are one token, the fourth is two.
fn spans(n: usize) -> Vec<WordSpan> {
    let mut spans = Vec::new();
    let mut start = 1;
    while start < n - 1 {
        let length = if spans.len() % 4 == 3 { 2 } else { 1 };
        spans.push((start..(start + length).min(n - 1)).into());
        start += length;
    }
    spans
}

fn attention(n: usize) -> Vec<f32> {
    values(n * n).iter().map(|value| (value + 0.5) / (n as f32 / 2.0)).collect()
}

fn folded(n: usize) -> WordAttention {
    let mut folded = WordAttention::default();
    folded.fold(AttentionView::new(0, 0, n, &attention(n)), &spans(n), FromToken::Mean);
    folded
}

/// All token-level sums of one head over one sentence.
#[divan::bench(args = LENGTHS)]
fn token_statistics(bencher: Bencher, n: usize) {
    let (roles, weights, entropies) = (TokenRoles::new(&sentence(n)), attention(n), vec![1.0; n]);
    let mut buffers = RowBuffers::default();
    bencher.counter(ItemsCount::new(n * n)).bench_local(|| {
        token::sum_token_attention(
            &roles,
            AttentionView::from_strided(0, 0, n, black_box(&weights), &entropies),
            &mut buffers,
        )
    });
}

#[divan::bench(args = LENGTHS)]
fn fold_to_words(bencher: Bencher, n: usize) {
    let (weights, spans) = (attention(n), spans(n));
    let mut folded = WordAttention::default();
    bencher.counter(ItemsCount::new(n * n)).bench_local(|| {
        folded.fold(AttentionView::new(0, 0, n, black_box(&weights)), &spans, FromToken::Mean);
    });
}

/// The predicted head of every word in both directions.
#[divan::bench(args = LENGTHS)]
fn predicted_heads(bencher: Bencher, n: usize) {
    let folded = folded(n);
    let mut predictions = Predictions::default();
    bencher.counter(ItemsCount::new(n * n)).bench_local(|| black_box(predictions.predict(black_box(&folded))).len());
}

#[divan::bench(args = LENGTHS)]
fn spanning_tree(bencher: Bencher, n: usize) {
    let folded = folded(n);
    let head = |word: usize| word.checked_sub(2).map_or(TreeHead::Root, TreeHead::Word);
    let arc = |word| GoldArc { head: head(word), relation: "dep".to_owned() };
    let words = folded.words();
    let gold = GoldEdges::new(&(0..words).map(arc).collect::<Vec<_>>(), 0..words);
    let lifts = LiftFactors::new(&Sequence::default(), Visibility::ALL, FromToken::Mean);
    let mut buffers = TreeBuffers::default();
    let tree = |buffers: &mut TreeBuffers| gold.count_in_spanning_tree(black_box(&folded), &lifts, buffers);
    bencher.counter(ItemsCount::new(n * n)).bench_local(|| tree(&mut buffers));
}
