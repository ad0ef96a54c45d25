//! `headscope match --labels`: heads matched over one half of a corpus, and agreement of their labels over the other, both ways.
//!
//! Partners that were chosen over the text of the labels agree on them too well. So the sampling units of the corpus are
//! halved, heads are matched over one half, and both models are analysed over the other half as a whole corpus.

use std::fmt::{self, Write};
use std::num::NonZeroUsize;

use anyhow::{Context as _, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::distance::DistanceSums;
use crate::commands::saved::compare::outcome::{HeadAgreement, OutcomeCounts};
use crate::commands::saved::compare::{self, share};
use crate::commands::saved::sides::Side;
use crate::corpus::UnitHalf;
use crate::passes::observation::Observation;
use crate::stats::agreement::{CategoryAgreement, ShareByChance};
use crate::studies::registry;
use crate::study::show::summary::Summary;
use crate::study::show::wording::{decimal, plain_table};
use crate::system::counted::counted;

/// Analyses one of the two models over half of the corpus.
pub type Observe = Box<dyn Fn(UnitHalf) -> Result<Observation>>;

/// The two models, each as it is analysed, and the threads that work out its numbers.
pub struct LabelRuns {
    pub observe: [Observe; 2],
    pub threads: NonZeroUsize,
}

/// Agreement of labels over one half of the corpus between heads that were matched over the other.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LabelsOneWay {
    /// The sampling units over which heads were matched: `even` or `odd`.
    pub matched_over: &'static str,
    /// Their sentences.
    pub matched_sentences: u64,
    /// Sentences of the other units, over which labels are given.
    pub labelled_sentences: u64,
    /// Heads whose partner has another place.
    pub moved: usize,
    /// How many labels came to what, each head beside its partner.
    pub labels: OutcomeCounts,
    /// How many came to what, each head beside that in its place.
    pub labels_in_place: OutcomeCounts,
    /// The share of heads with the same first label as their partner.
    pub first_label: MatchedAgreement,
    /// The share of heads with the same firm labels as their partner.
    pub firm_labels: MatchedAgreement,
    /// Why nothing could be tested, in words; null where tests were possible.
    pub too_few_units: Option<String>,
}

/// Agreement of matched heads, beside that without the match.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct MatchedAgreement {
    /// Each head with its partner.
    pub matched: CategoryAgreement,
    /// Each head with that in its place.
    pub in_place: CategoryAgreement,
    /// Partners in 1,000 random orders within layers.
    pub permuted: ShareByChance,
}

/// Both ways, first that which matches over the units of even number; `halves` has the distances over either.
/// Fails if a model cannot be analysed over one of the halves.
pub fn both_ways(runs: &LabelRuns, names: [&str; 2], halves: &[DistanceSums; 2]) -> Result<Vec<LabelsOneWay>> {
    UnitHalf::BOTH.iter().map(|half| one_way(runs, names, &halves[*half as usize], *half)).collect()
}

fn one_way(runs: &LabelRuns, names: [&str; 2], distances: &DistanceSums, half: UnitHalf) -> Result<LabelsOneWay> {
    let other = half.other();
    let side = |model: usize| -> Result<Side> {
        let within = || format!("{} over the sampling units of {} number", names[model], other.name());
        let observation = (runs.observe[model])(other).with_context(within)?;
        Side::of_run(names[model], observation, registry::default_policy(), runs.threads).with_context(within)
    };
    let sides = [side(0)?, side(1)?];
    let (sides, partners) = (sides.each_ref(), distances.partners_in_grid());
    let in_place = compare::compared(sides, None, false);
    let matched = compare::compared(sides, Some((partners, 0)), false);
    let both = |of: fn(&HeadAgreement) -> CategoryAgreement, permuted: ShareByChance| MatchedAgreement {
        matched: of(&matched.agreement),
        in_place: of(&in_place.agreement),
        permuted,
    };
    let chance = matched.matched.context("heads were matched")?;
    Ok(LabelsOneWay {
        matched_over: half.name(),
        matched_sentences: distances.sentences,
        labelled_sentences: sides[0].circumstances.corpus.sentences,
        moved: chance.moved,
        labels: matched.labels_by_outcome,
        labels_in_place: in_place.labels_by_outcome,
        first_label: both(|of| of.first_label, chance.first_label),
        firm_labels: both(|of| of.firm_labels, chance.firm_labels),
        too_few_units: matched.too_few_units,
    })
}

/// A line and two rows of the table for each way.
pub fn text(out: &mut Summary, ways: &[LabelsOneWay]) -> fmt::Result {
    writeln!(out)?;
    let mut table = plain_table();
    table.set_header(["matched over", "agreement on", "partners", "in place", "partners in random order"]);
    for way in ways {
        let LabelsOneWay { matched_over, matched_sentences, labelled_sentences, labels, labels_in_place, .. } = way;
        let [read, labelled] = [matched_sentences, labelled_sentences].map(|count| counted(*count, "sentence"));
        let other = if *matched_over == UnitHalf::Even.name() { UnitHalf::Odd } else { UnitHalf::Even };
        let counts = |OutcomeCounts { kept, lost, gained, .. }: OutcomeCounts| {
            format!("{kept} kept, {lost} lost, {gained} gained")
        };
        let found = match &way.too_few_units {
            Some(units) => format!("could not tell: {units}"),
            None => format!("{}; in place {}", counts(*labels), counts(*labels_in_place)),
        };
        writeln!(
            out,
            "Matched over the {matched_over} units ({read}), labelled over the {} ones ({labelled}): {found}.",
            other.name()
        )?;
        for (name, MatchedAgreement { matched, in_place, permuted }) in
            [("first label", way.first_label), ("all firm labels", way.firm_labels)]
        {
            let [mean, low, high] =
                [permuted.mean, permuted.range95.low(), permuted.range95.high()].map(|share| decimal(100.0 * share, 0));
            let permuted = format!("{mean} % [{low}, {high}]");
            table.add_row([matched_over, name, &share(&matched), &share(&in_place), &permuted]);
        }
    }
    writeln!(out)?;
    out.table(table);
    Ok(())
}
