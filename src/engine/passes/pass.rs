//! A pass as a value: its sequences, its weights, and the heads that are removed. Equal passes run once, and all their
//! observers share the forward pass.

use itertools::Itertools;

use super::control::{Control, ControlKind};
use crate::model::forward::gates::{Gate, Gates};
use crate::model::grid::HeadPlace;
use crate::sequences::derived::repeats::RepeatVariant;

/// One run of the model: its sequences, its weights, and the heads that it removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    pub sequences: Sequences,
    pub weights: ModelWeights,
    /// The removed heads, ascending. At every position, zeros replace their contexts, which are their outputs before the
    /// output projection.
    pub removed: Vec<HeadPlace>,
    pub portion: CorpusPortion,
    pub shown: EventKind,
}

/// The kind of events that observers of a pass receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The activations and logits of each sequence, in the baseline and in all ablation variants.
    Activations,
    /// The derivatives of each sequence's loss with respect to the gates of all heads. A gate blends the intact head
    /// with its replacement, which the [`Ablation`](super::ablation::Ablation) names.
    Derivatives,
    /// No events. Once the fits are done, observers get the [gates](super::gate_fits), fitted to the loss over the sequences of
    /// all shards.
    Fits,
}

/// Sequences that a pass runs, most of them made from the sentences of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequences {
    /// Each sentence by itself.
    Sentences,
    /// Each sentence by itself, with its words in random order.
    Shuffled { seed: u64 },
    /// Pairs of segments of consecutive sentences, as [`crate::sequences::derived::pairs`] packs them.
    Pairs {
        /// Maximum length of a pair in tokens, special tokens included. It is lower if the model has fewer positions.
        max_tokens: usize,
    },
    /// Windows of consecutive sentences of a document, as [`crate::sequences::derived::windows`] makes them. The token
    /// limit is that of a sentence.
    Windows,
    /// Pairs of sentences, as [`crate::sequences::derived::sentence_pairs`] makes them.
    SentencePairs,
    /// Each sentence, prepared for the model's prediction task by [`crate::sequences::derived::corrupted`]. Whole words are
    /// masked, to be predicted, or replaced, to be detected. A decoder reads the intact sentence, and predicts each token
    /// from the tokens before it.
    Corrupted(CorruptedVariants),
    /// Sequences of two equal copies of random tokens, with a filler between them, instead of the corpus:
    /// [`crate::sequences::derived::repeats`].
    Repeats(RepeatVariant),
    /// The items of the run's [`Task`](crate::sequences::derived::task::Task), instead of the corpus.
    Task,
    /// Each text of the task's items, followed by its corrupted text. Heads exchange their contexts between the two texts,
    /// and no head is removed.
    Interchange,
}

impl Sequences {
    pub fn are_task_items(self) -> bool {
        matches!(self, Self::Task | Self::Interchange)
    }

    pub fn are_from_corpus(self) -> bool {
        !self.are_task_items() && !matches!(self, Self::Repeats(_))
    }
}

/// The weights of the model in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelWeights {
    Trained,
    /// The weights of an untrained model.
    Untrained {
        seed: u64,
    },
    /// The weights of an untrained model, rescaled so that each layer attends as sharply as the trained layer.
    UntrainedSharp {
        seed: u64,
    },
    /// The checkpoint's weights, except that the output of each head is rotated at random.
    RotatedOutputs {
        seed: u64,
    },
}

/// The part of the corpus that a pass runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorpusPortion {
    All,
    /// A sample of sentences, as many as the [`Ablation`](super::ablation::Ablation) says; for passes that run each
    /// sequence many times.
    Sample,
    /// The sampled sentences in even-numbered jackknife blocks, on which heads are chosen.
    EvenSample,
    /// The sampled sentences in odd-numbered jackknife blocks, on which choices from the even-numbered blocks are tested.
    OddSample,
}

impl CorpusPortion {
    /// The parity of the jackknife blocks that hold the sentences, 0 or 1; `None` for all blocks.
    pub fn block_parity(self) -> Option<usize> {
        match self {
            Self::All | Self::Sample => None,
            Self::EvenSample => Some(0),
            Self::OddSample => Some(1),
        }
    }
}

/// The number of variants of each sentence; each variant has other words masked or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorruptedVariants {
    /// As many variants as the run's [`Ablation`](super::ablation::Ablation) says.
    Requested,
    /// As many variants as it takes to mask or replace every word once.
    All,
}

impl Pass {
    /// The plain pass: all sentences, through the checkpoint's weights, with all heads.
    pub const PLAIN: Self = Self {
        sequences: Sequences::Sentences,
        weights: ModelWeights::Trained,
        removed: Vec::new(),
        portion: CorpusPortion::All,
        shown: EventKind::Activations,
    };

    /// Name of the pass for messages: its sequences, the change of the weights, and the removed heads.
    pub fn name(&self) -> String {
        let sequences = match self.sequences {
            Sequences::Sentences => "sentences",
            Sequences::Shuffled { .. } => "shuffled words",
            Sequences::Pairs { .. } => "pairs of segments",
            Sequences::Windows => "windows",
            Sequences::SentencePairs => "pairs of sentences",
            Sequences::Corrupted(_) => "tokens to predict",
            Sequences::Repeats(_) => "repeated random tokens",
            Sequences::Task => "task",
            Sequences::Interchange => "task beside corrupted texts",
        };
        let weights = match self.weights {
            ModelWeights::Trained => "",
            ModelWeights::Untrained { .. } => ", untrained weights",
            ModelWeights::UntrainedSharp { .. } => ", untrained sharp weights",
            ModelWeights::RotatedOutputs { .. } => ", rotated outputs",
        };
        let treatment = match (self.shown, self.portion) {
            (EventKind::Derivatives, _) => ", derivatives",
            (EventKind::Fits, _) => ", fits of gates",
            (EventKind::Activations, CorpusPortion::All) => "",
            (EventKind::Activations, _) => ", without heads",
        };
        format!("{sequences}{weights}{treatment}")
    }

    /// Whether the pass runs the model's prediction layer in addition to its blocks.
    pub fn predicts(&self) -> bool {
        let has_targets =
            matches!(self.sequences, Sequences::Corrupted(_) | Sequences::Repeats(RepeatVariant::Predicted));
        has_targets || self.sequences.are_task_items()
    }

    /// Adds `removed` to the heads that the pass removes.
    pub fn with_removed(self, removed: &[HeadPlace]) -> Self {
        let removed = self.removed.iter().chain(removed).copied().sorted_unstable().dedup().collect();
        Self { removed, ..self }
    }

    /// The gates that remove the heads of the pass.
    pub fn removal_gates(&self) -> Gates {
        let mut gates = Gates::default();
        self.removed.iter().for_each(|place| gates.set_gate(place.layer, place.head, Gate::from_factor(0.0)));
        gates
    }

    /// The corresponding pass under `control`; `None` if the control changes nothing in this pass.
    pub fn with_control(self, control: Control) -> Option<Self> {
        let seed = control.seed;
        match control.kind {
            ControlKind::RandomInit => Some(Self { weights: ModelWeights::Untrained { seed }, ..self }),
            ControlKind::RandomSharp => Some(Self { weights: ModelWeights::UntrainedSharp { seed }, ..self }),
            ControlKind::Rotated => Some(Self { weights: ModelWeights::RotatedOutputs { seed }, ..self }),
            // Only the sentence of each word matters in a pair, and shuffling leaves every word in its sentence.
            ControlKind::ShuffledWords => matches!(self.sequences, Sequences::Sentences | Sequences::Shuffled { .. })
                .then(|| Self { sequences: Sequences::Shuffled { seed }, ..self }),
        }
    }
}

/// Groups equal passes. Each distinct pass has all its requests, and stands at the place of its first request.
pub fn group_equal_passes<R>(requests: impl IntoIterator<Item = (Pass, R)>) -> Vec<(Pass, Vec<R>)> {
    let mut passes: Vec<(Pass, Vec<R>)> = Vec::new();
    for (pass, request) in requests {
        match passes.iter_mut().find(|(earlier, _)| *earlier == pass) {
            Some((_, requests)) => requests.push(request),
            None => passes.push((pass, vec![request])),
        }
    }
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_passes_are_one() {
        let pairs = Pass { sequences: Sequences::Pairs { max_tokens: 128 }, ..Pass::PLAIN };
        let shared = group_equal_passes([(Pass::PLAIN, 'a'), (pairs.clone(), 'b'), (Pass::PLAIN, 'c')]);
        assert_eq!(shared, [(Pass::PLAIN, vec!['a', 'c']), (pairs, vec!['b'])]);
    }

    #[test]
    fn removals_are_a_part_of_the_pass() {
        let removal = |layer, head| HeadPlace { layer, head };
        let one = Pass::PLAIN.with_removed(&[removal(1, 0), removal(0, 2)]).with_removed(&[removal(1, 0)]);
        assert_eq!(one.removed, [removal(0, 2), removal(1, 0)]);
        assert_ne!(one, Pass::PLAIN);
        let gates = one.removal_gates();
        assert_eq!((gates.get(0, 2), gates.get(0, 1)), (Some(&Gate::from_factor(0.0)), None));
    }

    #[test]
    fn a_control_takes_one_thing_away() {
        let control = |kind, seed| Control { kind, seed };
        let fresh = Pass::PLAIN.with_control(control(ControlKind::RandomInit, 2));
        assert_eq!(fresh.unwrap(), Pass { weights: ModelWeights::Untrained { seed: 2 }, ..Pass::PLAIN });
        let shuffled = Pass::PLAIN.with_control(control(ControlKind::ShuffledWords, 1));
        assert_eq!(shuffled.unwrap(), Pass { sequences: Sequences::Shuffled { seed: 1 }, ..Pass::PLAIN });
        for sequences in [Sequences::Repeats(RepeatVariant::Plain), Sequences::SentencePairs] {
            let pass = Pass { sequences, ..Pass::PLAIN };
            assert_eq!(pass.clone().with_control(control(ControlKind::ShuffledWords, 1)), None);
            assert_eq!(pass.with_control(control(ControlKind::RandomInit, 1)).unwrap().sequences, sequences);
        }
    }
}
