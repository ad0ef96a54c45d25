use sha2::{Digest, Sha256};

use super::sums::{ArcLosses, AttentionExchange};
use super::*;
use crate::corpus::TreeHead;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::HeadView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::requests::PatchedRun;
use crate::passes::observer::{Event, FoldBuffers, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{GoldArc, PredictedToken, Sequence};
use crate::sequences::test_support::sentence;
use crate::stats::blocks::{Merge, block_of};
use crate::studies::registry::default_policy;
use crate::study::labels::evidence::Direction;
use crate::study::labels::policy::Policy;
use crate::study::section::{LateFact, Section, ViewContext};
use crate::study::upstream::ArcClaim;
use crate::system::parallel::core_count;

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

/// The attention of every token: more to the second and fourth.
const ROW: [f32; 7] = [0.1, 0.2, 0.1, 0.15, 0.19, 0.16, 0.1];

/// Shows a sentence, and then to each position that a patched run predicts these logits by the run's number and the truth.
fn observe(sums: &mut KnockoutSums, index: u64, logits: impl Fn(usize, usize) -> [f32; 3]) -> Vec<PatchedRun> {
    let mut state = sums.begin(&masked(index)).unwrap();
    let weights = ROW.repeat(7);
    for head in 0..2 {
        let view = HeadView::from(AttentionView::new(0, head, 7, &weights));
        sums.observe(&mut state, &mut Event::Head(FoldBuffers::default().head_input(&masked(index), view)));
    }
    let patched_runs = sums.patched_runs(&mut state);
    for (number, run) in patched_runs.iter().enumerate() {
        // The truth of token 2 is 1, that of token 5 is 2.
        let truth = if run.predicted == [2] { 1 } else { 2 };
        sums.patched_logits(&mut state, number, run.predicted[0], &logits(number, truth));
    }
    patched_runs
}

/// The patched runs of a sentence of which the first of each two makes the truth e times as likely as the other tokens.
fn patched_runs(sums: &mut KnockoutSums, index: u64) -> Vec<PatchedRun> {
    let likelier = |number: usize, truth: usize| {
        std::array::from_fn(|token| if token == truth && number.is_multiple_of(2) { 1.0 } else { 0.0 })
    };
    observe(sums, index, likelier)
}

#[test]
fn the_weight_to_the_partner_is_exchanged() {
    let of = |claim: ArcClaim| {
        let mut sums = KnockoutSums::new(GRID, vec![claim]);
        let runs = patched_runs(&mut sums, 0);
        (runs, sums.blocks[block_of(0)][0])
    };
    let run = |place: usize, query: usize, partner: usize, number: usize| {
        let words: Vec<_> = (1..6).map(|token| token..token + 1).collect();
        let weights = ROW.repeat(7);
        let rows = AttentionExchange::new(0, query, partner, &[0, 1, 2, 3, 4])
            .unwrap()
            .changed_rows(AttentionView::new(0, place, 7, &weights), &words);
        PatchedRun { place: GRID.head_place(place), rows: rows[number].clone(), predicted: vec![query + 1] }
    };
    // Word 1 is the only masked object; its head is word 2.
    let (runs, losses) = of(claim(1, Direction::DependentToHead, -1));
    assert_eq!(runs, [0, 1].map(|number| run(1, 1, 2, number)));
    assert_eq!((losses.at_offset.arcs, losses.off_offset.arcs), (0, 1));
    // Where its head is at the best offset it counts as well, apart.
    let (runs, losses) = of(claim(1, Direction::DependentToHead, 1));
    assert_eq!(runs, [0, 1].map(|number| run(1, 1, 2, number)));
    assert_eq!((losses.at_offset.arcs, losses.off_offset.arcs, losses.total().arcs), (1, 0, 1));
    // Word 4 is the only masked head; its object is word 0.
    let (runs, _) = of(claim(0, Direction::HeadToDependent, 1));
    assert_eq!(runs, [0, 1].map(|number| run(0, 4, 0, number)));
    // A word whose partner is masked as well is left out.
    let mut sums = KnockoutSums::new(GRID, vec![claim(1, Direction::DependentToHead, -1)]);
    let mut sequence = masked(0);
    sequence.predictions.push(PredictedToken::masked(3, 2, None));
    assert!(sums.begin(&sequence).is_none());
}

#[test]
fn losses_are_summed_by_block() {
    let mut sums = KnockoutSums::new(GRID, vec![claim(1, Direction::DependentToHead, -1)]);
    patched_runs(&mut sums, 7);
    let ArcLosses { arcs, kept, exchanged } = sums.blocks[block_of(7)][0].off_offset;
    let (thirds, likelier) = (3.0_f64.ln(), (1.0_f64.exp() + 2.0).ln() - 1.0);
    assert_eq!(arcs, 1);
    assert!((exchanged.value() - thirds).abs() < 1e-6);
    assert!((kept.value() - likelier).abs() < 1e-6);
    let mut twice = sums.clone();
    twice.merge(&sums);
    assert_eq!(twice.blocks.total()[0].off_offset.arcs, 2);
    assert!(
        sums.fits(GRID, FromToken::Mean, &LayerClasses::default())
            && !sums.fits(HeadGrid { layers: 1, heads: 1 }, FromToken::Mean, &LayerClasses::default())
    );
}

fn measured(sums: &KnockoutSums, policy: &Policy) -> KnockoutSection {
    let context = EstimationContext::new(GRID, core_count());
    let mut section = KnockoutSection::new(sums, &context);
    section.add_late_fact(&LateFact::Policy(policy));
    section
}

#[test]
fn used_is_what_is_surely_above_an_exchanged_weight() {
    let claims = [claim(1, Direction::DependentToHead, -1), claim(0, Direction::HeadToDependent, 1)];
    let mut sums = KnockoutSums::new(GRID, claims.to_vec());
    (0..128).for_each(|index| drop(patched_runs(&mut sums, index)));
    let policy = default_policy();
    let section = measured(&sums, &policy);
    let tests: Vec<_> = section.knockout.iter().map(|label| (label.test.arcs, label.test.used)).collect();
    assert_eq!(tests, [(128, Some(true)), (128, Some(true))]);
    // Sentences in which the partner is not missed make it vary; in the second claim the exchange is a gain.
    let mut varied = sums.clone();
    for index in 0..40 {
        observe(&mut varied, index, |number, _| if number == 2 { [0.0, -9.0, -9.0] } else { [0.0; 3] });
    }
    let section = measured(&varied, &policy);
    let [first, second] = [0, 1].map(|claim| &section.knockout[claim].test);
    assert_eq!((first.used, second.used), (Some(true), Some(false)));
    assert!(first.q.unwrap() < 1e-6 && first.ci95.unwrap().low() > 0.0 && second.loss.unwrap() < 0.0);
    let summary = section.view(ViewContext::new(&policy)).summary.to_string();
    insta::assert_snapshot!(summary.lines().next().unwrap(), @"Use of arcs: the loss of a masked or replaced word once the head's weights on its partner and on a word as far away are exchanged, less that before, in nats a word, all other weights dealt out at random in both; over all arcs, and over those off the best offset. 1 of 2 labels tested is of arcs that are used:");
    let of = |head, direction| {
        let exported = section.view(ViewContext::new(&policy)).use_tests.into_iter();
        exported
            .filter(|one| (one.place.head, one.label.as_str(), one.direction) == (head, "syntactic:obj", direction))
            .map(|one| one.test)
            .next()
    };
    assert_eq!(of(1, Direction::DependentToHead).as_ref(), Some(first));
    assert_eq!(of(1, Direction::HeadToDependent), None);
}

/// Forty claims of which nothing depends on the partner: what is lost differs from run to run by chance.
#[test]
fn where_the_partner_is_any_word_nothing_is_used() {
    let claims = vec![claim(1, Direction::DependentToHead, -1); 40];
    let mut sums = KnockoutSums::new(GRID, claims);
    for index in 0..256 {
        observe(&mut sums, index, |number, _| {
            let hash = Sha256::digest(format!("{index} {number}"));
            std::array::from_fn(|token| f32::from(hash[token]) / 64.0)
        });
    }
    let section = measured(&sums, &default_policy());
    let used = section.knockout.iter().filter(|label| label.test.used == Some(true)).count();
    assert!(section.knockout.iter().all(|label| label.test.arcs == 256 && label.test.used.is_some()));
    assert!(used * 20 <= 40, "{used} of 40");
}

#[test]
fn few_arcs_are_not_tested() {
    let mut sums = KnockoutSums::new(GRID, vec![claim(1, Direction::DependentToHead, -1)]);
    (0..99).for_each(|index| drop(patched_runs(&mut sums, index)));
    let section = measured(&sums, &default_policy());
    assert_eq!((section.knockout[0].test.arcs, section.knockout[0].test.used), (99, None));
    insta::assert_snapshot!(section.view(ViewContext::new(&default_policy())).summary.to_string(), @"
    Use of arcs: the loss of a masked or replaced word once the head's weights on its partner and on a word as far away are exchanged, less that before, in nats a word, all other weights dealt out at random in both; over all arcs, and over those off the best offset. No label was tested:

     head  label          direction  arcs            use  q  arcs off offset  use off offset  used       
     L0H1  syntactic:obj  dep->head    99  +0.547 ±0.000  -               99   +0.547 ±0.000  not tested 

    Labels not tested: 1, with fewer than 100 such arcs in the sample (`--sample` sets its size), or with arcs of too few sentences.
    ");
    let nothing = measured(&KnockoutSums::new(GRID, Vec::new()), &default_policy());
    insta::assert_snapshot!(nothing.view(ViewContext::new(&default_policy())).summary.to_string(), @"No head has a syntactic label, so no use of an arc was tested.");
}
