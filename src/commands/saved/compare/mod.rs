//! `headscope compare`: are the labels of heads stable between two analyses?
//!
//! Read both sides, assess every head on both, say of each label what became of it, count, write.

mod fates;
pub mod outcome;
#[cfg(test)]
mod simulation;
mod tables;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, anyhow};

use super::sides::matching::HeadMatching;
use super::sides::{self, Side, SidesOptions, described, standing};
use crate::commands::reporting::{self, OutcomeOutputs};
use crate::export::summary::Detail;
use crate::export::tables::csv;
use crate::export::{Writer, json};
use crate::stats::agreement::{CategoryAgreement, ShareByChance};
use crate::studies::registry;
use crate::system::errors::{Class, Facts};
use crate::system::terminal;
pub use outcome::FailOn;
use outcome::{
    CompareOutcome, FamilyComparison, HeadAgreement, HeadComparison, LabelComparison, MatchedHeads, OutcomeCounts,
    SCHEMA_VERSION, UntoldCounts,
};
pub use tables::ComparedTable;
pub use text::{firm_in_words, share};

#[derive(Clone, Debug)]
pub struct CompareOptions {
    pub sides: SidesOptions,
    pub pairing: Pairing,
    pub fail_on: Vec<FailOn>,
    pub outputs: OutcomeOutputs,
    pub table: ComparedTable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Nothing is said: by their places.
    Unknown,
    /// One model was trained on from the other: by their places.
    OneLineage,
    Matched(PathBuf),
}

/// Compares the labels of two analyses and prints what became of them; whether nothing was found that is to fail.
/// Fails if either cannot be read, the models have other heads, an output cannot be written, or a loss of labels is to fail and no
/// label could be tested.
pub fn compare(options: &CompareOptions) -> Result<bool> {
    let outputs = options.outputs.open()?;
    let outcome = outcome(&options.sides, &options.pairing)?;
    let render = |writer| match writer {
        Writer::Json(form) => json::render(&outcome, form),
        Writer::Csv => csv::table(&options.table.of(&outcome)),
        Writer::Html => tables::page(&outcome),
    };
    let text = |detail, _: &[_]| text::render(&outcome, detail == Detail::Full).fit(terminal::width());
    reporting::write_each(outputs, render, text)?;
    if options.fail_on.iter().any(|finding| finding.is_met(&outcome)) {
        return Ok(false);
    }
    let asks = options.fail_on.iter().any(|finding| finding.is_of_lost());
    match outcome.why_none_tested().filter(|_| asks) {
        Some(why) => Err(anyhow!("--fail-on: {why}").of_option("fail-on").hint("analyse more text, by one command"))
            .class(Class::Input),
        None => Ok(true),
    }
}

/// The comparison of two analyses.
/// Fails if either cannot be read, or the models have other heads.
pub fn outcome(sides: &SidesOptions, pairing: &Pairing) -> Result<CompareOutcome> {
    let [a, b] = sides::read(sides).class(Class::Input)?;
    [&a, &b].into_iter().try_for_each(Side::ensure_labelled).class(Class::Input)?;
    let matching = match pairing {
        Pairing::Matched(file) => {
            let matching = HeadMatching::read(file).class(Class::Input)?;
            let partners = matching.partners([&a, &b]).cannot("use the matched heads of", file.display());
            Some((partners.class(Class::Input)?, matching.halves_agree))
        }
        Pairing::Unknown | Pairing::OneLineage => None,
    };
    Ok(compared([&a, &b], matching, *pairing == Pairing::Unknown))
}

/// The comparison of two sides with the same heads: by place, or each head of the first with its partner in the second,
/// `[layers * heads]`, beside how many partners both halves of a text gave. `is_unknown`: nothing is said of how heads pair.
pub fn compared([a, b]: [&Side; 2], matching: Option<(Vec<usize>, usize)>, is_unknown: bool) -> CompareOutcome {
    let grid = a.circumstances.model.grid();
    let places: Vec<usize> = (0..grid.count()).collect();
    let partners = matching.as_ref().map_or(&places, |(partners, _)| partners);
    let heads = fates::of_heads(a, b, partners);
    let idle = standing::one_sided(a, b, partners);
    let by_choice = || heads.iter().filter_map(|head| head.choice.as_ref());
    let with_choices = by_choice().next().is_some();
    let choice_of_all = heads.iter().map(|head| head.choice.as_ref().map_or(outcome::Fate::None, |of| of.outcome));
    let heads_by_outcome = OutcomeCounts::of(heads.iter().map(|head| head.outcome));
    let choices_by_outcome = with_choices.then(|| OutcomeCounts::of(choice_of_all));
    CompareOutcome {
        schema_version: SCHEMA_VERSION,
        corpora: a.other_corpus(b),
        lineage: (is_unknown && !a.same_weights(b)).then(|| UNKNOWN_LINEAGE.to_owned()),
        matched: matching.map(|(partners, halves_agree)| MatchedHeads {
            moved: partners.iter().zip(&places).filter(|(partner, place)| partner != place).count(),
            halves_agree,
            first_label: ShareByChance::new(&first_labels(&heads), grid.heads),
            firm_labels: ShareByChance::new(&firm_labels(&heads), grid.heads),
        }),
        idle,
        unread: sides::unread(a, b),
        too_few_units: sides::too_few_units(a, b),
        changed: heads_by_outcome.any_change() || choices_by_outcome.is_some_and(|counts| counts.any_change()),
        agreement: agreement(&heads, with_choices),
        heads_by_outcome,
        choices_by_outcome,
        labels_by_outcome: OutcomeCounts::of(heads.iter().flat_map(|head| &head.labels).map(|label| label.outcome)),
        untold: UntoldCounts::of(heads.iter().flat_map(|head| &head.labels)),
        families: families(&heads),
        heads,
        not_shared: described::not_shared([&a.circumstances, &b.circumstances]),
        a: a.described(),
        b: b.described(),
    }
}

/// Said where nothing is known of how the heads of two models stand to each other.
const UNKNOWN_LINEAGE: &str = "The models have other weights, and their heads are compared by place. That says something only where \
    one was trained on from the other (--matched); for other models pair heads first: `headscope match`, --match.";

fn first_labels(heads: &[HeadComparison]) -> Vec<(&str, &str)> {
    heads.iter().map(|head| (&*head.primary_a, &*head.primary_b)).collect()
}

fn firm_labels(heads: &[HeadComparison]) -> Vec<(BTreeSet<&str>, BTreeSet<&str>)> {
    fn firm(head: &HeadComparison, side: usize) -> BTreeSet<&str> {
        head.labels.iter().filter(|label| label.firm()[side]).map(|label| &*label.label).collect()
    }
    heads.iter().map(|head| (firm(head, 0), firm(head, 1))).collect()
}

fn agreement(heads: &[HeadComparison], with_choices: bool) -> HeadAgreement {
    let choices: Vec<_> = heads
        .iter()
        .map(|head| head.choice.as_ref().map_or((None, None), |choice| (choice.a.as_deref(), choice.b.as_deref())))
        .collect();
    HeadAgreement {
        first_label: CategoryAgreement::of(&first_labels(heads)),
        firm_labels: CategoryAgreement::of(&firm_labels(heads)),
        choice: with_choices.then(|| CategoryAgreement::of(&choices)),
    }
}

/// The families of the labels that some head has, in the order of the table of detectors.
fn families(heads: &[HeadComparison]) -> Vec<FamilyComparison> {
    let labels: Vec<Vec<&LabelComparison>> = heads.iter().map(|head| head.all_labels().collect()).collect();
    let order: BTreeMap<&str, usize> =
        registry::detectors().enumerate().map(|(place, detector)| (detector.explanation.name, place)).collect();
    let met: BTreeSet<(usize, &str)> = (labels.iter().flatten())
        .map(|label| (order.get(&*label.family).copied().unwrap_or(order.len()), &*label.family))
        .collect();
    let family = |(_, family): (usize, &str)| {
        let own = |labels: &[&'_ LabelComparison]| -> (bool, bool) {
            let own = || labels.iter().filter(|label| label.family == family);
            (own().any(|label| label.firm()[0]), own().any(|label| label.firm()[1]))
        };
        let firm: Vec<(bool, bool)> = labels.iter().map(|labels| own(labels)).collect();
        let count = |wanted: fn(&(bool, bool)) -> bool| firm.iter().filter(|pair| wanted(pair)).count();
        let all = labels.iter().flatten().filter(|label| label.family == family);
        FamilyComparison {
            family: family.to_owned(),
            heads_a: count(|(a, _)| *a),
            heads_b: count(|(_, b)| *b),
            heads_both: count(|(a, b)| *a && *b),
            outcomes: OutcomeCounts::of(all.map(|label| label.outcome)),
            agreement: CategoryAgreement::of(&firm),
        }
    };
    met.into_iter().map(family).collect()
}
