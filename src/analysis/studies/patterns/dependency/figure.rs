//! Figures of dependency relations: accuracies of attention heads beside the offset and the tag baseline.

use itertools::Itertools;

use super::assessment::{MARGIN, MIN_COUNT, testable_relations};
use super::relation::{AtDistance, BaselineIntervals, HeadAccuracy, RelationMetrics};
use super::tags::Side;
use crate::model::grid::HeadPlace;
use crate::study::labels::evidence::Direction;
use crate::study::labels::policy::Policy;
use crate::study::show::figure::{Bar, Bars, Chart, Figure, Forest, ForestRow, Mark};
use crate::system::counts::format_count;

pub(super) fn figures(relations: &[RelationMetrics], policy: &Policy) -> Vec<Figure> {
    let least = policy.count(&MIN_COUNT);
    let shown = testable_relations(relations, policy);
    if shown.is_empty() {
        return Vec::new();
    }
    let rare = relations.len() - shown.len();
    let rare = if rare > 0 { format!(" {rare} rarer relations are left out.") } else { String::new() };
    let best_head_row = |relation: &RelationMetrics| {
        let note = format!("{} {}", relation.place, relation.direction.name());
        accuracy_row(relation, note, Mark::from_value(relation.heldout_accuracy, relation.ci95.heldout_accuracy), true)
    };
    let rows = shown.into_iter().map(best_head_row).collect();
    vec![Figure {
        name: "relations",
        title: "Dependency relations beside both baselines".to_owned(),
        reading: format!(
            "For each relation with at least {} the share of words whose syntactic head is found by the head, the fixed \
             offset and the word classes that are best: chosen on one half of the sentences and scored on the other, with 95 % \
             intervals. Each row names the head that is best on all sentences; tables have its score and the baselines over all sentences. \
             A head to the right of both baselines need not be shown to be better: labels have the result of the tests (firm, beyond).{rare}",
            format_count(least, "word")
        ),
        chart: forest_chart("words whose syntactic head is found, held out", "best head", rows),
    }]
}

/// Returns the row of one relation: first `own`, the mark of an attention head, then both baselines. Accuracies are over
/// all words, or held out.
fn accuracy_row(relation: &RelationMetrics, note: String, own: Option<Mark>, is_held_out: bool) -> ForestRow {
    let RelationMetrics { count, ci95, baseline, tag_baseline, .. } = relation;
    let mark = |accuracy: f64, held_out: Option<f64>, ci95: &BaselineIntervals| {
        if is_held_out {
            Mark::from_value(held_out, ci95.heldout_accuracy)
        } else {
            Mark::from_value(Some(accuracy), ci95.accuracy)
        }
    };
    let offset = mark(baseline.accuracy, baseline.heldout_accuracy, &ci95.baseline);
    let tags = tag_baseline.as_ref().zip(ci95.tag_baseline.as_ref());
    let tags = tags.and_then(|(tags, ci95)| mark(tags.accuracy, tags.heldout_accuracy, ci95));
    ForestRow { name: format!("{} ({count})", relation.title()), note, marks: vec![own, offset, tags] }
}

/// Returns a forest chart with marks for an attention head, named `head`, and both baselines.
fn forest_chart(scale: &str, head: &str, rows: Vec<ForestRow>) -> Chart {
    Chart::Forest(Forest::in_percent(scale, [head, "fixed offset", "word classes"], rows))
}

/// Maximum number of relations in an attention head's figure; more do not fit on a card.
const MAX_HEAD_RELATIONS: usize = 6;

/// Returns up to two figures of one attention head: its accuracy by relation, and its accuracy by distance on one
/// relation.
///
/// The first shows the relations on which the head is the best one, or beats the best offset by the label margin. The
/// second shows the relation with the largest lead over the best offset, among the relations on which it is the best
/// head. Relations with too few words for a label are left out.
pub(super) fn head_figures(relations: &[RelationMetrics], place: HeadPlace, policy: &Policy) -> Vec<Figure> {
    let (least, margin) = (policy.count(&MIN_COUNT), policy.share(&MARGIN));
    let clearest = |relation: &RelationMetrics| -> Option<(f64, Direction)> {
        let head = relation.by_head.iter().find(|head| head.place == place)?;
        let lead = |direction: Direction| Some((head.versus_offset.get(direction).as_ref()?.difference, direction));
        let clearest = Direction::BOTH.into_iter().filter_map(lead).max_by(|a, b| a.0.total_cmp(&b.0));
        clearest.filter(|(lead, _)| *lead >= margin || relation.place == place)
    };
    let tested = relations.iter().filter(|relation| relation.count >= least);
    let shown = tested.filter_map(|relation| clearest(relation).map(|(lead, direction)| (lead, direction, relation)));
    let shown: Vec<(f64, Direction, &RelationMetrics)> = shown.sorted_by(|a, b| b.0.total_cmp(&a.0)).collect();
    let relation_row = |&(_, direction, relation): &(f64, Direction, &RelationMetrics)| {
        let accuracy_mark =
            |head: &HeadAccuracy| Mark::from_value(*head.accuracy.get(direction), *head.ci95.get(direction));
        let head = relation.by_head.iter().find(|head| head.place == place);
        accuracy_row(relation, direction.name().to_owned(), head.and_then(accuracy_mark), false)
    };
    let rows: Vec<ForestRow> = shown.iter().take(MAX_HEAD_RELATIONS).map(relation_row).collect();
    let best = shown.iter().map(|(.., relation)| relation).find(|relation| relation.place == place);
    let relations = (!rows.is_empty()).then(|| Figure {
        name: "relations",
        title: "Relations: words whose syntactic head it finds".to_owned(),
        reading: format!(
            "Accuracy of {place} over all words of each relation, with 95 % intervals, beside the best fixed offset and the best rules by \
             word classes."
        ),
        chart: forest_chart("", "head", rows),
    });
    relations.into_iter().chain(best.and_then(|relation| distance_figure(relation))).collect()
}

/// Returns the figure of the best attention head's accuracy by distance, from far left to far right. `None` if the report
/// has no accuracies by distance.
fn distance_figure(relation: &RelationMetrics) -> Option<Figure> {
    let bar = |at: &AtDistance| {
        let minus = if at.side == Side::Left { "−" } else { "" };
        let name = format!("{minus}{}", at.distance.replace('-', "–"));
        Bar { name, mark: Mark::from_value(at.accuracy, None), reference_level: None }
    };
    let on = |side: Side| relation.by_distance.iter().filter(move |at| at.side == side);
    let left: Vec<&AtDistance> = on(Side::Left).collect();
    let bars: Vec<Bar> = left.into_iter().rev().chain(on(Side::Right)).filter(|at| at.count > 0).map(bar).collect();
    (!bars.is_empty()).then(|| Figure {
        name: "distances",
        title: format!("{}: words found, by distance of the syntactic head", relation.title()),
        reading: format!(
            "Accuracy of {} on the words of {} whose syntactic head is so many words to the left (−) or to the right.",
            relation.place,
            relation.title()
        ),
        chart: Chart::Bars(Bars {
            x_label: "distance in words".to_owned(),
            level_name: String::new(),
            is_in_percent: true,
            bars,
        }),
    })
}
