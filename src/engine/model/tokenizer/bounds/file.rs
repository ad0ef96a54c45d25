//! Checks of `tokenizer.json` and of token lengths, before the library builds a tokenizer.

use std::borrow::Cow;
use std::fmt;

use anyhow::{Result, anyhow, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fancy_regex::RegexBuilder;
use itertools::Itertools;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokenizers::AddedToken;

use crate::system::counts::format_count;
use crate::system::errors::ErrorExt;
use crate::system::machine::memory;

/// Maximum number of parts of a normaliser, pre-tokenizer, post-processor or decoder. Each part may hold a regular expression.
const MAX_PARTS: usize = 64;

/// Maximum length of a regular expression, in bytes. Published tokenizers have a few hundred.
const MAX_PATTERN_BYTES: usize = 1 << 13;

/// Maximum size of the automaton of a regular expression, in bytes: 1 MiB. The size bounds the search time per byte of text. A
/// class of the letters of all scripts takes about 30 KB.
const MAX_AUTOMATON_BYTES: usize = 1 << 20;

/// Maximum number of special tokens that a tokenizer may put around a text.
const MAX_TEMPLATE_TOKENS: usize = 64;

/// The parts of `tokenizer.json` whose sizes cost memory or time.
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

/// The fields of `model` in `tokenizer.json` that have tokens, prefixes or suffixes.
#[derive(Deserialize)]
struct ModelPart<'a> {
    #[serde(borrow)]
    vocab: Option<Vocabulary<'a>>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

/// The vocabulary of a `tokenizer.json`, reduced to what is checked.
enum Vocabulary<'a> {
    /// A map from tokens to ids, reduced to the byte length of the longest token.
    LongestToken(usize),
    /// The tokens of a unigram model, which the library looks up in a trie.
    Scored(Vec<Cow<'a, str>>),
}

/// A vocabulary token, borrowed from the JSON unless it is written with escapes.
#[derive(Deserialize)]
struct VocabularyToken<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Vocabulary<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VocabularyVisitor;
        impl<'de> Visitor<'de> for VocabularyVisitor {
            type Value = Vocabulary<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut tokens: A) -> Result<Self::Value, A::Error> {
                let mut longest = 0;
                while let Some((VocabularyToken(token), _)) = tokens.next_entry::<VocabularyToken<'de>, IgnoredAny>()? {
                    longest = longest.max(token.len());
                }
                Ok(Vocabulary::LongestToken(longest))
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
        deserializer.deserialize_any(VocabularyVisitor)
    }
}

/// Fails if a part of `tokenizer.json` exceeds its bounds, or the file is no JSON.
pub(in crate::model::tokenizer) fn ensure_bounded_file(json: &[u8]) -> Result<()> {
    let file: TokenizerFile =
        serde_json::from_slice(json).map_err(|error| anyhow!("{error}").with_line(error.line() as u64))?;
    ensure_short_added_tokens(file.added_tokens.iter().flatten())?;
    if let Some(model) = file.model {
        let longest = match &model.vocab {
            Some(Vocabulary::LongestToken(bytes)) => *bytes,
            Some(Vocabulary::Scored(tokens)) => tokens.iter().map(|token| token.len()).max().unwrap_or(0),
            None => 0,
        };
        ensure_short("a token of its vocabulary", longest)?;
        if let Some(Vocabulary::Scored(tokens)) = &model.vocab {
            ensure_small_trie(tokens.iter().map(|token| &**token))?;
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
        ensure_bounded_part(&step, &mut kinds)?;
        ensure!(kinds.len() <= MAX_PARTS, "its {name} has {} parts, at most {MAX_PARTS} are read", kinds.len());
        // These parts rewrite a text, with up to three times its bytes, so each may occur once.
        let rewritten = |kind: &str| name == "pre_tokenizer" && kinds.iter().filter(|other| *other == kind).count() > 1;
        if let Some(kind) = ["ByteLevel", "Metaspace"].into_iter().find(|kind| rewritten(kind)) {
            bail!("its {name} has more than one part of type {kind}");
        }
    }
    Ok(())
}

/// Fails if a part of a tokenizer, or any part nested in it, exceeds its bounds. Collects the `type` of each of these parts in
/// `kinds`.
fn ensure_bounded_part(part: &Value, kinds: &mut Vec<String>) -> Result<()> {
    let parts = match part {
        Value::Object(fields) => {
            if let Some(kind) = fields.get("type").and_then(Value::as_str) {
                kinds.push(kind.to_owned());
            }
            for name in ["content", "prepend"] {
                ensure_short(name, fields.get(name).and_then(Value::as_str).map_or(0, str::len))?;
            }
            if let Some(pattern) = fields.get("pattern") {
                ensure_bounded_pattern(pattern)?;
            }
            if let Some(map) = fields.get("precompiled_charsmap").and_then(Value::as_str) {
                // An invalid map is left to the library, which reports it.
                ensure_short_replacements(&BASE64_STANDARD.decode(map).unwrap_or_default())?;
            }
            for template in ["single", "pair"].iter().filter_map(|name| fields.get(*name)?.as_array()) {
                ensure_bounded_template(template)?;
            }
            if let Some(ids) = fields.get("ids").and_then(Value::as_array) {
                let count = ids.len();
                ensure!(
                    count <= MAX_TEMPLATE_TOKENS,
                    "a special token has {count} ids, at most {MAX_TEMPLATE_TOKENS} are read"
                );
            }
            fields.values().collect::<Vec<_>>()
        }
        Value::Array(parts) => parts.iter().collect(),
        _ => return Ok(()),
    };
    parts.into_iter().try_for_each(|part| ensure_bounded_part(part, kinds))
}

/// Fails if a regular expression is too long, cannot be used, or needs too large an automaton.
fn ensure_bounded_pattern(pattern: &Value) -> Result<()> {
    let text = |kind: &str| pattern.get(kind).and_then(Value::as_str);
    let bytes = text("String").or(text("Regex")).map_or(0, str::len);
    ensure!(bytes <= MAX_PATTERN_BYTES, "a pattern has {bytes} bytes, at most {MAX_PATTERN_BYTES} are read");
    let Some(regex) = text("Regex") else { return Ok(()) };
    RegexBuilder::new(regex).delegate_size_limit(MAX_AUTOMATON_BYTES).build().map(drop).map_err(|error| {
        anyhow!("the pattern `{regex}` cannot be used, or needs more than {MAX_AUTOMATON_BYTES} bytes: {error}")
            .with_value(regex)
    })
}

/// Fails if a template for special tokens has too many parts, or places one text (`A` or `B`) twice, which would repeat the
/// text.
fn ensure_bounded_template(template: &[Value]) -> Result<()> {
    ensure!(
        template.len() <= MAX_TEMPLATE_TOKENS,
        "a template has {} parts, at most {MAX_TEMPLATE_TOKENS} are read",
        template.len()
    );
    for text in ["A", "B"] {
        let is_text = |part: &&Value| part.pointer("/Sequence/id").and_then(Value::as_str) == Some(text);
        ensure!(template.iter().filter(is_text).count() <= 1, "a template has the text {text} more than once");
    }
    Ok(())
}

/// Fails if a replacement in sentencepiece's `precompiled_charsmap` is longer than [`MAX_TOKEN_BYTES`]. The map is the length
/// of a trie, the trie, and the replacements, each with a zero at its end (sentencepiece, `normalizer.cc`).
pub(in crate::model::tokenizer) fn ensure_short_replacements(map: &[u8]) -> Result<()> {
    let trie = map.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let texts = map.get(trie.saturating_add(4)..).unwrap_or_default();
    let longest = texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or_default();
    ensure!(
        longest <= MAX_TOKEN_BYTES,
        "a replacement of precompiled_charsmap has {longest} bytes, at most {MAX_TOKEN_BYTES} are read"
    );
    Ok(())
}

/// Maximum length of a token, prefix or suffix in any tokenizer file, in bytes. The longest tokens of published
/// vocabularies are runs of 128 spaces, two bytes each.
pub(super) const MAX_TOKEN_BYTES: usize = 1 << 10;

/// Maximum total length of all added tokens, in bytes: 1 MiB. To find them in a text, the library takes about 80 bytes of
/// memory for each byte.
const MAX_ADDED_TOKEN_BYTES: usize = 1 << 20;

/// Fails if `bytes`, the length of a token or part of a token, exceeds [`MAX_TOKEN_BYTES`]; the error names it `what`.
fn ensure_short(what: &str, bytes: usize) -> Result<()> {
    ensure!(
        bytes <= MAX_TOKEN_BYTES,
        anyhow!("{what} has {bytes} bytes, and no more than {MAX_TOKEN_BYTES} are read").with_value(bytes)
    );
    Ok(())
}

/// Fails if a token of a vocabulary is longer than [`MAX_TOKEN_BYTES`].
pub(in crate::model::tokenizer) fn ensure_short_tokens<'a>(tokens: impl IntoIterator<Item = &'a String>) -> Result<()> {
    tokens.into_iter().try_for_each(|token| ensure_short("a token of its vocabulary", token.len()))
}

/// Bytes per node of the library's trie over the tokens of a unigram model: a table of child nodes (measured; `tokenizers` 0.23,
/// `models/unigram/trie.rs`).
const NODE_BYTES: u64 = 340;

/// Maximum number of trie nodes: (for any vocabulary, per token); the larger bound counts. Published vocabularies have 3 to 5
/// nodes a token.
const MAX_TRIE_NODES: (usize, usize) = (1 << 20, 16);

/// Fails if the trie over the tokens of a unigram model has more nodes than [`MAX_TRIE_NODES`] allows, or needs more memory
/// than is available. The trie has one node for each distinct prefix of a token.
pub(in crate::model::tokenizer) fn ensure_small_trie<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let tokens = tokens.into_iter().map(str::as_bytes).sorted_unstable().collect_vec();
    let shared_bytes =
        |(before, token): (&&[u8], &&[u8])| before.iter().zip(*token).take_while(|(a, b)| a == b).count();
    let all_bytes: usize = tokens.iter().map(|token| token.len()).sum();
    let nodes = all_bytes - tokens.iter().tuple_windows().map(shared_bytes).sum::<usize>();
    let most = MAX_TRIE_NODES.0.max(MAX_TRIE_NODES.1.saturating_mul(tokens.len()));
    let needed = (nodes as u64).saturating_mul(NODE_BYTES);
    ensure!(
        nodes <= most,
        anyhow!(
            "the {} of its vocabulary need {} of memory to be looked for, as they begin in {nodes} ways: at most {most} are read",
            format_count(tokens.len(), "token"),
            memory::format_bytes(needed)
        )
    );
    memory::ensure_available(needed, || format!("the vocabulary of {}", format_count(tokens.len(), "token")))
        .map_err(|error| error.hint(format!("`--memory {}` lets it have as much", memory::limit_option_for(needed))))
}

/// Fails if an added token is longer than [`MAX_TOKEN_BYTES`], or all added tokens together are longer than
/// [`MAX_ADDED_TOKEN_BYTES`].
pub(in crate::model::tokenizer) fn ensure_short_added_tokens<'a>(
    added: impl IntoIterator<Item = &'a AddedToken>,
) -> Result<()> {
    let mut all = 0_usize;
    for token in added {
        ensure_short("an added token", token.content.len())?;
        all += token.content.len();
    }
    ensure!(
        all <= MAX_ADDED_TOKEN_BYTES,
        anyhow!(
            "its added tokens have {} together, and no more than {MAX_ADDED_TOKEN_BYTES} are read",
            format_count(all, "byte")
        )
    );
    Ok(())
}
