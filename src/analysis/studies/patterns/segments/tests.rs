use super::*;
use crate::corpus::SentenceGroup;
use crate::evaluation::presets;
use crate::evaluation::results::Results;
use crate::model::forward::attention::AttentionView;
use crate::model::forward::visitor::HeadView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::observer::{Event, FoldBuffers, Sums, new_observer};
use crate::sequences::frame::Frame;
use crate::sequences::sequence::{Sequence, Token, TokenKind};
use crate::stats::blocks::{BLOCKS, Merge};
use crate::study::AnyStudy;
use crate::study::ObservedPass;
use crate::study::labels::policy::Policy;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 1 };

/// `[CLS] A [SEP] B [SEP]`
fn pair(index: u64, first: usize, second: usize) -> Sequence {
    let text = |tokens: usize| vec![Token { id: 10, kind: TokenKind::Text }; tokens];
    let pair = Frame::bert_for_tests(2).surround(&[text(first), text(second)]);
    Sequence { index, family: SentenceGroup::new(index), ..pair }
}

/// Rows over the keys that a head wants of a query, each as much as the head says, and evenly over all where it wants
/// none.
fn head(pair: &Sequence, wanted: impl Fn(&Sequence, usize, usize) -> f32) -> Vec<f32> {
    let n = pair.ids.len();
    let row = |query: usize| {
        let row: Vec<f32> = (0..n).map(|key| wanted(pair, query, key)).collect();
        let sum: f32 = row.iter().sum();
        row.into_iter().map(move |weight| if sum > 0.0 { weight / sum } else { 1.0 / n as f32 }).collect::<Vec<_>>()
    };
    (0..n).flat_map(row).collect()
}

fn see(sums: &mut SegmentSums, pair: &Sequence, weights: &[f32]) {
    let mut state = sums.begin(pair).unwrap();
    let view = HeadView::from(AttentionView::new(0, 0, pair.ids.len(), weights));
    sums.observe(&mut state, &mut Event::Head(FoldBuffers::default().head_input(pair, view)));
}

fn results(sums: &SegmentSums, policy: &Policy) -> Results {
    let study: &'static dyn AnyStudy = &Segments;
    let context = EstimationContext::new(GRID, std::num::NonZeroUsize::MIN);
    let sums = new_observer(ByLayerClass::single_class(sums.clone()));
    Results::new(&[(study, vec![ObservedPass { sums: &*sums, left_out_sentences: 0 }])], &context, policy)
}

/// The labels of a head over 64 pairs of sentences of 12 to 20 tokens, by default and by the preset.
fn labels(wanted: impl Fn(&Sequence, usize, usize) -> f32) -> [Vec<String>; 2] {
    let mut sums = SegmentSums::new(GRID, Visibility::ALL);
    for index in 0..BLOCKS as u64 {
        let pair = pair(index, 12 + (index % 9) as usize, 12 + (index * 5 % 9) as usize);
        see(&mut sums, &pair, &head(&pair, &wanted));
    }
    [&[][..], &[presets::find_preset("kovaleva2019").unwrap()]].map(|presets| {
        let policy = presets::policy(presets);
        let verdict = results(&sums, &policy).verdicts(&policy).remove(0);
        verdict.labels.into_iter().map(|label| label.label).collect()
    })
}

fn text_of(pair: &Sequence, token: usize) -> Option<usize> {
    pair.texts.iter().position(|text| text.contains(&token))
}

fn is(holds: bool) -> f32 {
    f32::from(u8::from(holds))
}

/// Keys of the query's own sentence.
fn own(pair: &Sequence, query: usize, key: usize) -> f32 {
    is(text_of(pair, query).is_some() && text_of(pair, query) == text_of(pair, key))
}

#[test]
fn an_example_by_hand() {
    // 1 and 2 are one sentence, 4 to 6 the other; 0, 3 and 7 are special.
    let pair = pair(0, 2, 3);
    let mut sums = SegmentSums::new(GRID, Visibility::ALL);
    // Text gives half to its own sentence and half to [CLS].
    let weights = head(&pair, |pair, query, key| {
        own(pair, query, key) / 2.0 + is(key == 0) * [0.5, 1.0, 1.5][text_of(pair, query).map_or(0, |text| text + 1)]
    });
    see(&mut sums, &pair, &weights);
    let total = sums.blocks.total();
    assert_eq!((total.exposure.pairs, total.exposure.queries, total.exposure.rows), (1, 5, 8));
    // 2 of 2 * 1 + 3 * 2 = 8 of 20 cells of 1/8.
    assert!((total.exposure.same.value() - 1.0).abs() < 1e-12 && (total.exposure.any.value() - 2.5).abs() < 1e-12);
    // Half of a row is text, and itself is not counted: 1/4 of two tokens and 1/3 of three.
    let same = 2.0 / 4.0 + 3.0 / 3.0;
    assert!((total.heads[0].same.value() - same).abs() < 1e-6, "{:?}", total.heads[0].same.value());
    assert_eq!(total.heads[0].same, total.heads[0].any);
    let values: Vec<f64> =
        metric_values(&total.exposure, &total.heads[0]).iter().map(|value| value.value().unwrap()).collect();
    assert_eq!(values[0], 1.0);
    let chances: Vec<_> = chance_levels(&total.exposure).iter().map(metric::Fraction::value).collect();
    assert_eq!(chances, [Some(0.4), Some(0.0), Some(0.0), Some(0.0)]);
}

#[test]
fn a_block_head_is_found_and_is_nothing_else() {
    assert_eq!(labels(own), [vec!["segment-block".to_owned()], vec!["class:block".to_owned()]]);
    // Three parts of ten to [CLS], as heads do that have little to say.
    let parking = |pair: &Sequence, query: usize, key: usize| {
        let of = text_of(pair, query).map_or(0, |text| pair.texts[text].len());
        own(pair, query, key) + is(key == 0) * of as f32 * 3.0 / 7.0
    };
    assert_eq!(labels(parking)[0], [""; 0]);
}

#[test]
fn near_misses_are_no_block_heads() {
    let near = |wanted: &dyn Fn(&Sequence, usize, usize) -> f32| labels(wanted);
    let [none, class] = near(&|_, query, key| is(query != key && query.abs_diff(key) <= 2));
    assert_eq!((none, class), (vec![], vec!["class:diagonal".to_owned()]));
    let [none, class] = near(&|_, query, key| is(key + 1 == query));
    assert_eq!((none, class), (vec![], vec!["class:diagonal".to_owned()]));
    // Every token to the first special one.
    let [none, class] = near(&|_, _, key| is(key == 0));
    assert_eq!((none, class), (vec![], vec!["class:vertical".to_owned()]));
    // The separator of the query's own sentence: it knows the sentence, and attends to no text; half of it is columns.
    let [none, class] = near(&|pair, query, key| is(key == pair.texts[usize::from(query >= pair.texts[1].start)].end));
    assert_eq!((none, class), (vec![], vec!["class:heterogeneous".to_owned()]));
    // The other sentence.
    let [none, class] = near(&|pair, query, key| {
        is(text_of(pair, query).is_some() && text_of(pair, key).is_some()) - own(pair, query, key)
    });
    assert_eq!((none, class), (vec![], vec!["class:heterogeneous".to_owned()]));
    // Half to the token before, half to the first special one.
    let [none, class] = near(&|_, query, key| is(key + 1 == query) + is(key == 0));
    assert_eq!((none, class), (vec![], vec!["class:vertical+diagonal".to_owned()]));
    // A window that ends with the sentence: by nearness and by sentence.
    let [none, class] = near(&|pair, query, key| own(pair, query, key) * is(query.abs_diff(key) <= 3));
    assert_eq!((none, class), (vec![], vec!["class:diagonal".to_owned()]));
}

#[test]
fn a_uniform_head_has_a_share_and_no_variation() {
    let mut sums = SegmentSums::new(GRID, Visibility::ALL);
    for index in 0..BLOCKS as u64 {
        let pair = pair(index, 5 + (index % 3) as usize, 5);
        see(&mut sums, &pair, &head(&pair, |_, _, _| 0.0));
    }
    let policy = presets::policy(&[]);
    let found = results(&sums, &policy);
    let value = |name: &str| *found.estimates.heads[0].get(name, None).unwrap();
    let chance = *found.estimates.chance.get("same_segment_share", None).unwrap();
    assert!((value("same_segment_share").unwrap() - chance.unwrap()).abs() < 1e-7);
    assert_eq!(["column_r2", "offset_r2", "segment_r2"].map(value), [None; 3]);
    assert_eq!(found.verdicts(&policy)[0].labels, []);
}

#[test]
fn parts_add_up_to_the_whole() {
    let pairs: Vec<Sequence> = (0..70).map(|index| pair(index, 3 + (index % 7) as usize, 6)).collect();
    let sum = |pairs: &[Sequence]| {
        let mut sums = SegmentSums::new(GRID, Visibility::ALL);
        pairs.iter().for_each(|pair| see(&mut sums, pair, &head(pair, own)));
        sums
    };
    let (early, late) = pairs.split_at(23);
    let mut merged = sum(late);
    merged.merge(&sum(early));
    assert_eq!(merged.blocks, sum(&pairs).blocks);
    assert!(merged.fits(GRID, crate::sequences::fold::words::FromToken::Mean, &LayerClasses::default()));
    assert!(!merged.fits(
        HeadGrid { layers: 2, heads: 1 },
        crate::sequences::fold::words::FromToken::Mean,
        &LayerClasses::default()
    ));
}
