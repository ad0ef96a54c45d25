//! The label of heads that copy.

use anstyle::AnsiColor;

use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::Threshold;
use crate::study::labels::{Assessment, Bound, Detector, LabelStyle, Parameter, Phrase, assess};
use crate::study::metrics::explanation::Explanation;

const RANK: Threshold = Threshold::rule(
    "copies_rank",
    0.9,
    "smallest `copy_rank` of `copies`; chosen here: the three induction heads of box:causal have 0.96 to 1.00, its other heads 0.47 \
        to 0.64",
);

pub(super) const COPIES: Detector = Detector {
    explanation: Explanation {
        name: "copies",
        measures: "What the head writes raises the logit of the token that it attends to most above those of other tokens.",
        formula: "copy_rank >= {copies_rank}, firm if q <= {label_q}",
        chance: "0.5",
        source: "Copying as the second half of the definition of induction heads: Olsson et al. 2022 (arXiv:2209.11895); direct effects: \
            Elhage et al. 2021 (transformer-circuits.pub).",
        caveats: "On random tokens that come twice, and by the direct path alone: later heads may undo what it writes. It says nothing of \
            where the head looks; `induction` does.",
    },
    thresholds: &[&RANK, &LABEL_Q],
    is_role: true,
    parameter: Parameter::None,
    phrase: Phrase::Fixed("raises the logit of the token that it attends to most"),
    shown: LabelStyle { code: Some("copy"), colour: AnsiColor::Magenta, in_controls: false },
    assess: |evidence, policy| {
        let measured = evidence.metric("copy_rank", None);
        let mut assessment = assess("copies", "copy_rank", measured, Bound::AtLeast, policy.rule(&RANK));
        // Of an induction head it is the second half of the definition, and no surer than the first.
        if let Some((Assessment { label, .. }, induction)) = assessment.as_mut().zip(evidence.label("induction")) {
            label.margin = label.margin.min(induction.margin);
            label.rests_on = Some(induction.label.clone());
        }
        assessment.into_iter().collect()
    },
};
