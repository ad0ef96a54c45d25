//! The section `effect` of the report: what each head is worth, with a verdict, and for which relations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metrics::effect;
use super::sums::{ByGroup, EffectSums, TokenGroup};
use crate::model::grid::HeadPlace;
use crate::model::parameters::Objective;
use crate::passes::ablation::{Conditions, Replacement};
use crate::sequences::reading::Context;
use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::stats::significance::{benjamini_hochberg, q_of_those_above};
use crate::studies::ablation::band::band;
use crate::studies::ablation::removal::PerToken;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric::Fraction;
use crate::study::section::stored;
use crate::system::counted::plural;
use crate::system::parallel::in_parallel;

pub struct EffectSection {
    pub effect: Effects,
}

/// What heads are worth to the model's own task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effects {
    /// What stood for removed heads; null where nothing was scored.
    pub removal: Option<Replacement>,
    /// The task that the losses are of; null where nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Sentences with a scored token, the first of each family alone.
    pub sentences: u64,
    /// What counts as a sentence: a window where a decoder read documents.
    #[serde(skip)]
    pub read: Context,
    /// Sentences of the sample without a token to score.
    pub sentences_left_out: u64,
    /// Tokens that were scored: masked ones, or of a discriminator all of the text.
    pub masked_tokens: u64,
    /// The mean loss of such a token with all heads, in nats.
    pub loss: Option<f64>,
    /// The same with all heads removed.
    pub loss_without_heads: Option<f64>,
    /// A head is negligible whose effect is surely within this of 0, in nats: the smaller of one hundredth of what all heads
    /// together are worth and half of an equal share of it.
    pub band: Option<f64>,
    /// How many heads have each verdict.
    pub verdicts: Verdicts,
    /// The effect of each head, layer by layer; its value, interval and standard error are the head's metric `loss_effect`.
    pub heads: Vec<HeadEffect>,
    /// The effects on words of each relation, by its base name.
    pub relations: Vec<RelationEffects>,
}

/// What comes of removing a head; whether that is negligible is said beside it, for an effect can be surely above 0 and
/// surely small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The loss rises: `q` is at most `settings.policy.label_q`.
    Helpful,
    /// It falls.
    Harmful,
    /// Neither can be said, but that it is negligible.
    Negligible,
    /// None of these can be said.
    Undecided,
}

/// How many heads have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdicts {
    /// Heads that are helpful.
    pub helpful: u64,
    /// Heads that are harmful.
    pub harmful: u64,
    /// Heads that are negligible.
    pub negligible: u64,
    /// Heads that are undecided.
    pub undecided: u64,
    /// Heads among the helpful and the harmful ones that are negligible as well.
    #[serde(default)]
    pub also_negligible: u64,
}

/// The effect of one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadEffect {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The loss without the head less that with it, per masked token, in nats.
    pub effect: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
    /// The two-sided p-value of the block test against 0; null where there is no standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// `p` corrected by Benjamini & Hochberg for all heads.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// The p-value of the effect being within the band: the larger of the two one-sided ones against its ends; null where
    /// there is no standard error.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub p_negligible: Option<f64>,
    /// Twice that, corrected by Benjamini & Hochberg for all heads whose effect is within the band; null for the others.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub q_negligible: Option<f64>,
    /// What comes of removing it; null where it was not removed by itself (`settings.ablation.effect_of`).
    pub verdict: Option<Verdict>,
    /// Whether it is negligible: `q_negligible` is at most `settings.policy.label_q`. A helpful or harmful head may be.
    #[serde(default)]
    pub negligible: bool,
}

/// The effects of all heads on the masked words of a relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationEffects {
    /// Its base name.
    pub relation: String,
    /// Masked tokens of words with this relation to their head, but for words that are always masked together with it.
    pub masked_tokens: u64,
    /// Sentences with any, the first of each family alone.
    pub sentences: u64,
    /// The mean loss with all heads.
    pub loss: f64,
    /// The same with all heads removed.
    pub loss_without_heads: f64,
    /// The effect of each head, layer by layer; null where it was not removed by itself.
    pub effects: Vec<Option<f64>>,
    /// Their 95 % intervals; null where fewer than 10 blocks have such a word.
    pub ci95: Vec<Option<Interval>>,
}

impl Effects {
    /// The section that these sums give; `estimates` are the metrics of the same.
    pub fn new(sums: &EffectSums, sentences_left_out: u64, estimates: &Estimates, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let all = total.get(&TokenGroup::All);
        let mean = |sum: f64| all.map(|all| sum / all.tokens as f64);
        let (loss, bare) = (all.and_then(|all| mean(all.whole.value())), all.and_then(|all| mean(all.without_any())));
        let band = loss.zip(bare).map(|(loss, bare)| band(bare - loss, context.grid.count()));
        let known = estimates.denominators.get("loss_effect", None).copied().unwrap_or_default();
        let head = |place: usize| {
            let effect = estimates.heads[place].get("loss_effect", None).copied().flatten();
            let ci95 = estimates.ci95[place].get("loss_effect", None).copied().flatten();
            let error = estimates.standard_errors[place].get("loss_effect", None).copied().flatten();
            let estimate = effect.zip(error).and_then(|(effect, error)| known.estimate(effect, error, Scale::Real));
            HeadEffect {
                place: context.grid.place(place),
                effect,
                ci95,
                p: estimate.map(|estimate| estimate.p_different(0.0)),
                q: None,
                p_negligible: estimate.zip(band).map(|(estimate, band)| estimate.p_between(-band, band)),
                q_negligible: None,
                verdict: effect.map(|_| Verdict::Undecided),
                negligible: false,
            }
        };
        let mut heads: Vec<HeadEffect> = (0..context.grid.count()).map(head).collect();
        correct(&mut heads, band);
        let Conditions { removal, objective } = sums.conditions;
        Self {
            removal,
            objective,
            sentences: all.map_or(0, |all| all.sentences),
            read: Context::default(),
            sentences_left_out,
            masked_tokens: all.map_or(0, |all| all.tokens),
            loss,
            loss_without_heads: bare,
            band,
            verdicts: Verdicts::default(),
            heads,
            relations: relations(&total, sums, context),
        }
    }

    /// The verdicts by `policy`.
    pub fn judge(&mut self, policy: &Policy) {
        let enough = self.masked_tokens >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        let most = policy.rule(&LABEL_Q).unwrap_or(1.0);
        let significant = |q: Option<f64>| enough && q.is_some_and(|q| q <= most);
        self.verdicts = Verdicts::default();
        for head in &mut self.heads {
            let Some(effect) = head.effect.filter(|_| head.verdict.is_some()) else { continue };
            head.negligible = significant(head.q_negligible);
            let verdict = match (significant(head.q), head.negligible) {
                (true, _) if effect > 0.0 => Verdict::Helpful,
                (true, _) if effect < 0.0 => Verdict::Harmful,
                (_, true) => Verdict::Negligible,
                _ => Verdict::Undecided,
            };
            head.verdict = Some(verdict);
            *self.verdicts.of(verdict) += 1;
            self.verdicts.also_negligible += u64::from(head.negligible && verdict != Verdict::Negligible);
        }
    }

    /// The heads that are negligible, by their places.
    pub fn negligible(&self) -> Vec<usize> {
        self.heads.iter().enumerate().filter(|(_, head)| head.negligible).map(|(place, _)| place).collect()
    }
}

/// The effect of a head on the words of a relation, as tables list it.
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

impl Verdicts {
    /// How many heads have each verdict that any has.
    pub fn words(self) -> String {
        let Self { helpful, harmful, negligible, undecided, .. } = self;
        let named = [(helpful, "helpful"), (harmful, "harmful"), (negligible, "negligible"), (undecided, "undecided")];
        let named = named.iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> =
            named.map(|(count, verdict)| format!("{count} {} {verdict}", plural(count, "is", "are"))).collect();
        named.join(", ")
    }

    fn of(&mut self, verdict: Verdict) -> &mut u64 {
        match verdict {
            Verdict::Helpful => &mut self.helpful,
            Verdict::Harmful => &mut self.harmful,
            Verdict::Negligible => &mut self.negligible,
            Verdict::Undecided => &mut self.undecided,
        }
    }
}

impl Verdict {
    /// The form of the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Helpful => "helpful",
            Self::Harmful => "harmful",
            Self::Negligible => "negligible",
            Self::Undecided => "undecided",
        }
    }
}

/// The effects on the words of each relation.
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
        let heads = 0..context.grid.count();
        RelationEffects {
            relation: relation.clone(),
            masked_tokens: losses.tokens,
            sentences: losses.sentences,
            loss: mean(losses.whole.value()),
            loss_without_heads: mean(losses.without_any()),
            effects: heads.clone().map(|head| sums.measures(head).then(|| mean(losses.change(head)))).collect(),
            ci95: heads.map(|head| interval(head).filter(|_| sums.measures(head))).collect(),
        }
    })
}

/// The q-values of both families: of effects other than 0, over all heads that have a p-value, and of effects within the
/// band, over the heads whose effect is.
fn correct(heads: &mut [HeadEffect], band: Option<f64>) {
    let (tested, p): (Vec<usize>, Vec<f64>) =
        heads.iter().enumerate().filter_map(|(place, head)| Some((place, head.p?))).unzip();
    tested.into_iter().zip(benjamini_hochberg(&p)).for_each(|(place, q)| heads[place].q = Some(q));
    let is_within = |head: &HeadEffect| head.effect.zip(band).is_some_and(|(effect, band)| effect.abs() < band);
    let within: Vec<Option<f64>> = heads.iter().map(|head| head.p_negligible.filter(|_| is_within(head))).collect();
    heads.iter_mut().zip(q_of_those_above(&within)).for_each(|(head, q)| head.q_negligible = q);
}

impl HeadEffect {
    /// Its verdict in words, both where it has two.
    pub fn words(&self) -> String {
        let verdict = self.verdict.map_or("not judged", Verdict::name);
        let also = if self.negligible && self.verdict != Some(Verdict::Negligible) { ", negligible" } else { "" };
        format!("{verdict}{also}")
    }
}

stored!(EffectSection { effect: Effects });
