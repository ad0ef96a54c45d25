//! The policy: every threshold of every label, in one table, and files that set some of them.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

use crate::system::input;

/// The thresholds of all labels: the one place where they are set. Printed in every report.
///
/// A threshold that is `None` (null in reports, "off" in policy files) is that of a rule which is not applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Smallest `offset_argmax` of a positional label (Voita et al. 2019, section 5.1: 90 %).
    pub offset_argmax: Option<f64>,
    /// `offset_mass` above which a head has a positional label (Clark et al. 2019, released notebook: 0.5).
    pub offset_mass: Option<f64>,
    /// `offset_mass["0"]` above which a head is `self`.
    pub self_mass: Option<f64>,
    /// `window_mass` above which a head is `local`.
    pub window_mass: Option<f64>,
    /// `separator_mass` above which a head is `separator` (Clark et al. 2019, released notebook: 0.6).
    pub separator_mass: Option<f64>,
    /// `first_special_mass` above which a head is `first-special` (Clark et al. 2019, released notebook: 0.6).
    pub first_special_mass: Option<f64>,
    /// `punctuation_mass` above which a head is `punctuation` (Clark et al. 2019, released notebook: 0.6).
    pub punctuation_mass: Option<f64>,
    /// `entropy_ratio` above which a head is `broad` (3.8 nats in the notebook of Clark et al. 2019, of ln 128).
    pub entropy_ratio: Option<f64>,
    /// Smallest accuracy above the offset baseline of a syntactic label, as a share
    /// (Voita et al. 2019, section 5.2: 10 %, taken as percentage points).
    pub syntactic_margin: f64,
    /// Fewest scored words of a syntactic label. Relations with fewer are not tested.
    pub syntactic_min_count: u64,
    /// Largest q-value of a syntactic label: the rate of false discoveries among all that are significant.
    /// If off, no significance is asked of it.
    pub syntactic_q: Option<f64>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            offset_argmax: Some(0.9),
            offset_mass: Some(0.5),
            self_mass: Some(0.5),
            window_mass: Some(0.5),
            separator_mass: Some(0.6),
            first_special_mass: Some(0.6),
            punctuation_mass: Some(0.6),
            entropy_ratio: Some(0.8),
            syntactic_margin: 0.1,
            syntactic_min_count: 100,
            syntactic_q: Some(0.05),
        }
    }
}

impl Policy {
    /// The definitions of Voita et al. 2019, sections 5.1 and 5.2: heads are positional by where the largest weight is,
    /// and syntactic without a test. The paper names no fewest words of a relation, so that is as by default.
    #[must_use]
    pub fn voita2019() -> Self {
        Self {
            offset_mass: None,
            self_mass: None,
            window_mass: None,
            separator_mass: None,
            first_special_mass: None,
            punctuation_mass: None,
            entropy_ratio: None,
            syntactic_q: None,
            ..Self::default()
        }
    }
}

/// A threshold: where the policy keeps it, and what it may be.
#[derive(Clone, Copy)]
enum Threshold {
    /// A share or a rate, from 0 to 1, of a rule that may be switched off.
    Rule(fn(&mut Policy) -> &mut Option<f64>),
    /// A share: from 0 to 1.
    Share(fn(&mut Policy) -> &mut f64),
    /// A number of words.
    Count(fn(&mut Policy) -> &mut u64),
}

/// What switches a rule off in a policy file, and what is said of a rule that is.
const OFF: &str = "off";

/// Every threshold by its name, in policy files and in reports.
const THRESHOLDS: &[(&str, Threshold)] = &[
    ("offset_argmax", Threshold::Rule(|policy| &mut policy.offset_argmax)),
    ("offset_mass", Threshold::Rule(|policy| &mut policy.offset_mass)),
    ("self_mass", Threshold::Rule(|policy| &mut policy.self_mass)),
    ("window_mass", Threshold::Rule(|policy| &mut policy.window_mass)),
    ("separator_mass", Threshold::Rule(|policy| &mut policy.separator_mass)),
    ("first_special_mass", Threshold::Rule(|policy| &mut policy.first_special_mass)),
    ("punctuation_mass", Threshold::Rule(|policy| &mut policy.punctuation_mass)),
    ("entropy_ratio", Threshold::Rule(|policy| &mut policy.entropy_ratio)),
    ("syntactic_margin", Threshold::Share(|policy| &mut policy.syntactic_margin)),
    ("syntactic_min_count", Threshold::Count(|policy| &mut policy.syntactic_min_count)),
    ("syntactic_q", Threshold::Rule(|policy| &mut policy.syntactic_q)),
];

/// The longest policy file that is read, in bytes: 1 MiB. One of all thresholds has a few hundred.
const LONGEST: u64 = 1 << 20;

impl Policy {
    /// This policy with the thresholds that a TOML file sets; those that it does not name stay as they are.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no TOML, names what is no threshold, or gives one a value that it cannot have.
    pub fn with_file(self, path: &Path) -> Result<Self> {
        let file = path.display();
        let text = input::read_to_string(path, LONGEST).with_context(|| format!("cannot read the policy `{file}`"))?;
        self.with_toml(&text).map_err(|Refused { line, why }| anyhow!("{file}:{line}: {why}"))
    }

    fn with_toml(mut self, text: &str) -> Result<Self, Refused> {
        let refused = |at: usize, why: String| Refused { line: text[..at].matches('\n').count() + 1, why };
        let table = DeTable::parse(text)
            .map_err(|error| refused(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let name = key.get_ref().as_ref();
            let Some((_, threshold)) = THRESHOLDS.iter().find(|(known, _)| *known == name) else {
                return Err(refused(key.span().start, unknown(name)));
            };
            threshold.set(&mut self, value.get_ref()).map_err(|expected| {
                let given = text[value.span()].lines().next().unwrap_or_default();
                refused(value.span().start, format!("`{name}` is {given}: it must be {expected}"))
            })?;
        }
        Ok(self)
    }

    /// The thresholds in which two policies differ: name, value here, value there.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<(&'static str, String, String)> {
        let values = |name: &'static str, threshold: &Threshold| {
            let [here, there] = [self, other].map(|policy| threshold.show(&mut policy.clone()));
            (here != there).then_some((name, here, there))
        };
        THRESHOLDS.iter().filter_map(|(name, threshold)| values(name, threshold)).collect()
    }
}

/// What is wrong with a policy file, and where.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    line: usize,
    why: String,
}

impl Threshold {
    /// Sets the threshold, or says what the value must be.
    fn set(self, policy: &mut Policy, value: &DeValue<'_>) -> Result<(), &'static str> {
        let integer = value.as_integer().filter(|integer| integer.radix() == 10).map(DeInteger::as_str);
        let share = || {
            let number = integer.or_else(|| value.as_float().map(DeFloat::as_str));
            number.and_then(|number| number.parse().ok()).filter(|share| (0.0..=1.0).contains(share))
        };
        match self {
            Self::Rule(field) if value.as_str() == Some(OFF) => *field(policy) = None,
            Self::Rule(field) => *field(policy) = Some(share().ok_or("a number from 0 to 1, or \"off\"")?),
            Self::Share(field) => *field(policy) = share().ok_or("a number from 0 to 1")?,
            Self::Count(field) => {
                let count = integer.and_then(|integer| integer.parse().ok());
                *field(policy) = count.ok_or("a whole number of words, 0 or more")?;
            }
        }
        Ok(())
    }

    fn show(self, policy: &mut Policy) -> String {
        match self {
            Self::Rule(field) => field(policy).map_or_else(|| OFF.to_owned(), |threshold| threshold.to_string()),
            Self::Share(field) => field(policy).to_string(),
            Self::Count(field) => field(policy).to_string(),
        }
    }
}

fn unknown(name: &str) -> String {
    let similar = |known: &str| strsim::jaro_winkler(known, name);
    let nearest = THRESHOLDS.iter().map(|(known, _)| *known).max_by(|a, b| similar(a).total_cmp(&similar(b)));
    let name = name.escape_debug();
    let known = nearest.filter(|known| similar(known) > 0.8).map(|known| format!("; did you mean `{known}`?"));
    let all = || THRESHOLDS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
    format!("there is no threshold `{name}`{}", known.unwrap_or_else(|| format!(": there are {}", all())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> (usize, String) {
        let Refused { line, why } = Policy::default().with_toml(text).expect_err("a refusal");
        (line, why)
    }

    #[test]
    fn a_file_sets_what_it_names() {
        let policy =
            Policy::default().with_toml("# stricter\nsyntactic_q = 1e-3\nsyntactic_min_count = 1_000\n").unwrap();
        let expected = Policy { syntactic_q: Some(0.001), syntactic_min_count: 1000, ..Policy::default() };
        assert_eq!(policy, expected);
        assert_eq!(Policy::default().with_toml("").unwrap(), Policy::default());
        // A whole number is a number.
        assert_eq!(Policy::default().with_toml("self_mass = 1").unwrap().self_mass, Some(1.0));
        let differences = Policy::default().differences(&expected);
        let expected = [("syntactic_min_count", "100", "1000"), ("syntactic_q", "0.05", "0.001")];
        assert_eq!(differences, expected.map(|(name, here, there)| (name, here.to_owned(), there.to_owned())));
    }

    #[test]
    fn a_rule_is_switched_off_and_on_again() {
        let off = Policy::default().with_toml("offset_mass = \"off\"\nsyntactic_q = 'off'\n").unwrap();
        assert_eq!(off, Policy { offset_mass: None, syntactic_q: None, ..Policy::default() });
        let shown = [("offset_mass", "0.5", "off"), ("syntactic_q", "0.05", "off")];
        let differences = Policy::default().differences(&off);
        assert_eq!(differences, shown.map(|(name, here, there)| (name, here.to_owned(), there.to_owned())));
        let json = serde_json::to_value(&off).unwrap();
        assert!(json["offset_mass"].is_null());
        assert_eq!(serde_json::from_value::<Policy>(json).unwrap(), off);
        assert_eq!(off.with_toml("offset_mass = 0.5\nsyntactic_q = 0.05\n").unwrap(), Policy::default());
    }

    #[test]
    fn voita2019_has_two_rules() {
        let policy = serde_json::to_value(Policy::voita2019()).unwrap();
        let on: Vec<(&str, f64)> = policy
            .as_object()
            .unwrap()
            .iter()
            .filter_map(|(name, threshold)| Some((name.as_str(), threshold.as_f64()?)))
            .collect();
        assert_eq!(on, [("offset_argmax", 0.9), ("syntactic_margin", 0.1), ("syntactic_min_count", 100.0)]);
    }

    #[test]
    fn what_is_no_policy_is_refused_by_its_line() {
        let (line, why) = refusal("self_mass = 0.5\n\nseparator_mas = 0.5\n");
        assert_eq!((line, why.as_str()), (3, "there is no threshold `separator_mas`; did you mean `separator_mass`?"));
        assert!(refusal("[table]\nx = 1").1.starts_with("there is no threshold `table`: there are offset_argmax, "));
        let share = "it must be a number from 0 to 1, or \"off\"";
        for value in ["1.5", "-0.1", "nan", "inf", "\"0.5\"", "\"Off\"", "[0.5]", "true", "0x1"] {
            assert_eq!(refusal(&format!("\nself_mass = {value}")), (2, format!("`self_mass` is {value}: {share}")));
        }
        // What it would mean to switch these off is not plain.
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
        assert_eq!(refusal("self_mass = 0.5\nself_mass = 0.6").0, 2);
        assert_eq!(refusal("self_mass 0.5").0, 1);
    }

    #[test]
    fn every_threshold_of_the_policy_can_be_set() {
        let policy = serde_json::to_value(Policy::default()).unwrap();
        let mut names: Vec<&str> = THRESHOLDS.iter().map(|(name, _)| *name).collect();
        for (name, threshold) in THRESHOLDS {
            let mut changed = Policy::default().with_toml(&format!("{name} = 1")).unwrap();
            assert_eq!(serde_json::to_value(&changed).unwrap()[name].as_f64(), Some(1.0));
            assert_eq!(threshold.show(&mut changed), "1");
        }
        names.sort_unstable();
        assert_eq!(names, policy.as_object().unwrap().keys().collect::<Vec<_>>());
    }
}
