//! The edges of a model: every pair of a head and a head of a later layer.

use std::ops::Range;

use crate::model::grid::{HeadGrid, HeadPlace};

/// The edges of a model, in the order of all lists of them: by the layer of the source, by the layer of the target, by
/// source, by target.
#[derive(Clone, Copy, Debug)]
pub struct Edges(pub HeadGrid);

impl Edges {
    pub fn count(self) -> usize {
        self.before(self.0.layers, self.0.layers)
    }

    /// The pairs of an earlier and a later layer, in order.
    pub fn layers(self) -> impl Iterator<Item = (usize, usize)> + Send {
        let layers = self.0.layers;
        (0..layers).flat_map(move |source| (source + 1..layers).map(move |target| (source, target)))
    }

    /// The places of the edges between two layers, `[heads of the source's, heads of the target's]`.
    pub fn between(self, (source, target): (usize, usize)) -> Range<usize> {
        let first = self.before(source, target);
        first..first + self.0.heads * self.0.heads
    }

    pub fn index(self, source: HeadPlace, target: HeadPlace) -> usize {
        self.before(source.layer, target.layer) + source.head * self.0.heads + target.head
    }

    /// The ends of an edge between two layers, by its place among them.
    pub fn ends(self, (source, target): (usize, usize), place: usize) -> [HeadPlace; 2] {
        let (from, to) = self.0.at(place);
        [HeadPlace { layer: source, head: from }, HeadPlace { layer: target, head: to }]
    }

    /// The edges in the list before those between two layers.
    fn before(self, source: usize, target: usize) -> usize {
        let HeadGrid { layers, heads } = self.0;
        // Earlier sources have layers - 1, layers - 2, ... targets.
        let pairs = source * (2 * layers).saturating_sub(source + 1) / 2 + target.saturating_sub(source + 1);
        pairs * heads * heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_has_a_place() {
        let edges = Edges(HeadGrid { layers: 4, heads: 3 });
        let mut next = 0;
        for layers in edges.layers() {
            assert_eq!(edges.between(layers), next..next + 9);
            for place in 0..9 {
                let [source, target] = edges.ends(layers, place);
                assert_eq!(edges.index(source, target), next + place);
                assert!(source.layer < target.layer && (source.layer, target.layer) == layers);
            }
            next += 9;
        }
        assert_eq!((edges.count(), next), (54, 54));
        assert_eq!(Edges(HeadGrid { layers: 1, heads: 3 }).count(), 0);
        assert_eq!(Edges(HeadGrid { layers: 2, heads: 1 }).count(), 1);
    }
}
