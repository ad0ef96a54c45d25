//! The label of heads that find antecedents.

use anstyle::AnsiColor;

use super::anaphors::{ALL, KINDS, OTHER_LEMMA};
use super::metrics::key;
use super::sums::WAYS;
use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::Threshold;
use crate::study::labels::{Bound, Detector, LabelStyle, Parameter, Phrase, assess};
use crate::study::metrics::explanation::Explanation;

const MARGIN: Threshold = Threshold::rule(
    "coreference_margin",
    0.1,
    "smallest accuracy above the best rule of a coreference label, as a share; that of syntactic labels, Voita et al. 2019, \
        section 5.2",
);

pub(super) const COREFERENCE: Detector = Detector {
    explanation: Explanation {
        name: "coreference:<kind>",
        measures: "The head's attention points from a mention of an entity to an earlier mention of it, more often than any rule \
            that goes by nearness, by the same lemma or by agreement: of all anaphors, or of those none of whose antecedents has the \
            same lemma.",
        formula: "coreference_gain >= {coreference_margin} of the kind all or other-lemma, in either direction; by blocks of windows, q <= {label_q} over all heads, both kinds and both directions",
        chance: "0: the accuracy less that of the best rule on the same anaphors",
        source: "Clark et al. 2019, section 4.3: head 5-4 of BERT-base is right for 65 % of the mentions with an antecedent in \
            CoNLL-2012, where the nearest mention is for 27 %, the nearest with the same head word for 52 %. The margin is \
            that of syntactic labels.",
        caveats: "Mentions are given, not found. What cue the head goes by is not told: a head that finds the same token again \
            is ruled out only as far as the rule of the same lemma does.",
    },
    thresholds: &[&MARGIN, &LABEL_Q],
    is_role: true,
    parameter: Parameter::OneOf("coreference", || [ALL, OTHER_LEMMA].map(|kind| KINDS[kind].to_owned()).to_vec()),
    phrase: Phrase::Fixed("finds the earlier mention of an entity"),
    shown: LabelStyle { code: Some("coref"), colour: AnsiColor::Green, in_controls: false },
    assess: |evidence, policy| {
        let cells = [ALL, OTHER_LEMMA].into_iter().flat_map(|kind| (0..WAYS.len()).map(move |way| (kind, way)));
        let tested = cells.filter_map(|(kind, way)| {
            let (label, key) = (format!("coreference:{}", KINDS[kind]), key(kind, way));
            let measured = evidence.metric("coreference_gain", Some(&key));
            let metric = format!("coreference_gain.{key}");
            assess(&label, &metric, measured, Bound::AtLeast, policy.rule(&MARGIN))
        });
        tested.collect()
    },
};
