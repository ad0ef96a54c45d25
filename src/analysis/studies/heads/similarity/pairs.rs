//! Pairs of heads.

/// The pairs of this many heads, in the order of all lists of them: by the later head, then by the earlier.
#[derive(Clone, Copy, Debug)]
pub struct HeadPairs(pub usize);

impl HeadPairs {
    pub fn count(self) -> usize {
        self.0 * self.0.saturating_sub(1) / 2
    }

    pub fn count_with_self(self) -> usize {
        self.0 * (self.0 + 1) / 2
    }

    pub fn all(self) -> impl Iterator<Item = [usize; 2]> {
        (0..self.0).flat_map(|later| (0..later).map(move |earlier| [earlier, later]))
    }

    pub fn index(a: usize, b: usize) -> usize {
        let (earlier, later) = (a.min(b), a.max(b));
        later * later.saturating_sub(1) / 2 + earlier
    }

    /// Its place where pairs of a head and itself are in the list, too.
    pub fn index_with_self(a: usize, b: usize) -> usize {
        let (earlier, later) = (a.min(b), a.max(b));
        later * (later + 1) / 2 + earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_a_place() {
        let pairs = HeadPairs(5);
        let places: Vec<usize> = pairs.all().map(|[a, b]| HeadPairs::index(b, a)).collect();
        assert_eq!(places, (0..pairs.count()).collect::<Vec<_>>());
        let with_self = (0..5).flat_map(|later| (0..=later).map(move |earlier| (earlier, later)));
        let places: Vec<usize> = with_self.map(|(a, b)| HeadPairs::index_with_self(a, b)).collect();
        assert_eq!(places, (0..pairs.count_with_self()).collect::<Vec<_>>());
    }
}
