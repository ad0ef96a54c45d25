use std::num::NonZeroUsize;

use itertools::Itertools;

use super::accuracies::ParserTally;
use super::fit::{FittedParser, GRADIENT_TOLERANCE};
use super::graph::{GraphParser, NodeScores};
use super::section::{PARSERS, ParserReport};
use super::sentence::{GoldHead, KeptSentence, ObservedSentence};
use super::sums::ParserSums;
use crate::corpus::TreeHead;
use crate::model::forward::attention::AttentionView;
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::passes::observer::{Event, FoldBuffers, Sums};
use crate::sequences::fold::words::{FromToken, WordAttention};
use crate::sequences::sequence::{GoldArc, Sequence, TokenKind};
use crate::sequences::span::WordSpan;
use crate::sequences::test_support::sentence;
use crate::stats::blocks::Merge;
use crate::studies::patterns::dependency::arcs::OFFSET_CLASS_COUNT;
use crate::studies::patterns::dependency::sums::DependencySums;
use crate::studies::registry::default_policy;
use crate::study::labels::evidence::Direction;
use crate::study::metrics::estimates::EstimationContext;
use crate::study::section::{Section, ViewContext};
use proptest::prelude::*;

const MEAN: FromToken = FromToken::Mean;

/// A sentence with these heads of its words, `None` being the root.
fn parsed(index: u64, heads: &[Option<usize>]) -> Sequence {
    let arc = |head: &Option<usize>| GoldArc {
        head: head.map_or(TreeHead::Root, TreeHead::Word),
        relation: if head.is_some() { "obj" } else { "root" }.to_owned(),
    };
    Sequence { tree: Some(heads.iter().map(arc).collect()), ..sentence(index, heads.len(), "obj") }
}

/// The kept part of a sequence, of heads with these weights between its tokens.
fn kept(sequence: &Sequence, classes: &LayerClasses, heads: &[Vec<f32>]) -> KeptSentence {
    let mut seen = ObservedSentence::new(sequence, classes, MEAN, heads.len()).expect("a tree");
    for (head, weights) in heads.iter().enumerate() {
        let view = AttentionView::new(0, head, sequence.ids.len(), weights);
        seen.keep_attention((head, 0), view, MEAN, &mut WordAttention::default());
    }
    seen.kept
}

/// `[CLS] a b c [SEP]`: a depends on b, b is the root, c depends on b.
fn three_words() -> KeptSentence {
    let weights = vec![
        0.0, 0.25, 0.5, 0.25, 0.0, // [CLS]
        0.5, 0.0, 0.25, 0.25, 0.0, // a
        1.0, 0.0, 0.0, 0.0, 0.0, // b
        0.0, 0.25, 0.75, 0.0, 0.0, // c
        0.0, 0.0, 0.0, 0.0, 1.0, // [SEP]
    ];
    kept(&parsed(0, &[Some(1), None, Some(1)]), &LayerClasses::default(), &[weights])
}

fn parser(weights: Vec<[f64; 2]>, root: f64) -> GraphParser {
    GraphParser { heads: (0..weights.len()).collect(), weights, root_score: root, distance_scores: Vec::new() }
}

#[test]
fn three_words_by_hand() {
    let sentence = three_words();
    assert_eq!((sentence.node_count(), sentence.attention_bytes()), (4, 2 * 16));
    assert_eq!(
        sentence.words.iter().map(|word| word.gold).collect::<Vec<_>>(),
        [GoldHead::Word(1), GoldHead::Root, GoldHead::Word(1)]
    );
    // By twice the attention of the dependent: a 0 .5 .5 1, b 0 0 0 2, c .5 1.5 0 0.
    let mut scores = NodeScores::default();
    let by_own = parser(vec![[2.0, 0.0]], 0.0);
    let expected = [0.0, 0.5, 0.5, 1.0, 0.0, 0.0, 0.0, 2.0, 0.5, 1.5, 0.0, 0.0];
    assert_eq!(by_own.score_candidates(&sentence, &mut scores)[..12], expected);
    // a has b before c, which are equal; the root is likelier than any word for a and b.
    assert_eq!(by_own.predict_heads(&sentence, &mut scores), [(Some(1), true), (Some(0), true), (Some(1), false)]);
    // By the attention of the head, and a root of -1: a 0 0 .25 -.75, b .25 0 .75 -.5, c .25 0 0 -.75.
    let by_other = parser(vec![[0.0, 1.0]], -1.0);
    let expected = [0.0, 0.0, 0.25, -0.75, 0.25, 0.0, 0.75, -0.5, 0.25, 0.0, 0.0, -0.75];
    assert_eq!(by_other.score_candidates(&sentence, &mut scores)[..12], expected);
    // Without weights every word is as likely as the root: a third for each of three words.
    let loss = parser(vec![[0.0, 0.0]], 0.0).loss(&sentence, &mut scores, &mut [0.0; 3]);
    assert!((loss - 3.0 * 3.0_f64.ln()).abs() < 1e-12, "{loss}");
    let tally = ParserTally::new(by_own.predict_sentences(&[&sentence]));
    assert_eq!((tally.relations["obj"].correct[0], tally.relations["all"].words[0]), (2.0, 2.0));
    assert_eq!((tally.roots.correct[0], tally.roots.words[0]), (1.0, 1.0));
}

#[test]
fn distances_say_how_far_a_head_is() {
    let (mut scores, mut distances) = (NodeScores::default(), vec![0.0; OFFSET_CLASS_COUNT]);
    // The ten offsets to the left come first, the nearest last; then those to the right.
    (distances[9], distances[10], distances[11]) = (3.0, 1.0, 2.0);
    let parser = GraphParser { heads: Vec::new(), weights: Vec::new(), root_score: 5.0, distance_scores: distances };
    let expected = [0.0, 1.0, 2.0, 5.0, 3.0, 0.0, 1.0, 5.0, 0.0, 3.0, 0.0, 5.0];
    assert_eq!(parser.score_candidates(&three_words(), &mut scores)[..12], expected);
}

/// Sentences of five words in which head 0 gives each word's head a half, head 1 is given a half by it, and both give the rest
/// evenly; in even blocks and in odd ones.
fn planted() -> Vec<KeptSentence> {
    let trees = [
        [Some(1), None, Some(4), Some(4), Some(1)],
        [None, Some(0), Some(3), Some(1), Some(0)],
        [Some(2), Some(2), Some(4), Some(4), None],
        [Some(3), Some(0), Some(0), None, Some(3)],
    ];
    let of_sentence = |(index, tree): (u64, &[Option<usize>; 5])| {
        let mut weights = [vec![0.07; 49], vec![0.07; 49]];
        for (word, head) in tree.iter().enumerate() {
            let head = head.map_or(0, |head| head + 1);
            // The one knows the words of even number, the other the others.
            let (from, to) = if word % 2 == 0 { (word + 1, head) } else { (head, word + 1) };
            weights[word % 2][from * 7 + to] = 0.5;
        }
        kept(&parsed(index, tree), &LayerClasses::default(), &weights)
    };
    (0..).zip(&trees).map(of_sentence).collect()
}

#[test]
fn two_planted_heads_make_the_tree_together() {
    let sentences = planted();
    let [even, odd] =
        [0, 1].map(|fold| sentences.iter().filter(|sentence| sentence.block % 2 == fold).collect::<Vec<_>>());
    let right = |heads: Vec<usize>| {
        let fitted = FittedParser::new(&even, &heads, false);
        assert!(fitted.record.gradient_norm <= GRADIENT_TOLERANCE, "{fitted:?}");
        let tally = ParserTally::new(fitted.parser.predict_sentences(&odd));
        (fitted, tally.relations["all"].correct.iter().sum::<f64>(), tally.roots.correct.iter().sum::<f64>())
    };
    // Of eight words and two roots, both heads find all; either misses some.
    let (both, arcs, roots) = right(vec![0, 1]);
    assert_eq!((arcs, roots), (8.0, 2.0));
    assert_eq!(both.record.count, 10);
    // The one by its own attention, the other by that to it.
    let [[own, _], [_, to]] = both.standardised_weights[..] else { panic!("two heads") };
    assert!(own > 1.0 && to > 1.0, "{:?}", both.standardised_weights);
    assert!(right(vec![0]).1 < 8.0 && right(vec![1]).1 < 8.0);
    assert!(right(Vec::new()).2 == 0.0);
}

#[test]
fn attention_that_never_varies_has_no_weight() {
    let even = vec![0.2; 25];
    let sentence = kept(&parsed(0, &[Some(1), None, Some(1)]), &LayerClasses::default(), &[even]);
    let fitted = FittedParser::new(&[&sentence], &[0], false);
    assert_eq!(fitted.parser.weights, [[0.0; 2]]);
}

#[test]
fn a_decoder_has_its_first_token_for_the_root() {
    let classes = LayerClasses::new(&[Visibility::CAUSAL]);
    // The first token, two words and a last special token; each row over what is seen.
    let weights = vec![
        1.0, 0.0, 0.0, 0.0, //
        0.75, 0.25, 0.0, 0.0, //
        0.5, 0.25, 0.25, 0.0, //
        0.25, 0.25, 0.25, 0.25,
    ];
    let sequence = parsed(0, &[None, Some(0)]).with_decoder_first_token();
    let sentence = kept(&sequence, &classes, &[weights]);
    let mut kept_weights = Vec::new();
    sentence.read_attention(0, &mut kept_weights);
    // Over that of the even head, which gives 1/2 and 1/3: the second word 3/4 of that to the first, and the root 1.5 times it
    // to either. What is not seen is 0.
    let expected = [0.0, 0.0, 1.5, 0.75, 0.0, 1.5, 0.0, 0.0, 0.0];
    assert_eq!(kept_weights, expected);
    // Where the first token is of a word, that word is no candidate, and what depends on it is unknown: nothing is left here.
    let words = Sequence { words: WordSpan::whole_words([0..2, 2..3]), ..sequence };
    assert!(ObservedSentence::new(&words, &classes, MEAN, 1).is_none());
}

#[test]
fn without_special_tokens_the_root_has_no_attention() {
    let kinds = [TokenKind::Text; 2];
    let plain = Sequence { tree: parsed(0, &[None, Some(0)]).tree, ..crate::sequences::test_support::sequence(&kinds) };
    let sentence = kept(&plain, &LayerClasses::default(), &[vec![0.5; 4]]);
    let mut weights = Vec::new();
    sentence.read_attention(0, &mut weights);
    assert_eq!(weights, [0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// The sums over sentences, of two heads with these weights, both ways round.
fn summed(sentences: &[Sequence], weights: &[f32]) -> (ParserSums, DependencySums) {
    let mut sums = ParserSums::new(GRID, LayerClasses::default(), MEAN);
    let mut arcs = DependencySums::new(GRID, LayerClasses::default(), MEAN);
    for sequence in sentences {
        let (mut state, mut arc_state) = (sums.begin(sequence), arcs.begin(sequence).unwrap());
        let tokens = sequence.ids.len();
        for head in 0..2 {
            let own: Vec<f32> = (0..tokens * tokens).map(|at| weights[(at * (head + 3)) % weights.len()]).collect();
            let view = AttentionView::new(0, head, tokens, &own);
            let mut folder = FoldBuffers::default();
            if let Some(state) = &mut state {
                sums.observe(state, &mut Event::Head(folder.head_input(sequence, view.into())));
            }
            arcs.observe(&mut arc_state, &mut Event::Head(folder.head_input(sequence, view.into())));
        }
        if let Some(state) = &mut state {
            sums.observe(state, &mut Event::PackEnd);
        }
    }
    (sums, arcs)
}

fn report(sentences: &[Sequence]) -> ParserReport {
    let (sums, arcs) = summed(sentences, &[0.1, 0.3, 0.05, 0.2, 0.35]);
    let context = EstimationContext::new(GRID, NonZeroUsize::MIN);
    ParserReport::new(&sums, &sums, &arcs, &context)
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let none = |sentences: &[Sequence]| {
        let report = report(sentences);
        assert!(report.accuracies.is_empty());
        assert_eq!(report.defect(GRID), None);
        let view = report.view(ViewContext::new(&default_policy()));
        assert!(view.figures.is_empty());
        view.summary.to_string()
    };
    let treeless = Sequence { tree: None, ..sentence(0, 3, "obj") };
    let summaries = [
        none(&[treeless]),
        none(&[sentence(0, 1, "root"), sentence(1, 1, "root")]),
        none(&[sentence(0, 3, "obj")]),
        none(&[sentence(0, 1, "obj"), sentence(1, 3, "obj")]),
    ];
    insta::assert_snapshot!(summaries.concat(), @"
    Syntactic heads from all attention heads: none, for no sentence of the sample has a dependency tree.
    Syntactic heads from all attention heads: none, for no word of the sample has another word for its head.
    Syntactic heads from all attention heads: none, for no word in blocks of odd number has another word for its head, so there is nothing to fit on or to score on: the sample is too small, or all of it is in few documents.
    Syntactic heads from all attention heads: none, for no word in blocks of even number has another word for its head, so there is nothing to fit on or to score on: the sample is too small, or all of it is in few documents.
    ");
}

#[test]
fn every_parser_is_scored_on_the_same_words() {
    let sentences: Vec<Sequence> = (0..24).map(|index| sentence(index as u64, 3 + index % 4, "obj")).collect();
    let report = report(&sentences);
    // Each word's head is the one before it: the offset -1 is always right, and so are distances; the next word never is.
    let accuracy = |name: &str| {
        let one = report.accuracies.iter().find(|one| one.parser == name).expect("a parser");
        (one.share.accuracy, one.ahead.difference)
    };
    let (attention, _) = accuracy("attention");
    assert_eq!(accuracy("best offset"), (Some(1.0), attention.map(|attention| attention - 1.0)));
    assert_eq!(accuracy("distances").0, Some(1.0));
    assert_eq!(accuracy("right-branching").0, Some(0.0));
    assert_eq!(accuracy("tags").0, None);
    // The same sums stand for the untrained model.
    assert_eq!(accuracy("attention of an untrained model"), (attention, Some(0.0)));
    let words: usize = (0..24).map(|index| 2 + index % 4).sum();
    assert_eq!((report.words, report.roots, report.sentences), (words as u64, 24, 24));
    assert_eq!(
        report.relations.iter().map(|one| (one.relation.as_str(), one.words)).collect::<Vec<_>>(),
        [("all", words as u64), ("obj", words as u64)]
    );
    // Without its only layer nothing is left but the root: every word is as likely.
    assert_eq!(report.layers.len(), 1);
    assert_eq!(report.fits.len(), 2 * (4 + 1));
    assert!(report.fits.iter().all(|fit| fit.gradient <= GRADIENT_TOLERANCE), "{:?}", report.fits);
    assert_eq!(report.accuracies.iter().map(|one| one.parser.as_str()).collect::<Vec<_>>(), PARSERS);
    assert_eq!(report.defect(GRID), None);
    assert!(report.defect(HeadGrid { layers: 2, heads: 1 }).is_some());
    let view = report.view(ViewContext::new(&default_policy()));
    let summary = view.summary.to_string();
    assert!(summary.contains("right-branching"), "{summary}");
    let headings = summary.lines().filter_map(|line| Some(line.split_once(':')?.0)).join("\n");
    insta::assert_snapshot!(headings, @"
    Syntactic heads from all attention heads
    Roots found by attention
    Sentences whose heads by attention form a tree
    Points lost without a layer (refitted)
    ");
    let row_counts: Vec<usize> = view.tables.into_iter().map(|table| table.table().rows.len()).collect();
    assert_eq!(row_counts, [9, 2, 1, 0]);
    let weight = *report.heads[1].weight.get(Direction::DependentToHead);
    assert!(
        report.head_card(report.heads[1].place, ViewContext::new(&default_policy())).lines[0]
            .contains(&format!("{weight:.2}"))
    );
}

proptest! {
    /// The derivatives are those of the loss, whatever the evidence.
    #[test]
    fn derivatives_are_slopes(
        at in prop::collection::vec(-2.0..2.0_f64, 5 + OFFSET_CLASS_COUNT),
        number in 0..4_usize,
        known in 0..4_usize,
    ) {
        let sentence = &planted()[number];
        let parser_at = |at: &[f64]| GraphParser {
            heads: vec![0, 1],
            weights: at.as_chunks::<2>().0[..2].to_vec(),
            root_score: at[4],
            distance_scores: if known == 0 { Vec::new() } else { at[5..].to_vec() },
        };
        let mut scores = NodeScores::default();
        let mut loss = |at: &[f64], slopes: &mut [f64]| parser_at(at).loss(sentence, &mut scores, slopes);
        let mut slopes = vec![0.0; 5 + OFFSET_CLASS_COUNT];
        loss(&at, &mut slopes);
        for place in 0..if known == 0 { 5 } else { 5 + OFFSET_CLASS_COUNT } {
            let mut moved = |by: f64| {
                let mut at = at.clone();
                at[place] += by;
                loss(&at, &mut vec![0.0; 5 + OFFSET_CLASS_COUNT])
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            prop_assert!((slopes[place] - slope).abs() < 1e-6, "{place}: {} and {slope}", slopes[place]);
        }
    }

    /// Kept sentences are the same, whoever saw them; and they fit no other model.
    #[test]
    fn parts_make_the_whole(lengths in prop::collection::vec(1..6_usize, 1..8), cut in 0..8_usize) {
        let sentences: Vec<Sequence> = (0..).zip(lengths).map(|(index, words)| sentence(index, words, "obj")).collect();
        let weights = [0.1, 0.3, 0.05, 0.2, 0.35];
        let (first, second) = sentences.split_at(cut.min(sentences.len()));
        let (whole, _) = summed(&sentences, &weights);
        let (mut merged, _) = summed(second, &weights);
        merged.merge(&summed(first, &weights).0);
        prop_assert_eq!(&merged.sentences, &whole.sentences);
        let other = HeadGrid { layers: 2, heads: 2 };
        prop_assert!(whole.fits(GRID, MEAN, &LayerClasses::default()) && !whole.fits(other, MEAN, &LayerClasses::default()));
    }
}
