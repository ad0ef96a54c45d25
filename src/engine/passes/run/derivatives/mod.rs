//! Gradient passes: each pack runs forward and backward.

pub mod fits;

use std::num::{NonZeroU16, NonZeroUsize};

use anyhow::Result;

use super::workers::run_packs;
use crate::model::forward::gates::Gates;
use crate::model::forward::gradient::{Differentiable, GradientScratch, surprisal};
use crate::passes::observer::set::ObserverSet;
use crate::passes::observer::{Event, FurtherRuns};
use crate::sequences::pack::Pack;
use crate::sequences::sequence::{ScoreRule, Sequence};
use crate::system::progress::run::RunProgress;

/// Shows to fresh observers the gradient of every sequence that has a token to predict. `gates` has the gate and the
/// replacement of each head; heads with the indices `removed` get derivatives of 0. Observers that need path gradients
/// get them too, in `steps` steps. Fails if the corpus cannot be read on, or if a loss or derivative cannot be
/// computed.
pub fn differentiate(
    observers: ObserverSet,
    (model, encoder): (&str, &dyn Differentiable),
    (gates, removed, steps): (&Gates, &[usize], Option<NonZeroU16>),
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    threads: NonZeroUsize,
    progress: &RunProgress,
) -> Result<ObserverSet> {
    let steps = steps.filter(|_| observers.requests(&FurtherRuns::PathGradients));
    let show_pack = |observers: &mut ObserverSet, (_, pack): (usize, &Pack), scratch: &mut GradientScratch| {
        let (classes, predicted) = (pack.token_classes(), pack.predicted_positions());
        let mut batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        let numbers: Vec<usize> = (0..pack.sequences.len()).filter(|&number| !predicted[number].is_empty()).collect();
        batch.inputs.retain(|input| !input.predicted_positions.is_empty());
        let targets: Vec<Vec<u32>> =
            numbers.iter().map(|&number| pack.sequences[number].true_classes().collect()).collect();
        let mut score = |sequence: usize, position: usize, logits: &mut [f32]| {
            let positions = batch.inputs[sequence].predicted_positions;
            let place = positions.binary_search(&position).expect("one of the predicted positions");
            let item = pack.sequences[numbers[sequence]].item.as_ref();
            let foil = item.and_then(|item| item.foils.get(place)).map(|&foil| ScoreRule::VersusFoil(foil));
            loss_and_derivatives(foil.or(item.map(|item| item.rule)), logits, targets[sequence][place])
        };
        let zero_removed = |mut gates: Vec<f64>| {
            removed.iter().for_each(|&place| gates[place] = 0.0);
            gates
        };
        for (&number, mut gradient) in numbers.iter().zip(encoder.gradients(&batch, gates, &mut score, scratch)?) {
            gradient.gates = zero_removed(gradient.gates);
            observers.observe(number, Event::Gradient(&gradient));
        }
        let Some(steps) = steps else { return Ok(()) };
        let paths = encoder.path_gradients(&batch, gates, steps, &mut score, scratch)?;
        for (&number, mut path) in numbers.iter().zip(paths) {
            path.gates = zero_removed(path.gates);
            observers.observe(number, Event::PathGradient(&path));
        }
        Ok(())
    };
    let cost = |lengths: &[usize]| encoder.gradient_cost(lengths);
    run_packs(observers, (model, &cost, 0), sequences, (threads, progress), show_pack)
}

/// The loss at a position whose true class is `truth`. It is the surprisal, or for an item of a task the negative of the
/// position's contribution to the score. The derivatives of the loss overwrite `logits`.
fn loss_and_derivatives(rule: Option<ScoreRule>, logits: &mut [f32], truth: u32) -> f64 {
    match rule {
        Some(ScoreRule::VersusFoil(foil)) => {
            let [own, other] = [truth, foil].map(|token| f64::from(logits[token as usize]));
            logits.fill(0.0);
            (logits[truth as usize], logits[foil as usize]) = (-1.0, 1.0);
            other - own
        }
        Some(ScoreRule::BadText) => {
            let surprise = surprisal(logits, truth);
            logits.iter_mut().for_each(|derivative| *derivative = -*derivative);
            -surprise
        }
        // Texts of triples predict nothing.
        None | Some(ScoreRule::GoodText | ScoreRule::Class | ScoreRule::Embedding(..)) => surprisal(logits, truth),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against differences of the loss itself.
    #[test]
    fn losses_have_their_derivatives() {
        const STEP: f32 = 1e-2;
        let logits = [0.5, -1.0, 2.0, 0.25];
        for rule in [
            None,
            Some(ScoreRule::Class),
            Some(ScoreRule::GoodText),
            Some(ScoreRule::BadText),
            Some(ScoreRule::VersusFoil(3)),
        ] {
            let mut derivatives = logits;
            let value = loss_and_derivatives(rule, &mut derivatives, 1);
            for place in 0..logits.len() {
                let moved = |by: f32| {
                    let mut moved = logits;
                    moved[place] += by;
                    loss_and_derivatives(rule, &mut moved, 1)
                };
                let difference = (moved(STEP) - moved(-STEP)) / f64::from(2.0 * STEP);
                assert!((difference - f64::from(derivatives[place])).abs() < 1e-4, "{rule:?} {place} {difference}");
            }
            // p(1) = e^-1 / (e^0.5 + e^-1 + e^2 + e^0.25)
            let expected = match rule {
                Some(ScoreRule::VersusFoil(_)) => 1.25,
                Some(ScoreRule::BadText) => -3.369_279,
                _ => 3.369_279,
            };
            assert!((value - expected).abs() < 1e-3, "{rule:?} {value}");
        }
    }
}
