use super::*;
use crate::corpus::SentenceGroup;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{FinalNorm, ResidualPart};
use crate::model::grid::HeadGrid;
use crate::passes::observer::{Event, Sums, new_observer};
use crate::sequences::sequence::{ItemPart, PredictedToken, ScoreRule, Sequence};
use crate::sequences::test_support::sentence;
use crate::study::{AnyStudy, ObservedPass};
use crate::system::parallel::core_count;

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// An item whose answer is token 1 and whose foil is token 0, predicted at position 1.
fn item(index: u64) -> Sequence {
    Sequence {
        family: SentenceGroup { number: index, is_first: true },
        predictions: vec![PredictedToken::masked(1, 0, Some(1))],
        item: Some(ItemPart {
            rule: ScoreRule::VersusFoil(0),
            answer: Some(1),
            foils: Vec::new(),
            group: None,
            corruption: None,
        }),
        ..sentence(index, 1, "dep")
    }
}

/// Shows an item: each part's effects on answer and foil before the scale, which is 2; constants of 0.5 and 0.25.
fn show(sums: &mut DirectSums, index: u64, parts: &[(ResidualPart, [f32; 2])], logits: [f32; 2]) {
    let mut state = sums.begin(&item(index)).unwrap();
    for (part, [answer, foil]) in parts {
        // Positions that predict nothing have other effects.
        let rows = [9.0, 9.0, *answer, *foil, 9.0, -9.0];
        sums.observe(&mut state, &mut Event::DirectEffects { part: *part, effects: Rows::new(&rows, 2) });
    }
    let norm = FinalNorm { scales: &[7.0, 2.0, 7.0], constants: &[0.5, 0.25] };
    sums.observe(&mut state, &mut Event::FinalNorm(norm));
    sums.observe(&mut state, &mut Event::Logits { position: 1, logits: &[logits[1], logits[0]] });
}

fn measured(sums: DirectSums) -> DirectResult {
    let observer = new_observer(sums);
    let context = EstimationContext::new(GRID, core_count());
    let observed = [ObservedPass { sums: &*observer, left_out_sentences: 3 }];
    let (_, found) = AnyStudy::measure(&DirectEffect, &ObservedPasses(&observed), &context);
    downcast_section::<DirectResult>(&*found).clone()
}

#[test]
fn effects_by_hand() {
    use ResidualPart::{Biases, Embeddings, FeedForward, Head};
    let mut sums = DirectSums { has_direct_effects: true, ..DirectSums::new(GRID) };
    let head = |head| Head { layer: 0, head };
    // (4 - 1) / 2, (0 - 1) / 2, (2 - 0) / 2, twice (1 - 0) / 2 of both blocks, (3 - 1) / 2, and 0.25 of the constants: 4.25.
    let parts = [
        (Embeddings, [2.0, 0.0]),
        (head(0), [4.0, 1.0]),
        (head(1), [0.0, 1.0]),
        (Biases { layer: 0 }, [1.0, 0.0]),
        (FeedForward { layer: 0 }, [3.0, 1.0]),
        (Biases { layer: 0 }, [1.0, 0.0]),
    ];
    show(&mut sums, 0, &parts, [5.0, 0.75]);
    // The same item again, whose first head writes nothing.
    let without: Vec<_> =
        parts.iter().map(|&(part, both)| (part, if part == head(0) { [0.0; 2] } else { both })).collect();
    show(&mut sums, 1, &without, [3.5, 0.75]);
    let found = measured(sums);
    assert_eq!((found.items, found.units, found.items_skipped), (2, 2, 3));
    assert_eq!(found.heads.iter().map(|head| head.effect.effect.unwrap()).collect::<Vec<_>>(), [0.75, -0.5]);
    let layer = &found.layers[0];
    let parts = [layer.heads, layer.feed_forward, layer.biases, found.embeddings, found.constants];
    assert_eq!(parts.map(|part| part.effect.unwrap()), [0.25, 1.0, 1.0, 1.0, 0.25]);
    // (4.25 + 2.75) / 2, both by parts and by logits.
    assert_eq!([found.sum.effect, found.score.effect], [Some(3.5); 2]);
    assert_eq!(found.effects_by_kind(), [0.25, 1.0, 1.0]);
}

#[test]
fn weights_without_direct_effects_show_nothing() {
    let mut sums = DirectSums::new(GRID);
    assert!(sums.begin(&item(0)).is_none());
    let found = measured(sums);
    assert_eq!((found.items, found.score.effect, found.heads_by_abs_effect().len()), (0, None, 0));
    assert_eq!(found.heads[0].effect.to_string(), "-");
}
