//! A dendrogram: heads down, joined to the right at the height at which they become one.

use super::scale::Scale;
use crate::export::heads::HeadCell;
use crate::export::palette::Ink;
use crate::export::svg::{Anchor, Medium, SMALL, Svg, clipped};
use crate::report::Report;
use crate::study::show::figure::{Figure, Tree, TreeJoin};

const WIDTH: f64 = 560.0;
const ROW: f64 = 15.0;
const LEFT: f64 = 150.0;
const TOP: f64 = 8.0;

pub fn draw(report: &Report, figure: &Figure, tree: &Tree, medium: Medium) -> String {
    let mut svg = Svg::new(medium);
    let heads = report.heads.len();
    let scale = Scale::new(tree.joins.iter().map(|join| join.height).chain([0.0]), [LEFT, LEFT + WIDTH], 5);
    let order = order(tree, heads);
    let bottom = TOP + heads as f64 * ROW;
    for (x, text) in scale.ticks(|number, digits| format!("{number:.digits$}")) {
        svg.line([x, TOP], [x, bottom], Ink::Guide, 1.0);
        svg.text([x, bottom + 15.0], Anchor::Middle, SMALL, Ink::Muted, &text);
    }
    if let Some(cut) = tree.cut {
        svg.polyline(&[[scale.at(cut), TOP], [scale.at(cut), bottom]], Ink::Second, 1.5, "6 3");
    }
    // The place of each head and each join.
    let mut at = vec![[0.0; 2]; heads];
    for (row, &place) in order.iter().enumerate() {
        let y = TOP + (row as f64 + 0.5) * ROW;
        at[place] = [scale.at(0.0), y];
        let (head, cell) = (&report.heads[place], HeadCell::of(report, &report.heads[place]));
        svg.group(&cell.words, |svg| {
            svg.rect([LEFT - 84.0, y - ROW / 2.0 + 1.0], [80.0, ROW - 2.0], Ink::Label(cell.hue));
            svg.text([LEFT - 90.0, y + 4.0], Anchor::End, SMALL, Ink::Text, &head.place.to_string());
            let code = clipped(&cell.code, 12);
            svg.text([LEFT - 80.0, y + 4.0], Anchor::Start, SMALL, Ink::Text, &code);
        });
    }
    for TreeJoin { of: [a, b], height } in &tree.joins {
        let ([x1, y1], [x2, y2], x) = (at[*a], at[*b], scale.at(*height));
        svg.polyline(&[[x1, y1], [x, y1], [x, y2], [x2, y2]], Ink::Accent, 1.5, "");
        at.push([x, f64::midpoint(y1, y2)]);
    }
    svg.text([LEFT + WIDTH / 2.0, bottom + 32.0], Anchor::Middle, SMALL, Ink::Muted, &tree.height);
    svg.finish([LEFT + WIDTH + 20.0, bottom + 42.0], &figure.title, &figure.reading)
}

/// The heads in an order in which no lines cross: the heads of a join are side by side.
fn order(tree: &Tree, heads: usize) -> Vec<usize> {
    let mut groups: Vec<Vec<usize>> = (0..heads).map(|head| vec![head]).collect();
    for TreeJoin { of: [a, b], .. } in &tree.joins {
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
    fn heads_of_a_join_stand_side_by_side() {
        let join = |a, b, height| TreeJoin { of: [a, b], height };
        let joins = vec![join(0, 2, 0.1), join(1, 3, 0.2), join(5, 4, 0.5)];
        let tree = Tree { height: String::new(), cut: None, joins };
        assert_eq!(order(&tree, 4), [1, 3, 0, 2]);
        let none = Tree { height: String::new(), cut: None, joins: Vec::new() };
        assert_eq!(order(&none, 3), [0, 1, 2], "what is not joined keeps its place");
    }
}
