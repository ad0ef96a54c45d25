use itertools::Itertools;

use super::section::Gradients;
use super::*;
use crate::model::forward::gradient::{GateGradient, PathGradient};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::model::parameters::Objective;
use crate::passes::ablation::{PassConditions, Replacement};
use crate::passes::observer::{Event, Sums, new_observer};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::sequences::test_support::sentence;
use crate::stats::blocks::{BLOCKS, Merge};
use crate::stats::interval::Interval;
use crate::studies::registry::default_policy;
use crate::study::AnyStudy;
use crate::study::ObservedPass;
use crate::study::section::Section;
use crate::study::section::{LateFact, ViewContext};
use crate::system::parallel::core_count;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// How heads are removed.
const CONDITIONS: PassConditions =
    PassConditions { removal: Some(Replacement::Zero), objective: Some(Objective::MaskedTokens), task: None };

/// A sentence with this many masked and scored tokens, and one more masked token that is not known.
fn masked(index: u64, scored: usize) -> Sequence {
    let token = |word: usize, truth| PredictedToken::masked(word + 1, word, truth);
    let predictions = (0..scored).map(|word| token(word, Some(7))).chain([token(scored, None)]).collect();
    Sequence { predictions, ..sentence(index, scored + 1, "dep") }
}

fn show(sums: &mut GradientSums, index: u64, scored: usize, loss: f64, gates: &[f64]) {
    let state = sums.begin(&masked(index, scored));
    assert_eq!(state.is_some(), scored > 0);
    if let Some(mut state) = state {
        sums.observe(&mut state, &mut Event::Gradient(&GateGradient { loss, gates: gates.to_vec() }));
    }
}

fn context(grid: HeadGrid) -> EstimationContext {
    EstimationContext::new(grid, core_count())
}

fn state() -> PassSetup<'static> {
    PassSetup { conditions: CONDITIONS, ..PassSetup::default() }
}

fn measured(sums: GradientSums, grid: HeadGrid) -> (Estimates, Box<dyn Section>) {
    AnyStudy::measure(
        &Gradient,
        &ObservedPasses(&[ObservedPass { sums: &*new_observer(sums), left_out_sentences: 3 }]),
        &context(grid),
    )
}

fn found(section: &dyn Section) -> &Gradients {
    super::downcast_section::<Gradients>(section)
}

#[test]
fn sizes_are_of_sentences_and_signs_of_tokens() {
    let mut sums = GradientSums::new(GRID);
    sums.begin_pass(&state());
    // Two tokens, one token, none.
    show(&mut sums, 0, 2, 3.0, &[4.0, -1.0]);
    show(&mut sums, 1, 1, 1.5, &[-1.0, -0.5]);
    show(&mut sums, 2, 0, 0.0, &[]);
    let (estimates, section) = measured(sums, GRID);
    let of = |head: usize, metric| estimates.heads[head].get(metric, None).unwrap().unwrap();
    // (4 / 2 + 1 / 1) / 2 and (1 / 2 + 0.5) / 2.
    assert_eq!([of(0, "gradient_importance"), of(1, "gradient_importance")], [1.5, 0.5]);
    // -(4 - 1) / 3 and -(-1 - 0.5) / 3.
    assert_eq!([of(0, "first_order_effect"), of(1, "first_order_effect")], [-1.0, 0.5]);
    let found = found(&*section);
    assert_eq!((found.masked_tokens, found.sentences, found.sentences_left_out), (3, 2, 3));
    assert_eq!((found.loss, found.removal), (Some(1.5), Some(Replacement::Zero)));
    let second = &found.heads[1];
    assert_eq!((second.place.to_string().as_str(), second.importance), ("L0H1", Some(0.5)));
    // Two blocks are too few for an interval.
    assert_eq!(second.first_order_ci95, None);
    let rests = |metric| estimates.denominators.get(metric, None).unwrap();
    let [sentences, tokens] = ["gradient_importance", "first_order_effect"].map(rests);
    assert_eq!((sentences.count, sentences.sentences, tokens.count, tokens.sentences), (2, 2, 3, 2));
    assert_eq!((estimates.chance.get("first_order_effect", None), tokens.blocks), (Some(&Some(0.0)), 2));
}

#[test]
fn along_the_path_heads_have_their_parts_of_the_loss() {
    let mut sums = GradientSums::new(GRID);
    sums.begin_pass(&state());
    let steps = std::num::NonZeroU16::new(4).unwrap();
    // Three tokens in all: the loss is 6 with all heads and 10.5 without any.
    for (index, scored, loss, closed_loss, gates) in
        [(0, 2, 4.0, 7.0, vec![-3.5, 0.5]), (1, 1, 2.0, 3.5, vec![-1.0, -0.5])]
    {
        let mut state = sums.begin(&masked(index, scored)).unwrap();
        sums.observe(&mut state, &mut Event::Gradient(&GateGradient { loss, gates: vec![0.0; 2] }));
        sums.observe(&mut state, &mut Event::PathGradient(&PathGradient { steps, closed_loss, gates }));
    }
    let (estimates, section) = measured(sums, GRID);
    let of = |head: usize| estimates.heads[head].get("integrated_gradient", None).unwrap().unwrap();
    assert_eq!([of(0), of(1)], [1.5, 0.0]);
    let integrated = found(&*section).integrated.as_ref().unwrap();
    assert_eq!((integrated.steps, integrated.loss_without_heads, integrated.loss_difference), (4, 3.5, 1.5));
    assert_eq!((integrated.sum, integrated.completeness_error), (1.5, Some(0.0)));
    // Two blocks are too few for a test.
    assert_eq!((integrated.heads[0].integrated_gradient, integrated.heads[0].p), (Some(1.5), None));
    let summary = section.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary.lines().filter(|line| line.starts_with("Integrated gradients")).join("\n"), @"Integrated gradients, all heads coming in together in 4 steps: the loss falls by 1.5000 nats a token, from 3.5000 without any head, and the heads sum up to 1.5000, off by 0.00 %.");
}

#[test]
fn a_head_whose_derivatives_are_0_has_both_0() {
    let mut sums = GradientSums::new(GRID);
    (0..64).for_each(|index| show(&mut sums, index, 2, 1.0, &[0.0, 0.5]));
    let (estimates, _) = measured(sums, GRID);
    for metric in ["gradient_importance", "first_order_effect"] {
        let value = estimates.heads[0].get(metric, None).unwrap().unwrap();
        assert!(value == 0.0 && value.is_sign_positive(), "{metric} is {value}");
        assert_eq!(estimates.ci95[0].get(metric, None), Some(&Some(Interval(0.0, 0.0))));
    }
}

#[test]
fn the_order_of_heads_is_held_against_that_of_an_effect() {
    let grid = HeadGrid { layers: 2, heads: 2 };
    let mut sums = GradientSums::new(grid);
    sums.begin_pass(&state());
    (0..64).for_each(|index| show(&mut sums, index, 1, 1.0, &[-4.0, 3.0, -2.0, 1.0]));
    let (mut estimates, mut section) = measured(sums, grid);
    let alone = section.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(alone, @"
    Gradients of the heads' gates (towards the zero): loss of 64 masked tokens of 64 sentences, 1.000 nats per token. Importance: mean absolute derivative of one sentence. First order: rise of the loss per token without the head, by linear extrapolation. Largest and smallest importance, ± half of the 95 % interval:

     head  importance      first order 
     L0H0      4.0000  +4.0000 ±0.0000 
     L0H1      3.0000  -3.0000 ±0.0000 
     L1H0      2.0000  +2.0000 ±0.0000 
     L1H1      1.0000  -1.0000 ±0.0000
    ");
    section.add_late_fact(&LateFact::Estimates(&estimates));
    assert!(found(&*section).rank_correlations.is_empty(), "there is nothing to hold it against");

    let exact = MetricByBlock::new(4, |head, _| [5.0, 2.0, 1.0, 0.0][head], |_| 1.0);
    estimates = estimates.with_block_sums("loss_effect", exact);
    section.add_late_fact(&LateFact::Estimates(&estimates));
    let [importance, first] = &found(&*section).rank_correlations[..] else { panic!("one of each metric") };
    assert_eq!((&*importance.metric, &*importance.with), ("gradient_importance", "loss_effect"));
    assert_eq!((importance.correlation.rho, importance.correlation.ci95), (Some(1.0), Some(Interval(1.0, 1.0))));
    // The ranks of 4, -3, 2 and -1 are 4, 1, 3, 2, the ranks of the effect 4, 3, 2, 1: 1 - 6 * 6 / (4 * 15).
    assert_eq!(&*first.metric, "first_order_effect");
    assert!((first.correlation.rho.unwrap() - 0.4).abs() < 1e-12);
    let summary = section.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary.lines().skip_while(|line| !line.starts_with("Rank correlation")).join("\n"), @"
    Rank correlation with the effect of removing each head (Spearman, all 4 heads; metric and effect from opposite halves of the text, averaged over both assignments), with its 95 % interval:
    gradient importance 1.00 [1.00, 1.00]
    first order effect 0.40 [0.40, 0.40]
    ");
    assert!(summary.find("L0H0").unwrap() < summary.find("L1H1").unwrap(), "{summary}");
    let written = serde_json::to_value(&found(&*section).rank_correlations[1]).unwrap();
    assert_eq!(written["with"], "loss_effect");
    assert!(written["rho"].is_number() && written["ci95"].is_array(), "{written}");
}

#[test]
fn sums_of_parts_are_those_of_the_whole() {
    let (mut whole, mut left, mut right) = (GradientSums::new(GRID), GradientSums::new(GRID), GradientSums::new(GRID));
    for (index, derivative) in [(3, 0.1_f64), (9, -0.7), (70, 1.3), (3 + BLOCKS as u64, 0.2)] {
        let part = if index % 2 == 0 { &mut left } else { &mut right };
        for sums in [&mut whole, part] {
            show(sums, index, 3, derivative.abs(), &[derivative, -1.0]);
        }
    }
    right.merge(&left);
    assert_eq!(right, whole);
    assert!(
        whole.fits(GRID, FromToken::Mean, &LayerClasses::default())
            && !whole.fits(HeadGrid { layers: 2, heads: 1 }, FromToken::Mean, &LayerClasses::default())
    );
    let restored = AnyStudy::passes(&Gradient)[0].restore(&new_observer(whole).to_bytes().unwrap()).unwrap();
    assert_eq!(*crate::passes::observer::expect_sums::<GradientSums>(&*restored), right);
}

#[test]
fn without_masked_words_there_is_nothing_to_say() {
    let (_, section) = measured(GradientSums::new(GRID), GRID);
    assert_eq!((found(&*section).masked_tokens, found(&*section).loss), (0, None));
    assert_eq!(
        section.view(ViewContext::new(&default_policy())).summary.to_string(),
        "No token could be scored, so there is no gradient: none of the sentences that were drawn has a token to score (`--sample` draws \
         more).\n"
    );
}

#[test]
fn a_section_of_other_heads_is_defective() {
    let (_, section) = measured(GradientSums::new(GRID), GRID);
    assert_eq!(section.defect(GRID), None);
    assert!(section.defect(HeadGrid { layers: 1, heads: 3 }).unwrap().contains("gradient.heads"));
}
