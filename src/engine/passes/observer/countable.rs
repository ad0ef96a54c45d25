//! Numbers of a file, which are summed up: none is so large that the sums of all shards could overflow.

use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// The largest count: 2^46, 70 million million. All shards of a corpus, 2^16 at most, then add up below 2^63; the
/// largest corpora have some 2^44 tokens.
const MOST: u64 = 1 << 46;

/// Makes sure that no count or sum from a file is too large to be added to others.
///
/// Fixed-point sums ([`ExactSum`](crate::stats::exact::ExactSum)) have the same bound, by their whole part.
/// Fails if one is.
pub fn ensure_countable(read: &impl Serialize) -> Result<()> {
    // Visits all numbers; what would be written of them goes nowhere.
    read.serialize(&mut Serializer::with_formatter(io::sink(), Bounded)).context("it holds what no run counts")
}

struct Bounded;

fn ensure(countable: bool) -> io::Result<()> {
    if countable { Ok(()) } else { Err(io::Error::other(format!("a count of more than {MOST}"))) }
}

impl Formatter for Bounded {
    fn write_u64<W: ?Sized + Write>(&mut self, _: &mut W, value: u64) -> io::Result<()> {
        ensure(value <= MOST)
    }

    fn write_i128<W: ?Sized + Write>(&mut self, _: &mut W, value: i128) -> io::Result<()> {
        ensure(value.unsigned_abs() >> 64 <= u128::from(MOST))
    }

    fn write_f64<W: ?Sized + Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        ensure(value.abs() <= MOST as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::exact::ExactSum;

    fn sum(value: f64) -> ExactSum {
        let mut sum = ExactSum::default();
        sum += value;
        sum
    }

    #[test]
    fn what_can_be_added_up_is_countable() {
        let most = MOST as f64;
        ensure_countable(&(MOST, most, [("a", -most)], vec![sum(most), sum(-most)])).unwrap();
        ensure_countable(&vec![u64::from(u32::MAX); 3]).unwrap();
    }

    #[test]
    fn what_could_overflow_is_not() {
        let more = 2.0 * MOST as f64;
        let refused = |result: Result<()>| assert!(format!("{:#}", result.unwrap_err()).contains("70368744177664"));
        refused(ensure_countable(&[0, MOST + 1]));
        refused(ensure_countable(&Some(-more)));
        refused(ensure_countable(&[sum(more)]));
        refused(ensure_countable(&[sum(-more)]));
    }
}
