use std::path::Path;

use super::super::sequence::TokenKind::{FirstSpecial, Punctuation, Separator, Text};
use super::*;
use crate::corpus::{Annotation, Corpus, Format, Upos};
use crate::model::Model;
use crate::model::source::ModelRef;
use crate::sequences::tally::Legibility;

/// A small model with `WordPiece`: `[CLS]` and `[SEP]` around a text.
fn model() -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/tiny-bert");
    Model::load(ModelRef::Folder(folder).resolve(&()).unwrap()).unwrap()
}

fn tokenize(tokenizer: &mut SentenceTokenizer<'_>, text: &str) -> Tokenized {
    tokenizer.encode(Sentence::standalone("test", Content::Text(text.to_owned()))).unwrap()
}

#[test]
fn a_text_is_cut_to_the_limit_and_no_further() {
    let model = model();
    let whole = tokenize(&mut SentenceTokenizer::new(&model.tokenizer, 64, true), "the dog and the cat .").unwrap();
    assert_eq!(whole.kinds, [FirstSpecial, Text, Text, Text, Text, Text, Punctuation, Separator]);
    for limit in 3..10 {
        let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, limit, true);
        let cut = tokenize(&mut tokenizer, "the dog and the cat .").unwrap();
        // All that there is room for, and the special tokens around it.
        let kept = limit.min(8);
        assert_eq!(cut.ids[..kept - 1], whole.ids[..kept - 1], "at {limit}");
        assert_eq!((cut.ids.len(), cut.ids.last()), (kept, whole.ids.last()), "at {limit}");
        assert_eq!(cut.words.len(), kept - 2);
        let tally = tokenizer.tally();
        assert_eq!((tally.truncated, tally.sentences, tally.longest), (u64::from(limit < 8), 1, kept as u64));
    }
    // There is no room between the special tokens: nothing is cut.
    let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, 2, true);
    assert_eq!(tokenize(&mut tokenizer, "the dog"), Err(SkipReason::TooManyTokens));
    assert_eq!((tokenizer.tally().truncated, tokenizer.tally().sentences), (0, 0));
}

#[test]
fn a_text_that_fits_is_left_whole_and_a_longer_one_left_out() {
    let model = model();
    let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, 6, false);
    assert_eq!(tokenize(&mut tokenizer, "the dog , ,").unwrap().ids.len(), 6);
    for longer in ["the dog , , ,", "the dog and the cat", "the dog and the cat and the dog and the cat"] {
        assert_eq!(tokenize(&mut tokenizer, longer), Err(SkipReason::TooManyTokens), "{longer}");
    }
    assert_eq!(tokenize(&mut tokenizer, "\u{200b}"), Err(SkipReason::NoTokens));
    let expected = [(SkipReason::TooManyTokens, 3), (SkipReason::NoTokens, 1)].into();
    assert_eq!((tokenizer.tally().sentences, &tokenizer.tally().skipped), (1, &expected));
    assert_eq!(tokenizer.into_tally().files[0].skipped, 4);
}

#[test]
fn letters_that_the_vocabulary_has_no_words_of_are_counted_by_script() {
    let model = model();
    let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, 64, false);
    for text in ["the dog", "The λέων .", "!"] {
        tokenize(&mut tokenizer, text).unwrap();
    }
    let expected = Legibility {
        characters: 6 + 3 + 4 + 1 + 1,
        letters: 6 + 3 + 4,
        foreign: [("Greek".to_owned(), 4)].into(),
        // It is a vocabulary in lower case, and one of words.
        lower_cased: 0,
        of_one_token: 1,
        unparted: 0,
    };
    assert_eq!(tokenizer.into_tally().legibility, expected);
}

/// The decoder in the box, whose byte-level BPE makes the space before a word a part of its token.
#[test]
fn a_sentence_goes_on_in_its_document_after_a_space() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/causal");
    let model = Model::load(ModelRef::Folder(folder).resolve(&()).unwrap()).unwrap();
    let ids = |context| -> Vec<Vec<u32>> {
        let corpus = Corpus::from_bytes("test", b"The cat sat.\nThe dog sat.\n\nThe cat.\n".to_vec(), Format::Text);
        let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, 64, false).with_context(context);
        let ids = |sentence| tokenizer.encode(sentence).unwrap().unwrap().ids[1..].to_vec();
        let found = corpus.map(Result::unwrap).map(ids).collect();
        let Tally { sentences, tokens, text_tokens, .. } = *tokenizer.tally();
        // The token for the beginning of text is of a sentence by itself, or of its window.
        assert_eq!((sentences, tokens - text_tokens), (3, if context == Reads::Sentence { 3 } else { 0 }));
        found
    };
    let alone = |text: &str| model.tokenizer.encode_text(text, false).unwrap().get_ids().to_vec();
    assert_eq!(ids(Reads::Sentence), ["The cat sat.", "The dog sat.", "The cat."].map(alone));
    assert_eq!(ids(Reads::Document), ["The cat sat.", " The dog sat.", "The cat."].map(alone));
    assert_eq!(ids(Reads::Document)[..2].concat(), alone("The cat sat. The dog sat."));
}

#[test]
fn the_token_for_the_beginning_of_text_is_put_there_or_taken_away() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/causal");
    let model = Model::load(ModelRef::Folder(folder).resolve(&()).unwrap()).unwrap();
    let first = |tokenizer: &ModelTokenizer| {
        let words = tokenizer.encode_words(&["a", "b"]).unwrap();
        let text = tokenizer.encode_text("a b", true).unwrap();
        assert_eq!(words.get_special_tokens_mask()[0], text.get_special_tokens_mask()[0]);
        (tokenizer.beginning_token().unwrap(), words.get_word_ids().to_vec(), text.get_offsets().to_vec())
    };
    let named = Some("<|endoftext|>".to_owned());
    let own = first(&model.tokenizer);
    assert_eq!(own, (named, vec![None, Some(0), Some(1)], vec![(0, 0), (0, 1), (1, 3)]));
    assert_eq!(first(&model.tokenizer.clone().with_beginning_token().unwrap()), own);
    let never = model.tokenizer.clone().without_beginning_token();
    assert_eq!(first(&never), (None, vec![Some(0), Some(1)], vec![(0, 1), (1, 3)]));
}

#[test]
fn two_texts_are_read_as_a_pair() {
    let model = model();
    let encode = |segments: usize, line: &str| {
        let mut corpus = Corpus::from_bytes("test", line.as_bytes().to_vec(), Format::Pairs);
        let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, 64, false).with_segments(segments);
        tokenizer.encode(corpus.next().unwrap().unwrap()).unwrap().unwrap()
    };
    let pair = encode(2, "the dog ||| the cat and dog ||| 0-0 1-3");
    let expected = model.tokenizer.encode_pair("the dog", "the cat and dog").unwrap();
    assert_eq!((pair.ids.as_slice(), pair.segments.as_slice()), (expected.get_ids(), expected.get_type_ids()));
    assert_eq!(pair.segments.iter().filter(|&&segment| segment == 1).count(), 5);
    // Six words of one sentence, the special tokens of none.
    let starts: Vec<usize> = pair.words.iter().map(WordSpan::start).collect();
    assert_eq!((starts, pair.kinds[3]), (vec![1, 2, 4, 5, 6, 7], Separator));
    assert_eq!((pair.sentence_count(), pair.links[0].targets.len(), pair.links[0].dropped_links), (1, 2, 0));
    // A single word on each side; a model with one segment knows no second one.
    let single = encode(1, "dog ||| dog");
    assert_eq!((single.words.len(), single.segments), (2, vec![0; 5]));
}

#[test]
fn what_would_be_tokenised_whole_is_bounded() {
    let model = model();
    let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, 64, true);
    let error = tokenizer.encode(Sentence::standalone("a.txt", Content::Text(".".repeat(MAX_SENTENCE_BYTES + 1))));
    assert_eq!(
        format!("{:#}", error.unwrap_err()),
        "a.txt:1: cannot tokenise sentence 0: it has 1048577 bytes of text, and no more than 1048576 can be tokenised: \
         split it into sentences"
    );
    // Words make it plain that there is enough to cut.
    let words = "dog ".repeat(MAX_SENTENCE_BYTES);
    assert_eq!(tokenize(&mut tokenizer, &words).unwrap().ids.len(), 64);
    assert_eq!(tokenizer.tally().truncated, 1);
}

/// Sentences of CoNLL-U, made sequences.
fn sequences(text: &str, max_tokens: usize) -> Vec<Tokenized> {
    let model = model();
    let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, max_tokens, false);
    let corpus = Corpus::from_bytes("test", text.as_bytes().to_vec(), Format::Conllu);
    corpus.map(|sentence| tokenizer.encode(sentence.unwrap()).unwrap()).collect()
}

#[test]
fn words_bring_their_arcs_and_annotations() {
    let text = "# global.Entity = eid-etype\n\
                1\tdog\tDog\tNOUN\t_\tNumber=Sing\t2\tnsubj\t_\tSpaceAfter=No|Entity=(1-animal)\n\
                2\tsat\t_\tXX\t_\t_\t0\troot\t_\t_\n";
    let [Ok(sequence)] = &sequences(text, 64)[..] else { panic!("a sequence") };
    let arcs = [(TreeHead::Word(1), "nsubj"), (TreeHead::Root, "root")];
    assert_eq!(sequence.tree, Some(arcs.map(|(head, name)| GoldArc { head, relation: name.to_owned() }).to_vec()));
    let noun = Annotation {
        upos: Some(Upos::Noun),
        lemma: Some("Dog".into()),
        features: Some("Number=Sing".into()),
        entity: Some("(1-animal)".into()),
        ..Annotation::default()
    };
    assert_eq!(sequence.annotations, [noun, Annotation::default()]);
    assert_eq!(sequence.entity_fields.as_deref(), Some("eid-etype"));
}

#[test]
fn documents_end_with_their_segment() {
    let sentence = |index: usize| {
        let comment = if [100, 300].contains(&index) { "# newdoc id = a\n" } else { "" };
        format!("{comment}1\tdog\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    };
    let text: String = (0..600).map(sentence).collect();
    let documents: Vec<u64> = sequences(&text, 64).into_iter().map(|sequence| sequence.unwrap().document).collect();
    let expected = |index: u64| match index {
        0..100 => 0,
        100..256 => 100,
        256..300 => 256,
        300..512 => 300,
        _ => 512,
    };
    assert_eq!(documents, (0..600).map(expected).collect::<Vec<_>>());
}

#[test]
fn a_sentence_of_words_is_whole_or_left_out() {
    let line = |id: u32, form: &str| format!("{id}\t{form}\t_\t_\t_\t_\t_\t_\t_\t_\n");
    let of = |forms: &[&str]| -> String { (1..).zip(forms).map(|(id, form)| line(id, form)).collect() };
    let skipped = |forms: &[&str], limit| match &sequences(&of(forms), limit)[..] {
        [Err(reason)] => Some(*reason),
        _ => None,
    };
    assert_eq!(skipped(&["dog", "cat"], 4), None);
    // More words than tokens may be; more tokens; nothing but a word of nothing.
    assert_eq!(skipped(&["dog"; 5], 4), Some(SkipReason::TooManyTokens));
    assert_eq!(skipped(&["dog"; 3], 4), Some(SkipReason::TooManyTokens));
    assert_eq!(skipped(&["\u{200b}"], 64), Some(SkipReason::NoTokens));
    assert_eq!(sequences("# alone\n", 64), [Err(SkipReason::NoTokens)]);
}

/// One sentence of CoNLL-U by a model of `fixtures/models`, and the tally.
fn read_by(model: &str, text: &str, spacing: Spacing) -> (Tokenized, Tally) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(model);
    let model = Model::load(ModelRef::Folder(folder).resolve(&()).unwrap()).unwrap();
    let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, 64, false).with_spacing(spacing);
    let mut corpus = Corpus::from_bytes("test", text.as_bytes().to_vec(), Format::Conllu);
    (tokenizer.encode(corpus.next().unwrap().unwrap()).unwrap(), tokenizer.into_tally())
}

/// "I do n't ." with an invisible word before the stop, on which the stop depends.
const LEAVING_OUT: &str = "1\tdog\t_\t_\t_\t_\t0\troot\t_\t_\n\
    2\t\u{200b}\t_\t_\t_\t_\t1\tdep\t_\t_\n\
    3\tcat\t_\t_\t_\t_\t2\tdep\t_\t_\n\
    4\tand\t_\t_\t_\t_\t3\tcc\t_\t_\n";

#[test]
fn a_word_of_nothing_leaves_itself_out() {
    let (read, tally) = read_by("tiny-bert", LEAVING_OUT, Spacing::Written);
    let sequence = read.unwrap();
    assert_eq!(sequence.words, [1..2, 2..3, 3..4]);
    assert_eq!(sequence.forms, ["dog", "cat", "and"]);
    let heads: Vec<TreeHead> = sequence.tree.unwrap().iter().map(|arc| arc.head).collect();
    assert_eq!(heads, [TreeHead::Root, TreeHead::Unknown, TreeHead::Word(1)]);
    let unread = Some((1, "\u{200b}".to_owned()));
    assert_eq!(tally.left_out, LeftOutWords { skipped: [(WordSkip::NoTokens, 1)].into(), heads: 1, unread: None });
    assert_eq!((tally.unannotated, tally.words, unread.is_some()), (0, 3, true));
    // One by one the sentence is left out, as it was.
    let (read, _) = read_by("tiny-bert", LEAVING_OUT, Spacing::Spaced);
    assert_eq!(read, Err(SkipReason::WordWithoutTokens));
}

#[test]
fn strict_names_a_word_that_is_left_out() {
    let model = model();
    let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, 64, false).with_strict(true);
    let mut corpus = Corpus::from_bytes("a.conllu", LEAVING_OUT.as_bytes().to_vec(), Format::Conllu);
    let error = tokenizer.encode(corpus.next().unwrap().unwrap()).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "a.conllu:1: word 2 of sentence 0, `\\u{200b}`, is one that the tokenizer makes nothing of: take it out of the corpus, \
         or run without --strict"
    );
}

/// "au chat": all of the surface is à, and le has nothing of it.
#[test]
fn a_word_without_characters_is_counted_and_no_fault() {
    let text = "1-2\tau\t_\t_\t_\t_\t_\t_\t_\t_\n1\tà\t_\t_\t_\t_\t3\tcase\t_\t_\n\
                2\tle\t_\t_\t_\t_\t3\tdet\t_\t_\n3\tcat\t_\t_\t_\t_\t0\troot\t_\t_\n";
    let (read, tally) = read_by("causal", text, Spacing::Written);
    assert_eq!(read.unwrap().forms, ["à", "cat"]);
    assert_eq!(tally.left_out.skipped, [(WordSkip::NoCharacters, 1)].into());
}
