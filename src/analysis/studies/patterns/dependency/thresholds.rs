//! The thresholds of syntactic labels.

use crate::study::labels::policy::{Range, Threshold, Value};

/// How far above the offset baseline a syntactic label is.
pub(super) const MARGIN: Threshold = Threshold {
    name: "syntactic_margin",
    range: Range::Share,
    default: Value::Share(0.1),
    about: "smallest accuracy above the offset baseline of a syntactic label, as a share; Voita et al. 2019, section \
        5.2: 10 %, taken as percentage points",
};

/// Fewest scored words of a syntactic label.
pub(super) const MIN_COUNT: Threshold = Threshold {
    name: "syntactic_min_count",
    range: Range::Count("words"),
    default: Value::Count(100),
    about: "fewest scored words of a syntactic label; relations with fewer are not tested",
};

/// How much better a head is on a relation than on other arcs.
pub(super) const SPECIFIC_MARGIN: Threshold = Threshold {
    name: "syntactic_specific_margin",
    range: Range::Share,
    default: Value::Share(0.05),
    about: "smallest accuracy on a relation above that on the other arcs of the same sentences of a syntactic label that is \
        beyond other arcs, as a share; with names of relations permuted within sentences the difference is 0 in the mean",
};

/// How far above both baselines a syntactic label is that is beyond word classes.
pub(super) const BEYOND_MARGIN: Threshold = Threshold {
    name: "syntactic_beyond_margin",
    range: Range::Share,
    default: Value::Share(0.02),
    about: "smallest accuracy above the better of the offset and the tag baseline of a syntactic label that is \
        beyond word classes, as a share; two percentage points, so that an edge too small to matter is none",
};
