//! Checks of `tokenizer.json`, and of the lengths of tokens, before the library builds anything of them.

use std::borrow::Cow;
use std::fmt;

use anyhow::{Result, anyhow, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fancy_regex::RegexBuilder;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokenizers::AddedToken;

use crate::system::counted::counted;
use crate::system::errors::Facts;
use crate::system::machine::memory;

/// The most parts of a normaliser, a pre-tokenizer, a post-processor or a decoder: each may hold a regular expression.
const MOST_PARTS: usize = 64;

/// The longest regular expression, in bytes. Those of published tokenizers have a few hundred.
const LONGEST_PATTERN: usize = 1 << 13;

/// The largest automaton of a regular expression, in bytes: 1 MiB. A search takes up to its size for each byte of text.
/// A class of letters of all scripts takes some 30 KB.
const LARGEST_AUTOMATON: usize = 1 << 20;

/// The most special tokens around a text.
const MOST_AROUND: usize = 64;

/// The parts of `tokenizer.json` whose sizes cost.
#[derive(Deserialize)]
struct TokenizerFile<'a> {
    added_tokens: Option<Vec<AddedToken>>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
    #[serde(borrow)]
    model: Option<ModelPart<'a>>,
}

#[derive(Deserialize)]
struct ModelPart<'a> {
    #[serde(borrow)]
    vocab: Option<Vocabulary<'a>>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

/// The tokens of a vocabulary.
enum Vocabulary<'a> {
    /// A map from tokens to ids: the bytes of the longest.
    Map(usize),
    /// The tokens with their scores, of a unigram model, which looks for them in a tree.
    Scored(Vec<Cow<'a, str>>),
}

/// A token, copied only where it is written with escapes.
#[derive(Deserialize)]
struct VocabularyToken<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Vocabulary<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;
        impl<'de> Visitor<'de> for Tokens {
            type Value = Vocabulary<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut tokens: A) -> Result<Self::Value, A::Error> {
                let mut longest = 0;
                while let Some((VocabularyToken(token), _)) = tokens.next_entry::<VocabularyToken<'de>, IgnoredAny>()? {
                    longest = longest.max(token.len());
                }
                Ok(Vocabulary::Map(longest))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut tokens: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some((VocabularyToken(token), _)) =
                    tokens.next_element::<(VocabularyToken<'de>, IgnoredAny)>()?
                {
                    all.push(token);
                }
                Ok(Vocabulary::Scored(all))
            }
        }
        deserializer.deserialize_any(Tokens)
    }
}

/// Makes sure that nothing in `tokenizer.json` is longer or larger than what its bounds allow.
/// Fails if something is, or if it is no JSON.
pub(in crate::model::tokenizer) fn ensure_bounded(json: &[u8]) -> Result<()> {
    let file: TokenizerFile =
        serde_json::from_slice(json).map_err(|error| anyhow!("{error}").in_line(error.line() as u64))?;
    ensure_few(file.added_tokens.iter().flatten())?;
    if let Some(model) = file.model {
        let longest = match &model.vocab {
            Some(Vocabulary::Map(bytes)) => *bytes,
            Some(Vocabulary::Scored(tokens)) => tokens.iter().map(|token| token.len()).max().unwrap_or(0),
            None => 0,
        };
        ensure_short("a token of its vocabulary", longest)?;
        if let Some(Vocabulary::Scored(tokens)) = &model.vocab {
            ensure_small_tree(tokens.iter().map(|token| &**token))?;
        }
        for (what, text) in [
            ("unk_token", model.unk_token),
            ("continuing_subword_prefix", model.continuing_subword_prefix),
            ("end_of_word_suffix", model.end_of_word_suffix),
        ] {
            ensure_short(what, text.map_or(0, |text| text.len()))?;
        }
    }
    let steps = [
        ("normalizer", file.normalizer),
        ("pre_tokenizer", file.pre_tokenizer),
        ("post_processor", file.post_processor),
        ("decoder", file.decoder),
    ];
    for (name, step) in steps {
        let Some(step) = step else { continue };
        let mut kinds = Vec::new();
        ensure_part(&step, &mut kinds)?;
        ensure!(kinds.len() <= MOST_PARTS, "its {name} has {} parts, at most {MOST_PARTS} are read", kinds.len());
        // They write a text anew, with up to three times the bytes, and no more than once.
        let rewritten = |kind: &str| name == "pre_tokenizer" && kinds.iter().filter(|other| *other == kind).count() > 1;
        if let Some(kind) = ["ByteLevel", "Metaspace"].into_iter().find(|kind| rewritten(kind)) {
            bail!("its {name} has more than one part of type {kind}");
        }
    }
    Ok(())
}

/// Makes sure that a part of a tokenizer is within its bounds, those within it as well, and collects the types of these.
fn ensure_part(part: &Value, kinds: &mut Vec<String>) -> Result<()> {
    let parts = match part {
        Value::Object(fields) => {
            if let Some(kind) = fields.get("type").and_then(Value::as_str) {
                kinds.push(kind.to_owned());
            }
            for name in ["content", "prepend"] {
                ensure_short(name, fields.get(name).and_then(Value::as_str).map_or(0, str::len))?;
            }
            if let Some(pattern) = fields.get("pattern") {
                ensure_pattern(pattern)?;
            }
            if let Some(map) = fields.get("precompiled_charsmap").and_then(Value::as_str) {
                // One that is none is an error of the library.
                ensure_short_replacements(&BASE64_STANDARD.decode(map).unwrap_or_default())?;
            }
            for template in ["single", "pair"].iter().filter_map(|name| fields.get(*name)?.as_array()) {
                ensure_template(template)?;
            }
            if let Some(ids) = fields.get("ids").and_then(Value::as_array) {
                let count = ids.len();
                ensure!(count <= MOST_AROUND, "a special token has {count} ids, at most {MOST_AROUND} are read");
            }
            fields.values().collect::<Vec<_>>()
        }
        Value::Array(parts) => parts.iter().collect(),
        _ => return Ok(()),
    };
    parts.into_iter().try_for_each(|part| ensure_part(part, kinds))
}

fn ensure_pattern(pattern: &Value) -> Result<()> {
    let text = |kind: &str| pattern.get(kind).and_then(Value::as_str);
    let bytes = text("String").or(text("Regex")).map_or(0, str::len);
    ensure!(bytes <= LONGEST_PATTERN, "a pattern has {bytes} bytes, at most {LONGEST_PATTERN} are read");
    let Some(regex) = text("Regex") else { return Ok(()) };
    RegexBuilder::new(regex).delegate_size_limit(LARGEST_AUTOMATON).build().map(drop).map_err(|error| {
        anyhow!("the pattern `{regex}` cannot be used, or needs more than {LARGEST_AUTOMATON} bytes: {error}")
            .of_value(regex)
    })
}

/// Makes sure that a template has each text once: with more of them it makes several texts of one.
fn ensure_template(template: &[Value]) -> Result<()> {
    ensure!(template.len() <= MOST_AROUND, "a template has {} parts, at most {MOST_AROUND} are read", template.len());
    for text in ["A", "B"] {
        let is_text = |part: &&Value| part.pointer("/Sequence/id").and_then(Value::as_str) == Some(text);
        ensure!(template.iter().filter(is_text).count() <= 1, "a template has the text {text} more than once");
    }
    Ok(())
}

/// Makes sure that what sentencepiece replaces characters by is short. `map` is a `precompiled_charsmap`: the length of a
/// trie, the trie, and the replacements, each with a zero at its end (sentencepiece, `normalizer.cc`).
/// Fails if one is longer than the longest token.
pub(in crate::model::tokenizer) fn ensure_short_replacements(map: &[u8]) -> Result<()> {
    let trie = map.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let texts = map.get(trie.saturating_add(4)..).unwrap_or_default();
    let longest = texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or_default();
    ensure!(
        longest <= LONGEST_TOKEN,
        "a replacement of precompiled_charsmap has {longest} bytes, at most {LONGEST_TOKEN} are read"
    );
    Ok(())
}

/// The longest token, prefix or suffix, in bytes; sentencepiece models have the same bound. The longest of published
/// vocabularies are runs of 128 spaces, each two bytes.
pub(super) const LONGEST_TOKEN: usize = 1 << 10;

/// The most bytes of all added tokens: 1 MiB. The library takes some 80 bytes for each, to find them in a text.
const MOST_ADDED: usize = 1 << 20;

/// Makes sure that a token, or a part of one, is no longer than any of a language.
/// Fails if it is.
fn ensure_short(what: &str, bytes: usize) -> Result<()> {
    ensure!(
        bytes <= LONGEST_TOKEN,
        anyhow!("{what} has {bytes} bytes, and no more than {LONGEST_TOKEN} are read").of_value(bytes)
    );
    Ok(())
}

/// Makes sure of the same of every token of a vocabulary.
/// Fails if one is longer.
pub(in crate::model::tokenizer) fn ensure_short_tokens<'a>(tokens: impl IntoIterator<Item = &'a String>) -> Result<()> {
    tokens.into_iter().try_for_each(|token| ensure_short("a token of its vocabulary", token.len()))
}

/// The bytes that the library takes for each node of the tree in which it looks for the tokens of a unigram model: a table of the
/// nodes after it (measured; `tokenizers` 0.23, `models/unigram/trie.rs`).
const NODE: u64 = 340;

/// The most nodes of a tree that any vocabulary may have, and the most for each token of a larger vocabulary. Published
/// vocabularies have three to five nodes a token.
const MOST_NODES: (usize, usize) = (1 << 20, 16);

/// Makes sure that the tree of the tokens of a unigram model is no larger than that of any language, and that there is memory for it.
/// It has a node for each different beginning of a token.
/// Fails if it is, or there is not.
pub(in crate::model::tokenizer) fn ensure_small_tree<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut tokens: Vec<&[u8]> = tokens.into_iter().map(str::as_bytes).collect();
    tokens.sort_unstable();
    let mut nodes = tokens.first().map_or(0, |first| first.len());
    nodes += tokens
        .windows(2)
        .map(|pair| pair[1].len() - pair[0].iter().zip(pair[1]).take_while(|(before, byte)| before == byte).count())
        .sum::<usize>();
    let most = MOST_NODES.0.max(MOST_NODES.1.saturating_mul(tokens.len()));
    let needed = (nodes as u64).saturating_mul(NODE);
    ensure!(
        nodes <= most,
        anyhow!(
            "the {} of its vocabulary need {} of memory to be looked for, as they begin in {nodes} ways: at most {most} are read",
            counted(tokens.len(), "token"),
            memory::in_words(needed)
        )
    );
    memory::ensure(needed, || format!("the vocabulary of {}", counted(tokens.len(), "token")))
        .map_err(|error| error.hint(format!("`--memory {}` lets it have as much", memory::limit_for(needed))))
}

/// Makes sure that added tokens are short, each and all together.
/// Fails if they are not.
pub(in crate::model::tokenizer) fn ensure_few<'a>(added: impl IntoIterator<Item = &'a AddedToken>) -> Result<()> {
    let mut all = 0_usize;
    for token in added {
        ensure_short("an added token", token.content.len())?;
        all += token.content.len();
    }
    ensure!(
        all <= MOST_ADDED,
        anyhow!("its added tokens have {} together, and no more than {MOST_ADDED} are read", counted(all, "byte"))
    );
    Ok(())
}
