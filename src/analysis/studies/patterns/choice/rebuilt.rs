//! Distances between each head's attention and its attention on inputs without context.

use std::sync::Arc;

use multiversion::multiversion;
use serde::{Deserialize, Serialize};

use super::fit::FoldFit;
use super::pack::{MeanInput, TokenPack};
use super::replaced_inputs::{EMBEDDING_PART, POSITION_PART, ReplacedInputs};
use crate::linalg::lanes::{LANES, reduce_lanes};
use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::Needs;
use crate::model::forward::{AttentionScratch, Encoder, LayerAttention, Positions, QueriesAndKeys, WordEmbeddings};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Demands, Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, merge_fields};
use crate::stats::exact::{ExactSum, add_elementwise};
use crate::study::instruments::roots::{AttentionSquareRoots, distance_from_uniform};

/// Names of the inputs without context that replace a layer's inputs. The first four keep special tokens only,
/// positions, tokens, or both. The last two keep both, and replace the inputs of keys only or of queries only.
pub const VARIANTS: [&str; 6] = ["special", "position", "token", "position_token", "keys", "queries"];

/// Index in [`VARIANTS`] of the inputs that keep special tokens only.
pub const SPECIAL_VARIANT: usize = 0;
/// Index in [`VARIANTS`] of the inputs that keep positions only.
pub const POSITION_VARIANT: usize = 1;
/// Index in [`VARIANTS`] of the inputs that keep tokens (their embeddings) only.
pub const TOKEN_VARIANT: usize = 2;
/// Index in [`VARIANTS`] of the inputs that keep positions and tokens, in queries and keys.
pub const POSITION_TOKEN_VARIANT: usize = 3;

/// Squared Hellinger distances between attention rows of one head, summed over the rows of text tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadDistances {
    /// Distance between the head's attention and uniform attention over visible keys.
    pub even: ExactSum,
    /// Distance between the head's attention and its attention on the inputs of each of [`VARIANTS`].
    pub variants: [ExactSum; VARIANTS.len()],
}

merge_fields!(HeadDistances { even, variants });

/// Sums of squares of one layer's inputs over text tokens: the total, and the residual of the regression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputShare {
    /// Total sum of squares, `|x - m|²` with the input `x` and the mean `m`.
    pub all: ExactSum,
    /// Residual sum of squares, `|x - m - P - E B|²`. Here `x` is the input, `m` the mean, `P` the term for the
    /// position and `E B` the term for the embedding.
    pub left: ExactSum,
}

merge_fields!(InputShare { all, left });

/// Sums over the sentences of one jackknife block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDistances {
    /// Number of attention rows of text tokens.
    pub rows: u64,
    /// Number of sentences with text tokens. Only the first sentence of a group of related sentences counts.
    pub sentences: u64,
    /// Total and residual sum of squares of each layer's inputs, `[layers]`.
    pub layers: Vec<InputShare>,
    /// Distances of each attention head, `[layers * heads]`.
    pub heads: Vec<HeadDistances>,
}

merge_fields!(BlockDistances { rows, sentences, layers, heads });

/// Sums of all jackknife blocks, with the regressions that predict the replaced inputs.
#[derive(Clone, Serialize, Deserialize)]
pub struct RebuiltDistanceSums {
    grid: HeadGrid,
    classes: LayerClasses,
    /// Index in [`RIDGES`](super::fit::RIDGES) of the penalty of each fold, by layer, `[layers]`. Empty if nothing was
    /// fitted.
    pub ridges: Vec<[u8; 2]>,
    pub blocks: Blocks<BlockDistances>,
    #[serde(skip)]
    buffers: DistanceBuffers,
}

/// For each of the first four [`VARIANTS`]: whether attention sees positions (by rotation or distance), and which terms
/// of the regression are added to the mean input.
const REPLACEMENTS: [(Positions, &[usize]); 4] = [
    (Positions::Ignored, &[]),
    (Positions::Used, &[POSITION_PART]),
    (Positions::Ignored, &[EMBEDDING_PART]),
    (Positions::Used, BOTH_PARTS),
];

/// Both indices in a token's `text_parts`: of the position term, and of the embedding term.
const BOTH_PARTS: &[usize] = &[POSITION_PART, EMBEDDING_PART];

/// Fitted regressions of both folds, and buffers for the current pack.
#[derive(Clone, Default)]
struct DistanceBuffers {
    /// Fit on each fold; `None` if a fold has too few text tokens.
    folds: Arc<Option<[FoldFit; 2]>>,
    embeddings: Option<WordEmbeddings>,
    pack: TokenPack,
    replaced: ReplacedInputs,
    /// Queries and keys of a layer, computed from its actual inputs.
    actual: QueriesAndKeys,
    /// Queries and keys of a layer, computed from the inputs of each of [`REPLACEMENTS`].
    replacements: [QueriesAndKeys; REPLACEMENTS.len()],
    /// Products of each of [`ReplacedInputs::parts`] with a layer's query and key weights, one row per part.
    products: Vec<f32>,
    /// Each token's input as the regression predicts it from position and embedding, `[tokens, hidden]`.
    inputs: Vec<f32>,
    scratch: AttentionScratch,
}

impl RebuiltDistanceSums {
    /// Creates empty sums. `classes` says which keys the queries of each layer see. `folds` has the fit on each fold.
    pub fn new(grid: HeadGrid, classes: &LayerClasses, folds: Option<[FoldFit; 2]>) -> Self {
        let empty = BlockDistances {
            layers: vec![InputShare::default(); grid.layers],
            heads: vec![HeadDistances::default(); grid.head_count()],
            ..BlockDistances::default()
        };
        let of_layer = |layer: usize| folds.as_ref().map(|folds| folds.each_ref().map(|fold| fold.layers[layer].ridge));
        let ridges = (0..grid.layers).filter_map(of_layer).collect();
        let buffers = DistanceBuffers { folds: Arc::new(folds), ..DistanceBuffers::default() };
        Self { grid, classes: classes.clone(), ridges, blocks: Blocks::new(empty), buffers }
    }

    /// Adds the [`HeadDistances`] of one layer's heads, and its [`InputShare`], over all sequences in the pack.
    fn add_layer(&mut self, layer: usize, encoder: &dyn Encoder) {
        let Self { grid, classes, blocks, buffers, .. } = self;
        let DistanceBuffers { folds, embeddings, pack, replaced, actual, replacements, products, inputs, scratch } =
            buffers;
        let (Some(folds), Some(embeddings)) = (&**folds, embeddings) else { return };
        let layers = [Positions::Used, Positions::Ignored].map(|positions| encoder.layer_attention(layer, positions));
        let [Some(seen), Some(unseen)] = &layers else { return };
        let (seen, unseen): (&dyn LayerAttention, &dyn LayerAttention) = (&**seen, &**unseen);
        replaced.compute(layer, pack, folds, embeddings);
        let lengths: Vec<usize> = pack.sequences.iter().map(|sequence| sequence.token_count).collect();
        seen.project(&pack.inputs, &lengths, actual);
        seen.project_unbiased(&replaced.parts, products);
        let outputs = actual.rows.len() / pack.tokens.len();
        for ((positions, added), projected) in REPLACEMENTS.iter().zip(&mut *replacements) {
            replaced.write_rows(added, products, outputs, &mut projected.rows);
            let attention = if matches!(positions, Positions::Used) { seen } else { unseen };
            attention.normalise_and_rotate(&lengths, projected);
        }
        replaced.write_rows(BOTH_PARTS, &replaced.parts, pack.input_width(), inputs);
        let [special, position, token, position_token] = &*replacements;
        let actual = &*actual;
        let variants = [
            (unseen, [special; 2]),
            (seen, [position; 2]),
            (unseen, [token; 2]),
            (seen, [position_token; 2]),
            (seen, [actual, position_token]),
            (seen, [position_token, actual]),
        ];
        let width = pack.input_width();
        for sequence in &pack.sequences {
            let span = sequence.start..sequence.start + sequence.token_count;
            let tokens = &pack.tokens[span.clone()];
            let rows: Vec<usize> = (0..tokens.len()).filter(|&at| tokens[at].base == MeanInput::Text).collect();
            let block = &mut blocks[sequence.block];
            if layer == 0 && !rows.is_empty() {
                block.rows += rows.len() as u64;
                block.sentences += u64::from(sequence.is_first);
            }
            let share = &mut block.layers[layer];
            for &at in &rows {
                let input = &pack.inputs[(span.start + at) * width..][..width];
                share.all += squared_distance(input, replaced.base_input(span.start + at, width));
                share.left += squared_distance(input, &inputs[(span.start + at) * width..][..width]);
            }
            let visibility = classes.layer_visibility(layer);
            for head in 0..grid.heads {
                let mut roots = AttentionSquareRoots::new(rows.clone());
                roots.push(seen.attention(head, &span, [actual; 2], scratch), 1);
                let roots = roots.head_square_roots(0, span.len());
                let distance_to = |view: AttentionView<'_>| -> f64 {
                    let actual_rows = roots.chunks_exact(span.len()).zip(&rows);
                    actual_rows.map(|(roots, &row)| squared_hellinger(roots, view.row(row))).sum()
                };
                let distances =
                    variants.map(|(layer, sides)| distance_to(layer.attention(head, &span, sides, scratch)));
                let sums = &mut block.heads[grid.index(layer, head)];
                sums.even += distance_from_uniform(roots, &rows, (visibility, span.len()));
                add_elementwise(&mut sums.variants, &distances);
            }
        }
    }
}

/// Returns the squared Hellinger distance `½ sum (√a - √b)²` of two rows, given `√a` in `roots` and `b` in `weights`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn squared_hellinger(roots: &[f32], weights: &[f32]) -> f64 {
    let mut partial = [0.0_f32; LANES];
    let (own, own_rest) = roots.as_chunks::<LANES>();
    let (others, others_rest) = weights.as_chunks::<LANES>();
    for (own, others) in own.iter().zip(others) {
        for lane in 0..LANES {
            let difference = own[lane] - others[lane].sqrt();
            partial[lane] += difference * difference;
        }
    }
    for ((partial, own), other) in partial.iter_mut().zip(own_rest).zip(others_rest) {
        let difference = own - other.sqrt();
        *partial += difference * difference;
    }
    reduce_lanes(partial.map(f64::from), |a, b| a + b) / 2.0
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    let mut partial = [0.0_f64; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let square = |(a, b): (&f32, &f32)| f64::from(a - b).powi(2);
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            partial[lane] += square((&a[lane], &b[lane]));
        }
    }
    partial.iter_mut().zip(a_rest.iter().zip(b_rest)).for_each(|(partial, pair)| *partial += square(pair));
    reduce_lanes(partial, |a, b| a + b)
}

merge_fields!(RebuiltDistanceSums[grid, classes, ridges] { blocks });

impl Sums for RebuiltDistanceSums {
    type SequenceState = usize;

    fn demands(&self) -> Demands {
        Demands::from_needs(Needs { attention_inputs: self.buffers.folds.is_some(), ..Needs::default() })
    }

    fn begin_pass(&mut self, known: &PassSetup<'_>) {
        self.buffers.embeddings.clone_from(&known.embeddings);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<usize> {
        Some(self.buffers.pack.push_sequence(sequence))
    }

    fn observe(&mut self, number: &mut usize, event: &mut Event<'_>) {
        match event {
            Event::AttentionInputs { layer, inputs, encoder } if self.buffers.pack.push_inputs(*number, *inputs) => {
                self.add_layer(*layer, *encoder);
            }
            Event::PackEnd => self.buffers.pack = TokenPack::default(),
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, classes: &LayerClasses) -> bool {
        (self.grid, &self.classes) == (grid, classes)
            && [0, grid.layers].contains(&self.ridges.len())
            && self.ridges.iter().flatten().all(|&ridge| usize::from(ridge) < super::fit::RIDGES.len())
            && self.blocks.is_valid(|block| (block.layers.len(), block.heads.len()) == (grid.layers, grid.head_count()))
    }
}
