//! Metrics: ratios of exact sums, each one line of its study's table, with their chance levels and intervals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::explanation::Explanation;
use super::named::Named;
use crate::sequences::fold::roles::{OFFSET_COUNT, offset_at};
use crate::stats::block_test::{Estimate, Jackknife, Scale};
use crate::stats::blocks::{BLOCKS, merge_fields};
use crate::stats::interval::Interval;

/// A metric: one row of a study's table of metrics. `F` is the function that computes the metric's ratio from the
/// study's sums, for one key if the metric has several.
pub struct Metric<F> {
    /// The metric's id, and the text that `explain` prints.
    pub explanation: Explanation,
    pub keys: MetricKeys,
    /// Computes the ratio (numerator and denominator) of the metric for a head.
    pub value: F,
    /// Computes the ratio of a head without any preference (chance); `None` if `value` can be applied to uniform
    /// attention instead.
    pub chance: Option<F>,
}

impl<F: Copy> Metric<F> {
    pub const fn single(value: F) -> Self {
        Self::keyed(MetricKeys::Single, value)
    }

    pub const fn keyed(keys: MetricKeys, value: F) -> Self {
        let explanation = Explanation { name: "", measures: "", formula: "", chance: "", source: "", caveats: "" };
        Self { explanation, keys, value, chance: None }
    }

    pub const fn with_chance(self, chance: F) -> Self {
        Self { chance: Some(chance), ..self }
    }

    pub const fn with_explanation(self, explanation: Explanation) -> Self {
        Self { explanation, ..self }
    }
}

/// The explanation and the keys of each metric of a table, in order.
pub fn explanations_with_keys<F>(table: &'static [Metric<F>]) -> Vec<(&'static Explanation, MetricKeys)> {
    table.iter().map(|metric| (&metric.explanation, metric.keys)).collect()
}

/// Ratios in all cells of a table. A metric has one cell, or one for each of its keys. `cell` is given the metric and
/// the index of the key.
pub fn cells<F>(table: &[Metric<F>], cell: impl Fn(&Metric<F>, usize) -> Fraction) -> Vec<Fraction> {
    let cells = table.iter().flat_map(|metric| metric.keys.indices().map(move |place| (metric, place)));
    cells.map(|(metric, place)| cell(metric, place)).collect()
}

/// The keys of a metric that has several numbers for a head, such as one for each offset.
#[derive(Clone, Copy)]
pub enum MetricKeys {
    /// The metric is a single number.
    Single,
    /// The metric has this many numbers. The function returns the key of a number from the number's index.
    Several(usize, fn(usize) -> String),
}

impl MetricKeys {
    /// One number for each offset from -8 to 8, with the offset as its key.
    pub const ONE_PER_OFFSET: Self = Self::Several(OFFSET_COUNT, |slot| offset_at(slot).to_string());

    /// Indices of the metric's keys; only 0 for a single number.
    pub fn indices(self) -> std::ops::Range<usize> {
        match self {
            Self::Single => 0..1,
            Self::Several(count, _) => 0..count,
        }
    }
}

/// A metric that is computed from the sums of a block or of all blocks, and from a head's index. `None` for the
/// head gives the chance level.
pub type HeadMetric<B> = Metric<fn(&B, Option<usize>) -> Fraction>;

/// Returns the function that computes all metrics of a table, one ratio for each metric.
pub fn table_values<B>(table: &'static [HeadMetric<B>]) -> impl Fn(&B, Option<usize>) -> Vec<Fraction> + Sync {
    |sums, head| table.iter().map(|metric| (metric.value)(sums, head)).collect()
}

/// A metric as a column of results: its id, its keys, and the scale and bounds of its values. A column has one cell, or
/// one for each key.
#[derive(Clone, Copy)]
pub struct Column {
    pub id: &'static str,
    pub keys: MetricKeys,
    /// Scale of the metric's tests and intervals: the logit for a share, the number itself otherwise.
    pub scale: Scale,
    /// Lower and upper bound of the metric, to which intervals are clipped.
    pub bounds: [f64; 2],
}

/// Names of all numbers of the columns, in order: the metric's id, or `id.key` for a metric with keys.
pub fn cell_names(columns: &[Column]) -> Vec<String> {
    Metrics::new(columns, std::iter::repeat(())).cells().map(|(name, ())| name).collect()
}

/// A ratio of two sums, with the evidence on which it rests.
#[derive(Clone, Copy, Debug)]
pub struct Fraction {
    numerator: f64,
    denominator: f64,
    evidence_basis: Denominator,
}

/// Denominator of a metric: number of queries, words or edges counted, with the number of sentences and blocks that have any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Denominator {
    /// Number counted: queries of a token metric, words of a relation, or edges of trees.
    pub count: u64,
    /// Number of sentences with a query, word or edge that `count` counts. Copies are no independent evidence, so a sentence
    /// family counts once.
    pub sentences: u64,
    /// Number of blocks with a query, word or edge that `count` counts; 0 in reports that do not say.
    #[serde(default)]
    #[schemars(range(max = BLOCKS))]
    pub blocks: u64,
    /// Effective number of blocks, `(sum n)² / sum n²` over blocks with count `n`: the number of equal blocks with as much
    /// evidence.
    #[serde(default)]
    #[schemars(range(min = 0, max = BLOCKS))]
    pub effective_blocks: f64,
}

/// Number of queries, words or edges that a metric can score, and of sentences with any. Each sentence family (equal or
/// grouped sentences) counts as one sentence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EligibleCounts {
    pub count: u64,
    pub sentences: u64,
}

merge_fields!(EligibleCounts { count, sentences });

impl EligibleCounts {
    /// Adds the number of scorable queries, words or edges in one sentence. `is_first`: whether the sentence is the first
    /// in its group of equal or related sentences.
    pub fn add(&mut self, count: u64, is_first: bool) {
        self.count += count;
        self.sentences += u64::from(count > 0 && is_first);
    }

    /// The mean `sum / count`, with `count` and `sentences` as its evidence.
    pub fn mean(self, sum: f64) -> Fraction {
        Fraction::mean(sum, self.count, self.sentences)
    }
}

impl Denominator {
    /// Estimate of a number that rests on this evidence, from its value and standard error; `None` if there are too
    /// few blocks for a test.
    pub fn estimate(&self, value: f64, standard_error: f64, scale: Scale) -> Option<Estimate> {
        let (blocks, effective_blocks) = (usize::try_from(self.blocks).unwrap_or(BLOCKS), self.effective_blocks);
        Estimate { value, standard_error, blocks, effective_blocks, scale }.if_testable()
    }
}

impl Fraction {
    /// The ratio 0 / 0, which has no value.
    pub const NONE: Self = Self {
        numerator: 0.0,
        denominator: 0.0,
        evidence_basis: Denominator { count: 0, sentences: 0, blocks: 0, effective_blocks: 0.0 },
    };

    /// The ratio `numerator / denominator`, with evidence counts of 0.
    pub fn new(numerator: f64, denominator: f64) -> Self {
        Self { numerator, denominator, ..Self::NONE }
    }

    /// The mean `sum / count`, over `count` queries, words or edges in `sentences` sentences.
    pub fn mean(sum: f64, count: u64, sentences: u64) -> Self {
        Self::new(sum, count as f64).with_evidence(count, sentences)
    }

    /// This ratio, with the numbers of scored queries, words or edges (`count`) and of sentences that it rests on.
    pub fn with_evidence(self, count: u64, sentences: u64) -> Self {
        Self { evidence_basis: Denominator { count, sentences, ..Denominator::default() }, ..self }
    }

    /// Returns a ratio without a value, but with this evidence: the numerator is NaN, the denominator the evidence
    /// count. Used where the value is unknown, or where the chance level differs between heads while the count does
    /// not.
    pub fn without_numerator(&self) -> Self {
        Self { numerator: f64::NAN, denominator: self.evidence_basis.count as f64, ..*self }
    }

    pub fn numerator(&self) -> f64 {
        self.numerator
    }

    pub fn denominator(&self) -> f64 {
        self.denominator
    }

    /// Numbers of scored queries, words or edges, and of sentences, that the ratio rests on.
    pub fn evidence(&self) -> Denominator {
        self.evidence_basis
    }

    /// The ratio; `None` if it is not finite.
    pub fn value(&self) -> Option<f64> {
        let value = self.numerator / self.denominator;
        (self.denominator != 0.0 && value.is_finite()).then_some(value)
    }

    /// Jackknife of a ratio over blocks; `of_block` returns the ratio in one block.
    pub fn jackknife(of_block: impl Fn(usize) -> Self) -> Jackknife {
        let blocks: [Self; BLOCKS] = std::array::from_fn(of_block);
        Jackknife::new(&blocks.map(|ratio| ratio.numerator), &blocks.map(|ratio| ratio.denominator))
    }
}

/// Values of the metrics of one head: one value for each cell, under the metric's id. Metrics keep the order of the
/// studies' tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metrics<T>(Named<Cells<T>>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Cells<T> {
    Single(T),
    Keyed(Named<T>),
}

/// The metrics of one head; `null` where nothing in the corpus was eligible.
pub type Values = Metrics<Option<f64>>;

/// The standard errors of the metrics of one head; `null` where fewer than 10 blocks have a denominator.
pub type StandardErrors = Metrics<Option<f64>>;

/// The 95 % intervals of the metrics of one head; `null` where there is no value, or no standard error.
pub type Intervals = Metrics<Option<Interval>>;

/// The jackknife of each metric of one head, with the value without each block; `None` where a metric has no value.
pub type Jackknives = Metrics<Option<Jackknife>>;

impl<T> Metrics<T> {
    /// Assigns `values` to the metrics of `columns`, in order: one value, or one for each key of a metric. Panics if
    /// there are too few values.
    pub fn new(columns: &[Column], values: impl IntoIterator<Item = T>) -> Self {
        let mut values = values.into_iter();
        let mut next = || values.next().expect("a value for each cell");
        let column = |Column { id, keys, .. }: &Column| {
            let cells = match keys {
                MetricKeys::Single => Cells::Single(next()),
                MetricKeys::Several(count, name) => {
                    Cells::Keyed(Named((0..*count).map(|place| (name(place), next())).collect()))
                }
            };
            ((*id).to_owned(), cells)
        };
        Self(Named(columns.iter().map(column).collect()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }

    /// Whether both have the same metrics with the same keys, in any order.
    pub fn has_same_cells<U>(&self, other: &Metrics<U>) -> bool {
        // Heads of one report nearly always list their metrics in one order.
        let names = self.cells().map(|(name, _)| name);
        names.eq(other.cells().map(|(name, _)| name)) || self.by_name().keys().eq(other.by_name().keys())
    }

    /// Drops each metric for which `is_dropped` is true, for every key if the metric has keys.
    pub fn drop_where(&mut self, is_dropped: &Metrics<bool>) {
        let all = |cells: &Cells<bool>| match cells {
            Cells::Single(is_dropped) => *is_dropped,
            Cells::Keyed(cells) => cells.0.iter().all(|(_, is_dropped)| *is_dropped),
        };
        self.0.0.retain(|(id, _)| !is_dropped.0.get(id).is_some_and(all));
    }

    /// Adds the metrics of another study.
    pub fn extend(&mut self, other: Self) {
        self.0.0.extend(other.0.0);
    }

    /// The values in the order of `columns`; `None` unless the metrics are exactly those columns.
    ///
    /// JSON objects have no order, so another program may have reordered the metrics.
    pub fn sorted_by_columns(mut self, columns: &[Column]) -> Option<Self> {
        let mut take_column = |Column { id, keys, .. }: &Column| {
            let cells = match (self.0.remove(id)?, keys) {
                (Cells::Single(value), MetricKeys::Single) => Cells::Single(value),
                (Cells::Keyed(mut values), MetricKeys::Several(count, name)) => {
                    let take_cell = |place| Some((name(place), values.remove(&name(place))?));
                    let ordered = (0..*count).map(take_cell).collect::<Option<_>>()?;
                    values.0.is_empty().then_some(Cells::Keyed(Named(ordered)))?
                }
                _ => return None,
            };
            Some(((*id).to_owned(), cells))
        };
        let ordered = columns.iter().map(&mut take_column).collect::<Option<_>>()?;
        self.0.0.is_empty().then_some(Self(Named(ordered)))
    }

    /// The values in the order of `columns`, which may have further columns; `None` if a metric is no column.
    pub fn sorted_by_present_columns(self, columns: &[Column]) -> Option<Self> {
        let present: Vec<Column> = columns.iter().filter(|column| self.0.get(column.id).is_some()).copied().collect();
        self.sorted_by_columns(&present)
    }

    /// Each value with its name: the metric's id, or `id.key` for a metric with keys.
    pub fn cells(&self) -> impl Iterator<Item = (String, &T)> {
        self.0.0.iter().flat_map(|(id, cells)| -> Vec<(String, &T)> {
            match cells {
                Cells::Single(value) => vec![(id.clone(), value)],
                Cells::Keyed(values) => values.0.iter().map(|(key, value)| (format!("{id}.{key}"), value)).collect(),
            }
        })
    }

    /// All values, by their names as in [`Metrics::cells`].
    pub fn by_name(&self) -> BTreeMap<String, &T> {
        self.cells().collect()
    }

    /// The value of the metric `id`, at `key` if the metric has keys; `None` if there is no such metric or key.
    pub fn get(&self, id: &str, key: Option<&str>) -> Option<&T> {
        match (self.0.get(id)?, key) {
            (Cells::Single(value), None) => Some(value),
            (Cells::Keyed(values), Some(key)) => values.get(key),
            _ => None,
        }
    }

    /// Replaces each value by the result of `f` for the metric's id, the key and the value.
    pub fn map<V>(&self, mut f: impl FnMut(&str, Option<&str>, &T) -> V) -> Metrics<V> {
        Metrics(self.0.map(|id, cells| match cells {
            Cells::Single(value) => Cells::Single(f(id, None, value)),
            Cells::Keyed(values) => Cells::Keyed(values.map(|key, value| f(id, Some(key), value))),
        }))
    }

    /// Replaces each value by the result of `f` for it and for the value of the same name in `other`.
    pub fn zip_map<U, V>(&self, other: &Metrics<U>, mut f: impl FnMut(&T, Option<&U>) -> V) -> Metrics<V> {
        self.map(|id, key, value| f(value, other.get(id, key)))
    }
}

impl<T> Metrics<Option<T>> {
    /// Sets all values to `None`.
    pub(super) fn clear_values(&mut self) {
        *self = self.map(|_, _, _| None);
    }
}

impl<T: Copy> Metrics<Option<T>> {
    /// As [`Metrics::get`], and `None` also where the metric has no value.
    pub fn value(&self, id: &str, key: Option<&str>) -> Option<T> {
        self.get(id, key).copied().flatten()
    }
}

impl<T> Default for Metrics<T> {
    fn default() -> Self {
        Self(Named(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(id: &'static str, keys: MetricKeys) -> Column {
        Column { id, keys, scale: Scale::Real, bounds: [f64::NEG_INFINITY, f64::INFINITY] }
    }

    fn metrics() -> Values {
        let keys = MetricKeys::Several(2, |place| ["-1", "0"][place].to_owned());
        Metrics::new(&[column("b", keys), column("a", MetricKeys::Single)], [Some(7.0), None, Some(0.5)])
    }

    #[test]
    fn what_has_no_denominator_is_null() {
        assert_eq!(Fraction::NONE.value(), None);
        assert_eq!(Fraction::new(0.0, 0.0).value(), None);
        assert_eq!(Fraction::new(1.0, 4.0).value(), Some(0.25));
    }

    #[test]
    fn metrics_are_written_in_their_order_and_read_back() {
        let json = serde_json::to_string(&metrics()).unwrap();
        assert_eq!(json, r#"{"b":{"-1":7.0,"0":null},"a":0.5}"#);
        assert_eq!(serde_json::from_str::<Values>(&json).unwrap(), metrics());
        let intervals = r#"{"b":{"-1":[1.0,2.0],"0":null},"a":[0.0,0.5]}"#;
        assert_eq!(serde_json::to_string(&serde_json::from_str::<Intervals>(intervals).unwrap()).unwrap(), intervals);
        assert!(serde_json::from_str::<Values>(r#"{"a":"0.5"}"#).is_err());
    }

    #[test]
    fn metrics_are_put_in_order_if_all_are_there() {
        let keys = MetricKeys::Several(2, |place| ["-1", "0"][place].to_owned());
        let columns = [column("b", keys), column("a", MetricKeys::Single)];
        let read = |json: &str| serde_json::from_str::<Values>(json).unwrap().sorted_by_columns(&columns);
        assert_eq!(read(r#"{"a":0.5,"b":{"0":null,"-1":7.0}}"#), Some(metrics()));
        for json in [
            r#"{"b":{"-1":7.0,"0":null}}"#,
            r#"{"a":0.5,"b":{"-1":7.0}}"#,
            r#"{"a":0.5,"b":{"-1":7.0,"0":null,"1":1.0}}"#,
            r#"{"a":0.5,"b":{"-1":7.0,"0":null},"c":1.0}"#,
            r#"{"a":0.5,"b":7.0}"#,
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn cells_are_found_by_name() {
        let metrics = metrics();
        assert_eq!(metrics.cells().map(|(name, _)| name).collect::<Vec<_>>(), ["b.-1", "b.0", "a"]);
        assert_eq!(metrics.get("b", Some("-1")), Some(&Some(7.0)));
        assert_eq!(metrics.get("a", None), Some(&Some(0.5)));
        assert_eq!((metrics.get("a", Some("0")), metrics.get("b", None), metrics.get("c", None)), (None, None, None));
    }
}
