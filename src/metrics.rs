//! From sums to ratios: each head's metrics, their chance levels, and how well each relation is predicted.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::observe::dependency::{Direction, RelationSums, baseline_offsets};
use crate::observe::exact::ExactSum;
use crate::observe::token::{MAX_OFFSET, OFFSETS, TokenExposure, TokenSums};
use crate::observe::{BLOCKS, BlockSums, HeadGrid, Sums};

/// All that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// The metrics of each head, `[layers * heads]`.
    pub heads: Vec<HeadMetrics>,
    /// What they would be without any preference.
    pub chance: HeadMetrics,
    /// Dependency relations by name.
    pub relations: Vec<RelationMetrics>,
}

/// The metrics of one head, by their ids. `null` where nothing in the corpus was eligible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HeadMetrics {
    /// Mean attention from a token to the token at each offset; -1 is the previous one.
    pub offset_mass: ByOffset,
    /// Share of tokens whose most attended token is at each offset.
    pub offset_argmax: ByOffset,
    /// Mean attention to the two tokens on either side.
    pub window_mass: Option<f64>,
    /// Mean distance in tokens of the attention that stays on text.
    pub mean_distance: Option<f64>,
    /// Mean attention to the first special token (`[CLS]`).
    pub first_special_mass: Option<f64>,
    /// Mean attention to all separators (`[SEP]`).
    pub separator_mass: Option<f64>,
    /// Mean attention of separators to all separators.
    pub separator_self_mass: Option<f64>,
    /// Mean attention to punctuation.
    pub punctuation_mass: Option<f64>,
    /// Mean entropy of a token's attention, in nats.
    pub entropy: Option<f64>,
    /// Entropy as a share of that of uniform attention.
    pub entropy_ratio: Option<f64>,
    /// The same for the first special token's own attention.
    pub first_special_entropy_ratio: Option<f64>,
    /// Mean of the largest weight in a token's attention, separators left out.
    pub confidence: Option<f64>,
    /// Share of gold edges in the maximum spanning tree of the attention.
    pub uuas: Option<f64>,
    /// Share of words whose head is predicted, over all relations but `punct`.
    pub uas: ByDirection<Option<f64>>,
}

impl HeadMetrics {
    /// Every single value in order, named by its keys in the JSON report joined by dots.
    #[must_use]
    pub fn values(&self) -> Vec<(String, Option<f64>)> {
        let offsets = [("offset_mass", &self.offset_mass), ("offset_argmax", &self.offset_argmax)];
        let mut values: Vec<(String, Option<f64>)> = offsets
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |(offset, value)| (format!("{name}.{offset}"), value)))
            .collect();
        let single = [
            ("window_mass", self.window_mass),
            ("mean_distance", self.mean_distance),
            ("first_special_mass", self.first_special_mass),
            ("separator_mass", self.separator_mass),
            ("separator_self_mass", self.separator_self_mass),
            ("punctuation_mass", self.punctuation_mass),
            ("entropy", self.entropy),
            ("entropy_ratio", self.entropy_ratio),
            ("first_special_entropy_ratio", self.first_special_entropy_ratio),
            ("confidence", self.confidence),
            ("uuas", self.uuas),
        ];
        values.extend(single.map(|(name, value)| (name.to_owned(), value)));
        values.extend(Direction::BOTH.map(|direction| (format!("uas.{}", direction.name()), self.uas.get(direction))));
        values
    }
}

/// A value for each offset -8..=8, written as an object keyed `"-8"` to `"8"`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByOffset([Option<f64>; OFFSETS]);

impl ByOffset {
    /// The value at `offset`, if there is one.
    ///
    /// # Panics
    ///
    /// If `offset` is outside -8..=8.
    #[must_use]
    pub fn at(&self, offset: i32) -> Option<f64> {
        let slot = usize::try_from(offset + MAX_OFFSET).expect("an offset from -8");
        self.0[slot]
    }

    /// Sets the value at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is outside -8..=8.
    #[cfg(test)]
    pub fn set(&mut self, offset: i32, value: f64) {
        self.0[usize::try_from(offset + MAX_OFFSET).expect("an offset from -8")] = Some(value);
    }

    /// Offsets and their values, -8 first.
    pub fn iter(&self) -> impl Iterator<Item = (i32, Option<f64>)> {
        (-MAX_OFFSET..).zip(self.0)
    }
}

impl Serialize for ByOffset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(offset, value)| (offset.to_string(), value)))
    }
}

impl JsonSchema for ByOffset {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ByOffset".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let offsets: Vec<String> = Self::default().iter().map(|(offset, _)| offset.to_string()).collect();
        let value = json_schema!({ "type": ["number", "null"] });
        let properties: serde_json::Map<_, _> =
            offsets.iter().map(|offset| (offset.clone(), value.clone().into())).collect();
        json_schema!({
            "description": "A value for each offset in tokens.",
            "type": "object",
            "properties": properties,
            "required": offsets,
            "additionalProperties": false,
        })
    }
}

/// A value for each [`Direction`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByDirection<T> {
    /// The dependent is the query.
    #[serde(rename = "dep->head")]
    pub dependent_to_head: T,
    /// The head is the query.
    #[serde(rename = "head->dep")]
    pub head_to_dependent: T,
}

impl<T: Copy> ByDirection<T> {
    /// The value for `direction`.
    #[must_use]
    pub fn get(&self, direction: Direction) -> T {
        match direction {
            Direction::DependentToHead => self.dependent_to_head,
            Direction::HeadToDependent => self.head_to_dependent,
        }
    }
}

/// How well the heads, and the best fixed offset, predict one relation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RelationMetrics {
    /// Universal Dependencies relation, with subtype if any; `all` pools all but `punct`.
    pub relation: String,
    /// Scored words.
    pub count: u64,
    /// Layer of the best head on all data.
    pub layer: usize,
    /// The best head on all data.
    pub head: usize,
    /// The direction in which it is best.
    pub direction: Direction,
    /// Its accuracy on all data: biased upwards, since it was chosen on the same data.
    pub accuracy: f64,
    /// Accuracy of the heads chosen on one half of the sentences and scored on the other, pooled;
    /// null where one half has no such word.
    pub heldout_accuracy: Option<f64>,
    /// The best fixed offset.
    pub baseline: OffsetBaseline,
    /// The accuracy of every head in both directions.
    pub by_head: Vec<HeadAccuracy>,
}

/// The best rule of the form "the head is the word at `d + offset`".
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OffsetBaseline {
    /// The offset in words that is best on all data.
    pub offset: i32,
    /// Its accuracy on all data.
    pub accuracy: f64,
    /// Accuracy of the offsets chosen on one half of the sentences and scored on the other, pooled.
    pub heldout_accuracy: Option<f64>,
}

/// One head's accuracy on one relation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HeadAccuracy {
    /// Layer.
    pub layer: usize,
    /// Head within the layer.
    pub head: usize,
    /// Accuracy by direction.
    #[serde(flatten)]
    pub accuracy: ByDirection<f64>,
}

impl Measurements {
    /// Divides the sums.
    #[must_use]
    pub fn new(sums: &Sums) -> Self {
        let grid = sums.grid();
        let total = sums.pool(0..BLOCKS);
        // Even and odd sentences: blocks are sentence numbers modulo an even number.
        let folds = [sums.pool((0..BLOCKS).step_by(2)), sums.pool((1..BLOCKS).step_by(2))];
        let relations: Vec<RelationMetrics> = sums
            .relations()
            .iter()
            .map(|(name, &place)| {
                let [even, odd] = folds.each_ref().map(|fold| &fold.relations[place]);
                RelationMetrics::new(name, grid, &total.relations[place], [even, odd])
            })
            .collect();
        let all = relations.iter().find(|relation| relation.relation == crate::observe::dependency::ALL);
        let heads = (0..grid.count())
            .map(|place| {
                let uas = all.map_or(ByDirection::default(), |all| {
                    let ByDirection { dependent_to_head, head_to_dependent } = all.by_head[place].accuracy;
                    ByDirection {
                        dependent_to_head: Some(dependent_to_head),
                        head_to_dependent: Some(head_to_dependent),
                    }
                });
                let uuas = ratio(total.trees.hits[place] as f64, total.trees.edges as f64);
                HeadMetrics { uuas, uas, ..token_metrics(&total.heads[place], &total.exposure) }
            })
            .collect();
        Self { heads, chance: chance(&total), relations }
    }
}

fn token_metrics(sums: &TokenSums<ExactSum>, exposure: &TokenExposure) -> HeadMetrics {
    let queries = exposure.queries as f64;
    let mean = |sum: ExactSum| ratio(sum.value(), queries);
    let by_offset = |sums: &[ExactSum; OFFSETS]| {
        ByOffset(std::array::from_fn(|slot| ratio(sums[slot].value(), exposure.offset_queries[slot] as f64)))
    };
    HeadMetrics {
        offset_mass: by_offset(&sums.offset_mass),
        offset_argmax: by_offset(&sums.offset_argmax),
        window_mass: mean(sums.window_mass),
        mean_distance: ratio(sums.distance.value(), sums.distance_queries.value()),
        first_special_mass: mean(sums.first_special_mass).filter(|_| exposure.first_specials > 0),
        separator_mass: mean(sums.separator_mass).filter(|_| exposure.separators > 0),
        separator_self_mass: ratio(sums.separator_self_mass.value(), exposure.separators as f64),
        punctuation_mass: mean(sums.punctuation_mass),
        entropy: mean(sums.entropy),
        entropy_ratio: ratio(sums.entropy.value(), exposure.max_entropy.value()),
        first_special_entropy_ratio: ratio(
            sums.first_special_entropy.value(),
            exposure.first_special_max_entropy.value(),
        ),
        confidence: mean(sums.confidence),
        ..HeadMetrics::default()
    }
}

/// The chance levels: uniform attention for the token level, the chain of adjacent words for `uuas`.
///
/// The most attended key of uniform attention is any key with equal chance, so the chance of `offset_argmax`
/// is `1/n`, the same number as the uniform `offset_mass`. `uas` has a baseline by offset in `relations`.
fn chance(total: &BlockSums) -> HeadMetrics {
    let uniform = token_metrics(&total.uniform, &total.exposure);
    let exposure = &total.exposure;
    HeadMetrics {
        // By definition; what was summed is off in the eighth digit, since 1/n was rounded to f32.
        entropy: ratio(exposure.max_entropy.value(), exposure.queries as f64),
        entropy_ratio: uniform.entropy_ratio.map(|_| 1.0),
        first_special_entropy_ratio: uniform.first_special_entropy_ratio.map(|_| 1.0),
        offset_argmax: uniform.offset_mass.clone(),
        uuas: ratio(total.trees.chain_hits as f64, total.trees.edges as f64),
        ..uniform
    }
}

impl RelationMetrics {
    fn new(name: &str, grid: HeadGrid, total: &RelationSums, folds: [&RelationSums; 2]) -> Self {
        let (place, direction) = best_head(total);
        let offset = best_offset(total);
        let (layer, head) = grid.at(place);
        let count = total.count as f64;
        let share = |hits: u64| hits as f64 / count;
        let by_head = |(place, hits): (usize, &[u64; 2])| {
            let (layer, head) = grid.at(place);
            let accuracy = ByDirection { dependent_to_head: share(hits[0]), head_to_dependent: share(hits[1]) };
            HeadAccuracy { layer, head, accuracy }
        };
        Self {
            relation: name.to_owned(),
            count: total.count,
            layer,
            head,
            direction: Direction::BOTH[direction],
            accuracy: share(total.hits[place][direction]),
            heldout_accuracy: heldout(folds, |chosen_on, scored_on| {
                let (place, direction) = best_head(chosen_on);
                scored_on.hits[place][direction]
            }),
            baseline: OffsetBaseline {
                offset: offset_at(offset),
                accuracy: share(total.offset_hits[offset]),
                heldout_accuracy: heldout(folds, |chosen_on, scored_on| scored_on.offset_hits[best_offset(chosen_on)]),
            },
            by_head: total.hits.iter().enumerate().map(by_head).collect(),
        }
    }
}

/// Accuracy of what is chosen on one fold and scored on the other, both ways, pooled.
fn heldout(folds: [&RelationSums; 2], hits: impl Fn(&RelationSums, &RelationSums) -> u64) -> Option<f64> {
    let [even, odd] = folds;
    if even.count == 0 || odd.count == 0 {
        return None;
    }
    ratio((hits(even, odd) + hits(odd, even)) as f64, (even.count + odd.count) as f64)
}

/// Place and direction of the head with most hits; ties go to the lowest place, then to [`Direction::BOTH`]'s first.
fn best_head(sums: &RelationSums) -> (usize, usize) {
    let mut best = (0, 0);
    for (place, hits) in sums.hits.iter().enumerate() {
        for (direction, &count) in hits.iter().enumerate() {
            if count > sums.hits[best.0][best.1] {
                best = (place, direction);
            }
        }
    }
    best
}

/// The slot of the offset with most hits; ties go to the smaller distance, then to the word on the right.
fn best_offset(sums: &RelationSums) -> usize {
    let rank = |&slot: &usize| {
        let offset = offset_at(slot);
        (sums.offset_hits[slot], -offset.abs(), offset)
    };
    (0..sums.offset_hits.len()).max_by_key(rank).expect("there are offsets")
}

fn offset_at(slot: usize) -> i32 {
    baseline_offsets().nth(slot).expect("a slot of the baseline")
}

/// `numerator / denominator`, or `None` where that is no number.
fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    let value = numerator / denominator;
    (denominator != 0.0 && value.is_finite()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

    fn relation(count: u64, hits: [[u64; 2]; 2], offsets: &[(i32, u64)]) -> RelationSums {
        let mut sums = RelationSums { count, hits: hits.to_vec(), ..RelationSums::default() };
        for (offset, hits) in offsets {
            let slot = baseline_offsets().position(|known| known == *offset).unwrap();
            sums.offset_hits[slot] = *hits;
        }
        sums
    }

    #[test]
    fn what_is_chosen_on_one_fold_is_scored_on_the_other() {
        // On even sentences head 0 dep->head is best (8 of 10), on odd ones head 1 head->dep (6 of 10).
        let even = relation(10, [[8, 0], [1, 2]], &[(-1, 5), (1, 4)]);
        let odd = relation(10, [[3, 0], [1, 6]], &[(-1, 1), (1, 6)]);
        let mut total = even.clone();
        total.merge(&odd);
        let measured = RelationMetrics::new("obj", GRID, &total, [&even, &odd]);
        // On all: head 0 has 11 of 20, head 1 8 of 20.
        assert_eq!((measured.head, measured.direction), (0, Direction::DependentToHead));
        assert_eq!(measured.accuracy, 11.0 / 20.0);
        // Held out: head 0 scores 3 on odd, head 1 scores 2 on even.
        assert_eq!(measured.heldout_accuracy, Some(5.0 / 20.0));
        // Offsets on all: +1 has 10, -1 has 6; held out: -1 scores 1 on odd, +1 scores 4 on even.
        let expected = OffsetBaseline { offset: 1, accuracy: 0.5, heldout_accuracy: Some(0.25) };
        assert_eq!(measured.baseline, expected);
        assert_eq!(measured.by_head[1].accuracy.get(Direction::HeadToDependent), 8.0 / 20.0);
    }

    #[test]
    fn one_fold_alone_cannot_be_held_out() {
        let even = relation(1, [[1, 0], [0, 0]], &[(1, 1)]);
        let odd = RelationSums::default();
        let measured = RelationMetrics::new("obj", GRID, &even, [&even, &odd]);
        assert_eq!((measured.heldout_accuracy, measured.baseline.heldout_accuracy), (None, None));
    }

    #[test]
    fn ties_between_heads_and_between_offsets() {
        let sums = relation(4, [[1, 2], [2, 2]], &[(-2, 3), (-1, 3), (1, 3)]);
        assert_eq!(best_head(&sums), (0, 1));
        assert_eq!(offset_at(best_offset(&sums)), 1);
        assert_eq!(offset_at(best_offset(&relation(4, [[0; 2]; 2], &[(-2, 3), (3, 3)]))), -2);
    }

    #[test]
    fn what_has_no_denominator_is_null() {
        assert_eq!(ratio(0.0, 0.0), None);
        let metrics = token_metrics(&TokenSums::default(), &TokenExposure::default());
        assert_eq!(metrics, HeadMetrics::default());
    }

    #[test]
    fn offsets_are_written_by_name() {
        let json =
            serde_json::to_value(ByOffset(std::array::from_fn(|slot| (slot != 0).then_some(slot as f64)))).unwrap();
        assert_eq!(json["-8"], serde_json::Value::Null);
        assert_eq!(json["-1"], 7.0);
        assert_eq!(json["8"], 16.0);
        assert_eq!(
            ByOffset::default().iter().map(|(offset, _)| offset).collect::<Vec<_>>(),
            (-8..=8).collect::<Vec<_>>()
        );
    }
}
