//! The shares of attention that cues explain, of each head with each block of sentences left out.

use super::cues::{CUES, GROUPS};
use super::least_squares::{Factor, Gram};
use super::sentence::FORMS;
use super::sums::{ExplainedSums, FormSums};
use crate::stats::blocks::BLOCKS;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::metrics::metric::Fraction;
use crate::study::metrics::pseudo_values::{Replicate, fractions};
use crate::system::parallel::in_parallel;

/// The groups.
pub const COUNT: usize = GROUPS.len();

/// The shares of one form: of all cues, of each group alone, and what each adds to all others; null where there is no such
/// cue.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares<T> {
    /// All cues.
    pub all: T,
    /// Each group alone.
    pub alone: [T; COUNT],
    /// The share of all cues less the share of all other groups.
    pub unique: [T; COUNT],
}

impl<T> Shares<T> {
    fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> Shares<U> {
        Shares { all: f(&self.all), alone: self.alone.each_ref().map(&mut f), unique: self.unique.each_ref().map(f) }
    }
}

/// The least mean variance of a row for which a share is reported: weights are f32, so the squares of a row are good to
/// about 1e-7.
const VARIES: f64 = 1e-6;

/// The shares of every head in one form.
pub struct FormShares {
    /// A fraction of each head for each block and, last, one for the whole corpus.
    pub heads: Vec<Shares<Vec<Fraction>>>,
    /// The expectation of each share where cues and attention have nothing to do with each other.
    pub chance: Shares<Option<f64>>,
    /// The cues that are there.
    pub cues: Vec<usize>,
}

/// The sums of a form, without some block.
struct Numbers {
    gram: Gram,
    /// The products of each head with the cues, and its squares.
    heads: Vec<([f64; CUES], f64)>,
    rows: f64,
    keys: f64,
}

impl Numbers {
    fn new(sums: &FormSums) -> Self {
        let head = |place: usize| {
            let head = &sums.heads[place];
            (std::array::from_fn(|cue| head.products[cue].value()), head.squares.value())
        };
        Self {
            gram: Gram::new(sums.cues.iter().map(|sum| sum.value()).collect()),
            heads: (0..sums.heads.len()).map(head).collect(),
            rows: sums.rows as f64,
            keys: sums.keys as f64,
        }
    }

    /// The same without a block.
    fn without(&self, block: &FormSums) -> Self {
        let block = Self::new(block);
        let less = |(mut products, squares): ([f64; CUES], f64), (others, more): &([f64; CUES], f64)| {
            products.iter_mut().zip(others).for_each(|(sum, other)| *sum -= other);
            (products, squares - more)
        };
        Self {
            gram: self.gram.less(&block.gram),
            heads: self.heads.iter().copied().zip(&block.heads).map(|(head, other)| less(head, other)).collect(),
            rows: self.rows - block.rows,
            keys: self.keys - block.keys,
        }
    }

    /// The factors of all cues, of each group and of all others.
    fn factors(&self) -> (Shares<Factor>, Shares<bool>) {
        let of = |cues: Vec<usize>| Factor::new(&self.gram, cues);
        let factors = Shares {
            all: of((0..CUES).collect()),
            alone: GROUPS.map(|group| of(group.cues().collect())),
            unique: GROUPS.map(|group| of(group.others().collect())),
        };
        let alone = factors.alone.each_ref().map(|factor| !factor.kept().is_empty());
        let any = Shares { all: !factors.all.kept().is_empty(), alone, unique: alone };
        (factors, any)
    }

    /// The shares of each head; none of one whose rows do not vary.
    fn shares(&self) -> Vec<Shares<Option<f64>>> {
        let (factors, any) = self.factors();
        let of_head = |(products, squares): &([f64; CUES], f64)| {
            let varies = *squares > VARIES * self.rows;
            let explained = factors.map(|factor| if varies { factor.explained(products) / squares } else { f64::NAN });
            let all = explained.all;
            // More cues explain no less but for rounding.
            let found = Shares {
                unique: explained.unique.map(|others| if others > all { 0.0 } else { all - others }),
                ..explained
            };
            found.where_any(&any)
        };
        self.heads.iter().map(of_head).collect()
    }

    /// The expectation of each share for attention that has nothing to do with the cues: the cues' degrees of freedom over
    /// those that rows have left.
    fn chance(&self) -> Shares<Option<f64>> {
        let (factors, any) = self.factors();
        let left = self.keys - self.rows;
        let expected = factors.map(|factor| factor.kept().len() as f64 / left);
        let all = expected.all;
        Shares { unique: expected.unique.map(|others| all - others), ..expected }.where_any(&any)
    }
}

impl Shares<f64> {
    /// The shares of what is there, as far as they are numbers.
    fn where_any(&self, any: &Shares<bool>) -> Shares<Option<f64>> {
        let known = |(share, any): (&f64, &bool)| (*any && share.is_finite()).then_some(*share);
        let both = |shares: &[f64; COUNT], any: &[bool; COUNT]| {
            std::array::from_fn(|group| known((&shares[group], &any[group])))
        };
        Shares {
            all: known((&self.all, &any.all)),
            alone: both(&self.alone, &any.alone),
            unique: both(&self.unique, &any.unique),
        }
    }
}

/// The shares of every head in each form.
pub fn shares(sums: &ExplainedSums, context: &EstimationContext) -> [FormShares; FORMS] {
    let total = sums.blocks.total();
    std::array::from_fn(|form| {
        let whole = Numbers::new(&total[form]);
        let without = |block: &FormSums| {
            let rest = whole.without(block);
            let part = rest.rows / whole.rows;
            // A block without a row takes nothing away.
            (block.rows > 0).then(|| (rest.shares(), part))
        };
        let left_out =
            in_parallel(context.threads, sums.blocks.iter().map(|block| &block[form]).collect::<Vec<_>>(), without);
        let of_head = |(place, all): (usize, Shares<Option<f64>>)| {
            let one = |of: &dyn Fn(&Shares<Option<f64>>) -> Option<f64>| {
                let without = |left_out: &Option<(Vec<Shares<Option<f64>>>, f64)>| {
                    let (shares, rest) = left_out.as_ref()?;
                    Some(Replicate { value: of(&shares[place])?, rest: *rest })
                };
                fractions(of(&all), &left_out.iter().map(without).collect::<Vec<_>>())
            };
            Shares {
                all: one(&|shares| shares.all),
                alone: std::array::from_fn(|group| one(&|shares| shares.alone[group])),
                unique: std::array::from_fn(|group| one(&|shares| shares.unique[group])),
            }
        };
        let heads = whole.shares().into_iter().enumerate().map(of_head).collect();
        let cues = (0..CUES).filter(|&cue| whole.gram.at(cue, cue) > 0.0).collect();
        debug_assert_eq!(left_out.len(), BLOCKS, "one for each block");
        FormShares { heads, chance: whole.chance(), cues }
    })
}
