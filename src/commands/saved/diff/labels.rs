//! Labels that are firm on one side and out of reach on the other.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{LabelChange, LeftAside, Standing};
use super::pairs::{NumberPairs, Pair};
use super::side::Side;
use crate::studies::registry;
use crate::study::labels::Assessment;
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};

/// The labels of two sides.
pub struct Labels {
    /// The labels that changed, largest difference of scores first.
    pub changes: Vec<LabelChange>,
    /// How many are firm on either side and were compared.
    pub compared: usize,
    /// The labels that did not.
    pub left_aside: Vec<LeftAside>,
}

/// How a head stands to a label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LabelStanding {
    /// The label is firm.
    Firm,
    /// The one-sided test at 2.5 % finds that the rule does not fire.
    Out,
    /// Neither.
    Between,
}

impl LabelStanding {
    fn of(assessment: &Assessment) -> Self {
        match assessment {
            Assessment { fires: true, label, .. } if !label.borderline => Self::Firm,
            Assessment { fires: false, p_of_failing: Some(p), .. } if *p <= 0.025 => Self::Out,
            _ => Self::Between,
        }
    }
}

impl Labels {
    /// Compares the labels of every head: one changes where the number that it rests on differs with a q-value of at most
    /// `rate`, too.
    pub fn new(a: &Side, b: &Side, pairs: &NumberPairs<'_>, rate: f64) -> Self {
        let mut found = Self { changes: Vec::new(), compared: 0, left_aside: Vec::new() };
        let grid = a.circumstances.model.grid();
        if grid != b.circumstances.model.grid() {
            return found;
        }
        let numbers: BTreeMap<(usize, String), &Pair<'_>> =
            pairs.tested.iter().map(|pair| ((pair.a.head, pair.a.in_rules()), pair)).collect();
        let [ours, theirs] = [a, b].map(|side| side.findings.assessments(&side.circumstances.settings.policy));
        let (mut unlike, mut missing, mut unfounded) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let [ours, theirs] = [ours, theirs].map(|all| by_label(all));
            for label in ours.keys().chain(theirs.keys()).copied().collect::<BTreeSet<&str>>() {
                let sides = [ours.get(label).copied(), theirs.get(label).copied()];
                let reaches = sides.map(|side| side.map(LabelStanding::of));
                let Some(firm) = reaches.iter().position(|reach| *reach == Some(LabelStanding::Firm)) else { continue };
                let [Some(in_a), Some(in_b)] = sides else {
                    missing.push(label);
                    continue;
                };
                if !same_rule(label, a, b) {
                    unlike.push(label);
                    continue;
                }
                found.compared += 1;
                if reaches[1 - firm] != Some(LabelStanding::Out) {
                    continue;
                }
                // A score that is made of rates of the corpus as well rests on the number of the head in it.
                let of_head = |rule: &str| pairs.of_corpus.get(rule).map_or(rule, |[_, of_head]| of_head).to_owned();
                let pair_of = |side: &Assessment| numbers.get(&(place, of_head(&side.metric))).copied();
                let name_of = |side: &Assessment| match (pairs.of_corpus.get(&side.metric), pair_of(side)) {
                    (Some([name, _]), _) => name.clone(),
                    (None, Some(pair)) => pair.a.name.clone(),
                    (None, None) => side.metric.clone(),
                };
                let standing = |side| standing(side, name_of(side));
                match pair_of([in_a, in_b][firm]) {
                    Some(pair) if pair.q <= rate => found.changes.push(LabelChange {
                        place: grid.place(place),
                        label: label.to_owned(),
                        a: standing(in_a),
                        b: standing(in_b),
                        number: pair.a.name.clone(),
                        q: pair.q,
                    }),
                    Some(_) => {}
                    None => unfounded.push(label),
                }
            }
        }
        let size = |change: &LabelChange| (change.a.score - change.b.score).abs();
        found.changes.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let aside = |(labels, why): (Vec<&str>, &str)| {
            let of = labels.iter().map(|label| (*label).to_owned()).collect::<BTreeSet<_>>();
            (!labels.is_empty()).then(|| LeftAside {
                why: why.to_owned(),
                count: labels.len(),
                of: of.into_iter().collect(),
            })
        };
        let reasons = [
            (unlike, "firm labels have other thresholds in the two policies; --policy gives both the same"),
            (missing, "firm labels could not be assessed on the other side"),
            (unfounded, "firm labels are out of reach on the other side, and rest on numbers that were not tested"),
        ];
        found.left_aside = reasons.into_iter().filter_map(aside).collect();
        found
    }
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

/// Whether both policies have the same thresholds for a label.
fn same_rule(label: &str, a: &Side, b: &Side) -> bool {
    let [ours, theirs] = [a, b].map(|side| &side.circumstances.settings.policy);
    let own = registry::detector_of(label).map_or(&[][..], |detector| detector.thresholds);
    own.iter()
        .copied()
        .chain([&MIN_QUERIES, &MIN_SENTENCES])
        .all(|threshold| ours.get(threshold) == theirs.get(threshold))
}
