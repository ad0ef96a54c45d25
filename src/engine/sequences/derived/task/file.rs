//! Task files: JSON lines, one item a line, whose keys tell the kind of task.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::TaskKind;
use crate::corpus::{Content, ItemName, NamedDigest, TreeHead, Word};
use crate::system::errors::{ErrorClass, ErrorExt, similar};
use crate::system::files::input;
use crate::system::json::describe_error_in_line;
use crate::system::printable::shorten;

/// Maximum size of a task file, 64 MiB. The 67,000 minimal pairs of Warstadt et al. 2020 have some 30 MB with their
/// annotations.
const MAX_TASK_BYTES: u64 = 1 << 26;

/// A parsed task file, independent of any model.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFile {
    pub path: Arc<str>,
    pub name: String,
    pub sha256: String,
    pub kind: TaskKind,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Line of the item in the file, counted from 1.
    pub line: u64,
    /// Number of the item's sampling unit. Items made from one template share a unit.
    pub unit: u64,
    /// Name of the group by which results are also reported; `None` without a group.
    pub group: Option<Arc<str>>,
    pub content: ItemContent,
}

/// The texts and answers of an item; a class is given by its name or number.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemContent {
    /// A text, or a pair of texts, with its class; `foil` is a wrong class to compare with, if given.
    Classify { text: Content, pair: Option<String>, label: String, foil: Option<String> },
    /// Words with their classes (`None` for words that are not scored). `foils` has a wrong class for each word, or is
    /// empty.
    Tag { words: Content, labels: Vec<Option<String>>, foils: Vec<Option<String>> },
    /// Three texts: the first should be nearer to the second than to the third.
    Triple { texts: [String; 3] },
    /// A text in which the token `answer` should be more probable than the token `foil`.
    Cloze { text: ClozeText, answer: String, foil: String, corrupted: Option<CorruptedText> },
    /// Two texts: `good` should be more probable than `bad`.
    Pair { good: String, bad: String },
}

/// The text of a cloze item, in which a token is to be filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ClozeText {
    pub text: String,
    /// Whether the text is a prompt that the answer continues; otherwise it has one mask.
    pub is_prompt: bool,
}

/// The corrupted text of a cloze item.
#[derive(Clone, Debug, PartialEq)]
pub struct CorruptedText {
    /// The corrupted text. As the original text, it has one mask or is a prompt.
    pub text: String,
    /// Name of the kind of corruption; `None` if the file gives none.
    pub name: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct Line {
    text: Option<String>,
    words: Option<Vec<String>>,
    text_pair: Option<String>,
    label: Option<ItemName>,
    labels: Option<Vec<Option<ItemName>>>,
    anchor: Option<String>,
    positive: Option<String>,
    negative: Option<String>,
    prompt: Option<String>,
    answer: Option<String>,
    /// The foil of an answer (a text), or of a label (a class).
    foil: Option<ItemName>,
    foils: Option<Vec<Option<ItemName>>>,
    corrupted: Option<String>,
    corruption: Option<String>,
    #[serde(alias = "sentence_good")]
    good: Option<String>,
    #[serde(alias = "sentence_bad")]
    bad: Option<String>,
    family: Option<ItemName>,
    document: Option<ItemName>,
    group: Option<String>,
    /// The phenomenon of a pair, in files of `BLiMP` (Warstadt et al. 2020).
    linguistics_term: Option<String>,
}

/// The keys that identify each kind of item, with their description for messages, in the order of [`TaskKind`].
const KEYS_BY_KIND: [(&[&str], &str); 5] = [
    (&["label", "text_pair"], "`text` (and `text_pair`) or `words`, with `label` (classify)"),
    (&["labels", "words", "foils"], "`words` with `labels` (tag)"),
    (
        &["answer", "foil", "prompt", "corrupted", "corruption", "text"],
        "`text` with one mask, or `prompt`, with `answer` and `foil` (cloze)",
    ),
    (&["good", "bad", "sentence_good", "sentence_bad"], "`good` and `bad` (pair)"),
    (&["anchor", "positive", "negative"], "`anchor`, `positive` and `negative` (triple)"),
];

/// Keys that items of every kind may have; `id` has no effect.
const COMMON_KEYS: [&str; 5] = ["family", "document", "group", "linguistics_term", "id"];

/// Fails on an unknown key, which may be misspelt. Lines in the format of `BLiMP` may have unknown keys.
fn ensure_known_keys(json: &str) -> Result<()> {
    #[expect(clippy::zero_sized_map_values, reason = "serde reads no set of keys")]
    let given: BTreeMap<String, IgnoredAny> = serde_json::from_str(json)?;
    let known = || KEYS_BY_KIND.iter().flat_map(|(keys, _)| keys.iter()).chain(&COMMON_KEYS).copied();
    let stray = given.keys().find(|key| !key.starts_with('_') && !known().any(|one| one == *key));
    let Some(stray) = stray.filter(|_| !given.contains_key("sentence_good")) else { return Ok(()) };
    let error = anyhow!("an item has no key `{}`", shorten(&stray.escape_debug().to_string())).with_value(stray);
    Err(match similar::closest_name(stray, known()) {
        None => error.hint("leave it out, or begin it with `_`: such keys are ignored"),
        near => error.did_you_mean(near),
    })
}

fn describe_kinds() -> String {
    KEYS_BY_KIND.map(|(_, kind)| kind).join("; ")
}

/// Describes the keys of a kind of item: of the `known` kind, else of the kind with most keys in the JSON object, else of
/// all kinds.
fn describe_keys(known: Option<TaskKind>, json: &str) -> String {
    if let Some(kind) = known {
        return format!("{}, as the lines before", KEYS_BY_KIND[kind as usize].1);
    }
    let given: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
    let count = |keys: &[&str]| keys.iter().filter(|key| given.contains_key(**key)).count();
    let nearest = KEYS_BY_KIND.iter().rev().max_by_key(|(keys, _)| count(keys)).filter(|(keys, _)| count(keys) > 0);
    nearest.map_or_else(describe_kinds, |(_, kind)| (*kind).to_owned())
}

impl TaskFile {
    /// Reads a task file. Fails if it has no item, or if a line is no item of the first line's kind; the error names the
    /// line.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text =
            input::read_to_string(path, MAX_TASK_BYTES).cannot("read the task", shown).class(ErrorClass::Input)?;
        Self::parse(&text, path).with_option("task").class(ErrorClass::Input)
    }

    fn parse(text: &str, path: &Path) -> Result<Self> {
        let shown: Arc<str> = path.display().to_string().into();
        let mut units = UnitNumbers::default();
        let mut items: Vec<Item> = Vec::new();
        for (json, line) in text.trim_start_matches('\u{feff}').lines().zip(1..) {
            if json.trim().is_empty() {
                continue;
            }
            let known = items.first().map(|first| first.content.kind());
            let item = parse_item(json, line, &mut units, known).and_then(|item| {
                ensure_known_keys(json)?;
                let kind = item.content.kind();
                if let Some((first, of_first)) = items.first().zip(known).filter(|(_, of_first)| *of_first != kind) {
                    let first = first.line;
                    let error = anyhow!("an item of kind {kind}, and that of line {first} is of kind {of_first}");
                    return Err(error.hint("write one file for each kind"));
                }
                Ok(item)
            });
            items.push(item.at_line(&shown, line)?);
        }
        let kind = items.first().map(|item| item.content.kind());
        let nothing = || {
            anyhow!("the task `{shown}` has no item")
                .with_file(&shown)
                .hint(format!("an item a line: {}", describe_kinds()))
        };
        let NamedDigest { name, sha256 } = NamedDigest::of_text(path, text);
        Ok(Self { kind: kind.ok_or_else(nothing)?, path: shown, name, sha256, items })
    }
}

impl ItemContent {
    fn kind(&self) -> TaskKind {
        match self {
            Self::Classify { .. } => TaskKind::Classify,
            Self::Tag { .. } => TaskKind::Tag,
            Self::Triple { .. } => TaskKind::Triple,
            Self::Cloze { .. } => TaskKind::Cloze,
            Self::Pair { .. } => TaskKind::Pair,
        }
    }
}

/// Assigns numbers to sampling units, by the value of the key `family`, or else of `document`.
#[derive(Default)]
struct UnitNumbers {
    /// Number of each named sampling unit, by `(whether the key is "family", value of the key)`.
    named: HashMap<(bool, Box<str>), u64>,
    next: u64,
}

impl UnitNumbers {
    /// Number of the sampling unit with this name, `(whether it is a family, value)`, assigned on first use. Without a name, a
    /// new number.
    fn get_or_assign(&mut self, name: Option<(bool, Box<str>)>) -> u64 {
        let next = self.next;
        let number = name.map_or(next, |name| *self.named.entry(name).or_insert(next));
        self.next += u64::from(number == next);
        number
    }
}

/// Parses the item in a line. If the `known` kind is given, the item must be of that kind.
fn parse_item(json: &str, line: u64, units: &mut UnitNumbers, known: Option<TaskKind>) -> Result<Item> {
    // serde would also accept an array of the fields in order.
    ensure!(json.trim_start().starts_with('{'), "a line is an object: `{}`", shorten(json));
    let mut parsed: Line = serde_json::from_str(json)
        .map_err(|error| anyhow!("not an item in JSON: {}: `{}`", describe_error_in_line(&error), shorten(json)))?;
    parsed.group = parsed.group.or(parsed.linguistics_term.take());
    let name = |is_family: bool, name: ItemName| (is_family, name.into_text());
    let unit = parsed.family.map(|family| name(true, family)).or(parsed.document.map(|document| name(false, document)));
    let word_count = parsed.words.as_ref().map_or(0, Vec::len);
    let words = parsed.words.map(|words| {
        let word = |form: String| Word::new(form, TreeHead::Unknown, "_");
        Content::Words(words.into_iter().map(word).collect())
    });
    let content = if let Some(label) = parsed.label {
        let both = (parsed.text.map(Content::Text), words, parsed.text_pair);
        let (text, pair) = match both {
            (Some(text), None, pair) => (text, pair),
            (None, Some(words), None) => (words, None),
            _ => bail!("a `label` is of a `text`, of `text` and `text_pair`, or of `words`: `{}`", shorten(json)),
        };
        let foil = parsed.foil.map(|foil| foil.into_text().into());
        ItemContent::Classify { text, pair, label: label.into_text().into(), foil }
    } else if let Some(labels) = parsed.labels {
        let Some(words) = words.filter(|_| parsed.text.is_none()) else {
            bail!("`labels` are of `words`: `{}`", shorten(json));
        };
        let foils = parsed.foils.unwrap_or_default();
        for (name, count) in [("labels", labels.len()), ("foils", foils.len())] {
            let other = || anyhow!("there are {count} `{name}` of {word_count} `words`: `{}`", shorten(json));
            ensure!(count == word_count || name == "foils" && count == 0, other());
        }
        let lacks = |(label, foil): (&Option<ItemName>, &Option<ItemName>)| label.is_some() && foil.is_none();
        if let Some(word) = labels.iter().zip(&foils).position(lacks) {
            bail!("word {} has a label and no foil: `{}`", word + 1, shorten(json));
        }
        let names = |given: Vec<Option<ItemName>>| -> Vec<Option<String>> {
            given.into_iter().map(|name| name.map(|name| name.into_text().into())).collect()
        };
        ItemContent::Tag { words, labels: names(labels), foils: names(foils) }
    } else if let (Some(anchor), Some(positive), Some(negative)) = (parsed.anchor, parsed.positive, parsed.negative) {
        ItemContent::Triple { texts: [anchor, positive, negative] }
    } else {
        let foil = match parsed.foil {
            Some(ItemName::Number(foil)) => {
                bail!("the `foil` of an `answer` is text, not {foil}: `{}`", shorten(json))
            }
            Some(ItemName::Text(foil)) => Some(foil.into()),
            None => None,
        };
        let name = parsed.corruption.map(Arc::from);
        let corrupted = parsed.corrupted.map(|text| CorruptedText { text, name });
        let (is_prompt, cloze) = (parsed.prompt.is_some(), parsed.answer.zip(foil));
        match (parsed.text, parsed.prompt, cloze, parsed.good.zip(parsed.bad)) {
            (Some(text), None, Some((answer, foil)), None) | (None, Some(text), Some((answer, foil)), None) => {
                ItemContent::Cloze { text: ClozeText { text, is_prompt }, answer, foil, corrupted }
            }
            (None, None, None, Some((good, bad))) => ItemContent::Pair { good, bad },
            _ => {
                let error = anyhow!("the keys fit no kind of task: `{}`", shorten(json));
                return Err(error.hint(format!("an item has {}", describe_keys(known, json))));
            }
        }
    };
    Ok(Item { line, unit: units.get_or_assign(unit), group: parsed.group.map(Arc::from), content })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Result<TaskFile> {
        TaskFile::parse(&lines.join("\n"), Path::new("items.jsonl"))
    }

    fn refused(lines: &[&str]) -> String {
        format!("{:#}", read(lines).unwrap_err())
    }

    #[test]
    fn items_of_one_family_or_document_are_one_unit() {
        let task = read(&[
            r#"{"good": "a b", "bad": "b a", "family": "x", "group": "order", "_source": 7, "id": 1}"#,
            "",
            r#"{"good": "c d", "bad": "d c"}"#,
            r#"{"good": "e f", "bad": "f e", "family": "x", "document": "y"}"#,
            r#"{"good": "g h", "bad": "h g", "document": "x"}"#,
        ]);
        let task = task.unwrap();
        assert_eq!((task.kind, &*task.name), (TaskKind::Pair, "items.jsonl"));
        let of: Vec<_> = task.items.iter().map(|item| (item.line, item.unit)).collect();
        // A family and a document of one name are two units.
        assert_eq!(of, [(1, 0), (3, 1), (4, 0), (5, 2)]);
        assert_eq!(task.items[0].group.as_deref(), Some("order"));
    }

    #[test]
    fn lines_of_blimp_are_pairs_by_phenomenon() {
        let line = r#"{"sentence_good": "Who sleeps?", "sentence_bad": "Who sleep?", "field": "syntax", "linguistics_term": "agreement",
            "UID": "wh_agreement", "pairID": "0"}"#;
        let task = read(&[&line.replace('\n', "")]).unwrap();
        assert_eq!((task.kind, task.items[0].group.as_deref()), (TaskKind::Pair, Some("agreement")));
    }

    #[test]
    fn the_keys_tell_the_kind() {
        let kind = |line: &str| read(&[line]).unwrap().kind;
        assert_eq!(kind(r#"{"text": "a [MASK]", "answer": "b", "foil": "c"}"#), TaskKind::Cloze);
        assert_eq!(kind(r#"{"prompt": "a", "answer": " b", "foil": " c"}"#), TaskKind::Cloze);
        assert_eq!(kind(r#"{"good": "a", "bad": "b"}"#), TaskKind::Pair);
        assert_eq!(kind(r#"{"text": "a", "text_pair": "b", "label": 1}"#), TaskKind::Classify);
        assert_eq!(kind(r#"{"words": ["a", "b"], "label": "yes"}"#), TaskKind::Classify);
        assert_eq!(kind(r#"{"text": "a", "label": "yes", "foil": 1}"#), TaskKind::Classify);
        assert_eq!(kind(r#"{"words": ["a", "b"], "labels": ["X", null], "foils": [0, null]}"#), TaskKind::Tag);
        assert_eq!(kind(r#"{"words": ["a", "b"], "labels": ["X", null]}"#), TaskKind::Tag);
        assert_eq!(kind(r#"{"anchor": "a", "positive": "b", "negative": "c"}"#), TaskKind::Triple);
    }

    #[test]
    fn what_is_no_item_is_named_by_its_line() {
        assert!(refused(&["", " "]).starts_with("the task `items.jsonl` has no item: an item a line: `text`"));
        let pair = r#"{"good": "a", "bad": "b"}"#;
        let lines = [
            r#"{"prompt": "a", "answer": "b", "foil": "c"}"#,
            r#"{"good": "a"}"#,
            r#"{"text": "a", "prompt": "b", "answer": "b", "foil": "c"}"#,
            r#"{"good": 1, "bad": "b"}"#,
            r#"{"words": ["a"], "text_pair": "b", "label": 1}"#,
            r#"{"words": ["a", "b"], "labels": [1]}"#,
            r#"{"text": "a", "labels": [1]}"#,
            r#"{"words": ["a", "b"], "labels": [1, null], "foils": [2]}"#,
            r#"{"words": ["a", "b"], "labels": [1, 2], "foils": [0, null]}"#,
            r#"{"prompt": "a", "answer": "b", "foil": 5}"#,
            r#"{"anchor": "a", "positive": "b"}"#,
            "[1]",
            // The keys of the lines before are told.
            r#"{"anchor": "a", "positiv": "b"}"#,
        ];
        insta::assert_snapshot!(lines.map(|line| refused(&[pair, line])).join("\n"), @r#"
        items.jsonl:2: an item of kind cloze, and that of line 1 is of kind pair: write one file for each kind
        items.jsonl:2: the keys fit no kind of task: `{"good": "a"}`: an item has `good` and `bad` (pair), as the lines before
        items.jsonl:2: the keys fit no kind of task: `{"text": "a", "prompt": "b", "answer": "b", "foil": "c"}`: an item has `good` and `bad` (pair), as the lines before
        items.jsonl:2: not an item in JSON: invalid type: integer `1`, expected a string at column 10: `{"good": 1, "bad": "b"}`
        items.jsonl:2: a `label` is of a `text`, of `text` and `text_pair`, or of `words`: `{"words": ["a"], "text_pair": "b", "label": 1}`
        items.jsonl:2: there are 1 `labels` of 2 `words`: `{"words": ["a", "b"], "labels": [1]}`
        items.jsonl:2: `labels` are of `words`: `{"text": "a", "labels": [1]}`
        items.jsonl:2: there are 1 `foils` of 2 `words`: `{"words": ["a", "b"], "labels": [1, null], "foils": [2]}`
        items.jsonl:2: word 2 has a label and no foil: `{"words": ["a", "b"], "labels": [1, 2], "foils": [0, null]}`
        items.jsonl:2: the `foil` of an `answer` is text, not 5: `{"prompt": "a", "answer": "b", "foil": 5}`
        items.jsonl:2: the keys fit no kind of task: `{"anchor": "a", "positive": "b"}`: an item has `good` and `bad` (pair), as the lines before
        items.jsonl:2: a line is an object: `[1]`
        items.jsonl:2: the keys fit no kind of task: `{"anchor": "a", "positiv": "b"}`: an item has `good` and `bad` (pair), as the lines before
        "#);
        // A key that nothing reads is named, with the one that is like it.
        for (key, why) in [
            ("famliy", "items.jsonl:1: an item has no key `famliy`; did you mean `family`?"),
            ("corrupt", "items.jsonl:1: an item has no key `corrupt`; did you mean `corrupted`?"),
            ("x", "items.jsonl:1: an item has no key `x`: leave it out, or begin it with `_`: such keys are ignored"),
        ] {
            assert_eq!(refused(&[&pair.replace('}', &format!(r#", "{key}": "a"}}"#))]), why);
        }
        // Of a first line the kind that it comes nearest to is told, or all of them.
        let lines = [
            r#"{"gud": "a", "bad": "b"}"#,
            r#"{"anchor": "a", "positiv": "b"}"#,
            r#"{"text": "a", "awnser": "b"}"#,
            r#"{"words": ["a"], "tags": ["b"]}"#,
        ];
        insta::assert_snapshot!(lines.map(|line| refused(&[line])).join("\n"), @r#"
        items.jsonl:1: the keys fit no kind of task: `{"gud": "a", "bad": "b"}`: an item has `good` and `bad` (pair)
        items.jsonl:1: the keys fit no kind of task: `{"anchor": "a", "positiv": "b"}`: an item has `anchor`, `positive` and `negative` (triple)
        items.jsonl:1: the keys fit no kind of task: `{"text": "a", "awnser": "b"}`: an item has `text` with one mask, or `prompt`, with `answer` and `foil` (cloze)
        items.jsonl:1: the keys fit no kind of task: `{"words": ["a"], "tags": ["b"]}`: an item has `words` with `labels` (tag)
        "#);
        let all = refused(&[r#"{"x": 1}"#]);
        assert!(all.starts_with("items.jsonl:1: ") && all.contains("`labels` (tag); `text` with one mask"), "{all}");
    }
}
