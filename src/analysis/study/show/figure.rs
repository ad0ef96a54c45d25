//! Figures of studies as data, without a layout: the writers in `export/` draw them.

use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;
use crate::system::counts::{format_count, plural};

#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The figure's name on the command line and in files.
    pub name: &'static str,
    pub title: String,
    /// How to read the figure: its unit, the amount of data, and what to compare with.
    pub reading: String,
    pub chart: Chart,
}

/// The content of a figure, by kind of chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    Forest(Forest),
    Curves(Curves),
    Edges(Edges),
    Points(Points),
    Tree(Tree),
    Arcs(Arcs),
    Stacks(Stacks),
    Bars(Bars),
}

/// A bar chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The quantity of the horizontal scale.
    pub x_label: String,
    /// Name of the reference level drawn beside each bar; empty if there is none.
    pub level_name: String,
    /// Whether the numbers are shares and are drawn in per cent.
    pub is_in_percent: bool,
    pub bars: Vec<Bar>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Name of the bar, printed under the bar.
    pub name: String,
    /// The bar's height, with its interval; `None` if there was nothing to measure.
    pub mark: Option<Mark>,
    /// Level that the bar is compared with, such as chance, drawn beside it; `None` if there is none.
    pub reference_level: Option<f64>,
}

/// A chart with a stacked bar for each head, layer by layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacks {
    /// Name of the quantity on the vertical scale, a share.
    pub scale: String,
    /// Names of the parts of each bar, from the bottom.
    pub parts: Vec<String>,
    pub stacks: Vec<Stack>,
}

/// The stacked bar of one head. Its shares add up to 1, or there are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    pub place: HeadPlace,
    /// Shares of the parts of the bar, from the bottom.
    pub parts: Vec<f64>,
}

/// A forest plot: rows of numbers with their intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    /// Quantity of the horizontal scale, with its unit.
    pub scale: String,
    pub is_in_percent: bool,
    /// Value that means no effect, drawn as a line; `None` if there is no such value.
    pub no_effect: Option<f64>,
    /// Meaning of each mark of a row, in order, for the legend. Each mark has a different shape.
    pub marks: Vec<String>,
    pub rows: Vec<ForestRow>,
}

/// Maximum number of heads in a forest plot of heads.
const MAX_FOREST_HEADS: usize = 24;

impl Forest {
    /// Forest plot of numbers for which 0 means no effect.
    pub fn with_zero_line(
        scale: &str,
        marks: impl IntoIterator<Item = impl Into<String>>,
        rows: Vec<ForestRow>,
    ) -> Self {
        let marks = marks.into_iter().map(Into::into).collect();
        Self { scale: scale.to_owned(), is_in_percent: false, no_effect: Some(0.0), marks, rows }
    }

    /// Forest plot of shares, in per cent.
    pub fn in_percent<const N: usize>(scale: &str, marks: [&str; N], rows: Vec<ForestRow>) -> Self {
        Self { is_in_percent: true, no_effect: None, ..Self::with_zero_line(scale, marks, rows) }
    }

    /// Forest plot of the first `MAX_FOREST_HEADS` of these heads, the largest first, on a scale around 0. The returned text
    /// says how many heads with smaller `what` (a plural noun such as `effects`) are left out. It is empty if no head is left
    /// out.
    pub fn heads_with_zero_line(scale: &str, marks: &[&str], mut heads: Vec<ForestRow>, what: &str) -> (Self, String) {
        let left_out = match heads.len().saturating_sub(MAX_FOREST_HEADS) {
            0 => String::new(),
            rest => {
                format!(" {} with smaller {what} {} left out.", format_count(rest, "head"), plural(&rest, "is", "are"))
            }
        };
        heads.truncate(MAX_FOREST_HEADS);
        (Self::with_zero_line(scale, marks.iter().copied(), heads), left_out)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    pub name: String,
    /// Further facts about the row, such as the head or the count.
    pub note: String,
    /// Numbers of the row, in the order of [`Forest::marks`]; `None` where there is no number.
    pub marks: Vec<Option<Mark>>,
}

/// A number to draw, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    pub value: f64,
    /// 95 % interval of `value`.
    pub ci95: Option<Interval>,
}

impl Mark {
    /// A mark for `value`; `None` without a value.
    pub fn from_value(value: Option<f64>, ci95: Option<Interval>) -> Option<Self> {
        value.map(|value| Self { value, ci95 })
    }
}

/// A chart of curves over the number of removed heads.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// Quantity of the horizontal scale.
    pub x_label: String,
    /// The quantity of the vertical scale, with its unit.
    pub y_label: String,
    pub curves: Vec<Curve>,
}

/// A curve, with one point for each number of removed heads, from 0 on.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub name: String,
    /// Whether the curve is drawn only for comparison with the other curves.
    pub is_reference: bool,
    pub points: Vec<Mark>,
}

/// A drawing of edges between heads of different layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Edges {
    /// Quantity that the width of an edge shows.
    pub width_label: String,
    /// Legend of the kinds of edges; empty where kinds are not known.
    pub kinds: Vec<EdgeKind>,
    pub edges: Vec<Edge>,
}

/// Entry of the legend for edges that are drawn with one kind of line.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeKind {
    pub line: EdgeStyle,
    pub name: &'static str,
    pub meaning: String,
}

/// How the line of an edge is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeStyle {
    Solid,
    Dashed,
}

/// An edge from one attention head to a head of a later layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub source: HeadPlace,
    pub target: HeadPlace,
    pub mark: Mark,
    /// Whether the edge is among the strongest edges of all.
    pub is_strongest: bool,
    pub line: EdgeStyle,
}

/// A map of the heads as points of the plane. The distances of the points approximate how different the heads are.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Quantity that the distances between points show.
    pub distance_label: String,
    /// The point of each head, layer by layer.
    pub points: Vec<[f64; 2]>,
    /// Groups of heads, as the heads' indices. A group is drawn with lines from its centre.
    pub groups: Vec<Vec<usize>>,
}

/// A dendrogram, in which heads are joined one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Quantity that the height of a join shows.
    pub height_label: String,
    /// Height at which the tree is cut into groups of heads; `None` if the tree is not cut.
    pub cut: Option<f64>,
    /// Joins by rising height, one fewer than there are heads. A join has two members, each a head or an earlier
    /// join.
    pub joins: Vec<TreeJoin>,
}

/// A join of two members, each a head or an earlier join.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeJoin {
    /// The two joined members. A head is given by its index, an earlier join by the number of heads plus its index
    /// in the list of joins.
    pub members: [usize; 2],
    pub height: f64,
}

/// A drawing of sentences with arcs between their words.
#[derive(Clone, Debug, PartialEq)]
pub struct Arcs {
    pub sentences: Vec<ArcSentence>,
}

/// A sentence as a row of words, with arcs between words that attend to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct ArcSentence {
    pub caption: String,
    /// Words and special tokens of the sentence.
    pub units: Vec<String>,
    pub arcs: Vec<Arc>,
    /// Arcs of the gold tree as `[from, to]`, drawn for comparison. Attention should start at `from`.
    pub gold: Vec<[usize; 2]>,
}

/// An arc from one unit of a sentence to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arc {
    /// Index of the unit that attends.
    pub from: usize,
    /// Index of the unit that is attended to.
    pub to: usize,
    pub weight: f64,
    pub outcome: ArcMatch,
}

/// Whether an arc is the arc that the drawn label expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArcMatch {
    Right,
    /// The label expects another arc from this unit.
    Wrong,
    /// The label expects no particular arc from this unit.
    Neutral,
}
