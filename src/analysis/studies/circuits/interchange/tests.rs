use super::section::{ExchangeVerdict, ShareTests, VerdictCounts};
use super::*;
use crate::corpus::SentenceGroup;
use crate::model::forward::batch::ContextExchange;
use crate::model::grid::HeadGrid;
use crate::passes::observer::{Event, Sums, new_observer};
use crate::sequences::derived::task::ExchangedPositions;
use crate::sequences::sequence::{ItemPart, PredictedToken, ScoreRule, Sequence, TextCorruption};
use crate::sequences::test_support::sentence;
use crate::studies::registry::default_policy;
use crate::study::section::LateFact;
use crate::study::{AnyStudy, ObservedPass};
use crate::system::parallel::core_count;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// The two texts of an item whose answer is token 1 and whose foil is token 0.
fn texts(index: u64, unit: u64, is_first: bool) -> [Sequence; 2] {
    let part = |corruption| ItemPart {
        rule: ScoreRule::VersusFoil(0),
        answer: Some(1),
        foils: Vec::new(),
        group: None,
        corruption,
    };
    let corruption =
        TextCorruption { name: Some("other".into()), changed_tokens: 2, exchange: ContextExchange::Everywhere };
    [Some(corruption), None].map(|corruption| Sequence {
        family: SentenceGroup { number: unit, is_first },
        predictions: vec![PredictedToken::masked(1, 0, Some(1))],
        item: Some(part(corruption)),
        ..sentence(index, 1, "dep")
    })
}

/// Shows the two texts of an item by the difference of their two logits: as they are, then with each head exchanged.
#[expect(clippy::cast_possible_truncation, reason = "a logit")]
fn show(sums: &mut InterchangeSums, texts: &[Sequence; 2], scores: [&[f64]; 2]) {
    let mut states = texts.each_ref().map(|text| sums.begin(text).unwrap());
    for variant in 0..scores[0].len() {
        for (state, scores) in states.iter_mut().zip(scores) {
            if variant > 0 {
                sums.observe(state, &mut Event::AblationVariant(variant - 1));
            }
            sums.observe(state, &mut Event::Logits { position: 1, logits: &[0.0, scores[variant] as f32] });
        }
    }
}

fn measured(sums: InterchangeSums, grid: HeadGrid) -> InterchangeResult {
    let observer = new_observer(sums);
    let context = EstimationContext::new(grid, core_count());
    let observed = [ObservedPass { sums: &*observer, left_out_sentences: 3 }];
    let (_, mut found) = AnyStudy::measure(&Interchange, &ObservedPasses(&observed), &context);
    found.add_late_fact(&LateFact::Policy(&default_policy()));
    downcast_section::<InterchangeResult>(&*found).clone()
}

/// So many items with a score of 4, of 0 in the corrupted text, and heads that restore and destroy so much.
fn items(count: u64, heads: &[fn(u64) -> [f64; 2]]) -> InterchangeResult {
    let grid = HeadGrid { layers: 1, heads: heads.len() };
    let mut sums = InterchangeSums::new(grid, SingleHeads);
    for index in 0..count {
        let [clean, corrupted]: [Vec<f64>; 2] = [
            std::iter::once(4.0).chain(heads.iter().map(|head| 4.0 - head(index)[1])).collect(),
            std::iter::once(0.0).chain(heads.iter().map(|head| head(index)[0])).collect(),
        ];
        show(&mut sums, &texts(index, index, true), [&clean, &corrupted]);
    }
    measured(sums, grid)
}

#[test]
fn shares_by_hand() {
    let mut sums = InterchangeSums::new(GRID, SingleHeads);
    // Gaps of 3 and 1. Head 0 restores 2 and 1 of them, and destroys 1 and -1; head 1 does nothing.
    show(&mut sums, &texts(0, 7, true), [&[2.0, 1.0, 2.0], &[-1.0, 1.0, -1.0]]);
    show(&mut sums, &texts(1, 7, false), [&[1.0, 2.0, 1.0], &[0.0, 1.0, 0.0]]);
    let total = sums.blocks.total();
    let shares =
        |head| metric_values(&total, Some(head)).iter().map(|share| share.value().unwrap()).collect::<Vec<_>>();
    assert_eq!([shares(0), shares(1)], [[0.75, 0.0], [0.0, 0.0]]);
    let found = measured(sums, GRID);
    assert_eq!((found.items, found.units, found.items_skipped, found.gap), (2, 1, 3, Some(2.0)));
    assert_eq!((found.positions, found.not_lowered), (Some(ExchangedPositions::All), Some(0.0)));
    let [of_all] = &found.corruptions[..] else { panic!("one corruption") };
    assert_eq!((of_all.name.as_deref(), of_all.items, of_all.changed), (Some("other"), 2, 4));
    // One unit has no standard error, so nothing is shown, and no head has a share.
    assert!(!found.gap_is_shown && found.heads[0].restored.is_none());
    assert_eq!(found.verdicts, VerdictCounts::default());
}

#[test]
fn heads_have_verdicts_where_both_sides_are_beyond_the_margin() {
    use ExchangeVerdict::{Carries, Needed, Opposes, Restores};
    /// It changes from item to item, so that there is a standard error.
    fn about(share: f64, index: u64) -> f64 {
        4.0 * share + if index.is_multiple_of(3) { 0.1 } else { -0.05 }
    }
    let heads: [fn(u64) -> [f64; 2]; 6] = [
        |index| [about(0.8, index), about(0.6, index)],
        |index| [about(0.4, index), 0.0],
        |index| [0.0, about(0.4, index)],
        |index| [about(-0.4, index), 0.0],
        |index| [about(0.05, index), about(0.05, index)],
        |index| [about(0.4, index), about(-0.4, index)],
    ];
    let found = items(128, &heads);
    let verdicts = |head: usize| &found.heads[head].verdicts[..];
    assert_eq!([0, 1, 2, 3].map(verdicts), [&[Carries][..], &[Restores], &[Needed], &[Opposes]]);
    assert_eq!([4, 5].map(verdicts), [&[][..], &[Restores, Opposes]]);
    assert_eq!(found.verdicts, VerdictCounts { carries: 1, restores: 2, needed: 1, opposes: 2 });
    // Thirty items are too few, whatever they show.
    assert!(items(30, &heads).heads.iter().all(|head| head.verdicts.is_empty()));
}

/// One half of the items has another word exchanged: whatever a head does, no sentence would be true of both.
#[test]
fn items_of_several_corruptions_have_no_verdict() {
    let mut sums = InterchangeSums::new(GRID, SingleHeads);
    for index in 0..128_u32 {
        let mut texts = texts(index.into(), index.into(), true);
        let part = texts[0].item.as_mut().unwrap();
        part.corruption.as_mut().unwrap().name = Some(if index % 2 == 0 { "one" } else { "two" }.into());
        let spread = f64::from(index % 3) / 10.0;
        show(&mut sums, &texts, [&[4.0, 1.0, 4.0], &[0.0, 2.0 + spread, 0.0]]);
    }
    let found = measured(sums, GRID);
    assert_eq!(
        found.corruptions.iter().map(|of| (of.name.as_deref(), of.items)).collect::<Vec<_>>(),
        [(Some("one"), 64), (Some("two"), 64)]
    );
    assert!(found.gap_is_shown && found.heads[0].restored_tests.q_above < Some(0.001));
    assert_eq!((&found.heads[0].verdicts[..], found.verdicts), (&[][..], VerdictCounts::default()));
}

#[test]
fn the_gap_is_none_where_the_corruption_lowers_as_many_scores_as_it_raises() {
    let mut sums = InterchangeSums::new(GRID, SingleHeads);
    for index in 0..128 {
        let clean = if index % 2 == 0 { 1.0 } else { -1.0 };
        show(&mut sums, &texts(index, index / 2, index % 2 == 0), [&[clean, 0.0, 0.0], &[0.0, clean, clean]]);
    }
    let found = measured(sums, GRID);
    assert_eq!((found.gap, found.gap_is_shown, found.not_lowered), (Some(0.0), false, Some(0.5)));
    assert!(found.heads.iter().all(|head| head.restored.is_none() && head.restored_tests == ShareTests::default()));
}
