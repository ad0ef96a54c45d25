//! The thresholds of how a head chooses.

use super::rebuilt::{POSITION, SPECIAL, TOKEN, VARIANTS};
use crate::study::labels::policy::{Policy, Threshold};

/// The least share of a label of how a head chooses.
pub const REBUILT: Threshold = Threshold::rule(
    "chooses_rebuilt",
    0.9,
    "smallest `rebuilt` of a label of how a head chooses: what is left is a tenth of the distance from even attention",
);

/// How far position or token is above special tokens.
pub const ABOVE_SPECIAL: Threshold = Threshold::rule(
    "chooses_over_special",
    0.1,
    "smallest `rebuilt_over_special` of `chooses:position` and `chooses:token`: as much as `chooses_rebuilt` leaves open",
);

/// Whether no label can stand for a head by these shares: what it goes by is then said by its numbers alone.
pub fn is_unlabelled(shares: [Option<f64>; VARIANTS.len()], policy: &Policy) -> bool {
    let reaches =
        |variant: usize| shares[variant].zip(policy.rule(&REBUILT)).is_some_and(|(share, least)| share >= least);
    ![SPECIAL, POSITION, TOKEN].into_iter().any(reaches)
}
