//! The figure of the relations: the best head beside both baselines, each chosen on one half and scored on the other.

use std::cmp::Reverse;

use super::relation::RelationMetrics;
use super::thresholds::MIN_COUNT;
use crate::study::labels::policy::Policy;
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::system::counted::counted;

pub(super) fn figures(relations: &[RelationMetrics], policy: &Policy) -> Vec<Figure> {
    let least = policy.count(&MIN_COUNT);
    let mut shown: Vec<&RelationMetrics> = relations.iter().filter(|relation| relation.count >= least).collect();
    shown.sort_by_key(|relation| Reverse(relation.count));
    if shown.is_empty() {
        return Vec::new();
    }
    let rare = relations.len() - shown.len();
    let rare = if rare > 0 { format!(" {rare} rarer relations are left out.") } else { String::new() };
    let chart = Chart::Forest(Forest {
        scale: "words whose syntactic head is found, held out".to_owned(),
        shares: true,
        nothing: None,
        marks: ["best head", "fixed offset", "word classes"].map(str::to_owned).to_vec(),
        rows: shown.into_iter().map(row).collect(),
    });
    vec![Figure {
        name: "relations",
        title: "Dependency relations beside both baselines".to_owned(),
        reading: format!(
            "For each relation with at least {} the share of words whose syntactic head is found by the head, the fixed \
             offset and the word classes that are best: chosen on one half of the sentences and scored on the other, with 95 % \
             intervals. The head that is named is the best on all of them, and tables have the baselines over all of them. A head says something of syntax where it is to the \
             right of both baselines.{rare}",
            counted(least, "word")
        ),
        chart,
    }]
}

fn row(relation: &RelationMetrics) -> ForestRow {
    let RelationMetrics { count, place, direction, ci95, baseline, tag_baseline, .. } = relation;
    let tags = tag_baseline.as_ref().zip(ci95.tag_baseline.as_ref());
    ForestRow {
        name: format!("{} ({count})", relation.title()),
        note: format!("{place} {}", direction.name()),
        marks: vec![
            Mark::of(relation.heldout_accuracy, ci95.heldout_accuracy),
            Mark::of(baseline.heldout_accuracy, ci95.baseline.heldout_accuracy),
            tags.and_then(|(tags, ci95)| Mark::of(tags.heldout_accuracy, ci95.heldout_accuracy)),
        ],
    }
}
