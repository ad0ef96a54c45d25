//! View of the report section `pruning`: summary, brief sentence, figure and table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use itertools::Itertools;

use super::section::{CanGo, Curve, Curves, Interaction, LOSS_RISE_LIMITS};
use crate::model::grid::HeadGrid;
use crate::sequences::reading::Context;
use crate::stats::interval::Interval;
use crate::studies::ablation::losses::loss_unit;
use crate::studies::ablation::removal::scored_counts_text;
use crate::study::section::{Section, SectionFacts, ShareOf, View, ViewContext};
use crate::study::show::figure::{Chart, Curve as Line, Curves as Lines, Figure, Mark};
use crate::study::show::wording::{aligned_table, empty_sample_reason, plus_minus};
use crate::study::{InBrief, Summary, TableRows};
use crate::system::counts::{format_count, plural};

impl Section for Curves {
    fn view(&self, ViewContext { run, .. }: ViewContext<'_>) -> View<'_> {
        View {
            in_brief: InBrief {
                finding: self.removable_heads_text(run),
                has_priority: self.task.is_some(),
                ..InBrief::default()
            },
            summary: Summary::from_writer(|out| self.write_summary(out, run)),
            figures: figures(self, run.read),
            tables: vec![
                TableRows::new("pruning", self.orders.iter().flat_map(Curve::step_rows)),
                TableRows::new("prune", self.pruned_layers()),
            ],
            pruning: self.pruning_orders(run.is_above_baseline),
            ..View::default()
        }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let broken = |Curve { heads, loss, rise_ci95, right, right_change_ci95, can_go, .. }: &&Curve| {
            // An order of removal is arbitrary, so its heads are compared as a set.
            let all = BTreeSet::from_iter(heads).into_iter().copied();
            !grid.equals_all_heads(all)
                || [heads.len(), loss.len(), rise_ci95.len()] != [grid.head_count(); 3]
                || [right.len(), right_change_ci95.len()]
                    != [if self.task.is_some() { grid.head_count() } else { 0 }; 2]
                || can_go.len() > ShareOf::ALL.len() * LOSS_RISE_LIMITS.len()
        };
        let is_whole = |constants: &Vec<Vec<f32>>| constants.len() == grid.head_count();
        if !self.constants.as_ref().is_none_or(is_whole) {
            return Some("the constants of `pruning` are not one for each head".to_owned());
        }
        let broken = self.orders.iter().find(broken)?;
        Some(format!(
            "the curve by `{}` of `pruning` has not a point for each head, or more shares than rises",
            broken.by
        ))
    }
}

const NOT_ABOVE_BASELINE: &str = "the model is not shown to be above the baseline of the task";

const RANDOM_PREFIX: &str = "random";

impl Curves {
    /// Sentence on how many heads can be removed in the first of `orders`, beside the largest number over the random orders.
    /// `None` without orders. If the model is not shown to be above the baseline of its task, the sentence gives no number.
    /// Otherwise, `None` also if the order lists no such limit, or without an interval.
    ///
    /// For a task, the limit is the smallest listed fall of the accuracy. Otherwise it is the largest listed rise of the
    /// loss, as a share of its rise when all heads are removed.
    fn removable_heads_text(&self, run: &SectionFacts) -> Option<String> {
        let allowed = |order: &Curve| match self.task {
            Some(_) => order.can_go.iter().find(|can_go| can_go.of == ShareOf::Right).copied(),
            None => order.can_go.iter().rfind(|can_go| can_go.of == ShareOf::AllHeads).copied(),
        };
        let order = self.orders.first()?;
        if run.is_above_baseline == Some(false) {
            return Some(format!("How many heads can go is not said: {NOT_ABOVE_BASELINE}."));
        }
        let budget @ CanGo { of, rise, share, ci95 } = allowed(order)?;
        let Interval(low, high) = ci95?;
        let random = self.orders.iter().filter(|order| order.by.starts_with(RANDOM_PREFIX)).filter_map(allowed);
        let random: Vec<f64> = random.map(|can_go| can_go.share).collect();
        let random_orders = format_count(random.len(), "random order");
        let random = random.into_iter().max_by(f64::total_cmp);
        let is_by_chance = random.is_some_and(|random| random >= share && random > 0.0);
        let [share, low, high, rise] = [share, low, high, rise].map(|share| format!("{:.0}", share * 100.0));
        let random = random.map_or_else(String::new, |random| {
            let judged = if is_by_chance { ", so this order is no better than chance here" } else { "" };
            format!("; {:.0} % in the best of {random_orders}{judged}", random * 100.0)
        });
        let removal = self.removal.map_or_else(String::new, |removal| format!("by {}, ", removal.name()));
        let [loses, itself] = match of {
            ShareOf::Right => ["the share right falls", "itself"],
            ShareOf::Loss | ShareOf::AllHeads => ["the loss rises", of.noun_phrase()],
        };
        let heads = match self.task {
            Some(_) => {
                format!("{} of {} heads ({share} % [{low}, {high}])", order.removable_count(&budget), order.heads.len())
            }
            None => format!("{share} % [{low}, {high}] of the heads"),
        };
        let option = if of == ShareOf::AllHeads { " (`headscope prune --of all-heads`)" } else { "" };
        let sample = if self.task.is_some() { "items" } else { "sample" };
        Some(format!(
            "{heads} can be removed together ({removal}in the order by {}) before {loses} by {rise} % of {itself}{option}, on the half of the \
             {sample} that did not choose the order{random}.",
            order.by,
        ))
    }

    /// Denominator of a mean loss: `an item` or `a token`.
    fn loss_denominator(&self) -> &'static str {
        if self.task.is_some() { "an item" } else { "a token" }
    }

    fn sample_text(&self, read: Context) -> String {
        scored_counts_text([self.masked_tokens, self.sentences], self.objective, self.task, read)
    }

    fn write_heads(&self, out: &mut Summary, run: &SectionFacts) -> fmt::Result {
        let Some(order) = self.orders.first() else { return Ok(()) };
        if run.is_above_baseline == Some(false) {
            return writeln!(out, "\nHeads that can go are not listed: {NOT_ABOVE_BASELINE}.");
        }
        let removal = self.removal.map_or_else(String::new, |removal| format!(", removed by {}", removal.name()));
        writeln!(out, "\nHeads that can go, in the order by {}{removal}:", order.by)?;
        for budget @ CanGo { of, rise, .. } in &order.can_go {
            let heads = match order.removable_count(budget) {
                0 => "none".to_owned(),
                count => format!(
                    "{}: {}",
                    format_count(count, "head"),
                    heads_by_layer_text(&order.removable_by_layer(budget))
                ),
            };
            writeln!(out, "{:.0} % of {}: {heads}", 100.0 * rise, of.noun_phrase())?;
        }
        Ok(())
    }

    fn write_summary(&self, out: &mut Summary, run: &SectionFacts) -> fmt::Result {
        let Some(loss) = self.loss else {
            if self.task.is_some() {
                return writeln!(out, "No item of the task was scored, so no heads were pruned.");
            }
            let why = empty_sample_reason("a token to score", run.read);
            return writeln!(out, "No token could be scored, so no heads were pruned: {why}.");
        };
        let right = self.right.map_or_else(String::new, |right| format!("; {right} are right"));
        let unit = loss_unit(self.task);
        let per = self.loss_denominator();
        writeln!(
            out,
            "Heads removed one after the other, in an order from one half of the sample, with the loss on the other half \
             ({}, {loss:.3} {unit} {per} with all heads{right}; {}without retraining). Share of heads that can be removed, with its \
             95 % interval:",
            self.sample_text(run.read),
            self.removal.map_or_else(String::new, |removal| format!("removal by {}; ", removal.name())),
        )?;
        for of in ShareOf::ALL {
            let while_what = match of {
                ShareOf::Loss => "the loss rises by at most this share of itself".to_owned(),
                ShareOf::AllHeads => {
                    let worth = self.loss_without_heads.map_or(f64::NAN, |bare| bare - loss);
                    format!("the loss rises by at most this share of what all heads are worth ({worth:.3} {unit})")
                }
                ShareOf::Right => "the share right falls by at most this share of itself".to_owned(),
            };
            if self.orders.iter().flat_map(|order| &order.can_go).any(|can_go| can_go.of == of) {
                writeln!(out, "\nWhile {while_what}:\n")?;
                out.add_table(table(&self.orders, of));
            }
        }
        self.write_heads(out, run)?;
        writeln!(out)?;
        if self.layers_share_weights {
            writeln!(out, "Layers share their weights: here a head goes from all of them at once.")?;
        }
        if let Some(heads) = self.heads_per_key_value_group {
            writeln!(
                out,
                "Removing a head removes its queries and its output; keys and values go with the last of the {heads} heads that \
                 share them."
            )?;
        }
        if let Some(Interaction { heads, together, sum, difference, ci95 }) = &self.interaction {
            let spread = plus_minus(*ci95, 4);
            writeln!(
                out,
                "The {} with a surely negligible effect (some may be helpful or harmful as well) together {} worth {together:+.4} {unit}, one by \
                 one {sum:+.4} in all: interaction {difference:+.4}{spread}.",
                format_count(heads.len(), "head"),
                plural(&heads.len(), "is", "are")
            )?;
        }
        Ok(())
    }
}

/// Lists heads, grouped by layer: `L0 H1 H3, L2 H0`.
fn heads_by_layer_text(layers: &BTreeMap<usize, BTreeSet<usize>>) -> String {
    let heads_text = |heads: &BTreeSet<usize>| heads.iter().map(|head| format!("H{head}")).join(" ");
    layers.iter().map(|(layer, heads)| format!("L{layer} {}", heads_text(heads))).join(", ")
}

fn table(curves: &[Curve], of: ShareOf) -> comfy_table::Table {
    let rises = LOSS_RISE_LIMITS.iter().map(|rise| format!("{:.0} %", rise * 100.0));
    let row = |Curve { by, can_go, .. }: &Curve| {
        [by.clone()]
            .into_iter()
            .chain(can_go.iter().filter(|can_go| can_go.of == of).map(removable_percent))
            .collect::<Vec<_>>()
    };
    aligned_table(["order by".to_owned()].into_iter().chain(rises), curves.iter().map(row), 1..)
}

/// Formats a share of removable heads and its 95 % interval in per cent: `25 % [17, 33]`.
fn removable_percent(CanGo { share, ci95, .. }: &CanGo) -> String {
    let spread = ci95.map(|Interval(low, high)| format!(" [{:.0}, {:.0}]", 100.0 * low, 100.0 * high));
    format!("{:.0} %{}", 100.0 * share, spread.unwrap_or_default())
}

fn figures(pruning: &Curves, read: Context) -> Vec<Figure> {
    let Some(loss) = pruning.loss else { return Vec::new() };
    let line = |curve: &Curve| {
        let whole = Mark { value: loss, ci95: None };
        // Shifts the interval of a rise to the loss with all heads.
        let raised = |rise: Interval| rise.shifted(loss);
        let without = curve.loss.iter().zip(&curve.rise_ci95);
        let without = without.map(|(&value, rise)| Mark { value, ci95: rise.map(raised) });
        let beside = curve.by.starts_with(RANDOM_PREFIX);
        let name = if beside { curve.by.clone() } else { format!("by {}", curve.by) };
        Line { name, is_reference: beside, points: std::iter::once(whole).chain(without).collect() }
    };
    let mut can_go = pruning.orders.iter().filter(|curve| !curve.by.starts_with(RANDOM_PREFIX)).flat_map(|curve| {
        let words = |can_go @ CanGo { of, rise, .. }: &CanGo| {
            let (share, change) = (removable_percent(can_go), if *of == ShareOf::Right { "fall" } else { "rise" });
            format!("{share} with a {change} of {:.0} % of {} by {}", 100.0 * rise, of.noun_phrase(), curve.by)
        };
        curve.can_go.iter().map(words)
    });
    let can_go = can_go.join("; ");
    vec![Figure {
        name: "pruning",
        title: "The loss without more and more heads".to_owned(),
        reading: format!(
            "Heads go one after the other; their order is from one half of the sample and the loss from the other ({}), with 95 % \
             intervals of the rise; nothing is trained again. Heads that can go: {can_go}.",
            pruning.sample_text(read),
        ),
        chart: Chart::Curves(Lines {
            x_label: "heads removed".to_owned(),
            y_label: format!("upward: loss in {} {}", loss_unit(pruning.task), pruning.loss_denominator()),
            curves: pruning.orders.iter().map(line).collect(),
        }),
    }]
}
