//! How many heads can go: one head after the other is removed, and the loss of masked tokens is measured each time
//! (METHODOLOGY, "Pruning curve").

mod figure;
mod section;
mod sums;

use anyhow::Result;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Phases, Portion, Sequences};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::section::{Section, section};
use crate::study::show::figure::Figure;
use crate::study::show::table::Table;
use crate::study::upstream::Ranking;
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject};
use section::{Curve, Curves, PruningSection};
use sums::PruningSums;

/// How much the model loses when heads go one after the other.
pub struct Pruning;

/// So many random orders beside the others: with three one sees whether they differ.
const RANDOM_ORDERS: u64 = 3;

/// Random orders of this many heads.
fn random_orders(heads: usize) -> impl Iterator<Item = Ranking> {
    (0..RANDOM_ORDERS).map(move |seed| {
        let mut places: Vec<usize> = (0..heads).collect();
        places.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        Ranking { by: format!("random:{seed}"), places }
    })
}

impl Study for Pruning {
    fn card(&self) -> &'static Card {
        &Card {
            name: "pruning",
            question: "How many heads can go, and in which order?",
            needs: "a model with a masked-LM head or that of a discriminator, and a corpus in files, read twice more when the effects are known: for each \
                order of the heads as many passes over half of the sample as there are heads; runs the studies `effect` and \
                `gradient` as well",
            by_default: false,
            settings_key: None,
        }
    }

    fn follows(&self, _: usize) -> bool {
        true
    }

    fn builds_on(&self) -> &'static [&'static str] {
        &["effect", "gradient"]
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { sequences: Sequences::Corrupted(Phases::Asked), portion: Portion::OddSample, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        let heads = subject.grid.count();
        let orders = subject.found.rankings.iter().cloned().chain(random_orders(heads)).collect();
        observer_of(PruningSums::new(subject.grid, orders, subject.found.negligible.clone()))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<PruningSums>(bytes)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &PruningSums = observer::sums(observed[0].sums);
        let section = PruningSection { pruning: Curves::new(sums, context) };
        (Estimates::none(context.grid.count()), Box::new(section))
    }

    fn figures(&self, found: &dyn Section, _: &Policy) -> Vec<Figure> {
        figure::figures(&section::<PruningSection>(found).pruning)
    }

    fn tables(&self, found: &dyn Section) -> Vec<Table> {
        let pruning = &section::<PruningSection>(found).pruning;
        vec![Table::of("pruning", pruning.orders.iter().flat_map(Curve::steps))]
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("pruning", generator.subschema_for::<Curves>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<PruningSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const NOT_TRAINED_AGAIN: Caveat = Caveat {
            id: "pruning-not-trained-again",
            text: "Of the heads that can go by a pruning curve: nothing was trained again, and the loss is on masked words of this \
                corpus. Larger shares in the literature are for pruning that is learned or followed by fine-tuning.",
            about: About::Meaning,
        };
        let curves = &section::<PruningSection>(judged.section).pruning;
        if curves.masked_tokens > 0 { vec![&NOT_TRAINED_AGAIN] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests;
