//! Cues (properties of a query and a key) that may explain attention, and their groups (docs/methodology/explained-variance.md).

use crate::corpus::Upos;
use crate::sequences::fold::roles::{OFFSETS, offset_at};

pub const TAGS: usize = Upos::ALL.len();

/// Index of the first cue of the offsets -8..8 from query to key.
pub const OFFSET: usize = 0;
/// Index of the cue that the key is over 8 tokens to the left. Keys over 8 to the right have none: the reference level of
/// offsets.
pub const FAR_LEFT: usize = OFFSET + OFFSETS;
pub const FIRST_SPECIAL: usize = FAR_LEFT + 1;
pub const SEPARATOR: usize = FIRST_SPECIAL + 1;
/// Index of the first of the [`LISTED`] cues that depend on query and key, and that few pairs of tokens have.
pub const LIST: usize = SEPARATOR + 1;
/// Index of the cue that the key is another occurrence of the query's token.
pub const SAME_TOKEN: usize = LIST;
/// Index of the cue that the key's word is another word with the query's part of speech.
pub const SAME_TAG: usize = LIST + 1;
/// Index of the cue that the key's word is the syntactic head of the query's word.
pub const HEAD: usize = LIST + 2;
/// Index of the cue that the key's word is a dependent of the query's word.
pub const DEPENDENT: usize = LIST + 3;
/// Index of the cue that the words of query and key share their syntactic head.
pub const SIBLING: usize = LIST + 4;
/// Number of cues from [`SAME_TOKEN`] to [`SIBLING`].
pub const LISTED: usize = 5;
/// Index of the cue that says how common the key's token is in the corpus.
pub const COMMONNESS: usize = LIST + LISTED;
/// Index of the cue that is the cosine of the input embeddings of query and key.
pub const COSINE: usize = COMMONNESS + 1;
/// Index of the first cue of the key word's part of speech.
pub const TAG: usize = COSINE + 1;
/// Index of the cue that the key is the first token of a decoder's input.
pub const FIRST_TOKEN: usize = TAG + TAGS;
pub const CUES: usize = FIRST_TOKEN + 1;

/// Returns the name of a cue in the report.
pub fn name(cue: usize) -> String {
    match cue {
        FAR_LEFT => "offset.<-8".to_owned(),
        FIRST_SPECIAL => "first-special".to_owned(),
        FIRST_TOKEN => "first-token".to_owned(),
        SEPARATOR => "separator".to_owned(),
        SAME_TOKEN => "same-token".to_owned(),
        SAME_TAG => "same-upos".to_owned(),
        HEAD => "syntactic-head".to_owned(),
        DEPENDENT => "dependent".to_owned(),
        SIBLING => "sibling".to_owned(),
        COMMONNESS => "commonness".to_owned(),
        COSINE => "cosine".to_owned(),
        cue if cue >= TAG => format!("upos.{}", Upos::ALL[cue - TAG].tag()),
        cue => format!("offset.{}", offset_at(cue - OFFSET)),
    }
}

/// A named group of cues; `has` says whether a cue is in it.
#[derive(Clone, Copy, Debug)]
pub struct CueGroup {
    pub name: &'static str,
    has: fn(usize) -> bool,
}

const fn group(name: &'static str, has: fn(usize) -> bool) -> CueGroup {
    CueGroup { name, has }
}

const PUNCTUATION: usize = TAG + Upos::Punct as usize;

/// Groups of cues; each cue is in exactly one group.
pub const GROUPS: [CueGroup; 7] = [
    group("position", |cue| cue <= FAR_LEFT),
    group("sinks", |cue| matches!(cue, FIRST_SPECIAL | FIRST_TOKEN | SEPARATOR | PUNCTUATION)),
    group("identity", |cue| cue == SAME_TOKEN),
    group("classes", |cue| cue == SAME_TAG || (TAG..TAG + TAGS).contains(&cue) && cue != PUNCTUATION),
    group("frequency", |cue| cue == COMMONNESS),
    group("similarity", |cue| cue == COSINE),
    group("syntax", |cue| matches!(cue, HEAD | DEPENDENT | SIBLING)),
];

impl CueGroup {
    pub fn cues(self) -> impl Iterator<Item = usize> {
        (0..CUES).filter(move |&cue| (self.has)(cue))
    }

    /// Cues of all other groups.
    pub fn others(self) -> impl Iterator<Item = usize> {
        (0..CUES).filter(move |&cue| !(self.has)(cue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cue_is_in_one_group_and_has_a_name_of_its_own() {
        for cue in 0..CUES {
            assert_eq!(GROUPS.iter().filter(|group| group.cues().any(|one| one == cue)).count(), 1, "{}", name(cue));
        }
        let mut names: Vec<String> = (0..CUES).map(name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CUES);
        assert_eq!([name(0), name(16), name(TAG)], ["offset.-8", "offset.8", "upos.ADJ"]);
    }
}
