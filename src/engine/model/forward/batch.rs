//! The input of a forward pass: the tokens of whole sequences side by side, without padding.

use std::ops::Range;

use itertools::izip;

use super::rows::Rows;

/// The class of a token. A gate has one replacement of a head's context for each class, because mean contexts differ most
/// between these classes. Special tokens hardly depend on the sentence, and a mask hides its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenClass {
    /// The first special token of the sequence: `[CLS]`, `<s>`.
    FirstSpecial,
    /// Any other special token except the mask: `[SEP]`, `</s>`.
    OtherSpecial,
    Mask,
    /// A token that is neither special, nor a mask, nor the first of a decoder's sequence.
    Text,
    /// The first token of a decoder's sequence, special or not. It is often an attention sink, whose contexts are far from
    /// other tokens' contexts (Xiao et al. 2024; Gu et al. 2025).
    First,
}

impl TokenClass {
    pub const ALL: [Self; 5] = [Self::FirstSpecial, Self::OtherSpecial, Self::Mask, Self::Text, Self::First];
    pub const COUNT: usize = Self::ALL.len();
}

/// Positions at which two sequences of equal length exchange the contexts of attention heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextExchange {
    Everywhere,
    /// One position, counted from 0.
    At(usize),
}

impl ContextExchange {
    /// Returns the positions at which contexts are exchanged in a sequence of `n` tokens.
    pub(super) fn positions(self, n: usize) -> Range<usize> {
        match self {
            Self::Everywhere => 0..n,
            Self::At(position) => position..position + 1,
        }
    }
}

/// One sequence of a batch: its tokens, and what the pass computes at them.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchInput<'a> {
    /// Number of the sentence that this input encodes, for messages.
    pub sentence_number: u64,
    /// Token ids, `[n]`, special tokens included.
    pub ids: &'a [u32],
    /// Segment (token type) ids, `[n]`.
    pub segments: &'a [u32],
    /// The class of each token, `[n]`; may be empty if no gate has a replacement of contexts.
    pub classes: &'a [TokenClass],
    /// Positions at which the pass computes logits, each below `n`.
    pub predicted_positions: &'a [usize],
    /// Ids of the tokens whose logits receive the [direct effects](super::visitor::Visitor::direct_effects) of attention heads.
    pub compared_tokens: &'a [u32],
    /// Positions at which this sequence [exchanges](super::gates::Gates::exchange_head) contexts of attention heads with the
    /// next sequence in the batch, of equal length. `None` for no exchange.
    pub exchange: Option<ContextExchange>,
}

/// Whole sequences in one pass: matrix products run over the tokens of all sequences, attention stays within each sequence.
#[derive(Clone, Debug, Default)]
pub struct Batch<'a> {
    pub inputs: Vec<BatchInput<'a>>,
}

impl<'a> Batch<'a> {
    /// Sets the class of every token, `[tokens]`, sequence by sequence. Panics if `classes` has another length.
    pub fn with_classes(mut self, classes: &'a [TokenClass]) -> Self {
        assert_eq!(classes.len(), self.tokens(), "a class for each token");
        let mut rest = classes;
        for input in &mut self.inputs {
            (input.classes, rest) = rest.split_at(input.ids.len());
        }
        self
    }

    /// Sets the positions at which the pass computes logits, for each sequence. Panics if the number of sequences differs.
    pub fn with_predicted(mut self, predicted: &'a [Vec<usize>]) -> Self {
        assert_eq!(predicted.len(), self.inputs.len(), "positions for each sequence");
        self.inputs.iter_mut().zip(predicted).for_each(|(input, positions)| input.predicted_positions = positions);
        self
    }

    /// Returns the number of tokens in all sequences.
    pub fn tokens(&self) -> usize {
        self.lengths().sum()
    }

    /// Yields the number of tokens of each sequence.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> + Clone {
        self.inputs.iter().map(|input| input.ids.len())
    }

    /// Yields the range of each sequence's tokens among all tokens of the batch, in order.
    pub fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        spans_of_lengths(self.lengths())
    }

    /// Yields (index of the sequence, its rows of `values`) for each sequence; `values` is `[tokens, width]`.
    pub(super) fn rows<'b>(&self, values: &'b [f32], width: usize) -> impl Iterator<Item = (usize, Rows<'b>)> {
        let sequence_rows = move |span: Range<usize>| Rows::new(&values[span.start * width..span.end * width], width);
        self.spans().map(sequence_rows).enumerate()
    }

    /// Yields `[rows of the sequence, rows of the next sequence]` for each sequence with an exchange: the tokens whose head
    /// contexts are swapped pairwise.
    pub fn exchanged_rows(&self) -> impl Iterator<Item = [Range<usize>; 2]> {
        self.inputs.iter().zip(self.spans()).filter_map(|(input, span)| {
            let positions = input.exchange?.positions(span.len());
            Some([span.start, span.end].map(|start| start + positions.start..start + positions.end))
        })
    }

    /// Yields (index, range of its tokens, range of its compared tokens) for each sequence. The ranges are among all
    /// tokens of the batch, and among the concatenated `compared_tokens` of all sequences.
    pub(super) fn compared_spans(&self) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        izip!(0.., self.spans(), spans_of_lengths(self.inputs.iter().map(|input| input.compared_tokens.len())))
    }

    /// Yields (index of the sequence, position in the sequence, row in the batch) for each position with logits.
    pub fn predicted_places(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let sequences = self.inputs.iter().zip(self.spans()).enumerate();
        sequences.flat_map(|(sequence, (input, span))| {
            input.predicted_positions.iter().map(move |&position| (sequence, position, span.start + position))
        })
    }
}

/// Groups consecutive sequences of the given lengths. Each group has at most `most` tokens, or is a single sequence.
pub fn group_by_tokens(most: usize, lengths: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let (mut groups, mut tokens): (Vec<Range<usize>>, _) = (Vec::new(), 0);
    for (index, length) in lengths.into_iter().enumerate() {
        if let Some(group) = groups.last_mut().filter(|_| tokens + length <= most) {
            group.end = index + 1;
        } else {
            groups.push(index..index + 1);
            tokens = 0;
        }
        tokens += length;
    }
    groups
}

/// Yields consecutive ranges of the given lengths, from 0 on.
fn spans_of_lengths(lengths: impl Iterator<Item = usize>) -> impl Iterator<Item = Range<usize>> {
    lengths.scan(0, |start, length| {
        *start += length;
        Some(*start - length..*start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_each_other() {
        let ids = [7; 5];
        let of = |number, tokens| BatchInput {
            sentence_number: number,
            ids: &ids[..tokens],
            segments: &ids[..tokens],
            ..BatchInput::default()
        };
        let classes = [TokenClass::FirstSpecial, TokenClass::Text, TokenClass::Mask, TokenClass::FirstSpecial];
        let predicted = [vec![2, 0], vec![0]];
        let batch = Batch { inputs: vec![of(4, 3), of(9, 1)] }.with_classes(&classes).with_predicted(&predicted);
        assert_eq!(batch.tokens(), 4);
        assert_eq!(batch.spans().collect::<Vec<_>>(), [0..3, 3..4]);
        assert_eq!(batch.inputs[1].classes, [TokenClass::FirstSpecial]);
        assert_eq!(batch.predicted_places().collect::<Vec<_>>(), [(0, 2, 2), (0, 0, 0), (1, 0, 3)]);
    }
}
