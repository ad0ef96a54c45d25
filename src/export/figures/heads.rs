//! Figures whose marks are heads: stacked bars, edges between heads that depend on one another, a map, and a dendrogram.

use itertools::Itertools;

use super::scales::Scale;
use crate::export::heads::{HeadCell, number_with_interval};
use crate::export::palette::{Hue, Ink};
use crate::export::svg::{Anchor, Medium, SMALL_TEXT_SIZE_PX, Svg, text_width, truncate_text};
use crate::report::Report;
use crate::study::show::figure::{Edge, EdgeKind, EdgeStyle, Edges, Figure, Points, Stack, Stacks, Tree, TreeJoin};

/// Left end of the first stacked bar, in pixels.
const STACKS_LEFT_PX: f64 = 46.0;

/// Draws stacked bars, one for each head, layer by layer.
pub fn draw_stacks(figure: &Figure, Stacks { scale, parts, stacks }: &Stacks, medium: Medium) -> String {
    const HUES: [Hue; 4] = [Hue::Orange, Hue::Sky, Hue::Purple, Hue::Green];
    /// Height of a full bar, in pixels.
    const BAR_HEIGHT_PX: f64 = 180.0;
    /// Height of the space above the bars, in pixels.
    const SPACE_ABOVE_PX: f64 = 40.0;
    let mut svg = Svg::new(medium);
    // As wide as a page, however many heads there are.
    let wide = (860.0 / stacks.len().max(1) as f64).clamp(3.0, 18.0);
    let base = SPACE_ABOVE_PX + BAR_HEIGHT_PX;
    let right = stacks.last().map_or(STACKS_LEFT_PX, |last| stack_position(stacks, last, wide) + wide);
    for quarter in 0..=4_u8 {
        let (share, y) = (f64::from(quarter) / 4.0, base - BAR_HEIGHT_PX * f64::from(quarter) / 4.0);
        svg.line([STACKS_LEFT_PX, y], [right, y], Ink::Guide, 1.0);
        svg.text(
            [STACKS_LEFT_PX - 6.0, y + 4.0],
            Anchor::End,
            SMALL_TEXT_SIZE_PX,
            Ink::Muted,
            &format!("{:.0} %", 100.0 * share),
        );
    }
    for stack in stacks {
        let x = stack_position(stacks, stack, wide);
        let mut shares = parts.iter().zip(&stack.parts).map(|(name, part)| format!("{name} {:.0} %", 100.0 * part));
        svg.group(&format!("{}: {}", stack.place, shares.join(", ")), |svg| {
            let mut y = base;
            for (part, hue) in stack.parts.iter().zip(HUES) {
                let height = BAR_HEIGHT_PX * part;
                y -= height;
                svg.rect([x + 0.5, y], [wide - 1.0, height], Ink::Label(hue));
            }
        });
        let name = stack.place.head.to_string();
        if text_width(&name, SMALL_TEXT_SIZE_PX) <= wide {
            svg.text([x + wide / 2.0, base + 14.0], Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Muted, &name);
        }
        if stack.place.head == 0 {
            let name = format!("L{}", stack.place.layer);
            svg.text([x, base + 28.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Text, &name);
        }
    }
    let mut x = STACKS_LEFT_PX;
    for (name, hue) in parts.iter().zip(HUES) {
        svg.rect([x, SPACE_ABOVE_PX - 28.0], [11.0, 11.0], Ink::Label(hue));
        svg.text([x + 16.0, SPACE_ABOVE_PX - 19.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Text, name);
        x += 16.0 + text_width(name, SMALL_TEXT_SIZE_PX) + 16.0;
    }
    svg.text([0.0, SPACE_ABOVE_PX - 38.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Muted, scale);
    svg.into_document([right.max(x) + 8.0, base + 36.0], &figure.title, &figure.reading)
}

/// Left end of a stack's bar, in pixels; `wide` is the width of a bar.
fn stack_position(stacks: &[Stack], stack: &Stack, wide: f64) -> f64 {
    /// Space between the bars of two layers, in pixels.
    const LAYER_GAP_PX: f64 = 8.0;
    let heads = stacks.iter().filter(|other| other.place.layer == 0).count();
    STACKS_LEFT_PX
        + (stack.place.layer * heads + stack.place.head) as f64 * wide
        + stack.place.layer as f64 * LAYER_GAP_PX
}

/// Draws the heads of a model as a grid, with an edge between each two heads that depend on one another.
pub fn draw_edges(report: &Report, figure: &Figure, edges: &Edges, medium: Medium) -> String {
    /// Width of a head's cell, in pixels.
    const CELL_WIDTH_PX: f64 = 62.0;
    /// Height of a head's cell, in pixels.
    const CELL_HEIGHT_PX: f64 = 24.0;
    /// Maximum number of characters of a name in a cell.
    const MAX_NAME_CHARACTERS: usize = 8;
    /// Height of the margin above the grid, in pixels.
    const TOP_MARGIN_PX: f64 = 24.0;
    /// Height of a line of the legend, in pixels.
    const LEGEND_ROW_PX: f64 = 16.0;
    /// Length of a sample stroke in the legend, in pixels.
    const SAMPLE_STROKE_PX: f64 = 26.0;
    let (layers, heads) = (report.model.layers, report.model.heads);
    // Room for edges beside the column of heads.
    let between = (900.0 / layers as f64).clamp(CELL_WIDTH_PX + 34.0, CELL_WIDTH_PX + 90.0);
    let corner =
        |layer: usize, head: usize| [layer as f64 * between, TOP_MARGIN_PX + head as f64 * (CELL_HEIGHT_PX + 6.0)];
    let mut svg = Svg::new(medium);
    for layer in 0..layers {
        let x = layer as f64 * between + CELL_WIDTH_PX / 2.0;
        svg.text([x, 14.0], Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Muted, &format!("L{layer}"));
    }
    let most = edges.edges.iter().map(|edge| edge.mark.value).fold(0.0, f64::max);
    for Edge { source, target, mark, is_strongest: strongest, line } in edges.edges.iter().rev() {
        let ([x, y], [to, down]) = (corner(source.layer, source.head), corner(target.layer, target.head));
        let (from, to) = ([x + CELL_WIDTH_PX, y + CELL_HEIGHT_PX / 2.0], [to, down + CELL_HEIGHT_PX / 2.0]);
        let width = 0.6 + 3.0 * (mark.value / most).clamp(0.0, 1.0);
        let bend = [
            f64::midpoint(from[0], to[0]),
            f64::midpoint(from[1], to[1]) - 6.0 * target.layer.saturating_sub(source.layer) as f64,
        ];
        svg.group(&format!("{source} to {target}: {}", number_with_interval(*mark, false)), |svg| {
            svg.curve([from, bend, to], if *strongest { Ink::Accent } else { Ink::Muted }, width, dash_pattern(*line));
        });
    }
    for head in &report.heads {
        let ([x, y], cell) = (corner(head.place.layer, head.place.head), HeadCell::new(report, head));
        let ink = Ink::Label(cell.hue);
        svg.group(&cell.tooltip, |svg| {
            svg.rect([x, y], [CELL_WIDTH_PX, CELL_HEIGHT_PX], ink);
            svg.text(
                [x + 4.0, y + 16.0],
                Anchor::Start,
                SMALL_TEXT_SIZE_PX,
                ink.text_ink(),
                &truncate_text(&cell.code, MAX_NAME_CHARACTERS),
            );
        });
    }
    let bottom = TOP_MARGIN_PX + heads as f64 * (CELL_HEIGHT_PX + 6.0) + 18.0;
    svg.text([0.0, bottom], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Muted, &edges.width_label);
    let mut width =
        ((layers as f64 - 1.0) * between + CELL_WIDTH_PX).max(text_width(&edges.width_label, SMALL_TEXT_SIZE_PX));
    let mut below = bottom;
    for EdgeKind { line, name, meaning } in &edges.kinds {
        below += LEGEND_ROW_PX;
        let meaning = format!("{name}: {meaning}");
        svg.polyline(&[[0.0, below - 4.0], [SAMPLE_STROKE_PX, below - 4.0]], Ink::Muted, 2.0, dash_pattern(*line));
        svg.text([SAMPLE_STROKE_PX + 6.0, below], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Muted, &meaning);
        width = width.max(SAMPLE_STROKE_PX + 6.0 + text_width(&meaning, SMALL_TEXT_SIZE_PX));
    }
    svg.into_document([width + 4.0, below + 10.0], &figure.title, &figure.reading)
}

/// Dash pattern of an edge, as in the SVG attribute `stroke-dasharray`; empty for a solid line.
fn dash_pattern(line: EdgeStyle) -> &'static str {
    if line == EdgeStyle::Dashed { "5 3" } else { "" }
}

/// Radius of a head's disc on a map, in pixels.
const DISC_RADIUS_PX: f64 = 6.0;

/// Draws heads as discs on a map of two dimensions.
pub fn draw_points(report: &Report, figure: &Figure, map: &Points, medium: Medium) -> String {
    /// Width of the map, in pixels.
    const MAP_WIDTH_PX: f64 = 760.0;
    /// Height of the map, in pixels.
    const MAP_HEIGHT_PX: f64 = 520.0;
    /// Margin around the map, in pixels.
    const MAP_MARGIN_PX: f64 = 44.0;
    let mut svg = Svg::new(medium);
    let [x_ends, y_ends] = [0, 1].map(|axis| Scale::finite_ends(map.points.iter().map(|point| point[axis])));
    // Pixels per unit, equal on both axes, because distances are to be compared.
    let unit = ((MAP_WIDTH_PX - 2.0 * MAP_MARGIN_PX) / (x_ends[1] - x_ends[0]))
        .min((MAP_HEIGHT_PX - 2.0 * MAP_MARGIN_PX) / (y_ends[1] - y_ends[0]));
    let [x_middle, y_middle] = [x_ends, y_ends].map(|[least, most]| f64::midpoint(least, most));
    let place =
        |[x, y]: [f64; 2]| [MAP_WIDTH_PX / 2.0 + (x - x_middle) * unit, MAP_HEIGHT_PX / 2.0 - (y - y_middle) * unit];
    for group in &map.groups {
        let points: Vec<[f64; 2]> =
            group.iter().filter_map(|&head| map.points.get(head)).map(|&at| place(at)).collect();
        let mean = |of: usize| points.iter().map(|point| point[of]).sum::<f64>() / points.len().max(1) as f64;
        let middle = [mean(0), mean(1)];
        points.iter().for_each(|&point| svg.line(middle, point, Ink::Muted, 1.5));
    }
    let places: Vec<[f64; 2]> = map.points.iter().map(|&point| place(point)).collect();
    let names: Vec<String> = report.heads.iter().map(|head| head.place.to_string()).collect();
    let beside = name_positions(&places, &names);
    for ((head, &point), name) in report.heads.iter().zip(&places).zip(beside) {
        let cell = HeadCell::new(report, head);
        svg.group(&cell.tooltip, |svg| {
            svg.circle(point, DISC_RADIUS_PX, Ink::Label(cell.hue), Ink::Muted);
            if let Some((at, anchor)) = name {
                svg.text(at, anchor, SMALL_TEXT_SIZE_PX, Ink::Text, &head.place.to_string());
            }
        });
    }
    let legend = format!("{}; names where there is room", map.distance_label);
    svg.text([8.0, MAP_HEIGHT_PX + 14.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Muted, &legend);
    svg.into_document([MAP_WIDTH_PX, MAP_HEIGHT_PX + 24.0], &figure.title, &figure.reading)
}

/// Position and anchor of each point's name, or `None` if every position overlaps with something.
/// Positions are tried in turn: right of the point, left of it, above it, below it.
fn name_positions(points: &[[f64; 2]], names: &[String]) -> Vec<Option<([f64; 2], Anchor)>> {
    // The occupied boxes, by their left, top, right and bottom.
    let mut taken: Vec<[f64; 4]> =
        points.iter().map(|[x, y]| box_around([*x, *y], [2.0 * DISC_RADIUS_PX, 2.0 * DISC_RADIUS_PX])).collect();
    let place = |(&[x, y], name): (&[f64; 2], &String)| {
        let width = text_width(name, SMALL_TEXT_SIZE_PX);
        let (side, above) = (DISC_RADIUS_PX + 2.0 + width / 2.0, DISC_RADIUS_PX + 2.0 + SMALL_TEXT_SIZE_PX / 2.0);
        let middles = [[x + side, y], [x - side, y], [x, y - above], [x, y + above]];
        let found = middles.into_iter().find_map(|middle| {
            let own = box_around(middle, [width, SMALL_TEXT_SIZE_PX]);
            taken.iter().all(|other| !boxes_overlap(&own, other)).then_some((middle, own))
        });
        let (middle, own) = found?;
        taken.push(own);
        // The base line is below the middle of letters by about a third of their size.
        Some(([middle[0], middle[1] + SMALL_TEXT_SIZE_PX / 3.0], Anchor::Middle))
    };
    points.iter().zip(names).map(place).collect()
}

/// Box with the middle `[x, y]`, as its left, top, right and bottom end.
fn box_around([x, y]: [f64; 2], [width, height]: [f64; 2]) -> [f64; 4] {
    [x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0]
}

fn boxes_overlap(a: &[f64; 4], b: &[f64; 4]) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Draws a dendrogram of heads.
pub fn draw_tree(report: &Report, figure: &Figure, tree: &Tree, medium: Medium) -> String {
    const TREE_WIDTH_PX: f64 = 560.0;
    /// Height of a head's row, in pixels.
    const LEAF_ROW_PX: f64 = 15.0;
    /// Width of the left margin with the names of heads, in pixels.
    const TREE_LEFT_PX: f64 = 150.0;
    const TREE_TOP_PX: f64 = 8.0;
    let mut svg = Svg::new(medium);
    let heads = report.heads.len();
    let scale = Scale::new(
        tree.joins.iter().map(|join| join.height).chain([0.0]),
        [TREE_LEFT_PX, TREE_LEFT_PX + TREE_WIDTH_PX],
        5,
    );
    let order = dendrogram_order(tree, heads);
    let bottom = TREE_TOP_PX + heads as f64 * LEAF_ROW_PX;
    for (x, text) in scale.ticks(false) {
        svg.line([x, TREE_TOP_PX], [x, bottom], Ink::Guide, 1.0);
        svg.text([x, bottom + 15.0], Anchor::Middle, SMALL_TEXT_SIZE_PX, Ink::Muted, &text);
    }
    if let Some(cut) = tree.cut {
        svg.polyline(&[[scale.position(cut), TREE_TOP_PX], [scale.position(cut), bottom]], Ink::Second, 1.5, "6 3");
    }
    // The place of each head and each join.
    let mut at = vec![[0.0; 2]; heads];
    for (row, &place) in order.iter().enumerate() {
        let y = TREE_TOP_PX + (row as f64 + 0.5) * LEAF_ROW_PX;
        at[place] = [scale.position(0.0), y];
        let (head, cell) = (&report.heads[place], HeadCell::new(report, &report.heads[place]));
        svg.group(&cell.tooltip, |svg| {
            svg.rect(
                [TREE_LEFT_PX - 84.0, y - LEAF_ROW_PX / 2.0 + 1.0],
                [80.0, LEAF_ROW_PX - 2.0],
                Ink::Label(cell.hue),
            );
            svg.text(
                [TREE_LEFT_PX - 90.0, y + 4.0],
                Anchor::End,
                SMALL_TEXT_SIZE_PX,
                Ink::Text,
                &head.place.to_string(),
            );
            let code = truncate_text(&cell.code, 12);
            svg.text([TREE_LEFT_PX - 80.0, y + 4.0], Anchor::Start, SMALL_TEXT_SIZE_PX, Ink::Text, &code);
        });
    }
    for TreeJoin { members: [a, b], height } in &tree.joins {
        let ([x1, y1], [x2, y2], x) = (at[*a], at[*b], scale.position(*height));
        svg.polyline(&[[x1, y1], [x, y1], [x, y2], [x2, y2]], Ink::Accent, 1.5, "");
        at.push([x, f64::midpoint(y1, y2)]);
    }
    svg.text(
        [TREE_LEFT_PX + TREE_WIDTH_PX / 2.0, bottom + 32.0],
        Anchor::Middle,
        SMALL_TEXT_SIZE_PX,
        Ink::Muted,
        &tree.height_label,
    );
    svg.into_document([TREE_LEFT_PX + TREE_WIDTH_PX + 20.0, bottom + 42.0], &figure.title, &figure.reading)
}

/// Order of the heads in which no lines of the dendrogram cross: the heads of a join are side by side.
fn dendrogram_order(tree: &Tree, heads: usize) -> Vec<usize> {
    let mut groups: Vec<Vec<usize>> = (0..heads).map(|head| vec![head]).collect();
    for TreeJoin { members: [a, b], .. } in &tree.joins {
        let (mut first, mut second) = (std::mem::take(&mut groups[*a]), std::mem::take(&mut groups[*b]));
        first.append(&mut second);
        groups.push(first);
    }
    groups.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_where_there_is_room() {
        // Two points side by side: the name of the first goes to the left; in the middle of a crowd there is no room.
        let found = name_positions(&[[0.0, 0.0], [14.0, 0.0]], &["L0H0", "L0H1"].map(str::to_owned));
        let at = |place: usize| found[place].unwrap().0[0];
        assert!(at(0) < -6.0 && at(1) > 20.0, "{found:?}");
        let crowd: Vec<[f64; 2]> = (0..9_u8).map(|at| [f64::from(at % 3) * 12.0, f64::from(at / 3) * 12.0]).collect();
        assert!(name_positions(&crowd, &["L0H0"; 9].map(str::to_owned))[4].is_none());
    }

    #[test]
    fn heads_of_a_join_stand_side_by_side() {
        let join = |a, b, height| TreeJoin { members: [a, b], height };
        let joins = vec![join(0, 2, 0.1), join(1, 3, 0.2), join(5, 4, 0.5)];
        let tree = Tree { height_label: String::new(), cut: None, joins };
        assert_eq!(dendrogram_order(&tree, 4), [1, 3, 0, 2]);
        let none = Tree { height_label: String::new(), cut: None, joins: Vec::new() };
        assert_eq!(dendrogram_order(&none, 3), [0, 1, 2], "what is not joined keeps its place");
    }
}
