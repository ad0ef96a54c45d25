//! The figure of coreference: the best head beside rules without a head, for each kind of anaphors.

use super::section::{Coreference, KindMetrics};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};

pub(super) fn figures(coreference: &Coreference) -> Vec<Figure> {
    if coreference.kinds.is_empty() {
        return Vec::new();
    }
    let row = |kind: &KindMetrics| {
        let alone = |value: f64| Mark::of(Some(value), None);
        let rules = kind.baselines;
        ForestRow {
            name: format!("{} ({})", kind.kind, kind.count),
            note: kind.place.to_string(),
            marks: vec![
                Mark::of(kind.heldout_accuracy, kind.ci95.heldout_accuracy),
                alone(rules.nearest),
                alone(rules.same_lemma),
                alone(rules.agreement),
            ],
        }
    };
    let chart = Chart::Forest(Forest {
        scale: "anaphors whose antecedent is found".to_owned(),
        shares: true,
        nothing: None,
        marks: ["best head, held out", "nearest", "same lemma", "agreement"].map(str::to_owned).to_vec(),
        rows: coreference.kinds.iter().map(row).collect(),
    });
    vec![Figure {
        name: "coreference",
        title: "Antecedents beside rules without a head".to_owned(),
        reading: "For each kind of anaphors the share whose antecedent is found: by the head that is best on one half of the \
            sentences, scored on the other, with its 95 % interval, and by three rules that use no head."
            .to_owned(),
        chart,
    }]
}
