//! The preset `clark2019`: the published analysis of Clark et al. 2019 as its released code does it, quirks included.
//!
//! The study packs sequences ([`pairs`](crate::sequences::derived::pairs)) and defines metrics ([`tokens`], [`syntax`],
//! [`distances`]) differently from all other studies. docs/methodology/presets.md lists the differences.

pub mod distances;
pub mod syntax;
pub mod tokens;

use std::cmp::Reverse;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::corpus::relation::{POOLED_RELATION, PUNCTUATION_RELATION};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::pass::{Pass, Sequences};
use crate::sequences::derived::pairs::MAX_PAIR_TOKENS;
use crate::stats::exact::ExactSum;
use crate::study::labels::evidence::Direction;
use crate::study::section::{Section, View, ViewContext, stored};
use crate::study::show::wording::serialized_name;
use crate::study::{Card, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Subject};
use crate::system::counts::plural;
use distances::{Distances, HeadDistances};
use syntax::{OFFSETS, RelationHits, SyntaxHits};
use tokens::{Means, TokenMeans};

pub struct Clark2019;

const SENTENCE_PAIRS: Sequences = Sequences::Pairs { max_tokens: MAX_PAIR_TOKENS };

impl Study for Clark2019 {
    type Section = Findings;

    const CARD: Card = Card {
        name: "clark2019",
        question: "What does the analysis of Clark et al. 2019 find, as its released code does it?",
        needs: "any corpus, read twice; its relations need dependency trees",
        needs_language: true,
        decoder_refusal: Some("is not made for pairs of texts between separators, which the study looks at"),
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let tokens = |subject: &Subject<'_>| {
            let marks = [".", ","].into_iter().filter_map(subject.token_id).collect();
            TokenMeans::new(subject.grid, marks)
        };
        let pairs = Pass { sequences: SENTENCE_PAIRS, ..Pass::PLAIN };
        vec![
            PassSpec::new(pairs.clone(), tokens),
            PassSpec::new(Pass::PLAIN, |subject| SyntaxHits::new(subject.grid)),
            PassSpec::new(pairs, |subject| HeadDistances::new(subject.grid)),
        ]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let (tokens, syntax) = (observed.first_sums::<TokenMeans>(), observed.first_sums::<SyntaxHits>());
        let distances = observed.first_sums::<HeadDistances>().distances();
        let findings = Findings::new(context.grid, tokens, syntax, (distances, observed.left_out_sentences()));
        (Estimates::without_metrics(context.grid.head_count()), findings)
    }
}

stored!(Findings as clark2019);

impl Section for Findings {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        let counts = self.heads.iter().filter_map(|head| head.label).sorted().dedup_with_count();
        let counts = counts.map(|(count, label)| format!("{} {count}", serialized_name(&label))).join(", ");
        let counts = if counts.is_empty() { "no labels".to_owned() } else { counts };
        let pairs = plural(&self.sequences, "pair", "pairs");
        View::from_summary(format!("Preset clark2019, heads over {} {pairs} of segments: {counts}\n", self.sequences))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let lists_every_head = grid.equals_all_heads(self.heads.iter().map(|head| head.place));
        (!lists_every_head).then(|| "`clark2019` does not list every head".to_owned())
    }
}

/// Mean attention to the next or the previous token above which a head gets the label `next` or `previous`.
const POSITION_THRESHOLD: f64 = 0.5;

/// Mean entropy in nats above which a head gets the label `broad`.
const ENTROPY_THRESHOLD: f64 = 3.8;

/// Mean attention to `[CLS]`, to `[SEP]`, or to `.` and `,` above which a head gets the label `cls`, `sep` or `punct`.
const SPECIAL_TOKEN_THRESHOLD: f64 = 0.6;

/// Minimum number of words of a relation in the published table.
const MIN_WORDS: u64 = 100;

/// Results of the preset `clark2019`: labels of attention heads, relations and distances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    /// Number of sequences `[CLS] A [SEP] B [SEP]`.
    pub sequences: u64,
    /// Number of tokens in all sequences.
    pub tokens: u64,
    /// Number of sentences that are in no sequence: a sequence needs two.
    pub dropped: u64,
    /// Mean entropy of uniform attention over the sequences, in nats; null without sequences.
    pub uniform_entropy: Option<f64>,
    /// Label and means of each attention head, layer by layer.
    pub heads: Vec<ClarkHead>,
    /// Best attention head and best offset of each relation of the published table: `all` first, then by falling count.
    pub relations: Vec<ClarkRelation>,
    /// Distances of all pairs of attention heads; null in reports of earlier versions.
    #[serde(default)]
    pub distances: Option<Distances>,
}

/// Label and means of one attention head by the formulas of the released notebook. The means are null without sequences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClarkHead {
    /// The attention head, by layer and number in the layer.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Last label that fits, in the order next, previous, broad, cls, sep, punct; null if none fits.
    pub label: Option<ClarkLabel>,
    /// Mean attention and entropy over all sequences.
    #[serde(flatten)]
    pub means: Means<Option<f64>>,
}

/// Label of an attention head by the rules of the released notebook of Clark et al. 2019.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClarkLabel {
    /// Mean attention to the next token is above 0.5.
    Next,
    /// Mean attention to the previous token is above 0.5.
    Previous,
    /// Mean entropy is above 3.8 nats.
    Broad,
    /// Mean attention to `[CLS]` is above 0.6.
    Cls,
    /// Mean attention to `[SEP]` is above 0.6.
    Sep,
    /// Mean attention to `.` and `,` is above 0.6.
    Punct,
}

/// Best attention head and best offset of one relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClarkRelation {
    /// Name of the relation in the corpus, or `all` for every word.
    pub relation: String,
    /// Number of words with this relation.
    pub count: u64,
    /// Attention head with the highest accuracy; among equals the last, by layer, head and direction.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Direction in which the best attention head predicts.
    pub direction: Direction,
    /// Accuracy of the best attention head, on the words on which it was chosen.
    pub accuracy: f64,
    /// Most accurate offset of -3 to 2 words; among equals the largest.
    pub offset: i32,
    /// Accuracy of the best offset.
    pub offset_accuracy: f64,
}

impl Findings {
    /// Computes means from the sums, and labels the attention heads.
    fn new(grid: HeadGrid, tokens: &TokenMeans, syntax: &SyntaxHits, (distances, dropped): (Distances, u64)) -> Self {
        let TokenMeans { sequences, tokens, uniform_entropy, heads, .. } = tokens;
        let mean = |sum: f64| (*sequences > 0).then_some(sum / *sequences as f64);
        let head = |(place, sums): (usize, &Means<ExactSum>)| {
            let means = sums.map(|sum| mean(sum.value()));
            ClarkHead { place: grid.head_place(place), label: clark_label(&means), means }
        };
        Self {
            sequences: *sequences,
            tokens: *tokens,
            dropped,
            uniform_entropy: mean(uniform_entropy.value()),
            heads: heads.iter().enumerate().map(head).collect(),
            relations: best_by_relation(grid, syntax),
            distances: Some(distances),
        }
    }
}

/// Label of an attention head by the rules of the notebook; the last rule that fits decides. `None` if no rule
/// fits.
fn clark_label(means: &Means<Option<f64>>) -> Option<ClarkLabel> {
    let rules = [
        (ClarkLabel::Next, means.next, POSITION_THRESHOLD),
        (ClarkLabel::Previous, means.previous, POSITION_THRESHOLD),
        (ClarkLabel::Broad, means.entropy, ENTROPY_THRESHOLD),
        (ClarkLabel::Cls, means.cls, SPECIAL_TOKEN_THRESHOLD),
        (ClarkLabel::Sep, means.sep, SPECIAL_TOKEN_THRESHOLD),
        (ClarkLabel::Punct, means.punct, SPECIAL_TOKEN_THRESHOLD),
    ];
    let fits = |(_, mean, threshold): &(ClarkLabel, Option<f64>, f64)| mean.is_some_and(|mean| mean > *threshold);
    rules.into_iter().rfind(fits).map(|(label, ..)| label)
}

/// Best attention head and best offset of each relation.
fn best_by_relation(grid: HeadGrid, syntax: &SyntaxHits) -> Vec<ClarkRelation> {
    let is_in_table = |(name, sums): &(&String, &RelationHits)| {
        *name == POOLED_RELATION || (*name != "root" && *name != PUNCTUATION_RELATION && sums.count >= MIN_WORDS)
    };
    let mut relations: Vec<(&String, &RelationHits)> = syntax.relations.iter().filter(is_in_table).collect();
    relations.sort_by_key(|(name, sums)| (*name != POOLED_RELATION, Reverse(sums.count)));
    let relation = |(name, sums): (&String, &RelationHits)| {
        let cells = sums.hits.iter().enumerate().flat_map(|(place, hits)| [(hits[0], place, 0), (hits[1], place, 1)]);
        let (hits, place, direction) = cells.max().unwrap_or_default();
        let (offset_hits, offset) = sums.offset_hits.into_iter().zip(OFFSETS).max().unwrap_or_default();
        let share = |hits: u64| hits as f64 / sums.count as f64;
        ClarkRelation {
            relation: name.clone(),
            count: sums.count,
            place: grid.head_place(place),
            direction: Direction::BOTH[direction],
            accuracy: share(hits),
            offset,
            offset_accuracy: share(offset_hits),
        }
    };
    relations.into_iter().map(relation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rules_override_earlier_ones() {
        let none = Means::default();
        assert_eq!(clark_label(&none), None);
        let next = Means { next: Some(0.51), previous: Some(0.5), entropy: Some(3.8), ..none };
        assert_eq!(clark_label(&next), Some(ClarkLabel::Next));
        let broad = Means { entropy: Some(3.9), ..next };
        assert_eq!(clark_label(&broad), Some(ClarkLabel::Broad));
        let sep = Means { cls: Some(0.7), sep: Some(0.61), punct: Some(0.6), ..broad };
        assert_eq!(clark_label(&sep), Some(ClarkLabel::Sep));
        assert_eq!(clark_label(&Means { punct: Some(0.7), ..sep }), Some(ClarkLabel::Punct));
    }

    #[test]
    fn ties_go_to_the_last() {
        let grid = HeadGrid { layers: 1, heads: 2 };
        let mut syntax = SyntaxHits::new(grid);
        let relation =
            |count: u64| RelationHits { count, offset_hits: [3, 9, 0, 9, 0, 0], hits: vec![[5, 60], [60, 2]] };
        for (name, count) in [("all", 300), ("obj", 100), ("nsubj", 120), ("rare", 99), ("root", 200), ("punct", 200)] {
            syntax.relations.insert(name.to_owned(), relation(count));
        }
        let found = best_by_relation(grid, &syntax);
        assert_eq!(found.iter().map(|found| found.relation.as_str()).collect::<Vec<_>>(), ["all", "nsubj", "obj"]);
        let obj = &found[2];
        assert_eq!((obj.place.head, obj.direction, obj.accuracy), (1, Direction::DependentToHead, 0.6));
        assert_eq!((obj.offset, obj.offset_accuracy), (0, 0.09));
    }
}
