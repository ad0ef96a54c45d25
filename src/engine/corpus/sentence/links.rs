//! Links: user-supplied pairs of words of one sentence, each of a user-defined type (docs/methodology/links.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{anyhow, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::corpus::bounds::{MAX_LINK_TYPES, MAX_RELATION_BYTES, SHORTER_NAME_HINT};
use crate::system::errors::ErrorExt;
use crate::system::errors::similar::closest_name;
use crate::system::printable::excerpt;

/// The links of one type in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSet {
    /// Type of the links, shared by all sentences of the corpus.
    pub link_type: Arc<LinkType>,
    /// Target words of each source word, all by their index in the sentence.
    pub targets: BTreeMap<usize, BTreeSet<usize>>,
    /// Indices of the words that can be targets; `None` if the corpus does not restrict them.
    pub candidates: Option<BTreeSet<usize>>,
    /// Number of links dropped because one of their words is not in the sequence: it has no token, or is an empty node of
    /// CoNLL-U.
    pub dropped_links: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkType {
    pub name: Box<str>,
    pub is_undirected: bool,
    /// Minimum distance between linked words, in words, for a link to be scored. Words closer to the source are neither
    /// targets nor candidates.
    pub min_distance: usize,
}

impl LinkSet {
    pub(in crate::corpus) fn new(kind: Arc<LinkType>) -> Self {
        Self { link_type: kind, targets: BTreeMap::new(), candidates: None, dropped_links: 0 }
    }

    /// Adds a link between two words by their indices, and its reverse if the type is undirected. A repeated link counts
    /// once.
    pub(in crate::corpus) fn add(&mut self, from: usize, to: usize) {
        self.targets.entry(from).or_default().insert(to);
        if self.link_type.is_undirected {
            self.targets.entry(to).or_default().insert(from);
        }
    }

    /// Adds a link between two words by their numbers, counted from 1. Fails if one is 0 or above `words`, or both are equal.
    pub(in crate::corpus) fn add_by_number(&mut self, from: u64, to: u64, words: usize) -> anyhow::Result<()> {
        let self_link = || anyhow!("word {to} is linked to itself: leave that link out").with_value(to);
        ensure!(from != to, self_link());
        self.add(word_position(from, words)?, word_position(to, words)?);
        Ok(())
    }

    /// Gets the link set of type `kind` from a sentence's `sets`; adds an empty one if there is none.
    pub(in crate::corpus) fn get_or_add<'a>(sets: &'a mut Vec<Self>, kind: &Arc<LinkType>) -> &'a mut Self {
        let index = sets.iter().position(|set| set.link_type == *kind).unwrap_or_else(|| {
            sets.push(Self::new(Arc::clone(kind)));
            sets.len() - 1
        });
        &mut sets[index]
    }

    /// Whether any link spans at least the minimum distance of its type.
    pub fn has_scored_link(&self) -> bool {
        let mut links = self.targets.iter().flat_map(|(&from, targets)| targets.iter().map(move |&to| (from, to)));
        links.any(|(from, to)| from.abs_diff(to) >= self.link_type.min_distance)
    }

    /// Maps the index of each word by `new_position`. Links and candidates whose word has no new index are dropped; dropped
    /// links are added to `dropped_links`.
    #[must_use]
    pub fn remapped(&self, new_position: impl Fn(usize) -> Option<usize>) -> Self {
        let map =
            |words: &BTreeSet<usize>| words.iter().filter_map(|&word| new_position(word)).collect::<BTreeSet<_>>();
        let mut moved = Self { dropped_links: self.dropped_links, ..Self::new(Arc::clone(&self.link_type)) };
        for (&from, targets) in &self.targets {
            let kept = new_position(from).map(|from| (from, map(targets))).filter(|(_, kept)| !kept.is_empty());
            moved.dropped_links += (targets.len() - kept.as_ref().map_or(0, |(_, kept)| kept.len())) as u64;
            moved.targets.extend(kept);
        }
        moved.candidates = self.candidates.as_ref().map(map);
        moved
    }
}

/// Converts a word number of the corpus, counted from 1, to an index, counted from 0. Fails if the number is 0 or above
/// `words`.
pub(in crate::corpus) fn word_position(number: u64, words: usize) -> anyhow::Result<usize> {
    let position = number.checked_sub(1).and_then(|position| usize::try_from(position).ok());
    let out_of_range =
        || anyhow!("there is no word {number}: the sentence has the words 1 to {words}").with_value(number);
    position.filter(|&position| position < words).ok_or_else(out_of_range)
}

/// Column of CoNLL-U from which links are read: `deps`, or `misc:KEY` for an entry of MISC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum ConlluLinkColumn {
    /// DEPS: links from each word to its syntactic heads in the enhanced graph. The link type is the base name of the relation.
    Deps,
    /// Entry of MISC with this key: links from each word to the words whose numbers the entry lists.
    Misc(Box<str>),
}

impl fmt::Display for ConlluLinkColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deps => f.write_str("deps"),
            Self::Misc(key) => write!(f, "misc:{key}"),
        }
    }
}

impl From<ConlluLinkColumn> for String {
    fn from(from: ConlluLinkColumn) -> Self {
        from.to_string()
    }
}

impl TryFrom<String> for ConlluLinkColumn {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for ConlluLinkColumn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("misc:") {
            Some(key) if !key.is_empty() => Ok(Self::Misc(key.into())),
            None if text == "deps" => Ok(Self::Deps),
            _ => Err("links of CoNLL-U are in `deps` or `misc:KEY`".to_owned()),
        }
    }
}

/// Properties of link types that a run sets by options. They override the properties in the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkTypeOptions {
    /// Link types whose links count in both directions.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub undirected: BTreeSet<String>,
    /// Minimum distance of linked words, in words, by link type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub min_distance: BTreeMap<String, usize>,
}

/// Link types of a corpus, by name. A type has equal properties in all sentences.
#[derive(Default)]
pub(in crate::corpus) struct LinkTypes {
    types: BTreeMap<Box<str>, Arc<LinkType>>,
    options: LinkTypeOptions,
}

impl LinkTypes {
    /// Starts without link types. `options` take precedence over the properties that the corpus gives a type.
    pub(in crate::corpus) fn new(options: LinkTypeOptions) -> Self {
        Self { types: BTreeMap::new(), options }
    }

    /// Gets or adds the link type `name`. It is directed and without a minimum distance, unless options say otherwise. Fails
    /// if the name has a type with other properties, if it is empty or too long, or if there are too many types.
    pub(in crate::corpus) fn get_by_name(&mut self, name: &str) -> anyhow::Result<Arc<LinkType>> {
        self.intern(LinkType { name: name.into(), is_undirected: false, min_distance: 1 })
    }

    /// Fails if an option names a link type that the corpus lacks.
    pub(in crate::corpus) fn ensure_options_used(&self) -> anyhow::Result<()> {
        let undirected = self.options.undirected.iter().map(|name| ("undirected", name));
        let mut named = undirected.chain(self.options.min_distance.keys().map(|name| ("min-distance", name)));
        let unknown = named.find(|(_, name)| !self.types.contains_key(name.as_str()));
        let Some((option, name)) = unknown else { return Ok(()) };
        let types: Vec<String> = self.types.keys().map(|name| format!("`{}`", excerpt(name))).collect();
        let types = if types.is_empty() { "no type".to_owned() } else { types.join(", ") };
        let error = anyhow!("--{option} names the type `{}`, and links are of {types}", excerpt(name));
        let similar = closest_name(name, self.types.keys().map(|name| &**name));
        Err(error.with_option(option).with_value(name).did_you_mean(similar))
    }

    /// Gets the shared link type, or adds it. Fails if its properties differ from the known type's, if its name is empty or too
    /// long, or if there are too many types.
    pub(in crate::corpus) fn intern(&mut self, mut kind: LinkType) -> anyhow::Result<Arc<LinkType>> {
        kind.is_undirected |= self.options.undirected.contains(&*kind.name);
        kind.min_distance = self.options.min_distance.get(&*kind.name).copied().unwrap_or(kind.min_distance);
        let name = || excerpt(&kind.name);
        if let Some(known) = self.types.get(&kind.name) {
            let conflict = |[here, before]: [&str; 2]| {
                anyhow!("links of the type `{}` {here} here, and {before} before", name())
                    .hint("say `undirected` and `min_distance` of a type alike in every sentence that has it")
            };
            let direction = |kind: &LinkType| if kind.is_undirected { "are undirected" } else { "have a direction" };
            ensure!(known.is_undirected == kind.is_undirected, conflict([direction(&kind), direction(known)]));
            let distance = |kind: &LinkType| format!("have a least distance of {}", kind.min_distance);
            ensure!(known.min_distance == kind.min_distance, conflict([&distance(&kind), &distance(known)]));
            return Ok(Arc::clone(known));
        }
        ensure!(!kind.name.is_empty(), anyhow!("a type of links has no name").hint("name it, as in `maps`"));
        let too_long = || anyhow!("the type of links `{}` has a name of more than {MAX_RELATION_BYTES} bytes", name());
        ensure!(kind.name.len() <= MAX_RELATION_BYTES, too_long().hint(SHORTER_NAME_HINT));
        let too_many =
            || anyhow!("links are of the type `{}`, and there are {MAX_LINK_TYPES} other types before", name());
        let way_out = "leave out the types that are no question of yours";
        ensure!(self.types.len() < MAX_LINK_TYPES, too_many().hint(way_out));
        let kind = Arc::new(kind);
        self.types.insert(kind.name.clone(), Arc::clone(&kind));
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, is_undirected: bool) -> LinkType {
        LinkType { name: name.into(), is_undirected, min_distance: 1 }
    }

    #[test]
    fn links_move_with_their_words() {
        let mut links = LinkSet::new(Arc::new(kind("maps", false)));
        [(3, 0), (3, 1), (4, 2), (3, 1)].into_iter().for_each(|(from, to)| links.add(from, to));
        links.candidates = Some([0, 1, 2].into());
        // Word 1 has no token: 3 and 4 are one place further to the left, and 3 -> 1 is lost.
        let moved = links.remapped(|word| (word != 1).then_some(word - usize::from(word > 1)));
        assert_eq!(moved.targets, BTreeMap::from([(2, [0].into()), (3, [1].into())]));
        assert_eq!((moved.candidates, moved.dropped_links), (Some([0, 1].into()), 1));
        // Without its source a link is lost, too.
        let moved = links.remapped(|word| (word != 3).then_some(word));
        assert_eq!((moved.targets, moved.dropped_links), (BTreeMap::from([(4, [2].into())]), 2));
    }

    #[test]
    fn undirected_links_are_two() {
        let mut links = LinkSet::new(Arc::new(kind("contact", true)));
        links.add(0, 7);
        assert_eq!(links.targets, BTreeMap::from([(0, [7].into()), (7, [0].into())]));
    }

    #[test]
    fn a_type_is_one_thing_throughout() {
        let mut types = LinkTypes::default();
        let known = types.intern(kind("contact", true)).unwrap();
        assert!(Arc::ptr_eq(&known, &types.intern(kind("contact", true)).unwrap()));
        (1..MAX_LINK_TYPES).for_each(|number| drop(types.intern(kind(&number.to_string(), true)).unwrap()));
        let long = "x".repeat(MAX_RELATION_BYTES + 1);
        let refused = [("contact", false), ("", true), (&long, true), ("more", true)];
        let errors = refused.map(|(name, is_undirected)| {
            let error = types.intern(kind(name, is_undirected)).unwrap_err();
            format!("{error:#}")
        });
        insta::assert_snapshot!(errors.join("\n"), @"
        links of the type `contact` have a direction here, and are undirected before: say `undirected` and `min_distance` of a type alike in every sentence that has it
        a type of links has no name: name it, as in `maps`
        the type of links `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...` has a name of more than 256 bytes: give it a shorter name: it stands in labels and tables
        links are of the type `more`, and there are 100 other types before: leave out the types that are no question of yours
        ");
    }
}
