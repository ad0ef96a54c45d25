//! The label of heads that attend to everything a little: `broad`.

use anstyle::AnsiColor;

use crate::study::labels::policy::Threshold;
use crate::study::labels::{Bound, Detector, LabelStyle, Parameter, Phrase, assess};
use crate::study::metrics::explanation::Explanation;

const ENTROPY_RATIO: Threshold = Threshold::rule(
    "entropy_ratio",
    0.8,
    "`entropy_ratio` above which a head is `broad`; 3.8 nats in the notebook of Clark et al. 2019, of ln 128",
);

pub(super) const BROAD: Detector = Detector {
    explanation: Explanation {
        name: "broad",
        measures: "The head spreads its attention over the whole sequence.",
        formula: "entropy_ratio > {entropy_ratio}",
        chance: "1: uniform attention. A randomly initialised head is close to it too.",
        source: "Clark et al. 2019 take 3.8 nats on sequences of 128 tokens: 3.8 / ln 128 = 0.78.",
        caveats: "This is the one label that a head without any preference has: \
            it says that no preference was found, not that broadness was learned.",
    },
    thresholds: &[&ENTROPY_RATIO],
    is_role: false,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("spreads its attention over the whole sequence"),
    shown: LabelStyle { code: None, colour: AnsiColor::Magenta, in_controls: false },
    assess: |evidence, policy| {
        let measured = evidence.metric("entropy_ratio", None);
        assess("broad", "entropy_ratio", measured, Bound::Above, policy.rule(&ENTROPY_RATIO)).into_iter().collect()
    },
};
