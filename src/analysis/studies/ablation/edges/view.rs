//! View of the report section `edges`: summary, figure, head cards and table.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use itertools::Itertools;

use super::section::{EdgesReport, HeadEdges, LayerPair, find_chains};
use super::sums::{Edge, EdgeIndex, MIN_DIRECT_SHIFT_RATIO, MIN_TESTED_SHIFT};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::sequences::reading::Context;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::section::{HeadCard, LateFact, RelatedHead, Section, SectionFacts, View, ViewContext};
use crate::study::show::figure::{Chart, Edge as Line, EdgeKind, EdgeStyle, Edges as EdgeChart, Figure, Mark};
use crate::study::show::wording::{
    aligned_table, counted_sequences, plus_minus, sequence_noun, signed_decimal, significance_text,
};
use crate::study::{Summary, TableRows};
use crate::system::counts::{format_count, plural};

const MAX_SHOWN_EDGES: usize = 10;

/// Indices of the table columns that are dropped when the table is too wide: first shift, then direct share, excess
/// and q.
const COLUMN_DROP_ORDER: &[usize] = &[2, 3, 4, 5];

impl Section for EdgesReport {
    fn add_late_fact(&mut self, completion: &LateFact<'_>) {
        let LateFact::Policy(policy) = completion else { return };
        let enough = self.tokens >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        let significant = |q: Option<f64>| q.is_some_and(|q| policy.rule(&LABEL_Q).is_none_or(|most| q <= most));
        // Only edges of a sufficient shift, with an excess above the percentile, have a q-value.
        let above = |q: Option<f64>| enough && significant(q);
        let cells = self.layers.iter().flat_map(|pair| pair.q.iter().flatten());
        self.above = cells.filter(|q| above(**q)).count() as u64;
        self.untrained.above = self.untrained.q.iter().filter(|q| above(Some(**q))).count() as u64;
        let of_heads = self.heads.iter_mut().flat_map(|head| [&mut head.upstream, &mut head.downstream]).flatten();
        for edge in self.strongest.iter_mut().chain(of_heads) {
            edge.above = above(edge.q);
        }
        self.chains = find_chains(&self.heads);
    }

    fn view(&self, ViewContext { run, .. }: ViewContext<'_>) -> View<'_> {
        View {
            summary: Summary::from_writer(|out| self.write_summary(out, run)),
            figures: figures(self, run.read),
            tables: vec![TableRows::new("edges", self.layers.iter().flat_map(LayerPair::edge_rows))],
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, ViewContext { run, .. }: ViewContext<'_>) -> HeadCard {
        let Some(HeadEdges { upstream, downstream, .. }) = self.heads.iter().find(|edges| edges.place == place) else {
            return HeadCard::default();
        };
        let label = |head: &HeadPlace| run.labels.get(head).map_or("-", String::as_str);
        let strength = |edge: &Edge| {
            let sure = if edge.above { "above chance" } else { "not above chance" };
            format!("excess {:+.2}{}, {sure}", edge.excess, plus_minus(edge.excess_ci95, 2))
        };
        let line = |ends: &str, other: &HeadPlace, edge: &Edge| {
            let Edge { shift, ratio, q, .. } = edge;
            let direct = ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2} of it directly)"));
            let by = match (q, self.untrained.percentile) {
                (Some(q), _) => format!(" (q {})", significance_text(*q)),
                (None, Some(_)) if *shift < MIN_TESTED_SHIFT => format!(" (a shift below {MIN_TESTED_SHIFT})"),
                (None, Some(percentile)) => format!(" (chance: {percentile:+.2})"),
                (None, None) => String::new(),
            };
            format!("{ends} {other} ({}): shift {shift:.5}{direct}, {}{by}", label(other), strength(edge))
        };
        let up = upstream.as_ref().map(|edge| line("shifted most beyond expectation by", &edge.source, edge));
        let down = downstream.as_ref().map(|edge| line("shifts most beyond expectation", &edge.target, edge));
        let shown = downstream.as_ref().filter(|edge| edge.above);
        let clause = shown.map(|edge| {
            format!(
                "shifts the attention of {} by {:.4} (excess {:+.2} over what the averages of both heads predict)",
                edge.target, edge.shift, edge.excess
            )
        });
        let neighbour = |how, place, edge: &Edge| RelatedHead { relation: how, place, strength: strength(edge) };
        let source = upstream.as_ref().map(|edge| neighbour("shifted most by", edge.source, edge));
        let target = downstream.as_ref().map(|edge| neighbour("shifts most", edge.target, edge));
        let neighbours = source.into_iter().chain(target).collect();
        HeadCard { neighbours, ..up.into_iter().chain(down).collect() }.with_clauses(clause)
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let EdgesReport { layers, heads, .. } = self;
        let pairs = layers.iter().map(|pair| (pair.source, pair.target));
        let whole = layers.is_empty() || pairs.eq(EdgeIndex(grid).layer_pairs());
        if !whole || !layers.iter().all(|pair| pair.has_all_heads(grid.heads)) {
            return Some("`edges.layers` does not have each pair of layers once, with all their heads".to_owned());
        }
        grid.missing_head_defect("edges.heads", heads.iter().map(|edges| edges.place))
    }
}

impl EdgesReport {
    fn write_summary(&self, out: &mut Summary, run: &SectionFacts) -> fmt::Result {
        let Self { removal, tokens, pairs, without_shift, above, strongest, .. } = self;
        if *pairs == 0 {
            return writeln!(out, "The model has one layer: no head comes after another, so none depends on one.");
        }
        let Some(removal) = removal.filter(|_| *tokens > 0) else {
            return writeln!(out, "No {} had a token of text, so no head was removed.", sequence_noun(run.read));
        };
        let (by, tokens, read) =
            (removal.name(), format_count(*tokens, "token"), counted_sequences(self.sentences, run.read));
        let (of, meaning) = (plural(pairs, "pair", "pairs"), self.untrained.chance_text());
        writeln!(
            out,
            "Heads removed one at a time (by {by}): shift of the attention of each later head (squared Hellinger distance, over {tokens} \
             of {read}), through all that lies between. Above chance: {above} of {pairs} {of} of heads; without any shift: \
             {without_shift}. {meaning} Strongest edges, by the lower end of the interval of the excess, ± half of the 95 % interval:\n"
        )?;
        out.table_with_optional_columns(table(strongest.iter().take(MAX_SHOWN_EDGES), &run.labels), COLUMN_DROP_ORDER);
        if strongest.iter().any(|edge| edge.ratio.is_some()) {
            writeln!(
                out,
                "\nDirect: the share of the shift that remains when all other heads and feed-forward blocks are held as they were. \
                 Above 1, the parts between oppose the shift."
            )?;
        }
        let long: Vec<&Vec<HeadPlace>> = self.chains.iter().filter(|chain| chain.len() > 2).collect();
        if long.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nChains of edges, each the strongest of both its ends:\n")?;
        for chain in long.iter().take(MAX_SHOWN_EDGES) {
            writeln!(out, "  {}", chain.iter().join(" -> "))?;
        }
        match long.len().saturating_sub(MAX_SHOWN_EDGES) {
            0 => Ok(()),
            more => writeln!(out, "  and {more} more in the report"),
        }
    }
}

fn table<'a>(edges: impl Iterator<Item = &'a Edge>, labels: &BTreeMap<HeadPlace, String>) -> comfy_table::Table {
    let row = |edge: &Edge| {
        let Edge { source, target, shift, shift_ci95, ratio, ratio_ci95, excess, excess_ci95, q, .. } = edge;
        [
            format!("{source} -> {target}"),
            [source, target].map(|head| labels.get(head).map_or("-", String::as_str)).join(" -> "),
            format!("{shift:.5}{}", plus_minus(*shift_ci95, 5)),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}{}", plus_minus(*ratio_ci95, 2))),
            signed_decimal(*excess, 2) + &plus_minus(*excess_ci95, 2),
            q.map_or_else(|| "-".to_owned(), significance_text),
        ]
    };
    aligned_table(["edge", "labels", "shift", "direct", "excess", "q"], edges.map(row), 2..)
}

fn figures(report: &EdgesReport, read: Context) -> Vec<Figure> {
    let EdgesReport { tokens, sentences, pairs, above: count, strongest, heads, .. } = report;
    let is_strongest = |edge: &Edge| strongest.iter().any(|one| (one.source, one.target) == (edge.source, edge.target));
    let of_heads = heads.iter().filter_map(|head| head.upstream);
    let above = of_heads.chain(strongest.iter().copied()).filter(|edge| edge.above);
    let shown: BTreeMap<_, Edge> = above.map(|edge| ((edge.source, edge.target), edge)).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    // Ties stay in the order of source and target.
    let shown =
        shown.into_values().sorted_by(|a, b| b.excess_lower_bound().total_cmp(&a.excess_lower_bound())).collect_vec();
    let line = |edge: Edge| Line {
        source: edge.source,
        target: edge.target,
        mark: Mark { value: edge.excess, ci95: edge.excess_ci95 },
        is_strongest: is_strongest(&edge),
        line: if edge.is_direct() == Some(false) { EdgeStyle::Dashed } else { EdgeStyle::Solid },
    };
    let is_known = shown.iter().any(|edge| edge.is_direct().is_some());
    let kind = |line, name, meaning| EdgeKind { line, name, meaning };
    let kinds = [
        kind(
            EdgeStyle::Solid,
            "direct",
            format!("the residual stream alone shifts at least {MIN_DIRECT_SHIFT_RATIO} as much"),
        ),
        kind(
            EdgeStyle::Dashed,
            "mediated",
            "less than that: heads and feed-forward blocks between matter more".to_owned(),
        ),
    ];
    let (tokens, read, pairs) =
        (format_count(*tokens, "token"), counted_sequences(*sentences, read), format_count(*pairs, "edge"));
    let (are, drawn, are_drawn) = (plural(count, "is", "are"), shown.len(), plural(&shown.len(), "is", "are"));
    vec![Figure {
        name: "edges",
        title: "Which later heads look elsewhere without each head".to_owned(),
        reading: format!(
            "An edge goes from a head that is removed to a later one whose attention shifts by more than both heads' means \
             make expected (over {tokens} of {read}). Of {pairs} {count} {are} above chance; {drawn} of these {are_drawn} \
             drawn: the strongest, in colour, and of each head the strongest that goes to it."
        ),
        chart: Chart::Edges(EdgeChart {
            width_label: "width of an edge: its excess, in ln of the shift".to_owned(),
            kinds: if is_known { kinds.into() } else { Vec::new() },
            edges: shown.into_iter().map(line).collect(),
        }),
    }]
}
