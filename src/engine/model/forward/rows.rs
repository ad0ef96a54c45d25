//! A borrowed view of matrix rows.

/// Rows of equal width that begin at equal intervals in a slice. The values between rows are not part of the view.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    values: &'a [f32],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a> Rows<'a> {
    /// Views adjacent rows, `[rows, width]`. Panics if `values` is no whole number of rows, or the width is 0.
    pub fn new(values: &'a [f32], width: usize) -> Self {
        assert!(width > 0 && values.len().is_multiple_of(width), "{} values in rows of {width}", values.len());
        Self { values, count: values.len() / width, width, stride: width }
    }

    /// Views `count` rows that begin `stride` values apart. Panics if rows overlap, or `values` ends before the last row.
    pub fn strided(values: &'a [f32], count: usize, width: usize, stride: usize) -> Self {
        let reach = count.checked_sub(1).map_or(0, |last| last * stride + width);
        assert!(0 < width && width <= stride, "rows of {width} values, {stride} apart");
        assert!(values.len() >= reach, "{count} rows of {width} values, {stride} apart, in {}", values.len());
        Self { values, count, width, stride }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns one row of the view, `[width]`.
    #[inline]
    pub fn row(&self, index: usize) -> &'a [f32] {
        &self.values[index * self.stride..][..self.width]
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        let Self { values, count, width, stride } = *self;
        values.chunks(stride).take(count).map(move |row| &row[..width])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_between_rows_is_left_out() {
        let values = [1.0, 2.0, 9.0, 3.0, 4.0];
        let rows = Rows::strided(&values, 2, 2, 3);
        assert_eq!(rows.iter().collect::<Vec<_>>(), [[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!((rows.count(), rows.width(), rows.row(1)), (2, 2, &values[3..]));
        assert_eq!(Rows::new(&values[..4], 2).row(1), [9.0, 3.0]);
    }

    #[test]
    #[should_panic(expected = "3 rows of 2 values, 3 apart, in 5")]
    fn rows_that_are_not_there() {
        let _ = Rows::strided(&[0.0; 5], 3, 2, 3);
    }
}
