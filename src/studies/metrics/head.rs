//! The metrics of one head: which ratio of which sums each of them is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::relation::ByDirection;
use crate::stats::bootstrap::{Interval, PerBlock, Resampled, Resamples};
use crate::stats::exact::ExactSum;
use crate::studies::attention::sums::{MAX_OFFSET, OFFSETS, TokenExposure, TokenSums};
use crate::studies::dependency::sums::Direction;
use crate::studies::observe::BlockSums;

/// What is said of each metric of one head, by the metrics' ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics<T> {
    /// Mean attention from a token to the token at each offset; -1 is the previous one.
    pub offset_mass: ByOffset<T>,
    /// Share of tokens whose most attended token is at each offset.
    pub offset_argmax: ByOffset<T>,
    /// Mean attention to the two tokens on either side.
    pub window_mass: T,
    /// Mean distance in tokens of the attention that stays on text.
    pub mean_distance: T,
    /// Mean attention to the first special token (`[CLS]`).
    pub first_special_mass: T,
    /// Mean attention to all separators (`[SEP]`).
    pub separator_mass: T,
    /// Mean attention of separators to all separators.
    pub separator_self_mass: T,
    /// Mean attention to punctuation.
    pub punctuation_mass: T,
    /// Mean entropy of a token's attention, in nats.
    pub entropy: T,
    /// Entropy as a share of that of uniform attention.
    pub entropy_ratio: T,
    /// The same for the first special token's own attention.
    pub first_special_entropy_ratio: T,
    /// Mean of the largest weight in a token's attention, separators left out.
    pub confidence: T,
    /// Share of gold edges in the maximum spanning tree of the attention.
    pub uuas: T,
    /// Share of words whose head is predicted, over all relations but `punct`.
    pub uas: ByDirection<T>,
}

/// The metrics of one head; `null` where nothing in the corpus was eligible.
pub type HeadMetrics = Metrics<Option<f64>>;

/// The 95 % intervals of the metrics of one head; `null` where there is no value, or no two blocks to resample.
pub type HeadIntervals = Metrics<Option<Interval>>;

impl<T> Metrics<T> {
    /// The same of each metric with `f`, in the order of the fields.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> Metrics<U> {
        Metrics {
            offset_mass: ByOffset(self.offset_mass.0.each_ref().map(&mut f)),
            offset_argmax: ByOffset(self.offset_argmax.0.each_ref().map(&mut f)),
            window_mass: f(&self.window_mass),
            mean_distance: f(&self.mean_distance),
            first_special_mass: f(&self.first_special_mass),
            separator_mass: f(&self.separator_mass),
            separator_self_mass: f(&self.separator_self_mass),
            punctuation_mass: f(&self.punctuation_mass),
            entropy: f(&self.entropy),
            entropy_ratio: f(&self.entropy_ratio),
            first_special_entropy_ratio: f(&self.first_special_entropy_ratio),
            confidence: f(&self.confidence),
            uuas: f(&self.uuas),
            uas: ByDirection {
                dependent_to_head: f(&self.uas.dependent_to_head),
                head_to_dependent: f(&self.uas.head_to_dependent),
            },
        }
    }

    /// Every single value, in the order of the fields.
    pub fn cells(&self) -> Vec<&T> {
        let fields = [
            &self.window_mass,
            &self.mean_distance,
            &self.first_special_mass,
            &self.separator_mass,
            &self.separator_self_mass,
            &self.punctuation_mass,
            &self.entropy,
            &self.entropy_ratio,
            &self.first_special_entropy_ratio,
            &self.confidence,
            &self.uuas,
            &self.uas.dependent_to_head,
            &self.uas.head_to_dependent,
        ];
        self.offset_mass.0.iter().chain(&self.offset_argmax.0).chain(fields).collect()
    }

    /// The same of each metric with `f`, which is also given what `other` has in its place.
    pub fn zip_map<U, V>(&self, other: &Metrics<U>, mut f: impl FnMut(&T, &U) -> V) -> Metrics<V> {
        let mut cells = other.cells().into_iter();
        self.map(|cell| f(cell, cells.next().expect("as many cells")))
    }

    /// The names of [`Metrics::cells`]: their keys in the JSON report joined by dots.
    #[must_use]
    pub fn names() -> Vec<String> {
        let by_offset = |name: &'static str| (-MAX_OFFSET..=MAX_OFFSET).map(move |offset| format!("{name}.{offset}"));
        let single = [
            "window_mass",
            "mean_distance",
            "first_special_mass",
            "separator_mass",
            "separator_self_mass",
            "punctuation_mass",
            "entropy",
            "entropy_ratio",
            "first_special_entropy_ratio",
            "confidence",
            "uuas",
        ];
        by_offset("offset_mass")
            .chain(by_offset("offset_argmax"))
            .chain(single.map(str::to_owned))
            .chain(Direction::BOTH.map(|direction| format!("uas.{}", direction.name())))
            .collect()
    }
}

/// One thing for each offset -8..=8, written as an object keyed `"-8"` to `"8"`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByOffset<T>([T; OFFSETS]);

impl<T> ByOffset<T> {
    /// What is at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is outside -8..=8.
    #[must_use]
    pub fn at(&self, offset: i32) -> &T {
        let slot = usize::try_from(offset + MAX_OFFSET).expect("an offset from -8");
        &self.0[slot]
    }

    /// The same to change it.
    #[cfg(test)]
    pub fn at_mut(&mut self, offset: i32) -> &mut T {
        &mut self.0[usize::try_from(offset + MAX_OFFSET).expect("an offset from -8")]
    }

    fn names() -> impl Iterator<Item = String> {
        (-MAX_OFFSET..=MAX_OFFSET).map(|offset| offset.to_string())
    }
}

impl<T: Serialize> Serialize for ByOffset<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Self::names().zip(&self.0))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByOffset<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut values = BTreeMap::<String, T>::deserialize(deserializer)?;
        let mut value = |name: String| {
            values.remove(&name).ok_or_else(|| D::Error::custom(format!("there is nothing for the offset `{name}`")))
        };
        let values = Self::names().map(&mut value).collect::<Result<Vec<T>, _>>()?;
        Ok(Self(values.try_into().unwrap_or_else(|_| unreachable!("one value for each name"))))
    }
}

impl<T: JsonSchema> JsonSchema for ByOffset<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("ByOffset_for_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        let properties: serde_json::Map<_, _> = Self::names().map(|offset| (offset, value.clone().into())).collect();
        json_schema!({
            "description": "One for each offset in tokens.",
            "type": "object",
            "properties": properties,
            "required": Self::names().collect::<Vec<_>>(),
            "additionalProperties": false,
        })
    }
}

/// A ratio before the division.
#[derive(Clone, Copy, Debug)]
pub struct Fraction {
    numerator: f64,
    denominator: f64,
}

impl Fraction {
    fn new(numerator: f64, denominator: f64) -> Self {
        Self { numerator, denominator }
    }

    /// The ratio, or `None` where that is no number.
    pub fn value(&self) -> Option<f64> {
        let value = self.numerator / self.denominator;
        (self.denominator != 0.0 && value.is_finite()).then_some(value)
    }
}

/// The sums of one block, or of all, seen as the fractions that the metrics are.
pub struct BlockFractions<'a> {
    sums: &'a BlockSums,
    /// The denominators of the whole corpus: what is nowhere in it has no share of 0, but none.
    corpus: &'a TokenExposure,
    /// The place of the relation `all`.
    all: Option<usize>,
}

impl<'a> BlockFractions<'a> {
    pub fn new(sums: &'a BlockSums, corpus: &'a TokenExposure, all: Option<usize>) -> Self {
        Self { sums, corpus, all }
    }

    /// The metrics of one head.
    pub fn of_head(&self, place: usize) -> Metrics<Fraction> {
        let all = self.all.and_then(|all| self.sums.relations.get(all));
        let words = all.map_or(0, |all| all.count) as f64;
        let right = all.and_then(|all| all.hits.get(place)).copied().unwrap_or_default();
        Metrics {
            uuas: Fraction::new(self.sums.trees.hits[place] as f64, self.sums.trees.edges as f64),
            uas: ByDirection {
                dependent_to_head: Fraction::new(right[0] as f64, words),
                head_to_dependent: Fraction::new(right[1] as f64, words),
            },
            ..self.tokens(&self.sums.heads[place])
        }
    }

    /// The metrics of the token level; those of words are 0 of 0.
    fn tokens(&self, sums: &TokenSums<ExactSum>) -> Metrics<Fraction> {
        let exposure = &self.sums.exposure;
        let queries = exposure.queries as f64;
        let mean = |sum: ExactSum| Fraction::new(sum.value(), queries);
        let mean_if = |present: u64, sum| if present > 0 { mean(sum) } else { Fraction::new(0.0, 0.0) };
        let by_offset = |sums: &[ExactSum; OFFSETS]| {
            ByOffset(std::array::from_fn(|slot| {
                Fraction::new(sums[slot].value(), exposure.offset_queries[slot] as f64)
            }))
        };
        let none = Fraction::new(0.0, 0.0);
        Metrics {
            offset_mass: by_offset(&sums.offset_mass),
            offset_argmax: by_offset(&sums.offset_argmax),
            window_mass: mean(sums.window_mass),
            mean_distance: Fraction::new(sums.distance.value(), sums.distance_queries.value()),
            first_special_mass: mean_if(self.corpus.first_specials, sums.first_special_mass),
            separator_mass: mean_if(self.corpus.separators, sums.separator_mass),
            separator_self_mass: Fraction::new(sums.separator_self_mass.value(), exposure.separators as f64),
            punctuation_mass: mean(sums.punctuation_mass),
            entropy: mean(sums.entropy),
            entropy_ratio: Fraction::new(sums.entropy.value(), exposure.max_entropy.value()),
            first_special_entropy_ratio: Fraction::new(
                sums.first_special_entropy.value(),
                exposure.first_special_max_entropy.value(),
            ),
            confidence: mean(sums.confidence),
            uuas: none,
            uas: ByDirection { dependent_to_head: none, head_to_dependent: none },
        }
    }

    /// The chance levels: uniform attention for the token level, the chain of adjacent words for `uuas`.
    ///
    /// The most attended key of uniform attention is any key with equal chance, so the chance of `offset_argmax`
    /// is `1/n`, the same number as the uniform `offset_mass`. `uas` has a baseline by offset in `relations`.
    pub fn chance(&self) -> Metrics<Fraction> {
        let (exposure, trees) = (&self.sums.exposure, &self.sums.trees);
        let uniform = self.tokens(&self.sums.uniform);
        let (most, most_of_first) = (exposure.max_entropy.value(), exposure.first_special_max_entropy.value());
        Metrics {
            // By definition; what was summed is off in the eighth digit, since 1/n was rounded to f32.
            entropy: Fraction::new(most, exposure.queries as f64),
            entropy_ratio: Fraction::new(most, most),
            first_special_entropy_ratio: Fraction::new(most_of_first, most_of_first),
            offset_argmax: uniform.offset_mass.clone(),
            uuas: Fraction::new(trees.chain_hits as f64, trees.edges as f64),
            ..uniform
        }
    }
}

/// Makes the intervals of one head after the other.
pub struct Intervals<'a> {
    resamples: &'a Resamples,
    /// The denominators of the head before, by metric: most do not depend on the head.
    denominators: Vec<(PerBlock, Resampled)>,
}

impl<'a> Intervals<'a> {
    pub fn new(resamples: &'a Resamples) -> Self {
        Self { resamples, denominators: Vec::new() }
    }

    /// The interval of each of one head's metrics that has a value; `blocks` are its fractions in each block.
    pub fn of(&mut self, values: &HeadMetrics, blocks: &[Metrics<Fraction>]) -> HeadIntervals {
        let blocks: Vec<Vec<&Fraction>> = blocks.iter().map(Metrics::cells).collect();
        let mut cell = 0;
        values.map(|value| {
            let fraction = |block: usize| blocks[block][cell];
            let denominators = std::array::from_fn(|block| fraction(block).denominator);
            match self.denominators.get_mut(cell) {
                Some((known, _)) if *known == denominators => {}
                Some(other) => *other = (denominators, self.resamples.sums(&denominators)),
                None => self.denominators.push((denominators, self.resamples.sums(&denominators))),
            }
            let numerators = self.resamples.sums(&std::array::from_fn(|block| fraction(block).numerator));
            let (_, denominators) = &self.denominators[cell];
            cell += 1;
            value.and_then(|_| numerators.over(denominators))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_denominator_is_null() {
        assert_eq!(Fraction::new(0.0, 0.0).value(), None);
        let nothing = BlockSums::default();
        let fractions = BlockFractions::new(&nothing, &nothing.exposure, None);
        assert_eq!(fractions.tokens(&TokenSums::default()).map(Fraction::value), HeadMetrics::default());
    }

    #[test]
    fn offsets_are_written_by_name_and_read_back() {
        let values = ByOffset(std::array::from_fn(|slot| (slot != 0).then_some(slot as f64)));
        let json = serde_json::to_value(&values).unwrap();
        assert_eq!(json["-8"], serde_json::Value::Null);
        assert_eq!(json["-1"], 7.0);
        assert_eq!(json["8"], 16.0);
        assert_eq!(json.as_object().unwrap().len(), 17);
        assert_eq!(serde_json::from_value::<ByOffset<Option<f64>>>(json).unwrap(), values);
        let missing = serde_json::from_str::<ByOffset<Option<f64>>>(r#"{"-8": 1.0}"#).unwrap_err();
        assert_eq!(missing.to_string(), "there is nothing for the offset `-7`");
    }

    #[test]
    fn names_are_the_keys_of_the_cells() {
        let mut place = 0.0;
        let numbered = HeadMetrics::default().map(|_| {
            place += 1.0;
            Some(place)
        });
        let json = serde_json::to_value(&numbered).unwrap();
        let cells = numbered.cells();
        assert_eq!(cells.len(), HeadMetrics::names().len());
        for (name, cell) in HeadMetrics::names().iter().zip(cells) {
            let value = name.split('.').fold(&json, |value, key| &value[key]);
            assert_eq!(value.as_f64(), *cell, "{name}");
        }
    }
}
