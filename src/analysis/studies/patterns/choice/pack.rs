//! Tokens of a pack, and the inputs from which a layer computes their queries and keys.

use crate::model::forward::rows::Rows;
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::stats::blocks::block_of;

/// Mean input that stands for a token when its context is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BaseInput {
    /// Mean input of text tokens, to which parts for position and embedding are added.
    Text,
    /// Mean input of all first tokens, for a special token at the start of the sequence or a decoder's first token.
    First,
    /// Mean input of the tokens with the same id, for any other special token.
    Special,
}

#[derive(Clone, Copy, Debug)]
pub struct PackedToken {
    pub row: usize,
    /// Position of the token in its sequence.
    pub position: usize,
    pub id: u32,
    pub base: BaseInput,
    pub block: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct PackedSequence {
    /// Row of the sequence's first token in the pack.
    pub start: usize,
    pub token_count: usize,
    pub block: usize,
    pub is_first: bool,
}

/// Tokens of a pack, with its sequences side by side.
#[derive(Clone, Debug, Default)]
pub struct TokenPack {
    pub sequences: Vec<PackedSequence>,
    pub tokens: Vec<PackedToken>,
    /// Inputs from which the current layer computes queries and keys, `[tokens, hidden]`.
    pub inputs: Vec<f32>,
}

impl TokenPack {
    /// Adds a sequence and returns its number in the pack.
    pub fn push_sequence(&mut self, sequence: &Sequence) -> usize {
        let (start, block) = (self.tokens.len(), block_of(sequence.family.number));
        let token = |(position, (&id, kind)): (usize, (&u32, &TokenKind))| {
            let part = match (kind.is_special(), position) {
                (false, _) => BaseInput::Text,
                (true, 0) => BaseInput::First,
                (true, _) => BaseInput::Special,
            };
            PackedToken { row: start + position, position, id, base: part, block }
        };
        self.tokens.extend(sequence.ids.iter().zip(&sequence.kinds).enumerate().map(token));
        let is_first = sequence.family.is_first;
        self.sequences.push(PackedSequence { start, token_count: self.tokens.len() - start, block, is_first });
        self.sequences.len() - 1
    }

    /// Keeps the inputs of a sequence. Returns whether the pack is complete.
    pub fn push_inputs(&mut self, number: usize, rows: Rows<'_>) -> bool {
        if number == 0 {
            self.inputs.clear();
        }
        rows.iter().for_each(|row| self.inputs.extend_from_slice(row));
        number + 1 == self.sequences.len()
    }

    pub fn width(&self) -> usize {
        self.inputs.len() / self.tokens.len().max(1)
    }

    /// Input of a token, `[hidden]`.
    pub fn input(&self, token: &PackedToken) -> &[f32] {
        let width = self.width();
        &self.inputs[token.row * width..][..width]
    }
}
