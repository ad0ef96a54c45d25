//! Rules that derive links from word annotations: a TOML file with a table for each type of links.
//!
//! ```toml
//! [comma]
//! from = { upos = "VERB" }
//! to = { form = "," }
//! side = "right"
//! nearest = true
//! ```
//!
//! A word is a source if it meets all conditions of `from`. A target meets all conditions of `to`, and both words meet the rule's
//! other keys. A condition names an annotation and gives a text, a list of texts, or `{ pattern = "..." }`, a regular expression.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use fancy_regex::{Regex, RegexBuilder};
use itertools::Itertools as _;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::file::NamedDigest;
use crate::corpus::annotation::{Upos, entry_value};
use crate::corpus::bounds::{MAX_LINKS, MAX_RULE_PAIRS};
use crate::corpus::sentence::links::{LinkSet, LinkTypes};
use crate::corpus::sentence::{Content, Sentence, Word};
use crate::system::errors::similar::closest_name;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::input;
use crate::system::printable::excerpt;

/// Maximum size of a rule file, 1 MiB: a rule has about a hundred bytes.
const MAX_RULE_FILE_BYTES: u64 = 1 << 20;

/// Maximum size of a compiled regular expression, 1 MiB: a class of all Unicode letters has about ten kilobytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Keys that a rule may have.
const RULE_KEYS: [&str; 6] = ["from", "to", "same", "side", "within", "nearest"];

#[derive(Debug)]
pub struct LinkRules {
    pub path: Arc<str>,
    pub digest: NamedDigest,
    pub(super) rules: Vec<LinkRule>,
    /// Names of the word annotations that are read for link rules only.
    pub(super) columns: Vec<String>,
}

/// A rule for links of one type.
#[derive(Debug)]
pub(super) struct LinkRule {
    pub link_type: String,
    /// Line of the file on which the rule begins.
    pub line: u64,
    /// Conditions that the source word must meet.
    from: Vec<WordCondition>,
    /// Conditions that the target word must meet.
    to: Vec<WordCondition>,
    /// Annotations whose values must be equal in the source and the target of a link.
    equal_keys: Vec<WordKey>,
    /// Side of the source on which targets stand; `None` for both.
    side: Option<RuleSide>,
    /// Maximum distance between source and target, in words.
    max_distance: usize,
    nearest: bool,
}

/// Side of the source on which a target stands: before it (`Left`) or after it (`Right`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleSide {
    Left,
    Right,
}

/// An annotation of a word, which conditions can test.
#[derive(Debug)]
enum WordKey {
    Form,
    Lemma,
    Upos,
    Relation,
    Class,
    Feature(String),
    /// Value of a column or key, by its index into [`LinkRules::columns`].
    Column(usize),
}

/// A condition on one annotation of a word.
#[derive(Debug)]
struct WordCondition {
    key: WordKey,
    test: ValueTest,
}

#[derive(Debug)]
enum ValueTest {
    OneOf(Vec<String>),
    Matches(Regex),
}

/// An error in a file of rules: the byte offset in the file, and the error.
type Fault = (usize, anyhow::Error);

impl LinkRules {
    /// Reads a file of link rules. Fails if it cannot be read, or if a rule is malformed; the error names the line.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = input::read_to_string(path, MAX_RULE_FILE_BYTES).cannot("read the rules", shown);
        text.and_then(|text| Self::parse(&text, path)).with_option("link-rules").class(ErrorClass::Input)
    }

    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let shown: Arc<str> = path.display().to_string().into();
        let line = |offset: usize| text[..offset].matches('\n').count() as u64 + 1;
        let mut columns = Vec::new();
        let rules =
            parse_rules(text, line, &mut columns).map_err(|(offset, error)| error.at_line(&shown, line(offset)))?;
        let no_rule =
            || anyhow!("`{shown}` has no rule").with_file(&shown).hint("write a table for each type of links");
        ensure!(!rules.is_empty(), no_rule());
        Ok(Self { path: shown, digest: NamedDigest::of_text(path, text), rules, columns })
    }
}

impl LinkRule {
    /// Adds the rule's links to a sentence, and returns their number. The rules' columns begin at index `first` of
    /// [`Annotation::requested`](crate::corpus::Annotation::requested). Fails on running text, or if there are too many
    /// links or word pairs.
    pub(super) fn add_links(&self, sentence: &mut Sentence, first: usize, types: &mut LinkTypes) -> Result<usize> {
        let Content::Words(words) = &sentence.content else {
            let error = anyhow!("{} is running text, whose words the tokenizer finds", sentence.origin);
            return Err(error.hint("rules are about words: give CoNLL-U, or `words` of JSON lines"));
        };
        let matches = |conditions: &[WordCondition]| -> Result<Vec<usize>> {
            let position = |(position, word)| {
                let are_met = WordCondition::are_met(conditions, word, first);
                are_met.map(|are_met| are_met.then_some(position)).transpose()
            };
            words.iter().enumerate().filter_map(position).collect()
        };
        let (sources, targets) = (matches(&self.from)?, matches(&self.to)?);
        let (kind, origin) = (&self.link_type, &sentence.origin);
        let (mut links, mut pairs) = (Vec::new(), 0);
        for &from in &sources {
            let is_target = |to: &usize| {
                let side = if *to < from { RuleSide::Left } else { RuleSide::Right };
                let are_same = |key: &WordKey| {
                    let [one, other] = [&words[from], &words[*to]].map(|word| key.value(word, first));
                    one.is_some() && one == other
                };
                *to != from
                    && self.side.is_none_or(|wanted| wanted == side)
                    && to.abs_diff(from) <= self.max_distance
                    && self.equal_keys.iter().all(are_same)
            };
            let start = targets.partition_point(|to| to.saturating_add(self.max_distance) < from);
            let end = targets.partition_point(|&to| to <= from.saturating_add(self.max_distance));
            pairs += end - start;
            let too_many = || {
                anyhow!(
                    "rule `{kind}` has more than {MAX_RULE_PAIRS} pairs of words to look at in the sentence of {origin}"
                )
            };
            ensure!(pairs <= MAX_RULE_PAIRS, too_many().hint("add `within`, or split the sentence"));
            let targets = targets[start..end].iter().copied().filter(is_target);
            if self.nearest {
                // On a tie, the left word wins.
                links.extend(targets.min_by_key(|to| to.abs_diff(from)).map(|to| (from, to)));
            } else {
                links.extend(targets.map(|to| (from, to)));
            }
            let too_many = || anyhow!("rule `{kind}` makes more than {MAX_LINKS} links of the sentence of {origin}");
            ensure!(links.len() <= MAX_LINKS, too_many().hint("add `within` or `nearest`"));
        }
        if !links.is_empty() {
            let set = LinkSet::get_or_add(&mut sentence.links, &types.get_by_name(&self.link_type)?);
            links.iter().for_each(|&(from, to)| set.add(from, to));
        }
        Ok(links.len())
    }
}

impl WordKey {
    /// Makes the key for the annotation `name`. A name that is neither a standard annotation nor a feature is a column,
    /// which is added to `columns` if it is new.
    fn new(name: &str, columns: &mut Vec<String>) -> Self {
        match name {
            "form" => Self::Form,
            "lemma" => Self::Lemma,
            "upos" => Self::Upos,
            "deprel" => Self::Relation,
            "class" => Self::Class,
            _ => {
                if let Some(feature) = name.strip_prefix("feats.") {
                    return Self::Feature(feature.to_owned());
                }
                let known = columns.iter().position(|column| column == name);
                Self::Column(known.unwrap_or_else(|| {
                    columns.push(name.to_owned());
                    columns.len() - 1
                }))
            }
        }
    }

    /// The word's value of this annotation; `None` if it is missing. The rules' columns begin at index `first` of
    /// [`Annotation::requested`](crate::corpus::Annotation::requested).
    fn value<'a>(&self, word: &'a Word, first: usize) -> Option<&'a str> {
        let annotation = &word.annotation;
        match self {
            Self::Form => Some(&word.form),
            Self::Lemma => annotation.lemma.as_deref(),
            Self::Upos => annotation.upos.map(Upos::tag),
            Self::Relation => Some(&*word.relation).filter(|relation| *relation != "_"),
            Self::Class => annotation.class.as_deref().map(|class| &*class.name),
            Self::Feature(name) => entry_value(name, annotation.features.as_deref()?),
            Self::Column(column) => annotation.requested.get(first + column)?.as_deref(),
        }
    }
}

impl WordCondition {
    /// Whether a word meets all `conditions`; the rules' columns begin at index `first` of
    /// [`Annotation::requested`](crate::corpus::Annotation::requested). Fails if a regular expression cannot be matched.
    fn are_met(conditions: &[Self], word: &Word, first: usize) -> Result<bool> {
        for WordCondition { key, test } in conditions {
            let Some(value) = key.value(word, first) else { return Ok(false) };
            let is_met = match test {
                ValueTest::OneOf(texts) => texts.iter().any(|text| text == value),
                ValueTest::Matches(regex) => regex.is_match(value).map_err(|error| {
                    anyhow!("`{}` cannot be matched with `{}`: {error}", regex.as_str(), excerpt(value))
                })?,
            };
            if !is_met {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A key of a TOML table with its value, both with their places in the file.
type TomlEntry<'a, 'b> = (&'a Spanned<DeString<'b>>, &'a Spanned<DeValue<'b>>);

/// The entries of a table in their order in the file.
fn entries_in_order<'a, 'b>(table: &'a DeTable<'b>) -> Vec<TomlEntry<'a, 'b>> {
    table.iter().sorted_by_key(|(key, _)| key.span().start).collect()
}

fn parse_rules(text: &str, line: impl Fn(usize) -> u64, columns: &mut Vec<String>) -> Result<Vec<LinkRule>, Fault> {
    let fault =
        |error: toml::de::Error| (error.span().map_or(0, |span| span.start), anyhow!(error.message().to_owned()));
    let table = DeTable::parse(text).map_err(fault)?;
    let (mut rules, mut types) = (Vec::new(), LinkTypes::default());
    for (key, value) in entries_in_order(table.get_ref()) {
        let (kind, offset) = (key.get_ref().as_ref(), key.span().start);
        let Some(entries) = value.get_ref().as_table() else {
            let error = anyhow!("`{}` stands in no rule", excerpt(kind)).with_value(kind);
            return Err((offset, error.hint("write the name of a type above it, as in [comma]")));
        };
        types.get_by_name(kind).map_err(|error| (offset, error))?;
        rules.push(parse_rule((kind, offset, line(offset)), entries, columns)?);
    }
    Ok(rules)
}

/// Parses the rule for links of type `kind`, which begins at byte `offset` and line `line` of the file.
fn parse_rule(
    (kind, offset, line): (&str, usize, u64),
    entries: &DeTable<'_>,
    columns: &mut Vec<String>,
) -> Result<LinkRule, Fault> {
    let (mut from, mut to) = (None, None);
    let (mut same, mut side, mut within, mut nearest) = (Vec::new(), None, usize::MAX, false);
    for (key, value) in entries_in_order(entries) {
        let (name, shown) = (key.get_ref().as_ref(), excerpt(kind));
        let expected =
            |what: &str| (value.span().start, anyhow!("`{name}` of rule `{shown}` must be {what}").with_value(name));
        let value = value.get_ref();
        match name {
            "from" | "to" => {
                let table = value.as_table();
                let table = table.ok_or_else(|| expected("a table of conditions, as in { upos = \"VERB\" }"))?;
                let mut word_conditions = Vec::new();
                parse_conditions("", table, columns, &mut word_conditions)?;
                if word_conditions.is_empty() {
                    return Err(expected("at least one condition, as { form = { pattern = \".\" } } of every word"));
                }
                let side = if name == "from" { &mut from } else { &mut to };
                *side = Some(word_conditions);
            }
            "same" => {
                let names = parse_texts(value).filter(|names| !names.is_empty());
                let names = names.ok_or_else(|| expected("the name of an annotation, or a list of names"))?;
                same = names.iter().map(|name| WordKey::new(name, columns)).collect();
            }
            "side" => match value.as_str() {
                Some("left") => side = Some(RuleSide::Left),
                Some("right") => side = Some(RuleSide::Right),
                _ => return Err(expected("\"left\" or \"right\"")),
            },
            "within" => {
                let words = value.as_integer().and_then(|number| number.as_str().parse().ok());
                within = words.filter(|words| *words > 0).ok_or_else(|| expected("a number of words, 1 or more"))?;
            }
            "nearest" => nearest = value.as_bool().ok_or_else(|| expected("true or false"))?,
            _ => {
                let error = anyhow!("rule `{shown}` has no key `{}`: {}", excerpt(name), RULE_KEYS.join(", "));
                return Err((key.span().start, error.with_value(name).did_you_mean(closest_name(name, RULE_KEYS))));
            }
        }
    }
    let missing = |key: &str| {
        let error = anyhow!("rule `{}` has no `{key}`", excerpt(kind));
        (offset, error.hint(format!("say which words, as in {key} = {{ upos = \"VERB\" }}")))
    };
    let (from, to) = (from.ok_or_else(|| missing("from"))?, to.ok_or_else(|| missing("to"))?);
    Ok(LinkRule { link_type: kind.to_owned(), line, from, to, equal_keys: same, side, max_distance: within, nearest })
}

/// Texts of a condition, given as a string or as a list of strings; `None` for any other value.
fn parse_texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::String(text) => Some(vec![text.to_string()]),
        DeValue::Array(list) => list.iter().map(|text| Some(text.get_ref().as_str()?.to_owned())).collect(),
        _ => None,
    }
}

/// Makes the error about the malformed condition `name`.
fn bad_condition_error(name: &str) -> anyhow::Error {
    anyhow!("`{}` must be a text, a list of texts or {{ pattern = \"...\" }}", excerpt(name)).with_value(name)
}

/// Parses the conditions in a TOML table and adds them to `parsed`. `prefix` is put before their names, since TOML reads
/// `feats.Case` as a nested table.
fn parse_conditions(
    prefix: &str,
    table: &DeTable<'_>,
    columns: &mut Vec<String>,
    parsed: &mut Vec<WordCondition>,
) -> Result<(), Fault> {
    for (key, value) in entries_in_order(table) {
        let (name, offset) = (format!("{prefix}{}", key.get_ref()), value.span().start);
        let test = if let Some(inner) = value.get_ref().as_table() {
            let pattern = inner.get("pattern").and_then(|pattern| pattern.get_ref().as_str());
            let Some(pattern) = pattern.filter(|_| inner.len() == 1) else {
                let before = parsed.len();
                // These five have no entries.
                if !["form", "lemma", "upos", "deprel", "class"].contains(&&*name) {
                    parse_conditions(&format!("{name}."), inner, columns, parsed)?;
                }
                if parsed.len() == before {
                    return Err((offset, bad_condition_error(&name)));
                }
                continue;
            };
            let regex = RegexBuilder::new(pattern).delegate_size_limit(MAX_PATTERN_BYTES).build();
            let no_pattern = |error| anyhow!("`{}` is no pattern: {error}", excerpt(pattern)).with_value(pattern);
            ValueTest::Matches(regex.map_err(|error| (offset, no_pattern(error)))?)
        } else {
            let texts = parse_texts(value.get_ref()).filter(|texts| !texts.is_empty());
            ValueTest::OneOf(texts.ok_or_else(|| (offset, bad_condition_error(&name)))?)
        };
        parsed.push(WordCondition { key: WordKey::new(&name, columns), test });
    }
    Ok(())
}
