//! Gradient passes: a pack at a time, through the encoder and back.

use std::num::{NonZeroU16, NonZeroUsize};

use anyhow::Result;

use super::workers::over_packs;
use crate::model::forward::gates::Gates;
use crate::model::forward::gradient::{Differentiable, GradientScratch, surprise};
use crate::passes::observer::Event;
use crate::passes::observer::set::ObserverSet;
use crate::sequences::pack::Pack;
use crate::sequences::sequence::Sequence;
use crate::system::progress::Analysis;

/// Shows the gradient of every sequence with a token to predict to fresh observers.
///
/// `gates` has the gate of each head and its replacement. The heads at the places `removed` have derivatives of 0, because
/// their gates change nothing. Observers that follow the path on which all heads come in are shown it in so many `steps`.
/// Fails if the corpus cannot be read on, or a loss or a derivative cannot be computed.
pub fn differentiate(
    observers: ObserverSet,
    (model, encoder): (&str, &dyn Differentiable),
    (gates, removed, steps): (&Gates, &[usize], Option<NonZeroU16>),
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    threads: NonZeroUsize,
    progress: &Analysis,
) -> Result<ObserverSet> {
    let steps = steps.filter(|_| observers.follows_path());
    let show = |observers: &mut ObserverSet, pack: &Pack, scratch: &mut GradientScratch| {
        let (classes, predicted) = (pack.classes(), pack.predicted());
        let mut batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let mut numbers = (0..pack.sentences.len()).filter(|&number| !predicted[number].is_empty());
        let numbers: Vec<usize> = numbers.by_ref().collect();
        batch.inputs.retain(|input| !input.predicted.is_empty());
        let targets: Vec<Vec<u32>> = numbers.iter().map(|&number| pack.sentences[number].targets().collect()).collect();
        let mut score = |sequence: usize, position: usize, logits: &mut [f32]| {
            let place =
                batch.inputs[sequence].predicted.binary_search(&position).expect("one of the predicted positions");
            surprise(logits, targets[sequence][place])
        };
        let without = |mut gates: Vec<f64>| {
            removed.iter().for_each(|&place| gates[place] = 0.0);
            gates
        };
        for (&number, mut gradient) in numbers.iter().zip(encoder.gradients(&batch, gates, &mut score, scratch)?) {
            gradient.gates = without(gradient.gates);
            observers.observe(number, Event::Gradient(&gradient));
        }
        let Some(steps) = steps else { return Ok(()) };
        for (&number, mut path) in
            numbers.iter().zip(encoder.path_gradients(&batch, gates, steps, &mut score, scratch)?)
        {
            path.gates = without(path.gates);
            observers.observe(number, Event::PathGradient(&path));
        }
        Ok(())
    };
    over_packs(observers, (model, &|lengths| encoder.gradient_cost(lengths)), sequences, (threads, progress), show)
}
