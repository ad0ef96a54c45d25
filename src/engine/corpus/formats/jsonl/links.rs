//! The links of a line: `links`, `candidates`, `undirected`, `min_distance` and `classes`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use crate::corpus::annotation::WordClass;
use crate::corpus::bounds::MAX_LINKS;
use crate::corpus::sentence::links::{LinkSet, LinkType, LinkTypes, place};
use crate::system::counted::{counted, plural};
use crate::system::errors::Facts;
use crate::system::printable::excerpt;

/// A link as a line has it: a source, and a target or a list of them.
pub(super) type WrittenLink = (u64, Targets);

/// The targets of a link.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a link is `[from, to]` or `[from, [to, to]]`, words counted from 1")]
pub(super) enum Targets {
    One(u64),
    Several(Vec<u64>),
}

/// The keys of a line about links.
pub(super) struct LinkKeys {
    pub links: Option<BTreeMap<String, Vec<WrittenLink>>>,
    pub candidates: Option<BTreeMap<String, Vec<u64>>>,
    pub undirected: Option<Vec<String>>,
    pub min_distance: Option<BTreeMap<String, usize>>,
}

impl LinkKeys {
    /// The first of the keys that the line has.
    pub fn first(&self) -> Option<&'static str> {
        let Self { links, candidates, undirected, min_distance } = self;
        let given = [
            ("links", links.is_some()),
            ("candidates", candidates.is_some()),
            ("undirected", undirected.is_some()),
            ("min_distance", min_distance.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The links of a sentence of so many words.
    pub fn read(self, words: usize, types: &mut LinkTypes) -> Result<Vec<LinkSet>> {
        let Self { links, candidates, undirected, min_distance } = self;
        let links = links.unwrap_or_default();
        let (mut candidates, mut distances) = (candidates.unwrap_or_default(), min_distance.unwrap_or_default());
        let mut undirected: BTreeSet<String> = undirected.unwrap_or_default().into_iter().collect();
        let mut sets = Vec::with_capacity(links.len());
        let mut count = 0;
        for (name, written) in links {
            let is_undirected = undirected.remove(&name);
            let min_distance = distances.remove(&name).unwrap_or(1);
            let kind = LinkType { name: name.as_str().into(), is_undirected, min_distance };
            let mut set = LinkSet::new(types.get(kind)?);
            let in_type = |problem: String| format!("`links`, `{}`: {problem}", excerpt(&name));
            for (from, to) in written {
                let to = match to {
                    Targets::One(to) => vec![to],
                    Targets::Several(to) => to,
                };
                count += to.len();
                ensure!(
                    count <= MAX_LINKS,
                    anyhow!("`links` has more than {MAX_LINKS} links of one sentence").hint("split the sentence")
                );
                for to in to {
                    set.link(from, to, words).reworded(in_type)?;
                }
            }
            if let Some(named) = candidates.remove(&name) {
                let in_type = |problem: String| format!("`candidates`, `{}`: {problem}", excerpt(&name));
                let place = |number: u64| place(number, words).reworded(in_type);
                set.candidates = Some(named.into_iter().map(place).collect::<Result<_>>()?);
            }
            sets.push(set);
        }
        let stray = [
            ("candidates", candidates.into_keys().next()),
            ("undirected", undirected.into_iter().next()),
            ("min_distance", distances.into_keys().next()),
        ];
        for (key, name) in stray {
            if let Some(name) = name {
                let error = anyhow!("`{key}` names the type `{}`, and `links` has none of that name", excerpt(&name));
                return Err(error.of_value(&name).hint("give the type a list in `links`; it may be empty"));
            }
        }
        Ok(sets)
    }
}

/// The class of each of so many words, under the key that a run names, or the only one.
pub(super) fn classes(
    given: Option<BTreeMap<String, Vec<Option<Box<str>>>>>,
    words: usize,
    wanted: Option<&Arc<str>>,
) -> Result<Vec<Option<Arc<WordClass>>>> {
    let mut given = given.unwrap_or_default();
    if let Some(key) = wanted {
        given.retain(|name, _| **name == **key);
    }
    let names = || given.keys().map(|name| format!("`{}`", excerpt(name))).collect::<Vec<_>>().join(", ");
    ensure!(
        given.len() < 2,
        anyhow!("`classes` has {} keys, {}, and a word has one class", given.len(), names())
            .hint("name one of them with --classes, or keep one of the keys")
    );
    let Some((name, classes)) = given.into_iter().next() else { return Ok(Vec::new()) };
    ensure!(classes.len() == words, "{}", of_other_length(&format!("classes.{name}"), classes.len(), words));
    let key: Arc<str> = wanted.map_or_else(|| name.into(), Arc::clone);
    classes.into_iter().map(|name| name.map(|name| WordClass::shared(&key, name)).transpose()).collect()
}

/// The error of a list that has not one entry for each word.
pub(super) fn of_other_length(name: &str, length: usize, words: usize) -> String {
    let entries = plural(&length, "entry", "entries");
    format!("`{name}` has {length} {entries} for {}", counted(words, "word"))
}
