use std::collections::BTreeMap;

use itertools::Itertools;

use super::section::{FitAgreement, NoSet};
use super::*;
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::gate_fits::{FittedLoss, GateFit, GateFits};
use crate::passes::observer::{Event, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::registry::default_policy;
use crate::study::section::{LateFact, Section, ShareOf, View, ViewContext};
use crate::study::upstream::Obstacle;
use crate::system::parallel::core_count;

/// Three heads and one that the model lacks.
const GRID: HeadGrid = HeadGrid { layers: 2, heads: 2 };

/// The fits of a fold of these gates of its three heads, over tokens of a loss of 2, and 3 without heads.
fn fold(gates: &[[f64; 3]]) -> FoldFits {
    let fit = |(start, gates): (u64, &[f64; 3])| {
        let gates = gates.iter().copied().map(Some).chain([None]).collect();
        (start, GateFit { gates, objective: 2.03, loss: 2.0, evaluations: 12, converged: true })
    };
    let known = FittedLoss { units: 64, loss: 2.0, loss_without_heads: 3.0, band: 0.01 };
    let fits = GateFits { known: Some(known), fits: (0..).zip(gates).map(fit).collect::<BTreeMap<_, _>>() };
    let mut fold = FoldFits::new(GRID);
    fold.begin_pass(&PassSetup { gate_fits: Some(fits), ..PassSetup::default() });
    fold
}

/// Even blocks: all keep the first head, three of five the second. Odd blocks: four keep the first, all the third.
fn folds() -> [FoldFits; 2] {
    let even = [[1.0, 0.6, 0.0], [1.0, 0.5, 0.1], [0.9, 0.7, 0.0], [1.0, 0.4, 0.0], [1.0, 0.0, 0.0]];
    let odd = [[1.0, 0.0, 0.8], [1.0, 0.1, 0.9], [0.8, 0.0, 0.9], [0.2, 0.0, 1.0], [1.0, 0.2, 0.5]];
    [fold(&even), fold(&odd)]
}

/// Logits of two tokens by which the first has the loss `nats`.
#[expect(clippy::cast_possible_truncation, reason = "a logit")]
fn logits(nats: f64) -> [f32; 2] {
    let p = (-nats).exp();
    [p.ln() as f32, (1.0 - p).ln() as f32]
}

/// Shows sentences of one masked token each, whose loss of 2 rises by what `rise` says of the heads that are gone.
fn show(sums: &mut KeptHeadLossSums, rise: impl Fn(u64, &[usize]) -> f64) {
    for index in 0..128 {
        let token = PredictedToken::masked(1, 0, Some(0));
        let masked = Sequence { predictions: vec![token], ..sentence(index, 2, "dep") };
        let mut state = sums.begin(&masked).unwrap();
        sums.observe(&mut state, &mut Event::Logits { position: 1, logits: &logits(2.0) });
        for (number, removed) in sums.demands().further_runs.ablated_sets().iter().enumerate() {
            let places: Vec<usize> = removed.iter().map(|place| GRID.index(place.layer, place.head)).collect();
            sums.observe(&mut state, &mut Event::AblationVariant(number));
            sums.observe(&mut state, &mut Event::Logits { position: 1, logits: &logits(2.0 + rise(index, &places)) });
        }
    }
}

fn result(folds: &[FoldFits; 2], sums: &KeptHeadLossSums) -> GatesResult {
    let absent = vec![GRID.head_place(3)];
    let context = EstimationContext { absent_heads: absent, ..EstimationContext::new(GRID, core_count()) };
    let mut section = GatesResult::new([&folds[0], &folds[1]], sums, &context);
    section.add_late_fact(&LateFact::Policy(&default_policy()));
    section
}

fn view(section: &GatesResult) -> View<'_> {
    section.view(ViewContext::new(&default_policy()))
}

fn kept_sets(folds: &[FoldFits; 2], obstacle: Option<Obstacle>) -> KeptHeadSets {
    KeptHeadSets::new([&folds[0], &folds[1]], obstacle, &[])
}

fn names(heads: &[HeadPlace]) -> Vec<String> {
    heads.iter().map(ToString::to_string).collect()
}

/// The set of even blocks is the first head, that of odd blocks the first and the third. The first costs 1, the second .02 and the
/// third .01.
#[test]
fn the_set_of_one_fold_is_scored_on_the_other() {
    let folds = folds();
    let mut sums = KeptHeadLossSums::new(GRID, kept_sets(&folds, None));
    let worth = [1.0, 0.02, 0.01, 0.5];
    show(&mut sums, |_, gone| gone.iter().map(|&place| worth[place]).sum());
    let section = result(&folds, &sums);
    let found = &section;
    assert_eq!((found.masked_tokens, found.sentences, found.loss, found.fit_count()), (128, 128, Some(2.0), 10));
    assert_eq!([names(&found.folds[0].set), names(&found.folds[1].set)], [vec!["L0H0"], vec!["L0H0", "L1H0"]]);
    let kept: Vec<_> = found.heads.iter().map(|head| (head.kept, head.kept_even, head.kept_odd)).collect();
    assert_eq!(kept[..2], [(Some(9), Some(5), Some(4)), (Some(3), Some(3), Some(0))]);
    assert_eq!(kept[2..], [(Some(5), Some(0), Some(5)), (None, None, None)]);
    assert!((found.heads[1].gate_even.unwrap() - 0.44).abs() < 1e-12);
    let alone = found.alone.as_ref().unwrap();
    assert_eq!((names(&alone.in_both), names(&alone.in_one)), (vec!["L0H0".to_owned()], vec!["L1H0".to_owned()]));
    // Without the second and third head on odd blocks, .03; without the second on even blocks, .02.
    assert!((alone.rise - 0.025).abs() < 1e-5, "{alone:?}");
    assert_eq!((alone.of, alone.random_rises.len()), (ShareOf::Loss, 3));
    assert!((alone.margin - 0.02).abs() < 1e-12);
    // A random set of even blocks leaves out two of the three gated heads, one of odd blocks a single head; rises are their mean. The
    // absent head is never gone: what it is worth costs nothing.
    let possible = [0.03, 1.01, 1.02].iter().flat_map(|two| [1.0, 0.02, 0.01].map(|one| (two + one) / 2.0));
    let possible: Vec<f64> = possible.collect();
    let is_possible = |rise: f64| possible.iter().any(|mean| (rise - mean).abs() < 1e-5);
    assert!(alone.random_rises.iter().all(|&rise| is_possible(rise)), "{alone:?}");
    assert_eq!((found.together, found.obstacle), (false, Some(NoSet::RiseNotBelow)));
    let summary = view(&section).summary.to_string();
    let is_verdict = |line: &&str| line.starts_with("Kept in") || line.starts_with("No heads");
    // Without the estimates that follow the first sentence.
    let mut verdict = summary.lines().filter(is_verdict).filter_map(|line| line.split(". ").next());
    insta::assert_snapshot!(verdict.join("\n"), @"
    Kept in 9 of 10 fits: L0H0.
    Kept in 5 of 10 fits: L1H0.
    Kept in 3 of 10 fits: L0H1.
    No heads are said to do the task together: the rise of the loss is not shown to be below 1 % of the loss (0.0200 nats)
    ");
    assert!(view(&section).in_brief.finding.is_none());
    let card = |head| section.head_card(GRID.head_place(head), ViewContext::new(&default_policy()));
    assert_eq!(
        card(0).lines,
        ["kept in 9 of 10 fits of all gates together (mean gate 0.98 and 0.80 in the halves of the sample)"]
    );
    assert!(card(3).lines.is_empty() && card(0).clauses.is_empty());
    assert_eq!((view(&section).figures.len(), section.defect(GRID)), (1, None));
    insta::assert_snapshot!(section.defect(HeadGrid { layers: 1, heads: 2 }).unwrap(), @"`gates` does not have each head of the model once, layer by layer");
}

#[test]
fn heads_that_cost_less_than_the_margin_do_the_task_together() {
    let folds = folds();
    let rise = |high: f64| {
        let mut sums = KeptHeadLossSums::new(GRID, kept_sets(&folds, None));
        // Half of the sentences in each fold, one sentence a block.
        let of = move |index: u64| if index % 4 < 2 { high } else { 0.0 };
        show(&mut sums, move |index, gone| if gone.contains(&0) { 1.0 } else { of(index) });
        result(&folds, &sums)
    };
    // The mean is .01; the deviation of 64 blocks of .02 and 0 is .01, the interval .01 ± 2 * .01 / 8.
    let section = rise(0.02);
    let alone = section.alone.as_ref().unwrap();
    let high = alone.rise_ci95.unwrap().high();
    assert!((alone.rise - 0.01).abs() < 1e-5 && (high - 0.0125).abs() < 5e-4, "{alone:?}");
    assert!(section.together && section.obstacle.is_none());
    let finding = view(&section).in_brief.finding;
    insta::assert_snapshot!(finding.unwrap(), @"Heads that do the task together: 1 head in the sets of both halves (L0H0), 1 in one (L1H0). Alone on the other half they cost +0.0100 ±0.0025 nats a token, below 1 % of the loss (0.0200 nats).");
    // The mean is below the margin of .02, but the interval, .0175 ± .0044, is not.
    let section = rise(0.035);
    assert!(section.alone.as_ref().unwrap().rise < 0.02 && !section.together);
}

/// Pairs of fits agree on all of three gated heads, or on two.
#[test]
fn agreement_by_hand() {
    let all_alike = fold(&[[1.0, 0.0, 0.0]; 3]);
    let sums = KeptHeadLossSums::new(GRID, KeptHeadSets::default());
    let found = result(&[all_alike.clone(), fold(&[[1.0, 1.0, 0.0]])], &sums);
    assert_eq!(found.folds[0].starts_agree, Some(FitAgreement { share: 1.0, kappa: Some(1.0) }));
    assert_eq!(found.folds[1].starts_agree, None);
    // Two of three alike; by chance (1/3 * 2/3) + (2/3 * 1/3) = 4/9: (2/3 - 4/9) / (5/9) = .4
    let across = found.folds_agree.unwrap();
    assert!((across.share - 2.0 / 3.0).abs() < 1e-12 && (across.kappa.unwrap() - 0.4).abs() < 1e-12);
    // A fit that keeps all heads agrees with any by chance.
    let found = result(&[fold(&[[1.0; 3]]), all_alike], &sums);
    assert_eq!(found.folds_agree.map(|found| found.kappa), Some(None));
}

#[test]
fn no_set_is_said_to_do_what_cannot_be_said() {
    let folds = folds();
    // A model that cannot do its task: nothing runs, and the reason is kept.
    let sets = kept_sets(&folds, Some(Obstacle::NotAboveBaseline));
    assert!(KeptHeadLossSums::new(GRID, sets.clone()).demands().further_runs.ablated_sets().is_empty());
    let section = result(&folds, &KeptHeadLossSums::new(GRID, sets));
    assert_eq!((section.obstacle, section.alone.is_none()), (Some(NoSet::NotAboveBaseline), true));
    let summary = view(&section).summary.to_string();
    insta::assert_snapshot!(summary.lines().filter(|line| line.starts_with("No heads")).join("\n"), @"No heads are said to do the task together: the model is not shown to be above the baseline of the task.");
    // A fold without tokens, and one whose heads are worth nothing.
    let nothing = |units, band| {
        let mut fold = FoldFits::new(GRID);
        let fits = GateFits { known: Some(FittedLoss { units, band, ..FittedLoss::default() }), fits: BTreeMap::new() };
        fold.begin_pass(&PassSetup { gate_fits: Some(fits), ..PassSetup::default() });
        let folds = [fold, folds[0].clone()];
        let sums = KeptHeadLossSums::new(GRID, kept_sets(&folds, None));
        assert!(sums.demands().further_runs.ablated_sets().is_empty());
        result(&folds, &sums).obstacle
    };
    assert_eq!([nothing(0, 0.0), nothing(3, 0.0)], [Some(NoSet::NothingScored), Some(NoSet::NothingLost)]);
    // Too few sentences for a verdict.
    let mut sums = KeptHeadLossSums::new(GRID, kept_sets(&folds, None));
    show(&mut sums, |_, _| 0.0);
    let mut section = result(&folds, &sums);
    section.sentences = 3;
    section.add_late_fact(&LateFact::Policy(&default_policy()));
    assert_eq!((section.together, section.obstacle), (false, Some(NoSet::TooFew)));
}

#[test]
fn a_set_of_all_heads_costs_nothing() {
    let folds = [fold(&[[1.0; 3]; 5]), fold(&[[1.0; 3]; 5])];
    let mut sums = KeptHeadLossSums::new(GRID, kept_sets(&folds, None));
    // Without any head alone.
    assert_eq!(sums.demands().further_runs.ablated_sets().len(), 1);
    show(&mut sums, |_, _| 1.0);
    let found = result(&folds, &sums);
    assert_eq!((found.alone.unwrap().rise, found.together), (0.0, true));
}

#[test]
fn heads_of_shared_layers_are_drawn_together() {
    let shared = KeptHeadSets::new([&fold(&[[1.0, 0.0, 1.0]; 5]), &fold(&[[1.0, 0.0, 1.0]; 5])], None, &[0, 0]);
    // Heads 0 and 2 share their weights, and head 1 has an absent partner.
    for random in &shared.folds[0].random {
        assert!([vec![0, 2], vec![0, 1, 2]].contains(random), "{random:?}");
    }
    assert!(shared.folds[0].heads_to_remove(&shared.folds[0].kept) == [1]);
}

#[test]
fn parts_add_up() {
    let [whole, other] = folds();
    let shard = |starts: [u64; 2]| {
        let mut part = FoldFits::new(GRID);
        let fits: BTreeMap<u64, GateFit> = whole
            .fits_by_start()
            .filter(|(start, _)| (starts[0]..starts[1]).contains(start))
            .map(|(n, fit)| (n, fit.clone()))
            .collect();
        let known = (!fits.is_empty()).then(|| whole.fitted_loss());
        part.begin_pass(&PassSetup { gate_fits: Some(GateFits { known, fits }), ..PassSetup::default() });
        part
    };
    let mut merged = shard([0, 2]);
    merged.merge(&shard([2, 5]));
    merged.merge(&shard([5, 5]));
    assert_eq!(merged, whole);
    assert!(
        whole.fits(GRID, FromToken::Mean, &LayerClasses::default())
            && !other.fits(HeadGrid { layers: 1, heads: 2 }, FromToken::Mean, &LayerClasses::default())
    );
}
