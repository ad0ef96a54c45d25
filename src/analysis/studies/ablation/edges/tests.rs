use itertools::Itertools;

use super::section::Untrained;
use super::sums::{Edge, EdgeIndex, squared_hellinger};
use super::*;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::visibility::LayerClasses;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::{PassConditions, Replacement};
use crate::passes::observer::{Event, FoldBuffers, Sums, new_observer};
use crate::passes::setup::PassSetup;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::registry::default_policy;
use crate::study::section::{LateFact, Section, SectionFacts, ViewContext};
use crate::study::{AnyStudy, ObservedPass};
use crate::system::parallel::core_count;

fn place(layer: usize, head: usize) -> HeadPlace {
    HeadPlace { layer, head }
}

fn state(grid: HeadGrid) -> EdgeSums {
    let mut sums = EdgeSums::new(grid);
    sums.begin_pass(&PassSetup {
        conditions: PassConditions { removal: Some(Replacement::Zero), objective: None, task: None },
        ..PassSetup::default()
    });
    sums
}

/// Rows whose squared Hellinger distance from `[1, 0, 0, ...]` is `shift`; all rows alike.
fn rows(tokens: usize, shift: f64) -> Vec<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "a weight")]
    let first = (1.0 - shift).powi(2) as f32;
    let row = |column: usize| match column {
        0 => first,
        1 => 1.0 - first,
        _ => 0.0,
    };
    (0..tokens * tokens).map(|cell| row(cell % tokens)).collect()
}

/// Shows a sentence in all variants; `attention` gives each head without the heads of the variant.
fn show(
    sums: &mut EdgeSums,
    grid: HeadGrid,
    sentence: &Sequence,
    attention: impl Fn(Option<HeadPlace>, HeadPlace) -> Vec<f32>,
) {
    let Some(mut state) = sums.begin(sentence) else { return };
    let variants = sums.demands().further_runs.ablated_sets().to_vec();
    let removed = variants.iter().map(|removed| removed.first().copied());
    for (variant, removed) in [None].into_iter().chain(removed).enumerate() {
        if let Some(number) = variant.checked_sub(1) {
            sums.observe(&mut state, &mut Event::AblationVariant(number));
        }
        let first = removed.map_or(0, |place| place.layer);
        for target in grid.head_places().filter(|target| target.layer >= first) {
            let weights = attention(removed, target);
            let view = AttentionView::new(target.layer, target.head, sentence.ids.len(), &weights);
            sums.observe(&mut state, &mut Event::Head(FoldBuffers::default().head_input(sentence, view.into())));
        }
    }
}

/// Shows a sentence of two words in which each edge has its shift, and whatever is no edge shifts, too.
fn show_shifts(sums: &mut EdgeSums, grid: HeadGrid, index: u64, shift: impl Fn(HeadPlace, HeadPlace) -> f64) {
    let sentence = sentence(index, 2, "dep");
    let attention = |removed: Option<HeadPlace>, target: HeadPlace| match removed {
        None => rows(4, 0.0),
        Some(source) if source.layer < target.layer => rows(4, shift(source, target)),
        Some(_) => rows(4, 0.9),
    };
    show(sums, grid, &sentence, attention);
}

/// An untrained model, of which nearly all of a shift is a product of source and target.
fn untrained(grid: HeadGrid) -> EdgeSums {
    let (mut sums, mut noise) = (state(grid), noise(5));
    let edges: Vec<f64> = (0..grid.head_count() * grid.head_count()).map(|_| 1.0 + 0.1 * noise()).collect();
    for index in 0..64 {
        show_shifts(&mut sums, grid, index, |source, target| {
            let edge =
                grid.index(source.layer, source.head) * grid.head_count() + grid.index(target.layer, target.head);
            0.01 * edges[edge] * (1.0 + 2.0 * noise_of(index, edge))
        });
    }
    sums
}

/// A number from 0 to 1 that changes with the sentence and the edge.
fn noise_of(index: u64, edge: usize) -> f64 {
    noise(index * 4096 + edge as u64)()
}

fn measured(sums: EdgeSums, grid: HeadGrid) -> EdgesReport {
    let both = [new_observer(sums), new_observer(untrained(grid))];
    let context = EstimationContext::new(grid, core_count());
    let passes = both.each_ref().map(|sums| ObservedPass { sums: &**sums, left_out_sentences: 0 });
    let (_, mut found) = AnyStudy::measure(&EdgesStudy, &ObservedPasses(&passes), &context);
    found.add_late_fact(&LateFact::Policy(&default_policy()));
    downcast_section::<EdgesReport>(&*found).clone()
}

/// Evenly distributed numbers from 0 to 1.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 24)
    }
}

#[test]
fn squared_hellinger_distances_by_hand() {
    let of = |before: &[f32], after: &[f32]| {
        let roots: Vec<f32> = before.iter().map(|weight| weight.sqrt()).collect();
        squared_hellinger(&roots, after)
    };
    assert_eq!(of(&[1.0, 0.0], &[0.0, 1.0]), 1.0);
    // 1 - (0.5 · 0.8 + sqrt(0.75 · 0.36))
    assert!((of(&[0.25, 0.75], &[0.64, 0.36]) - (0.6 - 0.27_f64.sqrt())).abs() < 1e-7);
    assert_eq!(of(&[0.3, 0.7], &[0.3, 0.7]), 0.0);
    // Longer than a vector: 1 - 20 · sqrt(1/20 · 1/40), and the other half elsewhere.
    let (even, half) = ([0.05; 20], [0.025; 40]);
    let even = [&even[..], &[0.0; 20]].concat();
    assert!((of(&even, &half) - (1.0 - 0.5_f64.sqrt())).abs() < 1e-6);
}

#[test]
fn shifts_by_hand() {
    let grid = HeadGrid { layers: 3, heads: 1 };
    let mut sums = state(grid);
    // One word between two special tokens, whose rows do not count.
    let sentence = sentence(5, 1, "dep");
    let of_word = |row: [f32; 3]| [[0.0, 0.0, 1.0], row, [0.5, 0.5, 0.0]].concat();
    let attention = |removed: Option<HeadPlace>, target: HeadPlace| match (removed, target.layer) {
        (Some(HeadPlace { layer: 0, .. }), 1) => of_word([0.64, 0.36, 0.0]),
        (Some(HeadPlace { layer: 1, .. }), 2) => of_word([0.0, 0.0, 1.0]),
        (None, _) | (Some(HeadPlace { layer: 0, .. }), 2) => of_word([0.36, 0.64, 0.0]),
        // A head's own layer.
        _ => of_word([0.1, 0.2, 0.7]),
    };
    show(&mut sums, grid, &sentence, attention);
    let total = sums.blocks.total();
    let shift =
        |source: usize, target: usize| total.mean_shift(EdgeIndex(grid).index(place(source, 0), place(target, 0)));
    // 1 - (0.6 · 0.8 + 0.8 · 0.6)
    assert!((shift(0, 1) - 0.04).abs() < 1e-7 && shift(0, 2) == 0.0 && (shift(1, 2) - 1.0).abs() < 1e-7);
    assert_eq!((total.rows, total.sentences), (1, 1));
    assert_eq!(sums.blocks.iter().map(|block| block.edges.len()).sum::<usize>(), 3, "an empty block is small");
}

#[test]
fn planted_edges_are_the_strongest_and_make_a_chain() {
    let grid = HeadGrid { layers: 3, heads: 3 };
    let (mut sums, mut noise) = (state(grid), noise(3));
    let planted = [(place(0, 1), place(1, 2)), (place(1, 2), place(2, 0))];
    for index in 0..128 {
        let mut factors =
            (0..grid.head_count() * grid.head_count()).map(|_| 0.8 + 0.4 * noise()).collect::<Vec<_>>().into_iter();
        let factors: Vec<f64> = factors.by_ref().collect();
        show_shifts(&mut sums, grid, index, |source, target| {
            if source == place(0, 0) {
                return 0.0;
            }
            // Some heads shift all others more, some are shifted more by all.
            let both = [0.01, 0.03, 0.02][source.head] * [1.0, 0.5, 2.0][target.head];
            let more = if planted.contains(&(source, target)) { 8.0 } else { 1.0 };
            let at = grid.index(source.layer, source.head) * grid.head_count() + grid.index(target.layer, target.head);
            both * more * factors[at]
        });
    }
    let found = measured(sums, grid);
    assert_eq!((found.tokens, found.sentences, found.pairs, found.without_shift), (256, 128, 27, 6));
    let ends = |edge: &Edge| (edge.source, edge.target);
    let mut strongest: Vec<_> = found.strongest[..2].iter().map(ends).collect();
    strongest.sort();
    assert_eq!(strongest, planted);
    // A factor of 8 in one cell of a matrix of three by three leaves 4/9 of its logarithm there; in the first layer one
    // head shifts nothing, and two rows are left: (1 - 1/2)(1 - 1/3).
    let excess = |(source, target): (HeadPlace, HeadPlace)| {
        found.strongest.iter().find(|edge| ends(edge) == (source, target)).unwrap().excess
    };
    assert!((excess(planted[0]) - 8.0_f64.ln() / 3.0).abs() < 0.03, "{}", excess(planted[0]));
    assert!((excess(planted[1]) - 8.0_f64.ln() * 4.0 / 9.0).abs() < 0.03, "{}", excess(planted[1]));
    let strong = &found.strongest[0];
    assert!(strong.above && strong.q.unwrap() < 1e-9);
    assert!(strong.excess_ci95.unwrap().low() < strong.excess && strong.excess < strong.excess_ci95.unwrap().high());
    assert!(strong.shift_ci95.unwrap().low() < strong.shift && strong.shift < strong.shift_ci95.unwrap().high());
    let of_head = |layer: usize, head: usize| &found.heads[grid.index(layer, head)];
    assert_eq!(of_head(0, 1).downstream.as_ref().map(ends), Some(planted[0]));
    assert_eq!(of_head(1, 2).upstream.as_ref().map(ends), Some(planted[0]));
    assert_eq!(of_head(1, 2).downstream.as_ref().map(ends), Some(planted[1]));
    assert!(of_head(0, 0).downstream.is_none() && of_head(0, 1).upstream.is_none());
    assert!(of_head(2, 0).downstream.is_none());
    assert_eq!(found.chains[0], [place(0, 1), place(1, 2), place(2, 0)]);
    // Between the first two layers, where one head shifts nothing.
    let pair = &found.layers[0];
    assert_eq!((pair.source, pair.target, &pair.shift[0], &pair.excess[0]), (0, 1, &vec![0.0; 3], &vec![None; 3]));
    assert!(pair.q[0].iter().all(Option::is_none) && pair.q[1][2].unwrap() < 1e-9);
    let labels = grid.head_places().zip(["broad", "separator"].map(str::to_owned)).collect();
    let known = ViewContext { policy: &default_policy(), run: &SectionFacts { labels, ..SectionFacts::default() } };
    let summary = found.view(known).summary.to_string();
    insta::assert_snapshot!(summary.lines().filter(|line| line.contains("L0H1 -> L1H2")).join("\n"), @"
    L0H1 -> L1H2  separator -> -  0.47893 ±0.00929       -  +0.69 ±0.01  <1e-6 
     L0H1 -> L1H2 -> L2H0
    ");
    assert_eq!(found.defect(grid), None);
    assert!(found.defect(HeadGrid { layers: 3, heads: 2 }).unwrap().contains("edges.layers"));
}

#[test]
fn direct_shifts_are_apart_from_those_through_others() {
    let grid = HeadGrid { layers: 3, heads: 1 };
    let mut sums = EdgeSums { is_direct: true, ..state(grid) };
    assert!(sums.demands().further_runs.has_direct_runs());
    // Of the first head the second is shifted directly, the third mostly through others; they oppose what the second does.
    let shift = |source: usize, target: usize, is_direct: bool| match (source, target) {
        (0, 1) => 0.02,
        (0, 2) => [0.04, 0.01][usize::from(is_direct)],
        _ => [0.02, 0.03][usize::from(is_direct)],
    };
    for index in 0..64 {
        let sentence = sentence(index, 2, "dep");
        let mut state = sums.begin(&sentence).unwrap();
        let show = |sums: &mut EdgeSums, state: &mut _, source: usize, is_direct: bool| {
            for target in source + 1..3 {
                let weights = rows(4, shift(source, target, is_direct));
                let view = AttentionView::new(target, 0, 4, &weights);
                sums.observe(state, &mut Event::Head(FoldBuffers::default().head_input(&sentence, view.into())));
            }
        };
        for target in 0..3 {
            let weights = rows(4, 0.0);
            let view = AttentionView::new(target, 0, 4, &weights);
            sums.observe(&mut state, &mut Event::Head(FoldBuffers::default().head_input(&sentence, view.into())));
        }
        for source in 0..2 {
            sums.observe(&mut state, &mut Event::AblationVariant(source));
            show(&mut sums, &mut state, source, false);
            sums.observe(&mut state, &mut Event::DirectRun(source));
            show(&mut sums, &mut state, source, true);
        }
    }
    assert!(sums.fits(grid, FromToken::Mean, &LayerClasses::default()));
    let found = measured(sums, grid);
    let edge = |source: usize, target: usize| {
        let ends = (place(source, 0), place(target, 0));
        *found.strongest.iter().find(|edge| (edge.source, edge.target) == ends).unwrap()
    };
    for ((source, target), ratio, is_direct) in [((0, 1), 1.0, true), ((0, 2), 0.25, false), ((1, 2), 1.5, true)] {
        let edge = edge(source, target);
        assert!((edge.ratio.unwrap() - ratio).abs() < 1e-4, "{edge:?}");
        assert!((edge.direct.unwrap() - ratio * edge.shift).abs() < 1e-6 && edge.ratio_ci95.is_some());
        assert_eq!(edge.is_direct(), Some(is_direct));
    }
    assert_eq!(found.layers[0].direct[0].len(), 1);
    let table: Vec<_> = found.layers.iter().flat_map(super::section::LayerPair::edge_rows).collect();
    assert_eq!(table.len(), 3);
}

#[test]
fn edges_of_sources_and_targets_that_multiply_are_hardly_ever_above() {
    let grid = HeadGrid { layers: 2, heads: 16 };
    let (mut sums, mut noise) = (state(grid), noise(11));
    for index in 0..64 {
        let factors: Vec<f64> = (0..256).map(|_| 0.5 + noise()).collect();
        show_shifts(&mut sums, grid, index, |source, target| {
            0.01 * (1 + source.head) as f64 / (1 + target.head) as f64 * factors[source.head * 16 + target.head]
        });
    }
    let found = measured(sums, grid);
    assert!(found.above * 20 <= found.pairs, "{} of {}", found.above, found.pairs);
    let Untrained { edges, percentile, above, ref q, .. } = found.untrained;
    // One in twenty of 256 edges is above the percentile of all, and none of these surely.
    assert_eq!((edges, q.len(), above), (256, 13, 0));
    assert!(percentile.is_some_and(|percentile| 0.0 < percentile && percentile < 0.2), "{percentile:?}");
}

#[test]
fn an_edge_of_one_sentence_is_not_the_strongest() {
    let grid = HeadGrid { layers: 2, heads: 3 };
    let mut sums = state(grid);
    for index in 0..64 {
        show_shifts(&mut sums, grid, index, |source, target| match (source.head, target.head) {
            (0, 0) => 0.004,
            (1, 1) if index == 7 => 0.9,
            _ => 0.001,
        });
    }
    let found = measured(sums, grid);
    let [first, second] = [0, 1].map(|rank| &found.strongest[rank]);
    assert_eq!([first.source, first.target], [place(0, 0), place(1, 0)]);
    let one = found.strongest.iter().find(|edge| edge.source.head == 1 && edge.target.head == 1).unwrap();
    assert!(one.excess > first.excess && !one.above && first.above, "{one:?} {first:?}");
    assert!(first.excess_lower_bound() >= second.excess_lower_bound());
}

#[test]
fn little_evidence_is_told_and_not_called_anything() {
    let grid = HeadGrid { layers: 2, heads: 3 };
    let mut sums = state(grid);
    for index in 0..25 {
        let much = |source: HeadPlace, target: HeadPlace| source.head == 1 && target.head == 1;
        show_shifts(&mut sums, grid, index, |source, target| {
            (if much(source, target) { 0.4 } else { 0.01 }) + 1e-4 * index as f64
        });
    }
    let found = measured(sums, grid);
    assert_eq!((found.tokens, found.sentences, found.above), (50, 25, 0));
    assert!(found.strongest[0].q.unwrap() < 1e-9 && !found.strongest[0].above && found.chains.is_empty());
    // One sentence has neither interval nor test.
    let mut one = state(grid);
    show_shifts(&mut one, grid, 4, |source, target| 0.1 + 0.01 * (source.head * target.head) as f64);
    let edge = measured(one, grid).strongest[0];
    assert_eq!((edge.shift_ci95, edge.excess_ci95, edge.p, edge.q), (None, None, None, None));
}

#[test]
fn sums_of_parts_are_those_of_the_whole() {
    let grid = HeadGrid { layers: 2, heads: 2 };
    let (mut whole, mut left, mut right) = (state(grid), state(grid), state(grid));
    for index in [3, 9, 70, 3 + 64] {
        let shift = |source: HeadPlace, target: HeadPlace| {
            0.001 * index as f64 + 0.1 * source.head as f64 + 0.2 * target.head as f64
        };
        show_shifts(&mut whole, grid, index, shift);
        show_shifts(if index % 2 == 0 { &mut left } else { &mut right }, grid, index, shift);
    }
    right.merge(&left);
    assert_eq!(right, whole);
    assert!(
        whole.fits(grid, FromToken::Mean, &LayerClasses::default())
            && !whole.fits(HeadGrid { layers: 4, heads: 1 }, FromToken::Mean, &LayerClasses::default())
    );
    let restored = AnyStudy::passes(&EdgesStudy)[0].restore(&new_observer(whole).to_bytes().unwrap()).unwrap();
    assert_eq!(*crate::passes::observer::expect_sums::<EdgeSums>(&*restored), right);
}

#[test]
fn a_model_of_one_layer_has_no_later_heads() {
    let grid = HeadGrid { layers: 1, heads: 2 };
    let mut sums = state(grid);
    assert!(sums.begin(&sentence(5, 3, "dep")).is_none());
    let section = measured(sums, grid);
    let summary = section.view(ViewContext::new(&default_policy())).summary.to_string();
    assert_eq!(summary, "The model has one layer: no head comes after another, so none depends on one.\n");
    assert_eq!(section.defect(grid), None);
}

#[test]
fn without_sentences_there_is_nothing_to_say() {
    let grid = HeadGrid { layers: 2, heads: 2 };
    let section = measured(state(grid), grid);
    assert_eq!(
        section.view(ViewContext::new(&default_policy())).summary.to_string(),
        "No sentence had a token of text, so no head was removed.\n"
    );
    assert_eq!(section.defect(grid), None);
}
