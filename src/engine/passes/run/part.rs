//! The part of a corpus that is run: of its sentences, or of the windows that a decoder reads them in.

use anyhow::Result;

use crate::sequences::derived::windows::Windows;
use crate::sequences::reading::WindowTally;
use crate::sequences::sample::Sample;
use crate::sequences::sequence::Sequence;
use crate::sequences::shard::Shard;
use crate::stats::blocks::block_of;

/// The sentences, or the windows by the first sentence of each, that are in all of these.
#[derive(Clone, Copy)]
pub struct CorpusPart {
    pub shard: Shard,
    pub sample: Sample,
    /// The parity of the blocks that they are in; `None` if they are in any.
    pub parity: Option<usize>,
}

impl CorpusPart {
    /// All of a shard.
    pub fn of(shard: Shard) -> Self {
        Self { shard, sample: Sample::ALL, parity: None }
    }

    /// Whether a sentence with this number, of the family or document with that one, is in it.
    pub fn takes(self, sentence: u64, family: u64) -> bool {
        let is_of_it = |parity: usize| block_of(family) % 2 == parity;
        self.shard.takes(sentence) && self.sample.takes(sentence) && self.parity.is_none_or(is_of_it)
    }

    /// The windows of at most `max_tokens` tokens of all sentences of the shard that are in it; all of them are counted.
    ///
    /// A window whose sentences were drawn one by one would have gaps, so it is drawn whole, by its first sentence: of a sample
    /// there is about as much text as where sentences are drawn.
    pub fn windows(
        self,
        sentences: impl Iterator<Item = Result<Sequence>> + Send,
        max_tokens: usize,
        tally: &mut WindowTally,
    ) -> impl Iterator<Item = Result<Sequence>> + Send {
        Windows::new(sentences, max_tokens).filter(move |window| {
            window.as_ref().map_or(true, |window| {
                tally.count(window);
                self.takes(window.index, window.family.number)
            })
        })
    }
}
