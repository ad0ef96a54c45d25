use proptest::prelude::*;

use super::super::{TreeHead, Word};
use super::*;

fn words(forms: &str) -> Content {
    Content::Words(forms.split(' ').map(|form| Word::new(form, TreeHead::Unknown, "_")).collect())
}

/// The families of sentences of these words and names, as their numbers; negative where the sentence is not the first.
fn numbers(sentences: &[(&str, Option<&str>)]) -> (Vec<(u64, bool)>, RepeatCounts) {
    let mut families = FamilyAssigner::default();
    let numbers = sentences.iter().map(|(forms, name)| families.assign(&words(forms), *name, None));
    let numbers = numbers.map(|family| (family.number, family.is_first)).collect();
    (numbers, families.counts)
}

#[test]
fn equal_words_are_one_family() {
    let (found, counts) = numbers(&[("a b", None), ("c", None), ("a b", None), ("d", None), ("a b", None)]);
    // Families are numbered as they begin: `d` is the third of them.
    assert_eq!(found, [(0, true), (1, true), (0, false), (2, true), (0, false)]);
    assert_eq!(counts, RepeatCounts { read: 5, different: 3, repeated: 3, families: 3, units: 3, not_remembered: 0 });
}

#[test]
fn sentences_under_one_name_are_one_family() {
    let (x, y) = (Some("x"), Some("y"));
    let (found, counts) = numbers(&[("a", x), ("b", None), ("c", x), ("d", y), ("b", y), ("e", y)]);
    // Equal words come first: the second `b` stays with the first one, whatever it is called.
    assert_eq!(found, [(0, true), (1, true), (0, false), (2, true), (1, false), (2, false)]);
    assert_eq!(counts, RepeatCounts { read: 6, different: 5, repeated: 2, families: 3, units: 3, not_remembered: 0 });
    // A name that comes up first at a sentence that is known is that sentence's family.
    let (found, _) = numbers(&[("a", None), ("a", x), ("b", x)]);
    assert_eq!(found, [(0, true), (0, false), (0, false)]);
}

#[test]
fn a_family_has_the_number_of_its_document() {
    let mut families = FamilyAssigner::default();
    let mut of = |forms, document| families.assign(&words(forms), Some("x"), Some(document));
    let found = [of("a", 0), of("b", 0), of("c", 1), of("a", 2)].map(|family| (family.number, family.is_first));
    // The second `a` stays with the first one; a name does not count.
    assert_eq!(found, [(0, true), (0, true), (1, true), (0, false)]);
    // Every sentence of the third document stands in an earlier one.
    assert_eq!((families.counts.families, families.counts.units), (3, 2));
}

#[test]
fn the_annotation_does_not_matter_and_the_pieces_do() {
    let tree = Content::Words(vec![Word::new("a", TreeHead::Root, "root"), Word::new("b", TreeHead::Word(0), "obj")]);
    assert_eq!(content_digest(&words("a b")), content_digest(&tree));
    let text = |text: &str| content_digest(&Content::Text(text.to_owned()));
    assert_eq!(text("a b"), text(" a\t b "));
    let different = [
        text("a b"),
        text("ab"),
        text("A b"),
        content_digest(&words("a b")),
        content_digest(&words("ab")),
        digest(NAME_PREFIX, ["a b"]),
    ];
    for (place, one) in different.iter().enumerate() {
        assert!(!different[..place].contains(one), "{place}");
    }
}

#[test]
fn what_cannot_be_remembered_keeps_to_its_block_all_the_same() {
    let mut families = FamilyAssigner::default();
    let known = families.assign(&words("a"), None, None);
    families.families_by_digest.extend(
        (0..MAX_REMEMBERED_DIGESTS as u64).map(|digest| (digest, RememberedFamily { family: 0, has_recurred: false })),
    );
    let [b, c, b_again, a_again, named, named_again] =
        [("b", None), ("c", None), ("b", None), ("a", None), ("d", Some("x")), ("e", Some("x"))]
            .map(|(forms, name)| families.assign(&words(forms), name, None));
    assert_eq!((b.number, b.is_first, b_again.is_first), (b_again.number, true, true));
    assert_ne!(b.number, c.number);
    assert_eq!((a_again.number, a_again.is_first), (known.number, false));
    assert_eq!(named.number, named_again.number);
    let counts = families.counts;
    assert_eq!(counts, RepeatCounts { read: 7, different: 6, repeated: 2, families: 6, units: 6, not_remembered: 5 });
}

proptest! {
    /// Whatever the corpus: families count from 0 without a gap, the first of each is the first one met, and there are as
    /// many as are counted.
    #[test]
    fn families_begin_once(sentences in prop::collection::vec((0..9_u8, prop::option::of(0..4_u8)), 0..60)) {
        let mut families = FamilyAssigner::default();
        let mut begun = 0;
        let mut of_words = std::collections::HashMap::new();
        for (number, name) in sentences {
            let name = name.map(|name| name.to_string());
            let family = families.assign(&words(&number.to_string()), name.as_deref(), None);
            prop_assert_eq!(family.is_first, family.number == begun);
            begun += u64::from(family.is_first);
            prop_assert!(family.number < begun);
            prop_assert_eq!(*of_words.entry(number).or_insert(family.number), family.number);
        }
        let counts = families.counts;
        prop_assert_eq!((counts.families, counts.different), (begun, of_words.len() as u64));
    }

    /// A sentence's family is its own number if no sentence occurs again and none is named.
    #[test]
    fn sentences_of_their_own_are_families_of_their_own(count in 0..80_u64) {
        let mut families = FamilyAssigner::default();
        for number in 0..count {
            prop_assert_eq!(families.assign(&words(&number.to_string()), None, None), SentenceGroup::new(number));
        }
    }
}

#[test]
fn names_come_before_documents_and_two_documents_need_a_mark() {
    let unit =
        |documents, marks_documents, names_families| UnitMarks { documents, marks_documents, names_families }.unit();
    assert_eq!(unit(12, true, true), Unit::Families);
    // Files alone are documents where there are ten; nine files without a mark may be nine parts of one corpus.
    assert_eq!([unit(9, false, false), unit(10, false, false)], [Unit::Sentences, Unit::Documents]);
    assert_eq!([unit(1, true, false), unit(2, true, false)], [Unit::Sentences, Unit::Documents]);
    assert_eq!(UnitMarks::default().unit(), Unit::Sentences);
}
