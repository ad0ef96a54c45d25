//! The visible keys of a query; layers of one model may differ in them.

use std::ops::Range;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The keys that a query can see: itself, and keys within a distance before and after it.
///
/// `V(i)` of docs/methodology/units.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Visibility {
    /// Largest distance, in tokens, of a visible key before the query; null if all keys before it can be seen.
    pub before: Option<usize>,
    /// Largest distance, in tokens, of a visible key after the query; null if all keys after it can be seen.
    pub after: Option<usize>,
}

impl Visibility {
    pub const ALL: Self = Self { before: None, after: None };

    /// Causal attention: a query sees itself and every key before it.
    pub const CAUSAL: Self = Self { before: None, after: Some(0) };

    /// Causal attention in a window: a query sees itself and the `window - 1` keys before it.
    pub fn causal_window(window: usize) -> Self {
        Self { before: Some(window.saturating_sub(1)), ..Self::CAUSAL }
    }

    /// Attention in a window: a query sees the keys at most `reach` tokens before or after it.
    pub fn window(reach: usize) -> Self {
        Self { before: Some(reach), after: Some(reach) }
    }

    /// Whether no query sees a key after it.
    pub fn is_causal(self) -> bool {
        self.after == Some(0)
    }

    /// Returns the range of keys that a query sees in a sequence of `tokens` tokens.
    #[inline]
    pub fn visible_keys(self, query: usize, tokens: usize) -> Range<usize> {
        let start = self.before.map_or(0, |before| query.saturating_sub(before));
        let end = self.after.map_or(tokens, |after| tokens.min(query.saturating_add(after).saturating_add(1)));
        start..end
    }

    /// Returns the number of keys that a query sees in a sequence of `tokens` tokens, `v(i)`.
    #[inline]
    pub fn visible_count(self, query: usize, tokens: usize) -> usize {
        self.visible_keys(query, tokens).len()
    }

    #[inline]
    pub fn sees(self, query: usize, key: usize) -> bool {
        let near = |distance: usize, farthest: Option<usize>| farthest.is_none_or(|farthest| distance <= farthest);
        if key < query { near(query - key, self.before) } else { near(key - query, self.after) }
    }

    /// Whether every query of the first range sees every key of the second range.
    pub fn sees_all(self, queries: &Range<usize>, keys: &Range<usize>) -> bool {
        // It is enough to check the ends of both ranges.
        let ends = |tokens: &Range<usize>| [tokens.start, tokens.end.saturating_sub(1)];
        ends(queries).into_iter().all(|query| ends(keys).into_iter().all(|key| self.sees(query, key)))
    }

    /// Whether every query sees every key in a sequence of `tokens` tokens.
    #[inline]
    pub fn is_full(self, tokens: usize) -> bool {
        [self.before, self.after].into_iter().flatten().all(|farthest| farthest >= tokens.saturating_sub(1))
    }

    /// Describes the keys that a query sees, in words; `None` if it sees every key.
    pub fn description(self) -> Option<String> {
        let on_side = |farthest: Option<usize>, side: &str| match farthest {
            None => format!("every token {side} it"),
            Some(0) => format!("none {side} it"),
            Some(farthest) => format!("{farthest} {side} it"),
        };
        let Self { before, after } = self;
        match before {
            None if after.is_none() => None,
            Some(before) if after == Some(before) => Some(format!("tokens at most {before} away")),
            _ => Some(format!("itself, {} and {}", on_side(before, "before"), on_side(after, "after"))),
        }
    }

    /// Splits the queries of a sequence into tiles, each with the keys that any of its queries sees. There is one tile if every
    /// query sees every key.
    pub fn tiles(self, tokens: usize) -> impl Iterator<Item = Tile> {
        let rows = if self.is_full(tokens) { tokens.max(1) } else { TILE_QUERIES };
        (0..tokens).step_by(rows).map(move |start| {
            let queries = start..tokens.min(start + rows);
            // The range of visible keys moves forward with the query.
            let keys = self.visible_keys(start, tokens).start..self.visible_keys(queries.end - 1, tokens).end;
            Tile { queries, keys }
        })
    }

    /// Returns the intersection of two visibilities: a key is visible if both show it.
    pub fn intersection(self, other: Self) -> Self {
        let nearer = |a: Option<usize>, b: Option<usize>| a.into_iter().chain(b).min();
        Self { before: nearer(self.before, other.before), after: nearer(self.after, other.after) }
    }
}

/// A tile of attention: consecutive queries, and the range of keys that any of them sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Range of query positions.
    pub queries: Range<usize>,
    /// Range of key positions that any of the queries sees.
    pub keys: Range<usize>,
}

/// Queries per tile: enough for fast matrix products, yet so few that most queries see most keys of their tile, in windows of a
/// hundred keys.
const TILE_QUERIES: usize = 64;

/// Classes of a model's layers by the visible keys of their queries. Layers of one class have one chance level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<LayerClass>", into = "Vec<LayerClass>")]
pub struct LayerClasses {
    /// Visible keys of each class, in order of first use.
    visibilities: Vec<Visibility>,
    /// Class of each layer, an index into `visibilities`; empty if all layers are in one class.
    class_indices: Vec<usize>,
}

/// A class of layers whose queries see the same keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerClass {
    /// Layers of the class, counted from 0; empty if all layers are in one class.
    pub layers: Vec<usize>,
    /// Largest distance, in tokens, of a visible key before the query; null if all keys before it can be seen.
    // Not a flattened `Visibility`: the format of partials does not support `serde(flatten)`.
    pub before: Option<usize>,
    /// Largest distance, in tokens, of a visible key after the query; null if all keys after it can be seen.
    pub after: Option<usize>,
}

impl LayerClass {
    /// Returns the visible keys of the queries in this class.
    pub fn visibility(&self) -> Visibility {
        Visibility { before: self.before, after: self.after }
    }
}

impl Default for LayerClasses {
    /// All layers are in one class, in which every query sees every key.
    fn default() -> Self {
        Self::new(&[])
    }
}

impl LayerClasses {
    /// Groups layers into classes; `layers` has the visibility of each layer. If it is empty, every layer sees every key.
    pub fn new(layers: &[Visibility]) -> Self {
        let mut visibilities: Vec<Visibility> = layers.iter().copied().unique().collect();
        let class = |layer: &Visibility| visibilities.iter().position(|known| known == layer);
        let mut class_indices: Vec<usize> = layers.iter().filter_map(class).collect();
        if visibilities.len() < 2 {
            class_indices.clear();
        }
        if visibilities.is_empty() {
            visibilities.push(Visibility::ALL);
        }
        Self { visibilities, class_indices }
    }

    /// Returns the visibility of each class, in order of first use.
    pub fn visibilities(&self) -> &[Visibility] {
        &self.visibilities
    }

    /// Returns the index of a layer's class in [`LayerClasses::visibilities`].
    #[inline]
    pub fn class_index(&self, layer: usize) -> usize {
        self.class_indices.get(layer).copied().unwrap_or(0)
    }

    /// Returns the visible keys of a query in layer `layer`.
    #[inline]
    pub fn layer_visibility(&self, layer: usize) -> Visibility {
        self.visibilities[self.class_index(layer)]
    }

    /// Returns the keys that a query sees in every layer.
    pub fn common_visibility(&self) -> Visibility {
        self.visibilities.iter().fold(Visibility::ALL, |all, visibility| all.intersection(*visibility))
    }

    /// Whether no query of any layer sees a key after it: the model is a decoder.
    pub fn are_causal(&self) -> bool {
        self.visibilities.iter().all(|visibility| visibility.is_causal())
    }

    /// Whether every query of every layer sees every key.
    pub fn are_full(&self) -> bool {
        self.visibilities == [Visibility::ALL]
    }

    /// Whether the classes fit a model with `layers` layers.
    pub fn fits(&self, layers: usize) -> bool {
        self.class_indices.is_empty() || self.class_indices.len() == layers
    }
}

impl From<LayerClasses> for Vec<LayerClass> {
    /// Converts the classes to a list, which is empty if every query of every layer sees every key. If there is a
    /// single class, its `layers` are left empty.
    fn from(classes: LayerClasses) -> Self {
        if classes.are_full() {
            return Self::new();
        }
        let class = |(class, &visibility): (usize, &Visibility)| {
            let layers = (0..classes.class_indices.len()).filter(|&layer| classes.class_indices[layer] == class);
            LayerClass { layers: layers.collect(), before: visibility.before, after: visibility.after }
        };
        classes.visibilities.iter().enumerate().map(class).collect()
    }
}

impl TryFrom<Vec<LayerClass>> for LayerClasses {
    type Error = String;

    fn try_from(classes: Vec<LayerClass>) -> Result<Self, String> {
        match &classes[..] {
            [] => return Ok(Self::default()),
            [class] if class.layers.is_empty() => return Ok(Self::new(&[class.visibility()])),
            _ => {}
        }
        let by_class = classes.iter().flat_map(|class| class.layers.iter().map(|&layer| (layer, class.visibility())));
        let layers: Vec<(usize, Visibility)> = by_class.sorted_by_key(|(layer, _)| *layer).collect();
        if layers.is_empty() || !layers.iter().map(|(layer, _)| *layer).eq(0..layers.len()) {
            return Err("classes of layers that do not have each layer once".to_owned());
        }
        Ok(Self::new(&layers.into_iter().map(|(_, visibility)| visibility).collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_by_hand() {
        let window = Visibility::window(2);
        assert_eq!([0, 1, 4, 9].map(|query| window.visible_keys(query, 10)), [0..3, 0..4, 2..7, 7..10]);
        assert_eq!((window.is_full(3), window.is_full(4), Visibility::ALL.is_full(999)), (true, false, true));
        let causal = Visibility::CAUSAL;
        assert_eq!([0, 5].map(|query| Visibility::causal_window(3).visible_keys(query, 10)), [0..1, 3..6]);
        assert_eq!([0, 5].map(|query| causal.visible_count(query, 10)), [1, 6]);
        assert_eq!(causal.intersection(window), Visibility { before: Some(2), after: Some(0) });
        assert_eq!(Visibility::ALL.visible_keys(3, 10), 0..10);
        let words = [Visibility::ALL, window, causal].map(Visibility::description);
        let expected = ["tokens at most 2 away", "itself, every token before it and none after it"];
        assert_eq!(words, [None, Some(expected[0].to_owned()), Some(expected[1].to_owned())]);
    }

    #[test]
    fn layers_of_a_class_are_together() {
        let (all, window) = (Visibility::ALL, Visibility::window(64));
        let classes = LayerClasses::new(&[all, window, window, all]);
        assert_eq!(
            (classes.visibilities(), [0, 1, 2, 3].map(|layer| classes.class_index(layer))),
            (&[all, window][..], [0, 1, 1, 0])
        );
        assert_eq!(
            (classes.common_visibility(), classes.layer_visibility(2), classes.are_full()),
            (window, window, false)
        );
        assert!(classes.fits(4) && !classes.fits(3) && LayerClasses::new(&[window; 3]).fits(5));
        let json = serde_json::to_string(&classes).unwrap();
        let expected =
            concat!(r#"[{"layers":[0,3],"before":null,"after":null},"#, r#"{"layers":[1,2],"before":64,"after":64}]"#);
        assert_eq!(json, expected);
        for classes in [classes, LayerClasses::default(), LayerClasses::new(&[window; 2])] {
            let json = serde_json::to_string(&classes).unwrap();
            assert_eq!(serde_json::from_str::<LayerClasses>(&json).unwrap(), classes);
        }
        for broken in ["[0,2]", "[0,1,1]"] {
            assert!(serde_json::from_str::<LayerClasses>(&expected.replace("[0,3]", broken)).is_err(), "{broken}");
        }
    }

    proptest! {
        /// The keys of a query are those that it sees.
        #[test]
        fn a_range_is_key_by_key(
            before in prop::option::of(0..6_usize),
            after in prop::option::of(0..6_usize),
            tokens in 1..12_usize,
        ) {
            let visibility = Visibility { before, after };
            let mut is_whole = true;
            for query in 0..tokens {
                let keys: Vec<usize> = (0..tokens).filter(|&key| visibility.sees(query, key)).collect();
                prop_assert_eq!(visibility.visible_keys(query, tokens).collect::<Vec<_>>(), &keys[..]);
                is_whole &= keys.len() == tokens;
            }
            prop_assert_eq!(visibility.is_full(tokens), is_whole);
            let (queries, keys) = (tokens / 3..tokens / 2 + 1, tokens / 2..tokens);
            let all = queries.clone().all(|query| keys.clone().all(|key| visibility.sees(query, key)));
            prop_assert_eq!(visibility.sees_all(&queries, &keys), all);
        }

        /// Tiles have each query once, with the keys that it sees, and no key that none of them sees.
        #[test]
        fn tiles_are_all_that_is_seen(
            before in prop::option::of(0..200_usize),
            after in prop::option::of(0..200_usize),
            tokens in 1..300_usize,
        ) {
            let visibility = Visibility { before, after };
            let tiles: Vec<Tile> = visibility.tiles(tokens).collect();
            prop_assert!(tiles.iter().flat_map(|tile| tile.queries.clone()).eq(0..tokens));
            prop_assert!(tiles.len() == 1 || !visibility.is_full(tokens));
            for Tile { queries, keys } in tiles {
                let seen = queries.flat_map(|query| visibility.visible_keys(query, tokens)).sorted_unstable().dedup();
                prop_assert!(seen.eq(keys));
            }
        }
    }
}
