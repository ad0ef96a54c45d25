//! Figures of studies as data: what is drawn, and not how. The writers of `export/` draw them.

use crate::model::grid::HeadPlace;
use crate::stats::interval::Interval;

/// A figure that a study has of what it found.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name: on the command line, and in files.
    pub name: &'static str,
    /// Its heading.
    pub title: String,
    /// How to read it: in which unit, over how much, and beside what.
    pub reading: String,
    /// The drawing.
    pub chart: Chart,
}

/// The contents of the drawing.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Rows of numbers with their intervals, on one scale.
    Forest(Forest),
    /// Numbers over how many heads are gone.
    Curves(Curves),
    /// Heads of layers, and edges between them.
    Edges(Edges),
    /// Heads as points of the plane.
    Points(Points),
    /// Heads joined one after the other.
    Tree(Tree),
    /// Sentences with arcs between their words.
    Arcs(Arcs),
    /// Bars of heads, each of parts.
    Stacks(Stacks),
    /// Bars side by side, each beside a level.
    Bars(Bars),
}

/// Bars side by side, from the left to the right.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The quantity of the horizontal scale.
    pub across: String,
    /// The name of the level that each bar stands beside; empty where there is none.
    pub level: String,
    /// Whether the numbers are shares, shown in per cent.
    pub shares: bool,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its place on the horizontal scale.
    pub name: String,
    /// Its height; none where there was nothing to measure.
    pub mark: Option<Mark>,
    /// The level beside it.
    pub level: Option<f64>,
}

/// A bar for each head, stacked of parts, layer by layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacks {
    /// The quantity of a bar's height, a share.
    pub scale: String,
    /// The meanings of the parts, from the bottom.
    pub parts: Vec<String>,
    /// The bars, layer by layer.
    pub stacks: Vec<Stack>,
}

/// A bar: shares that add up to 1, or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    pub place: HeadPlace,
    /// The shares, from the bottom.
    pub parts: Vec<f64>,
}

/// Rows of numbers with their intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    /// The quantity of the scale, with its unit.
    pub scale: String,
    /// Whether the numbers are shares, shown in per cent.
    pub shares: bool,
    /// The number that says that there is nothing, if one does: a line.
    pub nothing: Option<f64>,
    /// The meanings of the marks of a row, in their order; each has a shape of its own.
    pub marks: Vec<String>,
    pub rows: Vec<ForestRow>,
}

/// A row of a forest.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    /// Its subject.
    pub name: String,
    /// Further facts: the head, the count.
    pub note: String,
    /// A mark for each of the forest's, or none.
    pub marks: Vec<Option<Mark>>,
}

/// A number with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// The number.
    pub value: f64,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

impl Mark {
    /// A number that may be missing, with its interval.
    pub fn of(value: Option<f64>, ci95: Option<Interval>) -> Option<Self> {
        value.map(|value| Self { value, ci95 })
    }
}

/// Numbers over how many heads are gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// The quantity of the horizontal scale.
    pub across: String,
    /// The quantity of the vertical scale, with its unit.
    pub upward: String,
    /// The lines.
    pub curves: Vec<Curve>,
}

/// A line: a point for 0, 1, 2 and so on.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its subject.
    pub name: String,
    /// Whether it is there for the others to be held against.
    pub beside: bool,
    pub points: Vec<Mark>,
}

/// Edges between heads of layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Edges {
    /// The quantity of an edge's width.
    pub width: String,
    /// The kinds that edges have, where that is known.
    pub kinds: Vec<EdgeKind>,
    pub edges: Vec<Edge>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EdgeKind {
    /// The line that it is drawn with.
    pub line: EdgeLine,
    /// One word for it.
    pub name: &'static str,
    /// The meaning of the word.
    pub meaning: String,
}

/// A kind of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeLine {
    /// Without gaps.
    Solid,
    /// With gaps.
    Dashed,
}

/// An edge from one head to a later one.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The earlier head.
    pub source: HeadPlace,
    /// The later head.
    pub target: HeadPlace,
    /// How strong it is.
    pub mark: Mark,
    /// Whether it is among the strongest of all.
    pub strongest: bool,
    /// The kind of its line.
    pub line: EdgeLine,
}

/// Heads as points of the plane: as far apart as they are different, as far as that goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// The quantity of their distance.
    pub distance: String,
    /// The point of each head, layer by layer.
    pub points: Vec<[f64; 2]>,
    /// Groups of heads, by their places; each is drawn with lines from its middle.
    pub groups: Vec<Vec<usize>>,
}

/// Heads joined one after the other: a dendrogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The quantity of a join's height.
    pub height: String,
    /// The height at which groups are cut off, if they are.
    pub cut: Option<f64>,
    /// The joins by rising height: of all heads, layer by layer, and the joins before, two that become one. One less than there
    /// are heads.
    pub joins: Vec<TreeJoin>,
}

/// Two heads or joins that become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeJoin {
    /// Heads by their place, joins by the number of heads more than their place among the joins.
    pub of: [usize; 2],
    pub height: f64,
}

/// Sentences with arcs between their words.
#[derive(Clone, Debug, PartialEq)]
pub struct Arcs {
    pub sentences: Vec<ArcSentence>,
}

/// A sentence with arcs between its words.
#[derive(Clone, Debug, PartialEq)]
pub struct ArcSentence {
    /// Further facts.
    pub about: String,
    /// Its words and special tokens.
    pub units: Vec<String>,
    pub arcs: Vec<Arc>,
    /// Arcs of the gold tree that are drawn beside them, each from where attention should start.
    pub gold: Vec<[usize; 2]>,
}

/// An arc of attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arc {
    /// The unit that attends.
    pub from: usize,
    /// The unit that it attends to.
    pub to: usize,
    /// Its attention.
    pub weight: f64,
    /// Whether it is the expected arc.
    pub stand: ArcMatch,
}

/// Whether an arc is the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArcMatch {
    /// It is the expected arc.
    Right,
    /// Another arc is expected.
    Wrong,
    /// Nothing is expected.
    Neutral,
}
