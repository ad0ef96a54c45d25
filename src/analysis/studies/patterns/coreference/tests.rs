use std::num::NonZeroUsize;

use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::anaphors::{MentionCounts, MentionWindow};
use super::*;
use crate::corpus::{Annotation, SentenceGroup, Upos};
use crate::evaluation::results::Results;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::observer::{Event, FoldBuffers, Sums, new_observer};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::stats::blocks::{BLOCKS, Merge};
use crate::studies::registry::{default_policy, find_study};
use crate::study::ObservedPass;
use crate::study::section::downcast_section;

/// A word: lemma, UPOS, features, `Entity=`.
type AnnotatedWord<'a> = (&'a str, Upos, &'a str, &'a str);

/// A window of these words, one token each; each word's head is the one before it, the first is the root.
fn window(index: u64, words: &[AnnotatedWord<'_>]) -> Sequence {
    let given = |text: &str| (!text.is_empty()).then(|| text.into());
    let annotation = |&(lemma, upos, features, entity): &AnnotatedWord<'_>| Annotation {
        upos: Some(upos),
        lemma: given(lemma),
        features: given(features),
        entity: given(entity),
        ..Annotation::default()
    };
    Sequence { annotations: words.iter().map(annotation).collect(), ..sentence(index, words.len(), "dep") }
}

/// Anna met Bob. He smiled. She left.
fn example() -> Sequence {
    use Upos::{Pron, Propn, Punct, Verb};
    window(
        0,
        &[
            ("Anna", Propn, "Number=Sing", "(e1)"),
            ("meet", Verb, "", ""),
            ("Bob", Propn, "Number=Sing", "(e2)"),
            (".", Punct, "", ""),
            ("he", Pron, "Gender=Masc|Number=Sing|Person=3", "(e2)"),
            ("smile", Verb, "", ""),
            (".", Punct, "", ""),
            ("she", Pron, "Gender=Fem|Number=Sing|Person=3", "(e1)"),
            ("leave", Verb, "", ""),
            (".", Punct, "", ""),
        ],
    )
}

/// Adds a head with these weights between words, all others being 0.
fn add(sums: &mut CoreferenceSums, sequence: &Sequence, head: usize, weights: &[(usize, usize, f32)]) {
    let n = sequence.ids.len();
    let mut matrix = vec![0.0; n * n];
    weights.iter().for_each(|&(from, to, weight)| matrix[(from + 1) * n + to + 1] = weight);
    let (Some(mut state), mut folder) = (sums.begin(sequence), FoldBuffers::default()) else { return };
    sums.observe(
        &mut state,
        &mut Event::Head(folder.head_input(sequence, AttentionView::new(0, head, n, &matrix).into())),
    );
}

fn empty(heads: usize) -> CoreferenceSums {
    CoreferenceSums::new(HeadGrid { layers: 1, heads }, Visibility::ALL, FromToken::Mean)
}

#[test]
fn an_example_by_hand() {
    let found = MentionWindow::new(&example(), Visibility::ALL, FromToken::Mean);
    assert_eq!((&found.heads, found.counts.mentions, found.counts.unscored), (&vec![0, 2, 4, 7], 4, 0));
    let [he, she] = &found.anaphors[..] else { panic!("{:?}", found.anaphors) };
    // Bob is right for "he", and the nearest; "she" is not "he", nor agrees with him.
    assert_eq!((he.candidates.end, he.right_candidate_count, he.baseline_choices), (2, 1, [1, 1, 1]));
    assert_eq!((she.candidates.end, she.right_candidate_count, she.baseline_choices), (3, 1, [2, 2, 1]));
    assert_eq!(he.kinds, [true, true, false, false, true]);
    assert!(found.is_antecedent(he, 1) && found.is_antecedent(she, 0) && !found.is_antecedent(she, 1));

    let mut sums = empty(1);
    // He attends more to Anna, she too; of the two Bob attends more to him, and he more to her.
    let weights =
        [(4, 0, 0.6), (4, 2, 0.3), (7, 0, 0.4), (7, 4, 0.3), (0, 4, 0.1), (2, 4, 0.2), (0, 7, 0.1), (4, 7, 0.2)];
    add(&mut sums, &example(), 0, &weights);
    let [all, pronoun, proper, common, other_lemma] = &sums.blocks[0];
    assert_eq!((all.anaphors, all.windows, all.baselines, &all.heads), (2, 1, [1, 1, 1], &vec![[1, 1]]));
    assert_eq!(all.chance.value(), 1.0 / 2.0 + 1.0 / 3.0);
    assert_eq!((pronoun, other_lemma), (all, all));
    assert_eq!((proper.anaphors, common.anaphors), (0, 0));
    assert_eq!(sums.met, MentionCounts { windows: 1, mentions: 4, ..MentionCounts::default() });
}

#[test]
fn agreement_is_of_features_that_both_have() {
    use Upos::{Noun, Pron};
    let chosen = |first: &str, second: &str| {
        let words =
            [("a", Noun, first, "(e1)"), ("b", Noun, second, "(e2)"), ("c", Pron, "Gender=Fem|Number=Sing", "(e1)")];
        MentionWindow::new(&window(0, &words), Visibility::ALL, FromToken::Mean).anaphors[0].baseline_choices[2]
    };
    assert_eq!(chosen("", "Number=Sing"), 1);
    assert_eq!(chosen("", "Gender=Fem|Number=Plur"), 0);
    assert_eq!(chosen("Number=Plur", "Gender=Masc"), 1);
    assert_eq!(chosen("Case=Nom", "Gender=Masc"), 0);
}

#[test]
fn anaphors_have_right_candidates_and_wrong_ones() {
    use Upos::{Noun, Propn};
    // The only candidate is right, then the only one is wrong.
    let words =
        [("Ann", Propn, "", "(e1)"), ("ANN", Propn, "", "(e1)"), ("x", Noun, "", "(e2)"), ("ann", Propn, "", "(e1)")];
    let found = MentionWindow::new(&window(0, &words), Visibility::ALL, FromToken::Mean);
    assert_eq!((found.anaphors.len(), found.counts.unscored), (1, 1));
    assert_eq!(found.anaphors[0].kinds, [true, false, true, false, false]);
    assert_eq!((found.anaphors[0].right_candidate_count, found.anaphors[0].baseline_choices), (2, [2, 1, 2]));
    // Two mentions with one head word, neither before the other: "(e1(e1" on one word.
    let words = [("a", Noun, "", "(e1(e1"), ("b", Noun, "", "e1)e1)"), ("c", Noun, "", "(e2)")];
    assert_eq!(MentionWindow::new(&window(0, &words), Visibility::ALL, FromToken::Mean).anaphors, []);
}

/// So many windows of 30 words; every third word is a mention of one of four entities, by the entity's name or another word.
fn corpus(windows: u64, seed: u64) -> Vec<Sequence> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut fresh = 0;
    let mut made = |index: u64| {
        let words: Vec<(String, String)> = (0..30)
            .map(|word| {
                let entity = random.random_range(0..4);
                let by_name = random.random_bool(0.3);
                fresh += 1;
                let lemma = if by_name { format!("name{entity}") } else { format!("word{fresh}") };
                let entity = if word % 3 == 0 { format!("(e{entity})") } else { String::new() };
                (lemma, entity)
            })
            .collect();
        let given: Vec<AnnotatedWord<'_>> =
            words.iter().map(|(lemma, entity)| (&**lemma, Upos::Noun, "", &**entity)).collect();
        window(index, &given)
    };
    (0..windows).map(&mut made).collect()
}

/// A head that each anaphor's choice is planted in: to the antecedent, and from it; the baselines' choices; none.
const PLANTED: [&str; 5] = ["to the antecedent", "from the antecedent", "nearest", "same lemma", "nobody"];

fn planted(head: usize, found: &MentionWindow) -> Vec<(usize, usize, f32)> {
    let weight = |anaphor: &super::anaphors::Anaphor| {
        let own = found.heads[anaphor.candidates.end];
        let right =
            (0..anaphor.candidates.end).rev().find(|&candidate| found.is_antecedent(anaphor, candidate)).unwrap();
        let to = |candidate: usize| (own, found.heads[candidate], 0.5);
        match PLANTED[head] {
            "to the antecedent" => Some(to(right)),
            "from the antecedent" => Some((found.heads[right], own, 0.5)),
            "nearest" => Some(to(anaphor.baseline_choices[0])),
            "same lemma" => Some(to(anaphor.baseline_choices[1])),
            _ => None,
        }
    };
    found.anaphors.iter().filter_map(weight).collect()
}

/// The planted heads over these windows, which the annotation of `labelled` says of.
fn found(planted_in: &[Sequence], labelled: &[Sequence]) -> Results {
    let mut sums = empty(PLANTED.len());
    for (original, sequence) in planted_in.iter().zip(labelled) {
        let (n, known) = (sequence.ids.len(), MentionWindow::new(original, Visibility::ALL, FromToken::Mean));
        let (Some(mut state), mut folder) = (sums.begin(sequence), FoldBuffers::default()) else { continue };
        for head in 0..PLANTED.len() {
            let mut matrix = vec![0.01; n * n];
            for (from, to, weight) in planted(head, &known) {
                matrix[(from + 1) * n + to + 1] = weight;
            }
            let view = AttentionView::new(0, head, n, &matrix);
            sums.observe(&mut state, &mut Event::Head(folder.head_input(sequence, view.into())));
        }
    }
    let grid = HeadGrid { layers: 1, heads: PLANTED.len() };
    let context = EstimationContext::new(grid, NonZeroUsize::MIN);
    let sums = new_observer(ByLayerClass::single_class(sums));
    let observed = vec![ObservedPass { sums: &*sums, left_out_sentences: 0 }];
    Results::new(&[(find_study("coreference").unwrap(), observed)], &context, &default_policy())
}

fn labels(results: &Results) -> Vec<Vec<String>> {
    let verdicts = results.verdicts(&default_policy());
    verdicts.iter().map(|verdict| verdict.labels.iter().map(|label| label.label.clone()).collect()).collect()
}

#[test]
fn heads_that_find_antecedents_have_the_label_and_near_misses_have_not() {
    let windows = corpus(40, 1);
    let results = found(&windows, &windows);
    // All its choices are right, of either kind of anaphors: the kind with more to gain is first.
    let has = ["coreference:other-lemma".to_owned(), "coreference:all".to_owned()];
    assert_eq!(labels(&results), [&has[..], &has, &[], &[], &[]]);
    let verdicts = results.verdicts(&default_policy());
    // The direction that fires.
    let label = &verdicts[0].labels[0];
    insta::assert_snapshot!(label.rule, @"coreference_gain.other-lemma:anaphor->antecedent >= 0.1");
    assert!(!label.borderline && label.test.q.unwrap() < 0.01);

    let Coreference { kinds, windows, .. } = downcast_section::<Coreference>(&*results.sections[0].1);
    assert_eq!((*windows, kinds.len()), (40, 3));
    let all = &kinds[0];
    assert_eq!(
        (all.accuracy, all.heldout_accuracy, all.place.head, &*all.direction),
        (1.0, Some(1.0), 0, "anaphor->antecedent")
    );
    // The heads that were planted by the rules are right as often as those.
    let accuracy =
        |head: usize| results.estimates.heads[head].get("coreference_accuracy", Some("all:anaphor->antecedent"));
    assert_eq!(accuracy(2), Some(&Some(all.baselines.nearest)));
    assert_eq!(accuracy(3), Some(&Some(all.baselines.same_lemma)));
    assert!(all.baselines.same_lemma > all.baselines.nearest && all.baselines.nearest == all.baselines.agreement);
}

#[test]
fn entities_that_are_shuffled_give_no_label() {
    let windows = corpus(40, 2);
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let shuffle = |window: &Sequence| {
        let mut entities: Vec<_> = window.annotations.iter().filter_map(|word| word.entity.clone()).collect();
        entities.shuffle(&mut random);
        let mut shuffled = window.clone();
        let mentions = shuffled.annotations.iter_mut().filter(|word| word.entity.is_some());
        mentions.zip(entities).for_each(|(word, entity)| word.entity = Some(entity));
        shuffled
    };
    let shuffled: Vec<Sequence> = windows.iter().map(shuffle).collect();
    assert_eq!(labels(&found(&windows, &shuffled)), vec![Vec::<String>::new(); PLANTED.len()]);
}

#[test]
fn what_rests_on_too_little_has_no_label() {
    // Enough anaphors, of 29 windows.
    let windows = corpus(29, 4);
    assert_eq!(labels(&found(&windows, &windows)), vec![Vec::<String>::new(); PLANTED.len()]);
}

#[test]
fn a_corpus_without_entities_says_so() {
    let plain = [window(0, &[("a", Upos::Noun, "", ""), ("b", Upos::Noun, "", "")])];
    let results = found(&plain, &plain);
    let summary = results.sections[0].1.view(ViewContext::new(&default_policy())).summary.to_string();
    insta::assert_snapshot!(summary, @"No word of the corpus has an entity annotated (`Entity=`), so no coreference label was tested.");
    let caveats = results.caveats(&[], &default_policy());
    assert_eq!(caveats.iter().map(|caveat| caveat.id).collect::<Vec<_>>(), ["no-entities"]);
    assert!(empty(1).begin(&plain[0]).is_none() && empty(1).begin(&example()).is_some());
}

#[test]
fn a_window_is_in_the_block_of_its_family_and_counts_once() {
    let mut sums = empty(1);
    add(&mut sums, &Sequence { index: 9, family: SentenceGroup { number: 70, is_first: false }, ..example() }, 0, &[]);
    add(&mut sums, &Sequence { index: 8, family: SentenceGroup { number: 70, is_first: true }, ..example() }, 0, &[]);
    let all = &sums.blocks[70 % BLOCKS][0];
    assert_eq!((all.anaphors, all.windows), (4, 1));
    assert_eq!(&sums.blocks.total()[0], all);
}

#[test]
fn sums_that_do_not_add_up_do_not_fit() {
    let mut sums = empty(1);
    add(&mut sums, &example(), 0, &[(4, 2, 0.5), (7, 0, 0.5)]);
    let (grid, from) = (HeadGrid { layers: 1, heads: 1 }, FromToken::Mean);
    assert!(
        sums.fits(grid, from, &LayerClasses::default())
            && !sums.fits(HeadGrid { layers: 1, heads: 2 }, from, &LayerClasses::default())
    );
    // Both are right for both: one more is too many.
    let fits = |change: fn(&mut serde_json::Value)| {
        let mut json = serde_json::to_value(&sums).unwrap();
        change(&mut json["blocks"][0][0]);
        serde_json::from_value::<CoreferenceSums>(json).unwrap().fits(grid, from, &LayerClasses::default())
    };
    assert!(fits(|_| {}));
    assert!(!fits(|all| all["heads"][0][0] = 3.into()));
    assert!(!fits(|all| all["baselines"][1] = 3.into()));
    assert!(!fits(|all| all["windows"] = 3.into()));
    assert!(!fits(|all| all["heads"] = serde_json::Value::Array(Vec::new())));
}

proptest! {
    /// Any annotation gives every anaphor right candidates and wrong ones, and one word class.
    #[test]
    fn anaphors_are_sound(
        words in prop::collection::vec(("[ab]?", 0..Upos::ALL.len(), "(Number=(Sing|Plur))?", "(\\(e[12]\\)?|e[12]\\)){0,2}"), 1..12),
        parts in 1..11_usize,
    ) {
        let given: Vec<AnnotatedWord<'_>> =
            words.iter().map(|(lemma, upos, features, entity)| (&**lemma, Upos::ALL[*upos], &**features, &**entity)).collect();
        let sequence = window(3, &given);
        let found = MentionWindow::new(&sequence, Visibility::ALL, FromToken::Mean);
        prop_assert!(found.heads.is_sorted_by(|a, b| a < b));
        for anaphor in &found.anaphors {
            prop_assert!(0 < anaphor.right_candidate_count && anaphor.right_candidate_count < anaphor.candidates.end);
            let right = (0..anaphor.candidates.end).filter(|&candidate| found.is_antecedent(anaphor, candidate)).count();
            prop_assert_eq!(right, anaphor.right_candidate_count);
            prop_assert!(anaphor.baseline_choices.iter().all(|&chosen| chosen < anaphor.candidates.end));
            prop_assert!(anaphor.kinds[0] && anaphor.kinds[1..4].iter().filter(|&&kind| kind).count() == 1);
        }
        // Sums of parts are those of the whole.
        let sequences: Vec<Sequence> = (0..12).map(|index| Sequence { index, family: SentenceGroup::new(index), ..sequence.clone() }).collect();
        let sum = |sequences: &[Sequence]| {
            let mut sums = empty(1);
            sequences.iter().for_each(|sequence| add(&mut sums, sequence, 0, &[]));
            sums
        };
        let (early, late) = sequences.split_at(parts);
        let mut merged = sum(late);
        merged.merge(&sum(early));
        let whole = sum(&sequences);
        prop_assert_eq!((&merged.blocks, merged.met), (&whole.blocks, whole.met));
        let (grid, from) = (HeadGrid { layers: 1, heads: 1 }, FromToken::Mean);
        prop_assert!(merged.fits(grid, from, &LayerClasses::default()));
    }
}
