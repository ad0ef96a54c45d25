//! Commands and options as clap reads them, and the help that they print.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::batch::BatchArguments;
use super::inputs::{CorpusArguments, FormatArgument, FromTokenArgument, NetworkArguments};
use super::numbers;
use super::sentences::{MapsArguments, ViewArguments};
use super::shard::ShardArgument;
use super::statuses::{DONE, MERGING, READING, RUNNING, WRITING, help, statuses};
use crate::evaluation::presets::{PRESETS, Preset};
use crate::model::grid::HeadPlace;
use crate::passes::ablation::Choice;
use crate::sequences::shard::Shard;
use crate::studies::registry::STUDIES;
use crate::study::AnyStudy;
use crate::system::errors::Class;

/// Say what each attention head of a pretrained BERT does, with the evidence.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = statuses(DONE, &Class::ALL))]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
    /// When to use colours
    #[arg(long, value_enum, global = true, default_value_t = ColorArgument::Auto, hide_possible_values = true, value_name = "auto|always|never")]
    pub(super) color: ColorArgument,
    /// How errors are printed
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t = ErrorFormatArgument::Text)]
    error_format: ErrorFormatArgument,
    /// With --version: also features, the instruction set in use, and the versions of what is written
    #[arg(long)]
    pub(super) verbose: bool,
}

/// When colours are used.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ColorArgument {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Say how to cite this program, and the papers behind a report
///
/// Without a report, prints CITATION.cff. With one, prints the sources of its labels and metrics, and the papers that they
/// name.
#[derive(Args)]
#[command(after_help = statuses(DONE, READING))]
pub(super) struct CiteArguments {
    /// A report in JSON; `-` reads standard input
    pub(super) report: Option<PathBuf>,
}

/// A form of errors.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ErrorFormatArgument {
    /// Sentences
    Text,
    /// One line of JSON: code, status, message, file, line, hint
    Json,
}

#[derive(Subcommand)]
pub(super) enum Action {
    Analyze(Box<AnalyzeArguments>),
    Merge(MergeArguments),
    Relabel(RelabelArguments),
    Show(ShowArguments),
    Export(ExportArguments),
    Diff(DiffArguments),
    View(ViewArguments),
    Maps(MapsArguments),
    Counts(CountsArguments),
    Index(IndexArguments),
    Batch(BatchArguments),
    Explain(ExplainArguments),
    Schema(SchemaArguments),
    Cite(CiteArguments),
    Completions(CompletionsArguments),
    Man(ManArguments),
}

const ANALYZE_EXAMPLES: &str = "\
Examples:
  headscope analyze                    # the model and the corpus that are in the binary: needs no file, no network
  headscope analyze google-bert/bert-base-uncased --corpus treebank.conllu -o report.json
  headscope analyze ./my-model --corpus sentences.txt --truncate -o report.json -o heads.csv
  headscope analyze ./my-model --corpus UD_English-EWT --format conllu --corpus more.jsonl.gz -o report.json
  cat treebank.conllu | headscope analyze ./my-model --corpus - --format conllu -o - | jq .heads

A corpus in CoNLL-U gives all metrics; plain text has no trees, so it gives those of the token level only. \
A line of JSON lines is {\"text\": \"...\"}, or {\"words\": [...]} with or without \"heads\" and \"relations\" as in CoNLL-U. \
Sentences that cannot be analysed whole are skipped, counted and reported with the reason.
";

/// Label every head of a model from its attention over a corpus
///
/// Runs the model over every sentence, measures where each head attends, and labels each head by a policy over
/// these metrics (see `headscope explain`). Prints a summary and writes reports.
#[derive(Args)]
#[command(after_help = help(ANALYZE_EXAMPLES, RUNNING))]
pub(super) struct AnalyzeArguments {
    /// A Hub id (`google-bert/bert-base-uncased`, `org/name@revision`) or its address, a folder with config.json, tokenizer.json and
    /// weights, or a model in the binary: `box:small`, which was trained, or `box:planted`, whose heads are known
    /// [default: box:small]
    pub(super) model: Option<String>,
    #[command(flatten)]
    pub(super) network: NetworkArguments,
    #[command(flatten)]
    pub(super) corpora: CorpusArguments,
    /// Skip sentences of more tokens [default: as many as the model has positions]
    #[arg(long, value_name = "N", value_parser = numbers::from::<u32>(1))]
    pub(super) max_tokens: Option<u32>,
    /// Cut longer sentences of plain text instead of skipping them
    #[arg(long)]
    pub(super) truncate: bool,
    /// Fail at the first sentence that would be skipped, and write nothing
    #[arg(long)]
    pub(super) strict: bool,
    /// Read only the first N sentences
    #[arg(long, value_name = "N", value_parser = numbers::from::<u64>(1))]
    pub(super) limit: Option<u64>,
    /// Which token speaks for a word that the tokenizer split
    #[arg(long, value_enum, default_value_t = FromTokenArgument::Mean)]
    pub(super) from_token: FromTokenArgument,
    /// Also label an untrained model, or sentences with their words in random order, and say which labels heads keep; not of
    /// a corpus on standard input. May be repeated
    #[arg(long = "control", value_name = "CONTROL", value_enum)]
    pub(super) controls: Vec<ControlArgument>,
    /// Run each control so many times, with seeds from 0
    #[arg(long, value_name = "N", default_value_t = 3, requires = "controls", value_parser = numbers::whole::<u64>(1..=1000))]
    pub(super) control_seeds: u64,
    /// Remove heads from the model: at every position zeros stand for what they write, before the output projection.
    /// Several are separated by commas
    #[arg(long = "remove", value_name = "L0H3", value_delimiter = ',')]
    pub(super) removed: Vec<HeadPlace>,
    /// Switch a study on that does not run by default. Several are separated by commas
    #[arg(long, value_name = "STUDY", value_delimiter = ',', value_parser = studies())]
    pub(super) with: Vec<String>,
    /// Switch a study off. Several are separated by commas
    #[arg(long, value_name = "STUDY", value_delimiter = ',', value_parser = studies())]
    pub(super) without: Vec<String>,
    /// Of studies that remove each head in turn: what stands for the context of a removed head [default: mean]
    #[arg(long, value_name = "REPLACEMENT", value_enum)]
    pub(super) removal: Option<RemovalArgument>,
    /// Of studies that mask words: mask a seventh of the words, N times, each time others; with 7 every word is masked once
    /// [default: 1]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u8>(1..=7))]
    pub(super) phases: Option<u8>,
    /// Of studies that remove each head in turn: take at most N sentences, chosen evenly over the corpus [default: 500]
    #[arg(long, value_name = "N", value_parser = numbers::from::<u64>(1))]
    pub(super) sample: Option<u64>,
    /// Of the study `effect`: remove only some heads by themselves, those that the loss depends on most and least to first order
    /// and some of the others: top:20,bottom:20,random:20
    #[arg(long, value_name = "HEADS")]
    pub(super) effect_of: Option<Choice>,
    /// Of the study `probes`: probe for a column of CoNLL-U or a key of JSON lines as well, as in xpos, feats.Number or misc.Gloss;
    /// of JSON lines any key with an entry for each word. May be repeated
    #[arg(long = "probe", value_name = "COLUMN")]
    pub(super) probes: Vec<String>,
    /// Take how often each token is from this file, and not from the corpus: JSON, as `headscope counts` writes it
    #[arg(long, value_name = "FILE")]
    pub(super) counts: Option<PathBuf>,
    /// Read of the corpus what this shard needs and no more, by what `headscope index` wrote of that corpus: its own segments, and
    /// all that the sample is in where heads are removed by their mean or chosen by --effect-of
    #[arg(long, value_name = "FILE", conflicts_with = "limit")]
    pub(super) index: Option<PathBuf>,
    /// Follow a published analysis. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_parser = presets())]
    pub(super) presets: Vec<String>,
    /// Run shard I of N, counted from 1, and write what `headscope merge` makes the report of: with `-o FILE.headscope`, or with
    /// `-o FOLDER/` to a file there with a name of its own. `auto/N` takes I from the job's number in a Slurm array, a Kubernetes
    /// Indexed Job or an AWS Batch array. A shard that is there already, whole and of this analysis, is not run again
    #[arg(long, value_name = "I/N")]
    pub(super) shard: Option<ShardArgument>,
    /// Run a shard of studies that look at the corpus twice (`probes`, `examples`, `use`, `pruning`) for the second time, after what
    /// `headscope merge -o FILE.headscope` made of all shards of the first
    #[arg(long, value_name = "FILE", requires = "shard")]
    pub(super) after: Option<PathBuf>,
    /// Keep what is done in this folder, in sixteen parts of each stage, and take what is there already: a run that was cut off goes on where
    /// it was
    #[arg(long, value_name = "FOLDER", conflicts_with = "shard")]
    pub(super) resume: Option<PathBuf>,
    #[command(flatten)]
    pub(super) report: ReportArguments,
}

/// What stands for the context of a removed head.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum RemovalArgument {
    /// Its mean over the tokens of the same class: first special, other special, mask, text
    Mean,
    /// Zeros
    Zero,
}

/// Options that `analyze` and `merge` have in common: where the report goes, and how it is labelled.
#[derive(Args)]
pub(super) struct ReportArguments {
    /// Write a report, as JSON, as CSV or as a page (.html) by the extension; `-` writes JSON to standard output. May be
    /// repeated. `merge` also writes one partial, FILE.headscope
    #[arg(short, long = "output", value_name = "FILE")]
    pub(super) outputs: Vec<PathBuf>,
    /// Do not print the summary
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// How much the summary says
    #[arg(long, value_enum, default_value_t = SummaryArgument::Full)]
    pub(super) summary: SummaryArgument,
    /// Set thresholds of the labels: a TOML file with any of the keys of `settings.policy` in a report; "off" switches a
    /// rule off
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Fewest words of a relation for a syntactic label [default: that of the policy, 100]
    #[arg(long, value_name = "N", value_parser = numbers::from::<u64>(0))]
    pub(super) min_count: Option<u64>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u16>(1..=1024))]
    pub(super) threads: Option<u16>,
    /// Leave time, threads and host out of the report, so that equal runs give equal bytes
    #[arg(long)]
    pub(super) no_run_info: bool,
}

/// How much a summary says.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum SummaryArgument {
    /// The labels alone
    Short,
    /// What each study has to say as well
    Full,
}

const MERGE_EXAMPLES: &str = "\
Examples:
  headscope analyze ./my-model -c treebank.conllu --shard 1/2 -o part-1.headscope
  headscope analyze ./my-model -c treebank.conllu --shard 2/2 -o part-2.headscope
  headscope merge part-1.headscope part-2.headscope -o report.json
  headscope merge parts/ -o report.json                         # all partials in a folder
  sbatch --array=$(headscope merge --missing 100 parts/) job.sh # run those again that are missing

Studies that look at the corpus twice (probes, examples, use, pruning) take two stages:
  headscope analyze ./my-model -c treebank.conllu --with probes --shard 1/2 -o part-1.headscope
  headscope analyze ./my-model -c treebank.conllu --with probes --shard 2/2 -o part-2.headscope
  headscope merge part-1.headscope part-2.headscope -o first.headscope
  headscope analyze ./my-model -c treebank.conllu --with probes --shard 1/2 --after first.headscope -o after-1.headscope
  headscope analyze ./my-model -c treebank.conllu --with probes --shard 2/2 --after first.headscope -o after-2.headscope
  headscope merge first.headscope after-1.headscope after-2.headscope -o report.json
";

/// Make one report of the shards of a corpus
///
/// Adds up what `headscope analyze --shard` wrote, one file for each shard, in any order. The report is that of one run
/// over the whole corpus. Files that do not belong together are refused, and so are missing shards.
#[derive(Args)]
#[command(after_help = help(MERGE_EXAMPLES, MERGING))]
pub(super) struct MergeArguments {
    /// The partials of all shards; of a folder those that are in it
    #[arg(required = true, value_name = "PART")]
    pub(super) parts: Vec<PathBuf>,
    /// Write nothing, and print which of N shards are missing as `sbatch --array` takes them, as in 3,7-9; a file that is damaged
    /// or cut short is missing. Exit status 6 if any is, 0 if none is
    #[arg(long, value_name = "N", conflicts_with_all = ["outputs", "presets", "policy", "min_count"], value_parser = Shard::count)]
    pub(super) missing: Option<u32>,
    /// Label by the thresholds of a published analysis. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_parser = policies())]
    pub(super) presets: Vec<String>,
    #[command(flatten)]
    pub(super) report: ReportArguments,
}

const RELABEL_EXAMPLES: &str = "\
Examples:
  headscope relabel report.json --policy strict.toml
  headscope relabel report.json --policy strict.toml -o strict.json -o strict.csv
  headscope relabel report.json --preset voita2019

A policy file is TOML and sets any of the keys that a report lists under `settings.policy`; what it leaves out has its \
default, or the preset's value. For example:
  syntactic_margin = 0.2
  separator_mass = 0.7
  entropy_ratio = \"off\"
";

/// Apply another policy to a saved report, without the model
///
/// Labels every head anew from the evidence in the report, and says which labels change.
#[derive(Args)]
#[command(after_help = help(RELABEL_EXAMPLES, READING), group = ArgGroup::new("labels").required(true).multiple(true))]
pub(super) struct RelabelArguments {
    /// A report in JSON; `-` reads standard input
    pub(super) report: PathBuf,
    /// The thresholds: a TOML file
    #[arg(long, value_name = "FILE", group = "labels")]
    pub(super) policy: Option<PathBuf>,
    /// The thresholds of a published analysis; the policy file changes them
    #[arg(long = "preset", value_name = "PRESET", value_parser = policies(), group = "labels")]
    pub(super) presets: Vec<String>,
    /// Write the new report, as JSON, as CSV or as a page (.html) by the extension; `-` writes JSON to standard output. May be
    /// repeated
    #[arg(short, long = "output", value_name = "FILE")]
    pub(super) outputs: Vec<PathBuf>,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  headscope show report.json                         # the summary
  headscope show report.json L2H8                    # all on one head
  headscope show report.json --relation obj --top 5  # the heads that follow a relation best
  headscope show report.json --label first-special   # the heads that have a label
";

/// Show a saved report, or what it has on a head, a relation or a label
///
/// Needs neither the model nor the corpus.
#[derive(Args)]
#[command(after_help = help(SHOW_EXAMPLES, READING), group = ArgGroup::new("part"))]
pub(super) struct ShowArguments {
    /// A report in JSON; `-` reads standard input
    pub(super) report: PathBuf,
    /// All on this head: its labels with their evidence, what each study says of it, its metrics, the literature
    #[arg(group = "part", value_name = "L2H8")]
    pub(super) head: Option<HeadPlace>,
    /// The heads that follow this relation best, in both directions
    #[arg(long, value_name = "RELATION", group = "part")]
    pub(super) relation: Option<String>,
    /// So many of them
    #[arg(long, value_name = "N", default_value_t = 10, requires = "relation", value_parser = numbers::from::<u16>(1))]
    pub(super) top: u16,
    /// The heads that have this label, or one of this family, such as `syntactic:<relation>`
    #[arg(long, value_name = "LABEL", group = "part")]
    pub(super) label: Option<String>,
    /// How much the summary says
    #[arg(long, value_enum, default_value_t = SummaryArgument::Full, conflicts_with = "part")]
    pub(super) summary: SummaryArgument,
    /// Write JSON
    #[arg(long)]
    pub(super) json: bool,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  headscope export report.json -o report.html -o heads.csv
  headscope export before.json after.json -o side-by-side.html
  headscope export report.json --figure grid -o grid.svg
  headscope export report.json --figure heatmap:entropy_ratio -o entropy.svg
  headscope export report.json --table labels -o labels.csv

Figures: grid, layers, heatmap:METRIC with any metric of the report, and those of the studies that were run: relations, \
coreference, effects, use, pruning, drift, dependence.

Tables: heads, labels, metrics, controls, files, and those of the studies that were run: relations, by_head, by_distance, \
coreference, effects, effects_by_relation, use, pruning, edges. Columns have the names of the report.
";

/// Write a saved report in other formats, or a part of it, without the model
#[derive(Args)]
#[command(after_help = help(EXPORT_EXAMPLES, READING))]
pub(super) struct ExportArguments {
    /// A report in JSON; `-` reads standard input. Of several reports a page (.html) has them side by side
    #[arg(required = true, value_name = "REPORT")]
    pub(super) reports: Vec<PathBuf>,
    /// Write this figure alone, as SVG
    #[arg(long, value_name = "FIGURE")]
    pub(super) figure: Option<String>,
    /// Write this flat table alone, as CSV or as Parquet
    #[arg(long, value_name = "TABLE", conflicts_with = "figure")]
    pub(super) table: Option<String>,
    /// Write to this file, in the format of its extension: .html (a page), .json, .csv (a row for each head), .svg (a
    /// figure), .parquet (a table). May be repeated
    #[arg(short, long = "output", value_name = "FILE", required = true)]
    pub(super) outputs: Vec<PathBuf>,
}

/// The statuses of `diff` that mean something else.
const CHANGED: &str = "0 nothing changed, 1 something did, 2 wrong usage or trouble";

const DIFF_EXAMPLES: &str = "\
Examples:
  headscope diff before.json after.json
  headscope diff before.json after.json --only labels --json
  headscope analyze ./before -c treebank.conllu --shard 1/1 -o before.headscope
  headscope analyze ./after -c treebank.conllu --shard 1/1 -o after.headscope
  headscope diff before.headscope after.headscope    # the same sentences, pairwise: sees the most

Every metric of every head is tested, and its accuracy on every relation with enough words, as one family corrected by \
Benjamini & Hochberg: if nothing changed, something is said to have in at most RATE of all comparisons. A label changes \
where it is firm on one side and out of reach on the other, over the whole of both intervals, and the number that it rests \
on differs. What the two do not share (model, corpus, settings, versions), and what could not be tested, is said and is no \
change; models with other numbers of heads are one.
";

/// Say what changed between two analyses, beyond chance
///
/// Takes reports, and partials of `headscope analyze --shard`. Partials of the same shard of the same files are compared
/// pairwise, sentence block by sentence block; anything else by the intervals of both.
#[derive(Args)]
#[command(after_help = format!("{DIFF_EXAMPLES}\n{}", statuses(CHANGED, &[Class::Input, Class::Output])))]
pub(super) struct DiffArguments {
    /// A report in JSON, or a partial (.headscope); `-` reads a report from standard input
    pub(super) a: PathBuf,
    /// Another
    pub(super) b: PathBuf,
    /// The rate of false discoveries: the largest q-value of a change
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = numbers::number)]
    pub(super) rate: f64,
    /// Differences up to T are none: numbers are tested for being farther apart. The default is above what the arithmetic
    /// of another processor does
    #[arg(long, value_name = "T", default_value_t = 1e-5, value_parser = numbers::number)]
    pub(super) tolerance: f64,
    /// Tell of these parts alone, which then decide the exit status; the correction is for all numbers still
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    pub(super) only: Vec<PartArgument>,
    /// Print everything that changed, not one page
    #[arg(long, conflicts_with = "json")]
    pub(super) full: bool,
    /// Print everything that changed as JSON (`headscope schema diff`)
    #[arg(long)]
    pub(super) json: bool,
    /// Label both sides by a published analysis. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_parser = presets())]
    pub(super) presets: Vec<String>,
    /// Set thresholds of both sides: a TOML file; what it leaves out stays as each report has it, or has its default
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Fewest words of a relation, on either side, for it to be compared [default: that of the policy, 100]
    #[arg(long, value_name = "N", value_parser = numbers::from::<u64>(0))]
    pub(super) min_count: Option<u64>,
    /// Write a page of everything that changed (.html) as well
    #[arg(short, long = "output", value_name = "FILE")]
    pub(super) outputs: Vec<PathBuf>,
    /// Threads that work out the numbers of partials [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u16>(1..=1024))]
    pub(super) threads: Option<u16>,
}

/// A part of an analysis.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum PartArgument {
    /// Labels of heads
    Labels,
    /// Accuracies on relations
    Relations,
    /// Metrics of heads
    Metrics,
}

/// Print the JSON Schema of a report, or of what `diff --json` prints
#[derive(Args)]
#[command(after_help = statuses(DONE, WRITING))]
pub(super) struct SchemaArguments {
    /// Which of the two
    #[arg(value_enum, default_value_t = SchemaArgument::Report)]
    pub(super) of: SchemaArgument,
}

/// What has a schema.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum SchemaArgument {
    /// A report in JSON
    Report,
    /// The outcome of `headscope diff --json`
    Diff,
}

const COUNTS_EXAMPLES: &str = "\
Examples:
  headscope counts ./my-model --corpus wikipedia.txt.gz -o counts.json
  headscope analyze ./my-model --corpus treebank.conllu --counts counts.json -o report.json
  cat treebank.conllu | headscope analyze ./my-model --corpus - --format conllu --counts counts.json

The file is a JSON object from each token of the model's vocabulary to a whole number: {\"the\": 5071, \"##ing\": 312}.
";

/// Count the tokens of a corpus
///
/// Writes how often each token is there, as the model's tokenizer makes them. `headscope analyze --counts` takes that in
/// place of the counts of the corpus it analyses: for standard input, which it cannot count beforehand, for shards, which
/// would each count the whole corpus, or to call rare what is rare elsewhere.
#[derive(Args)]
#[command(after_help = help(COUNTS_EXAMPLES, RUNNING))]
pub(super) struct CountsArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    pub(super) model: Option<String>,
    #[command(flatten)]
    pub(super) network: NetworkArguments,
    #[command(flatten)]
    pub(super) corpora: CorpusArguments,
    /// The JSON file to write
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
}

const INDEX_EXAMPLES: &str = "\
Examples:
  headscope index treebank.conllu -o treebank.index
  headscope index UD_English-EWT more.jsonl.gz -o corpus.index
  headscope analyze ./my-model -c treebank.conllu --index treebank.index --shard 1/100 -o parts/
";

/// Say where the parts of a corpus are, so that a shard reads its own alone
///
/// Writes where each segment of 256 sentences stands in its file, its digest, and of which family each sentence is. With
/// `headscope analyze --index` a shard reads its segments alone, and holds them against their digests; where studies remove heads,
/// those of the whole sample as well. The report is the same, byte for byte. A compressed file is read as a whole by each shard that
/// has a part of it.
#[derive(Args)]
#[command(after_help = help(INDEX_EXAMPLES, READING))]
pub(super) struct IndexArguments {
    /// The corpus: files, also compressed (.gz, .zst), or folders, in the order in which `headscope analyze` is given them
    #[arg(required = true, value_name = "CORPUS")]
    pub(super) corpus: Vec<PathBuf>,
    /// How to read every corpus; of a folder only the files of this format [default: by extension]
    #[arg(long, value_enum)]
    pub(super) format: Option<FormatArgument>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
}

/// Say what a label, a metric, a study or another word of a report is
///
/// Prints what it measures, its formula, its chance level, its threshold and where that comes from, and what it does
/// not show. Without a name, lists all of them.
#[derive(Args)]
#[command(after_help = statuses(DONE, WRITING))]
pub(super) struct ExplainArguments {
    /// A label (`previous-token`, `offset:-2`, `syntactic:nsubj`), a metric (`separator_mass`), a study (`dependency`), a
    /// threshold (`min_queries`), another word of a report or a summary (`primary`, `held-out`, `q`) or a cell of the grid (`case~+7`)
    #[arg(allow_negative_numbers = true)]
    pub(super) name: Option<String>,
    /// Print all explanations as the page docs/detectors.md
    #[arg(long, conflicts_with = "name")]
    pub(super) markdown: bool,
}

/// The names of all presets.
fn presets() -> PossibleValuesParser {
    PossibleValuesParser::new(PRESETS.iter().map(|preset| PossibleValue::new(preset.name).help(preset.about)))
}

/// The same where nothing is measured: presets that are no policy are not offered. They are refused in words of their
/// own.
fn policies() -> PossibleValuesParser {
    let value = |preset: &Preset| PossibleValue::new(preset.name).help(preset.about).hide(!preset.is_policy());
    PossibleValuesParser::new(PRESETS.iter().map(value))
}

/// The names of all studies.
fn studies() -> PossibleValuesParser {
    let value = |study: &&dyn AnyStudy| PossibleValue::new(study.card().name).help(study.card().question);
    PossibleValuesParser::new(STUDIES.iter().map(value))
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ControlArgument {
    /// The architecture with fresh weights, as before training
    RandomInit,
    /// Each sentence's words in random order, their arcs with them
    ShuffledWords,
}

/// Print completions for a shell
///
/// Bash: `headscope completions bash > ~/.local/share/bash-completion/completions/headscope`. Zsh: to a file `_headscope` in a
/// folder of `fpath`. Fish: `headscope completions fish > ~/.config/fish/completions/headscope.fish`.
#[derive(Args)]
#[command(after_help = statuses(DONE, WRITING))]
pub(super) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(super) shell: Shell,
}

/// Write the manual pages
///
/// One page for the program and one for each command: headscope.1, headscope-analyze.1 and so on. To read one without
/// installing it: `man -l FOLDER/headscope-analyze.1`.
#[derive(Args)]
#[command(after_help = statuses(DONE, WRITING))]
pub(super) struct ManArguments {
    /// The folder to write to; it is made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) output: PathBuf,
}
