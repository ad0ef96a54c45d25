//! The cards of one head, one relation or one label of a report, for the terminal.

use std::fmt::{self, Write};

use anyhow::Result;
use comfy_table::Table;
use itertools::Itertools;
use serde_json::{Map, Value, json};

use super::heads::{card_parts, chance_level, metric_mark};
use crate::model::grid::HeadPlace;
use crate::report::roles::shortage_lines;
use crate::report::{HeadReport, Report};
use crate::stats::interval::Interval;
use crate::studies::registry;
use crate::study::columns;
use crate::study::labels::evidence::{Direction, Reach};
use crate::study::labels::{Label, Near};
use crate::study::metrics::metric::{Column, MetricKeys};
use crate::study::show::figure::Mark;
use crate::study::show::summary::Summary;
use crate::study::show::wording::{
    TableColumn, aligned_table, column_table, decimal, percent, plus_minus, plus_minus_percent, signed_decimal,
    significance_text, word_class_deficit_text,
};
use crate::study::tracked::{RelationScores, RelationSide, TrackingHead};
use crate::system::counts::format_count;
use crate::system::printable::one_line;

/// Short card of a head: one sentence, then a table of its labels, or of the nearest labels if the head has none.
/// The table also has the label of how the head chooses where to attend.
pub fn head_card(report: &Report, head: &HeadReport) -> Summary {
    Summary::from_writer(|out| {
        write_head(out, report, head)?;
        // For a model without a loss: other measures of the effect of removing the head.
        for line in removal_remarks(report, head).filter(|_| report.model.objective.is_none()) {
            writeln!(out, "\n{}", one_line(&line))?;
        }
        write_removal_hint(out, report, head)
    })
}

/// Full card of a head: the short card, remarks of each study, metrics, and the literature on its labels.
pub fn full_head_card(report: &Report, head: &HeadReport) -> Summary {
    Summary::from_writer(|out| {
        write_head(out, report, head)?;
        if head.is_absent() {
            return Ok(());
        }
        out.add_blank_line();
        write_full_card(out, report, head)?;
        write_removal_hint(out, report, head)
    })
}

/// Sentence about a head that writes a constant (`model.constant_heads`).
pub const CONSTANT_HEAD_SENTENCE: &str = "It writes a constant, whatever it attends to.";

/// Remarks on one head from the studies that remove heads.
fn removal_remarks<'a>(report: &'a Report, head: &'a HeadReport) -> impl Iterator<Item = String> + 'a {
    let removing = report.sections.0.iter().filter(|(study, _)| study.card().removes_heads);
    removing.flat_map(|(_, section)| section.head_card(head.place, report.view_context()).lines)
}

/// Says how to measure the effect of removing the head, if the model has no loss and no study measured that effect.
fn write_removal_hint(out: &mut Summary, report: &Report, head: &HeadReport) -> fmt::Result {
    if report.model.objective.is_some() || removal_remarks(report, head).next().is_some() {
        return Ok(());
    }
    let shift = registry::first_ablation_without_predictions().card().name;
    writeln!(
        out,
        "\nNot measured: what the model loses without the head, since it has no output layer that predicts words. \
         `headscope analyze --with {shift}` removes one head at a time and measures how far the output vector turns; `--task FILE` \
         measures what each head does on a task of yours."
    )
}

fn write_head(out: &mut Summary, report: &Report, head: &HeadReport) -> fmt::Result {
    let (model, subject) = (one_line(&report.model.id), one_line(&report.subject()));
    report.unreadable_corpus_warning().map_or(Ok(()), |unread| writeln!(out, "{}\n", one_line(&unread)))?;
    writeln!(out, "{} of {model}, over {subject}\n", head.place)?;
    writeln!(out, "{}", head.description)?;
    if head.is_absent() {
        return Ok(());
    }
    if report.model.constant_heads.contains(&head.place) {
        writeln!(out, "{CONSTANT_HEAD_SENTENCE}")?;
    }
    writeln!(out)?;
    let rows = head.labels.iter().chain(&head.chooses).map(label_cells);
    let rows: Vec<[String; 7]> = rows.chain(head.nearest.iter().map(nearest_label_cells)).collect();
    if rows.is_empty() && !report.analyses_corpus() {
        writeln!(out, "No label: no corpus was asked about (`headscope analyze MODEL --task FILE -c CORPUS`).")?;
    } else if rows.is_empty() {
        writeln!(out, "No label.")?;
    } else {
        let has_q = !head.labels.is_empty();
        out.table_with_optional_columns(label_table(rows.into_iter().map(|row| (row, None))), &COLUMN_DROP_ORDER);
        if has_q {
            writeln!(out, "{Q_LEGEND}")?;
            let labels = || head.labels.iter();
            for (is_of_links, beyond) in [(false, BEYOND_LEGEND), (true, LINKS_BEYOND_LEGEND)] {
                let is_told = |reach: Reach| (reach >= Reach::Place) == is_of_links;
                if labels().any(|label| label.beaten_baseline().is_some_and(is_told)) {
                    writeln!(out, "{beyond}")?;
                }
            }
            if labels().any(|label| label.tied) {
                writeln!(
                    out,
                    "near tie: its margin is not clearly smaller than that of the first label (`headscope explain margin`)."
                )?;
            }
        }
    }
    for (label, below) in head.labels.iter().filter_map(|label| Some((label, word_class_deficit_text(label)?))) {
        writeln!(out, "On {} the head is {below} (tags).", one_line(&label.label))?;
    }
    if head.labels.is_empty() {
        shortage_lines(report).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

fn write_full_card(out: &mut Summary, report: &Report, head: &HeadReport) -> fmt::Result {
    head.labels.iter().try_for_each(|label| write_label_evidence(out, label))?;
    if let Some(group) = head.key_value_group {
        let shares = |other: &&HeadReport| {
            other.place.layer == head.place.layer && other.key_value_group == Some(group) && other.place != head.place
        };
        let others = report.heads.iter().filter(shares).map(|other| other.place).join(", ");
        writeln!(out, "It shares its keys and values with {others}.\n")?;
    }
    for (kind, runs) in &report.controls_by_kind() {
        let labels = head.labels_in_all_controls(runs).map(one_line).join(", ");
        let labels = if labels.is_empty() { "none" } else { &labels };
        writeln!(out, "Kept in the control {kind}, with every seed: {labels}.")?;
    }
    for (study, part) in card_parts(report, head.place) {
        part.lines.iter().try_for_each(|line| writeln!(out, "\n{study}: {}", one_line(line)))?;
    }
    writeln!(
        out,
        "\nMetrics, ± half of the 95 % interval, beside chance; those of several numbers are in the report:\n"
    )?;
    out.add_table(metric_table(report, head));
    write_sources(out, head)
}

const Q_LEGEND: &str = "q: false-discovery rate (`headscope explain q`).";

const BEYOND_LEGEND: &str = "beyond X: the last of three tests in a row that the attention head passes: better than (1) the best fixed offset, (2) its own \
    accuracy on other arcs of the same sentences, (3) a rule by word classes.";

const LINKS_BEYOND_LEGEND: &str = "beyond X: the last of three tests in a row that the attention head passes: better than (1) rules of place, (2) rules of \
    the same class, (3) every rule.";

/// Columns that a narrow terminal omits, by index, the first to go first: threshold, direction, baseline.
const COLUMN_DROP_ORDER: [usize; 3] = [4, 1, 3];

/// Table of label rows. It has a column for the head if a row names one.
fn label_table(rows: impl Iterator<Item = ([String; 7], Option<HeadPlace>)>) -> Table {
    let rows: Vec<_> = rows.collect();
    let head = rows.iter().any(|(_, head)| head.is_some()).then_some("head");
    let header = head.into_iter().chain(["label", "direction", "score", "baseline", "threshold", "q", "how sure"]);
    let rows = rows.into_iter().map(|(row, head)| head.map(|head| head.to_string()).into_iter().chain(row));
    let first_number = 2 + usize::from(head.is_some());
    aligned_table(header, rows, first_number..first_number + 4)
}

/// Cells of a label in the table of labels.
fn label_cells(label: &Label) -> [String; 7] {
    let sure = match (label.borderline, label.tied) {
        (false, false) => "firm",
        (false, true) => "firm, near tie",
        (true, false) => "borderline",
        (true, true) => "borderline, near tie",
    };
    let beyond = label.beaten_baseline().map_or_else(String::new, |reach| format!(", {}", reach.noun_phrase()));
    [
        one_line(&label.label),
        label.direction.map_or("", Direction::name).to_owned(),
        number_and_interval(label.score, label.ci95),
        number_or_dash(label.baseline, |baseline| decimal(baseline, 3)),
        format!("{:.3}", label.threshold),
        number_or_dash(label.test.q, significance_text),
        format!("{sure}{beyond}"),
    ]
}

/// Table cells for a label that the head comes near to without having it.
fn nearest_label_cells(near: &Near) -> [String; 7] {
    let Near { label, score, ci95, threshold, .. } = near;
    let reaches = ci95.is_none_or(|ci95| ci95.high() >= *threshold);
    let sure = if reaches { "undecided" } else { "not it" }.to_owned();
    let [none, dash] = ["", "-"].map(str::to_owned);
    [one_line(label), none, number_and_interval(*score, *ci95), dash.clone(), format!("{threshold:.3}"), dash, sure]
}

/// Verb phrase for whether a label beats a baseline, such as "is beyond". The name of the baseline follows.
fn beats_baseline_phrase(label: &Label, reach: Reach) -> &'static str {
    if label.borderline {
        "is borderline, so that nothing is said of it beyond"
    } else if label.beaten_baseline() >= Some(reach) {
        "is beyond"
    } else {
        "is not shown to be beyond"
    }
}

/// Difference of shares in percentage points, with its uncertainty.
fn points(difference: f64, ci95: Option<Interval>) -> String {
    signed_decimal(100.0 * difference, 1) + &plus_minus_percent(ci95)
}

/// q-value of a test in words. Says "not above the margin" for a test without a q-value.
fn q_or_below_margin(q: Option<f64>) -> String {
    q.map_or_else(|| "not above the margin".to_owned(), |q| format!("q {}", significance_text(q)))
}

/// Writes the evidence for a label: leads over other arcs and over word classes, and the loss if its arcs are removed.
fn write_label_evidence(out: &mut Summary, label: &Label) -> fmt::Result {
    let name = one_line(&label.label);
    if let Some(rests_on) = &label.rests_on {
        writeln!(out, "{name} refines {}.", one_line(rests_on))?;
    }
    if let Some(specific) = &label.specific {
        let is = beats_baseline_phrase(label, Reach::Relation);
        let points = points(specific.difference, specific.ci95);
        let over = "points over the other arcs of the same sentences";
        writeln!(out, "{name} {is} other arcs: {points} {over}, {}.", q_or_below_margin(specific.q))?;
    }
    // Labels below word classes are noted under the table of labels.
    if let Some(tags) = label.versus_tags.as_ref().filter(|_| label.word_class_deficit().is_none()) {
        let is = beats_baseline_phrase(label, Reach::Tags);
        let points = points(tags.lead, tags.lead_ci95);
        let over = "points over the better of offset and tags";
        writeln!(out, "{name} {is} word classes: {points} {over}, {}.", q_or_below_margin(tags.q))?;
    }
    let Some(test) = &label.knockout else { return Ok(()) };
    let Some(used) = test.used else {
        return writeln!(
            out,
            "{name}: with {}, whether the model uses them was not tested.",
            format_count(test.arcs, "arc")
        );
    };
    let cost = number_or_dash(test.loss, |loss| signed_decimal(loss, 3) + &plus_minus(test.ci95, 3));
    let used = if used { "the model uses" } else { "it is not shown that the model uses" };
    let q = test.q.map_or_else(String::new, |q| format!(", q {}", significance_text(q)));
    writeln!(out, "{name}: {used} its arcs ({cost} nats a word without them{q}, {}).", format_count(test.arcs, "arc"))
}

fn metric_table(report: &Report, head: &HeadReport) -> Table {
    let rows = report.sections.0.iter().flat_map(|(study, _)| {
        columns(*study).into_iter().filter_map(|Column { id, keys, .. }| {
            let MetricKeys::Single = keys else { return None };
            let Mark { value, ci95 } = metric_mark(head, id, None)?;
            let chance = number_or_dash(chance_level(report, head, id, None), |chance| decimal(chance, 3));
            Some([study.card().name.to_owned(), id.to_owned(), number_and_interval(value, ci95), chance])
        })
    });
    aligned_table(["study", "metric", "value", "chance"], rows, 2..)
}

/// Writes meaning, source and caveats of each label.
fn write_sources(out: &mut Summary, head: &HeadReport) -> fmt::Result {
    let entries: Vec<_> =
        head.labels.iter().chain(&head.chooses).filter_map(|label| registry::find_entry(&label.label)).collect();
    for (place, entry) in entries.iter().enumerate() {
        if entries[..place].iter().any(|before| before.name() == entry.name()) {
            continue;
        }
        let explanation = entry.explanation;
        writeln!(out, "\n{}: {} Source: {}", entry.name(), explanation.measures, explanation.source)?;
        if !explanation.caveats.is_empty() {
            writeln!(out, "  {}", explanation.caveats)?;
        }
    }
    Ok(())
}

/// Everything that the report has on a head: its own object, and the remarks of each study.
pub fn head_data(report: &Report, head: &HeadReport) -> Result<Value> {
    let parts = card_parts(report, head.place).filter(|(_, part)| !part.lines.is_empty());
    let studies: Map<String, Value> = parts.map(|(study, part)| (study.to_owned(), json!(part.lines))).collect();
    let mut data = serde_json::to_value(head)?;
    data["studies"] = Value::Object(studies);
    Ok(data)
}

/// Card of a relation: the heads that follow it best, at most `top` of them.
pub fn relation_card(tracked: &RelationScores, top: usize) -> Summary {
    Summary::from_writer(|out| {
        let RelationScores { relation, part, words, offset, offset_accuracy, tags_accuracy, heads } = tracked;
        let part = part.as_ref().map_or_else(String::new, |RelationSide { side, share }| {
            format!(" ({} % of all) whose syntactic head is on the {side}", percent(Some(*share)))
        });
        let tags = tags_accuracy
            .map_or_else(String::new, |tags| format!(", best word classes (tags): {} %", percent(Some(tags))));
        let offset_accuracy = percent(Some(*offset_accuracy));
        writeln!(
            out,
            "{}: {}{part}. Best fixed offset (the head at {offset:+}): {offset_accuracy} %{tags}. Accuracy of attention heads in %, ± half of the 95 % interval:\n",
            one_line(relation),
            format_count(*words, "word")
        )?;
        let columns: [TableColumn<TrackingHead>; 7] = [
            ("head", true, |head| head.place.to_string()),
            ("direction", true, |head| head.direction.name().to_owned()),
            ("accuracy", false, |head| percent(Some(head.accuracy)) + &plus_minus_percent(head.ci95)),
            ("over offset", false, |head| points(head.over_offset, head.over_offset_ci95)),
            ("q", false, |head| number_or_dash(head.q, significance_text)),
            ("over tags", false, |head| number_or_dash(head.over_tags, |over| points(over, head.over_tags_ci95))),
            ("accuracy where the offset is wrong", false, |head| percent(head.where_offset_wrong)),
        ];
        let table = column_table(&columns, &heads.iter().take(top).collect::<Vec<_>>());
        out.table_with_optional_columns(table, &[6, 1, 5, 3, 2, 4]);
        writeln!(
            out,
            "q: false-discovery rate of the test that the head beats the offset by more than the margin (10 points by default: \
             `headscope explain syntactic_margin`).\n-: no number. There is no q unless the head is above the offset by \
             the margin, and neither `over tags` nor `accuracy where the offset is wrong` if it is below the offset."
        )
    })
}

/// Card of a label: the heads that have the label.
pub fn label_card(found: &[(&HeadReport, &Label)]) -> Summary {
    Summary::from_writer(|out| {
        let rows = found.iter().map(|(head, label)| (label_cells(label), Some(head.place)));
        out.table_with_optional_columns(label_table(rows), &[5, 2, 4, 7, 6]);
        writeln!(out, "{Q_LEGEND}")
    })
}

pub fn label_data(found: &[(&HeadReport, &Label)]) -> Result<Vec<Value>> {
    let entry = |(head, label): &(&HeadReport, &Label)| {
        let mut entry = serde_json::to_value(head.place)?;
        entry["label"] = serde_json::to_value(label)?;
        Ok(entry)
    };
    found.iter().map(entry).collect()
}

/// Formats a number with `format`; `-` if there is no number.
fn number_or_dash(number: Option<f64>, format: impl FnOnce(f64) -> String) -> String {
    number.map_or_else(|| "-".to_owned(), format)
}

/// Number with its interval, as the table of labels shows them.
fn number_and_interval(value: f64, ci95: Option<Interval>) -> String {
    format!("{}{}", decimal(value, 3), plus_minus(ci95, 3))
}
