//! The section `effect` of the report: what each head is worth, with a verdict, and for which relations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metrics::effect;
use super::sums::{ByGroup, EffectSums, TokenGroup};
use crate::model::grid::HeadPlace;
use crate::model::parameters::Objective;
use crate::passes::ablation::{Conditions, Replacement, band};
use crate::sequences::reading::Context;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::studies::ablation::removal::PerToken;
use crate::studies::ablation::verdicts::{HeadEffect, Verdicts, head_effects, judge};
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric::Fraction;
use crate::study::section::stored;
use crate::system::parallel::in_parallel;

pub struct EffectSection {
    pub effect: Effects,
}

/// Effect of each head on the model's own task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effects {
    /// The replacement of removed heads; null where nothing was scored.
    pub removal: Option<Replacement>,
    /// The task that the losses are of; null where nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Sentences with a scored token.
    pub sentences: u64,
    /// The unit counted as a sentence: a window where a decoder read documents.
    #[serde(skip)]
    pub read: Context,
    /// How many of the seven ways to mask every seventh word were run.
    #[serde(skip)]
    pub phases: Option<u8>,
    /// Sentences of the sample without a token to score.
    pub sentences_left_out: u64,
    /// Tokens that were scored: masked ones, or of a discriminator all of the text.
    pub masked_tokens: u64,
    /// The mean loss of such a token with all heads, in nats.
    pub loss: Option<f64>,
    /// The loss with all heads removed.
    pub loss_without_heads: Option<f64>,
    /// A head is negligible whose effect is surely within this of 0, in nats: the smaller of one hundredth of what all heads
    /// together are worth and half of an equal share of it.
    pub band: Option<f64>,
    /// Heads that the checkpoint lacks.
    #[serde(default, skip_serializing_if = "is_none")]
    pub absent_heads: usize,
    /// How many heads have each verdict.
    pub verdicts: Verdicts,
    /// The effect of each head, layer by layer; its value, interval and standard error are the head's metric `loss_effect`.
    pub heads: Vec<HeadEffect>,
    /// The effects on words of each relation, by its base name.
    pub relations: Vec<RelationEffects>,
}

/// The effects of all heads on the masked words of a relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationEffects {
    /// Its base name.
    pub relation: String,
    /// Masked tokens of words with this relation to their head, but for words that are always masked together with it.
    pub masked_tokens: u64,
    /// Sentences with any.
    pub sentences: u64,
    /// The mean loss with all heads.
    pub loss: f64,
    /// The loss with all heads removed.
    pub loss_without_heads: f64,
    /// The effect of each head, layer by layer; null where it was not removed by itself.
    pub effects: Vec<Option<f64>>,
    /// Their 95 % intervals; null where fewer than 10 blocks have such a word.
    pub ci95: Vec<Option<Interval>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

impl Effects {
    pub fn new(sums: &EffectSums, sentences_left_out: u64, estimates: &Estimates, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let all = total.get(&TokenGroup::All);
        let mean = |sum: f64| all.map(|all| sum / all.tokens as f64);
        let (loss, bare) = (all.and_then(|all| mean(all.whole.value())), all.and_then(|all| mean(all.without_any())));
        let band = loss.zip(bare).map(|(loss, bare)| band(bare - loss, context.taking_part()));
        let heads = head_effects("loss_effect", estimates, band, context);
        let Conditions { removal, objective, .. } = sums.conditions;
        Self {
            removal,
            objective,
            sentences: all.map_or(0, |all| all.sentences),
            read: Context::default(),
            phases: None,
            sentences_left_out,
            masked_tokens: all.map_or(0, |all| all.tokens),
            loss,
            loss_without_heads: bare,
            band,
            absent_heads: context.absent.len(),
            verdicts: Verdicts::default(),
            heads,
            relations: relations(&total, sums, context),
        }
    }

    pub fn judge(&mut self, policy: &Policy) {
        let enough = self.masked_tokens >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        self.verdicts = judge(&mut self.heads, enough, policy);
    }

    pub fn negligible(&self) -> Vec<usize> {
        self.heads.iter().enumerate().filter(|(_, head)| head.negligible).map(|(place, _)| place).collect()
    }
}

#[derive(Serialize)]
pub struct RelationEffect<'a> {
    relation: &'a str,
    masked_tokens: u64,
    #[serde(flatten)]
    place: HeadPlace,
    effect: Option<f64>,
    ci95: Option<Interval>,
}

impl RelationEffects {
    /// The effects of all heads, which are `heads` in their order.
    pub fn of_heads<'a>(&'a self, heads: &'a [HeadEffect]) -> impl Iterator<Item = RelationEffect<'a>> {
        let effects = heads.iter().zip(&self.effects).zip(&self.ci95);
        effects.map(|((head, &effect), &ci95)| {
            let (relation, masked_tokens) = (self.relation.as_str(), self.masked_tokens);
            RelationEffect { relation, masked_tokens, place: head.place, effect, ci95 }
        })
    }
}

fn relations(total: &ByGroup, sums: &EffectSums, context: &EstimationContext) -> Vec<RelationEffects> {
    let named = total.iter().filter_map(|(group, losses)| match group {
        TokenGroup::Relation(relation) => Some((group, relation, losses)),
        TokenGroup::All | TokenGroup::Class(_) => None,
    });
    in_parallel(context.threads, named, |(group, relation, losses)| {
        let of_blocks = |head: usize, part: fn(&Fraction) -> f64| -> PerBlock {
            std::array::from_fn(|block| part(&effect(&sums.blocks[block], Some(head), group)))
        };
        let tokens = of_blocks(0, Fraction::denominator);
        let interval = |head: usize| Jackknife::new(&of_blocks(head, Fraction::numerator), &tokens).interval();
        let mean = |sum: f64| sum / losses.tokens as f64;
        let is_measured = |head: usize| sums.measures(head) && context.takes_part(head);
        let heads = 0..context.grid.count();
        RelationEffects {
            relation: relation.clone(),
            masked_tokens: losses.tokens,
            sentences: losses.sentences,
            loss: mean(losses.whole.value()),
            loss_without_heads: mean(losses.without_any()),
            effects: heads.clone().map(|head| is_measured(head).then(|| mean(losses.change(head)))).collect(),
            ci95: heads.map(|head| interval(head).filter(|_| is_measured(head))).collect(),
        }
    })
}

stored!(EffectSection { effect: Effects });
