//! `--preset clark2019`, compared with `fixtures/reference_clark2019.py`, which has the formulas of the released
//! notebooks.

use std::fs;
use std::path::Path;

use headscope::corpus::{Corpus, Input};
use headscope::model::Model;
use headscope::model::source::ModelRef;
use headscope::sequences::derived::pairs::{MAX_PAIR_TOKENS, PairPacker};
use headscope::sequences::reading::Spacing;
use headscope::sequences::tokenize::SentenceTokenizer;
use headscope::system::progress::Downloads;
use serde_json::{Value, json};

use crate::support::{fixture, path, run};

/// Program and reference start from float32 attention and sum it in different orders.
const TOLERANCE: f64 = 1e-5;

/// More than the 256 sentences of a segment, so that two segments are packed separately.
pub const LIMIT: &str = "300";

/// The sequences that the program packs, as token ids.
fn sequences(model: &Path) -> Value {
    let model = Model::load(ModelRef::parse(path(model)).resolve(&Downloads::default()).unwrap()).unwrap();
    let positions = model.architecture.config.max_positioned_tokens();
    let mut tokenizer = SentenceTokenizer::new(&model.tokenizer, positions, false).with_spacing(Spacing::Spaced);
    let corpus = Corpus::open(&[Input::parse(&fixture("corpus/gold.conllu"), None).unwrap()]).unwrap();
    let sentences = corpus.take(LIMIT.parse().unwrap()).map(|sentence| tokenizer.encode(sentence?));
    // Sentences that are too long for the model are skipped.
    let sentences = sentences.filter_map(|tokenized| tokenized.map(Result::ok).transpose());
    let pairs = PairPacker::new(sentences, MAX_PAIR_TOKENS.min(positions));
    json!(pairs.map(|pair| pair.unwrap().ids).collect::<Vec<_>>())
}

/// Compares a model's analysis of the corpus in `fixtures/` with a golden; returns the largest difference.
pub fn check(model: &Path, name: &str) -> f64 {
    let golden = fixture(&format!("goldens/{name}-clark2019.json"));
    let sequences = sequences(model);
    if std::env::var_os("HEADSCOPE_WRITE_SEQUENCES").is_some() {
        fs::write(&golden, json!({ "sequences": sequences }).to_string()).unwrap();
    }
    let expected: Value = serde_json::from_str(&fs::read_to_string(&golden).unwrap()).unwrap();
    assert!(
        expected["sequences"] == sequences,
        "{}: other sequences are packed. HEADSCOPE_WRITE_SEQUENCES=1 writes them; then run \
        fixtures/reference_clark2019.py",
        golden.display()
    );
    let corpus = fixture("corpus/gold.conllu");
    let arguments = ["analyze", path(model), "-c", path(&corpus), "--limit", LIMIT, "--preset", "clark2019"];
    let report = run(&[&arguments[..], &["--no-run-info", "-o", "-"]].concat()).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let actual = &report["clark2019"];
    assert_eq!(actual["sequences"], sequences.as_array().unwrap().len());
    ["uniform_entropy", "heads", "distances", "relations"]
        .map(|key| difference(key, &actual[key], &expected[key]))
        .into_iter()
        .fold(0.0, f64::max)
}

/// The largest difference between numbers. All other values must be equal.
fn difference(at: &str, actual: &Value, expected: &Value) -> f64 {
    let parts: Vec<f64> = match expected {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| difference(&format!("{at}.{key}"), &actual[key], value)).collect()
        }
        Value::Array(items) => {
            assert_eq!(actual.as_array().map(Vec::len), Some(items.len()), "{at}");
            (0..).zip(items).map(|(place, item)| difference(&format!("{at}[{place}]"), &actual[place], item)).collect()
        }
        Value::Number(number) if number.is_f64() => {
            let difference = (actual.as_f64().unwrap() - number.as_f64().unwrap()).abs();
            assert!(difference <= TOLERANCE, "{at} is {actual}, the reference {expected}");
            vec![difference]
        }
        _ => {
            assert_eq!(actual, expected, "{at}");
            vec![]
        }
    };
    parts.into_iter().fold(0.0, f64::max)
}
