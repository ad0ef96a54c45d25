//! The arguments of `headscope counts`, `headscope index` and `headscope merge`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use itertools::Itertools as _;

use super::shared::inputs::{CorpusArguments, FORMATS, NetworkArguments, SPACINGS, TokenizerArguments};
use super::shared::report::ReportArguments;
use super::shared::{
    Command, MERGE_ERRORS, READ_ERRORS, RUN_ERRORS, UsageError, help_with_statuses, lower_extension,
    named_value_parser, presets, refuse_overlap,
};
use crate::commands::corpora::{write_corpus_index, write_token_counts};
use crate::commands::merge::{MergeOptions, MergeOutput, merge};
use crate::corpus::{Format, Input};
use crate::passes::observation::partial;
use crate::sequences::reading::Spacing;
use crate::sequences::shard::Shard;
use crate::studies::registry;
use crate::system::errors::ErrorExt;

const COUNTS_EXAMPLES: &str = "\
Examples:
  headscope counts ./my-model --corpus wikipedia.txt.gz -o counts.json
  headscope analyze ./my-model --corpus treebank.conllu --counts counts.json -o report.json
  cat treebank.conllu | headscope analyze ./my-model --corpus - --format conllu --counts counts.json

The file is a JSON object from each token of the model's vocabulary to a whole number: {\"the\": 5071, \"##ing\": 312}.
";

/// Count the tokens of a corpus
///
/// Writes how often each token of the model's tokenizer occurs. `headscope analyze --counts` takes token counts from the
/// written file, not from the analysed corpus. Standard input needs such a file, since it cannot be counted beforehand. Shards
/// then need not count the whole corpus each. Rare words are then the words that are rare in the counted corpus.
#[derive(Args)]
#[command(after_help = help_with_statuses(COUNTS_EXAMPLES, RUN_ERRORS))]
pub struct CountsArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary [default: box:small]
    model: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    tokenizer: TokenizerArguments,
    #[command(flatten)]
    corpora: CorpusArguments,
    /// How the words of a treebank are given to the tokenizer
    #[arg(long, value_name = "HOW", value_parser = named_value_parser(SPACINGS), default_value = "written")]
    words: Spacing,
    /// The JSON file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl CountsArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let (model, corpus) = (self.network.model(self.model.as_deref())?, self.corpora.validate()?);
        refuse_overlap(std::slice::from_ref(&self.output), &corpus)?;
        let tokenizer = self.tokenizer.options();
        Ok(Command::new(move || write_token_counts(&model, (tokenizer, self.words), &corpus, &self.output)))
    }
}

const INDEX_EXAMPLES: &str = "\
Examples:
  headscope index treebank.conllu -o treebank.index
  headscope index UD_English-EWT more.jsonl.gz -o corpus.index
  headscope analyze ./my-model -c treebank.conllu --index treebank.index --shard 1/100 -o parts/
";

/// Index a corpus, so that each shard reads only its own part
///
/// Writes the position and digest of each segment of 256 sentences, and the family of each sentence (sentences that tests count
/// as one). With `headscope analyze --index` a shard reads only its own segments and checks their digests; where studies remove
/// heads, it also reads the segments of the whole sample. The report is equal, byte for byte, to one without an index. A
/// compressed file is read as a whole by each shard that has a part of it.
#[derive(Args)]
#[command(after_help = help_with_statuses(INDEX_EXAMPLES, READ_ERRORS))]
pub struct IndexArguments {
    /// The corpus: files, also compressed (.gz, .zst), or folders, in the order in which `headscope analyze` is given them
    #[arg(required = true, value_name = "CORPUS")]
    corpus: Vec<PathBuf>,
    /// Format of every corpus; other files in a folder are skipped [default: by extension]
    #[arg(long, value_parser = named_value_parser(FORMATS))]
    format: Option<Format>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl IndexArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let corpus = CorpusArguments { corpus: self.corpus, format: self.format }.validate()?;
        if let Some(Input::Stdin(_)) = corpus.iter().find(|input| !input.can_be_read_again()) {
            return Err(anyhow!("standard input can be read only once: an index is of files"));
        }
        refuse_overlap(std::slice::from_ref(&self.output), &corpus)?;
        Ok(Command::new(move || write_corpus_index(&corpus, &self.output)))
    }
}

/// Examples in the help of `headscope merge`. The examples with two stages name the studies that take two stages.
fn merge_examples() -> String {
    let studies = registry::two_stage_study_names().join(", ");
    let probes = registry::study_name_of_option("probe");
    format!(
        "\
Examples:
  headscope analyze ./my-model -c treebank.conllu --shard 1/2 -o part-1.headscope
  headscope analyze ./my-model -c treebank.conllu --shard 2/2 -o part-2.headscope
  headscope merge part-1.headscope part-2.headscope -o report.json
  headscope merge parts/ -o report.json                         # all partials in a folder
  headscope merge --missing 100 parts/                          # prints 3,7-9 if these are missing, and exits with 6
  sbatch --array=3,7-9 job.sh                                   # runs them again

Studies that look at the corpus twice ({studies}) take two stages:
  headscope analyze ./my-model -c treebank.conllu --with {probes} --shard 1/2 -o part-1.headscope
  headscope analyze ./my-model -c treebank.conllu --with {probes} --shard 2/2 -o part-2.headscope
  headscope merge part-1.headscope part-2.headscope -o first.headscope
  headscope analyze ./my-model -c treebank.conllu --with {probes} --shard 1/2 --after first.headscope -o after-1.headscope
  headscope analyze ./my-model -c treebank.conllu --with {probes} --shard 2/2 --after first.headscope -o after-2.headscope
  headscope merge first.headscope after-1.headscope after-2.headscope -o report.json
"
    )
}

/// Make one report of the shards of a corpus
///
/// Adds up what `headscope analyze --shard` wrote, one file for each shard, in any order. The report is that of one run
/// over the whole corpus. Files that do not belong together are refused, and so are missing shards.
#[derive(Args)]
#[command(after_help = help_with_statuses(&merge_examples(), MERGE_ERRORS))]
pub struct MergeArguments {
    /// Partials of all shards, as files or folders
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    /// Write nothing, and print which of N shards are missing, as `sbatch --array` takes them: 3,7-9. A damaged or incomplete
    /// file counts as missing. Exit status 6 if any is missing, or (with nothing printed) the whole second of two stages; else
    /// 0
    #[arg(long, value_name = "N", conflicts_with_all = ["outputs", "presets", "policy", "min_count"], value_parser = Shard::parse_count)]
    missing: Option<u32>,
    /// Label by the thresholds of a published analysis. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_parser = presets::policy_preset_parser())]
    presets: Vec<String>,
    #[command(flatten)]
    report: ReportArguments,
}

impl MergeArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let options = self.validate()?;
        Ok(Command::new(move || merge(&options)))
    }

    fn validate(self) -> Result<MergeOptions, UsageError> {
        refuse_overlap(&self.report.outputs, &[])?;
        presets::ensure_policies(&self.presets, "headscope analyze --shard, whose partials carry it")?;
        let run_info = !self.report.no_run_info;
        let is_partial = |path: &PathBuf| lower_extension(path) == partial::EXTENSION;
        let outcome = match (self.missing, &self.report.outputs[..]) {
            (Some(count), _) => MergeOutput::MissingShards(count),
            (None, [path]) if is_partial(path) => {
                if let Some(option) =
                    self.report.labelling_option(presets::presets_by_name(&self.presets)?.first().copied())
                {
                    return Err(anyhow!("{option} is about labels, and a partial has none")
                        .hint("give it to the headscope merge that writes the report"));
                }
                MergeOutput::Partial(path.clone())
            }
            (None, outputs) if outputs.iter().any(is_partial) => {
                return Err(anyhow!("a partial (.{}) is the one output of a merge that writes it", partial::EXTENSION));
            }
            _ => {
                let also = format!(", or .{} alone for the sums of all shards", partial::EXTENSION);
                MergeOutput::Report(self.report.validate(&self.presets, &also)?)
            }
        };
        Ok(MergeOptions { partial_paths: self.parts, has_run_info: run_info, output: outcome })
    }
}
