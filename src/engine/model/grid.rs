//! The heads of a model, and their names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How many layers, and heads in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadGrid {
    /// Layers.
    pub layers: usize,
    /// Heads per layer.
    pub heads: usize,
}

impl HeadGrid {
    /// The number of all heads.
    pub fn count(self) -> usize {
        self.layers * self.heads
    }

    /// The place of a head in a list of all heads, layer by layer.
    pub fn index(self, layer: usize, head: usize) -> usize {
        layer * self.heads + head
    }

    /// Layer and head at a place in that list.
    pub fn at(self, index: usize) -> (usize, usize) {
        (index / self.heads, index % self.heads)
    }

    /// The head at a place in that list.
    pub fn place(self, index: usize) -> HeadPlace {
        let (layer, head) = self.at(index);
        HeadPlace { layer, head }
    }

    /// The heads in the order of that list.
    pub fn places(self) -> impl Iterator<Item = HeadPlace> {
        (0..self.count()).map(move |index| self.place(index))
    }

    /// The name of the head at a place in that list.
    pub fn name(self, index: usize) -> String {
        let (layer, head) = self.at(index);
        head_name(layer, head)
    }
}

/// The place of one head in a model, as it is named: `L7H9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HeadPlace {
    /// Layer, counted from 0.
    pub layer: usize,
    /// Head within the layer, counted from 0.
    pub head: usize,
}

impl fmt::Display for HeadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&head_name(self.layer, self.head))
    }
}

impl FromStr for HeadPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Names that are written otherwise, such as L07H1, would be two names of one head.
        let plain = |digits: &str| digits.parse().ok().filter(|number: &usize| number.to_string() == digits);
        let parts = text.strip_prefix('L').and_then(|rest| rest.split_once('H'));
        let place = parts.and_then(|(layer, head)| Some(Self { layer: plain(layer)?, head: plain(head)? }));
        place.ok_or_else(|| "expected a head as reports name it: L7H9 is head 9 of layer 7, both from 0".to_owned())
    }
}

impl TryFrom<String> for HeadPlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HeadPlace> for String {
    fn from(place: HeadPlace) -> Self {
        place.to_string()
    }
}

/// `L7H9`: layer 7, head 9, both counted from 0.
pub fn head_name(layer: usize, head: usize) -> String {
    format!("L{layer}H{head}")
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
}
