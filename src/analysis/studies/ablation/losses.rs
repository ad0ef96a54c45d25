//! Loss of scored tokens (masked, replaced or next), and score of each task item, with all heads and without sets of heads.

use std::collections::BTreeMap;
use std::fmt;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::files::Pooling;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::Needs;
use crate::passes::ablation::PassConditions;
use crate::sequences::derived::task::TaskKind;
use crate::sequences::sequence::{PredictedToken, ScoreRule, Sequence};
use crate::stats::block_test::{Jackknife, Scale, TAIL_SHARE};
use crate::stats::blocks::merge_fields;
use crate::stats::exact::ExactSum;
use crate::stats::interval::Interval;
use crate::stats::surprisal::surprisal;
use crate::studies::ablation::output_shifts::cosine_distance;
use crate::studies::ablation::removal::{
    LossQuantity, PerTokenChange, RemovalQuantity, RemovalSums, SingleHeadsAndAll,
};
use crate::study::show::wording::decimal;

/// Summed losses of scored tokens (masked, replaced or next), in nats. The loss of a token is `-ln p` of the true
/// token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Number of scored tokens.
    pub tokens: u64,
    /// Number of sentences with a scored token; each group of dependent sentences counts once.
    pub sentences: u64,
    /// Summed loss of the scored tokens with all heads, in nats.
    pub whole: ExactSum,
    /// Summed loss of the scored tokens in each ablation variant, in nats, `[variants]`.
    pub without: Vec<ExactSum>,
}

merge_fields!(Losses { tokens, sentences, whole, without });

impl Losses {
    /// Summed loss with all heads removed, in nats. The last variant must remove all heads.
    pub fn loss_without_heads(&self) -> f64 {
        self.without.last().expect("the last variant has no head").value()
    }

    pub fn add(&mut self, variant: Option<usize>, loss: f64) {
        *variant.map_or(&mut self.whole, |variant| &mut self.without[variant]) += loss;
    }
}

impl PerTokenChange for Losses {
    fn tokens(&self) -> u64 {
        self.tokens
    }

    fn change(&self, variant: usize) -> f64 {
        self.without[variant].value() - self.whole.value()
    }
}

impl LossQuantity for Losses {
    fn sampling_units(&self) -> u64 {
        self.sentences
    }

    fn total_loss(&self, variant: Option<usize>) -> f64 {
        variant.map_or(&self.whole, |variant| &self.without[variant]).value()
    }
}

/// A token whose loss is measured, with data about its word.
#[derive(Debug)]
pub struct ScoredToken<T> {
    /// Position whose logits predict the token.
    pub position: usize,
    /// Id of the true token.
    pub truth: u32,
    /// Data about the token's word that the study needs, such as its groups.
    pub word_data: T,
}

/// Lists the scored tokens of a sequence, ascending by position, each with the `word_data` of its word.
pub fn scored_tokens<T>(sequence: &Sequence, word_data: impl Fn(usize) -> T) -> Vec<ScoredToken<T>> {
    scored_tokens_where(sequence, |word| Some(word_data(word)))
}

/// As [`scored_tokens`], without the tokens of words for which `word_data` returns `None`.
pub fn scored_tokens_where<T>(sequence: &Sequence, word_data: impl Fn(usize) -> Option<T>) -> Vec<ScoredToken<T>> {
    let score = |token: &PredictedToken| {
        Some(ScoredToken { position: token.position, truth: token.truth?, word_data: word_data(token.word)? })
    };
    sequence.predictions.iter().filter_map(score).collect()
}

/// Loss of the scored token that the logits at `position` predict, with its word data. `None` if no token is scored there.
pub fn loss_at<'a, T>(scored: &'a [ScoredToken<T>], position: usize, logits: &[f32]) -> Option<(f64, &'a T)> {
    let index = scored.binary_search_by_key(&position, |token| token.position).ok()?;
    Some((surprisal(logits, scored[index].truth), &scored[index].word_data))
}

impl RemovalQuantity for Losses {
    type State = Vec<ScoredToken<()>>;

    fn new(variants: usize) -> Self {
        let empty = ExactSum::default();
        Self { tokens: 0, sentences: 0, whole: empty, without: vec![empty; variants] }
    }

    fn begin(&mut self, sequence: &Sequence, _: usize) -> Option<Self::State> {
        let scored = scored_tokens(sequence, |_| ());
        self.tokens += scored.len() as u64;
        self.sentences += u64::from(sequence.family.is_first && !scored.is_empty());
        (!scored.is_empty()).then_some(scored)
    }

    fn add_logits(&mut self, state: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        if let Some((loss, ())) = loss_at(state, position, logits) {
            self.add(variant, loss);
        }
    }

    fn has_variants(&self, variants: usize) -> bool {
        self.without.len() == variants
    }
}

/// Task items of a block, by item number.
///
/// Each item has a separate entry, because its texts may run in several packs of sequences. Only the item's
/// total score decides whether the model is right.
pub type Items = BTreeMap<u64, Item>;

pub type TaskSums = RemovalSums<SingleHeadsAndAll, Items>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    pub is_first: bool,
    /// Right answers, by class number or token id, each with the number of predictions for which it is right. Empty for
    /// pairs of texts and for triples.
    pub truths: BTreeMap<u32, u64>,
    /// Name of the item's group (condition) in the task file; `None` if it has no group.
    pub group: Option<String>,
    /// Score of the item with all heads, then in each ablation variant, `[1 + variants]`.
    scores: Vec<ExactSum>,
    /// Number of right class predictions with all heads, then in each ablation variant, `[1 + variants]`. Empty if
    /// the sign of the score decides what is right.
    right: Vec<u64>,
    /// Embeddings of the three texts of a triple in the run at hand; each is `None` until that text has run.
    #[serde(skip)]
    vectors: [Option<Vec<f64>>; 3],
}

merge_fields!(Item[is_first, truths, group] { scores, right });

impl Item {
    /// Score of the item with all heads (`None`) or in an ablation variant.
    pub fn score(&self, variant: Option<usize>) -> f64 {
        self.scores[run_index(variant)].value()
    }

    /// Number of right predictions of the item, with all heads (`None`) or in an ablation variant.
    pub fn correct_count(&self, variant: Option<usize>) -> f64 {
        let of_classes = self.right.get(run_index(variant)).map(|&right| right as f64);
        of_classes.unwrap_or_else(|| f64::from(u8::from(self.score(variant) > 0.0)))
    }

    /// Number of predictions: one for each tagged word of a tagging item, one for any other item.
    pub fn prediction_count(&self) -> f64 {
        if self.right.is_empty() { 1.0 } else { self.truths.values().sum::<u64>() as f64 }
    }
}

/// Share of a task's predictions that are right, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RightShare {
    /// Share of right predictions; null if there is no item.
    #[schemars(range(min = 0, max = 1))]
    pub share: Option<f64>,
    /// 95 % interval over sampling units; if all or no predictions are right, the exact one of Clopper & Pearson (1934).
    pub ci95: Option<Interval>,
}

impl RightShare {
    /// Makes the share with the interval of its jackknife over `blocks`; `units` is the number of sampling units. A
    /// `share` that is not finite becomes `None`.
    ///
    /// Shares of 0 and 1 do not vary between blocks. Their interval is exact for independent units (Clopper &
    /// Pearson 1934): `[0, 1 - 0.025^(1/n)]` or `[0.025^(1/n), 1]`, with `n` units.
    pub fn new(share: f64, blocks: Jackknife, units: u64) -> Self {
        // Every block counts at least one unit, even where a condition has none in it.
        let units = units.max(blocks.blocks() as u64).max(1);
        let least = TAIL_SHARE.powf(1.0 / units as f64);
        let ci95 = blocks.with_scale(Scale::Share).interval().map(|varied| match share {
            none if none <= 0.0 => Interval(0.0, 1.0 - least),
            all if all >= 1.0 => Interval(least, 1.0),
            _ => varied,
        });
        Self { share: Some(share).filter(|share| share.is_finite()), ci95 }
    }
}

/// Formats the share and its 95 % interval in per cent: `83.1 % [79.5, 86.2]`.
impl fmt::Display for RightShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(share) = self.share else { return f.write_str("-") };
        let percent = |share: f64| decimal(100.0 * share, 1);
        write!(f, "{} %", percent(share))?;
        self.ci95.map_or(Ok(()), |ci95| write!(f, " [{}, {}]", percent(ci95.low()), percent(ci95.high())))
    }
}

/// Unit of the loss: cosines for a task of triples, whose answers have no probabilities, and nats for other tasks
/// and for tokens (`None`).
pub fn loss_unit(task: Option<TaskKind>) -> &'static str {
    if task == Some(TaskKind::Triple) { "cosines" } else { "nats" }
}

/// Index in `scores` and `right` of the run with all heads (`None`) or of an ablation variant.
fn run_index(variant: Option<usize>) -> usize {
    variant.map_or(0, |variant| variant + 1)
}

/// State of one text of a task item while the model runs on it.
pub struct ItemText {
    /// Number of the item in the task file.
    index: u64,
    /// Rule by which the score is computed from the model's predictions.
    rule: ScoreRule,
    /// Scored tokens, each with the number of its foil class (the class to compare with), if it has one.
    scored: Vec<ScoredToken<Option<u32>>>,
    /// Positions of the text's tokens, without special tokens.
    text_positions: Vec<usize>,
}

impl RemovalQuantity for Items {
    type State = ItemText;

    fn needs(conditions: &PassConditions) -> Needs {
        let compares = conditions.task == Some(TaskKind::Triple);
        Needs { logits: !compares, hidden_states: compares, ..Needs::default() }
    }

    fn new(_: usize) -> Self {
        Self::new()
    }

    fn begin(&mut self, sequence: &Sequence, variants: usize) -> Option<Self::State> {
        let part = sequence.item.as_ref()?;
        let mut scored = scored_tokens(sequence, |_| None);
        scored.iter_mut().zip(&part.foils).for_each(|(token, &foil)| token.word_data = Some(foil));
        self.entry(sequence.index).or_insert_with(|| {
            let is_of_classes = part.rule == ScoreRule::Class;
            let of_classes = scored.iter().filter(|_| is_of_classes).map(|token| token.truth);
            let truths = of_classes.chain(part.answer.filter(|_| !is_of_classes)).counts();
            Item {
                is_first: sequence.family.is_first,
                truths: truths.into_iter().map(|(truth, count)| (truth, count as u64)).collect(),
                group: part.group.as_deref().map(str::to_owned),
                scores: vec![ExactSum::default(); 1 + variants],
                right: if is_of_classes { vec![0; 1 + variants] } else { Vec::new() },
                vectors: Default::default(),
            }
        });
        let text = if matches!(part.rule, ScoreRule::Embedding(..)) {
            sequence.text_positions().collect()
        } else {
            Vec::new()
        };
        Some(ItemText { index: sequence.index, rule: part.rule, scored, text_positions: text })
    }

    fn add_logits(&mut self, text: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        let Some(token) = text.scored.iter().find(|token| token.position == position) else { return };
        let log_probability = || -surprisal(logits, token.truth);
        let logit = |token: u32| f64::from(logits[token as usize]);
        let score = match (text.rule, token.word_data) {
            // The softmax normalisation cancels in the difference of log-probabilities.
            (ScoreRule::VersusFoil(foil), _) | (ScoreRule::Class, Some(foil)) => logit(token.truth) - logit(foil),
            (ScoreRule::GoodText | ScoreRule::Class, _) => log_probability(),
            (ScoreRule::BadText, _) => -log_probability(),
            (ScoreRule::Embedding(..), _) => return,
        };
        let item = self.get_mut(&text.index).expect("it was entered when the sequence began");
        item.scores[run_index(variant)] += score;
        if text.rule == ScoreRule::Class {
            let mut others = (0..).zip(logits).filter(|(class, _)| *class != token.truth);
            item.right[run_index(variant)] +=
                u64::from(others.all(|(_, &other)| f64::from(other) < logit(token.truth)));
        }
    }

    fn add_hidden_states(&mut self, text: &mut Self::State, variant: Option<usize>, states: Rows<'_>) {
        let ScoreRule::Embedding(of, pooling) = text.rule else { return };
        let item = self.get_mut(&text.index).expect("it was entered when the sequence began");
        item.vectors[of as usize] = Some(pool_text_embedding(states, &text.text_positions, pooling));
        if item.vectors.iter().any(Option::is_none) {
            return;
        }
        let [anchor, positive, negative] = std::mem::take(&mut item.vectors).map(Option::unwrap_or_default);
        // A zero vector counts as orthogonal to every vector.
        let cosine = |other: &[f64]| 1.0 - cosine_distance(&anchor, other).unwrap_or(1.0);
        item.scores[run_index(variant)] += cosine(&positive) - cosine(&negative);
    }

    fn has_variants(&self, variants: usize) -> bool {
        let fit = |count: usize| count == 1 + variants;
        self.values().all(|item| fit(item.scores.len()) && (item.right.is_empty() || fit(item.right.len())))
    }
}

impl PerTokenChange for Items {
    fn tokens(&self) -> u64 {
        self.len() as u64
    }

    fn change(&self, variant: usize) -> f64 {
        self.values().map(|item| item.score(None) - item.score(Some(variant))).sum()
    }
}

impl LossQuantity for Items {
    fn sampling_units(&self) -> u64 {
        self.values().filter(|item| item.is_first).count() as u64
    }

    fn total_loss(&self, variant: Option<usize>) -> f64 {
        -self.values().map(|item| item.score(variant)).sum::<f64>()
    }

    fn correct_count(&self, variant: Option<usize>) -> f64 {
        self.values().map(|item| item.correct_count(variant)).sum()
    }

    fn prediction_count(&self) -> f64 {
        self.values().map(Item::prediction_count).sum()
    }
}

/// Embedding of a text, pooled from its last hidden states. `text` lists the positions of its tokens, without
/// special tokens.
fn pool_text_embedding(states: Rows<'_>, text: &[usize], pooling: Pooling) -> Vec<f64> {
    let row = |place: usize| states.row(place).iter().copied().map(f64::from);
    let folded = |places: &mut dyn Iterator<Item = usize>, fold: fn(f64, f64) -> f64| {
        let mut vector: Vec<f64> = places.next().into_iter().flat_map(row).collect();
        places.for_each(|place| vector.iter_mut().zip(row(place)).for_each(|(all, one)| *all = fold(*all, one)));
        vector
    };
    // The sum serves as the mean: cosines ignore length.
    let sum = |all: f64, one: f64| all + one;
    match pooling {
        Pooling::Text => folded(&mut text.iter().copied(), sum),
        Pooling::Mean => folded(&mut (0..states.count()), sum),
        Pooling::Max => folded(&mut (0..states.count()), f64::max),
        Pooling::First => row(0).collect(),
        Pooling::Last => row(states.count() - 1).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_pooled_as_the_model_says() {
        // Three tokens of two dimensions, the second of text.
        let states = [1.0, 6.0, 3.0, -2.0, 2.0, 5.0];
        let of = |pooling| pool_text_embedding(Rows::new(&states, 2), &[1], pooling);
        assert_eq!(of(Pooling::Text), [3.0, -2.0]);
        assert_eq!(of(Pooling::Mean), [6.0, 9.0]);
        assert_eq!(of(Pooling::Max), [3.0, 6.0]);
        assert_eq!([of(Pooling::First), of(Pooling::Last)], [[1.0, 6.0], [2.0, 5.0]]);
    }
}
