//! The corpus in the box, checked line by line, since measurements of heads rely on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::fixture;

/// <https://universaldependencies.org/u/pos/>
const PARTS_OF_SPEECH: &str = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X";

/// <https://universaldependencies.org/u/dep/> and <https://universaldependencies.org/en/dep/>, version 2.
const RELATIONS: &str = "acl acl:relcl advcl advcl:relcl advmod advmod:emph advmod:lmod amod appos aux aux:pass case cc \
    cc:preconj ccomp clf compound compound:prt conj cop csubj csubj:outer csubj:pass dep det det:predet discourse \
    dislocated expl fixed flat goeswith iobj list mark nmod nmod:desc nmod:poss nmod:unmarked nsubj nsubj:outer \
    nsubj:pass nummod obj obl obl:agent obl:unmarked orphan parataxis punct reparandum root vocative xcomp";

/// Relations with at least 100 words, subtypes included.
const FREQUENT: &str = "nsubj obj det case amod advmod aux nmod compound mark conj cc cop xcomp ccomp";
const FREQUENT_SUBTYPES: [&str; 2] = ["nmod:poss", "aux:pass"];

struct Word {
    form: String,
    part_of_speech: String,
    /// 0 for the root, else the 1-based number of a word.
    head: usize,
    relation: String,
    misc: String,
}

struct Sentence {
    id: String,
    text: String,
    words: Vec<Word>,
}

/// All sentences of the corpus. A line that is neither a comment nor a word fails.
fn sentences() -> Vec<Sentence> {
    let corpus = std::fs::read_to_string(fixture("corpus/gold.conllu")).unwrap();
    let blocks = corpus.strip_suffix("\n\n").expect("a blank line after the last sentence").split("\n\n");
    blocks
        .map(|block| {
            let comment = |key: &str| {
                let value =
                    block.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(key)?.strip_prefix(" = "));
                value.unwrap_or_else(|| panic!("no {key} in\n{block}")).to_owned()
            };
            let words = block.lines().filter(|line| !line.starts_with('#')).enumerate().map(|(index, line)| {
                let columns: Vec<&str> = line.split('\t').collect();
                let &[id, form, _, part_of_speech, _, _, head, relation, _, misc] = columns.as_slice() else {
                    panic!("not ten columns: {line}");
                };
                assert_eq!(id, (index + 1).to_string(), "{line}");
                Word {
                    form: form.to_owned(),
                    part_of_speech: part_of_speech.to_owned(),
                    head: head.parse().expect(line),
                    relation: relation.to_owned(),
                    misc: misc.to_owned(),
                }
            });
            Sentence { id: comment("sent_id"), text: comment("text"), words: words.collect() }
        })
        .collect()
}

/// The number of words on the path from a word to the root, or `None` if the path has a cycle.
fn depth(words: &[Word], word: usize) -> Option<usize> {
    let path = std::iter::successors(Some(word), |&at| words[at].head.checked_sub(1));
    // A path longer than the sentence visits a word twice.
    let depth = path.take(words.len() + 1).count();
    (depth <= words.len()).then_some(depth)
}

#[test]
fn every_sentence_is_a_valid_tree() {
    let relations: BTreeSet<&str> = RELATIONS.split_whitespace().collect();
    let parts: BTreeSet<&str> = PARTS_OF_SPEECH.split_whitespace().collect();
    for Sentence { id, text, words } in sentences() {
        assert_eq!(words.iter().filter(|word| word.head == 0).count(), 1, "{id}: roots");
        for (index, word) in words.iter().enumerate() {
            let at = format!("{id}: word {} {}", index + 1, word.form);
            assert!(parts.contains(word.part_of_speech.as_str()), "{at}: {}", word.part_of_speech);
            assert!(relations.contains(word.relation.as_str()), "{at}: {}", word.relation);
            assert_eq!(word.relation == "root", word.head == 0, "{at}");
            assert_eq!(word.relation == "punct", word.part_of_speech == "PUNCT", "{at}");
            assert!(word.head <= words.len(), "{at}: head {}", word.head);
            assert!(depth(&words, index).is_some(), "{at}: a cycle");
        }
        let spaced = |word: &Word| {
            let glued = word.misc.split('|').any(|entry| entry == "SpaceAfter=No");
            if glued { word.form.clone() } else { format!("{} ", word.form) }
        };
        assert_eq!(words.iter().map(spaced).collect::<String>().trim_end(), text, "{id}");
    }
}

#[test]
fn depth_detects_cycles() {
    let words = |heads: &[usize]| -> Vec<Word> {
        let word = |&head: &usize| Word {
            form: String::new(),
            part_of_speech: String::new(),
            head,
            relation: String::new(),
            misc: String::new(),
        };
        heads.iter().map(word).collect()
    };
    assert_eq!(depth(&words(&[2, 0, 2]), 2), Some(2));
    assert_eq!(depth(&words(&[2, 3, 1, 0]), 0), None);
    assert_eq!(depth(&words(&[1]), 0), None);
}

#[test]
fn sentences_differ_and_relations_are_frequent() {
    let sentences = sentences();
    assert!(sentences.len() >= 400, "{} sentences", sentences.len());
    let texts: BTreeSet<&str> = sentences.iter().map(|sentence| sentence.text.as_str()).collect();
    assert_eq!(texts.len(), sentences.len(), "a sentence stands there twice");

    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in sentences.iter().flat_map(|sentence| &sentence.words) {
        let (relation, subtype) = word.relation.split_once(':').unwrap_or((&word.relation, ""));
        *counts.entry(relation).or_default() += 1;
        if !subtype.is_empty() {
            *counts.entry(&word.relation).or_default() += 1;
        }
    }
    let count = |relation: &str| counts.get(relation).copied().unwrap_or(0);
    for relation in FREQUENT.split_whitespace().chain(FREQUENT_SUBTYPES) {
        assert!(count(relation) >= 100, "{relation}: {}", count(relation));
    }
    assert!(count("iobj") + count("obl") >= 100);
}

#[test]
fn coreferent_mentions_open_and_close_and_are_never_alone() {
    let mut entities_of_others = BTreeSet::new();
    let mut marked = 0;
    for Sentence { id, words, .. } in sentences() {
        let mut open: Vec<&str> = Vec::new();
        let mut mentions: BTreeMap<&str, usize> = BTreeMap::new();
        for word in &words {
            let Some(marks) = word.misc.split('|').find_map(|entry| entry.strip_prefix("Entity=")) else { continue };
            // Each mark is `(e1)`, `(e1` or `e1)`.
            let mut rest = marks;
            while !rest.is_empty() {
                let opens = rest.strip_prefix('(');
                let body = opens.unwrap_or(rest);
                let end = body.find(['(', ')']).unwrap_or(body.len());
                let (entity, after) = body.split_at(end);
                assert!(entity.starts_with('e') && entity[1..].parse::<u32>().is_ok(), "{id}: {marks}");
                if opens.is_some() {
                    open.push(entity);
                    *mentions.entry(entity).or_default() += 1;
                }
                rest = after.strip_prefix(')').unwrap_or(after);
                if rest.len() < after.len() {
                    assert_eq!(open.pop(), Some(entity), "{id}: {marks} closes what is not open");
                } else {
                    assert!(opens.is_some(), "{id}: {marks}");
                }
            }
        }
        assert!(open.is_empty(), "{id}: {open:?} never closed");
        assert!(mentions.values().all(|&count| count >= 2), "{id}: {mentions:?}");
        marked += usize::from(!mentions.is_empty());
        for entity in mentions.into_keys() {
            assert!(entities_of_others.insert(entity.to_owned()), "{id}: {entity} is in another sentence too");
        }
    }
    assert_eq!((marked, entities_of_others.len()), (140, 156), "as the corpus's README says");
}
