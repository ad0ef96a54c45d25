//! View of the section `effect`: lines of the summary, a sentence in brief, the figure, the cards of heads, tables.

use std::fmt::{self, Write};

use comfy_table::CellAlignment;

use super::section::{EffectSection, Effects, RelationEffects};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::Replacement;
use crate::sequences::derived::corrupted::PERIOD;
use crate::studies::ablation::verdicts::{HeadEffect, Verdict, Verdicts, from_both_ends};
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::section::{Completion, HeadCard, Section, View};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::in_brief::{InBrief, Shortage};
use crate::study::show::summary::Summary;
use crate::study::show::table::TableRows;
use crate::study::show::wording::{decimal, drawn_without, plain_table, plus_minus, sequences, signed, significance};
use crate::system::counted::{counted, plural};

const SHOWN: usize = 5;

impl Section for EffectSection {
    fn complete(&mut self, known: &Completion<'_>) {
        match known {
            Completion::Policy(policy) => self.effect.judge(policy),
            Completion::Reading(read) => self.effect.read = *read,
            Completion::Phases(phases) => self.effect.phases = *phases,
            _ => {}
        }
    }

    fn view(&self, policy: &Policy) -> View<'_> {
        let Effects { heads, relations, .. } = &self.effect;
        let by_relation = relations.iter().flat_map(move |relation| relation.of_heads(heads));
        View {
            in_brief: in_brief(&self.effect, policy),
            summary: Summary::written(|out| self.effect.write_summary(out)),
            figures: figures(&self.effect),
            tables: vec![TableRows::of("effects", heads), TableRows::of("effects_by_relation", by_relation)],
            ..View::default()
        }
    }

    fn of_head(&self, place: HeadPlace, _: &Policy) -> HeadCard {
        let is_it = |head: &&HeadEffect| head.place == place;
        let found = self.effect.heads.iter().find(is_it).and_then(|head| Some((head, head.of_its_own()?)));
        let Some((head, effect)) = found else { return HeadCard::default() };
        let spread = plus_minus(head.ci95, 4);
        let q = head.q.map(|q| format!("q {}", significance(q)));
        let within = self.effect.band.zip(head.q_negligible);
        let within = within.map(|(band, q)| format!("within ±{band:.4} q {}", significance(q)));
        let deciding: Vec<String> = q.into_iter().chain(within).collect();
        let deciding = if deciding.is_empty() { String::new() } else { format!(" ({})", deciding.join(", ")) };
        let removal = self.effect.removal.map_or("", Replacement::name);
        let line = format!(
            "without it (by {removal}) the loss is {:.4}{spread} nats a token {}: {}{deciding}",
            effect.abs(),
            if effect < 0.0 { "less" } else { "more" },
            head.words()
        );
        let of = |change: f64| {
            let spread = plus_minus(head.ci95, 3);
            format!("{}{spread} nats a token", decimal(change, 3))
        };
        let clause = match head.verdict {
            Some(Verdict::Helpful) => format!("raises the loss by {} when it is removed", of(effect)),
            Some(Verdict::Harmful) => format!("lowers the loss by {} when it is removed", of(-effect)),
            Some(Verdict::Negligible) => {
                format!("can be removed for next to nothing ({} of loss)", of(effect))
            }
            Some(Verdict::Undecided) | None => return HeadCard::from_iter([line]),
        };
        HeadCard::from_iter([line]).saying([clause])
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
}

impl Effects {
    /// The masks that the verdicts rest on: other ones may tell otherwise. Nothing where none are.
    fn masks(&self) -> String {
        match self.phases.filter(|_| self.objective == Some(Objective::MaskedTokens)) {
            None => String::new(),
            Some(PERIOD) => " (scored on every word)".to_owned(),
            Some(phases) => format!(" (scored on {phases} of every 7 words)"),
        }
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let Self {
            removal,
            objective,
            sentences,
            read,
            masked_tokens,
            loss,
            loss_without_heads,
            band,
            absent_heads,
            verdicts,
            heads,
            ..
        } = self;
        let (Some(removal), Some(loss), Some(bare), Some(band)) = (removal, loss, loss_without_heads, band) else {
            return writeln!(
                out,
                "No token could be scored, so no head was removed: {}.",
                drawn_without("a token to score", *read)
            );
        };
        let tokens = objective.unwrap_or(Objective::MaskedTokens).tokens();
        let Verdicts { helpful, harmful, negligible, undecided, also_negligible } = verdicts;
        let mut order: Vec<&HeadEffect> = heads.iter().filter(|head| head.of_its_own().is_some()).collect();
        let removed_heads = heads.iter().filter(|head| head.removed).count();
        let others = if removed_heads > 0 { "other " } else { "" };
        let present = heads.len().saturating_sub(absent_heads + removed_heads);
        let chosen = if order.len() < present {
            format!(
                " Removed by itself: {} of {}, chosen by the gradient on the even blocks; effects are over the odd blocks, without a \
                 rank correlation of effect and gradient.",
                order.len(),
                counted(present, "head"),
            )
        } else {
            String::new()
        };
        let also = match also_negligible {
            0 => String::new(),
            also => {
                format!(" {also} of the helpful and harmful heads {} also negligible.", plural(also, "is", "are"))
            }
        };
        writeln!(
            out,
            "Heads removed one at a time (by {}): loss of {masked_tokens} {tokens} of {}, in nats a token, \
             {loss:.3} with all {others}heads and {bare:.3} without any. Verdicts: {helpful} helpful, {harmful} harmful, {negligible} \
             negligible (effect within ±{band:.4}), {undecided} undecided{}.{also}{chosen} Largest and smallest effects, ± half of \
             the 95 % interval, with q of the test against 0 and of the equivalence test (±{band:.4}):\n",
            removal.name(),
            sequences(*sentences, *read),
            self.masks(),
        )?;
        let effect = |head: &HeadEffect| head.effect.unwrap_or(0.0);
        order.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
        out.table(table(&order));
        Ok(())
    }
}

fn table(heads: &[&HeadEffect]) -> comfy_table::Table {
    let mut table = plain_table();
    table.set_header(["head", "effect", "q", "q equivalence", "verdict"]);
    let row = |head: &&HeadEffect| {
        let spread = plus_minus(head.ci95, 4);
        let effect = head.effect.map_or_else(|| "-".to_owned(), |effect| signed(effect, 4) + &spread);
        let [q, within] = [head.q, head.q_negligible].map(|q| q.map_or_else(|| "-".to_owned(), significance));
        vec![head.place.to_string(), effect, q, within, head.words()]
    };
    table.add_rows(from_both_ends(heads.iter().map(row).collect(), SHOWN));
    table.column_iter_mut().skip(1).take(3).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// The head that costs most, beside all heads, and how many have each verdict.
fn in_brief(effects: &Effects, policy: &Policy) -> InBrief {
    let Effects { loss, loss_without_heads, heads, masked_tokens, sentences, verdicts, .. } = effects;
    let removed: Vec<&HeadEffect> = heads.iter().filter(|head| head.of_its_own().is_some()).collect();
    let costliest = removed.iter().max_by(|a, b| a.effect.unwrap_or(0.0).total_cmp(&b.effect.unwrap_or(0.0)));
    let found = costliest.zip(loss.zip(*loss_without_heads)).map(|(head, (loss, bare))| {
        format!(
            "Removing {} costs most: {:.3}{} nats a token; all heads together cost {:.3}, at a loss of {loss:.3}. Of {}, {}{}.",
            head.place,
            head.effect.unwrap_or(0.0),
            head.ci95.map_or_else(String::new, |ci95| format!(" [{:.3}, {:.3}]", ci95.low(), ci95.high())),
            bare - loss,
            counted(removed.len(), "head"),
            verdicts.words(),
            effects.masks()
        )
    });
    // It is of a sample: more text alone adds nothing to it.
    let short = |count: u64, least, things: [&str; 2]| {
        let asked = policy.count(least);
        let shortage = || Shortage::new("verdicts on removed heads", [count, asked], things.map(str::to_owned));
        (count < asked).then(|| Shortage { times: None, ..shortage() })
    };
    let tokens = || short(*masked_tokens, &MIN_QUERIES, ["scored token of the sample", "scored tokens of the sample"]);
    let few = short(*sentences, &MIN_SENTENCES, ["sentence of the sample", "sentences of the sample"]).or_else(tokens);
    InBrief { found, shortage: few, ..InBrief::default() }
}

const DRAWN: usize = 12;

fn figures(effects: &Effects) -> Vec<Figure> {
    let Effects {
        objective,
        masked_tokens,
        loss: Some(loss),
        loss_without_heads: Some(bare),
        band: Some(band),
        heads,
        ..
    } = effects
    else {
        return Vec::new();
    };
    let tokens = objective.unwrap_or(Objective::MaskedTokens).tokens();
    let mut order: Vec<(f64, &HeadEffect)> = heads.iter().filter_map(|head| Some((head.of_its_own()?, head))).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (count, last) = (order.len(), order.len().saturating_sub(DRAWN).max(DRAWN));
    let shown = order.iter().enumerate().filter(|(rank, _)| *rank < DRAWN || *rank >= last);
    let row = |head: &HeadEffect| ForestRow {
        name: head.place.to_string(),
        note: head.words(),
        marks: vec![Mark::of(head.effect, head.ci95)],
    };
    let left_out = count.saturating_sub(2 * DRAWN);
    let are = plural(&left_out, "is", "are");
    let left_out = match left_out {
        0 => String::new(),
        heads => format!(" {} in between {are} left out.", counted(heads, "head")),
    };
    let chart = Chart::Forest(Forest {
        scale: "rise of the loss without the head, in nats a token".to_owned(),
        shares: false,
        nothing: Some(0.0),
        marks: vec!["effect".to_owned()],
        rows: shown.map(|(_, (_, head))| row(head)).collect(),
    });
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
