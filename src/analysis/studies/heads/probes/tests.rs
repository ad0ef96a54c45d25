use std::num::NonZeroUsize;
use std::sync::Arc;

use itertools::Itertools;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::classifiers::{ClassWordCounts, FactorizedBlock, FeatureBlock, RIDGE};
use super::section::HeadProbe;
use super::sums::{BUCKETS, FormHash, task_names, word_classes};
use super::*;
use crate::corpus::{Annotation, Upos};
use crate::model::forward::WordEmbeddings;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::HeadView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::set::ObserverSet;
use crate::passes::observer::{Event, Observer};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::studies::heads::probes::section::TaskProbes;
use crate::studies::registry::default_policy;
use crate::study::section::{LateFact, Section, ViewContext};
use crate::study::{AnyStudy, ObservedPass};

pub(super) const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// A word as a test makes it: vectors of two numbers.
#[derive(Clone)]
pub(super) struct TestWord {
    pub form: String,
    pub upos: Option<Upos>,
    pub requested: Vec<Option<Box<str>>>,
    pub embedding: [f32; 2],
    pub contexts: [[f32; 2]; 2],
}

impl TestWord {
    pub(super) fn new(form: String, upos: Upos, embedding: [f32; 2], contexts: [[f32; 2]; 2]) -> Self {
        Self { form, upos: Some(upos), requested: Vec::new(), embedding, contexts }
    }
}

/// Shows sentences, in packs of three, to an observer; the number of each is its place from `first` on.
pub(super) fn shown(observer: Box<dyn Observer>, first: u64, sentences: &[Vec<TestWord>]) -> Box<dyn Observer> {
    let table: Vec<f32> =
        [[0.0; 2]].into_iter().chain(sentences.iter().flatten().map(|word| word.embedding)).flatten().collect();
    let embeddings = Some(WordEmbeddings::new(Arc::new(table), 2));
    let mut panel = ObserverSet::new(vec![observer]);
    panel.begin_pass(&PassSetup { embeddings, ..PassSetup::default() });
    let (mut id, mut index) = (0, first);
    for pack in sentences.chunks(3) {
        let mut sequences: Vec<Sequence> = Vec::new();
        for words in pack {
            let mut sequence = Sequence { tree: None, ..sentence(index, words.len(), "dep") };
            for (token, word) in (1..).zip(words) {
                id += 1;
                sequence.ids[token] = id;
                sequence.forms.push(word.form.clone());
                let requested = word.requested.clone().into();
                sequence.annotations.push(Annotation { upos: word.upos, requested, ..Annotation::default() });
            }
            index += 1;
            sequences.push(sequence);
        }
        panel.begin_pack(sequences.iter());
        let around = |rows: Vec<[f32; 2]>| [vec![[9.0; 2]], rows, vec![[-9.0; 2]]].concat().concat();
        for (number, words) in pack.iter().enumerate() {
            panel.observe(
                number,
                Event::HiddenStates {
                    layer: 0,
                    states: Rows::new(&around(words.iter().map(|word| word.embedding).collect()), 2),
                },
            );
        }
        for (number, (words, sequence)) in pack.iter().zip(&sequences).enumerate() {
            let weights = vec![0.0; (words.len() + 2).pow(2)];
            for head in 0..2 {
                let contexts = around(words.iter().map(|word| word.contexts[head]).collect());
                let attention = AttentionView::new(0, head, words.len() + 2, &weights);
                let view = HeadView { context: Some(Rows::new(&contexts, 2)), ..attention.into() };
                panel.observe_head(number, sequence, view);
            }
        }
        panel.end_pack();
    }
    panel.into_observers().remove(0)
}

/// The sums of sentences, and the scores that follow.
fn run(sentences: &[Vec<TestWord>], requested: &[String]) -> [Box<dyn Observer>; 2] {
    let subject = Subject { probes: requested, ..Subject::new(GRID, FromToken::Mean, &|_| None) };
    let sums = shown(AnyStudy::passes(&LinearProbes)[0].make_observer(&subject), 0, sentences);
    let own = [ObservedPass { sums: &*sums, left_out_sentences: 0 }];
    let scores = shown(
        AnyStudy::passes(&LinearProbes)[1]
            .make_observer(&Subject { first_stage_sums: ObservedPasses(&own), ..subject }),
        0,
        sentences,
    );
    [sums, scores]
}

/// The results of the probes of all tasks.
pub(super) fn probed(sentences: &[Vec<TestWord>], requested: &[String]) -> Vec<TaskProbes> {
    let both = run(sentences, requested);
    let observed = both.each_ref().map(|sums| ObservedPass { sums: &**sums, left_out_sentences: 0 });
    let context = EstimationContext::new(GRID, NonZeroUsize::MIN);
    let (_, mut found) = AnyStudy::measure(&LinearProbes, &ObservedPasses(&observed), &context);
    found.add_late_fact(&LateFact::Policy(&default_policy()));
    assert_eq!(found.defect(GRID), None);
    downcast_section::<ProbesSection>(&*found).probes.clone()
}

fn gain(head: &HeadProbe) -> f64 {
    head.gain.expect("there are enough words")
}

const TAGS: [Upos; 3] = [Upos::Adj, Upos::Noun, Upos::Verb];

/// The corners of a triangle, one for each tag.
const CORNERS: [[f32; 2]; 3] = [[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]];

fn noise(rng: &mut ChaCha8Rng) -> [f32; 2] {
    [0, 1].map(|_| rng.random_range(-1.0..1.0))
}

fn near(corner: usize, rng: &mut ChaCha8Rng) -> [f32; 2] {
    let noise = noise(rng);
    [0, 1].map(|axis| CORNERS[corner][axis] + 0.5 * noise[axis])
}

/// Sentences of six words, each made of its tag and its form.
fn corpus(
    count: usize,
    rng: &mut ChaCha8Rng,
    word: impl Fn(usize, usize, &mut ChaCha8Rng) -> TestWord,
) -> Vec<Vec<TestWord>> {
    let mut one = || (0..6).map(|_| (rng.random_range(0..3), rng.random_range(0..40))).collect::<Vec<_>>();
    let drawn: Vec<_> = (0..count).map(|_| one()).collect();
    drawn.into_iter().map(|words| words.into_iter().map(|(tag, form)| word(tag, form, rng)).collect()).collect()
}

/// Each word's embedding encodes the tag of the previous word: the next word's embedding predicts a word's tag, its own does not.
#[test]
fn neighbours_tell_what_the_word_does_not() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut sentence = || -> Vec<TestWord> {
        let tags: Vec<usize> = (0..6).map(|_| rng.random_range(0..3)).collect();
        let word = |at: usize| {
            let told = if at == 0 { 0 } else { tags[at - 1] };
            let contexts = [noise(&mut rng), noise(&mut rng)];
            TestWord::new(String::new(), TAGS[tags[at]], near(told, &mut rng), contexts)
        };
        (0..6).map(word).collect()
    };
    let sentences: Vec<_> = (0..120).map(|_| sentence()).collect();
    let upos = probed(&sentences, &[]).remove(0);
    let [own, both] = [upos.embedding, upos.neighbours].map(|share| share.accuracy.unwrap());
    // The last word has no next one: a third of a sixth is right by chance.
    assert!(own < 0.45 && (0.8..0.93).contains(&both), "{own} {both}");
    assert!((upos.neighbours_gain.unwrap() - (both - own)).abs() < 1e-12);
    let head = &upos.heads[0];
    assert!((head.over_neighbours.unwrap() - (head.together.unwrap() - both)).abs() < 1e-12);
}

#[test]
fn a_discriminant_of_two_classes_by_hand() {
    // 0 and 2 against 4 and 6: the means are 1 and 5, the variance within is (1 + 1 + 1 + 1) / (4 - 2) = 2.
    let counts = ClassWordCounts::new(&[2, 0, 2]);
    assert_eq!(counts.classes, [0, 2]);
    let linear = FeatureBlock::new(vec![56.0], &[vec![2.0], vec![10.0]], &counts).classifier(&counts).unwrap();
    // Scaled by 1/sqrt 2 the means are ∓sqrt 2 about 3, the covariance is 1 and the ridge.
    let variance = 1.0 + RIDGE;
    let expected = [-1.0 / variance, 1.0 / variance];
    for (class, expected) in expected.into_iter().enumerate() {
        assert!((linear.weights[class] - expected).abs() < 1e-14);
        let bias = 0.5_f64.ln() - 1.0 / variance - 3.0 * expected;
        assert!((linear.bias[class] - bias).abs() < 1e-14);
    }
    // Half way between the means both are as good.
    let score = |x: f64, class: usize| x * linear.weights[class] + linear.bias[class];
    assert!((score(3.0, 0) - score(3.0, 1)).abs() < 1e-14 && score(2.9, 0) > score(2.9, 1));
}

#[test]
fn two_blocks_together_are_one_block() {
    // Blocks of equal variance within classes are scaled alike together and apart.
    let rows =
        [[1.0, 0.0, 2.0], [-1.0, 1.0, 1.0], [0.0, -1.0, 0.0], [5.0, 1.0, 1.0], [3.0, 3.0, -1.0], [4.0, 2.0, 3.0]];
    let counts = ClassWordCounts::new(&[3, 3]);
    let sums = |from: usize, to: usize| -> Vec<Vec<f64>> {
        let of_class =
            |class: usize| (from..to).map(|at| rows[3 * class..][..3].iter().map(|row| row[at]).sum()).collect();
        (0..2).map(of_class).collect()
    };
    let products = |from: [usize; 2], to: [usize; 2]| -> Vec<f64> {
        let cells = (from[0]..to[0]).flat_map(|a| (from[1]..to[1]).map(move |b| (a, b)));
        cells.map(|(a, b)| rows.iter().map(|row| row[a] * row[b]).sum()).collect()
    };
    let block = |from: usize, to: usize| FeatureBlock::new(products([from; 2], [to; 2]), &sums(from, to), &counts);
    // The last feature is scaled so that both blocks have the same variance a dimension.
    let anchor = FactorizedBlock::new(block(0, 2), &counts).unwrap();
    let other = block(2, 3);
    let beside = anchor.cross_columns(products([0, 2], [2, 3]), std::slice::from_ref(&other), &counts);
    let (weights, linear) = anchor.joint_classifier(&other, (&beside, 1), &counts);
    // Against the normal equations: (covariance + ridge of each block's own variance) weights = mean differences.
    let within = |a: usize, b: usize| {
        let mean = |class: usize, at: usize| rows[3 * class..][..3].iter().map(|row| row[at]).sum::<f64>() / 3.0;
        let cell = |class: usize| {
            rows[3 * class..][..3].iter().map(|row| (row[a] - mean(class, a)) * (row[b] - mean(class, b))).sum::<f64>()
        };
        (cell(0) + cell(1)) / 4.0
    };
    let ridge =
        [within(0, 0) + within(1, 1), within(0, 0) + within(1, 1), 2.0 * within(2, 2)].map(|sum| RIDGE * sum / 2.0);
    let difference = |class: usize| -> [f64; 3] {
        let weight = |at: usize| if at < 2 { weights[at * 2 + class] } else { linear.weights[class] };
        std::array::from_fn(|a| (0..3).map(|b| (within(a, b) + if a == b { ridge[a] } else { 0.0 }) * weight(b)).sum())
    };
    let (first, second) = (difference(0), difference(1));
    for (at, (first, second)) in first.iter().zip(&second).enumerate() {
        let means = [0, 1].map(|class| rows[3 * class..][..3].iter().map(|row| row[at]).sum::<f64>() / 3.0);
        assert!((second - first - (means[1] - means[0])).abs() < 1e-12, "feature {at}");
    }
}

#[test]
fn classes_of_a_control_task_have_the_shares_of_the_task() {
    let counted =
        |word: &str, upos| TestWord { upos, ..TestWord::new(word.to_owned(), Upos::Noun, [0.0; 2], [[0.0; 2]; 2]) };
    let tags = [Some(Upos::Adj), Some(Upos::Noun), Some(Upos::Noun), Some(Upos::Noun), None];
    let words: Vec<TestWord> = tags.into_iter().map(|upos| counted("x", upos)).collect();
    let [sums, _] = run(&[words], &[]);
    let known = fit::TaskClasses::for_all_tasks(crate::passes::observer::expect_sums(&*sums)).remove(0);
    assert_eq!((known.names, known.words), (vec!["ADJ".to_owned(), "NOUN".to_owned()], [4, 0]));
    let adjectives = known.control_classes.iter().filter(|&&class| class == 0).count();
    assert_eq!((adjectives, known.control_classes.len()), (BUCKETS / 4, BUCKETS));
    assert!(known.control_classes.is_sorted());
}

#[test]
fn forms_are_known_without_their_case() {
    let words = |form: &str| Sequence { forms: vec![form.to_owned()], ..sentence(0, 1, "obl:tmod") };
    assert_eq!(FormHash::from_word(&words("The"), 0), FormHash::from_word(&words("the"), 0));
    assert_ne!(FormHash::from_word(&words("a"), 0), FormHash::from_word(&words("the"), 0));
    assert!(usize::from(FormHash(-1).bucket()) == BUCKETS - 1);
    assert_eq!(word_classes(&words("a"), 0).collect::<Vec<_>>(), [None, Some("obl")]);
    assert_eq!(task_names(&["xpos".to_owned()]), ["upos", "relation", "xpos"]);
}

#[test]
fn labels_at_random_have_no_gain_and_no_selectivity() {
    for seed in 0..3 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let word = |tag: usize, form: usize, rng: &mut ChaCha8Rng| {
            // So many forms that those of each class of the control task have its share.
            let form = format!("f{form}-{}", rng.random_range(0..100));
            TestWord::new(form, TAGS[tag], noise(rng), [noise(rng), noise(rng)])
        };
        let found = probed(&corpus(600, &mut rng, word), &[]).remove(0);
        assert_eq!((found.words, found.sentences, found.classes), (3600, 600, 3));
        for head in &found.heads {
            assert!(gain(head).abs() < 0.03 && head.selectivity.unwrap().abs() < 0.05, "{head:?}");
            assert!(head.adds.is_some());
        }
        assert!((found.majority.accuracy.unwrap() - 1.0 / 3.0).abs() < 0.03);
    }
}

#[test]
fn a_head_that_carries_the_tag_has_the_gain() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let word = |tag: usize, form: usize, rng: &mut ChaCha8Rng| {
        TestWord::new(format!("f{form}"), TAGS[tag], noise(rng), [noise(rng), near(tag, rng)])
    };
    let found = probed(&corpus(600, &mut rng, word), &[]).remove(0);
    let [without, with] = [0, 1].map(|head| found.heads[head]);
    assert!(gain(&with) > 0.5 && with.adds == Some(true) && with.selectivity.unwrap() > 0.4, "{with:?}");
    assert!(gain(&without).abs() < 0.03, "{without:?}");
    assert!(with.gain_ci95.is_some_and(|ci95| ci95.low() < gain(&with) && gain(&with) < ci95.high()));
    let layer = &found.layers[0];
    assert_eq!((layer.best, layer.best_gain), (Some(GRID.head_place(1)), with.gain));
    assert!((layer.mean_gain.unwrap() - f64::midpoint(gain(&with), gain(&without))).abs() < 1e-12);
}

#[test]
fn a_head_that_repeats_the_word_knows_its_tag_and_adds_nothing() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let word = |tag: usize, form: usize, rng: &mut ChaCha8Rng| {
        let own = near(tag, rng);
        TestWord::new(format!("f{form}"), TAGS[tag], own, [own, noise(rng)])
    };
    let found = probed(&corpus(600, &mut rng, word), &[]).remove(0);
    let head = found.heads[0];
    assert!(head.accuracy.unwrap() > 0.8 && gain(&head).abs() < 0.005 && head.adds != Some(true), "{head:?}");
    assert_eq!(found.embedding.accuracy, found.layers[0].input.accuracy);
}

#[test]
fn what_does_not_vary_leaves_the_most_frequent_class() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let word = |tag: usize, form: usize, rng: &mut ChaCha8Rng| {
        // Two thirds are nouns.
        TestWord::new(format!("f{form}"), TAGS[tag.max(1)], noise(rng), [[0.3, -7.0], [0.0; 2]])
    };
    let found = probed(&corpus(100, &mut rng, word), &[]).remove(0);
    for head in found.heads {
        assert_eq!((head.accuracy, head.gain), (found.majority.accuracy, Some(0.0)));
    }
}

#[test]
fn few_words_and_many_classes_are_not_probed() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let requested = ["x".to_owned()];
    let word = |tag: usize, form: usize, rng: &mut ChaCha8Rng| {
        let made = TestWord::new(format!("f{form}"), TAGS[tag], noise(rng), [noise(rng), noise(rng)]);
        TestWord { requested: vec![Some(rng.random_range(0..1000).to_string().into())], ..made }
    };
    let few = probed(&corpus(6, &mut rng, word), &requested);
    // 18 words a fold, where two dimensions need 20.
    assert!(few[0].heads.iter().all(|head| (head.gain, head.accuracy, head.adds) == (None, None, None)));
    assert!(few[0].majority.accuracy.is_some() && !few[2].is_crowded);
    let section = ProbesSection { probes: few };
    let summary = section.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary, @"
    Probes: what a linear discriminant reads out of a head's output for a word, trained on one half of the sentences and scored on the other. gain: what the head adds to a linear reading of the word's embedding, in points; q: of its being above one point; selectivity: above the control task.

    upos: 36 words of 6 sentences, 3 classes. Right in per cent: most frequent class 47.2, that of the form 52.8.
    Too few words to say what heads add to it: 10 for each dimension in both folds.

    relation: no word of the corpus has it.

    x: 36 words of 6 sentences, 36 classes. Right in per cent: most frequent class 0.0, that of the form 0.0.
    Too few words to say what heads add to it: 10 for each dimension in both folds.
    ");
    let many = probed(&corpus(200, &mut rng, word), &requested);
    assert!(many[2].is_crowded && many[2].heads.iter().all(|head| head.gain.is_none()));
    assert!(many[0].heads.iter().all(|head| head.gain.is_some()));
    let section = ProbesSection { probes: many };
    let summary = section.view(ViewContext::new(&default_policy())).summary.to_string();
    let unprobed = |line: &&str| ["x:", "relation:"].iter().any(|task| line.starts_with(task));
    insta::assert_snapshot!(summary.lines().filter(unprobed).join("\n"), @"
    relation: no word of the corpus has it.
    x: there are too many classes for a probe.
    ");
}

/// A class that only one fold has is never predicted in the other.
#[test]
fn classes_that_training_lacks_are_wrong() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let word = |tag: usize, form: usize, rng: &mut ChaCha8Rng| {
        TestWord::new(format!("f{form}"), TAGS[tag], near(tag, rng), [near(tag, rng), noise(rng)])
    };
    let mut sentences = corpus(200, &mut rng, word);
    sentences.iter_mut().skip(1).step_by(2).flatten().for_each(|word| word.upos = Some(Upos::Intj));
    let found = probed(&sentences, &[]).remove(0);
    assert_eq!((found.classes, found.heads[0].accuracy, found.majority.accuracy), (4, Some(0.0), Some(0.0)));
}

#[test]
fn sums_and_scores_of_parts_are_those_of_the_whole() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let word = |tag: usize, form: usize, rng: &mut ChaCha8Rng| {
        let made = TestWord::new(format!("f{form}"), TAGS[tag], noise(rng), [noise(rng), near(tag, rng)]);
        let requested = vec![(form > 20).then(|| form.to_string().into())];
        TestWord { requested, upos: (form != 7).then_some(TAGS[tag]), ..made }
    };
    let (sentences, requested) = (corpus(60, &mut rng, word), ["x".to_owned()]);
    let whole = run(&sentences, &requested);
    let subject = Subject { probes: &requested, ..Subject::new(GRID, FromToken::Mean, &|_| None) };
    let own = [ObservedPass { sums: &*whole[0], left_out_sentences: 0 }];
    let subject = Subject { first_stage_sums: ObservedPasses(&own), ..subject };
    for (place, whole) in whole.iter().enumerate() {
        let empty = || AnyStudy::passes(&LinearProbes)[place].make_observer(&subject);
        let mut parts = shown(empty(), 30, &sentences[30..]);
        parts.merge(&*shown(empty(), 0, &sentences[..30]));
        assert!(parts.to_bytes().unwrap() == whole.to_bytes().unwrap(), "{place}");
        let restored = AnyStudy::passes(&LinearProbes)[place].restore(&whole.to_bytes().unwrap()).unwrap();
        assert!(
            restored.fits(GRID, FromToken::Mean, &LayerClasses::default())
                && restored.to_bytes().unwrap() == whole.to_bytes().unwrap()
        );
        assert!(!restored.fits(HeadGrid { layers: 2, heads: 1 }, FromToken::Mean, &LayerClasses::default()));
    }
}
