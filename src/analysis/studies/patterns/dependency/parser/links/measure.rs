//! Fits each model of links on one fold, scores it on the other fold, and compares it with rules that use no attention.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::zip;

use super::kept_links::{KeptLinks, LinkEvidence, LinkedSequence, scores_pairs};
use super::models::{ChoiceModel, ContactModel, chooses_target};
use super::section::{LinkFit, LinkParser, LinkParserResults, LinkWeights, PAIR_MODELS, TARGET_MODELS, attention_lead};
use super::sums::LinkParserSums;
use crate::stats::blocks::{BLOCKS, PerBlock};
use crate::studies::patterns::dependency::parser::accuracies::{ParserAccuracy, measure_accuracies};
use crate::studies::patterns::dependency::parser::fit::map_folds;
use crate::studies::patterns::dependency::parser::lexical_baseline::{
    EmbeddingSpace, LexicalBaseline, LexicalSentence,
};
use crate::studies::patterns::dependency::parser::optimum::FitRecord;
use crate::study::instruments::fold_scores::{FoldScores, HitCounts};
use crate::study::instruments::linked::block::{LinkBlock, LinkHits, best_head};
use crate::study::instruments::linked::key::LinkKey;
use crate::study::instruments::linked::pairs::{LinkedPairs, PairsByDistance};
use crate::study::instruments::linked::rules::{
    ClassRules, PositionRule, SAME_CLASS_RULES, commonest_classes, first_best,
};
use crate::study::metrics::estimates::EstimationContext;

/// Minimum number of scored sources or linked pairs for a fit. With 100, the standard error of a share is at most 5 points.
const MIN_FITTED_ITEMS: u64 = 100;

/// Links of one type in all sequences, each with its sequence.
type LinksOfType<'a> = Vec<(&'a LinkedSequence, &'a KeptLinks)>;

/// Fitted models that choose a target without word embeddings: the transformer whose attention they use (0: trained, 1:
/// untrained), and their regressors.
const TARGET_MODEL_PLANS: [(usize, LinkEvidence); 4] = [
    (0, LinkEvidence { has_heads: true, has_distances: false }),
    (0, LinkEvidence { has_heads: false, has_distances: true }),
    (0, LinkEvidence { has_heads: true, has_distances: true }),
    (1, LinkEvidence { has_heads: true, has_distances: false }),
];

/// Returns the links of one type in all sequences.
fn links_of_type<'a>(sums: &'a LinkParserSums, key: &LinkKey) -> LinksOfType<'a> {
    let of_sequence = |sequence: &'a LinkedSequence| {
        sequence.links.iter().filter(|links| links.key == *key).map(move |links| (sequence, links))
    };
    sums.sequences.values().flat_map(of_sequence).collect()
}

/// Returns the links in sequences of one fold.
fn links_in_fold<'a>(of_type: &LinksOfType<'a>, fold: usize) -> Vec<&'a KeptLinks> {
    of_type.iter().filter(|(sequence, _)| sequence.block % 2 == fold).map(|(_, links)| *links).collect()
}

/// Sums `number` over the links of each jackknife block.
fn sum_per_block(of_type: &LinksOfType<'_>, number: impl Fn(&LinkedSequence, &KeptLinks) -> f64) -> PerBlock {
    let mut sums = [0.0; BLOCKS];
    of_type.iter().for_each(|(sequence, links)| sums[sequence.block] += number(sequence, links));
    sums
}

/// Fits each model on each fold with `fit`. Returns both fits, and the number of right choices in the other fold per
/// jackknife block, counted by `right`.
fn fit_and_score<M: Send + Sync>(
    of_models: &[&LinksOfType<'_>],
    context: &EstimationContext,
    fit: impl Fn(usize, &[&KeptLinks]) -> M + Sync,
    right: impl Fn(&M, &KeptLinks) -> u64 + Sync,
) -> Vec<([M; 2], PerBlock)> {
    let folds = map_folds(context.threads, of_models.len(), |model, fold| {
        let fitted = fit(model, &links_in_fold(of_models[model], fold));
        let elsewhere = |sequence: &LinkedSequence, links: &KeptLinks| {
            if sequence.block % 2 == fold { 0.0 } else { right(&fitted, links) as f64 }
        };
        let by_block = sum_per_block(of_models[model], elsewhere);
        (fitted, by_block)
    });
    let join = |[(even, on_odd), (odd, on_even)]: [(M, PerBlock); 2]| {
        ([even, odd], std::array::from_fn(|block| on_odd[block] + on_even[block]))
    };
    folds.into_iter().map(join).collect()
}

impl LinkParserResults {
    /// Fits and scores the models of each type of links, for the trained and the untrained model.
    pub fn new(trained: &LinkParserSums, untrained: &LinkParserSums, context: &EstimationContext) -> Self {
        let links = || trained.sequences.values().flat_map(|sequence| &sequence.links);
        let keys: BTreeSet<LinkKey> = links().map(|links| links.key.clone()).collect();
        let words = [0, 1].map(|fold| {
            let in_fold = trained.sequences.values().filter(|sequence| sequence.block % 2 == fold);
            in_fold.flat_map(|sequence| sequence.words.iter().map(Vec::as_slice)).collect()
        });
        let has_sources = links().any(|links| links.pairs.is_none());
        let spaces = if has_sources { EmbeddingSpace::fit_folds(&trained.embeddings, &words, context) } else { None };
        let of_key = |key: &LinkKey| {
            let of_models = [links_of_type(trained, key), links_of_type(untrained, key)];
            if scores_pairs(key) {
                LinkParser::from_pairs(key, &of_models, context)
            } else {
                LinkParser::from_sources(key, &of_models, (trained, spaces.as_ref()), context)
            }
        };
        Self {
            types: keys.iter().map(of_key).collect(),
            left_out_sequences: trained.seen - trained.sequences.len() as u64,
            kept_bytes: [trained, untrained].iter().flat_map(|sums| sums.sequence_bytes().into_values()).sum(),
        }
    }
}

/// Returns the reason why no model of links can be fitted, given the number of sources or linked pairs in each fold. `None`
/// if one can.
fn reason_not_fitted([even, odd]: [u64; 2], unit: &str) -> Option<String> {
    if even + odd < MIN_FITTED_ITEMS {
        return Some(format!("the sample has {} of its {unit}s, and {MIN_FITTED_ITEMS} are asked for", even + odd));
    }
    let parity = match (even, odd) {
        (0, _) => "even",
        (_, 0) => "odd",
        _ => return None,
    };
    Some(format!("none of its {unit}s is in blocks of {parity} number, so there is nothing to fit on or to score on"))
}

impl LinkParser {
    /// Creates the results of one type of links, without accuracies, lead and fits, which `with_models` sets.
    fn without_models(key: &LinkKey, of_type: &LinksOfType<'_>) -> Self {
        Self {
            name: key.name.to_string(),
            undirected: key.is_undirected,
            side: key.side,
            sentences: of_type.iter().filter(|(sequence, _)| sequence.is_first).count() as u64,
            ..Self::default()
        }
    }

    /// Sets `accuracies`, `lead` and `fits`. `records` has the name of each fitted model, with its fits on both folds.
    fn with_models<'a>(
        self,
        accuracies: Vec<ParserAccuracy>,
        records: impl Iterator<Item = (&'a str, [FitRecord; 2])>,
    ) -> Self {
        let fits = records.flat_map(|(name, records)| LinkFit::for_folds(name, records)).collect();
        Self { lead: attention_lead(&accuracies), accuracies, fits, ..self }
    }

    /// Fits and scores all models that choose the target of a source, for one type of links.
    fn from_sources(
        key: &LinkKey,
        [trained, fresh]: &[LinksOfType<'_>; 2],
        (sums, spaces): (&LinkParserSums, Option<&[EmbeddingSpace; 2]>),
        context: &EstimationContext,
    ) -> Self {
        let sources = sum_per_block(trained, |_, links| links.sources.len() as f64);
        let counts =
            [0, 1].map(|fold| links_in_fold(trained, fold).iter().map(|links| links.sources.len() as u64).sum::<u64>());
        let empty = Self { count: counts[0] + counts[1], ..Self::without_models(key, trained) };
        if let Some(why) = reason_not_fitted(counts, "scored source") {
            return Self { none: Some(why), ..empty };
        }
        let heads = context.grid.head_count();
        let of_plans = TARGET_MODEL_PLANS.map(|(model, _)| if model == 0 { trained } else { fresh });
        let models = fit_and_score(
            &of_plans,
            context,
            |plan, links| ChoiceModel::new(links, TARGET_MODEL_PLANS[plan].1, heads),
            ChoiceModel::count_hits,
        );
        let lexical = spaces.map(|spaces| {
            let sentences: Vec<LexicalSentence<'_>> =
                trained.iter().map(|(sequence, links)| sequence.to_lexical_sentence(links)).collect();
            LexicalBaseline::new((&sums.embeddings, spaces), &sentences, context)
        });
        let by_words = lexical.as_ref().map(|lexical| {
            let mut right = [0.0; BLOCKS];
            for ((sequence, links), scores) in trained.iter().zip(&lexical.scores) {
                let right_sources =
                    links.sources.iter().zip(scores).filter(|(source, scores)| chooses_target(source, scores));
                right[sequence.block] += right_sources.count() as f64;
            }
            right
        });
        let [attention, distances, both, untrained] = [0, 1, 2, 3].map(|plan| Some(models[plan].1));
        let fitted = [attention, by_words, distances, both, untrained];
        let right: Vec<Option<PerBlock>> = fitted.into_iter().chain(count_rule_hits(key, trained, heads)).collect();
        let accuracies = measure_accuracies(&TARGET_MODELS, &right, &sources);
        let names = [0, 2, 3, 4].map(|place| TARGET_MODELS[place]);
        let of_models = zip(names, &models).map(|(name, (fits, _))| (name, fits.each_ref().map(|fit| fit.record)));
        let of_words = lexical.iter().map(|lexical| (TARGET_MODELS[1], lexical.fits.each_ref().map(|fit| fit.record)));
        let [even, odd] = &models[0].0;
        let weights = |head: usize| {
            let weights_by_end = [0, 1]
                .map(|end| f64::midpoint(even.standardised_weights[head][end], odd.standardised_weights[head][end]));
            LinkWeights { place: context.grid.head_place(head), from: weights_by_end[0], to: Some(weights_by_end[1]) }
        };
        let ridges = lexical.iter().flat_map(|lexical| lexical.fits.each_ref().map(|fit| fit.ridge)).collect();
        let heads = (0..heads).map(weights).collect();
        Self { ridges, heads, ..empty.with_models(accuracies, of_models.chain(of_words)) }
    }

    /// Fits and scores all models that rank pairs of words, for one type of links. `fresh` has the untrained model's
    /// attention.
    fn from_pairs(key: &LinkKey, [trained, fresh]: &[LinksOfType<'_>; 2], context: &EstimationContext) -> Self {
        let per_pairs = |number: fn(&LinkedPairs) -> f64| {
            sum_per_block(trained, |_, links| links.pairs.as_ref().map_or(0.0, number))
        };
        let taken_pairs = per_pairs(|pairs| pairs.predicted_link_count() as f64);
        let folds = [links_in_fold(trained, 0), links_in_fold(trained, 1)];
        let linked = folds.each_ref().map(|links| {
            links.iter().flat_map(|links| &links.pairs).map(|pairs| pairs.linked_count() as u64).sum::<u64>()
        });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of pairs")]
        let empty = Self { count: taken_pairs.iter().sum::<f64>() as u64, ..Self::without_models(key, trained) };
        if let Some(why) = reason_not_fitted(linked, "linked pair") {
            return Self { none: Some(why), ..empty };
        }
        let heads = context.grid.head_count();
        let models = fit_and_score(
            &[trained, fresh],
            context,
            |_, links| ContactModel::new(links, heads),
            ContactModel::count_hits,
        );
        let best = folds.each_ref().map(|links| {
            let right = |head: &usize| links.iter().map(|links| u64::from(links.hits[*head][0])).sum();
            first_best(0..heads, right).expect("there are heads")
        });
        let by_head = sum_per_block(trained, |sequence, links| f64::from(links.hits[best[1 - sequence.block % 2]][0]));
        let separated = |links: &[&KeptLinks]| {
            let mut counts = PairsByDistance::default();
            links.iter().flat_map(|links| &links.pairs).for_each(|pairs| counts.add(pairs));
            counts
        };
        let of_folds = folds.each_ref().map(|links| separated(links));
        let orders =
            [of_folds[0].distances_by_linked_share(&of_folds[1]), of_folds[1].distances_by_linked_share(&of_folds[0])];
        let by_separation = sum_per_block(trained, |sequence, links| {
            separated(&[links]).expected_linked_count(&orders[sequence.block % 2])
        });
        let chance = per_pairs(LinkedPairs::expected_linked_count);
        let right = [models[0].1, models[1].1, by_head, by_separation, chance].map(Some);
        let accuracies = measure_accuracies(&PAIR_MODELS, &right, &taken_pairs);
        let records = zip(PAIR_MODELS, &models).map(|(name, (fits, _))| (name, fits.each_ref().map(|fit| fit.record)));
        let [even, odd] = &models[0].0;
        let weights = |head: usize| {
            let from = f64::midpoint(even.weights[head], odd.weights[head]);
            LinkWeights { place: context.grid.head_place(head), from, to: None }
        };
        Self { heads: (0..heads).map(weights).collect(), ..empty.with_models(accuracies, records) }
    }
}

/// Counts right choices per jackknife block by: best attention head, position rule, same-class rule, class rules, chance.
/// Each except chance is selected on one fold and scored on the other.
fn count_rule_hits(key: &LinkKey, trained: &LinksOfType<'_>, heads: usize) -> [Option<PerBlock>; 5] {
    let empty = LinkBlock { heads: vec![LinkHits::default(); heads], ..LinkBlock::default() };
    let mut blocks = vec![empty.clone(); BLOCKS];
    let mut words: BTreeMap<Box<str>, u64> = BTreeMap::new();
    for (sequence, links) in trained {
        let block = &mut blocks[sequence.block];
        links.sources.iter().for_each(|source| block.add_source(source));
        for (hits, &[from, to]) in block.heads.iter_mut().zip(&links.hits) {
            hits.right[0] += u64::from(from);
            hits.right[1] += u64::from(to);
        }
        let classes = sequence.classes.get(links.sentence.clone()).unwrap_or_default();
        classes.iter().for_each(|class| *words.entry(class.clone()).or_default() += 1);
    }
    let blocks: Vec<Option<&LinkBlock>> = blocks.iter().map(Some).collect();
    let scored = FoldScores::new(&blocks, &empty);
    let by_block = |hits: Option<HitCounts>| hits.map(|hits| hits.by_block);
    let commonest = commonest_classes(&words);
    let same_class =
        |sums: &LinkBlock| first_best(0..SAME_CLASS_RULES.len(), |&rule| sums.same_class[rule]).unwrap_or_default();
    let class_rules = || {
        scored.count_held_out_hits(
            |sums| ClassRules::choose_best(&sums.classes, &commonest),
            |sums, rules| rules.hit_count(&sums.classes),
        )
    };
    [
        by_block(
            scored.count_held_out_hits(|sums| best_head(sums, key.directions()), |sums, &best| sums.hit_count(best)),
        ),
        by_block(scored.count_held_out_hits(
            |sums| PositionRule::best_rule(&sums.places),
            |sums, rule| rule.hit_count(&sums.places),
        )),
        by_block(scored.count_held_out_hits(same_class, |sums, &rule| sums.same_class[rule])),
        if scored.total.classed > 0 { by_block(class_rules()) } else { None },
        Some(scored.per_block(|sums| sums.chance.value())),
    ]
}
