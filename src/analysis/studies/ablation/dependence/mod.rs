//! Dependence of later heads on each head (METHODOLOGY, "Dependence between heads").

mod edges;
mod excess;
mod figure;
mod measure;
mod section;
mod strongest;
mod sums;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Portion};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::{Section, section};
use crate::study::show::figure::Figure;
use crate::study::show::table::Table;
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject};
use section::{Dependence, DependenceSection, LayerPair};
use sums::DependenceSums;

/// The dependence of later heads: those that look elsewhere without a head.
pub struct LaterHeads;

impl Study for LaterHeads {
    fn card(&self) -> &'static Card {
        &Card {
            name: "dependence",
            question: "Which later heads look elsewhere without each head?",
            needs: "any model of several layers and any corpus in files, read twice more: as many passes over a sample of its \
                sentences as half of the heads, and two (those of `drift`, if that runs, too)",
            by_default: false,
            settings_key: None,
        }
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { portion: Portion::Sample, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(DependenceSums::new(subject.grid))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<DependenceSums>(bytes)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &DependenceSums = observer::sums(observed[0].sums);
        let dependence = Dependence::new(sums, context);
        (Estimates::none(context.grid.count()), Box::new(DependenceSection::new(dependence)))
    }

    fn figures(&self, found: &dyn Section, _: &Policy) -> Vec<Figure> {
        figure::figures(&section::<DependenceSection>(found).dependence)
    }

    fn tables(&self, found: &dyn Section) -> Vec<Table> {
        let dependence = &section::<DependenceSection>(found).dependence;
        vec![Table::of("edges", dependence.layers.iter().flat_map(LayerPair::edges))]
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("dependence", generator.subschema_for::<Dependence>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<DependenceSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const TOTAL: Caveat = Caveat {
            id: "dependence-total",
            text: "An edge says how far a head looks elsewhere without another, through whatever lies between, not that it reads \
                what that one writes, nor what for; and it depends on what stands for the head.",
            about: About::Meaning,
        };
        let compared = section::<DependenceSection>(judged.section).dependence.tokens > 0;
        if compared { vec![&TOTAL] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests;
