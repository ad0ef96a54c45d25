//! The label of heads that attend to everything a little: `broad`.

use super::{Bound, Detector, Evidence, Explanation, assess};

pub(super) const BROAD: Detector = Detector {
    explanation: Explanation {
        name: "broad",
        measures: "The head spreads its attention over the whole sequence.",
        formula: "entropy_ratio > 0.8",
        chance: "1: uniform attention. A randomly initialised head is close to it too.",
        threshold: "entropy_ratio = 0.8",
        source: "Clark et al. 2019 take 3.8 nats on sequences of 128 tokens: 3.8 / ln 128 = 0.78.",
        caveats: "This is the one label that a head without any preference has: \
            it says that no preference was found, not that broadness was learned.",
    },
    assess: |Evidence { metrics, .. }, policy| {
        assess("broad", "entropy_ratio", metrics.entropy_ratio, Bound::Above, policy.entropy_ratio)
            .into_iter()
            .collect()
    },
};
