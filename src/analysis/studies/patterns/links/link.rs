//! Report entries for one type of links: how well heads, and rules without a head, find the targets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::HeadPlace;
use crate::stats::block_test::{Estimate, Jackknife, Scale};
use crate::stats::blocks::BLOCKS;
use crate::stats::interval::Interval;
use crate::study::labels::Bound;
use crate::study::labels::evidence::{Direction, Reach, Side};
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::metrics::metric::Denominator;
use crate::study::show::wording::{more_to_special, percent, plus_minus_percent};
use crate::system::counted::counted;
use crate::system::printable::one_line;

pub const MARGIN: Threshold = Threshold::rule(
    "link_margin",
    0.1,
    "smallest accuracy above every rule of place of a label of links, as a share; that of syntactic labels, Voita et al. 2019, \
        section 5.2",
);

pub const BEYOND_MARGIN: Threshold = Threshold::share(
    "link_beyond_margin",
    0.02,
    "smallest accuracy above every rule of a label of links that is beyond them, as a share; that of syntactic labels",
);

/// How well heads and rules find the targets of one type of links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkMetrics {
    /// The type.
    #[serde(rename = "type")]
    pub name: String,
    /// Whether each link counts in both directions.
    pub undirected: bool,
    /// In a decoder, the side of the source on which the target stands; absent in encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Side")]
    pub side: Option<Side>,
    /// Scored sources.
    pub count: u64,
    /// Sentences with a scored source, one per group of related sentences.
    pub sentences: u64,
    /// Blocks with a scored source.
    #[schemars(range(max = BLOCKS))]
    pub blocks: usize,
    /// `(sum n)² / sum n²` over these blocks, `n` the sources of each: the equivalent number of blocks of equal size.
    #[schemars(range(min = 0, max = BLOCKS))]
    pub effective_blocks: f64,
    /// Links that are not scored because their targets are not candidates.
    pub out_of_sight: u64,
    /// Sources that are not scored because none of their candidates is a target, or all are.
    pub no_choice: u64,
    /// The best head on all data.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// The direction in which it is best.
    pub direction: Direction,
    /// Its accuracy on all data: biased upwards, since it was chosen on the same data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of the heads chosen on one half of the sentences and scored on the other, pooled; null where one half has no
    /// such source.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// The mean share of targets among the candidates.
    #[schemars(range(min = 0, max = 1))]
    pub chance: f64,
    /// The weight of even attention on targets; null where no source is scored in the direction `from`.
    pub mass_chance: Option<f64>,
    /// The best rule of place, `chance` among them.
    pub by_place: BestRule,
    /// The best rule that takes a candidate of the source's class.
    pub by_class: BestRule,
    /// The best rules that take the nearest candidate of a class, by the class of the source; null where words have no classes.
    pub by_class_rules: Option<BestRule>,
    /// The 95 % intervals of the best head.
    pub ci95: LinkIntervals,
    /// Sources with targets and other candidates of their class.
    pub with_class: Denominator,
    /// The mean share of targets among the candidates of their class; null without such a source.
    #[schemars(range(min = 0, max = 1))]
    pub class_chance: Option<f64>,
    /// Sources whose sentence is similar in length to the one before it, of another group; 0 unless most sentences are.
    pub with_neighbour: Denominator,
    /// The pairs of `precision_at_length`; null of types with a direction, and in decoders.
    pub pairs: Option<PairCounts>,
    /// All rules, in the order of `leads.*.rules` of each head.
    pub rules: Vec<RuleAccuracy>,
    /// Every head.
    pub by_head: Vec<HeadLinks>,
}

/// The pairs of words that precision is over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairCounts {
    /// Pairs taken: as many in each sentence as it has words.
    pub taken: u64,
    /// The share of linked pairs among equally many drawn at random.
    #[schemars(range(min = 0, max = 1))]
    pub chance: f64,
    /// The share of linked pairs among equally many at the separations that are linked most often in the other half of the
    /// sentences. Null if one half has no pair.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub by_separation: Option<f64>,
}

/// The best rule of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BestRule {
    /// The rule that is best on all data.
    pub rule: String,
    /// Its accuracy on all data.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of the rules chosen on one half of the sentences and scored on the other, pooled.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// Its 95 % interval.
    pub heldout_ci95: Option<Interval>,
}

/// The 95 % intervals of the best head, for the heads as selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkIntervals {
    /// On all data.
    pub accuracy: Option<Interval>,
    /// Heads chosen on the other half.
    pub heldout_accuracy: Option<Interval>,
}

/// The facts that a rule uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleGroup {
    /// The place of the target, or chance.
    Place,
    /// The class of the source.
    SameClass,
    /// The class of the target, chosen by that of the source.
    ClassRules,
}

/// A rule that finds targets without a head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleAccuracy {
    /// The facts that it uses.
    pub group: RuleGroup,
    /// Its name.
    pub rule: String,
    /// How often it is right.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
}

/// A value for each direction of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByEnd<T> {
    /// The source is the query.
    pub from: T,
    /// The target is the query.
    pub to: T,
}

impl<T> ByEnd<T> {
    /// A value for each of [`Direction::OF_LINKS`].
    pub fn new(value: impl FnMut(Direction) -> T) -> Self {
        let [from, to] = Direction::OF_LINKS.map(value);
        Self { from, to }
    }

    pub fn get(&self, direction: Direction) -> &T {
        if direction.is_forward() { &self.from } else { &self.to }
    }

    pub fn both_mut(&mut self) -> [&mut T; 2] {
        [&mut self.from, &mut self.to]
    }
}

/// One head on one type of links; null in a direction that is not scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadLinks {
    /// The head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Share of sources whose largest weight on a candidate is on a target.
    pub accuracy: ByEnd<Option<f64>>,
    /// Its 95 % interval.
    pub ci95: ByEnd<Option<Interval>>,
    /// As `accuracy`, among all words; null where the corpus names no candidates.
    pub among_all: ByEnd<Option<f64>>,
    /// As `accuracy`, among the candidates of the source's class.
    pub among_class: ByEnd<Option<f64>>,
    /// As `accuracy`, by the head's weights at the same places of the sentence before; for the sources of `with_neighbour`.
    pub same_places: ByEnd<Option<f64>>,
    /// Share of sources for which a special token has more weight than every candidate; null for `to` in decoders.
    pub to_special: ByEnd<Option<f64>>,
    /// The mean weight of sources on their targets.
    pub mass: Option<f64>,
    /// Its 95 % interval.
    pub mass_ci95: Option<Interval>,
    /// The mass expected from the head's preference for offsets alone.
    pub mass_expected: Option<f64>,
    /// The share of linked pairs among those with the largest corrected weights, as many as each sentence has words.
    pub precision_at_length: Option<f64>,
    /// Its 95 % interval.
    pub precision_ci95: Option<Interval>,
    /// The head against every rule.
    pub leads: ByEnd<Option<Leads>>,
    /// Accuracy without each block, for the block test of two analyses.
    #[serde(skip)]
    pub left_out: ByEnd<Option<Jackknife>>,
}

/// A head in one direction against every rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Leads {
    /// Its accuracy less that of each rule, in the order of `rules`.
    pub rules: Vec<RuleLead>,
    /// Its accuracy among the candidates of the source's class less chance; null without such a source.
    pub among_class: Option<RuleLead>,
    /// Its accuracy less that by its weights at the same places of the sentence before; null where sentences differ in length.
    pub same_places: Option<RuleLead>,
    /// Whether the least lead over rules of place is above `settings.policy.link_margin`.
    pub over_place: LeadTest,
    /// Whether the least lead over rules of the same class is above `settings.policy.link_beyond_margin`, and the accuracy among
    /// candidates of the class above chance.
    pub over_class: LeadTest,
    /// Whether the least lead over all rules, and over the same places of other sentences, is above
    /// `settings.policy.link_beyond_margin`, and the accuracy among candidates of the class above chance.
    pub over_all: LeadTest,
}

/// The difference of two accuracies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleLead {
    /// The difference.
    #[schemars(range(min = -1, max = 1))]
    pub difference: f64,
    /// Its standard error, by leaving out one block at a time; null where fewer than 10 have a source.
    pub standard_error: Option<f64>,
}

impl RuleLead {
    pub fn of(difference: &Jackknife) -> Self {
        Self { difference: difference.all(), standard_error: difference.standard_error() }
    }

    fn over(self, basis: Denominator, scale: Scale) -> Option<Estimate> {
        basis.estimate(self.difference, self.standard_error?, scale)
    }
}

/// The intersection-union test of several leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeadTest {
    /// The least lead.
    #[schemars(range(min = -1, max = 1))]
    pub difference: f64,
    /// The largest of the one-sided p-values; null where there is no standard error.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// Twice `p` corrected by Benjamini & Hochberg for all heads, directions and types whose leads are all above the margin; null
    /// for others, and where the type has too few sources to be tested.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

/// The steps that a label of links can reach.
pub const REACHES: [Reach; 3] = [Reach::Place, Reach::Class, Reach::All];

impl Leads {
    pub fn over(&self, reach: Reach) -> &LeadTest {
        match reach {
            Reach::All => &self.over_all,
            Reach::Class => &self.over_class,
            _ => &self.over_place,
        }
    }

    pub fn over_mut(&mut self, reach: Reach) -> &mut LeadTest {
        match reach {
            Reach::All => &mut self.over_all,
            Reach::Class => &mut self.over_class,
            _ => &mut self.over_place,
        }
    }
}

impl LinkMetrics {
    /// The name, with the side if there is one.
    pub fn title(&self) -> String {
        let side = self.side.map(|side| format!(" (target on the {})", side.name()));
        self.name.clone() + &side.unwrap_or_default()
    }

    pub fn best(&self) -> Option<&HeadLinks> {
        self.by_head.iter().find(|head| head.place == self.place)
    }

    /// The estimate of a difference of two accuracies; `None` without a standard error, or with too few blocks for a test.
    pub fn estimate(&self, lead: RuleLead) -> Option<Estimate> {
        let &Self { blocks, effective_blocks, .. } = self;
        let (value, scale) = (lead.difference, Scale::Difference);
        Estimate { value, standard_error: lead.standard_error?, blocks, effective_blocks, scale }.testable()
    }

    /// The test of a step, and whether all leads exceed their margins. Class leads are required from `min_count` sources on.
    pub fn test(&self, leads: &Leads, reach: Reach, (policy, min_count): (&Policy, u64)) -> (LeadTest, bool) {
        let margin = match reach {
            Reach::Place => policy.rule(&MARGIN).unwrap_or(1.0),
            _ => policy.share(&BEYOND_MARGIN),
        };
        let is_in = |group: RuleGroup| match reach {
            Reach::Place => group == RuleGroup::Place,
            Reach::Class => group == RuleGroup::SameClass,
            _ => true,
        };
        let mut difference = 1.0_f64;
        let (mut p, mut is_above) = (Some(0.0_f64), true);
        let mut join = |found: Option<Estimate>, margin: f64, holds: bool| {
            p = p.zip(found).map(|(p, found)| p.max(found.p_above(margin)));
            is_above &= holds;
        };
        for (_, &lead) in self.rules.iter().zip(&leads.rules).filter(|(rule, _)| is_in(rule.group)) {
            difference = difference.min(lead.difference);
            join(self.estimate(lead), margin, Bound::AtLeast.holds(lead.difference, margin));
        }
        // If few sources have a target of their class, a head that copies the class has no advantage.
        let asks = reach != Reach::Place && self.with_class.count >= min_count;
        if let Some(lead) = leads.among_class.filter(|_| asks) {
            join(lead.over(self.with_class, Scale::Real), 0.0, Bound::Above.holds(lead.difference, 0.0));
        }
        if let Some(lead) = leads.same_places.filter(|_| reach == Reach::All && self.with_neighbour.count >= min_count)
        {
            difference = difference.min(lead.difference);
            let found = lead.over(self.with_neighbour, Scale::Difference);
            join(found, margin, Bound::AtLeast.holds(lead.difference, margin));
        }
        (LeadTest { difference, p, q: None }, is_above)
    }

    /// A line on the pairs with the largest weights, for the head with the best precision; `None` for directed types.
    pub fn of_pairs(&self) -> Option<String> {
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
            counted(self.by_head.iter().filter(|head| head.precision_at_length.is_some()).count(), "head"),
            percent(Some(pairs.chance)),
            percent(pairs.by_separation),
        ))
    }

    /// The best head's accuracy less that of the best rule of place.
    pub fn lead(&self) -> f64 {
        self.accuracy - self.by_place.accuracy
    }

    pub fn of_best_head(&self) -> String {
        let Self { count, direction, accuracy, by_place, by_class, by_class_rules, .. } = self;
        let rules = by_class_rules
            .as_ref()
            .map_or_else(String::new, |rules| format!(", class rules {}", percent(Some(rules.accuracy))));
        let special = more_to_special(self.best().and_then(|head| *head.to_special.get(*direction)));
        let elsewhere =
            self.best().and_then(|head| *head.same_places.get(*direction)).map_or_else(String::new, |share| {
                format!(", its own weights at the same places of another sentence {}", percent(Some(share)))
            });
        format!(
            "the best head of links {} ({}): {} % of {}, where the best rule of place ({}) has {} and the best of the same class ({}) \
             {}{rules}{elsewhere}{special}",
            self.title(),
            direction.name(),
            percent(Some(*accuracy)),
            counted(*count, "source"),
            by_place.rule,
            percent(Some(by_place.accuracy)),
            by_class.rule,
            percent(Some(by_class.accuracy)),
        )
    }
}
