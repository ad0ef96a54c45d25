//! Blocks of documents, or of groups of related sentences: the jackknife leaves out one block at a time.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use super::exact::{ComponentSum, ExactSum};

/// Number of jackknife blocks. A document with number `f`, or a group of related sentences with number `f`, is in block
/// `f mod 64` (docs/methodology/units.md). The number is even, so that both folds have 32 blocks.
pub const BLOCKS: usize = 64;

/// Jackknife block of a group: a document, or a set of related sentences. `group` is its number, counted from 0.
pub fn block_of(group: u64) -> usize {
    usize::try_from(group % BLOCKS as u64).expect("less than BLOCKS")
}

/// One number for each jackknife block.
pub type PerBlock = [f64; BLOCKS];

/// Sums that can be added to other sums of their kind.
pub trait Merge {
    fn merge(&mut self, other: &Self);
}

macro_rules! merge_numbers {
    ($($number:ty),+) => {
        $(impl Merge for $number {
            fn merge(&mut self, other: &Self) {
                *self += *other;
            }
        })+
    };
}

merge_numbers!(u64, i64, ExactSum, ComponentSum);

impl<T: Merge, const N: usize> Merge for [T; N] {
    fn merge(&mut self, other: &Self) {
        self.as_mut_slice().iter_mut().zip(other).for_each(|(sums, other)| sums.merge(other));
    }
}

/// Adds sums index by index; where one list is shorter, its sums count as 0.
impl<T: Merge + Clone> Merge for Vec<T> {
    fn merge(&mut self, other: &Self) {
        let common = self.len().min(other.len());
        self.iter_mut().zip(other).for_each(|(sums, other)| sums.merge(other));
        self.extend_from_slice(&other[common..]);
    }
}

/// Adds sums key by key; keys that only `other` has are copied.
impl<K: Ord + Clone, T: Merge + Clone> Merge for BTreeMap<K, T> {
    fn merge(&mut self, other: &Self) {
        for (key, sums) in other {
            match self.get_mut(key) {
                Some(known) => known.merge(sums),
                None => drop(self.insert(key.clone(), sums.clone())),
            }
        }
    }
}

/// Keeps the present value, or takes that of `other` if it is missing. If both are present they must be equal, which is not
/// checked.
impl<T: Clone> Merge for Option<T> {
    fn merge(&mut self, other: &Self) {
        if self.is_none() {
            self.clone_from(other);
        }
    }
}

/// Implements [`Merge`] for a struct by merging its fields. Fields in brackets must be equal on both sides; otherwise
/// merging panics.
#[macro_export]
macro_rules! merge_fields {
    ($name:ident $(<$of:ty>)? $([$($key:ident),+])? { $($field:tt),+ $(,)? }) => {
        impl $crate::stats::blocks::Merge for $name $(<$of>)? {
            fn merge(&mut self, other: &Self) {
                $($(assert!(self.$key == other.$key, "sums of one analysis");)+)?
                $($crate::stats::blocks::Merge::merge(&mut self.$field, &other.$field);)+
            }
        }
    };
}
pub use merge_fields;

/// Sums of each jackknife block, `[BLOCKS]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks<B>(Vec<B>);

impl<B: Merge + Clone> Blocks<B> {
    /// Makes blocks that all equal `empty`.
    pub fn new(empty: B) -> Self {
        Self(vec![empty; BLOCKS])
    }

    pub fn total(&self) -> B {
        self.sum_every(0, 1)
    }

    /// `[even, odd]`: sums over the even-numbered and over the odd-numbered blocks.
    pub fn folds(&self) -> [B; 2] {
        [0, 1].map(|fold| self.sum_every(fold, 2))
    }

    /// One number for each block, which `part` computes from the block's sums.
    pub fn map_blocks(&self, part: impl Fn(&B) -> f64) -> PerBlock {
        std::array::from_fn(|block| part(&self.0[block]))
    }

    /// Sums over block `first` and every `step`-th block after it.
    fn sum_every(&self, first: usize, step: usize) -> B {
        let mut total = self[first].clone();
        self[first..].iter().step_by(step).skip(1).for_each(|block| total.merge(block));
        total
    }

    pub fn with_total(&self) -> BlocksWithTotal<'_, B> {
        BlocksWithTotal { blocks: self, total: self.total() }
    }

    /// Whether there are [`BLOCKS`] blocks and all satisfy `fits`; blocks from a file may be invalid.
    pub fn is_valid(&self, fits: impl Fn(&B) -> bool) -> bool {
        self.0.len() == BLOCKS && self.0.iter().all(fits)
    }
}

impl<B: Merge> Merge for Blocks<B> {
    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(block, other)| block.merge(other));
    }
}

impl<B> Deref for Blocks<B> {
    type Target = [B];

    fn deref(&self) -> &[B] {
        &self.0
    }
}

impl<B> DerefMut for Blocks<B> {
    fn deref_mut(&mut self) -> &mut [B] {
        &mut self.0
    }
}

/// Sums of each jackknife block, and their total, which is computed once.
pub struct BlocksWithTotal<'a, B> {
    blocks: &'a Blocks<B>,
    total: B,
}

impl<B> BlocksWithTotal<'_, B> {
    pub fn total(&self) -> &B {
        &self.total
    }

    /// Sums of the block with this number; for `None`, their total over all blocks.
    pub fn sums(&self, block: Option<usize>) -> &B {
        block.map_or(&self.total, |block| &self.blocks[block])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_add_up_in_place_and_in_total() {
        let (mut blocks, mut other) = (Blocks::new([0_u64, 100]), Blocks::new([0, 0]));
        (blocks[3], other[3], other[block_of(64 + 5)]) = ([2, 100], [40, 1], [7, 0]);
        blocks.merge(&other);
        assert_eq!((blocks[3], blocks[5], blocks[6]), ([42, 101], [7, 100], [0, 100]));
        let total = [49, 6401];
        assert_eq!(blocks.total(), total);
        let both = blocks.with_total();
        assert_eq!(blocks.folds(), [[0, 3200], [49, 3201]]);
        assert_eq!((both.sums(Some(3)), both.sums(None), both.total()), (&[42, 101], &total, &total));
    }

    #[test]
    fn what_was_read_must_have_every_block() {
        assert!(Blocks::new(1_u64).is_valid(|block| *block == 1));
        assert!(!Blocks::new(1_u64).is_valid(|block| *block == 2));
        assert!(!Blocks(vec![1_u64; BLOCKS - 1]).is_valid(|_| true));
    }
}
