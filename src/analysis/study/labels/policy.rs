//! The policy: a value for every threshold of every label, and files that set some of them.
//!
//! A detector owns its [`Threshold`]s; a [`Policy`] is their values by name.

use std::fmt;
use std::path::Path;

use anyhow::{Error, Result, anyhow};
use itertools::Itertools;
use serde::{Serialize, Serializer};
use serde_json::{Map, json};
use sha2::{Digest, Sha256};
use toml::de::{DeFloat, DeInteger, DeTable};

use crate::system::errors::similar;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::digest::hex;
use crate::system::files::input;
use crate::system::printable::shorten;

/// A number in the rules of labels that a policy file can set.
#[derive(Debug, PartialEq)]
pub struct Threshold {
    /// Name of the threshold in policy files and reports.
    pub name: &'static str,
    /// Values that the threshold can have.
    pub range: Range,
    pub default: Value,
    /// Meaning of the threshold, and source of its default.
    pub meaning: &'static str,
}

/// The kind of value that a threshold can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// A share or rate from 0 to 1, or [`Value::Off`], which switches the threshold's rule off.
    Rule,
    /// A share from 0 to 1; the threshold's rule is always on.
    Share,
    /// A whole number; the text is the plural noun of the things that are counted.
    Count(&'static str),
}

/// The value of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// The rule of the threshold is switched off.
    Off,
    Share(f64),
    Count(u64),
}

/// The text that switches a rule off in a policy file.
const OFF_TEXT: &str = "off";

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(OFF_TEXT),
            Self::Share(share) => write!(f, "{share}"),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.name, self.default, self.meaning)
    }
}

impl Threshold {
    /// A threshold from 0 to 1 whose rule a policy can switch off.
    pub const fn rule(name: &'static str, default: f64, about: &'static str) -> Self {
        Self { name, range: Range::Rule, default: Value::Share(default), meaning: about }
    }

    /// A threshold from 0 to 1 whose rule cannot be switched off.
    pub const fn share(name: &'static str, default: f64, about: &'static str) -> Self {
        Self { name, range: Range::Share, default: Value::Share(default), meaning: about }
    }

    /// A threshold that is a whole number; `things` is the plural noun of the things that are counted.
    pub const fn count(name: &'static str, (things, default): (&'static str, u64), about: &'static str) -> Self {
        Self { name, range: Range::Count(things), default: Value::Count(default), meaning: about }
    }

    /// The values that the threshold can have, as text.
    pub fn allowed_values(&self) -> String {
        match self.range {
            Range::Rule => format!("a number from 0 to 1, or \"{OFF_TEXT}\""),
            Range::Share => "a number from 0 to 1".to_owned(),
            Range::Count(things) => format!("a whole number of {things}, 0 or more"),
        }
    }

    /// Parses the value of a threshold from a decimal `number`, or from `is_off`, which switches the rule off.
    /// `None` if the threshold cannot have this value.
    fn parse(&self, number: Option<&str>, is_off: bool) -> Option<Value> {
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        match self.range {
            Range::Rule if is_off => Some(Value::Off),
            Range::Rule | Range::Share => number?.parse().ok().filter(is_share).map(Value::Share),
            Range::Count(_) => number?.parse().ok().map(Value::Count),
        }
    }

    /// JSON Schema of the threshold's value.
    pub fn schema(&self) -> serde_json::Value {
        match self.range {
            Range::Rule => {
                json!({ "description": self.meaning, "type": ["number", "null"], "minimum": 0, "maximum": 1 })
            }
            Range::Share => json!({ "description": self.meaning, "type": "number", "minimum": 0, "maximum": 1 }),
            Range::Count(_) => json!({ "description": self.meaning, "type": "integer", "minimum": 0 }),
        }
    }
}

/// Maximum size of a policy file, in bytes: 1 MiB. A file with all thresholds is far smaller.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The value of every threshold, in the order of the table of thresholds. It is printed in every report.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy(Vec<(&'static Threshold, Value)>);

impl Policy {
    /// SHA-256 of the names and values of all thresholds, by which policies are told apart.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(json!(self).to_string()))
    }

    /// The policy with the default of each of these thresholds; duplicates are dropped.
    pub fn with_defaults(thresholds: impl IntoIterator<Item = &'static Threshold>) -> Self {
        let mut policy = Self(Vec::new());
        for threshold in thresholds {
            if policy.0.iter().all(|(known, _)| known.name != threshold.name) {
                policy.0.push((threshold, threshold.default));
            }
        }
        policy
    }

    /// This policy with other values for the named thresholds. Panics if no threshold has such a name, since
    /// presets are written by hand.
    pub fn with_values<'a>(mut self, values: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        for (name, value) in values {
            self.0.iter_mut().find(|(known, _)| known.name == name).expect("a threshold of that name").1 = value;
        }
        self
    }

    /// The value of a threshold, or its default if the policy has no value for it.
    pub fn get(&self, threshold: &Threshold) -> Value {
        let known = self.0.iter().find(|(known, _)| known.name == threshold.name);
        known.map_or(threshold.default, |(_, value)| *value)
    }

    /// The value of a threshold whose rule can be switched off; `None` if it is off.
    pub fn rule(&self, threshold: &Threshold) -> Option<f64> {
        match self.get(threshold) {
            Value::Off => None,
            Value::Share(share) => Some(share),
            Value::Count(count) => Some(count as f64),
        }
    }

    /// The value of a threshold from 0 to 1 whose rule is always on.
    pub fn share(&self, threshold: &Threshold) -> f64 {
        self.rule(threshold).unwrap_or_default()
    }

    /// The value of a threshold that is a whole number.
    pub fn count(&self, threshold: &Threshold) -> u64 {
        match self.get(threshold) {
            Value::Count(count) => count,
            Value::Off | Value::Share(_) => 0,
        }
    }

    /// This policy with the values that a TOML file gives to thresholds; other thresholds keep their values. Fails
    /// if the file cannot be read, is no TOML, names an unknown threshold, or has a value that its threshold cannot
    /// have.
    pub fn with_file(self, path: &Path) -> Result<Self> {
        let file = path.display();
        let text = input::read_to_string(path, MAX_FILE_BYTES).cannot("read the policy", &file);
        let policy = self.with_toml(&text.class(ErrorClass::Input)?);
        policy.map_err(|(line, why)| why.at_line(&file, line)).class(ErrorClass::Input)
    }

    /// As [`Self::with_file`], from the text of a TOML file. Fails with `(line number, error)`.
    fn with_toml(mut self, text: &str) -> Result<Self, (u64, Error)> {
        let error_at = |offset: usize, why: Error| (text[..offset].matches('\n').count() as u64 + 1, why);
        let table = DeTable::parse(text).map_err(|error| {
            error_at(error.span().map_or(0, |span| span.start), anyhow!(error.message().to_owned()))
        })?;
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let name = key.get_ref().as_ref();
            let Some((threshold, current)) = self.0.iter_mut().find(|(known, _)| known.name == name) else {
                return Err(error_at(key.span().start, self.unknown_threshold(name)));
            };
            let toml = value.get_ref();
            let integer = toml.as_integer().filter(|integer| integer.radix() == 10).map(DeInteger::as_str);
            let number = integer.or_else(|| toml.as_float().map(DeFloat::as_str));
            *current = threshold.parse(number, toml.as_str() == Some(OFF_TEXT)).ok_or_else(|| {
                let given = shorten(text[value.span()].lines().next().unwrap_or_default());
                let expected = threshold.allowed_values();
                let error = anyhow!("`{name}` is {given}: it must be {expected}");
                error_at(value.span().start, error.with_value(toml.as_str().unwrap_or(&given)))
            })?;
        }
        Ok(self)
    }

    /// This policy with the `values` of a saved report; thresholds without a value there keep theirs. Fails with a
    /// message if a name is unknown, or a threshold cannot have its value.
    pub fn with_json(mut self, values: &Map<String, serde_json::Value>) -> Result<Self, String> {
        for (name, value) in values {
            let Some((threshold, current)) = self.0.iter_mut().find(|(known, _)| known.name == name) else {
                return Err(self.unknown_threshold(name).to_string());
            };
            let number = value.as_number().map(ToString::to_string);
            *current = threshold
                .parse(number.as_deref(), value.is_null())
                .ok_or_else(|| format!("`{name}` is {value}: it must be {}", threshold.allowed_values()))?;
        }
        Ok(self)
    }

    /// The thresholds whose values differ in two policies, as `(name, value in this policy, value in the other
    /// policy)`.
    pub fn differences(&self, other: &Self) -> Vec<(&'static str, Value, Value)> {
        let pairs = self.0.iter().map(|(threshold, own)| (threshold.name, *own, other.get(threshold)));
        pairs.filter(|(_, own, others)| own != others).collect()
    }

    /// Replaces each threshold's name in braces by the threshold's value.
    pub fn fill_thresholds(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (threshold, value)| {
            text.replace(&format!("{{{}}}", threshold.name), &value.to_string())
        })
    }

    pub fn thresholds(&self) -> impl Iterator<Item = &'static Threshold> {
        self.0.iter().map(|(threshold, _)| *threshold)
    }

    /// Names of the thresholds whose rules can be switched off.
    pub fn rule_names(&self) -> impl Iterator<Item = &'static str> {
        self.thresholds().filter(|threshold| threshold.range == Range::Rule).map(|threshold| threshold.name)
    }

    fn unknown_threshold(&self, name: &str) -> Error {
        let names = || self.thresholds().map(|threshold| threshold.name);
        let shown = shorten(name);
        let shown = shown.escape_debug();
        let error = match similar::closest_name(name, names()) {
            Some(known) => anyhow!("there is no threshold `{shown}`").did_you_mean(Some(known)),
            None => anyhow!("there is no threshold `{shown}`: there are {}", names().join(", ")),
        };
        error.with_value(name)
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(threshold, value)| (threshold.name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static MASS: Threshold = Threshold::rule("separator_mass", 0.6, "a mass");
    static Q: Threshold = Threshold::rule("syntactic_q", 0.05, "a rate");
    static MARGIN: Threshold =
        Threshold { name: "syntactic_margin", range: Range::Share, default: Value::Share(0.1), meaning: "a share" };
    static MIN_COUNT: Threshold = Threshold {
        name: "syntactic_min_count",
        range: Range::Count("words"),
        default: Value::Count(100),
        meaning: "fewest words",
    };

    fn policy() -> Policy {
        Policy::with_defaults([&MASS, &Q, &MARGIN, &MIN_COUNT, &Q])
    }

    fn refusal(text: &str) -> (u64, String) {
        let (line, why) = policy().with_toml(text).expect_err("a refusal");
        (line, format!("{why:#}"))
    }

    #[test]
    fn a_file_sets_what_it_names() {
        let changed = policy().with_toml("# stricter\nsyntactic_q = 1e-3\nsyntactic_min_count = 1_000\n").unwrap();
        assert_eq!((changed.rule(&Q), changed.count(&MIN_COUNT)), (Some(0.001), 1000));
        assert_eq!((changed.rule(&MASS), changed.share(&MARGIN)), (Some(0.6), 0.1));
        assert_eq!(policy().with_toml("").unwrap(), policy());
        // A whole number is a number.
        assert_eq!(policy().with_toml("separator_mass = 1").unwrap().rule(&MASS), Some(1.0));
        let differences: Vec<String> =
            policy().differences(&changed).iter().map(|(name, here, there)| format!("{name} {here} {there}")).collect();
        assert_eq!(differences, ["syntactic_q 0.05 0.001", "syntactic_min_count 100 1000"]);
    }

    #[test]
    fn a_rule_is_switched_off_and_on_again() {
        let off = policy().with_toml("separator_mass = \"off\"\nsyntactic_q = 'off'\n").unwrap();
        assert_eq!((off.rule(&MASS), off.rule(&Q)), (None, None));
        let json = serde_json::to_value(&off).unwrap();
        assert!(json["separator_mass"].is_null());
        assert_eq!(policy().with_json(json.as_object().unwrap()).unwrap(), off);
        assert_eq!(off.with_toml("separator_mass = 0.6\nsyntactic_q = 0.05\n").unwrap(), policy());
    }

    #[test]
    fn a_file_that_is_no_policy_is_refused_by_its_line() {
        let (line, why) = refusal("syntactic_q = 0.5\n\nseparator_mas = 0.5\n");
        assert_eq!((line, why.as_str()), (3, "there is no threshold `separator_mas`; did you mean `separator_mass`?"));
        insta::assert_snapshot!(refusal("[table]\nx = 1").1, @"there is no threshold `table`: there are separator_mass, syntactic_q, syntactic_margin, syntactic_min_count");
        let share = "it must be a number from 0 to 1, or \"off\"";
        for value in ["1.5", "-0.1", "nan", "inf", "\"0.5\"", "\"Off\"", "[0.5]", "true", "0x1"] {
            let expected = format!("`separator_mass` is {value}: {share}");
            assert_eq!(refusal(&format!("\nseparator_mass = {value}")), (2, expected));
        }
        // It is not plain how a label without these would be given.
        for (name, expected) in [
            ("syntactic_margin", "a number from 0 to 1"),
            ("syntactic_min_count", "a whole number of words, 0 or more"),
        ] {
            let refused = refusal(&format!("{name} = \"off\"")).1;
            assert_eq!(refused, format!("`{name}` is \"off\": it must be {expected}"));
        }
        for value in ["-1", "0.5", "1.0", "99999999999999999999"] {
            assert_eq!(refusal(&format!("syntactic_min_count = {value}")).0, 1);
        }
        assert_eq!(refusal("syntactic_q = 0.5\nsyntactic_q = 0.6").0, 2);
        assert_eq!(refusal("syntactic_q 0.5").0, 1);
    }

    #[test]
    fn values_of_a_report_are_checked() {
        let refusal = |json: serde_json::Value| policy().with_json(json.as_object().unwrap()).unwrap_err();
        assert_eq!(
            refusal(json!({ "separator_mass": 7 })),
            "`separator_mass` is 7: it must be a number from 0 to 1, or \"off\""
        );
        let refusals = [json!({ "separator_mas": 0.5 }), json!({ "syntactic_min_count": null })].map(refusal);
        insta::assert_snapshot!(refusals.join("\n"), @"
        there is no threshold `separator_mas`; did you mean `separator_mass`?
        `syntactic_min_count` is null: it must be a whole number of words, 0 or more
        ");
    }
}
