//! `headscope compare --numbers`: did anything change between two analyses, beyond chance?

pub mod outcome;
mod page;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use itertools::Itertools as _;

use super::sides::description::{self, LeftAside, Valued};
use super::sides::head_state::{self, Idleness, LabelStanding, assessments_by_label, has_same_thresholds};
use super::sides::{self, Side, SidesOptions};
use crate::commands::reporting::{self, OutcomeOutputs};
use crate::export::summary::Detail;
use crate::export::{ReportFormat, json};
use crate::model::grid::HeadGrid;
use crate::report::firm::is_role;
use crate::stats::difference::{DifferenceTest, ReportedNumber, paired_test, welch_test};
use crate::stats::significance::benjamini_hochberg;
use crate::studies::registry;
use crate::study::labels::{Assessment, Label};
use crate::study::metrics::number::{Number, Part, rule_name};
use crate::study::metrics::unit::{PRECISION_TOLERANCE, PerUnit};
use crate::system::counts::plural;
use crate::system::errors::{ErrorClass, ErrorExt};
use outcome::{
    Change, Compared, HeadChanges, IdleHeadLabels, LabelChange, LargestChange, Method, NumbersOutcome, OneSidedLabel,
    SCHEMA_VERSION, Standing,
};

/// Hint to compare partials pairwise, which is more sensitive than to compare intervals.
const PAIRING_HINT: &str = "Both are over the same sentences: partials of these runs (`headscope analyze ... --partial \
    FILE.headscope`) are compared pairwise, block by block, which sees far smaller changes.";

pub struct NumbersOptions {
    pub sides: SidesOptions,
    /// Largest q-value at which a number counts as changed.
    pub rate: f64,
    /// Largest difference that does not count as a change, per unit.
    pub tolerances: PerUnit<f64>,
    /// Parts (labels, relations, metrics) that are printed and decide the exit status; empty for all.
    pub printed_parts: Vec<Part>,
    pub outputs: OutcomeOutputs,
}

/// Compares two analyses and prints what changed; returns true if nothing changed.
/// Fails if an analysis cannot be read, or an output cannot be written.
pub fn compare_numbers(options: &NumbersOptions) -> Result<bool> {
    let outputs = options.outputs.open_outputs()?;
    let outcome = compute_outcome(options)?;
    let render = |writer| match writer {
        ReportFormat::Json(form) => json::to_json(&outcome, form),
        ReportFormat::Html => page::render_html(&outcome),
        ReportFormat::Csv => Err(anyhow!("what changed is no table")),
    };
    reporting::write_outputs(outputs, render, |detail, _| page::render(&outcome, detail == Detail::Full))?;
    Ok(!outcome.changed)
}

/// Compares the labels and numbers of two analyses, without printing the outcome.
fn compute_outcome(options: &NumbersOptions) -> Result<NumbersOutcome> {
    let [a, b] = sides::read_sides(&options.sides).class(ErrorClass::Input)?;
    let method = if a.has_same_sentences(&b) { Method::PairedByBlock } else { Method::ByIntervals };
    let pairs = NumberPairs::new(&a, &b, method, &options.tolerances);
    let labels = ComparedLabels::new(&a, &b, &pairs, options.rate);
    let is_wanted = |part: Part| options.printed_parts.is_empty() || options.printed_parts.contains(&part);
    let changes_of = |part: Part| if is_wanted(part) { pairs.changes_in_part(part, options.rate) } else { Vec::new() };
    let (relations, metrics) = (changes_of(Part::Relations), changes_of(Part::Metrics));
    let (changes, one_sided, mut idle) = (labels.changes, labels.one_sided_labels, labels.idle_heads);
    let (changes, one_sided) = if is_wanted(Part::Labels) { (changes, one_sided) } else { (Vec::new(), Vec::new()) };
    idle.iter_mut().filter(|_| !is_wanted(Part::Labels)).for_each(|head| head.firm_labels.clear());
    let is_lost = idle.iter().any(|head| !head.firm_labels.is_empty());
    let changed = is_lost || !changes.is_empty() || !relations.is_empty() || !metrics.is_empty();
    let untested_sections = sides::untested_differences(&a, &b);
    Ok(NumbersOutcome {
        schema_version: SCHEMA_VERSION,
        corpora: a.corpus_difference(&b),
        task: a.task_result().zip(b.task_result()).map(|(a, b)| [a, b]),
        unread: sides::unreadable_corpus_sentence(&a, &b),
        too_few_units: sides::too_few_units_reason(&a, &b),
        changed,
        method,
        rate: options.rate,
        pairing: a.can_be_paired(&b).then(|| PAIRING_HINT.to_owned()),
        tolerances: options.tolerances,
        only: options.printed_parts.clone(),
        compared: Compared {
            firm_labels: labels.firm_count,
            labels: labels.compared_count,
            relations: pairs.count_in_part(Part::Relations),
            metrics: pairs.count_in_part(Part::Metrics),
            numbers: pairs.tested_pairs.len(),
        },
        labels: changes,
        one_sided,
        idle,
        heads: pairs.changed_heads(is_wanted, options.rate),
        relations,
        metrics,
        left_aside: pairs.left_aside.iter().cloned().chain(labels.left_aside).chain(untested_sections).collect(),
        not_shared: description::differing_facts([&a.context, &b.context]),
        a: a.description(),
        b: b.description(),
    })
}

/// Comparison of all labels of two analyses, from which the outcome is made.
#[derive(Default)]
struct ComparedLabels {
    /// Labels that changed, the largest difference of scores first.
    pub changes: Vec<LabelChange>,
    /// Labels that are firm in one analysis only and are not shown to have changed, in the order of heads.
    pub one_sided_labels: Vec<OneSidedLabel>,
    /// Heads that are absent, removed or constant in exactly one analysis, each with its firm labels in the other.
    pub idle_heads: Vec<IdleHeadLabels>,
    /// Number of labels that are firm in at least one analysis, without `broad` and key-choice labels (`chooses:*`).
    pub firm_count: usize,
    /// Number of firm labels that were compared, without `broad` and key-choice labels (`chooses:*`).
    pub compared_count: usize,
    /// Labels that were not compared, with the reasons.
    pub left_aside: Vec<LeftAside>,
}

impl ComparedLabels {
    /// Compares all labels. A label counts as changed if it is firm in one analysis and significantly below its
    /// threshold in the other. The metric of its rule must also differ between the analyses, with a q-value of at most
    /// `rate`.
    pub fn new(a: &Side, b: &Side, pairs: &NumberPairs<'_>, rate: f64) -> Self {
        let places: Vec<usize> = (0..a.context.model.grid().head_count()).collect();
        let idle = head_state::heads_idle_on_one_side(a, b, &places)
            .into_iter()
            .map(|head| IdleHeadLabels { head, firm_labels: Vec::new() });
        let mut result = Self { idle_heads: idle.collect(), ..Self::default() };
        let grid = a.context.model.grid();
        let have_like_counts = |label: &str| a.has_comparable_counts(b, label);
        // Rules name a number either as policies do or as the report does.
        let numbers: BTreeMap<(usize, String), &NumberPair<'_>> = (pairs.tested_pairs.iter())
            .flat_map(|pair| [pair.a.rule_name(), pair.a.name.clone()].map(|name| ((pair.a.head, name), pair)))
            .collect();
        // A score over a text that the model could not read says nothing about a label.
        let are_read = a.results.could_read_text && b.results.could_read_text;
        let policies = [a, b].map(|side| &side.context.settings.policy);
        let [of_a, of_b] = [a, b].map(Side::assessments);
        let [mut other_rules, mut other_counts, mut unassessed, mut untested] = [const { Vec::new() }; 4];
        for (place, (of_a, of_b)) in of_a.iter().zip(&of_b).enumerate() {
            let [of_a, of_b] = [of_a, of_b].map(|all| assessments_by_label(all));
            let is_idle = head_state::pair_idleness([(a, place), (b, place)]).map(|why| why.is_some());
            for label in of_a.keys().chain(of_b.keys()).copied().collect::<BTreeSet<&str>>() {
                let sides = [of_a.get(label).copied(), of_b.get(label).copied()];
                let standings = sides.map(|side| side.map(LabelStanding::new));
                let is_firm = [0, 1].map(|side| standings[side] == Some(LabelStanding::Firm) && !is_idle[side]);
                let Some(firm) = is_firm.iter().position(|is| *is) else { continue };
                let is_choice = registry::is_key_choice_label(label);
                // `broad` does not count, because every untrained head has it.
                if !is_choice && sides.iter().flatten().any(|side| !is_role(&side.label)) {
                    continue;
                }
                let counts = usize::from(!is_choice);
                result.firm_count += counts;
                if is_idle[1 - firm] && [a, b][1 - firm].has_study_of_label(label) {
                    result.compared_count += counts;
                    let head = result.idle_heads.iter_mut().find(|head| head.head.place == grid.head_place(place));
                    head.into_iter().filter(|_| !is_choice).for_each(|head| head.firm_labels.push(label.to_owned()));
                    continue;
                }
                let [Some(in_a), Some(in_b)] = sides else {
                    unassessed.push(label);
                    continue;
                };
                if !has_same_thresholds(label, policies) {
                    other_rules.push(label);
                    continue;
                }
                if !have_like_counts(label) {
                    other_counts.push(label);
                    continue;
                }
                result.compared_count += counts;
                if is_firm[1 - firm] {
                    continue;
                }
                // For a score that also depends on frequencies in the corpus, the head's part of the score is compared.
                let of_head =
                    |rule: &str| pairs.corpus_dependent.get(rule).map_or(rule, |[_, of_head]| of_head).to_owned();
                let pair_of = |side: &Assessment| numbers.get(&(place, of_head(&side.label.number))).copied();
                let name_of = |side: &Assessment| match (pairs.corpus_dependent.get(&side.label.number), pair_of(side))
                {
                    (Some([name, _]), _) => name.clone(),
                    (None, Some(pair)) => pair.a.name.clone(),
                    (None, None) => side.label.number.clone(),
                };
                let [a, b] = [in_a, in_b].map(|side| label_evidence(side, name_of(side)));
                let (label, place) = (label.to_owned(), grid.head_place(place));
                match pair_of([in_a, in_b][firm]) {
                    _ if standings[1 - firm] != Some(LabelStanding::OutOfReach) || !are_read => {}
                    Some(NumberPair { a: number, q, .. }) if *q <= rate => {
                        result.changes.push(LabelChange { place, label, a, b, number: number.name.clone(), q: *q });
                        continue;
                    }
                    Some(_) => {}
                    None => {
                        untested.push(in_a.label.label.as_str());
                        continue;
                    }
                }
                result.one_sided_labels.push(OneSidedLabel { place, label, a, b });
            }
        }
        let size = |change: &LabelChange| (change.a.score - change.b.score).abs();
        result.changes.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let reasons = [
            (other_rules, "of the firm labels have other thresholds in the two policies; --policy gives both the same"),
            (
                other_counts,
                "of the firm labels rest on token counts of corpora of other sizes; --counts gives both the same",
            ),
            (unassessed, "of the firm labels could not be assessed on the other side"),
            (
                untested,
                "of the firm labels fail their rule on the other side, and rest on numbers that were not tested",
            ),
        ];
        result.left_aside = reasons.into_iter().filter_map(left_aside_labels).collect();
        result
    }
}

/// Entry for labels that were not compared, with the reason `why`. Key-choice labels (`chooses:*`) are left out; `None` if
/// there are no others.
fn left_aside_labels((mut labels, why): (Vec<&str>, &str)) -> Option<LeftAside> {
    labels.retain(|label| !registry::is_key_choice_label(label));
    let names: BTreeSet<String> = labels.iter().map(|label| (*label).to_owned()).collect();
    (!labels.is_empty()).then(|| LeftAside { why: why.to_owned(), count: labels.len(), of: Vec::from_iter(names) })
}

/// Evidence for a label in one analysis; `number` is the name of the metric that the label's rule tests.
fn label_evidence(assessment: &Assessment, number: String) -> Standing {
    let Label { score, ci95, threshold, .. } = assessment.label;
    Standing { firm: LabelStanding::new(assessment) == LabelStanding::Firm, number, score, ci95, threshold }
}

/// Metrics and accuracies that both analyses have, with the tests of their differences.
struct NumberPairs<'a> {
    /// Pairs whose difference was tested.
    pub tested_pairs: Vec<NumberPair<'a>>,
    /// Metrics and accuracies that were not tested, with the reasons.
    pub left_aside: Vec<LeftAside>,
    /// Numbers that depend on frequencies in the corpus (of tokens, tags or classes) as well as on a head's metric, by their
    /// name in label rules. Values: `[name of the number in reports, name of the metric in label rules]`.
    pub corpus_dependent: BTreeMap<String, [String; 2]>,
    grid: HeadGrid,
}

/// Metric or accuracy of a head in both analyses, with the test of its difference and the q-value of that test.
struct NumberPair<'a> {
    pub a: Number<'a>,
    pub b: Number<'a>,
    test: DifferenceTest,
    /// p-value of the test, corrected by Benjamini & Hochberg over all tested pairs.
    pub q: f64,
}

impl NumberPair<'_> {
    /// Size of the difference, divided by [`PRECISION_TOLERANCE`] so that shares, nats and tokens are comparable.
    fn scaled_difference(&self) -> f64 {
        self.test.difference.abs() / PRECISION_TOLERANCE.get(self.a.unit)
    }
}

/// Reason why a number was not tested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// No test is possible (too few blocks, or no interval), and the numbers differ by more than the tolerance.
    Differing,
    /// The head is absent or removed in exactly one analysis.
    MissingHead,
    /// Only one analysis has the number.
    OneSided,
    /// The number is the accuracy on a relation that has too few words in an analysis for the policy.
    Rare,
    /// No test is possible (too few blocks, or no interval), and the numbers are equal within the tolerance.
    Equal,
    /// The number also depends on frequencies in the corpus. The head's own number behind it ([`Number::base_number`])
    /// is compared instead.
    CorpusDependent,
}

impl Obstacle {
    /// Formats the reason. The text is printed after `count`, the number of values that were not tested.
    fn reason_in_words(self, count: usize) -> String {
        let are = plural(&count, "number is", "numbers are");
        match self {
            Self::Differing => {
                let differ = plural(&count, "number differs", "numbers differ");
                let (rest, have) = plural(&count, ("it rests", "has"), ("they rest", "have"));
                format!("{differ} and cannot be tested: {rest} on too few blocks, or {have} no interval")
            }
            Self::CorpusDependent => format!(
                "{are} made of rates of the corpus as well, which differ between corpora: the metrics of the heads alone are \
                 compared"
            ),
            Self::MissingHead => format!("{are} of heads that do nothing on one side"),
            Self::OneSided => format!("{are} there on one side only"),
            Self::Rare => format!("{are} of relations with fewer words than the policy asks for, on either side"),
            Self::Equal => {
                let (rest, have) = plural(&count, ("rests", "has"), ("rest", "have"));
                format!("{are} equal, and {rest} on too few blocks or {have} no interval")
            }
        }
    }
}

impl<'a> NumberPairs<'a> {
    /// Tests the metrics and accuracies that both analyses have, except those computed from frequencies in the corpus.
    /// The null hypothesis is a difference of at most the tolerance.
    pub fn new(a: &'a Side, b: &'a Side, method: Method, tolerances: &PerUnit<f64>) -> Self {
        let grid = a.context.model.grid();
        let mut aside: BTreeMap<Obstacle, (usize, BTreeSet<String>)> = BTreeMap::new();
        let mut leave = |number: &Number<'_>, reason: Obstacle| {
            let (count, of) = aside.entry(reason).or_default();
            *count += 1;
            of.insert(number.subject.clone());
        };
        let key = |number: &Number<'_>| (number.part, number.head, number.name.clone());
        let mut others: BTreeMap<_, Number<'a>> =
            b.numbers().into_iter().map(|number| (key(&number), number)).collect();
        let (mut tested, mut corpus_dependent) = (Vec::new(), BTreeMap::new());
        // A head that writes a constant is not missing: its attention is compared.
        let runs_without = |head: usize| {
            let idle = head_state::pair_idleness([(a, head), (b, head)]);
            let is_missing = idle.map(|why| matches!(why, Some(Idleness::Absent | Idleness::Removed)));
            is_missing[0] != is_missing[1]
        };
        let missing: Vec<bool> = (0..grid.head_count()).map(runs_without).collect();
        for number in a.numbers() {
            if missing[number.head] {
                others.remove(&key(&number));
                leave(&number, Obstacle::MissingHead);
                continue;
            }
            if let Some(of_head) = number.base_number.as_ref() {
                others.remove(&key(&number));
                leave(&number, Obstacle::CorpusDependent);
                corpus_dependent.insert(number.rule_name(), [number.name.clone(), rule_name(number.part, of_head)]);
                continue;
            }
            let Some(other) = others.remove(&key(&number)) else {
                leave(&number, Obstacle::OneSided);
                continue;
            };
            match test_difference(&number, &other, method, tolerances.get(number.unit)) {
                Ok(Some(test)) => tested.push(NumberPair { a: number, b: other, test, q: 1.0 }),
                Ok(None) => {}
                Err(reason) => leave(&number, reason),
            }
        }
        for number in others.values() {
            leave(number, if missing[number.head] { Obstacle::MissingHead } else { Obstacle::OneSided });
        }
        let p: Vec<f64> = tested.iter().map(|pair| pair.test.p).collect();
        tested.iter_mut().zip(benjamini_hochberg(&p)).for_each(|(pair, q)| pair.q = q);
        let left_aside = aside.into_iter().map(|(reason, (count, of))| LeftAside {
            why: reason.reason_in_words(count),
            count,
            of: of.into_iter().collect(),
        });
        Self { tested_pairs: tested, left_aside: left_aside.collect(), corpus_dependent, grid }
    }

    /// Number of tested values in a part of the report, such as the metrics.
    pub fn count_in_part(&self, part: Part) -> usize {
        self.tested_pairs.iter().filter(|pair| pair.a.part == part).count()
    }

    /// Changed numbers of a part of the report: those with a q-value of at most `rate`, the largest difference first.
    pub fn changes_in_part(&self, part: Part, rate: f64) -> Vec<Change> {
        let changed = self.tested_pairs.iter().filter(|pair| pair.a.part == part && pair.q <= rate);
        // Sorting is stable: equal differences stay in the order of reports.
        let sorted = changed.sorted_by(|a, b| b.scaled_difference().total_cmp(&a.scaled_difference()));
        sorted.map(|pair| self.describe_change(pair)).collect()
    }

    /// Heads with a changed number (q-value of at most `rate`) in a [`Part`] of the analysis for which `wanted` returns
    /// true. Heads with the most changed numbers come first, then those with the largest difference.
    pub fn changed_heads(&self, wanted: impl Fn(Part) -> bool, rate: f64) -> Vec<HeadChanges> {
        let mut by_head: BTreeMap<usize, Vec<&NumberPair<'_>>> = BTreeMap::new();
        for pair in self.tested_pairs.iter().filter(|pair| wanted(pair.a.part)) {
            by_head.entry(pair.a.head).or_default().push(pair);
        }
        let summary = |pairs: &Vec<&NumberPair<'_>>| {
            let changed: Vec<&NumberPair<'_>> = pairs.iter().copied().filter(|pair| pair.q <= rate).collect();
            let largest = *changed.iter().max_by(|a, b| a.scaled_difference().total_cmp(&b.scaled_difference()))?;
            let Change { place, number, unit, difference, q, .. } = self.describe_change(largest);
            let largest_change = LargestChange { number, unit, difference, q };
            let (changed, compared) = (changed.len(), pairs.len());
            Some((largest.scaled_difference(), HeadChanges { place, changed, compared, largest: largest_change }))
        };
        let mut heads: Vec<(f64, HeadChanges)> = by_head.values().filter_map(summary).collect();
        heads.sort_by(|(size, a), (other, b)| b.changed.cmp(&a.changed).then(other.total_cmp(size)));
        heads.into_iter().map(|(_, summary)| summary).collect()
    }

    fn describe_change(&self, NumberPair { a, b, test, q }: &NumberPair<'_>) -> Change {
        let valued = |number: &Number<'_>| Valued { value: number.value.unwrap_or_default(), ci95: number.ci95 };
        Change {
            place: self.grid.head_place(a.head),
            number: a.name.clone(),
            unit: a.unit,
            a: valued(a),
            b: valued(b),
            difference: test.difference,
            standard_error: test.standard_error,
            p: test.p,
            q: *q,
        }
    }
}

/// Tests the difference of a number between two analyses; `None` if neither analysis has the number.
/// Fails with the reason if the difference cannot be tested.
fn test_difference(
    a: &Number<'_>,
    b: &Number<'_>,
    method: Method,
    tolerance: f64,
) -> Result<Option<DifferenceTest>, Obstacle> {
    let values = match (a.value, b.value) {
        (Some(a), Some(b)) => [a, b],
        (None, None) => return Ok(None),
        _ => return Err(Obstacle::OneSided),
    };
    if !(a.has_enough_evidence && b.has_enough_evidence) {
        return Err(Obstacle::Rare);
    }
    let test = match method {
        Method::PairedByBlock => a.jackknife.zip(b.jackknife).and_then(|(a, b)| paired_test(a, b, tolerance)),
        Method::ByIntervals => {
            let reported = |number: &Number<'_>, place: usize| {
                let Number { blocks, effective_blocks, trials, .. } = *number;
                let number_with_interval =
                    |ci95| ReportedNumber { value: values[place], ci95, blocks, effective_blocks, trials };
                number.ci95.map(number_with_interval)
            };
            reported(a, 0).zip(reported(b, 1)).and_then(|(a, b)| welch_test(&a, &b, tolerance))
        }
    };
    let untested = if (values[0] - values[1]).abs() <= tolerance { Obstacle::Equal } else { Obstacle::Differing };
    test.map(Some).ok_or(untested)
}
