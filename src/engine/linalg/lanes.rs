//! Vectorised loops: [`LANES`] partial results side by side, which the compiler keeps in vector registers.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

/// Number of values that a loop computes side by side: one AVX-512 vector of f32, or two of f64.
pub const LANES: usize = 16;

/// Combines the partial results of all lanes into one, in four steps that each halve their number.
#[inline(always)]
pub fn reduce_lanes<T: Copy>(mut lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
    }
    lanes[0]
}

/// The sum of attention weights, whose number is a multiple of [`LANES`]. Each lane adds its weights in f32: 32 of them for
/// a row of 512.
#[inline(always)]
pub fn sum_full_lanes(weights: &[f32]) -> f64 {
    let mut partial = [0.0_f32; LANES];
    for weights in weights.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            partial[lane] += weights[lane];
        }
    }
    reduce_lanes(partial.map(f64::from), |a, b| a + b)
}

/// The sum of `values`, in f64; their number is arbitrary.
#[inline(always)]
pub fn sum_any_length<T: Copy + Into<f64>>(values: &[T]) -> f64 {
    let mut partial = [0.0; LANES];
    let (values, rest) = values.as_chunks::<LANES>();
    for values in values {
        for lane in 0..LANES {
            partial[lane] += values[lane].into();
        }
    }
    for (partial, &value) in partial.iter_mut().zip(rest) {
        *partial += value.into();
    }
    reduce_lanes(partial, |a, b| a + b)
}

/// The dot product of two rows of equal length.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    centred_dot(a, 0.0, b)
}

/// The dot product `(a - mean) · b` of two rows of equal length.
#[inline(always)]
pub fn centred_dot(a: &[f32], mean: f32, b: &[f32]) -> f32 {
    let mut partial = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            partial[lane] = (a[lane] - mean).mul_add(b[lane], partial[lane]);
        }
    }
    for ((partial, a), b) in partial.iter_mut().zip(a_rest).zip(b_rest) {
        *partial = (a - mean).mul_add(*b, *partial);
    }
    reduce_lanes(partial, |a, b| a + b)
}

/// The dot product `(a + a_shift) · (b + b_shift)` of rows of equal length. The shifts are added first: expanding the
/// product would lose digits to larger terms.
#[inline(always)]
pub fn shifted_dot(a: &[f32], a_shift: &[f32], b: &[f32], b_shift: &[f32]) -> f32 {
    let mut partial = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let (a_shift, a_shift_rest) = a_shift.as_chunks::<LANES>();
    let (b_shift, b_shift_rest) = b_shift.as_chunks::<LANES>();
    for (((a, a_shift), b), b_shift) in a.iter().zip(a_shift).zip(b).zip(b_shift) {
        for lane in 0..LANES {
            partial[lane] = (a[lane] + a_shift[lane]).mul_add(b[lane] + b_shift[lane], partial[lane]);
        }
    }
    let rest = a_rest.iter().zip(a_shift_rest).zip(b_rest).zip(b_shift_rest);
    for (partial, (((a, a_shift), b), b_shift)) in partial.iter_mut().zip(rest) {
        *partial = (a + a_shift).mul_add(b + b_shift, *partial);
    }
    reduce_lanes(partial, |a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_every_whole_vector() {
        let row: Vec<f32> = (0..37_u8).map(f32::from).collect();
        assert_eq!(sum_full_lanes(&row), 31.0 * 32.0 / 2.0);
    }

    #[test]
    fn dot_products_have_every_value() {
        let row: Vec<f32> = (0..37_u8).map(f32::from).collect();
        assert_eq!(dot(&row, &row), 36.0 * 37.0 * 73.0 / 6.0);
        assert_eq!(dot(&row[..3], &row[1..4]), 8.0);
        // (x + 2)(2x - 1) = 2x² + 3x - 2
        let (twos, ones, doubled) = ([2.0; 37], [-1.0; 37], row.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
        let expected = 2.0 * 36.0 * 37.0 * 73.0 / 6.0 + 3.0 * 36.0 * 37.0 / 2.0 - 2.0 * 37.0;
        assert_eq!(shifted_dot(&row, &twos, &doubled, &ones), expected);
    }

    #[test]
    fn every_lane_counts_once() {
        let powers: [u32; LANES] = std::array::from_fn(|lane| 1 << lane);
        assert_eq!(reduce_lanes(powers, |a, b| a + b), 0xffff);
        assert_eq!(reduce_lanes(powers, u32::max), 0x8000);
    }
}
