use super::*;
use crate::corpus::{Annotation, TreeHead, Upos};
use crate::sequences::fold::words::FromToken;
use crate::sequences::span::WordSpan;
use crate::sequences::test_support::sentence;

/// `[CLS] a b c [SEP]`, each word the child of the one before it.
fn three() -> Sequence {
    sentence(0, 3, "obj")
}

fn folded(view: AttentionView<'_>, sequence: &Sequence) -> WordAttention {
    let mut words = WordAttention::default();
    words.fold(view, &sequence.words, FromToken::Mean);
    words
}

/// Rows of the three words alone count here: each is `[to CLS, a, b, c, SEP]`.
fn scored(aim: &Aim, sequence: &Sequence, rows: [[f32; 5]; 3]) -> Option<(f64, u64)> {
    let weights: Vec<f32> = [[0.2; 5], rows[0], rows[1], rows[2], [0.2; 5]].concat();
    let view = AttentionView::new(0, 0, 5, &weights);
    let score = aim.goals_in_sequence(sequence, Visibility::ALL, FromToken::Mean)?.score(view, &folded(view, sequence));
    Some(((score.mean * 1e6).round() / 1e6, score.queries))
}

const ROWS: [[f32; 5]; 3] = [
    [0.1, 0.2, 0.4, 0.2, 0.1], //
    [0.5, 0.3, 0.0, 0.1, 0.1],
    [0.2, 0.1, 0.4, 0.2, 0.1],
];

#[test]
fn masses_are_means_over_the_queries_that_can_look_there() {
    let mut sequence = three();
    sequence.kinds[3] = TokenKind::Punctuation;
    let score = |aim: Aim| scored(&aim, &sequence, ROWS);
    // b to a 0.3, c to b 0.4.
    assert_eq!(score(Aim::Offset(-1)), Some((0.35, 2)));
    assert_eq!(score(Aim::Offset(2)), Some((0.2, 1)));
    assert_eq!(score(Aim::Offset(3)), None);
    // All but the token itself is near: 0.6, 0.4 and 0.5.
    assert_eq!(score(Aim::Window), Some((0.5, 3)));
    assert_eq!(score(Aim::FirstSpecial), Some((0.266_667, 3)));
    assert_eq!(score(Aim::Separators), Some((0.1, 3)));
    assert_eq!(score(Aim::Punctuation), Some((0.166_667, 3)));
    assert_eq!(scored(&Aim::Punctuation, &three(), ROWS), None);
}

#[test]
fn classes_and_tokens_are_those_of_others() {
    let upos = |tag| Annotation { upos: Some(tag), ..Annotation::default() };
    let mut sequence = three();
    sequence.annotations = [Upos::Noun, Upos::Verb, Upos::Noun].map(upos).to_vec();
    sequence.ids = vec![0, 7, 8, 7, 1];
    let score = |aim: Aim| scored(&aim, &sequence, ROWS);
    // a to c 0.2, b to both 0.4, c to a 0.1.
    assert_eq!(score(Aim::Tag("NOUN".to_owned())), Some((0.233_333, 3)));
    assert_eq!(score(Aim::Tag("ADJ".to_owned())), None);
    assert_eq!(score(Aim::SameTag), Some((0.15, 2)));
    assert_eq!(score(Aim::SameToken), Some((0.15, 2)));
    assert_eq!(scored(&Aim::SameTag, &three(), ROWS), None, "without parts of speech nobody has the same");
}

#[test]
fn arcs_are_right_where_the_other_end_is_attended_to_most() {
    let aim = |direction| Aim::Partner { relation: "obj".to_owned(), direction };
    // The head of b is a, that of c is b: of b a has 0.3, of c b 0.4.
    assert_eq!(scored(&aim(Direction::DependentToHead), &three(), ROWS), Some((1.0, 2)));
    // b receives 0.4 from a and from c: a is the first; c receives 0.2 from a and 0.1 from b.
    assert_eq!(scored(&aim(Direction::HeadToDependent), &three(), ROWS), Some((0.5, 2)));
    let other = Aim::Partner { relation: "nsubj".to_owned(), direction: Direction::DependentToHead };
    assert_eq!(scored(&other, &three(), ROWS), None);
    let mut rootless = three();
    rootless.tree.as_mut().unwrap().iter_mut().for_each(|arc| arc.head = TreeHead::Unknown);
    assert_eq!(scored(&aim(Direction::DependentToHead), &rootless, ROWS), None);
}

#[test]
fn even_attention_is_spread_most() {
    assert_eq!(scored(&Aim::Spread, &three(), [[0.2; 5]; 3]), Some((1.0, 3)));
    assert_eq!(scored(&Aim::Spread, &three(), [[1.0, 0.0, 0.0, 0.0, 0.0]; 3]), Some((0.0, 3)));
}

#[test]
fn goals_of_units_are_those_of_their_tokens() {
    // [CLS] a ##b c [SEP]
    let mut sequence = Sequence { words: WordSpan::whole_words([1..3, 3..4]), ..three() };
    sequence.tree = None;
    let units = DisplayUnits::new(&sequence);
    let of =
        |aim: Aim| aim.goals_in_sequence(&sequence, Visibility::ALL, FromToken::Mean).unwrap().goals_by_unit(&units);
    // ##b looks at a, of its own word, c at ##b.
    assert_eq!(of(Aim::Offset(-1)), [None, Some(vec![1]), Some(vec![1]), None]);
    assert_eq!(of(Aim::FirstSpecial), [None, Some(vec![0, 0]), Some(vec![0]), None]);
    assert_eq!(of(Aim::Spread), [None, None, None, None]);
}

/// Each sentence of a window of two has the queries of its own; the keys may stand before it.
#[test]
fn goals_of_a_part_are_those_of_its_queries() {
    let window = Sequence { texts: vec![1..2, 2..4], ..three() };
    let goals = |aim: Aim| aim.goals_in_sequence(&window, Visibility::ALL, FromToken::Mean).unwrap();
    let of = |goals: &Goals, part: usize| -> Option<Vec<(usize, Vec<usize>)>> {
        let words = &window.words_by_sentence()[part];
        match goals.goals_in_span(&window.texts[part], words)? {
            Goals::Tokens(goals) | Goals::Words(goals) => Some(goals),
            Goals::Partners { arcs, .. } => Some(arcs.into_iter().map(|(word, other)| (word, vec![other])).collect()),
            Goals::Spread(queries) => Some(queries.into_iter().map(|(query, _)| (query, Vec::new())).collect()),
        }
    };
    let previous = goals(Aim::Offset(-1));
    assert_eq!(of(&previous, 0), None);
    assert_eq!(of(&previous, 1), Some(vec![(2, vec![1]), (3, vec![2])]));
    let spread = goals(Aim::Spread);
    assert_eq!((of(&spread, 0).unwrap().len(), of(&spread, 1).unwrap().len()), (1, 2));
    let relation = Aim::Partner { relation: "obj".to_owned(), direction: Direction::DependentToHead };
    assert_eq!(of(&goals(relation), 1), Some(vec![(1, vec![0]), (2, vec![1])]));
}
