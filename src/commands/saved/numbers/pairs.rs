//! Numbers that both sides have: tested, and corrected for how many they are.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{Change, HeadChanges, LargestChange, Method};
use crate::commands::saved::sides::Side;
use crate::commands::saved::sides::described::{LeftAside, Valued};
use crate::commands::saved::sides::standing::{self, Idleness};
use crate::model::grid::HeadGrid;
use crate::stats::difference::{DifferenceTest, ReportedNumber, by_intervals, paired};
use crate::stats::significance::benjamini_hochberg;
use crate::study::metrics::number::{Number, Part, in_rules};
use crate::study::metrics::unit::{PerUnit, SAME_MODEL};
use crate::system::counted::plural;

pub struct NumberPairs<'a> {
    pub tested: Vec<Pair<'a>>,
    pub left_aside: Vec<LeftAside>,
    /// Numbers also made of rates of the corpus, by their names in rules: the name, and that of the head's own in rules.
    pub of_corpus: BTreeMap<String, [String; 2]>,
    grid: HeadGrid,
}

pub struct Pair<'a> {
    pub a: Number<'a>,
    pub b: Number<'a>,
    test: DifferenceTest,
    pub q: f64,
}

impl Pair<'_> {
    /// The difference as a multiple of what the precision of weights makes in numbers of its unit.
    fn size(&self) -> f64 {
        self.test.difference.abs() / SAME_MODEL.of(self.a.unit)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Differing,
    Idle,
    OneSided,
    Rare,
    Equal,
    OfCorpus,
}

impl Reason {
    /// Why, in words which follow how many numbers there are.
    fn why(self, count: usize) -> String {
        let are = plural(&count, "number is", "numbers are");
        match self {
            Self::Differing => {
                let differ = plural(&count, "number differs", "numbers differ");
                let (rest, have) = plural(&count, ("it rests", "has"), ("they rest", "have"));
                format!("{differ} and cannot be tested: {rest} on too few blocks, or {have} no interval")
            }
            Self::OfCorpus => format!(
                "{are} made of rates of the corpus as well, which differ between corpora: the metrics of the heads alone are \
                 compared"
            ),
            Self::Idle => format!("{are} of heads that do nothing on one side"),
            Self::OneSided => format!("{are} there on one side only"),
            Self::Rare => format!("{are} of relations with fewer words than the policy asks for, on either side"),
            Self::Equal => {
                let (rest, have) = plural(&count, ("rests", "has"), ("rest", "have"));
                format!("{are} equal, and {rest} on too few blocks or {have} no interval")
            }
        }
    }
}

impl<'a> NumberPairs<'a> {
    /// Tests every number of heads alone that both sides have; differences up to the tolerance for their unit are none.
    pub fn new(a: &'a Side, b: &'a Side, method: Method, tolerances: &PerUnit<f64>) -> Self {
        let grid = a.circumstances.model.grid();
        let mut aside: BTreeMap<Reason, (usize, BTreeSet<String>)> = BTreeMap::new();
        let mut leave = |number: &Number<'_>, reason: Reason| {
            let (count, of) = aside.entry(reason).or_default();
            *count += 1;
            of.insert(number.of.clone());
        };
        let key = |number: &Number<'_>| (number.part, number.head, number.name.clone());
        let mut others: BTreeMap<_, Number<'a>> =
            b.numbers().into_iter().map(|number| (key(&number), number)).collect();
        let (mut tested, mut of_corpus) = (Vec::new(), BTreeMap::new());
        // Where a head writes a constant, its attention is compared.
        let runs_without = |head: usize| {
            let idle = standing::idleness([(a, head), (b, head)]);
            let is_missing = idle.map(|why| matches!(why, Some(Idleness::Absent | Idleness::Removed)));
            is_missing[0] != is_missing[1]
        };
        let missing: Vec<bool> = (0..grid.count()).map(runs_without).collect();
        for number in a.numbers() {
            if missing[number.head] {
                others.remove(&key(&number));
                leave(&number, Reason::Idle);
                continue;
            }
            if let Some(of_head) = number.made_of.as_ref() {
                others.remove(&key(&number));
                leave(&number, Reason::OfCorpus);
                of_corpus.insert(number.in_rules(), [number.name.clone(), in_rules(number.part, of_head)]);
                continue;
            }
            let Some(other) = others.remove(&key(&number)) else {
                leave(&number, Reason::OneSided);
                continue;
            };
            match test(&number, &other, method, tolerances.of(number.unit)) {
                Ok(Some(test)) => tested.push(Pair { a: number, b: other, test, q: 1.0 }),
                Ok(None) => {}
                Err(reason) => leave(&number, reason),
            }
        }
        for number in others.values() {
            leave(number, if missing[number.head] { Reason::Idle } else { Reason::OneSided });
        }
        let p: Vec<f64> = tested.iter().map(|pair| pair.test.p).collect();
        tested.iter_mut().zip(benjamini_hochberg(&p)).for_each(|(pair, q)| pair.q = q);
        let aside = aside.into_iter();
        let left_aside = aside.map(|(reason, (count, of))| LeftAside {
            why: reason.why(count),
            count,
            of: of.into_iter().collect(),
        });
        Self { tested, left_aside: left_aside.collect(), of_corpus, grid }
    }

    pub fn count(&self, part: Part) -> usize {
        self.tested.iter().filter(|pair| pair.a.part == part).count()
    }

    /// The numbers of a part whose q-value is at most `rate`, largest difference first.
    pub fn changes(&self, part: Part, rate: f64) -> Vec<Change> {
        let mut changed: Vec<&Pair<'_>> =
            self.tested.iter().filter(|pair| pair.a.part == part && pair.q <= rate).collect();
        // Sorting is stable: equal differences stay in the order of reports.
        changed.sort_by(|a, b| b.size().total_cmp(&a.size()));
        changed.into_iter().map(|pair| self.change(pair)).collect()
    }

    /// The heads with changed numbers of these parts: most numbers first, and of equally many the largest difference.
    pub fn heads(&self, wanted: impl Fn(Part) -> bool, rate: f64) -> Vec<HeadChanges> {
        let mut by_head: BTreeMap<usize, Vec<&Pair<'_>>> = BTreeMap::new();
        for pair in self.tested.iter().filter(|pair| wanted(pair.a.part)) {
            by_head.entry(pair.a.head).or_default().push(pair);
        }
        let of_head = |(head, pairs): (usize, Vec<&Pair<'_>>)| {
            let changed: Vec<&Pair<'_>> = pairs.iter().copied().filter(|pair| pair.q <= rate).collect();
            let largest = *changed.iter().max_by(|a, b| a.size().total_cmp(&b.size()))?;
            let Pair { a, test, q, .. } = largest;
            let (number, difference) = (a.name.clone(), test.difference);
            let summary = HeadChanges {
                place: self.grid.place(head),
                changed: changed.len(),
                compared: pairs.len(),
                largest: LargestChange { number, unit: a.unit, difference, q: *q },
            };
            Some((largest.size(), summary))
        };
        let mut heads: Vec<(f64, HeadChanges)> = by_head.into_iter().filter_map(of_head).collect();
        heads.sort_by(|(size, a), (other, b)| b.changed.cmp(&a.changed).then(other.total_cmp(size)));
        heads.into_iter().map(|(_, summary)| summary).collect()
    }

    fn change(&self, Pair { a, b, test, q }: &Pair<'_>) -> Change {
        let valued = |number: &Number<'_>| Valued { value: number.value.unwrap_or_default(), ci95: number.ci95 };
        Change {
            place: self.grid.place(a.head),
            number: a.name.clone(),
            unit: a.unit,
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
