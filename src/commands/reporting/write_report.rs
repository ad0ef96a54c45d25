//! The second half of `headscope analyze` and `headscope merge`: an observation is measured, labelled and reported.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Error, Result, anyhow, ensure};

use super::outputs::{self, OpenOutput};
use super::policy::PolicyOptions;
use crate::evaluation::plan::Plan;
use crate::evaluation::results::Results;
use crate::export::Target;
use crate::export::json::{self, Digits};
use crate::export::summary::Detail;
use crate::passes::control::Control;
use crate::passes::observation::identity::Identity;
use crate::passes::observation::{Observation, partial};
use crate::report::health;
use crate::report::{ControlVerdicts, CorpusInfo, Report, ReportContext, Settings};
use crate::sequences::shard::Shard;
use crate::study::labels::policy::Policy;
use crate::study::metrics::estimates::EstimationContext;
use crate::system::errors::{Class, Facts};
use crate::system::files::output::Output;
use crate::system::progress;

/// How observations are labelled, and where the report goes.
#[derive(Clone)]
pub struct ReportOptions {
    /// The destinations of reports.
    pub outputs: Vec<Target>,
    /// How much the summary that is printed says; `None`: there is none.
    pub summary: Option<Detail>,
    /// The policy by which labels are given.
    pub policy: PolicyOptions,
    /// Threads for computing intervals.
    pub threads: NonZeroUsize,
    /// Digits of the numbers that are written and printed.
    pub digits: Digits,
}

impl ReportOptions {
    /// Opens the outputs: the reports, and after them the summary.
    /// Fails if a file cannot be written.
    pub fn open(&self) -> Result<Vec<OpenOutput>> {
        let summary = self.summary.map(|detail| OpenOutput::Summary(detail, self.policy.presets.clone()));
        Ok(outputs::open(&self.outputs)?.into_iter().chain(summary).collect())
    }
}

/// Writes the sums of a run.
///
/// They are written before its report: of them `headscope merge` makes that, should it not be written.
/// Fails if nothing was observed, or they cannot be written.
pub fn write_sums(observation: &Observation, mut output: Output) -> Result<()> {
    observation.ensure_not_empty()?;
    output.write(&partial::render(Shard::WHOLE, observation)?)?;
    output.commit()
}

/// Measures, labels and reports an observation.
/// Fails if nothing was observed.
pub fn reported(observation: Observation, policy: Policy, threads: NonZeroUsize) -> Result<Report> {
    let started = Instant::now();
    let measuring = progress::step("computing intervals and tests");
    let (mut circumstances, findings) = measure(observation, policy, threads, false)?;
    measuring.finish_and_clear();
    circumstances.run = circumstances.run.map(|run| run.and(started.elapsed()));
    Ok(Report::new(circumstances, findings))
}

/// A report as it is written, with so many digits; the partials `parts` made it.
/// Fails if no run makes this report, although each of the partials can be read: it has a number out of its range.
pub fn finished(report: Report, digits: Digits, parts: &[PathBuf]) -> Result<Report> {
    if digits == Digits::ALL && parts.is_empty() {
        return Ok(report);
    }
    let no_run = |fault: Error| {
        if parts.is_empty() {
            return fault;
        }
        let named = parts.iter().take(3).map(|part| format!("`{}`", part.display())).collect::<Vec<_>>().join(", ");
        let more = if parts.len() > 3 { format!(" and {} more", parts.len() - 3) } else { String::new() };
        anyhow!("{named}{more}: the sums come to a report that no run makes: {fault:#}")
            .hint_after("; ", "run the shards again, one of them is damaged")
    };
    let report = if digits == Digits::ALL { report } else { report.rounded(|number| digits.rounded(number)) };
    json::as_saved(&report, digits).map_err(no_run).class(Class::Input)
}

/// Fails if the model of a report could not read the corpus.
pub fn ensure_read(report: &Report) -> Result<()> {
    let unread = report.corpus.unread(&report.model).filter(|_| report.is_of_corpus());
    let Some([why, way_out]) = unread else { return Ok(()) };
    let error = anyhow!("the model could not read the corpus `{}`, since {why}", report.corpus.name);
    Err(error.hint(way_out)).class(Class::Input)
}

/// Measures an observation; with `leaves_out` also without each block, for the block test of two observations.
/// Fails if nothing was observed, or passes of it followed from labels by another policy.
pub fn measure(
    observation: Observation,
    policy: Policy,
    threads: NonZeroUsize,
    leaves_out: bool,
) -> Result<(ReportContext, Results)> {
    ensure!(
        !observation.stage.is_after(),
        anyhow!("a partial of the second of two stages says nothing by itself")
            .hint("`headscope merge -o FILE.headscope` makes one of all partials of both stages")
    );
    if observation.stage.policy().is_some_and(|then| then != policy.digest()) {
        let other = anyhow!("the parts of the second stage were run with labels by another policy than this one").hint(
            "give the --policy, --preset and --min-count that they were given, or run them again, `--after` the \
                 first stage, with those of now",
        );
        return Err(other).class(Class::Input);
    }
    observation.ensure_not_empty()?;
    let Observation { identity: Identity { tool, model, corpus, protocol }, tally, passes, run, .. } = observation;
    let (plan, grid) = (Plan::new(&protocol)?, model.grid());

    let (absent, removed) = (model.absent.clone(), protocol.removed.clone());
    let context = EstimationContext { grid, threads, leaves_out, absent, removed };
    let health = health::of_run(&corpus, &tally, &model, &policy);
    let corpus = CorpusInfo::new(corpus, &tally, health, protocol.reading.is_some());
    let settings = Settings { protocol, policy };
    let Settings { protocol, policy } = &settings;
    let is_read = corpus.health.is_read();
    let found = Results::new(&plan.observed(&passes, None), &context, policy);
    let mut findings = Results { is_read, ..found };
    let alone = EstimationContext { leaves_out: false, ..context };
    let of_control = |control: &Control| {
        let found = Results::new(&plan.observed(&passes, Some(*control)), &alone, policy);
        (*control, Results { is_read, ..found })
    };
    let found: Vec<(Control, Results)> = protocol.controls.iter().map(of_control).collect();
    findings.control(&found);
    let controlled = |(control, found): (Control, Results)| ControlVerdicts {
        control,
        studies: found.studies(),
        verdicts: found.verdicts(policy),
        choices: found.choices(policy),
    };
    let controls = found.into_iter().map(controlled).collect();

    Ok((ReportContext { tool, model, corpus, settings, controls, run }, findings))
}
