//! User-defined links in the report section `parser`: accuracies of models on all attention heads, beside simpler models.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use comfy_table::Table;
use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::models::CONTACT_GRADIENT_TOLERANCE;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::interval::Interval;
use crate::studies::patterns::dependency::parser::accuracies::ParserAccuracy;
use crate::studies::patterns::dependency::parser::fit::GRADIENT_TOLERANCE;
use crate::studies::patterns::dependency::parser::optimum::FitRecord;
use crate::studies::patterns::dependency::relation::signed_points;
use crate::study::labels::evidence::Side;
use crate::study::show::wording::{aligned_table, decimal, percent};
use crate::study::{Summary, TableRows};
use crate::system::counts::{format_count, plural};
use crate::system::printable::one_line;

/// Names of the models that choose the target of a source, in report order. The first five are fitted; the last five are
/// a single head, simple rules and chance.
pub const TARGET_MODELS: [&str; 10] = [
    "attention",
    "distances and embeddings",
    "distances",
    "attention and distances",
    "attention of an untrained model",
    "best head",
    "place",
    "same class",
    "class rules",
    "chance",
];

/// Names of the models that rank pairs of words, in report order. The first two are fitted.
pub const PAIR_MODELS: [&str; 5] =
    ["attention", "attention of an untrained model", "best head", "separations", "chance"];

/// Link predictors that use the trained model's attention. The lead of attention is measured over the best other
/// predictor, because a lead over these does not show what attention knows beyond rules.
const ATTENTION_MODELS: [&str; 3] = ["attention", "attention and distances", "best head"];

/// Results on all types of links.
pub struct LinkParserResults {
    /// Results on each type of links.
    pub types: Vec<LinkParser>,
    /// Number of sequences with links that were left out because the memory bound was reached.
    pub left_out_sequences: u64,
    /// Memory of the kept attention weights, in bytes.
    pub kept_bytes: u64,
}

/// How well models find links of one type from all attention heads together. For types with a direction, and in decoders,
/// accuracy is the share of sources for which the predicted candidate is a target. For undirected types in encoders, it is the
/// share of linked pairs among the top-scored pairs: `L` pairs in a sentence of `L` words, or all if it has fewer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkParser {
    /// Name of the type of links.
    #[serde(rename = "type")]
    pub name: String,
    /// Whether each link of the type counts in both directions.
    pub undirected: bool,
    /// Side of the source on which the target stands, in a decoder. Absent in encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Side")]
    pub side: Option<Side>,
    /// Number of scored sources; for undirected types in encoders, number of top-scored pairs.
    pub count: u64,
    /// Number of sampled sentences with scored links of the type, one per group of related sentences.
    pub sentences: u64,
    /// Reason why no model was fitted. Null if models were fitted.
    pub none: Option<String>,
    /// Accuracies of all models, fitted or chosen on one half of the blocks and scored on the other, both ways.
    pub accuracies: Vec<ParserAccuracy>,
    /// Accuracy of the model `attention` minus that of the best model without the trained transformer's attention.
    pub lead: Lead,
    /// Ridge penalty of `distances and embeddings`, selected in each half of the blocks. Empty if that model was not fitted.
    pub ridges: Vec<f64>,
    /// Regression weights of each attention head in the model `attention`, layer by layer.
    pub heads: Vec<LinkWeights>,
    /// Steps, final loss and final gradient of each fit.
    pub fits: Vec<LinkFit>,
}

/// Accuracy of the model `attention` minus that of the best model without the trained transformer's attention.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lead {
    /// Name of the best model without the trained transformer's attention. Null if no model was fitted.
    pub over: Option<String>,
    /// Accuracy of the model `attention` minus the accuracy of the model in `over`. Null if no model was fitted.
    #[schemars(range(min = -1, max = 1))]
    pub difference: Option<f64>,
    /// 95 % interval of `difference`.
    pub ci95: Option<Interval>,
}

/// Regression weights of one attention head in the model `attention` of one type of links, averaged over both fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkWeights {
    /// Attention head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Log-odds that one standard deviation of attention from the source adds to a candidate. For pairs, log-odds per unit of
    /// attention, summed over both directions and with the average product correction.
    pub from: f64,
    /// As `from`, for attention to the source. Null for pairs.
    pub to: Option<f64>,
}

/// Steps, final loss and final gradient of one fit of a model of links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkFit {
    /// Name of the fitted model, as in `accuracies`.
    pub parser: String,
    /// Half of the blocks that the model was fitted on: blocks of `even` or of `odd` number.
    pub fold: String,
    /// Number of sources, or of pairs, that the model was fitted to.
    pub count: u64,
    /// Mean of `-ln p` over sources or pairs, in nats and without the penalty. A source with several targets has their mean.
    pub loss: f64,
    /// Number of steps of Newton's method; of L-BFGS if the model has embeddings.
    pub steps: u64,
    /// Norm of the gradient at the end; for pairs, of the shortest subgradient.
    pub gradient: f64,
}

impl LinkFit {
    /// Creates the report's entries on a model's fits, given the fit on each fold.
    pub fn for_folds(parser: &str, records: [FitRecord; 2]) -> [Self; 2] {
        [("even", records[0]), ("odd", records[1])].map(
            |(fold, FitRecord { count, loss, steps, gradient_norm: gradient })| Self {
                parser: parser.to_owned(),
                fold: fold.to_owned(),
                count,
                loss,
                steps,
                gradient,
            },
        )
    }
}

/// Returns the accuracy lead of the first model, `attention`, over the best model that does not use the trained model's
/// attention.
pub fn attention_lead(accuracies: &[ParserAccuracy]) -> Lead {
    let others = accuracies.iter().filter(|one| !ATTENTION_MODELS.contains(&one.parser.as_str()));
    let scored = others.filter_map(|one| Some((one.share.accuracy?, one)));
    let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map_or_else(Lead::default, |(_, ParserAccuracy { parser, ahead, .. })| Lead {
        over: Some(parser.clone()),
        difference: ahead.difference,
        ci95: ahead.ci95,
    })
}

impl LinkParser {
    /// Name of the type as printed, with the side of the target if it has one.
    fn title(&self) -> String {
        let side = self.side.map(|side| format!(" (target on the {})", side.name()));
        one_line(&(self.name.clone() + &side.unwrap_or_default()))
    }

    /// Whether pairs of words are ranked, instead of targets chosen for sources.
    fn has_pair_models(&self) -> bool {
        self.undirected && self.side.is_none()
    }

    /// Row of the summary table: the type, and the accuracies of the models `names`.
    fn table_row(&self, names: &[&str]) -> Vec<String> {
        let attention = self.accuracies.first().map(|one| one.share).unwrap_or_default().in_percent();
        let lead = self.lead.difference.map(|difference| signed_points(difference, self.lead.ci95)).unwrap_or_default();
        let over = self.lead.over.clone().unwrap_or_default();
        let others = names.iter().map(|name| {
            let model = self.accuracies.iter().find(|one| one.parser == *name);
            percent(model.and_then(|one| one.share.accuracy))
        });
        [self.title(), self.count.to_string(), attention].into_iter().chain(others).chain([lead, over]).collect()
    }

    /// Returns a sentence on the head's weight in the fitted model that predicts these links. `None` unless this weight is
    /// above 0 and the largest of all attention heads.
    pub fn head_line(&self, place: HeadPlace) -> Option<String> {
        let larger_weight = |head: &LinkWeights| head.from.max(head.to.unwrap_or(f64::NEG_INFINITY));
        let best = self
            .heads
            .iter()
            .reduce(|best, next| if larger_weight(next) > larger_weight(best) { next } else { best })?;
        let weights = match best.to {
            None => format!("{} for a corrected weight of 1", decimal(best.from, 0)),
            Some(to) => format!(
                "{} from the source, {} to it, for a standard deviation of attention",
                decimal(best.from, 2),
                decimal(to, 2)
            ),
        };
        (best.place == place && larger_weight(best) > 0.0)
            .then(|| format!("the largest weight in the model of links {} by all heads: {weights}", self.title()))
    }

    pub fn defect(&self, grid: HeadGrid) -> Option<String> {
        if self.none.is_some() {
            return None;
        }
        let names: &[&str] = if self.has_pair_models() { &PAIR_MODELS } else { &TARGET_MODELS };
        let is_whole = grid.equals_all_heads(self.heads.iter().map(|head| head.place))
            && self.accuracies.iter().map(|one| one.parser.as_str()).eq(names.iter().copied());
        (!is_whole).then(|| format!("`parser.links` does not have each head and each model of `{}` once", self.name))
    }
}

/// Layout of a summary table: introduction, first columns, names of the models that have the next columns, and indices
/// of columns to drop if the table is too wide, first to last.
type LinkTableLayout = (&'static str, [&'static str; 3], &'static [&'static str], &'static [usize]);

const SOURCES_TABLE: LinkTableLayout = (
    "Links from all attention heads: a linear model of the attention between a source and each candidate, in all heads, says which \
     candidate is a target; fitted on one half of the sentences and scored on the other, in % of sources. `lead` is over the best \
     model that does not see this attention:\n",
    ["links", "sources", "all heads"],
    &["best head", "place", "same class", "class rules", "distances and embeddings", "attention of an untrained model"],
    &[1, 5, 4, 6, 8, 7, 3],
);

const PAIRS_TABLE: LinkTableLayout = (
    "Undirected links from all attention heads (contact prediction, Rao et al. 2021): of the pairs that a logistic regression on the \
     corrected attention of all heads finds likeliest, as many as words, the share that is linked, in %; fitted on one half of the \
     sentences and scored on the other. `lead` is over the best model that does not see this attention:\n",
    ["links", "pairs", "all heads"],
    &["best head", "separations", "chance", "attention of an untrained model"],
    &[1, 6, 5],
);

/// Summary table with a row for each type of links in `all`, and a column for each model in `names`.
fn summary_table(all: &[&LinkParser], first_columns: [&'static str; 3], names: &[&'static str]) -> Table {
    let short = |name: &&'static str| match *name {
        "distances and embeddings" => "embeddings",
        "attention of an untrained model" => "untrained",
        name => name,
    };
    let header: Vec<&str> = first_columns.into_iter().chain(names.iter().map(short)).chain(["lead", "over"]).collect();
    let last = header.len() - 1;
    aligned_table(header, all.iter().map(|links| links.table_row(names)), 1..last)
}

pub fn write_summary(links: &[LinkParser], left_out: u64, out: &mut Summary) -> fmt::Result {
    for (is_of_pairs, (intro, first_columns, names, drop_order)) in [(false, SOURCES_TABLE), (true, PAIRS_TABLE)] {
        let fitted = links.iter().filter(|one| one.none.is_none() && one.has_pair_models() == is_of_pairs);
        let fitted: Vec<&LinkParser> = fitted.sorted_by_key(|one| Reverse(one.count)).collect();
        if !fitted.is_empty() {
            writeln!(out, "{intro}")?;
            out.table_with_optional_columns(summary_table(&fitted, first_columns, names), drop_order);
            out.add_blank_line();
        }
    }
    let without_fit: Vec<&LinkParser> = links.iter().filter(|one| one.none.is_some()).collect();
    let commonest = without_fit.iter().max_by_key(|one| one.count);
    if let Some((one, why)) = commonest.and_then(|one| Some((one, one.none.as_ref()?))) {
        let (count, is) = (format_count(without_fit.len(), "type"), plural(&without_fit.len(), "is", "are"));
        writeln!(out, "{count} of links {is} not read from all heads; of {} {why}.", one.title())?;
    }
    if left_out > 0 {
        let were = plural(&left_out, "was", "were");
        writeln!(
            out,
            "{} with links {were} left out: the attention of more does not fit into the memory that is kept (docs/BOUNDS.md).",
            format_count(left_out, "sequence")
        )?;
    }
    let unfinished = |one: &LinkParser| {
        let tolerance = if one.has_pair_models() { CONTACT_GRADIENT_TOLERANCE } else { GRADIENT_TOLERANCE };
        one.fits.iter().filter(|fit| fit.gradient > tolerance).count()
    };
    match links.iter().map(unfinished).sum::<usize>() {
        0 => Ok(()),
        count => {
            writeln!(out, "{} of links did not come to an end: see parser.links.fits.", format_count(count, "fit"))
        }
    }
}

/// Table of the export: one row for each type of links and model.
pub fn export_table(links: &[LinkParser]) -> TableRows<'_> {
    #[derive(Serialize)]
    struct ModelRow<'a> {
        #[serde(rename = "type")]
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        side: Option<Side>,
        count: u64,
        #[serde(flatten)]
        model: &'a ParserAccuracy,
    }
    TableRows::new(
        "parser_links",
        links.iter().flat_map(|links| {
            let row = |model| ModelRow { name: &links.name, side: links.side, count: links.count, model };
            links.accuracies.iter().map(row)
        }),
    )
}
