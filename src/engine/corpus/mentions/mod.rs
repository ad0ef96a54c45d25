//! Entity mentions in the `Entity=` entries of MISC (<https://universaldependencies.org/coref-format.html>).
//!
//! `(e1-person-2` opens a mention of `e1` and `e1)` closes it, `(e1-person-1)` is a mention of a single word; `e1[1/2]` is the
//! first part of a mention in two parts. `# global.Entity` names the fields after the entity.

use std::collections::BTreeMap;
use std::ops::Range;

use super::sentence::TreeHead;

#[cfg(test)]
mod tests;

/// A mention of an entity: a span of words that refers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention<'a> {
    /// Name of the mentioned entity in its document.
    pub entity: &'a str,
    /// Word ranges of the mention, first to last: one, or several if it is discontinuous; none is empty.
    pub parts: Vec<Range<usize>>,
    /// Word index of the mention's syntactic head by the annotation; `None` if the annotation names no single word of the
    /// mention.
    pub annotated_head: Option<usize>,
}

/// Entity mentions of a text, ordered by the words at which they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions<'a> {
    pub mentions: Vec<Mention<'a>>,
    /// Number of opening and closing brackets, and of parts of discontinuous mentions, that have no counterpart.
    pub unmatched: u64,
}

/// Positions of fields in the label of a bracket, counted from 0.
struct EntityFields {
    count: usize,
    entity: usize,
    /// Position of the field that gives the mention's syntactic head; `None` without that field.
    head: Option<usize>,
}

impl EntityFields {
    /// Finds the entity and head fields in a declaration such as `eid-etype-head`. Without a declaration, the entity is the
    /// only field.
    fn new(declared: Option<&str>) -> Self {
        let names: Vec<&str> = declared.unwrap_or_default().split('-').collect();
        let place = |wanted: &[&str]| names.iter().position(|name| wanted.contains(name));
        // Field names of `CorefUD` and of GUM. The head field holds the place of the head word within the span.
        Self { count: names.len(), entity: place(&["eid", "GRP"]).unwrap_or(0), head: place(&["head", "minspan"]) }
    }

    /// Splits the label of an opening bracket into the entity, with the part (`e1[1/2]`) if any, and the head field, if
    /// any.
    fn split_label<'a>(&self, label: &'a str) -> (&'a str, Option<&'a str>) {
        // The last field may contain hyphens.
        let fields: Vec<&str> = label.splitn(self.count.max(2), '-').collect();
        let field = |place: usize| fields.get(place).copied();
        (field(self.entity).unwrap_or(label), self.head.and_then(field))
    }
}

/// Discontinuous mention with parts still to come: its head field, and the word ranges of the parts so far.
type UnfinishedMention<'a> = (Option<&'a str>, Vec<Range<usize>>);

/// Parser of the mentions of a text, word by word.
struct MentionParser<'a> {
    fields: EntityFields,
    /// Open brackets by entity name (with the part, if any): the first word and the head field of each.
    open: BTreeMap<&'a str, Vec<(usize, Option<&'a str>)>>,
    /// Discontinuous mentions with parts still to come, by entity and number of parts.
    unfinished: BTreeMap<(&'a str, u32), UnfinishedMention<'a>>,
    parsed: Mentions<'a>,
}

impl<'a> Mentions<'a> {
    /// Parses the mentions in the `Entity=` values of consecutive words (`None` for a word without one). `fields` is the
    /// declaration in `# global.Entity`.
    pub fn parse(words: impl IntoIterator<Item = Option<&'a str>>, fields: Option<&str>) -> Self {
        let fields = EntityFields::new(fields);
        let mut parser =
            MentionParser { fields, open: BTreeMap::new(), unfinished: BTreeMap::new(), parsed: Mentions::default() };
        for (word, value) in words.into_iter().enumerate() {
            parser.add_word(word, value.unwrap_or_default());
        }
        let open: usize = parser.open.values().map(Vec::len).sum();
        parser.parsed.unmatched += (open + parser.unfinished.len()) as u64;
        parser.parsed
    }
}

impl<'a> MentionParser<'a> {
    /// Reads the brackets in the `Entity=` value of a word.
    fn add_word(&mut self, word: usize, value: &'a str) {
        let mut rest = value;
        while !rest.is_empty() {
            let opens = rest.starts_with('(');
            let inside = &rest[usize::from(opens)..];
            let end = inside.find(['(', ')']).unwrap_or(inside.len());
            let closes = inside[end..].starts_with(')');
            let label = &inside[..end];
            rest = &inside[end + usize::from(closes)..];
            let (name, head) = if opens { self.fields.split_label(label) } else { (label, None) };
            if opens {
                self.open.entry(name).or_default().push((word, head));
            }
            if closes {
                self.close(word, name);
            } else if !opens {
                self.parsed.unmatched += 1;
            }
        }
    }

    /// Closes the latest open mention of `name` at the word with index `word`; counts it as unmatched if none is open.
    fn close(&mut self, word: usize, name: &'a str) {
        let Some((start, head)) = self.open.get_mut(name).and_then(Vec::pop) else {
            self.parsed.unmatched += 1;
            return;
        };
        let span = start..word + 1;
        let (entity, part, part_count) = parse_part(name).unwrap_or((name, 1, 1));
        let (head, parts) = match self.unfinished.remove(&(entity, part_count)) {
            // Parts come in their order, and none begins before the one before it has ended.
            Some((head, mut parts)) if parts.len() + 1 == part as usize && parts[parts.len() - 1].end <= start => {
                parts.push(span);
                (head, parts)
            }
            incomplete => {
                self.parsed.unmatched += u64::from(incomplete.is_some()) + u64::from(part != 1);
                if part != 1 {
                    return;
                }
                (head, vec![span])
            }
        };
        if part == part_count {
            self.parsed.mentions.push(Mention::new(entity, parts, head));
        } else {
            self.unfinished.insert((entity, part_count), (head, parts));
        }
    }
}

/// Parses `e1[1/2]` into entity, number of the part, and number of parts; `None` for a name without a part.
fn parse_part(name: &str) -> Option<(&str, u32, u32)> {
    let (entity, part) = name.strip_suffix(']')?.rsplit_once('[')?;
    let (part, of) = part.split_once('/')?;
    let (part, of) = (part.parse().ok()?, of.parse().ok()?);
    (1 <= part && part <= of).then_some((entity, part, of))
}

impl<'a> Mention<'a> {
    /// Makes a mention whose syntactic head is word number `head` of the mention, counted from 1. A `head` that is no such
    /// number is ignored.
    fn new(entity: &'a str, parts: Vec<Range<usize>>, head: Option<&str>) -> Self {
        let mut place = head.and_then(|head| head.parse::<usize>().ok()?.checked_sub(1));
        let named_head = parts.iter().find_map(|part| {
            let within = place?;
            place = within.checked_sub(part.len());
            (within < part.len()).then(|| part.start + within)
        });
        Self { entity, parts, annotated_head: named_head }
    }

    /// Word index of the mention's syntactic head: the annotated one, else the first word whose own syntactic head is
    /// outside the mention; `None` without either.
    pub fn head(&self, tree_head: impl Fn(usize) -> TreeHead) -> Option<usize> {
        let is_outside = |word: &usize| match tree_head(*word) {
            TreeHead::Root => true,
            TreeHead::Word(head) => !self.parts.iter().any(|part| part.contains(&head)),
            TreeHead::Unknown => false,
        };
        self.annotated_head.or_else(|| self.parts.iter().cloned().flatten().find(is_outside))
    }
}
