//! The health of the input: checks of whether a model could read the text of a corpus. Each check compares a number
//! with a threshold of the policy. docs/methodology/health.md has the reasons.
//!
//! If a check that [decides](HealthId::affects_firmness) on firmness fails, no label is firm, since its score may not
//! be about the text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::labels::policy::{Policy, Threshold};
use crate::stats::block_test::MIN_BLOCKS_FOR_TEST;

/// Share of unread tokens, letters, words or sentences above which no label is firm.
///
/// With a share `u` of unread tokens, `1 - (1 - u)^2` of the token pairs have an unread token: about 10 % for 5 %. A
/// syntactic label needs a lead of 10 points over its baseline, which such pairs could make up. `all-MiniLM-L6-v2`
/// leaves less than 1 % of EWT, GUM, PUD and German GSD unread.
const MAX_UNREAD_SHARE: f64 = 0.05;

/// Largest accepted share of sentences that are skipped, repeated, or one token long. Above one half, they are most of
/// the corpus.
const MAX_SENTENCE_SHARE: f64 = 0.5;

/// Threshold of each check of the input, in the order of [`HealthId::ALL`].
static THRESHOLDS: [Threshold; HealthId::ALL.len()] = [
    Threshold::share(
        "health_unparted",
        MAX_UNREAD_SHARE,
        "largest share of sentences with a stretch of letters that is one unknown token, where the vocabulary is one of letters or \
            k-mers: with .05 of tokens unread, a tenth of all pairs have one",
    ),
    Threshold::share(
        "health_foreign_script",
        MAX_UNREAD_SHARE,
        "largest share of letters of scripts in which the vocabulary has no words, as in `health_unparted`",
    ),
    Threshold::share(
        "health_lower_cased",
        MAX_UNREAD_SHARE,
        "largest share of words whose capitals the tokenizer lower-cases although the vocabulary is cased, as in `health_unparted`",
    ),
    Threshold::share(
        "health_unknown_tokens",
        MAX_UNREAD_SHARE,
        "largest share of unknown tokens among tokens of text, as in `health_unparted`",
    ),
    // German in the vocabulary of English BERT has 2.0 times the usual tokens, Greek 3.4 (docs/methodology/health.md).
    Threshold::count(
        "health_tokens_per_word",
        ("tokens", 3),
        "most tokens in the place of one, where one is as long as the mean entry of the vocabulary or a whole word: with 3, two in \
            three tokens are followed by another of their word",
    ),
    Threshold::share(
        "health_one_token_sentences",
        MAX_SENTENCE_SHARE,
        "largest share of sentences of one token, which has no other to attend to: beyond .5 they are most of the corpus",
    ),
    Threshold::share(
        "health_skipped",
        MAX_SENTENCE_SHARE,
        "largest share of sentences left out: beyond .5 labels are about the lesser part of the corpus",
    ),
    Threshold::share(
        "health_repeated",
        MAX_SENTENCE_SHARE,
        "largest share of sentences that are copies of earlier ones: beyond .5 they are most of the corpus; tests count copies once, so \
            labels stay firm",
    ),
    Threshold::count(
        "health_units",
        ("sampling units", MIN_BLOCKS_FOR_TEST as u64),
        "fewest sampling units: fewer than 10 have no test, so no label is firm anyway",
    ),
];

/// Check of the input. If several checks fail, the first one explains the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthId {
    /// Share of sentences with residues or k-mers that the tokenizer did not part.
    Unparted,
    /// Share of letters in scripts in which the vocabulary has no words.
    ForeignScript,
    /// Share of words whose capitals are lower-cased although the vocabulary is cased.
    LowerCased,
    /// Share of unknown tokens among the tokens of text.
    UnknownTokens,
    /// Mean number of tokens per word. If words are longer on average than entries of the vocabulary, the mean is per stretch
    /// of text as long as a mean entry.
    TokensPerWord,
    /// Share of sentences with one token of text.
    OneTokenSentences,
    /// Share of the sentences read that were left out.
    Skipped,
    /// Share of the sentences read that are copies of earlier ones.
    Repeated,
    /// Number of different sampling units.
    Units,
}

impl HealthId {
    pub const ALL: [Self; 9] = [
        Self::Unparted,
        Self::ForeignScript,
        Self::LowerCased,
        Self::UnknownTokens,
        Self::TokensPerWord,
        Self::OneTokenSentences,
        Self::Skipped,
        Self::Repeated,
        Self::Units,
    ];

    /// The threshold of the check, as a number of the label policy.
    pub fn threshold(self) -> &'static Threshold {
        &THRESHOLDS[self as usize]
    }

    /// Whether a failure of this check keeps every label from being firm. Failures of `Repeated` and `Units` do not, since
    /// block tests already account for repeated sentences and few sampling units.
    pub fn affects_firmness(self) -> bool {
        !matches!(self, Self::Repeated | Self::Units)
    }
}

/// Outcome of one check of the input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// Name of the check.
    pub id: HealthId,
    /// Number that the check compares with `threshold`; null where there was nothing to count.
    #[schemars(range(min = 0))]
    pub value: Option<f64>,
    /// Largest value that does not fail; for `units` the smallest. It is a threshold of the policy.
    #[schemars(range(min = 0))]
    pub threshold: f64,
    /// Whether the check fails: `value` is beyond `threshold`.
    pub fails: bool,
}

/// All checks of whether the model could read the corpus. If several fail, the first one explains the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health(pub Vec<HealthCheck>);

impl Health {
    /// Computes each check from its `value`, in the order of [`HealthId::ALL`], and judges it by `policy`.
    pub fn new(value: impl Fn(HealthId) -> Option<f64>, policy: &Policy) -> Self {
        let check = |id: HealthId| HealthCheck { id, value: value(id), threshold: 0.0, fails: false };
        let mut health = Self(HealthId::ALL.map(check).into());
        health.judge(policy);
        health
    }

    /// Sets for each check whether it fails, by its threshold in `policy`.
    pub fn judge(&mut self, policy: &Policy) {
        for HealthCheck { id, value, threshold, fails } in &mut self.0 {
            *threshold = policy.share(id.threshold());
            *fails = value.is_some_and(|value| match id {
                HealthId::Units => value < *threshold,
                _ => value > *threshold,
            });
        }
    }

    pub fn failing_checks(&self) -> impl Iterator<Item = &HealthCheck> {
        self.0.iter().filter(|check| check.fails)
    }

    /// Failing checks whose failure keeps every label from being firm.
    pub fn failing_reading_checks(&self) -> impl Iterator<Item = &HealthCheck> {
        self.failing_checks().filter(|check| check.id.affects_firmness())
    }

    /// Whether the model could read the corpus: true unless a check fails that
    /// [decides](HealthId::affects_firmness) on firmness.
    pub fn could_read_text(&self) -> bool {
        self.failing_reading_checks().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(failing: &[HealthId]) -> Health {
        let value = |id: HealthId| {
            let policy = Policy::with_defaults(HealthId::ALL.map(HealthId::threshold));
            let limit = policy.share(id.threshold());
            let beyond = if id == HealthId::Units { limit - 1.0 } else { limit + 0.01 };
            Some(if failing.contains(&id) { beyond } else { limit })
        };
        Health::new(value, &Policy::with_defaults(HealthId::ALL.map(HealthId::threshold)))
    }

    #[test]
    fn every_check_fails_beyond_its_threshold_and_not_at_it() {
        assert!(health(&[]).failing_checks().next().is_none());
        for id in HealthId::ALL {
            let health = health(&[id]);
            assert_eq!(health.failing_checks().map(|check| check.id).collect::<Vec<_>>(), [id]);
            assert_eq!(health.could_read_text(), matches!(id, HealthId::Repeated | HealthId::Units), "{id:?}");
        }
    }

    #[test]
    fn every_check_has_the_threshold_of_its_name() {
        for (place, id) in HealthId::ALL.into_iter().enumerate() {
            assert_eq!(id as usize, place);
            let name = serde_json::to_value(id).unwrap();
            assert_eq!(id.threshold().name, format!("health_{}", name.as_str().unwrap()));
        }
    }

    #[test]
    fn another_policy_judges_the_same_values() {
        let mut health = health(&[HealthId::UnknownTokens]);
        let policy = Policy::with_defaults(HealthId::ALL.map(HealthId::threshold));
        health.judge(
            &policy.clone().with_values([("health_unknown_tokens", crate::study::labels::policy::Value::Share(1.0))]),
        );
        assert!(health.could_read_text());
        health.judge(&policy);
        assert!(!health.could_read_text());
        // Nothing to count, nothing fails.
        assert!(Health::new(|_| None, &policy).failing_checks().next().is_none());
    }
}
