//! Links from outside the corpus: a file of links, rules, and options of link types.
//!
//! The file and the rules are read once, before the corpus, and shared. Each sentence gets its links when it is read, by its id
//! or its number in the corpus. So neither a shard nor a limit changes its links.

pub(in crate::corpus) mod file;
pub(in crate::corpus) mod rules;

use std::sync::Arc;

use anyhow::{Result, anyhow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::corpus::formats::Format;
use crate::corpus::sentence::links::{ConlluLinkColumn, LinkSet, LinkTypeOptions, LinkTypes};
use crate::corpus::sentence::{Content, Origin, Sentence};
use crate::system::counts::format_count;
use crate::system::errors::ErrorExt;
use crate::system::printable::excerpt;
pub use file::NamedDigest;
use file::{LinkFile, parse_sentence_number};
use rules::LinkRules;

#[cfg(test)]
mod tests;

#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// Column of CoNLL-U from which links are read; `None` if links are not read from columns.
    pub conllu_column: Option<ConlluLinkColumn>,
    pub file: Option<Arc<LinkFile>>,
    pub rules: Option<Arc<LinkRules>>,
    pub types: LinkTypeOptions,
}

/// Sources of links other than the corpus, as a report names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkSources {
    /// File of links (`--links`); absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NamedDigest")]
    pub file: Option<NamedDigest>,
    /// File of link rules (`--link-rules`); absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NamedDigest")]
    pub rules: Option<NamedDigest>,
    /// Properties of link types that options set.
    #[serde(flatten)]
    pub types: LinkTypeOptions,
}

impl LinkSources {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl LinkOptions {
    /// Sources of links that a report lists. [`LinkOptions::conllu_column`] is missing, since the report has it elsewhere.
    pub fn sources(&self) -> LinkSources {
        LinkSources {
            file: self.file.as_ref().map(|file| file.digest.clone()),
            rules: self.rules.as_ref().map(|rules| rules.digest.clone()),
            types: self.types.clone(),
        }
    }

    /// Names of the columns to read for each word: the columns that the run requested, then the columns that link rules
    /// need.
    pub(super) fn columns(&self, requested: &[String]) -> Vec<String> {
        let of_rules = self.rules.iter().flat_map(|rules| &rules.columns);
        requested.iter().chain(of_rules).cloned().collect()
    }

    /// Whether the run has a file of links, link rules or link type options, which must be checked against the complete
    /// corpus.
    pub fn has_external_links(&self) -> bool {
        !self.sources().is_empty()
    }
}

/// Links from a file or from rules, added to sentences as they are read, with a record of their use.
#[derive(Default)]
pub(super) struct ExternalLinks {
    options: LinkOptions,
    /// File and line of the corpus sentence that matched each sentence of the links file; `None` until it is read.
    origins_met: Vec<Option<Origin>>,
    /// Number of links that each rule has made.
    links_made: Vec<usize>,
    /// Number of columns that the run requested of each word; columns for rules follow these.
    requested_columns: usize,
    /// Number of sentences read; `has_ids` tells whether any has an id.
    sentences: u64,
    has_ids: bool,
}

impl ExternalLinks {
    /// Starts before the first sentence. The first `requested` columns of a word are the run's own; link rules use the
    /// others.
    pub(super) fn new(options: &LinkOptions, requested: usize) -> Self {
        let names = options.file.as_ref().map_or(0, |file| file.links.len());
        let rules = options.rules.as_ref().map_or(0, |rules| rules.rules.len());
        Self {
            options: options.clone(),
            origins_met: vec![None; names],
            links_made: vec![0; rules],
            requested_columns: requested,
            ..Self::default()
        }
    }

    pub(super) fn unused_rules(&self) -> Vec<&str> {
        let rules = self.options.rules.iter().flat_map(|rules| &rules.rules).zip(&self.links_made);
        rules.filter(|(_, made)| **made == 0).map(|(rule, _)| &*rule.link_type).collect()
    }

    pub(super) fn uses_sentence_numbers(&self) -> bool {
        self.options.file.as_ref().is_some_and(|file| !file.index_by_number.is_empty())
    }

    /// Adds to a sentence the links of the file and of the rules. `number` is the sentence's number in the corpus, `format`
    /// the format of its file.
    pub(super) fn add(
        &mut self,
        sentence: &mut Sentence,
        number: u64,
        format: Format,
        types: &mut LinkTypes,
    ) -> Result<()> {
        self.sentences += 1;
        self.has_ids |= sentence.id.is_some();
        if let Some(file) = self.options.file.clone() {
            self.add_file_links(&file, sentence, (number, format), types)?;
        }
        let Some(rules) = &self.options.rules else { return Ok(()) };
        for (rule, made) in rules.rules.iter().zip(&mut self.links_made) {
            *made += rule.add_links(sentence, self.requested_columns, types).at_line(&rules.path, rule.line)?;
        }
        if let Content::Words(words) = &mut sentence.content {
            let columns = words.iter_mut().map(|word| &mut word.annotation.requested);
            let columns = columns.filter(|columns| columns.len() > self.requested_columns);
            columns.for_each(|columns| *columns = columns[..self.requested_columns].into());
        }
        Ok(())
    }

    /// Adds to a sentence the links that the file of links gives it by its id or number. Fails on an ambiguous id, or on a
    /// word that the sentence lacks.
    fn add_file_links(
        &mut self,
        file: &LinkFile,
        sentence: &mut Sentence,
        (number, format): (u64, Format),
        types: &mut LinkTypes,
    ) -> Result<()> {
        let by_id = sentence.id.as_deref().and_then(|id| file.index_by_id.get(id)).copied();
        if let Some(id) = sentence.id.as_deref().filter(|id| parse_sentence_number(id).is_some()) {
            let (shown, origin) = (excerpt(id), &sentence.origin);
            let error = anyhow!("the id `{shown}` of the sentence of {origin} reads as the number of a sentence");
            let way_out = format!("give the sentence another id, or none and name it `#{number}`");
            return Err(error.with_value(id).hint(way_out));
        }
        if let Some((name, first)) = by_id.and_then(|name| Some((name, self.origins_met[name].as_ref()?))) {
            let id = sentence.id.as_deref().unwrap_or_default();
            let error = anyhow!("two sentences have the id `{}`, {first} and {}", excerpt(id), sentence.origin);
            let error = error.with_value(id).hint(format!("name the sentence by its number, as in `#{number}`"));
            return Err(error.at_line(&file.path, file.first_line_number(name)));
        }
        for name in by_id.into_iter().chain(file.index_by_number.get(&number).copied()) {
            self.origins_met[name] = Some(sentence.origin.clone());
            let words = word_count(sentence, format).at_line(&file.path, file.first_line_number(name))?;
            let Sentence { links, origin, .. } = &mut *sentence;
            for row in &file.links[name] {
                let kind = types.get_by_name(&file.types[usize::from(row.type_index)]);
                let set = kind.map(|kind| LinkSet::get_or_add(links, &kind));
                let added = set.and_then(|set| set.add_by_number(row.from.into(), row.to.into(), words));
                let in_sentence = |problem: String| format!("sentence of {origin}: {problem}");
                added.map_message(in_sentence).at_line(&file.path, row.line.into())?;
            }
        }
        Ok(())
    }

    /// Checks, at the end of the corpus, that options and the file of links were used. Fails if the corpus has no link of a
    /// type that options name, or lacks a sentence that the file of links names.
    pub(super) fn ensure_used(&self, types: &LinkTypes) -> Result<()> {
        types.ensure_options_used()?;
        let Some(file) = &self.options.file else { return Ok(()) };
        let missing = (0..self.origins_met.len()).filter(|&name| self.origins_met[name].is_none());
        let Some(first) = missing.min_by_key(|&name| file.first_line_number(name)) else { return Ok(()) };
        let (line, sentences) = (file.first_line_number(first), format_count(self.sentences, "sentence"));
        let no_other =
            if self.origins_met.iter().all(Option::is_none) { ", nor any other sentence of the file" } else { "" };
        let error = if let Some((number, _)) = file.index_by_number.iter().find(|(_, name)| **name == first) {
            anyhow!("there is no sentence #{number}{no_other}: the corpus has {sentences}, counted from #0")
                .with_value(number)
        } else {
            let id = file.index_by_id.iter().find(|(_, name)| **name == first).map_or("", |(id, _)| id);
            let error = anyhow!("the corpus has no sentence `{}`{no_other}", excerpt(id)).with_value(id);
            if self.has_ids { error } else { error.map_message(|error| format!("{error}: its sentences have no ids")) }
        };
        const ID_HINT: &str = "`sentence` is an id (`# sent_id` of CoNLL-U, the first word of a FASTA header, `id` of JSON \
            lines) or #N, the number of a sentence in the corpus, counted from 0";
        Err(error.hint_after("; ", ID_HINT).at_line(&file.path, line))
    }
}

fn word_count(sentence: &Sentence, format: Format) -> Result<usize> {
    match &sentence.content {
        Content::Words(words) => Ok(words.len()),
        Content::Text(residues) if format == Format::Fasta => Ok(residues.len()),
        Content::Text(_) => {
            let error = anyhow!("{} is running text, whose words the tokenizer finds", sentence.origin);
            let way_out = "links are between words: give a corpus of words, CoNLL-U or `words` of JSON lines, or FASTA";
            Err(error.hint(way_out))
        }
    }
}
