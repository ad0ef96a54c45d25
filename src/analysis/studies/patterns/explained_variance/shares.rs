//! Shares of variance that cues explain in each head's attention. The coefficients for a block are fitted to all other
//! blocks.

use itertools::Itertools;
use nalgebra::DMatrix;

use super::cues::{CUE_COUNT, CUE_GROUPS};
use super::least_squares::{GramMatrix, LeastSquaresFit};
use super::sentence::KEY_SET_COUNT;
use super::sums::{ExplainedSums, KeySetSums};
use crate::model::grid::HeadGrid;
use crate::passes::observer::by_class::ByLayerClass;
use crate::stats::blocks::BLOCKS;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::metrics::metric::Fraction;
use crate::system::parallel::parallel_map;

pub const GROUP_COUNT: usize = CUE_GROUPS.len();

/// One value for all cues, one for each group of cues alone, and one for each group's addition to all other groups. Their
/// indices are [`ALL_CUES_INDEX`], [`alone_index`] and [`unique_index`].
pub type Shares<T> = [T; 1 + 2 * GROUP_COUNT];

/// Index in [`Shares`] of all cues together.
pub const ALL_CUES_INDEX: usize = 0;

/// Index in [`Shares`] of a group of cues alone.
pub const fn alone_index(group: usize) -> usize {
    1 + group
}

/// Index in [`Shares`] of a group's addition: the share explained by all cues minus that explained by all other groups. It
/// is below 0 if the group makes the fit worse.
pub const fn unique_index(group: usize) -> usize {
    1 + GROUP_COUNT + group
}

/// Minimum mean variance of an attention row for which shares are reported. Squares of f32 weights are accurate to 1e-7.
pub const MIN_VARIANCE: f64 = 1e-6;

/// Shares of variance explained in attention over one key set (all keys, or text keys).
pub struct KeySetShares {
    /// Shares of each head, `[heads]`: a fraction for each jackknife block, then one for all blocks.
    pub heads: Vec<Shares<Vec<Fraction>>>,
    /// Whether a cue of each share varies in the corpus: any cue for the share of all cues, otherwise a cue of the
    /// share's group.
    pub has_cues: Shares<bool>,
    /// Indices of the cues that vary in the corpus.
    pub cues: Vec<usize>,
}

/// Sums over one key set (all keys, or text keys), in one jackknife block or in all.
struct KeySetTotals {
    /// Products of cues with each other.
    gram: GramMatrix,
    /// Products of each head's attention with each cue, `[cues, heads]`.
    products: DMatrix<f64>,
    /// Sum of squares of each head's attention, centred within rows, `[heads]`.
    squares: Vec<f64>,
    /// Number of attention rows.
    rows: f64,
}

impl KeySetTotals {
    fn new(sums: &KeySetSums) -> Self {
        let heads = &sums.heads;
        Self {
            gram: GramMatrix(sums.cues.iter().map(|sum| sum.value()).collect()),
            products: DMatrix::from_fn(CUE_COUNT, heads.len(), |cue, head| heads[head].products[cue].value()),
            squares: heads.iter().map(|head| head.squares.value()).collect(),
            rows: sums.rows as f64,
        }
    }

    /// Sums of squares in `block` that cues explain, for each head. Coefficients are fitted to the corpus (`self`) without
    /// `block`.
    fn explained_squares(&self, block: &Self) -> Vec<Shares<f64>> {
        const NONE_EXPLAINED: Shares<f64> = [0.0; 1 + 2 * GROUP_COUNT];
        if block.rows <= 0.0 {
            return vec![NONE_EXPLAINED; self.squares.len()];
        }
        let (rest, fitted) = (self.gram.subtract(&block.gram), &self.products - &block.products);
        // All heads have equal cues, so each fit is computed once.
        let explained_by = |cues: Vec<usize>| {
            LeastSquaresFit::new(&rest, cues).explained_squares(&fitted, &block.gram, &block.products)
        };
        let by_all = explained_by((0..CUE_COUNT).collect());
        let by_group = CUE_GROUPS.map(|group| explained_by(group.cues().collect()));
        let by_others = CUE_GROUPS.map(|group| explained_by(group.other_cues().collect()));
        let of_head = |head: usize| {
            // Even attention, or a head of another class of layers.
            if self.squares[head] <= 0.0 {
                return NONE_EXPLAINED;
            }
            let mut shares = [by_all[head]; 1 + 2 * GROUP_COUNT];
            for group in 0..GROUP_COUNT {
                shares[alone_index(group)] = by_group[group][head];
                shares[unique_index(group)] -= by_others[group][head];
            }
            shares
        };
        (0..self.squares.len()).map(of_head).collect()
    }
}

/// Computes the shares of variance that cues explain in each head's attention, per key set (all keys, text keys).
pub fn key_set_shares(sums: &ExplainedSums, context: &EstimationContext) -> [KeySetShares; KEY_SET_COUNT] {
    let total = sums.blocks.total();
    std::array::from_fn(|form| {
        let corpus = KeySetTotals::new(&total[form]);
        let blocks: Vec<KeySetTotals> = sums.blocks.iter().map(|block| KeySetTotals::new(&block[form])).collect();
        let explained_by_block = parallel_map(context.threads, &blocks, |block| corpus.explained_squares(block));
        let cues: Vec<usize> = (0..CUE_COUNT).filter(|&cue| corpus.gram.is_varying(cue)).collect();
        let group_has_cues = CUE_GROUPS.map(|group| group.cues().any(|cue| cues.contains(&cue)));
        let has_cues = std::array::from_fn(|share| match share {
            ALL_CUES_INDEX => group_has_cues.contains(&true),
            _ => group_has_cues[(share - 1) % GROUP_COUNT],
        });
        // With one block there are no others to fit to.
        let has_other_blocks = blocks.iter().filter(|block| block.rows > 0.0).count() > 1;
        let of_head = |place: usize| {
            let is_varying = corpus.squares[place] > MIN_VARIANCE * corpus.rows;
            std::array::from_fn(|share| {
                if !(has_cues[share] && is_varying && has_other_blocks) {
                    return vec![Fraction::NONE; BLOCKS + 1];
                }
                let of_block = |(explained, block): (&Vec<Shares<f64>>, &KeySetTotals)| {
                    [explained[place][share], block.squares[place]]
                };
                let parts: Vec<[f64; 2]> = explained_by_block.iter().zip(&blocks).map(of_block).collect();
                let all = parts.iter().fold([0.0; 2], |sums, part| [sums[0] + part[0], sums[1] + part[1]]);
                parts.iter().chain([&all]).map(|&[explained, squares]| Fraction::new(explained, squares)).collect()
            })
        };
        let heads = (0..corpus.squares.len()).map(of_head).collect();
        KeySetShares { heads, has_cues, cues }
    })
}

/// Collects the shares of all heads from the classes of layers with equal masks. Cues of all classes are merged.
pub fn collect_by_layer(
    classes: &ByLayerClass<&[KeySetShares; KEY_SET_COUNT]>,
    grid: HeadGrid,
) -> [KeySetShares; KEY_SET_COUNT] {
    std::array::from_fn(|form| {
        let of_head = |place: usize| classes.for_layer(grid.layer_and_head(place).0)[form].heads[place].clone();
        let cues =
            classes.values().iter().flat_map(|class| class[form].cues.clone()).sorted_unstable().dedup().collect();
        let has_cues = classes.values()[0][form].has_cues;
        KeySetShares { heads: (0..grid.head_count()).map(of_head).collect(), has_cues, cues }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::patterns::explained_variance::sentence::CUE_PRODUCT_COUNT;

    /// The sums of a head over one cue.
    fn numbers(cue: f64, product: f64, squares: f64) -> KeySetTotals {
        let mut cells = vec![0.0; CUE_PRODUCT_COUNT];
        cells[0] = cue;
        let mut products = DMatrix::zeros(CUE_COUNT, 1);
        products[0] = product;
        KeySetTotals { gram: GramMatrix(cells), products, squares: vec![squares], rows: 1.0 }
    }

    #[test]
    fn an_example_by_hand() {
        // y = 2 x for x = (1, -1) in one block, y = x for the same in the other.
        let blocks = [numbers(2.0, 4.0, 8.0), numbers(2.0, 2.0, 2.0)];
        let whole = numbers(4.0, 6.0, 10.0);
        let explained = blocks.each_ref().map(|block| whole.explained_squares(block)[0]);
        // Fitted to the other one x leaves 2 of 8, and 2 x leaves 2 of 2: 6 of 10, where both together would explain 9.
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        // The cue is the first offset: it is the first group's, and what that adds to the others is all there is.
        for (shares, squares) in explained.iter().zip([6.0, 0.0]) {
            assert!(
                [shares[ALL_CUES_INDEX], shares[alone_index(0)], shares[unique_index(0)]]
                    .into_iter()
                    .all(|found| close(found, squares))
            );
            assert!([shares[alone_index(1)], shares[unique_index(1)]].into_iter().all(|found| close(found, 0.0)));
        }
    }
}
