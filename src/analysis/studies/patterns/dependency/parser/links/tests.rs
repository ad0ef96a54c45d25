//! Models of links by hand, and planted heads.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use itertools::Itertools;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::kept_links::{KeptLinks, LinkEvidence, LinkedSequence};
use super::models::{CONTACT_GRADIENT_TOLERANCE, ChoiceModel, ContactModel, LOSS_WEIGHT};
use super::section::{LinkParser, LinkParserResults, PAIR_MODELS, TARGET_MODELS, export_table, write_summary};
use super::sums::LinkParserSums;
use crate::corpus::{LinkSet, LinkType};
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, FoldBuffers, Sums};
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::patterns::dependency::parser::fit::{GRADIENT_TOLERANCE, RIDGE_PENALTY};
use crate::study::metrics::estimates::EstimationContext;
use crate::study::show::summary::Summary;

const ATTENTION: LinkEvidence = LinkEvidence { has_heads: true, has_distances: false };

fn links(name: &str, is_undirected: bool, pairs: &[(usize, usize)]) -> LinkSet {
    let kind = Arc::new(LinkType { name: name.into(), is_undirected, min_distance: 1 });
    let mut set = LinkSet { link_type: kind, targets: BTreeMap::new(), candidates: None, dropped_links: 0 };
    for &(from, to) in pairs {
        set.targets.entry(from).or_default().insert(to);
        if is_undirected {
            set.targets.entry(to).or_default().insert(from);
        }
    }
    set
}

/// A sequence of words with links, and the weights of each head between its words, the rest being on the first token.
type Made = (Sequence, Vec<Vec<Vec<f32>>>);

fn summed(corpus: &[Made], visibility: Visibility) -> LinkParserSums {
    let grid = HeadGrid { layers: 1, heads: corpus[0].1.len() };
    let mut sums = LinkParserSums::new(grid, LayerClasses::new(&[visibility]), FromToken::Mean);
    for (sequence, heads) in corpus {
        let Some(mut state) = sums.begin(sequence) else { continue };
        let tokens = sequence.ids.len();
        for (head, between) in heads.iter().enumerate() {
            let mut weights = vec![0.0; tokens * tokens];
            for (row, word) in weights.chunks_exact_mut(tokens).zip(0..) {
                if let Some(own) = usize::checked_sub(word, 1).and_then(|word| between.get(word)) {
                    row[1..=own.len()].copy_from_slice(own);
                }
                row[0] = 1.0 - row.iter().sum::<f32>();
            }
            let view = AttentionView::new(0, head, tokens, &weights);
            sums.observe(&mut state, &mut Event::Head(FoldBuffers::default().head_input(sequence, view.into())));
        }
        sums.observe(&mut state, &mut Event::PackEnd);
    }
    assert!(sums.fits(grid, FromToken::Mean, &LayerClasses::new(&[visibility])));
    sums
}

fn context(heads: usize) -> EstimationContext {
    let grid = HeadGrid { layers: 1, heads };
    EstimationContext::new(grid, NonZeroUsize::MIN)
}

/// As many even heads.
fn even((sequence, heads): &Made) -> Made {
    let words = heads[0].len();
    (sequence.clone(), vec![vec![vec![0.5 / words as f32; words]; words]; heads.len()])
}

/// The models of a corpus, beside models of even heads.
fn measured(corpus: &[Made]) -> LinkParserResults {
    let fresh: Vec<Made> = corpus.iter().map(even).collect();
    let [sums, fresh] = [corpus, &fresh].map(|corpus| summed(corpus, Visibility::ALL));
    LinkParserResults::new(&sums, &fresh, &context(corpus[0].1.len()))
}

fn accuracy(links: &LinkParser, name: &str) -> f64 {
    let found = links.accuracies.iter().find(|one| one.parser == name).unwrap();
    found.share.accuracy.unwrap_or_else(|| panic!("{name}: {found:?}"))
}

fn all_of(sums: &LinkParserSums) -> Vec<&KeptLinks> {
    sums.sequences.values().flat_map(|sequence| &sequence.links).collect()
}

#[test]
fn the_optimum_of_two_candidates_by_hand() {
    let made = (
        Sequence { links: vec![links("maps", false, &[(0, 2)])], ..sentence(0, 3, "dep") },
        vec![vec![vec![0.0, 0.25, 0.75], vec![0.0; 3], vec![0.0; 3]]],
    );
    let sums = summed(&[made], Visibility::ALL);
    let all = all_of(&sums);
    // Two candidates with two terms of two bytes. The head is right from the source; nothing is given back, and of equal ones the first is
    // chosen.
    assert_eq!((sums.seen, all[0].attention_bytes(), &all[0].hits[..]), (1, 8, &[[1, 0]][..]));
    let fitted = ChoiceModel::new(&all, ATTENTION, 1);
    // Divided by its standard deviation, .25, the term differs by 2 between the candidates: ln (1 + e^(-2w)) + 1e-4 w² is smallest where
    // 2 / (1 + e^(2w)) = 2e-4 w.
    let [[w, back]] = fitted.standardised_weights[..] else { panic!("one head") };
    assert!((2.0 / (1.0 + (2.0 * w).exp()) - 2.0 * RIDGE_PENALTY * w).abs() <= GRADIENT_TOLERANCE, "{fitted:?}");
    assert!(back == 0.0 && w > 3.0 && (fitted.record.loss - (-2.0 * w).exp().ln_1p()).abs() < 1e-9, "{fitted:?}");
    assert_eq!((fitted.count_hits(all[0]), fitted.record.count), (1, 1));
    // Distances alone know which of the two is farther.
    let distances = ChoiceModel::new(&all, LinkEvidence { has_heads: false, has_distances: true }, 1);
    assert_eq!((distances.count_hits(all[0]), distances.standardised_weights.len()), (1, 0));
}

#[test]
fn of_several_targets_the_mean_counts() {
    // Two of three others are targets, and an even head says nothing: ln 3, whichever of them it is.
    let even = vec![vec![vec![0.25; 4]; 4]];
    let made = |targets: &[(usize, usize)]| {
        (Sequence { links: vec![links("refs", false, targets)], ..sentence(0, 4, "dep") }, even.clone())
    };
    let sums = summed(&[made(&[(0, 2), (0, 3)])], Visibility::ALL);
    let fitted = ChoiceModel::new(&all_of(&sums), ATTENTION, 1);
    assert!(
        (fitted.record.loss - 3.0_f64.ln()).abs() < 1e-12 && fitted.standardised_weights == [[0.0; 2]],
        "{fitted:?}"
    );
    // Of equal ones the first candidate is chosen: word 1, which is no target.
    assert_eq!(fitted.count_hits(all_of(&sums)[0]), 0);
    // Distances make both targets as likely as can be: each a half, ln 2, but for the penalty.
    let distances = ChoiceModel::new(&all_of(&sums), LinkEvidence { has_heads: false, has_distances: true }, 1);
    assert!((distances.record.loss - 2.0_f64.ln()).abs() < 0.01, "{distances:?}");
}

/// Sequences of eight words whose first four are each linked to one of the others. One head knows the first two, from the source; the other
/// knows the others, to the source; a third is even, and a fourth noise.
fn planted(count: u64, permuted: bool) -> Vec<Made> {
    let mut rng = ChaCha8Rng::seed_from_u64(50);
    let made = |index| {
        let mut order: Vec<usize> = (4..8).collect();
        order.shuffle(&mut rng);
        let pairs: Vec<(usize, usize)> = order.iter().copied().enumerate().collect();
        let mut heads = vec![vec![vec![0.0625; 8]; 8]; 3];
        heads.push((0..8).map(|_| (0..8).map(|_| rng.random_range(0.0..0.125)).collect()).collect());
        for &(from, to) in &pairs {
            let (head, query, key) = if from < 2 { (0, from, to) } else { (1, to, from) };
            heads[head][query][key] = 0.5;
        }
        order.shuffle(&mut rng);
        let linked = if permuted { order.into_iter().enumerate().collect() } else { pairs };
        (Sequence { links: vec![links("maps", false, &linked)], ..sentence(index, 8, "dep") }, heads)
    };
    (0..count).map(made).collect()
}

#[test]
fn two_planted_heads_know_all_together() {
    let read = measured(&planted(60, false));
    let [found] = &read.types[..] else { panic!("one type") };
    assert_eq!((found.count, found.sentences, found.none.as_deref(), read.left_out_sequences), (240, 60, None, 0));
    assert_eq!(found.accuracies.iter().map(|one| one.parser.as_str()).collect::<Vec<_>>(), TARGET_MODELS);
    assert_eq!(accuracy(found, "attention"), 1.0);
    // Either knows a half; of the other half it has the first candidate, which is a target of none.
    assert_eq!(accuracy(found, "best head"), 0.5);
    assert!((accuracy(found, "chance") - 1.0 / 7.0).abs() < 1e-12);
    // Distances know that targets are among the last four.
    assert!(accuracy(found, "distances") < 0.5, "{found:?}");
    assert!(found.lead.difference.unwrap() > 0.5 && found.lead.ci95.unwrap().low() > 0.4, "{:?}", found.lead);
}

#[test]
fn what_is_fitted_ends() {
    let found = &measured(&planted(60, true)).types[0];
    assert!(
        found.fits.iter().all(|fit| fit.gradient <= GRADIENT_TOLERANCE) && found.fits.len() == 8,
        "{:?}",
        found.fits
    );
    // Permuted links are not known to any head: one of four at most.
    assert!(accuracy(found, "attention") < 0.4, "{found:?}");
}

/// Sequences of twelve words, linked in a ring in a random order; one head joins linked words in one direction, the other is noise.
fn contacts(count: u64, permuted: bool) -> Vec<Made> {
    let mut rng = ChaCha8Rng::seed_from_u64(51);
    let ring = |rng: &mut ChaCha8Rng| -> Vec<(usize, usize)> {
        let mut order: Vec<usize> = (0..12).collect();
        order.shuffle(rng);
        order.into_iter().circular_tuple_windows().collect()
    };
    let made = |index| {
        let known = ring(&mut rng);
        let mut heads = vec![vec![vec![0.02; 12]; 12]; 2];
        for row in &mut heads[1] {
            row.iter_mut().for_each(|weight| *weight = rng.random_range(0.0..0.08));
        }
        known.iter().for_each(|&(u, v)| heads[0][u][v] += 0.05);
        let linked = if permuted { ring(&mut rng) } else { known };
        (Sequence { links: vec![links("contact", true, &linked)], ..sentence(index, 12, "dep") }, heads)
    };
    (0..count).map(made).collect()
}

#[test]
fn planted_contacts_are_predicted_and_permuted_ones_are_not() {
    let read = measured(&contacts(40, false));
    let [found] = &read.types[..] else { panic!("one type") };
    // Twelve pairs are taken in each sentence, and twelve of 66 are linked.
    assert_eq!((found.count, found.sentences, found.none.as_deref()), (480, 40, None));
    assert_eq!(found.accuracies.iter().map(|one| one.parser.as_str()).collect::<Vec<_>>(), PAIR_MODELS);
    assert!(accuracy(found, "attention") > 0.97 && accuracy(found, "best head") > 0.97, "{found:?}");
    assert!((accuracy(found, "chance") - 12.0 / 66.0).abs() < 1e-12);
    // The head of noise has no weight.
    assert!(found.heads[0].from > 1.0 && found.heads[1].from.abs() < 0.2 * found.heads[0].from, "{:?}", found.heads);
    assert!(
        found.fits.iter().all(|fit| fit.gradient <= CONTACT_GRADIENT_TOLERANCE) && found.fits.len() == 4,
        "{:?}",
        found.fits
    );
    let read = measured(&contacts(40, true));
    let chance = 12.0 / 66.0;
    assert!((accuracy(&read.types[0], "attention") - chance).abs() < 0.08, "{:?}", read.types[0].accuracies);
}

#[test]
fn a_contact_model_by_hand() {
    // Of three pairs one is linked. An even head says nothing: the share is 1/3, and the loss ln 3 / 3 + 2/3 ln (3/2).
    let made = (
        Sequence { links: vec![links("contact", true, &[(0, 2)])], ..sentence(0, 3, "dep") },
        vec![vec![vec![0.2; 3]; 3]],
    );
    let sums = summed(std::slice::from_ref(&made), Visibility::ALL);
    let fitted = ContactModel::new(&all_of(&sums), 1);
    let expected = 3.0_f64.ln() / 3.0 + 2.0 / 3.0 * 1.5_f64.ln();
    assert!(
        (fitted.record.loss - expected).abs() < 1e-9 && fitted.weights == [0.0] && fitted.record.steps == 0,
        "{fitted:?}"
    );
    // One sequence is too little for its weight to outweigh the penalty, though a head has the pair; a thousand alike are enough, and there
    // the slope of the loss is that of the penalty.
    let known = vec![vec![vec![0.2, 0.2, 0.5], vec![0.2; 3], vec![0.2; 3]]];
    let sums = summed(&[(made.0.clone(), known.clone())], Visibility::ALL);
    assert_eq!(ContactModel::new(&all_of(&sums), 1).weights, [0.0]);
    let corpus: Vec<Made> = (0..1000).map(|index| (Sequence { index, ..made.0.clone() }, known.clone())).collect();
    let sums = summed(&corpus, Visibility::ALL);
    let fitted = ContactModel::new(&all_of(&sums), 1);
    // F: ab .4, ac .7, bc .4, with .4 of each word to itself: sums 1.5, 1.2, 1.5 of 4.2. Corrected: ab -.0286, ac .1643, bc -.0286.
    let (linked, other) = (0.7 - 1.5 * 1.5 / 4.2, 0.4 - 1.5 * 1.2 / 4.2);
    let w = fitted.weights[0];
    // The bias is where the shares add up to one, so the slope is by the difference of the two.
    let wrong = 1.0 / (1.0 + f64::exp(find_logit(w, linked, other)));
    let slope = LOSS_WEIGHT * 1000.0 * wrong * (linked - other);
    assert!(w > 10.0 && (slope - 1.0).abs() < 5e-3, "{slope} {fitted:?}");
}

/// The logit of the linked pair where its share and twice that of another add up to 1, by halving.
fn find_logit(w: f64, linked: f64, other: f64) -> f64 {
    let share = |logit: f64| 1.0 / (1.0 + (-logit).exp());
    let (mut low, mut high) = (-100.0, 100.0);
    for _ in 0..200 {
        let bias = f64::midpoint(low, high);
        let sum = share(w * linked + bias) + 2.0 * share(w * other + bias);
        if sum < 1.0 { low = bias } else { high = bias }
    }
    w * linked + low
}

#[test]
fn even_heads_have_no_lead() {
    let directed: Vec<Made> = planted(60, false).iter().map(even).collect();
    let found = &measured(&directed).types[0];
    assert_eq!(accuracy(found, "attention"), 0.0, "the first candidate is a target of none");
    assert!(found.lead.difference.unwrap() <= 0.0, "{:?}", found.lead);
    let undirected: Vec<Made> = contacts(40, false).iter().map(even).collect();
    let found = &measured(&undirected).types[0];
    assert!(found.heads.iter().all(|head| head.from == 0.0), "{:?}", found.heads);
    assert!(found.lead.ci95.unwrap().low() <= 0.0, "{:?}", found.lead);
}

#[test]
fn a_decoder_chooses_on_either_side() {
    // The later of two words looks at the earlier; links to the right are scored from their target.
    let made = |index| {
        let set = links("refs", false, &[(3, 1), (0, 2)]);
        let heads =
            vec![vec![vec![0.0; 4], vec![0.5, 0.0, 0.0, 0.0], vec![0.4, 0.1, 0.0, 0.0], vec![0.1, 0.4, 0.2, 0.0]]];
        (Sequence { links: vec![set], ..sentence(index, 4, "dep").with_decoder_first_token() }, heads)
    };
    let corpus: Vec<Made> = (0..120).map(made).collect();
    let sums = summed(&corpus, Visibility::CAUSAL);
    let read = LinkParserResults::new(&sums, &sums, &context(1));
    let found: Vec<_> = read
        .types
        .iter()
        .map(|one| (one.side.map(crate::study::labels::evidence::Side::name), one.count, accuracy(one, "attention")))
        .collect();
    // On the left word 1 has .4 times 4 keys of the last word, word 2 .2 times 4; on the right word 2 has .4 of 4 keys and word 1 .5 of 3.
    assert_eq!(found, [(Some("left"), 120, 1.0), (Some("right"), 120, 1.0)]);
    // Causal heads have one weight: to the left.
    let weights: Vec<_> =
        read.types.iter().map(|one| (one.heads[0].from != 0.0, one.heads[0].to != Some(0.0))).collect();
    assert_eq!(weights, [(true, false), (false, true)]);
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let why = |corpus: &[Made]| {
        let read = measured(corpus);
        assert!(read.types[0].accuracies.is_empty() && read.types[0].defect(context(4).grid).is_none());
        let text = Summary::from_writer(|out| write_summary(&read.types, read.left_out_sequences, out)).to_string();
        assert!(text.contains(read.types[0].none.as_ref().unwrap()), "{text}");
        text
    };
    let mut one_fold = planted(60, false);
    one_fold.iter_mut().for_each(|(sequence, _)| sequence.family.number *= 2);
    let in_even_blocks = why(&one_fold);
    one_fold.iter_mut().for_each(|(sequence, _)| sequence.family.number += 1);
    let texts = [why(&planted(10, false)), in_even_blocks, why(&one_fold), why(&contacts(5, false))];
    insta::assert_snapshot!(texts.concat(), @"
    1 type of links is not read from all heads; of maps the sample has 40 of its scored sources, and 100 are asked for.
    1 type of links is not read from all heads; of maps none of its scored sources is in blocks of odd number, so there is nothing to fit on or to score on.
    1 type of links is not read from all heads; of maps none of its scored sources is in blocks of even number, so there is nothing to fit on or to score on.
    1 type of links is not read from all heads; of contact the sample has 60 of its linked pairs, and 100 are asked for.
    ");
    // A corpus without links has nothing to say.
    let mut none = planted(3, false);
    none.iter_mut().for_each(|(sequence, _)| sequence.links.clear());
    let read = measured(&none);
    assert!(read.types.is_empty());
    assert_eq!(Summary::from_writer(|out| write_summary(&read.types, read.left_out_sequences, out)).to_string(), "");
}

#[test]
fn sequences_without_room_are_counted() {
    let text = Summary::from_writer(|out| write_summary(&[], 3, out)).to_string();
    insta::assert_snapshot!(text, @"3 sequences with links were left out: the attention of more does not fit into the memory that is kept (docs/BOUNDS.md).");
}

#[test]
fn parts_make_the_whole_and_broken_ones_do_not_fit() {
    let corpus: Vec<Made> =
        planted(6, false).into_iter().chain(contacts(4, false).into_iter().map(renumbered)).collect();
    let corpus: Vec<Made> = corpus.into_iter().map(|(sequence, heads)| (sequence, heads[..2].to_vec())).collect();
    let whole = summed(&corpus, Visibility::ALL);
    let (first, second) = corpus.split_at(4);
    let mut merged = summed(second, Visibility::ALL);
    merged.merge(&summed(first, Visibility::ALL));
    assert_eq!((&merged.sequences, merged.seen), (&whole.sequences, whole.seen));
    let grid = HeadGrid { layers: 1, heads: 2 };
    assert!(!whole.fits(HeadGrid { layers: 2, heads: 2 }, FromToken::Mean, &LayerClasses::default()));
    let fits = |change: &dyn Fn(&mut LinkedSequence)| {
        let mut sums = whole.clone();
        sums.sequences.values_mut().for_each(change);
        sums.fits(grid, FromToken::Mean, &LayerClasses::default())
    };
    assert!(fits(&|_| ()));
    let changes: [&dyn Fn(&mut LinkedSequence); 8] = [
        &|sequence| sequence.block = 64,
        &|sequence| sequence.classes.push("x".into()),
        &|sequence| drop(sequence.words.pop()),
        &|sequence| sequence.links[0].hits[0][0] = 1000,
        &|sequence| sequence.links[0].hits.push([0; 2]),
        &|sequence| sequence.links[0].sources.iter_mut().for_each(|source| source.targets.clear()),
        &|sequence| sequence.links[0].sources.iter_mut().for_each(|source| source.candidates.reverse()),
        &|sequence| sequence.links[0].sentence = 0..100,
    ];
    changes.into_iter().enumerate().for_each(|(number, change)| assert!(!fits(change), "{number}"));
}

fn renumbered((sequence, heads): Made) -> Made {
    (Sequence { index: sequence.index + 100, ..sequence }, heads)
}

#[test]
fn the_tables_have_every_model() {
    let read = measured(&contacts(40, false));
    let table = export_table(&read.types).table();
    assert_eq!((table.name, table.rows.len()), ("parser_links", PAIR_MODELS.len()));
    let text = Summary::from_writer(|out| write_summary(&read.types, 0, out)).to_string();
    let (introduction, table_text) = text.split_once("\n\n").unwrap();
    assert!(table_text.contains("separations"), "{text}");
    insta::assert_snapshot!(introduction, @"Undirected links from all attention heads (contact prediction, Rao et al. 2021): of the pairs that a logistic regression on the corrected attention of all heads finds likeliest, as many as words, the share that is linked, in %; fitted on one half of the sentences and scored on the other. `lead` is over the best model that does not see this attention:");
    let found = &read.types[0];
    let best_head_line = found.head_line(found.heads[0].place).unwrap();
    insta::assert_snapshot!(best_head_line.replace(char::is_numeric, ""), @"the largest weight in the model of links contact by all heads:  for a corrected weight of");
    assert_eq!(found.head_line(found.heads[1].place), None);
}
