//! The expected work of passes, for the progress bar.

use std::collections::BTreeSet;

use super::Runner;
use crate::passes::gate_fits::STARTING_POINTS;
use crate::passes::observer::requests::{HeadSet, single_head_sets_and_all};
use crate::passes::pass::{CorpusPortion, EventKind, Pass, Sequences};
use crate::sequences::derived::task::Task;
use crate::system::progress::run::{PassWork, WorkExtent};

/// Cost of one loss with its derivatives, as a multiple of a forward pass.
const DERIVATIVE_COST: f64 = 3.0;

/// Expected number of evaluations of one gate fit.
const EXPECTED_EVALUATIONS_PER_FIT: f64 = 25.0;

impl Runner<'_> {
    pub(super) fn pass_work(&self, pass: &Pass, removed: &BTreeSet<HeadSet>) -> PassWork {
        PassWork {
            name: pass.name(),
            extent: self.work_extent(pass),
            passes_per_token: self.work_factor(pass, removed),
        }
    }

    /// Expected work of a second-stage pass. The heads to remove depend on first-stage results, so each head counts as
    /// removed once.
    pub(super) fn expected_work(&self, pass: &Pass) -> PassWork {
        let heads = single_head_sets_and_all(self.model.grid());
        let removed = if pass.portion == CorpusPortion::All { BTreeSet::new() } else { heads.into_iter().collect() };
        self.pass_work(pass, &removed)
    }

    /// Amount of text in the pass: its tokens, the sentences of a sample, or the complete corpus.
    fn work_extent(&self, pass: &Pass) -> WorkExtent {
        let shards = f64::from(self.shard.shard_count());
        let task_tokens = |tokens: fn(&Task) -> usize| WorkExtent::Tokens(self.task.map_or(0, tokens) as f64 / shards);
        match pass.sequences {
            Sequences::Repeats(repeats) => WorkExtent::Tokens(repeats.expected_tokens() / shards),
            Sequences::Task => task_tokens(|task| task.texts.token_count()),
            Sequences::Interchange => task_tokens(|task| task.interchanged.token_count()),
            _ if pass.portion == CorpusPortion::All => WorkExtent::Corpus,
            _ => {
                let parities = if pass.portion == CorpusPortion::Sample { 1.0 } else { 2.0 };
                WorkExtent::Sample(self.ablation_options().sample as f64 / parities / shards)
            }
        }
    }

    /// Number of times that each token of the text goes through all layers.
    fn work_factor(&self, pass: &Pass, removed: &BTreeSet<HeadSet>) -> f64 {
        let phases = if let Sequences::Corrupted(phases) = pass.sequences { self.variant_count(phases) } else { 1 };
        let layers = self.model.grid().layers as f64;
        let share_of_layers = |heads: &HeadSet| heads.first().map_or(1.0, |place| 1.0 - place.layer as f64 / layers);
        let runs = match pass.shown {
            EventKind::Activations => 1.0 + removed.iter().map(share_of_layers).sum::<f64>(),
            EventKind::Derivatives => {
                DERIVATIVE_COST * self.ablation_options().gradient_steps.map_or(1.0, |steps| f64::from(steps.get()))
            }
            EventKind::Fits => DERIVATIVE_COST * EXPECTED_EVALUATIONS_PER_FIT * STARTING_POINTS as f64,
        };
        f64::from(phases) * runs
    }
}
