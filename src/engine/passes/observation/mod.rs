//! Observations: sums over a corpus, or over a shard of it, before any ratio and any label. The observations of all
//! shards of a corpus add up to the observation of the whole corpus.

pub mod identity;
pub mod merge;
pub mod partial;

use anyhow::{Result, anyhow};
use itertools::Itertools;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::observer::Observer;
use super::pass::Pass;
use crate::sequences::tally::Tally;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::digest::hex;
use identity::{Identity, RunInfo};

/// The sums of all passes over a corpus, or over a shard of it, with the identity of the run.
pub struct Observation {
    pub identity: Identity,
    pub tally: Tally,
    pub stage: Stage,
    pub passes: Vec<PassSums>,
    /// Time, threads and host of the run; `None` if the run leaves them out.
    pub run_info: Option<RunInfo>,
}

/// The passes of a run that an observation contains; a run has one or two stages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// All passes of a run with one stage.
    #[default]
    Whole,
    /// The passes of the first of two stages.
    First,
    /// The passes of the second stage, which depend on results of the first.
    After {
        /// The [digest](Observation::digest) of the first stage's sums over the whole corpus.
        sums: String,
        /// The digest of the label policy under which the second stage ran.
        policy: String,
    },
    /// The passes of both stages of a run.
    Followed {
        /// The digest of the label policy under which the second stage ran.
        policy: String,
    },
}

impl Stage {
    /// Whether the observation contains all passes of its run.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Whole | Self::Followed { .. })
    }

    pub fn is_second_stage(&self) -> bool {
        matches!(self, Self::After { .. })
    }

    /// The digest of the label policy on which the second stage depends; `None` without a second stage.
    pub fn policy_digest(&self) -> Option<&str> {
        match self {
            Self::Whole | Self::First => None,
            Self::After { policy, .. } | Self::Followed { policy } => Some(policy),
        }
    }
}

/// The sums of all observers of one pass.
pub struct PassSums {
    pub pass: Pass,
    /// Number of encoded sentences that are in no sequence of the pass.
    pub left_out_sentences: u64,
    /// The sums of the pass's observers, in the order of their requests.
    pub sums: Vec<Box<dyn Observer>>,
}

impl Observation {
    /// Adds an observation of other sentences of the corpus. Panics if the identities or the stages differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((&self.identity, &self.stage), (&other.identity, &other.stage), "parts of one whole");
        self.tally.merge(&other.tally);
        for (pass, other) in self.passes.iter_mut().zip(&other.passes) {
            pass.left_out_sentences += other.left_out_sentences;
            pass.sums.iter_mut().zip(&other.sums).for_each(|(sums, other)| sums.merge(&**other));
        }
        self.run_info = self.run_info.take().zip(other.run_info.as_ref()).map(|(run, other)| run.merged(other));
    }

    /// Adds the passes of the second stage, as if they had run together with the first. Panics if the identities differ, or
    /// if `after` is no second stage.
    pub fn add_second_stage(&mut self, after: Self) {
        assert_eq!(self.identity, after.identity, "stages of one whole");
        let policy = after.stage.policy_digest().expect("the passes of the second stage follow").to_owned();
        self.stage = Stage::Followed { policy };
        self.passes.extend(after.passes);
        self.run_info = self.run_info.take().zip(after.run_info).map(|(run, after)| run.with_second_stage(&after));
    }

    /// SHA-256 of the sums, by which the second stage identifies the first. Fails if the sums cannot be serialised.
    pub fn digest(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for sums in self.passes.iter().flat_map(|pass| &pass.sums) {
            let bytes = sums.to_bytes()?;
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        Ok(hex(&hash.finalize()))
    }

    /// Fails if the corpus has no sentences, or all were skipped; the error counts the reasons.
    pub fn ensure_not_empty(&self) -> Result<()> {
        let (tally, corpus) = (&self.tally, &self.identity.corpus.name);
        if tally.sentences > 0 {
            return Ok(());
        }
        let Some((first, _)) = tally.skipped.first_key_value() else {
            return Err(anyhow!("corpus `{corpus}` has no sentences").with_file(corpus)).class(ErrorClass::Input);
        };
        let reasons = tally.skipped.iter().map(|(reason, count)| format!("{count} {}", reason.describe())).join(", ");
        let skipped = anyhow!("corpus `{corpus}` leaves nothing to analyse: every sentence was skipped ({reasons})");
        Err(first.with_hint(skipped.with_file(corpus))).class(ErrorClass::Input)
    }
}
