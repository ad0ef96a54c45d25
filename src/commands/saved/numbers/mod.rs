//! `headscope compare --numbers`: did anything change between two analyses, beyond chance?
//!
//! Read both sides, pair and test their numbers, correct for how many they are, judge labels by them, write.

mod labels;
pub mod outcome;
mod page;
mod pairs;

use anyhow::{Result, anyhow};

use super::sides::{self, SidesOptions, described};
use crate::commands::reporting::{self, OutcomeOutputs};
use crate::export::summary::Detail;
use crate::export::{Writer, json};
use crate::study::metrics::number::Part;
use crate::study::metrics::unit::PerUnit;
use crate::system::errors::{Class, Facts};
use labels::Labels;
use outcome::{Compared, Method, NumbersOutcome, SCHEMA_VERSION};
use pairs::NumberPairs;

/// The hint for reports over the same sentences.
const PAIRING: &str = "Both are over the same sentences: partials of these runs (`headscope analyze ... --partial \
    FILE.headscope`) are compared pairwise, block by block, which sees far smaller changes.";

#[derive(Clone, Debug)]
pub struct NumbersOptions {
    pub sides: SidesOptions,
    pub rate: f64,
    /// Differences up to this are none, of numbers in each unit.
    pub tolerances: PerUnit<f64>,
    /// The parts that are printed and decide the status; empty for all.
    pub only: Vec<Part>,
    pub outputs: OutcomeOutputs,
}

/// Compares two analyses and prints what changed; whether nothing did.
pub fn compare_numbers(options: &NumbersOptions) -> Result<bool> {
    let outputs = options.outputs.open()?;
    let outcome = outcome(options)?;
    let render = |writer| match writer {
        Writer::Json(form) => json::render(&outcome, form),
        Writer::Html => page::html(&outcome),
        Writer::Csv => Err(anyhow!("what changed is no table")),
    };
    reporting::write_each(outputs, render, |detail, _| page::render(&outcome, detail == Detail::Full))?;
    Ok(!outcome.changed)
}

fn outcome(options: &NumbersOptions) -> Result<NumbersOutcome> {
    let [a, b] = sides::read(&options.sides).class(Class::Input)?;
    let method = if a.same_sentences(&b) { Method::PairedByBlock } else { Method::ByIntervals };
    let pairs = NumberPairs::new(&a, &b, method, &options.tolerances);
    let labels = Labels::new(&a, &b, &pairs, options.rate);
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let of = |part: Part| if wanted(part) { pairs.changes(part, options.rate) } else { Vec::new() };
    let (relations, metrics) = (of(Part::Relations), of(Part::Metrics));
    let (changes, one_sided, mut idle) = (labels.changes, labels.one_sided, labels.idle);
    let (changes, one_sided) = if wanted(Part::Labels) { (changes, one_sided) } else { (Vec::new(), Vec::new()) };
    idle.iter_mut().filter(|_| !wanted(Part::Labels)).for_each(|head| head.firm_labels.clear());
    let is_lost = idle.iter().any(|head| !head.firm_labels.is_empty());
    let changed = is_lost || !changes.is_empty() || !relations.is_empty() || !metrics.is_empty();
    Ok(NumbersOutcome {
        schema_version: SCHEMA_VERSION,
        corpora: a.other_corpus(&b),
        task: a.on_task().zip(b.on_task()).map(|(a, b)| [a, b]),
        unread: sides::unread(&a, &b),
        too_few_units: sides::too_few_units(&a, &b),
        changed,
        method,
        rate: options.rate,
        pairing: a.could_be_paired(&b).then(|| PAIRING.to_owned()),
        tolerances: options.tolerances,
        only: options.only.clone(),
        compared: Compared {
            firm_labels: labels.firm,
            labels: labels.compared,
            relations: pairs.count(Part::Relations),
            metrics: pairs.count(Part::Metrics),
            numbers: pairs.tested.len(),
        },
        labels: changes,
        one_sided,
        idle,
        heads: pairs.heads(wanted, options.rate),
        relations,
        metrics,
        left_aside: pairs.left_aside.iter().cloned().chain(labels.left_aside).chain(sides::untested(&a, &b)).collect(),
        not_shared: described::not_shared([&a.circumstances, &b.circumstances]),
        a: a.described(),
        b: b.described(),
    })
}
