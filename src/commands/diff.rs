//! `headscope diff`: where two saved reports differ by more than their uncertainty.
//!
//! Reports are read leniently here, key by key, so that those of other versions can be compared as far as they go.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::commands::options::DiffOptions;
use crate::export::json;
use crate::system::terminal::{print, printable};

/// Compares two reports and prints where they differ; whether they are the same within the tolerance.
///
/// # Errors
///
/// If either is no report.
pub fn diff(options: &DiffOptions) -> Result<bool> {
    let [a, b] = [&options.a, &options.b].map(|path| Saved::read(path));
    let difference = Difference::new(&a?, &b?, options.tolerance);
    print(&if options.json { difference.json() } else { difference.to_string() })?;
    Ok(difference.same)
}

/// The parts of a report that are compared.
#[derive(Deserialize)]
struct Saved {
    model: SavedModel,
    heads: Vec<SavedHead>,
    #[serde(default)]
    relations: Vec<SavedRelation>,
    /// All of it, for what is only said to differ.
    #[serde(skip)]
    whole: Value,
}

#[derive(Deserialize)]
struct SavedModel {
    layers: usize,
    heads: usize,
}

#[derive(Deserialize)]
struct SavedHead {
    name: String,
    primary: String,
    #[serde(default)]
    labels: Vec<SavedLabel>,
    #[serde(default)]
    nearest: Vec<SavedLabel>,
    metrics: Value,
    #[serde(default)]
    ci95: Value,
}

#[derive(Deserialize)]
struct SavedLabel {
    label: String,
    score: f64,
}

#[derive(Deserialize)]
struct SavedRelation {
    relation: String,
    layer: usize,
    head: usize,
    direction: String,
    accuracy: f64,
    #[serde(default)]
    heldout_accuracy: Value,
    #[serde(default)]
    baseline: Value,
    #[serde(default)]
    ci95: Value,
    #[serde(default)]
    by_head: Vec<SavedAccuracy>,
}

#[derive(Deserialize)]
struct SavedAccuracy {
    layer: usize,
    head: usize,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

impl Saved {
    fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = json::read_text(path)?;
        let whole: Value = serde_json::from_str(&text).map_err(|error| anyhow!("{name}:{}: {error}", error.line()))?;
        let saved = Self::deserialize(&whole).with_context(|| format!("{name} is no report of headscope"))?;
        if let Some(defect) = saved.defect() {
            bail!("{name}: the report is not whole: {defect}");
        }
        Ok(Self { whole, ..saved })
    }

    /// The first thing that is missing for a comparison to mean anything: every head is there, once, with metrics, and
    /// has the same ones as the others.
    fn defect(&self) -> Option<String> {
        let SavedModel { layers, heads } = self.model;
        let all = layers.checked_mul(heads).filter(|&count| count > 0 && count == self.heads.len());
        let names: BTreeSet<&str> = self.heads.iter().map(|head| head.name.as_str()).collect();
        if all.is_none() || names.len() != self.heads.len() {
            return Some(format!("`heads` does not list {layers} layers of {heads} heads"));
        }
        let metrics = |head: &SavedHead| -> Vec<String> { numbers(&head.metrics, &head.ci95).into_keys().collect() };
        let expected = metrics(&self.heads[0]);
        let broken = self.heads.iter().find(|head| expected.is_empty() || metrics(head) != expected);
        broken.map(|head| format!("the head `{}` does not have every metric", head.name))
    }

    /// The score of a head for a label, if the report gives it.
    fn score(head: &SavedHead, label: &str) -> Option<f64> {
        head.labels.iter().chain(&head.nearest).find(|known| known.label == label).map(|known| known.score)
    }
}

impl SavedRelation {
    fn best(&self) -> Best {
        Best { head: crate::model::grid::head_name(self.layer, self.head), direction: self.direction.clone() }
    }

    /// How much more accurate the best head is here than the one that is best in the other report.
    fn lead_over(&self, other: &Self) -> Option<f64> {
        let entry = self.by_head.iter().find(|entry| (entry.layer, entry.head) == (other.layer, other.head))?;
        Some(self.accuracy - entry.more.get(&other.direction)?.as_f64()?)
    }

    /// The numbers of the relation as a whole, shaped as their intervals are.
    fn numbers(&self) -> Value {
        let baseline = |key: &str| self.baseline.get(key).cloned().unwrap_or_default();
        serde_json::json!({
            "accuracy": self.accuracy,
            "heldout_accuracy": self.heldout_accuracy,
            "baseline": { "accuracy": baseline("accuracy"), "heldout_accuracy": baseline("heldout_accuracy") },
        })
    }
}

/// Where two reports differ. What `--json` prints.
#[derive(Serialize)]
struct Difference {
    /// Whether nothing differs beyond the tolerance: none of the three lists below has an entry, and the models have
    /// the same heads.
    same: bool,
    tolerance: f64,
    /// Facts about the runs that the reports do not share. They do not count as differences.
    not_shared: Vec<Fact>,
    /// The parts that could not be compared, and why.
    not_compared: Vec<String>,
    primary_labels: Vec<LabelChange>,
    metrics: Vec<MetricChange>,
    best_heads: Vec<BestChange>,
    /// Differences that the tolerance covers.
    within_tolerance: usize,
}

#[derive(Serialize)]
struct Fact {
    key: String,
    a: Value,
    b: Value,
}

#[derive(Serialize)]
struct LabelChange {
    head: String,
    a: String,
    b: String,
}

/// A number whose intervals are apart.
#[derive(Serialize)]
struct MetricChange {
    /// A head, or a relation.
    of: String,
    metric: String,
    a: Number,
    b: Number,
    /// From the end of one interval to the beginning of the other.
    gap: f64,
}

#[derive(Clone, Copy, Serialize)]
struct Number {
    value: f64,
    ci95: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct BestChange {
    relation: String,
    a: Best,
    b: Best,
}

#[derive(PartialEq, Serialize)]
struct Best {
    head: String,
    direction: String,
}

/// The parts of a report that describe the run and not its outcome.
const FACTS: [&str; 5] = ["schema_version", "tool", "model", "corpus", "settings"];

impl Difference {
    fn new(a: &Saved, b: &Saved, tolerance: f64) -> Self {
        let mut difference = Self {
            same: false,
            tolerance,
            not_shared: FACTS.iter().flat_map(|key| facts(key, &a.whole[key], &b.whole[key])).collect(),
            not_compared: Vec::new(),
            primary_labels: Vec::new(),
            metrics: Vec::new(),
            best_heads: Vec::new(),
            within_tolerance: 0,
        };
        let grid = |saved: &Saved| (saved.model.layers, saved.model.heads);
        let comparable = grid(a) == grid(b);
        if comparable {
            difference.compare_heads(a, b);
            difference.compare_relations(a, b);
        } else {
            let [a, b] = [a, b].map(|saved| format!("{} x {}", saved.model.layers, saved.model.heads));
            difference.not_compared.push(format!("heads and relations: the models have {a} and {b} heads"));
        }
        let found = difference.primary_labels.len() + difference.metrics.len() + difference.best_heads.len();
        Self { same: comparable && found == 0, ..difference }
    }

    fn compare_heads(&mut self, a: &Saved, b: &Saved) {
        let same_policy = a.whole["settings"]["policy"] == b.whole["settings"]["policy"];
        let (mut null, mut alone) = (BTreeMap::new(), Vec::new());
        for head in &a.heads {
            let Some(other) = b.heads.iter().find(|other| other.name == head.name) else {
                alone.push(head.name.clone());
                continue;
            };
            if head.primary != other.primary {
                // A label that comes and goes with a score that hardly moves.
                let moved = |label: &String| Some((Saved::score(head, label)? - Saved::score(other, label)?).abs());
                let named = [&head.primary, &other.primary].into_iter().filter(|label| *label != "unlabelled");
                let mut moves = named.map(moved);
                if same_policy && self.tolerance > 0.0 && moves.all(|by| by.is_some_and(|by| by <= self.tolerance)) {
                    self.within_tolerance += 1;
                } else {
                    let (a, b) = (head.primary.clone(), other.primary.clone());
                    self.primary_labels.push(LabelChange { head: head.name.clone(), a, b });
                }
            }
            self.compare_numbers(&head.name, (&head.metrics, &head.ci95), (&other.metrics, &other.ci95), &mut null);
        }
        let in_a = |name: &String| a.heads.iter().any(|head| head.name == *name);
        alone.extend(b.heads.iter().map(|head| &head.name).filter(|name| !in_a(name)).cloned());
        self.say_alone("heads", &alone);
        self.say_null(&null, "heads");
    }

    fn compare_relations(&mut self, a: &Saved, b: &Saved) {
        let (mut null, mut alone) = (BTreeMap::new(), Vec::new());
        for relation in &a.relations {
            let Some(other) = b.relations.iter().find(|other| other.relation == relation.relation) else {
                alone.push(relation.relation.clone());
                continue;
            };
            if relation.best() != other.best() {
                // By how much each report prefers its own best head to the other's.
                let losses = [relation.lead_over(other), other.lead_over(relation)];
                if losses.iter().all(|loss| loss.is_some_and(|loss| loss <= self.tolerance)) {
                    self.within_tolerance += 1;
                } else {
                    let (a, b) = (relation.best(), other.best());
                    self.best_heads.push(BestChange { relation: relation.relation.clone(), a, b });
                }
            }
            let (ours, theirs) = (relation.numbers(), other.numbers());
            self.compare_numbers(&relation.relation, (&ours, &relation.ci95), (&theirs, &other.ci95), &mut null);
        }
        let in_a = |name: &String| a.relations.iter().any(|relation| relation.relation == *name);
        alone.extend(b.relations.iter().map(|relation| &relation.relation).filter(|name| !in_a(name)).cloned());
        self.say_alone("relations", &alone);
        self.say_null(&null, "relations");
    }

    /// Compares the numbers of two objects, and counts in `null` those that only one of them has.
    fn compare_numbers(
        &mut self,
        of: &str,
        a: (&Value, &Value),
        b: (&Value, &Value),
        null: &mut BTreeMap<String, usize>,
    ) {
        let [ours, mut theirs] = [a, b].map(|(values, intervals)| numbers(values, intervals));
        for (metric, a) in ours {
            let (a, b) = match (a, theirs.remove(&metric).flatten()) {
                (Some(a), Some(b)) => (a, b),
                (None, None) => continue,
                _ => {
                    *null.entry(metric).or_default() += 1;
                    continue;
                }
            };
            let gap = gap(a, b);
            if gap > self.tolerance {
                self.metrics.push(MetricChange { of: of.to_owned(), metric, a, b, gap });
            } else if gap > 0.0 {
                self.within_tolerance += 1;
            }
        }
        for (metric, number) in theirs {
            *null.entry(metric).or_default() += usize::from(number.is_some());
        }
    }

    fn say_null(&mut self, null: &BTreeMap<String, usize>, what: &str) {
        for (metric, count) in null.iter().filter(|(_, count)| **count > 0) {
            self.not_compared.push(format!("`{metric}` of {count} {what}: only one report has a number"));
        }
    }

    fn say_alone(&mut self, what: &str, names: &[String]) {
        if !names.is_empty() {
            self.not_compared.push(format!("{what} that only one report has: {}", names.join(", ")));
        }
    }

    fn json(&self) -> String {
        json::escaped(&serde_json::to_string_pretty(self).expect("names and finite numbers")) + "\n"
    }
}

/// How far two intervals are apart; not above 0 where they overlap. A number without an interval is a point.
fn gap(a: Number, b: Number) -> f64 {
    let [a, b] = [a, b].map(|number| number.ci95.unwrap_or([number.value; 2]));
    (a[0] - b[1]).max(b[0] - a[1])
}

/// Every number or null in `values`, by its keys joined by dots, with the interval at the same keys.
fn numbers(values: &Value, intervals: &Value) -> BTreeMap<String, Option<Number>> {
    let Value::Object(fields) = values else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    for (key, value) in fields {
        let interval = intervals.get(key).unwrap_or(&Value::Null);
        if value.is_object() {
            let inner = numbers(value, interval).into_iter();
            found.extend(inner.map(|(inner, number)| (format!("{key}.{inner}"), number)));
        } else {
            let ends = interval.get(0).and_then(Value::as_f64).zip(interval.get(1).and_then(Value::as_f64));
            let ci95 = ends.map(|(low, high)| [low, high]);
            found.insert(key.clone(), value.as_f64().map(|value| Number { value, ci95 }));
        }
    }
    found
}

/// The single values in which two parts differ.
fn facts(at: &str, a: &Value, b: &Value) -> Vec<Fact> {
    match (a, b) {
        _ if a == b => Vec::new(),
        (Value::Object(ours), Value::Object(theirs)) => {
            let more = theirs.keys().filter(|key| !ours.contains_key(*key));
            let keys = ours.keys().chain(more);
            keys.flat_map(|key| facts(&format!("{at}.{key}"), &a[key], &b[key])).collect()
        }
        _ => vec![Fact { key: at.to_owned(), a: a.clone(), b: b.clone() }],
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write_to(&mut out)?;
        f.write_str(&printable(&out))
    }
}

impl Difference {
    fn write_to(&self, out: &mut String) -> fmt::Result {
        if !self.not_shared.is_empty() {
            writeln!(out, "Not shared (a | b):")?;
            for Fact { key, a, b } in &self.not_shared {
                writeln!(out, "  {key}: {a} | {b}")?;
            }
        }
        if !self.not_compared.is_empty() {
            writeln!(out, "Not compared:")?;
            self.not_compared.iter().try_for_each(|what| writeln!(out, "  {what}"))?;
        }
        if !self.primary_labels.is_empty() {
            writeln!(out, "Primary labels that differ: {}", self.primary_labels.len())?;
            for LabelChange { head, a, b } in &self.primary_labels {
                writeln!(out, "  {head:7} {a} -> {b}")?;
            }
        }
        if !self.metrics.is_empty() {
            writeln!(out, "Numbers whose intervals are apart: {}", self.metrics.len())?;
            for MetricChange { of, metric, a, b, .. } in &self.metrics {
                writeln!(out, "  {of:7} {metric}: {a} -> {b}")?;
            }
        }
        if !self.best_heads.is_empty() {
            writeln!(out, "Relations whose best head moved: {}", self.best_heads.len())?;
            for BestChange { relation, a, b } in &self.best_heads {
                writeln!(out, "  {relation}: {a} -> {b}")?;
            }
        }
        if self.within_tolerance > 0 {
            writeln!(out, "Within the tolerance of {}: {}", self.tolerance, self.within_tolerance)?;
        }
        if self.same { writeln!(out, "No label, number or best head differs.") } else { Ok(()) }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ci95 {
            Some([low, high]) => write!(f, "{:.4} [{low:.4}, {high:.4}]", self.value),
            None => write!(f, "{:.4}", self.value),
        }
    }
}

impl fmt::Display for Best {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.head, self.direction)
    }
}
