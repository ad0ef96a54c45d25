//! Cues: properties of a query and a key that may explain attention between them, in groups
//! (docs/methodology/explained-variance.md).

use crate::corpus::Upos;
use crate::sequences::fold::roles::{OFFSET_COUNT, offset_at};

/// Number of parts of speech (UPOS tags).
pub const TAG_COUNT: usize = Upos::ALL.len();

/// Index of the first of the cues for the offsets -8 to 8 from query to key.
pub const FIRST_OFFSET_CUE: usize = 0;
/// Index of the cue of keys more than 8 tokens to the left. Keys more than 8 to the right have no cue, as the reference
/// level of offsets.
pub const FAR_LEFT_CUE: usize = FIRST_OFFSET_CUE + OFFSET_COUNT;
/// Index of the cue that the key is the first special token.
pub const FIRST_SPECIAL_CUE: usize = FAR_LEFT_CUE + 1;
/// Index of the cue that the key is a separator.
pub const SEPARATOR_CUE: usize = FIRST_SPECIAL_CUE + 1;
/// Index of the first of the [`PAIR_CUE_COUNT`] cues that depend on query and key together. Few pairs of tokens have them.
pub const FIRST_PAIR_CUE: usize = SEPARATOR_CUE + 1;
/// Index of the cue that the key is another occurrence of the query's token id.
pub const SAME_TOKEN_CUE: usize = FIRST_PAIR_CUE;
/// Index of the cue that the key's word is another word with the query's part of speech.
pub const SAME_TAG_CUE: usize = FIRST_PAIR_CUE + 1;
/// Index of the cue that the key's word is the syntactic head of the query's word.
pub const SYNTACTIC_HEAD_CUE: usize = FIRST_PAIR_CUE + 2;
/// Index of the cue that the key's word is a dependent of the query's word.
pub const DEPENDENT_CUE: usize = FIRST_PAIR_CUE + 3;
/// Index of the cue that the words of query and key are siblings: they have one syntactic head.
pub const SIBLING_CUE: usize = FIRST_PAIR_CUE + 4;
/// Number of pair cues, from [`SAME_TOKEN_CUE`] to [`SIBLING_CUE`].
pub const PAIR_CUE_COUNT: usize = 5;
/// Index of the cue whose value is the commonness of the key's token: the share of corpus tokens that are rarer.
pub const COMMONNESS_CUE: usize = FIRST_PAIR_CUE + PAIR_CUE_COUNT;
/// Index of the cue whose value is the cosine between the input embeddings of query and key.
pub const COSINE_CUE: usize = COMMONNESS_CUE + 1;
/// Index of the first of the [`TAG_COUNT`] cues for the part of speech of the key's word.
pub const FIRST_TAG_CUE: usize = COSINE_CUE + 1;
/// Index of the cue that the key is the first token of a decoder's input.
pub const FIRST_TOKEN_CUE: usize = FIRST_TAG_CUE + TAG_COUNT;
pub const CUE_COUNT: usize = FIRST_TOKEN_CUE + 1;

/// Name of a cue as printed in the report.
pub fn cue_name(cue: usize) -> String {
    match cue {
        FAR_LEFT_CUE => "offset.<-8".to_owned(),
        FIRST_SPECIAL_CUE => "first-special".to_owned(),
        FIRST_TOKEN_CUE => "first-token".to_owned(),
        SEPARATOR_CUE => "separator".to_owned(),
        SAME_TOKEN_CUE => "same-token".to_owned(),
        SAME_TAG_CUE => "same-upos".to_owned(),
        SYNTACTIC_HEAD_CUE => "syntactic-head".to_owned(),
        DEPENDENT_CUE => "dependent".to_owned(),
        SIBLING_CUE => "sibling".to_owned(),
        COMMONNESS_CUE => "commonness".to_owned(),
        COSINE_CUE => "cosine".to_owned(),
        cue if cue >= FIRST_TAG_CUE => format!("upos.{}", Upos::ALL[cue - FIRST_TAG_CUE].tag()),
        cue => format!("offset.{}", offset_at(cue - FIRST_OFFSET_CUE)),
    }
}

#[derive(Clone, Copy, Debug)]
pub struct CueGroup {
    pub name: &'static str,
    /// Whether the cue with this index belongs to the group.
    contains: fn(usize) -> bool,
}

const fn cue_group(name: &'static str, has: fn(usize) -> bool) -> CueGroup {
    CueGroup { name, contains: has }
}

/// Index of the cue that the key's word is punctuation.
const PUNCTUATION_CUE: usize = FIRST_TAG_CUE + Upos::Punct as usize;

/// Groups of cues. Each cue belongs to exactly one group.
pub const CUE_GROUPS: [CueGroup; 7] = [
    cue_group("position", |cue| cue <= FAR_LEFT_CUE),
    cue_group("sinks", |cue| matches!(cue, FIRST_SPECIAL_CUE | FIRST_TOKEN_CUE | SEPARATOR_CUE | PUNCTUATION_CUE)),
    cue_group("identity", |cue| cue == SAME_TOKEN_CUE),
    cue_group("classes", |cue| {
        cue == SAME_TAG_CUE || (FIRST_TAG_CUE..FIRST_TAG_CUE + TAG_COUNT).contains(&cue) && cue != PUNCTUATION_CUE
    }),
    cue_group("frequency", |cue| cue == COMMONNESS_CUE),
    cue_group("similarity", |cue| cue == COSINE_CUE),
    cue_group("syntax", |cue| matches!(cue, SYNTACTIC_HEAD_CUE | DEPENDENT_CUE | SIBLING_CUE)),
];

impl CueGroup {
    /// Indices of the cues in this group.
    pub fn cues(self) -> impl Iterator<Item = usize> {
        (0..CUE_COUNT).filter(move |&cue| (self.contains)(cue))
    }

    /// Indices of the cues in all other groups.
    pub fn other_cues(self) -> impl Iterator<Item = usize> {
        (0..CUE_COUNT).filter(move |&cue| !(self.contains)(cue))
    }
}

#[cfg(test)]
mod tests {
    use itertools::Itertools;

    use super::*;

    #[test]
    fn each_cue_is_in_one_group_and_has_a_name_of_its_own() {
        for cue in 0..CUE_COUNT {
            assert_eq!(
                CUE_GROUPS.iter().filter(|group| group.cues().any(|one| one == cue)).count(),
                1,
                "{}",
                cue_name(cue)
            );
        }
        assert!((0..CUE_COUNT).map(cue_name).all_unique());
        assert_eq!([cue_name(0), cue_name(16), cue_name(FIRST_TAG_CUE)], ["offset.-8", "offset.8", "upos.ADJ"]);
    }
}
