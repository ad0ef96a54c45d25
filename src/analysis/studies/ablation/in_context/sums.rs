//! The losses of random tokens in the first copy and in the second.

use serde::{Deserialize, Serialize};

use crate::model::forward::visitor::Needs;
use crate::sequences::derived::repeats::Copies;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;
use crate::studies::ablation::losses::{Losses, ScoredToken, loss_at, scored_of};
use crate::studies::ablation::removal::{EachHead, Quantity, RemovalSums};

/// The losses without each head and without any.
pub type CopySums = RemovalSums<EachHead, CopyLosses>;

/// The losses of the tokens of each copy that stand behind the same token in both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyLosses {
    /// Of the first copy, and of the second.
    pub copies: [Losses; 2],
}

merge_fields!(CopyLosses { copies });

impl CopyLosses {
    /// How much more the tokens of the first copy lose than those of the second, nats, summed: with all heads, or in the variant
    /// at this place.
    pub fn gain(&self, variant: Option<usize>) -> f64 {
        let [first, second] = self.losses(variant);
        first - second
    }

    /// The losses of both copies, nats, summed.
    pub fn losses(&self, variant: Option<usize>) -> [f64; 2] {
        let loss = |losses: &Losses| variant.map_or(&losses.whole, |variant| &losses.without[variant]).value();
        [loss(&self.copies[0]), loss(&self.copies[1])]
    }

    /// The scored tokens of each copy.
    pub fn tokens(&self) -> u64 {
        self.copies[1].tokens
    }
}

impl Quantity for CopyLosses {
    type State = Vec<ScoredToken<usize>>;

    fn needs() -> Needs {
        Losses::needs()
    }

    fn new(variants: usize) -> Self {
        Self { copies: [Losses::new(variants), Losses::new(variants)] }
    }

    fn begin(&mut self, sequence: &Sequence, _: usize) -> Option<Self::State> {
        let copies = Copies::of(sequence)?;
        let scored = scored_of(sequence, |word| copies.of_token(sequence.words[word].start));
        for token in &scored {
            self.copies[token.of].tokens += 1;
        }
        self.copies.iter_mut().for_each(|copy| copy.sentences += 1);
        (!scored.is_empty()).then_some(scored)
    }

    fn logits(&mut self, state: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        if let Some((loss, &copy)) = loss_at(state, position, logits) {
            self.copies[copy].add(variant, loss);
        }
    }

    fn fits(&self, variants: usize) -> bool {
        let [first, second] = &self.copies;
        self.copies.iter().all(|copy| copy.fits(variants)) && first.tokens == second.tokens
    }
}
