//! Sums over layers' inputs, to which the regressions on position and embedding are fitted.

use std::collections::BTreeMap;

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use super::pack::{MeanInput, PackedToken, TokenPack};
use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::linalg::matmul::{Matrix, MatrixMut, multiply};
use crate::model::forward::WordEmbeddings;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;
use crate::study::instruments::vector_sums::{VectorSums, upper_half_len, upper_products};

/// Number of parts into which the corpus is divided. Each fold has two, so that the ridge penalty is selected within the
/// fold.
pub const QUARTER_COUNT: usize = 4;

/// Lengths of word embeddings and of input rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorWidths {
    /// Length of a word embedding.
    pub embedding: usize,
    /// Length of an input row of a layer's attention.
    pub hidden: usize,
}

/// Number and summed inputs of special tokens that share a mean input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecialSums {
    pub tokens: u64,
    /// Sum of the tokens' input rows, `[hidden]`.
    pub rows: VectorSums,
}

merge_fields!(SpecialSums { tokens, rows });

/// Sums over the input rows of one layer, in one quarter of the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerMoments {
    /// Sum of text tokens' input rows at each position, `[positions][hidden]`.
    pub rows: Vec<VectorSums>,
    /// Sum of the outer products `E xᵀ` of embeddings `E` and input rows `x`, `[embedding, hidden]`.
    pub crosses: VectorSums,
    /// Sum of the squared norms of text tokens' input rows.
    pub squares: ExactSum,
    /// Sums over the special tokens at the start of sequences.
    pub first: SpecialSums,
    /// Sums over the special tokens that are not at the start of a sequence, by token id.
    pub specials: BTreeMap<u32, SpecialSums>,
}

merge_fields!(LayerMoments { rows, crosses, squares, first, specials });

/// Sums over one quarter of the corpus: a quarter of the jackknife blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarterMoments {
    /// Number of text tokens at each position.
    pub tokens: Vec<u64>,
    /// Sums of the text tokens' embeddings, `[positions][embedding]`.
    pub embeddings: Vec<VectorSums>,
    /// Sum of the outer products `E Eᵀ` of text tokens' embeddings `E`; the upper half of the symmetric matrix.
    pub squares: VectorSums,
    pub layers: Vec<LayerMoments>,
}

merge_fields!(QuarterMoments { tokens, embeddings, squares, layers });

impl QuarterMoments {
    /// Number of text tokens in this quarter of the jackknife blocks.
    pub fn text_token_count(&self) -> u64 {
        self.tokens.iter().sum()
    }

    /// Whether the sums have the sizes that `layers` and `widths` require. Sums read from a file may fail this.
    fn fits(&self, layers: usize, widths: Option<VectorWidths>) -> bool {
        let Some(VectorWidths { embedding, hidden }) = widths else {
            return *self == Self { layers: vec![LayerMoments::default(); layers], ..Self::default() };
        };
        // Sums without a token are empty.
        let has_len = |sums: &VectorSums, tokens: u64, len: usize| sums.has_len(if tokens > 0 { len } else { 0 });
        let at_positions = |sums: &[VectorSums], len: usize| {
            sums.len() == self.tokens.len()
                && sums.iter().zip(&self.tokens).all(|(sums, &tokens)| has_len(sums, tokens, len))
        };
        let layer_fits = |layer: &LayerMoments| {
            at_positions(&layer.rows, hidden)
                && has_len(&layer.crosses, self.text_token_count(), embedding * hidden)
                && layer.specials.values().chain([&layer.first]).all(|sums| has_len(&sums.rows, sums.tokens, hidden))
        };
        at_positions(&self.embeddings, embedding)
            && has_len(&self.squares, self.text_token_count(), upper_half_len(embedding))
            && self.layers.len() == layers
            && self.layers.iter().all(layer_fits)
    }
}

/// Sums over the inputs of all layers, in four quarters of the corpus.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InputMoments {
    grid: HeadGrid,
    /// Lengths of embeddings and input rows. `None` until a token is observed.
    pub widths: Option<VectorWidths>,
    /// Sums of each quarter. Quarter `q` has the blocks `b` with `b mod 4 = q`; fold `f` has the quarters `f` and `f + 2`.
    pub quarters: [QuarterMoments; QUARTER_COUNT],
    /// Input embeddings of the model; `None` if the model gives no access to them.
    #[serde(skip)]
    embeddings: Option<WordEmbeddings>,
    /// Tokens of the pack that is being observed.
    #[serde(skip)]
    pack: TokenPack,
    /// Buffer for matrix products.
    #[serde(skip)]
    products: Vec<f64>,
}

impl InputMoments {
    pub fn new(grid: HeadGrid) -> Self {
        let quarter = || QuarterMoments { layers: vec![LayerMoments::default(); grid.layers], ..Default::default() };
        Self { grid, quarters: std::array::from_fn(|_| quarter()), ..Self::default() }
    }

    /// Adds one layer's inputs of all tokens in the pack.
    fn add_layer(&mut self, layer: usize) {
        let Self { widths, quarters, embeddings, pack, products, .. } = self;
        let Some(embeddings) = embeddings else { return };
        let widths = *widths.insert(VectorWidths { embedding: embeddings.width(), hidden: pack.input_width() });
        for (number, quarter) in quarters.iter_mut().enumerate() {
            let of_quarter = pack.tokens.iter().filter(|token| token.block % QUARTER_COUNT == number);
            let (text, special): (Vec<&PackedToken>, Vec<_>) =
                of_quarter.partition(|token| token.base == MeanInput::Text);
            let row = |token: &PackedToken| pack.token_input(token).iter().copied().map(f64::from).collect::<Vec<_>>();
            for token in special {
                let moments = &mut quarter.layers[layer];
                let sums = match token.base {
                    MeanInput::First => &mut moments.first,
                    _ => moments.specials.entry(token.id).or_default(),
                };
                sums.tokens += 1;
                sums.rows.add(widths.hidden, 0, &row(token));
            }
            if !text.is_empty() {
                let distinct = DistinctTokens::new(&text, embeddings);
                if layer == 0 {
                    add_embeddings(quarter, &text, &distinct, products);
                }
                add_input_rows(&mut quarter.layers[layer], &text, row, (&distinct, widths), products);
            }
        }
    }
}

/// Distinct token ids of a list, so that each embedding is multiplied once.
struct DistinctTokens {
    /// Index of the distinct token, for each token of the list.
    indices: Vec<usize>,
    /// Embeddings of the distinct tokens, `[distinct tokens, embedding]`.
    embeddings: Vec<f64>,
    /// Number of values per embedding.
    width: usize,
}

impl DistinctTokens {
    fn new(text: &[&PackedToken], embeddings: &WordEmbeddings) -> Self {
        let mut index_of_id: BTreeMap<u32, usize> = BTreeMap::new();
        let (mut indices, mut rows) = (Vec::with_capacity(text.len()), Vec::new());
        for token in text {
            let next = index_of_id.len();
            indices.push(*index_of_id.entry(token.id).or_insert_with(|| {
                rows.extend(embeddings.get(token.id).iter().copied().map(f64::from));
                next
            }));
        }
        Self { indices, embeddings: rows, width: embeddings.width() }
    }

    /// The distinct tokens' embeddings as a matrix, `[distinct tokens, embedding]`.
    fn embedding_matrix(&self) -> Matrix<'_, f64> {
        Matrix::new(&self.embeddings, self.embeddings.len() / self.width, self.width)
    }
}

/// Adds the embeddings of text tokens. Called for one layer only, since embeddings are equal in all layers.
fn add_embeddings(
    quarter: &mut QuarterMoments,
    text: &[&PackedToken],
    distinct: &DistinctTokens,
    products: &mut Vec<f64>,
) {
    let mut times = vec![0.0; distinct.embedding_matrix().rows()];
    for (token, &index) in text.iter().zip(&distinct.indices) {
        let positions = quarter.tokens.len().max(token.position + 1);
        quarter.tokens.resize(positions, 0);
        quarter.embeddings.resize_with(positions, VectorSums::default);
        quarter.tokens[token.position] += 1;
        let row = &distinct.embeddings[index * distinct.width..][..distinct.width];
        quarter.embeddings[token.position].add(distinct.width, 0, row);
        times[index] += 1.0;
    }
    let rows = distinct.embeddings.chunks_exact(distinct.width).zip(&times);
    let counted: Vec<f64> = rows.flat_map(|(row, times)| row.iter().map(move |value| value * times)).collect();
    upper_products(distinct.embedding_matrix(), Matrix::new(&counted, times.len(), distinct.width), products);
    quarter.squares.add_squares(products, distinct.width);
}

/// Adds the input rows of text tokens to the sums of one layer.
fn add_input_rows(
    layer: &mut LayerMoments,
    text: &[&PackedToken],
    row: impl Fn(&PackedToken) -> Vec<f64>,
    (distinct, VectorWidths { embedding, hidden }): (&DistinctTokens, VectorWidths),
    products: &mut Vec<f64>,
) {
    let count = distinct.embedding_matrix().rows();
    // Products with embeddings are summed over distinct tokens: each embedding times the sum of its tokens' rows.
    let mut row_sums = vec![0.0; count * hidden];
    for (token, &index) in text.iter().zip(&distinct.indices) {
        let row = row(token);
        layer.rows.resize_with(layer.rows.len().max(token.position + 1), VectorSums::default);
        layer.rows[token.position].add(hidden, 0, &row);
        layer.squares += squared_norm(&row);
        row_sums[index * hidden..][..hidden].iter_mut().zip(&row).for_each(|(sum, value)| *sum += value);
    }
    products.resize(embedding * hidden, 0.0);
    let cross_products = MatrixMut::new(products, embedding, hidden);
    multiply(cross_products, distinct.embedding_matrix().transposed(), Matrix::new(&row_sums, count, hidden));
    layer.crosses.add_products(products);
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn squared_norm(row: &[f64]) -> f64 {
    let mut partial = [0.0; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    chunks.iter().for_each(|chunk| partial.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value * value));
    partial.iter_mut().zip(rest).for_each(|(sum, value)| *sum += value * value);
    reduce_lanes(partial, |a, b| a + b)
}

merge_fields!(InputMoments[grid] { widths, quarters });

impl Sums for InputMoments {
    type SequenceState = usize;

    fn demands(&self) -> Demands {
        Demands::from_needs(Needs { attention_inputs: true, ..Needs::default() })
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.embeddings.clone_from(&known.embeddings);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<usize> {
        Some(self.pack.push_sequence(sequence))
    }

    fn observe(&mut self, number: &mut usize, event: &mut Event<'_>) {
        match event {
            Event::AttentionInputs { layer, inputs, .. } if self.pack.push_inputs(*number, *inputs) => {
                self.add_layer(*layer);
            }
            Event::PackEnd => self.pack = TokenPack::default(),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.quarters.iter().all(|quarter| quarter.fits(grid.layers, self.widths))
    }
}
