//! The policy: every threshold of every label, in one table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The thresholds of all labels: the one place where they are set. Printed in every report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Smallest `offset_argmax` of a positional label (Voita et al. 2019, section 5.1: 90 %).
    pub offset_argmax: f64,
    /// `offset_mass` above which a head has a positional label (Clark et al. 2019, released notebook: 0.5).
    pub offset_mass: f64,
    /// `offset_mass["0"]` above which a head is `self`.
    pub self_mass: f64,
    /// `window_mass` above which a head is `local`.
    pub window_mass: f64,
    /// `separator_mass` above which a head is `separator` (Clark et al. 2019, released notebook: 0.6).
    pub separator_mass: f64,
    /// `first_special_mass` above which a head is `first-special` (Clark et al. 2019, released notebook: 0.6).
    pub first_special_mass: f64,
    /// `punctuation_mass` above which a head is `punctuation` (Clark et al. 2019, released notebook: 0.6).
    pub punctuation_mass: f64,
    /// `entropy_ratio` above which a head is `broad` (3.8 nats in the notebook of Clark et al. 2019, of ln 128).
    pub entropy_ratio: f64,
    /// Smallest accuracy above the offset baseline of a syntactic label, as a share
    /// (Voita et al. 2019, section 5.2: 10 %, taken as percentage points).
    pub syntactic_margin: f64,
    /// Fewest scored words of a syntactic label. Relations with fewer are not tested.
    pub syntactic_min_count: u64,
    /// Largest q-value of a syntactic label: the rate of false discoveries among all that are significant.
    pub syntactic_q: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            offset_argmax: 0.9,
            offset_mass: 0.5,
            self_mass: 0.5,
            window_mass: 0.5,
            separator_mass: 0.6,
            first_special_mass: 0.6,
            punctuation_mass: 0.6,
            entropy_ratio: 0.8,
            syntactic_margin: 0.1,
            syntactic_min_count: 100,
            syntactic_q: 0.05,
        }
    }
}
