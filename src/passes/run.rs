//! Passes over a shard of a corpus: sentences in, the sums of all observers out.

use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};

use super::beforehand::Beforehand;
use super::identity::Protocol;
use super::observation::PassSums;
use super::observer::{Observer, Panel};
use super::pass::{Pass, Sequences, Weights};
use super::workers::{TokenizedSentences, sum_up};
use crate::corpus::{Corpus, CorpusIdentity, Input};
use crate::model::Model;
use crate::model::forward::Encoder;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::sequences::counts::TokenCounts;
use crate::sequences::frame::Frame;
use crate::sequences::pairs::Pairs;
use crate::sequences::repeats::Repeats;
use crate::sequences::sentence_pairs::SentencePairs;
use crate::sequences::sequence::Sequence;
use crate::sequences::shard::Shard;
use crate::sequences::shuffle::shuffled;
use crate::sequences::tally::Tally;
use crate::sequences::tokenize::SentenceTokenizer;
use crate::sequences::windows::Windows;
use crate::system::progress::Analysis;

/// Everything that the passes over one shard of a corpus have in common.
pub struct Runner<'a> {
    /// The corpus, in the order it is read.
    pub corpus: &'a [Input],
    /// The part of it that is run.
    pub shard: Shard,
    /// The model.
    pub model: &'a Model,
    /// How the corpus is observed.
    pub protocol: &'a Protocol,
    /// Whether a sentence that must be left out is an error.
    pub strict: bool,
    /// Worker threads.
    pub threads: NonZeroUsize,
    /// How often each token is in the whole corpus, if some study asks for it.
    pub counts: Option<Arc<TokenCounts>>,
}

/// A corpus that passes were run over.
pub struct Outcome {
    /// The corpus in numbers.
    pub tally: Tally,
    /// Its identity.
    pub corpus: CorpusIdentity,
    /// The sums of each pass.
    pub passes: Vec<PassSums>,
}

impl Runner<'_> {
    /// Runs each pass once, with all who look at it. `opened` is the corpus, for the first of them.
    ///
    /// # Errors
    ///
    /// If the corpus cannot be read, is not the same each time, or a forward pass fails.
    ///
    /// # Panics
    ///
    /// If there is no pass.
    pub fn run(&self, opened: Corpus, passes: Vec<(Pass, Vec<Box<dyn Observer>>)>) -> Result<Outcome> {
        let mut passes = passes.into_iter();
        let (pass, observers) = passes.next().expect("at least one pass");
        let (first, tally, corpus) = self.over_corpus(opened, pass, observers)?;
        let mut done = vec![first];
        for (pass, observers) in passes {
            if let Sequences::Repeats(repeats) = pass.sequences {
                done.push(self.over_repeats(repeats, pass, observers)?);
                continue;
            }
            let (sums, _, again) = self.over_corpus(Corpus::open(self.corpus)?, pass, observers)?;
            ensure!(
                again == corpus,
                "corpus `{}` changed while it was analysed, which reads it several times",
                corpus.name
            );
            done.push(sums);
        }
        Ok(Outcome { tally, corpus, passes: done })
    }

    /// A pass over what is made of the sentences of the corpus.
    fn over_corpus(
        &self,
        corpus: Corpus,
        pass: Pass,
        observers: Vec<Box<dyn Observer>>,
    ) -> Result<(PassSums, Tally, CorpusIdentity)> {
        let Self { shard, model, protocol, .. } = *self;
        let progress = Analysis::new(protocol.limit, corpus.bytes(), corpus.bytes_read());
        let tokenizer =
            SentenceTokenizer::new(&model.tokenizer, protocol.max_tokens, protocol.truncate).strict(self.strict);
        let left = protocol.limit.unwrap_or(u64::MAX);
        let mut sentences = TokenizedSentences { corpus, encoder: tokenizer, shard, left };
        let sum = |sequences: &mut Sequencer<'_>| self.sum(&pass, observers, sequences, &progress);
        let (sums, left_out) = match pass.sequences {
            Sequences::Sentences => (sum(&mut sentences)?, 0),
            Sequences::Shuffled { seed } => {
                let shuffle = |sentence: Result<Sequence>| sentence.map(|sentence| shuffled(&sentence, seed));
                (sum(&mut sentences.by_ref().map(shuffle))?, 0)
            }
            Sequences::Pairs { max_tokens } => {
                let max_tokens = max_tokens.min(model.architecture.config.positions());
                let mut pairs = Pairs::new(sentences.by_ref(), max_tokens);
                (sum(&mut pairs)?, pairs.dropped())
            }
            Sequences::Windows => (sum(&mut Windows::new(sentences.by_ref(), protocol.max_tokens))?, 0),
            Sequences::SentencePairs => {
                let segments = model.architecture.config.type_vocab_size;
                let frame = Frame::of_pair(&model.tokenizer)?.map(|frame| frame.with_segments(segments));
                let mut pairs = SentencePairs::new(sentences.by_ref(), frame, protocol.max_tokens);
                (sum(&mut pairs)?, pairs.left_out())
            }
            Sequences::Repeats(_) => unreachable!("they are not made of the corpus"),
        };
        let TokenizedSentences { corpus, encoder, .. } = sentences;
        Ok((PassSums { pass, left_out, sums }, encoder.into_tally(), corpus.into_identity()?))
    }

    /// A pass over sequences that need no corpus; of several shards each has its part of them.
    fn over_repeats(&self, repeats: Repeats, pass: Pass, observers: Vec<Box<dyn Observer>>) -> Result<PassSums> {
        let positions = self.model.architecture.config.positions();
        let made = repeats.sequences(&self.model.tokenizer, positions)?;
        let mut own = made.into_iter().filter(|sequence| self.shard.takes(sequence.index)).map(Ok);
        let sums = self.sum(&pass, observers, &mut own, &Analysis::new(None, None, Arc::default()))?;
        Ok(PassSums { pass, left_out: 0, sums })
    }

    /// Shows the sequences to the observers, by the weights and without the heads that the pass says.
    fn sum(
        &self,
        pass: &Pass,
        observers: Vec<Box<dyn Observer>>,
        sequences: &mut Sequencer<'_>,
        progress: &Analysis,
    ) -> Result<Vec<Box<dyn Observer>>> {
        let fresh;
        let encoder: &dyn Encoder = match pass.weights {
            Weights::Trained => &*self.model.encoder,
            Weights::Fresh { seed } => {
                fresh = self.model.untrained(seed)?;
                &*fresh
            }
        };
        let mut panel = Panel::new(observers);
        panel.begin_pass(&Beforehand { embeddings: encoder.word_embeddings(), counts: self.counts.clone() });
        let model = (self.model.id.as_str(), encoder);
        let panel = sum_up(panel, model, &pass.gates(), sequences, self.threads, progress)?;
        Ok(panel.into_observers())
    }
}

/// The sequences of a pass, as the workers take them.
type Sequencer<'a> = dyn Iterator<Item = Result<Sequence>> + Send + 'a;

/// The longest sequence that is run: what was asked for, or as many tokens as the model has positions.
///
/// # Errors
///
/// If more was asked for than the model has.
pub fn token_limit(model: &Model, asked: Option<usize>) -> Result<usize> {
    let config = &model.architecture.config;
    let positions = config.positions();
    let limit = asked.unwrap_or(positions);
    ensure!(limit <= positions, "--max-tokens {limit} is more than the {positions} {}", config.bound());
    Ok(limit)
}

/// The heads that are to be removed, if the model has them.
///
/// # Errors
///
/// If it has not.
pub fn heads_of(model: &Model, removed: &[HeadPlace]) -> Result<Vec<HeadPlace>> {
    let HeadGrid { layers, heads } = model.grid();
    if let Some(head) = removed.iter().find(|place| place.layer >= layers || place.head >= heads) {
        bail!("--remove {head}: the model has {layers} layers of {heads} heads, both counted from 0");
    }
    Ok(removed.to_vec())
}
