//! The excesses of an untrained model of the same shape that attends as sharply: what an edge has without anything that was learned.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measure::{EdgeEstimate, LEAST_SHIFT};
use crate::system::counted::counted;

pub const SEED: u64 = 0;

/// The share of the untrained model's edges that have a smaller excess than one that is called above.
const SHARE: f64 = 0.95;

/// The largest excess over a product that is told in percent; the exponential of a larger one may be infinite.
const MOST_PERCENT: f64 = 1000.0;

/// The edges of an untrained model of the same shape, over the same sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Untrained {
    /// The seed of its weights.
    pub seed: u64,
    /// Its edges with a shift.
    pub edges: u64,
    /// The 95th percentile of their excesses, interpolated (type 7 of Hyndman & Fan 1996): the margin of the excess of every
    /// edge. Null without any.
    pub percentile: Option<f64>,
    /// Those that are above by the rule for the edges of the model.
    pub above: u64,
    /// The q-values of its edges that were tested, the smallest first.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub q: Vec<f64>,
}

impl Untrained {
    pub fn new(excesses: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut excesses: Vec<f64> = excesses.into_iter().flatten().collect();
        excesses.sort_by(f64::total_cmp);
        let percentile = (!excesses.is_empty()).then(|| percentile(&excesses));
        Self { seed: SEED, edges: excesses.len() as u64, percentile, ..Self::default() }
    }

    /// This model with its edges tested by its own percentile.
    pub fn tested(self, found: &[EdgeEstimate]) -> Self {
        let mut q: Vec<f64> = found.iter().filter_map(|edge| edge.q).collect();
        q.sort_by(f64::total_cmp);
        Self { q, ..self }
    }

    pub fn meaning(&self) -> String {
        let (Some(percentile), Some(more)) = (self.percentile, self.above_product()) else {
            return "An untrained model of the same shape and sharpness has no shift, so there is nothing to compare with."
                .to_owned();
        };
        format!(
            "An edge is above chance if its shift is at least {LEAST_SHIFT} and the interval of its excess (in ln) is above \
             {percentile:+.2}, the 95th percentile of an untrained model of the same shape and sharpness ({} of its {} pass). \
             Such a shift is {more} the product of two averages: shifts by the earlier head in that layer, and shifts of the later head.",
            self.above,
            counted(self.edges, "edge")
        )
    }

    fn above_product(&self) -> Option<String> {
        self.percentile.map(|percentile| match 100.0 * percentile.exp_m1() {
            percent if percent <= MOST_PERCENT => format!("some {percent:.0} % more than"),
            _ => format!("more than {:.0} times", 1.0 + MOST_PERCENT / 100.0),
        })
    }
}

/// The percentile of ascending numbers, at least one, between two of them in proportion.
fn percentile(ascending: &[f64]) -> f64 {
    let place = SHARE * (ascending.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let below = place as usize;
    let next = ascending[(below + 1).min(ascending.len() - 1)];
    ascending[below] + (place - place.floor()) * (next - ascending[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_hand() {
        // numpy.percentile([1, 2, 4], 95) is 3.8; of one number it is that.
        assert!((percentile(&[1.0, 2.0, 4.0]) - 3.8).abs() < 1e-12);
        assert_eq!(percentile(&[7.0]), 7.0);
        let untrained = Untrained::new([Some(2.0_f64.ln()), None, Some(2.0_f64.ln())]);
        assert_eq!((untrained.edges, untrained.above_product().as_deref()), (2, Some("some 100 % more than")));
        // The exponential of such a number is infinite.
        let huge = Untrained::new([Some(1e30)]);
        assert_eq!(huge.above_product().as_deref(), Some("more than 11 times"));
        assert_eq!(Untrained::new([None]).percentile, None);
    }
}
