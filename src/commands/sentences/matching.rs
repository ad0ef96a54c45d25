//! `headscope match`: pairs the heads of two models by their attention over equal sentences (docs/methodology/comparing.md).
//! Heads of a layer have no order, so the pairing within each layer is the one with the least total distance.
//!
//! Partners that were chosen over the labelled text agree on labels too well. `--labels` therefore halves the sampling units.
//! Heads are matched over one half, and both models are labelled over the other half; then the halves change roles.

use std::fmt::{self, Write};
use std::num::NonZeroUsize;

use anyhow::{Context as _, Result, anyhow, ensure};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SentenceOptions, compute_attention, load_with_options};
use crate::commands::reporting::{self, OutcomeOutputs};
use crate::commands::saved::compare::outcome::{HeadAgreement, OutcomeCounts};
use crate::commands::saved::compare::{self, agreement_share, chance_share_text};
use crate::commands::saved::sides::Side;
use crate::commands::saved::sides::matching::{HeadMatching, MatchedHead, MatchedModel, SCHEMA_VERSION};
use crate::corpus::UnitHalf;
use crate::export::tables::csv;
use crate::export::{ReportFormat, json};
use crate::model::forward::Scratch;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::source::ModelRef;
use crate::model::{Hashes, Model};
use crate::passes::observation::Observation;
use crate::passes::observation::identity::ModelInfo;
use crate::passes::pass::Pass;
use crate::sequences::sequence::Sequence;
use crate::stats::agreement::{CategoryAgreement, ShareByChance};
use crate::stats::assignment::least_cost_assignment;
use crate::studies::registry;
use crate::study::show::summary::Summary;
use crate::study::show::table::Table;
use crate::study::show::wording::{aligned_table, decimal, plain_table};
use crate::system::counts::format_count;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::printable::one_line;
use crate::system::terminal;

/// Heads that were matched, and how far their labels agree where that was asked for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "headscope match")]
pub struct MatchOutcome {
    #[serde(flatten)]
    matching: HeadMatching,
    /// Label agreement of heads matched over one half of the sampling units, labelled over the other; absent without `--labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<LabelsOneWay>")]
    labels: Option<Vec<LabelsOneWay>>,
}

/// Matches the heads of two models and prints the partners.
/// With `runs`, heads are also matched over each half of the text, and their labels compared over the other half.
/// Fails if a model or the sentences cannot be used, the models differ in heads or tokens, or an output cannot be written.
pub fn match_heads(
    models: &[ModelRef; 2],
    sentences: &SentenceOptions,
    outputs: &OutcomeOutputs,
    runs: Option<&HalfAnalyses>,
) -> Result<()> {
    let outputs = outputs.open_outputs()?;
    let (matching, halves) = match_over_sentences(models, sentences, runs.is_some())?;
    let names = [&matching.a, &matching.b].map(|model| &*model.id);
    let both_ways = |runs: &HalfAnalyses| -> Result<Vec<LabelsOneWay>> {
        UnitHalf::BOTH.iter().map(|half| compare_labels_one_way(runs, names, &halves[*half as usize], *half)).collect()
    };
    let labels = runs.map(both_ways).transpose()?;
    let outcome = MatchOutcome { matching, labels };
    let render = |writer| match writer {
        ReportFormat::Json(form) => json::to_json(&outcome, form),
        ReportFormat::Csv => csv::table_csv(&Table::from_rows("heads", &outcome.matching.heads)),
        ReportFormat::Html => unreachable!("refused with the arguments"),
    };
    reporting::write_outputs(outputs, render, |_, _| render_text(&outcome).fit(terminal::stdout_width()))
}

/// Matches the heads of two models. Also returns the distances between heads over half of the sentences, `[even, odd]`.
/// Sentences are even or odd by their number, or with `by_unit` by the number of their sampling unit.
fn match_over_sentences(
    [a, b]: &[ModelRef; 2],
    sentences: &SentenceOptions,
    by_unit: bool,
) -> Result<(HeadMatching, [DistanceSums; 2])> {
    let tokenizer = sentences.tokenizer;
    let ((a, fingerprint_a), (b, fingerprint_b)) = (load_with_options(a, tokenizer)?, load_with_options(b, tokenizer)?);
    let (grid, grid_b) = (a.grid(), b.grid());
    ensure!(
        grid == grid_b,
        anyhow!("the models do not have the same heads: {grid} and {grid_b}").class(ErrorClass::Input)
    );
    if let Some(model) = [&a, &b].into_iter().find(|model| !model.pruned_heads().is_empty()) {
        let error =
            anyhow!("`{}` was saved without some heads (pruned_heads), and matching takes models with all", model.id);
        return Err(error.class(ErrorClass::Input));
    }
    let (sentences_a, sentences_b) = (sentences.read(&a, |_| true)?, sentences.read(&b, |_| true)?);
    let mut sums = [DistanceSums::new(grid), DistanceSums::new(grid)];
    let mut scratch = Scratch::default();
    let heads: Vec<HeadPlace> = grid.head_places().collect();
    ensure!(
        sentences_a.len() == sentences_b.len(),
        different_tokens_error(sentences_a.len().min(sentences_b.len()) as u64)
    );
    for (sentence_a, sentence_b) in sentences_a.iter().zip(&sentences_b) {
        ensure!(sentence_a.sequence.ids == sentence_b.sequence.ids, different_tokens_error(sentence_a.sequence.index));
        let gates = Pass::PLAIN.removal_gates();
        let weights_a = compute_attention(&a, &sentence_a.sequence, &heads, &gates, &mut scratch)?;
        let weights_b = compute_attention(&b, &sentence_b.sequence, &heads, &gates, &mut scratch)?;
        let number = if by_unit { sentence_a.sequence.family.number } else { sentence_a.sequence.index };
        sums[usize::from(number % 2 == 1)].add(&sentence_a.sequence, weights_a, weights_b);
    }
    let matched_model = |model: &Model, hashes: Hashes| {
        let ModelInfo { id, weights_sha256, .. } = ModelInfo::new(model, hashes);
        MatchedModel { id, weights_sha256 }
    };
    let heads = pair_heads(&sums, grid);
    let matching = HeadMatching {
        schema_version: SCHEMA_VERSION,
        a: matched_model(&a, fingerprint_a.finish()?),
        b: matched_model(&b, fingerprint_b.finish()?),
        sentences: sentences_a.len() as u64,
        halves_agree: heads.iter().filter(|head| head.halves_agree).count(),
        heads,
    };
    Ok((matching, sums))
}

fn different_tokens_error(sentence: u64) -> anyhow::Error {
    anyhow!("the models read sentence {sentence} as other tokens, between which attention cannot be compared")
        .hint("match models with the same tokenizer")
        .class(ErrorClass::Input)
}

/// Pairs each head with its partner over the sentences of both halves, `[even, odd]`.
fn pair_heads(halves: &[DistanceSums; 2], grid: HeadGrid) -> Vec<MatchedHead> {
    let all = halves[0].sum_with(&halves[1]);
    let [even, odd] = halves.each_ref().map(DistanceSums::partner_numbers);
    let head = |(index, partner): (usize, usize)| {
        let place = grid.head_place(index);
        MatchedHead {
            a: place,
            b: HeadPlace { head: partner, ..place },
            distance: all.distance(index * grid.heads + partner),
            distance_in_place: all.distance(index * grid.heads + place.head),
            halves_agree: even[index] == partner && odd[index] == partner,
        }
    };
    all.partner_numbers().into_iter().enumerate().map(head).collect()
}

fn render_text(outcome: &MatchOutcome) -> Summary {
    Summary::from_writer(|out| {
        let HeadMatching { a, b, sentences, halves_agree, heads, .. } = &outcome.matching;
        let moved = heads.iter().filter(|head| head.a != head.b).count();
        let all = format_count(heads.len(), "head");
        writeln!(out, "{moved} of {all} of a have their partner at another place in b.")?;
        writeln!(
            out,
            "Both halves of {} give {halves_agree} of them that partner.",
            format_count(*sentences, "sentence")
        )?;
        writeln!(out, "\na  {}\nb  {}\n", one_line(&a.id), one_line(&b.id))?;
        let row = |head: &MatchedHead| {
            let halves = if head.halves_agree { "agree" } else { "differ" };
            let [distance, in_place] = [head.distance, head.distance_in_place].map(|distance| decimal(distance, 3));
            [head.a.to_string(), head.b.to_string(), distance, in_place, halves.to_owned()]
        };
        let header = ["a", "b", "distance", "to the head in its place", "halves"];
        out.add_table(aligned_table(header, heads.iter().map(row), 0..0));
        outcome.labels.as_deref().map_or(Ok(()), |ways| write_labels(out, ways))
    })
}

/// Sums of squared Hellinger distances between the heads of two models, within layers.
struct DistanceSums {
    grid: HeadGrid,
    pub sentences: u64,
    /// Number of attention rows over which the distances are summed: one for each text token.
    row_count: usize,
    /// Sums of squared Hellinger distances over rows, `[layers, heads of a, heads of b]`.
    sums: Vec<f64>,
}

impl DistanceSums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, sentences: 0, row_count: 0, sums: vec![0.0; grid.head_count() * grid.heads] }
    }

    /// Adds the squared distances between the attention rows of a sentence's text tokens.
    /// `a` and `b` are the attention of the two models, `[layers * heads, tokens, tokens]`.
    pub fn add(&mut self, sequence: &Sequence, mut a: Vec<f32>, mut b: Vec<f32>) {
        let (tokens, rows) = (sequence.ids.len(), sequence.text_positions().collect::<Vec<_>>());
        [&mut a, &mut b].into_iter().flatten().for_each(|weight| *weight = weight.sqrt());
        let heads = self.grid.heads;
        for (pair, sum) in self.sums.iter_mut().enumerate() {
            let (own, other) = (pair / heads, pair / heads / heads * heads + pair % heads);
            for row in &rows {
                let at = |head: usize| (head * tokens + row) * tokens;
                let both = a[at(own)..][..tokens].iter().zip(&b[at(other)..][..tokens]);
                *sum += 1.0 - both.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
            }
        }
        self.row_count += rows.len();
        self.sentences += 1;
    }

    /// Sums over the sentences of `self` and of `other`.
    pub fn sum_with(&self, other: &Self) -> Self {
        let sums = self.sums.iter().zip(&other.sums).map(|(a, b)| a + b).collect();
        let (sentences, rows) = (self.sentences + other.sentences, self.row_count + other.row_count);
        Self { grid: self.grid, sentences, row_count: rows, sums }
    }

    /// Index in the grid of each head's partner, `[layers * heads]`.
    pub fn partner_indices(&self) -> Vec<usize> {
        let of_head = |(head, partner): (usize, usize)| head / self.grid.heads * self.grid.heads + partner;
        self.partner_numbers().into_iter().enumerate().map(of_head).collect()
    }

    /// Number of each head's partner within its layer: the assignment with the least sum of distances.
    pub fn partner_numbers(&self) -> Vec<usize> {
        let heads = self.grid.heads;
        let partners = |layer: usize| {
            let costs: Vec<f64> = (0..heads * heads).map(|pair| self.distance(layer * heads * heads + pair)).collect();
            least_cost_assignment(&costs, heads)
        };
        (0..self.grid.layers).flat_map(partners).collect()
    }

    /// Root mean square Hellinger distance between two heads; 0 before a sentence is added.
    /// `pair` is an index of `[layers, heads of a, heads of b]`.
    pub fn distance(&self, pair: usize) -> f64 {
        (self.sums[pair] / self.row_count.max(1) as f64).max(0.0).sqrt()
    }
}

/// Function that analyses one of two models over one half of the sampling units.
pub type ObserveHalf = Box<dyn Fn(UnitHalf) -> Result<Observation>>;

/// Functions that analyse the two models, and the number of threads for intervals and tests.
pub struct HalfAnalyses {
    pub observe: [ObserveHalf; 2],
    pub threads: NonZeroUsize,
}

/// Agreement of labels between heads that were matched over one half of the sampling units and labelled over the other half.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LabelsOneWay {
    /// Half of the sampling units over which heads were matched: `even` or `odd` (by number).
    pub matched_over: &'static str,
    /// Number of sentences in the half over which heads were matched.
    pub matched_sentences: u64,
    /// Number of sentences in the other half of the sampling units, over which labels are given.
    pub labelled_sentences: u64,
    /// Number of heads whose partner has another number within the layer.
    pub moved: usize,
    /// Number of labels per outcome, each head compared with its partner.
    pub labels: OutcomeCounts,
    /// Number of labels per outcome, each head compared with the other model's head of the same layer and number.
    pub labels_in_place: OutcomeCounts,
    /// Agreement on first labels: between partners, between heads in the same place, and by chance.
    pub first_label: MatchedAgreement,
    /// Agreement on sets of firm labels: between partners, between heads in the same place, and by chance.
    pub firm_labels: MatchedAgreement,
    /// Why nothing could be tested, in words; null where tests were possible.
    pub too_few_units: Option<String>,
}

/// Agreement of two models on labels, with and without matching of heads.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct MatchedAgreement {
    /// Agreement of each head with its partner.
    pub matched: CategoryAgreement,
    /// Agreement of each head with the other model's head of the same layer and number.
    pub in_place: CategoryAgreement,
    /// Share of heads that agree by chance: mean and range over 1,000 random pairings within layers.
    pub permuted: ShareByChance,
}

/// Matches heads by their distances over `half` of the sampling units, and compares labels over the other half.
/// Fails if a model cannot be analysed.
fn compare_labels_one_way(
    runs: &HalfAnalyses,
    names: [&str; 2],
    distances: &DistanceSums,
    half: UnitHalf,
) -> Result<LabelsOneWay> {
    let other = half.other();
    let side = |model: usize| -> Result<Side> {
        let context = || format!("{} over the sampling units of {} number", names[model], other.name());
        let observation = (runs.observe[model])(other).with_context(context)?;
        Side::from_observation(names[model], observation, registry::default_policy(), runs.threads)
            .with_context(context)
    };
    let sides = [side(0)?, side(1)?];
    let (sides, partners) = (sides.each_ref(), distances.partner_indices());
    let in_place = compare::compare_sides(sides, None, false);
    let matched = compare::compare_sides(sides, Some((partners, 0)), false);
    let agreement = |get: fn(&HeadAgreement) -> CategoryAgreement, permuted: ShareByChance| MatchedAgreement {
        matched: get(&matched.agreement),
        in_place: get(&in_place.agreement),
        permuted,
    };
    let chance = matched.matched.context("heads were matched")?;
    Ok(LabelsOneWay {
        matched_over: half.name(),
        matched_sentences: distances.sentences,
        labelled_sentences: sides[0].context.corpus.sentences,
        moved: chance.moved,
        labels: matched.labels_by_outcome,
        labels_in_place: in_place.labels_by_outcome,
        first_label: agreement(|heads| heads.first_label, chance.first_label),
        firm_labels: agreement(|heads| heads.firm_labels, chance.firm_labels),
        too_few_units: matched.too_few_units,
    })
}

fn write_labels(out: &mut Summary, ways: &[LabelsOneWay]) -> fmt::Result {
    writeln!(out)?;
    let mut table = plain_table();
    table.set_header(["matched over", "agreement on", "partners", "in place", "partners in random order"]);
    for way in ways {
        let LabelsOneWay { matched_over, matched_sentences, labelled_sentences, labels, labels_in_place, .. } = way;
        let [read, labelled] = [matched_sentences, labelled_sentences].map(|count| format_count(*count, "sentence"));
        let labelled_half = if *matched_over == UnitHalf::Even.name() { UnitHalf::Odd } else { UnitHalf::Even };
        let counts = |OutcomeCounts { kept, lost, gained, .. }: OutcomeCounts| {
            format!("{kept} kept, {lost} lost, {gained} gained")
        };
        let counts_in_words = match &way.too_few_units {
            Some(units) => format!("could not tell: {units}"),
            None => format!("{}; in place {}", counts(*labels), counts(*labels_in_place)),
        };
        writeln!(
            out,
            "Matched over the {matched_over} units ({read}), labelled over the {} ones ({labelled}): {counts_in_words}.",
            labelled_half.name()
        )?;
        for (name, MatchedAgreement { matched, in_place, permuted }) in
            [("first label", way.first_label), ("all firm labels", way.firm_labels)]
        {
            table.add_row([
                matched_over,
                name,
                &agreement_share(&matched),
                &agreement_share(&in_place),
                &chance_share_text(permuted),
            ]);
        }
    }
    writeln!(out)?;
    out.add_table(table);
    Ok(())
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
        let found = pair_heads(&sums, grid);
        assert_eq!(found.iter().map(|head| head.b.head).collect::<Vec<_>>(), [1, 0]);
        assert!(found[0].distance < 1e-6, "{found:?}");
        // 1 - √.5 for each row.
        assert!((found[0].distance_in_place - (1.0 - 0.5_f64.sqrt()).sqrt()).abs() < 1e-6, "{found:?}");
        // The odd half has no sentence, and keeps heads in their places.
        assert!(!found[0].halves_agree);
    }
}
