//! `headscope confirm`: are the labels of one analysis found again over other corpora?
//!
//! The firm labels of the first report are fixed in advance, with its policy.
//! In each other corpus these labels are one family of tests, so that selection cannot favour any label
//! (docs/methodology/confirm.md).

use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use itertools::Itertools as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::sides::description::{Described, list_limit};
use super::sides::{self, Side};
use crate::commands::reporting::{self, OutcomeOutputs};
use crate::export::summary::Detail;
use crate::export::tables::csv;
use crate::export::{ReportFormat, json};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::report::firm::is_firm_role;
use crate::stats::interval::Interval;
use crate::stats::random_effects::{MIN_CORPORA, RandomEffects};
use crate::stats::significance::benjamini_hochberg;
use crate::studies::registry;
use crate::study::labels::evidence::{Direction, LABEL_Q};
use crate::study::labels::{Assessment, Label};
use crate::study::show::summary::Summary;
use crate::study::show::table::Table;
use crate::study::show::wording::{aligned_table, decimal, plain_table, significance_text};
use crate::system::counts::{format_count, plural};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::printable::one_line;
use crate::system::terminal;

/// False discovery rate of the tests if the policy of the first report sets none.
const DEFAULT_MAX_Q: f64 = 0.05;

/// Tests the firm labels of the first report in the others and prints which are confirmed.
/// Fails if a report cannot be read, models have different heads, a corpus comes twice, or an output cannot be written.
pub fn confirm(reports: &[PathBuf], outputs: &OutcomeOutputs, threads: NonZeroUsize) -> Result<()> {
    let outputs = outputs.open_outputs()?;
    let outcome = confirm_labels(reports, threads).class(ErrorClass::Input)?;
    let render = |writer| match writer {
        ReportFormat::Json(form) => json::to_json(&outcome, form),
        ReportFormat::Csv => csv::table_csv(&Table::from_rows("labels", &outcome.labels)),
        ReportFormat::Html => unreachable!("refused with the arguments"),
    };
    let summary = |detail, _: &[_]| render_text(&outcome, detail == Detail::Full).fit(terminal::stdout_width());
    reporting::write_outputs(outputs, render, summary)
}

/// Tests the firm labels of the first report in the other reports.
fn confirm_labels(reports: &[PathBuf], threads: NonZeroUsize) -> Result<ConfirmOutcome> {
    let sides = sides::read_sides_with_first_policy(reports, threads)?;
    sides.iter().try_for_each(Side::ensure_labelled)?;
    let (first, others) = sides.split_first().expect("at least two reports");
    for (place, side) in sides.iter().enumerate() {
        if let Some(other) = sides[..place].iter().find(|other| other.has_common_file(side)) {
            return Err(anyhow!("`{}` and `{}` are over the same text, which confirms nothing", other.file, side.file)
                .hint("name reports over other corpora"));
        }
    }
    let policy = &first.context.settings.policy;
    let max_q = policy.rule(&LABEL_Q).unwrap_or(DEFAULT_MAX_Q);
    let grid = first.context.model.grid();
    let roles = firm_role_labels(first);
    // Labels from random tokens do not depend on the corpus, so another corpus cannot confirm them.
    let (of_random_tokens, fixed_labels): (Vec<_>, Vec<_>) =
        roles.partition(|(_, label)| registry::is_random_token_label(&label.label));
    let reason = first.unreadable_corpus_reason().map_or_else(String::new, |reason| format!(": {reason}"));
    let random = match of_random_tokens.len() {
        0 => String::new(),
        count => format!(" but {count} from random tokens, which no corpus changes"),
    };
    ensure!(!fixed_labels.is_empty(), "`{}` has no firm label to confirm{random}{reason}", first.file);
    let results: Vec<Vec<InCorpus>> =
        others.iter().map(|side| test_in_corpus(first, side, &fixed_labels, max_q)).collect();
    let labels = fixed_labels.iter().enumerate().map(|(number, (place, label))| {
        label_with_results(grid, (*place, label), results.iter().map(|results| results[number].clone()).collect())
    });
    let corpus = |(side, results): (&Side, &Vec<InCorpus>)| CorpusOutcome {
        report: side.description(),
        tested: results.iter().filter(|one| one.q.is_some()).count(),
        confirmed: results.iter().filter(|one| one.is_confirmed).count(),
        untested: untested_reasons(first, side, &fixed_labels, results),
    };
    Ok(ConfirmOutcome {
        schema_version: SCHEMA_VERSION,
        fixed_by: FixedBy {
            report: first.description(),
            policy_sha256: policy.digest(),
            started_at: first.context.run.as_ref().map(|run| run.started_at.clone()),
            label_q: max_q,
        },
        of_random_tokens: of_random_tokens.len(),
        corpora: others.iter().zip(&results).map(corpus).collect(),
        labels: labels.collect(),
        other_weights: others
            .iter()
            .filter(|side| !side.has_same_weights(first))
            .map(|side| side.file.clone())
            .collect(),
    })
}

/// Firm roles of the heads, as (head index, label). Heads that write a constant are left out, unless all heads do.
/// The label `broad` is left out, because heads of untrained models have it as well.
fn firm_role_labels(side: &Side) -> impl Iterator<Item = (usize, Label)> + '_ {
    let model = &side.context.model;
    let is_at_work = |place: usize| !model.constant_heads_unless_all().contains(&model.grid().head_place(place));
    let heads = side.results.assessments(&side.context.settings.policy).into_iter().enumerate();
    let heads = heads.filter(move |(place, _)| is_at_work(*place));
    heads.flat_map(|(place, assessed)| {
        let firm = assessed.into_iter().filter(|one| one.meets_rule && is_firm_role(&one.label));
        firm.map(move |one| (place, one.label))
    })
}

/// Reasons why labels of the first report could not be tested in another corpus, with counts, the most frequent first.
fn untested_reasons(first: &Side, side: &Side, fixed_labels: &[(usize, Label)], results: &[InCorpus]) -> Vec<String> {
    let units = side.unit_count_if_too_few();
    let reason = |((_, label), one): (&(usize, Label), &InCorpus)| {
        if one.q.is_some() {
            return None;
        }
        Some(if let Some(units) = &units {
            format!("no label can be tested: {units}")
        } else if !first.has_comparable_counts(side, &label.label) {
            format!(
                "`{}` depends on token counts, which differ between these corpora (analyse both with one file of `--counts`)",
                label.label
            )
        } else {
            format!("`{}` has too little text in the other corpus, or was not measured there", label.label)
        })
    };
    let counts = fixed_labels.iter().zip(results).filter_map(reason).counts();
    let reasons = counts.into_iter().map(|(why, count)| (Reverse(count), why)).sorted();
    reasons.map(|(Reverse(count), why)| format!("{} not tested: {why}", format_count(count, "label"))).collect()
}

/// Tests the labels of the first report, each as (head index, label), in another corpus. Returns one result per label.
/// q-values are corrected over the labels that could be tested; a confirmed label has a q-value of at most `max_q`.
fn test_in_corpus(first: &Side, side: &Side, fixed_labels: &[(usize, Label)], max_q: f64) -> Vec<InCorpus> {
    let assessed = side.results.assessments_by_direction(&side.context.settings.policy);
    let assessment = |(place, label): &(usize, Label)| {
        let is_same = |one: &&Assessment| (&one.label.label, one.label.direction) == (&label.label, label.direction);
        assessed[*place].iter().find(is_same).filter(|one| first.has_comparable_counts(side, &one.label.label))
    };
    let assessments: Vec<Option<&Assessment>> = fixed_labels.iter().map(assessment).collect();
    let p: Vec<f64> = assessments.iter().flatten().filter_map(|one| one.label.test.p).collect();
    let mut q = benjamini_hochberg(&p).into_iter();
    let corpus = side.description().corpus;
    let outcome = |assessment: Option<&Assessment>| {
        let Some(Assessment { label, meets_rule: fires, .. }) = assessment else {
            return InCorpus { corpus: corpus.clone(), ..InCorpus::default() };
        };
        let q = label.test.p.and_then(|_| q.next());
        InCorpus {
            corpus: corpus.clone(),
            score: Some(label.score),
            ci95: label.ci95,
            threshold: Some(label.threshold),
            standard_error: label.test.standard_error,
            p: label.test.p,
            q,
            is_confirmed: side.results.could_read_text && *fires && q.is_some_and(|q| q <= max_q),
        }
    };
    assessments.into_iter().map(outcome).collect()
}

/// Joins a label of the first report with its results in the other corpora, and predicts its score in a further corpus.
fn label_with_results(grid: HeadGrid, (place, label): (usize, &Label), results: Vec<InCorpus>) -> ConfirmedLabel {
    let excess = |one: &InCorpus| Some((one.score? - one.threshold?, one.standard_error?));
    let excesses: Vec<(f64, f64)> = results.iter().filter_map(excess).collect();
    let prediction = RandomEffects::new(&excesses).and_then(|effects| {
        let ci95 = effects.prediction()?;
        Some(Prediction { mean: effects.mean, tau: effects.tau, ci95, is_robust: ci95.low() > 0.0 })
    });
    ConfirmedLabel {
        place: grid.head_place(place),
        label: label.label.clone(),
        direction: label.direction,
        score: label.score,
        tested_in: results.iter().filter(|one| one.q.is_some()).count(),
        confirmed_in: results.iter().filter(|one| one.is_confirmed).count(),
        prediction,
        corpora: results,
    }
}

pub const SCHEMA_VERSION: u32 = 1;

/// Firm (significant) labels of one report, tested again over other corpora.
#[derive(Serialize, JsonSchema)]
pub struct ConfirmOutcome {
    /// Version of this document's schema, raised when a key changes its meaning or goes away.
    pub schema_version: u32,
    /// First report, whose firm labels are tested over the other corpora, and its policy.
    pub fixed_by: FixedBy,
    /// Number of firm labels of the first report that are left out: they rest on random tokens, so no corpus changes them.
    pub of_random_tokens: usize,
    /// Number of tested and of confirmed labels in each other corpus.
    pub corpora: Vec<CorpusOutcome>,
    /// Firm labels of the first report, head by head, with their results in each other corpus. Left out are `broad`, labels
    /// that rest on random tokens, and labels of heads that write a constant (unless all heads do).
    pub labels: Vec<ConfirmedLabel>,
    /// Paths of the reports whose model has other weights than the first report's model; empty if all weights are equal.
    pub other_weights: Vec<String>,
}

/// First report, whose firm labels are tested over the other corpora, and its policy.
#[derive(Serialize, JsonSchema)]
pub struct FixedBy {
    /// File, model and corpus of the report.
    #[serde(flatten)]
    pub report: Described,
    /// SHA-256 of the report's policy, by which all reports are labelled.
    pub policy_sha256: String,
    /// Time at which the run behind the report began; null where the report does not say.
    pub started_at: Option<String>,
    /// Largest q-value at which a label counts as confirmed.
    #[schemars(range(min = 0, max = 1))]
    pub label_q: f64,
}

/// Number of tested and of confirmed labels in another corpus.
#[derive(Serialize, JsonSchema)]
pub struct CorpusOutcome {
    /// File, model and corpus of the other report.
    #[serde(flatten)]
    pub report: Described,
    /// Number of the first report's firm labels that could be tested in this corpus.
    pub tested: usize,
    /// Number of the first report's firm labels that are confirmed in this corpus.
    pub confirmed: usize,
    /// Reasons why firm labels of the first report could not be tested in this corpus; empty if all were tested.
    pub untested: Vec<String>,
}

/// A firm label of the first report, with its results in the other corpora.
#[derive(Serialize, JsonSchema)]
pub struct ConfirmedLabel {
    /// Layer and number of the head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Name of the label, such as `syntactic:obj`.
    pub label: String,
    /// Direction of attention, between dependent and syntactic head; null for a label without one.
    pub direction: Option<Direction>,
    /// Score of the label in the first report, on the label's own scale.
    pub score: f64,
    /// Number of corpora in which the label could be tested.
    pub tested_in: usize,
    /// Number of corpora in which the label is confirmed.
    pub confirmed_in: usize,
    /// Prediction of the difference `score - threshold` in a further corpus; null if fewer than five corpora have the label.
    pub prediction: Option<Prediction>,
    /// Results of the label in each other corpus, in the order of `corpora`.
    pub corpora: Vec<InCorpus>,
}

/// Result of a firm label of the first report in another corpus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct InCorpus {
    /// Name of the corpus.
    pub corpus: String,
    /// Score of the label in this corpus; null where it was not measured.
    pub score: Option<f64>,
    /// 95 % interval of the score; null where there is none.
    pub ci95: Option<Interval>,
    /// Threshold that the score has to reach in this corpus; null without a score.
    pub threshold: Option<f64>,
    /// Standard error of the difference `score - threshold`; null if there is none.
    pub standard_error: Option<f64>,
    /// One-sided p-value of the label's rule; null where it was not tested.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// `p` corrected by Benjamini & Hochberg over all labels tested in this corpus; null if the label was not tested.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// Whether the label is confirmed in this corpus: its rule holds, with a q-value of at most `label_q`.
    pub is_confirmed: bool,
}

/// Prediction of a label's difference `score - threshold` in a further corpus, from a random-effects model of the tested
/// corpora.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// Mean of `score - threshold` over the corpora.
    pub mean: f64,
    /// Standard deviation of `score - threshold` between corpora, beyond sampling error.
    pub tau: f64,
    /// 95 % prediction interval of `score - threshold`.
    pub ci95: Interval,
    /// Whether the label is robust: the whole prediction interval is above 0.
    pub is_robust: bool,
}

/// Maximum number of listed labels without `--full`.
const MAX_LABELS: usize = 30;

/// Renders the outcome as text. With `full` it lists every label.
fn render_text(outcome: &ConfirmOutcome, full: bool) -> Summary {
    Summary::from_writer(|out| {
        let ConfirmOutcome { fixed_by, of_random_tokens, corpora, labels, other_weights, .. } = outcome;
        writeln!(out, "{}", verdict(labels, corpora.len()))?;
        let FixedBy { report, policy_sha256, started_at, label_q } = fixed_by;
        let policy = if full { format!(", policy {}", &policy_sha256[..12]) } else { String::new() };
        let began = started_at.as_ref().map_or_else(String::new, |at| format!(", run of {at}"));
        let report = report.in_words();
        writeln!(out, "Labels: the firm ones (without `broad`) of {report}{began}{policy}.")?;
        writeln!(
            out,
            "A label is confirmed in a corpus where the test shows its score beyond its threshold (q <= {label_q}, corrected over these labels alone)."
        )?;
        if *of_random_tokens > 0 {
            let (labels, are) = (format_count(*of_random_tokens, "more label"), plural(of_random_tokens, "is", "are"));
            writeln!(out, "{labels} {are} from random tokens, which no corpus changes: left out.")?;
        }
        if !other_weights.is_empty() {
            writeln!(out, "Weights that differ from the first report's: {}.", one_line(&other_weights.join(", ")))?;
        }
        out.add_blank_line();
        let row = |CorpusOutcome { report, tested, confirmed, .. }: &CorpusOutcome| {
            [one_line(&report.in_words()), tested.to_string(), confirmed.to_string()]
        };
        out.add_table(aligned_table(["corpus", "tested", "confirmed"], corpora.iter().map(row), 1..));
        let several = corpora.len() > 1;
        for CorpusOutcome { report, untested, .. } in corpora {
            let place = if several { format!("{}: ", one_line(&report.in_words())) } else { String::new() };
            untested.iter().try_for_each(|why| writeln!(out, "{place}{}.", one_line(why)))?;
        }
        out.add_blank_line();
        write_labels(out, labels, full)
    })
}

fn verdict(labels: &[ConfirmedLabel], corpora: usize) -> String {
    let everywhere = labels.iter().filter(|label| label.confirmed_in == corpora).count();
    let nowhere = labels.iter().filter(|label| label.tested_in > 0 && label.confirmed_in == 0).count();
    let untested = labels.iter().filter(|label| label.tested_in == 0).count();
    let are = plural(&everywhere, "is", "are");
    let all = if corpora == 1 { "the other corpus".to_owned() } else { format!("all {corpora} other corpora") };
    let is_robust = |label: &&ConfirmedLabel| label.prediction.is_some_and(|prediction| prediction.is_robust);
    let robust = match labels.iter().filter(is_robust).count() {
        _ if corpora < MIN_CORPORA => String::new(),
        count => format!("; {count} {} robust", plural(&count, "is", "are")),
    };
    let nowhere = if corpora > 1 { format!(", {nowhere} in none") } else { format!(", {nowhere} not") };
    let untested = if untested > 0 { format!(", {untested} could not be tested") } else { String::new() };
    format!(
        "{everywhere} of {} {are} confirmed in {all}{nowhere}{untested}{robust}.",
        format_count(labels.len(), "firm label")
    )
}

/// Writes a table of the labels, most often confirmed ones first. Labels that no corpus could test are counted after it.
fn write_labels(out: &mut Summary, labels: &[ConfirmedLabel], full: bool) -> fmt::Result {
    let max_rows = list_limit(MAX_LABELS, full);
    let (mut sorted, untested): (Vec<&ConfirmedLabel>, Vec<_>) = labels.iter().partition(|label| label.tested_in > 0);
    sorted.sort_by_key(|label| Reverse(label.confirmed_in));
    let mut table = plain_table();
    let q = if labels.iter().all(|label| label.corpora.len() == 1) { "q" } else { "largest q" };
    let header = ["head", "label", "score", "elsewhere", q, "confirmed in"];
    // A prediction needs five corpora.
    let is_predicted = sorted.iter().any(|label| label.prediction.is_some());
    table.set_header(header.into_iter().chain(is_predicted.then_some("predicted above threshold")));
    for label in sorted.iter().take(max_rows) {
        let score = |one: &InCorpus| one.score.map_or_else(|| "-".to_owned(), |score| decimal(score, 2));
        let scores: Vec<String> = label.corpora.iter().map(score).collect();
        let largest = label.corpora.iter().filter_map(|one| one.q).max_by(f64::total_cmp);
        let interval = |Prediction { ci95, is_robust, .. }| {
            let [low, high] = [ci95.low(), ci95.high()].map(|end| decimal(end, 2));
            format!("[{low}, {high}]{}", if is_robust { ", robust" } else { "" })
        };
        let predicted = label.prediction.map_or_else(|| "-".to_owned(), interval);
        let row = [
            label.place.to_string(),
            one_line(&label.label),
            decimal(label.score, 2),
            scores.join(" "),
            largest.map_or_else(|| "-".to_owned(), significance_text),
            format!("{} of {} tested", label.confirmed_in, label.tested_in),
        ];
        table.add_row(row.into_iter().chain(is_predicted.then_some(predicted)));
    }
    if !sorted.is_empty() {
        out.add_table(table);
    }
    let more = sorted.len().saturating_sub(max_rows);
    if more > 0 {
        writeln!(out, "\nand {} (--full)", format_count(more, "more label"))?;
    }
    if untested.is_empty() {
        return Ok(());
    }
    let names = || untested.iter().map(|one| format!("{} {}", one.place, one_line(&one.label))).join(", ");
    let names = if full { names() } else { "--full names them".to_owned() };
    writeln!(out, "\nNot tested in any other corpus: {} ({names}).", format_count(untested.len(), "label"))
}
