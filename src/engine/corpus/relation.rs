//! Names of dependency relations: the names under which a relation is scored, and checks of their length and number.

use std::collections::HashSet;

use anyhow::{Result, anyhow, ensure};

use super::bounds::{MAX_RELATION_BYTES, MAX_RELATIONS};
use super::sentence::TreeHead;
use crate::system::errors::ErrorExt;
use crate::system::printable::excerpt;

/// Name of the pooled relation: all dependency relations but `punct`.
pub const POOLED_RELATION: &str = "all";

/// The relation of punctuation marks: scored separately, left out of [`POOLED_RELATION`] and of trees.
pub const PUNCTUATION_RELATION: &str = "punct";

/// Base name of a dependency relation, without its subtype: `nsubj` for `nsubj:pass`.
pub fn base_relation(relation: &str) -> &str {
    relation.split_once(':').map_or(relation, |(base, _)| base)
}

/// Names under which a dependency arc of this relation is scored: `all` (unless punctuation), the base name, and the full name if
/// it has a subtype.
pub fn scored_relations(relation: &str) -> impl Iterator<Item = &str> {
    let base = base_relation(relation);
    let all = (base != PUNCTUATION_RELATION).then_some(POOLED_RELATION);
    let subtype = (base != relation).then_some(relation);
    all.into_iter().chain([base]).chain(subtype)
}

/// Distinct dependency relations of a corpus.
#[derive(Default)]
pub(super) struct RelationNames(HashSet<Box<str>>);

impl RelationNames {
    /// Checks the relation of a word with this syntactic head. Fails if the relation is empty, missing, reserved or too
    /// long, or if it is one relation too many. The error is a predicate (`is empty`) that the caller appends to the
    /// word's location.
    pub(super) fn check(&mut self, head: TreeHead, relation: &str) -> Result<()> {
        ensure!(!relation.is_empty(), "is empty");
        if self.0.contains(relation) {
            return Ok(());
        }
        if relation == "_" {
            ensure!(!matches!(head, TreeHead::Word(_)), "is `_`: a word with a head has a relation to it");
            return Ok(());
        }
        let shown = excerpt(relation);
        ensure!(base_relation(relation) != POOLED_RELATION, "is `{shown}`: that name stands for all relations");
        ensure!(relation.len() <= MAX_RELATION_BYTES, "is `{shown}`, a name of more than {MAX_RELATION_BYTES} bytes");
        let too_many =
            || anyhow!("is `{shown}`, and the corpus has {MAX_RELATIONS} other relations before it, no more are taken");
        let way_out = "is this where relations stand? If so, leave out their subtypes";
        ensure!(self.0.len() < MAX_RELATIONS, too_many().hint(way_out));
        self.0.insert(relation.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relation_counts_by_base_name_and_with_its_subtype() {
        assert_eq!(scored_relations("nsubj:pass").collect::<Vec<_>>(), ["all", "nsubj", "nsubj:pass"]);
        assert_eq!(scored_relations("obj").collect::<Vec<_>>(), ["all", "obj"]);
        assert_eq!(scored_relations("punct").collect::<Vec<_>>(), ["punct"]);
        assert_eq!(scored_relations("punct:quote").collect::<Vec<_>>(), ["punct", "punct:quote"]);
    }

    #[test]
    fn names_are_bounded_in_number_and_length() {
        let mut names = RelationNames::default();
        let mut check = |name: &str| names.check(TreeHead::Root, name).map_err(|error| error.to_string());
        let longest = "x".repeat(MAX_RELATION_BYTES);
        assert_eq!(check(&longest), Ok(()));
        insta::assert_snapshot!(check(&(longest.clone() + "x")).unwrap_err(), @"is `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...`, a name of more than 256 bytes");
        for number in 1..MAX_RELATIONS {
            check(&format!("dep:{number}")).unwrap();
        }
        // A known relation passes; `_` is no name.
        assert_eq!([check("dep:1"), check(&longest), check("_")], [Ok(()), Ok(()), Ok(())]);
        insta::assert_snapshot!(check("dep").unwrap_err(), @"is `dep`, and the corpus has 1000 other relations before it, no more are taken: is this where relations stand? If so, leave out their subtypes");
    }
}
