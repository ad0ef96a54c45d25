//! The part of the section `parser` on links: how much of each type all heads together hold, beside simpler models.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use comfy_table::{CellAlignment, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::models::CONTACT_TOLERANCE;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::interval::Interval;
use crate::studies::patterns::dependency::parser::accuracies::{ParserAccuracy, signed};
use crate::studies::patterns::dependency::parser::fit::TOLERANCE;
use crate::studies::patterns::dependency::parser::optimum::FitCourse;
use crate::study::labels::evidence::Side;
use crate::study::show::summary::Summary;
use crate::study::show::table::TableRows;
use crate::study::show::wording::{decimal, percent, plain_table, plus_minus_percent};
use crate::system::counted::{counted, plural};
use crate::system::printable::one_line;

/// The names of the models of sources in their order: five that are fitted, and five that are not.
pub const OF_SOURCES: [&str; 10] = [
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

/// The names of the models of pairs in their order: two that are fitted, and three that are not.
pub const OF_PAIRS: [&str; 5] = ["attention", "attention of an untrained model", "best head", "separations", "chance"];

/// The models that see the attention of the model: being ahead of one of them says nothing of what all heads know beyond rules.
const WITH_ATTENTION: [&str; 3] = ["attention", "attention and distances", "best head"];

pub struct LinksRead {
    pub types: Vec<LinkParser>,
    /// Sequences with links for which there was no room.
    pub left_out: u64,
    pub kept_bytes: u64,
}

/// How much of one type of links all heads together hold: of types with a direction, and in decoders, the share of sources for which a target
/// is chosen among the candidates; of undirected types in encoders the share of linked pairs among those that are likeliest to be, as many
/// as each sentence has words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkParser {
    /// The type.
    #[serde(rename = "type")]
    pub name: String,
    /// Whether each link counts in both directions.
    pub undirected: bool,
    /// In a decoder, the side of the source on which the target stands; absent in encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Side")]
    pub side: Option<Side>,
    /// Scored sources; of undirected types in encoders the pairs that are taken.
    pub count: u64,
    /// Sentences of the sample with one.
    pub sentences: u64,
    /// Why nothing was fitted; null where something was.
    pub none: Option<String>,
    /// All models, fitted or chosen on one half of the blocks and scored on the other, both ways.
    pub accuracies: Vec<ParserAccuracy>,
    /// How far attention is ahead of the best model that does not see the attention of the model.
    pub lead: Lead,
    /// The penalties that the folds chose for distances and embeddings; empty where these were not fitted.
    pub ridges: Vec<f64>,
    /// The weights of each head, layer by layer.
    pub heads: Vec<LinkWeights>,
    /// How the fits went.
    pub fits: Vec<LinkFit>,
}

/// The lead over the best of several models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lead {
    /// The name of the best one; null where nothing was fitted.
    pub over: Option<String>,
    /// The difference.
    #[schemars(range(min = -1, max = 1))]
    pub difference: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<Interval>,
}

/// The weights of a head on a type of links, the means of both fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkWeights {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Log-odds of a candidate that one standard deviation of its attention from the source adds; of pairs, those that a corrected weight
    /// of 1 would add.
    pub from: f64,
    /// As `from`, of the attention to the source; null of pairs.
    pub to: Option<f64>,
}

/// How a fit of links went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkFit {
    /// The model, one of `accuracies`.
    pub parser: String,
    /// Whether it was fitted on the blocks of `even` or of `odd` number.
    pub fold: String,
    /// The sources that it was fitted to, or the pairs.
    pub count: u64,
    /// The mean of `-ln p` over them, of several targets their mean, in nats and without a penalty.
    pub loss: f64,
    /// Steps of Newton's method, with embeddings of L-BFGS.
    pub steps: u64,
    /// The length of the gradient at the end; of pairs of the shortest subgradient.
    pub gradient: f64,
}

impl LinkFit {
    pub fn of_folds(parser: &str, courses: [FitCourse; 2]) -> [Self; 2] {
        [("even", courses[0]), ("odd", courses[1])].map(|(fold, FitCourse { count, loss, steps, gradient })| Self {
            parser: parser.to_owned(),
            fold: fold.to_owned(),
            count,
            loss,
            steps,
            gradient,
        })
    }
}

/// The lead of the first model over the best of those that do not see the attention of the model.
pub fn lead_of(accuracies: &[ParserAccuracy]) -> Lead {
    let others = accuracies.iter().filter(|one| !WITH_ATTENTION.contains(&one.parser.as_str()));
    let known = others.filter_map(|one| Some((one.share.accuracy?, one)));
    let best = known.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map_or_else(Lead::default, |(_, ParserAccuracy { parser, ahead, .. })| Lead {
        over: Some(parser.clone()),
        difference: ahead.difference,
        ci95: ahead.ci95,
    })
}

impl LinkParser {
    fn title(&self) -> String {
        let side = self.side.map(|side| format!(" (target on the {})", side.name()));
        one_line(&(self.name.clone() + &side.unwrap_or_default()))
    }

    fn is_of_pairs(&self) -> bool {
        self.undirected && self.side.is_none()
    }

    fn row(&self, names: &[&str]) -> Vec<String> {
        let own = self.accuracies.first().map(|one| one.share).unwrap_or_default();
        let attention = format!("{}{}", percent(own.accuracy), plus_minus_percent(own.ci95));
        let lead = self.lead.difference.map_or_else(String::new, |points| signed(points, self.lead.ci95));
        let over = self.lead.over.clone().unwrap_or_default();
        let others = names.iter().map(|name| {
            let found = self.accuracies.iter().find(|one| one.parser == *name);
            percent(found.and_then(|one| one.share.accuracy))
        });
        [self.title(), self.count.to_string(), attention].into_iter().chain(others).chain([lead, over]).collect()
    }

    /// A line on a head where no other has a larger weight on the type.
    pub fn of_head(&self, place: HeadPlace) -> Option<String> {
        let most = |head: &LinkWeights| head.from.max(head.to.unwrap_or(f64::NEG_INFINITY));
        let best = self.heads.iter().reduce(|best, next| if most(next) > most(best) { next } else { best })?;
        let of = match best.to {
            None => format!("{} for a corrected weight of 1", decimal(best.from, 0)),
            Some(to) => format!(
                "{} from the source, {} to it, for a standard deviation of attention",
                decimal(best.from, 2),
                decimal(to, 2)
            ),
        };
        (best.place == place && most(best) > 0.0)
            .then(|| format!("the largest weight in the model of links {} by all heads: {of}", self.title()))
    }

    pub fn defect(&self, grid: HeadGrid) -> Option<String> {
        if self.none.is_some() {
            return None;
        }
        let names: &[&str] = if self.is_of_pairs() { &OF_PAIRS } else { &OF_SOURCES };
        let is_whole = grid.is(self.heads.iter().map(|head| head.place))
            && self.accuracies.iter().map(|one| one.parser.as_str()).eq(names.iter().copied());
        (!is_whole).then(|| format!("`parser.links` does not have each head and each model of `{}` once", self.name))
    }
}

/// A table of the summary: its introduction, its first columns, the models beside attention, and the columns that may go where there
/// is no room, the first of them first.
type LinkTable = (&'static str, [&'static str; 3], &'static [&'static str], &'static [usize]);

const OF_SOURCES_SHOWN: LinkTable = (
    "Links from all attention heads: a linear model of the attention between a source and each candidate, in all heads, says which \
     candidate is a target; fitted on one half of the sentences and scored on the other, in % of sources. `lead` is over the best \
     model that does not see this attention:\n",
    ["links", "sources", "all heads"],
    &["best head", "place", "same class", "class rules", "distances and embeddings", "attention of an untrained model"],
    &[1, 5, 4, 6, 8, 7, 3],
);

const OF_PAIRS_SHOWN: LinkTable = (
    "Undirected links from all attention heads (contact prediction, Rao et al. 2021): of the pairs that a logistic regression on the \
     corrected attention of all heads finds likeliest, as many as words, the share that is linked, in %; fitted on one half of the \
     sentences and scored on the other. `lead` is over the best model that does not see this attention:\n",
    ["links", "pairs", "all heads"],
    &["best head", "separations", "chance", "attention of an untrained model"],
    &[1, 6, 5],
);

fn table(all: &[&LinkParser], [links, count, attention]: [&str; 3], names: &[&str]) -> Table {
    let mut table = plain_table();
    let short = |name: &&str| {
        match *name {
            "distances and embeddings" => "embeddings",
            "attention of an untrained model" => "untrained",
            name => name,
        }
        .to_owned()
    };
    let header = [links, count, attention].map(str::to_owned).into_iter().chain(names.iter().map(short));
    table.set_header(header.chain(["lead", "over"].map(str::to_owned)));
    for links in all {
        table.add_row(links.row(names));
    }
    let last = 4 + names.len();
    for (place, column) in table.column_iter_mut().enumerate() {
        let is_text = place == 0 || place == last;
        column.set_cell_alignment(if is_text { CellAlignment::Left } else { CellAlignment::Right });
    }
    table
}

pub fn write_summary(links: &[LinkParser], left_out: u64, out: &mut Summary) -> fmt::Result {
    for (is_of_pairs, (intro, header, names, may_go)) in [(false, OF_SOURCES_SHOWN), (true, OF_PAIRS_SHOWN)] {
        let own = links.iter().filter(|one| one.none.is_none() && one.is_of_pairs() == is_of_pairs);
        let mut own: Vec<&LinkParser> = own.collect();
        own.sort_by_key(|one| Reverse(one.count));
        if !own.is_empty() {
            writeln!(out, "{intro}")?;
            out.table_without(table(&own, header, names), may_go);
            out.blank();
        }
    }
    let unfitted: Vec<&LinkParser> = links.iter().filter(|one| one.none.is_some()).collect();
    let most = unfitted.iter().max_by_key(|one| one.count);
    if let Some((one, why)) = most.and_then(|one| Some((one, one.none.as_ref()?))) {
        let (count, is) = (counted(unfitted.len(), "type"), plural(&unfitted.len(), "is", "are"));
        writeln!(out, "{count} of links {is} not read from all heads; of {} {why}.", one.title())?;
    }
    if left_out > 0 {
        let were = plural(&left_out, "was", "were");
        writeln!(
            out,
            "{} with links {were} left out: the attention of more does not fit into the memory that is kept (docs/BOUNDS.md).",
            counted(left_out, "sequence")
        )?;
    }
    let unfinished = |one: &LinkParser| {
        let tolerance = if one.is_of_pairs() { CONTACT_TOLERANCE } else { TOLERANCE };
        one.fits.iter().filter(|fit| fit.gradient > tolerance).count()
    };
    match links.iter().map(unfinished).sum::<usize>() {
        0 => Ok(()),
        count => writeln!(out, "{} of links did not come to an end: see parser.links.fits.", counted(count, "fit")),
    }
}

pub fn flat_table(links: &[LinkParser]) -> TableRows<'_> {
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
    fn of_type(links: &LinkParser) -> impl Iterator<Item = ModelRow<'_>> {
        let row = |model| ModelRow { name: &links.name, side: links.side, count: links.count, model };
        links.accuracies.iter().map(row)
    }
    TableRows::of("parser_links", links.iter().flat_map(of_type))
}
