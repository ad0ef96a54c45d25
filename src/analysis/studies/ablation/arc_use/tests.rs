use super::sums::Cuts;
use super::*;
use crate::corpus::TreeHead;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::HeadView;
use crate::model::grid::HeadGrid;
use crate::passes::observer::{Event, Folder, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{GoldArc, PredictedToken, Sequence};
use crate::sequences::test_support::sentence;
use crate::stats::blocks::{Merge, block_of};
use crate::studies::registry::default_policy;
use crate::study::labels::evidence::Direction;
use crate::study::labels::policy::Policy;
use crate::study::section::Completion;
use crate::study::section::Section;
use crate::study::upstream::ArcClaim;
use crate::system::parallel::all_cores;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

fn claim(place: usize, direction: Direction, offset: i32) -> ArcClaim {
    ArcClaim { place, label: "syntactic:obj".to_owned(), relation: "obj".to_owned(), direction, offset }
}

/// Five words, each a token: 1 and 3 are objects of 2, 0 of 4; the words 1 and 4 are masked, true are 1 and 2.
fn masked(index: u64) -> Sequence {
    let arc = |head, relation: &str| GoldArc { head, relation: relation.to_owned() };
    let [of_two, of_four, root] = [TreeHead::Word(2), TreeHead::Word(4), TreeHead::Root];
    let tree =
        vec![arc(of_four, "obj"), arc(of_two, "obj:x"), arc(of_four, "acl"), arc(of_two, "obj"), arc(root, "root")];
    let token = |word: usize, truth| PredictedToken::masked(word + 1, word, Some(truth));
    Sequence { tree: Some(tree), predictions: vec![token(1, 1), token(4, 2)], ..sentence(index, 5, "dep") }
}

/// The patched runs of a sentence after head 1 has attended evenly but for more to its second and fourth token, each as query word,
/// the word whose weight is cut, and the position that is predicted.
fn patched_runs(sums: &mut UseSums, index: u64) -> Vec<(usize, usize, Vec<usize>)> {
    let mut state = sums.begin(&masked(index));
    let row = [0.1, 0.2, 0.1, 0.15, 0.19, 0.16, 0.1];
    let weights = row.repeat(7);
    for head in 0..2 {
        let view = HeadView::from(AttentionView::new(0, head, 7, &weights));
        sums.observe(&mut state, &mut Event::Head(Folder::default().head_input(&masked(index), view)));
    }
    let patched_runs = sums.patched_runs(&mut state);
    for (number, run) in patched_runs.iter().enumerate() {
        // The truth of token 2 is 1, that of token 5 is 2: its logits make it e times as likely as the two others.
        let position = run.predicted[0];
        let truth = if position == 2 { 1 } else { 2 };
        let logits: [f32; 3] = std::array::from_fn(|token| if token == truth && number % 2 == 1 { 1.0 } else { 0.0 });
        sums.patched_logits(&mut state, number, position, &logits);
    }
    sums.end_pack(vec![state]);
    patched_runs.into_iter().map(|run| (run.queries.start - 1, run.keys.start - 1, run.predicted)).collect()
}

#[test]
fn the_weight_to_the_partner_is_cut_and_the_one_nearest_to_it() {
    let both = |claim: ArcClaim| patched_runs(&mut UseSums::new(GRID, FromToken::Mean, vec![claim]), 0);
    // Word 1 is the only masked object. Its head, word 2, has a weight of 0.15; nearest to that is word 4 with 0.16.
    assert_eq!(both(claim(1, Direction::DependentToHead, -1)), [(1, 2, vec![2]), (1, 4, vec![2])]);
    // Not where its head is at the best offset.
    assert_eq!(both(claim(1, Direction::DependentToHead, 1)), []);
    // Word 4 is the only masked head; its object, word 0, has a weight of 0.2: nearest is word 3 with 0.19.
    assert_eq!(both(claim(0, Direction::HeadToDependent, 1)), [(4, 0, vec![5]), (4, 3, vec![5])]);
    // A word whose partner is masked as well is left out.
    let mut sums = UseSums::new(GRID, FromToken::Mean, vec![claim(1, Direction::DependentToHead, -1)]);
    let mut sequence = masked(0);
    sequence.predictions.push(PredictedToken::masked(3, 2, None));
    let state = sums.begin(&sequence);
    assert!(!UseSums::is_relevant(&state));
}

#[test]
fn losses_are_summed_by_block() {
    let mut sums = UseSums::new(GRID, FromToken::Mean, vec![claim(1, Direction::DependentToHead, -1)]);
    patched_runs(&mut sums, 7);
    let Cuts { arcs, without_partner, without_other } = sums.blocks[block_of(7)][0];
    let (thirds, likelier) = (3.0_f64.ln(), (1.0_f64.exp() + 2.0).ln() - 1.0);
    assert_eq!(arcs, 1);
    assert!((without_partner.value() - thirds).abs() < 1e-6);
    assert!((without_other.value() - likelier).abs() < 1e-6);
    let mut twice = sums.clone();
    twice.merge(&sums);
    assert_eq!(twice.blocks.total()[0].arcs, 2);
    assert!(sums.fits(GRID, FromToken::Mean) && !sums.fits(HeadGrid { layers: 1, heads: 1 }, FromToken::Mean));
}

fn measured(sums: &UseSums, policy: &Policy) -> UseSection {
    let context = EstimationContext { grid: GRID, threads: all_cores(), leaves_out: false };
    let mut section = UseSection::new(sums, &context);
    section.complete(&Completion::Policy(policy));
    section
}

#[test]
fn used_is_what_is_surely_above_an_equal_weight_elsewhere() {
    let claims = [claim(1, Direction::DependentToHead, -1), claim(0, Direction::HeadToDependent, 1)];
    let mut sums = UseSums::new(GRID, FromToken::Mean, claims.to_vec());
    // Every cut of a partner costs as much more: without any variation nothing is known of how it would vary.
    (0..128).for_each(|index| drop(patched_runs(&mut sums, index)));
    let policy = default_policy();
    let section = measured(&sums, &policy);
    let tests: Vec<_> = section.use_of_arcs.iter().map(|label| (label.test.arcs, label.test.used)).collect();
    assert_eq!(tests, [(128, None), (128, None)]);
    // A second sentence in which the partner is not missed makes it vary.
    let mut varied = sums.clone();
    for index in 0..40 {
        let mut state = varied.begin(&masked(index));
        let row = [0.1, 0.2, 0.1, 0.15, 0.19, 0.16, 0.1].repeat(7);
        for head in 0..2 {
            let view = HeadView::from(AttentionView::new(0, head, 7, &row));
            varied.observe(&mut state, &mut Event::Head(Folder::default().head_input(&masked(index), view)));
        }
        let asked = varied.patched_runs(&mut state);
        for (number, run) in asked.iter().enumerate() {
            // Cutting the other word of the second claim costs more.
            let less = if number == 3 { -9.0 } else { 0.0 };
            varied.patched_logits(&mut state, number, run.predicted[0], &[0.0, less, less]);
        }
    }
    let section = measured(&varied, &policy);
    let [first, second] = [0, 1].map(|claim| &section.use_of_arcs[claim].test);
    assert_eq!((first.used, second.used), (Some(true), Some(false)));
    assert!(first.q.unwrap() < 1e-6 && first.ci95.unwrap().low() > 0.0 && second.loss.unwrap() < 0.0);
    let summary = section.summary(&policy).to_string();
    assert!(summary.contains("1 of 2 labels tested is of arcs that"), "{summary}");
    let of = |head, direction| {
        let exported = section.exports().tests_of_use.into_iter();
        exported
            .filter(|one| (one.head.head, one.label.as_str(), one.direction) == (head, "syntactic:obj", direction))
            .map(|one| one.test)
            .next()
    };
    assert_eq!(of(1, Direction::DependentToHead).as_ref(), Some(first));
    assert_eq!(of(1, Direction::HeadToDependent), None);
}

#[test]
fn few_arcs_are_not_tested() {
    let mut sums = UseSums::new(GRID, FromToken::Mean, vec![claim(1, Direction::DependentToHead, -1)]);
    (0..99).for_each(|index| drop(patched_runs(&mut sums, index)));
    let section = measured(&sums, &default_policy());
    assert_eq!((section.use_of_arcs[0].test.arcs, section.use_of_arcs[0].test.used), (99, None));
    assert!(section.summary(&default_policy()).to_string().contains("Labels not tested: 1, with fewer than 100"));
    let nothing = measured(&UseSums::new(GRID, FromToken::Mean, Vec::new()), &default_policy());
    assert!(nothing.summary(&default_policy()).to_string().starts_with("No head has a syntactic label"));
}
