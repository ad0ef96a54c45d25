//! The tokens of a pack, and the rows that a layer makes their queries and keys of.

use crate::model::forward::rows::Rows;
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::stats::blocks::block_of;

/// The mean that stands for a token without context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenPart {
    /// A token of text: its position and its embedding.
    Text,
    /// The first token of the sequence, where it is special or begins a text for a decoder: the mean of all of them.
    First,
    /// Another special token: the mean of those of its id.
    Special,
}

#[derive(Clone, Copy, Debug)]
pub struct PackedToken {
    pub row: usize,
    /// The position in its sequence.
    pub position: usize,
    pub id: u32,
    pub part: TokenPart,
    pub block: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct PackedSequence {
    /// The row of its first token.
    pub start: usize,
    pub tokens: usize,
    pub block: usize,
    pub is_first: bool,
}

/// The tokens of a pack, sequences side by side.
#[derive(Clone, Debug, Default)]
pub struct TokenPack {
    pub sequences: Vec<PackedSequence>,
    pub tokens: Vec<PackedToken>,
    /// The rows that the layer under way makes queries and keys of, `[tokens, hidden]`.
    pub inputs: Vec<f32>,
}

impl TokenPack {
    /// Adds a sequence; its number in the pack.
    pub fn begin(&mut self, sequence: &Sequence) -> usize {
        let (start, block) = (self.tokens.len(), block_of(sequence.family.number));
        let token = |(position, (&id, kind)): (usize, (&u32, &TokenKind))| {
            let part = match (kind.is_special(), position) {
                (false, _) => TokenPart::Text,
                (true, 0) => TokenPart::First,
                (true, _) => TokenPart::Special,
            };
            PackedToken { row: start + position, position, id, part, block }
        };
        self.tokens.extend(sequence.ids.iter().zip(&sequence.kinds).enumerate().map(token));
        let is_first = sequence.family.is_first;
        self.sequences.push(PackedSequence { start, tokens: self.tokens.len() - start, block, is_first });
        self.sequences.len() - 1
    }

    /// Keeps the rows of a sequence; whether those of all sequences are there.
    pub fn observe(&mut self, number: usize, rows: Rows<'_>) -> bool {
        if number == 0 {
            self.inputs.clear();
        }
        rows.iter().for_each(|row| self.inputs.extend_from_slice(row));
        number + 1 == self.sequences.len()
    }

    pub fn width(&self) -> usize {
        self.inputs.len() / self.tokens.len().max(1)
    }

    /// The row of a token, `[hidden]`.
    pub fn input(&self, token: &PackedToken) -> &[f32] {
        let width = self.width();
        &self.inputs[token.row * width..][..width]
    }
}
