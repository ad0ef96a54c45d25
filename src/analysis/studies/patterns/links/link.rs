//! Report entries for one type of links: how well attention heads, and rules without attention, find the targets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::HeadPlace;
use crate::stats::block_test::{Estimate, Jackknife, Scale};
use crate::stats::blocks::BLOCKS;
use crate::stats::interval::Interval;
use crate::study::labels::evidence::{Direction, Reach, Side};
use crate::study::labels::{Policy, Threshold, ThresholdBound};
use crate::study::metrics::metric::Denominator;
use crate::study::show::wording::{percent, plus_minus_percent, special_token_note};
use crate::system::counts::format_count;
use crate::system::printable::one_line;

pub const MARGIN: Threshold = Threshold::rule(
    "link_margin",
    0.1,
    "smallest accuracy above every rule of place of a label of links, as a share; that of syntactic labels, Voita et al. 2019, \
        section 5.2",
);

pub const BEATEN_RULES_MARGIN: Threshold = Threshold::share(
    "link_beyond_margin",
    0.02,
    "smallest accuracy above every rule of a label of links that is beyond them, as a share; that of syntactic labels",
);

/// Accuracies of attention heads and rules in finding the targets of one type of links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkMetrics {
    /// Name of the type of links.
    #[serde(rename = "type")]
    pub name: String,
    /// Whether each link of the type counts in both directions.
    pub undirected: bool,
    /// Side of the source on which the target stands, in a decoder. Absent in encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Side")]
    pub side: Option<Side>,
    /// Number of scored sources, the words that links start from.
    pub count: u64,
    /// Number of sentences with a scored source, one per group of related sentences.
    pub sentences: u64,
    /// Number of blocks of sentences with a scored source.
    #[schemars(range(max = BLOCKS))]
    pub blocks: usize,
    /// Equivalent number of blocks of equal size: `(sum n)² / sum n²` over blocks, `n` the scored sources of each.
    #[schemars(range(min = 0, max = BLOCKS))]
    pub effective_blocks: f64,
    /// Number of links not scored because their targets are not candidates.
    pub out_of_sight: u64,
    /// Number of sources not scored because none of their candidates is a target, or all are.
    pub no_choice: u64,
    /// Attention head with the highest accuracy on all data.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Direction in which the best attention head is most accurate.
    pub direction: Direction,
    /// Accuracy of the best attention head on all data. Biased upwards, since the head was chosen on these data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of attention heads chosen on one half of the sentences and scored on the other, pooled. Null if a half has no
    /// source.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// Chance level of the accuracy: mean over sources of targets / candidates.
    #[schemars(range(min = 0, max = 1))]
    pub chance: f64,
    /// Chance level of `mass`: mean weight of uniform attention on targets. Null if no source is scored in the direction `from`.
    pub mass_chance: Option<f64>,
    /// Best rule of the group `place`: by positions alone, or by chance.
    pub by_place: BestRule,
    /// Best rule of the group `same-class`, which takes a candidate of the source's class.
    pub by_class: BestRule,
    /// Best rules "nearest candidate of this class on this side", one for each class of source. Null if words have no classes.
    pub by_class_rules: Option<BestRule>,
    /// 95 % intervals of the best attention head's accuracies.
    pub ci95: LinkIntervals,
    /// Denominator of `among_class`: sources for which some, but not all, candidates of the source's class are targets.
    pub with_class: Denominator,
    /// Chance level of `among_class`: mean share of targets among candidates of the source's class. Null if `with_class.count`
    /// is 0.
    #[schemars(range(min = 0, max = 1))]
    pub class_chance: Option<f64>,
    /// Denominator of `same_places`: sources in a sentence that follows an unrelated sentence of similar length (within a
    /// tenth). 0 if most sentences after an unrelated sentence differ from it in length.
    pub with_neighbour: Denominator,
    /// Pairs over which `precision_at_length` is computed. Null for types with a direction, and in decoders.
    pub pairs: Option<PairCounts>,
    /// Accuracies of all rules, in the order of `leads.*.rules` of each head.
    pub rules: Vec<RuleAccuracy>,
    /// Results of every attention head.
    pub by_head: Vec<HeadLinks>,
}

/// Pairs of words over which `precision_at_length` is computed, with its chance levels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairCounts {
    /// Number of pairs taken: as many in each sentence as it has words, or all if it has fewer pairs.
    pub taken: u64,
    /// Expected share of linked pairs if as many pairs are drawn at random.
    #[schemars(range(min = 0, max = 1))]
    pub chance: f64,
    /// Share of linked pairs if as many pairs are chosen by their separation (distance in words) alone. Separations linked most
    /// often in the other half of the sentences come first. Null if a half has no pair.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub by_separation: Option<f64>,
}

/// Most accurate rule of one group (`place`, `same-class` or `class-rules`), with its accuracy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BestRule {
    /// Name of the rule with the highest accuracy on all data.
    pub rule: String,
    /// Accuracy of `rule` on all data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of the rules chosen on one half of the sentences and scored on the other, pooled. Null if one half has no source.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// 95 % interval of `heldout_accuracy`.
    pub heldout_ci95: Option<Interval>,
}

/// 95 % intervals of the best attention head's accuracies. The chosen heads are treated as fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkIntervals {
    /// Interval of the accuracy of the best attention head on all data.
    pub accuracy: Option<Interval>,
    /// Interval of `heldout_accuracy`: heads are chosen on one half of the sentences and scored on the other.
    pub heldout_accuracy: Option<Interval>,
}

/// Group of rules that find targets, by the facts they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleGroup {
    /// Rules that go by the position of the target alone, or by chance.
    Place,
    /// Rules that take a candidate of the source's class.
    SameClass,
    /// Rules that take the nearest candidate of some class on some side. Class and side depend on the source's class.
    ClassRules,
}

/// Accuracy of one rule that finds targets without attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleAccuracy {
    /// Group of the rule, by the facts it uses.
    pub group: RuleGroup,
    /// Name of the rule.
    pub rule: String,
    /// Share of sources for which the rule is right.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
}

/// A value for each direction of attention on links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByEnd<T> {
    /// Value for attention from the source, which is the query.
    pub from: T,
    /// Value for attention to the source, where the target is the query.
    pub to: T,
}

impl<T> ByEnd<T> {
    /// Computes the value of each direction, in the order of [`Direction::BOTH_OF_LINKS`].
    pub fn new(value: impl FnMut(Direction) -> T) -> Self {
        let [from, to] = Direction::BOTH_OF_LINKS.map(value);
        Self { from, to }
    }

    pub fn get(&self, direction: Direction) -> &T {
        if direction.is_forward() { &self.from } else { &self.to }
    }

    pub fn both_mut(&mut self) -> [&mut T; 2] {
        [&mut self.from, &mut self.to]
    }
}

/// Results of one attention head on one type of links. Null in a direction that is not scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadLinks {
    /// Attention head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Share of sources whose largest attention weight on a candidate is on a target, by direction.
    pub accuracy: ByEnd<Option<f64>>,
    /// 95 % interval of `accuracy`.
    pub ci95: ByEnd<Option<Interval>>,
    /// As `accuracy`, with all words as candidates. Null if the corpus names no candidates.
    pub among_all: ByEnd<Option<f64>>,
    /// As `accuracy`, with only the candidates of the source's class. Null if `with_class.count` is 0.
    pub among_class: ByEnd<Option<f64>>,
    /// As `accuracy` on the sources of `with_neighbour`, but with the head's attention weights at the same positions of the
    /// previous sentence. Null if `with_neighbour.count` is 0.
    pub same_places: ByEnd<Option<f64>>,
    /// Share of sources for which a special token has more weight than every candidate. Null for `to` in decoders.
    pub to_special: ByEnd<Option<f64>>,
    /// Mean attention weight of sources on their targets.
    pub mass: Option<f64>,
    /// 95 % interval of `mass`.
    pub mass_ci95: Option<Interval>,
    /// Value of `mass` expected from the head's preference for offsets alone.
    pub mass_expected: Option<f64>,
    /// Share of linked pairs among the pairs with the largest weights after the average product correction. A sentence of `L`
    /// words has `L` such pairs, or all if it has fewer. Null if `pairs` is.
    pub precision_at_length: Option<f64>,
    /// 95 % interval of `precision_at_length`.
    pub precision_ci95: Option<Interval>,
    /// Accuracy of the attention head minus the accuracy of each rule, with tests.
    pub leads: ByEnd<Option<Leads>>,
    /// Accuracy with each block left out, by direction, for the block test of two analyses.
    #[serde(skip)]
    pub left_out: ByEnd<Option<Jackknife>>,
}

/// Accuracy of one attention head in one direction minus the accuracy of each rule, with tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Leads {
    /// Accuracy of the attention head minus the accuracy of each rule, in the order of `rules` of the type.
    pub rules: Vec<RuleLead>,
    /// Metric `among_class` of the attention head minus its chance level, `class_chance`. Null if `with_class.count` is 0.
    pub among_class: Option<RuleLead>,
    /// Accuracy of the attention head minus `same_places`, on sources of `with_neighbour`. Null if `with_neighbour.count` is 0.
    pub same_places: Option<RuleLead>,
    /// Test that the head's accuracy exceeds each `place` rule's by more than `settings.policy.link_margin`.
    pub over_place: LeadTest,
    /// Test that the head's accuracy exceeds each `same-class` rule's by more than `settings.policy.link_beyond_margin`. With
    /// at least `min_queries` sources in `with_class`, `among_class` must also exceed chance.
    pub over_class: LeadTest,
    /// Test that the head's accuracy exceeds each rule's accuracy and `same_places` by more than
    /// `settings.policy.link_beyond_margin`, and that `among_class` exceeds chance. `same_places` and `among_class`
    /// need at least `min_queries` sources, else they are not tested.
    pub over_all: LeadTest,
}

/// An attention head's lead over a rule or over chance: a difference of two accuracies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleLead {
    /// Accuracy of the attention head minus the accuracy it is compared with.
    #[schemars(range(min = -1, max = 1))]
    pub difference: f64,
    /// Standard error of `difference`, by leaving out one block at a time. Null if fewer than 10 blocks have a source.
    pub standard_error: Option<f64>,
}

impl RuleLead {
    pub fn new(difference: &Jackknife) -> Self {
        Self { difference: difference.value(), standard_error: difference.standard_error() }
    }

    /// Converts the difference to an estimate with the denominator `basis`. `None` without a standard error, or with
    /// too few blocks for a test.
    fn to_estimate(self, basis: Denominator, scale: Scale) -> Option<Estimate> {
        basis.estimate(self.difference, self.standard_error?, scale)
    }
}

/// Intersection-union test that several leads (differences in accuracy) are all above their margins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeadTest {
    /// Smallest of the tested leads over rules and over `same_places`.
    #[schemars(range(min = -1, max = 1))]
    pub difference: f64,
    /// Largest of the one-sided p-values of the leads. Null without a standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value: twice `p`, corrected by Benjamini & Hochberg over all heads, directions and types whose tested leads all reach
    /// their margins. Null for others, and if the type has too few sources to be tested.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

/// Groups of rules that a head with a link label may beat: rules of position, then rules that choose a word of the source's
/// class, then all rules.
pub const LINK_REACHES: [Reach; 3] = [Reach::Place, Reach::Class, Reach::All];

impl Leads {
    /// The test for each of [`LINK_REACHES`].
    pub fn tests_mut(&mut self) -> [&mut LeadTest; LINK_REACHES.len()] {
        [&mut self.over_place, &mut self.over_class, &mut self.over_all]
    }
}

impl LinkMetrics {
    /// Name of the type of links as printed, with the side of the target if it has one.
    pub fn title(&self) -> String {
        let side = self.side.map(|side| format!(" (target on the {})", side.name()));
        self.name.clone() + &side.unwrap_or_default()
    }

    /// Results of the best attention head.
    pub fn best_head(&self) -> Option<&HeadLinks> {
        self.by_head.iter().find(|head| head.place == self.place)
    }

    /// Converts a difference from a rule's accuracy to an estimate. `None` without a standard error, or with too few
    /// blocks for a test.
    pub fn estimate_lead(&self, lead: RuleLead) -> Option<Estimate> {
        let &Self { blocks, effective_blocks, .. } = self;
        let (value, scale) = (lead.difference, Scale::Difference);
        Estimate { value, standard_error: lead.standard_error?, blocks, effective_blocks, scale }.if_testable()
    }

    /// Tests whether an attention head's accuracy exceeds that of each rule in `reach` by the margin. Returns the test, and
    /// whether all differences are large enough.
    ///
    /// Unless `reach` is `Place`, [`Leads::among_class`] must also exceed 0. If `reach` is `All`, [`Leads::same_places`]
    /// must also reach the margin. Both are tested only if they rest on at least `min_count` sources.
    pub fn test_leads(&self, leads: &Leads, reach: Reach, (policy, min_count): (&Policy, u64)) -> (LeadTest, bool) {
        let margin = match reach {
            Reach::Place => policy.rule(&MARGIN).unwrap_or(1.0),
            _ => policy.share(&BEATEN_RULES_MARGIN),
        };
        let is_in = |group: RuleGroup| match reach {
            Reach::Place => group == RuleGroup::Place,
            Reach::Class => group == RuleGroup::SameClass,
            _ => true,
        };
        let (mut p, mut is_above, mut difference) = (Some(0.0_f64), true, 1.0_f64);
        let mut join = |estimate: Option<Estimate>, margin: f64, is_lead_above: bool| {
            p = p.zip(estimate).map(|(p, estimate)| p.max(estimate.p_above(margin)));
            is_above &= is_lead_above;
        };
        let over_rules = self.rules.iter().zip(&leads.rules).filter(|(rule, _)| is_in(rule.group));
        let over_rules = over_rules.map(|(_, &lead)| (lead.difference, self.estimate_lead(lead)));
        let asks_places = reach == Reach::All && self.with_neighbour.count >= min_count;
        let over_places = leads.same_places.filter(|_| asks_places);
        let over_places =
            over_places.map(|lead| (lead.difference, lead.to_estimate(self.with_neighbour, Scale::Difference)));
        for (lead, estimate) in over_rules.chain(over_places) {
            difference = difference.min(lead);
            join(estimate, margin, ThresholdBound::AtLeast.is_met(lead, margin));
        }
        // If few sources have a target of their class, a head that copies the class has no advantage.
        let asks_class = reach != Reach::Place && self.with_class.count >= min_count;
        if let Some(lead) = leads.among_class.filter(|_| asks_class) {
            join(
                lead.to_estimate(self.with_class, Scale::Real),
                0.0,
                ThresholdBound::Above.is_met(lead.difference, 0.0),
            );
        }
        (LeadTest { difference, p, q: None }, is_above)
    }

    /// Returns a sentence on the attention head whose largest weights are on linked pairs most often. `None` if no pairs
    /// are scored: for types with a direction, and in decoders.
    pub fn pairs_line(&self) -> Option<String> {
        let pairs = self.pairs.as_ref()?;
        let precision = |head: &HeadLinks| head.precision_at_length.unwrap_or_default();
        let best =
            self.by_head.iter().reduce(|best, next| if precision(next) > precision(best) { next } else { best })?;
        Some(format!(
            "Links of {}: {}{} % of the pairs with the largest corrected weights of {} (largest of {} on this text), as many as words, \
             are linked; of random pairs {} %, of the separations that are linked most often {} %.",
            one_line(&self.name),
            percent(best.precision_at_length),
            plus_minus_percent(best.precision_ci95),
            best.place,
            format_count(self.by_head.iter().filter(|head| head.precision_at_length.is_some()).count(), "head"),
            percent(Some(pairs.chance)),
            percent(pairs.by_separation),
        ))
    }

    /// Accuracy of the best attention head minus that of the best position rule.
    pub fn lead_over_place_rule(&self) -> f64 {
        self.accuracy - self.by_place.accuracy
    }

    /// Returns a sentence on the best attention head of the type.
    pub fn best_head_line(&self) -> String {
        let Self { count, direction, accuracy, by_place, by_class, by_class_rules, .. } = self;
        let rules = by_class_rules.as_ref().map(|rules| format!(", class rules {}", percent(Some(rules.accuracy))));
        let rules = rules.unwrap_or_default();
        let special = special_token_note(self.best_head().and_then(|head| *head.to_special.get(*direction)));
        let elsewhere = self
            .best_head()
            .and_then(|head| *head.same_places.get(*direction))
            .map(|share| format!(", its own weights at the same places of another sentence {}", percent(Some(share))));
        let elsewhere = elsewhere.unwrap_or_default();
        format!(
            "the best head of links {} ({}): {} % of {}, where the best rule of place ({}) has {} and the best of the same class ({}) \
             {}{rules}{elsewhere}{special}",
            self.title(),
            direction.name(),
            percent(Some(*accuracy)),
            format_count(*count, "source"),
            by_place.rule,
            percent(Some(by_place.accuracy)),
            by_class.rule,
            percent(Some(by_class.accuracy)),
        )
    }
}
