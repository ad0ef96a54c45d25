//! The arguments of `headscope gate`.

use std::collections::BTreeSet;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::{ContextKind, ContextValue};

use super::sides::SidesArguments;
use crate::commands::cli::errors::value;
use crate::commands::cli::shared::command::{Command, Usage};
use crate::commands::cli::shared::statuses::statuses;
use crate::commands::saved::gate::{GateOptions, Printed, category, gate};
use crate::studies::registry;
use crate::system::errors::Class;

/// The statuses of `gate` that mean something else.
const PASSED: &str = "0 no firm label is lost, 1 a firm label is lost, 2 wrong usage or trouble";

const EXAMPLES: &str = "\
Examples:
  headscope gate before.json after.json
  headscope gate before.json after.json --family syntactic
  headscope gate before.json after.json --family previous-token,next-token -q

A label counts where it is firm before. It is lost where the test after finds its score below its threshold (one-sided, \
2.5 %), or where its head is gone or writes a constant after. Labels that are gained, or that the test cannot decide, stop \
nothing. Both reports must be over the same text. \
`headscope compare` has each label with its evidence.
";

/// Say in one line whether a changed model has lost a firm role of its heads, for CI
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n{}", statuses(PASSED, &[Class::Input])))]
pub struct GateArguments {
    #[command(flatten)]
    sides: SidesArguments,
    /// Labels that count; several, with commas [default: all roles]
    #[arg(long = "family", value_name = "LABELS", value_delimiter = ',', value_parser = roles(), hide_possible_values = true)]
    families: Vec<String>,
    /// Print the outcome as JSON, with the evidence of each label that is lost or cannot be told
    #[arg(long)]
    json: bool,
    /// Print nothing: the status says it
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// The categories of labels that are roles.
fn categories() -> BTreeSet<&'static str> {
    let roles = registry::detectors().filter(|detector| detector.is_role);
    roles.map(|detector| category(detector.explanation.name)).collect()
}

/// Reads the name of a category of labels that are roles.
fn roles() -> PossibleValuesParser {
    PossibleValuesParser::new(categories().into_iter().map(PossibleValue::new))
}

/// The refusal of `compare --fail-on syntactic`, with the command that fails on a category of labels.
pub fn suggested(mut refusal: clap::Error) -> clap::Error {
    let category = categories().into_iter().find(|category| value(&refusal) == Some(category));
    let is_finding = matches!(refusal.get(ContextKind::InvalidArg), Some(ContextValue::String(option)) if option.starts_with("--fail-on"));
    if let Some(category) = category.filter(|_| is_finding) {
        let tip = format!("to fail where such a label is lost, run `headscope gate A B --family {category}`");
        refusal.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    refusal
}

impl GateArguments {
    /// The command: its status says whether a role was lost.
    pub fn command(self) -> Result<Command, Usage> {
        let Self { sides, families, json, quiet } = self;
        let printed = match (json, quiet) {
            (true, _) => Printed::Json,
            (_, true) => Printed::Nothing,
            _ => Printed::Line,
        };
        let options = GateOptions { sides: sides.named()?, categories: families, printed };
        Ok(Command { run: Box::new(move || gate(&options).map(|passed| u8::from(!passed))), other: Class::Usage })
    }
}
