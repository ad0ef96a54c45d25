//! The command line: clap's structs, turned into [`options`](crate::options). The only file that knows clap.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::attention::FromToken;
use crate::boxed;
use crate::control::{Control, ControlKind};
use crate::corpus::{Format, Input};
use crate::detectors;
use crate::export::output::{self, is_obeyed, printable};
use crate::export::{Target, Writer};
use crate::model::source::ModelRef;
use crate::options::{
    AnalyzeOptions, DiffOptions, MapsOptions, MergeOptions, Outcome, PolicyOptions, RelabelOptions, ReportOptions,
    SentenceChoice,
};
use crate::parallel::all_cores;
use crate::partial;
use crate::report;
use crate::shard::Shard;

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

/// Ends with clap's own message; one that repeats what a terminal would obey is printed without colours.
fn refuse(error: &clap::Error) -> ! {
    let hostile = std::env::args_os().any(|argument| argument.to_string_lossy().contains(is_obeyed));
    if error.use_stderr() && hostile {
        anstream::eprint!("{}", printable(&error.render().to_string()));
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Wrong usage, in words.
type Usage = String;

const EXIT_STATUS: &str = "Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.";

/// What each attention head of a pretrained BERT does, with the evidence.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = EXIT_STATUS)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Analyze(AnalyzeArguments),
    Merge(MergeArguments),
    Relabel(RelabelArguments),
    Diff(DiffArguments),
    Maps(MapsArguments),
    Explain(ExplainArguments),
    /// Print the JSON Schema of the report
    Schema,
}

const ANALYZE_EXAMPLES: &str = "\
Examples:
  headscope analyze                    # the model and the corpus that are in the binary: needs no file, no network
  headscope analyze google-bert/bert-base-uncased --corpus treebank.conllu -o report.json
  headscope analyze ./my-model --corpus sentences.txt --truncate -o report.json -o heads.csv
  headscope analyze ./my-model --corpus UD_English-EWT --format conllu --corpus more.jsonl.gz -o report.json
  cat treebank.conllu | headscope analyze ./my-model --corpus - --format conllu -o - | jq .heads

A corpus in CoNLL-U gives all metrics; plain text has no trees, so it gives those of the token level only.
A line of JSON lines is {\"text\": \"...\"}, or {\"words\": [...]} with or without \"heads\" and \"relations\" as in CoNLL-U.
Sentences that cannot be analysed whole are skipped, counted and reported with the reason.

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
";

/// Label every head of a model from its attention over a corpus
///
/// Runs the model over every sentence, measures where each head attends, and labels each head by a policy over
/// these metrics (see `headscope explain`). Prints a summary and writes reports.
#[derive(Args)]
#[command(after_help = ANALYZE_EXAMPLES)]
struct AnalyzeArguments {
    /// A Hub id (`google-bert/bert-base-uncased`, `org/name@revision`), a folder with config.json, tokenizer.json and
    /// weights, or a model in the binary: `box:small`, which was trained, or `box:planted`, whose heads are known
    /// [default: box:small]
    model: Option<String>,
    #[command(flatten)]
    corpora: CorpusArguments,
    /// Skip sentences of more tokens [default: as many as the model has positions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Cut longer sentences of plain text instead of skipping them
    #[arg(long)]
    truncate: bool,
    /// Fail at the first sentence that would be skipped, and write nothing
    #[arg(long)]
    strict: bool,
    /// Read only the first N sentences
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Which token speaks for a word that the tokenizer split
    #[arg(long, value_enum, default_value_t = FromTokenArgument::Mean)]
    from_token: FromTokenArgument,
    /// Also count the labels that an untrained model has, or sentences with their words in random order; not of a corpus on
    /// standard input. May be repeated
    #[arg(long = "control", value_name = "CONTROL", value_enum)]
    controls: Vec<ControlArgument>,
    /// Run each control so many times, with seeds from 0
    #[arg(long, value_name = "N", default_value_t = 3, requires = "controls", value_parser = clap::value_parser!(u64).range(1..=1000))]
    control_seeds: u64,
    /// Run shard I of N, counted from 1, and write with `-o FILE.headscope` what `headscope merge` makes the report of
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    #[command(flatten)]
    report: ReportArguments,
}

/// What `analyze` and `merge` have in common: where the report goes, and how it is labelled.
#[derive(Args)]
struct ReportArguments {
    /// Write a report, as JSON or as CSV by the extension; `-` writes JSON to standard output. May be repeated
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
    /// Do not print the summary
    #[arg(short, long)]
    quiet: bool,
    /// Follow a published analysis. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_enum)]
    presets: Vec<PresetArgument>,
    /// Set thresholds of the labels: a TOML file with any of the keys of `settings.policy` in a report; "off" switches a
    /// rule off
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Fewest words of a relation for a syntactic label [default: that of the policy, 100]
    #[arg(long, value_name = "N")]
    min_count: Option<u64>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Leave time, threads and host out of the report, so that equal runs give equal bytes
    #[arg(long)]
    no_run_info: bool,
}

const MERGE_EXAMPLES: &str = "\
Examples:
  headscope analyze ./my-model -c treebank.conllu --shard 1/2 -o part-1.headscope
  headscope analyze ./my-model -c treebank.conllu --shard 2/2 -o part-2.headscope
  headscope merge part-1.headscope part-2.headscope -o report.json

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
";

/// Make one report of the shards of a corpus
///
/// Adds up what `headscope analyze --shard` wrote, one file for each shard, in any order. The report is that of one run
/// over the whole corpus. Files that do not belong together are refused, and so are missing shards.
#[derive(Args)]
#[command(after_help = MERGE_EXAMPLES)]
struct MergeArguments {
    /// The partials of all shards
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    report: ReportArguments,
}

const RELABEL_EXAMPLES: &str = "\
Examples:
  headscope relabel report.json --policy strict.toml
  headscope relabel report.json --policy strict.toml -o strict.json -o strict.csv
  headscope relabel report.json --preset voita2019

A policy file is TOML and sets any of the keys that a report lists under `settings.policy`; what it leaves out has its
default, or the preset's value. For example:
  syntactic_margin = 0.2
  separator_mass = 0.7
  entropy_ratio = \"off\"

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
";

/// Apply another policy to a saved report, without the model
///
/// Labels every head anew from the evidence in the report, and says which labels change.
#[derive(Args)]
#[command(after_help = RELABEL_EXAMPLES, group = ArgGroup::new("labels").required(true).multiple(true))]
struct RelabelArguments {
    /// A report in JSON; `-` reads standard input
    report: PathBuf,
    /// The thresholds: a TOML file
    #[arg(long, value_name = "FILE", group = "labels")]
    policy: Option<PathBuf>,
    /// The thresholds of a published analysis; the policy file changes them
    #[arg(long = "preset", value_name = "PRESET", value_enum, group = "labels")]
    presets: Vec<PresetArgument>,
    /// Write the new report, as JSON or as CSV by the extension; `-` writes JSON to standard output. May be repeated
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  headscope diff before.json after.json
  headscope diff before.json after.json --tolerance 0.01 --json

Differences are: a head with another primary label, a number of a head or relation whose 95 % intervals do not overlap,
a relation with another best head, and models with different numbers of heads. What the reports do not share (model,
corpus, settings, versions) and what only one of them has is said, and is no difference.

With --tolerance T, intervals may be up to T apart; a best head may move between two that are within T of each other in
both reports; and a primary label may change, if the policy is the same, where the scores of both labels moved by at most
T.

Exit status: 0 nothing differs beyond the tolerance, 1 something does, 2 trouble or wrong usage, 130 interrupted.
";

/// Compare two reports: which labels, numbers and best heads differ by more than their uncertainty
#[derive(Args)]
#[command(after_help = DIFF_EXAMPLES)]
struct DiffArguments {
    /// A report in JSON; `-` reads standard input
    a: PathBuf,
    /// Another report
    b: PathBuf,
    /// How far apart numbers may be and still count as the same
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    tolerance: f64,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
}

const MAPS_EXAMPLES: &str = "\
Examples:
  headscope maps --text \"The cat sat on the mat.\" -o maps.safetensors
  headscope maps ./my-model --text \"The cat sat on the mat.\" -o maps.safetensors
  headscope maps google-bert/bert-base-uncased --corpus treebank.conllu --sentence 0 --sentence 7 -o maps.safetensors

In Python:
  from safetensors import safe_open
  maps = safe_open(\"maps.safetensors\", \"np\")
  maps.get_tensor(\"attentions.0\")    # [layers, heads, tokens, tokens]; each row sums to 1
  maps.metadata()[\"tokens.0\"]        # the tokens, a JSON list; word_ids.0: the word of each token

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
";

/// Write the attention of chosen sentences as tensors
///
/// For each sentence a float32 tensor `attentions.<index>` of shape [layers, heads, tokens, tokens], in a safetensors
/// file whose metadata holds the tokens, the word of each token and the model's identity.
#[derive(Args)]
#[command(after_help = MAPS_EXAMPLES)]
struct MapsArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    model: Option<String>,
    /// Map this text; it is sentence 0
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["corpus", "sentences", "format"])]
    text: Option<String>,
    #[command(flatten)]
    corpora: CorpusArguments,
    /// Map only this sentence of the corpus, counted from 0. May be repeated
    #[arg(short, long = "sentence", value_name = "N")]
    sentences: Vec<u64>,
    /// The safetensors file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Skip sentences of more tokens [default: as many as the model has positions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Fail at the first sentence that would be skipped, and write nothing
    #[arg(long)]
    strict: bool,
}

/// Which sentences.
#[derive(Args)]
struct CorpusArguments {
    /// A corpus: a file, also compressed (.gz, .zst), a folder, or `-` for standard input. May be repeated; sentences
    /// are numbered through [default: box:gold, which is in the binary]
    #[arg(short, long = "corpus", value_name = "PATH")]
    corpus: Vec<PathBuf>,
    /// How to read every corpus; of a folder only the files of this format [default: by extension: .conllu, .conll,
    /// .txt, .text, .jsonl or .ndjson]
    #[arg(long, value_enum, requires = "corpus")]
    format: Option<FormatArgument>,
}

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

/// Say what a label or a metric is
///
/// What it measures, its formula, its chance level, its threshold and where that comes from, and what it does not
/// show. Without a name, lists all labels and metrics.
#[derive(Args)]
struct ExplainArguments {
    /// A label (`previous-token`, `offset:-2`, `syntactic:nsubj`) or a metric (`separator_mass`)
    name: Option<String>,
    /// Print all explanations as the page docs/detectors.md
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatArgument {
    /// CoNLL-U
    Conllu,
    /// One sentence per line, a blank line between documents
    Text,
    /// One JSON object per line
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PresetArgument {
    /// Clark et al. 2019: pairs of segments, its own metrics and labels, in a section of its own; for `analyze`
    Clark2019,
    /// Voita et al. 2019: label positional and syntactic heads by its definitions, and no others
    Voita2019,
}

#[derive(Clone, Copy, ValueEnum)]
enum ControlArgument {
    /// The architecture with fresh weights, as before training
    RandomInit,
    /// Each sentence's words in random order, their arcs with them
    ShuffledWords,
}

#[derive(Clone, Copy, ValueEnum)]
enum FromTokenArgument {
    /// The mean over its tokens
    Mean,
    /// Its first token
    First,
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
            return Ok(detectors::markdown());
        }
        let Some(name) = self.name else {
            let width = detectors::explanations().map(|entry| entry.name.len()).max().unwrap_or(0);
            let lines = detectors::explanations().map(|entry| format!("{:width$}  {}\n", entry.name, entry.measures));
            return Ok(lines.collect());
        };
        detectors::find(&name).map(ToString::to_string).ok_or_else(|| {
            let hint = detectors::closest(&name).map(|known| format!("; did you mean `{known}`?"));
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
