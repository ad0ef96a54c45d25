//! The score of each item of a task with all heads and without each set of heads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::forward::visitor::Needs;
use crate::sequences::sequence::ScoreRule;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;
use crate::stats::surprisal::surprisal;
use crate::studies::ablation::losses::{ScoredToken, scored};
use crate::studies::ablation::removal::{EachHead, Quantity, RemovalSums};

/// The items of a block by their numbers.
///
/// The texts of an item may go through the model in several packs, and only the whole score says whether the model is right:
/// so items are kept, and not their sum.
pub type Items = BTreeMap<u64, Item>;

/// The scores of all items with all heads, without each and without any.
pub type TaskSums = RemovalSums<EachHead, Items>;

/// The scores of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Whether it is the first of its unit.
    pub is_first: bool,
    /// The right answer, where items may share it.
    pub answer: Option<u32>,
    /// The condition that the item belongs to.
    pub group: Option<String>,
    /// `[1 + variants]`: with all heads, then without each set.
    scores: Vec<ExactSum>,
    /// How much more the logit of the true class is than the largest other one, as the scores; empty where scores tell what is
    /// right.
    margins: Vec<ExactSum>,
}

merge_fields!(Item[is_first, answer, group] { scores, margins });

impl Item {
    /// The score with all heads, or in the variant at this place.
    pub fn score(&self, variant: Option<usize>) -> f64 {
        self.scores[row(variant)].value()
    }

    /// Whether the model is right with all heads, or in the variant at this place.
    pub fn is_right(&self, variant: Option<usize>) -> bool {
        self.margins.get(row(variant)).map_or_else(|| self.score(variant), |margin| margin.value()) > 0.0
    }
}

/// The place of a variant among the scores of an item.
fn row(variant: Option<usize>) -> usize {
    variant.map_or(0, |variant| variant + 1)
}

/// A text of an item.
pub struct ItemText {
    index: u64,
    rule: ScoreRule,
    scored: Vec<ScoredToken<()>>,
}

impl Quantity for Items {
    type State = ItemText;

    fn needs() -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn new(_: usize) -> Self {
        Self::new()
    }

    fn begin(&mut self, sequence: &Sequence, variants: usize) -> Option<Self::State> {
        let part = sequence.item.as_ref()?;
        let none = vec![ExactSum::default(); 1 + variants];
        self.entry(sequence.index).or_insert_with(|| Item {
            is_first: sequence.family.is_first,
            answer: part.answer,
            group: part.group.as_deref().map(str::to_owned),
            margins: if part.rule == ScoreRule::Class { none.clone() } else { Vec::new() },
            scores: none,
        });
        Some(ItemText { index: sequence.index, rule: part.rule, scored: scored(sequence, |_| ()) })
    }

    fn logits(&mut self, text: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        let Some(token) = text.scored.iter().find(|token| token.position == position) else { return };
        let log_probability = || -surprisal(logits, token.truth);
        let logit = |token: u32| f64::from(logits[token as usize]);
        let score = match text.rule {
            // The normalisation of both probabilities is the same.
            ScoreRule::Against(foil) => logit(token.truth) - logit(foil),
            ScoreRule::Gains | ScoreRule::Class => log_probability(),
            ScoreRule::Loses => -log_probability(),
        };
        let item = self.get_mut(&text.index).expect("it was entered when the sequence began");
        item.scores[row(variant)] += score;
        if text.rule == ScoreRule::Class {
            let others =
                (0..).zip(logits).filter(|(class, _)| *class != token.truth).map(|(_, &logit)| f64::from(logit));
            item.margins[row(variant)] += logit(token.truth) - others.fold(f64::NEG_INFINITY, f64::max);
        }
    }

    fn fits(&self, variants: usize) -> bool {
        let fit = |sums: &Vec<ExactSum>| sums.len() == 1 + variants;
        self.values().all(|item| fit(&item.scores) && (item.margins.is_empty() || fit(&item.margins)))
    }
}
