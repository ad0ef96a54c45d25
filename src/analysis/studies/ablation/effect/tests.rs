use super::section::Effects;
use super::sums::TokenGroup;
use super::*;
use crate::corpus::{Annotation, Upos};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::model::parameters::Objective;
use crate::passes::ablation::{PassConditions, Replacement};
use crate::passes::observer::{Event, Sums, new_observer};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::ablation::losses::Losses;
use crate::studies::ablation::verdicts::{Verdict, Verdicts};
use crate::studies::registry::default_policy;
use crate::study::AnyStudy;
use crate::study::ObservedPass;
use crate::study::section::Section;
use crate::study::section::{LateFact, ViewContext};
use crate::system::parallel::core_count;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// How heads are removed.
const CONDITIONS: PassConditions =
    PassConditions { removal: Some(Replacement::Mean), objective: Some(Objective::MaskedTokens), task: None };

/// A sentence of nine words, each a token and the dependent of the one before; words 1 and 8 are masked, and word 3,
/// whose token is not known: true are 1 and 2.
fn masked(index: u64) -> Sequence {
    let token = |word: usize, truth| PredictedToken::masked(word + 1, word, truth);
    let annotation = |word: usize| Annotation {
        upos: Some(if word == 1 { Upos::Noun } else { Upos::Verb }),
        ..Annotation::default()
    };
    let mut sequence = sentence(index, 9, "obl:tmod");
    // Word 8 and its head, word 1, are always masked together.
    sequence.tree.as_mut().unwrap()[8].head = crate::corpus::TreeHead::Word(1);
    let annotations = (0..9).map(annotation).collect();
    Sequence { predictions: vec![token(1, Some(1)), token(3, None), token(8, Some(2))], annotations, ..sequence }
}

/// Logits of three tokens by which the true one has the loss `nats`.
fn logits(truth: usize, nats: f64) -> [f32; 3] {
    let p = (-nats).exp();
    #[expect(clippy::cast_possible_truncation, reason = "a logit")]
    std::array::from_fn(|token| if token == truth { p.ln() as f32 } else { ((1.0 - p) / 2.0).ln() as f32 })
}

/// Shows a sentence in all variants: the losses of its two scored tokens with all heads, without each, without any.
fn show(sums: &mut EffectSums, index: u64, losses: &[[f64; 2]]) {
    let mut state = sums.begin(&masked(index)).unwrap();
    for (variant, [first, second]) in losses.iter().enumerate() {
        if variant > 0 {
            sums.observe(&mut state, &mut Event::AblationVariant(variant - 1));
        }
        sums.observe(&mut state, &mut Event::Logits { position: 2, logits: &logits(1, *first) });
        sums.observe(&mut state, &mut Event::Logits { position: 9, logits: &logits(2, *second) });
    }
}

fn context(grid: HeadGrid) -> EstimationContext {
    EstimationContext::new(grid, core_count())
}

fn measured(sums: EffectSums, grid: HeadGrid) -> (Estimates, Effects) {
    let observer = new_observer(sums);
    let (estimates, mut found) = AnyStudy::measure(
        &Effect,
        &ObservedPasses(&[ObservedPass { sums: &*observer, left_out_sentences: 3 }]),
        &context(grid),
    );
    found.add_late_fact(&LateFact::Policy(&default_policy()));
    (estimates, downcast_section::<Effects>(&*found).clone())
}

#[test]
fn losses_are_summed_by_group_and_turn() {
    let mut sums = EffectSums::new(GRID, SingleHeadsAndAll);
    let variants = [[1.0, 2.0], [1.5, 2.25], [0.5, 2.0], [3.0; 2]];
    show(&mut sums, 5, &variants);
    let total = sums.blocks.total();
    let of = |group: &TokenGroup| {
        let Losses { tokens, sentences, whole, without } = &total[group];
        let sums = [*whole, without[2], without[0], without[1]].map(|sum| (sum.value() * 1e4).round() / 1e4);
        (*tokens, *sentences, sums)
    };
    assert_eq!(of(&TokenGroup::All), (2, 1, [3.0, 6.0, 3.75, 2.5]));
    assert_eq!(of(&TokenGroup::Class(Upos::Noun)), (1, 1, [1.0, 3.0, 1.5, 0.5]));
    assert_eq!(of(&TokenGroup::Class(Upos::Verb)), (1, 1, [2.0, 3.0, 2.25, 2.0]));
    // Relations count by their base name, and a word that is always masked together with its head is left out.
    assert_eq!(of(&TokenGroup::Relation("obl".to_owned())), (1, 1, [1.0, 3.0, 1.5, 0.5]));
    assert_eq!(total.len(), 4);

    let (estimates, found) = measured(sums, GRID);
    let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-5;
    assert!(near(found.loss, 1.5) && near(found.loss_without_heads, 3.0) && near(found.band, 0.015));
    // Half of an equal share of two heads is more than one hundredth.
    assert_eq!((found.masked_tokens, found.sentences, found.sentences_left_out), (2, 1, 3));
    assert!(near(found.heads[0].effect, 0.375) && near(found.heads[1].effect, -0.25));
    assert!(near(*estimates.heads[0].get("loss_effect_by_class", Some("NOUN")).unwrap(), 0.5));
    assert_eq!(estimates.heads[0].get("loss_effect_by_class", Some("ADJ")), Some(&None));
    assert!((found.relations[0].effects[1].unwrap() + 0.5).abs() < 1e-5 && found.relations[0].relation == "obl");
    // One sentence decides nothing.
    assert!(found.heads.iter().all(|head| head.verdict == Some(Verdict::Undecided) && head.q.is_none()));
}

/// 128 sentences of two tokens, in which heads have these effects and all heads are worth `bare`.
fn planted(grid: HeadGrid, bare: f64, effects: impl Fn(u64) -> Vec<f64>) -> Effects {
    let mut sums = EffectSums::new(grid, SingleHeadsAndAll);
    sums.begin_pass(&PassSetup { conditions: CONDITIONS, ..PassSetup::default() });
    for index in 0..128 {
        let mut variants = vec![[1.0; 2]];
        variants.extend(effects(index).iter().map(|effect| [1.0 + effect; 2]));
        variants.push([1.0 + bare; 2]);
        show(&mut sums, index, &variants);
    }
    measured(sums, grid).1
}

/// Effects differ from sentence to sentence, with either sign equally often, and are 0 in the mean.
fn noise(index: u64) -> f64 {
    match (index % 4 < 2, index < 64) {
        (true, true) => 0.02,
        (true, false) => -0.01,
        (false, true) => 0.03,
        (false, false) => -0.04,
    }
}

#[test]
fn verdicts_of_planted_effects() {
    let effects = |index| {
        let noise = noise(index);
        vec![0.2 + noise, -0.2 + noise, 0.0, 0.001 * noise, 0.05 * noise]
    };
    let found = planted(HeadGrid { layers: 1, heads: 5 }, 0.5, effects);
    let verdicts: Vec<Verdict> = found.heads.iter().filter_map(|head| head.verdict).collect();
    use Verdict::{Harmful, Helpful, Negligible};
    assert_eq!(verdicts, [Helpful, Harmful, Negligible, Negligible, Negligible]);
    // A head that writes nothing has an effect of exactly 0: each of 64 blocks is within the band, and twice 2^-64 is the least
    // of three.
    assert_eq!((found.heads[2].effect, found.heads[2].p), (Some(0.0), Some(1.0)));
    assert_eq!(found.heads[2].p_negligible, Some(f64::exp2(-64.0)));
    // Effects outside the band are not in the family of those within.
    assert_eq!((found.heads[0].q_negligible, found.heads[1].q_negligible), (None, None));
    let expected =
        serde_json::json!({ "helpful": 1, "harmful": 1, "negligible": 3, "undecided": 0, "also_negligible": 0 });
    assert_eq!(serde_json::to_value::<Verdicts>(found.verdicts).unwrap(), expected);
    let summary = found.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary.lines().next().unwrap(), @"Heads removed one at a time (by mean): loss of 256 masked tokens of 128 sentences, in nats a token, 1.000 with all heads and 1.500 without any. Verdicts: 1 helpful, 1 harmful, 3 negligible (effect within ±0.0050), 0 undecided. Largest and smallest effects, ± half of the 95 % interval, with q of the test against 0 and of the equivalence test (±0.0050):");
    assert!(summary.find("L0H0").unwrap() < summary.find("L0H1").unwrap(), "{summary}");
    let card = found.head_card(GRID.head_place(0), ViewContext::new(&default_policy())).lines.concat();
    insta::assert_snapshot!(card, @"without it (by mean) the loss is 0.2000 ±0.0013 nats a token more: helpful (q <1e-6)");
}

#[test]
fn an_effect_can_be_surely_above_0_and_surely_negligible() {
    // One hundredth of 2 nats is 0.02, and 0.005 ±0.0001 is both.
    let found = planted(GRID, 2.0, |index| vec![0.005 + 0.1 * noise(index), 0.5 + noise(index)]);
    let [small, large] = &found.heads[..] else { panic!("two heads") };
    assert_eq!(
        (small.verdict, small.negligible, small.verdict_text()),
        (Some(Verdict::Helpful), true, "helpful, negligible".to_owned())
    );
    assert_eq!((large.verdict, large.negligible), (Some(Verdict::Helpful), false));
    assert_eq!(found.negligible_heads(), [0]);
    let expected =
        serde_json::json!({ "helpful": 2, "harmful": 0, "negligible": 0, "undecided": 0, "also_negligible": 1 });
    assert_eq!(serde_json::to_value::<Verdicts>(found.verdicts).unwrap(), expected);
    let summary = found.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary.lines().next().unwrap(), @"Heads removed one at a time (by mean): loss of 256 masked tokens of 128 sentences, in nats a token, 1.000 with all heads and 3.000 without any. Verdicts: 2 helpful, 0 harmful, 0 negligible (effect within ±0.0200), 0 undecided. 1 of the helpful and harmful heads is also negligible. Largest and smallest effects, ± half of the 95 % interval, with q of the test against 0 and of the equivalence test (±0.0200):");
    let card = found.head_card(GRID.head_place(0), ViewContext::new(&default_policy())).lines.concat();
    insta::assert_snapshot!(card, @"without it (by mean) the loss is 0.0050 ±0.0001 nats a token more: helpful, negligible (q <1e-6, within ±0.0200 q <1e-6)");
}

#[test]
fn tests_of_negligible_effects_by_hand() {
    // Blocks of equal size have 0.003 ± 0.004 of the first head: SE = 0.004 / sqrt(63) = 0.000503953, and the nearer end is 0.005:
    // t = 3.968627 with 63 degrees of freedom. They have 0 ± 0.02 of the second: t = 1.984313.
    let sign = |index: u64| if index.is_multiple_of(2) { 1.0 } else { -1.0 };
    let found = planted(GRID, 0.5, |index| vec![0.003 + 0.004 * sign(index), 0.02 * sign(index)]);
    let p: Vec<f64> = found.heads.iter().filter_map(|head| head.p_negligible).collect();
    // By scipy 1.17: t.sf(t, 63).
    let expected = [9.391_920_57e-5, 0.025_790_404];
    p.iter().zip(expected).for_each(|(p, expected)| assert!((p / expected - 1.0).abs() < 2e-3, "{p:e} {expected:e}"));
    // Twice the smaller one times 2 / 1, twice the larger one times 2 / 2.
    let q: Vec<f64> = found.heads.iter().filter_map(|head| head.q_negligible).collect();
    assert_eq!(q, [p[0] * 4.0, p[1] * 2.0]);
}

#[test]
fn where_heads_are_worth_nothing_none_is_negligible() {
    let found = planted(GRID, -0.1, |_| vec![0.0, 0.0]);
    assert_eq!((found.band, found.negligible_heads()), (Some(0.0), vec![]));
    assert!(found.heads.iter().all(|head| head.q_negligible.is_none()));
}

#[test]
fn heads_without_an_effect_are_hardly_ever_called_helpful_or_harmful() {
    let grid = HeadGrid { layers: 10, heads: 40 };
    let mut sums = EffectSums::new(grid, SingleHeadsAndAll);
    let mut state = 7_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 24) - 0.5
    };
    for index in 0..128 {
        let mut variants = vec![[1.0; 2]];
        variants.extend((0..grid.head_count()).map(|_| [1.0 + noise(); 2]));
        variants.push([1.0; 2]);
        show(&mut sums, index, &variants);
    }
    let (_, found) = measured(sums, grid);
    let called = found.heads.iter().filter(|head| head.verdict != Some(Verdict::Undecided)).count();
    assert!(called * 20 <= grid.head_count(), "{called} of {}", grid.head_count());
    assert!(found.heads.iter().all(|head| head.q.is_some()));
}

#[test]
fn sums_of_parts_are_those_of_the_whole() {
    let variants = |first| [[first, 1.0], [2.0; 2], [1.0; 2], [3.0; 2]];
    let (mut whole, mut left, mut right) = (
        EffectSums::new(GRID, SingleHeadsAndAll),
        EffectSums::new(GRID, SingleHeadsAndAll),
        EffectSums::new(GRID, SingleHeadsAndAll),
    );
    for (index, first) in [(3, 0.1), (9, 0.7), (70, 1.3), (3 + 64, 0.2)] {
        show(&mut whole, index, &variants(first));
        show(if index % 2 == 0 { &mut left } else { &mut right }, index, &variants(first));
    }
    right.merge(&left);
    assert_eq!(right, whole);
    assert!(
        whole.fits(GRID, FromToken::Mean, &LayerClasses::default())
            && !whole.fits(HeadGrid { layers: 2, heads: 1 }, FromToken::Mean, &LayerClasses::default())
    );
    let restored = AnyStudy::passes(&Effect)[0].restore(&new_observer(whole).to_bytes().unwrap()).unwrap();
    assert_eq!(*crate::passes::observer::expect_sums::<EffectSums>(&*restored), right);
}

#[test]
fn without_masked_words_there_is_nothing_to_say() {
    let (_, found) = measured(EffectSums::new(GRID, SingleHeadsAndAll), GRID);
    assert_eq!((found.masked_tokens, found.loss, found.band), (0, None, None));
    let summary = found.view(ViewContext::new(&default_policy())).summary.to_string();
    let why = "none of the sentences that were drawn has a token to score (`--sample` draws more)";
    assert_eq!(summary, format!("No token could be scored, so no head was removed: {why}.\n"));
}

#[test]
fn a_section_of_other_heads_is_defective() {
    let (_, found) = measured(EffectSums::new(GRID, SingleHeadsAndAll), GRID);
    assert_eq!(found.defect(GRID), None);
    assert!(found.defect(HeadGrid { layers: 1, heads: 3 }).unwrap().contains("effect.heads"));
}
