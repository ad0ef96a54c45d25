//! Several reports side by side: how many heads have each label, and which heads keep theirs.

use std::collections::BTreeMap;

use anyhow::Result;
use itertools::Itertools;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::heads::css_colour;
use crate::export::heads::{HeadCell, label_families};
use crate::report::roles::RoleCounts;
use crate::report::{HeadReport, Report};
use crate::study::labels::{ABSENT, Label, REMOVED, UNLABELLED};
use crate::system::counts::{format_count, plural};

/// Number of heads with a label of one label family, per report; `None` if no study of a report gives the family.
#[derive(Serialize)]
struct FamilyCounts {
    name: String,
    hue: String,
    counts: Vec<Option<usize>>,
    /// Change in the number of heads between the last two reports; `None` if it is 0, or if one report lacks the number.
    change: Option<Value>,
}

/// Row of the table of heads: one attention head in all reports. A cell is `None` where a model has no such head.
#[derive(Serialize)]
struct HeadRow {
    name: String,
    cells: Vec<Option<PrimaryLabel>>,
    /// Labels that the head keeps in all reports.
    kept: String,
    /// Labels lost and gained between the last two reports.
    changed: String,
}

#[derive(Serialize)]
struct PrimaryLabel {
    primary: String,
    marks: String,
    hue: String,
}

/// Note on comparing decoders with encoders, after docs/methodology/causal.md.
const DECODERS_BESIDE_ENCODERS: &str = "Some of these models are decoders, whose tokens see those before them alone. Labels, leads over \
    chance and entropy ratios compare. Masses do not, for they are of fewer keys; nor do uas and relations, which are of the \
    words whose head is on the side that is seen; next-token and offsets to the right are of encoders alone, first-token is of \
    decoders alone, and a loss of the next token is not one of masked tokens.";

/// Renders the page of several reports, as (name, report).
pub fn render(reports: &[(String, Report)]) -> Result<Vec<u8>> {
    let heads = head_rows(reports);
    let first = |head: &&HeadRow| {
        let mut labels = head.cells.iter().map(|cell| cell.as_ref().map(|side| &side.primary));
        let one = labels.next().flatten();
        one.is_some() && labels.all(|other| other == one)
    };
    let same = heads.iter().filter(first).count();
    let keeping = heads.iter().filter(|head| !head.kept.is_empty()).count();
    let have = |number: usize| plural(&number, "has", "have");
    let kept = format!(
        "{same} of {} {} the same first label, or none, in all reports; {keeping} {} some label in all of them.",
        format_count(heads.len(), "head"),
        have(same),
        have(keeping),
    );
    let is_decoder = |(_, report): &(String, Report)| report.model.visibility.are_causal();
    let mixed = reports.iter().any(is_decoder) && !reports.iter().all(is_decoder);
    let shape = |(_, report): &(String, Report)| (report.model.family.clone(), report.model.layers, report.model.heads);
    let apart = !reports.iter().map(shape).all_equal();
    let page = context! {
        title => "Reports side by side",
        facts => [("Reports", reports.len().to_string())],
        reports => reports.iter().map(report_row).collect::<Value>(),
        // Note on the comparisons that hold.
        beside => mixed.then_some(DECODERS_BESIDE_ENCODERS),
        families => Serde(family_counts(reports)),
        kept,
        // Whether the models differ in family or in the number of layers and heads.
        apart,
        heads => Serde(heads),
        footer => "Layers and heads are counted from 0.",
    };
    super::fill_template("several", &page)
}

fn report_row((name, report): &(String, Report)) -> Value {
    context! {
        name,
        model => &report.model.id,
        grid => format!("{} × {}", report.model.layers, report.model.heads),
        corpus => report.subject(),
        sentences => report.corpus.sentences,
        firm => RoleCounts::new(report).firm_roles,
    }
}

/// Label families of all reports, with their numbers of heads.
fn family_counts(reports: &[(String, Report)]) -> Vec<FamilyCounts> {
    let mut found: Vec<FamilyCounts> = Vec::new();
    let no_heads = |family: &str| {
        let is_asked = |report: &Report| is_unlabelled_family(family) || report.label_counts.contains_key(family);
        reports.iter().map(|(_, report)| is_asked(report).then_some(0)).collect()
    };
    for (place, (_, report)) in reports.iter().enumerate() {
        for family in label_families(report) {
            let known = found.iter().position(|known| known.name == family.name);
            let at = known.unwrap_or_else(|| {
                let counts = no_heads(&family.name);
                found.push(FamilyCounts { name: family.name, hue: css_colour(family.hue), counts, change: None });
                found.len() - 1
            });
            found[at].counts[place] = Some(family.heads_by_layer.iter().sum());
        }
    }
    // Entries for heads without a label come last.
    found.sort_by_key(|family| is_unlabelled_family(&family.name));
    let change = |family: &FamilyCounts| match family.counts[..] {
        [.., Some(before), Some(after)] => Some(i64::try_from(after).ok()? - i64::try_from(before).ok()?),
        _ => None,
    };
    let changes: Vec<Option<i64>> = found.iter().map(change).collect();
    let largest = changes.iter().flatten().map(|change| change.abs()).max().unwrap_or(0).max(1);
    for (family, change) in found.iter_mut().zip(changes) {
        // The size is in per cent of the largest change of all families.
        let bar = |change: i64| {
            let size = 100.0 * change.abs() as f64 / largest as f64;
            context! { text => format!("{change:+}"), is_less => change < 0, size }
        };
        family.change = change.filter(|change| *change != 0).map(bar);
    }
    found
}

/// Labels of a head that were lost and gained between two reports: `−det, +obj ?`, lost labels first.
fn label_changes(before: &HeadReport, after: &HeadReport) -> String {
    let only = |sign: &str, one: &HeadReport, other: &HeadReport| -> Vec<String> {
        let is_in = |label: &Label| other.labels.iter().any(|known| known.label == label.label);
        let named = |label: &Label| format!("{sign}{}{}", label.label, if label.borderline { " ?" } else { "" });
        one.labels.iter().filter(|label| !is_in(label)).map(named).collect()
    };
    [only("−", before, after), only("+", after, before)].concat().join(", ")
}

/// Whether a family's name stands for heads without a label.
fn is_unlabelled_family(family: &str) -> bool {
    [UNLABELLED, ABSENT, REMOVED].contains(&family)
}

fn head_rows(reports: &[(String, Report)]) -> Vec<HeadRow> {
    let mut places: BTreeMap<[usize; 2], Vec<Option<&HeadReport>>> = BTreeMap::new();
    for (place, (_, report)) in reports.iter().enumerate() {
        for head in &report.heads {
            let at = [head.place.layer, head.place.head];
            places.entry(at).or_insert_with(|| vec![None; reports.len()])[place] = Some(head);
        }
    }
    let side = |(_, report): &(String, Report), head: &HeadReport| {
        let HeadCell { marks, hue: of, .. } = HeadCell::new(report, head);
        PrimaryLabel { primary: head.primary.clone(), marks, hue: css_colour(of) }
    };
    let head = |([layer, head], heads): ([usize; 2], Vec<Option<&HeadReport>>)| {
        let has = |head: &HeadReport, label: &str| head.labels.iter().any(|other| other.label == label);
        let in_all = |label: &&str| heads.iter().all(|head| head.is_some_and(|head| has(head, label)));
        let labels = heads.iter().flatten().take(1).flat_map(|head| &head.labels).map(|label| label.label.as_str());
        HeadRow {
            name: format!("L{layer}H{head}"),
            kept: labels.filter(in_all).join(", "),
            changed: match &heads[..] {
                [.., Some(before), Some(after)] => label_changes(before, after),
                _ => String::new(),
            },
            cells: reports.iter().zip(&heads).map(|(of, head)| head.map(|head| side(of, head))).collect(),
        }
    };
    places.into_iter().map(head).collect()
}
