//! The thresholds of labels of links.

use crate::study::labels::policy::{Range, Threshold, Value};

/// How far above every rule of place a label of links is.
pub(super) const MARGIN: Threshold = Threshold::rule(
    "link_margin",
    0.1,
    "smallest accuracy above every rule of place of a label of links, as a share; that of syntactic labels, Voita et al. 2019, \
        section 5.2",
);

/// How far above rules a label of links is that is beyond them.
pub(super) const BEYOND_MARGIN: Threshold = Threshold {
    name: "link_beyond_margin",
    range: Range::Share,
    default: Value::Share(0.02),
    about: "smallest accuracy above every rule of a label of links that is beyond them, as a share; that of syntactic labels",
};
