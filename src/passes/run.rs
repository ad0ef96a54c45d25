//! Passes over a shard of a corpus: the analysis itself, then its controls, then a preset's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use anyhow::{Result, ensure};

use crate::commands::options::AnalyzeOptions;
use crate::corpus::{Corpus, CorpusIdentity};
use crate::model::forward::Encoder;
use crate::model::{Fingerprint, Model};
use crate::passes::control::{Control, ControlKind};
use crate::passes::observation::{Identity, Observation, Protocol};
use crate::passes::workers::{TokenizedSentences, sum_up};
use crate::report::{ModelInfo, RunInfo, Tool};
use crate::sequences::encode::{Sequence, Tally};
use crate::sequences::pairs::{MAX_TOKENS, Pairs};
use crate::sequences::shard::Shard;
use crate::sequences::shuffle::shuffled;
use crate::studies::clark2019::ClarkSums;
use crate::studies::clark2019::syntax::SyntaxHits;
use crate::studies::clark2019::tokens::TokenMeans;
use crate::studies::observe::{Accumulator, BLOCKS, Sums};
use crate::system::progress::{self, Analysis, Downloads};

/// Observes the sentences of a shard.
///
/// # Errors
///
/// If the model or the corpus cannot be used.
pub fn observe(options: &AnalyzeOptions, shard: Shard) -> Result<Observation> {
    let (started_at, started) = (SystemTime::now(), Instant::now());
    let corpus = open(options)?;

    let files = options.model.resolve(&Downloads::default())?;
    let fingerprint = Fingerprint::start(&files);
    let loading = progress::step("loading the model");
    let model = Model::load(files)?;
    loading.finish_and_clear();

    let protocol = Protocol {
        max_tokens: token_limit(&model, options.max_tokens)?,
        truncate: options.truncate,
        limit: options.limit,
        from_token: options.from_token,
        blocks: BLOCKS,
        controls: options.controls.clone(),
        clark2019: options.clark2019,
    };
    let loaded = Instant::now();
    let passes = Passes { options, shard, model: &model, protocol: &protocol };
    let empty = Sums::new(model.grid(), protocol.from_token);
    let Pass { sums, tally, corpus } = passes.over(corpus, &empty, &*model.encoder, |sentences| sentences)?;
    let controls = protocol.controls.iter().map(|control| passes.control(control, &empty, &corpus));
    let controls = controls.collect::<Result<_>>()?;
    let clark2019 = protocol.clark2019.then(|| passes.clark2019(&corpus)).transpose()?;
    let analysis = loaded.elapsed();

    let model = ModelInfo::new(&model, fingerprint.finish()?);
    let run = options.run_info.then(|| RunInfo::new(started_at, started.elapsed(), analysis, options.threads));
    Ok(Observation {
        identity: Identity { tool: Tool::default(), model, corpus, protocol },
        tally,
        sums,
        controls,
        clark2019,
        run,
    })
}

/// The longest sequence that is run: what was asked for, or as many tokens as the model has positions.
///
/// # Errors
///
/// If more was asked for than the model has.
pub fn token_limit(model: &Model, asked: Option<usize>) -> Result<usize> {
    let positions = model.architecture.config.positions();
    let limit = asked.unwrap_or(positions);
    ensure!(limit <= positions, "--max-tokens {limit} is more than the {positions} positions of the model");
    Ok(limit)
}

fn open(options: &AnalyzeOptions) -> Result<Corpus> {
    Corpus::open(&options.corpus)
}

/// What all passes have in common.
struct Passes<'a> {
    options: &'a AnalyzeOptions,
    shard: Shard,
    model: &'a Model,
    protocol: &'a Protocol,
}

/// What came of one pass.
struct Pass<A> {
    sums: A,
    tally: Tally,
    corpus: CorpusIdentity,
}

/// What goes through the encoder, in order.
type Sequences<'a> = Box<dyn Iterator<Item = Result<Sequence>> + Send + 'a>;

impl Passes<'_> {
    /// Runs `encoder` over the sequences that are made of the sentences, and adds what it does to `empty` sums.
    fn over<A: Accumulator>(
        &self,
        corpus: Corpus,
        empty: &A,
        encoder: &dyn Encoder,
        made_of: impl FnOnce(Sequences<'_>) -> Sequences<'_>,
    ) -> Result<Pass<A>> {
        let Self { options, shard, model, protocol } = *self;
        let progress = Analysis::new(protocol.limit, corpus.bytes(), corpus.bytes_read());
        let tokenizer = model.sentence_tokenizer(protocol.max_tokens, protocol.truncate).strict(options.strict);
        let left = protocol.limit.unwrap_or(u64::MAX);
        let mut sentences = TokenizedSentences { corpus, encoder: tokenizer, shard, left };
        let sequences = made_of(Box::new(sentences.by_ref()));
        let sums = sum_up(empty, encoder, sequences, options.threads, &progress)?;
        let TokenizedSentences { corpus, encoder, .. } = sentences;
        Ok(Pass { sums, tally: encoder.into_tally(), corpus: corpus.into_identity()? })
    }

    /// The same over the corpus once more, which must be what it was.
    fn again<A: Accumulator>(
        &self,
        known: &CorpusIdentity,
        empty: &A,
        encoder: &dyn Encoder,
        made_of: impl FnOnce(Sequences<'_>) -> Sequences<'_>,
    ) -> Result<A> {
        let Pass { sums, corpus, .. } = self.over(open(self.options)?, empty, encoder, made_of)?;
        ensure!(
            corpus == *known,
            "corpus `{}` changed while it was analysed, which reads it several times",
            known.name
        );
        Ok(sums)
    }

    fn control(&self, control: &Control, empty: &Sums, known: &CorpusIdentity) -> Result<Sums> {
        let (encoder, seed) = (&*self.model.encoder, control.seed);
        let sums = match control.kind {
            ControlKind::RandomInit => self.again(known, empty, &*self.model.untrained(seed)?, |sentences| sentences),
            ControlKind::ShuffledWords => self.again(known, empty, encoder, move |sentences| {
                Box::new(sentences.map(move |sentence| sentence.map(|sentence| shuffled(&sentence, seed))))
            }),
        };
        Ok(sums?.pooled())
    }

    /// The preset's two passes: over pairs of segments for the token level, over sentences for syntax.
    fn clark2019(&self, known: &CorpusIdentity) -> Result<ClarkSums> {
        let (model, grid) = (self.model, self.model.grid());
        let max_tokens = MAX_TOKENS.min(model.architecture.config.positions());
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let marks = [".", ","].into_iter().filter_map(|mark| model.tokenizer.id(mark)).collect();
        let tokens = self.again(known, &TokenMeans::new(grid, marks), &*model.encoder, move |sentences| {
            let mut pairs = Pairs::new(sentences, max_tokens);
            Box::new(std::iter::from_fn(move || {
                let pair = pairs.next();
                counter.store(pairs.dropped(), Ordering::Relaxed);
                pair
            }))
        })?;
        let syntax = self.again(known, &SyntaxHits::new(grid), &*model.encoder, |sentences| sentences)?;
        Ok(ClarkSums { tokens, syntax, dropped: dropped.load(Ordering::Relaxed) })
    }
}
