//! Ablation in sampled passes, over sentences or task items: the replacements of removed heads, and the choice of heads that
//! are removed one by one.

use std::collections::BTreeSet;

use anyhow::Result;

use super::choice::LossSensitivity;
use super::means::ContextSums;
use super::variants::Variants;
use super::{PassRun, Runner};
use crate::corpus::CorpusIdentity;
use crate::model::forward::gates::Gate;
use crate::model::grid::HeadPlace;
use crate::passes::ablation::Replacement;
use crate::passes::observer::requests::HeadSet;
use crate::passes::observer::{self, new_observer};
use crate::passes::pass::{CorpusPortion, EventKind, Pass, Sequences};
use crate::sequences::derived::task::TaskKind;
use crate::sequences::shard::Shard;

impl Runner<'_> {
    /// Restricts a sampled pass to the odd-numbered blocks if heads to ablate are chosen on the even-numbered ones.
    /// Other passes stay unchanged.
    pub(super) fn limit_to_test_blocks(&self, pass: &Pass, removed: &BTreeSet<HeadSet>) -> Pass {
        let is_chosen_part = self.ablates_chosen_heads(pass) && !removed.is_empty();
        Pass { portion: if is_chosen_part { CorpusPortion::OddSample } else { pass.portion }, ..pass.clone() }
    }

    /// The baseline and the ablation variants of a sampled pass; each variant removes one of the sets of heads in
    /// `removed`. A pass with derivatives has only a baseline, in which every gate is fully open.
    pub(super) fn pass_variants(
        &self,
        corpus: &CorpusIdentity,
        pass: &Pass,
        mut removed: BTreeSet<HeadSet>,
    ) -> Result<Variants> {
        let baseline = Variants::baseline_only(pass.removal_gates());
        if removed.is_empty() && pass.shown == EventKind::Activations {
            return Ok(baseline);
        }
        if pass.sequences == Sequences::Interchange {
            return Ok(baseline.with_exchanges(removed));
        }
        // In both folds, fitted gates lead to the replacements from the whole sample.
        let portion = if pass.shown == EventKind::Fits { CorpusPortion::Sample } else { pass.portion };
        let gates = self.replacement_gates(corpus, &Pass { portion, ..pass.clone() })?;
        let grid = self.model.grid();
        if pass.shown != EventKind::Activations {
            return Ok(baseline.with_open_gates(grid, &gates));
        }
        let is_absent = |removed: &HeadSet| {
            removed.len() == 1 && removed.iter().all(|place| self.model.pruned_heads().contains(place))
        };
        removed.retain(|removed| !is_absent(removed));
        if self.ablates_chosen_heads(pass)
            && let Some(choice) = self.ablation_options().effect_of
        {
            let is_present = |(place, _): &(HeadPlace, f64)| !self.model.pruned_heads().contains(place);
            let by_head = grid.head_places().zip(self.sensitivities(corpus, pass)?).filter(is_present);
            let (present, sensitivities): (Vec<HeadPlace>, Vec<f64>) = by_head.unzip();
            let chosen: BTreeSet<HeadPlace> =
                choice.choose_heads(&sensitivities).into_iter().map(|place| present[place]).collect();
            removed.retain(|removed| removed.len() > 1 || removed.is_subset(&chosen));
        }
        Ok(baseline.with_removals(removed, grid, &gates))
    }

    /// Whether the pass ablates only chosen heads one by one, not every head.
    pub(super) fn ablates_chosen_heads(&self, pass: &Pass) -> bool {
        let has_derivatives = match pass.sequences {
            Sequences::Corrupted(_) => true,
            Sequences::Task => self.task.is_some_and(|task| task.info.kind != TaskKind::Triple),
            _ => false,
        };
        self.ablation_options().effect_of.is_some() && has_derivatives && pass.shown == EventKind::Activations
    }

    /// The sensitivity of the loss to each head over the even-numbered blocks of all shards.
    fn sensitivities(&self, corpus: &CorpusIdentity, pass: &Pass) -> Result<Vec<f64>> {
        let pass = Pass { portion: CorpusPortion::EvenSample, shown: EventKind::Derivatives, ..pass.clone() };
        let gates = self.replacement_gates(corpus, &pass)?;
        let variants = Variants::baseline_only(pass.removal_gates()).with_open_gates(self.model.grid(), &gates);
        let sums = vec![new_observer(LossSensitivity::new(self.model.grid()))];
        let run = PassRun { pass: &pass, observers: sums, variants: &variants };
        let outcome = self.run_pass_again(corpus, self.sampled_part(corpus, Shard::WHOLE, &pass), run)?;
        Ok(observer::expect_sums::<LossSensitivity>(&*outcome.sums[0]).values())
    }

    /// The gate that removes each head, with the replacement for its context, `[layers * heads]`.
    fn replacement_gates(&self, corpus: &CorpusIdentity, pass: &Pass) -> Result<Vec<Gate>> {
        let (grid, head_dim) = (self.model.grid(), self.model.architecture.config.head_dim());
        let removal = self.ablation_options().removal;
        if removal == Replacement::Zero {
            return Ok(vec![Gate::from_factor(0.0); grid.head_count()]);
        }
        let plain = Pass { shown: EventKind::Activations, ..pass.clone() };
        self.mean_contexts.get_or_compute(&plain, || {
            let contexts = vec![new_observer(ContextSums::new(grid, head_dim))];
            // The means over all shards, so that every shard replaces heads by the same vectors.
            let part = self.sampled_part(corpus, Shard::WHOLE, pass);
            let baseline = Variants::baseline_only(pass.removal_gates());
            let outcome =
                self.run_pass_again(corpus, part, PassRun { pass: &plain, observers: contexts, variants: &baseline })?;
            let sums = observer::expect_sums::<ContextSums>(&*outcome.sums[0]);
            let means = match removal {
                Replacement::Constant => sums.overall_means(&self.model.architecture.names.layers),
                _ => sums.means(),
            };
            Ok(means.into_iter().map(Gate::from_replacement).collect())
        })
    }
}
