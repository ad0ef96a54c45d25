//! The section `parser` of the report: how much of the tree all heads together hold, beside simpler parsers.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accuracies::{Difference, ParserAccuracy, Share, aligned, signed};
use super::links::section::{LinkParser, flat_table, write_summary};
use super::optimum::FitCourse;
use crate::corpus::relation::{ALL, PUNCT};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::study::labels::evidence::{ByDirection, Direction, MIN_QUERIES};
use crate::study::labels::policy::Policy;
use crate::study::section::{HeadCard, Known, Section, View, stored};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::summary::Summary;
use crate::study::show::table::TableRows;
use crate::study::show::wording::{decimal, percent, plain_table, plus_minus_percent};
use crate::system::counted::counted;

/// The names of the parsers in their order: five that are fitted, and four that are not.
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

/// How much of the gold tree can be read out of the attention of all heads together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParserReport {
    /// Sentences with a scored word.
    pub sentences: u64,
    /// Scored words: those with another word for their head, without punctuation.
    pub words: u64,
    /// Roots of sentences of several words.
    pub roots: u64,
    /// Why there is no parser; null where there is one.
    pub none: Option<String>,
    /// Memory that the attention between the words of the sample took, of the model and of the untrained one, in bytes.
    pub kept_bytes: u64,
    /// The penalty on the square of every parameter.
    pub penalty: f64,
    /// The length of the gradient at which a fit ends.
    pub tolerance: f64,
    /// The parsers, fitted on one half of the blocks and scored on the other, both ways.
    pub accuracies: Vec<ParserAccuracy>,
    /// Roots for which the root is likelier than any word, by attention alone.
    pub root_accuracy: Share,
    /// Sentences of several words whose predicted heads form a tree, by attention alone: nothing asks for that.
    #[serde(default)]
    pub tree_share: Share,
    /// The penalties that the folds chose for distances and embeddings; empty where these were not fitted.
    #[serde(default)]
    pub ridges: Vec<f64>,
    /// By relation, the most frequent first.
    pub relations: Vec<RelationAccuracy>,
    /// The part of each layer.
    pub layers: Vec<LayerPart>,
    /// The weights of each head, layer by layer.
    pub heads: Vec<HeadWeights>,
    /// How the fits went.
    pub fits: Vec<FitReport>,
    /// The types of links of the corpus, by name; absent without links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkParser>,
    /// Sequences with links that were left out for want of memory; absent if none was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub links_left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The words of a relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationAccuracy {
    /// The relation.
    pub relation: String,
    /// Its scored words.
    pub words: u64,
    /// The accuracy of attention.
    #[serde(flatten)]
    pub share: Share,
    /// The accuracy of what is chosen for this very relation.
    pub beside: SimpleAccuracies,
}

/// The accuracies of a head, an offset and rules on word classes that are chosen for a relation on one half of the blocks, on
/// the other half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimpleAccuracies {
    /// The best head in the better direction; null where a half has no such word.
    #[schemars(range(min = 0, max = 1))]
    pub best_head: Option<f64>,
    /// The best offset.
    #[schemars(range(min = 0, max = 1))]
    pub offset: Option<f64>,
    /// The nearest words of word classes; null where no such word has one.
    #[schemars(range(min = 0, max = 1))]
    pub tags: Option<f64>,
}

/// The part of the tree that is lost without a layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerPart {
    /// The layer, counted from 0.
    pub layer: usize,
    /// The accuracy of the attention of all other layers, fitted again.
    #[schemars(range(min = 0, max = 1))]
    pub without: Option<f64>,
    /// The accuracy of all layers less that.
    pub lost: Difference,
}

/// The weights of a head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadWeights {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Log-odds of a word being the head that one standard deviation of the attention adds, from the dependent and to it; the
    /// mean of both fits.
    pub weight: ByDirection<f64>,
}

/// How a fit went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitReport {
    /// The parser: one of `accuracies`, or `without` a layer.
    pub parser: String,
    /// Whether it was fitted on the blocks of `even` or of `odd` number.
    pub fold: String,
    /// The words that it was fitted to: all with a head, roots and punctuation included.
    pub words: u64,
    /// The mean of `-ln p` of their heads, in nats.
    pub loss: f64,
    /// Steps of Newton's method, with embeddings of L-BFGS.
    pub steps: u64,
    /// The length of the gradient at the end.
    pub gradient: f64,
}

impl FitReport {
    pub fn of_folds(parser: &str, courses: [FitCourse; 2]) -> [Self; 2] {
        [("even", courses[0]), ("odd", courses[1])].map(|(fold, FitCourse { count: words, loss, steps, gradient })| {
            Self { parser: parser.to_owned(), fold: fold.to_owned(), words, loss, steps, gradient }
        })
    }
}

impl ParserReport {
    fn table(&self) -> comfy_table::Table {
        let mut table = plain_table();
        table.set_header(["parser", "right, in %", "attention ahead by"]);
        for ParserAccuracy { parser, share, ahead } in &self.accuracies {
            let ahead = ahead.difference.map_or_else(String::new, |points| signed(points, ahead.ci95));
            table.add_row([parser, &format!("{}{}", percent(share.accuracy), plus_minus_percent(share.ci95)), &ahead]);
        }
        aligned(table)
    }

    /// The six relations that attention finds best, among those with so many words.
    fn strongest(&self, least: u64) -> Vec<&RelationAccuracy> {
        let is_one = |one: &&RelationAccuracy| {
            let is_base = !one.relation.contains(':') && ![ALL, PUNCT].contains(&one.relation.as_str());
            is_base && one.words >= least
        };
        let mut strongest: Vec<&RelationAccuracy> = self.relations.iter().filter(is_one).collect();
        strongest.sort_by(|a, b| b.share.accuracy.partial_cmp(&a.share.accuracy).expect("shares are numbers"));
        strongest.truncate(6);
        strongest
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> std::fmt::Result {
        let (words, sentences) = (counted(self.words, "word"), counted(self.sentences, "sentence"));
        writeln!(
            out,
            "Syntactic heads from all attention heads: a linear model of the attention between two words, in all heads, says which \
             word is the syntactic head; fitted on one half of {sentences} and scored on the other ({words}):\n"
        )?;
        out.table(self.table());
        let roots = (percent(self.root_accuracy.accuracy), plus_minus_percent(self.root_accuracy.ci95));
        out.blank();
        writeln!(out, "Roots found by attention: {}{} per cent of {}.", roots.0, roots.1, self.roots)?;
        let trees = (percent(self.tree_share.accuracy), plus_minus_percent(self.tree_share.ci95));
        writeln!(out, "Sentences whose heads by attention form a tree: {}{} per cent.", trees.0, trees.1)?;
        let strongest = self.strongest(policy.count(&MIN_QUERIES));
        if !strongest.is_empty() {
            writeln!(
                out,
                "Relations that attention finds best, beside the head, the offset and the word classes that are best for each:\n"
            )?;
            out.table(relations_table(&strongest));
            out.blank();
        }
        let part =
            |part: &LayerPart| Some(format!("L{} {}", part.layer, signed(part.lost.difference?, part.lost.ci95)));
        let parts: Vec<String> = self.layers.iter().filter_map(part).collect();
        if !parts.is_empty() {
            writeln!(out, "Points lost without a layer (refitted): {}.", parts.join(", "))?;
        }
        match self.fits.iter().filter(|fit| fit.gradient > self.tolerance).count() {
            0 => Ok(()),
            count => writeln!(
                out,
                "{count} of {} did not come to a gradient of {:e}: see parser.fits.",
                counted(self.fits.len(), "fit"),
                self.tolerance
            ),
        }
    }
}

fn relations_table(relations: &[&RelationAccuracy]) -> comfy_table::Table {
    let mut table = plain_table();
    table.set_header(["relation", "words", "attention", "best head", "offset", "tags"]);
    for RelationAccuracy { relation, words, share, beside } in relations {
        let SimpleAccuracies { best_head, offset, tags } = beside;
        let right = format!("{}{}", percent(share.accuracy), plus_minus_percent(share.ci95));
        table.add_row([relation, &words.to_string(), &right, &percent(*best_head), &percent(*offset), &percent(*tags)]);
    }
    aligned(table)
}

stored!(ParserReport as parser);

impl Section for ParserReport {
    fn view(&self, Known { policy, .. }: Known<'_>) -> View<'_> {
        let ParserReport { accuracies, relations, layers, .. } = self;
        let summary = Summary::written(|out| {
            match &self.none {
                // A corpus of links need not have trees.
                Some(_) if !self.links.is_empty() && self.sentences == 0 => {}
                Some(why) => writeln!(out, "Syntactic heads from all attention heads: none, for {why}.")?,
                None => self.write_summary(out, policy)?,
            }
            write_summary(&self.links, self.links_left_out, out)
        });
        let tables = vec![
            TableRows::of("parsers", accuracies),
            TableRows::of("parser_relations", relations),
            TableRows::of("parser_layers", layers),
            flat_table(&self.links),
        ];
        View { summary, figures: figures(self), tables, ..View::default() }
    }

    fn of_head(&self, place: HeadPlace, _: Known<'_>) -> HeadCard {
        let of = |head: &HeadWeights| {
            let both = Direction::BOTH
                .map(|direction| format!("{} {}", decimal(*head.weight.get(direction), 2), direction.name()));
            format!("weights in the parser of all heads, for a standard deviation of attention: {}", both.join(", "))
        };
        let of_trees = self.heads.iter().filter(|head| head.place == place).map(of);
        of_trees.chain(self.links.iter().filter_map(|links| links.of_head(place))).collect()
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let ParserReport { none, heads, layers, accuracies, links, .. } = self;
        if let Some(defect) = links.iter().find_map(|links| links.defect(grid)) {
            return Some(defect);
        }
        if none.is_some() {
            return None;
        }
        if !grid.is(heads.iter().map(|head| head.place)) {
            return Some("`parser` does not have each head of the model once".to_owned());
        }
        let has_layers = layers.is_empty() || layers.iter().map(|part| part.layer).eq(0..grid.layers);
        if !has_layers {
            return Some("`parser` does not have each layer of the model once".to_owned());
        }
        let named = accuracies.iter().map(|one| one.parser.as_str()).eq(PARSERS);
        (!named).then(|| "`parser` does not have each parser once".to_owned())
    }
}

fn figures(parser: &ParserReport) -> Vec<Figure> {
    let ParserReport { sentences, words, accuracies, layers, .. } = parser;
    let Some(attention) = accuracies.first().filter(|_| !layers.is_empty()) else { return Vec::new() };
    let row = |part: &LayerPart| ForestRow {
        name: format!("L{}", part.layer),
        note: format!("{} without", percent(part.without)),
        marks: vec![Mark::of(part.lost.difference, part.lost.ci95)],
    };
    let rows = layers.iter().map(row).collect();
    let forest = Forest::around_zero("words less that are right without the layer", ["lost"], rows);
    let chart = Chart::Forest(Forest { shares: true, ..forest });
    vec![Figure {
        name: "parser",
        title: "What each layer carries of the heads of words".to_owned(),
        reading: format!(
            "A linear reading of the attention of all heads finds the head of {} per cent of {} ({}). Fitted again without a \
             layer it finds as much less as its row says, with 95 % intervals: what the other layers do not have as well.",
            percent(attention.share.accuracy),
            counted(*words, "word"),
            counted(*sentences, "sentence")
        ),
        chart,
    }]
}
