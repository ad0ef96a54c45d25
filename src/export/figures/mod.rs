//! The figures of a report, each as SVG: the figures of every report, and the figures of its studies.

mod arcs;
mod grids;
mod heads;
mod scales;
mod table;

use std::collections::BTreeSet;

use anyhow::{Error, Result, anyhow};

use super::svg::Medium;
use crate::export::heads::card_parts;
use crate::model::grid::HeadPlace;
use crate::report::Report;
use crate::studies::registry::STUDIES;
use crate::study::show::figure::{Chart, Figure};
use crate::system::errors::{ErrorExt, similar};
pub use arcs::draw_sentences as sentences;
pub use table::{arc_table, figure_table};

/// Name of the figure with the first label of each head.
pub const GRID_FIGURE: &str = "grid";
/// Name of the figure with the number of labelled heads by layer.
pub const LAYERS_FIGURE: &str = "layers";

/// First part of the name of a metric's heat map, as in `heatmap:entropy`.
pub const HEATMAP_PREFIX: &str = "heatmap";

/// Figures that the studies of a report draw.
pub fn study_figures(report: &Report) -> Vec<Figure> {
    report.section_views().flat_map(|(_, view)| view.figures).collect()
}

/// Figures of one head by the studies of a report, named as `examples:L2H8`.
pub fn head_figures(report: &Report, head: HeadPlace) -> Vec<Figure> {
    card_parts(report, head).flat_map(|(_, part)| part.figures).collect()
}

/// Draws the figure of this name. Fails if the report lacks it.
pub fn draw_named(report: &Report, name: &str, medium: Medium) -> Result<String> {
    match (name, name.split_once(':')) {
        (GRID_FIGURE, _) => Ok(grids::draw_label_grid(report, medium)),
        (LAYERS_FIGURE, _) => Ok(grids::draw_labels_by_layer(report, medium)),
        (_, Some((HEATMAP_PREFIX, metric))) => grids::draw_heatmap(report, metric, medium),
        (_, Some((figure, head))) => {
            let place = report.heads.iter().map(|head| head.place).find(|place| place.to_string() == head);
            let figures = place.map(|place| head_figures(report, place)).unwrap_or_default();
            let unknown =
                || anyhow!("the report has no figure `{figure}` of `{}`", head.escape_debug()).with_value(name);
            let figure = figures.iter().find(|known| known.name == figure).ok_or_else(unknown)?;
            Ok(draw(report, figure, medium))
        }
        _ => {
            let figures = study_figures(report);
            let figure = figures.iter().find(|figure| figure.name == name);
            Ok(draw(report, figure.ok_or_else(|| unknown_figure_error(report, name, &figures))?, medium))
        }
    }
}

/// Error for a figure that the report lacks; the hint is the study that draws it, or a similar name.
fn unknown_figure_error(report: &Report, name: &str, of_studies: &[Figure]) -> Error {
    let of_heads: BTreeSet<&str> =
        report.heads.iter().flat_map(|head| head_figures(report, head.place)).map(|figure| figure.name).collect();
    let of_reports = [GRID_FIGURE, LAYERS_FIGURE, "heatmap:METRIC"].into_iter();
    let names = of_reports.chain(of_studies.iter().map(|figure| figure.name)).map(str::to_owned);
    let names: Vec<String> = names.chain(of_heads.into_iter().map(|name| format!("{name}:HEAD"))).collect();
    let error = anyhow!("the report has no figure `{name}`: it has {}", names.join(", ")).with_value(name);
    let was_run = |study: &str| report.sections.0.iter().any(|(known, _)| known.card().name == study);
    match study_that_draws(name).filter(|study| !was_run(study)) {
        Some(study) => error.hint(format!("the study `{study}` draws it: `headscope analyze --with {study}`")),
        None => error.did_you_mean(similar::closest_name(name, names.iter().map(String::as_str))),
    }
}

/// Name of the study that draws the figure `name`.
fn study_that_draws(name: &str) -> Option<&'static str> {
    STUDIES.iter().map(|study| study.card()).find(|card| card.figures.contains(&name)).map(|card| card.name)
}

pub fn draw(report: &Report, figure: &Figure, medium: Medium) -> String {
    match &figure.chart {
        Chart::Forest(forest) => scales::draw_forest(figure, forest, medium),
        Chart::Curves(curves) => scales::draw_curves(figure, curves, medium),
        Chart::Edges(edges) => heads::draw_edges(report, figure, edges, medium),
        Chart::Points(points) => heads::draw_points(report, figure, points, medium),
        Chart::Arcs(arcs) => arcs::draw_sentences([&figure.title, &figure.reading], arcs, medium),
        Chart::Tree(tree) => heads::draw_tree(report, figure, tree, medium),
        Chart::Bars(bars) => scales::draw_bars(figure, bars, medium),
        Chart::Stacks(stacks) => heads::draw_stacks(figure, stacks, medium),
    }
}
