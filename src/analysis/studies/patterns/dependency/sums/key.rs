//! Keys of relations in the sums of dependency relations.

use serde::{Deserialize, Serialize};

use super::super::tags::Side;

/// A relation as it is scored: in a decoder the arcs with the head before the dependent and those with the head after it are
/// apart, for each is seen from one end alone.
///
/// Partials have it as a key of an object, which is a string: the name behind a sign of the side.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RelationKey {
    /// The name of the relation.
    pub name: String,
    /// The side of the dependent on which the head stands; `None` where queries see both sides.
    pub side: Option<Side>,
}

/// The signs of the sides in the keys of partials.
const SIGNS: [(char, Option<Side>); 3] = [('=', None), ('<', Some(Side::Left)), ('>', Some(Side::Right))];

impl From<RelationKey> for String {
    fn from(RelationKey { name, side }: RelationKey) -> Self {
        let (sign, _) = SIGNS.into_iter().find(|(_, of)| *of == side).expect("every side has a sign");
        format!("{sign}{name}")
    }
}

impl TryFrom<String> for RelationKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let of_sign = |(sign, side)| Some(Self { name: text.strip_prefix(sign)?.to_owned(), side });
        SIGNS.into_iter().find_map(of_sign).ok_or_else(|| format!("`{text}` is no relation of a partial"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relation_is_a_key_of_partials() {
        for (side, text) in
            [(None, "\"=obl:of\""), (Some(Side::Left), "\"<obl:of\""), (Some(Side::Right), "\">obl:of\"")]
        {
            let key = RelationKey { name: "obl:of".to_owned(), side };
            assert_eq!(serde_json::to_string(&key).unwrap(), text);
            assert_eq!(serde_json::from_str::<RelationKey>(text).unwrap(), key);
        }
        assert!(serde_json::from_str::<RelationKey>("\"obl\"").is_err());
    }
}
