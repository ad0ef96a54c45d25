//! The text of a confirmation, for people.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use comfy_table::CellAlignment;

use super::{ConfirmOutcome, ConfirmedLabel, CorpusOutcome, FixedBy};
use crate::commands::saved::sides::described::most;
use crate::stats::random_effects::FEWEST_CORPORA;
use crate::study::show::summary::Summary;
use crate::study::show::wording::{decimal, plain_table, significance};
use crate::system::counted::{counted, plural};
use crate::system::printable::one_line;

/// The longest list of labels that is shown unless all is asked for.
const LABELS: usize = 30;

/// The text; with `full` every label.
pub fn render(outcome: &ConfirmOutcome, full: bool) -> Summary {
    Summary::written(|out| {
        let ConfirmOutcome { fixed_by, of_random_tokens, corpora, labels, other_weights, .. } = outcome;
        writeln!(out, "{}", verdict(labels, corpora.len()))?;
        let FixedBy { report, policy_sha256, started_at, label_q } = fixed_by;
        let began = started_at.as_ref().map_or_else(String::new, |at| format!(", run of {at}"));
        writeln!(out, "Fixed by {}{began}, policy {}; q <= {label_q}.", report.in_words(), &policy_sha256[..12])?;
        if *of_random_tokens > 0 {
            let (labels, are) = (counted(*of_random_tokens, "more label"), plural(of_random_tokens, "is", "are"));
            writeln!(out, "{labels} {are} from random tokens, which no corpus changes: left out.")?;
        }
        if !other_weights.is_empty() {
            writeln!(out, "Other weights than those of the first report: {}.", one_line(&other_weights.join(", ")))?;
        }
        out.blank();
        let mut table = plain_table();
        table.set_header(["corpus", "tested", "confirmed"]);
        for CorpusOutcome { report, tested, confirmed, .. } in corpora {
            table.add_row([one_line(&report.in_words()), tested.to_string(), confirmed.to_string()]);
        }
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        out.table(table);
        let several = corpora.len() > 1;
        for CorpusOutcome { report, untested, .. } in corpora {
            let place = if several { format!("{}: ", one_line(&report.in_words())) } else { String::new() };
            untested.iter().try_for_each(|why| writeln!(out, "{place}{}.", one_line(why)))?;
        }
        out.blank();
        list(out, labels, full)
    })
}

fn verdict(labels: &[ConfirmedLabel], corpora: usize) -> String {
    let everywhere = labels.iter().filter(|label| label.confirmed_in == corpora).count();
    let nowhere = labels.iter().filter(|label| label.tested_in > 0 && label.confirmed_in == 0).count();
    let untested = labels.iter().filter(|label| label.tested_in == 0).count();
    let are = plural(&everywhere, "is", "are");
    let corpora_in_words = match corpora {
        1 => "the other corpus".to_owned(),
        _ => format!("all {corpora} other corpora"),
    };
    let robust = if corpora >= FEWEST_CORPORA {
        let robust =
            labels.iter().filter(|label| label.prediction.is_some_and(|prediction| prediction.is_robust)).count();
        format!("; {robust} {} robust", plural(&robust, "is", "are"))
    } else {
        String::new()
    };
    let nowhere = if corpora > 1 { format!(", {nowhere} in none") } else { format!(", {nowhere} not") };
    let untested = if untested > 0 { format!(", {untested} could not be tested") } else { String::new() };
    format!(
        "{everywhere} of {} {are} confirmed in {corpora_in_words}{nowhere}{untested}{robust}.",
        counted(labels.len(), "firm label")
    )
}

/// The labels that are confirmed most often come first. Those that no corpus could test are counted after the table.
fn list(out: &mut Summary, labels: &[ConfirmedLabel], full: bool) -> fmt::Result {
    let most = most(LABELS, full);
    let (mut sorted, untested): (Vec<&ConfirmedLabel>, Vec<_>) = labels.iter().partition(|label| label.tested_in > 0);
    sorted.sort_by_key(|label| Reverse(label.confirmed_in));
    let mut table = plain_table();
    table.set_header(["head", "label", "score", "elsewhere", "largest q", "confirmed in", "predicted above threshold"]);
    for label in sorted.iter().take(most) {
        let scores: Vec<String> = label
            .corpora
            .iter()
            .map(|one| one.score.map_or_else(|| "-".to_owned(), |score| decimal(score, 2)))
            .collect();
        let largest = label.corpora.iter().filter_map(|one| one.q).max_by(f64::total_cmp);
        let predicted = label.prediction.map_or_else(
            || "-".to_owned(),
            |prediction| {
                let [low, high] = [prediction.ci95.low(), prediction.ci95.high()].map(|end| decimal(end, 2));
                format!("[{low}, {high}]{}", if prediction.is_robust { ", robust" } else { "" })
            },
        );
        table.add_row([
            label.place.to_string(),
            one_line(&label.label),
            decimal(label.score, 2),
            scores.join(" "),
            largest.map_or_else(|| "-".to_owned(), significance),
            format!("{} of {} tested", label.confirmed_in, label.tested_in),
            predicted,
        ]);
    }
    if !sorted.is_empty() {
        out.table(table);
    }
    let more = sorted.len().saturating_sub(most);
    if more > 0 {
        writeln!(out, "\nand {} (--full)", counted(more, "more label"))?;
    }
    if untested.is_empty() {
        return Ok(());
    }
    let names = untested.iter().map(|one| format!("{} {}", one.place, one_line(&one.label)));
    let named = if full { names.collect::<Vec<_>>().join(", ") } else { "--full names them".to_owned() };
    writeln!(out, "\nNot tested in any other corpus: {} ({named}).", counted(untested.len(), "label"))
}
