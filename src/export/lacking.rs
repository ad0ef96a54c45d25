//! Studies that give no label since they saw too little.

use std::collections::BTreeMap;

use crate::report::Report;
use crate::study::labels::evidence::EvidenceGap;
use crate::study::{AnyStudy, columns};

/// A line for each reason, with all studies that have it.
pub fn lines(report: &Report) -> Vec<String> {
    let mut studies: BTreeMap<EvidenceGap, Vec<&str>> = BTreeMap::new();
    for (study, _) in &report.sections.0 {
        if let Some(lack) = of_study(report, *study) {
            studies.entry(lack).or_default().push(study.card().name);
        }
    }
    let line = |(lack, studies): (EvidenceGap, Vec<&str>)| {
        let (count, things, least) = lack.counted();
        format!(
            "Too little for a label of {}: {count} {things}, where a label asks for {} (`{}`).",
            studies.join(", "),
            report.settings.policy.count(least),
            least.name,
        )
    };
    studies.into_iter().map(line).collect()
}

/// The data that all metrics of a study lack for any of its labels, by the metric that has most.
fn of_study(report: &Report, study: &dyn AnyStudy) -> Option<EvidenceGap> {
    let policy = &report.settings.policy;
    if !study.card().all_labels().any(|detector| detector.is_on(policy)) {
        return None;
    }
    let ids: Vec<&str> = columns(study).into_iter().map(|column| column.id).collect();
    let is_own = |name: &str| ids.contains(&name.split_once('.').map_or(name, |(id, _)| id));
    let rest_on = report.denominators.cells().filter(|(name, _)| is_own(name)).map(|(_, rests_on)| *rests_on);
    let most = rest_on.max_by_key(|rests_on| (rests_on.sentences, rests_on.count))?;
    // Not every corpus has what a study is about that runs unasked: such a one says itself that there was nothing.
    let is_said = most.count == 0 && study.card().runs_first();
    EvidenceGap::of(&most, policy).filter(|_| !is_said)
}
