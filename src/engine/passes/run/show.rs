//! The forward passes over a pack of sequences: the baseline, the patched runs and the ablation variants.

use anyhow::Result;

use super::variants::{AblationVariant, Variants};
use crate::model::forward::batch::{Batch, group_by_tokens};
use crate::model::forward::held::HeldOutputs;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{BlockOutput, FinalNorm, HeadView, MixingRatios, Needs, ResidualPart, Visitor};
use crate::model::forward::{Encoder, PassStart, Scratch};
use crate::passes::kept::KeptPack;
use crate::passes::observer::requests::RequestedRun;
use crate::passes::observer::set::ObserverSet;
use crate::passes::observer::{Event, FurtherRuns};
use crate::sequences::pack::{PACK_TOKENS, Pack};

/// Buffers of a worker thread, reused from pack to pack.
#[derive(Default)]
pub struct WorkerBuffers {
    scratch: Scratch,
    held_inputs: LayerInputs,
    held_outputs: HeldOutputs,
}

/// The hidden states that enter each layer, `[layers][tokens, hidden]`.
type LayerInputs = Vec<Vec<f32>>;

/// Shows a pack to the observers: the baseline, then the requested patched runs, then each ablation variant. Activations of
/// the baseline that a later pass needs are recorded in `for_later`. Fails if a forward pass fails.
pub fn run_pack(
    observers: &mut ObserverSet,
    pack: &Pack,
    variants: &Variants,
    encoder: &dyn Encoder,
    WorkerBuffers { scratch, held_inputs: kept, held_outputs: writes }: &mut WorkerBuffers,
    for_later: Option<&mut KeptPack>,
) -> Result<()> {
    let (classes, predicted) = (pack.token_classes(), pack.predicted_positions());
    let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
    kept.iter_mut().for_each(Vec::clear);
    let needs_patched_runs = observers.requests(&FurtherRuns::PatchedRuns);
    let runs_again = !variants.ablation_variants.is_empty() || needs_patched_runs;
    let holds_outputs =
        !variants.ablation_variants.is_empty() && observers.demands().any(|one| one.further_runs.has_direct_runs());
    let (inputs, written) = (runs_again.then_some(&mut *kept), holds_outputs.then_some(&mut *writes));
    let mut visitor = PackVisitor { observers, pack, encoder, inputs, written, for_later };
    encoder.forward_from(PassStart::Embeddings, &batch, &variants.baseline, scratch, &mut visitor)?;
    let mut requested = observers.requested_patched_runs(pack.sequences.len());
    requested.sort_by_key(|requested| requested.run.place.layer);
    for group in group_by_layer(&requested, pack) {
        run_patched(observers, group, (&batch, kept), variants, encoder, scratch)?;
    }
    for AblationVariant { removed, first_layer: layer, gates } in &variants.ablation_variants {
        observers.begin_variant(removed, false);
        let start = PassStart::Layer { layer: *layer, states: &kept[*layer] };
        let mut visitor = PackVisitor { observers, pack, encoder, inputs: None, written: None, for_later: None };
        encoder.forward_from(start, &batch, gates, scratch, &mut visitor)?;
        if holds_outputs && visitor.observers.begin_variant(removed, true) {
            let start = PassStart::Held { layer: *layer, states: &kept[*layer], writes };
            encoder.forward_from(start, &batch, gates, scratch, &mut visitor)?;
        }
    }
    Ok(())
}

/// Groups patched runs that start at one layer, so that each group can run as one batch. A group has at most as many tokens
/// as a pack.
fn group_by_layer<'a>(requested: &'a [RequestedRun], pack: &Pack) -> Vec<&'a [RequestedRun]> {
    let length = |requested: &RequestedRun| pack.sequences[requested.sequence].ids.len();
    let by_layer = requested.chunk_by(|a, b| a.run.place.layer == b.run.place.layer);
    let groups = by_layer.flat_map(|runs| {
        group_by_tokens(PACK_TOKENS, runs.iter().map(length)).into_iter().map(move |group| &runs[group])
    });
    groups.collect()
}

/// Runs one group of patched runs, each on a copy of its sequence, and shows their logits to the observers.
fn run_patched(
    observers: &mut ObserverSet,
    group: &[RequestedRun],
    (batch, kept): (&Batch<'_>, &LayerInputs),
    variants: &Variants,
    encoder: &dyn Encoder,
    scratch: &mut Scratch,
) -> Result<()> {
    let layer = group[0].run.place.layer;
    let (hidden, spans) = (kept[layer].len() / batch.tokens(), batch.spans().collect::<Vec<_>>());
    let (mut copies, mut states, mut gates) = (Batch::default(), Vec::new(), variants.baseline.clone());
    for (copy, RequestedRun { sequence, run, .. }) in group.iter().enumerate() {
        let mut input = batch.inputs[*sequence];
        input.predicted_positions = &run.predicted;
        copies.inputs.push(input);
        let rows = &spans[*sequence];
        states.extend_from_slice(&kept[layer][rows.start * hidden..rows.end * hidden]);
        gates.patch_rows(layer, run.place.head, copy, run.rows.clone());
    }
    let start = PassStart::Layer { layer, states: &states };
    encoder.forward_from(start, &copies, &gates, scratch, &mut PatchedVisitor { observers, group })
}

/// Shows the activations of a pack to the observers. On request, it stores the inputs and outputs of each layer for further
/// runs of the pack, and activations for a later pass.
struct PackVisitor<'a> {
    observers: &'a mut ObserverSet,
    pack: &'a Pack,
    encoder: &'a dyn Encoder,
    /// Stores the hidden states that enter each layer; `None` if no further run of the pack needs them.
    inputs: Option<&'a mut LayerInputs>,
    /// Stores the outputs of all blocks; `None` if no observer needs
    /// [direct runs](FurtherRuns::AblationsWithDirectRuns).
    written: Option<&'a mut HeldOutputs>,
    /// Records the activations that a later pass needs; `None` if it needs none.
    for_later: Option<&'a mut KeptPack>,
}

impl Visitor for PackVisitor<'_> {
    fn needs(&self) -> Needs {
        let (layer_inputs, writes) = (self.inputs.is_some(), self.written.is_some());
        let keeps = Needs { layer_inputs, writes, ..Needs::default() };
        self.for_later.iter().fold(self.observers.needs() | keeps, |needs, kept| needs | kept.needs())
    }

    fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        self.for_later.iter_mut().for_each(|kept| kept.keep_head(sequence, view));
        self.observers.observe_head(sequence, &self.pack.sequences[sequence], *view);
    }

    fn hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>) {
        if let Some(kept) = &mut self.inputs {
            if kept.len() <= layer {
                kept.resize_with(layer + 1, Vec::new);
            }
            states.iter().for_each(|row| kept[layer].extend_from_slice(row));
        }
        self.for_later.iter_mut().for_each(|kept| kept.keep_hidden_states(sequence, layer, states));
        self.observers.observe(sequence, Event::HiddenStates { layer, states });
    }

    fn attention_inputs(&mut self, sequence: usize, layer: usize, inputs: Rows<'_>) {
        self.for_later.iter_mut().for_each(|kept| kept.keep_attention_inputs(sequence, layer, inputs));
        self.observers.observe(sequence, Event::AttentionInputs { layer, inputs, encoder: self.encoder });
    }

    fn mixing(&mut self, sequence: usize, layer: usize, mixing: MixingRatios<'_>) {
        self.observers.observe(sequence, Event::Mixing { layer, mixing });
    }

    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]) {
        self.observers.observe(sequence, Event::Logits { position, logits });
    }

    fn direct_effects(&mut self, sequence: usize, part: ResidualPart, effects: Rows<'_>) {
        self.observers.observe(sequence, Event::DirectEffects { part, effects });
    }

    fn final_norm(&mut self, sequence: usize, norm: FinalNorm<'_>) {
        self.observers.observe(sequence, Event::FinalNorm(norm));
    }

    fn block_output(&mut self, layer: usize, part: BlockOutput, values: &[f32]) {
        if let Some(written) = &mut self.written {
            written.block_output(layer, part, values);
        }
    }
}

/// Shows the logits of a group of patched runs to the observers that requested the runs.
struct PatchedVisitor<'a> {
    observers: &'a mut ObserverSet,
    group: &'a [RequestedRun],
}

impl Visitor for PatchedVisitor<'_> {
    fn needs(&self) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn logits(&mut self, copy: usize, position: usize, logits: &[f32]) {
        self.observers.observe_patched_logits(&self.group[copy], position, logits);
    }
}
