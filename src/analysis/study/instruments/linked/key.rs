//! Keys of link types: the links' name, whether they are undirected, and the side on which targets stand.

use serde::{Deserialize, Serialize};

use crate::corpus::LinkSet;
use crate::study::labels::evidence::{Direction, Side};

/// A type of links that is scored separately. In a decoder, words see only earlier words, so links to the left and to
/// the right are separate types: the later word is always the query.
///
/// In saved sums it is the key of a JSON object, and so a string: a sign for `side`, a sign for `is_undirected`,
/// and the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LinkKey {
    /// Name of the links in the corpus.
    pub name: Box<str>,
    /// Whether the links have no direction, so that each is scored from both ends.
    pub is_undirected: bool,
    /// The side of the source on which the target stands; `None` where queries see both sides.
    pub side: Option<Side>,
}

/// Sign of each `side` in the text of a [`LinkKey`].
const SIDE_SIGNS: [(char, Option<Side>); 3] = [('=', None), ('<', Some(Side::Left)), ('>', Some(Side::Right))];

/// Sign of directed (`false`) and undirected (`true`) links in the text of a [`LinkKey`].
const DIRECTEDNESS_SIGNS: [(char, bool); 2] = [('-', false), ('~', true)];

impl From<LinkKey> for String {
    fn from(LinkKey { name, is_undirected, side }: LinkKey) -> Self {
        let side = SIDE_SIGNS.into_iter().find(|(_, known)| *known == side).expect("every side has a sign").0;
        format!("{side}{}{name}", DIRECTEDNESS_SIGNS[usize::from(is_undirected)].0)
    }
}

impl TryFrom<String> for LinkKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let of_signs = |mut text: &str| {
            let side = SIDE_SIGNS.into_iter().find(|(sign, _)| text.starts_with(*sign))?.1;
            text = &text[1..];
            let is_undirected = DIRECTEDNESS_SIGNS.into_iter().find(|(sign, _)| text.starts_with(*sign))?.1;
            Some(Self { name: text[1..].into(), is_undirected, side })
        };
        of_signs(&text).ok_or_else(|| format!("`{text}` is no type of links of a partial"))
    }
}

impl LinkKey {
    /// The types under which a set of links is scored: one type, or in a decoder one for each side.
    pub fn from_link_set(links: &LinkSet, is_causal: bool) -> Vec<Self> {
        let is_undirected = links.link_type.is_undirected;
        let sides: &[Option<Side>] = match (is_causal, is_undirected) {
            (false, _) => &[None],
            (true, true) => &[Some(Side::Left)],
            (true, false) => &[Some(Side::Left), Some(Side::Right)],
        };
        sides.iter().map(|&side| Self { name: links.link_type.name.clone(), is_undirected, side }).collect()
    }

    /// The directions in which links of this type are scored.
    pub fn directions(&self) -> &'static [Direction] {
        match (self.is_undirected, self.side) {
            (false, None) => &Direction::BOTH_OF_LINKS,
            (true, _) | (_, Some(Side::Left)) => &[Direction::From],
            (false, Some(Side::Right)) => &[Direction::To],
        }
    }
}

/// Index of `direction` in pairs of numbers that have the order of [`Direction::BOTH_OF_LINKS`].
pub fn direction_index(direction: Direction) -> usize {
    usize::from(!direction.is_forward())
}
