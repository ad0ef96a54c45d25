//! Heads that do a task together: gates of all heads, fitted for a low loss with few open gates (docs/methodology/gates.md).

mod section;
mod sums;
mod view;

use crate::passes::pass::{CorpusPortion, CorruptedVariants, EventKind, Pass, Sequences};
use crate::sequences::derived::task::TaskKind;
use crate::study::section::downcast_section;
use crate::study::show::terms::Term;
use crate::study::verdict_rule::VerdictRule;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Subject,
};
use section::GatesResult;
use sums::{FoldFits, KeptHeadItemSums, KeptHeadLossSums, KeptHeadSets};

pub struct FittedGates;

impl Study for FittedGates {
    type Section = GatesResult;

    const CARD: Card = Card {
        name: "gates",
        allows_absent_heads: true,
        removes_heads: true,
        question: "Which heads do the task together?",
        needs: "as `gradient`, with about 20 passes forward and backward over half of the sample for each of ten fits; runs `effect` as \
            well; with `--task` on the task, unless its items are triples, and `task` runs instead",
        builds_on: &["effect"],
        builds_on_with_task: Some(&["task"]),
        // Triples are excluded: their scores come from hidden states, not from logits.
        task_kinds: &[TaskKind::Classify, TaskKind::Tag, TaskKind::Cloze, TaskKind::Pair],
        caveats: CAVEATS,
        terms: TERMS,
        figures: &["gates"],
        tables: &["gates"],
        verdicts: VERDICTS,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let passes_over = |sequences| -> Vec<PassSpec> {
            let pass = |portion, shown| Pass { sequences, portion, shown, ..Pass::PLAIN };
            let fitted = |portion| PassSpec::new(pass(portion, EventKind::Fits), |subject| FoldFits::new(subject.grid));
            let alone_pass = pass(CorpusPortion::Sample, EventKind::Activations);
            let scored = if sequences == Sequences::Task {
                PassSpec::new(alone_pass, |subject| KeptHeadItemSums::new(subject.grid, kept_head_sets(subject)))
            } else {
                PassSpec::new(alone_pass, |subject| KeptHeadLossSums::new(subject.grid, kept_head_sets(subject)))
            };
            vec![fitted(CorpusPortion::EvenSample), fitted(CorpusPortion::OddSample), scored.in_second_stage()]
        };
        [Sequences::Corrupted(CorruptedVariants::Requested), Sequences::Task]
            .into_iter()
            .flat_map(passes_over)
            .collect()
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let fits = fold_fits(observed).expect("a study gets back the sums that it gave");
        let of_task = observed.all_sums::<KeptHeadItemSums>().next().map(|sums| GatesResult::new(fits, sums, context));
        let gates =
            of_task.unwrap_or_else(|| GatesResult::new(fits, observed.first_sums::<KeptHeadLossSums>(), context));
        (Estimates::without_metrics(context.grid.head_count()), gates)
    }
}

/// The gate fits to the even-numbered and the odd-numbered blocks. `None` before the fits exist.
fn fold_fits<'a>(observed: &ObservedPasses<'a>) -> Option<[&'a FoldFits; 2]> {
    let folds: Vec<&FoldFits> = observed.all_sums().collect();
    folds.try_into().ok()
}

/// Sets of kept heads, each to be scored with all other gated heads removed; empty before the gates are fitted.
fn kept_head_sets(subject: &Subject<'_>) -> KeptHeadSets {
    let sets_of = |folds| KeptHeadSets::new(folds, subject.upstream.obstacle, subject.first_layers);
    fold_fits(&subject.first_stage_sums).map(sets_of).unwrap_or_default()
}

const VERDICTS: &[VerdictRule] = &[VerdictRule {
    verdict: "these heads do the task together",
    statistic: "rise of the loss with the set of one half of the sample alone, on the other half; both ways",
    margin: "1 % of the loss, from below; of cloze items and pairs, whose loss may be below 0, 1 % of what all heads are worth; none where \
        nothing can be said of the task (`task`)",
    test_family: "both sets together",
    min_evidence: "{min_queries} predicted tokens in {min_sentences} sentences, or items in units",
    printed: "the rise with its interval, the margin, the rise with random sets of as many heads",
}];

const CAVEATS: &[Caveat] = &[Caveat {
    id: "gates-no-single-head",
    text: "In how many fits a head is kept is no verdict on it: of heads that can stand in for each other a fit keeps some, and \
            another fit may keep others.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<GatesResult>(labelling.section).fit_count() > 0,
}];

const TERMS: &[Term] = &[Term {
    name: "fitted gates",
    other_names: &["price", "starts", "do the task together"],
    meaning: "A gate from 0 to 1 stands between a head and what replaces a removed one: 1 is the head, 0 the replacement. The gates of all \
            heads are fitted together, so that the loss and the price of open gates are least; a whole head costs the band of `negligible`. \
            There are five starts in each half of the sample. A fit keeps a head whose gate is .5 or more. The set of a half has the heads \
            that four of its five fits keep; it is scored alone on the other half.",
    page: "gates.md",
}];

#[cfg(test)]
mod tests;
