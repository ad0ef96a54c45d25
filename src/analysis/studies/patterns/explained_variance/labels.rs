//! The label of heads that look at fixed places.

use anstyle::AnsiColor;

use super::metrics::{PLACE as BY_PLACE, PLACE_OVER_OFFSETS};
use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::Threshold;
use crate::study::labels::{Detector, LabelStyle, Parameter, Phrase, assess_all};
use crate::study::metrics::explanation::Explanation;

const SHARE: Threshold =
    Threshold::rule("place_share", 0.5, "smallest `explained_by_place` of `place`: most of what varies within rows");

const OVER_OFFSETS: Threshold = Threshold::rule(
    "place_over_offsets",
    0.1,
    "smallest `explained_by_place_over_offsets` of `place`: a head that goes by offsets has 0",
);

pub(super) const PLACE: Detector = Detector {
    explanation: Explanation {
        name: "place",
        measures: "In sequences of like length the head attends to the same places, whatever tokens stand there.",
        formula: "explained_by_place >= {place_share} and explained_by_place_over_offsets >= {place_over_offsets}, by blocks, the larger \
            p, q <= {label_q}",
        chance: "0: attention that depends on the tokens alone; offsets are subtracted",
        source: "Defined here.",
        caveats: "In a family of sequences with like tokens at like places, a head that goes by tokens has it, too.",
    },
    thresholds: &[&SHARE, &OVER_OFFSETS, &LABEL_Q],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("attends to fixed places, whatever tokens stand there"),
    shown: LabelStyle { code: Some("place"), colour: AnsiColor::Cyan, in_controls: false },
    assess: |evidence, policy| {
        let scores = [(BY_PLACE, &SHARE), (PLACE_OVER_OFFSETS, &OVER_OFFSETS)];
        let scores = scores.map(|(name, least)| (name.to_owned(), evidence.metric(name, None), policy.rule(least)));
        assess_all("place", scores).into_iter().collect()
    },
};
