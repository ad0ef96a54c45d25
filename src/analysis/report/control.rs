//! The labels found in a control run, and the labels that a head has both in the control and in the analysis.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::firm::has_firm_role;
use super::schema;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::control::Control;
use crate::studies::registry;
use crate::study::AnyStudy;
use crate::study::labels::{Label, Verdict};

/// Labels found in one control run, such as a run of the untrained model (docs/methodology/controls.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlReport {
    /// The control that was run, with its seed.
    #[serde(flatten)]
    pub control: Control,
    /// Number of labels that the heads have in the control, by category of labels, such as `syntactic:<relation>`.
    #[schemars(schema_with = "schema::counts")]
    pub label_counts: BTreeMap<String, u64>,
    /// Number of labels that a head has both in the control and in the analysis, by category of labels. Empty in reports of
    /// headscope 0.1.
    #[serde(default)]
    #[schemars(schema_with = "schema::counts")]
    pub kept_counts: BTreeMap<String, u64>,
    /// Number of attention heads with a firm role in the control; null in reports of headscope 0.1.
    #[serde(default)]
    pub firm_roles: Option<u64>,
    /// One object for each attention head that has a label in the control; empty in reports of headscope 0.1.
    #[serde(default)]
    pub heads: Vec<ControlHead>,
}

/// The labels of one attention head in a control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlHead {
    /// The attention head, by layer and number.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The labels of the head in the control, in the order in which an analysis lists them.
    #[schemars(schema_with = "schema::names")]
    pub labels: Vec<String>,
    /// The labels that the head has both in the control and in the analysis, whatever the direction of a relation.
    #[schemars(schema_with = "schema::names")]
    pub kept: Vec<String>,
}

/// The outcome of one control run.
pub struct ControlVerdicts {
    pub control: Control,
    /// The studies that ran in the control run.
    pub studies: Vec<&'static dyn AnyStudy>,
    /// The verdict on each head in the control run, layer by layer.
    pub verdicts: Vec<Verdict>,
    /// The label for how each head chooses its keys, layer by layer; `None` for a head without one.
    pub choices: Vec<Option<Label>>,
}

impl ControlReport {
    /// Compares the verdicts of a control run with the verdicts of the main `analysis`.
    pub(super) fn new(control: ControlVerdicts, analysis: &[Verdict], grid: HeadGrid) -> Self {
        let ControlVerdicts { control, studies, verdicts, choices } = control;
        let names = |verdict: &Verdict| verdict.labels.iter().map(|label| label.label.clone()).collect::<Vec<_>>();
        let head = |(index, (in_control, in_analysis)): (usize, (&Verdict, &Verdict))| {
            let labels = names(in_control);
            let labels_in_analysis = BTreeSet::from_iter(names(in_analysis));
            let kept = labels.iter().filter(|label| labels_in_analysis.contains(*label)).cloned().collect();
            ControlHead { place: grid.head_place(index), labels, kept }
        };
        let mut heads: Vec<ControlHead> = verdicts.iter().zip(analysis).enumerate().map(head).collect();
        heads.retain(|head| !head.labels.is_empty());
        // Labels of how a head chooses are counted, but never kept.
        let chosen = choices.iter().flatten().map(|label| label.label.as_str());
        let labels = heads.iter().flat_map(|head| &head.labels).map(String::as_str);
        let kept = heads.iter().flat_map(|head| &head.kept).map(String::as_str);
        Self {
            control,
            label_counts: registry::count_labels(&studies, labels.chain(chosen)),
            kept_counts: registry::count_labels(&studies, kept),
            firm_roles: Some(verdicts.iter().filter(|verdict| has_firm_role(&verdict.labels)).count() as u64),
            heads,
        }
    }

    /// Whether the head has this label both in the control run and in the main analysis.
    pub fn shares_label(&self, head: HeadPlace, label: &str) -> bool {
        let in_control = self.heads.iter().find(|other| other.place == head);
        in_control.is_some_and(|head| head.kept.iter().any(|kept| kept == label))
    }
}
