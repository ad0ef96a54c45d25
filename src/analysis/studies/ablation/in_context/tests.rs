use std::num::NonZeroUsize;

use super::section::{Gain, NatsPerToken};
use super::sums::{CopyLosses, CopySums, CopyingSums, RemovalCopySums, copy_effect, copying_values, gain_effect};
use super::{InContext, InContextEffect};
use crate::corpus::SentenceGroup;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{FinalNorm, ResidualPart};
use crate::model::grid::HeadGrid;
use crate::passes::observer::{Event, FoldBuffers, Sums, new_observer};
use crate::sequences::sequence::{InputToken, PredictedToken, Sequence};
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::ablation::removal::{RemovalQuantity, SingleHeadsAndAll};
use crate::study::metrics::estimates::EstimationContext;
use crate::study::metrics::metric::{Denominator, Fraction};
use crate::study::{ObservedPass, ObservedPasses, Study};

/// Logits of two classes by which the token 1 loses so many nats.
fn losing(nats: f64) -> [f32; 2] {
    let p = (-nats).exp();
    #[expect(clippy::cast_possible_truncation, reason = "logits are f32")]
    [((1.0 - p) / p).ln() as f32, 0.0]
}

/// The first token, 1 0 1 twice: of each copy the second and the third token are scored.
fn twice() -> Sequence {
    let ids = vec![9, 5, 0, 1, 5, 0, 1];
    let words = (1..7).map(|token| (token..token + 1).into()).collect();
    let token = |place: usize| PredictedToken {
        position: place - 1,
        word: place - 1,
        input: InputToken::NoInput,
        truth: Some(1),
    };
    let base = sentence(0, 5, "dep");
    let kinds = base.kinds[..7].to_vec();
    let compared = ids[1..4].to_vec();
    let mut sequence =
        Sequence { ids, words, kinds, compared_tokens: compared, predictions: (1..7).map(token).collect(), ..base };
    sequence.kinds[6] = sequence.kinds[5];
    sequence
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
}

#[test]
fn the_gain_is_of_tokens_behind_the_same_token() {
    let sequence = twice();
    let mut losses = CopyLosses::new(2);
    let state = losses.begin(&sequence, 2).unwrap();
    for (variant, second) in [(None, 0.5), (Some(0), 1.5), (Some(1), 0.25)] {
        for position in 0..6 {
            let nats = if position < 3 { 2.0 } else { second };
            losses.add_logits(&state, variant, position, &losing(nats));
        }
    }
    assert_eq!(losses.tokens(), 2);
    near(losses.gain(None), 3.0);
    near(losses.gain(Some(0)), 1.0);
    near(gain_effect(&losses, Some(0)).value().unwrap(), 1.0);
    near(gain_effect(&losses, Some(1)).value().unwrap(), -0.25);
    near(gain_effect(&losses, None).value().unwrap(), 0.0);
    // The second copy has two tokens, of half a nat, of one and a half and of a quarter.
    near(copy_effect(&losses, Some(0)).value().unwrap(), 1.0);
    near(copy_effect(&losses, Some(1)).value().unwrap(), -0.25);
    near(copy_effect(&losses, None).value().unwrap(), 0.0);
    assert!(losses.has_variants(2) && !losses.has_variants(3));
    // Without copies there is nothing to gain.
    assert!(losses.begin(&sentence(0, 5, "dep"), 2).is_none());
}

#[test]
fn the_gain_of_a_model_is_in_nats_a_token() {
    let mut sums = CopySums::new(HeadGrid { layers: 1, heads: 1 });
    assert_eq!(Gain::new(&sums).gain, NatsPerToken { mean: None, ci95: None });
    for (family, second) in [(0, 0.5), (1, 1.0)] {
        let sequence = Sequence { family: SentenceGroup::new(family), ..twice() };
        let mut state = sums.begin(&sequence).unwrap();
        for position in 0..6 {
            let logits = losing(if position < 3 { 2.0 } else { second });
            sums.observe(&mut state, &mut Event::Logits { position, logits: &logits });
        }
    }
    let gain = Gain::new(&sums);
    assert_eq!((gain.sequences, gain.tokens), (2, 4));
    for (part, expected) in [(gain.first, 2.0), (gain.second, 0.75), (gain.gain, 1.25)] {
        near(part.mean.unwrap(), expected);
        // Two blocks are too few for an interval.
        assert_eq!(part.ci95, None);
    }
}

/// The second copy, 5 0 1 at 4 to 6: its first query looks at the first 0, the others at the first token and at themselves.
#[test]
fn copying_by_hand() {
    let sequence = twice();
    // Of the tokens 5, 0 and 1: 0 is raised by 4, beside 1 and -1, and twice that is the scale of the final norm.
    let sums = copied(&sequence, [(4, 2), (5, 0), (6, 6)]);
    let values = copying_values(&sums.blocks.total(), Some(0));
    let [logit, rank, scored] = values.iter().map(|value| value.value().unwrap()).collect::<Vec<_>>()[..] else {
        panic!("three metrics")
    };
    near(logit, 2.0);
    near(rank, 1.0);
    near(scored, 1.0 / 3.0);
    // One of the three queries is scored.
    assert_eq!(values.iter().map(|value| value.evidence().count).collect::<Vec<_>>(), [1, 1, 3]);
    let chance = copying_values(&sums.blocks.total(), None);
    assert_eq!(chance.iter().map(Fraction::value).collect::<Vec<_>>(), [Some(0.0), Some(0.5), None]);
}

/// The second copy is 5 0 0: to the other 0 that it attends to is no other token, so 0 is held against 5 alone.
#[test]
fn a_token_that_comes_twice_in_a_copy_is_no_other_token() {
    let ids = vec![9, 5, 0, 0, 5, 0, 0];
    let sequence = Sequence { compared_tokens: ids[1..4].to_vec(), ids, ..twice() };
    let sums = copied(&sequence, [(4, 2), (5, 0), (6, 6)]);
    let values = copying_values(&sums.blocks.total(), Some(0));
    // (4 - 1) / 2, and 5 is raised less.
    near(values[0].value().unwrap(), 1.5);
    near(values[1].value().unwrap(), 1.0);
}

/// Two sequences; in the second one the head attends to no other token of text.
#[test]
fn a_head_is_scored_on_queries_of_its_own() {
    let mut sums = copied(&twice(), [(4, 2), (5, 0), (6, 6)]);
    let other = Sequence { family: SentenceGroup::new(1), ..twice() };
    sums.merge(&copied(&other, [(4, 0), (5, 0), (6, 6)]));
    let context = EstimationContext::new(HeadGrid { layers: 1, heads: 1 }, NonZeroUsize::MIN);
    let (sums, gain) = (new_observer(sums), new_observer(CopySums::new(context.grid)));
    let observed = [&*gain, &*sums].map(|sums| ObservedPass { sums, left_out_sentences: 0 });
    let (estimates, _) = Study::measure(&InContext, &ObservedPasses(&observed), &context);
    let of_head = estimates.denominators_of(0);
    let known = |metric: &str| {
        let Denominator { count, sentences, blocks, effective_blocks } = *of_head.get(metric, None).unwrap();
        (count, sentences, blocks, effective_blocks)
    };
    assert_eq!(known("copy_rank"), (1, 1, 1, 1.0));
    assert_eq!(known("copy_scored"), (6, 2, 2, 2.0));
}

/// The sums of a head with a weight of 1 at three places, which raises the tokens of the copy by 1, 4 and -1 at its first query, before a
/// scale of 2.
fn copied(sequence: &Sequence, attended: [(usize, usize); 3]) -> CopyingSums {
    let mut sums = CopyingSums::new(HeadGrid { layers: 1, heads: 1 });
    sums.has_direct_effects = true;
    let mut state = sums.begin(sequence).unwrap();
    let mut weights = [0.0; 49];
    for (query, key) in attended {
        weights[query * 7 + key] = 1.0;
    }
    let mut effects = [9.0; 21];
    effects[12..15].copy_from_slice(&[1.0, 4.0, -1.0]);
    let view = AttentionView::new(0, 0, 7, &weights).into();
    let mut folder = FoldBuffers::default();
    sums.observe(&mut state, &mut Event::Head(folder.head_input(sequence, view)));
    let part = ResidualPart::Head { layer: 0, head: 0 };
    sums.observe(&mut state, &mut Event::DirectEffects { part, effects: Rows::new(&effects, 3) });
    sums.observe(&mut state, &mut Event::FinalNorm(FinalNorm { scales: &[2.0; 7], constants: &[] }));
    sums
}

/// Without the first head the first copy gets better by a nat and the second stays: the gain is smaller, and nothing was copied less.
/// Without the second head the second copy gets worse by a nat.
#[test]
fn a_head_that_spoils_the_first_copy_has_no_part_in_copying() {
    let grid = HeadGrid { layers: 1, heads: 2 };
    let mut sums = RemovalCopySums::new(grid, SingleHeadsAndAll);
    for number in 0..20 {
        let spread = f64::from(number % 5) * 0.01;
        let block = &mut sums.blocks[usize::try_from(number).unwrap()];
        *block = CopyLosses::new(3);
        let state = block.begin(&twice(), 3).unwrap();
        let both = [(None, [3.0, 1.0]), (Some(0), [2.0, 1.0]), (Some(1), [3.0, 2.0]), (Some(2), [3.0, 3.0])];
        for (variant, [first, second]) in both {
            for position in 0..6 {
                let nats = if position < 3 { first } else { second };
                block.add_logits(&state, variant, position, &losing(nats + f64::from(variant.is_some()) * spread));
            }
        }
    }
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    let sums = new_observer(sums);
    let observed = [ObservedPass { sums: &*sums, left_out_sentences: 0 }];
    let (_, section) = Study::measure(&InContextEffect, &ObservedPasses(&observed), &context);
    let [spoils, copies] = &section.heads[..] else { panic!("two heads") };
    near(spoils.effect.unwrap(), 1.0);
    near(copies.effect.unwrap(), 1.0);
    assert!(spoils.copy_effect.unwrap() < 0.05 && (copies.copy_effect.unwrap() - 1.0).abs() < 0.05);
    assert!(spoils.p.unwrap() > copies.p.unwrap(), "the larger p counts");
    assert!(copies.q.unwrap() < 1e-6, "{:?}", copies.q);
}
