//! The places of distances in DeBERTa's tables (He et al. 2021).

/// The places of distances, query less key, in a table of twice `span` rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Places {
    /// Half of the rows.
    pub span: usize,
    /// Distances of more than half of this many share a place with others, the more the longer they are; `None`: every
    /// distance has its own.
    pub buckets: Option<usize>,
    /// The longest distance that the places were made for.
    pub furthest: usize,
}

impl Places {
    /// The row of a distance (`make_log_bucket_position` in Microsoft's code and transformers').
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded up from a number above 0")]
    pub fn of(self, distance: isize) -> usize {
        let n = distance.unsigned_abs();
        let middle = self.buckets.map_or(usize::MAX, |buckets| buckets / 2);
        let place = if n <= middle {
            n
        } else {
            let whole = ((self.furthest - 1) as f64 / middle as f64).ln();
            ((n as f64 / middle as f64).ln() / whole * (middle - 1) as f64).ceil() as usize + middle
        };
        let (span, place) = (self.span.cast_signed(), place.min(2 * self.span).cast_signed());
        (if distance < 0 { span - place } else { span + place }).clamp(0, 2 * span - 1).cast_unsigned()
    }

    /// Rows of the table.
    pub fn rows(self) -> usize {
        2 * self.span
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn places_of_distances() {
        let all = Places { span: 4, buckets: None, furthest: 4 };
        assert_eq!([-9, -4, -1, 0, 3, 4].map(|distance| all.of(distance)), [0, 0, 3, 4, 7, 7]);
        // Computed with transformers' `make_log_bucket_position(distance, 8, 24)`.
        let some = Places { span: 8, buckets: Some(8), furthest: 24 };
        let found = [0, 1, 4, 5, 6, 7, 8, 9, 12, 13, 22, 23].map(|distance| some.of(distance) - 8);
        assert_eq!(found, EXPECTED);
        let below = [1, 4, 5, 12, 23].map(|distance: isize| 8 - some.of(-distance));
        assert_eq!(below, [1, 4, 5, EXPECTED[8], 7]);
    }

    const EXPECTED: [usize; 12] = [0, 1, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7];
}
