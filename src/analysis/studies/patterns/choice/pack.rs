//! Tokens of a pack (sequences that run through the model together), and their inputs to one layer.

use crate::model::forward::rows::Rows;
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::stats::blocks::block_of;

/// Mean input that replaces a token's input: the mean over tokens of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeanInput {
    /// Mean over text tokens. The regression adds terms for position and embedding to it.
    Text,
    /// Mean over first tokens: special tokens at the start of a sequence, or a decoder's first token.
    First,
    /// Mean over one special token, such as `[SEP]`, wherever it is not at the start of a sequence.
    Special,
}

#[derive(Clone, Copy, Debug)]
pub struct PackedToken {
    /// Index of the token in the pack.
    pub row: usize,
    /// Position of the token in its sequence.
    pub position: usize,
    pub id: u32,
    /// Mean that replaces the token's input when context is removed.
    pub base: MeanInput,
    /// Index of the jackknife block of the token's sequence.
    pub block: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct PackedSequence {
    /// Index in the pack of the sequence's first token.
    pub start: usize,
    /// Number of tokens in the sequence.
    pub token_count: usize,
    pub block: usize,
    /// Whether the sequence is the first of its group of related sentences.
    pub is_first: bool,
}

/// Tokens of a pack (sequences that run through the model together), sequence after sequence.
#[derive(Clone, Debug, Default)]
pub struct TokenPack {
    pub sequences: Vec<PackedSequence>,
    pub tokens: Vec<PackedToken>,
    /// Inputs of the current layer's attention, `[tokens, hidden]`.
    pub inputs: Vec<f32>,
}

impl TokenPack {
    /// Adds a sequence, and returns its index in the pack.
    pub fn push_sequence(&mut self, sequence: &Sequence) -> usize {
        let (start, block) = (self.tokens.len(), block_of(sequence.family.number));
        let token = |(position, (&id, kind)): (usize, (&u32, &TokenKind))| {
            let part = match (kind.is_special(), position) {
                (false, _) => MeanInput::Text,
                (true, 0) => MeanInput::First,
                (true, _) => MeanInput::Special,
            };
            PackedToken { row: start + position, position, id, base: part, block }
        };
        self.tokens.extend(sequence.ids.iter().zip(&sequence.kinds).enumerate().map(token));
        let is_first = sequence.family.is_first;
        self.sequences.push(PackedSequence { start, token_count: self.tokens.len() - start, block, is_first });
        self.sequences.len() - 1
    }

    /// Stores the inputs of the sequence with index `number`. Returns whether all sequences of the pack have their inputs.
    pub fn push_inputs(&mut self, number: usize, rows: Rows<'_>) -> bool {
        if number == 0 {
            self.inputs.clear();
        }
        rows.iter().for_each(|row| self.inputs.extend_from_slice(row));
        number + 1 == self.sequences.len()
    }

    /// Number of values per input row.
    pub fn input_width(&self) -> usize {
        self.inputs.len() / self.tokens.len().max(1)
    }

    /// Input of a token, `[hidden]`.
    pub fn token_input(&self, token: &PackedToken) -> &[f32] {
        let width = self.input_width();
        &self.inputs[token.row * width..][..width]
    }
}
