//! Confidence intervals and other ranges of numbers.

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

/// An interval, written `[low, high]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Interval(pub f64, pub f64);

impl<'de> Deserialize<'de> for Interval {
    /// Deserialises an interval. Fails if its lower end is above its upper end.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (low, high) = Deserialize::deserialize(deserializer)?;
        if low > high {
            return Err(D::Error::custom(format!("the interval from {low} to {high} ends before it begins")));
        }
        Ok(Self(low, high))
    }
}

impl Interval {
    pub fn low(self) -> f64 {
        self.0
    }

    pub fn high(self) -> f64 {
        self.1
    }

    /// Moves both ends by `amount`.
    pub fn shifted(self, amount: f64) -> Self {
        Self(self.0 + amount, self.1 + amount)
    }

    /// Half of the interval's width, as after a ± sign.
    pub fn half_width(self) -> f64 {
        (self.1 - self.0) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_read_the_right_way_round() {
        let read = serde_json::from_str::<Interval>;
        assert_eq!(read("[-1, 0.5]").unwrap(), Interval(-1.0, 0.5));
        assert_eq!(read("[0.5, 0.5]").unwrap(), Interval(0.5, 0.5));
        insta::assert_snapshot!(read("[0.5, -1]").unwrap_err(), @"the interval from 0.5 to -1 ends before it begins");
    }
}
