//! The section `parser` of the report: accuracies of parsers on all attention heads together, beside simpler parsers.

use std::fmt::Write;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accuracies::{Difference, ParserAccuracy, Share};
use super::links::section::{LinkParser, export_table, write_summary};
use super::optimum::FitRecord;
use crate::corpus::relation::{POOLED_RELATION, PUNCTUATION_RELATION};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::studies::patterns::dependency::relation::signed_points;
use crate::study::Policy;
use crate::study::labels::evidence::{ByDirection, Direction, MIN_QUERIES};
use crate::study::section::{HeadCard, Section, View, ViewContext, stored};
use crate::study::show::wording::{aligned_table, decimal, percent};
use crate::study::show::{Chart, Figure, Forest, ForestRow, Mark, Summary, TableRows};
use crate::system::counts::format_count;

/// Names of the parsers in report order. The first five are fitted; the last four are a single head and simple rules.
pub const PARSERS: [&str; 9] = [
    "attention",
    "distances and embeddings",
    "distances",
    "attention and distances",
    "attention of an untrained model",
    "best head",
    "best offset",
    "right-branching",
    "tags",
];

/// How much of gold dependency trees can be read out of the attention of all heads together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParserReport {
    /// Number of sampled sentences with a scored word, one per group of related sentences.
    pub sentences: u64,
    /// Number of scored words: their syntactic head is another word, and they are no punctuation.
    pub words: u64,
    /// Number of root words of sentences with several words.
    pub roots: u64,
    /// Reason why no parser was fitted. Null if parsers were fitted.
    pub none: Option<String>,
    /// Memory in bytes of the attention between the sampled words, in the trained and the untrained model together.
    pub kept_bytes: u64,
    /// Factor of the ridge penalty on the square of every parameter.
    pub penalty: f64,
    /// Norm of the gradient at which a fit ends.
    pub tolerance: f64,
    /// Accuracies of the parsers, fitted or chosen on one half of the blocks and scored on the other, both ways.
    pub accuracies: Vec<ParserAccuracy>,
    /// Share of root words whose likeliest syntactic head, by the attention parser, is the artificial root node.
    pub root_accuracy: Share,
    /// Share of sentences with several words where the attention parser predicts a tree; each head is predicted separately.
    #[serde(default)]
    pub tree_share: Share,
    /// Ridge penalty of `distances and embeddings`, selected in each half of the blocks. Empty if it was not fitted.
    #[serde(default)]
    pub ridges: Vec<f64>,
    /// Accuracy of the attention parser by relation, the most frequent first.
    pub relations: Vec<RelationAccuracy>,
    /// Accuracy that the attention parser loses without each layer.
    pub layers: Vec<LayerPart>,
    /// Regression weights of each attention head in the attention parser, layer by layer.
    pub heads: Vec<HeadWeights>,
    /// Steps, final loss and final gradient of each fit.
    pub fits: Vec<FitReport>,
    /// Results for each type of links in the corpus, by name. Absent without links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkParser>,
    /// Number of sequences with links that were left out for want of memory. Absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub links_left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Accuracy of parsers on the words of one relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationAccuracy {
    /// Universal Dependencies relation with all its subtypes, or one subtype; `all` pools all relations but `punct`.
    pub relation: String,
    /// Number of scored words of the relation.
    pub words: u64,
    /// Accuracy of the attention parser.
    #[serde(flatten)]
    pub share: Share,
    /// Accuracies of simpler parsers that are chosen for this very relation.
    pub beside: SimpleAccuracies,
}

/// Accuracies of an attention head, an offset and rules on word classes. Each is chosen for one relation on one half of the
/// blocks and scored on the other half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimpleAccuracies {
    /// Accuracy of the best attention head in its better direction. Null if a half of the blocks has no word of the relation.
    #[schemars(range(min = 0, max = 1))]
    pub best_head: Option<f64>,
    /// Accuracy of the best fixed offset. Null if a half of the blocks has no word of the relation.
    #[schemars(range(min = 0, max = 1))]
    pub offset: Option<f64>,
    /// Accuracy of choosing the nearest word of a word class. Null if `offset` is, or if no word of the relation has a class.
    #[schemars(range(min = 0, max = 1))]
    pub tags: Option<f64>,
}

/// Accuracy that the attention parser loses without one layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerPart {
    /// Index of the layer, counted from 0.
    pub layer: usize,
    /// Accuracy of a parser fitted to the attention of all other layers.
    #[schemars(range(min = 0, max = 1))]
    pub without: Option<f64>,
    /// Accuracy of the attention parser on all layers minus `without`.
    pub lost: Difference,
}

/// Regression weights of one attention head in the attention parser.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadWeights {
    /// Attention head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Log-odds that one standard deviation of attention adds to a word as syntactic head, averaged over both fits. `dep->head`
    /// is for attention from the dependent, `head->dep` for attention to the dependent.
    pub weight: ByDirection<f64>,
}

/// Steps, final loss and final gradient of one fit of a parser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitReport {
    /// Name of the parser: a name in `accuracies`, or `without L3` for the attention parser without layer 3.
    pub parser: String,
    /// Half of the blocks that the parser was fitted on: blocks of `even` or of `odd` number.
    pub fold: String,
    /// Number of words that the parser was fitted to: all with a known head, roots and punctuation included.
    pub words: u64,
    /// Mean of `-ln p` over the fitted words, in nats and without the penalty; `p` is the probability of the gold head.
    pub loss: f64,
    /// Number of steps of Newton's method; of L-BFGS if the parser has embeddings.
    pub steps: u64,
    /// Norm of the gradient at the end of the fit.
    pub gradient: f64,
}

impl FitReport {
    /// Creates the report's entries on a parser's fits, given the fit on each fold.
    pub fn for_folds(parser: &str, records: [FitRecord; 2]) -> [Self; 2] {
        [("even", records[0]), ("odd", records[1])].map(
            |(fold, FitRecord { count: words, loss, steps, gradient_norm: gradient })| Self {
                parser: parser.to_owned(),
                fold: fold.to_owned(),
                words,
                loss,
                steps,
                gradient,
            },
        )
    }
}

impl ParserReport {
    /// Summary table of all parsers.
    fn parsers_table(&self) -> comfy_table::Table {
        let row = |ParserAccuracy { parser, share, ahead }: &ParserAccuracy| {
            let ahead = ahead.difference.map(|difference| signed_points(difference, ahead.ci95));
            [parser.clone(), share.in_percent(), ahead.unwrap_or_default()]
        };
        aligned_table(["parser", "right, in %", "attention ahead by"], self.accuracies.iter().map(row), 1..)
    }

    /// Returns the six relations on which the attention parser is most accurate, among those with at least `least` words.
    /// Subtypes, `all` and `punct` are left out.
    fn most_accurate_relations(&self, least: u64) -> Vec<&RelationAccuracy> {
        let is_listed = |one: &&RelationAccuracy| {
            let is_base = !one.relation.contains(':')
                && ![POOLED_RELATION, PUNCTUATION_RELATION].contains(&one.relation.as_str());
            is_base && one.words >= least
        };
        let strongest = self
            .relations
            .iter()
            .filter(is_listed)
            .sorted_by(|a, b| b.share.accuracy.partial_cmp(&a.share.accuracy).expect("shares are numbers"));
        strongest.take(6).collect()
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> std::fmt::Result {
        let (words, sentences) = (format_count(self.words, "word"), format_count(self.sentences, "sentence"));
        writeln!(
            out,
            "Syntactic heads from all attention heads: a linear model of the attention between two words, in all heads, says which \
             word is the syntactic head; fitted on one half of {sentences} and scored on the other ({words}):\n"
        )?;
        out.add_table(self.parsers_table());
        out.add_blank_line();
        writeln!(out, "Roots found by attention: {} per cent of {}.", self.root_accuracy.in_percent(), self.roots)?;
        let trees = self.tree_share.in_percent();
        writeln!(out, "Sentences whose heads by attention form a tree: {trees} per cent.")?;
        let strongest = self.most_accurate_relations(policy.count(&MIN_QUERIES));
        if !strongest.is_empty() {
            writeln!(
                out,
                "Relations that attention finds best, beside the head, the offset and the word classes that are best for each:\n"
            )?;
            out.add_table(relations_table(&strongest));
            out.add_blank_line();
        }
        let part = |&LayerPart { layer, lost, .. }: &LayerPart| {
            Some(format!("L{layer} {}", signed_points(lost.difference?, lost.ci95)))
        };
        let parts = self.layers.iter().filter_map(part).join(", ");
        if !parts.is_empty() {
            writeln!(out, "Points lost without a layer (refitted): {parts}.")?;
        }
        match self.fits.iter().filter(|fit| fit.gradient > self.tolerance).count() {
            0 => Ok(()),
            count => writeln!(
                out,
                "{count} of {} did not come to a gradient of {:e}: see parser.fits.",
                format_count(self.fits.len(), "fit"),
                self.tolerance
            ),
        }
    }
}

/// Table with a row for each relation: the attention parser beside simpler parsers.
fn relations_table(relations: &[&RelationAccuracy]) -> comfy_table::Table {
    let row = |RelationAccuracy { relation, words, share, beside }: &&RelationAccuracy| {
        let [best_head, offset, tags] = [beside.best_head, beside.offset, beside.tags].map(percent);
        [relation.clone(), words.to_string(), share.in_percent(), best_head, offset, tags]
    };
    let header = ["relation", "words", "attention", "best head", "offset", "tags"];
    aligned_table(header, relations.iter().map(row), 1..)
}

stored!(ParserReport as parser);

impl Section for ParserReport {
    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        let ParserReport { accuracies, relations, layers, .. } = self;
        let summary = Summary::from_writer(|out| {
            match &self.none {
                // A corpus of links need not have trees.
                Some(_) if !self.links.is_empty() && self.sentences == 0 => {}
                Some(why) => writeln!(out, "Syntactic heads from all attention heads: none, for {why}.")?,
                None => self.write_summary(out, policy)?,
            }
            write_summary(&self.links, self.links_left_out, out)
        });
        let tables = vec![
            TableRows::new("parsers", accuracies),
            TableRows::new("parser_relations", relations),
            TableRows::new("parser_layers", layers),
            export_table(&self.links),
        ];
        View { summary, figures: figures(self), tables, ..View::default() }
    }

    fn head_card(&self, place: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let line = |head: &HeadWeights| {
            let weight = |direction| format!("{} {}", decimal(*head.weight.get(direction), 2), direction.name());
            let weights = Direction::BOTH.map(weight).join(", ");
            format!("weights in the parser of all heads, for a standard deviation of attention: {weights}")
        };
        let of_trees = self.heads.iter().filter(|head| head.place == place).map(line);
        of_trees.chain(self.links.iter().filter_map(|links| links.head_line(place))).collect()
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let ParserReport { none, heads, layers, accuracies, links, .. } = self;
        let in_links = links.iter().find_map(|links| links.defect(grid));
        if in_links.is_some() || none.is_some() {
            return in_links;
        }
        if !grid.equals_all_heads(heads.iter().map(|head| head.place)) {
            return Some("`parser` does not have each head of the model once".to_owned());
        }
        if !layers.is_empty() && !layers.iter().map(|part| part.layer).eq(0..grid.layers) {
            return Some("`parser` does not have each layer of the model once".to_owned());
        }
        let has_parsers = accuracies.iter().map(|one| one.parser.as_str()).eq(PARSERS);
        (!has_parsers).then(|| "`parser` does not have each parser once".to_owned())
    }
}

fn figures(parser: &ParserReport) -> Vec<Figure> {
    let ParserReport { sentences, words, accuracies, layers, .. } = parser;
    let Some(attention) = accuracies.first().filter(|_| !layers.is_empty()) else { return Vec::new() };
    let row = |part: &LayerPart| ForestRow {
        name: format!("L{}", part.layer),
        note: format!("{} without", percent(part.without)),
        marks: vec![Mark::from_value(part.lost.difference, part.lost.ci95)],
    };
    let rows = layers.iter().map(row).collect();
    let forest = Forest::with_zero_line("words less that are right without the layer", ["lost"], rows);
    let chart = Chart::Forest(Forest { is_in_percent: true, ..forest });
    vec![Figure {
        name: "parser",
        title: "What each layer carries of the heads of words".to_owned(),
        reading: format!(
            "A linear reading of the attention of all heads finds the head of {} per cent of {} ({}). Fitted again without a \
             layer it finds as much less as its row says, with 95 % intervals: what the other layers do not have as well.",
            percent(attention.share.accuracy),
            format_count(*words, "word"),
            format_count(*sentences, "sentence")
        ),
        chart,
    }]
}
