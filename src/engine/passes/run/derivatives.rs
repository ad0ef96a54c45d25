//! Gradient passes: one sequence at a time, through the encoder that computes derivatives.
//!
//! Each sequence needs its own gradient, and one backward pass gives the gradient of one loss alone.

use std::num::{NonZeroU16, NonZeroUsize};

use anyhow::Result;

use super::workers::over_packs;
use crate::model::forward::batch::Batch;
use crate::model::forward::gates::Gates;
use crate::model::forward::tensor::TensorEncoder;
use crate::passes::observer::Event;
use crate::passes::observer::set::ObserverSet;
use crate::sequences::pack::Pack;
use crate::sequences::sequence::Sequence;
use crate::system::parallel::OneCore;
use crate::system::progress::Analysis;

/// Shows the gradient of every sequence with a token to predict to fresh observers.
///
/// `gates` has the gate of each head and its replacement. The heads at the places `removed` have derivatives of 0, because
/// their gates change nothing. Observers that follow the path on which all heads come in are shown it in so many `steps`.
/// Fails if the corpus cannot be read on, or a loss or a derivative cannot be computed.
pub fn differentiate(
    observers: ObserverSet,
    (model, encoder): (&str, &TensorEncoder),
    (gates, removed, steps): (&Gates, &[usize], Option<NonZeroU16>),
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    threads: NonZeroUsize,
    progress: &Analysis,
) -> Result<ObserverSet> {
    let steps = steps.filter(|_| observers.follows_path());
    let show = |observers: &mut ObserverSet, pack: &Pack, core: &mut OneCore| {
        let (classes, predicted) = (pack.classes(), pack.predicted());
        let batch = pack.batch().with_classes(&classes).with_predicted(&predicted);
        for (number, (sequence, input)) in pack.sentences.iter().zip(batch.inputs).enumerate() {
            let targets: Vec<u32> = sequence.targets().collect();
            if targets.is_empty() {
                continue;
            }
            let alone = Batch { inputs: vec![input] };
            let mut gradient = core.run(|| encoder.prediction_gradient(&alone, gates, &targets))?;
            removed.iter().for_each(|&place| gradient.gates[place] = 0.0);
            observers.observe(number, Event::Gradient(&gradient));
            if let Some(steps) = steps {
                let mut path = core.run(|| encoder.path_gradient(&alone, gates, &targets, steps))?;
                removed.iter().for_each(|&place| path.gates[place] = 0.0);
                observers.observe(number, Event::PathGradient(&path));
            }
        }
        Ok(())
    };
    over_packs(observers, (model, encoder), sequences, (threads, progress), show)
}
