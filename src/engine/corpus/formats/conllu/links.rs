//! Links of CoNLL-U: enhanced dependencies, or numbers of words in MISC.

use anyhow::{Result, anyhow, bail};

use super::surface::{COLUMNS, number};
use crate::corpus::annotation::value_of;
use crate::corpus::relation::base;
use crate::corpus::sentence::links::{LinkSet, LinkTypes, LinksFrom};
use crate::system::errors::Facts;
use crate::system::printable::excerpt;

/// Values of links that the words of a sentence have, until it is whole.
#[derive(Default)]
pub(super) struct NotedLinks {
    noted: Vec<(usize, Box<str>)>,
}

impl NotedLinks {
    pub fn note(&mut self, from: Option<&LinksFrom>, columns: &[&str; COLUMNS], word: usize) {
        let value = match from {
            None => None,
            Some(LinksFrom::Deps) => Some(columns[8]).filter(|deps| *deps != "_"),
            Some(LinksFrom::Misc(key)) => value_of(key, columns[9]),
        };
        self.noted.extend(value.map(|value| (word, value.into())));
    }

    /// The links of the whole sentence of so many words; an error comes with its word.
    pub fn read(
        self,
        from: Option<&LinksFrom>,
        words: usize,
        types: &mut LinkTypes,
    ) -> Result<Vec<LinkSet>, (usize, anyhow::Error)> {
        let mut sets = Vec::new();
        for (word, value) in self.noted {
            let mut add = || -> Result<()> {
                for (to, name) in targets(from, &value)? {
                    let set = LinkSet::of_type(&mut sets, &types.plain(name)?);
                    match to {
                        Some(to) => set.link(word as u64 + 1, to, words).of_value(&value)?,
                        None => set.lost += 1,
                    }
                }
                Ok(())
            };
            add().map_err(|error| (word, error))?;
        }
        Ok(sets)
    }
}

/// The targets of a word by its value, each with the name of its type; `None` of an empty node. Roots have none.
fn targets<'a>(from: Option<&'a LinksFrom>, value: &'a str) -> Result<Vec<(Option<u64>, &'a str)>> {
    let wrong = |column: &str, found: &str, expected: &str| {
        anyhow!("{column} has `{}`: expected {expected}", excerpt(found)).of_value(found)
    };
    match from {
        None => Ok(Vec::new()),
        Some(LinksFrom::Misc(key)) => {
            let column = format!("column 10 (MISC), `{key}`,");
            let of_part = |part: &'a str| match number(part) {
                Some(to) => Ok((Some(to as u64), &**key)),
                None => bail!(wrong(&column, part, "numbers of words, separated by commas")),
            };
            value.split(',').map(str::trim).map(of_part).collect()
        }
        Some(LinksFrom::Deps) => {
            let mut found = Vec::new();
            for part in value.split('|') {
                let other = || wrong("column 9 (DEPS)", part, "HEAD:RELATION");
                let (head, relation) = part.split_once(':').ok_or_else(other)?;
                if head == "0" {
                    continue;
                }
                let to = if head.contains('.') { None } else { Some(number(head).ok_or_else(other)? as u64) };
                found.push((to, base(relation)));
            }
            Ok(found)
        }
    }
}
