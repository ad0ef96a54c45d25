//! Values side by side: loops over [`LANES`] partial results, which the compiler keeps in one vector.

#![expect(clippy::inline_always, reason = "what is not inlined is not compiled for the instruction set of its caller")]

/// How many values are computed side by side: one vector of f32 of the widest registers (AVX-512), two of f64.
pub const LANES: usize = 16;

/// Combines partial results to one, by halves: four steps, each on the result of the one before.
#[inline(always)]
pub fn across<T: Copy>(mut lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_counts_once() {
        let powers: [u32; LANES] = std::array::from_fn(|lane| 1 << lane);
        assert_eq!(across(powers, |a, b| a + b), 0xffff);
        assert_eq!(across(powers, u32::max), 0x8000);
    }
}
