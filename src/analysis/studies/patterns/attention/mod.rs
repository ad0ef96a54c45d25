//! Attention by tokens: to offsets, to special tokens and punctuation, and how broadly (METHODOLOGY, "Token level").

mod aims;
mod broad;
mod delimiter;
mod metrics;
mod positional;
pub mod sums;
pub mod tokens;

use std::ops::RangeInclusive;

use anyhow::Result;

use crate::passes::observer::{self, Observer, observer_of, sums};
use crate::study::aim::Aim;
use crate::study::labels::{Detector, Label};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Keys;
use crate::study::section::{Nothing, Section};
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject, columns};
use metrics::{AttentionInputs, METRICS};
use sums::AttentionSums;

/// Where each head attends, by the place and the kind of tokens.
pub struct Attention;

impl Study for Attention {
    fn card(&self) -> &'static Card {
        &Card {
            name: "attention",
            question: "Where does each head attend: to an offset, to special tokens or punctuation, or broadly?",
            needs: "any corpus",
            by_default: true,
            settings_key: None,
        }
    }

    fn in_unlisted_reports(&self) -> bool {
        true
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(AttentionSums::new(subject.grid))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<AttentionSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    /// Shares of mass are not bounded by 1: a row of f32 weights sums to 1 but for rounding.
    fn range(&self, metric: &str) -> RangeInclusive<f64> {
        0.0..=if metric == "offset_argmax" { 1.0 } else { f64::INFINITY }
    }

    fn detectors(&self) -> &'static [Detector] {
        const {
            &[
                positional::PREVIOUS_TOKEN,
                positional::NEXT_TOKEN,
                positional::OFFSET,
                positional::SELF,
                positional::LOCAL,
                delimiter::SEPARATOR,
                delimiter::FIRST_SPECIAL,
                delimiter::PUNCTUATION,
                broad::BROAD,
            ]
        }
    }

    fn aim(&self, label: &Label) -> Option<(Aim, Option<String>)> {
        aims::of(&label.label).map(|(aim, metric)| (aim, Some(metric)))
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &AttentionSums = sums(observed[0].sums);
        let blocks = sums.blocks().with_total();
        let of_head = |number: Option<usize>, place: usize| {
            let block = blocks.at(number);
            AttentionInputs::new(&block.exposure, &blocks.total().exposure, &block.heads[place]).values()
        };
        let of_chance = |number: Option<usize>| {
            let block = blocks.at(number);
            AttentionInputs::new(&block.exposure, &blocks.total().exposure, &block.uniform).chances()
        };
        (Estimates::new(&columns(self), context, of_head, of_chance), Box::new(Nothing))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const NO_OP: Caveat = Caveat {
            id: "no-op",
            text: "Attention to special tokens may be a way of doing nothing \
                (Clark et al. 2019; Kobayashi et al. 2020).",
            about: About::Meaning,
        };
        let to_special = judged.has_label(|label| delimiter::TO_SPECIAL.contains(&label));
        if to_special { vec![&NO_OP] } else { Vec::new() }
    }
}
