//! Passes that show derivatives: one sequence at a time, through the encoder that has them.
//!
//! What is wanted of each sequence is its own gradient, and one step backward gives that of one loss alone.

use std::num::NonZeroUsize;

use anyhow::Result;

use super::workers::over_packs;
use crate::model::forward::batch::Batch;
use crate::model::forward::gates::Gates;
use crate::model::forward::tensor::TensorEncoder;
use crate::passes::observer::ObserverSet;
use crate::sequences::pack::Pack;
use crate::sequences::sequence::Sequence;
use crate::system::parallel::OneCore;
use crate::system::progress::Analysis;

/// Shows the gradient of every sequence with a token to predict to a panel that has seen nothing yet.
///
/// `gates` say where the gate of each head is, and where it goes; by those of the heads at the places `removed` nothing can
/// be changed, so that their derivatives are 0.
/// Fails if the corpus cannot be read on, or a loss or a derivative cannot be computed.
pub fn differentiate(
    panel: ObserverSet,
    (model, encoder): (&str, &TensorEncoder),
    (gates, removed): (&Gates, &[usize]),
    sequences: impl Iterator<Item = Result<Sequence>> + Send,
    threads: NonZeroUsize,
    progress: &Analysis,
) -> Result<ObserverSet> {
    let show = |panel: &mut ObserverSet, pack: &Pack, core: &mut OneCore| {
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
            panel.gradient(number, &gradient);
        }
        Ok(())
    };
    over_packs(panel, model, sequences, (threads, progress), show)
}
