//! Fits each parser on one fold, scores it on the other fold, and compares it with simpler parsers.

use std::cmp::Reverse;

use itertools::Itertools;

use super::accuracies::{
    ParserAccuracy, ParserHits, ParserTally, SentencePrediction, measure_accuracies, measure_difference, measure_share,
};
use super::fit::{FittedParser, GRADIENT_TOLERANCE, RIDGE_PENALTY, map_folds};
use super::graph::likeliest_head;
use super::lexical_baseline::{EmbeddingSpace, LexicalBaseline, LexicalFit, LexicalSentence, WordCandidates};
use super::section::{FitReport, HeadWeights, LayerPart, PARSERS, ParserReport, RelationAccuracy, SimpleAccuracies};
use super::sentence::{GoldHead, KeptSentence, KeptWord};
use super::sums::ParserSums;
use crate::corpus::relation::POOLED_RELATION;
use crate::model::grid::HeadGrid;
use crate::stats::blocks::PerBlock;
use crate::studies::patterns::dependency::BaselineParsers;
use crate::studies::patterns::dependency::sums::DependencySums;
use crate::study::labels::evidence::ByDirection;
use crate::study::metrics::estimates::EstimationContext;

/// A parser to be fitted: its name and the evidence that it uses.
struct ParserPlan<'a> {
    name: String,
    /// Sentences with the attention of the trained or of the untrained model.
    sums: &'a ParserSums,
    /// Indices of the attention heads that the parser uses, ascending.
    heads: Vec<usize>,
    /// Whether the parser uses the distances between words.
    has_distances: bool,
}

/// A parser fitted on each fold, with counts of its predictions in the other fold.
struct ScoredParser {
    fits: [FittedParser; 2],
    tally: ParserTally,
}

/// Returns the parsers to be fitted: on attention, on distances, on both, on an untrained model's attention. Then, for each
/// layer, one without that layer's heads.
fn plan_parsers<'a>(trained: &'a ParserSums, untrained: &'a ParserSums) -> Vec<ParserPlan<'a>> {
    let HeadGrid { layers, heads } = trained.grid;
    let all = || (0..layers * heads).collect::<Vec<_>>();
    let plan =
        |name: &str, sums, heads, has_distances| ParserPlan { name: name.to_owned(), sums, heads, has_distances };
    let [attention, _, distances, both, fresh, ..] = PARSERS;
    let without = |layer: usize| {
        let others = all().into_iter().filter(|head| head / heads != layer).collect();
        plan(&format!("without L{layer}"), trained, others, false)
    };
    let with_all_layers = [
        plan(attention, trained, all(), false),
        plan(distances, trained, Vec::new(), true),
        plan(both, trained, all(), true),
        plan(fresh, untrained, all(), false),
    ];
    with_all_layers.into_iter().chain((0..layers).map(without)).collect()
}

/// Fits the planned parsers, and scores them.
fn fit_and_score(plans: &[ParserPlan<'_>], context: &EstimationContext) -> Vec<ScoredParser> {
    let folds = map_folds(context.threads, plans.len(), |plan, fold| {
        let ParserPlan { sums, heads, has_distances, .. } = &plans[plan];
        let fitted = FittedParser::new(&sums.sentences_in_fold(fold), heads, *has_distances);
        let predictions = fitted.parser.predict_sentences(&sums.sentences_in_fold(1 - fold));
        (fitted, predictions)
    });
    let parsed = |[(even, on_odd), (odd, on_even)]: [(FittedParser, Vec<SentencePrediction<'_>>); 2]| ScoredParser {
        fits: [even, odd],
        tally: ParserTally::new(on_odd.into_iter().chain(on_even)),
    };
    folds.into_iter().map(parsed).collect()
}

/// Returns the reason why no parser can be fitted and scored. `None` if one can.
fn reason_not_fitted(sums: &ParserSums) -> Option<String> {
    if sums.sentences.is_empty() {
        return Some("no sentence of the sample has a dependency tree".to_owned());
    }
    let has_arcs =
        |fold| sums.sentences_in_fold(fold).iter().flat_map(|sentence| &sentence.words).any(|word| word.scored);
    let parity = match [has_arcs(0), has_arcs(1)] {
        [false, false] => return Some("no word of the sample has another word for its head".to_owned()),
        [false, true] => "even",
        [true, false] => "odd",
        [true, true] => return None,
    };
    Some(format!(
        "no word in blocks of {parity} number has another word for its head, so there is nothing to fit on or to score on: the \
         sample is too small, or all of it is in few documents"
    ))
}

impl ParserReport {
    /// Fits and scores all parsers. `arcs` has the counts of single attention heads on the sampled sentences.
    pub fn new(
        trained: &ParserSums,
        untrained: &ParserSums,
        arcs: &DependencySums,
        context: &EstimationContext,
    ) -> Self {
        let sentences = trained.sentences.values();
        let has_arc = |sentence: &&KeptSentence| sentence.is_first && sentence.words.iter().any(|word| word.scored);
        let report = Self {
            sentences: sentences.clone().filter(has_arc).count() as u64,
            kept_bytes: sentences.clone().chain(untrained.sentences.values()).map(KeptSentence::attention_bytes).sum(),
            none: reason_not_fitted(trained),
            penalty: RIDGE_PENALTY,
            tolerance: GRADIENT_TOLERANCE,
            ..Self::default()
        };
        if report.none.is_some() {
            return report;
        }
        let plans = plan_parsers(trained, untrained);
        let parsed = fit_and_score(&plans, context);
        let lexical = fit_lexical_baseline(trained, context);
        let simple = |relation: &str| BaselineParsers::new(arcs, relation, context.grid.head_count());
        let attention = &parsed[0];
        let records = |parsed: &ScoredParser| parsed.fits.each_ref().map(|fit| fit.record);
        let of_plans = plans.iter().zip(&parsed).map(|(plan, parsed)| (&*plan.name, records(parsed)));
        let of_words = lexical.iter().map(|(fits, _)| (PARSERS[1], fits.each_ref().map(|fit| fit.record)));
        let fits = of_plans.chain(of_words).flat_map(|(name, records)| FitReport::for_folds(name, records));
        let words = sentences.filter(|sentence| sentence.words.len() > 1).flat_map(|sentence| &sentence.words);
        Self {
            words: scored_word_count(&relation_hits(&attention.tally, POOLED_RELATION)),
            roots: words.filter(|word| word.gold == GoldHead::Root).count() as u64,
            root_accuracy: measure_share(&attention.tally.roots.correct, &attention.tally.roots.words),
            tree_share: measure_share(&attention.tally.trees.correct, &attention.tally.trees.words),
            accuracies: pooled_accuracies(
                &parsed[..4],
                lexical.as_ref().map(|(_, tally)| tally),
                &simple(POOLED_RELATION),
            ),
            relations: relation_accuracies(&attention.tally, simple),
            layers: losses_by_layer(attention, &parsed[4..]),
            heads: mean_head_weights(attention, context.grid),
            ridges: lexical.iter().flat_map(|(fits, _)| fits.each_ref().map(|fit| fit.ridge)).collect(),
            fits: fits.collect(),
            ..report
        }
    }
}

/// Converts a sentence for the lexical baseline. A word's candidates are all other words and the root.
fn to_lexical_sentence(sentence: &KeptSentence) -> LexicalSentence<'_> {
    let root = sentence.words.len();
    let choice = |(word, kept): (usize, &KeptWord)| {
        let candidates: Vec<usize> = (0..=root).filter(|&node| node != word).collect();
        let target = kept.gold.node_index(root).map(|gold| gold - usize::from(gold > word));
        WordCandidates { word, candidates, targets: target.into_iter().collect() }
    };
    LexicalSentence {
        block: sentence.block,
        words: sentence.words.iter().map(|word| &*word.tokens).collect(),
        choices: sentence.words.iter().enumerate().map(choice).collect(),
    }
}

/// Fits the lexical baseline on each fold, and scores it on the other fold. `None` if there are no embeddings.
fn fit_lexical_baseline(sums: &ParserSums, context: &EstimationContext) -> Option<([LexicalFit; 2], ParserTally)> {
    let sentences: Vec<LexicalSentence<'_>> = sums.sentences.values().map(to_lexical_sentence).collect();
    let words = [0, 1].map(|fold| {
        let in_fold = sentences.iter().filter(|sentence| sentence.block % 2 == fold);
        in_fold.flat_map(|sentence| sentence.words.iter().copied()).collect()
    });
    let spaces = EmbeddingSpace::fit_folds(&sums.embeddings, &words, context)?;
    let LexicalBaseline { fits, scores } = LexicalBaseline::new((&sums.embeddings, &spaces), &sentences, context);
    let heads_of = |scores: Vec<Vec<f64>>| {
        let of_word = |(word, mut scores): (usize, Vec<f64>)| {
            // Reinserts the word itself, which is not among its candidates.
            scores.insert(word, f64::NEG_INFINITY);
            likeliest_head(word, &scores)
        };
        scores.into_iter().enumerate().map(of_word).collect()
    };
    Some((fits, ParserTally::new(sums.sentences.values().zip(scores.into_iter().map(heads_of)))))
}

/// Number of scored words over all blocks.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of words")]
fn scored_word_count(hits: &ParserHits) -> u64 {
    hits.words.iter().sum::<f64>() as u64
}

/// Returns a parser's counts on one relation; 0 if the relation is missing. Even `all` can be missing: in text of
/// punctuation only.
fn relation_hits(tally: &ParserTally, relation: &str) -> ParserHits {
    tally.relations.get(relation).cloned().unwrap_or_default()
}

/// Computes the accuracies of all parsers on the relation `all`, in the order of [`PARSERS`].
fn pooled_accuracies(
    parsed: &[ScoredParser],
    lexical: Option<&ParserTally>,
    simple: &BaselineParsers,
) -> Vec<ParserAccuracy> {
    let mut right: Vec<Option<PerBlock>> =
        parsed.iter().map(|parsed| Some(relation_hits(&parsed.tally, POOLED_RELATION).correct)).collect();
    right.insert(1, lexical.map(|tally| relation_hits(tally, POOLED_RELATION).correct));
    right.extend([simple.best_head, simple.best_offset, Some(simple.next_word), simple.best_tags]);
    measure_accuracies(&PARSERS, &right, &relation_hits(&parsed[0].tally, POOLED_RELATION).words)
}

/// Computes the accuracies for each relation, most frequent first, then by name. `simple` returns the simple parsers of
/// a relation by its name.
fn relation_accuracies(tally: &ParserTally, simple: impl Fn(&str) -> BaselineParsers) -> Vec<RelationAccuracy> {
    let accuracy = |(name, hits): (&String, &ParserHits)| {
        let simple = simple(name);
        let accuracy_of = |right: Option<PerBlock>| right.and_then(|right| measure_share(&right, &hits.words).accuracy);
        let [best_head, offset, tags] = [simple.best_head, simple.best_offset, simple.best_tags].map(accuracy_of);
        RelationAccuracy {
            relation: name.clone(),
            words: scored_word_count(hits),
            share: measure_share(&hits.correct, &hits.words),
            beside: SimpleAccuracies { best_head, offset, tags },
        }
    };
    tally.relations.iter().map(accuracy).sorted_by_key(|one| Reverse(one.words)).collect()
}

/// Computes the accuracy lost without each layer, given the parser on all layers and the parsers without one layer.
fn losses_by_layer(attention: &ScoredParser, without: &[ScoredParser]) -> Vec<LayerPart> {
    let with_all = relation_hits(&attention.tally, POOLED_RELATION);
    let part = |(layer, parsed): (usize, &ScoredParser)| {
        let right = relation_hits(&parsed.tally, POOLED_RELATION).correct;
        let lost = measure_difference(&with_all.correct, &right, &with_all.words);
        LayerPart { layer, without: measure_share(&right, &with_all.words).accuracy, lost }
    };
    let has_words = scored_word_count(&with_all) > 0;
    without.iter().enumerate().filter(|_| has_words).map(part).collect()
}

/// Averages each attention head's standardised weights over the fits on both folds.
fn mean_head_weights(attention: &ScoredParser, grid: HeadGrid) -> Vec<HeadWeights> {
    let [even, odd] = &attention.fits;
    let head = |place: usize| HeadWeights {
        place: grid.head_place(place),
        weight: ByDirection::new(|side| {
            f64::midpoint(even.standardised_weights[place][side], odd.standardised_weights[place][side])
        }),
    };
    (0..grid.head_count()).map(head).collect()
}
