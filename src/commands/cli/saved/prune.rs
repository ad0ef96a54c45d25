//! The arguments of `headscope prune`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::commands::cli::shared::inputs::NetworkArguments;
use crate::commands::cli::shared::numbers::share;
use crate::commands::cli::shared::{Command, Named, RUNNING, Usage, help, one_of};
use crate::commands::saved::prune::{Budget, PruneOptions, prune};
use crate::model::grid::HeadPlace;
use crate::study::section::ShareOf;

const EXAMPLES: &str = "\
Examples:
  headscope prune ./my-model --heads L0H1,L3H2 -o pruned
  headscope analyze ./my-model -c corpus.txt --with pruning --removal constant -o report.json
  headscope prune ./my-model --report report.json --budget 1% -o pruned

The folder has every file of the model, and its weights as safetensors of the same names and shapes, so it loads wherever the \
model does. Zero are the weights through which a head writes; with `--removal constant` the bias after them holds what replaces the \
head, in float32. Nothing is trained again, and nothing becomes smaller or faster.
";

/// Write a model without some of its heads
///
/// Removes heads that are named, by zeros, or those that can go by a report on pruning, as that report removed them: its loss is then
/// that of the folder.
#[derive(Args)]
#[command(after_help = help(EXAMPLES, RUNNING), group = ArgGroup::new("chosen").required(true).multiple(true))]
pub struct PruneArguments {
    /// A Hub id, a folder with config.json, tokenizer.json and weights, or a model in the binary
    model: String,
    #[command(flatten)]
    network: NetworkArguments,
    /// The heads that go; several are separated by commas
    #[arg(long, value_name = "L0H3", value_delimiter = ',', group = "chosen", conflicts_with = "budget")]
    heads: Vec<HeadPlace>,
    /// A report on this model, in JSON, with the study `pruning`: its kind of removal, and its heads unless --heads names others
    #[arg(long, value_name = "FILE", group = "chosen", required_unless_present = "heads")]
    report: Option<PathBuf>,
    /// How much the loss may rise, or the share right fall, by the report
    #[arg(long, value_name = "PERCENT", value_parser = share, requires = "report", required_unless_present = "heads")]
    budget: Option<f64>,
    /// The measure that the budget is a share of
    #[arg(long, value_name = "WHAT", value_parser = one_of(SHARES), default_value = "loss", requires = "budget")]
    of: ShareOf,
    /// The order of the report by which heads go [default: the first, by effect, or by that on the task]
    #[arg(long, value_name = "ORDER", requires = "budget")]
    by: Option<String>,
    /// The folder to write: a new one, or one that is empty
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

const SHARES: &[Named<ShareOf>] = &[
    (ShareOf::Loss, "loss", "The loss with all heads"),
    (ShareOf::AllHeads, "all-heads", "The loss without any head less that with all"),
    (ShareOf::Right, "right", "The share of the task that is right, which may fall by so much of itself"),
];

impl PruneArguments {
    pub fn command(self) -> Result<Command, Usage> {
        let Self { model, network, heads, report, budget, of, by, output } = self;
        let budget = Budget { rise: budget.unwrap_or_default(), of, by };
        let options = PruneOptions {
            model: network.model(Some(&model))?,
            heads: (!heads.is_empty()).then(|| heads.into_iter().collect()),
            report: report.map(|path| (path, budget)),
            output,
        };
        Ok(Command::new(move || prune(&options)))
    }
}
