//! Turns observations into reports for `analyze`, `merge` and `batch`, and opens and writes the outputs of all commands.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Error, Result, anyhow, ensure};
use itertools::Itertools as _;

use crate::evaluation::plan::{self, Plan};
use crate::evaluation::presets::{self, Preset};
use crate::evaluation::results::Results;
use crate::export::json::{self, Digits, JsonForm};
use crate::export::summary::{self, Detail};
use crate::export::{OutputTarget, ReportFormat};
use crate::passes::control::Control;
use crate::passes::observation::identity::Identity;
use crate::passes::observation::{Observation, partial};
use crate::report::{ControlVerdicts, CorpusInfo, Report, ReportContext, Settings, health};
use crate::sequences::shard::Shard;
use crate::study::labels::policy::{Policy, Value};
use crate::study::metrics::estimates::EstimationContext;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::output::Output;
use crate::system::progress;
use crate::system::terminal::{self, print, write_stdout};

/// An open output of a command: a file, or standard output as JSON or as a summary.
pub enum OpenOutput {
    File(Output, ReportFormat),
    Stdout(JsonForm),
    /// The summary on standard output, with a line for each of these presets.
    Summary(Detail, Vec<&'static Preset>),
}

/// Opens files before any work is done, so that a path that cannot be written fails at once.
pub fn open_targets(targets: &[OutputTarget]) -> Result<Vec<OpenOutput>> {
    let open = |target: &OutputTarget| match target {
        OutputTarget::Stdout(form) => Ok(OpenOutput::Stdout(*form)),
        OutputTarget::File(path, writer) => Ok(OpenOutput::File(Output::open(path)?, *writer)),
    };
    targets.iter().map(open).collect()
}

pub fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).cannot("make the folder", folder.display()).class(ErrorClass::Output)
}

/// Writes a report to its outputs. JSON keeps the texts of the report; other formats get each text on one line.
pub fn write_report(report: &Report, outputs: Vec<OpenOutput>) -> Result<()> {
    let is_json =
        |output: &OpenOutput| matches!(output, OpenOutput::Stdout(_) | OpenOutput::File(_, ReportFormat::Json(_)));
    let to_show = if outputs.iter().all(is_json) { None } else { json::escape_for_display(report)? };
    let shown = to_show.as_ref().unwrap_or(report);
    let summary =
        |detail, presets: &[&'static Preset]| summary::render(shown, presets, detail, terminal::stdout_width());
    write_outputs(outputs, |writer| writer.render(if writer.holds_report() { report } else { shown }), summary)
}

/// Writes each output: the bytes that `render` returns for its format, or the text that `summary` returns.
pub fn write_outputs(
    outputs: Vec<OpenOutput>,
    render: impl Fn(ReportFormat) -> Result<Vec<u8>>,
    summary: impl Fn(Detail, &[&'static Preset]) -> String,
) -> Result<()> {
    for output in outputs {
        match output {
            OpenOutput::File(output, writer) => output.finish(&render(writer)?)?,
            OpenOutput::Stdout(form) => write_stdout(&render(ReportFormat::Json(form))?)?,
            OpenOutput::Summary(detail, presets) => print(&summary(detail, &presets))?,
        }
    }
    Ok(())
}

/// Key of the policy threshold that `--min-count` sets: the minimum number of words of a relation.
const MIN_COUNT_KEY: &str = "syntactic_min_count";

/// Sources of label thresholds, in rising precedence: presets, policy file, `--min-count`.
#[derive(Clone, Debug, Default)]
pub struct PolicyOptions {
    pub presets: Vec<&'static Preset>,
    /// Policy file with thresholds (`--policy`); `None` without one.
    pub policy_file: Option<PathBuf>,
    /// Minimum number of words of a relation (`--min-count`); `None` if the option is not given.
    pub min_count: Option<u64>,
}

impl PolicyOptions {
    /// Fails if a preset needs a study that is not among `studies`.
    pub fn ensure_studies_ran(&self, studies: &[String]) -> Result<()> {
        let Some((preset, study)) = presets::missing_study(&self.presets, &plan::studies(studies)?) else {
            return Ok(());
        };
        let error = anyhow!("--preset {preset} labels what the study `{study}` measures, which was not run");
        Err(error.with_value(preset).hint(format!("headscope analyze --with {study}"))).class(ErrorClass::Usage)
    }

    /// Relabels a saved report by this policy; `name` is the report's name in errors.
    /// Fails if the policy file cannot be used, or a preset needs a study that the report lacks.
    pub fn relabel(&self, report: Report, name: &str) -> Result<Report> {
        self.ensure_studies_ran(&report.settings.protocol.studies).cannot("label", name)?;
        Ok(report.relabel(self.load_policy()?))
    }

    /// Returns the default policy or the presets' policy, with the changes of the policy file and of `--min-count`.
    pub fn load_policy(&self) -> Result<Policy> {
        self.override_policy(presets::policy(&[]))
    }

    /// Returns the presets' policy, or `policy` if there is no preset, with the changes of the policy file and of
    /// `--min-count`.
    pub fn override_policy(&self, policy: Policy) -> Result<Policy> {
        let policy = if self.presets.is_empty() { policy } else { presets::policy(&self.presets) };
        let policy = if let Some(file) = &self.policy_file { policy.with_file(file)? } else { policy };
        Ok(policy.with_values(self.min_count.map(|count| (MIN_COUNT_KEY, Value::Count(count)))))
    }
}

/// Relabels a saved report if a policy is given; `name` is the report's name in errors.
/// Fails if the policy file cannot be used, or a preset needs a study that the report lacks.
pub fn relabel_if_given(report: Report, policy: Option<&PolicyOptions>, name: &str) -> Result<Report> {
    if let Some(policy) = policy { policy.relabel(report, name) } else { Ok(report) }
}

/// Outputs of a report, and how its heads are labelled and its numbers rounded.
#[derive(Clone)]
pub struct ReportOptions {
    pub outputs: Vec<OutputTarget>,
    /// Detail of the printed summary; `None`: no summary.
    pub summary_detail: Option<Detail>,
    pub policy: PolicyOptions,
    pub threads: NonZeroUsize,
    pub digits: Digits,
}

impl ReportOptions {
    /// Opens the files of the report, and adds the summary on standard output if there is one.
    pub fn open_outputs(&self) -> Result<Vec<OpenOutput>> {
        let summary = self.summary_detail.map(|detail| OpenOutput::Summary(detail, self.policy.presets.clone()));
        Ok(open_targets(&self.outputs)?.into_iter().chain(summary).collect())
    }
}

/// Writes the sums of a run as a partial.
///
/// The sums are written before the report, so that `headscope merge` can make the report if it is not written.
/// Fails if nothing was observed, or the file cannot be written.
pub fn write_partial(observation: &Observation, output: Output) -> Result<()> {
    observation.ensure_not_empty()?;
    output.finish(&partial::serialize(Shard::WHOLE, observation)?)
}

/// Computes the report of an observation. Its run time, if recorded, includes the time of this computation.
pub fn compute_report(observation: Observation, policy: Policy, threads: NonZeroUsize) -> Result<Report> {
    let started = Instant::now();
    let measuring = progress::show_spinner("computing intervals and tests");
    let (mut context, results) = compute_results(observation, policy, threads, false)?;
    measuring.finish_and_clear();
    context.run = context.run.map(|run| run.with_added_time(started.elapsed()));
    Ok(Report::new(context, results))
}

/// Rounds a report to `digits`, and checks it before it is written.
/// `parts` are the partials from which the report was made; the error names them.
/// Fails if a number is out of range, as after damage to a partial that can still be read.
pub fn round_and_check(report: Report, digits: Digits, parts: &[PathBuf]) -> Result<Report> {
    if digits == Digits::ALL && parts.is_empty() {
        return Ok(report);
    }
    let error = |fault: Error| {
        if parts.is_empty() {
            return fault;
        }
        let names = parts.iter().take(3).map(|part| format!("`{}`", part.display())).join(", ");
        let and_more = if parts.len() > 3 { format!(" and {} more", parts.len() - 3) } else { String::new() };
        anyhow!("{names}{and_more}: the sums come to a report that no run makes: {fault:#}")
            .hint_after("; ", "run the shards again, one of them is damaged")
    };
    let report = if digits == Digits::ALL { report } else { report.rounded(|number| digits.round(number)) };
    json::read_back(&report, digits).map_err(error).class(ErrorClass::Input)
}

/// Fails if a health check finds that the model cannot read the corpus, for example because of too many unknown tokens.
pub fn ensure_corpus_readable(report: &Report) -> Result<()> {
    let obstacle = report.corpus.reading_failure_and_advice(&report.model).filter(|_| report.analyses_corpus());
    let Some([why, way_out]) = obstacle else { return Ok(()) };
    let error = anyhow!("the model could not read the corpus `{}`, since {why}", report.corpus.name);
    Err(error.hint(way_out)).class(ErrorClass::Input)
}

/// Computes the results of an observation.
/// With `leaves_out`, the results also have each estimate without each sampling block, which the paired block test needs.
/// Fails if nothing was observed, or the observation is of a second stage alone.
/// Fails also if the second stage ran with labels of a policy other than `policy`.
pub fn compute_results(
    observation: Observation,
    policy: Policy,
    threads: NonZeroUsize,
    leaves_out: bool,
) -> Result<(ReportContext, Results)> {
    ensure!(
        !observation.stage.is_second_stage(),
        anyhow!("a partial of the second of two stages says nothing by itself")
            .hint("`headscope merge -o FILE.headscope` makes one of all partials of both stages")
    );
    if observation.stage.policy_digest().is_some_and(|then| then != policy.digest()) {
        let error = anyhow!("the parts of the second stage were run with labels by another policy than this one").hint(
            "give the --policy, --preset and --min-count that they were given, or run them again, `--after` the \
                 first stage, with those of now",
        );
        return Err(error).class(ErrorClass::Input);
    }
    observation.ensure_not_empty()?;
    let Observation { identity: Identity { tool, model, corpus, protocol }, tally, passes, run_info: run, .. } =
        observation;
    let (plan, grid) = (Plan::new(&protocol)?, model.grid());

    let context = EstimationContext {
        grid,
        threads,
        keeps_replicates: leaves_out,
        absent_heads: model.absent.clone(),
        removed_heads: protocol.removed.clone(),
        query_heads_per_group: model.query_heads_per_group(),
    };
    let health = health::run_health(&corpus, &tally, &model, &policy);
    let corpus = CorpusInfo::new(corpus, &tally, health, protocol.reading.is_some());
    let settings = Settings { protocol, policy };
    let Settings { protocol, policy } = &settings;
    let is_read = corpus.health.could_read_text();
    let results_of = |control: Option<Control>, context: &EstimationContext| {
        let results = Results::new(&plan.sums_of_finished_studies(&passes, control), context, policy);
        Results { could_read_text: is_read, ..results }
    };
    let mut results = results_of(None, &context);
    let control_context = EstimationContext { keeps_replicates: false, ..context };
    let of_controls: Vec<(Control, Results)> =
        protocol.controls.iter().map(|&control| (control, results_of(Some(control), &control_context))).collect();
    results.add_controls(&of_controls);
    let verdicts = |(control, results): (Control, Results)| ControlVerdicts {
        control,
        studies: results.studies(),
        verdicts: results.verdicts(policy),
        choices: results.choice_labels(policy),
    };
    let controls = of_controls.into_iter().map(verdicts).collect();

    Ok((ReportContext { tool, model, corpus, settings, controls, run }, results))
}

/// Outputs of a comparison: its files, and the text on standard output.
pub struct OutcomeOutputs {
    pub targets: Vec<OutputTarget>,
    /// Detail of the printed text; `None`: nothing is printed.
    pub printed_detail: Option<Detail>,
}

impl OutcomeOutputs {
    /// Opens the output files, and appends standard output if text is to be printed.
    pub fn open_outputs(&self) -> Result<Vec<OpenOutput>> {
        let summary = self.printed_detail.map(|detail| OpenOutput::Summary(detail, Vec::new()));
        Ok(open_targets(&self.targets)?.into_iter().chain(summary).collect())
    }
}
