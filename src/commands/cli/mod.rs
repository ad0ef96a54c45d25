//! The command line: clap's structs, turned into [`options`](crate::commands::options). The only folder that knows clap.

mod arguments;
mod batch;
mod checks;
mod chosen;
mod errors;
mod inputs;
mod installed;
mod numbers;
mod sentences;
mod shard;
mod statuses;
pub mod table;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anstream::ColorChoice;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use anyhow::anyhow;

use super::saved::diff::outcome;
use crate::commands::explain;
use crate::commands::files::OutputFile;
use crate::commands::options::{
    AnalyzeOptions, BatchOptions, CiteOptions, CountsOptions, DiffOptions, ExportOptions, Exported, IndexOptions,
    MapsOptions, MergeOptions, Merged, Outcome, PolicyOptions, RelabelOptions, ReportOptions, ShowOptions, ShownPart,
    ViewOptions,
};
use crate::corpus::Input;
use crate::evaluation::presets::Preset;
use crate::export::summary::Detail;
use crate::export::{TableWriter, Target, Writer};
use crate::passes::observation::partial;
use crate::report;
use crate::sequences::shard::Shard;
use crate::study::AnyStudy;
use crate::study::metrics::number::Part;
use crate::system::errors::Facts;
use crate::system::parallel::all_cores;

use arguments::{
    Action, AnalyzeArguments, Arguments, ColorArgument, CountsArguments, DiffArguments, ExplainArguments,
    ExportArguments, IndexArguments, MergeArguments, PartArgument, RelabelArguments, ReportArguments, SchemaArgument,
    SchemaArguments, ShowArguments, SummaryArgument,
};

use checks::{heads, lower_extension, refuse_other_than_pages, refuse_overlap, unfit};
use chosen::{ablation, can_count, controls, presets, probes, refuse_reading_again, refuse_studies, studies};
pub use errors::error_format;
use errors::{Usage, refuse, refuse_usage};
use inputs::CorpusArguments;

/// A command with its options, validated.
pub enum Command {
    /// Label the heads of a model.
    Analyze(Box<AnalyzeOptions>),
    /// Make a report of shards.
    Merge(MergeOptions),
    /// Apply another policy to a saved report.
    Relabel(RelabelOptions),
    /// Show a saved report, or a part of it.
    Show(ShowOptions),
    /// Write a saved report in other formats.
    Export(ExportOptions),
    /// Compare two analyses.
    Diff(DiffOptions),
    /// Show the attention of sentences.
    View(ViewOptions),
    /// Write attention maps.
    Maps(MapsOptions),
    /// Count the tokens of a corpus.
    Counts(CountsOptions),
    /// Say where the segments of a corpus are.
    Index(IndexOptions),
    /// Run a table of analyses.
    Batch(BatchOptions),
    /// Say what to cite.
    Cite(CiteOptions),
    /// Write these files to a folder.
    Write(PathBuf, Vec<OutputFile>),
    /// Print this text: an explanation, or the schema.
    Print(String),
}

/// Parses the arguments of this process; on wrong usage prints the reason and exits with status 2.
pub fn parse() -> Command {
    let arguments = match Arguments::try_parse() {
        Err(error) if error.kind() == ErrorKind::DisplayVersion && asks_for_more() => {
            return Command::Print(installed::version());
        }
        parsed => parsed.unwrap_or_else(|error| refuse(&error, &Arguments::command())),
    };
    if arguments.verbose {
        let mut all = Arguments::command();
        refuse(&all.error(ErrorKind::MissingRequiredArgument, "--verbose is for --version"), &all);
    }
    arguments.color.apply();
    let (name, command) = match arguments.action {
        Action::Analyze(arguments) => ("analyze", arguments.validate().map(Box::new).map(Command::Analyze)),
        Action::Merge(arguments) => ("merge", arguments.validate().map(Command::Merge)),
        Action::Relabel(arguments) => ("relabel", arguments.validate().map(Command::Relabel)),
        Action::Show(arguments) => ("show", Ok(Command::Show(arguments.options()))),
        Action::Export(arguments) => ("export", arguments.validate().map(Command::Export)),
        Action::Diff(arguments) => ("diff", arguments.validate().map(Command::Diff)),
        Action::View(arguments) => ("view", arguments.validate().map(Command::View)),
        Action::Maps(arguments) => ("maps", arguments.validate().map(Command::Maps)),
        Action::Counts(arguments) => ("counts", arguments.validate().map(Command::Counts)),
        Action::Index(arguments) => ("index", arguments.validate().map(Command::Index)),
        Action::Batch(arguments) => ("batch", Ok(Command::Batch(arguments.options()))),
        Action::Explain(arguments) => ("explain", arguments.text().map(Command::Print)),
        Action::Schema(arguments) => ("schema", Ok(Command::Print(arguments.text()))),
        Action::Cite(arguments) => ("cite", Ok(Command::Cite(CiteOptions { report: arguments.report }))),
        Action::Completions(arguments) => ("completions", Ok(Command::Print(arguments.text(Arguments::command())))),
        Action::Man(arguments) => {
            ("man", arguments.files(Arguments::command()).map(|(folder, files)| Command::Write(folder, files)))
        }
    };
    command.unwrap_or_else(|usage| refuse_usage(usage, name))
}

/// Whether the arguments of this process ask for a verbose version.
fn asks_for_more() -> bool {
    std::env::args_os().any(|argument| argument == "--verbose")
}

impl AnalyzeArguments {
    fn validate(self) -> Result<AnalyzeOptions, Usage> {
        let model = self.network.model(self.model.as_deref())?;
        let is_first_run = self.corpora.corpus.is_empty();
        let corpus = self.corpora.validate()?;
        if self.truncate && !corpus.iter().any(Input::may_have_text) {
            return Err(anyhow!("--truncate is for plain text: a sentence without its end has another tree")
                .of_option("truncate"));
        }
        refuse_overlap(&self.report.outputs, &corpus)?;
        // What follows the others runs over all of the corpus, and removes heads that may not be chosen.
        let may_join = self.shard.is_none() && self.resume.is_none() && self.effect_of.is_none();
        let studies = studies(is_first_run, &self.presets, &self.with, &self.without, may_join)?;
        let (studies, left_out) = can_count(&corpus, studies, &self.with, self.counts.is_some())?;
        let others = [("control", !self.controls.is_empty()), ("resume", self.resume.is_some())];
        refuse_reading_again(&corpus, &studies, others)?;
        let ablation = ablation(&studies, self.removal, self.phases, self.sample, self.effect_of)?;
        let probes = probes(&studies, self.probes)?;
        let (run_info, threads) = (!self.report.no_run_info, self.report.threads());
        let controls = controls(&self.controls, self.control_seeds);
        if let Some(after) = self.after.as_ref().filter(|_| !follow(&studies)) {
            return Err(anyhow!("--after {}: no study of this run looks at the corpus twice", after.display())
                .about(after.display()));
        }
        let outcome = match self.shard {
            None => Outcome::Report { wanted: self.report.validate(&self.presets)?, parts: self.resume },
            Some(shard) => {
                let shard = shard.shard(|name| std::env::var(name).ok())?;
                self.report.validate_partial(shard, self.after, &self.presets)?
            }
        };
        Ok(AnalyzeOptions {
            model,
            corpus,
            max_tokens: self.max_tokens.map(|tokens| tokens as usize),
            truncate: self.truncate,
            strict: self.strict,
            limit: self.limit,
            threads,
            from_token: self.from_token.value(),
            run_info,
            controls,
            removed: heads(self.removed),
            ablation,
            probes,
            studies,
            with: self.with,
            left_out,
            counts: self.counts,
            index: self.index,
            outcome,
        })
    }
}

impl ColorArgument {
    /// For all that is printed from here on.
    fn apply(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

impl SummaryArgument {
    fn detail(self) -> Detail {
        match self {
            Self::Short => Detail::Short,
            Self::Full => Detail::Full,
        }
    }
}

impl ReportArguments {
    fn threads(&self) -> NonZeroUsize {
        threads_or_all(self.threads)
    }

    fn validate(self, named: &[String]) -> Result<ReportOptions, Usage> {
        let outputs = targets(&self.outputs)?;
        Ok(ReportOptions {
            threads: self.threads(),
            summary: Some(self.summary.detail()).filter(|_| !self.quiet && !outputs.contains(&Target::Stdout)),
            outputs,
            policy: PolicyOptions { presets: presets(named)?, file: self.policy, min_count: self.min_count },
        })
    }

    /// The first option that is about labels, as this preset is.
    fn of_labels(&self, preset: Option<&Preset>) -> Option<String> {
        let options = [
            self.min_count.map(|_| "--min-count".to_owned()),
            self.policy.as_ref().map(|_| "--policy".to_owned()),
            preset.map(|preset| format!("--preset {}", preset.name)),
        ];
        options.into_iter().flatten().next()
    }

    /// The outcome of a shard: it has no labels yet, so options of labels are refused, unless it is run after what gives some.
    fn validate_partial(self, shard: Shard, after: Option<PathBuf>, named: &[String]) -> Result<Outcome, Usage> {
        let wanted = || {
            let way_out = format!("give one -o FILE.{} or -o FOLDER/", partial::EXTENSION);
            anyhow!("--shard {shard} writes a partial").hint(way_out)
        };
        // One that measures more is about that here; its labels are given where all are.
        let preset = presets(named)?.into_iter().find(|preset| preset.is_policy() && preset.studies.is_empty());
        if let Some(option) = self.of_labels(preset).filter(|_| after.is_none()) {
            return Err(
                anyhow!("{option} is about labels, and a shard has none yet").hint("give it to headscope merge")
            );
        }
        let [path] = <[PathBuf; 1]>::try_from(self.outputs).map_err(|_| wanted())?;
        let of_folder = shard::in_folder(&path, shard, after.is_some());
        if of_folder.is_none() && lower_extension(&path) != partial::EXTENSION {
            return Err(wanted().context(format!("`{}` is no partial", path.display())).about(path.display()));
        }
        let (in_folder, path) = (of_folder.is_some(), of_folder.unwrap_or(path));
        let policy = PolicyOptions { presets: presets(named)?, file: self.policy, min_count: self.min_count };
        Ok(Outcome::Partial { shard, path, in_folder, after, policy, summary: !self.quiet })
    }
}

impl MergeArguments {
    fn validate(self) -> Result<MergeOptions, Usage> {
        refuse_overlap(&self.report.outputs, &[])?;
        refuse_studies(&self.presets, "headscope analyze --shard, whose partials carry it")?;
        let run_info = !self.report.no_run_info;
        let is_partial = |path: &PathBuf| lower_extension(path) == partial::EXTENSION;
        if let Some(of) = self.missing {
            return Ok(MergeOptions { parts: self.parts, run_info, outcome: Merged::Missing(of) });
        }
        let outcome = match &self.report.outputs[..] {
            [path] if is_partial(path) => {
                if let Some(option) = self.report.of_labels(presets(&self.presets)?.first().copied()) {
                    return Err(anyhow!("{option} is about labels, and a partial has none")
                        .hint("give it to the headscope merge that writes the report"));
                }
                Merged::Partial(path.clone())
            }
            outputs if outputs.iter().any(is_partial) => {
                return Err(anyhow!("a partial (.{}) is the one output of a merge that writes it", partial::EXTENSION));
            }
            _ => Merged::Report(self.report.validate(&self.presets)?),
        };
        Ok(MergeOptions { parts: self.parts, run_info, outcome })
    }
}

/// Whether some study looks at the corpus again when it knows what was found.
fn follow(studies: &[&'static dyn AnyStudy]) -> bool {
    studies.iter().any(|study| study.passes().iter().any(|spec| spec.follows))
}

impl RelabelArguments {
    fn validate(self) -> Result<RelabelOptions, Usage> {
        refuse_overlap(&self.outputs, &[])?;
        refuse_studies(&self.presets, "headscope analyze")?;
        let policy = PolicyOptions { presets: presets(&self.presets)?, file: self.policy, min_count: None };
        Ok(RelabelOptions { report: self.report, policy, outputs: targets(&self.outputs)? })
    }
}

impl ShowArguments {
    fn options(self) -> ShowOptions {
        let Self { report, head, relation, top, label, summary, json } = self;
        let shown = match (head, relation, label) {
            (Some(place), ..) => ShownPart::Head(place),
            (_, Some(name), _) => ShownPart::Relation { name, top: top.into() },
            (.., Some(label)) => ShownPart::Label(label),
            (None, None, None) => ShownPart::Summary(summary.detail()),
        };
        ShowOptions { report, shown, json }
    }
}

impl ExportArguments {
    fn validate(self) -> Result<ExportOptions, Usage> {
        refuse_overlap(&self.outputs, &[])?;
        let figure = |name| match self.outputs.iter().find(|path| lower_extension(path) != "svg") {
            Some(other) => Err(unfit("draw", other, "name a file .svg")),
            None => Ok::<_, Usage>(Exported::Figure(name, self.outputs.clone())),
        };
        let table = |name| -> Result<Exported, Usage> {
            let known = |path: &PathBuf| TableWriter::ALL.iter().find(|(known, _)| *known == lower_extension(path));
            let writer = |path: &PathBuf| match known(path) {
                Some((_, writer)) => Ok((path.clone(), *writer)),
                None if lower_extension(path) == "parquet" => {
                    Err(anyhow!("`{}`: this headscope was built without Parquet", path.display())
                        .about(path.display())
                        .hint("build it with `--features parquet`, or write .csv"))
                }
                None => Err(unfit("write a table as", path, "name a file .csv or .parquet")),
            };
            Ok(Exported::Table(name, self.outputs.iter().map(writer).collect::<Result<_, Usage>>()?))
        };
        let wanted = match (self.figure, self.table) {
            (Some(name), _) => figure(name)?,
            (None, Some(name)) => table(name)?,
            (None, None) if self.reports.len() > 1 => {
                refuse_other_than_pages(&self.outputs, "several reports")?;
                Exported::SideBySide(self.outputs)
            }
            (None, None) => Exported::Report(targets(&self.outputs)?),
        };
        if self.reports.len() > 1 && !matches!(wanted, Exported::SideBySide(_)) {
            return Err(anyhow!("a figure or a table is of one report"));
        }
        Ok(ExportOptions { reports: self.reports, wanted })
    }
}

impl DiffArguments {
    fn validate(self) -> Result<DiffOptions, Usage> {
        let Self { a, b, rate, tolerance, only, full, json, presets: named, policy, min_count, outputs, threads } =
            self;
        refuse_overlap(&outputs, &[])?;
        refuse_other_than_pages(&outputs, "what changed")?;
        if !tolerance.is_finite() || tolerance < 0.0 {
            return Err(anyhow!("--tolerance {tolerance} is no distance").hint("give a number of 0 or more"));
        }
        if !(rate > 0.0 && rate < 1.0) {
            return Err(anyhow!("--rate {rate} is no rate of false discoveries").hint("give a number between 0 and 1"));
        }
        if a == Path::new("-") && a == b {
            return Err(anyhow!("standard input can be one of the reports, not both"));
        }
        refuse_studies(&named, "headscope analyze")?;
        let part = |part| match part {
            PartArgument::Labels => Part::Labels,
            PartArgument::Relations => Part::Relations,
            PartArgument::Metrics => Part::Metrics,
        };
        let only = only.into_iter().map(part).collect();
        let policy = PolicyOptions { presets: presets(&named)?, file: policy, min_count };
        Ok(DiffOptions { a, b, rate, tolerance, only, policy, full, json, outputs, threads: threads_or_all(threads) })
    }
}

impl CountsArguments {
    fn validate(self) -> Result<CountsOptions, Usage> {
        let (model, corpus) = (self.network.model(self.model.as_deref())?, self.corpora.validate()?);
        refuse_overlap(std::slice::from_ref(&self.output), &corpus)?;
        Ok(CountsOptions { model, corpus, output: self.output })
    }
}

impl IndexArguments {
    fn validate(self) -> Result<IndexOptions, Usage> {
        let corpus = CorpusArguments { corpus: self.corpus, format: self.format }.validate()?;
        if let Some(Input::Stdin(_)) = corpus.iter().find(|input| !input.can_be_read_again()) {
            return Err(anyhow!("standard input can be read only once: an index is of files"));
        }
        refuse_overlap(std::slice::from_ref(&self.output), &corpus)?;
        Ok(IndexOptions { corpus, output: self.output })
    }
}

impl ExplainArguments {
    fn text(self) -> Result<String, Usage> {
        if self.markdown {
            return Ok(explain::markdown());
        }
        self.name.map_or_else(|| Ok(explain::list()), |name| explain::one(&name))
    }
}

/// So many threads, or one per core.
fn threads_or_all(threads: Option<u16>) -> NonZeroUsize {
    threads.map_or_else(all_cores, |threads| NonZeroUsize::new(threads.into()).expect("in range"))
}

fn targets(paths: &[PathBuf]) -> Result<Vec<Target>, Usage> {
    paths.iter().map(|path| target(path)).collect()
}

fn target(path: &Path) -> Result<Target, Usage> {
    if path == Path::new("-") {
        return Ok(Target::Stdout);
    }
    let extension = lower_extension(path);
    let all = || Writer::ALL.iter().map(|(extension, _)| format!(".{extension}")).collect::<Vec<_>>().join(" or ");
    if extension == partial::EXTENSION {
        let shown = path.display();
        return Err(anyhow!("`{shown}` would be a partial")
            .about(shown)
            .hint(format!("give --shard I/N to `headscope analyze`, or use {}", all())));
    }
    let known = Writer::ALL.iter().find(|(known, _)| *known == extension);
    let known = known.ok_or_else(|| {
        let shown = path.display();
        let unknown = anyhow!("cannot tell the format of output `{shown}` by its extension");
        unknown.about(shown).hint(format!("use {}", all()))
    })?;
    Ok(Target::File(path.to_owned(), known.1))
}

impl SchemaArguments {
    fn text(&self) -> String {
        let schema = match self.of {
            SchemaArgument::Report => report::schema(),
            SchemaArgument::Diff => outcome::schema(),
        };
        serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
    }
}
