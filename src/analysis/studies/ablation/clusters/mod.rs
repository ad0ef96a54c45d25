//! Ablation of clusters of heads that look alike, and of all heads of a cluster but one (METHODOLOGY, "Removal of a
//! cluster").

mod section;
mod sets;
mod sums;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Phases, Portion, Sequences};
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::{Section, section};
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject};
use section::{DriftSection, Drifts, EffectSection, Effects};
use sums::{DriftSums, EffectSums};

/// The effect of removing clusters.
pub struct ClusterEffect;

impl Study for ClusterEffect {
    fn card(&self) -> &'static Card {
        &Card {
            name: "cluster-effect",
            question: "What does the model lose without heads that look alike, and without all but one of them?",
            needs: "as `effect`, when `likeness` is over: for each cluster of k heads 2k + 1 passes over the sample; runs wherever \
                these two do, over all of a corpus at once",
            by_default: false,
            settings_key: None,
        }
    }

    fn follows(&self, _: usize) -> bool {
        true
    }

    fn builds_on(&self) -> &'static [&'static str] {
        &["effect", "likeness"]
    }

    fn joins(&self) -> bool {
        true
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { sequences: Sequences::Corrupted(Phases::Asked), portion: Portion::Sample, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(EffectSums::new(subject.grid, subject.found.clusters.clone()))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<EffectSums>(bytes)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &EffectSums = observer::sums(observed[0].sums);
        let section = EffectSection { cluster_effect: Effects::new(sums, context) };
        (Estimates::none(context.grid.count()), Box::new(section))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("cluster_effect", generator.subschema_for::<Effects>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<EffectSection>(report)?))
    }
}

/// The drift without clusters.
pub struct ClusterDrift;

impl Study for ClusterDrift {
    fn card(&self) -> &'static Card {
        &Card {
            name: "cluster-drift",
            question: "How far does the output move without heads that look alike, and without all but one of them?",
            needs: "as `drift`, when `likeness` is over: for each cluster of k heads 2k + 1 passes over the sample; runs wherever \
                these two do, over all of a corpus at once",
            by_default: false,
            settings_key: None,
        }
    }

    fn follows(&self, _: usize) -> bool {
        true
    }

    fn builds_on(&self) -> &'static [&'static str] {
        &["drift", "likeness"]
    }

    fn joins(&self) -> bool {
        true
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { portion: Portion::Sample, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(DriftSums::new(subject.grid, subject.found.clusters.clone()))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<DriftSums>(bytes)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &DriftSums = observer::sums(observed[0].sums);
        let section = DriftSection { cluster_drift: Drifts::new(sums, context) };
        (Estimates::none(context.grid.count()), Box::new(section))
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("cluster_drift", generator.subschema_for::<Drifts>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<DriftSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const GEOMETRY: Caveat = Caveat {
            id: "cluster-drift-geometry",
            text: "A drift grows with the square of what is missing: heads that move the output the same way move it more together \
                than one by one, whether or not one of them would do.",
            about: About::Meaning,
        };
        let moved = !section::<DriftSection>(judged.section).cluster_drift.clusters.is_empty();
        if moved { vec![&GEOMETRY] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests;
