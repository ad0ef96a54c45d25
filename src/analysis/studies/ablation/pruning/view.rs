//! View of the section `pruning`: lines of the summary, a sentence in brief, the figure, the table.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use comfy_table::CellAlignment;

use super::section::{CanGo, Curve, Curves, Interaction, PruningSection, RISES, ShareOf};
use crate::model::grid::HeadGrid;
use crate::model::parameters::Objective;
use crate::stats::interval::Interval;
use crate::study::labels::policy::Policy;
use crate::study::section::{Completion, Exports, Section};
use crate::study::show::figure::{Chart, Curve as Line, Curves as Lines, Figure, Mark};
use crate::study::show::in_brief::InBrief;
use crate::study::show::summary::Summary;
use crate::study::show::table::Table;
use crate::study::show::wording::{drawn_without, plain_table, plus_minus, sequences};
use crate::system::counted::{counted, plural};

impl Section for PruningSection {
    fn complete(&mut self, known: &Completion<'_>) {
        match known {
            Completion::SharedKeys(heads) => self.pruning.heads_per_key_value_group = Some(*heads),
            Completion::Reading(read) => self.pruning.read = *read,
            _ => {}
        }
    }

    fn summary(&self, _: &Policy) -> Summary {
        Summary::written(|out| self.pruning.write_summary(out))
    }

    fn in_brief(&self, _: &Policy) -> InBrief {
        InBrief { found: self.pruning.in_brief(), ..InBrief::default() }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let broken = |Curve { heads, loss, rise_ci95, can_go, .. }: &&Curve| {
            // The heads go in any order, so they are compared as a set.
            let all = BTreeSet::from_iter(heads).into_iter().copied();
            !grid.is(all)
                || [heads.len(), loss.len(), rise_ci95.len()] != [grid.count(); 3]
                || can_go.len() > ShareOf::ALL.len() * RISES.len()
        };
        let is_whole = |constants: &Vec<Vec<f32>>| constants.len() == grid.count();
        if !self.pruning.constants.as_ref().is_none_or(is_whole) {
            return Some("the constants of `pruning` are not one for each head".to_owned());
        }
        let broken = self.pruning.orders.iter().find(broken)?;
        Some(format!(
            "the curve by `{}` of `pruning` has not a point for each head, or more shares than rises",
            broken.by
        ))
    }

    fn exports(&self) -> Exports {
        Exports { pruning: self.pruning.exported(), ..Exports::default() }
    }

    fn figures(&self, _: &Policy) -> Vec<Figure> {
        figures(&self.pruning)
    }

    fn tables(&self, _: &Policy) -> Vec<Table> {
        let pruning = &self.pruning;
        vec![
            Table::of("pruning", pruning.orders.iter().flat_map(Curve::steps)),
            Table::of("prune", pruning.pruned_layers()),
        ]
    }
}

/// How the names of random orders begin.
const RANDOM: &str = "random";

impl Curves {
    /// How many heads can go by the first order, at the largest rise that is allowed of what all heads are worth, beside the most
    /// in a random order; nothing without an interval.
    fn in_brief(&self) -> Option<String> {
        let of_all = |can_go: &&CanGo| can_go.of == ShareOf::AllHeads;
        let allowed = |order: &Curve| order.can_go.iter().rfind(of_all).copied();
        let order = self.orders.first()?;
        let CanGo { rise, share, ci95, .. } = allowed(order)?;
        let Interval(low, high) = ci95?;
        let random = self.orders.iter().filter(|order| order.by.starts_with(RANDOM)).filter_map(allowed);
        let random = random.map(|can_go| can_go.share).max_by(f64::total_cmp);
        let [share, low, high, rise] = [share, low, high, rise].map(|share| format!("{:.0}", share * 100.0));
        Some(format!(
            "{share} % [{low}, {high}] of the heads can be removed together ({}in the order by {}) before the loss rises by {rise} % of \
             what all heads are worth{}.",
            self.removal.map_or_else(String::new, |removal| format!("by {}, ", removal.name())),
            order.by,
            random.map_or_else(String::new, |random| format!("; in a random order at most {:.0} %", random * 100.0)),
        ))
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let Some(loss) = self.loss else {
            return writeln!(
                out,
                "No token could be scored, so no heads were pruned: {}.",
                drawn_without("a token to score", self.read)
            );
        };
        writeln!(
            out,
            "Heads removed one after the other, in an order from one half of the sample, with the loss on the other half \
             ({} {} of {}, {loss:.3} nats a token with all heads; {}without retraining). Share of heads that can be removed, with its \
             95 % interval, while the loss rises by at most this share of itself:\n",
            self.masked_tokens,
            self.objective.unwrap_or(Objective::MaskedTokens).tokens(),
            sequences(self.sentences, self.read),
            self.removal.map_or_else(String::new, |removal| format!("removal by {}; ", removal.name())),
        )?;
        out.table(table(&self.orders, ShareOf::Loss));
        if let Some(bare) = self.loss_without_heads {
            writeln!(
                out,
                "\nWhile it rises by at most this share of what all heads are worth ({:.3} nats):\n",
                bare - loss
            )?;
            out.table(table(&self.orders, ShareOf::AllHeads));
        }
        writeln!(out)?;
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
                "The {} together {} worth {together:+.4} nats, one by one {sum:+.4} in all: interaction \
                 {difference:+.4}{spread}.",
                counted(heads.len(), "negligible head"),
                plural(&heads.len(), "is", "are")
            )?;
        }
        Ok(())
    }
}

fn table(curves: &[Curve], of: ShareOf) -> comfy_table::Table {
    let mut table = plain_table();
    let rises = RISES.iter().map(|rise| format!("{:.0} %", rise * 100.0));
    table.set_header(["order by".to_owned()].into_iter().chain(rises));
    for Curve { by, can_go, .. } in curves {
        let cell = |CanGo { share, ci95, .. }: &CanGo| {
            let spread = ci95.map(|Interval(low, high)| format!(" [{:.0}, {:.0}]", low * 100.0, high * 100.0));
            format!("{:.0} %{}", share * 100.0, spread.unwrap_or_default())
        };
        table.add_row([by.clone()].into_iter().chain(can_go.iter().filter(|can_go| can_go.of == of).map(cell)));
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// The figure of pruning: the loss without more and more heads.
fn figures(pruning: &Curves) -> Vec<Figure> {
    let Some(loss) = pruning.loss else { return Vec::new() };
    let line = |curve: &Curve| {
        let whole = Mark { value: loss, ci95: None };
        // The interval of a rise, above the loss with all heads.
        let raised = |rise: Interval| rise.moved(loss);
        let without = curve.loss.iter().zip(&curve.rise_ci95);
        let without = without.map(|(&value, rise)| Mark { value, ci95: rise.map(raised) });
        let beside = curve.by.starts_with(RANDOM);
        let name = if beside { curve.by.clone() } else { format!("by {}", curve.by) };
        Line { name, beside, points: std::iter::once(whole).chain(without).collect() }
    };
    let can_go = pruning.orders.iter().filter(|curve| !curve.by.starts_with(RANDOM)).flat_map(|curve| {
        let words = |CanGo { of, rise, share, ci95 }: &CanGo| {
            let spread = ci95.map(|Interval(low, high)| format!(" [{:.0}, {:.0}]", 100.0 * low, 100.0 * high));
            let (share, spread) = (100.0 * share, spread.unwrap_or_default());
            format!("{share:.0} %{spread} with a rise of {:.0} % of {} by {}", 100.0 * rise, of.words(), curve.by)
        };
        curve.can_go.iter().map(words)
    });
    let can_go: Vec<String> = can_go.collect();
    vec![Figure {
        name: "pruning",
        title: "The loss without more and more heads".to_owned(),
        reading: format!(
            "Heads go one after the other; their order is from one half of the sample and the loss from the other ({} {} \
             of {}), with 95 % intervals of the rise; nothing is trained again. Heads that can go: {}.",
            pruning.masked_tokens,
            pruning.objective.unwrap_or(Objective::MaskedTokens).tokens(),
            sequences(pruning.sentences, pruning.read),
            can_go.join("; "),
        ),
        chart: Chart::Curves(Lines {
            across: "heads removed".to_owned(),
            upward: "upward: loss in nats a token".to_owned(),
            curves: pruning.orders.iter().map(line).collect(),
        }),
    }]
}
