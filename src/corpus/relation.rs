//! The names of dependency relations: which stand for others.

/// The relation that pools all others but `punct`.
pub const ALL: &str = "all";

/// The relation of punctuation marks: scored by itself, left out of [`ALL`] and of trees.
pub const PUNCT: &str = "punct";

/// A relation's base name: `nsubj` of `nsubj:pass`.
#[must_use]
pub fn base(relation: &str) -> &str {
    relation.split_once(':').map_or(relation, |(base, _)| base)
}

/// The names under which an arc of `relation` is scored: `all` unless punctuation, the base name, the full name.
pub fn scored_as(relation: &str) -> impl Iterator<Item = &str> {
    let base = base(relation);
    let all = (base != PUNCT).then_some(ALL);
    let subtype = (base != relation).then_some(relation);
    all.into_iter().chain([base]).chain(subtype)
}
