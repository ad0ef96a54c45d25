//! Similarity of heads: where they look, and what they write (METHODOLOGY, "Which heads are the same").

mod batches;
mod clusters;
mod compare;
mod disagreement;
mod measure;
mod pairs;
mod report;
mod section;
pub mod show;
mod sums;
mod weights;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::{Section, section};
use crate::study::show::figure::Figure;
use crate::study::upstream::UpstreamResults;
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject};
use report::Likeness;
use section::LikenessSection;
use sums::LikenessSums;

/// The similarity of heads in where they look and what they write.
pub struct HeadLikeness;

impl Study for HeadLikeness {
    fn card(&self) -> &'static Card {
        &Card {
            name: "likeness",
            question: "Which heads are the same?",
            needs: "any corpus; where `effect` or `drift` run, too, what happens without the heads of a cluster is measured when \
                they are over",
            by_default: false,
            settings_key: None,
        }
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(LikenessSums::new(subject.grid))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<LikenessSums>(bytes)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &LikenessSums = observer::sums(observed[0].sums);
        let likeness = Likeness::new(sums, context);
        (Estimates::none(context.grid.count()), Box::new(LikenessSection { likeness }))
    }

    fn found(&self, observed: &[Observed<'_>], judged: &Judged<'_>) -> UpstreamResults {
        let sums: &LikenessSums = observer::sums(observed[0].sums);
        let clusters = section::<LikenessSection>(judged.section).likeness.kept(sums.grid());
        UpstreamResults { clusters, ..UpstreamResults::default() }
    }

    fn figures(&self, found: &dyn Section, _: &Policy) -> Vec<Figure> {
        let found = section::<LikenessSection>(found);
        found.grid().map_or_else(Vec::new, |grid| show::figure::figures(&found.likeness, grid))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("likeness", generator.subschema_for::<Likeness>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<LikenessSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const NOT_FUNCTION: Caveat = Caveat {
            id: "likeness-not-function",
            text: "Heads that look alike need not do the same: what they read out and who reads it may differ. The CKA of what \
                they write is over random tokens of nearby sentences, and large components decide it.",
            about: About::Meaning,
        };
        const HINTS: Caveat = Caveat {
            id: "composition-hints",
            text: "Composition scores are of weights alone: layer normalisations and feed-forward blocks lie between heads, so \
                they are hints, not findings.",
            about: About::Meaning,
        };
        let likeness = &section::<LikenessSection>(judged.section).likeness;
        let compared = likeness.tokens > 0;
        [(compared, &NOT_FUNCTION), (likeness.weights.is_some(), &HINTS)]
            .into_iter()
            .filter_map(|(applies, caveat)| applies.then_some(caveat))
            .collect()
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
