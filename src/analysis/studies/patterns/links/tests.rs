//! Links by hand, and planted heads that each deserve exactly one level of `beyond`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use itertools::Itertools;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::link::{LinkMetrics, RuleGroup};
use super::sums::LinksSums;
use crate::corpus::{Annotation, LinkSet, LinkType, WordClass};
use crate::evaluation::results::Results;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::set::ObserverSet;
use crate::passes::observer::{Event, FoldBuffers, Sums, new_observer};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::studies::registry::{default_policy, find_study};
use crate::study::ObservedPass;
use crate::study::instruments::linked::block::LinkBlock;
use crate::study::instruments::linked::key::LinkKey;
use crate::study::labels::Verdict;
use crate::study::labels::evidence::{Direction, Reach};
use crate::study::metrics::estimates::EstimationContext;

fn links(name: &str, is_undirected: bool, pairs: &[(usize, usize)], candidates: Option<&[usize]>) -> LinkSet {
    let kind = Arc::new(LinkType { name: name.into(), is_undirected, min_distance: 1 });
    let candidates = candidates.map(|words| words.iter().copied().collect());
    let mut set = LinkSet { link_type: kind, targets: BTreeMap::new(), candidates, dropped_links: 0 };
    let both =
        pairs.iter().flat_map(|&(from, to)| [(from, to), (to, from)].into_iter().take(1 + usize::from(is_undirected)));
    for (from, to) in both {
        set.targets.entry(from).or_default().insert(to);
    }
    set
}

/// Attention between tokens: words between two special ones give each other these weights, and the rest is on the first
/// token.
fn between_words(weights: &[&[f32]]) -> Vec<f32> {
    let tokens = weights.len() + 2;
    let mut all = vec![0.0; tokens * tokens];
    for (row, query) in all.chunks_exact_mut(tokens).zip(0..) {
        if let Some(weights) = usize::checked_sub(query, 1).and_then(|word| weights.get(word)) {
            row[1..=weights.len()].copy_from_slice(weights);
        }
        row[0] = 1.0 - row.iter().sum::<f32>();
    }
    all
}

fn measured(sequence: &Sequence, visibility: Visibility, weights: &[f32]) -> Vec<LinkMetrics> {
    let grid = HeadGrid { layers: 1, heads: 1 };
    let classes = LayerClasses::new(&[visibility]);
    let mut sums = LinksSums::new(grid, classes.clone(), FromToken::Mean);
    let (mut state, mut folder) = (sums.begin(sequence).unwrap(), FoldBuffers::default());
    let view = AttentionView::new(0, 0, sequence.ids.len(), weights);
    sums.observe(&mut state, &mut Event::Head(folder.head_input(sequence, view.into())));
    assert!(sums.fits(grid, FromToken::Mean, &classes));
    let context = EstimationContext { keeps_replicates: true, ..EstimationContext::new(grid, NonZeroUsize::MIN) };
    sums.types.iter().filter_map(|(key, sums)| LinkMetrics::new(key, sums, &context)).collect()
}

fn spelled(words: &[&str]) -> Sequence {
    let forms = words.iter().map(|&word| word.to_owned()).collect();
    Sequence { forms, ..sentence(0, words.len(), "dep") }
}

#[test]
fn the_example_of_the_methodology() {
    let mut sequence = spelled(&["a", "b", "b", "a"]);
    sequence.links = vec![links("maps", false, &[(2, 1), (3, 0)], Some(&[0, 1]))];
    let weights = between_words(&[&[0.0; 4], &[0.0; 4], &[0.1, 0.5, 0.0, 0.2], &[0.2, 0.3, 0.1, 0.0]]);
    let found = measured(&sequence, Visibility::ALL, &weights).remove(0);
    let head = &found.by_head[0];
    let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-6, "{a:?} {b}");
    close(head.accuracy.from, 0.5);
    close(head.mass, 0.35);
    close(Some(found.chance), 0.5);
    // Among all words, too, 3 goes to 2 and 4 to 2; 4 gives the special token .4, more than either candidate.
    close(head.among_all.from, 0.5);
    close(head.to_special.from, 0.5);
    let accuracy = |name: &str| found.rules.iter().find(|rule| rule.rule == name).map(|rule| rule.accuracy);
    // Both candidates stand before the sources: the nearest is right for 3, the second nearest for 4.
    assert_eq!(
        (accuracy("offset -1"), accuracy("candidate -1"), accuracy("chance")),
        (Some(0.5), Some(0.5), Some(0.5))
    );
    assert_eq!(
        (accuracy("first"), accuracy("last"), accuracy("in-order"), accuracy("proportional")),
        (Some(0.5), Some(0.5), Some(0.0), Some(0.0))
    );
    let same_class =
        ["class-left", "class-right", "class-nearest", "class-in-order", "class-longest-run"].map(accuracy);
    assert_eq!(same_class, [1.0, 0.0, 1.0, 1.0, 1.0].map(Some));
    // Nobody has a choice among candidates of its class, and no word has a class but its form.
    assert_eq!((found.with_class.count, found.class_chance, &found.by_class_rules), (0, None, &None));
    assert_eq!((found.out_of_sight, found.no_choice, found.count), (0, 0, 2));
}

#[test]
fn what_is_not_scored_is_counted() {
    let mut sequence = spelled(&["a", "b", "c", "d", "e"]);
    let mut far = links("far", false, &[(0, 1), (0, 3), (4, 3)], None);
    far.link_type = Arc::new(LinkType { min_distance: 2, ..(*far.link_type).clone() });
    far.dropped_links = 1;
    // One word has but one candidate, which is its target.
    let single = links("single", false, &[(1, 0), (2, 0)], Some(&[0, 1]));
    sequence.links = vec![far, single];
    let found = measured(&sequence, Visibility::ALL, &between_words(&[&[0.2; 5][..]; 5]));
    let [far, single] = &found[..] else { panic!("two types") };
    // 0 -> 1 and 4 -> 3 are too near, and one link lost a word; 0 has 2, 3 and 4 to choose from.
    assert_eq!((far.count, far.out_of_sight, far.no_choice), (1, 3, 1));
    assert!((far.chance - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!((single.count, single.no_choice), (1, 1));
}

#[test]
fn a_decoder_looks_from_the_later_word() {
    // The first token, three words, another special token: 3 -> 1, 3 -> 2 and 1 -> 3, 1 -> 2 of words.
    let mut sequence = Sequence { ..sentence(0, 4, "dep") }.with_decoder_first_token();
    sequence.links = vec![links("refs", false, &[(3, 1), (0, 2)], None), links("contact", true, &[(0, 3)], None)];
    let weights = between_words(&[&[0.0; 4], &[0.5, 0.0, 0.0, 0.0], &[0.4, 0.1, 0.0, 0.0], &[0.1, 0.4, 0.2, 0.0]]);
    let found = measured(&sequence, Visibility::CAUSAL, &weights);
    let of = |found: &LinkMetrics| {
        let head = &found.by_head[0];
        (found.title(), head.accuracy.from, head.accuracy.to, head.to_special.to, head.precision_at_length)
    };
    let found: Vec<_> = found.iter().map(of).collect();
    // 4 gives 2 most of the words before it; into 1 word 2 gives half of three keys and word 3 .4 of four: 1.5 and 1.6 of
    // what is even.
    let expected = [
        ("contact (target on the left)".to_owned(), Some(0.0), None, None, None),
        ("refs (target on the left)".to_owned(), Some(1.0), None, None, None),
        ("refs (target on the right)".to_owned(), None, Some(1.0), None, None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn pairs_by_their_corrected_weights() {
    let mut sequence = spelled(&["a", "b", "c", "d"]);
    sequence.links = vec![links("contact", true, &[(0, 3), (1, 2), (0, 2)], None)];
    let weights =
        between_words(&[&[0.0, 0.1, 0.2, 0.5], &[0.1, 0.0, 0.2, 0.1], &[0.1, 0.3, 0.0, 0.1], &[0.6, 0.0, 0.1, 0.0]]);
    let found = measured(&sequence, Visibility::ALL, &weights).remove(0);
    let head = &found.by_head[0];
    // F: ab .1, ac .15, ad .55, bc .25, bd .05, cd .1; sums .8, .4, .5, .7 of 2.4. Corrected: ab -.033, ac -.017, ad .317, bc .167,
    // bd -.067, cd -.046. The four largest are ad, bc, ac, ab: three are linked, of three among six pairs.
    assert_eq!((found.pairs.unwrap().taken, head.precision_at_length), (4, Some(0.75)));
    assert!((found.pairs.unwrap().chance - 0.5).abs() < 1e-12);
    // a and b have most weight with d and c; c has most with b, d with a.
    assert_eq!((head.accuracy.from, head.accuracy.to), (Some(1.0), None));
}

#[test]
fn keys_are_strings() {
    let key = LinkKey { name: "maps".into(), is_undirected: true, side: None };
    let text = String::from(key.clone());
    assert_eq!((text.as_str(), LinkKey::try_from(text.clone())), ("=~maps", Ok(key)));
    ["", "=", "maps", "=+maps"]
        .into_iter()
        .for_each(|text| assert!(LinkKey::try_from(text.to_owned()).is_err(), "{text}"));
}

fn word_class(name: &str) -> Arc<WordClass> {
    Arc::new(WordClass { key: "kind".into(), name: name.into() })
}

/// The words that planted heads attend to from each word of a sentence: those that a head follows, or none.
type Planted = [Vec<Option<usize>>; HEADS];

const HEADS: usize = 6;

/// A sentence with atoms of three elements, and words whose heads are mostly the nearest word of another class.
fn planted(index: u64, rng: &mut ChaCha8Rng) -> (Sequence, Planted) {
    // Six candidates, two of each element, then six sources, each the map of one of them.
    let mut elements: Vec<usize> = (0..6).map(|place| place % 3).collect();
    elements.shuffle(rng);
    let mut order: Vec<usize> = (0..6).collect();
    order.shuffle(rng);
    let maps: Vec<(usize, usize)> = order.iter().enumerate().map(|(place, &atom)| (6 + place, atom)).collect();
    let mut classes: Vec<&str> =
        (0..12).map(|word| ["C", "N", "O"][elements[if word < 6 { word } else { order[word - 6] }]]).collect();
    // Then words of other classes; targets are words `y`.
    classes.extend((0..14).map(|_| *["x", "y", "z", "z"].choose(rng).unwrap()));
    let mut rules: Vec<(usize, usize, usize)> = Vec::new();
    for word in 12..classes.len() {
        let before: Vec<usize> = (12..word).rev().filter(|&other| classes[other] == "y").collect();
        if classes[word] == "x" && before.len() > 1 {
            let target = if rng.random_bool(0.7) { before[0] } else { *before[1..].choose(rng).unwrap() };
            rules.push((word, target, before[0]));
        }
    }
    let words = classes.len();
    let annotation = |class: &&str| Annotation { class: Some(word_class(class)), ..Annotation::default() };
    let mut sequence =
        Sequence { annotations: classes.iter().map(annotation).collect(), ..sentence(index, words, "dep") };
    let followed: Vec<(usize, usize)> = rules.iter().map(|&(word, target, _)| (word, target)).collect();
    let pick: Vec<usize> = (12..words).collect();
    sequence.links =
        vec![links("maps", false, &maps, Some(&[0, 1, 2, 3, 4, 5])), links("rules", false, &followed, Some(&pick))];
    let mut heads: Planted = std::array::from_fn(|_| vec![None; words]);
    let nearest = |word: usize| (0..6).rev().find(|&other| classes[other] == classes[word]);
    // Even; by place; the same class; a class rule; right; noise.
    heads[1] = (0..words).map(|word| word.checked_sub(if word < 12 { 6 } else { 1 })).collect();
    heads[5] = (0..words).map(|_| Some(rng.random_range(0..words))).collect();
    for &(word, atom) in &maps {
        heads[2][word] = nearest(word);
        heads[4][word] = Some(atom);
    }
    for &(word, target, nearest) in &rules {
        heads[3][word] = Some(nearest);
        heads[4][word] = Some(target);
    }
    (sequence, heads)
}

/// A label, its direction, how far it reaches, and whether it is borderline.
type FoundLabel = (String, Option<Direction>, Option<Reach>, bool);

/// The labels of heads that follow these words, in sentences packed three by three.
fn labels(corpus: &[(Sequence, Vec<Vec<Option<usize>>>)]) -> Vec<Vec<FoundLabel>> {
    let grid = HeadGrid { layers: 1, heads: corpus[0].1.len() };
    let mut observers =
        ObserverSet::new(vec![new_observer(LinksSums::new(grid, LayerClasses::default(), FromToken::Mean))]);
    for pack in corpus.chunks(3) {
        observers.begin_pack(pack.iter().map(|(sequence, _)| sequence));
        let shown = pack.iter().enumerate().flat_map(|(number, (sequence, heads))| {
            heads.iter().enumerate().map(move |(head, followed)| (number, sequence, head, followed))
        });
        for (number, sequence, head, followed) in shown {
            let tokens = sequence.ids.len();
            let mut weights = vec![1.0 / tokens as f32; tokens * tokens];
            for (word, &to) in followed.iter().enumerate() {
                if let Some(to) = to {
                    weights[(word + 1) * tokens + to + 1] += 0.5;
                }
            }
            observers.observe_head(number, sequence, AttentionView::new(0, head, tokens, &weights).into());
        }
        observers.end_pack();
    }
    let sums = observers.into_observers();
    let passes = vec![ObservedPass { sums: &*sums[0], left_out_sentences: 0 }];
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    let results = Results::new(&[(find_study("links").unwrap(), passes)], &context, &default_policy());
    let of_verdict = |verdict: Verdict| {
        let labels = verdict.labels.into_iter();
        let labels = labels.map(|label| (label.label, label.direction, label.beyond, label.borderline));
        labels.sorted_by(|a, b| a.0.cmp(&b.0)).collect()
    };
    results.verdicts(&default_policy()).into_iter().map(of_verdict).collect()
}

fn firm(name: &str, reach: Reach) -> FoundLabel {
    (format!("link:{name}"), Some(Direction::From), Some(reach), false)
}

#[test]
fn planted_heads_reach_as_far_as_they_deserve() {
    let mut rng = ChaCha8Rng::seed_from_u64(50);
    let corpus = (0..300).map(|index| planted(index, &mut rng));
    let corpus: Vec<_> = corpus.map(|(sequence, heads)| (sequence, heads.to_vec())).collect();
    let expected = [
        vec![],
        vec![],
        vec![firm("maps", Reach::Place)],
        vec![firm("rules", Reach::Class)],
        vec![firm("maps", Reach::All), firm("rules", Reach::All)],
        vec![],
    ];
    assert_eq!(labels(&corpus), expected);
}

/// Sentences of twelve words whose last six are each linked to one of the first: four times in five to that of a fixed order.
#[test]
fn a_head_that_goes_by_places_is_not_beyond_the_same_places_elsewhere() {
    let mut rng = ChaCha8Rng::seed_from_u64(51);
    let fixed = [3, 5, 0, 4, 1, 2];
    let made = |index| {
        let target = |place: usize, rng: &mut ChaCha8Rng| {
            if rng.random_bool(0.8) { fixed[place] } else { rng.random_range(0..6) }
        };
        let targets: Vec<usize> = (0..6).map(|place| target(place, &mut rng)).collect();
        let pairs: Vec<(usize, usize)> = targets.iter().enumerate().map(|(place, &to)| (6 + place, to)).collect();
        let sequence = Sequence { links: vec![links("contact", false, &pairs, None)], ..sentence(index, 12, "dep") };
        let follows =
            |to: &[usize]| -> Vec<Option<usize>> { [vec![None; 6], to.iter().copied().map(Some).collect()].concat() };
        (sequence, vec![follows(&fixed), follows(&targets)])
    };
    let corpus: Vec<_> = (0..300).map(made).collect();
    assert_eq!(labels(&corpus), [vec![firm("contact", Reach::Class)], vec![firm("contact", Reach::All)]]);
    // Where lengths are unlike, places say nothing.
    let uneven: Vec<_> = corpus
        .into_iter()
        .map(|(sequence, heads)| {
            let words = 12 + 4 * usize::try_from(sequence.index % 3).unwrap();
            let longer = Sequence { links: sequence.links, ..sentence(sequence.index, words, "dep") };
            (longer, heads.into_iter().map(|head| [head, vec![None; words - 12]].concat()).collect())
        })
        .collect();
    assert_eq!(labels(&uneven), [vec![firm("contact", Reach::All)], vec![firm("contact", Reach::All)]]);
}

#[test]
fn sums_of_a_file_add_up_or_do_not_fit() {
    let grid = HeadGrid { layers: 1, heads: 1 };
    let mut sums = LinksSums::new(grid, LayerClasses::default(), FromToken::Mean);
    let mut sequence = spelled(&["a", "b", "b", "a"]);
    sequence.links = vec![links("maps", false, &[(2, 1), (3, 0)], Some(&[0, 1]))];
    drop(sums.begin(&sequence));
    let fits = |change: &dyn Fn(&mut LinkBlock)| {
        let mut sums = sums.clone();
        sums.types.values_mut().for_each(|sums| change(&mut sums.blocks[0]));
        sums.fits(grid, FromToken::Mean, &LayerClasses::default())
    };
    assert!(fits(&|_| ()));
    let changes: [&dyn Fn(&mut LinkBlock); 6] = [
        &|block| block.heads[0].right[0] = 3,
        &|block| block.heads[0].among_class[1] = 1,
        &|block| block.heads[0].pairs = 1,
        &|block| block.sentences = 3,
        &|block| block.classed = 1,
        &|block| block.heads.clear(),
    ];
    changes.into_iter().for_each(|change| assert!(!fits(change)));
}

#[test]
fn rules_are_of_three_groups() {
    let mut sequence = spelled(&["a", "b", "b", "a"]);
    sequence.annotations = ["A", "B", "B", "A"]
        .map(|class| Annotation { class: Some(word_class(class)), ..Annotation::default() })
        .to_vec();
    sequence.links = vec![links("maps", false, &[(2, 1), (3, 0)], None)];
    let found = measured(&sequence, Visibility::ALL, &between_words(&[&[0.25; 4][..]; 4])).remove(0);
    let of = |group: RuleGroup| found.rules.iter().filter(|rule| rule.group == group).count();
    assert_eq!([RuleGroup::Place, RuleGroup::SameClass, RuleGroup::ClassRules].map(of), [8, 5, 1]);
    // Both classes have few sources and share one rule: the nearest word on the left of class A is right for 4, of B for 3.
    assert_eq!(found.by_class_rules.unwrap().accuracy, 0.5);
}
