//! Links: user-supplied pairs of words of one sentence, each of a user-defined type (docs/methodology/links.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{anyhow, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::corpus::bounds::{MAX_LINK_TYPES, MAX_RELATION_BYTES};
use crate::system::errors::Facts;
use crate::system::errors::similar::closest;
use crate::system::printable::excerpt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSet {
    /// Type of the links, shared by all sentences of the corpus.
    pub kind: Arc<LinkType>,
    pub targets: BTreeMap<usize, BTreeSet<usize>>,
    /// Words that can be targets, if the corpus names them.
    pub candidates: Option<BTreeSet<usize>>,
    /// Number of links dropped because a word is missing: it has no token, or is an empty node.
    pub lost: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkType {
    pub name: Box<str>,
    pub is_undirected: bool,
    /// Minimum distance of a scored link, in words. Closer words are neither targets nor candidates.
    pub min_distance: usize,
}

impl LinkSet {
    pub(in crate::corpus) fn new(kind: Arc<LinkType>) -> Self {
        Self { kind, targets: BTreeMap::new(), candidates: None, lost: 0 }
    }

    /// Adds a link, and its reverse where the type is undirected. A repeated link counts once.
    pub(in crate::corpus) fn add(&mut self, from: usize, to: usize) {
        self.targets.entry(from).or_default().insert(to);
        if self.kind.is_undirected {
            self.targets.entry(to).or_default().insert(from);
        }
    }

    /// Adds a link between two words by their numbers, counted from 1. Fails if one is 0 or above `words`, or both are equal.
    pub(in crate::corpus) fn link(&mut self, from: u64, to: u64, words: usize) -> anyhow::Result<()> {
        let loose = || anyhow!("word {to} is linked to itself: leave that link out").of_value(to);
        ensure!(from != to, loose());
        self.add(place(from, words)?, place(to, words)?);
        Ok(())
    }

    /// Finds the set with links of type `kind` among a sentence's `sets`; adds an empty one if there is none.
    pub(in crate::corpus) fn of_type<'a>(sets: &'a mut Vec<Self>, kind: &Arc<LinkType>) -> &'a mut Self {
        let place = sets.iter().position(|set| set.kind == *kind).unwrap_or_else(|| {
            sets.push(Self::new(Arc::clone(kind)));
            sets.len() - 1
        });
        &mut sets[place]
    }

    /// Whether any link spans at least the minimum distance of its type.
    pub fn has_scored_link(&self) -> bool {
        let mut links = self.targets.iter().flat_map(|(&from, targets)| targets.iter().map(move |&to| (from, to)));
        links.any(|(from, to)| from.abs_diff(to) >= self.kind.min_distance)
    }

    /// Maps each word position by `place`. Links to or from a word without a new position are dropped and counted in `lost`.
    #[must_use]
    pub fn moved(&self, place: impl Fn(usize) -> Option<usize>) -> Self {
        let mut moved = Self { lost: self.lost, ..Self::new(Arc::clone(&self.kind)) };
        for (&from, targets) in &self.targets {
            let found: BTreeSet<usize> = targets.iter().filter_map(|&to| place(to)).collect();
            match place(from).filter(|_| !found.is_empty()) {
                Some(from) => {
                    moved.lost += (targets.len() - found.len()) as u64;
                    moved.targets.insert(from, found);
                }
                None => moved.lost += targets.len() as u64,
            }
        }
        let candidates = self.candidates.as_ref();
        moved.candidates = candidates.map(|words| words.iter().filter_map(|&word| place(word)).collect());
        moved
    }
}

/// Converts a word number, counted from 1, to a position, counted from 0. Fails if the number is 0 or above `words`.
pub(in crate::corpus) fn place(number: u64, words: usize) -> anyhow::Result<usize> {
    let place = number.checked_sub(1).and_then(|place| usize::try_from(place).ok()).filter(|&place| place < words);
    let outside = || anyhow!("there is no word {number}: the sentence has the words 1 to {words}").of_value(number);
    place.ok_or_else(outside)
}

/// Column of CoNLL-U from which links are read: `deps`, or `misc:KEY` for an entry of MISC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum LinksFrom {
    /// DEPS: links from each word to its syntactic heads in the enhanced graph. The link type is the base name of the relation.
    Deps,
    /// Entry of MISC with this key: links from each word to the words whose numbers the entry lists.
    Misc(Box<str>),
}

impl fmt::Display for LinksFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deps => f.write_str("deps"),
            Self::Misc(key) => write!(f, "misc:{key}"),
        }
    }
}

impl From<LinksFrom> for String {
    fn from(from: LinksFrom) -> Self {
        from.to_string()
    }
}

impl TryFrom<String> for LinksFrom {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for LinksFrom {
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

#[derive(Default)]
pub(in crate::corpus) struct LinkTypes {
    known: BTreeMap<Box<str>, Arc<LinkType>>,
    options: LinkTypeOptions,
}

impl LinkTypes {
    /// Starts without link types; `options` override the properties that the corpus gives a type.
    pub(in crate::corpus) fn new(options: LinkTypeOptions) -> Self {
        Self { known: BTreeMap::new(), options }
    }

    /// Gets the link type `name`, directed and without a minimum distance unless options set them. Fails as [`LinkTypes::get`].
    pub(in crate::corpus) fn plain(&mut self, name: &str) -> anyhow::Result<Arc<LinkType>> {
        self.get(LinkType { name: name.into(), is_undirected: false, min_distance: 1 })
    }

    pub(in crate::corpus) fn ensure_options_used(&self) -> anyhow::Result<()> {
        let LinkTypeOptions { undirected, min_distance } = &self.options;
        let undirected = undirected.iter().map(|name| ("undirected", name));
        let named = undirected.chain(min_distance.keys().map(|name| ("min-distance", name)));
        let mut unknown = named.filter(|(_, name)| !self.known.contains_key(name.as_str()));
        if let Some((option, name)) = unknown.next() {
            let types: Vec<String> = self.known.keys().map(|known| format!("`{}`", excerpt(known))).collect();
            let types = if types.is_empty() { "no type".to_owned() } else { types.join(", ") };
            let error = anyhow!("--{option} names the type `{}`, and links are of {types}", excerpt(name));
            let similar = closest(name, self.known.keys().map(|known| &**known));
            return Err(error.of_option(option).of_value(name).did_you_mean(similar));
        }
        Ok(())
    }

    /// Gets the shared link type, or adds it. Fails if its properties differ from the known type's, if its name is empty or too
    /// long, or if there are too many types.
    pub(in crate::corpus) fn get(&mut self, mut found: LinkType) -> anyhow::Result<Arc<LinkType>> {
        found.is_undirected |= self.options.undirected.contains(&*found.name);
        found.min_distance = self.options.min_distance.get(&*found.name).copied().unwrap_or(found.min_distance);
        if let Some(known) = self.known.get(&found.name) {
            let name = excerpt(&found.name);
            let other = |is: [&str; 2]| {
                anyhow!("links of the type `{name}` {} here, and {} before", is[0], is[1])
                    .hint("say `undirected` and `min_distance` of a type alike in every sentence that has it")
            };
            let words = |kind: &LinkType| if kind.is_undirected { "are undirected" } else { "have a direction" };
            ensure!(known.is_undirected == found.is_undirected, other([words(&found), words(known)]));
            let words = |kind: &LinkType| format!("have a least distance of {}", kind.min_distance);
            ensure!(known.min_distance == found.min_distance, other([&words(&found), &words(known)]));
            return Ok(Arc::clone(known));
        }
        let name = excerpt(&found.name);
        ensure!(!found.name.is_empty(), anyhow!("a type of links has no name").hint("name it, as in `maps`"));
        ensure!(
            found.name.len() <= MAX_RELATION_BYTES,
            anyhow!("the type of links `{name}` has a name of more than {MAX_RELATION_BYTES} bytes")
                .hint("give it a shorter name: it stands in labels and tables")
        );
        ensure!(
            self.known.len() < MAX_LINK_TYPES,
            anyhow!("links are of the type `{name}`, and there are {MAX_LINK_TYPES} other types before")
                .hint("leave out the types that are no question of yours")
        );
        let known = Arc::new(found);
        self.known.insert(known.name.clone(), Arc::clone(&known));
        Ok(known)
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
        let moved = links.moved(|word| (word != 1).then_some(word - usize::from(word > 1)));
        assert_eq!(moved.targets, BTreeMap::from([(2, [0].into()), (3, [1].into())]));
        assert_eq!((moved.candidates, moved.lost), (Some([0, 1].into()), 1));
        // Without its source a link is lost, too.
        let moved = links.moved(|word| (word != 3).then_some(word));
        assert_eq!((moved.targets, moved.lost), (BTreeMap::from([(4, [2].into())]), 2));
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
        let known = types.get(kind("contact", true)).unwrap();
        assert!(Arc::ptr_eq(&known, &types.get(kind("contact", true)).unwrap()));
        let message = |error: anyhow::Error| format!("{error:#}");
        let error = message(types.get(kind("contact", false)).unwrap_err());
        assert!(error.contains("`contact` have a direction here, and are undirected before"), "{error}");
        assert!(message(types.get(kind("", true)).unwrap_err()).contains("has no name"));
        let long = "x".repeat(MAX_RELATION_BYTES + 1);
        assert!(message(types.get(kind(&long, true)).unwrap_err()).contains("more than 256 bytes"));
        (1..MAX_LINK_TYPES).for_each(|number| drop(types.get(kind(&number.to_string(), true)).unwrap()));
        assert!(message(types.get(kind("more", true)).unwrap_err()).contains("100 other types"));
    }
}
