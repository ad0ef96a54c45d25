//! Study of a user-supplied task: the model's accuracy, and the effect of each head on the task (docs/methodology/tasks.md).

mod section;
mod view;

use crate::passes::pass::{CorpusPortion, Pass, Sequences};
use crate::studies::ablation::losses::TaskSums;
use crate::studies::ablation::removal::SingleHeadsAndAll;
use crate::study::metrics::metric;
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, Labelling, ObservedPasses, PassSpec, Study, Term, Unit,
    UpstreamResults, VerdictRule, columns,
};
use section::{METRICS, TaskResult, overall_effect};

pub struct UserTask;

impl Study for UserTask {
    type Section = TaskResult;

    const CARD: Card = Card {
        name: "task",
        removes_heads: true,
        question: "What can the model do of a task of yours, and which heads does it need for that?",
        needs: "a file of items (`--task`), and a model with the head that they take; no corpus: a pass over a \
            sample of the items for every two heads",
        metrics: || metric::explanations_with_keys(METRICS),
        range: |metric| if is_accuracy_metric(metric) { -1.0..=1.0 } else { f64::NEG_INFINITY..=f64::INFINITY },
        unit: |metric| if is_accuracy_metric(metric) { Unit::Shares } else { Unit::Nats },
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["task-effects"],
        drawn_metrics: &[("task_effect", "Loss of the task without it, an item more")],
        tables: &["task_effects", "task_effects_by_group"],
        options: &["task"],
        verdicts: VERDICTS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = Pass { sequences: Sequences::Task, portion: CorpusPortion::Sample, ..Pass::PLAIN };
        vec![PassSpec::new(pass, |subject| TaskSums::new(subject.grid, SingleHeadsAndAll))]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &TaskSums = observed.first_sums();
        let estimates = sums.estimate_metrics(
            &columns(self),
            context,
            metric::table_values(METRICS),
            "task_effect",
            overall_effect,
        );
        let task = TaskResult::new(sums, observed.left_out_sentences(), &estimates, context);
        (estimates, task)
    }

    fn upstream_results(
        &self,
        observed: &ObservedPasses<'_>,
        section: &Self::Section,
        _: &Labelling<'_>,
    ) -> UpstreamResults {
        let sums: &TaskSums = observed.first_sums();
        let rankings = sums.rank_by_effect("task", overall_effect);
        let (negligible, obstacle) = (section.negligible_heads(), section.obstacle);
        UpstreamResults { rankings, negligible, obstacle, ..UpstreamResults::default() }
    }
}

/// Whether a metric is the effect of removing a head on the accuracy, `task_right_effect`.
fn is_accuracy_metric(metric: &str) -> bool {
    metric == "task_right_effect"
}

const VERDICTS: &[VerdictRule] = &[
    VerdictRule {
        verdict: "a model can do a task",
        statistic: "share of items right less its baseline",
        margin: "0",
        test_family: "the task alone",
        min_evidence: MIN_EVIDENCE_TEXT,
        printed: "the share with its interval, the baseline",
    },
    VerdictRule {
        verdict: "`helpful`, `harmful`, `negligible` for a task",
        statistic: "`task_effect`",
        margin: "as in `effect`; none where items or units are too few, the model cannot do the task, or one answer is right for more than \
            60 % of the items",
        test_family: "as in `effect`",
        min_evidence: MIN_EVIDENCE_TEXT,
        printed: "effect with its interval, q; the change in the share right",
    },
];
const MIN_EVIDENCE_TEXT: &str = "{min_queries} items in {min_sentences} units";

const CAVEATS: &[Caveat] = &[Caveat {
    id: "task-items",
    text: "Effects on a task are about more items like these: heads that matter for these templates may not for others, and several \
            heads without an effect may do one thing together.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<TaskResult>(labelling.section).items > 0,
}];

const TERMS: &[Term] = &[Term {
    name: "item",
    other_names: &["task", "foil"],
    meaning: "One question of a task of the user's own (`--task FILE`): a text with its label; a text with a mask or a prompt, whose \
            answer should be more probable than the foil; or a good and a bad text, where the good one should be more probable. The score of \
            an item is the log-probability of the label, or the difference of both. Items of one `family` are one sampling unit.",
    page: "tasks.md",
}];

#[cfg(test)]
mod tests;
