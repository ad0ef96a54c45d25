//! The command line: clap's structs, turned into [`options`](crate::commands::options). The only folder that knows clap.

mod arguments;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::commands::options::{
    AnalyzeOptions, DiffOptions, MapsOptions, MergeOptions, Outcome, PolicyOptions, RelabelOptions, ReportOptions,
    SentenceChoice,
};
use crate::corpus::{Format, Input};
use crate::export::{Target, Writer};
use crate::model::source::ModelRef;
use crate::passes::control::{Control, ControlKind};
use crate::passes::partial;
use crate::report;
use crate::sequences::shard::Shard;
use crate::sequences::words::FromToken;
use crate::studies::labels;
use crate::system::boxed;
use crate::system::output::{self};
use crate::system::parallel::all_cores;
use crate::system::terminal::{is_obeyed, one_line, say};

use arguments::{
    Action, AnalyzeArguments, Arguments, ControlArgument, CorpusArguments, DiffArguments, ExplainArguments,
    FormatArgument, FromTokenArgument, MapsArguments, MergeArguments, PresetArgument, RelabelArguments,
    ReportArguments,
};

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Label the heads of a model.
    Analyze(AnalyzeOptions),
    /// Make a report of shards.
    Merge(MergeOptions),
    /// Apply another policy to a saved report.
    Relabel(RelabelOptions),
    /// Compare two saved reports.
    Diff(DiffOptions),
    /// Write attention maps.
    Maps(MapsOptions),
    /// Print this text: an explanation, or the schema.
    Print(String),
}

/// Parses the arguments of this process; on wrong usage prints the reason and exits with status 2.
#[must_use]
pub fn parse() -> Command {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| refuse(&error));
    let (name, command) = match arguments.action {
        Action::Analyze(arguments) => ("analyze", arguments.validate().map(Command::Analyze)),
        Action::Merge(arguments) => ("merge", arguments.validate().map(Command::Merge)),
        Action::Relabel(arguments) => ("relabel", arguments.validate().map(Command::Relabel)),
        Action::Diff(arguments) => ("diff", arguments.validate().map(Command::Diff)),
        Action::Maps(arguments) => ("maps", arguments.validate().map(Command::Maps)),
        Action::Explain(arguments) => ("explain", arguments.text().map(Command::Print)),
        Action::Schema => ("schema", Ok(Command::Print(schema()))),
    };
    command.unwrap_or_else(|usage| {
        let mut root = Arguments::command();
        root.build();
        let subcommand = root.find_subcommand_mut(name).expect("a subcommand by its own name");
        refuse(&subcommand.error(ErrorKind::ValueValidation, usage))
    })
}

/// Ends with clap's own message; one that repeats what a terminal would obey is printed without colours, and each
/// argument on one line.
fn refuse(error: &clap::Error) -> ! {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let hostile: Vec<String> = arguments.filter(|argument| argument.contains(is_obeyed)).collect();
    if error.use_stderr() && !hostile.is_empty() {
        let message = error.render().to_string();
        say(hostile.iter().fold(message, |text, argument| text.replace(argument, &one_line(argument))).trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Wrong usage, in words.
type Usage = String;

impl CorpusArguments {
    fn validate(self) -> Result<Vec<Input>, Usage> {
        let format = self.format.map(|format| match format {
            FormatArgument::Conllu => Format::Conllu,
            FormatArgument::Text => Format::Text,
            FormatArgument::Jsonl => Format::Jsonl,
        });
        let corpora = if self.corpus.is_empty() { vec![boxed::CORPUS.into()] } else { self.corpus };
        corpora.iter().map(|path| Input::parse(path, format)).collect()
    }
}

impl AnalyzeArguments {
    fn validate(self) -> Result<AnalyzeOptions, Usage> {
        let model = model(self.model.as_deref());
        let corpus = self.corpora.validate()?;
        if self.truncate && !corpus.iter().any(Input::may_have_text) {
            return Err("--truncate is for plain text: a sentence without its end has another tree".to_owned());
        }
        refuse_overlap(&self.report.outputs, &corpus)?;
        let clark2019 = self.report.presets.contains(&PresetArgument::Clark2019);
        if corpus.iter().any(|input| matches!(input, Input::Stdin(_))) && (clark2019 || !self.controls.is_empty()) {
            return Err(
                "--control and --preset clark2019 read the corpus again, which standard input cannot: name a file"
                    .to_owned(),
            );
        }
        let (run_info, threads) = (!self.report.no_run_info, self.report.threads());
        let controls = controls(&self.controls, self.control_seeds);
        let outcome = match self.shard {
            None => Outcome::Report(self.report.validate()?),
            Some(shard) => self.report.validate_partial(shard)?,
        };
        Ok(AnalyzeOptions {
            model,
            corpus,
            max_tokens: self.max_tokens.map(|tokens| tokens as usize),
            truncate: self.truncate,
            strict: self.strict,
            limit: self.limit,
            threads,
            from_token: match self.from_token {
                FromTokenArgument::Mean => FromToken::Mean,
                FromTokenArgument::First => FromToken::First,
            },
            run_info,
            controls,
            clark2019,
            outcome,
        })
    }
}

impl ReportArguments {
    fn threads(&self) -> NonZeroUsize {
        self.threads.map_or_else(all_cores, |threads| NonZeroUsize::new(threads.into()).expect("in range"))
    }

    fn validate(self) -> Result<ReportOptions, Usage> {
        let outputs = targets(&self.outputs)?;
        Ok(ReportOptions {
            threads: self.threads(),
            summary: !self.quiet && !outputs.contains(&Target::Stdout),
            outputs,
            policy: PolicyOptions {
                voita2019: self.presets.contains(&PresetArgument::Voita2019),
                file: self.policy,
                min_count: self.min_count,
            },
        })
    }

    /// What there is to say of a shard: it has no labels yet.
    fn validate_partial(self, shard: Shard) -> Result<Outcome, Usage> {
        let wanted = format!("--shard {shard} writes a partial: give one -o FILE.{}", partial::EXTENSION);
        let of_labels = [
            ("--min-count", self.min_count.is_some()),
            ("--policy", self.policy.is_some()),
            ("--preset voita2019", self.presets.contains(&PresetArgument::Voita2019)),
        ];
        if let Some((option, _)) = of_labels.iter().find(|(_, given)| *given) {
            return Err(format!("{option} is about labels, and a shard has none yet: give it to headscope merge"));
        }
        let [path] = <[PathBuf; 1]>::try_from(self.outputs).map_err(|_| wanted.clone())?;
        if lower_extension(&path) != partial::EXTENSION {
            return Err(format!("`{}` is no partial: {wanted}", path.display()));
        }
        Ok(Outcome::Partial { shard, path, summary: !self.quiet })
    }
}

impl MergeArguments {
    fn validate(self) -> Result<MergeOptions, Usage> {
        refuse_overlap(&self.report.outputs, &[])?;
        refuse_clark2019(&self.report.presets, "headscope analyze --shard, whose partials carry it")?;
        let run_info = !self.report.no_run_info;
        Ok(MergeOptions { parts: self.parts, run_info, report: self.report.validate()? })
    }
}

impl RelabelArguments {
    fn validate(self) -> Result<RelabelOptions, Usage> {
        refuse_overlap(&self.outputs, &[])?;
        refuse_clark2019(&self.presets, "headscope analyze")?;
        let voita2019 = self.presets.contains(&PresetArgument::Voita2019);
        let policy = PolicyOptions { voita2019, file: self.policy, min_count: None };
        Ok(RelabelOptions { report: self.report, policy, outputs: targets(&self.outputs)? })
    }
}

impl DiffArguments {
    fn validate(self) -> Result<DiffOptions, Usage> {
        let Self { a, b, tolerance, json } = self;
        if !tolerance.is_finite() || tolerance < 0.0 {
            return Err(format!("--tolerance {tolerance} is no distance: give a number of 0 or more"));
        }
        if a == Path::new("-") && a == b {
            return Err("standard input can be one of the reports, not both".to_owned());
        }
        Ok(DiffOptions { a, b, tolerance, json })
    }
}

impl MapsArguments {
    fn validate(self) -> Result<MapsOptions, Usage> {
        let model = model(self.model.as_deref());
        let inputs = self.corpora.validate()?;
        let sentences = if let Some(text) = self.text {
            SentenceChoice::Text(text)
        } else {
            let indices: BTreeSet<u64> = self.sentences.into_iter().collect();
            SentenceChoice::Corpus { inputs, indices: indices.into_iter().collect() }
        };
        if lower_extension(&self.output) != "safetensors" {
            return Err(format!("`{}`: maps are written as .safetensors", self.output.display()));
        }
        if let SentenceChoice::Corpus { inputs, .. } = &sentences {
            refuse_overlap(std::slice::from_ref(&self.output), inputs)?;
        }
        let max_tokens = self.max_tokens.map(|tokens| tokens as usize);
        Ok(MapsOptions { model, sentences, output: self.output, max_tokens, strict: self.strict })
    }
}

impl ExplainArguments {
    fn text(self) -> Result<String, Usage> {
        if self.markdown {
            return Ok(labels::markdown());
        }
        let Some(name) = self.name else {
            let width = labels::explanations().map(|entry| entry.name.len()).max().unwrap_or(0);
            let lines = labels::explanations().map(|entry| format!("{:width$}  {}\n", entry.name, entry.measures));
            return Ok(lines.collect());
        };
        labels::find(&name).map(ToString::to_string).ok_or_else(|| {
            let hint = labels::closest(&name).map(|known| format!("; did you mean `{known}`?"));
            let name = name.escape_debug();
            format!(
                "there is no label or metric `{name}`{}",
                hint.unwrap_or_else(|| ": `headscope explain` lists all".to_owned())
            )
        })
    }
}

fn model(argument: Option<&str>) -> ModelRef {
    ModelRef::parse(argument.unwrap_or(boxed::MODEL))
}

fn targets(paths: &[PathBuf]) -> Result<Vec<Target>, Usage> {
    paths.iter().map(|path| target(path)).collect()
}

/// Each control that was named, once, with each seed.
fn controls(named: &[ControlArgument], seeds: u64) -> Vec<Control> {
    let kind = |control: &ControlArgument| match control {
        ControlArgument::RandomInit => ControlKind::RandomInit,
        ControlArgument::ShuffledWords => ControlKind::ShuffledWords,
    };
    let kinds: BTreeSet<ControlKind> = named.iter().map(kind).collect();
    kinds.into_iter().flat_map(|kind| (0..seeds).map(move |seed| Control { kind, seed })).collect()
}

fn target(path: &Path) -> Result<Target, Usage> {
    if path == Path::new("-") {
        return Ok(Target::Stdout);
    }
    let extension = lower_extension(path);
    if extension == partial::EXTENSION {
        return Err(format!("`{}` would be a partial: those are written with --shard I/N", path.display()));
    }
    let known = Writer::ALL.iter().find(|(known, _)| *known == extension);
    let known = known.ok_or_else(|| {
        let all: Vec<String> = Writer::ALL.iter().map(|(extension, _)| format!(".{extension}")).collect();
        format!("cannot tell the format of output `{}` by its extension: use {}", path.display(), all.join(" or "))
    })?;
    Ok(Target::File(path.to_owned(), known.1))
}

/// Refuses outputs that would overwrite one another or a corpus, however they are spelt.
fn refuse_overlap(outputs: &[PathBuf], corpora: &[Input]) -> Result<(), Usage> {
    let mut seen = BTreeSet::new();
    for output in outputs {
        let destination = output::destination(output);
        if corpora.iter().filter_map(Input::path).any(|corpus| output::destination(corpus) == destination) {
            return Err(format!("output `{}` is also a corpus: it would be overwritten", output.display()));
        }
        if !seen.insert(destination) {
            return Err(format!("the same output is given twice: `{}`", output.display()));
        }
    }
    Ok(())
}

/// Refuses the preset that measures more where nothing is measured; `instead` takes it.
fn refuse_clark2019(presets: &[PresetArgument], instead: &str) -> Result<(), Usage> {
    if presets.contains(&PresetArgument::Clark2019) {
        return Err(format!("--preset clark2019 is no policy, it measures more: give it to {instead}"));
    }
    Ok(())
}

fn lower_extension(path: &Path) -> String {
    path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default()
}

fn schema() -> String {
    let schema = serde_json::to_string_pretty(&report::schema()).expect("a schema is JSON");
    format!("{schema}\n")
}
