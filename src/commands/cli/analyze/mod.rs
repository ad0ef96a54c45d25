//! The arguments of `headscope analyze`.

mod shard;
mod study_options;
pub mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;

use super::shared::inputs::{CorpusArguments, FROM_TOKEN, NetworkArguments, SPACINGS, TokenizerArguments};
use super::shared::report::{ReportArguments, threads_or_all};
use super::shared::{
    CONTROLS_HEADING, Command, INPUT_HEADING, NamedValue, OUTPUT_HEADING, RUN_ERRORS, SHARDS_HEADING, STUDIES_HEADING,
    UsageError, ensure_extension, ensure_truncatable, help_with_statuses, lower_extension, named_value_parser, numbers,
    presets, refuse_overlap, sorted_heads,
};
use crate::commands::analyze::analyze;
use crate::commands::analyze::options::{AnalysisOutput, AnalyzeOptions, MappedSentence, PartialOptions};
use crate::commands::analyze::selection::{RunSubject, StudyRequest, StudySelection};
use crate::commands::reporting::PolicyOptions;
use crate::corpus::{ConlluLinkColumn, Input, Unit};
use crate::evaluation::presets::{removal as preset_removal, spacing as preset_spacing};
use crate::model::grid::HeadPlace;
use crate::passes::ablation::{Ablation, Choice, Replacement};
use crate::passes::control::ControlKind;
use crate::passes::observation::partial;
use crate::sequences::derived::task::ExchangedPositions;
use crate::sequences::derived::task::file::TaskFile;
use crate::sequences::fold::words::FromToken;
use crate::sequences::reading::{Bos, Context, Spacing};
use crate::sequences::shard::Shard;
use crate::studies::registry;
use crate::study::AnyStudy;
use crate::system::errors::ErrorExt;
use shard::ShardArgument;
use study_options::{
    ablation_settings, control_runs, ensure_corpus_rereadable, ensure_study_runs, link_options, probed_columns,
    value_of_study_option,
};

const EXAMPLES: &str = "\
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

/// Last part of the short help, which points to the long help.
const MORE_HELP: &str = "\
More options and the list of studies: headscope analyze --help
What a study, a label or a number is: headscope explain NAME
";

/// Label every head of a model from its attention over a corpus
///
/// Runs the model over every sentence, computes metrics of each head's attention, and labels each head by thresholds on these
/// metrics (see `headscope explain`). Prints a summary and writes reports.
#[derive(Args)]
#[command(after_help = MORE_HELP, after_long_help = help_with_statuses(EXAMPLES, RUN_ERRORS))]
pub struct AnalyzeArguments {
    /// A Hub id, a folder, or a model in the binary [default: box:small]
    ///
    /// A Hub id is `google-bert/bert-base-uncased`, `org/name@revision` or an address; a folder has config.json, tokenizer.json and
    /// weights. In the binary are `box:small`, which was trained, `box:planted`, whose heads are known, and `box:causal`, a decoder
    model: Option<String>,
    #[command(flatten)]
    corpora: CorpusArguments,
    /// Read the first N sentences, or whole documents with about N in all
    ///
    /// Nothing is drawn at random. Where documents are the sampling unit, documents spread over the corpus are read whole, until
    /// they have N sentences. Elsewhere the first sentences of each file are read, shared evenly, with more where others have
    /// fewer
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser_from::<u64>(1), help_heading = INPUT_HEADING)]
    limit: Option<u64>,
    /// Sampling unit of intervals and tests [default: families or documents where the corpus marks them, else sentences]
    #[arg(long, value_parser = named_value_parser(UNITS), help_heading = INPUT_HEADING, hide_short_help = true)]
    unit: Option<Unit>,
    /// Skip sentences over N tokens
    ///
    /// Windows of documents (`--context document`) hold at most N tokens [default: the model's number of positions; at most 512
    /// for windows]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser_from::<u32>(1), help_heading = INPUT_HEADING)]
    max_tokens: Option<u32>,
    /// Cut longer sentences of plain text instead of skipping them
    #[arg(long, help_heading = INPUT_HEADING, hide_short_help = true)]
    truncate: bool,
    /// Fail at the first sentence that would be skipped, or where the model cannot read the corpus, and write no report
    #[arg(long, help_heading = INPUT_HEADING, hide_short_help = true)]
    strict: bool,
    /// How the words of a treebank are given to the tokenizer [default: written; spaced with --preset clark2019]
    #[arg(long, value_name = "HOW", value_parser = named_value_parser(SPACINGS), help_heading = INPUT_HEADING, hide_short_help = true)]
    words: Option<Spacing>,
    /// How the tokens of a split word are pooled
    #[arg(long, value_parser = named_value_parser(FROM_TOKEN), default_value = "mean", help_heading = INPUT_HEADING, hide_short_help = true)]
    from_token: FromToken,
    /// Text unit per sequence (decoders only) [default: document if it is the sampling unit, else sentence]
    #[arg(long, value_name = "CONTEXT", value_parser = named_value_parser(CONTEXTS), help_heading = INPUT_HEADING, hide_short_help = true)]
    context: Option<Context>,
    /// Whether the token for the beginning of text stands first (decoders only)
    #[arg(long, value_name = "WHEN", value_parser = named_value_parser(BOS), default_value = "auto", help_heading = INPUT_HEADING, hide_short_help = true)]
    bos: Bos,
    /// Take token counts from this file, and not from the corpus: JSON, as `headscope counts` writes it
    #[arg(long, value_name = "FILE", help_heading = INPUT_HEADING, hide_short_help = true)]
    counts: Option<PathBuf>,
    /// Remove heads from the model: zeros replace their outputs at every position, before the output projection.
    /// Several are separated by commas
    #[arg(long = "remove", value_name = "L0H3", value_delimiter = ',', help_heading = INPUT_HEADING, hide_short_help = true)]
    removed: Vec<HeadPlace>,
    #[command(flatten)]
    tokenizer: TokenizerArguments,
    #[command(flatten)]
    network: NetworkArguments,
    /// Switch studies on that do not run by default
    #[arg(
        long, value_name = "STUDY", value_delimiter = ',', value_parser = study_options::study_parser(), help_heading = STUDIES_HEADING,
        hide_possible_values = true, long_help = study_options::study_list()
    )]
    with: Vec<String>,
    /// Switch studies off
    ///
    /// Their names are listed under --with. Several are separated by commas
    #[arg(
        long, value_name = "STUDY", value_delimiter = ',', value_parser = study_options::study_parser(), help_heading = STUDIES_HEADING,
        hide_possible_values = true
    )]
    without: Vec<String>,
    /// Follow a paper
    ///
    /// A preset sets the studies, thresholds and other options of a published analysis. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_parser = presets::preset_parser(), help_heading = STUDIES_HEADING)]
    presets: Vec<String>,
    /// Score the model on a task of yours, with all heads and without each
    ///
    /// Without -c only the task is run. FILE has JSON lines, one item each: `text` with its `label`; `words` with `labels`;
    /// `text` with one mask, or `prompt`, with `answer` and `foil`; `good` and `bad`, where the good text should be more
    /// probable; or `anchor`, `positive` and `negative`. Optional keys: `corrupted`, the text with other words where the answer
    /// depends on them (study `interchange`); `family`, a name shared by items made from one template; `group`, a condition
    #[arg(long, value_name = "FILE", help_heading = STUDIES_HEADING)]
    task: Option<PathBuf>,
    /// Positions at which `interchange` exchanges the contexts of heads [default: all]
    #[arg(long, value_name = "POSITIONS", value_parser = named_value_parser(POSITIONS), help_heading = STUDIES_HEADING, hide_short_help = true)]
    positions: Option<ExchangedPositions>,
    /// Remove heads over at most N sentences [default: 500]
    ///
    /// The sentences are drawn from the corpus, or from the items of --task, for all studies that remove each head in turn and for
    /// `parser`
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser_from::<u64>(1), help_heading = STUDIES_HEADING)]
    sample: Option<u64>,
    /// Replacement of a removed head's context [default: mean]
    #[arg(long, value_name = "REPLACEMENT", value_parser = named_value_parser(REPLACEMENTS), help_heading = STUDIES_HEADING, hide_short_help = true)]
    removal: Option<Replacement>,
    /// Mask N sevenths of the words, one seventh at a time; 7 masks every word once [default: 1]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser::<u8>(1..=7), help_heading = STUDIES_HEADING, hide_short_help = true)]
    phases: Option<u8>,
    #[arg(long, value_name = "HEADS", help_heading = STUDIES_HEADING, hide_short_help = true, help = format!(
        "Of the studies `{}` and `{}`: remove only some heads by themselves, those that the loss depends on most and least to first order and \
         some of the others, chosen on one half of the sample and removed on the other: top:20,bottom:20,random:20",
        registry::study_name_of_option("effect-of"),
        registry::study_name_of_option("task")
    ))]
    effect_of: Option<Choice>,
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser::<u16>(1..=256), help_heading = STUDIES_HEADING, hide_short_help = true, help = study_option_help("gradient-steps",
        "integrate derivatives over N equal steps of the path on which all heads come in together, from 1 to 256, at N \
         times its cost; 16 are mostly enough"))]
    gradient_steps: Option<u16>,
    #[arg(long = "probe", value_name = "COLUMN", help_heading = STUDIES_HEADING, hide_short_help = true, help = study_option_help("probe",
        "probe for a column of CoNLL-U or a key of JSON lines as well, as in xpos, feats.Number or misc.Gloss; of \
         JSON lines any key with an entry for each word. May be repeated"))]
    probes: Vec<String>,
    #[arg(long, value_name = "WHERE", value_parser = str::parse::<ConlluLinkColumn>, help_heading = STUDIES_HEADING, hide_short_help = true, help = study_option_help("links-from",
        "read links of CoNLL-U as well, from the enhanced dependencies (deps) or from numbers of words under a key of \
         MISC (misc:KEY)"))]
    links_from: Option<ConlluLinkColumn>,
    #[arg(long, value_name = "FILE", help_heading = STUDIES_HEADING, hide_short_help = true, help = study_option_help("links",
        "read links from a table beside the corpus, TSV or CSV with the columns sentence, from, to and type; \
         `sentence` is the id of a sentence or #N, its number counted from 0, `from` and `to` are numbers of words counted from 1"))]
    links: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help_heading = STUDIES_HEADING, hide_short_help = true, help = study_option_help("link-rules",
        "make links by the rules of this TOML file, a table for each type: from and to are conditions on annotations \
         of words, and same, side, within and nearest on both"))]
    link_rules: Option<PathBuf>,
    #[arg(long, value_name = "TYPE", value_delimiter = ',', help_heading = STUDIES_HEADING, hide_short_help = true, help = study_option_help("undirected",
        "types whose links count in both directions, as contacts do. Several are separated by commas"))]
    undirected: Vec<String>,
    #[arg(long, value_name = "TYPE=N", value_delimiter = ',', value_parser = study_options::parse_min_distance, help_heading = STUDIES_HEADING,
        hide_short_help = true, help = study_option_help("min-distance",
        "how far apart the words of a type's links are at least, as in contact=6. Several are separated by commas"))]
    min_distance: Vec<(String, usize)>,
    #[arg(long, value_name = "COLUMN", help_heading = STUDIES_HEADING, hide_short_help = true, help = study_option_help("classes",
        "a column of CoNLL-U, or a key of JSON lines, with the class of each word, as in xpos, feats.Number or \
         misc.Gloss; of JSON lines a key of `classes` too"))]
    classes: Option<String>,
    /// Also label a control
    ///
    /// Labels an untrained model, or sentences with their words in random order, and says which labels heads keep. Controls
    /// cannot use a corpus on standard input. May be repeated
    #[arg(long = "control", value_name = "CONTROL", value_parser = named_value_parser(CONTROLS), help_heading = CONTROLS_HEADING)]
    controls: Vec<ControlKind>,
    /// Run each control N times, with seeds from 0
    #[arg(
        long, value_name = "N", default_value_t = 3, requires = "controls", value_parser = numbers::whole_number_parser::<u64>(1..=1000),
        help_heading = CONTROLS_HEADING, hide_short_help = true
    )]
    control_seeds: u64,
    /// Run part I of N, for `headscope merge`
    ///
    /// Runs shard I of N, counted from 1, and writes a partial for `headscope merge`: with `-o FILE.headscope`, or with
    /// `-o FOLDER/` to a file there with a name of its own. `auto/N` takes I from the job's number in a Slurm array, a Kubernetes
    /// Indexed Job or an AWS Batch array. A shard that is there already, whole and of this analysis, is not run again
    #[arg(long, value_name = "I/N", help_heading = SHARDS_HEADING)]
    shard: Option<ShardArgument>,
    #[arg(long, value_name = "FILE", requires = "shard", help_heading = SHARDS_HEADING, hide_short_help = true, help = format!(
        "Run a shard of studies that look at the corpus twice ({}) for the second time, after what `headscope merge -o \
         FILE.headscope` made of all shards of the first",
        registry::two_stage_study_names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    ))]
    after: Option<PathBuf>,
    /// Read only this shard's segments of the corpus, by the index from `headscope index`. Runs that replace heads by their
    /// mean, or choose them by --effect-of, also read the segments of the sample
    #[arg(long, value_name = "FILE", conflicts_with = "limit", help_heading = SHARDS_HEADING, hide_short_help = true)]
    index: Option<PathBuf>,
    /// Save finished work in this folder, and resume from it
    ///
    /// Each stage of the run has sixteen parts, and each part is saved when it is finished. The command given again computes
    /// only the missing parts
    #[arg(long, value_name = "FOLDER", conflicts_with = "shard", help_heading = SHARDS_HEADING)]
    resume: Option<PathBuf>,
    /// Memory for activations kept for studies that look at the corpus twice, as in 2GB; with 0 they read it again
    /// [default: a quarter of what is free]
    #[arg(long, value_name = "SIZE", value_parser = numbers::parse_bytes_with_zero, conflicts_with = "shard", help_heading = SHARDS_HEADING, hide_short_help = true)]
    keep: Option<u64>,
    /// Also save the sums behind the report as a partial, FILE.headscope. `headscope compare --numbers` pairs partials of the
    /// same sentences; `headscope merge` makes a report from a partial
    #[arg(long, value_name = "FILE", conflicts_with = "shard", help_heading = SHARDS_HEADING, hide_short_help = true)]
    partial: Option<PathBuf>,
    /// Keep the attention of all heads over this sentence
    ///
    /// The page draws a thumbnail for each head
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["shard", "show_example"], help_heading = OUTPUT_HEADING)]
    show: Option<String>,
    #[arg(long, conflicts_with = "shard", help_heading = OUTPUT_HEADING, hide_short_help = true, help = study_option_help("show-example",
        "keep the attention of all heads over one of its sentences, the longest that is typical of one of the eight heads whose firm roles \
         are the furthest above their thresholds"))]
    show_example: bool,
    #[command(flatten)]
    report: ReportArguments,
}

const CONTEXTS: &[NamedValue<Context>] = &[
    (Context::Sentence, "sentence", "Each sentence by itself"),
    (Context::Document, "document", "As many whole sentences of a document as fit, one after the other"),
];

const UNITS: &[NamedValue<Unit>] = &[(
    Unit::Sentences,
    "sentences",
    "Sentences, although sentences of one document are alike: intervals may be too narrow",
)];

const BOS: &[NamedValue<Bos>] = &[
    (Bos::Auto, "auto", "Where the tokenizer puts it"),
    (Bos::Always, "always", "Always"),
    (Bos::Never, "never", "Never"),
];

const CONTROLS: &[NamedValue<ControlKind>] = &[
    (ControlKind::RandomInit, "random-init", "The architecture with fresh weights, as before training"),
    (
        ControlKind::RandomSharp,
        "random-sharp",
        "Fresh weights, with each layer as far from even attention as the model's",
    ),
    (ControlKind::Rotated, "rotated", "The model with what each head writes turned at random"),
    (ControlKind::ShuffledWords, "shuffled-words", "Each sentence's words in random order, their arcs with them"),
];

const POSITIONS: &[NamedValue<ExchangedPositions>] = &[
    (ExchangedPositions::All, "all", "All positions"),
    (ExchangedPositions::Answer, "answer", "The mask, or the last token of the prompt"),
];

const REPLACEMENTS: &[NamedValue<Replacement>] = &[
    (Replacement::Mean, "mean", "Its mean over the tokens of the same class: first special, other special, mask, text"),
    (Replacement::Constant, "constant", "One mean over all tokens, which `headscope prune` can write into a model"),
    (Replacement::Zero, "zero", "Zeros"),
];

/// Help of an option that belongs to one study.
fn study_option_help(option: &'static str, text: &str) -> String {
    format!("Of the study `{}`: {text}", registry::study_name_of_option(option))
}

impl AnalyzeArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let options = self.validate()?;
        Ok(Command::new(move || analyze(&options)))
    }

    /// Subject of the run, which decides the default studies: a corpus, the built-in corpus, or a task alone.
    fn run_subject(&self) -> RunSubject {
        match (self.corpora.corpus.is_empty(), &self.task) {
            (false, _) => RunSubject::Corpus,
            (true, None) => RunSubject::BuiltInCorpus,
            (true, Some(_)) => RunSubject::TaskOnly,
        }
    }

    fn validate(self) -> Result<AnalyzeOptions, UsageError> {
        let model = self.network.model(self.model.as_deref())?;
        let asked_of = self.run_subject();
        let corpus = self.corpora.validate()?;
        if self.truncate {
            ensure_truncatable(&corpus)?;
        }
        let outputs: Vec<PathBuf> = self.report.outputs.iter().chain(&self.partial).cloned().collect();
        refuse_overlap(&outputs, &corpus)?;
        let way_out = format!("name a file .{}", partial::EXTENSION);
        ensure_extension(self.partial.as_slice(), partial::EXTENSION, "write a partial as", &way_out)
            .with_option("partial")?;
        // Joining studies read the whole corpus, and may remove heads that `--effect-of` does not choose.
        let may_join = self.shard.is_none() && self.resume.is_none() && self.effect_of.is_none();
        let presets = presets::presets_by_name(&self.presets)?;
        let spacing = self.words.unwrap_or_else(|| preset_spacing(&presets, &self.with));
        let task = self.task.as_deref().map(TaskFile::read).transpose()?.map(Arc::new);
        let selection = StudySelection::new(StudyRequest {
            with_studies: self.with,
            without_studies: self.without,
            presets: presets.clone(),
            task: task.clone(),
            may_join,
            subject: asked_of,
            has_counts: self.counts.is_some() || corpus.iter().all(Input::can_be_read_again),
        })?;
        let studies = selection.studies();
        let others = [("control", !self.controls.is_empty()), ("resume", self.resume.is_some())];
        ensure_corpus_rereadable(&corpus, studies, others)?;
        let kind = task.as_ref().map(|task| task.kind);
        let ablation = ablation_settings(
            (&selection, kind),
            self.removal,
            self.phases,
            self.sample,
            self.effect_of,
            self.gradient_steps,
        )?;
        let ablation = ablation.map(|chosen| {
            let removal = self.removal.or(preset_removal(&presets)).unwrap_or(chosen.removal);
            Ablation { removal, ..chosen }
        });
        let positions = value_of_study_option(&selection, "positions", self.positions)?.unwrap_or_default();
        let exchanged = selection.has_study(registry::study_name_of_option("positions")).then_some(positions);
        let probes = probed_columns(&selection, self.probes)?;
        let links = link_options(
            &selection,
            self.links_from,
            [self.links.as_deref(), self.link_rules.as_deref()],
            (self.undirected, self.min_distance),
        )?;
        let classes = value_of_study_option(&selection, "classes", self.classes)?;
        ensure_study_runs(&selection, "show-example", self.show_example)?;
        let example = self.show_example.then_some(MappedSentence::Example);
        let mapped_sentence = self.show.map(MappedSentence::Text).or(example);
        let (run_info, threads) = (!self.report.no_run_info, threads_or_all(self.report.threads));
        let controls = control_runs(&self.controls, self.control_seeds);
        ensure_second_stage(self.after.as_deref(), studies)?;
        let outcome = match self.shard {
            None => AnalysisOutput::Report {
                options: self.report.validate(&self.presets, "")?,
                parts_folder: self.resume,
                partial_file: self.partial,
            },
            Some(shard) => shard_output(
                self.report,
                shard.resolve_shard(|name| std::env::var(name).ok())?,
                self.after,
                &self.presets,
            )?,
        };
        Ok(AnalyzeOptions {
            model,
            corpus,
            max_tokens: self.max_tokens.map(|tokens| tokens as usize),
            tokenizer: self.tokenizer.options(),
            truncate: self.truncate,
            context: self.context,
            bos: self.bos,
            strict: self.strict,
            sentence_limit: self.limit,
            sampling_unit: self.unit,
            unit_half: None,
            threads,
            activation_memory: self.keep,
            spacing,
            from_token: self.from_token,
            run_info,
            controls,
            removed_heads: sorted_heads(self.removed),
            ablation,
            probed_columns: probes,
            links,
            class_column: classes,
            selection,
            task,
            exchanged_positions: exchanged,
            counts_file: self.counts,
            index_file: self.index,
            mapped_sentence,
            output: outcome,
        })
    }
}

/// Fails if sums of a first stage are given (`--after`) and no study looks at the corpus a second time.
fn ensure_second_stage(after: Option<&Path>, studies: &[&dyn AnyStudy]) -> Result<(), UsageError> {
    let has_second_stage = studies.iter().any(|study| study.passes().iter().any(|spec| spec.is_second_stage));
    let Some(after) = after.filter(|_| !has_second_stage) else { return Ok(()) };
    Err(anyhow!("--after {}: no study of this run looks at the corpus twice", after.display())
        .with_file(after.display()))
}

/// Output of a shard: a partial. A shard without `--after` has no labels yet, so labelling options are refused.
fn shard_output(
    report: ReportArguments,
    shard: Shard,
    after: Option<PathBuf>,
    named: &[String],
) -> Result<AnalysisOutput, UsageError> {
    let no_partial_error = || {
        let way_out = format!("give one -o FILE.{} or -o FOLDER/", partial::EXTENSION);
        anyhow!("--shard {shard} writes a partial").hint(way_out)
    };
    // A preset that adds studies is allowed for their sake; its labels are given at the merge.
    let presets = presets::presets_by_name(named)?;
    let preset = presets.iter().copied().find(|preset| preset.is_policy() && preset.studies.is_empty());
    if let Some(option) = report.labelling_option(preset).filter(|_| after.is_none()) {
        return Err(anyhow!("{option} is about labels, and a shard has none yet").hint("give it to headscope merge"));
    }
    let [path] = <[PathBuf; 1]>::try_from(report.outputs).map_err(|_| no_partial_error())?;
    let path_in_folder = shard::path_in_folder(&path, shard, after.is_some());
    if path_in_folder.is_none() && lower_extension(&path) != partial::EXTENSION {
        return Err(no_partial_error()
            .context(format!("`{}` is no partial", path.display()))
            .with_file(path.display()));
    }
    let (in_folder, path) = (path_in_folder.is_some(), path_in_folder.unwrap_or(path));
    let policy = PolicyOptions { presets, policy_file: report.policy, min_count: report.min_count };
    Ok(AnalysisOutput::Partial(PartialOptions {
        shard,
        path,
        is_in_folder: in_folder,
        first_stage_file: after,
        policy,
        prints_summary: !report.quiet,
    }))
}
