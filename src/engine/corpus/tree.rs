//! The conditions that a dependency tree must meet, in whatever format it comes.

use anyhow::{Error, anyhow};

use super::sentence::Word;
use crate::system::counted::counted;
use crate::system::errors::Facts;

/// Checks that heads are in range and lead to a root; the error names the word, counted from 0, and the problem.
pub(super) fn check(words: &[Word]) -> Result<(), (usize, Error)> {
    let next = |word: usize| words[word].head.word();
    for word in 0..words.len() {
        if next(word) == Some(word) {
            let error = anyhow!("is {}, the word itself", word + 1).of_value(word + 1);
            return Err((word, error.hint("the head of a root is 0")));
        }
        if let Some(head) = next(word).filter(|&head| head >= words.len()) {
            let error = anyhow!("is {}, but the sentence has {}", head + 1, counted(words.len(), "word"));
            return Err((word, error.of_value(head + 1)));
        }
    }
    // The walk that met each word first: a walk that meets itself has found a cycle.
    let mut met_by = vec![None; words.len()];
    for start in 0..words.len() {
        let mut at = Some(start);
        while let Some(word) = at {
            if met_by[word] == Some(start) {
                return Err((word, anyhow!("leads into a cycle: {}", cycle(word, next))));
            }
            if met_by[word].is_some() {
                break;
            }
            met_by[word] = Some(start);
            at = next(word);
        }
    }
    Ok(())
}

/// `2 -> 5 -> 2`: the heads from `word` until it comes back, at most a dozen.
fn cycle(word: usize, next: impl Fn(usize) -> Option<usize>) -> String {
    const SHOWN: usize = 12;
    let mut shown = vec![(word + 1).to_string()];
    let mut at = next(word);
    while let Some(other) = at {
        if shown.len() == SHOWN {
            shown.push("...".to_owned());
            break;
        }
        shown.push((other + 1).to_string());
        at = next(other).filter(|_| other != word);
    }
    shown.join(" -> ")
}
