//! The two analyses of a comparison in words: what each is of, what was not compared, and what they do not share.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::stats::interval::Interval;
use crate::study::show::wording::with_interval;
use crate::system::counted::counted;

/// One of the two analyses.
#[derive(Serialize, JsonSchema)]
pub struct Described {
    /// The file, as it was named.
    pub file: String,
    /// The shard of a partial; null for a report.
    pub shard: Option<String>,
    /// The model.
    pub model: String,
    /// The corpus, or the task where that alone was asked about.
    pub corpus: String,
    /// Sentences analysed; 0 of a task alone.
    pub sentences: u64,
}

/// A number with its interval.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Valued {
    /// The number.
    pub value: f64,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

/// Things that were not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftAside {
    /// Why, in words.
    pub why: String,
    /// How many.
    pub count: usize,
    /// The relations, metrics, labels or sections that they are of.
    pub of: Vec<String>,
}

/// A fact about the runs.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fact {
    /// Its key in a report.
    pub key: String,
    /// In the first analysis.
    pub a: Value,
    /// In the second.
    pub b: Value,
}

impl Valued {
    /// The number with its interval.
    pub fn in_words(&self, digits: usize) -> String {
        with_interval(self.value, self.ci95, digits)
    }
}

impl Described {
    /// The analysis on one line.
    pub fn in_words(&self) -> String {
        let Self { file, shard, model, corpus, sentences } = self;
        let shard = shard.as_ref().map_or_else(String::new, |shard| format!(", shard {shard}"));
        let sentences = if *sentences == 0 { String::new() } else { format!(", {}", counted(*sentences, "sentence")) };
        format!("{file}{shard}: {model} over {corpus}{sentences}")
    }
}
