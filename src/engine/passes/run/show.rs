//! A pack of sequences, shown to a panel in all turns and trials.

use anyhow::Result;

use super::patches::RequestedRun;
use super::variants::{Turn, Variants};
use crate::model::forward::batch::Batch;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{HeadView, Needs, Visitor};
use crate::model::forward::{Encoder, Scratch, Start};
use crate::passes::observer::ObserverSet;
use crate::sequences::pack::{PACK_TOKENS, Pack};

/// Buffers of a worker, from one pack to the next.
#[derive(Default)]
pub struct Buffers {
    scratch: Scratch,
    kept: Kept,
}

/// The hidden states that go into each layer, `[layers][tokens, hidden]`.
type Kept = Vec<Vec<f32>>;

/// Shows a pack that was begun to the panel: whole, then in the trials that somebody asks for, then without the heads of each
/// further turn.
/// Fails if a forward pass fails.
pub fn show(
    panel: &mut ObserverSet,
    pack: &Pack,
    turns: &Variants,
    encoder: &dyn Encoder,
    Buffers { scratch, kept }: &mut Buffers,
) -> Result<()> {
    let (classes, predicted) = (pack.classes(), pack.predicted());
    let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
    kept.iter_mut().for_each(Vec::clear);
    let runs_again = !turns.others.is_empty() || panel.tries();
    let mut watcher = Watcher { panel, pack, kept: runs_again.then_some(&mut *kept) };
    encoder.forward_from(Start::Embeddings, &batch, &turns.first, scratch, &mut watcher)?;
    let mut asked = panel.trials();
    asked.sort_by_key(|asked| asked.trial.place.layer);
    for group in together(&asked, pack) {
        try_out(panel, group, (&batch, kept), turns, encoder, scratch)?;
    }
    for Turn { missing, layer, gates } in &turns.others {
        panel.turn(missing);
        let start = Start::Layer { layer: *layer, states: &kept[*layer] };
        encoder.forward_from(start, &batch, gates, scratch, &mut Watcher { panel, pack, kept: None })?;
    }
    Ok(())
}

/// Trials that run together: those from the same layer, in as many groups as it takes for none to be larger than a pack.
fn together<'a>(asked: &'a [RequestedRun], pack: &Pack) -> Vec<&'a [RequestedRun]> {
    let length = |asked: &RequestedRun| pack.sentences[asked.sequence].ids.len();
    let mut groups = Vec::new();
    for layer in asked.chunk_by(|a, b| a.trial.place.layer == b.trial.place.layer) {
        let (mut start, mut tokens) = (0, 0);
        for (at, asked) in layer.iter().enumerate() {
            if at > start && tokens + length(asked) > PACK_TOKENS {
                groups.push(&layer[start..at]);
                (start, tokens) = (at, 0);
            }
            tokens += length(asked);
        }
        groups.push(&layer[start..]);
    }
    groups
}

/// Runs trials that start from the same layer, each with a copy of its sequence, and shows their logits.
fn try_out(
    panel: &mut ObserverSet,
    group: &[RequestedRun],
    (batch, kept): (&Batch<'_>, &Kept),
    turns: &Variants,
    encoder: &dyn Encoder,
    scratch: &mut Scratch,
) -> Result<()> {
    let layer = group[0].trial.place.layer;
    let (hidden, spans) = (kept[layer].len() / batch.tokens(), batch.spans().collect::<Vec<_>>());
    let (mut copies, mut states, mut gates) = (Batch::default(), Vec::new(), turns.first.clone());
    for (copy, RequestedRun { sequence, trial, .. }) in group.iter().enumerate() {
        let mut input = batch.inputs[*sequence];
        input.predicted = &trial.predicted;
        copies.inputs.push(input);
        let rows = &spans[*sequence];
        states.extend_from_slice(&kept[layer][rows.start * hidden..rows.end * hidden]);
        gates.cut(layer, trial.place.head, copy, trial.queries.clone(), trial.keys.clone());
    }
    let start = Start::Layer { layer, states: &states };
    encoder.forward_from(start, &copies, &gates, scratch, &mut Trying { panel, group })
}

/// Hands what the encoder lends to the panel, and keeps what goes into each layer, if that is wanted.
struct Watcher<'a> {
    panel: &'a mut ObserverSet,
    pack: &'a Pack,
    kept: Option<&'a mut Kept>,
}

impl Visitor for Watcher<'_> {
    fn needs(&self) -> Needs {
        let keeps = Needs { hidden_states: self.kept.is_some(), ..Needs::default() };
        self.panel.needs() | keeps
    }

    fn head(&mut self, sequence: usize, view: &HeadView<'_>) {
        self.panel.head(sequence, &self.pack.sentences[sequence], *view);
    }

    fn hidden_states(&mut self, sequence: usize, layer: usize, states: Rows<'_>) {
        if let Some(kept) = &mut self.kept {
            if kept.len() <= layer {
                kept.resize_with(layer + 1, Vec::new);
            }
            states.iter().for_each(|row| kept[layer].extend_from_slice(row));
        }
        self.panel.hidden_states(sequence, layer, states);
    }

    fn logits(&mut self, sequence: usize, position: usize, logits: &[f32]) {
        self.panel.logits(sequence, position, logits);
    }
}

/// Hands the logits of trials to those who asked for them.
struct Trying<'a> {
    panel: &'a mut ObserverSet,
    group: &'a [RequestedRun],
}

impl Visitor for Trying<'_> {
    fn needs(&self) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn logits(&mut self, copy: usize, position: usize, logits: &[f32]) {
        self.panel.tried(&self.group[copy], position, logits);
    }
}
