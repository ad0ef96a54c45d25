//! The band within which an effect is negligible.

/// A head is negligible whose effect is surely below this share of that of all heads together: one hundredth.
const LARGEST: f64 = 0.01;

/// And below this part of an equal share of it, which in a model of many heads is less: one half, so that the average head
/// never is negligible.
const OF_EQUAL_SHARE: f64 = 0.5;

/// The band in a model of this many heads, all of which together are worth `worth`, in the same unit; 0 where they are worth
/// nothing.
pub fn band(worth: f64, heads: usize) -> f64 {
    LARGEST.min(OF_EQUAL_SHARE / heads as f64) * worth.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_by_hand() {
        // Half of an equal share is 1/32 of 16 heads, 1/100 of 50 heads, and 1/288 of 144 heads.
        assert_eq!([band(2.0, 16), band(2.0, 50)], [0.02, 0.02]);
        assert!((band(2.88, 144) - 0.01).abs() < 1e-15);
        assert_eq!(band(-0.3, 16), 0.0);
    }
}
