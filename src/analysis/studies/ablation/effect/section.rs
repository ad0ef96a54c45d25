//! Report section `effect`: effect of each head on the loss, with a verdict, overall and per dependency relation.

use std::fmt::{self, Write};

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sums::{EffectSums, LossesByGroup, TokenGroup, group_effect};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::{PassConditions, Replacement, equivalence_margin};
use crate::sequences::derived::corrupted::CORRUPTION_PERIOD;
use crate::stats::interval::Interval;
use crate::studies::ablation::removal::PerTokenChange;
use crate::studies::ablation::verdicts::{
    HeadEffect, Verdict, Verdicts, effect_forest, head_effects, is_zero, ranked_by_effect, set_verdicts,
    shorten_to_both_ends,
};
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::metrics::metric::Fraction;
use crate::study::section::{HeadCard, LateFact, Section, SectionFacts, View, ViewContext, stored};
use crate::study::show::figure::Figure;
use crate::study::show::in_brief::Shortage;
use crate::study::show::wording::{
    aligned_table, counted_sequences, decimal, empty_sample_reason, plus_minus, signed_decimal, significance_text,
};
use crate::study::{Estimates, EstimationContext, InBrief, Summary, TableRows};
use crate::system::counts::{format_count, plural};
use crate::system::parallel::parallel_map;

/// Effect of removing each head on the loss of the model's training objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effects {
    /// Replacement for removed heads; null if nothing was scored.
    pub removal: Option<Replacement>,
    /// Prediction objective whose loss is measured; null if nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Number of sentences with a scored token.
    pub sentences: u64,
    /// Number of sentences of the sample without a token to score.
    pub sentences_left_out: u64,
    /// Number of scored tokens: masked tokens, all text tokens for a discriminator, or all but the first for a decoder.
    pub masked_tokens: u64,
    /// Mean loss of a scored token with all heads, in nats; null if nothing was scored.
    pub loss: Option<f64>,
    /// Mean loss of a scored token with all heads removed, in nats.
    pub loss_without_heads: Option<f64>,
    /// Equivalence margin, in nats: an effect significantly within ± `band` is negligible. With `E` the effect of removing all
    /// `n` heads, it is the smaller of `E / 100` and `E / (2 n)`. Null if nothing was scored.
    pub band: Option<f64>,
    /// Number of heads that the checkpoint lacks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub absent_heads: usize,
    /// Number of heads with each verdict.
    pub verdicts: Verdicts,
    /// Effect of each head (metric `loss_effect`), layer by layer, with its verdict. Standard errors are in each head's
    /// metrics.
    pub heads: Vec<HeadEffect>,
    /// Effects on words with each dependency relation, sorted by its base name.
    pub relations: Vec<RelationEffects>,
}

/// Effects of all heads on the masked words with one dependency relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationEffects {
    /// Base name of the dependency relation.
    pub relation: String,
    /// Number of scored tokens of words with this relation to their syntactic head. Words that are always masked together with
    /// their syntactic head are left out.
    pub masked_tokens: u64,
    /// Number of sentences with a scored token of the relation.
    pub sentences: u64,
    /// Mean loss of the relation's scored tokens with all heads, in nats.
    pub loss: f64,
    /// Mean loss of the relation's scored tokens with all heads removed, in nats.
    pub loss_without_heads: f64,
    /// Effect of removing each head on the loss of the relation's tokens, layer by layer; null if the head was not removed alone.
    pub effects: Vec<Option<f64>>,
    /// 95 % interval of each of `effects`; null if fewer than 10 blocks have a word with the relation.
    pub ci95: Vec<Option<Interval>>,
}

impl Effects {
    fn in_brief(&self, ViewContext { policy, run }: ViewContext<'_>) -> InBrief {
        let Effects { loss, loss_without_heads, heads, masked_tokens, sentences, verdicts, .. } = self;
        let removed: Vec<&HeadEffect> = heads.iter().filter(|head| head.single_removal_effect().is_some()).collect();
        let costliest = removed.iter().max_by(|a, b| a.effect.unwrap_or(0.0).total_cmp(&b.effect.unwrap_or(0.0)));
        let found = costliest.zip(loss.zip(*loss_without_heads)).map(|(head, (loss, bare))| {
            let ci95 = head.ci95.map_or_else(String::new, |Interval(low, high)| format!(" [{low:.3}, {high:.3}]"));
            let (place, effect, all) = (head.place, head.effect.unwrap_or(0.0), bare - loss);
            let (heads, verdicts, masks) = (format_count(removed.len(), "head"), verdicts.counts_text(), self.masking_text(run.phases));
            format!(
                "Removing {place} costs most: {effect:.3}{ci95} nats a token; all heads together cost {all:.3}, at a loss of {loss:.3}. \
                 Of {heads}, {verdicts}{masks}."
            )
        });
        // More text alone does not enlarge the sample.
        let short = |count: u64, least, things: [&str; 2]| {
            let asked = policy.count(least);
            let shortage = || Shortage::new("verdicts on removed heads", [count, asked], things.map(str::to_owned));
            (count < asked).then(|| Shortage { growth_factor: None, ..shortage() })
        };
        let tokens =
            || short(*masked_tokens, &MIN_QUERIES, ["scored token of the sample", "scored tokens of the sample"]);
        let shortage =
            short(*sentences, &MIN_SENTENCES, ["sentence of the sample", "sentences of the sample"]).or_else(tokens);
        InBrief { finding: found, shortage, ..InBrief::default() }
    }

    pub fn new(sums: &EffectSums, sentences_left_out: u64, estimates: &Estimates, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let all = total.get(&TokenGroup::All);
        let mean = |sum: f64| all.map(|all| sum / all.tokens as f64);
        let (loss, bare) =
            (all.and_then(|all| mean(all.whole.value())), all.and_then(|all| mean(all.loss_without_heads())));
        let band = loss.zip(bare).map(|(loss, bare)| equivalence_margin(bare - loss, context.active_head_count()));
        let heads = head_effects("loss_effect", estimates, band, context);
        let PassConditions { removal, objective, .. } = sums.conditions;
        Self {
            removal,
            objective,
            sentences: all.map_or(0, |all| all.sentences),
            sentences_left_out,
            masked_tokens: all.map_or(0, |all| all.tokens),
            loss,
            loss_without_heads: bare,
            band,
            absent_heads: context.absent_heads.len(),
            verdicts: Verdicts::default(),
            heads,
            relations: relation_effects(&total, sums, context),
        }
    }

    /// Indices of the heads with a negligible effect.
    pub fn negligible_heads(&self) -> Vec<usize> {
        self.heads.iter().positions(|head| head.negligible).collect()
    }

    fn masking_text(&self, phases: Option<u8>) -> String {
        match phases.filter(|_| self.objective == Some(Objective::MaskedTokens)) {
            None => String::new(),
            Some(CORRUPTION_PERIOD) => " (scored on every word)".to_owned(),
            Some(phases) => format!(" (scored on {phases} of every 7 words)"),
        }
    }

    fn write_summary(&self, out: &mut Summary, run: &SectionFacts) -> fmt::Result {
        let Self { removal, masked_tokens, loss, loss_without_heads, band, heads, .. } = self;
        let (Some(removal), Some(loss), Some(bare), Some(band)) = (removal, loss, loss_without_heads, band) else {
            let why = empty_sample_reason("a token to score", run.read);
            return writeln!(out, "No token could be scored, so no head was removed: {why}.");
        };
        let tokens = self.objective.unwrap_or(Objective::MaskedTokens).loss_unit();
        let Verdicts { helpful, harmful, negligible, undecided, also_negligible } = self.verdicts;
        let order = ranked_by_effect(heads, |head| head);
        let removed_heads = heads.iter().filter(|head| head.removed).count();
        let others = if removed_heads > 0 { "other " } else { "" };
        let present = heads.len().saturating_sub(self.absent_heads + removed_heads);
        let (alone, all) = (order.len(), format_count(present, "head"));
        let chosen = if alone < present {
            format!(
                " Removed by itself: {alone} of {all}, chosen by the gradient on the even blocks; effects are over the odd blocks, \
                 without a rank correlation of effect and gradient."
            )
        } else {
            String::new()
        };
        let also = match also_negligible {
            0 => String::new(),
            also => format!(" {also} of the helpful and harmful heads {} also negligible.", plural(&also, "is", "are")),
        };
        let (by, read, masks) =
            (removal.name(), counted_sequences(self.sentences, run.read), self.masking_text(run.phases));
        writeln!(
            out,
            "Heads removed one at a time (by {by}): loss of {masked_tokens} {tokens} of {read}, in nats a token, \
             {loss:.3} with all {others}heads and {bare:.3} without any. Verdicts: {helpful} helpful, {harmful} harmful, {negligible} \
             negligible (effect within ±{band:.4}), {undecided} undecided{masks}.{also}{chosen} Largest and smallest effects, ± half of \
             the 95 % interval, with q of the test against 0 and of the equivalence test (±{band:.4}):\n"
        )?;
        out.add_table(table(&order));
        Ok(())
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
    /// Lists the effect of each head on the relation's tokens; `heads` must be in the order of `effects`.
    pub fn effect_rows<'a>(&'a self, heads: &'a [HeadEffect]) -> impl Iterator<Item = RelationEffect<'a>> {
        let effects = heads.iter().zip(&self.effects).zip(&self.ci95);
        effects.map(|((head, &effect), &ci95)| {
            let (relation, masked_tokens) = (self.relation.as_str(), self.masked_tokens);
            RelationEffect { relation, masked_tokens, place: head.place, effect, ci95 }
        })
    }
}

fn relation_effects(total: &LossesByGroup, sums: &EffectSums, context: &EstimationContext) -> Vec<RelationEffects> {
    let named = total.iter().filter_map(|(group, losses)| match group {
        TokenGroup::Relation(relation) => Some((group, relation, losses)),
        TokenGroup::All | TokenGroup::Class(_) => None,
    });
    parallel_map(context.threads, named, |(group, relation, losses)| {
        let of_block = |head: usize| move |block: usize| group_effect(&sums.blocks[block], Some(head), group);
        let interval = |head: usize| Fraction::jackknife(of_block(head)).interval();
        let mean = |sum: f64| sum / losses.tokens as f64;
        let is_measured = |head: usize| sums.has_single_removal(head) && context.is_active_head(head);
        let heads = 0..context.grid.head_count();
        RelationEffects {
            relation: relation.clone(),
            masked_tokens: losses.tokens,
            sentences: losses.sentences,
            loss: mean(losses.whole.value()),
            loss_without_heads: mean(losses.loss_without_heads()),
            effects: heads.clone().map(|head| is_measured(head).then(|| mean(losses.change(head)))).collect(),
            ci95: heads.map(|head| interval(head).filter(|_| is_measured(head))).collect(),
        }
    })
}

stored!(Effects as effect);

const HALF_TABLE_ROWS: usize = 5;

impl Section for Effects {
    fn add_late_fact(&mut self, completion: &LateFact<'_>) {
        let LateFact::Policy(policy) = completion else { return };
        let enough = self.masked_tokens >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        self.verdicts = set_verdicts(&mut self.heads, enough, policy);
    }

    fn view(&self, known: ViewContext<'_>) -> View<'_> {
        let Effects { heads, relations, .. } = self;
        let by_relation = relations.iter().flat_map(move |relation| relation.effect_rows(heads));
        View {
            in_brief: self.in_brief(known),
            summary: Summary::from_writer(|out| self.write_summary(out, known.run)),
            figures: figures(self),
            tables: vec![TableRows::new("effects", heads), TableRows::new("effects_by_relation", by_relation)],
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let is_at_place = |head: &&HeadEffect| head.place == place;
        let found = self.heads.iter().find(is_at_place).and_then(|head| Some((head, head.single_removal_effect()?)));
        let Some((head, effect)) = found else { return HeadCard::default() };
        let spread = plus_minus(head.ci95, 4);
        let q = head.q.map(|q| format!("q {}", significance_text(q)));
        let within = self.band.zip(head.q_negligible);
        let within = within.map(|(band, q)| format!("within ±{band:.4} q {}", significance_text(q)));
        let deciding = q.into_iter().chain(within).join(", ");
        let deciding = if deciding.is_empty() { String::new() } else { format!(" ({deciding})") };
        let removal = self.removal.map_or("", Replacement::name);
        let (more, words) = (if effect < 0.0 { "less" } else { "more" }, head.verdict_text());
        let size = effect.abs();
        let line =
            format!("without it (by {removal}) the loss is {size:.4}{spread} nats a token {more}: {words}{deciding}");
        let nats = |change: f64| format!("{}{} nats a token", decimal(change, 3), plus_minus(head.ci95, 3));
        let clause = match head.verdict {
            Some(Verdict::Helpful) => format!("raises the loss by {} when it is removed", nats(effect)),
            Some(Verdict::Harmful) => format!("lowers the loss by {} when it is removed", nats(-effect)),
            Some(Verdict::Negligible) => format!("can be removed for next to nothing ({} of loss)", nats(effect)),
            Some(Verdict::Undecided) | None => return HeadCard::from_iter([line]),
        };
        HeadCard::from_iter([line]).with_clauses([clause])
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let Effects { heads, relations, .. } = self;
        let is_incomplete =
            |one: &&RelationEffects| one.effects.len() != grid.head_count() || one.ci95.len() != grid.head_count();
        let broken = relations.iter().find(is_incomplete);
        let broken =
            broken.map(|one| format!("the relation `{}` of `effect` has not an effect of each head", one.relation));
        grid.missing_head_defect("effect.heads", heads.iter().map(|head| head.place)).or(broken)
    }
}

fn table(heads: &[(f64, &HeadEffect)]) -> comfy_table::Table {
    let row = |(effect, head): &(f64, &HeadEffect)| {
        let effect = signed_decimal(*effect, 4) + &plus_minus(head.ci95, 4);
        let [q, within] = [head.q, head.q_negligible].map(|q| q.map_or_else(|| "-".to_owned(), significance_text));
        vec![head.place.to_string(), effect, q, within, head.verdict_text()]
    };
    let rows = shorten_to_both_ends(heads.iter().map(row).collect(), HALF_TABLE_ROWS);
    aligned_table(["head", "effect", "q", "q equivalence", "verdict"], rows, 1..4)
}

fn figures(effects: &Effects) -> Vec<Figure> {
    let Effects { objective, masked_tokens, loss, loss_without_heads, band, heads, .. } = effects;
    let (Some(loss), Some(bare), Some(band)) = (loss, loss_without_heads, band) else { return Vec::new() };
    let tokens = objective.unwrap_or(Objective::MaskedTokens).loss_unit();
    let order: Vec<&HeadEffect> = ranked_by_effect(heads, |head| head).into_iter().map(|(_, head)| head).collect();
    let (chart, left_out) = effect_forest("rise of the loss without the head, in nats a token", &order);
    vec![Figure {
        name: "effects",
        title: "What the model loses without each head".to_owned(),
        reading: format!(
            "The loss of {masked_tokens} {tokens} with one head removed less that with all heads ({loss:.3} nats a token; {bare:.3} \
             without any head), with 95 % intervals. A head surely within {band:.4} of the line at 0 is negligible.{left_out}"
        ),
        chart,
    }]
}
