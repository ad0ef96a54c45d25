//! `headscope analyze`: a model over a corpus, to a report, or to the partial of one shard.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Result, ensure};

use super::conclude::conclude;
use super::options::{AnalyzeOptions, ONLY_ONCE, Outcome};
use super::outputs;
use crate::corpus::{Corpus, CorpusIdentity, Input};
use crate::export::summary;
use crate::model::files::ModelFiles;
use crate::model::{Fingerprint, Model};
use crate::passes::counting::count;
use crate::passes::identity::{Identity, ModelInfo, Protocol, RunInfo, Tool};
use crate::passes::observation::Observation;
use crate::passes::partial;
use crate::passes::pass::Pass;
use crate::passes::run::{self, Runner, heads_of, token_limit};
use crate::sequences::counts::{Counting, TokenCounts};
use crate::sequences::shard::Shard;
use crate::stats::blocks::BLOCKS;
use crate::stats::bootstrap::Resamples;
use crate::studies::all;
use crate::studies::findings::Findings;
use crate::studies::found::NOTHING;
use crate::studies::metric::Bench;
use crate::studies::plan::{self, Plan};
use crate::studies::policy::Policy;
use crate::studies::study::{Counts, Study, Subject};
use crate::system::output::Output;
use crate::system::progress::{self, Downloads};
use crate::system::terminal::{print, say};

/// Runs a model over a corpus and writes what each head does, or what one shard adds to that.
///
/// # Errors
///
/// If the model, the corpus or an output cannot be used; each error says which and what to do.
pub fn analyze(options: &AnalyzeOptions) -> Result<()> {
    match &options.outcome {
        Outcome::Report(wanted) => {
            let outputs = outputs::open(&wanted.outputs)?;
            let policy = wanted.policy.policy()?;
            let observation = observe(options, Shard::WHOLE, &policy)?;
            conclude(observation, policy, outputs, wanted)
        }
        Outcome::Partial { shard, path, summary } => {
            let mut output = Output::open(path)?;
            let observation = observe(options, *shard, &all::default_policy())?;
            output.write(&partial::render(*shard, &observation)?)?;
            output.commit()?;
            if *summary {
                print(&summary::of_shard(*shard, &observation))?;
            }
            Ok(())
        }
    }
}

/// Observes the sentences of a shard; what follows from labels, from those by `policy`.
fn observe(options: &AnalyzeOptions, shard: Shard, policy: &Policy) -> Result<Observation> {
    let (started_at, started) = (SystemTime::now(), Instant::now());
    ensure!(!options.studies.is_empty(), "every study is switched off: there is nothing to analyse");
    let corpus = Corpus::open(&options.corpus)?;

    let files = options.model.resolve(&Downloads::default())?;
    let fingerprint = Fingerprint::start(&files);
    let loading = progress::step("loading the model");
    let model = load(files, &options.studies)?;
    loading.finish_and_clear();

    let max_tokens = token_limit(&model, options.max_tokens)?;
    let Known { counts, sha256, counted } = known(options, &model, max_tokens)?;
    let protocol = Protocol {
        max_tokens,
        truncate: options.truncate,
        limit: options.limit,
        from_token: options.from_token,
        blocks: BLOCKS,
        controls: options.controls.clone(),
        removed: heads_of(&model, &options.removed)?,
        ablation: options.ablation,
        counts: sha256,
        left_out: options.left_out.iter().map(|study| study.card().name.to_owned()).collect(),
        studies: plan::names(&options.studies),
    };
    let plan = Plan::new(&protocol)?;
    let token_id = |token: &str| model.tokenizer.id(token);
    let subject = Subject { grid: model.grid(), from: protocol.from_token, token_id: &token_id, found: &NOTHING };

    let loaded = Instant::now();
    let (strict, threads) = (options.strict, options.threads);
    let runner = Runner { corpus: &options.corpus, shard, model: &model, protocol: &protocol, strict, threads, counts };
    let run::Outcome { tally, corpus, mut passes } = runner.run(corpus, plan.observers(&subject))?;
    ensure!(
        counted.is_none_or(|counted| counted == corpus),
        "corpus `{}` changed while it was analysed, which reads it several times",
        corpus.name
    );
    if plan.has_followers() && tally.sentences > 0 {
        let bench = Bench { grid: subject.grid, threads, resamples: Resamples::new(), leaves_out: false };
        let observed = plan.observed(&passes, None);
        let found = Findings::new(&observed, &bench, policy).found(&observed, policy);
        passes.extend(runner.run_again(&corpus, plan.followers(&Subject { found: &found, ..subject }))?);
    }
    let passes = plan.pooled(passes);
    let analysis = loaded.elapsed();

    let model = ModelInfo::new(&model, fingerprint.finish()?);
    let run = options.run_info.then(|| RunInfo::new(started_at, started.elapsed(), analysis, threads));
    Ok(Observation { identity: Identity { tool: Tool::default(), model, corpus, protocol }, tally, passes, run })
}

/// Loads the model, with its masked-LM head if a study needs that.
fn load(files: ModelFiles, studies: &[&'static dyn Study]) -> Result<Model> {
    let predicting = studies.iter().find(|study| study.passes().iter().any(Pass::predicts));
    let Some(study) = predicting else { return Model::load(files) };
    let derivatives = studies.iter().any(|study| study.passes().iter().any(|pass| pass.derivatives));
    let model = if derivatives { Model::load_with_derivatives } else { Model::load_with_masked_lm }(files)?;
    let (id, study) = (&model.id, study.card().name);
    ensure!(
        model.masked_lm_head,
        "--with {study}: `{id}` has no masked-LM head, so it has no loss of masked tokens: name a checkpoint of a masked \
         language model, which has one. Nothing stands in for that loss here in models without one, such as sentence \
         encoders and discriminators"
    );
    ensure!(
        model.tokenizer.mask().is_some(),
        "--with {study}: the tokenizer of `{id}` has no mask token: name it as `mask_token` in tokenizer_config.json"
    );
    Ok(model)
}

/// How often each token is in the whole corpus, as far as some study must know.
#[derive(Default)]
struct Known {
    counts: Option<Arc<TokenCounts>>,
    /// The SHA-256 of the file that they are from.
    sha256: Option<String>,
    /// The corpus that they are from.
    counted: Option<CorpusIdentity>,
}

/// Counts the tokens of the corpus, or reads the file of counts.
fn known(options: &AnalyzeOptions, model: &Model, max_tokens: usize) -> Result<Known> {
    for study in &options.left_out {
        say(&format!("the study {} is left out: {ONLY_ONCE}", study.card().name));
    }
    if options.studies.iter().all(|study| study.counts() == Counts::Unused) {
        return Ok(Known::default());
    }
    if let Some(file) = &options.counts {
        let (counts, sha256) = Counting::read(file, &model.tokenizer)?;
        return Ok(Known { counts: Some(Arc::new(counts.finish())), sha256: Some(sha256), counted: None });
    }
    if !options.corpus.iter().all(Input::can_be_read_again) {
        for study in options.studies.iter().filter(|study| study.counts() == Counts::Useful) {
            say(&format!("the study {} does without how common tokens are: {ONLY_ONCE}", study.card().name));
        }
        return Ok(Known::default());
    }
    let counting = progress::step("counting tokens");
    let (counts, corpus) = count(&options.corpus, &model.tokenizer, max_tokens, options.truncate, options.limit)?;
    counting.finish_and_clear();
    Ok(Known { counts: Some(Arc::new(counts.finish())), sha256: None, counted: Some(corpus) })
}
