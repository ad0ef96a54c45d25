//! Labels of attention heads that find another occurrence of a token.

use anstyle::AnsiColor;

use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::labels::{Assessment, Detector, Evidence, LabelStyle, ThresholdBound, VerbPhrase, assess};
use crate::study::metrics::explanation::Explanation;

const MIN_SCORE: Threshold = Threshold::rule(
    "repeat_score",
    0.3,
    "smallest attention to the key on random tokens, above that to other keys, of the labels for repeated tokens; chosen \
        here: of all-MiniLM-L6-v2 the two heads with such a role have 0.32 and 0.52, and the next one 0.08",
);

const SCORE_THRESHOLDS: &[&Threshold] = &[&MIN_SCORE, &LABEL_Q];

/// Assesses a label by the score of one kind of target key.
fn assess_score(label: &str, metric: &str, evidence: &Evidence<'_>, policy: &Policy) -> Vec<Assessment> {
    let measured = evidence.metric(metric, Some("score"));
    assess(label, &format!("{metric}.score"), measured, ThresholdBound::AtLeast, policy.rule(&MIN_SCORE))
        .into_iter()
        .collect()
}

pub(super) const DUPLICATE_TOKEN_DETECTOR: Detector = Detector {
    thresholds: SCORE_THRESHOLDS,
    phrase: VerbPhrase::Fixed("attends, on random tokens that come twice, to the same token"),
    style: LabelStyle::new(Some("dup"), AnsiColor::Magenta),
    assess: |evidence, policy| assess_score("duplicate-token", "repeat_same", evidence, policy),
    ..Detector::new_role(Explanation {
        name: "duplicate-token",
        measures: "The head attends from a token to the same token elsewhere, on random tokens that come twice.",
        formula: "repeat_same.score >= {repeat_score}, firm if q <= {label_q}",
        chance: "0: attention to the key less that to other keys",
        source: "Duplicate-token heads of Wang et al. 2022 (arXiv:2211.00593), there of a decoder.",
        caveats: "It goes by the identity of tokens: whether by that of their text or of their embedding it does not say.",
    })
};

pub(super) const INDUCTION_DETECTOR: Detector = Detector {
    thresholds: SCORE_THRESHOLDS,
    phrase: VerbPhrase::Fixed("attends, on random tokens that come twice, to what came after the same token"),
    style: LabelStyle::new(Some("ind"), AnsiColor::Magenta),
    assess: |evidence, policy| assess_score("induction", "repeat_next", evidence, policy),
    ..Detector::new_role(Explanation {
        name: "induction",
        measures: "The head attends from a token to what came after the same token elsewhere.",
        formula: "repeat_next.score >= {repeat_score}, firm if q <= {label_q}",
        chance: "0: attention to the key less that to other keys",
        source: "Prefix matching of Olsson et al. 2022 (arXiv:2209.11895), there of decoders.",
        caveats: "Half of their definition: that the head also raises the probability of the token that it attends to \
            is the label `copies`; the study `in-context-effect` measures what the model loses without it.",
    })
};

pub(super) const INDUCTION_MIRROR_DETECTOR: Detector = Detector {
    thresholds: SCORE_THRESHOLDS,
    phrase: VerbPhrase::Fixed("attends, on random tokens that come twice, to what came before the same token"),
    style: LabelStyle::new(Some("mir"), AnsiColor::Magenta),
    assess: |evidence, policy| assess_score("induction-mirror", "repeat_previous", evidence, policy),
    ..Detector::new_role(Explanation {
        name: "induction-mirror",
        measures: "The head attends from a token to what came before the same token elsewhere.",
        formula: "repeat_previous.score >= {repeat_score}, firm if q <= {label_q}",
        chance: "0: attention to the key less that to other keys",
        source: "The mirror of induction, which models that see both sides can have; defined here.",
        caveats: "As for induction.",
    })
};

pub(super) const MASKED_COPY_DETECTOR: Detector = Detector {
    thresholds: SCORE_THRESHOLDS,
    phrase: VerbPhrase::Fixed("attends from a mask to the token that it stands for, where that comes a second time"),
    style: LabelStyle::new(Some("msk"), AnsiColor::Magenta),
    assess: |evidence, policy| assess_score("masked-copy", "repeat_masked", evidence, policy),
    ..Detector::new_role(Explanation {
        name: "masked-copy",
        measures: "The head attends from a mask to the token that it stands for, where the text has it a second time.",
        formula: "repeat_masked.score >= {repeat_score}, firm if q <= {label_q}",
        chance: "0: attention to the key less that to other keys",
        source: "Defined here.",
        caveats: "Only this label of the four needs context: the mask itself says nothing of the token.",
    })
};
