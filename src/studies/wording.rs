//! Numbers and tables as the summary has them.

use comfy_table::{ContentArrangement, Table, presets};

use crate::stats::bootstrap::Interval;

/// A share in per cent.
#[must_use]
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0))
}

/// Half of an interval's width, in per cent, after a ±.
#[must_use]
pub fn plus_minus(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |interval| format!(" ±{:.1}", interval.half_width() * 100.0))
}

/// A q-value, to one digit where it is small.
#[must_use]
pub fn significance(q: f64) -> String {
    if q < 0.001 { format!("{q:.0e}") } else { format!("{q:.3}") }
}

/// A table without lines.
#[must_use]
pub fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_q_values_have_one_digit() {
        assert_eq!([0.05, 0.001, 0.000_44].map(significance), ["0.050", "0.001", "4e-4"]);
    }
}
