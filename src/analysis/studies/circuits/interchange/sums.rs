//! Score of each item on its text and its corrupted text, unchanged and with each head's contexts exchanged between the two.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::forward::batch::ContextExchange;
use crate::model::forward::visitor::Needs;
use crate::model::grid::HeadGrid;
use crate::passes::ablation::PassConditions;
use crate::passes::observer::requests::{HeadSet, single_head_sets};
use crate::sequences::derived::task::ExchangedPositions;
use crate::sequences::sequence::{ScoreRule, Sequence};
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;
use crate::studies::ablation::losses::{ScoredToken, scored_tokens};
use crate::studies::ablation::removal::{RemovalQuantity, RemovalSums, Removals};

/// Runs of an item's two texts in which the texts exchange the contexts of one head: one run for each head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SingleHeads;

impl Removals for SingleHeads {
    fn variants(&self, grid: HeadGrid) -> Vec<HeadSet> {
        single_head_sets(grid).collect()
    }

    fn fits_grid(&self, _: HeadGrid) -> bool {
        true
    }
}

/// Task items of a block, by item number. Each item is run on two sequences: its text and its corrupted text.
pub type ExchangedItems = BTreeMap<u64, ExchangedItem>;

pub type InterchangeSums = RemovalSums<SingleHeads, ExchangedItems>;

/// Scores of one task item on its text and on its corrupted text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExchangedItem {
    /// Whether the item is the first of its sampling unit.
    pub is_first: bool,
    /// Name of the item's corruption in the task file; `None` if it has none.
    pub corruption: Option<String>,
    /// Numbers of tokens of the text, without special tokens: `[all, changed by the corruption]`.
    pub tokens: [u64; 2],
    /// Positions at which contexts are exchanged.
    pub positions: ExchangedPositions,
    /// Scores without exchange, then with the contexts of each head exchanged: `[text, corrupted text][1 + heads]`.
    scores: [Vec<ExactSum>; 2],
}

merge_fields!(ExchangedItem[is_first, corruption, tokens, positions] { scores });

impl ExchangedItem {
    /// Score on a text ([`CLEAN`] or [`CORRUPTED`]), without exchange (`None`) or with a head's contexts exchanged.
    fn score(&self, text: usize, head: Option<usize>) -> f64 {
        self.scores[text][head.map_or(0, |head| head + 1)].value()
    }

    /// Fall of the item's score when its text is corrupted.
    pub fn gap(&self) -> f64 {
        self.score(CLEAN, None) - self.score(CORRUPTED, None)
    }

    /// Rise of the corrupted text's score when the head takes its contexts from the clean text.
    pub fn restored_score(&self, head: usize) -> f64 {
        self.score(CORRUPTED, Some(head)) - self.score(CORRUPTED, None)
    }

    /// Fall of the clean text's score when the head takes its contexts from the corrupted text.
    pub fn destroyed_score(&self, head: usize) -> f64 {
        self.score(CLEAN, None) - self.score(CLEAN, Some(head))
    }
}

/// Index of the item's own text in pairs of texts.
const CLEAN: usize = 0;
/// Index of the item's corrupted text in pairs of texts.
const CORRUPTED: usize = 1;

/// One of an item's two texts, during its forward pass.
pub struct ExchangedText {
    /// Number of the item in the task file.
    index: u64,
    /// The text of the item that the sequence holds: [`CLEAN`] or [`CORRUPTED`].
    text: usize,
    /// Id of the foil, the token with which the answer is compared.
    foil: u32,
    scored: Vec<ScoredToken<()>>,
}

impl RemovalQuantity for ExchangedItems {
    type State = ExchangedText;

    fn needs(_: &PassConditions) -> Needs {
        Needs { logits: true, ..Needs::default() }
    }

    fn new(_: usize) -> Self {
        Self::new()
    }

    fn begin(&mut self, sequence: &Sequence, variants: usize) -> Option<Self::State> {
        let part = sequence.item.as_ref()?;
        let ScoreRule::VersusFoil(foil) = part.rule else { return None };
        // The clean text comes first and alone holds the corruption.
        let text = if part.corruption.is_some() { CLEAN } else { CORRUPTED };
        if let Some(corruption) = &part.corruption {
            let none = vec![ExactSum::default(); 1 + variants];
            let item = ExchangedItem {
                is_first: sequence.family.is_first,
                corruption: corruption.name.as_deref().map(str::to_owned),
                tokens: [sequence.text_positions().count() as u64, corruption.changed_tokens],
                positions: match corruption.exchange {
                    ContextExchange::Everywhere => ExchangedPositions::All,
                    ContextExchange::At(_) => ExchangedPositions::Answer,
                },
                scores: [none.clone(), none],
            };
            self.insert(sequence.index, item);
        }
        Some(ExchangedText { index: sequence.index, text, foil, scored: scored_tokens(sequence, |_| ()) })
    }

    fn add_logits(&mut self, state: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        let Some(token) = state.scored.iter().find(|token| token.position == position) else { return };
        let logit = |token: u32| f64::from(logits[token as usize]);
        let item = self.get_mut(&state.index).expect("its text came first");
        // The softmax normalisation cancels in the difference of log-probabilities.
        item.scores[state.text][variant.map_or(0, |variant| variant + 1)] += logit(token.truth) - logit(state.foil);
    }

    fn has_variants(&self, variants: usize) -> bool {
        self.values().all(|item| item.scores.iter().all(|scores| scores.len() == 1 + variants))
    }
}
