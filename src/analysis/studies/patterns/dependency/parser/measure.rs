//! Fits parsers on each fold, scores them on the other, and compares them with simpler parsers.

use super::accuracies::{ParserAccuracy, ParserHits, Tally, accuracies, difference, share};
use super::fit::{Evidence, Fitted, PENALTY, TOLERANCE, on_folds};
use super::graph::likeliest;
use super::lexical::{Lexical, LexicalChoice, LexicalFit, LexicalSentence, Space};
use super::section::{FitReport, HeadWeights, LayerPart, PARSERS, ParserReport, RelationAccuracy, SimpleAccuracies};
use super::sentence::{Gold, KeptSentence, KeptWord};
use super::sums::ParserSums;
use crate::corpus::relation::ALL;
use crate::model::grid::HeadGrid;
use crate::stats::blocks::PerBlock;
use crate::studies::patterns::dependency::SimpleParsers;
use crate::studies::patterns::dependency::sums::DependencySums;
use crate::study::labels::evidence::ByDirection;
use crate::study::metrics::estimates::EstimationContext;

struct Plan<'a> {
    name: String,
    sums: &'a ParserSums,
    evidence: Evidence,
}

/// A parser fitted on each fold, with the count of its right predictions in the other fold.
struct Parsed {
    fits: [Fitted; 2],
    tally: Tally,
}

/// Returns the parsers to fit: those on attention or distances, followed by one without each layer.
fn plans<'a>(trained: &'a ParserSums, untrained: &'a ParserSums) -> Vec<Plan<'a>> {
    let HeadGrid { layers, heads } = trained.grid;
    let all = || (0..layers * heads).collect::<Vec<_>>();
    let plan = |name: &str, sums, heads, distances| Plan {
        name: name.to_owned(),
        sums,
        evidence: Evidence { heads, distances },
    };
    let [attention, _, distances, both, fresh, ..] = PARSERS;
    let without = |layer: usize| {
        let others = all().into_iter().filter(|head| head / heads != layer).collect();
        plan(&format!("without L{layer}"), trained, others, false)
    };
    let whole = [
        plan(attention, trained, all(), false),
        plan(distances, trained, Vec::new(), true),
        plan(both, trained, all(), true),
        plan(fresh, untrained, all(), false),
    ];
    whole.into_iter().chain((0..layers).map(without)).collect()
}

fn parsed(plans: &[Plan<'_>], context: &EstimationContext) -> Vec<Parsed> {
    let halves = on_folds(context.threads, plans.len(), |plan, fold| {
        let Plan { sums, evidence, .. } = &plans[plan];
        let fitted = Fitted::new(&sums.in_fold(fold), evidence);
        let tally = Tally::new(&fitted.parser, &sums.in_fold(1 - fold));
        (fitted, tally)
    });
    let parsed = |[(even, on_odd), (odd, on_even)]: [(Fitted, Tally); 2]| Parsed {
        fits: [even, odd],
        tally: on_odd.and(&on_even),
    };
    halves.into_iter().map(parsed).collect()
}

/// Returns why no parser can be fitted and scored. `None` if one can.
fn hindrance(sums: &ParserSums) -> Option<String> {
    if sums.sentences.is_empty() {
        return Some("no sentence of the sample has a dependency tree".to_owned());
    }
    let arcs = |sentence: &KeptSentence| sentence.words.iter().filter(|word| word.scored).count();
    let of_fold = |fold| sums.in_fold(fold).into_iter().map(arcs).sum::<usize>();
    let parity = match [of_fold(0), of_fold(1)] {
        [0, 0] => return Some("no word of the sample has another word for its head".to_owned()),
        [0, _] => "even",
        [_, 0] => "odd",
        _ => return None,
    };
    Some(format!(
        "no word in blocks of {parity} number has another word for its head, so there is nothing to fit on or to score on: the \
         sample is too small, or all of it is in few documents"
    ))
}

impl ParserReport {
    /// Measures parsers from the sums of the trained and the untrained model, and of single heads (`arcs`) on these sentences.
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
            kept_bytes: sentences.clone().chain(untrained.sentences.values()).map(KeptSentence::bytes).sum(),
            none: hindrance(trained),
            penalty: PENALTY,
            tolerance: TOLERANCE,
            ..Self::default()
        };
        if report.none.is_some() {
            return report;
        }
        let plans = plans(trained, untrained);
        let parsed = parsed(&plans, context);
        let lexical = lexical(trained, context);
        let simple = |relation: &str| SimpleParsers::new(arcs, relation, context.grid.count());
        let attention = &parsed[0];
        let is_root = |sentence: &KeptSentence| sentence.words.iter().filter(|word| word.gold == Gold::Root).count();
        let fits = plans
            .iter()
            .zip(&parsed)
            .flat_map(|(plan, parsed)| FitReport::of_folds(&plan.name, parsed.fits.each_ref().map(|fit| fit.course)));
        let of_words =
            lexical.iter().flat_map(|(fits, _)| FitReport::of_folds(PARSERS[1], fits.each_ref().map(|fit| fit.course)));
        Self {
            words: total(&hits_of(&attention.tally, ALL)),
            roots: sentences.filter(|sentence| sentence.words.len() > 1).map(is_root).sum::<usize>() as u64,
            root_accuracy: share(&attention.tally.roots.right, &attention.tally.roots.words),
            tree_share: share(&attention.tally.trees.right, &attention.tally.trees.words),
            accuracies: accuracies_on_all(&parsed[..4], lexical.as_ref().map(|(_, tally)| tally), &simple(ALL)),
            relations: relations(&attention.tally, simple),
            layers: layers(attention, &parsed[4..]),
            heads: weights(attention, context.grid),
            ridges: lexical.iter().flat_map(|(fits, _)| fits.each_ref().map(|fit| fit.ridge)).collect(),
            fits: fits.chain(of_words).collect(),
            ..report
        }
    }
}

/// Converts a sentence for the baseline. The candidates for each word's syntactic head are all other words and the root.
fn lexical_sentence(sentence: &KeptSentence) -> LexicalSentence<'_> {
    let root = sentence.words.len();
    let choice = |(word, kept): (usize, &KeptWord)| {
        let candidates: Vec<usize> = (0..=root).filter(|&node| node != word).collect();
        let target = kept.gold.node(root).map(|gold| gold - usize::from(gold > word));
        LexicalChoice { word, candidates, targets: target.into_iter().collect() }
    };
    LexicalSentence {
        block: sentence.block,
        words: sentence.words.iter().map(|word| &*word.tokens).collect(),
        choices: sentence.words.iter().enumerate().map(choice).collect(),
    }
}

/// Fits the baseline of distances and embeddings on each fold and scores it on the other. `None` without embeddings.
fn lexical(sums: &ParserSums, context: &EstimationContext) -> Option<([LexicalFit; 2], Tally)> {
    let sentences: Vec<LexicalSentence<'_>> = sums.sentences.values().map(lexical_sentence).collect();
    let words = [0, 1].map(|fold| {
        let own = sentences.iter().filter(|sentence| sentence.block % 2 == fold);
        own.flat_map(|sentence| sentence.words.iter().copied()).collect()
    });
    let spaces = Space::of_folds(&sums.embeddings, &words, context)?;
    let Lexical { fits, scores } = Lexical::new((&sums.embeddings, &spaces), &sentences, context);
    let heads_of = |scores: Vec<Vec<f64>>| {
        let of_word = |(word, mut scores): (usize, Vec<f64>)| {
            // Reinserts the word itself, which is not among its candidates.
            scores.insert(word, f64::NEG_INFINITY);
            likeliest(word, &scores)
        };
        scores.into_iter().enumerate().map(of_word).collect()
    };
    Some((fits, Tally::of(sums.sentences.values().zip(scores.into_iter().map(heads_of)))))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of words")]
fn total(hits: &ParserHits) -> u64 {
    hits.words.iter().sum::<f64>() as u64
}

/// Returns the counts of a relation, 0 if it is missing: `all` is missing if every word is punctuation.
fn hits_of(tally: &Tally, relation: &str) -> ParserHits {
    tally.relations.get(relation).cloned().unwrap_or_default()
}

fn accuracies_on_all(parsed: &[Parsed], lexical: Option<&Tally>, simple: &SimpleParsers) -> Vec<ParserAccuracy> {
    let mut right: Vec<Option<PerBlock>> =
        parsed.iter().map(|parsed| Some(hits_of(&parsed.tally, ALL).right)).collect();
    right.insert(1, lexical.map(|tally| hits_of(tally, ALL).right));
    right.extend([simple.head, simple.offset, Some(simple.next), simple.tags]);
    accuracies(&PARSERS, &right, &hits_of(&parsed[0].tally, ALL).words)
}

fn relations(tally: &Tally, simple: impl Fn(&str) -> SimpleParsers) -> Vec<RelationAccuracy> {
    let of = |(name, hits): (&String, &ParserHits)| {
        let simple = simple(name);
        let of_rule = |right: Option<PerBlock>| right.and_then(|right| share(&right, &hits.words).accuracy);
        let [best_head, offset, tags] = [simple.head, simple.offset, simple.tags].map(of_rule);
        RelationAccuracy {
            relation: name.clone(),
            words: total(hits),
            share: share(&hits.right, &hits.words),
            beside: SimpleAccuracies { best_head, offset, tags },
        }
    };
    let mut relations: Vec<RelationAccuracy> = tally.relations.iter().map(of).collect();
    relations.sort_by(|a, b| b.words.cmp(&a.words).then_with(|| a.relation.cmp(&b.relation)));
    relations
}

fn layers(attention: &Parsed, without: &[Parsed]) -> Vec<LayerPart> {
    let whole = hits_of(&attention.tally, ALL);
    let of = |(layer, parsed): (usize, &Parsed)| {
        let right = hits_of(&parsed.tally, ALL).right;
        let lost = difference(&whole.right, &right, &whole.words);
        LayerPart { layer, without: share(&right, &whole.words).accuracy, lost }
    };
    let some = whole.words.iter().any(|&words| words > 0.0);
    without.iter().enumerate().filter(|_| some).map(of).collect()
}

fn weights(attention: &Parsed, grid: HeadGrid) -> Vec<HeadWeights> {
    let [even, odd] = &attention.fits;
    let both = even.standardised.iter().zip(&odd.standardised);
    let of = |(place, (even, odd)): (usize, (&[f64; 2], &[f64; 2]))| HeadWeights {
        place: grid.place(place),
        weight: ByDirection::new(|direction| f64::midpoint(even[direction], odd[direction])),
    };
    both.enumerate().map(of).collect()
}
