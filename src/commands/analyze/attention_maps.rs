//! The attention of every head over one sentence, for the report: one that was given, or one that the study `examples` chose.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};

use super::observe::PreparedRun;
use super::options::Shown;
use crate::commands::sentences::{NamedSentence, SentenceChoice, attention_maps, chosen};
use crate::model::forward::gates::Gates;
use crate::model::grid::HeadPlace;
use crate::passes::pass::Pass;
use crate::report::roles::by_margin;
use crate::report::{AttentionMaps, HeadReport, MOST_TOKENS, Report};
use crate::sequences::shard::Shard;
use crate::sequences::tokenize::SentenceTokenizer;
use crate::system::errors::{Class, Facts};
use crate::system::terminal::say;

/// So many heads are asked for their typical sentence: the longest of a few shows more than the first.
const MOST_ASKED: usize = 8;

impl PreparedRun<'_> {
    /// The maps of the sentence of `--show`, if there is one.
    /// Fails if it cannot go through the model, or is too long.
    pub fn shown(&self) -> Result<Option<AttentionMaps>> {
        let Some(Shown::Text(text)) = &self.options.show else { return Ok(None) };
        let sentences = self.encoded(&SentenceChoice::Texts(vec![text.clone()]));
        let sentences = sentences.map_err(|error| error.context("--show").of_option("show").of_value(text))?;
        let [NamedSentence { sequence, .. }] = &sentences[..] else { return Ok(None) };
        let (model, tokens) = (self.model, sequence.ids.len());
        if tokens > MOST_TOKENS {
            let id = &model.id;
            let long =
                anyhow!("--show: the sentence has {tokens} tokens of `{id}`, and at most {MOST_TOKENS} are shown");
            return Err(long.of_option("show").of_value(text).hint("give a shorter one")).class(Class::Usage);
        }
        attention_maps(model, sequence, &self.gates()).map(Some)
    }

    /// A report with the maps of the sentence that was given, or of an example if asked for; that there is none is said.
    pub fn with_attention_maps(&self, report: Report, shown: Option<AttentionMaps>) -> Report {
        let chosen = || {
            let found = self.typical(&report);
            let why = match &found {
                Ok(None) => "no head with a firm role has a typical example that is short enough".to_owned(),
                Ok(Some(_)) => return found.unwrap_or_default(),
                Err(error) => format!("{error:#}"),
            };
            say(&format!("--show-example: the report has no attention over an example: {why}"));
            None
        };
        let asked = self.options.show == Some(Shown::Example);
        let attention_maps = if asked { chosen() } else { shown };
        Report { attention_maps, ..report }
    }

    /// The maps of the longest sentence with few enough tokens that is typical of a head with one of the largest margins.
    fn typical(&self, report: &Report) -> Result<Option<AttentionMaps>> {
        let typical: Vec<(HeadPlace, u64)> = report.views().flat_map(|(_, view)| view.typical).collect();
        let of = |head: &HeadReport| typical.iter().find(|(place, _)| *place == head.place).copied();
        let wanted: Vec<(HeadPlace, u64)> = by_margin(report).into_iter().filter_map(of).take(MOST_ASKED).collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let indices: BTreeSet<u64> = wanted.iter().map(|(_, sentence)| *sentence).collect();
        let indices = indices.into_iter().collect();
        let (inputs, scope) = (self.options.corpus.clone(), self.scope.clone());
        let sentences = self.encoded(&SentenceChoice::Corpus {
            inputs,
            indices,
            find: None,
            limit: None,
            scope,
            shard: Shard::WHOLE,
        })?;
        let short = sentences.iter().map(|named| &named.sequence).filter(|sequence| sequence.ids.len() <= MOST_TOKENS);
        // Of equally long ones the first.
        let Some(sequence) = short.rev().max_by_key(|sequence| sequence.ids.len()) else { return Ok(None) };
        let example_of = wanted.iter().find(|(_, sentence)| *sentence == sequence.index).map(|(head, _)| *head);
        let maps = attention_maps(self.model, sequence, &self.gates())?;
        Ok(Some(AttentionMaps { example_of, sentence: Some(sequence.index), ..maps }))
    }

    fn gates(&self) -> Gates {
        Pass::PLAIN.without(&self.protocol.removed).gates()
    }

    fn encoded(&self, choice: &SentenceChoice) -> Result<Vec<NamedSentence>> {
        let encoder = SentenceTokenizer::new(&self.tokenizer, self.protocol.max_tokens, self.options.truncate);
        let segments = self.model.architecture.config.type_vocab_size;
        let mut encoder = encoder.spacing(self.protocol.words).segments(segments);
        chosen(choice, &mut encoder, |_| true)
    }
}
