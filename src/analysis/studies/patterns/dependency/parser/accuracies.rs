//! Shares that parsers get right, with their intervals, and how far one is ahead of another.

use comfy_table::CellAlignment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::study::show::wording::{decimal, plus_minus_percent};

/// A share of words that are right; null where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The share.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

/// A difference of two accuracies on the same words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The difference.
    #[schemars(range(min = -1, max = 1))]
    pub difference: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

/// A parser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParserAccuracy {
    /// Its name.
    pub parser: String,
    /// The share of words for which it finds the gold head.
    #[serde(flatten)]
    pub share: Share,
    /// The accuracy of attention less that; null of attention itself.
    pub ahead: Difference,
}

/// The share of words that are right, given both by block; null where there are none.
pub fn share(right: &PerBlock, words: &PerBlock) -> Share {
    if words.iter().all(|&words| words == 0.0) {
        return Share::default();
    }
    let share = Jackknife::new(right, words).on(Scale::Share);
    Share { accuracy: Some(share.all()), ci95: share.interval() }
}

/// How much more of the same words one gets right than another.
pub fn difference(more: &PerBlock, less: &PerBlock, words: &PerBlock) -> Difference {
    let difference: PerBlock = std::array::from_fn(|block| more[block] - less[block]);
    let difference = Jackknife::new(&difference, words).on(Scale::Difference);
    Difference { difference: Some(difference.all()), ci95: difference.interval() }
}

/// The accuracies of parsers on the same words, from the words of each that are right, and how far the first is ahead.
pub fn accuracies(names: &[&str], right: &[Option<PerBlock>], words: &PerBlock) -> Vec<ParserAccuracy> {
    let some = words.iter().any(|&words| words > 0.0);
    let first = right[0];
    let of = |(&name, right): (&&str, &Option<PerBlock>)| {
        let ahead = first.zip(*right).filter(|_| some && name != names[0]);
        ParserAccuracy {
            parser: name.to_owned(),
            share: right.map(|right| share(&right, words)).unwrap_or_default(),
            ahead: ahead.map(|(first, right)| difference(&first, &right, words)).unwrap_or_default(),
        }
    };
    names.iter().zip(right).map(of).collect()
}

/// A difference in points, with its sign and half of its interval.
pub fn signed(points: f64, ci95: Option<Interval>) -> String {
    let points = decimal(100.0 * points, 1);
    format!("{}{points}{}", if points.starts_with('-') { "" } else { "+" }, plus_minus_percent(ci95))
}

pub fn aligned(mut table: comfy_table::Table) -> comfy_table::Table {
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
