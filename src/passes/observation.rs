//! What was observed of a model over a corpus, or over a shard of it: sums, before any ratio and any label.
//!
//! Observations of the shards of a corpus add up to that of the whole.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::corpus::CorpusIdentity;
use crate::passes::control::Control;
use crate::report::{ModelInfo, RunInfo, Tool};
use crate::sequences::encode::Tally;
use crate::sequences::words::FromToken;
use crate::studies::clark2019::ClarkSums;
use crate::studies::observe::Sums;

/// What was observed.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Of what, by what, and how.
    pub identity: Identity,
    /// The corpus in numbers.
    pub tally: Tally,
    /// What each head does.
    pub sums: Sums,
    /// What it does in each of the protocol's controls, all blocks in one.
    pub controls: Vec<Sums>,
    /// The preset's own sums, if it was asked for.
    pub clark2019: Option<ClarkSums>,
    /// Facts about the run, unless they were not wanted.
    pub run: Option<RunInfo>,
}

/// What shards must have in common to be parts of one whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The program.
    pub tool: Tool,
    /// The model.
    pub model: ModelInfo,
    /// The corpus, the whole of it.
    pub corpus: CorpusIdentity,
    /// How it was observed.
    pub protocol: Protocol,
}

/// How a corpus is observed: every option that the sums depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Protocol {
    /// Longer sentences were skipped, or cut with `truncate`.
    pub max_tokens: usize,
    /// Whether longer sentences of plain text were cut.
    pub truncate: bool,
    /// Only the first so many sentences were read; null for all.
    pub limit: Option<u64>,
    /// Which token speaks for a split word.
    pub from_token: FromToken,
    /// Sentences are summed in so many blocks.
    pub blocks: usize,
    /// What was run beside the analysis itself.
    pub controls: Vec<Control>,
    /// Whether the analysis of Clark et al. 2019 was run too.
    pub clark2019: bool,
}

impl Observation {
    /// Adds what was observed over other sentences of the same corpus.
    ///
    /// # Panics
    ///
    /// If the two have not the same identity.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.identity, other.identity, "parts of one whole");
        self.tally.merge(&other.tally);
        self.sums.merge(&other.sums);
        self.controls.iter_mut().zip(&other.controls).for_each(|(sums, other)| sums.merge(other));
        if let Some((sums, other)) = self.clark2019.as_mut().zip(other.clark2019.as_ref()) {
            sums.merge(other);
        }
        self.run = self.run.take().zip(other.run.as_ref()).map(|(run, other)| run.merged(other));
    }

    /// Makes sure that something was observed.
    ///
    /// # Errors
    ///
    /// If the corpus has no sentences, or all were skipped; the reasons are counted.
    pub fn ensure_not_empty(&self) -> Result<()> {
        let (tally, corpus) = (&self.tally, &self.identity.corpus.name);
        if tally.sentences > 0 {
            return Ok(());
        }
        ensure!(!tally.skipped.is_empty(), "corpus `{corpus}` has no sentences");
        let reasons: Vec<String> =
            tally.skipped.iter().map(|(reason, count)| format!("{count} {}", reason.describe())).collect();
        bail!("corpus `{corpus}` leaves nothing to analyse: every sentence was skipped ({})", reasons.join(", "));
    }
}

impl Identity {
    /// The first thing that another identity has otherwise: its key, and both values.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let values = |identity: &Self| serde_json::to_value(identity).expect("an identity is JSON");
        difference("", &values(self), &values(other))
    }
}

fn difference(key: &str, here: &Value, there: &Value) -> Option<String> {
    match (here, there) {
        (Value::Object(here), Value::Object(there)) => {
            let keys: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
            keys.into_iter().find_map(|name| {
                let of = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                difference(&key, &of(here), &of(there))
            })
        }
        (Value::Array(here), Value::Array(there)) if here.len() == there.len() => {
            let mut pairs = here.iter().zip(there).enumerate();
            pairs.find_map(|(number, (here, there))| difference(&format!("{key}.{number}"), here, there))
        }
        (Value::Array(here), Value::Array(there)) => {
            Some(format!("{key} has {} entries in one and {} in the other", here.len(), there.len()))
        }
        _ => (here != there).then(|| format!("{key} is {here} in one and {there} in the other")),
    }
}
