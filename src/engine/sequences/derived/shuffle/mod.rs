//! Sequences with their words reordered, together with all annotations of the words.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::sequences::sequence::{GoldArc, Sequence};
use crate::sequences::span::WordSpan;

#[cfg(test)]
mod tests;

/// Shuffles the words of a sequence by the seed and the sequence's number. Words that share tokens stay side by side.
pub fn shuffled(sequence: &Sequence, seed: u64) -> Sequence {
    let words: Vec<usize> = (0..sequence.words.len()).collect();
    let share_a_token = |&a: &usize, &b: &usize| sequence.words[a].end() > sequence.words[b].start();
    let mut groups: Vec<&[usize]> = words.chunk_by(share_a_token).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(sequence.index);
    groups.shuffle(&mut random);
    reordered(sequence, &groups.concat())
}

/// Reorders the words of a sequence; `order[0]` is the index of the word that comes first. Words that share tokens must be
/// neighbours in `order`, in unchanged order.
///
/// Each word keeps its tokens, its arc and its annotation. Special tokens and segments stay in place. A token of text that
/// belongs to no word moves with the word before it.
pub fn reordered(sequence: &Sequence, order: &[usize]) -> Sequence {
    let pieces = movable_tokens(sequence);
    // The positions of word tokens in the sequence, and the tokens that move there.
    let positions: Vec<usize> = pieces.iter().cloned().flatten().collect();
    let tokens = order.iter().flat_map(|&word| pieces[word].clone());
    let mut reordered = sequence.clone();
    for (&position, token) in positions.iter().zip(tokens) {
        reordered.ids[position] = sequence.ids[token];
        reordered.kinds[position] = sequence.kinds[token];
    }
    let (mut start, mut end) = (0, 0);
    let moved = |&word: &usize| {
        let span = sequence.words[word].clone();
        let shared = pieces[word].start - span.start();
        let first = if shared == 0 { positions[start] } else { end - shared };
        start += pieces[word].len();
        end = first + span.len();
        let from = span.start();
        span.shifted(from, first)
    };
    reordered.words = order.iter().map(moved).collect();
    let mut new_positions = vec![0; order.len()];
    order.iter().enumerate().for_each(|(position, &word)| new_positions[word] = position);
    reordered.links = sequence.links.iter().map(|links| links.remapped(|word| Some(new_positions[word]))).collect();
    let moved = |arc: GoldArc| GoldArc { head: arc.head.map_word(|head| new_positions[head]), ..arc };
    reordered.tree = sequence.tree.as_ref().map(|tree| in_order(tree, order).into_iter().map(moved).collect());
    reordered.forms = in_order(&sequence.forms, order);
    reordered.spellings = in_order(&sequence.spellings, order);
    reordered.annotations = in_order(&sequence.annotations, order);
    reordered
}

/// Reorders `items`, one per word, by `order`; empty if `items` is empty.
fn in_order<T: Clone>(items: &[T], order: &[usize]) -> Vec<T> {
    if items.is_empty() { Vec::new() } else { order.iter().map(|&word| items[word].clone()).collect() }
}

/// Tokens that move with each word, `[words]`: its tokens that the word before it lacks, and the text tokens after it that
/// belong to no word.
fn movable_tokens(sentence: &Sequence) -> Vec<Range<usize>> {
    let of_word = sentence.words_by_token();
    let is_loose = |token: &usize| !sentence.kinds[*token].is_special() && of_word[*token].is_none();
    let mut end = 0;
    let piece = |word: &WordSpan| {
        let start = word.start().max(end);
        end = word.end();
        let loose = (end..sentence.kinds.len()).take_while(is_loose).count();
        start..end + loose
    };
    sentence.words.iter().map(piece).collect()
}
