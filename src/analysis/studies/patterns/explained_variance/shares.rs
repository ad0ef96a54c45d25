//! Shares of each head's attention that cues explain. For each block, coefficients are fitted to all other blocks.

use nalgebra::DMatrix;

use super::cues::{CUES, GROUPS};
use super::least_squares::{Fit, Gram};
use super::sentence::FORMS;
use super::sums::{ExplainedSums, FormSums};
use crate::model::grid::HeadGrid;
use crate::passes::observer::by_class::ByClass;
use crate::stats::blocks::BLOCKS;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::metrics::metric::Fraction;
use crate::system::parallel::in_parallel;

pub const COUNT: usize = GROUPS.len();

/// One value for all cues, one for each group of cues alone, and one for each group beyond all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares<T> {
    pub all: T,
    pub alone: [T; COUNT],
    /// Share explained by all cues minus the share explained by all other groups; below 0 if the group makes the fit worse.
    pub unique: [T; COUNT],
}

/// Smallest mean variance of an attention row for which shares are reported. Weights are f32: their squares are accurate to 1e-7.
pub const MIN_VARIANCE: f64 = 1e-6;

pub struct FormShares {
    /// Shares of each head: a fraction for each block, followed by one for the whole corpus.
    pub heads: Vec<Shares<Vec<Fraction>>>,
    pub any: Shares<bool>,
    pub cues: Vec<usize>,
}

/// Sums of one form (all keys, or text), in one block or several.
struct FormTotals {
    gram: Gram,
    /// Products of each head's weights with each cue, `[cues, heads]`.
    products: DMatrix<f64>,
    /// Sum of squared weights of each head, `[heads]`.
    squares: Vec<f64>,
    rows: f64,
}

impl FormTotals {
    fn new(sums: &FormSums) -> Self {
        let heads = &sums.heads;
        Self {
            gram: Gram(sums.cues.iter().map(|sum| sum.value()).collect()),
            products: DMatrix::from_fn(CUES, heads.len(), |cue, head| heads[head].products[cue].value()),
            squares: heads.iter().map(|head| head.squares.value()).collect(),
            rows: sums.rows as f64,
        }
    }

    /// Sum of squares in `block` that cues explain, for each head, with coefficients fitted to all other blocks.
    fn explained_of(&self, block: &Self) -> Vec<Shares<f64>> {
        const NOTHING: Shares<f64> = Shares { all: 0.0, alone: [0.0; COUNT], unique: [0.0; COUNT] };
        if block.rows <= 0.0 {
            return vec![NOTHING; self.squares.len()];
        }
        let (rest, fitted) = (self.gram.less(&block.gram), &self.products - &block.products);
        // All heads have equal cues, so each fit is computed once.
        let of_all_heads = |cues: &mut dyn Iterator<Item = usize>| {
            Fit::new(&rest, cues).explained(&fitted, &block.gram, &block.products)
        };
        let all = of_all_heads(&mut (0..CUES));
        let alone = GROUPS.map(|group| of_all_heads(&mut group.cues()));
        let others = GROUPS.map(|group| of_all_heads(&mut group.others()));
        let of_head = |head: usize| {
            // Even attention, or a head of another class of layers.
            if self.squares[head] <= 0.0 {
                return NOTHING;
            }
            Shares {
                all: all[head],
                alone: alone.each_ref().map(|explained| explained[head]),
                unique: others.each_ref().map(|explained| all[head] - explained[head]),
            }
        };
        (0..self.squares.len()).map(of_head).collect()
    }
}

pub fn shares(sums: &ExplainedSums, context: &EstimationContext) -> [FormShares; FORMS] {
    let total = sums.blocks.total();
    std::array::from_fn(|form| {
        let whole = FormTotals::new(&total[form]);
        let blocks: Vec<FormTotals> = sums.blocks.iter().map(|block| FormTotals::new(&block[form])).collect();
        let explained = in_parallel(context.threads, &blocks, |block| whole.explained_of(block));
        let cues: Vec<usize> = (0..CUES).filter(|&cue| whole.gram.varies(cue)).collect();
        let alone = GROUPS.map(|group| group.cues().any(|cue| cues.contains(&cue)));
        let any = Shares { all: alone.contains(&true), alone, unique: alone };
        // With one block there are no others to fit to.
        let is_fitted = blocks.iter().filter(|block| block.rows > 0.0).count() > 1;
        let of_head = |place: usize| {
            let varies = whole.squares[place] > MIN_VARIANCE * whole.rows;
            let share = |any: bool, of: &dyn Fn(&Shares<f64>) -> f64| {
                if !(any && varies && is_fitted) {
                    return vec![Fraction::NONE; BLOCKS + 1];
                }
                let of_block = |(explained, block): (&Vec<Shares<f64>>, &FormTotals)| {
                    [of(&explained[place]), block.squares[place]]
                };
                let parts: Vec<[f64; 2]> = explained.iter().zip(&blocks).map(of_block).collect();
                let all = parts.iter().fold([0.0; 2], |sums, part| [sums[0] + part[0], sums[1] + part[1]]);
                parts.iter().chain([&all]).map(|&[explained, squares]| Fraction::new(explained, squares)).collect()
            };
            Shares {
                all: share(any.all, &|shares| shares.all),
                alone: std::array::from_fn(|group| share(any.alone[group], &|shares| shares.alone[group])),
                unique: std::array::from_fn(|group| share(any.unique[group], &|shares| shares.unique[group])),
            }
        };
        let heads = (0..whole.squares.len()).map(of_head).collect();
        FormShares { heads, any, cues }
    })
}

/// Collects the shares of all heads, each from the class of its layer, and the cues that occur in any class.
pub fn of_all_layers(classes: &ByClass<&[FormShares; FORMS]>, grid: HeadGrid) -> [FormShares; FORMS] {
    std::array::from_fn(|form| {
        let of_head = |place: usize| classes.of_layer(grid.at(place).0)[form].heads[place].clone();
        let mut cues: Vec<usize> = classes.each().iter().flat_map(|class| class[form].cues.clone()).collect();
        cues.sort_unstable();
        cues.dedup();
        let any = classes.each()[0][form].any.clone();
        FormShares { heads: (0..grid.count()).map(of_head).collect(), any, cues }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::patterns::explained_variance::sentence::PAIRS;

    /// The sums of a head over one cue.
    fn numbers(cue: f64, product: f64, squares: f64) -> FormTotals {
        let mut cells = vec![0.0; PAIRS];
        cells[0] = cue;
        let mut products = DMatrix::zeros(CUES, 1);
        products[0] = product;
        FormTotals { gram: Gram(cells), products, squares: vec![squares], rows: 1.0 }
    }

    #[test]
    fn an_example_by_hand() {
        // y = 2 x for x = (1, -1) in one block, y = x for the same in the other.
        let blocks = [numbers(2.0, 4.0, 8.0), numbers(2.0, 2.0, 2.0)];
        let whole = numbers(4.0, 6.0, 10.0);
        let explained = blocks.each_ref().map(|block| whole.explained_of(block)[0].clone());
        // Fitted to the other one x leaves 2 of 8, and 2 x leaves 2 of 2: 6 of 10, where both together would explain 9.
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        // The cue is the first offset: it is the first group's, and what that adds to the others is all there is.
        for (shares, squares) in explained.iter().zip([6.0, 0.0]) {
            assert!([shares.all, shares.alone[0], shares.unique[0]].into_iter().all(|found| close(found, squares)));
            assert!([shares.alone[1], shares.unique[1]].into_iter().all(|found| close(found, 0.0)));
        }
    }
}
