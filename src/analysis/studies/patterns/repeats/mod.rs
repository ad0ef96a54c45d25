//! Attention to an earlier or later occurrence of the same tokens, on random tokens that come twice (METHODOLOGY,
//! "Repeats").

mod copying;
mod labels;
mod metrics;
mod sums;

use anyhow::Result;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Sequences};
use crate::sequences::derived::repeats::Repeats;
use crate::study::labels::Detector;
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::Keys;
use crate::study::section::{Section, section};
use crate::study::show::summary::Summary;
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject, columns};
use crate::system::counted::counted;
use metrics::{METRICS, RepeatInputs};
use sums::RepeatSums;

/// Which heads find the same tokens again.
pub struct RepeatedTokens;

/// The two passes: the copies as they are, and with one token of the second masked.
const PASSES: [Repeats; 2] = [Repeats { masked: false }, Repeats { masked: true }];

impl Study for RepeatedTokens {
    fn card(&self) -> &'static Card {
        &Card {
            name: "repeats",
            question: "Which heads find the same token again, what came after or before it, or what a mask stands for?",
            needs: "no corpus: 64 sequences of random tokens of the vocabulary, and 512 with a mask, about 31,000 tokens",
            by_default: false,
            settings_key: None,
        }
    }

    fn passes(&self) -> Vec<Pass> {
        PASSES.map(|repeats| Pass { sequences: Sequences::Repeats(repeats), ..Pass::PLAIN }).to_vec()
    }

    fn observer(&self, place: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        let sums = RepeatSums::new(subject.grid);
        // The weights are the same in both passes.
        observer_of(if PASSES[place].masked { sums } else { sums.weighing() })
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<RepeatSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn detectors(&self) -> &'static [Detector] {
        const { &[labels::DUPLICATE_TOKEN, labels::INDUCTION, labels::INDUCTION_MIRROR, labels::MASKED_COPY] }
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let both = RepeatSums::both(observed.iter().map(|observed| observer::sums::<RepeatSums>(observed.sums)));
        let blocks = both.blocks().with_total();
        let of_head = |number: Option<usize>, place: usize| {
            let block = blocks.at(number);
            let seen = RepeatInputs::new(&block.exposure, &block.heads[place]);
            // Of weights, so that no block has a part of it.
            match number {
                None => seen.with_copying(both.copying(place)).values(),
                Some(_) => seen.values(),
            }
        };
        let of_chance = |number: Option<usize>| RepeatInputs::chances(&blocks.at(number).exposure, number.is_none());
        let [plain, masked] = blocks.total().exposure.sequences;
        let section = RepeatsSection { repeats: Made { plain, masked } };
        (Estimates::new(&columns(self), context, of_head, of_chance), Box::new(section))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("repeats", generator.subschema_for::<Made>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<RepeatsSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const IDENTITY: Caveat = Caveat {
            id: "repeats-identity",
            text: "Random tokens that come twice test whether a head finds the same token; \
                only with the token masked does it take the context to find it.",
            about: About::Meaning,
        };
        let made = section::<RepeatsSection>(judged.section).repeats.plain > 0;
        if made { vec![&IDENTITY] } else { Vec::new() }
    }
}

/// The section `repeats` of the report.
#[derive(Deserialize)]
struct RepeatsSection {
    repeats: Made,
}

/// Sequences of random tokens that were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Made {
    /// Sequences whose tokens come twice; 0 where the vocabulary has fewer than 40 words or the model too few positions.
    plain: u64,
    /// The same with one token of the second copy masked; 0 also where there is no mask.
    masked: u64,
}

impl Section for RepeatsSection {
    fn entries(&self) -> Vec<(&'static str, &dyn erased_serde::Serialize)> {
        vec![("repeats", &self.repeats)]
    }

    fn summary(&self, _: &Policy) -> Summary {
        let Made { plain, masked } = self.repeats;
        match (plain, masked) {
            (0, _) => {
                "No sequences of random tokens: the vocabulary has too few words, or the model too few positions.\n"
                    .into()
            }
            (_, 0) => format!(
                "Random tokens that come twice: {}; none with a mask, for there is no mask token.\n",
                counted(plain, "sequence")
            )
            .into(),
            _ => format!(
                "Random tokens that come twice: {}, and {masked} with a mask in the second copy.\n",
                counted(plain, "sequence")
            )
            .into(),
        }
    }
}

#[cfg(test)]
mod tests;
