//! Gates of all heads, fitted jointly (docs/methodology/gates.md): the starting points, and the fit from each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::stats::blocks::{Merge, merge_fields};

/// Number of starting points from which gates are fitted in each fold of blocks; several show whether all fits end in one
/// minimum.
pub const STARTING_POINTS: u64 = 5;

/// Minimum gate of a head that counts as kept: halfway between the removed head (0) and the intact head (1).
pub const MIN_KEPT_GATE: f64 = 0.5;

/// Gates fitted to the sentences of one fold, the even-numbered or the odd-numbered jackknife blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateFits {
    /// Losses with all heads and with no heads, shared by all fits of the fold; `None` before the pass, and in a shard without
    /// starting points.
    pub known: Option<FittedLoss>,
    /// Fits by the number of their starting point; each shard has some of them. Empty if removing all heads does not raise
    /// the loss.
    pub fits: BTreeMap<u64, GateFit>,
}

merge_fields!(GateFits { known, fits });

/// Losses of the intact model and of the model without heads on the sequences of a fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FittedLoss {
    /// Number of scored tokens, or of scored items of a task.
    pub units: u64,
    /// Mean loss with all gates fully open, which is the intact model; 0 if nothing is scored.
    pub loss: f64,
    /// Mean loss with all heads removed.
    pub loss_without_heads: f64,
    /// Penalty in the objective for one fully open gate, in the unit of the loss: the equivalence margin of a head's effect.
    pub band: f64,
}

/// One fit of the gates of all heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateFit {
    /// The fitted gate of each head, `[layers * heads]`; `None` for a head that the model lacks or that the pass removes.
    pub gates: Vec<Option<f64>>,
    /// The objective at the end of the fit: the loss plus the penalty for open gates.
    pub objective: f64,
    /// Mean loss at the fitted gates, without the penalty.
    pub loss: f64,
    /// Number of evaluations of the loss and its derivatives.
    pub evaluations: u64,
    /// Whether the fit reached a minimum within the limit of evaluations.
    pub converged: bool,
}

impl Merge for GateFit {
    fn merge(&mut self, other: &Self) {
        assert!(self == other, "one fit of one analysis");
    }
}

impl GateFit {
    /// Whether the gate of the head with this index (layer by layer) is at least [`MIN_KEPT_GATE`]; `None` if the head
    /// has no gate.
    pub fn keeps_head(&self, place: usize) -> Option<bool> {
        self.gates[place].map(|gate| gate >= MIN_KEPT_GATE)
    }
}

/// The gate of a head at a starting point, drawn uniformly from 0.5 to 1 by SHA-256, which other programs can reproduce.
/// All heads begin as kept, and the fit closes gates. From lower gates, heads that work together would be lost, since each
/// is worth nothing while the others are nearly closed.
pub fn starting_gate(fold: usize, start: u64, place: usize) -> f64 {
    let digest = Sha256::digest(format!("headscope/gates/{fold}/{start}/{place}"));
    let first = digest.first_chunk().expect("a digest has 32 bytes");
    MIN_KEPT_GATE + (1.0 - MIN_KEPT_GATE) * u64::from_be_bytes(*first) as f64 / 2.0_f64.powi(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_those_of_any_other_program() {
        // python -c 'import hashlib; print(0.5 + int.from_bytes(hashlib.sha256(b"headscope/gates/1/4/15").digest()[:8], "big") / 2**65)'
        assert!((starting_gate(1, 4, 15) - 0.508_678_754_022_497).abs() < 1e-15, "{}", starting_gate(1, 4, 15));
        let drawn: Vec<f64> = (0..400).map(|place| starting_gate(0, 0, place)).collect();
        let mean = drawn.iter().sum::<f64>() / 400.0;
        // Four standard errors of the mean of 400 even draws, 4 / (2 sqrt(12 * 400)).
        assert!((mean - 0.75).abs() < 0.029 && drawn.iter().all(|gate| (0.5..1.0).contains(gate)), "{mean}");
    }

    #[test]
    fn shards_have_fits_that_add_up() {
        let fit =
            |objective| GateFit { gates: vec![Some(0.5), None], objective, loss: 1.0, evaluations: 3, converged: true };
        let known = FittedLoss { units: 4, loss: 1.0, loss_without_heads: 2.0, band: 0.01 };
        let mut first = GateFits { known: Some(known), fits: BTreeMap::from([(0, fit(1.0)), (2, fit(3.0))]) };
        first.merge(&GateFits { known: None, fits: BTreeMap::from([(1, fit(2.0))]) });
        assert_eq!(first.fits.values().map(|fit| fit.objective).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert_eq!((first.known, fit(0.0).keeps_head(0), fit(0.0).keeps_head(1)), (Some(known), Some(true), None));
    }
}
