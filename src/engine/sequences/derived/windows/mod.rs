//! Windows of a document: as many whole consecutive sentences as fit, in one sequence and segment (docs/methodology/causal.md).

use std::iter::Peekable;
use std::ops::Range;

use anyhow::Result;

use crate::sequences::sequence::{GoldArc, Sequence, TokenKind};

#[cfg(test)]
mod tests;

/// Joins consecutive sentences of a document into windows without overlap, `[CLS] s1 s2 ... [SEP]`. A window also ends
/// where a sentence was skipped, so that distances within it are distances in the text. It has the number and the jackknife
/// block of its first sentence.
pub struct Windows<I: Iterator> {
    sentences: Peekable<I>,
    max_tokens: usize,
}

impl<I: Iterator<Item = Result<Sequence>>> Windows<I> {
    /// Makes windows of at most `max_tokens` tokens, special tokens included. A longer sentence is a window by itself.
    pub fn new(sentences: I, max_tokens: usize) -> Self {
        Self { sentences: sentences.peekable(), max_tokens }
    }
}

impl<I: Iterator<Item = Result<Sequence>>> Iterator for Windows<I> {
    type Item = Result<Sequence>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut window = match self.sentences.next()? {
            Ok(first) => Sequence { family: first.text_group(), texts: vec![text_range(&first)], ..first },
            Err(error) => return Some(Err(error)),
        };
        let (mut last, max_tokens) = (window.index, self.max_tokens);
        let goes_on = |window: &Sequence, last: u64, next: &Sequence| {
            next.index == last + 1
                && next.document == window.document
                && next.entity_fields == window.entity_fields
                && next.tree.is_some() == window.tree.is_some()
                && window.ids.len() + text_range(next).len() <= max_tokens
        };
        while let Some(Ok(sentence)) =
            self.sentences.next_if(|next| next.as_ref().is_ok_and(|next| goes_on(&window, last, next)))
        {
            last = sentence.index;
            append(&mut window, sentence);
        }
        Some(Ok(window))
    }
}

/// Range of the tokens between the special tokens at the beginning and at the end.
fn text_range(sequence: &Sequence) -> Range<usize> {
    let is_text = |kind: &TokenKind| !kind.is_special();
    let start = sequence.kinds.iter().position(is_text).unwrap_or(0);
    start..sequence.kinds.iter().rposition(is_text).map_or(start, |last| last + 1)
}

/// Appends the text of a sentence to a window, before the special tokens at the window's end.
fn append(window: &mut Sequence, sentence: Sequence) {
    let (at, words) = (text_range(window).end, window.words.len());
    let own = text_range(&sentence);
    window.texts.push(at..at + own.len());
    window.words.extend(sentence.words.into_iter().map(|word| word.shifted(own.start, at)));
    window.ids.splice(at..at, sentence.ids[own.clone()].iter().copied());
    window.segments.splice(at..at, sentence.segments[own.clone()].iter().copied());
    window.kinds.splice(at..at, sentence.kinds[own].iter().copied());
    let shifted = |arc: GoldArc| GoldArc { head: arc.head.map_word(|head| words + head), ..arc };
    if let Some((tree, more)) = window.tree.as_mut().zip(sentence.tree) {
        tree.extend(more.into_iter().map(shifted));
    }
    window.links.extend(sentence.links.iter().map(|links| links.remapped(|word| Some(words + word))));
    window.forms.extend(sentence.forms);
    window.spellings.extend(sentence.spellings);
    window.annotations.extend(sentence.annotations);
    // A window counts as the first of its family if any of its sentences does.
    window.family.is_first |= sentence.family.is_first;
}
