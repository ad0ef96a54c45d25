use std::sync::Arc;

use super::section::{ClassMetrics, ClassesSection};
use super::sums::{ClassesSums, MAX_CLASSES};
use crate::corpus::{Annotation, Upos, WordClass};
use crate::evaluation::results::Results;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::Sums;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::Merge;
use crate::studies::patterns::words::tests::{Head, evenly, on, random, results, tagged};
use crate::studies::registry::{default_policy, find_study};
use crate::study::section::{Section, downcast_section};

fn class(key: &str, name: &str) -> Arc<WordClass> {
    Arc::new(WordClass { key: key.into(), name: name.into() })
}

/// The sequence with the class of each word.
fn classed(mut sequence: Sequence, of: impl Fn(usize, &Annotation) -> Option<Arc<WordClass>>) -> Sequence {
    let annotations = sequence.annotations.iter_mut().enumerate();
    annotations.for_each(|(word, annotation)| annotation.class = of(word, annotation));
    sequence
}

/// Random sentences whose words have their part of speech as a class.
fn by_upos() -> Vec<Sequence> {
    let of = |_, annotation: &Annotation| annotation.upos.map(|upos| class("upos", upos.tag()));
    random().into_iter().map(|sequence| classed(sequence, of)).collect()
}

fn measured(results: &Results) -> &[ClassMetrics] {
    &downcast_section::<ClassesSection>(&*results.sections[0].1).classes
}

fn is_of(sequence: &Sequence, token: usize, wanted: Upos) -> bool {
    token.checked_sub(1).and_then(|word| sequence.annotations.get(word)?.upos) == Some(wanted)
}

const HEADS: [Head; 5] = [
    |sequence, query, key| on(sequence, query, key, 0.6, |place| is_of(sequence, place, Upos::Noun)),
    |sequence, query, key| evenly(sequence, query, key, 0.9),
    |sequence, query, key| on(sequence, query, key, 0.9, |place| place + 1 == query),
    |sequence, query, key| {
        let nouns = on(sequence, query, key, 0.08, |place| is_of(sequence, place, Upos::Noun));
        nouns + evenly(sequence, query, key, 0.8)
    },
    |sequence, query, key| on(sequence, query, key, 0.6, |place| is_of(sequence, place, Upos::Punct)),
];

#[test]
fn a_head_that_looks_for_one_class_is_labelled_and_others_are_not() {
    let found = results(find_study("classes").unwrap(), &by_upos(), &HEADS);
    let labels: Vec<Vec<(String, bool)>> = found
        .verdicts(&default_policy())
        .into_iter()
        .map(|verdict| verdict.labels.into_iter().map(|label| (label.label, label.borderline)).collect())
        .collect();
    let expected = |name: &str| vec![(format!("class:upos={name}"), false)];
    assert_eq!(labels, [expected("NOUN"), vec![], vec![], vec![], expected("PUNCT")]);
}

#[test]
fn classes_are_measured_as_parts_of_speech_are() {
    let corpus = by_upos();
    let (classes, words) = (
        results(find_study("classes").unwrap(), &corpus, &HEADS),
        results(find_study("words").unwrap(), &corpus, &HEADS),
    );
    assert_eq!(measured(&classes).len(), 5);
    for class in measured(&classes) {
        for (place, head) in class.by_head.iter().enumerate() {
            let tag = |metric: &str| *words.estimates.heads[place].get(metric, Some(&class.class)).unwrap();
            assert_eq!(head.mass.value, tag("tag_mass"));
            assert_eq!(head.over_chance.value, tag("tag_mass_over_chance"));
            let error = words.estimates.standard_errors[place].get("tag_mass_over_chance", Some(&class.class)).unwrap();
            assert_eq!(head.over_chance.standard_error, *error);
            // Profiles are rounded to 2^-32, of all words at once here and there of two kinds apart.
            let close =
                |a: Option<f64>, metric: &str| assert!((a.unwrap() - tag(metric).unwrap()).abs() < 1e-6, "{metric}");
            close(head.expected, "tag_mass_expected");
            close(head.over_position.value, "tag_mass_over_position");
        }
        assert_eq!(class.by_head[0].chance, *words.estimates.chance.get("tag_mass", Some(&class.class)).unwrap());
    }
}

/// `[CLS] a b a , [SEP]`, of the classes A, B, A and none; even attention is 1/6.
#[test]
fn masses_by_hand() {
    let sequence = tagged(0, &[None; 4], &[5, 6, 5, 7]);
    let sequence = classed(sequence, |word, _| ["A", "B", "A"].get(word).map(|name| class("kind", name)));
    let head: Head = |_, query, key| match (query, key) {
        (1, 3) | (2, 1) => 0.3,
        (3, 1) => 0.4,
        (1, 2) | (2, 3) | (4, 1) => 0.1,
        (3 | 4, 2) => 0.2,
        _ => 0.0,
    };
    let found = results(find_study("classes").unwrap(), &[sequence], &[head]);
    let [a, b] = measured(&found) else { panic!("two classes") };
    assert_eq!((a.title(), a.words, a.queries.count, b.words), ("kind=A".to_owned(), 2, 4, 1));
    let close =
        |value: Option<f64>, by_hand: f64| assert!((value.unwrap() - by_hand).abs() < 1e-6, "{value:?} {by_hand}");
    // To A: 0.3, 0.3 + 0.1, 0.4 and 0.1 of four words; to B: 0.1, 0.2 and 0.2.
    close(a.by_head[0].mass.value, 1.2 / 4.0);
    close(b.by_head[0].mass.value, 0.5 / 4.0);
    // Two words of A get 1/6 from each of three others; one of B likewise.
    close(a.by_head[0].chance, 1.0 / 4.0);
    close(b.by_head[0].over_chance.value, 0.5 / 4.0 - 0.5 / 4.0);
    // The weight at the offsets 2, 1, -1, -2 and -3, and the share of words there that are of A.
    let by_offset = [(0.3, 0.5), (0.2, 1.0 / 3.0), (0.5, 2.0 / 3.0), (0.6, 0.5), (0.1, 1.0)];
    close(a.by_head[0].expected, by_offset.iter().map(|(weight, rate)| weight * rate).sum::<f64>() / 4.0);
}

#[test]
fn more_classes_than_there_is_room_for_are_said() {
    let sentence = |number: usize| {
        let sequence = tagged(number as u64, &[None; 2], &[5, 6]);
        classed(sequence, |word, _| Some(class("lemma", &format!("{}", 2 * number + word))))
    };
    let few: Vec<Sequence> = (0..MAX_CLASSES / 2).map(sentence).collect();
    let more: Vec<Sequence> = (0..=MAX_CLASSES / 2).map(sentence).collect();
    let of = |corpus: &[Sequence]| {
        let found = results(find_study("classes").unwrap(), corpus, &HEADS[1..2]);
        let ClassesSection { classes, class_kinds } = downcast_section(&*found.sections[0].1);
        (classes.len(), class_kinds[0].is_crowded)
    };
    assert_eq!(of(&few), (MAX_CLASSES, false));
    assert_eq!(of(&more), (0, true));
    // Sums of two parts have too many classes together.
    let grid = HeadGrid { layers: 1, heads: 1 };
    let mut parts = [0, MAX_CLASSES / 2].map(|first| {
        let mut sums = ClassesSums::new(grid, Visibility::ALL, FromToken::Mean);
        (first..first + MAX_CLASSES / 2).for_each(|number| drop(sums.begin(&sentence(number))));
        sums
    });
    let [sums, other] = &mut parts;
    sums.merge(other);
    assert!(sums.keys["lemma"].is_crowded && sums.keys["lemma"].classes.is_empty());
    assert!(sums.fits(grid, FromToken::Mean, &LayerClasses::default()));
}

#[test]
fn sums_of_a_file_fit_or_do_not() {
    let grid = HeadGrid { layers: 1, heads: 1 };
    let mut sums = ClassesSums::new(grid, Visibility::ALL, FromToken::Mean);
    drop(sums.begin(&by_upos()[0]));
    assert!(
        sums.fits(grid, FromToken::Mean, &LayerClasses::default())
            && !sums.fits(grid, FromToken::First, &LayerClasses::default())
    );
    let mut of_two = sums.clone();
    let blocks = of_two.keys.get_mut("upos").unwrap().classes.values_mut().next().unwrap();
    blocks[0].heads = vec![crate::stats::exact::ExactSum::default(); 2];
    assert!(!of_two.fits(grid, FromToken::Mean, &LayerClasses::default()));
    sums.keys.get_mut("upos").unwrap().is_crowded = true;
    assert!(!sums.fits(grid, FromToken::Mean, &LayerClasses::default()));
}

#[test]
fn a_section_has_different_classes_with_names() {
    let found = results(find_study("classes").unwrap(), &by_upos()[..1], &HEADS[1..2]);
    let whole: &ClassesSection = downcast_section(&*found.sections[0].1);
    let grid = HeadGrid { layers: 1, heads: 1 };
    assert_eq!(whole.defect(grid), None);
    let changes: [fn(&mut ClassesSection); 5] = [
        |section| section.classes.push(section.classes[0].clone()),
        |section| section.class_kinds.push(section.class_kinds[0].clone()),
        |section| section.classes[0].class.clear(),
        |section| section.classes[0].key = "other".to_owned(),
        |section| {
            section.class_kinds[0].key = "a=b".to_owned();
            section.classes.iter_mut().for_each(|class| class.key = "a=b".to_owned());
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut crafted = whole.clone();
        change(&mut crafted);
        assert!(crafted.defect(grid).is_some(), "{number}");
    }
}
