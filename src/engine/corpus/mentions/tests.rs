use proptest::prelude::*;

use super::*;

const GUM: &str = "GRP-etype-infstat-salience-centering-minspan-link-identity";
const COREFUD: &str = "eid-etype-head-other";

/// Entity, parts and named head.
type ParsedMention<'a> = (&'a str, Vec<Range<usize>>, Option<usize>);

/// The mentions of these words, and the unmatched brackets.
fn found<'a>(words: &[&'a str], fields: Option<&str>) -> (Vec<ParsedMention<'a>>, u64) {
    let given = words.iter().map(|value| (!value.is_empty()).then_some(*value));
    let Mentions { mentions, unmatched } = Mentions::parse(given, fields);
    let mention = |Mention { entity, parts, annotated_head: named_head }: Mention<'a>| (entity, parts, named_head);
    (mentions.into_iter().map(mention).collect(), unmatched)
}

fn whole(entity: &str, span: Range<usize>, head: Option<usize>) -> ParsedMention<'_> {
    (entity, vec![span], head)
}

#[test]
fn without_fields_a_bracket_has_the_entity_alone() {
    // [Anna 's brother] called her.
    let (mentions, unmatched) = found(&["(e2(e1", "e1)", "e2)", "", "(e1)"], None);
    assert_eq!(mentions, [whole("e1", 0..2, None), whole("e2", 0..3, None), whole("e1", 4..5, None)]);
    assert_eq!(unmatched, 0);
}

#[test]
fn the_head_is_counted_within_the_span() {
    let gum = ["", "(7-abstract-new-nnnss-cf6-2-coref", "", "7)", "(3-person-giv:act-s-cf1-1-ana-Jean-Luc_%28x%29)"];
    assert_eq!(found(&gum, Some(GUM)), (vec![whole("7", 1..4, Some(2)), whole("3", 4..5, Some(4))], 0));
    let corefud = ["(e1-person-3-infstat:old,x", "", "e1)", "(e2-place-1)"];
    assert_eq!(found(&corefud, Some(COREFUD)), (vec![whole("e1", 0..3, Some(2)), whole("e2", 3..4, Some(3))], 0));
}

#[test]
fn a_head_that_is_not_one_word_of_the_mention_is_none() {
    for head in ["2,4", "0", "9", "", "x", "-1", "99999999999999999999"] {
        let open = format!("(e1-person-{head}");
        assert_eq!(found(&[&open, "e1)"], Some(COREFUD)), (vec![whole("e1", 0..2, None)], 0), "{head}");
    }
}

#[test]
fn mentions_cross_and_nest() {
    // The inner one of two nested mentions of one entity ends first.
    let (mentions, unmatched) = found(&["(a", "(b", "a)", "(b", "b)", "b)"], None);
    assert_eq!(mentions, [whole("a", 0..3, None), whole("b", 3..5, None), whole("b", 1..6, None)]);
    assert_eq!(unmatched, 0);
}

#[test]
fn parts_of_a_mention_are_one_mention() {
    // "either [old] men or [women and girls]": the head is the second of the three words.
    let words = ["", "(e1[1/2]-person-2-x)", "", "", "(e1[2/2]-person-2-x", "", "e1[2/2])"];
    assert_eq!(found(&words, Some(COREFUD)), (vec![("e1", vec![1..2, 4..7], Some(4))], 0));
    let three = ["(a[1/3])", "(a[2/3])", "(a[1/2])", "(a[3/3])", "(a[2/2])"];
    assert_eq!(found(&three, None), (vec![("a", vec![0..1, 1..2, 3..4], None), ("a", vec![2..3, 4..5], None)], 0));
}

#[test]
fn what_opens_or_closes_nothing_is_counted() {
    for (words, mentions, unmatched) in [
        (vec!["(a"], 0, 1),
        (vec!["a)"], 0, 1),
        (vec!["(a", "b)"], 0, 2),
        (vec!["(a)", "a)"], 1, 1),
        (vec!["noise"], 0, 1),
        (vec!["noise(a)"], 1, 1),
        (vec![")", "("], 0, 2),
        // A second part without a first, a first without a second, and two firsts.
        (vec!["(a[2/2])"], 0, 1),
        (vec!["(a[1/2])"], 0, 1),
        (vec!["(a[1/2])", "(a[1/2])", "(a[2/2])"], 1, 1),
        // The second part begins within the first.
        (vec!["(a[1/2]", "(a[2/2]", "a[1/2])", "a[2/2])"], 0, 2),
        // No part is numbered so: the name is that of an entity.
        (vec!["(a[0/2])", "(a[3/2])", "(a[x])"], 3, 0),
    ] {
        let (found, counted) = found(&words, None);
        assert_eq!((found.len(), counted), (mentions, unmatched), "{words:?}");
    }
}

#[test]
fn the_head_of_a_mention_is_named_or_leads_out_of_it() {
    use TreeHead::{Root, Unknown, Word};
    // 0 the 1 man 2 who 3 left: "man" is the root.
    let tree = [Word(1), Root, Word(3), Word(1)];
    let all = 0..tree.len();
    let head = |named_head, tree: &[TreeHead]| {
        Mention { parts: vec![all.clone()], entity: "a", annotated_head: named_head }.head(|word| tree[word])
    };
    assert_eq!(head(None, &tree), Some(1));
    assert_eq!(head(Some(3), &tree), Some(3));
    assert_eq!(head(None, &[Unknown; 4]), None);
    let apart = Mention { entity: "a", parts: vec![0..1, 2..4], annotated_head: None };
    assert_eq!(apart.head(|word| tree[word]), Some(0));
}

proptest! {
    /// Any text gives no panic, words that exist, and a mention or an unmatched bracket for each opening.
    #[test]
    fn anything_is_read(
        words in prop::collection::vec("[()e1\\[\\]/2-]{0,9}|\\PC{0,6}", 0..9),
        fields in prop::option::of("[a-z-]{0,9}|eid-etype-head-other|head-eid"),
    ) {
        let Mentions { mentions, unmatched } = Mentions::parse(words.iter().map(|word| Some(word.as_str())), fields.as_deref());
        for mention in &mentions {
            prop_assert!(!mention.parts.is_empty() && mention.parts.iter().all(|part| !part.is_empty()));
            prop_assert!(mention.parts.is_sorted_by(|a, b| a.end <= b.start));
            prop_assert!(mention.parts.iter().all(|part| part.end <= words.len()));
            let head = mention.annotated_head;
            prop_assert!(head.is_none_or(|head| mention.parts.iter().any(|part| part.contains(&head))));
        }
        let opened: usize = words.iter().map(|word| word.matches('(').count()).sum();
        let parts: usize = mentions.iter().map(|mention| mention.parts.len()).sum();
        prop_assert!(parts <= opened && (opened == 0 || parts as u64 + unmatched > 0));
    }

    /// Any nesting of mentions is read back.
    #[test]
    fn balanced_brackets_are_all_read(lengths in prop::collection::vec((0..8_usize, 1..4_usize), 1..8)) {
        // The mentions of each word in order: those that end, those of one word, those that begin.
        let [mut ends, mut singles, mut begins] = [(); 3].map(|()| vec![String::new(); 12]);
        for (name, &(start, length)) in lengths.iter().enumerate() {
            if length == 1 {
                singles[start] = format!("{}(e{name})", singles[start]);
            } else {
                begins[start] = format!("{}(e{name}", begins[start]);
                ends[start + length - 1] = format!("{}e{name})", ends[start + length - 1]);
            }
        }
        let words: Vec<String> = (0..12).map(|word| [&*ends[word], &singles[word], &begins[word]].concat()).collect();
        let read = Mentions::parse(words.iter().map(|word| Some(word.as_str())), None);
        prop_assert_eq!((read.mentions.len(), read.unmatched), (lengths.len(), 0));
        for Mention { entity, parts, .. } in read.mentions {
            let (start, length) = lengths[entity[1..].parse::<usize>().unwrap()];
            let span = start..start + length;
            prop_assert_eq!(parts, [span]);
        }
    }
}
