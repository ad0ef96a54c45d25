//! The section `effect` of the report: what each head is worth, with a verdict, and for which relations.

use std::fmt::{self, Write};

use comfy_table::CellAlignment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metrics::effect;
use super::sums::{ByGroup, EffectSums, TokenGroup};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::{Conditions, Replacement};
use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::stats::significance::benjamini_hochberg;
use crate::studies::ablation::removal::PerToken;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::metrics::metric::Fraction;
use crate::study::section::{Completion, HeadCard, Section, stored};
use crate::study::show::figure::Figure;
use crate::study::show::summary::Summary;
use crate::study::show::table::Table;
use crate::study::show::wording::{plain_table, significance};
use crate::system::counted::{counted, plural};
use crate::system::parallel::in_parallel;

/// A head is negligible whose effect is surely below this share of that of all heads together: one hundredth.
///
/// Equal shares of the 144 heads of BERT-base would be two thirds of it each, those of a smaller model more.
const NEGLIGIBLE: f64 = 0.01;

/// Heads that the summary shows from either end.
const SHOWN: usize = 5;

#[derive(Deserialize)]
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
    /// Sentences of the sample without a token to score.
    pub sentences_left_out: u64,
    /// Tokens that were scored: masked ones, or of a discriminator all of the text.
    pub masked_tokens: u64,
    /// The mean loss of such a token with all heads, in nats.
    pub loss: Option<f64>,
    /// The same with all heads removed.
    pub loss_without_heads: Option<f64>,
    /// A head is negligible whose effect has its interval within this of 0, in nats: one hundredth of what all heads
    /// together are worth.
    pub band: Option<f64>,
    /// How many heads have each verdict.
    pub verdicts: Verdicts,
    /// The effect of each head, layer by layer; its value, interval and standard error are the head's metric `loss_effect`.
    pub heads: Vec<HeadEffect>,
    /// The effects on words of each relation, by its base name.
    pub relations: Vec<RelationEffects>,
}

/// What comes of removing a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The loss rises: q is at most `settings.policy.label_q`.
    Helpful,
    /// It falls.
    Harmful,
    /// Whichever it does is surely within the band.
    Negligible,
    /// None of these can be said.
    Undecided,
}

/// How many heads have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdicts {
    helpful: u64,
    harmful: u64,
    negligible: u64,
    undecided: u64,
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
    /// What comes of removing it; null where it was not removed by itself (`settings.ablation.effect_of`).
    pub verdict: Option<Verdict>,
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
        let known = estimates.denominators.get("loss_effect", None).copied().unwrap_or_default();
        let head = |place: usize| {
            let effect = estimates.heads[place].get("loss_effect", None).copied().flatten();
            let ci95 = estimates.ci95[place].get("loss_effect", None).copied().flatten();
            let error = estimates.standard_errors[place].get("loss_effect", None).copied().flatten();
            let p =
                effect.zip(error).map(|(effect, error)| known.estimate(effect, error, Scale::Real).p_different(0.0));
            let verdict = effect.map(|_| Verdict::Undecided);
            HeadEffect { place: context.grid.place(place), effect, ci95, p, q: None, verdict }
        };
        let mut heads: Vec<HeadEffect> = (0..context.grid.count()).map(head).collect();
        let (tested, p): (Vec<usize>, Vec<f64>) =
            heads.iter().enumerate().filter_map(|(place, head)| Some((place, head.p?))).unzip();
        tested.into_iter().zip(benjamini_hochberg(&p)).for_each(|(place, q)| heads[place].q = Some(q));
        let Conditions { removal, objective } = sums.conditions;
        Self {
            removal,
            objective,
            sentences: all.map_or(0, |all| all.sentences),
            sentences_left_out,
            masked_tokens: all.map_or(0, |all| all.tokens),
            loss,
            loss_without_heads: bare,
            band: loss.zip(bare).map(|(loss, bare)| NEGLIGIBLE * (bare - loss).max(0.0)),
            verdicts: Verdicts::default(),
            heads,
            relations: relations(&total, sums, context),
        }
    }

    /// The verdicts by `policy`.
    pub fn judge(&mut self, policy: &Policy) {
        let enough = self.masked_tokens >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        let band = self.band.filter(|_| enough);
        self.verdicts = Verdicts::default();
        for head in &mut self.heads {
            let within = |(band, ci95): (f64, Interval)| -band <= ci95.low() && ci95.high() <= band;
            let significant = |q: f64| policy.rule(&LABEL_Q).is_none_or(|most| q <= most);
            if head.verdict.is_none() {
                continue;
            }
            let verdict = match (head.effect, head.q) {
                _ if band.zip(head.ci95).is_some_and(within) => Verdict::Negligible,
                (Some(effect), Some(q)) if enough && significant(q) && effect != 0.0 => {
                    if effect > 0.0 {
                        Verdict::Helpful
                    } else {
                        Verdict::Harmful
                    }
                }
                _ => Verdict::Undecided,
            };
            head.verdict = Some(verdict);
            *self.verdicts.of(verdict) += 1;
        }
    }

    /// The heads that are called negligible, by their places.
    pub fn negligible(&self) -> Vec<usize> {
        let is_negligible = |head: &HeadEffect| head.verdict == Some(Verdict::Negligible);
        self.heads.iter().enumerate().filter(|(_, head)| is_negligible(head)).map(|(place, _)| place).collect()
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let Self {
            removal, objective, sentences, masked_tokens, loss, loss_without_heads, band, verdicts, heads, ..
        } = self;
        let (Some(removal), Some(loss), Some(bare), Some(band)) = (removal, loss, loss_without_heads, band) else {
            return writeln!(out, "No token could be scored, so no head was removed.");
        };
        let tokens = objective.unwrap_or(Objective::MaskedTokens).tokens();
        let Verdicts { helpful, harmful, negligible, undecided } = verdicts;
        let mut order: Vec<&HeadEffect> = heads.iter().filter(|head| head.effect.is_some()).collect();
        let chosen = if order.len() < heads.len() {
            format!(
                " Of {} {} {}: of a choice there is no rank correlation of effect and gradient.",
                counted(heads.len(), "head"),
                order.len(),
                plural(
                    &order.len(),
                    "was removed by itself, chosen by its gradient",
                    "were removed by themselves, chosen by their gradient"
                )
            )
        } else {
            String::new()
        };
        writeln!(
            out,
            "Heads removed one at a time (by {}): loss of {masked_tokens} {tokens} of {}, in nats a token, \
             {loss:.3} with all heads and {bare:.3} without any. {} {} helpful, {harmful} harmful, {negligible} negligible \
             (surely within ±{band:.4}), {undecided} undecided.{chosen} The most and least helpful, effect ± half of the 95 % \
             interval:\n",
            removal.name(),
            counted(*sentences, "sentence"),
            counted(*helpful, "head"),
            plural(helpful, "is", "are")
        )?;
        let effect = |head: &HeadEffect| head.effect.unwrap_or(0.0);
        order.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
        let last = order.len().saturating_sub(SHOWN).max(SHOWN);
        let shown = order.iter().enumerate().filter(|(rank, _)| *rank < SHOWN || *rank >= last).map(|(_, head)| *head);
        out.table(table(shown));
        Ok(())
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

fn table<'a>(heads: impl Iterator<Item = &'a HeadEffect>) -> comfy_table::Table {
    let mut table = plain_table();
    table.set_header(["head", "effect", "q", "verdict"]);
    for HeadEffect { place, effect, ci95, q, verdict, .. } in heads {
        let spread = ci95.map_or_else(String::new, |ci95| format!(" ±{:.4}", ci95.half_width()));
        let effect = effect.map_or_else(|| "-".to_owned(), |effect| format!("{effect:+.4}{spread}"));
        let q = q.map_or_else(|| "-".to_owned(), significance);
        table.add_row([place.to_string(), effect, q, verdict.map_or("-", Verdict::name).to_owned()]);
    }
    for (column, alignment) in table.column_iter_mut().zip([
        CellAlignment::Left,
        CellAlignment::Right,
        CellAlignment::Right,
        CellAlignment::Left,
    ]) {
        column.set_cell_alignment(alignment);
    }
    table
}

stored!(EffectSection { effect: Effects });

impl Section for EffectSection {
    fn complete(&mut self, known: &Completion<'_>) {
        if let Completion::Policy(policy) = known {
            self.effect.judge(policy);
        }
    }

    fn summary(&self, _: &Policy) -> Summary {
        Summary::written(|out| self.effect.write_summary(out))
    }

    fn of_head(&self, place: HeadPlace, _: &Policy) -> HeadCard {
        let is_it = |head: &&HeadEffect| head.place == place;
        let Some(HeadEffect { effect: Some(effect), ci95, q, verdict, .. }) = self.effect.heads.iter().find(is_it)
        else {
            return HeadCard::default();
        };
        let spread = ci95.map_or_else(String::new, |ci95| format!(" ±{:.4}", ci95.half_width()));
        let q = q.map_or_else(String::new, |q| format!(", q {}", significance(q)));
        let verdict = verdict.map_or("not judged", Verdict::name);
        let removal = self.effect.removal.map_or("", Replacement::name);
        let line =
            format!("without it (by {removal}) the loss is {effect:+.4}{spread} nats a token more: {verdict}{q}");
        HeadCard::from_iter([line])
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let Effects { heads, relations, .. } = &self.effect;
        if !grid.is(heads.iter().map(|head| head.place)) {
            return Some("`effect.heads` does not have each head of the model once, layer by layer".to_owned());
        }
        let beside =
            |relation: &&RelationEffects| relation.effects.len() != grid.count() || relation.ci95.len() != grid.count();
        let broken = relations.iter().find(beside);
        broken.map(|broken| format!("the relation `{}` of `effect` has not an effect of each head", broken.relation))
    }

    fn figures(&self, _: &Policy) -> Vec<Figure> {
        super::figure::figures(&self.effect)
    }

    fn tables(&self) -> Vec<Table> {
        let Effects { heads, relations, .. } = &self.effect;
        let by_relation = relations.iter().flat_map(|relation| relation.of_heads(heads));
        vec![Table::of("effects", heads), Table::of("effects_by_relation", by_relation)]
    }
}
