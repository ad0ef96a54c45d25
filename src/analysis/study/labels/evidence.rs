//! Evidence for labels that several studies share: tests, directions, and comparisons with baselines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::policy::{Policy, Threshold};
use crate::stats::interval::Interval;
use crate::study::metrics::metric::Denominator;

pub const MIN_QUERIES: Threshold = Threshold::count(
    "min_queries",
    ("queries", 100),
    "fewest eligible queries of any label but the syntactic ones, which have `syntactic_min_count`: with 100 the \
        standard error of a share is at most 5 points",
);

pub const MIN_SENTENCES: Threshold = Threshold::count(
    "min_sentences",
    ("sentences", 30),
    "fewest sentences with what a label rests on, the first of each family alone: a number of fewer than 10 blocks \
        has no test",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvidenceGap {
    /// The label rests on this number of sentences, which is below [`MIN_SENTENCES`].
    Sentences(u64),
    /// The label rests on this number of queries, which is below [`MIN_QUERIES`].
    Queries(u64),
}

impl EvidenceGap {
    pub fn find(rests_on: &Denominator, policy: &Policy) -> Option<Self> {
        let Denominator { count, sentences, .. } = *rests_on;
        if sentences < policy.count(&MIN_SENTENCES) {
            return Some(Self::Sentences(sentences));
        }
        (count < policy.count(&MIN_QUERIES)).then_some(Self::Queries(count))
    }

    /// The count that is too small, its noun as `[singular, plural]`, and the threshold that it misses.
    pub fn count_and_threshold(self) -> (u64, [&'static str; 2], &'static Threshold) {
        match self {
            Self::Sentences(count) => (count, ["sentence", "sentences"], &MIN_SENTENCES),
            Self::Queries(count) => (count, ["query", "queries"], &MIN_QUERIES),
        }
    }
}

pub const LABEL_Q: Threshold = Threshold::rule(
    "label_q",
    0.05,
    "largest q-value of a firm label, and of every other verdict (all heads' scores above the threshold of a label are one \
        family): the rate of false discoveries among them; if off, a label is firm where its interval is above its \
        threshold",
);

/// Block test of whether the score of a label is above its threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MarginTest {
    /// Standard error of the score, by leaving out one block at a time; null where fewer than 10 blocks have a denominator.
    pub standard_error: Option<f64>,
    /// One-sided p-value for the score being above the threshold. If all of several conditions must hold, it is the largest of
    /// their p-values. If one of two alternatives suffices, it is twice the smaller. Null where there is no standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value of the score: twice `p`, corrected by Benjamini & Hochberg over all labels of this kind with scores above their
    /// thresholds. Null where this score is not above.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

/// Test of whether the model uses the arcs that an attention head is labelled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UseTest {
    /// Number of arcs tested. The query word was masked and its partner (the other end) was not, in a sentence with a third
    /// word.
    pub arcs: u64,
    /// Number of blocks with a tested arc.
    pub blocks: usize,
    /// Mean increase of the query word's loss, in nats, when the attention head's weights on two words are exchanged. They are
    /// the partner, and the word whose distance is nearest to the partner's. The weights on words other than query and partner
    /// are first permuted at random, with and without the exchange. Null without a tested arc.
    #[serde(rename = "loss_effect")]
    pub loss: Option<f64>,
    /// 95 % interval of `loss_effect`.
    pub ci95: Option<Interval>,
    /// Standard error of `loss_effect`, by leaving out one block at a time; null where fewer than 10 blocks have a tested arc,
    /// or their numbers of arcs are very unequal.
    pub standard_error: Option<f64>,
    /// One-sided p-value for `loss_effect` being above 0; null where there is no standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value of `loss_effect`, corrected by Benjamini & Hochberg over all labels whose `loss_effect` is above 0. `p` is
    /// doubled first, since effects not above 0 are left out. Null for such effects, and where there are too few arcs.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// Whether `loss_effect` is above 0 with a q-value of at most `settings.policy.label_q`; null where it was not tested.
    pub used: Option<bool>,
    /// Effect on the loss of the arcs that are not at the relation's best offset.
    pub off_offset: UseOffOffset,
}

/// Effect on the loss of the arcs of a syntactic label that are not at the relation's best offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UseOffOffset {
    /// Number of arcs that are not at the best offset.
    pub arcs: u64,
    /// Mean increase of the loss over the arcs that are not at the best offset, in nats; null without an arc.
    #[serde(rename = "loss_effect")]
    pub loss: Option<f64>,
    /// 95 % interval of `loss_effect`; null where fewer than 10 blocks have an arc that is not at the best offset.
    pub ci95: Option<Interval>,
}

/// Direction of a prediction: which end of an arc or link is the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Direction {
    /// The dependent is the query: its most attended word is the predicted syntactic head.
    #[serde(rename = "dep->head")]
    DependentToHead,
    /// The syntactic head is the query: the word that attends most to the dependent is the predicted syntactic head.
    #[serde(rename = "head->dep")]
    HeadToDependent,
    /// The source of a link is the query: its most attended candidate is the predicted target.
    #[serde(rename = "from")]
    From,
    /// The target of a link is the query: the candidate that attends most to the source is the predicted target.
    #[serde(rename = "to")]
    To,
}

impl Direction {
    /// Both directions of dependency arcs. Pairs of numbers in sums and reports have this order.
    pub const BOTH: [Self; 2] = [Self::DependentToHead, Self::HeadToDependent];

    /// Both directions of links. Pairs of numbers in sums and reports have this order.
    pub const BOTH_OF_LINKS: [Self; 2] = [Self::From, Self::To];

    /// Whether the query is the end whose partner is predicted: the dependent of an arc, or the source of a link.
    pub fn is_forward(self) -> bool {
        matches!(self, Self::DependentToHead | Self::From)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::DependentToHead => "dep->head",
            Self::HeadToDependent => "head->dep",
            Self::From => "from",
            Self::To => "to",
        }
    }
}

/// The side of a word on which another word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Before the word.
    Left,
    /// After the word.
    Right,
}

impl Side {
    /// Both sides. Pairs of numbers by side have this order.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }

    /// The side of `word` on which `other` stands.
    pub fn from_positions(other: usize, word: usize) -> Self {
        if other < word { Self::Left } else { Self::Right }
    }
}

/// A value for each [`Direction`] of dependency arcs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByDirection<T> {
    /// Value for the direction in which the dependent is the query.
    #[serde(rename = "dep->head")]
    pub dependent_to_head: T,
    /// Value for the direction in which the syntactic head is the query.
    #[serde(rename = "head->dep")]
    pub head_to_dependent: T,
}

impl<T> ByDirection<T> {
    pub fn get(&self, direction: Direction) -> &T {
        if direction.is_forward() { &self.dependent_to_head } else { &self.head_to_dependent }
    }

    pub fn get_mut(&mut self, direction: Direction) -> &mut T {
        if direction.is_forward() { &mut self.dependent_to_head } else { &mut self.head_to_dependent }
    }

    /// Mutable references to the values of both directions, in the order of [`Direction::BOTH`].
    pub fn both_mut(&mut self) -> [&mut T; 2] {
        [&mut self.dependent_to_head, &mut self.head_to_dependent]
    }

    /// Computes the value of each direction; `value` is given its index in [`Direction::BOTH`].
    pub fn new(mut value: impl FnMut(usize) -> T) -> Self {
        Self { dependent_to_head: value(0), head_to_dependent: value(1) }
    }
}

impl<T> ByDirection<Option<T>> {
    pub fn is_null(&self) -> bool {
        self.dependent_to_head.is_none() && self.head_to_dependent.is_none()
    }
}

/// Comparison of an attention head with the best fixed offset of a relation, on the same words. A head less accurate than the
/// offset gets no label by any policy. Rounded reports (without `--digits 17`) have only `difference` and `ci95` for such a
/// head, unless it is the best for the relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Accuracy of the attention head less the accuracy of the offset.
    #[schemars(range(min = -1, max = 1))]
    pub difference: f64,
    /// 95 % interval of `difference`; null where fewer than 10 blocks have a word of the relation.
    pub ci95: Option<Interval>,
    /// Standard error of `difference`, by leaving out one block at a time; null where fewer than 10 blocks have a scored word.
    #[serde(default)]
    pub standard_error: Option<f64>,
    /// Number of words on which the attention head alone is right, counting only the first sentence of a sentence family.
    #[serde(default)]
    pub head_only: Option<u64>,
    /// Number of words on which the offset alone is right, counting only the first sentence of a sentence family.
    #[serde(default)]
    pub offset_only: Option<u64>,
    /// Exact one-sided McNemar test: the probability of `head_only` or more words if head and offset were equally good and words
    /// independent. It decides nothing.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub mcnemar_p: Option<f64>,
    /// One-sided p-value (block test) for `difference` above `settings.policy.syntactic_margin`; null without a standard error.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value of `difference`: twice `p`, corrected by Benjamini & Hochberg over all heads, directions and relations with a
    /// difference above the margin. Null for other differences, and where the relation has too few words to be tested.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

/// A comparison in the form that a report stores: complete, or only the difference and its interval.
#[derive(Serialize)]
#[serde(untagged)]
enum SavedComparison<'a> {
    Whole(&'a Comparison),
    Difference { difference: f64, ci95: Option<Interval> },
}

/// Serializes a head's comparisons. A comparison without word counts is written as its difference and interval
/// alone.
pub fn write_comparisons<S: Serializer>(
    comparisons: &ByDirection<Option<Comparison>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let saved = |place: usize| comparisons.get(Direction::BOTH[place]).as_ref().map(Comparison::to_saved);
    ByDirection::new(saved).serialize(serializer)
}

impl Comparison {
    fn to_saved(&self) -> SavedComparison<'_> {
        let &Self { difference, ci95, .. } = self;
        match self.head_only {
            Some(_) => SavedComparison::Whole(self),
            None => SavedComparison::Difference { difference, ci95 },
        }
    }

    /// A comparison with only a difference and its interval.
    pub fn from_difference(difference: f64, ci95: Option<Interval>) -> Self {
        Self { difference, ci95, ..Self::default() }
    }
}

/// Comparison of an attention head with the word-class baseline of a relation (the best tags), on the same words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TagComparison {
    /// Accuracy of the attention head less the accuracy of the word-class baseline.
    #[schemars(range(min = -1, max = 1))]
    pub difference: f64,
    /// 95 % interval of `difference`; null where fewer than 10 blocks have a word of the relation.
    pub ci95: Option<Interval>,
    /// Standard error of `difference`, by leaving out one block at a time; null where fewer than 10 blocks have a scored word.
    pub standard_error: Option<f64>,
    /// Number of words on which the attention head alone is right.
    pub head_only: u64,
    /// Number of words on which the word-class baseline alone is right.
    pub tags_only: u64,
    /// Accuracy of the attention head less that of the better baseline: word classes or best fixed offset.
    #[serde(default)]
    #[schemars(range(min = -1, max = 1))]
    pub lead: f64,
    /// 95 % interval of `lead`; null where `ci95` is null.
    #[serde(default)]
    pub lead_ci95: Option<Interval>,
    /// One-sided p-value (block test) for `lead` above `settings.policy.syntactic_beyond_margin`; null without a standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value of `lead`: twice `p`, corrected by Benjamini & Hochberg over all heads, directions and relations with a `lead`
    /// above the margin. Null for other leads, and where the relation has too few words to be tested.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

/// Accuracy of an attention head on the arcs of a relation, less its accuracy on the other arcs of the same sentences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Specificity {
    /// `sum n (a - b) / sum n` over sentences with arcs of the relation and other arcs: `n` arcs of the relation in a sentence,
    /// `a` the head's accuracy on them, `b` its accuracy on the other arcs.
    #[schemars(range(min = -1, max = 1))]
    pub difference: f64,
    /// 95 % interval of `difference`; null where fewer than 10 blocks have a sentence with arcs of the relation and other arcs.
    pub ci95: Option<Interval>,
    /// Standard error of `difference`, by leaving out one block at a time; null where `ci95` is null.
    pub standard_error: Option<f64>,
    /// One-sided p-value (block test) for `difference` above `settings.policy.syntactic_specific_margin`; null without a standard
    /// error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value of `difference`: twice `p`, corrected by Benjamini & Hochberg over all syntactic labels, firm or borderline, with
    /// a difference above the margin. Null for other labels.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

/// Strongest baseline that a label beats. The steps of a syntactic label are `offset`, `relation` and `tags`; the steps of a
/// link label are `place`, `class` and `all`. Each step includes the steps before it, but the relation `all` has no step
/// `relation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// The attention head is more accurate than the best fixed offset.
    Offset,
    /// The attention head is also more accurate on this relation than on other arcs of the same sentences.
    Relation,
    /// The attention head is also more accurate than the word-class baseline.
    Tags,
    /// The attention head is more accurate than every rule of position, and than chance.
    Place,
    /// The attention head is also more accurate than the rules that choose a word of the source word's class.
    Class,
    /// The attention head is also more accurate than all other rules.
    All,
}

impl Reach {
    pub fn noun_phrase(self) -> &'static str {
        match self {
            Self::Offset => "beyond the offset",
            Self::Relation => "beyond other arcs",
            Self::Tags => "beyond word classes",
            Self::Place => "beyond rules of place",
            Self::Class => "beyond rules of the same class",
            Self::All => "beyond every rule",
        }
    }
}
