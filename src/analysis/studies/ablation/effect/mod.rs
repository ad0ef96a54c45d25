//! What each head is worth: the loss of masked tokens without it (METHODOLOGY, "What removal does").

mod figure;
mod metrics;
mod section;
mod sums;

use anyhow::Result;
use schemars::{Schema, SchemaGenerator};

use crate::passes::observer::{self, Observer, observer_of};
use crate::passes::pass::{Pass, Phases, Portion, Sequences};
use crate::study::labels::policy::Policy;
use crate::study::metrics::by_block::ByBlock;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric;
use crate::study::metrics::metric::{Fraction, Keys};
use crate::study::section::{Section, section};
use crate::study::show::figure::Figure;
use crate::study::show::table::Table;
use crate::study::upstream::{Ranking, UpstreamResults};
use crate::study::{About, Card, Caveat, Judged, Observed, Study, Subject, columns};
use metrics::{METRICS, effect, values};
use section::{EffectSection, Effects};
use sums::{EffectSums, TokenGroup};

/// What the model loses without each head.
pub struct Effect;

impl Study for Effect {
    fn card(&self) -> &'static Card {
        &Card {
            name: "effect",
            question: "What does the model lose without each head?",
            needs: "a model with a masked-LM head or that of a discriminator, and any corpus in files, read twice more: as many passes over a sample of its \
                sentences as half of the heads, and two",
            by_default: false,
            settings_key: None,
        }
    }

    fn passes(&self) -> Vec<Pass> {
        vec![Pass { sequences: Sequences::Corrupted(Phases::Asked), portion: Portion::Sample, ..Pass::PLAIN }]
    }

    fn observer(&self, _: usize, subject: &Subject<'_>) -> Box<dyn Observer> {
        observer_of(EffectSums::new(subject.grid))
    }

    fn restore(&self, _: usize, bytes: &[u8]) -> Result<Box<dyn Observer>> {
        observer::restored::<EffectSums>(bytes)
    }

    fn metrics(&self) -> Vec<(&'static Explanation, Keys)> {
        metric::listed(METRICS)
    }

    fn measure(&self, observed: &[Observed<'_>], context: &EstimationContext) -> (Estimates, Box<dyn Section>) {
        let sums: &EffectSums = observer::sums(observed[0].sums);
        let blocks = sums.blocks().with_total();
        let of_head = |number: Option<usize>, place: usize| {
            let cells = values(blocks.at(number), Some(place));
            if sums.measures(place) { cells } else { cells.iter().map(Fraction::unknown).collect() }
        };
        let of_chance = |number: Option<usize>| values(blocks.at(number), None);
        let by_block = ByBlock::new(
            context.grid.count(),
            |head, block| effect(blocks.at(Some(block)), Some(head), &TokenGroup::All).numerator(),
            |block| effect(blocks.at(Some(block)), None, &TokenGroup::All).denominator(),
        );
        let mut estimates = Estimates::new(&columns(self), context, of_head, of_chance);
        if sums.measures_all() {
            estimates = estimates.with_blocks("loss_effect", by_block);
        }
        let effect = Effects::new(sums, observed[0].left_out, &estimates, context);
        (estimates, Box::new(EffectSection { effect }))
    }

    fn found(&self, observed: &[Observed<'_>], judged: &Judged<'_>) -> UpstreamResults {
        let sums: &EffectSums = observer::sums(observed[0].sums);
        let even = &sums.blocks().folds()[0];
        let of_head = |head| effect(even, Some(head), &TokenGroup::All).value();
        let scores: Option<Vec<f64>> =
            (0..sums.heads()).map(|head| of_head(head).filter(|_| sums.measures(head))).collect();
        let rankings = scores.map(|scores| Ranking::rising("effect", &scores)).into_iter().collect();
        UpstreamResults {
            rankings,
            negligible: section::<EffectSection>(judged.section).effect.negligible(),
            ..UpstreamResults::default()
        }
    }

    fn figures(&self, found: &dyn Section, _: &Policy) -> Vec<Figure> {
        figure::figures(&section::<EffectSection>(found).effect)
    }

    fn tables(&self, found: &dyn Section) -> Vec<Table> {
        let Effects { heads, relations, .. } = &section::<EffectSection>(found).effect;
        let by_relation = relations.iter().flat_map(|relation| relation.of_heads(heads));
        vec![Table::of("effects", heads), Table::of("effects_by_relation", by_relation)]
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        vec![("effect", generator.subschema_for::<Effects>())]
    }

    fn read(&self, report: &str) -> serde_json::Result<Box<dyn Section>> {
        Ok(Box::new(serde_json::from_str::<EffectSection>(report)?))
    }

    fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        const NO_ROLE: Caveat = Caveat {
            id: "effect-no-role",
            text: "An effect says that the model misses a head, not what for; other heads may compensate, so that of several \
                negligible heads not all can go; and it depends on what stands for the head.",
            about: About::Meaning,
        };
        let removed = section::<EffectSection>(judged.section).effect.masked_tokens > 0;
        if removed { vec![&NO_ROLE] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests;
