//! How many heads can be pruned: the loss while heads are removed one after another (docs/methodology/pruning.md).

mod section;
mod view;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::passes::pass::{CorpusPortion, CorruptedVariants, Pass, Sequences};
use crate::study::section::downcast_section;
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Ranking, Study, Subject,
};
use section::{Curves, Orders, PruningSums, TaskPruningSums};

pub struct Pruning;

/// Number of random pruning orders for comparison. Three orders show how far random orders differ from each other.
const RANDOM_ORDER_COUNT: u64 = 3;

/// Random pruning orders of this many heads.
fn random_orders(heads: usize) -> impl Iterator<Item = Ranking> {
    (0..RANDOM_ORDER_COUNT).map(move |seed| {
        let mut places: Vec<usize> = (0..heads).collect();
        places.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        Ranking { by: format!("random:{seed}"), places }
    })
}

impl Study for Pruning {
    type Section = Curves;

    const CARD: Card = Card {
        name: "pruning",
        removes_heads: true,
        question: "How many heads can go, and in which order?",
        needs: "as `effect`, with a pass for each head in each order; runs `effect` and `gradient` as well; with \
            `--task` on the task, and `task` runs instead",
        builds_on: &["effect", "gradient"],
        builds_on_with_task: Some(&["task"]),
        caveats: CAVEATS,
        figures: &["pruning"],
        tables: &["pruning", "prune"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let pass = |sequences| Pass { sequences, portion: CorpusPortion::OddSample, ..Pass::PLAIN };
        let of_tokens = |subject: &Subject<'_>| PruningSums::new(subject.grid, pruning_orders(subject));
        let of_task = |subject: &Subject<'_>| TaskPruningSums::new(subject.grid, pruning_orders(subject));
        vec![
            PassSpec::new(pass(Sequences::Corrupted(CorruptedVariants::Requested)), of_tokens).in_second_stage(),
            PassSpec::new(pass(Sequences::Task), of_task).in_second_stage(),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let of_task = observed.all_sums::<TaskPruningSums>().next().map(|sums| Curves::new(sums, context));
        let pruning = of_task.unwrap_or_else(|| Curves::new(observed.first_sums::<PruningSums>(), context));
        (Estimates::without_metrics(context.grid.head_count()), pruning)
    }
}

/// The pruning orders to run: by criteria of the first stage, and random ones.
fn pruning_orders(subject: &Subject<'_>) -> Orders {
    let rankings = subject.upstream.rankings.iter().cloned().chain(random_orders(subject.grid.head_count())).collect();
    // Where layers share their weights, a head of one layer cannot be pruned alone.
    let negligible = if subject.first_layers.is_empty() { subject.upstream.negligible.clone() } else { Vec::new() };
    Orders::new(rankings, negligible, subject.first_layers.to_vec(), subject.grid)
}

const CAVEATS: &[Caveat] = &[Caveat {
    id: "pruning-not-trained-again",
    text: "Of the heads that can go by a pruning curve: nothing was trained again, and the loss is on masked words of this \
            corpus, or on the items of the task. Larger shares in the literature are for pruning that is learned or followed by fine-tuning.",
    subject: CaveatSubject::Meaning,
    applies: |labelling| downcast_section::<Curves>(labelling.section).masked_tokens > 0,
}];

#[cfg(test)]
mod tests;
