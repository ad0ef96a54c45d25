//! Annotations of a word besides its syntactic head and relation: part of speech, lemma, features, entities, class.

use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};

use super::bounds::{MAX_RELATION_BYTES, SHORTER_NAME_HINT};
use crate::system::errors::ErrorExt;
use crate::system::printable::excerpt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// The universal part of speech (UPOS).
    pub upos: Option<Upos>,
    /// Dictionary form of the word; `None` if the corpus does not annotate it.
    pub lemma: Option<Box<str>>,
    /// Morphological features in CoNLL-U notation: `Case=Nom|Number=Sing`.
    pub features: Option<Box<str>>,
    /// The word's `Entity=` entry in MISC, which opens and closes entity mentions
    /// (<https://universaldependencies.org/coref-format.html>): `(3-abstract-new(4-person`, `4)3)`.
    pub entity: Option<Box<str>>,
    /// User-defined class of the word: in a chemical reaction the element of the atom, in source code the category of the
    /// token. `None` without a class.
    pub class: Option<Arc<WordClass>>,
    /// Values of the columns (CoNLL-U) or keys (JSON lines) named by [`Corpus::with_columns`](super::Corpus::with_columns),
    /// in that order; `None` for a missing value.
    pub requested: Box<[Option<Box<str>>]>,
}

/// A user-defined class of words (docs/methodology/classes.md).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WordClass {
    /// Name of the classification to which the class belongs, such as `element`.
    pub key: Arc<str>,
    /// Name of the class within its classification, such as `Na`.
    pub name: Box<str>,
}

impl WordClass {
    /// Makes a class that words can share. Fails if its label would be malformed: `key` is empty or contains `=`, or `name`
    /// is empty or too long.
    pub(super) fn new(key: &Arc<str>, name: Box<str>) -> Result<Arc<Self>> {
        let bad_key = || anyhow!("the name of a kind of classes is empty or has `=`: `{}`", excerpt(key));
        let way_out = "rename it: labels name a class by `kind=class`, so that a kind has a name without `=`";
        ensure!(!key.is_empty() && !key.contains('='), bad_key().hint(way_out));
        let unnamed = || anyhow!("a class of `{}` has no name", excerpt(key));
        ensure!(!name.is_empty(), unnamed().hint("name it, or leave the word without a class (null)"));
        let too_long = || {
            let shown = excerpt(&name);
            anyhow!("the class `{shown}` of `{key}` has a name of more than {MAX_RELATION_BYTES} bytes")
        };
        ensure!(name.len() <= MAX_RELATION_BYTES, too_long().hint(SHORTER_NAME_HINT));
        Ok(Arc::new(Self { key: Arc::clone(key), name }))
    }
}

/// Looks up an entry in a list of `name=value` pairs: `Number` in `Case=Nom|Number=Sing` gives `Sing`.
pub(super) fn entry_value<'a>(entry: &str, entries: &'a str) -> Option<&'a str> {
    entries.split('|').find_map(|pair| pair.split_once('=').filter(|(name, _)| *name == entry)).map(|(_, value)| value)
}

macro_rules! upos {
    ($($name:ident $tag:literal $words:literal,)*) => {
        /// A universal part of speech (<https://universaldependencies.org/u/pos/>).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Upos {
            $(#[doc = $words] $name,)*
        }

        impl Upos {
            /// All parts of speech, sorted by tag.
            pub const ALL: [Self; [$($tag),*].len()] = [$(Self::$name),*];

            /// Tag of the part of speech in Universal Dependencies: `NOUN`.
            pub fn tag(self) -> &'static str {
                match self { $(Self::$name => $tag,)* }
            }

            /// Parses a tag of a part of speech; `None` unless Universal Dependencies has it.
            pub fn of(tag: &str) -> Option<Self> {
                match tag { $($tag => Some(Self::$name),)* _ => None }
            }
        }
    };
}

upos! {
    Adj "ADJ" "Adjective.",
    Adp "ADP" "Adposition.",
    Adv "ADV" "Adverb.",
    Aux "AUX" "Auxiliary.",
    Cconj "CCONJ" "Coordinating conjunction.",
    Det "DET" "Determiner.",
    Intj "INTJ" "Interjection.",
    Noun "NOUN" "Noun.",
    Num "NUM" "Numeral.",
    Part "PART" "Particle.",
    Pron "PRON" "Pronoun.",
    Propn "PROPN" "Proper noun.",
    Punct "PUNCT" "Punctuation.",
    Sconj "SCONJ" "Subordinating conjunction.",
    Sym "SYM" "Symbol.",
    Verb "VERB" "Verb.",
    X "X" "Other.",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_they_are_written() {
        for upos in Upos::ALL {
            assert_eq!(Upos::of(upos.tag()), Some(upos));
        }
        assert!(Upos::ALL.is_sorted_by_key(|upos| upos.tag()));
        assert_eq!(["_", "NN", "noun", ""].map(Upos::of), [None; 4]);
    }

    #[test]
    fn an_annotation_is_small() {
        // Four pointers with their lengths, one without, and a byte: what a corpus lacks costs no more.
        assert_eq!(size_of::<Annotation>(), 4 * size_of::<&str>() + 2 * size_of::<usize>());
    }
}
