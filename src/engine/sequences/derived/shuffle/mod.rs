//! Sequences with their words in another order: the one place where words move, and all that is known of them.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::corpus::TreeHead;
use crate::sequences::sequence::{GoldArc, Sequence};

#[cfg(test)]
mod tests;

/// The sequence with its words in random order.
///
/// The order depends on the seed and the sentence's number alone.
pub fn shuffled(sequence: &Sequence, seed: u64) -> Sequence {
    let mut order: Vec<usize> = (0..sequence.words.len()).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(sequence.index);
    order.shuffle(&mut random);
    reordered(sequence, &order)
}

/// The sequence with its words in this order, a permutation of their places: `order[0]` is the word that comes first.
///
/// Each word keeps its tokens, in their order, its arc and its annotation. Special tokens stay where they are, around the
/// text. A token of text that belongs to no word goes with the word before it.
pub fn reordered(sequence: &Sequence, order: &[usize]) -> Sequence {
    let pieces = pieces(sequence);
    // The places in the sequence that tokens of words have, and the tokens that come there.
    let places: Vec<usize> = pieces.iter().cloned().flatten().collect();
    let tokens = order.iter().flat_map(|&word| pieces[word].clone());
    let mut reordered = sequence.clone();
    for (&place, token) in places.iter().zip(tokens) {
        reordered.ids[place] = sequence.ids[token];
        reordered.segments[place] = sequence.segments[token];
        reordered.kinds[place] = sequence.kinds[token];
    }
    let mut start = 0;
    reordered.words = order
        .iter()
        .map(|&word| {
            let first = places[start];
            start += pieces[word].len();
            first..first + sequence.words[word].len()
        })
        .collect();
    if let Some(tree) = &sequence.tree {
        let mut now_at = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &word)| now_at[word] = place);
        let moved = |arc: &GoldArc| match arc.head {
            TreeHead::Word(head) => GoldArc { head: TreeHead::Word(now_at[head]), ..arc.clone() },
            TreeHead::Root | TreeHead::Unknown => arc.clone(),
        };
        reordered.tree = Some(order.iter().map(|&word| moved(&tree[word])).collect());
    }
    if !sequence.forms.is_empty() {
        reordered.forms = order.iter().map(|&word| sequence.forms[word].clone()).collect();
    }
    if !sequence.spelled.is_empty() {
        reordered.spelled = order.iter().map(|&word| sequence.spelled[word].clone()).collect();
    }
    if !sequence.annotations.is_empty() {
        reordered.annotations = order.iter().map(|&word| sequence.annotations[word].clone()).collect();
    }
    reordered
}

/// Each word with the tokens of text after it that belong to none.
fn pieces(sentence: &Sequence) -> Vec<Range<usize>> {
    let is_loose =
        |token: &usize| !sentence.kinds[*token].is_special() && !sentence.words.iter().any(|word| word.contains(token));
    let with_loose = |word: &Range<usize>| {
        word.start..(word.end..sentence.kinds.len()).find(|token| !is_loose(token)).unwrap_or(sentence.kinds.len())
    };
    sentence.words.iter().map(with_loose).collect()
}
