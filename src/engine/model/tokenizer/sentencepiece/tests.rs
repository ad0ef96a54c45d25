use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;
use crate::model::files::TokenizerFiles;
use crate::model::tokenizer::ModelTokenizer;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tokenizers").join(name)
}

fn load(folder: &Path) -> Result<ModelTokenizer> {
    let config = folder.join("config.json");
    let json: Value = serde_json::from_slice(&fs::read(&config)?)?;
    let model_type = json["model_type"].as_str().unwrap();
    ModelTokenizer::load(&TokenizerFiles::find(folder)?, &ModelFile::open(&config)?, model_type, 1000)
}

/// A tokenizer of a fixture's model with other settings.
fn with(name: &str, change: impl Fn(&mut Vec<u8>), settings: &Value) -> Result<ModelTokenizer, String> {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap().map(Result::unwrap) {
        let mut bytes = fs::read(entry.path()).unwrap();
        if entry.path().extension().is_some_and(|extension| extension == "model") {
            change(&mut bytes);
        }
        fs::write(folder.path().join(entry.file_name()), bytes).unwrap();
    }
    fs::write(folder.path().join("tokenizer_config.json"), settings.to_string()).unwrap();
    load(folder.path()).map_err(|error| format!("{error:#}").replace(folder.path().to_str().unwrap(), "DIR"))
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

#[test]
fn a_model_is_read_as_transformers_reads_it() {
    for (name, unknown, mask) in [
        ("sentencepiece-albert", 1, 4),
        ("sentencepiece-big-bird", 3, 6),
        ("sentencepiece-camembert", 3, 228),
        ("sentencepiece-deberta", 3, 225),
        ("sentencepiece-xlm-roberta", 3, 225),
    ] {
        let golden: Value = serde_json::from_slice(&fs::read(fixture(name).join("golden.json")).unwrap()).unwrap();
        let tokenizer = load(&fixture(name)).unwrap();
        for case in golden["texts"].as_array().unwrap() {
            let text = case["input"].as_str().unwrap();
            let encoding = tokenizer.encode_text(text, true).unwrap();
            assert_eq!(encoding.get_ids(), ids(&case["ids"]), "{text:?} by {name}");
            assert_eq!(json!(encoding.get_word_ids()), case["words"], "{text:?} by {name}");
        }
        for case in golden["words"].as_array().unwrap() {
            let words: Vec<&str> =
                case["input"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
            assert_eq!(tokenizer.encode_words(&words).unwrap().get_ids(), ids(&case["ids"]), "{words:?} by {name}");
        }
        let separator = golden["separator"].as_u64().map(|id| u32::try_from(id).unwrap());
        assert_eq!(tokenizer.separator, separator, "{name}");
        assert_eq!((tokenizer.unknown, tokenizer.mask), (Some(unknown), Some(mask)), "{name}");
        let begins = tokenizer.word_start_ids();
        assert!(!begins.is_empty(), "{name}");
        assert!(begins.iter().all(|&id| tokenizer.token(id).unwrap().starts_with('▁')), "{name}");
        let full_stop = (0..226).find(|&id| tokenizer.token(id).as_deref() == Some(".")).unwrap();
        assert!(tokenizer.is_punctuation(full_stop), "{name}");
    }
}

#[test]
fn a_class_that_a_file_names_counts_for_more_than_the_family() {
    let own = json!({ "tokenizer_class": "T5TokenizerFast", "extra_ids": 2 });
    let t5 = with("sentencepiece-albert", |_| {}, &own).unwrap();
    let encoding = t5.encode_text("harbour <extra_id_1>", true).unwrap();
    assert_eq!(
        encoding.get_ids()[0],
        load(&fixture("sentencepiece-albert")).unwrap().encode_text("harbour", true).unwrap().get_ids()[1]
    );
    assert_eq!(encoding.get_tokens().last().unwrap(), "</s>");
    assert_eq!(t5.id("<extra_id_1>"), Some(226));
    assert_eq!(t5.separator, t5.id("</s>"));
}

#[test]
fn models_that_cannot_be_used() {
    let error = |name: &str, change: &dyn Fn(&mut Vec<u8>), settings: Value| with(name, change, &settings).unwrap_err();
    let message = error("sentencepiece-albert", &|_| {}, json!({ "tokenizer_class": "XLNetTokenizer" }));
    assert_eq!(
        message,
        "cannot use sentencepiece model `DIR/spiece.model`: it is a sentencepiece model of class XLNetTokenizer (read as \
         it is: AlbertTokenizer, BigBirdTokenizer, CamembertTokenizer, DebertaV2Tokenizer, LlamaTokenizer, \
         RemBertTokenizer, T5Tokenizer, XLMRobertaTokenizer): to make tokenizer.json of it, run in Python, and put it \
         beside config.json:\n  from transformers import AutoTokenizer\n  \
         AutoTokenizer.from_pretrained(\"DIR\").save_pretrained(\"tokenizer\")"
    );
    let message = error("sentencepiece-deberta", &|_| {}, json!({}));
    // The names of all classes follow.
    insta::assert_snapshot!(message.split_once(" (read").unwrap().0, @"cannot use sentencepiece model `DIR/spm.model`: it is a sentencepiece model of model_type bert, which has no class of its own for one");
    let misfit = json!({ "added_tokens_decoder": { "7": { "content": "ferryboat", "lstrip": false, "rstrip": false,
        "normalized": false, "single_word": false, "special": false } } });
    let messages = [
        error("sentencepiece-albert", &|_| {}, json!({ "tokenizer_class": "LlamaTokenizer" })),
        error("sentencepiece-albert", &|model| model.truncate(1000), json!({})),
        error("sentencepiece-albert", &|_| {}, json!({ "tokenizer_class": "T5Tokenizer", "extra_ids": 1e9 })),
        error("sentencepiece-albert", &|_| {}, json!({ "keep_accents": "no" })),
        error("sentencepiece-albert", &|_| {}, misfit),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    cannot use sentencepiece model `DIR/spiece.model`: Llama tokenizers cut text by Bpe, and this model is trained for Unigram
    cannot read sentencepiece model `DIR/spiece.model`: 11 bytes are said to follow, and fewer do: is it whole, and a model of sentencepiece?
    extra_ids is 1000000000.0: expected a whole number of at most 65536
    `DIR/tokenizer_config.json`: keep_accents is "no": expected true or false
    vocabulary `DIR/spiece.model` does not fit its added tokens: `ferryboat` is to have id 7, and has 226
    "#);
}

#[test]
fn a_table_of_replacements_that_is_not_there_is_not_made_room_for() {
    let model = |replacements: &[u8]| SentencePieceModel {
        pieces: vec![],
        algorithm: Algorithm::Unigram,
        unknown: 0,
        replacements: replacements.to_vec(),
    };
    assert!(super::parse_replacements(&model(&[])).unwrap().is_none());
    let tables = [&[1][..], &[0; 4], &[0xff; 8], &[8, 0, 0, 0, 0, 0, 0, 0]];
    let errors = tables.map(|bytes| super::parse_replacements(&model(bytes)).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @"
    its precompiled_charsmap has 1 bytes, and says that 0 of them are its trie
    its precompiled_charsmap has 4 bytes, and says that 0 of them are its trie
    its precompiled_charsmap has 8 bytes, and says that 4294967295 of them are its trie
    its precompiled_charsmap has 8 bytes, and says that 8 of them are its trie
    ");
}
