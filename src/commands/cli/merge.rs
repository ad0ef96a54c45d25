//! The arguments of `headscope merge`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::shared::report::ReportArguments;
use super::shared::{Command, MERGING, Usage, help, lower_extension, presets, refuse_overlap};
use crate::commands::merge::{MergeOptions, Merged, merge};
use crate::passes::observation::partial;
use crate::sequences::shard::Shard;
use crate::studies::registry;
use crate::system::errors::Facts;

/// The examples; examples of two stages name the studies that need them.
fn examples() -> String {
    let studies = registry::in_two_stages().collect::<Vec<_>>().join(", ");
    let probes = registry::with_option("probe");
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
#[command(after_help = help(&examples(), MERGING))]
pub struct MergeArguments {
    /// The partials of all shards; of a folder those that are in it
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    /// Write nothing, and print which of N shards are missing as `sbatch --array` takes them, as in 3,7-9; a file that is damaged
    /// or cut short is missing. Exit status 6 if any is, or if the second of two stages is, with nothing printed; 0 if none is
    #[arg(long, value_name = "N", conflicts_with_all = ["outputs", "presets", "policy", "min_count"], value_parser = Shard::count)]
    missing: Option<u32>,
    /// Label by the thresholds of a published analysis. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_parser = presets::policies())]
    presets: Vec<String>,
    #[command(flatten)]
    report: ReportArguments,
}

impl MergeArguments {
    pub fn command(self) -> Result<Command, Usage> {
        let options = self.validate()?;
        Ok(Command::new(move || merge(&options)))
    }

    fn validate(self) -> Result<MergeOptions, Usage> {
        refuse_overlap(&self.report.outputs, &[])?;
        presets::refuse_studies(&self.presets, "headscope analyze --shard, whose partials carry it")?;
        let run_info = !self.report.no_run_info;
        let is_partial = |path: &PathBuf| lower_extension(path) == partial::EXTENSION;
        if let Some(of) = self.missing {
            return Ok(MergeOptions { parts: self.parts, run_info, outcome: Merged::Missing(of) });
        }
        let outcome = match &self.report.outputs[..] {
            [path] if is_partial(path) => {
                if let Some(option) = self.report.of_labels(presets::named(&self.presets)?.first().copied()) {
                    return Err(anyhow!("{option} is about labels, and a partial has none")
                        .hint("give it to the headscope merge that writes the report"));
                }
                Merged::Partial(path.clone())
            }
            outputs if outputs.iter().any(is_partial) => {
                return Err(anyhow!("a partial (.{}) is the one output of a merge that writes it", partial::EXTENSION));
            }
            _ => {
                let also = format!(", or .{} alone for the sums of all shards", partial::EXTENSION);
                Merged::Report(self.report.validate(&self.presets, &also)?)
            }
        };
        Ok(MergeOptions { parts: self.parts, run_info, outcome })
    }
}
