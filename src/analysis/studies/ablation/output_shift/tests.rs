use super::*;
use crate::model::forward::rows::Rows;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::{PassConditions, Replacement};
use crate::passes::observer::{Event, Sums, new_observer};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::ablation::output_shifts::{OutputShifts, cosine_distance};
use crate::studies::registry::default_policy;
use crate::study::AnyStudy;
use crate::study::ObservedPass;
use crate::study::section::{Section, ViewContext};
use crate::system::parallel::core_count;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// How heads are removed.
const CONDITIONS: PassConditions = PassConditions { removal: Some(Replacement::Mean), objective: None, task: None };

/// Two tokens of text between two special ones, hidden states of two dimensions.
type States = [f32; 8];

const WHOLE: States = [0.0, 0.0, 3.0, 4.0, 0.0, 2.0, 0.0, -2.0];
const TURNED: States = [0.0, 0.0, 4.0, 3.0, 0.0, 5.0, 0.0, -5.0];
const OPPOSITE: States = [0.0, 0.0, -3.0, -4.0, 0.0, 2.0, 0.0, -2.0];

fn show(sums: &mut OutputShiftSums, index: u64, variants: &[States]) {
    let mut state = sums.begin(&sentence(index, 2, "dep")).unwrap();
    for (variant, states) in variants.iter().enumerate() {
        if variant > 0 {
            sums.observe(&mut state, &mut Event::AblationVariant(variant - 1));
        }
        // The states that enter the layer differ from those that leave it.
        sums.observe(&mut state, &mut Event::HiddenStates { layer: 0, states: Rows::new(&[9.0; 8], 2) });
        sums.observe(&mut state, &mut Event::HiddenStates { layer: 1, states: Rows::new(states, 2) });
    }
}

fn state(grid: HeadGrid) -> OutputShiftSums {
    let mut sums = OutputShiftSums::new(grid, SingleHeadsAndAll);
    sums.begin_pass(&PassSetup { conditions: CONDITIONS, ..PassSetup::default() });
    sums
}

fn measured(sums: OutputShiftSums, grid: HeadGrid) -> (Estimates, OutputShiftReport) {
    let observer = new_observer(sums);
    let context = EstimationContext::new(grid, core_count());
    let (estimates, found) = AnyStudy::measure(
        &OutputShift,
        &ObservedPasses(&[ObservedPass { sums: &*observer, left_out_sentences: 0 }]),
        &context,
    );
    (estimates, downcast_section::<OutputShiftReport>(&*found).clone())
}

#[test]
fn cosines_by_hand() {
    let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-15;
    assert!(near(cosine_distance(&[3.0, 4.0], &[8.0, 6.0]), 0.04));
    assert!(near(cosine_distance(&[3.0, 4.0], &[-4.0, 3.0]), 1.0));
    assert_eq!(cosine_distance(&[3.0, 4.0], &[-3.0, -4.0]), Some(2.0));
    assert_eq!(cosine_distance(&[0.1, 0.7], &[0.1, 0.7]), Some(0.0));
    assert_eq!(cosine_distance(&[0.0, 0.0], &[0.1, 0.7]), None);
}

#[test]
fn drifts_by_hand() {
    let mut sums = state(GRID);
    show(&mut sums, 5, &[WHOLE, TURNED, WHOLE, OPPOSITE]);
    let (estimates, found) = measured(sums, GRID);
    let value = |place: usize, metric: &str| estimates.heads[place].get(metric, None).unwrap().unwrap();
    // One of the two tokens of text moves from (3, 4) to (4, 3); the mean of all four from (3, 4)/4 to (4, 3)/4.
    assert!((value(0, "output_shift") - 0.02).abs() < 1e-15 && (value(0, "pooled_shift") - 0.04).abs() < 1e-15);
    assert_eq!([value(1, "output_shift"), value(1, "pooled_shift")], [0.0, 0.0]);
    assert_eq!((found.tokens, found.sentences, found.removal), (2, 1, Some(Replacement::Mean)));
    assert_eq!((found.without_heads.output_shift, found.without_heads.pooled_shift), (Some(1.0), Some(2.0)));
    assert_eq!(estimates.chance.get("output_shift", None), Some(&Some(0.0)));
    let rests_on = |metric: &str| estimates.denominators.get(metric, None).unwrap().count;
    assert_eq!([rests_on("output_shift"), rests_on("pooled_shift")], [2, 1]);
}

#[test]
fn vectors_without_a_direction_leave_both_sums() {
    let mut sums = state(GRID);
    let nothing = [0.0; 8];
    show(&mut sums, 5, &[WHOLE, nothing, TURNED, nothing]);
    let (estimates, found) = measured(sums, GRID);
    assert_eq!(estimates.heads[0].get("output_shift", None), Some(&None));
    assert_eq!(found.without_heads.pooled_shift, None);
    assert_eq!(found.most.iter().map(|head| head.place.head).collect::<Vec<_>>(), [1]);
}

#[test]
fn heads_that_move_most_and_least_are_told() {
    let grid = HeadGrid { layers: 1, heads: 12 };
    let mut sums = state(grid);
    for index in 0..64 {
        let mut variants = vec![WHOLE];
        // The further back a head, the further it turns the first token of text; a little more in some sentences.
        let turned = |place: usize| {
            let more = 0.02 * place as f32 * if index % 2 == 0 { 1.0 } else { 1.1 };
            [0.0, 0.0, 3.0 + more, 4.0 - more, 0.0, 2.0, 0.0, -2.0]
        };
        variants.extend((0..grid.heads).map(turned));
        variants.push(OPPOSITE);
        show(&mut sums, index, &variants);
    }
    let (estimates, found) = measured(sums, grid);
    let heads = |list: &[HeadShift]| list.iter().map(|head| head.place.head).collect::<Vec<_>>();
    assert_eq!((heads(&found.most), heads(&found.least)), (vec![11, 10, 9, 8, 7], vec![0, 1, 2, 3, 4]));
    let moved = found.most[0].moved;
    assert_eq!(Some(&moved.output_shift), estimates.heads[11].get("output_shift", None));
    let ci95 = moved.output_ci95.unwrap();
    assert!(ci95.low() < moved.output_shift.unwrap() && moved.output_shift.unwrap() < ci95.high());
    let summary = found.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary.lines().next().unwrap(), @"Heads removed one at a time (by mean): change of the output, as 1 - cosine, of the last hidden states of 128 tokens (output shift) and of the means of 64 sentences (pooled shift). Largest and smallest shifts, ± half of the 95 % interval:");
    assert!(summary.find("L0H11") < summary.find("L0H0 ") && summary.contains("all heads  1.0"), "{summary}");
}

#[test]
fn sums_of_parts_are_those_of_the_whole() {
    let (mut whole, mut left, mut right) = (state(GRID), state(GRID), state(GRID));
    for (index, turned) in [(3, TURNED), (9, OPPOSITE), (70, WHOLE), (3 + 64, TURNED)] {
        let variants = [WHOLE, turned, WHOLE, TURNED];
        show(&mut whole, index, &variants);
        show(if index % 2 == 0 { &mut left } else { &mut right }, index, &variants);
    }
    right.merge(&left);
    assert_eq!(right, whole);
    assert!(
        whole.fits(GRID, FromToken::Mean, &LayerClasses::default())
            && !whole.fits(HeadGrid { layers: 2, heads: 1 }, FromToken::Mean, &LayerClasses::default())
    );
    let restored = AnyStudy::passes(&OutputShift)[0].restore(&new_observer(whole).to_bytes().unwrap()).unwrap();
    assert_eq!(*crate::passes::observer::expect_sums::<OutputShiftSums>(&*restored), right);
    assert_ne!(right.blocks[3].without[0], OutputShifts::default());
}

#[test]
fn without_sentences_there_is_nothing_to_say() {
    let (_, found) = measured(state(GRID), GRID);
    assert_eq!(
        found.view(ViewContext::new(&default_policy())).summary.to_string(),
        "No sentence had a token of text, so no head was removed: none of the sentences that were drawn has a token of text (`--sample` \
         draws more).\n"
    );
    assert_eq!(found.defect(GRID), None);
}

#[test]
fn a_section_of_other_heads_is_defective() {
    let mut sums = state(GRID);
    show(&mut sums, 5, &[WHOLE, TURNED, WHOLE, OPPOSITE]);
    let section = measured(sums, GRID).1;
    assert_eq!(section.defect(GRID), None);
    let defect = section.defect(HeadGrid { layers: 1, heads: 1 }).unwrap();
    assert_eq!(defect, "`output_shift` has L0H1, which the model has not");
}
