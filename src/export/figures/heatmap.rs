//! A metric of every head: layers down, heads across.

use anyhow::{Error, Result, anyhow};

use crate::export::heads::{decimals, short};
use crate::export::palette::{Hue, Ink, STEPS, step};
use crate::export::svg::{Anchor, Medium, SMALL, Svg, TEXT};
use crate::report::Report;
use crate::studies::registry::{self, STUDIES};
use crate::study::{AnyStudy, columns};
use crate::system::errors::{Facts, similar};

const WIDTH: f64 = 52.0;
const HEIGHT: f64 = 28.0;
const MARGIN: f64 = 34.0;

/// The figure of a metric by its name, as reports have it: `offset_mass.-1`.
/// Fails if the report has no such metric.
pub fn draw(report: &Report, metric: &str, medium: Medium) -> Result<String> {
    let known = |name: &String| name == metric;
    if !report.chance.cells().any(|(name, _)| known(&name)) {
        return Err(unknown(report, metric));
    }
    let values: Vec<Option<f64>> = report
        .heads
        .iter()
        .map(|head| head.metrics.cells().find(|(name, _)| known(name)).and_then(|(_, value)| *value))
        .collect();
    let chance = report.chance.cells().find(|(name, _)| known(name)).and_then(|(_, value)| *value);
    let ends = ends(&values);
    let digits = decimals(ends[1] - ends[0]);
    let mut svg = Svg::new(medium);
    svg.text([0.0, 14.0], Anchor::Start, TEXT, Ink::Text, metric);
    for head in 0..report.model.heads {
        let x = MARGIN + (head as f64 + 0.5) * WIDTH;
        svg.text([x, 34.0], Anchor::Middle, SMALL, Ink::Muted, &format!("H{head}"));
    }
    for layer in 0..report.model.layers {
        let y = 42.0 + (layer as f64 + 0.5) * HEIGHT + 4.0;
        svg.text([MARGIN - 8.0, y], Anchor::End, SMALL, Ink::Muted, &format!("L{layer}"));
    }
    for (head, value) in report.heads.iter().zip(&values) {
        let [x, y] = [MARGIN + head.place.head as f64 * WIDTH, 42.0 + head.place.layer as f64 * HEIGHT];
        let ink = value.map_or(Ink::Label(Hue::Grey), |value| Ink::Step(step(value, ends)));
        let text = value.map_or_else(|| "–".to_owned(), |value| short(value, digits));
        svg.group(&format!("{}: {text}", head.place), |svg| {
            svg.rect([x, y], [WIDTH - 1.0, HEIGHT - 1.0], ink);
            svg.text([x + WIDTH / 2.0, y + 18.0], Anchor::Middle, SMALL, ink.text_on(), &text);
        });
    }
    let y = 42.0 + report.model.layers as f64 * HEIGHT + 12.0;
    let shown = [ends[0], ends[1]].map(|end| short(end, digits));
    for at in 0..STEPS {
        svg.rect([MARGIN + 60.0 + at as f64 * 14.0, y], [14.0, 10.0], Ink::Step(at));
    }
    svg.text([MARGIN + 54.0, y + 9.0], Anchor::End, SMALL, Ink::Text, &shown[0]);
    let right = MARGIN + 66.0 + STEPS as f64 * 14.0;
    svg.text([right, y + 9.0], Anchor::Start, SMALL, Ink::Text, &shown[1]);
    let chance = chance.map(|chance| format!("chance: {}", short(chance, digits)));
    if let Some(chance) = &chance {
        svg.text([right, y + 26.0], Anchor::End, SMALL, Ink::Muted, chance);
    }
    let width = (MARGIN + report.model.heads as f64 * WIDTH).max(right + 60.0);
    let meaning = registry::find(metric).map_or("", |entry| entry.explanation.measures);
    Ok(svg.finish([width, y + 34.0], metric, meaning))
}

/// The error of a metric that the report lacks: the study that measures it, or a name like it.
fn unknown(report: &Report, metric: &str) -> Error {
    let error = anyhow!("the report has no metric `{metric}`").of_value(metric);
    let ids: Vec<String> = report.chance.cells().map(|(name, _)| name).collect();
    let near = similar::closest(metric, ids.iter().map(String::as_str));
    let near = near.or_else(|| similar::closest(metric, registry::metrics().map(|entry| entry.name())));
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

/// The least and the most of the numbers that there are.
pub fn ends(values: &[Option<f64>]) -> [f64; 2] {
    let known = || values.iter().flatten().copied();
    [known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max)]
}
