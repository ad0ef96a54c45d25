use super::*;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::passes::control::ControlKind;
use crate::passes::observer::Panel;
use crate::passes::partial::FORMAT_VERSION;
use crate::passes::pass::{Sequences, Weights};
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::sequences::words::FromToken;
use crate::stats::blocks::BLOCKS;
use crate::system::digest::hex;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

fn protocol(studies: &[&'static dyn Study], controls: Vec<Control>) -> Protocol {
    Protocol {
        max_tokens: 8,
        truncate: false,
        limit: None,
        from_token: FromToken::Mean,
        blocks: BLOCKS,
        controls,
        removed: Vec::new(),
        studies: names(studies),
    }
}

fn subject() -> Subject<'static> {
    Subject { grid: GRID, from: FromToken::Mean, token_id: &|_| None }
}

/// The sums of all observers of a pass over these sentences.
fn summed(observers: Vec<Box<dyn Observer>>, sentences: &[Sequence], weights: &[f32]) -> Panel {
    let mut panel = Panel::new(observers);
    for sentence in sentences {
        let tokens = sentence.ids.len();
        panel.begin([sentence].into_iter());
        // Head 1 sees the transpose: another matrix of the same size.
        let transposed: Vec<f32> = (0..tokens * tokens).map(|i| weights[i % tokens * tokens + i / tokens]).collect();
        for (head, weights) in [&weights[..tokens * tokens], &transposed].into_iter().enumerate() {
            panel.head(0, sentence, AttentionView::new(0, head, tokens, weights).into());
        }
        panel.end();
    }
    panel
}

fn bytes(panel: Panel) -> Vec<Vec<u8>> {
    panel.into_observers().iter().map(|sums| sums.to_bytes().unwrap()).collect()
}

/// All sums of all studies, whatever their passes.
fn everybody() -> Vec<Box<dyn Observer>> {
    let plan = Plan::new(&protocol(STUDIES, Vec::new())).unwrap();
    plan.observers(&subject()).into_iter().flat_map(|(_, observers)| observers).collect()
}

proptest! {
    /// merge(left, right) == whole for every study, whatever the order, and however each side numbers what it meets.
    #[test]
    fn merged_parts_equal_the_whole(
        lengths in prop::collection::vec((1..6_usize, 0..3_usize), 1..12),
        weights in prop::collection::vec(0.0..1.0_f32, 64),
        cut in 0..12_usize,
    ) {
        let relations = ["nsubj", "obl:tmod", "punct"];
        let sentences = lengths.iter().zip(60..);
        let sentences: Vec<Sequence> =
            sentences.map(|(&(words, relation), index)| sentence(index, words, relations[relation])).collect();
        let whole = bytes(summed(everybody(), &sentences, &weights));
        let (left, right) = sentences.split_at(cut.min(sentences.len()));
        for (first, second) in [(left, right), (right, left)] {
            let mut merged = summed(everybody(), first, &weights);
            merged.merge(&summed(everybody(), second, &weights));
            prop_assert_eq!(bytes(merged), whole.clone());
        }
    }

    /// A file made to harm has the right checksum: whatever its sums say, they are read or refused.
    #[test]
    fn sums_of_any_bytes_are_restored_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let sentences = [sentence(3, 2, "nsubj"), sentence(64, 3, "obl:tmod")];
        for study in STUDIES {
            for (place, _) in study.passes().iter().enumerate() {
                let mut bytes = bytes(summed(vec![study.observer(place, &subject())], &sentences, &[0.25; 25])).remove(0);
                for (place, value) in &changes {
                    let place = place.index(bytes.len());
                    bytes[place] = *value;
                }
                let length = bytes.len();
                for bytes in [&bytes[..], &bytes[..cut.index(length)]] {
                    let restored = study.restore(place, bytes).ok();
                    if let Some(sums) = restored.filter(|sums| sums.fits(GRID, FromToken::Mean)) {
                        let _ = sums.pooled().to_bytes();
                    }
                }
            }
        }
    }
}

/// If this fails, the format has changed: raise [`FORMAT_VERSION`] if a release has written it, and write the new
/// digest here.
#[test]
fn a_changed_layout_of_sums_has_a_new_version() {
    let sums = bytes(summed(everybody(), &[sentence(3, 2, "nsubj")], &[0.25; 16]));
    let layout = Sha256::digest(sums.concat());
    assert_eq!((FORMAT_VERSION, &hex(&layout)[..16]), (3, "5b5abdab1c3fa584"));
}

#[test]
fn a_pass_runs_once_for_all_who_want_it() {
    let passes = |protocol: &Protocol| -> Vec<(Pass, usize)> {
        Plan::new(protocol).unwrap().0.iter().map(|(pass, wants)| (pass.clone(), wants.len())).collect()
    };
    let pairs = Pass { sequences: Sequences::Pairs { max_tokens: 128 }, ..Pass::PLAIN };
    // Three studies look at the sentences, and the preset's syntax is the fourth.
    assert_eq!(passes(&protocol(STUDIES, Vec::new())), [(Pass::PLAIN, 4), (pairs.clone(), 1)]);
    // A control is for the studies that have labels; without studies the sentences are read all the same.
    let control = Control { kind: ControlKind::RandomInit, seed: 1 };
    let fresh = Pass { weights: Weights::Fresh { seed: 1 }, ..Pass::PLAIN };
    assert_eq!(passes(&protocol(STUDIES, vec![control])), [(Pass::PLAIN, 4), (pairs.clone(), 1), (fresh, 2)]);
    assert_eq!(passes(&protocol(&STUDIES[3..], vec![control])), [(Pass::PLAIN, 1), (pairs, 1)]);
}

#[test]
fn studies_of_a_report_are_those_that_it_lists_or_had_by_default() {
    let found = |studies: &Studies| -> Vec<&str> {
        self::studies(studies).unwrap().iter().map(|study| study.card().name).collect()
    };
    assert_eq!(found(&names(&STUDIES[1..2])), ["trees"]);
    let flags = |flag: bool| Studies { names: Vec::new(), flags: [("clark2019".to_owned(), flag)].into() };
    assert_eq!(found(&flags(false)), ["attention", "trees", "dependency"]);
    assert_eq!(found(&flags(true)), ["attention", "trees", "dependency", "clark2019"]);
    let unknown = Studies { names: vec!["cats".to_owned()], ..Studies::default() };
    let refusal = self::studies(&unknown).err().unwrap().to_string();
    assert_eq!(refusal, "there is no study `cats`: there are attention, trees, dependency, clark2019");
}
