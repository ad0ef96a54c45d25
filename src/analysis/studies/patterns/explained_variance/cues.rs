//! The cues that may explain attention, and their groups (docs/methodology/explained-variance.md).

use crate::corpus::Upos;
use crate::sequences::fold::roles::{OFFSETS, offset_at};

pub const TAGS: usize = Upos::ALL.len();

/// First cue of the offsets -8..8.
pub const OFFSET: usize = 0;
/// The key is more than 8 tokens to the left. Keys more than 8 to the right have no cue: they are the reference level of offsets.
pub const FAR_LEFT: usize = OFFSET + OFFSETS;
pub const FIRST_SPECIAL: usize = FAR_LEFT + 1;
pub const SEPARATOR: usize = FIRST_SPECIAL + 1;
/// First of the [`LISTED`] cues that only some pairs of tokens have.
pub const LIST: usize = SEPARATOR + 1;
/// The key is another occurrence of the query's token.
pub const SAME_TOKEN: usize = LIST;
/// The key's word is another word with the query's part of speech.
pub const SAME_TAG: usize = LIST + 1;
pub const HEAD: usize = LIST + 2;
/// The key's word is a dependent of the query's word.
pub const DEPENDENT: usize = LIST + 3;
/// The key's word has the syntactic head of the query's word.
pub const SIBLING: usize = LIST + 4;
pub const LISTED: usize = 5;
/// How common the key is in the corpus.
pub const COMMONNESS: usize = LIST + LISTED;
/// Cosine of the input embeddings of query and key.
pub const COSINE: usize = COMMONNESS + 1;
/// First cue of the parts of speech of the key's word.
pub const TAG: usize = COSINE + 1;
/// The key is the first token of a decoder's input.
pub const FIRST_TOKEN: usize = TAG + TAGS;
pub const CUES: usize = FIRST_TOKEN + 1;

/// The name of a cue in the report.
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

#[derive(Clone, Copy, Debug)]
pub struct CueGroup {
    pub name: &'static str,
    has: fn(usize) -> bool,
}

const fn group(name: &'static str, has: fn(usize) -> bool) -> CueGroup {
    CueGroup { name, has }
}

const PUNCTUATION: usize = TAG + Upos::Punct as usize;

/// The groups of cues; each cue is in one group.
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
