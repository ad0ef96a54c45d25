use super::sums::{AFTER_TWIN_KEY, BEFORE_TWIN_KEY, TWIN_KEY};
use super::*;
use crate::corpus::SentenceGroup;
use crate::evaluation::results::Results;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::HeadView;
use crate::model::grid::HeadGrid;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::observer::{Event, FoldBuffers, Sums, new_observer};
use crate::sequences::sequence::{Sequence, TokenKind};
use crate::stats::blocks::{BLOCKS, Merge};
use crate::studies::registry::default_policy;
use crate::study::AnyStudy;
use crate::study::ObservedPass;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 1 };

/// `first special, 1 .. P, filler, 1 .. P, last special`; of the second copy the token at `masked` is a mask.
fn sequence(index: u64, length: u32, filler: u32, masked: Option<usize>) -> Sequence {
    let copy: Vec<u32> = (10..10 + length).collect();
    let between: Vec<u32> = (100..100 + filler).collect();
    let mut ids = [vec![1], copy.clone(), between, copy, vec![2]].concat();
    if let Some(place) = masked {
        ids[1 + (length + filler) as usize + place] = 3;
    }
    let mut kinds = vec![TokenKind::Text; ids.len()];
    (kinds[0], kinds[ids.len() - 1]) = (TokenKind::FirstSpecial, TokenKind::Separator);
    Sequence {
        index,
        family: SentenceGroup::new(index),
        segments: vec![0; ids.len()],
        ids,
        kinds,
        ..Sequence::default()
    }
}

/// A head that gives `most` to the key that `wanted` names, and the rest evenly to all.
fn head(n: usize, most: f32, wanted: impl Fn(usize) -> Option<usize>) -> Vec<f32> {
    let mut weights = Vec::new();
    for query in 0..n {
        let key = wanted(query).filter(|&key| key < n);
        let rest = if key.is_some() { 1.0 - most } else { 1.0 };
        let mut row = vec![rest / n as f32; n];
        key.into_iter().for_each(|key| row[key] += most);
        weights.extend(row);
    }
    weights
}

fn see(sums: &mut RepeatSums, sequence: &Sequence, weights: &[f32]) {
    let mut state = sums.begin(sequence).unwrap();
    let view = HeadView::from(AttentionView::new(0, 0, sequence.ids.len(), weights));
    sums.observe(&mut state, &mut Event::Head(FoldBuffers::default().head_input(sequence, view)));
}

/// The labels of a head over 64 sequences, plain and with a mask.
fn labels(most: f32, wanted: impl Fn(usize, usize, usize) -> Option<usize>) -> Vec<String> {
    let (mut plain, mut masked) = (RepeatSums::new(GRID, Visibility::ALL), RepeatSums::new(GRID, Visibility::ALL));
    for index in 0..BLOCKS as u64 {
        let (length, filler) = (16 + (index % 5) as u32, (index % 3) as u32);
        let shift = (length + filler) as usize;
        let of = |sequence: &Sequence| {
            // Not all sequences alike, or nothing varies.
            let most = most - 0.01 * (index % 7) as f32;
            head(sequence.ids.len(), most, |query| wanted(query, length as usize, shift))
        };
        let one = sequence(index, length, filler, None);
        see(&mut plain, &one, &of(&one));
        for place in [0, usize::from(index % 2 == 0)] {
            let one = sequence(index, length, filler, Some(place));
            see(&mut masked, &one, &of(&one));
        }
    }
    let (plain, masked) =
        (new_observer(ByLayerClass::single_class(plain)), new_observer(ByLayerClass::single_class(masked)));
    let observed = |sums| ObservedPass { sums, left_out_sentences: 0 };
    let study: &'static dyn AnyStudy = &RepeatedTokens;
    let context = EstimationContext::new(GRID, std::num::NonZeroUsize::MIN);
    let observed = vec![(study, vec![observed(&*plain), observed(&*masked)])];
    let results = Results::new(&observed, &context, &default_policy());
    results.verdicts(&default_policy())[0].labels.iter().map(|label| label.label.clone()).collect()
}

/// The other copy of a token.
fn twin(query: usize, length: usize, shift: usize) -> Option<usize> {
    if (1..=length).contains(&query) {
        Some(query + shift)
    } else {
        query.checked_sub(shift).filter(|twin| (1..=length).contains(twin))
    }
}

#[test]
fn an_example_by_hand() {
    // 34 tokens: the special ones at 0 and 33, the copies at 1 to 16 and 17 to 32.
    let mut sums = RepeatSums::new(GRID, Visibility::ALL);
    let one = sequence(0, 16, 0, None);
    see(&mut sums, &one, &head(34, 0.5, |query| twin(query, 16, 16)));
    let total = sums.blocks.total();
    // Both copies look for their twins; the last token of the second has a token after its twin, that of the first has not.
    assert_eq!(total.exposure.queries, [32, 31, 31, 0]);
    assert_eq!(total.exposure.offset_queries, [31, 31]);
    let Made { plain, masked } = Made { plain: total.exposure.sequences[0], masked: total.exposure.sequences[1] };
    assert_eq!((plain, masked), (1, 0));
    let even = 0.5 / 34.0;
    let head = &total.heads[0];
    assert!((head.mass[TWIN_KEY].value() / 32.0 - (0.5 + even)).abs() < 1e-7);
    assert!((head.null[TWIN_KEY].value() / 32.0 - even).abs() < 1e-7);
    assert!((head.mass[AFTER_TWIN_KEY].value() / 31.0 - even).abs() < 1e-7);
    assert_eq!((head.argmax[TWIN_KEY], head.argmax[AFTER_TWIN_KEY], head.argmax[BEFORE_TWIN_KEY]), (32, 0, 0));
    let score =
        RepeatInputs { exposure: &total.exposure, sums: head, copying: None }.metric_values()[0].value().unwrap();
    assert!((score - 0.5).abs() < 1e-7, "{score}");
    assert_eq!(RepeatInputs::chance_levels(&total.exposure, true)[0].value(), Some(0.0));
}

#[test]
fn planted_heads_have_their_label_and_no_other() {
    assert_eq!(labels(0.9, twin), ["duplicate-token", "masked-copy"]);
    assert_eq!(labels(0.9, |query, length, shift| Some(twin(query, length, shift)? + 1)), ["induction"]);
    assert_eq!(labels(0.9, |query, length, shift| Some(twin(query, length, shift)? - 1)), ["induction-mirror"]);
}

#[test]
fn near_misses_have_none() {
    // A fixed offset, a head that attends evenly, one just below the threshold.
    assert_eq!(labels(0.9, |query, _, _| query.checked_sub(17)), [""; 0]);
    assert_eq!(labels(0.06, |query, _, _| Some(query)), [""; 0]);
    assert_eq!(labels(0.31, twin), [""; 0]);
}

#[test]
fn sums_of_shards_add_up() {
    let (mut whole, mut a, mut b) = (
        RepeatSums::new(GRID, Visibility::ALL),
        RepeatSums::new(GRID, Visibility::ALL),
        RepeatSums::new(GRID, Visibility::ALL),
    );
    for index in 0..4 {
        let one = sequence(index, 16, 2, None);
        let weights = head(one.ids.len(), 0.4, |query| twin(query, 16, 18));
        see(&mut whole, &one, &weights);
        see(if index % 2 == 0 { &mut a } else { &mut b }, &one, &weights);
    }
    a.merge(&b);
    assert_eq!(a.blocks, whole.blocks);
}
