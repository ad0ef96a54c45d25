//! The loss of masked tokens with all heads and without sets of them.

pub mod items;

use serde::{Deserialize, Serialize};

use crate::model::forward::visitor::Needs;
use crate::passes::ablation::Conditions;
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;
use crate::stats::surprisal::surprisal;
use crate::studies::ablation::removal::{Loss, PerToken, Quantity};

/// The losses of masked tokens, `-ln p` of the true one in nats, summed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Masked tokens.
    pub tokens: u64,
    /// Sentences with any; of items of a task the first of each unit.
    pub sentences: u64,
    /// The loss with all heads.
    pub whole: ExactSum,
    /// The sums of each variant; `[variants]`.
    pub without: Vec<ExactSum>,
}

merge_fields!(Losses { tokens, sentences, whole, without });

impl Losses {
    /// The loss without any head, where that is the last variant.
    pub fn without_any(&self) -> f64 {
        self.without.last().expect("the last variant has no head").value()
    }

    /// Adds the loss of a token with all heads, or in the variant at this place.
    pub fn add(&mut self, variant: Option<usize>, loss: f64) {
        *variant.map_or(&mut self.whole, |variant| &mut self.without[variant]) += loss;
    }
}

impl PerToken for Losses {
    fn tokens(&self) -> u64 {
        self.tokens
    }

    fn change(&self, variant: usize) -> f64 {
        self.without[variant].value() - self.whole.value()
    }
}

impl Loss for Losses {
    fn units(&self) -> u64 {
        self.sentences
    }

    fn loss(&self, variant: Option<usize>) -> f64 {
        variant.map_or(&self.whole, |variant| &self.without[variant]).value()
    }
}

/// A masked token that is scored.
#[derive(Debug)]
pub struct ScoredToken<T> {
    /// The place whose logits predict it.
    pub position: usize,
    /// The true class.
    pub truth: u32,
    /// Further facts of it.
    pub of: T,
}

/// The masked tokens of a sequence that are scored, ascending by position, with what `of` knows of their words.
pub fn scored<T>(sequence: &Sequence, of: impl Fn(usize) -> T) -> Vec<ScoredToken<T>> {
    scored_of(sequence, |word| Some(of(word)))
}

/// Scored tokens for which `of` returns a value.
pub fn scored_of<T>(sequence: &Sequence, of: impl Fn(usize) -> Option<T>) -> Vec<ScoredToken<T>> {
    let score = |token: &PredictedToken| {
        Some(ScoredToken { position: token.position, truth: token.truth?, of: of(token.word)? })
    };
    sequence.predictions.iter().filter_map(score).collect()
}

/// The loss at a position with what is known of its token, if that is scored.
pub fn loss_at<'a, T>(scored: &'a [ScoredToken<T>], position: usize, logits: &[f32]) -> Option<(f64, &'a T)> {
    let at = scored.binary_search_by_key(&position, |token| token.position).ok()?;
    Some((surprisal(logits, scored[at].truth), &scored[at].of))
}

impl Quantity for Losses {
    type State = Vec<ScoredToken<()>>;

    fn needs(_: &Conditions) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn new(variants: usize) -> Self {
        let empty = ExactSum::default();
        Self { tokens: 0, sentences: 0, whole: empty, without: vec![empty; variants] }
    }

    fn begin(&mut self, sequence: &Sequence, _: usize) -> Option<Self::State> {
        let scored = scored(sequence, |_| ());
        self.tokens += scored.len() as u64;
        self.sentences += u64::from(sequence.family.is_first && !scored.is_empty());
        (!scored.is_empty()).then_some(scored)
    }

    fn logits(&mut self, state: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        if let Some((loss, ())) = loss_at(state, position, logits) {
            self.add(variant, loss);
        }
    }

    fn fits(&self, variants: usize) -> bool {
        self.without.len() == variants
    }
}
