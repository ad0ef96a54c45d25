//! The metrics of derivatives: one table.

use super::sums::Derivatives;
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, Keys, Metric};

pub fn values(sums: &Derivatives, head: Option<usize>) -> Vec<Fraction> {
    METRICS.iter().map(|metric| (metric.value)(sums, head)).collect()
}

/// A metric of the derivatives of a block, or of all blocks, and of the place of a head, `None` for chance.
pub type GradientMetric = Metric<fn(&Derivatives, Option<usize>) -> Fraction>;

pub const METRICS: &[GradientMetric] = &[
    Metric {
        explanation: Explanation {
            name: "gradient_importance",
            measures: "How much the loss of a sentence's masked tokens depends on the head, in either direction.",
            formula: "gradient_importance = mean over sentences s with masks of |d L_s / d xi| at xi = 1, in nats; L_s the mean of \
                -ln p(t) over the masked tokens t of s, the head writing r + xi (z - r)",
            chance: "0: nothing of the head is read; whatever is read has more, for sizes do not cancel out",
            source: "Michel et al. 2019 (arXiv:1905.10650), section 4.1: the sensitivity I_h, there of a task's loss, towards \
                zero, and normalised by layer, which it is not here.",
            caveats: "It has no sign: a head may be in the way of as many sentences as it helps. A head of which only the whole can be \
                missed has little: the loss is flat where the model is sure. What the gate goes towards: `settings.ablation`.",
        },
        keys: Keys::Single,
        value: |sums, head| {
            let size = head.map_or(0.0, |head| sums.sizes[head].value());
            Fraction::new(size, sums.sequences as f64).over(sums.sequences, sums.sentences)
        },
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "first_order_effect",
            measures: "How much the loss of masked tokens would rise without the head, if it went on as it begins.",
            formula: "first_order_effect = - sum over sentences s of d (sum of -ln p(t) over the masked tokens t of s) / d xi at xi = 1 \
                / masked tokens, in nats; the head writing r + xi (z - r)",
            chance: "0: a small part of the head is not missed",
            source: "The first term of the Taylor series of the loss, as Molchanov et al. 2017 (arXiv:1611.06440), section 2.2, remove \
                feature maps by; the sign kept.",
            caveats: "It is right for a small part of the head, and removal takes all of it: where the loss bends, the two differ, \
                also in sign.",
        },
        keys: Keys::Single,
        value: |sums, head| {
            // Of 0 there is no negative.
            let fall = head.map_or(0.0, |head| 0.0 - sums.signed[head].value());
            Fraction::new(fall, sums.tokens as f64).over(sums.tokens, sums.sentences)
        },
        chance: None,
    },
    Metric {
        explanation: Explanation {
            name: "integrated_gradient",
            measures: "How much of the loss of masked tokens goes with the head while all heads come in together.",
            formula: "integrated_gradient = mean over points k of (- sum over sentences s of d (sum of -ln p(t) over the masked tokens t \
                of s) / d xi_h at xi = (k - 1/2) / K of all heads / masked tokens), k = 1 ... K, in nats; head h writing r + xi_h (z - r)",
            chance: "0: nothing of the head is read",
            source: "Sundararajan et al. 2017 (arXiv:1703.01365), section 3, there over pixels and words, here over the heads' gates.",
            caveats: "Measured with `--gradient-steps K`. Over all heads it sums up to the loss without any head less the loss with all of \
                them; what the steps miss of that is in the report. It divides what heads do together by one path of many, and is no \
                effect of removal.",
        },
        keys: Keys::Single,
        value: |sums, head| {
            let fall = head.map_or(0.0, |head| 0.0 - sums.along_path[head].value());
            let tokens = sums.tokens_on_path();
            Fraction::new(fall, tokens as f64).over(tokens, if tokens > 0 { sums.sentences } else { 0 })
        },
        chance: None,
    },
];
