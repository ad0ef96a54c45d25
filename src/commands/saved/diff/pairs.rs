//! Numbers that both sides have: tested, and corrected for how many they are.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{Change, LeftAside, Method, Valued};
use super::side::Side;
use crate::model::grid::HeadGrid;
use crate::stats::block_test::FEWEST_BLOCKS;
use crate::stats::difference::{DifferenceTest, ReportedNumber, by_intervals, paired};
use crate::stats::significance::benjamini_hochberg;
use crate::study::metrics::number::{Number, Part};
use crate::system::counted::plural;

/// The numbers of two sides.
pub struct NumberPairs<'a> {
    /// The pairs that were tested, in the order of reports.
    pub tested: Vec<Pair<'a>>,
    /// The numbers that were not.
    pub left_aside: Vec<LeftAside>,
    grid: HeadGrid,
}

/// A number of both sides, with its test.
pub struct Pair<'a> {
    /// The number of the first side.
    pub a: Number<'a>,
    /// The number of the second side.
    pub b: Number<'a>,
    test: DifferenceTest,
    /// The q-value of the difference.
    pub q: f64,
}

/// Why a number is not tested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Differing,
    OtherHeads,
    OneSided,
    Rare,
    Equal,
}

impl Reason {
    /// Why, in words which follow how many numbers there are; `grids` are the heads of both sides.
    fn why(self, count: usize, grids: [HeadGrid; 2]) -> String {
        let are = plural(&count, "number is", "numbers are");
        match self {
            Self::Differing => {
                let differ = plural(&count, "number differs", "numbers differ");
                let (rest, have) = plural(&count, ("it rests", "has"), ("they rest", "have"));
                format!(
                    "{differ} and cannot be tested: {rest} on fewer than {FEWEST_BLOCKS} blocks of sentences, or {have} no \
                     interval"
                )
            }
            Self::OtherHeads => {
                let [ours, theirs] = grids.map(|HeadGrid { layers, heads }| format!("{layers} layers x {heads} heads"));
                format!("{are} of heads of the first model, {ours}, that are none of the second, {theirs}")
            }
            Self::OneSided => format!("{are} there on one side only"),
            Self::Rare => format!("{are} of relations with fewer words than the policy asks for, on either side"),
            Self::Equal => {
                let (rest, have) = plural(&count, ("rests", "has"), ("rest", "have"));
                format!("{are} equal, and {rest} on fewer than {FEWEST_BLOCKS} blocks or {have} no interval")
            }
        }
    }
}

impl<'a> NumberPairs<'a> {
    /// Tests every number that both sides have; differences up to `tolerance` are none.
    pub fn new(a: &'a Side, b: &'a Side, method: Method, tolerance: f64) -> Self {
        let [grid, other_grid] = [a, b].map(|side| side.circumstances.model.grid());
        let alone = if grid == other_grid { Reason::OneSided } else { Reason::OtherHeads };
        let mut aside: BTreeMap<Reason, (usize, BTreeSet<String>)> = BTreeMap::new();
        let mut leave = |number: &Number<'_>, reason: Reason| {
            let (count, of) = aside.entry(reason).or_default();
            *count += 1;
            // If all numbers are left aside, the reason is the heads, not the kind of numbers.
            if reason != Reason::OtherHeads {
                of.insert(number.of.clone());
            }
        };
        let key = |number: &Number<'_>| (number.part, number.head, number.name.clone());
        let others = b.numbers().into_iter().map(|number| (key(&number), number));
        // Heads of the same name are other heads in a model of another shape.
        let mut others: BTreeMap<_, Number<'a>> = others.filter(|_| grid == other_grid).collect();
        let mut tested = Vec::new();
        for number in a.numbers() {
            let Some(other) = others.remove(&key(&number)) else {
                leave(&number, alone);
                continue;
            };
            match test(&number, &other, method, tolerance) {
                Ok(Some(test)) => tested.push(Pair { a: number, b: other, test, q: 1.0 }),
                Ok(None) => {}
                Err(reason) => leave(&number, reason),
            }
        }
        others.values().for_each(|number| leave(number, alone));
        let p: Vec<f64> = tested.iter().map(|pair| pair.test.p).collect();
        tested.iter_mut().zip(benjamini_hochberg(&p)).for_each(|(pair, q)| pair.q = q);
        let aside = aside.into_iter();
        let left_aside = aside.map(|(reason, (count, of))| LeftAside {
            why: reason.why(count, [grid, other_grid]),
            count,
            of: of.into_iter().collect(),
        });
        Self { tested, left_aside: left_aside.collect(), grid }
    }

    /// How many numbers of a part were tested.
    pub fn count(&self, part: Part) -> usize {
        self.tested.iter().filter(|pair| pair.a.part == part).count()
    }

    /// The numbers of a part whose q-value is at most `rate`, largest difference first.
    pub fn changes(&self, part: Part, rate: f64) -> Vec<Change> {
        let changed = self.tested.iter().filter(|pair| pair.a.part == part && pair.q <= rate);
        let mut changes: Vec<Change> = changed.map(|pair| self.change(pair)).collect();
        // Sorting is stable: equal differences stay in the order of reports.
        changes.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
        changes
    }

    fn change(&self, Pair { a, b, test, q }: &Pair<'_>) -> Change {
        let valued = |number: &Number<'_>| Valued { value: number.value.unwrap_or_default(), ci95: number.ci95 };
        Change {
            place: self.grid.place(a.head),
            number: a.name.clone(),
            a: valued(a),
            b: valued(b),
            difference: test.difference,
            standard_error: test.standard_error,
            p: test.p,
            q: *q,
        }
    }
}

/// The test of a number; none where neither side has it.
fn test(a: &Number<'_>, b: &Number<'_>, method: Method, tolerance: f64) -> Result<Option<DifferenceTest>, Reason> {
    let values = match (a.value, b.value) {
        (Some(a), Some(b)) => [a, b],
        (None, None) => return Ok(None),
        _ => return Err(Reason::OneSided),
    };
    if !(a.enough && b.enough) {
        return Err(Reason::Rare);
    }
    let test = match method {
        Method::PairedByBlock => a.left_out.zip(b.left_out).and_then(|(a, b)| paired(a, b, tolerance)),
        Method::ByIntervals => {
            let reported = |number: &Number<'_>, place: usize| {
                let Number { blocks, effective_blocks, trials, .. } = *number;
                let of = |ci95| ReportedNumber { value: values[place], ci95, blocks, effective_blocks, trials };
                number.ci95.map(of)
            };
            reported(a, 0).zip(reported(b, 1)).and_then(|(a, b)| by_intervals(&a, &b, tolerance))
        }
    };
    let untested = if (values[0] - values[1]).abs() <= tolerance { Reason::Equal } else { Reason::Differing };
    test.map(Some).ok_or(untested)
}
