//! Tokenizers in every supported form, compared with the goldens of transformers (fixtures/tokenizers).

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::answers::Answers;
use crate::support::fixture;
use headscope::model::files::{ModelFile, TokenizerFiles};
use headscope::model::tokenizer::ModelTokenizer;
use headscope::sequences::frame::Frame;
use headscope::sequences::sequence::{Token, TokenKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::Encoding;

/// More rows than any of these vocabularies has tokens.
const ROWS: usize = 1000;

#[derive(Deserialize)]
struct Golden {
    separator: u32,
    first: u32,
    words: Vec<Case<Vec<String>>>,
    texts: Vec<Case<String>>,
}

#[derive(Deserialize)]
struct Case<T> {
    input: T,
    ids: Vec<u32>,
    words: Vec<Option<u32>>,
}

fn folder(name: &str) -> PathBuf {
    fixture("tokenizers").join(name)
}

fn load(folder: &Path) -> Result<ModelTokenizer, String> {
    let message = |error: anyhow::Error| format!("{error:#}").replace(folder.to_str().unwrap(), "DIR");
    let files = TokenizerFiles::find(folder).map_err(message)?;
    let config = folder.join("config.json");
    let json: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    let model_type = json["model_type"].as_str().unwrap();
    ModelTokenizer::load(&files, &ModelFile::open(&config).unwrap(), model_type, ROWS).map_err(message)
}

fn check(encoding: &Encoding, ids: &[u32], words: &[Option<u32>], at: &str) {
    assert_eq!(encoding.get_ids(), ids, "ids of {at}");
    assert_eq!(encoding.get_word_ids(), words, "words of {at}");
}

#[test]
fn token_ids_and_word_ids_match_transformers() {
    let remake = "remake it with fixtures/make_tokenizer_goldens.py";
    let mut forms = 0;
    for entry in fs::read_dir(fixture("tokenizers")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let golden = fs::read_to_string(path.join("golden.json")).expect(remake);
        let golden: Golden = serde_json::from_str(&golden).expect(remake);
        let tokenizer = load(&path).unwrap();
        assert_eq!(tokenizer.separator, Some(golden.separator), "{name}");
        for Case { input, ids, words } in &golden.words {
            let input: Vec<&str> = input.iter().map(String::as_str).collect();
            let encoding = tokenizer.encode_words(&input).unwrap();
            check(&encoding, ids, words, &format!("{input:?} by {name}"));
            assert_eq!((encoding.get_ids()[0], encoding.get_special_tokens_mask()[0]), (golden.first, 1), "{name}");
        }
        for Case { input, ids, words } in &golden.texts {
            check(&tokenizer.encode_text(input, true).unwrap(), ids, words, &format!("{input:?} by {name}"));
        }
        forms += 1;
    }
    assert_eq!(forms, 16);
}

#[test]
fn proteins_are_split_into_residues() {
    let folder = tempfile::tempdir().unwrap();
    // ESM-2's vocabulary.
    let vocabulary = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>";
    fs::write(folder.path().join("vocab.txt"), vocabulary.replace(' ', "\n")).unwrap();
    fs::write(folder.path().join("config.json"), r#"{"model_type": "esm"}"#).unwrap();
    let tokenizer = load(folder.path()).unwrap();
    // Token ids by transformers' `EsmTokenizer`.
    let cases: [(&str, &[u32]); 4] = [
        ("MKTAYIAKQR", &[0, 20, 15, 11, 5, 19, 12, 5, 15, 16, 10, 2]),
        ("M K T <mask> A", &[0, 20, 15, 11, 32, 5, 2]),
        ("MKJX.", &[0, 20, 15, 3, 24, 29, 2]),
        ("", &[0, 2]),
    ];
    for (protein, ids) in cases {
        assert_eq!(tokenizer.encode_text(protein, true).unwrap().get_ids(), ids, "{protein}");
    }
    assert_eq!(tokenizer.encode_pair("MK", "TA").unwrap().get_ids(), [0, 20, 15, 2, 11, 5, 2]);
    let words = tokenizer.encode_text("MKT", true).unwrap().get_word_ids().to_vec();
    assert_eq!(words, [None, Some(0), Some(1), Some(2), None]);
    assert_eq!((tokenizer.separator, tokenizer.mask, tokenizer.unknown), (Some(2), Some(32), Some(3)));
}

/// Token ids by transformers' `RobertaTokenizer` and `DebertaTokenizer`, for one vocabulary with different names of its
/// special tokens.
#[test]
fn pairs_have_two_separators_between_their_texts() {
    let files = fixture("tokenizers/byte-level");
    let deberta = tempfile::tempdir().unwrap();
    fs::copy(files.join("merges.txt"), deberta.path().join("merges.txt")).unwrap();
    let names = [("<s>", "[CLS]"), ("</s>", "[SEP]"), ("<pad>", "[PAD]"), ("<unk>", "[UNK]"), ("<mask>", "[MASK]")];
    let vocabulary = fs::read_to_string(files.join("vocab.json")).unwrap();
    let renamed =
        names.iter().fold(vocabulary, |text, (from, to)| text.replace(&format!("\"{from}\""), &format!("\"{to}\"")));
    fs::write(deberta.path().join("vocab.json"), renamed).unwrap();
    fs::write(deberta.path().join("config.json"), r#"{"model_type": "deberta"}"#).unwrap();
    let pair = [0, 88, 264, 307, 265, 86, 93, 2, 2, 69, 225, 76, 69, 86, 376, 2];
    for folder in [&*files, deberta.path()] {
        let tokenizer = load(folder).unwrap();
        let actual = tokenizer.encode_pair("the ferry", "a harbour").unwrap();
        assert_eq!((actual.get_ids(), actual.get_type_ids()), (&pair[..], &[0; 16][..]), "{}", folder.display());
    }
    let tokenizer = load(deberta.path()).unwrap();
    let texts: [(&str, &[u32]); 3] = [
        ("the ferry left", &[0, 88, 264, 307, 265, 86, 93, 292, 73, 74, 88, 2]),
        ("a [MASK] harbour", &[0, 69, 225, 4, 225, 76, 69, 86, 376, 2]),
        ("", &[0, 2]),
    ];
    for (text, ids) in texts {
        assert_eq!(tokenizer.encode_text(text, true).unwrap().get_ids(), ids, "{text}");
    }
    assert_eq!((tokenizer.separator, tokenizer.mask), (Some(2), Some(4)));
}

#[test]
fn framed_pairs_match_the_tokenizer() {
    for entry in fs::read_dir(fixture("tokenizers")).unwrap() {
        let path = entry.unwrap().path();
        let tokenizer = load(&path).unwrap();
        let pair = ["the ferry left", "a harbour, the street"];
        let texts = pair.map(|text| {
            let bare = tokenizer.encode_text(text, false).unwrap();
            bare.get_ids().iter().map(|&id| Token { id, kind: TokenKind::Text }).collect::<Vec<_>>()
        });
        let framed = Frame::for_pair(&tokenizer).unwrap().unwrap().surround(&texts);
        let own = tokenizer.encode_pair(pair[0], pair[1]).unwrap();
        let at = path.display();
        assert_eq!((&framed.ids[..], &framed.segments[..]), (own.get_ids(), own.get_type_ids()), "{at}");
        let special: Vec<u32> = framed.kinds.iter().map(|kind| u32::from(kind.is_special())).collect();
        assert_eq!(special, own.get_special_tokens_mask(), "{at}");
        for (text, place) in framed.texts.iter().zip(0..) {
            assert!(text.clone().all(|token| own.token_to_sequence(token) == Some(place)), "{at}");
        }
    }
}

/// Whether the last token of each word is punctuation. The first token may be the mark of a word's beginning.
fn punctuation(tokenizer: &ModelTokenizer, words: &[&str]) -> Vec<bool> {
    let encoding = tokenizer.encode_words(words).unwrap();
    let ends_in_punctuation = |word: u32| {
        let mut tokens =
            encoding.get_word_ids().iter().zip(encoding.get_ids()).filter(|(word_id, _)| **word_id == Some(word));
        tokens.next_back().is_some_and(|(_, id)| tokenizer.is_punctuation(*id))
    };
    (0..u32::try_from(words.len()).unwrap()).map(ends_in_punctuation).collect()
}

#[test]
fn punctuation_is_recognised_without_vocabulary_marks() {
    let words = [",", ".", "(", "the", "a"];
    let expected = [true, true, true, false, false];
    for name in ["wordpiece-default", "wordpiece-mpnet", "byte-level", "byte-level-json"] {
        assert_eq!(punctuation(&load(&folder(name)).unwrap(), &words), expected, "{name}");
    }
    // Sentencepiece may have the mark of a word's beginning as a separate token, which is no punctuation.
    for name in ["unigram-xlm-roberta", "unigram-albert"] {
        let tokenizer = load(&folder(name)).unwrap();
        let encoding = tokenizer.encode_words(&[",", "the,"]).unwrap();
        let agrees = |id: &u32| tokenizer.token(*id).unwrap().ends_with(',') == tokenizer.is_punctuation(*id);
        assert!(encoding.get_ids().iter().all(agrees), "{name}: {:?}", encoding.get_tokens());
        assert!(encoding.get_ids().iter().any(|id| tokenizer.is_punctuation(*id)), "{name}");
    }
    // In byte-level BPE ãĢĤ are the three bytes of an ideographic full stop, Ġ is a space, Ã begins a character.
    let bytes = load(&folder("byte-level")).unwrap();
    for (token, expected) in [("ãĢĤ", true), ("!", true), ("Ġ", false), ("Ã", false), ("$", false)] {
        let id = (0..400).find(|id| bytes.token(*id).as_deref() == Some(token)).expect(token);
        assert_eq!(bytes.is_punctuation(id), expected, "{token}");
    }
}

#[test]
fn prefix_with_enough_tokens_is_found() {
    let text = "the ferry \u{200b} left \u{e9} the harbour";
    for entry in fs::read_dir(fixture("tokenizers")).unwrap() {
        let tokenizer = load(&entry.unwrap().path()).unwrap();
        for tokens in 1..=5 {
            let end = tokenizer.prefix_with_tokens(text, tokens).unwrap();
            let encoded = tokenizer.encode_text(text, false).unwrap();
            let prefix = tokenizer.encode_text(&text[..end], false).unwrap();
            assert!(prefix.len() >= tokens);
            assert_eq!(prefix.get_ids(), &encoded.get_ids()[..prefix.len()]);
        }
        assert_eq!(tokenizer.prefix_with_tokens(text, 6), None);
        assert_eq!(tokenizer.prefix_with_tokens(text, 0), None);
    }
}

/// Loads a copy of a fixture's folder after `change`.
fn changed(name: &str, change: impl Fn(&Path)) -> Result<ModelTokenizer, String> {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    change(copy.path());
    load(copy.path())
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "no {from} in {}", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn unusable_tokenizers_are_refused() {
    let mut answers = Answers::new().hiding(" 0.5:", " one half:");
    let mut refused = |title: &str, name: &str, change: &dyn Fn(&Path)| {
        answers.said(title, &changed(name, change).expect_err("an error"));
    };
    refused("no merges", "byte-level", &|folder| fs::remove_file(folder.join("merges.txt")).unwrap());
    for token in ["[SEP]", "[UNK]"] {
        let other = token.trim_matches(['[', ']']);
        refused(&format!("no {token}"), "wordpiece-default", &|folder| {
            replace(&folder.join("vocab.txt"), &format!("{token}\n"), &format!("{other}\n"));
        });
    }
    for (name, file, text) in [
        ("wordpiece-cased", "tokenizer_config.json", r#"{"do_lower_case": "no"}"#),
        ("wordpiece-cased", "tokenizer_config.json", r#"{"tokenizer_class": "XLMTokenizer"}"#),
        ("wordpiece-cased", "tokenizer_config.json", "{"),
        ("wordpiece-added", "added_tokens.json", r#"{"ferryboat": 7}"#),
        ("byte-level", "merges.txt", "#version: 0.2\na b\nc\n"),
        ("byte-level", "vocab.json", "[]"),
        ("wordpiece-json", "tokenizer.json", "{}"),
    ] {
        refused(&format!("{file} {}", text.trim_end()), name, &|folder| fs::write(folder.join(file), text).unwrap());
    }
    refused("tokens by lot", "byte-level-json", &|folder| {
        replace(&folder.join("tokenizer.json"), "\"dropout\": null", "\"dropout\": 0.5");
    });
    let vocabulary =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n".to_owned() + &(0..ROWS).map(|n| format!("w{n}\n")).collect::<Vec<_>>().concat();
    refused("more tokens than the model has", "wordpiece-default", &|folder| {
        fs::write(folder.join("vocab.txt"), &vocabulary).unwrap();
    });
    answers.held("tokenizers-refusals");
}

#[test]
fn tokenizer_config_fills_the_gaps_of_tokenizer_json() {
    let ids = |tokenizer: &ModelTokenizer, word: &str| tokenizer.encode_words(&[word]).unwrap().get_ids().to_vec();
    let plain = load(&folder("wordpiece-json")).unwrap();
    let with = |settings: &str, change: &dyn Fn(&mut Value)| {
        changed("wordpiece-json", |folder| {
            let path = folder.join("tokenizer.json");
            let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            change(&mut json);
            fs::write(&path, json.to_string()).unwrap();
            fs::write(folder.join("tokenizer_config.json"), settings).unwrap();
        })
        .unwrap()
    };
    // If the post-processor adds nothing, the tokenizer class adds the special tokens: the named tokens, or BERT's.
    let nothing = [
        json!(null),
        json!({ "type": "Sequence", "processors": [] }),
        json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true }),
    ];
    for processor in &nothing {
        for settings in [
            r#"{"cls_token": "[CLS]", "sep_token": {"content": "[SEP]"}}"#,
            r#"{"tokenizer_class": "BertTokenizerFast"}"#,
            "{}",
        ] {
            let bare = with(settings, &|json| json["post_processor"] = processor.clone());
            assert_eq!(ids(&bare, "ferry"), ids(&plain, "ferry"));
            assert_eq!(bare.separator, plain.separator);
        }
        // A generic tokenizer class leaves the file as it is.
        let other = with(r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#, &|json| {
            json["post_processor"] = processor.clone();
        });
        assert_eq!(ids(&other, "ferry")[..], ids(&plain, "ferry")[1..ids(&plain, "ferry").len() - 1]);
    }
    // A cased file of a class that lower-cases words by default.
    let cased: &dyn Fn(&mut Value) = &|json| json["normalizer"]["lowercase"] = false.into();
    for settings in ["{}", r#"{"tokenizer_class": "BertTokenizer"}"#] {
        assert_eq!(ids(&with(settings, cased), "FERRY"), ids(&plain, "ferry"));
    }
    for settings in [r#"{"do_lower_case": false}"#, r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#] {
        assert_ne!(ids(&with(settings, cased), "FERRY"), ids(&plain, "ferry"));
    }
    // A switch in tokenizer_config.json wins, as in transformers.
    let cased = changed("wordpiece-json", |folder| {
        fs::write(folder.join("tokenizer_config.json"), r#"{"do_lower_case": false}"#).unwrap();
    })
    .unwrap();
    assert_eq!(ids(&cased, "ferry"), ids(&plain, "ferry"));
    assert_eq!(ids(&plain, "FERRY"), ids(&plain, "ferry"));
    assert_ne!(ids(&cased, "FERRY"), ids(&plain, "ferry"));
}

/// The library panics at these files, when it loads a file or when it splits a word.
#[test]
fn tokenizer_at_which_the_library_panics_is_refused() {
    type Change = dyn Fn(&mut Value);
    let changed_json = |name: &str, change: &Change| {
        changed(name, |folder| {
            let path = folder.join("tokenizer.json");
            let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            change(&mut json);
            fs::write(&path, json.to_string()).unwrap();
        })
    };
    let charsmap: &Change = &|json| {
        json["normalizer"] = json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" });
    };
    let template: &Change = &|json| {
        json["post_processor"]["special_tokens"].as_object_mut().unwrap().remove("[SEP]").expect("it was there");
    };
    let prefix: &Change = &|json| {
        json["model"]["continuing_subword_prefix"] = json!("longer than any token\u{1b}[31m");
    };
    // A template that names a missing token, and a prefix longer than the tokens that have it.
    let cases = [("wordpiece-json", charsmap), ("wordpiece-json", template), ("byte-level-json", prefix)];
    for (name, change) in cases {
        let error = match changed_json(name, change) {
            Err(error) => error,
            Ok(tokenizer) => format!("{:#}", tokenizer.encode_words(&["ferry", "boats"]).unwrap_err()),
        };
        assert!(error.contains("tokenizer.json`"), "{error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}
