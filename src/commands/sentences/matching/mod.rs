//! `headscope match`: the heads of two models, paired by their attention.
//!
//! Heads of a layer have no order: two models trained from other fresh weights, or one whose heads were reordered, have like heads in
//! other places. Both models read the same sentences, and within each layer heads become partners so that their distances
//! together are least (docs/methodology/comparing.md).

mod distance;
mod labels;

use std::fmt::Write;

use anyhow::{Result, anyhow, ensure};
use distance::DistanceSums;
pub use labels::{LabelRuns, LabelsOneWay, Observe};
use schemars::JsonSchema;
use serde::Serialize;

use super::{NamedSentence, SentenceChoice, attention, chosen, load};
use crate::commands::reporting::outputs;
use crate::commands::saved::sides::matching::{HeadMatching, MatchedHead, SCHEMA_VERSION};
use crate::commands::saved::sides::outputs::OutcomeOutputs;
use crate::export::{Writer, json, tables::csv};
use crate::model::Model;
use crate::model::forward::Scratch;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::source::ModelRef;
use crate::model::tokenizer::TokenizerOptions;
use crate::passes::observation::identity::ModelInfo;
use crate::passes::pass::Pass;
use crate::passes::run::token_limit;
use crate::sequences::reading::{Context as Reads, Spacing};
use crate::sequences::tokenize::SentenceTokenizer;
use crate::study::show::summary::Summary;
use crate::study::show::table::Table;
use crate::study::show::wording::{decimal, plain_table};
use crate::system::counted::counted;
use crate::system::errors::{Class, Facts};
use crate::system::printable::one_line;
use crate::system::terminal;

/// Two models, the sentences that both read, and where the outcome goes.
#[derive(Clone, Debug)]
pub struct MatchOptions {
    pub models: [ModelRef; 2],
    /// How both tokenizers read text.
    pub tokenizer: TokenizerOptions,
    pub sentences: SentenceChoice,
    /// Longer sentences are skipped.
    pub max_tokens: Option<usize>,
    /// How words are given to the tokenizer.
    pub words: Spacing,
    /// Whether longer sentences of plain text are cut.
    pub truncate: bool,
    /// The destinations of the outcome.
    pub outputs: OutcomeOutputs,
}

/// Heads that were matched, and how far their labels agree where that was asked for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "headscope match")]
pub struct MatchOutcome {
    #[serde(flatten)]
    matching: HeadMatching,
    /// Agreement of labels over one half of the sampling units between heads that were matched over the other, both ways; absent
    /// without `--labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<LabelsOneWay>")]
    labels: Option<Vec<LabelsOneWay>>,
}

/// Matches the heads of two models and prints the partners; with `runs` both models are also labelled, each half of the corpus over
/// which heads are not matched.
/// Fails if a model or the sentences cannot be used, the models have other heads or tokens, or an output cannot be written.
pub fn match_heads(options: &MatchOptions, runs: Option<&LabelRuns>) -> Result<()> {
    let outputs = options.outputs.open()?;
    let (matching, halves) = matched(options, runs.is_some())?;
    let names = [&matching.a, &matching.b].map(|model| &*model.id);
    let labels = runs.map(|runs| labels::both_ways(runs, names, &halves)).transpose()?;
    let outcome = MatchOutcome { matching, labels };
    let render = |writer| match writer {
        Writer::Json(form) => json::render(&outcome, form),
        Writer::Csv => csv::table(&Table::of("heads", &outcome.matching.heads)),
        Writer::Html => unreachable!("refused with the arguments"),
    };
    outputs::write_each(outputs, render, |_, _| text(&outcome).fit(terminal::width()))
}

/// The matched heads, and the distances over sentences of even and of odd number; `by_unit` takes the numbers of sampling units.
fn matched(options: &MatchOptions, by_unit: bool) -> Result<(HeadMatching, [DistanceSums; 2])> {
    let [a, b] = &options.models;
    let (a, b) = (load(a, options.tokenizer)?, load(b, options.tokenizer)?);
    let [(a, of_a), (b, of_b)] = [a, b];
    let (grid, other) = (a.grid(), b.grid());
    ensure!(grid == other, anyhow!("the models do not have the same heads: {grid} and {other}").class(Class::Input));
    if let Some(model) = [&a, &b].into_iter().find(|model| !model.absent().is_empty()) {
        let error =
            anyhow!("`{}` was saved without some heads (pruned_heads), and matching takes models with all", model.id);
        return Err(error.class(Class::Input));
    }
    let sequences = |model: &Model| -> Result<Vec<NamedSentence>> {
        let limit = token_limit(&model.architecture.config, options.max_tokens, Reads::Sentence).class(Class::Usage)?;
        let encoder = SentenceTokenizer::new(&model.tokenizer, limit, options.truncate)
            .segments(model.architecture.config.type_vocab_size);
        chosen(&options.sentences, &mut encoder.spacing(options.words), |_| true)
    };
    let (ours, theirs) = (sequences(&a)?, sequences(&b)?);
    let mut sums = [DistanceSums::new(grid), DistanceSums::new(grid)];
    let mut scratch = Scratch::default();
    let heads: Vec<HeadPlace> = grid.places().collect();
    ensure!(ours.len() == theirs.len(), other_tokens(ours.len().min(theirs.len()) as u64));
    for (own, other) in ours.iter().zip(&theirs) {
        ensure!(own.sequence.ids == other.sequence.ids, other_tokens(own.sequence.index));
        let gates = Pass::PLAIN.gates();
        let weights = attention(&a, &own.sequence, &heads, &gates, &mut scratch)?;
        let of_other = attention(&b, &other.sequence, &heads, &gates, &mut scratch)?;
        let number = if by_unit { own.sequence.family.number } else { own.sequence.index };
        sums[usize::from(number % 2 == 1)].add(&own.sequence, weights, of_other);
    }
    let [a, b] = [ModelInfo::new(&a, of_a.finish()?), ModelInfo::new(&b, of_b.finish()?)];
    let heads = partners(&sums, grid);
    let matching = HeadMatching {
        schema_version: SCHEMA_VERSION,
        a: (&a).into(),
        b: (&b).into(),
        sentences: ours.len() as u64,
        halves_agree: heads.iter().filter(|head| head.halves_agree).count(),
        heads,
    };
    Ok((matching, sums))
}

fn other_tokens(sentence: u64) -> anyhow::Error {
    anyhow!("the models read sentence {sentence} as other tokens, between which attention cannot be compared")
        .hint("match models with the same tokenizer")
        .class(Class::Input)
}

/// Each head with its partner over the sentences of both halves.
fn partners(halves: &[DistanceSums; 2], grid: HeadGrid) -> Vec<MatchedHead> {
    let all = halves[0].and(&halves[1]);
    let [even, odd] = halves.each_ref().map(DistanceSums::partners);
    let head = |(index, partner): (usize, usize)| {
        let place = grid.place(index);
        MatchedHead {
            a: place,
            b: HeadPlace { head: partner, ..place },
            distance: all.distance(index * grid.heads + partner),
            distance_in_place: all.distance(index * grid.heads + place.head),
            halves_agree: even[index] == partner && odd[index] == partner,
        }
    };
    all.partners().into_iter().enumerate().map(head).collect()
}

fn text(outcome: &MatchOutcome) -> Summary {
    Summary::written(|out| {
        let HeadMatching { a, b, sentences, halves_agree, heads, .. } = &outcome.matching;
        let moved = heads.iter().filter(|head| head.a != head.b).count();
        let all = counted(heads.len(), "head");
        writeln!(out, "{moved} of {all} of a have their partner at another place in b.")?;
        writeln!(out, "Both halves of {} give {halves_agree} of them that partner.", counted(*sentences, "sentence"))?;
        writeln!(out, "\na  {}\nb  {}\n", one_line(&a.id), one_line(&b.id))?;
        let mut table = plain_table();
        table.set_header(["a", "b", "distance", "to the head in its place", "halves"]);
        for head in heads {
            let halves = if head.halves_agree { "agree" } else { "differ" };
            let [distance, in_place] = [head.distance, head.distance_in_place].map(|distance| decimal(distance, 3));
            table.add_row([head.a.to_string(), head.b.to_string(), distance, in_place, halves.to_owned()]);
        }
        out.table(table);
        outcome.labels.as_deref().map_or(Ok(()), |ways| labels::text(out, ways))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::sequence::{Sequence, TokenKind};

    /// Two heads over one sentence of two tokens: the first of a has the rows of the second of b.
    #[test]
    fn heads_are_matched_by_hand() {
        let grid = HeadGrid { layers: 1, heads: 2 };
        let sequence = Sequence { ids: vec![5, 6], kinds: vec![TokenKind::Text; 2], ..Sequence::default() };
        let (sharp, even) = ([1.0, 0.0, 0.0, 1.0], [0.5; 4]);
        let mut sums = [DistanceSums::new(grid), DistanceSums::new(grid)];
        sums[0].add(&sequence, [sharp, even].concat(), [even, sharp].concat());
        let found = partners(&sums, grid);
        assert_eq!(found.iter().map(|head| head.b.head).collect::<Vec<_>>(), [1, 0]);
        assert!(found[0].distance < 1e-6, "{found:?}");
        // 1 - √.5 for each row.
        assert!((found[0].distance_in_place - (1.0 - 0.5_f64.sqrt()).sqrt()).abs() < 1e-6, "{found:?}");
        // The odd half has no sentence, and keeps heads in their places.
        assert!(!found[0].halves_agree);
    }
}
