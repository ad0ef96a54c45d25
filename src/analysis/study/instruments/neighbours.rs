//! Neighbours of sequences: the neighbour of a sequence is the sequence before it in its pack, if that belongs to
//! another group of dependent sentences and is about as long.
//!
//! Neighbours have different tokens at equal positions, so a head that behaves alike in both behaves by position. Its
//! choices in the neighbour predict which choices position alone would make in the sequence, sampling noise included.

use std::collections::{BTreeMap, BTreeSet};

use crate::sequences::sequence::Sequence;

/// Minimum length of a sequence and of its neighbour, in tokens or words. With two tokens, a query has one other key,
/// which leaves no choice.
const MIN_SEQUENCE_LENGTH: usize = 3;

/// Finds the neighbour of each sequence of a pack. Values that were computed on a neighbour are kept for the sequence
/// that follows, one for each head of a layer.
#[derive(Clone, Debug)]
pub struct Neighbours<T> {
    /// The sequence that began last.
    last: Option<BegunSequence>,
    /// Indices of the sequences whose values the next sequence needs.
    wanted_sequences: BTreeSet<u64>,
    /// Kept values, by the number of the head in its layer.
    kept_values: BTreeMap<usize, KeptValue<T>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BegunSequence {
    /// Index of the sequence in the corpus.
    index: u64,
    /// Number of the group of dependent sentences that the sequence belongs to.
    group: u64,
    /// Length of the sequence: number of text tokens, or of words in a study of words.
    length: usize,
}

/// A value that was computed for a head on one sequence.
#[derive(Clone, Debug)]
struct KeptValue<T> {
    /// Index in the corpus of the sequence on which the value was computed.
    index: u64,
    /// Layer of the head.
    layer: usize,
    value: T,
}

/// A sequence with its neighbour: the sequence before it, if that is of another group and about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the sequence (not of its neighbour) in the corpus.
    index: u64,
    /// The sequence's neighbour. `None` at the start of a pack, or if the preceding sequence is of the same group or not of
    /// similar length ([`are_similar_lengths`]).
    previous: Option<BegunSequence>,
    /// Whether the preceding sequence of the pack belongs to another group, even if its length differs too much for a
    /// neighbour.
    pub follows_other_group: bool,
}

impl Neighbour {
    /// Length of the neighbour, in the unit of [`Neighbours::begin`]; `None` if the sequence has no neighbour.
    pub fn length(&self) -> Option<usize> {
        self.previous.map(|before| before.length)
    }
}

impl<T> Default for Neighbours<T> {
    fn default() -> Self {
        Self { last: None, wanted_sequences: BTreeSet::new(), kept_values: BTreeMap::new() }
    }
}

/// Whether two lengths are similar. Both are at least [`MIN_SEQUENCE_LENGTH`], and the longer is at most a tenth longer than
/// the shorter.
fn are_similar_lengths(a: usize, b: usize) -> bool {
    let (shorter, longer) = (a.min(b), a.max(b));
    shorter >= MIN_SEQUENCE_LENGTH && 10 * longer <= 11 * shorter
}

impl<T> Neighbours<T> {
    /// Begins a sequence and finds its neighbour. `length` is the sequence's number of text tokens, or of words in a
    /// study of words.
    pub fn begin(&mut self, sequence: &Sequence, length: usize) -> Neighbour {
        let begun = BegunSequence { index: sequence.index, group: sequence.family.number, length };
        let previous = self.last.replace(begun).filter(|last| last.group != begun.group);
        let neighbour = previous.filter(|last| are_similar_lengths(last.length, length));
        self.wanted_sequences.extend(neighbour.map(|last| last.index));
        Neighbour { index: begun.index, previous: neighbour, follows_other_group: previous.is_some() }
    }

    /// The value that [`Self::keep_value`] kept for a head on the sequence's neighbour, the sequence before it. `None`
    /// without a neighbour or a kept value.
    pub fn neighbour_value(&self, neighbour: &Neighbour, layer: usize, head: usize) -> Option<&T> {
        let kept = self.kept_values.get(&head)?;
        (kept.layer == layer && Some(kept.index) == neighbour.previous.map(|before| before.index))
            .then_some(&kept.value)
    }

    /// Keeps `value`, a study's result for a head in this sequence, if this sequence is the neighbour of the next one.
    pub fn keep_value(&mut self, neighbour: &Neighbour, layer: usize, head: usize, value: impl FnOnce() -> T) {
        if self.wanted_sequences.contains(&neighbour.index) {
            self.kept_values.insert(head, KeptValue { index: neighbour.index, layer, value: value() });
        }
    }

    /// Forgets all sequences at the end of a pack: the sequences of the next pack have no neighbours in this one.
    pub fn end_pack(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::test_support::sentence;

    #[test]
    fn neighbours_are_of_other_groups_and_of_like_length() {
        let mut neighbours = Neighbours::<char>::default();
        let mut begin = |index, group, length| {
            let mut sequence = sentence(index, length, "dep");
            sequence.family.number = group;
            neighbours.begin(&sequence, length)
        };
        // The second is of the same group as the first, the fourth is too long beside the third.
        let begun = [(0, 0, 10), (1, 0, 10), (2, 2, 11), (3, 3, 13), (4, 4, 2), (5, 5, 2)];
        let begun = begun.map(|(index, group, length)| begin(index, group, length));
        let found = begun.map(|neighbour| (neighbour.length(), neighbour.follows_other_group));
        let none = (None, true);
        assert_eq!(found, [(None, false), (None, false), (Some(10), true), none, none, none]);
        neighbours.keep_value(&begun[0], 0, 4, || unreachable!("nothing is held against it"));
        neighbours.keep_value(&begun[1], 0, 4, || 'a');
        assert_eq!(neighbours.neighbour_value(&begun[2], 0, 4), Some(&'a'));
        let other = [(2, 1, 4), (2, 0, 3), (3, 0, 4)]
            .map(|(one, layer, head)| neighbours.neighbour_value(&begun[one], layer, head));
        assert_eq!(other, [None; 3]);
        neighbours.end_pack();
        assert_eq!(neighbours.neighbour_value(&begun[2], 0, 4), None);
    }
}
