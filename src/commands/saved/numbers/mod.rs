//! `headscope compare --numbers`: did anything change between two analyses, beyond chance?
//!
//! Read both sides, pair and test their numbers, correct for how many they are, judge labels by them, write.

pub mod outcome;
mod page;
mod pairs;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};

use super::sides::described::{self, LeftAside};
use super::sides::standing::{self, LabelStanding, same_rule};
use super::sides::{self, Side, SidesOptions};
use crate::commands::reporting::{self, OutcomeOutputs};
use crate::export::summary::Detail;
use crate::export::{Writer, json};
use crate::report::firm::is_role;
use crate::studies::registry;
use crate::study::labels::Assessment;
use crate::study::metrics::number::Part;
use crate::study::metrics::unit::PerUnit;
use crate::system::errors::{Class, Facts};
use outcome::{Compared, IdleHeadLabels, LabelChange, Method, NumbersOutcome, OneSidedLabel, SCHEMA_VERSION, Standing};
use pairs::{NumberPairs, Pair};

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

#[derive(Default)]
pub struct Labels {
    pub changes: Vec<LabelChange>,
    /// The labels that are firm on one side only, and of which it is not shown that they changed, in the order of heads.
    pub one_sided: Vec<OneSidedLabel>,
    /// The heads that do nothing on one side, with the labels that are firm on the other.
    pub idle: Vec<IdleHeadLabels>,
    /// Firm labels on either side, without labels of how heads choose.
    pub firm: usize,
    pub compared: usize,
    pub left_aside: Vec<LeftAside>,
}

impl Labels {
    /// Compares all labels: one changes where the number that it rests on differs with a q-value of at most `rate`, too.
    pub fn new(a: &Side, b: &Side, pairs: &NumberPairs<'_>, rate: f64) -> Self {
        let places: Vec<usize> = (0..a.circumstances.model.grid().count()).collect();
        let idle = standing::one_sided(a, b, &places).into_iter().map(IdleHeadLabels::from);
        let mut found = Self { idle: idle.collect(), ..Self::default() };
        let grid = a.circumstances.model.grid();
        let have_like_counts = |label: &str| a.has_like_counts(b, label);
        // Rules name a number as rules do, or as the report does.
        let numbers: BTreeMap<(usize, String), &Pair<'_>> = (pairs.tested.iter())
            .flat_map(|pair| [pair.a.in_rules(), pair.a.name.clone()].map(|name| ((pair.a.head, name), pair)))
            .collect();
        // A score over a text that was not read says nothing of a label.
        let are_read = a.findings.is_read && b.findings.is_read;
        let policies = [a, b].map(|side| &side.circumstances.settings.policy);
        let [ours, theirs] = [a, b].map(Side::assessments);
        let [mut unlike, mut uncounted, mut missing, mut unfounded] = [const { Vec::new() }; 4];
        for (place, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let [ours, theirs] = [ours, theirs].map(|all| by_label(all));
            let is_idle = standing::idleness([(a, place), (b, place)]).map(|why| why.is_some());
            for label in ours.keys().chain(theirs.keys()).copied().collect::<BTreeSet<&str>>() {
                let sides = [ours.get(label).copied(), theirs.get(label).copied()];
                let standings = sides.map(|side| side.map(LabelStanding::of));
                let is_firm = [0, 1].map(|side| standings[side] == Some(LabelStanding::Firm) && !is_idle[side]);
                let Some(firm) = is_firm.iter().position(|is| *is) else { continue };
                let is_choice = registry::is_of_choice(label);
                // Every untrained head is `broad`.
                if !is_choice && sides.iter().flatten().any(|side| !is_role(&side.label)) {
                    continue;
                }
                let counts = usize::from(!is_choice);
                found.firm += counts;
                if is_idle[1 - firm] && [a, b][1 - firm].has_study_of(label) {
                    found.compared += counts;
                    let head = found.idle.iter_mut().find(|head| head.head.place == grid.place(place));
                    head.into_iter().filter(|_| !is_choice).for_each(|head| head.firm_labels.push(label.to_owned()));
                    continue;
                }
                let [Some(in_a), Some(in_b)] = sides else {
                    missing.push(label);
                    continue;
                };
                if !same_rule(label, policies) {
                    unlike.push(label);
                    continue;
                }
                if !have_like_counts(label) {
                    uncounted.push(label);
                    continue;
                }
                found.compared += counts;
                if is_firm[1 - firm] {
                    continue;
                }
                // A score that is made of rates of the corpus as well rests on the number of the head in it.
                let of_head = |rule: &str| pairs.of_corpus.get(rule).map_or(rule, |[_, of_head]| of_head).to_owned();
                let pair_of = |side: &Assessment| numbers.get(&(place, of_head(&side.label.number))).copied();
                let name_of = |side: &Assessment| match (pairs.of_corpus.get(&side.label.number), pair_of(side)) {
                    (Some([name, _]), _) => name.clone(),
                    (None, Some(pair)) => pair.a.name.clone(),
                    (None, None) => side.label.number.clone(),
                };
                let [a, b] = [in_a, in_b].map(|side| standing(side, name_of(side)));
                let (label, place) = (label.to_owned(), grid.place(place));
                match pair_of([in_a, in_b][firm]) {
                    _ if standings[1 - firm] != Some(LabelStanding::OutOfReach) || !are_read => {}
                    Some(Pair { a: number, q, .. }) if *q <= rate => {
                        found.changes.push(LabelChange { place, label, a, b, number: number.name.clone(), q: *q });
                        continue;
                    }
                    Some(_) => {}
                    None => {
                        unfounded.push(in_a.label.label.as_str());
                        continue;
                    }
                }
                found.one_sided.push(OneSidedLabel { place, label, a, b });
            }
        }
        let size = |change: &LabelChange| (change.a.score - change.b.score).abs();
        found.changes.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let reasons = [
            (unlike, "of the firm labels have other thresholds in the two policies; --policy gives both the same"),
            (
                uncounted,
                "of the firm labels rest on token counts of corpora of other sizes; --counts gives both the same",
            ),
            (missing, "of the firm labels could not be assessed on the other side"),
            (
                unfounded,
                "of the firm labels are out of reach on the other side, and rest on numbers that were not tested",
            ),
        ];
        found.left_aside = reasons.into_iter().filter_map(aside).collect();
        found
    }
}

/// Labels that were not compared, and why; `None` if there are none, or all say how heads choose.
fn aside((mut labels, why): (Vec<&str>, &str)) -> Option<LeftAside> {
    labels.retain(|label| !registry::is_of_choice(label));
    let of = labels.iter().map(|label| (*label).to_owned()).collect::<BTreeSet<_>>();
    (!labels.is_empty()).then(|| LeftAside { why: why.to_owned(), count: labels.len(), of: of.into_iter().collect() })
}

fn by_label(assessments: &[Assessment]) -> BTreeMap<&str, &Assessment> {
    assessments.iter().map(|assessment| (assessment.label.label.as_str(), assessment)).collect()
}

/// How a head stands to a label on one side; `number` is what its rule is about.
fn standing(assessment: &Assessment, number: String) -> Standing {
    let label = &assessment.label;
    let firm = LabelStanding::of(assessment) == LabelStanding::Firm;
    Standing { firm, number, score: label.score, ci95: label.ci95, threshold: label.threshold }
}
