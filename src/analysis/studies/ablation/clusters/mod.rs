//! Ablation of clusters of similar heads: the whole cluster, and all but one of its heads (docs/methodology/similarity.md).

mod section;
mod sets;

use crate::passes::pass::{CorpusPortion, CorruptedVariants, Pass, Sequences};
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Subject, Term,
    VerdictRule,
};
use section::{Effects, OutputShifts};
use sets::{ClusterLosses, ClusterShifts, ClusterTaskSums, Clusters};

pub struct ClusterEffect;

impl Study for ClusterEffect {
    type Section = Effects;

    const CARD: Card = Card {
        name: "cluster-effect",
        removes_heads: true,
        question: "What does the model lose without heads that look alike, and without all but one of them?",
        needs: "as `effect`, when `similarity` is over, and all of a corpus at once: up to 22 passes for each head of a \
            cluster; with `--task` on the task, and `task` runs instead",
        builds_on: &["effect", "similarity"],
        builds_on_with_task: Some(&["task", "similarity"]),
        is_default_with_builds_on: true,
        terms: TERMS,
        verdicts: VERDICTS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = |sequences| Pass { sequences, portion: CorpusPortion::Sample, ..Pass::PLAIN };
        let clusters = |subject: &Subject<'_>| Clusters::with_random_sets(&subject.upstream.clusters, subject.grid);
        let of_tokens = move |subject: &Subject<'_>| ClusterLosses::new(subject.grid, clusters(subject));
        let of_task = move |subject: &Subject<'_>| ClusterTaskSums::new(subject.grid, clusters(subject));
        vec![
            PassSpec::new(pass(Sequences::Corrupted(CorruptedVariants::Requested)), of_tokens).in_second_stage(),
            PassSpec::new(pass(Sequences::Task), of_task).in_second_stage(),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let of_task = observed.all_sums::<ClusterTaskSums>().next().map(|sums| Effects::new(sums, context));
        let cluster_effect = of_task.unwrap_or_else(|| Effects::new(observed.first_sums::<ClusterLosses>(), context));
        (Estimates::without_metrics(context.grid.head_count()), cluster_effect)
    }
}

pub struct ClusterShift;

impl Study for ClusterShift {
    type Section = OutputShifts;

    const CARD: Card = Card {
        name: "cluster-shift",
        removes_heads: true,
        former_name: Some("cluster-drift"),
        question: "How far does the output move without heads that look alike, and without all but one of them?",
        needs: "as `output-shift`, when `similarity` is over, and all of a corpus at once: two passes for each head of a \
            cluster",
        builds_on: &["output-shift", "similarity"],
        is_default_with_builds_on: true,
        caveats: CAVEATS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![
            PassSpec::new(Pass { portion: CorpusPortion::Sample, ..Pass::PLAIN }, |subject| {
                ClusterShifts::new(subject.grid, Clusters::without_random_sets(&subject.upstream.clusters))
            })
            .in_second_stage(),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        (Estimates::without_metrics(context.grid.head_count()), OutputShifts::new(observed.first_sums(), context))
    }
}

const VERDICTS: &[VerdictRule] = &[
    VerdictRule {
        verdict: "`stand-in`, `share` of a cluster",
        statistic: "loss without all of its heads less that without each, added up",
        margin: "0, from both sides",
        test_family: "all clusters that are kept",
        min_evidence: MIN_EVIDENCE_TEXT,
        printed: "difference with its interval, q",
    },
    VerdictRule {
        verdict: "one will do, of a cluster",
        statistic: "loss without all but one less that with all, for each that is kept: the largest p",
        margin: "both ends of the band of `negligible`, from within",
        test_family: "all clusters where each such change is within the band",
        min_evidence: MIN_EVIDENCE_TEXT,
        printed: "the band, q, and in how many of 20 random sets of as many heads of the same layers one would do",
    },
];
const MIN_EVIDENCE_TEXT: &str = "{min_queries} predicted tokens in {min_sentences} sentences";

const CAVEATS: &[Caveat] = &[Caveat {
    id: "cluster-shift-geometry",
    text: "A shift grows with the square of what is missing: heads that move the output the same way move it more together \
            than one by one, whether or not one of them would do.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| !downcast_section::<OutputShifts>(labelling.section).clusters.is_empty(),
}];

const TERMS: &[Term] = &[Term {
    name: "stand-in",
    other_names: &["one_will_do", "all_but_one", "random_sets", "sum of each", "interplay"],
    meaning: "Of a cluster, of the study `cluster-effect`: the model loses more without all of its heads than without each, added \
            up, beyond chance. One will do if without all but one the change is surely negligible, whichever is kept; beside it \
            stands in how many of 20 random sets of as many heads of the same layers one would do as well.",
    page: "similarity.md",
}];

#[cfg(test)]
mod tests;
