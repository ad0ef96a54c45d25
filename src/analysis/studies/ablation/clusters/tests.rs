use super::section::{ClusterEffects, Interplay};
use super::*;
use crate::model::forward::rows::Rows;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::observer::{Event, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::{PredictedToken, Sequence};
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::registry::default_policy;
use crate::study::section::{LateFact, Section, ViewContext};
use crate::system::parallel::core_count;

const GRID: HeadGrid = HeadGrid { layers: 2, heads: 3 };

/// The first two heads replace each other, the next two do not, the last two have no effect.
const CLUSTERS: [[usize; 2]; 3] = [[0, 1], [2, 3], [4, 5]];

fn clusters() -> Vec<Vec<usize>> {
    CLUSTERS.map(|cluster| cluster.to_vec()).to_vec()
}

/// How much dearer a token becomes without these heads.
fn rise(places: &[usize]) -> f64 {
    let both = if places.contains(&0) && places.contains(&1) { 0.5 } else { 0.0 };
    let each = [0.0, 0.0, 0.25, 0.125, 0.0, 0.0];
    places.iter().map(|&place| each[place]).sum::<f64>() + both
}

fn places(removed: &crate::passes::observer::requests::HeadSet) -> Vec<usize> {
    removed.iter().map(|place| GRID.index(place.layer, place.head)).collect()
}

fn context() -> EstimationContext {
    EstimationContext::new(GRID, core_count())
}

/// Logits of two tokens by which the first has the loss `nats`.
#[expect(clippy::cast_possible_truncation, reason = "a logit")]
fn logits(nats: f64) -> [f32; 2] {
    let p = (-nats).exp();
    [p.ln() as f32, (1.0 - p).ln() as f32]
}

fn show_losses(sums: &mut ClusterLosses, indices: impl Iterator<Item = u64>) {
    for index in indices {
        let token = PredictedToken::masked(1, 0, Some(0));
        let mut state = sums.begin(&Sequence { predictions: vec![token], ..sentence(index, 2, "dep") }).unwrap();
        // Every loss is larger in some sentences.
        let scale = if index % 2 == 0 { 1.0 } else { 1.5 };
        sums.observe(&mut state, &mut Event::Logits { position: 1, logits: &logits(2.0) });
        for (number, removed) in sums.demands().further_runs.ablated_sets().iter().enumerate() {
            sums.observe(&mut state, &mut Event::AblationVariant(number));
            // One head by itself is worth a little more here and a little less there.
            let more = if removed.len() == 1 { 1e-3 * ((index / 2 % 2) as f64 - 0.5) } else { 0.0 };
            sums.observe(
                &mut state,
                &mut Event::Logits { position: 1, logits: &logits(2.0 + scale * rise(&places(removed)) + more) },
            );
        }
    }
}

fn judged(mut found: Effects) -> Effects {
    found.add_late_fact(&LateFact::Policy(&default_policy()));
    found
}

#[test]
fn heads_that_stand_in_for_each_other_are_told() {
    let mut sums = ClusterLosses::new(GRID, Clusters::with_random_sets(&clusters(), GRID));
    // Two sentences in each block.
    show_losses(&mut sums, 0..128);
    let found = judged(Effects::new(&sums, &context()));
    assert_eq!((found.masked_tokens, found.sentences), (128, 128));
    let near = |found: f64, expected: f64| assert!((found - 1.25 * expected).abs() < 1e-6, "{found} {expected}");
    near(found.band.unwrap(), 0.00875);
    let [first, second, third] = &found.clusters[..] else { panic!("three clusters") };
    near(first.removed.together.value, 0.5);
    near(first.removed.sum.value, 0.0);
    near(first.removed.all_but_one.value, 0.0);
    assert_eq!((first.verdict, first.one_will_do), (Interplay::StandIn, true));
    assert!(first.removed.difference.ci95.unwrap().low() > 0.5);
    near(second.removed.together.value, 0.375);
    near(second.removed.difference.value, 0.0);
    near(second.removed.all_but[0].value, 0.125);
    near(second.removed.all_but[1].value, 0.25);
    assert_eq!((second.verdict, second.one_will_do), (Interplay::NotSeen, false));
    let verdict = |cluster: &ClusterEffects| (cluster.verdict, cluster.one_will_do);
    assert_eq!(verdict(third), (Interplay::NotSeen, true));
    // Where a member is worth something the test of all but one is not in the family.
    assert_eq!(second.q_one_will_do, None);
    assert!(first.q.unwrap() < 1e-6 && first.q_one_will_do.unwrap() < 0.05);
    // The first cluster has 2 of 3 heads of its layer, of which any two but 2 go alone; the second has 1 of either layer.
    assert_eq!([first, second, third].map(|cluster| cluster.random_sets.len()), [20; 3]);
    let passes = |set: &super::section::RandomSet| set.q.is_some();
    for cluster in [first, second, third] {
        for set in &cluster.random_sets {
            let worth_nothing = set.heads.iter().all(|head| rise(&[GRID.index(head.layer, head.head)]) == 0.0);
            assert_eq!(passes(set), worth_nothing, "{set:?}");
        }
        let passed = cluster.random_sets.iter().filter(|set| passes(set)).count();
        assert_eq!(cluster.random_sets_of_which_one_would_do, passed as u64);
    }
    let summary = found.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary, @"
    Clusters of heads that look alike, removed together, one by one, and all but one (mean over the one kept): rise of the loss in nats, over 128 masked tokens of 128 sentences. One will do: whichever head is kept, the rise is within ±0.0109 by the equivalence test. Random sets have as many heads of the same layers.

     without           together      sum of each       difference      all but one  interplay                          one will do    random sets 
     L0H0 L0H1  +0.6250 ±0.0315  +0.0000 ±0.0003  +0.6250 ±0.0315  +0.0000 ±0.0001  stand in for each other (q <1e-6)  yes (q <1e-6)  0 of 20     
     L0H2 L1H0  +0.4687 ±0.0236  +0.4687 ±0.0236  +0.0000 ±0.0003  +0.2344 ±0.0118  no difference seen (q 1.000)       no (q -)       7 of 20     
     L1H1 L1H2  +0.0000 ±0.0000  +0.0000 ±0.0003  +0.0000 ±0.0003  +0.0000 ±0.0001  no difference seen (q 1.000)       yes (q <1e-6)  0 of 20
    ");
    assert_eq!(found.defect(GRID), None);
    assert!(found.defect(HeadGrid { layers: 1, heads: 2 }).unwrap().contains("cluster_effect"));
}

/// Each head turns a vector of two dimensions by its share of a right angle.
fn show_states(sums: &mut ClusterShifts, indices: impl Iterator<Item = u64>) {
    for index in indices {
        let mut state = sums.begin(&sentence(index, 1, "dep")).unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "a hidden state")]
        let states = |degrees: f64| {
            let (sin, cos) = degrees.to_radians().sin_cos();
            [1.0, 0.0, cos as f32, sin as f32, 1.0, 0.0]
        };
        sums.observe(&mut state, &mut Event::HiddenStates { layer: 2, states: Rows::new(&states(0.0), 2) });
        for (number, removed) in sums.demands().further_runs.ablated_sets().iter().enumerate() {
            sums.observe(&mut state, &mut Event::AblationVariant(number));
            sums.observe(
                &mut state,
                &mut Event::HiddenStates {
                    layer: 2,
                    states: Rows::new(&states(30.0 * places(removed).len() as f64), 2),
                },
            );
        }
    }
}

#[test]
fn drifts_without_clusters_by_hand() {
    let mut sums = ClusterShifts::new(GRID, Clusters::without_random_sets(&[vec![0, 1, 5]]));
    show_states(&mut sums, 0..64);
    let found = OutputShifts::new(&sums, &context());
    let [cluster] = &found.clusters[..] else { panic!("one cluster") };
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    near(cluster.together.value, 1.0);
    near(cluster.alone[2].value, 1.0 - 0.75_f64.sqrt());
    near(cluster.sum.value, 3.0 * (1.0 - 0.75_f64.sqrt()));
    near(cluster.all_but_one.value, 0.5);
    insta::assert_snapshot!(found.view(ViewContext::new(&default_policy())).summary.to_string(), @"
    Clusters of heads that look alike, removed together, one by one, and all but one (mean over the one kept): change of the last hidden states of 64 tokens of 64 sentences, as 1 - cosine.

     without                  together        sum of each         difference        all but one 
     L0H0 L0H1 L1H2  +1.00000 ±0.00000  +0.40192 ±0.00000  +0.59808 ±0.00000  +0.50000 ±0.00000
    ");
    assert_eq!(found.defect(GRID), None);
}

#[test]
fn sums_of_parts_are_those_of_the_whole() {
    let [mut whole, mut left, mut right] =
        [0; 3].map(|_| ClusterLosses::new(GRID, Clusters::with_random_sets(&clusters(), GRID)));
    show_losses(&mut whole, 0..6);
    show_losses(&mut left, 0..2);
    show_losses(&mut right, 2..6);
    left.merge(&right);
    assert_eq!(left, whole);
    let other = HeadGrid { layers: 1, heads: 6 };
    assert!(
        whole.fits(GRID, FromToken::Mean, &LayerClasses::default())
            && !whole.fits(other, FromToken::Mean, &LayerClasses::default())
    );
    let [mut whole, mut left, mut right] =
        [0; 3].map(|_| ClusterShifts::new(GRID, Clusters::without_random_sets(&clusters())));
    show_states(&mut whole, 0..6);
    show_states(&mut left, 0..2);
    show_states(&mut right, 2..6);
    left.merge(&right);
    assert_eq!(left, whole);
    assert!(
        whole.fits(GRID, FromToken::Mean, &LayerClasses::default())
            && !whole.fits(other, FromToken::Mean, &LayerClasses::default())
    );
}

#[test]
fn without_clusters_nothing_runs() {
    let mut sums = ClusterLosses::new(GRID, Clusters::without_random_sets(&[]));
    let token = PredictedToken::masked(1, 0, Some(0));
    assert!(sums.begin(&Sequence { predictions: vec![token], ..sentence(1, 2, "dep") }).is_none());
    assert!(sums.demands().further_runs.ablated_sets().is_empty());
    let section = Effects::new(&sums, &context());
    insta::assert_snapshot!(section.view(ViewContext::new(&default_policy())).summary.to_string(), @"No cluster of heads held under resampling, so none was removed as a whole.");
    let mut sums = ClusterShifts::new(GRID, Clusters::without_random_sets(&[]));
    assert!(sums.begin(&sentence(1, 2, "dep")).is_none());
}
