//! Observations: sums over a corpus, or over a shard of it, before any ratio and any label.
//!
//! Observations of the shards of a corpus add up to that of the whole.

use anyhow::{Result, bail, ensure};

use super::identity::{Identity, RunInfo};
use super::observer::Observer;
use super::pass::Pass;
use crate::sequences::tally::Tally;
use crate::system::failure::{Class, Classify};

/// The sums of all passes, and of what they are.
pub struct Observation {
    /// Of what, by what, and how.
    pub identity: Identity,
    /// The corpus in numbers.
    pub tally: Tally,
    /// The sums of each pass.
    pub passes: Vec<PassSums>,
    /// Facts about the run, unless they were not wanted.
    pub run: Option<RunInfo>,
}

/// The sums of one pass.
pub struct PassSums {
    /// The pass.
    pub pass: Pass,
    /// Sentences that could be encoded and are in none of its sequences.
    pub left_out: u64,
    /// The sums of everybody who looked at it, in the order in which the passes were planned.
    pub sums: Vec<Box<dyn Observer>>,
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
        for (pass, other) in self.passes.iter_mut().zip(&other.passes) {
            pass.left_out += other.left_out;
            pass.sums.iter_mut().zip(&other.sums).for_each(|(sums, other)| sums.merge(&**other));
        }
        self.run = self.run.take().zip(other.run.as_ref()).map(|(run, other)| run.merged(other));
    }

    /// Makes sure that something was observed.
    ///
    /// # Errors
    ///
    /// If the corpus has no sentences, or all were skipped; the reasons are counted.
    pub fn ensure_not_empty(&self) -> Result<()> {
        self.not_empty().class(Class::Input)
    }

    fn not_empty(&self) -> Result<()> {
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
