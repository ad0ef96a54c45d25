//! The attention heads of a model, and their names.

pub mod names;
pub mod visibility;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::system::counts::format_count;
use crate::system::printable::one_line;

/// Number of layers of a model, and of attention heads per layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadGrid {
    pub layers: usize,
    /// Number of attention heads per layer.
    pub heads: usize,
}

impl fmt::Display for HeadGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", format_count(self.layers, "layer"), format_count(self.heads, "head"))
    }
}

impl HeadGrid {
    /// Returns the number of attention heads in all layers.
    pub fn head_count(self) -> usize {
        self.layers * self.heads
    }

    /// Returns the index of a head in the list of all heads, layer by layer.
    pub fn index(self, layer: usize, head: usize) -> usize {
        layer * self.heads + head
    }

    /// Returns (layer, head) at an index of the list of all heads, layer by layer.
    pub fn layer_and_head(self, index: usize) -> (usize, usize) {
        (index / self.heads, index % self.heads)
    }

    /// Returns the head at an index of the list of all heads, layer by layer.
    pub fn head_place(self, index: usize) -> HeadPlace {
        let (layer, head) = self.layer_and_head(index);
        HeadPlace { layer, head }
    }

    /// Yields all attention heads of the model, layer by layer.
    pub fn head_places(self) -> impl Iterator<Item = HeadPlace> {
        (0..self.head_count()).map(move |index| self.head_place(index))
    }

    /// Whether `heads` lists each head of the model once, layer by layer.
    pub fn equals_all_heads(self, heads: impl IntoIterator<Item = HeadPlace>) -> bool {
        heads.into_iter().eq(self.head_places())
    }

    /// Returns the first of `heads` that the model lacks; `None` if it has all.
    pub fn first_outside(self, heads: impl IntoIterator<Item = HeadPlace>) -> Option<HeadPlace> {
        heads.into_iter().find(|place| place.layer >= self.layers || place.head >= self.heads)
    }

    /// Message about a report whose value at `key` does not list all heads in order; `None` if it does.
    pub fn missing_head_defect(self, key: &str, heads: impl IntoIterator<Item = HeadPlace>) -> Option<String> {
        (!self.equals_all_heads(heads))
            .then(|| format!("`{key}` does not have each head of the model once, layer by layer"))
    }

    /// Message about a report whose value at `key` lists a head that the model lacks; `None` if it lists none.
    pub fn stray_head_defect(self, key: &str, heads: impl IntoIterator<Item = HeadPlace>) -> Option<String> {
        self.first_outside(heads).map(|stray| format!("`{key}` has {stray}, which the model has not"))
    }
}

/// Layer and number of one attention head; JSON has them with its name, `L7H9`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "NamedHead", into = "NamedHead")]
pub struct HeadPlace {
    /// Layer, counted from 0.
    pub layer: usize,
    /// Attention head within the layer, counted from 0.
    pub head: usize,
}

impl fmt::Display for HeadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}H{}", self.layer, self.head)
    }
}

impl FromStr for HeadPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Other spellings, such as L07H1, would give one head two names.
        let plain = |digits: &str| digits.parse().ok().filter(|number: &usize| number.to_string() == digits);
        let parts = text.strip_prefix('L').and_then(|rest| rest.split_once('H'));
        let place = parts.and_then(|(layer, head)| Some(Self { layer: plain(layer)?, head: plain(head)? }));
        place.ok_or_else(|| "expected a head as reports name it: L7H9 is head 9 of layer 7, both from 0".to_owned())
    }
}

/// One attention head: its layer, its number within the layer, and its name.
#[derive(Serialize, Deserialize, JsonSchema)]
struct NamedHead {
    /// Layer, counted from 0.
    layer: usize,
    /// Attention head within the layer, counted from 0.
    head: usize,
    /// Name of the attention head: `L7H9` is head 9 of layer 7.
    name: String,
}

impl TryFrom<NamedHead> for HeadPlace {
    type Error = String;

    fn try_from(NamedHead { layer, head, name }: NamedHead) -> Result<Self, String> {
        let place = Self { layer, head };
        (name == place.to_string())
            .then_some(place)
            .ok_or_else(|| format!("head {head} of layer {layer} is `{place}`, not `{}`", one_line(&name)))
    }
}

impl From<HeadPlace> for NamedHead {
    fn from(place: HeadPlace) -> Self {
        Self { layer: place.layer, head: place.head, name: place.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_are_written() {
        assert_eq!("L11H3".parse(), Ok(HeadPlace { layer: 11, head: 3 }));
        assert_eq!(HeadPlace { layer: 0, head: 10 }.to_string(), "L0H10");
        for name in
            ["", "L1", "H1", "L1H", "LH1", "l1h1", "L01H1", "L1H1 ", "L-1H1", "L+1H1", "L1H99999999999999999999"]
        {
            assert!(name.parse::<HeadPlace>().is_err(), "{name}");
        }
    }

    #[test]
    fn json_has_a_head_with_its_name() {
        let (place, json) = (HeadPlace { layer: 7, head: 9 }, r#"{"layer":7,"head":9,"name":"L7H9"}"#);
        assert_eq!(serde_json::to_string(&place).unwrap(), json);
        assert_eq!(serde_json::from_str::<HeadPlace>(json).unwrap(), place);
        let error = serde_json::from_str::<HeadPlace>(&json.replace("L7H9", "L7H8")).unwrap_err();
        insta::assert_snapshot!(error, @"head 9 of layer 7 is `L7H9`, not `L7H8`");
    }
}
