//! One head over one sequence, with its attention folded to words and to tokens of text on first use.

use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::HeadView;
use crate::sequences::fold::text::TextAttention;
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::Sequence;

/// One head over one sequence, as every observer of a pass receives it.
pub struct HeadInput<'a> {
    /// The attention of the head and the other activations that are needed.
    pub view: HeadView<'a>,
    sequence: &'a Sequence,
    folded: &'a mut Folder,
}

/// Buffers for attention folded to words and to text, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    words: [Folded<WordAttention>; 2],
    text: Folded<TextAttention>,
}

impl Folder {
    /// One head over `sequence`, with these buffers.
    pub fn head_input<'a>(&'a mut self, sequence: &'a Sequence, view: HeadView<'a>) -> HeadInput<'a> {
        self.words.iter_mut().for_each(|folded| folded.done = false);
        self.text.done = false;
        HeadInput { view, sequence, folded: self }
    }
}

/// Attention in one folded form, computed on first use.
#[derive(Clone, Debug, Default)]
struct Folded<T> {
    attention: T,
    done: bool,
}

impl<'a> HeadInput<'a> {
    /// The head's attention.
    pub fn attention(&self) -> AttentionView<'a> {
        self.view.attention
    }

    /// The attention between words, `[words, words]`, folded by `from`; computed once.
    pub fn words(&mut self, from: FromToken) -> &WordAttention {
        let folded = &mut self.folded.words[usize::from(from == FromToken::First)];
        if !folded.done {
            folded.attention.fold(self.view.attention, &self.sequence.words, from);
            folded.done = true;
        }
        &folded.attention
    }

    /// The attention between tokens of text; computed once.
    pub fn text(&mut self) -> &TextAttention {
        let folded = &mut self.folded.text;
        if !folded.done {
            folded.attention.fold(self.view.attention, &self.sequence.kinds);
            folded.done = true;
        }
        &folded.attention
    }
}
