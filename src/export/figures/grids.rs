//! Figures of every report: grids of labels and of a metric (layers down, heads across), and labels by layer.

use anyhow::{Error, Result, anyhow};

use crate::export::heads::{HeadCell, LabelFamily, decimals_for_span, label_families, metric_mark, short_decimal};
use crate::export::palette::{HEAT_MAP_STEPS, Hue, Ink, heat_map_step};
use crate::export::svg::{Anchor, Medium, SMALL_TEXT_SIZE_PX, Svg, TEXT_SIZE_PX, text_width, truncate_text};
use crate::report::Report;
use crate::studies::registry::{self, STUDIES};
use crate::study::{AnyStudy, columns};
use crate::system::counts::{format_count, plural};
use crate::system::errors::{ErrorExt, similar};

/// Width of a cell in the grid of labels, in pixels.
const CELL_WIDTH_PX: f64 = 74.0;
/// Height of a cell in the grid of labels, in pixels.
const CELL_HEIGHT_PX: f64 = 34.0;

/// Draws the first label of each head, with a legend.
pub fn draw_label_grid(report: &Report, medium: Medium) -> String {
    /// Width of the left margin with the names of layers, in pixels.
    const LEFT_MARGIN_PX: f64 = 34.0;
    let (layers, heads) = (report.model.layers, report.model.heads);
    let mut svg = Svg::new(medium);
    draw_grid_names(&mut svg, report, [LEFT_MARGIN_PX, 24.0], [CELL_WIDTH_PX, CELL_HEIGHT_PX], TEXT_SIZE_PX);
    for head in &report.heads {
        let cell = HeadCell::new(report, head);
        let corner =
            [LEFT_MARGIN_PX + head.place.head as f64 * CELL_WIDTH_PX, 24.0 + head.place.layer as f64 * CELL_HEIGHT_PX];
        svg.group(&cell.tooltip, |svg| draw_cell(svg, corner, &cell));
    }
    let width = (LEFT_MARGIN_PX + heads as f64 * CELL_WIDTH_PX).max(420.0) + 4.0;
    let bottom = draw_legend(
        &mut svg,
        &label_families(report),
        [LEFT_MARGIN_PX, 24.0 + layers as f64 * CELL_HEIGHT_PX + 24.0],
        width,
    );
    let labelled = report.heads.iter().filter(|head| !head.labels.is_empty()).count();
    let text = format!(
        "{labelled} of {} {} a label.",
        format_count(report.present_heads().count(), "head"),
        plural(&labelled, "has", "have")
    );
    svg.into_document([width, bottom], "The first label of each head", &text)
}

/// Draws the names of heads above a grid and of layers to its left; the grid begins at `[left, top]`.
fn draw_grid_names(svg: &mut Svg, report: &Report, [left, top]: [f64; 2], [width, height]: [f64; 2], size: f64) {
    for head in 0..report.model.heads {
        let x = left + (head as f64 + 0.5) * width;
        svg.text([x, top - 8.0], Anchor::Middle, size, Ink::Muted, &format!("H{head}"));
    }
    for layer in 0..report.model.layers {
        let y = top + (layer as f64 + 0.5) * height + 4.0;
        svg.text([left - 8.0, y], Anchor::End, size, Ink::Muted, &format!("L{layer}"));
    }
}

fn draw_cell(svg: &mut Svg, [x, y]: [f64; 2], cell: &HeadCell) {
    let ink = Ink::Label(cell.hue);
    svg.rect([x + 1.0, y + 1.0], [CELL_WIDTH_PX - 2.0, CELL_HEIGHT_PX - 2.0], ink);
    let text = truncate_text(&cell.code, 10);
    let size = if text_width(&text, TEXT_SIZE_PX) > CELL_WIDTH_PX - 8.0 { SMALL_TEXT_SIZE_PX } else { TEXT_SIZE_PX };
    let middle = x + CELL_WIDTH_PX / 2.0;
    let up = if cell.marks.is_empty() { 21.0 } else { 16.0 };
    svg.text([middle, y + up], Anchor::Middle, size, ink.text_ink(), &text);
    if !cell.marks.is_empty() {
        svg.text([middle, y + 28.0], Anchor::Middle, SMALL_TEXT_SIZE_PX, ink.text_ink(), &cell.marks);
    }
}

/// Draws the legend: each label family with the number of heads whose first label is in it. Returns its bottom end in pixels.
fn draw_legend(svg: &mut Svg, families: &[LabelFamily], [left, mut y]: [f64; 2], right: f64) -> f64 {
    let mut x = left;
    for LabelFamily { name, code, hue, primary_count: first, .. } in families {
        let code = code.as_ref().map_or_else(String::new, |code| format!(" ({code})"));
        let text = format!("{name}{code}: {first}");
        let width = 16.0 + text_width(&text, SMALL_TEXT_SIZE_PX) + 14.0;
        if x + width > right && x > left {
            (x, y) = (left, y + 18.0);
        }
        svg.rect([x, y - 9.0], [11.0, 11.0], Ink::Label(*hue));
        svg.text([x + 16.0, y], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Text, &text);
        x += width;
    }
    let notes = [
        "?: borderline   ~: nearly tied with another label   +2: two more labels",
        "? alone: undecided   .: no role found",
    ];
    for note in notes {
        y += 16.0;
        svg.text([left, y + 4.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Muted, note);
    }
    y + 14.0
}

/// Draws how many heads of each layer have a label of each family.
pub fn draw_labels_by_layer(report: &Report, medium: Medium) -> String {
    /// Height of the row of a label family, in pixels.
    const ROW_HEIGHT_PX: f64 = 42.0;
    let families = label_families(report);
    let mut svg = Svg::new(medium);
    let widest = families.iter().map(|family| text_width(&family.name, SMALL_TEXT_SIZE_PX)).fold(0.0, f64::max);
    let left = widest + 14.0;
    let wide = (620.0 / report.model.layers as f64).clamp(18.0, 60.0);
    let right = left + report.model.layers as f64 * wide;
    for (row, LabelFamily { name, hue, heads_by_layer: by_layer, .. }) in families.iter().enumerate() {
        let base = (row + 1) as f64 * ROW_HEIGHT_PX;
        svg.text([left - 10.0, base - 4.0], Anchor::End, SMALL_TEXT_SIZE_PX, Ink::Text, name);
        svg.line([left, base], [right, base], Ink::Guide, 1.0);
        for (layer, count) in by_layer.iter().enumerate().filter(|(_, count)| **count > 0) {
            let height = (ROW_HEIGHT_PX - 16.0) * *count as f64 / report.model.heads as f64;
            let x = left + layer as f64 * wide;
            svg.group(
                &format!("{name}, layer {layer}: {count} of {}", format_count(report.model.heads, "head")),
                |svg| {
                    svg.rect([x + 2.0, base - height], [wide - 4.0, height], Ink::Label(*hue));
                    svg.line([x + 2.0, base - height], [x + wide - 2.0, base - height], Ink::Muted, 1.0);
                    let above = [x + wide / 2.0, base - height - 2.0];
                    svg.text(above, Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Text, &count.to_string());
                },
            );
        }
    }
    let base = families.len() as f64 * ROW_HEIGHT_PX + 16.0;
    for layer in 0..report.model.layers {
        let x = left + (layer as f64 + 0.5) * wide;
        svg.text([x, base], Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Muted, &format!("L{layer}"));
    }
    let text = format!("How many of the {} heads of each layer have a label of each family.", report.model.heads);
    svg.into_document([right + 6.0, base + 8.0], "Where labels are in depth", &text)
}

/// Draws a heat map of a metric, named as in reports: `offset_mass.-1`. Fails if the report lacks the metric.
pub fn draw_heatmap(report: &Report, metric: &str, medium: Medium) -> Result<String> {
    /// Width of a heat-map cell, in pixels.
    const MAP_CELL_WIDTH_PX: f64 = 52.0;
    /// Height of a heat-map cell, in pixels.
    const MAP_CELL_HEIGHT_PX: f64 = 28.0;
    /// Width of the left margin with the names of layers, in pixels.
    const LEFT_MARGIN_PX: f64 = 34.0;
    let (id, key) = metric.split_once('.').map_or((metric, None), |(id, key)| (id, Some(key)));
    let Some(chance) = report.chance.get(id, key) else { return Err(unknown_metric_error(report, metric)) };
    let values: Vec<Option<f64>> =
        report.heads.iter().map(|head| metric_mark(head, id, key).map(|mark| mark.value)).collect();
    let ends = value_range(&values);
    let digits = decimals_for_span(ends[1] - ends[0]);
    let mut svg = Svg::new(medium);
    svg.text([0.0, 14.0], Anchor::Start, TEXT_SIZE_PX, Ink::Text, metric);
    draw_grid_names(
        &mut svg,
        report,
        [LEFT_MARGIN_PX, 42.0],
        [MAP_CELL_WIDTH_PX, MAP_CELL_HEIGHT_PX],
        SMALL_TEXT_SIZE_PX,
    );
    for (head, value) in report.heads.iter().zip(&values) {
        let [x, y] = [
            LEFT_MARGIN_PX + head.place.head as f64 * MAP_CELL_WIDTH_PX,
            42.0 + head.place.layer as f64 * MAP_CELL_HEIGHT_PX,
        ];
        let ink = value.map_or(Ink::Label(Hue::Grey), |value| Ink::Step(heat_map_step(value, ends)));
        let text = value.map_or_else(|| "–".to_owned(), |value| short_decimal(value, digits));
        svg.group(&format!("{}: {text}", head.place), |svg| {
            svg.rect([x, y], [MAP_CELL_WIDTH_PX - 1.0, MAP_CELL_HEIGHT_PX - 1.0], ink);
            svg.text(
                [x + MAP_CELL_WIDTH_PX / 2.0, y + 18.0],
                Anchor::Middle,
                SMALL_TEXT_SIZE_PX,
                ink.text_ink(),
                &text,
            );
        });
    }
    let y = 42.0 + report.model.layers as f64 * MAP_CELL_HEIGHT_PX + 12.0;
    let [least, most] = ends.map(|end| short_decimal(end, digits));
    for step in 0..HEAT_MAP_STEPS {
        svg.rect([LEFT_MARGIN_PX + 60.0 + step as f64 * 14.0, y], [14.0, 10.0], Ink::Step(step));
    }
    svg.text([LEFT_MARGIN_PX + 54.0, y + 9.0], Anchor::End, SMALL_TEXT_SIZE_PX, Ink::Text, &least);
    let right = LEFT_MARGIN_PX + 66.0 + HEAT_MAP_STEPS as f64 * 14.0;
    svg.text([right, y + 9.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Text, &most);
    if let Some(chance) = chance {
        let chance = format!("chance: {}", short_decimal(*chance, digits));
        svg.text([right, y + 26.0], Anchor::End, SMALL_TEXT_SIZE_PX, Ink::Muted, &chance);
    }
    let width = (LEFT_MARGIN_PX + report.model.heads as f64 * MAP_CELL_WIDTH_PX).max(right + 60.0);
    let meaning = registry::find_entry(metric).map_or("", |entry| entry.explanation.measures);
    Ok(svg.into_document([width, y + 34.0], metric, meaning))
}

/// Error for a metric that the report lacks; the hint is the study that measures it, or a similar name.
fn unknown_metric_error(report: &Report, metric: &str) -> Error {
    let error = anyhow!("the report has no metric `{metric}`").with_value(metric);
    let ids: Vec<String> = report.chance.cells().map(|(name, _)| name).collect();
    let near = similar::closest_name(metric, ids.iter().map(String::as_str));
    let near = near.or_else(|| similar::closest_name(metric, registry::metric_entries().map(|entry| entry.name())));
    let Some(near) = near else { return error.hint("`headscope explain` lists all metrics") };
    let measures = |study: &&&dyn AnyStudy| columns(**study).iter().any(|column| column.id == near);
    match STUDIES.iter().find(measures).filter(|_| !ids.iter().any(|id| id == near)) {
        Some(study) => {
            let (study, it) = (study.card().name, if near == metric { "it" } else { near });
            error.hint(format!("the study `{study}` measures {it}, `headscope analyze --with {study}`"))
        }
        None => error.did_you_mean(Some(near)),
    }
}

/// Minimum and maximum of the values that are known.
pub fn value_range(values: &[Option<f64>]) -> [f64; 2] {
    let known = || values.iter().flatten().copied();
    [known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max)]
}
