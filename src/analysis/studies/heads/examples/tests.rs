use proptest::prelude::*;

use super::sums::{Drawn, ExampleSums, MAX_WORDS, Rank};
use super::{Examples, HeadExamples};
use crate::corpus::SentenceGroup;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::observer::{Event, FoldBuffers, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::registry::default_policy;
use crate::study::aim::Aim;
use crate::study::labels::evidence::Direction;
use crate::study::section::{Section, ViewContext};
use crate::study::show::figure::{ArcMatch, Chart};
use crate::study::upstream::HeadAim;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

fn sums(aim: Aim, mean: f64) -> ExampleSums {
    let aimed = HeadAim { place: 1, label: "label".to_owned(), aim, mean };
    ExampleSums::new(
        GRID,
        LayerClasses::default(),
        FromToken::Mean,
        vec![aimed],
        ["[CLS]".to_owned(), "[SEP]".to_owned()],
    )
}

fn named(index: u64, words: usize) -> Sequence {
    let forms = (0..words).map(|word| format!("w{word}")).collect();
    Sequence { forms, ..sentence(index, words, "obj") }
}

/// Shows a sentence in which head 1 gives the token before so much, and the rest to `[CLS]`.
fn show(sums: &mut ExampleSums, sequence: &Sequence, to_previous: f32) {
    let tokens = sequence.ids.len();
    let mut weights = vec![0.0; tokens * tokens];
    for token in 0..tokens {
        weights[token * tokens] += 1.0 - to_previous;
        weights[token * tokens + token.saturating_sub(1)] += to_previous;
    }
    let mut state = sums.begin(sequence).unwrap();
    for head in 0..2 {
        let view = AttentionView::new(0, head, tokens, &weights);
        sums.observe(&mut state, &mut Event::Head(FoldBuffers::default().head_input(sequence, view.into())));
    }
}

fn examples(sums: &ExampleSums) -> HeadExamples {
    Examples::new(sums, GRID).heads.remove(0)
}

fn chosen(sums: &ExampleSums) -> Vec<(Rank, u64)> {
    examples(sums).examples.iter().map(|example| (example.rank, example.sentence)).collect()
}

#[test]
fn the_best_the_worst_and_what_is_nearest_to_the_mean_are_kept() {
    let mut sums = sums(Aim::Offset(-1), 0.5);
    for (index, weight) in [0.1, 0.875, 0.25, 0.75, 0.0, 0.5625].into_iter().enumerate() {
        show(&mut sums, &named(index as u64, 5), weight);
    }
    assert_eq!(chosen(&sums), [(Rank::Typical, 5), (Rank::Best, 1), (Rank::Worst, 4)]);
    let HeadExamples { scored, examples, .. } = examples(&sums);
    assert_eq!((scored, sums.sentences), (6, 6));
    assert_eq!((examples[1].score, examples[1].queries), (0.875, 4));
    let Drawn { units, to, weights, right, wrong, heads } = &examples[1].drawn;
    assert_eq!(units.join(" "), "[CLS] w0 w1 w2 w3 w4 [SEP]");
    assert_eq!(to, &[0, 0, 1, 2, 3, 4, 6]);
    assert_eq!(weights, &[0.0, 1.0, 0.875, 0.875, 0.875, 0.875, 0.0]);
    // The first word has none before it.
    assert_eq!((right.as_slice(), wrong.as_slice()), ([2, 3, 4, 5].as_slice(), [].as_slice()));
    assert_eq!(heads, &[0, 1, 1, 2, 3, 4, 6]);
    assert_eq!(examples[2].drawn.wrong, [2, 3, 4, 5]);
}

#[test]
fn of_equal_sentences_the_one_with_more_queries_counts_and_then_the_first() {
    let mut sums = sums(Aim::Offset(-1), 0.5);
    for (index, words) in [(3, 6), (1, 5), (2, 6)] {
        show(&mut sums, &named(index, words), 0.5);
    }
    assert_eq!(chosen(&sums), [(Rank::Typical, 1), (Rank::Best, 2), (Rank::Worst, 3)]);
    let mut alone = sums_of_one();
    assert_eq!(chosen(&alone), [(Rank::Best, 9)], "one sentence is not shown three times");
    // DuplicateArcs ones of a family, and sentences too long or too short to draw, are not taken.
    let again = Sequence { family: SentenceGroup { number: 9, is_first: false }, ..named(10, 5) };
    for sequence in [again, named(11, MAX_WORDS + 1), named(12, 4)] {
        assert!(alone.begin(&sequence).is_none());
    }
    assert_eq!(alone.sentences, 1);
}

fn sums_of_one() -> ExampleSums {
    let mut sums = sums(Aim::Offset(-1), 0.5);
    show(&mut sums, &named(9, 5), 0.5);
    sums
}

#[test]
fn a_failure_is_drawn_beside_the_arc_of_the_tree() {
    // Each word receives most from the one after it: no arc `head->dep` is right, and every arc `dep->head` is.
    let section = |direction| {
        let mut sums = sums(Aim::Partner { relation: "obj".to_owned(), direction }, 0.5);
        show(&mut sums, &named(0, 5), 0.75);
        show(&mut sums, &named(1, 5), 0.75);
        Examples::new(&sums, GRID)
    };
    let place = HeadPlace { layer: 0, head: 1 };
    let drawn = |direction| {
        let figure = section(direction).head_card(place, ViewContext::new(&default_policy())).figures.remove(0);
        let Chart::Arcs(mut arcs) = figure.chart else { panic!("arcs") };
        arcs.sentences.remove(0)
    };
    let right = drawn(Direction::DependentToHead);
    assert_eq!((right.caption.as_str(), right.gold.as_slice()), ("best, 4 of 4 arcs, sentence 0", [].as_slice()));
    let ends: Vec<_> = right.arcs.iter().map(|arc| (arc.from, arc.to, arc.outcome)).collect();
    assert_eq!(ends, [2, 3, 4, 5].map(|unit| (unit, unit - 1, ArcMatch::Right)));
    let wrong = drawn(Direction::HeadToDependent);
    assert_eq!(wrong.gold, [[1, 2], [2, 3], [3, 4], [4, 5]]);
    assert_eq!(wrong.arcs[0].outcome, ArcMatch::Wrong);
    let lines = section(Direction::DependentToHead).head_card(place, ViewContext::new(&default_policy())).lines;
    assert_eq!(lines[0], "best, 4 of 4 arcs, sentence 0: w0 w1 w2 w3 w4");
    let other = HeadPlace { layer: 0, head: 0 };
    let nothing = section(Direction::DependentToHead);
    assert!(nothing.head_card(other, ViewContext::new(&default_policy())).lines.is_empty());
    insta::assert_snapshot!(nothing.view(ViewContext::new(&default_policy())).summary.to_string(), @"Examples: 2 sentences of the labels of 1 head, among 2 of 5 to 16 words. They are on the cards of the heads (`show REPORT HEAD --all`, or the page).");
}

#[test]
fn a_section_names_heads_and_words_that_there_are() {
    let mut section = Examples::new(&sums_of_one(), GRID);
    assert_eq!(section.defect(GRID), None);
    assert!(section.defect(HeadGrid { layers: 1, heads: 1 }).unwrap().contains("L0H1"));
    section.heads[0].examples[0].drawn.to[2] = 99;
    insta::assert_snapshot!(section.defect(GRID).unwrap(), @"`examples` has a sentence of L0H1 whose lists do not fit");
}

proptest! {
    /// Equal sentences are kept, whichever worker saw them and in whatever order.
    #[test]
    fn what_is_kept_does_not_depend_on_who_saw_it(
        seen in prop::collection::vec((5..9_usize, 0..5_u8), 1..20),
        parts in prop::collection::vec(0..3_usize, 20),
    ) {
        let mut whole = sums(Aim::Offset(-1), 0.5);
        let mut shares = [0, 1, 2].map(|_| sums(Aim::Offset(-1), 0.5));
        for (index, (words, weight)) in seen.into_iter().enumerate() {
            let (sequence, weight) = (named(index as u64, words), f32::from(weight) / 4.0);
            show(&mut whole, &sequence, weight);
            show(&mut shares[parts[index]], &sequence, weight);
        }
        let [mut a, b, mut c] = shares;
        c.merge(&b);
        a.merge(&c);
        prop_assert_eq!(&a, &whole);
        let other = HeadGrid { layers: 1, heads: 1 };
        prop_assert!(a.fits(GRID, FromToken::Mean, &LayerClasses::default()) && !a.fits(other, FromToken::Mean, &LayerClasses::default()));
    }
}
