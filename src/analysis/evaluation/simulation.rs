//! Simulated coverage of 95 % intervals, rejection rates of tests at 5 %, and false discovery rates. The corpora are
//! drawn for heads with known accuracies. They are then processed like real corpora: sums by block, metrics, labels.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use rand::Rng;
use rand::distr::Distribution;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Beta, LogNormal};

use super::results::Results;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::Visibility;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::observer::new_observer;
use crate::sequences::fold::words::FromToken;
use crate::stats::block_test::{Estimate, Scale};
use crate::stats::blocks::{BLOCKS, Blocks};
use crate::stats::interval::Interval;
use crate::studies::patterns::attention::sums::{AttentionBlock, AttentionSums};
use crate::studies::patterns::attention::tokens::TokenSums;
use crate::studies::patterns::dependency::RelationMetrics;
use crate::studies::patterns::dependency::arcs::{
    AgreementCounts, BASELINE_OFFSET_COUNT, OFFSET_CLASS_COUNT, RelationSums, ScoredArc,
};
use crate::studies::patterns::dependency::section::Relations;
use crate::studies::patterns::dependency::sums::{DependencySums, RelationKey};
use crate::studies::registry::{default_policy, find_study};
use crate::study::ObservedPass;
use crate::study::labels::evidence::{Comparison, Direction};
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::section::downcast_section;

/// A kind of simulated sentence, such as short and easy ones.
struct SentenceKind {
    /// The share of the corpus's sentences that are of this kind.
    share: f64,
    /// The range of the number of words with a relation in a sentence of this kind.
    words: RangeInclusive<u64>,
    /// How far the accuracy of every head and of the offset baseline is above average in sentences of this kind.
    accuracy_shift: f64,
}

/// The two kinds of simulated sentences: short and easy ones, long and hard ones.
///
/// Weighted by words, the mean `accuracy_shift` is 0 (0.6 x 1 x 0.06 = 0.4 x 3 x 0.03), so a head has its given
/// accuracy over all words. A sentence has 0.6 x 1 + 0.4 x 3 = 1.8 words with a relation on average.
const SENTENCE_KINDS: [SentenceKind; 2] = [
    SentenceKind { share: 0.6, words: 0..=2, accuracy_shift: 0.06 },
    SentenceKind { share: 0.4, words: 1..=5, accuracy_shift: -0.03 },
];

/// Sum of the two parameters of the beta distribution from which a head's accuracy in a sentence is drawn. Two
/// words of one sentence have outcomes with a correlation of 1/(4 + 1).
const BETA_CONCENTRATION: f64 = 4.0;

/// The share of words for which a head attends to the same word as the offset baseline.
const COPIED_SHARE: f64 = 0.3;

/// The mean accuracy of the offset baseline.
const OFFSET_ACCURACY: f64 = 0.4;

/// The mean attention mass of head 0 on separators.
const MEAN_SEPARATOR_MASS: f64 = 0.6;

/// Index of the offset +1, which is the baseline.
const NEXT_OFFSET_INDEX: usize = BASELINE_OFFSET_COUNT / 2;
/// Index of the offset -1. It is right for a quarter of the words at which the offset +1 is wrong.
const PREVIOUS_OFFSET_INDEX: usize = NEXT_OFFSET_INDEX - 1;

/// Number of tokens in a simulated sentence; `words` of its words belong to a relation.
fn sentence_tokens(words: u64) -> u64 {
    5 + 3 * words
}

/// Largest deviation of a document's accuracies from their mean over documents. Each head and direction deviates by a
/// uniform draw between this value and its negative.
///
/// With documents of 52 sentences, standard errors over documents are then about twice the standard errors over
/// sentences, as in GUM's dev set.
const MAX_DEVIATION: f64 = 0.15;

struct Documents {
    /// Number of sentences in each document.
    sentences: Vec<u64>,
    /// The largest deviation of a document's accuracies from their mean over documents.
    max_deviation: f64,
}

impl Documents {
    /// Documents of one sentence each, whose accuracies do not deviate from each other.
    fn single_sentences(sentences: u64) -> Self {
        Self { sentences: vec![1; usize::try_from(sentences).unwrap()], max_deviation: 0.0 }
    }

    /// Draws documents with log-normal numbers of sentences, given the `median` and the standard `deviation` of the
    /// logarithm. Accuracies differ between documents.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 or more, and far below 2^64")]
    fn with_lognormal_sizes(documents: usize, median: f64, deviation: f64, rng: &mut ChaCha8Rng) -> Self {
        let size = LogNormal::new(f64::ln(median), deviation).expect("a deviation of 0 or more");
        Self {
            sentences: (0..documents).map(|_| size.sample(rng).ceil() as u64).collect(),
            max_deviation: MAX_DEVIATION,
        }
    }
}

/// Draws a probability for one sentence from a beta distribution with this `mean`.
fn draw_probability(mean: f64, rng: &mut ChaCha8Rng) -> f64 {
    Beta::new(mean * BETA_CONCENTRATION, (1.0 - mean) * BETA_CONCENTRATION).expect("a mean between 0 and 1").sample(rng)
}

/// The results on one simulated corpus; `accuracies[relation][head][direction]` are the true accuracies of its
/// heads.
fn simulate_corpus(
    documents: &Documents,
    accuracies: &[Vec<[f64; 2]>],
    policy: &Policy,
    rng: &mut ChaCha8Rng,
) -> Results {
    let heads = accuracies[0].len();
    let grid = HeadGrid { layers: 1, heads };
    let empty = AttentionBlock { heads: vec![TokenSums::default(); heads], ..AttentionBlock::default() };
    let mut attention = Blocks::new(empty);
    let mut relations = vec![vec![RelationSums::default(); accuracies.len()]; BLOCKS];
    let mut agreements = vec![AgreementCounts::default(); accuracies.len()];
    agreements.iter_mut().for_each(|agreement| agreement.resize_for_heads(heads));
    for (document, &sentences) in documents.sentences.iter().enumerate() {
        let number = document % BLOCKS;
        let mut apart = || rng.random_range(-1.0..=1.0) * documents.max_deviation;
        let of_separators = apart();
        // The deviations of the offset for each relation, and of each head in both directions.
        let of_relations: Vec<(f64, Vec<[f64; 2]>)> =
            accuracies.iter().map(|heads| (apart(), heads.iter().map(|_| [apart(), apart()]).collect())).collect();
        for _ in 0..sentences {
            let block = &mut attention[number];
            let kind = &SENTENCE_KINDS[usize::from(!rng.random_bool(SENTENCE_KINDS[0].share))];
            for (relation, accuracies) in accuracies.iter().enumerate() {
                let words = rng.random_range(kind.words.clone());
                let (offset_apart, heads_apart) = &of_relations[relation];
                if relation == 0 {
                    block.exposure.queries.add(sentence_tokens(words), true);
                    block.exposure.separator_queries.add(sentence_tokens(words), true);
                    block.heads[0].separator_mass += sentence_tokens(words) as f64
                        * draw_probability(MEAN_SEPARATOR_MASS + kind.accuracy_shift + of_separators, rng);
                }
                let of_offset = draw_probability(OFFSET_ACCURACY + kind.accuracy_shift + offset_apart, rng);
                let own = |accuracy: f64, apart: f64, rng: &mut ChaCha8Rng| {
                    draw_probability(
                        (accuracy - COPIED_SHARE * OFFSET_ACCURACY) / (1.0 - COPIED_SHARE)
                            + kind.accuracy_shift
                            + apart,
                        rng,
                    )
                };
                let of_heads: Vec<[f64; 2]> = accuracies
                    .iter()
                    .zip(heads_apart)
                    .map(|(both, apart)| [0, 1].map(|direction| own(both[direction], apart[direction], rng)))
                    .collect();
                let sums = &mut relations[number][relation];
                sums.sentences += u64::from(words > 0);
                for _ in 0..words {
                    let next = rng.random_bool(of_offset);
                    let elsewhere = |previous| if previous { PREVIOUS_OFFSET_INDEX } else { OFFSET_CLASS_COUNT - 1 };
                    let place = if next { NEXT_OFFSET_INDEX } else { elsewhere(rng.random_bool(0.25)) };
                    let arc = ScoredArc {
                        dependent: 0,
                        head: 1,
                        offset_class: place,
                        has_upos: false,
                        cue: None,
                        relations: Vec::new(),
                    };
                    sums.count_arc(&arc, heads);
                    for (head, chances) in of_heads.iter().enumerate() {
                        for (direction, &chance) in chances.iter().enumerate() {
                            let right = if rng.random_bool(COPIED_SHARE) { next } else { rng.random_bool(chance) };
                            sums.hits[head][direction] += u64::from(right);
                            agreements[relation].places[head][direction][place] += u64::from(right);
                        }
                    }
                }
            }
        }
    }
    let key = |place: usize| RelationKey { name: format!("r{place}"), side: None };
    let names: BTreeMap<RelationKey, usize> = (0..accuracies.len()).map(|place| (key(place), place)).collect();
    let mut of_attention = AttentionSums::new(grid, Visibility::ALL);
    of_attention.blocks = attention;
    let attention = new_observer(ByLayerClass::single_class(of_attention));
    let dependency = new_observer(DependencySums::from_blocks(grid, FromToken::Mean, names, relations, agreements));
    let seen = |sums| vec![ObservedPass { sums, left_out_sentences: 0 }];
    let observed = [
        (find_study("attention").unwrap(), seen(&*attention)),
        (find_study("dependency").unwrap(), seen(&*dependency)),
    ];
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    Results::new(&observed, &context, policy)
}

/// Number of simulated corpora. Over 2,000 corpora, a rate of coverage or rejection has a standard error of 0.5 %.
const CORPUS_COUNT: u64 = 2000;

/// A rate for each simulated quantity, by the quantity's name, such as `accuracy of a good head`.
type RatesByQuantity = BTreeMap<&'static str, f64>;

/// `[coverage rates of the 95 % intervals, rates at which the block test at 5 % rejects a true margin]`, over many
/// simulated corpora.
fn simulate_rates(seed: u64, mut documents: impl FnMut(&mut ChaCha8Rng) -> Documents) -> [RatesByQuantity; 2] {
    let [good, poor] = [0.6, 0.35];
    let mass = {
        let weight = |kind: &SentenceKind| {
            let words = (kind.words.start() + kind.words.end()) as f64 / 2.0;
            kind.share * (5.0 + 3.0 * words)
        };
        let weighted: f64 =
            SENTENCE_KINDS.iter().map(|kind| weight(kind) * (MEAN_SEPARATOR_MASS + kind.accuracy_shift)).sum();
        weighted / SENTENCE_KINDS.iter().map(weight).sum::<f64>()
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let [mut covered, mut rejected] = [RatesByQuantity::new(), RatesByQuantity::new()];
    for _ in 0..CORPUS_COUNT {
        let documents = documents(&mut rng);
        let found = simulate_corpus(&documents, &[vec![[good, poor]]], &default_policy(), &mut rng);
        let relation = &downcast_section::<Relations>(&*found.sections[1].1).relations[0];
        let [first, second] = Direction::BOTH.map(|direction| {
            let versus = relation.by_head[0].versus_offset.get(direction).as_ref();
            (relation.by_head[0].ci95.get(direction), &versus.expect("both directions are seen").ci95)
        });
        for (name, direction, truth) in
            [("a good head", 0, good - OFFSET_ACCURACY), ("a poor head", 1, poor - OFFSET_ACCURACY)]
        {
            let comparison = relation.by_head[0].versus_offset.get(Direction::BOTH[direction]);
            let comparison = comparison.as_ref().expect("both directions are seen");
            let error = comparison.standard_error.expect("there are words in enough blocks");
            let &RelationMetrics { blocks, effective_blocks, .. } = relation;
            let (value, scale) = (comparison.difference, Scale::Real);
            let estimate = Estimate { value, standard_error: error, blocks, effective_blocks, scale };
            *rejected.entry(name).or_default() +=
                f64::from(u8::from(estimate.p_different(truth) <= 0.05)) / CORPUS_COUNT as f64;
        }
        let cases: [(&str, &Option<Interval>, f64); 7] = [
            ("accuracy of a good head", first.0, good),
            ("accuracy of a poor head", second.0, poor),
            ("held-out accuracy", &relation.ci95.heldout_accuracy, good),
            ("accuracy of the offset", &relation.ci95.baseline.accuracy, OFFSET_ACCURACY),
            ("difference of a good head", first.1, good - OFFSET_ACCURACY),
            ("difference of a poor head", second.1, poor - OFFSET_ACCURACY),
            ("separator_mass", found.estimates.ci95[0].get("separator_mass", None).unwrap(), mass),
        ];
        for (name, interval, truth) in cases {
            let interval = interval.expect("there are words in many blocks");
            let covers = interval.low() <= truth && truth <= interval.high();
            *covered.entry(name).or_default() += f64::from(u8::from(covers)) / CORPUS_COUNT as f64;
        }
    }
    [covered, rejected]
}

/// Asserts that every rate is within `bounds`; `corpus` and `what` name the corpus and the rate in the message.
fn assert_rates_within(corpus: &str, what: &str, shares: RatesByQuantity, bounds: RangeInclusive<f64>) {
    for (name, share) in shares {
        println!("{corpus}, {name} {what}: {:.1} %", share * 100.0);
        assert!(bounds.contains(&share), "{name} is {what} {share} of the time, with {corpus}");
    }
}

/// Accepted coverage of 95 % intervals: the share of corpora in which the interval covers the true value.
const COVERAGE_BOUNDS: RangeInclusive<f64> = 0.93..=0.97;

/// Accepted share of corpora in which the block test at 5 % rejects a margin equal to the true value. An exact test
/// rejects 5 %.
const REJECTION_BOUNDS: RangeInclusive<f64> = 0.03..=0.07;

#[test]
fn intervals_and_tests_hold_with_as_few_words_as_are_tested() {
    // A sentence in each block, with 1.8 words on average: 115 words, and 100 are enough for a test.
    let [covered, rejected] = simulate_rates(64, |_| Documents::single_sentences(BLOCKS as u64));
    assert_rates_within("64 sentences", "covered", covered, COVERAGE_BOUNDS);
    assert_rates_within("64 sentences", "rejected", rejected, REJECTION_BOUNDS);
}

#[test]
fn intervals_and_tests_hold_in_a_corpus_of_a_thousand_sentences() {
    let [covered, rejected] = simulate_rates(1000, |_| Documents::single_sentences(1000));
    assert_rates_within("1,000 sentences", "covered", covered, COVERAGE_BOUNDS);
    assert_rates_within("1,000 sentences", "rejected", rejected, REJECTION_BOUNDS);
}

#[test]
fn intervals_and_tests_hold_with_few_long_documents() {
    // As many documents as GUM's dev set has, with sizes like theirs: 23 to 169 sentences.
    let [covered, rejected] = simulate_rates(30, |rng| Documents::with_lognormal_sizes(30, 47.0, 0.47, rng));
    assert_rates_within("30 documents", "covered", covered, COVERAGE_BOUNDS);
    assert_rates_within("30 documents", "rejected", rejected, REJECTION_BOUNDS);
}

#[test]
fn intervals_and_tests_hold_with_many_short_documents() {
    // As many documents as EWT's dev set has, with sizes like theirs: 1 to 88 sentences.
    let [covered, rejected] = simulate_rates(318, |rng| Documents::with_lognormal_sizes(318, 4.3, 0.87, rng));
    assert_rates_within("318 documents", "covered", covered, COVERAGE_BOUNDS);
    assert_rates_within("318 documents", "rejected", rejected, REJECTION_BOUNDS);
}

#[test]
fn the_block_test_holds_with_hardly_more_blocks_than_it_needs() {
    // Four sentences in five have words: about 29 of 36, where 20 are enough, with 65 words.
    let [_, rejected] = simulate_rates(36, |_| Documents::single_sentences(36));
    assert_rates_within("36 sentences", "rejected", rejected, REJECTION_BOUNDS);
}

#[test]
fn false_discoveries_are_rare() {
    // Most heads are not ten points better than the offset; three in ten are just at that margin, which is the hardest case,
    // one is little above it, and one far.
    const TRUE_DIFFERENCES: [f64; 10] = [0.1, 0.1, 0.1, 0.05, 0.0, 0.0, -0.1, -0.2, 0.15, 0.3];
    const HEAD_COUNT: usize = 10;
    // In f64 0.4 + 0.1 less 0.4 is 0.1 and a little more.
    const MARGIN: f64 = 0.1 + 1e-9;
    let accuracies: Vec<Vec<[f64; 2]>> = (0..8)
        .map(|relation| {
            let difference =
                |head: usize, direction: usize| TRUE_DIFFERENCES[(head + 5 * direction + relation) % HEAD_COUNT];
            (0..HEAD_COUNT).map(|head| [0, 1].map(|direction| OFFSET_ACCURACY + difference(head, direction))).collect()
        })
        .collect();
    let policy = default_policy();
    let most = policy.thresholds().find(|threshold| threshold.name == "label_q").unwrap();
    let most = policy.rule(most).expect("significance is asked by default");
    let is_true = |relation: usize, head: usize, direction: usize| {
        accuracies[relation][head][direction] > OFFSET_ACCURACY + MARGIN
    };
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut false_tests, mut false_labels, mut power) = (0.0, 0.0, 0.0);
    let corpora = 200;
    for _ in 0..corpora {
        let found = simulate_corpus(&Documents::single_sentences(300), &accuracies, &policy, &mut rng);
        let (mut discoveries, mut wrong) = (0, 0);
        for (relation, found) in downcast_section::<Relations>(&*found.sections[1].1).relations.iter().enumerate() {
            for (test, Comparison { q, .. }) in found.offset_comparisons().enumerate() {
                if q.is_some_and(|q| q <= most) {
                    discoveries += 1;
                    wrong += i32::from(!is_true(relation, test / 2, test % 2));
                }
            }
        }
        false_tests += f64::from(wrong) / f64::from(discoveries.max(1));
        power += f64::from(discoveries - wrong) / (accuracies.len() * HEAD_COUNT * 2 / 5) as f64;
        let verdicts = found.verdicts(&policy);
        let labels = verdicts.iter().enumerate().flat_map(|(head, verdict)| {
            verdict.labels.iter().filter(|label| !label.borderline).filter_map(move |label| {
                let relation = label.label.strip_prefix("syntactic:r")?.parse().ok()?;
                let direction = Direction::BOTH.iter().position(|direction| Some(*direction) == label.direction)?;
                Some((relation, head, direction))
            })
        });
        let labels: Vec<bool> = labels.map(|(relation, head, direction)| is_true(relation, head, direction)).collect();
        assert!(!labels.is_empty());
        false_labels += labels.iter().filter(|label| !**label).count() as f64 / labels.len() as f64;
    }
    let [false_tests, false_labels, power] = [false_tests, false_labels, power].map(|sum| sum / f64::from(corpora));
    println!("false discoveries: {:.2} % of tests, {:.2} % of labels", false_tests * 100.0, false_labels * 100.0);
    println!("found: {:.1} % of what is true", power * 100.0);
    assert!(false_tests <= 0.06, "{false_tests} of the significant tests are false");
    assert!(false_labels <= 0.06, "{false_labels} of the labels are false");
    // A procedure that never finds anything would pass the above.
    assert!(power > 0.6, "{power}");
}
