//! View of the section `direct`: lines of the summary, the sentence among those that open it, the figure, the cards of heads, tables.

use std::fmt::{self, Write};

use comfy_table::CellAlignment;
use serde::Serialize;

use super::section::{DirectResult, DirectSection, HeadDirectEffect, LayerEffects, PartEffect};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::study::labels::policy::Policy;
use crate::study::section::{HeadCard, Section, View};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::in_brief::InBrief;
use crate::study::show::summary::Summary;
use crate::study::show::table::TableRows;
use crate::study::show::wording::{decimal, plain_table, plus_minus};
use crate::system::counted::{counted, plural};

/// Heads that the summary shows.
const SHOWN: usize = 10;

/// Heads that the figure shows.
const DRAWN: usize = 24;

impl Section for DirectSection {
    fn view(&self, _: &Policy) -> View<'_> {
        let DirectResult { heads, layers, .. } = &self.direct;
        let parts = layers.iter().flat_map(LayerEffects::rows);
        View {
            lacks_subject: self.direct.items == 0,
            in_brief: InBrief { found: self.direct.in_brief(), ..InBrief::default() },
            summary: Summary::written(|out| self.direct.write_summary(out)),
            figures: self.direct.figure().into_iter().collect(),
            tables: vec![TableRows::of("direct_effects", heads), TableRows::of("direct_effects_by_layer", parts)],
            ..View::default()
        }
    }

    fn of_head(&self, place: HeadPlace, _: &Policy) -> HeadCard {
        let head = self.direct.heads.iter().find(|head| head.place == place);
        let effect = head.map(|head| head.effect.to_string()).filter(|_| self.direct.items > 0);
        HeadCard::from_iter(effect.map(|effect| {
            format!("by itself it adds {effect} nats to the answer's logit less the foil's, of {}", self.direct.sum)
        }))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let DirectResult { heads, layers, .. } = &self.direct;
        let is_whole =
            grid.is(heads.iter().map(|head| head.place)) && layers.iter().map(|layer| layer.layer).eq(0..grid.layers);
        (!is_whole).then(|| "`direct` does not have each head and each layer of the model once, in order".to_owned())
    }
}

/// A part of a layer, as the table lists it.
#[derive(Serialize)]
struct LayerRow {
    layer: usize,
    part: &'static str,
    #[serde(flatten)]
    effect: PartEffect,
}

impl LayerEffects {
    fn rows(&self) -> impl Iterator<Item = LayerRow> {
        let &Self { layer, heads, feed_forward, biases } = self;
        let parts = [("heads", heads), ("feed_forward", feed_forward), ("biases", biases)];
        parts.into_iter().map(move |(part, effect)| LayerRow { layer, part, effect })
    }
}

/// `+1.234 ±0.056`
impl fmt::Display for PartEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(effect) = self.effect else { return f.write_str("-") };
        write!(f, "{}{}", signed(effect), plus_minus(self.ci95, 3))
    }
}

fn signed(effect: f64) -> String {
    let shown = decimal(effect, 3);
    if shown.starts_with('-') { shown } else { format!("+{shown}") }
}

impl DirectResult {
    fn in_brief(&self) -> Option<String> {
        let ranked = self.ranked();
        let &HeadDirectEffect { place, effect } = *ranked.first()?;
        let is_above = effect.ci95?.low() > 0.0;
        if !is_above && effect.ci95?.high() >= 0.0 {
            return None;
        }
        Some(format!(
            "The logit of the answer is {} nats above the foil's; of {} {place} adds most to it directly, {effect} for the {}.",
            self.sum,
            counted(ranked.len(), "head"),
            if is_above { "answer" } else { "foil" },
        ))
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let [heads, feed_forward, biases] = self.of_kinds().map(signed);
        // Models that bound their logits answer with less.
        let is_bounded = self.sum.to_string() != self.score.to_string();
        let bounded = if is_bounded { format!(" before the bound, {} after it", self.score) } else { String::new() };
        writeln!(
            out,
            "Logit of the answer less the foil's, mean of {} of {}: {} nats{bounded}. Its parts: all heads {heads}, feed-forward blocks \
             {feed_forward}, embeddings {}, biases of layers {biases}, of the final norm and the prediction head {}.",
            counted(self.items, "item"),
            counted(self.units, "unit"),
            self.sum,
            self.embeddings,
            self.constants,
        )?;
        writeln!(out, "The heads that add most, to the answer (+) or the foil (-), ± half of the 95 % interval:\n")?;
        let mut table = plain_table();
        table.set_header(["head", "direct effect"]);
        for HeadDirectEffect { place, effect } in self.ranked().into_iter().take(SHOWN) {
            table.add_row([place.to_string(), effect.to_string()]);
        }
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        out.table(table);
        Ok(())
    }

    fn figure(&self) -> Option<Figure> {
        let order = self.ranked();
        let row = |head: &&HeadDirectEffect| ForestRow {
            name: head.place.to_string(),
            note: String::new(),
            marks: vec![Mark::of(head.effect.effect, head.effect.ci95)],
        };
        let left_out = match order.len().saturating_sub(DRAWN) {
            0 => String::new(),
            heads => {
                format!(" {} with smaller effects {} left out.", counted(heads, "head"), plural(&heads, "is", "are"))
            }
        };
        (!order.is_empty()).then(|| Figure {
            name: "direct",
            title: "What each head adds by itself to the answer".to_owned(),
            reading: format!(
                "The logit of the answer less the foil's is {} nats. Each row is the part that a head adds to it on the direct path, \
                 with its 95 % interval.{left_out}",
                self.sum
            ),
            chart: Chart::Forest(Forest {
                scale: "direct effect, in nats".to_owned(),
                shares: false,
                nothing: Some(0.0),
                marks: vec!["direct effect".to_owned()],
                rows: order.iter().take(DRAWN).map(row).collect(),
            }),
        })
    }
}
