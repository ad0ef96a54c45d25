use std::sync::Arc;

use super::section::TaskResult;
use super::*;
use crate::corpus::SentenceGroup;
use crate::model::files::Pooling;
use crate::model::forward::rows::Rows;
use crate::model::grid::HeadGrid;
use crate::passes::ablation::{PassConditions, Replacement};
use crate::passes::observer::{Event, Sums, new_observer};
use crate::passes::setup::PassSetup;
use crate::sequences::derived::task::TaskKind;
use crate::sequences::sequence::{ItemPart, ScoreRule, TripleRole};
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::sequences::test_support::sentence;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::Merge;
use crate::studies::ablation::losses::RightShare;
use crate::studies::ablation::verdicts::{Verdict, Verdicts};
use crate::studies::registry::default_policy;
use crate::study::section::{LateFact, Section, ViewContext};
use crate::study::upstream::Obstacle;
use crate::study::{AnyStudy, ObservedPass};
use crate::system::parallel::core_count;
use sha2::{Digest, Sha256};

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// A cloze item whose answer is token 1 and whose foil is token 0.
fn cloze(index: u64, unit: u64, is_first: bool, answer: u32) -> Sequence {
    let part = ItemPart {
        rule: ScoreRule::VersusFoil(0),
        answer: Some(answer),
        foils: Vec::new(),
        group: Some(Arc::from("all")),
        corruption: None,
    };
    Sequence {
        family: SentenceGroup { number: unit, is_first },
        predictions: vec![PredictedToken::masked(1, 0, Some(1))],
        item: Some(part),
        ..sentence(index, 1, "dep")
    }
}

/// Shows a sequence in all variants, by the difference of its two logits: with all heads, without each, without any.
#[expect(clippy::cast_possible_truncation, reason = "a logit")]
fn show(sums: &mut TaskSums, sequence: &Sequence, differences: &[f64]) {
    let mut state = sums.begin(sequence).unwrap();
    for (variant, &difference) in differences.iter().enumerate() {
        if variant > 0 {
            sums.observe(&mut state, &mut Event::AblationVariant(variant - 1));
        }
        sums.observe(&mut state, &mut Event::Logits { position: 1, logits: &[0.0, difference as f32] });
    }
}

fn measured(sums: TaskSums, grid: HeadGrid) -> TaskResult {
    let observer = new_observer(sums);
    let context = EstimationContext::new(grid, core_count());
    let observed = [ObservedPass { sums: &*observer, left_out_sentences: 3 }];
    let (_, mut found) = AnyStudy::measure(&UserTask, &ObservedPasses(&observed), &context);
    found.add_late_fact(&LateFact::Policy(&default_policy()));
    downcast_section::<TaskResult>(&*found).clone()
}

#[test]
fn scores_by_hand() {
    let mut sums = TaskSums::new(GRID, SingleHeadsAndAll);
    // Two items of one unit: the model is right on the first alone, and without head 0 on neither.
    show(&mut sums, &cloze(0, 7, true, 1), &[2.0, -1.0, 2.5, 0.0]);
    show(&mut sums, &cloze(1, 7, false, 1), &[-1.0, -2.0, 1.5, 0.0]);
    let found = measured(sums, GRID);
    assert_eq!((found.items, found.units, found.items_skipped), (2, 1, 3));
    assert_eq!((found.loss, found.loss_without_heads), (Some(-0.5), Some(0.0)));
    assert_eq!((found.right.share, found.right_without_heads), (Some(0.5), Some(0.0)));
    let of = |head: usize| (found.heads[head].on_loss.effect, found.heads[head].right_effect);
    // (2 - -1 + -1 - -2) / 2 and (2 - 2.5 + -1 - 1.5) / 2.
    assert_eq!([of(0), of(1)], [(Some(2.0), Some(-0.5)), (Some(-1.5), Some(0.5))]);
    assert_eq!((found.groups.len(), found.groups[0].effects[1]), (1, Some(-1.5)));
    // One unit decides nothing.
    assert_eq!((found.p_above_baseline, found.obstacle), (None, Some(Obstacle::TooFewUnits)));
    assert!(found.heads.iter().all(|head| head.on_loss.verdict.is_none()));
}

#[test]
fn the_texts_of_a_pair_add_up_wherever_they_are() {
    let text = |rule: ScoreRule| {
        let part = ItemPart { rule, answer: None, foils: Vec::new(), group: None, corruption: None };
        Sequence { item: Some(part), ..cloze(4, 4, true, 1) }
    };
    let (mut one, mut other) = (TaskSums::new(GRID, SingleHeadsAndAll), TaskSums::new(GRID, SingleHeadsAndAll));
    show(&mut one, &text(ScoreRule::GoodText), &[1.0; 4]);
    show(&mut other, &text(ScoreRule::BadText), &[-1.0; 4]);
    one.merge(&other);
    let found = measured(one, GRID);
    // ln σ(1) - ln σ(-1) = 1, σ being the logistic function: p of one of two tokens.
    assert!((found.loss.unwrap() + 1.0).abs() < 1e-6 && found.most_frequent_answer.is_none());
    assert_eq!((found.items, found.right.share), (1, Some(1.0)));
}

/// Shows all texts of a pack in the run with all heads: the logits at each position, and the last hidden states.
fn show_whole(sums: &mut TaskSums, texts: &[Sequence], logits: &[&[f32]], states: &[&[f32]]) {
    let mut seen: Vec<_> = texts.iter().map(|text| sums.begin(text).unwrap()).collect();
    for (number, state) in seen.iter_mut().enumerate() {
        for (position, logits) in logits.iter().enumerate() {
            sums.observe(state, &mut Event::Logits { position, logits });
        }
        if let Some(rows) = states.get(number) {
            let states = Rows::new(rows, 2);
            sums.observe(state, &mut Event::HiddenStates { layer: GRID.layers, states });
        }
    }
}

#[test]
fn the_words_of_tags_are_counted_one_by_one() {
    let mut sums = TaskSums::new(GRID, SingleHeadsAndAll);
    let (removal, task) = (Some(Replacement::Zero), Some(TaskKind::Tag));
    let conditions = PassConditions { removal, task, objective: None };
    sums.begin_pass(&PassSetup { conditions, ..PassSetup::default() });
    let predicted =
        |position, truth| PredictedToken { position, ..PredictedToken::masked(position, position, Some(truth)) };
    let part = ItemPart { rule: ScoreRule::Class, answer: None, foils: Vec::new(), group: None, corruption: None };
    let tagged = Sequence {
        predictions: vec![predicted(0, 0), predicted(1, 0), predicted(2, 1)],
        item: Some(part),
        ..cloze(0, 0, true, 0)
    };
    // Class 0 is twice as probable as class 1 at the first token, class 1 at the others.
    let first = [2.0_f32.ln(), 0.0];
    show_whole(&mut sums, &[tagged], &[&first, &[0.0, first[0]], &[0.0, first[0]]], &[]);
    let found = measured(sums, GRID);
    // Right are the first and the last; two of three words have class 0.
    assert_eq!((found.items, found.right.share.map(|share| (3.0 * share).round())), (1, Some(2.0)));
    assert!((found.baseline - 2.0 / 3.0).abs() < 1e-12);
    // -ln 2/3 - ln 1/3 - ln 2/3
    assert!((found.loss.unwrap() - (27.0_f64 / 4.0).ln()).abs() < 1e-6);
}

/// Each word has its own foil among three classes; a prediction is right where the label has the largest `p` of all.
#[test]
fn classes_are_held_against_their_foils() {
    let mut sums = TaskSums::new(GRID, SingleHeadsAndAll);
    let (removal, task) = (Some(Replacement::Zero), Some(TaskKind::Tag));
    let conditions = PassConditions { removal, task, objective: None };
    sums.begin_pass(&PassSetup { conditions, ..PassSetup::default() });
    let predicted =
        |position, truth| PredictedToken { position, ..PredictedToken::masked(position, position, Some(truth)) };
    let part = ItemPart { rule: ScoreRule::Class, answer: None, foils: vec![2, 0], group: None, corruption: None };
    let tagged =
        Sequence { predictions: vec![predicted(0, 0), predicted(1, 1)], item: Some(part), ..cloze(0, 0, true, 0) };
    show_whole(&mut sums, &[tagged], &[&[1.0, 3.0, 0.5], &[-0.25, 2.0, 0.0]], &[]);
    let found = measured(sums, GRID);
    // (1 - .5) + (2 + .25): the classes between which it chooses do not matter beside these.
    assert!((found.loss.unwrap() + 2.75).abs() < 1e-6, "{:?}", found.loss);
    assert_eq!(found.right.share.map(|share| (2.0 * share).round()), Some(1.0));
}

#[test]
fn the_texts_of_a_triple_are_compared_by_their_vectors() {
    let mut sums = TaskSums::new(GRID, SingleHeadsAndAll);
    let (removal, task) = (Some(Replacement::Zero), Some(TaskKind::Triple));
    let conditions = PassConditions { removal, task, objective: None };
    sums.begin_pass(&PassSetup { conditions, ..PassSetup::default() });
    let text = |of| {
        let part = ItemPart {
            rule: ScoreRule::Embedding(of, Pooling::First),
            answer: None,
            foils: Vec::new(),
            group: None,
            corruption: None,
        };
        Sequence { predictions: Vec::new(), item: Some(part), ..cloze(0, 0, true, 0) }
    };
    let texts = [TripleRole::Anchor, TripleRole::Positive, TripleRole::Negative].map(text);
    assert!(!texts[0].continues_triple() && texts[1].continues_triple() && texts[2].continues_triple());
    // At an angle of 0 and of 60 degrees; only the first token counts.
    show_whole(
        &mut sums,
        &texts,
        &[],
        &[&[1.0, 0.0, 9.0, 9.0], &[2.0, 0.0, 0.0, 5.0], &[1.0, 3.0_f32.sqrt(), 0.0, 0.0]],
    );
    let found = measured(sums, GRID);
    assert!((found.loss.unwrap() + 0.5).abs() < 1e-6 && found.right.share == Some(1.0));
    let said = found.view(ViewContext::new(&default_policy())).summary.fit(None);
    insta::assert_snapshot!(said, @"
    The model is right on 100.0 % of 1 item of the task (baseline 50 %), of 1 unit; the loss, minus the mean score of an item, is -0.500 cosines. Without any head 0.0 % are right and the loss is 0.000. 3 items of the file cannot be scored.
    Heads removed one at a time (by zero): 1 item of 1 unit is too few for a verdict on heads.
    The heads with the largest and smallest effects on the loss, ± half of the 95 % interval, q (false-discovery rate), and the change in the share right:

     head   effect  q          right  verdict    
     L0H0  +0.5000  -  -100.0 points  not judged 
     L0H1  +0.5000  -  -100.0 points  not judged
    ");
}

/// All items are right without any head, so that no head can matter but for the size of the score.
#[test]
fn heads_that_change_no_answer_matter_by_the_score_alone() {
    let effect = |index, head| if head == 0 { 0.5 + noise(index, "effect") } else { 0.0 };
    let said = |score: f64| {
        let task = planted(GRID, mixed, |_| score, effect);
        assert_eq!(task.heads[0].on_loss.verdict, Some(Verdict::Helpful));
        task.view(ViewContext::new(&default_policy())).in_brief.finding.unwrap()
    };
    // Without any head the score is 4 less.
    insta::assert_snapshot!([5.0, 3.0].map(said).join("\n"), @"
    The model is right on 100.0 % [97.2, 100.0] of 128 items of the task (baseline 50 %). 1 of 2 heads is shown to matter for this task, each removed alone (by mean), by its score alone: without any head no fewer items are right.
    The model is right on 100.0 % [97.2, 100.0] of 128 items of the task (baseline 50 %). 1 of 2 heads is shown to matter for this task, each removed alone (by mean).
    ");
}

/// 128 items with these answers, scores and effects of heads; all heads are worth 4.
fn planted(
    grid: HeadGrid,
    answer: impl Fn(u64) -> u32,
    score: impl Fn(u64) -> f64,
    effect: impl Fn(u64, usize) -> f64,
) -> TaskResult {
    let mut sums = TaskSums::new(grid, SingleHeadsAndAll);
    let (removal, task) = (Some(Replacement::Mean), Some(TaskKind::Cloze));
    let conditions = PassConditions { removal, task, objective: None };
    sums.begin_pass(&PassSetup { conditions, ..PassSetup::default() });
    for index in 0..128 {
        let without = (0..grid.head_count()).map(|head| score(index) - effect(index, head));
        let all: Vec<f64> = [score(index)].into_iter().chain(without).chain([score(index) - 4.0]).collect();
        show(&mut sums, &cloze(index, index, true, answer(index)), &all);
    }
    measured(sums, grid)
}

/// Eight answers in turn.
fn mixed(index: u64) -> u32 {
    u32::from(index.to_le_bytes()[0] % 8)
}

/// A number from -1 to 1 that looks random.
fn noise(index: u64, of: impl std::fmt::Display) -> f64 {
    let digest = Sha256::digest(format!("{index}/{of}"));
    f64::from(u16::from_le_bytes([digest[0], digest[1]])) / 32767.5 - 1.0
}

#[test]
fn heads_have_verdicts_where_the_model_can_do_the_task() {
    let effect = |index, head| if head == 0 { 0.5 + noise(index, "effect") } else { 0.0 };
    let able = planted(GRID, mixed, |_| 1.0, effect);
    assert_eq!((able.obstacle, able.kind), (None, Some(TaskKind::Cloze)));
    let verdict = |found: &TaskResult, head: usize| found.heads[head].on_loss.verdict;
    assert_eq!([verdict(&able, 0), verdict(&able, 1)], [Some(Verdict::Helpful), Some(Verdict::Negligible)]);
    // Right on every other item.
    let unable = planted(GRID, mixed, |index| if index % 2 == 0 { 1.0 } else { -1.0 }, effect);
    assert_eq!((unable.obstacle, verdict(&unable, 0)), (Some(Obstacle::NotAboveBaseline), None));
    assert_eq!(unable.verdicts, Verdicts::default());
    // One answer is right on 96 of 128 items.
    let of_one = planted(GRID, |index| u32::from(index % 4 == 0), |_| 1.0, effect);
    assert_eq!((of_one.obstacle, of_one.most_frequent_answer), (Some(Obstacle::OneAnswer), Some(0.75)));
    assert!(of_one.heads.iter().all(|head| head.on_loss.verdict.is_none()));
}

#[test]
fn no_head_matters_where_signs_are_exchanged() {
    // The control of a task: the score of a random half of the units has the other sign, so that no head can matter for it. All
    // sixteen heads have an effect of 1 ± 1 on the true scores.
    let grid = HeadGrid { layers: 4, heads: 4 };
    let decided = |seed: u64| {
        let sign = |index: u64| if noise(index, format!("sign {seed}")) > 0.0 { 1.0 } else { -1.0 };
        let effect = |index: u64, head: usize| sign(index) * (1.0 + noise(index, format!("{head}/{seed}")));
        // Verdicts are asked for, so the model is right here.
        let found = planted(grid, mixed, |_| 3.0, effect);
        found.verdicts.helpful + found.verdicts.harmful
    };
    let decided: u64 = (0..20).map(decided).sum();
    // 5 % of 320 heads.
    assert!(decided <= 16, "{decided}");
}

/// With 40 units the limits are `0.025^(1/40)`, `exp(ln 0.025 / 40)`.
#[test]
fn where_all_or_none_are_right_the_interval_is_not_a_point() {
    let share = |right: f64| {
        let blocks = Jackknife::new(&[right; 40], &[1.0; 40]);
        RightShare::new(right, blocks, 40).ci95.unwrap()
    };
    let (all, none) = (share(1.0), share(0.0));
    assert!((all.low() - 0.911_903).abs() < 1e-6 && all.high() >= 1.0, "{all:?}");
    assert!((none.high() - 0.088_097).abs() < 1e-6 && none.low() <= 0.0, "{none:?}");
}
