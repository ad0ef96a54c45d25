//! Arguments of the commands that compare analyses: `headscope compare`, `headscope confirm` and `headscope gate`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::anyhow;
use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::error::{ContextKind, ContextValue};

use crate::commands::cli::errors::refused_value;
use crate::commands::cli::shared::report::{output_targets, threads_or_all};
use crate::commands::cli::shared::{
    Command, NamedValue, READ_ERRORS, SUCCESS_STATUS, UsageError, exit_status_help, has_extension, named_value_parser,
    numbers, presets, refuse_overlap, unsuitable_output,
};
use crate::commands::reporting::{OutcomeOutputs, PolicyOptions};
use crate::commands::saved::compare::{ComparedTable, FailOn, Pairing, compare};
use crate::commands::saved::confirm::confirm;
use crate::commands::saved::gate::{PrintedForm, gate, label_category};
use crate::commands::saved::numbers::{NumbersOptions, compare_numbers};
use crate::commands::saved::sides::SidesOptions;
use crate::export::summary::Detail;
use crate::studies::registry;
use crate::study::metrics::number::Part;
use crate::study::metrics::unit::{PRECISION_TOLERANCE, PerUnit, Unit};
use crate::system::errors::{ErrorClass, ErrorExt};

/// Exit statuses whose meaning for `compare` differs from other commands.
const COMPARE_STATUSES: &str = "0 nothing of --fail-on was found, 1 something was (by default: a label was lost or gained, or with \
    --numbers a number changed), 2 wrong usage or trouble";

const COMPARE_EXAMPLES: &str = "\
Examples:
  headscope compare before.json after.json
  headscope compare before.json after.json -o compare.html -o compare.csv --json
  headscope compare before.json after.json -q --fail-on lost      # a gate: status 1 where a label was lost
  headscope compare seed-1.json seed-2.json --match match.json    # heads that `headscope match` has paired
  headscope compare before.headscope after.headscope --numbers    # partials of the same sentences see the most

A label is kept where it is firm in both analyses, and gained or lost where it is firm in one and the test of the other finds \
its score below the threshold (one-sided, 2.5 %). Everything else cannot be told: a label is borderline, its score is below \
the threshold and more sentences might lift it, or there are too few queries.

With --numbers all numbers are one family of tests, corrected by Benjamini & Hochberg: if nothing changed, something is said to \
have in at most RATE of all comparisons. Partials of `headscope analyze --partial` over the same files are compared block by \
block, anything else by the intervals of both.
";

/// Say what changed between two analyses: which labels were kept, gained or lost, or which numbers changed
///
/// Takes reports and partials of two halves of a corpus, two corpora, two checkpoints or two seeds. Models must have the same
/// layers and heads; heads are compared by place unless they were matched.
#[derive(Args)]
#[command(after_help = format!("{COMPARE_EXAMPLES}\n{}", exit_status_help(COMPARE_STATUSES, &[ErrorClass::Input, ErrorClass::Output])))]
pub struct CompareArguments {
    #[command(flatten)]
    sides: SidesArguments,
    /// One model is the other after more training: heads correspond by layer and number
    #[arg(long)]
    matched: bool,
    /// Compare each head with its partner in this file, which `headscope match` wrote
    #[arg(long = "match", value_name = "FILE", conflicts_with = "matched")]
    matching: Option<PathBuf>,
    /// Findings that give exit status 1; several are separated by commas
    #[arg(long, value_name = "FINDING", value_parser = named_value_parser(FAIL_ON_VALUES), value_delimiter = ',', default_value = "any")]
    fail_on: Vec<FailOn>,
    /// Table written to .csv files
    #[arg(long, value_parser = named_value_parser(TABLES), default_value = "heads")]
    table: ComparedTable,
    #[command(flatten)]
    outcome: OutcomeArguments,
    #[command(flatten)]
    numbers: NumbersArguments,
}

const FAIL_ON_VALUES: &[NamedValue<FailOn>] = &[
    (FailOn::Any, "any", "A label was lost or gained; with --numbers, a number changed"),
    (FailOn::Lost, "lost", "A label was lost"),
    (FailOn::Gained, "gained", "A label was gained"),
    (
        FailOn::NoLongerFirm,
        "no-longer-firm",
        "A label firm in the first is not firm in the second, whether or not it is shown to be lost",
    ),
    (FailOn::CorporaDiffer, "corpora", "The two are over different text, or different amounts of it"),
    (FailOn::Never, "never", "Nothing: the status is 0 unless there is trouble"),
];

const TABLES: &[NamedValue<ComparedTable>] = &[
    (ComparedTable::Heads, "heads", "A row for each head"),
    (ComparedTable::Labels, "labels", "A row for each label of each head, with its evidence"),
    (ComparedTable::Families, "families", "A row for each family of labels, with its agreement"),
];

impl CompareArguments {
    /// Validates the arguments, and returns the command that they describe. The command's exit status is 1 if the comparison
    /// has a finding that `--fail-on` names.
    pub fn command(self) -> Result<Command, UsageError> {
        let Self { sides, matched, matching, fail_on, table, numbers, outcome } = self;
        if fail_on.len() > 1 && fail_on.contains(&FailOn::Never) {
            return Err(anyhow!("--fail-on never is to fail on nothing, and other findings are named beside it")
                .with_value("never")
                .hint("leave one out"));
        }
        if numbers.are_asked_for {
            if !matches!(*fail_on, [FailOn::Any | FailOn::Never]) {
                return Err(anyhow!("--fail-on names findings about labels, and --numbers compares numbers")
                    .hint("with --numbers it is any or never"));
            }
            let outputs = outcome.outcome_outputs("what changed", &["json", "json.gz", "html"])?;
            let options = numbers.options(sides.validate()?, outputs)?;
            let never_fails = fail_on == [FailOn::Never];
            return Ok(Command::from_check(move || Ok(compare_numbers(&options)? || never_fails)));
        }
        let outputs = outcome.outcome_outputs("a comparison", &["json", "json.gz", "csv", "html"])?;
        let pairing = match matching {
            Some(file) => Pairing::MatchingFile(file),
            None if matched => Pairing::OneLineage,
            None => Pairing::UnknownRelation,
        };
        let sides = sides.validate()?;
        Ok(Command::from_check(move || compare(&sides, &pairing, &fail_on, &outputs, table)))
    }
}

/// Options of `compare --numbers`: the compared numbers, and the test of a change.
#[derive(Args)]
#[command(next_help_heading = "Numbers")]
pub struct NumbersArguments {
    /// Say which numbers changed beyond chance, in the place of labels: every metric of every head, and its accuracy on every
    /// relation with enough words
    #[arg(long = "numbers", conflicts_with_all = ["matched", "matching", "table"])]
    pub are_asked_for: bool,
    /// False-discovery rate: the largest q-value of a change
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = numbers::parse_number, requires = "are_asked_for")]
    rate: f64,
    #[arg(long = "tolerance", value_name = "UNIT=T", value_delimiter = ',', requires = "are_asked_for", help = format!(
        "Differences up to T are none: numbers are tested for being farther apart. In shares, nats or tokens; a number alone is for \
         all three. The defaults are about what weights in bfloat16 make, or more [default: shares={},nats={},tokens={}]",
        PRECISION_TOLERANCE.shares, PRECISION_TOLERANCE.nats, PRECISION_TOLERANCE.tokens
    ))]
    tolerances: Vec<ToleranceArgument>,
    /// Report only these parts, and set the exit status by them; q-values stay corrected over all tests
    #[arg(long, value_name = "PART", value_parser = named_value_parser(PARTS), value_delimiter = ',', requires = "are_asked_for")]
    only: Vec<Part>,
}

/// Tolerance of `compare --numbers`: a value for one unit, or for all units.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ToleranceArgument {
    /// Unit of the numbers to which the tolerance applies (shares, nats or tokens); `None`: all three.
    unit: Option<Unit>,
    value: f64,
}

impl FromStr for ToleranceArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (unit, value) = text.split_once('=').map_or((None, text), |(unit, value)| (Some(unit), value));
        let units = [("shares", Unit::Shares), ("nats", Unit::Nats), ("tokens", Unit::Tokens)];
        let parse_unit = |name: &str| {
            let entry = units.iter().find(|(word, _)| *word == name);
            entry.map(|(_, unit)| *unit).ok_or_else(|| "shares=T, nats=T, tokens=T or T is expected".to_owned())
        };
        let value = value.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        let value = value.ok_or_else(|| "a number of 0 or more is expected".to_owned())?;
        Ok(Self { unit: unit.map(parse_unit).transpose()?, value })
    }
}

/// Tolerance of each unit after the arguments are applied in order; the last argument for a unit wins.
fn tolerances_per_unit(written: &[ToleranceArgument]) -> PerUnit<f64> {
    written.iter().fold(PRECISION_TOLERANCE, |mut tolerances, ToleranceArgument { unit, value }| {
        match unit {
            Some(unit) => *tolerances.get_mut(*unit) = *value,
            None => tolerances = PerUnit::uniform(*value),
        }
        tolerances
    })
}

const PARTS: &[NamedValue<Part>] = &[
    (Part::Labels, "labels", "Labels of heads"),
    (Part::Relations, "relations", "Accuracies on relations"),
    (Part::Metrics, "metrics", "Metrics of heads"),
];

impl NumbersArguments {
    pub fn options(self, sides: SidesOptions, outputs: OutcomeOutputs) -> Result<NumbersOptions, UsageError> {
        let Self { are_asked_for: _, rate, tolerances, only } = self;
        if !(rate > 0.0 && rate < 1.0) {
            return Err(anyhow!("--rate {rate} is no rate of false discoveries")
                .with_value(rate)
                .hint("give a number between 0 and 1"));
        }
        Ok(NumbersOptions { sides, rate, tolerances: tolerances_per_unit(&tolerances), printed_parts: only, outputs })
    }
}

const CONFIRM_EXAMPLES: &str = "\
Examples:
  headscope confirm ewt.json gum.json pud.json
  headscope confirm ewt.json gum.json -o confirmed.csv --json

The labels that are firm in the first report are fixed beforehand, with its policy; in each other corpus they are one family of \
tests, against the same thresholds. Over five and more other corpora a label is robust where the prediction interval of its score \
less its threshold is above 0. No model is run.
";

/// Help of `--output` for `confirm`, which writes no page.
const CONFIRM_OUTPUTS: &str = "Write the outcome to this file as well, all of it, in the format of its extension: .json, \
    .json.gz or .csv (a table of labels). May be repeated";

/// Say which firm labels of one report are found again over other corpora
///
/// Takes reports of one model over different corpora; all but the first may also be partials (.headscope).
#[derive(Args)]
#[command(mut_arg("outputs", |argument| argument.help(CONFIRM_OUTPUTS)))]
#[command(after_help = format!("{CONFIRM_EXAMPLES}\n{}", exit_status_help(SUCCESS_STATUS, READ_ERRORS)))]
pub struct ConfirmArguments {
    /// Report whose firm labels are tested, then reports over other corpora
    #[arg(required = true, num_args = 2.., value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Worker threads, for partials (.headscope) [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser::<u16>(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    outcome: OutcomeArguments,
}

impl ConfirmArguments {
    pub fn command(self) -> Result<Command, UsageError> {
        let Self { reports, threads, outcome } = self;
        let stdin = reports.iter().filter(|report| report.as_os_str() == "-").count();
        if stdin > 1 {
            return Err(anyhow!("standard input can be one of the reports, and is named {stdin} times").with_value("-"));
        }
        let outputs = outcome.outcome_outputs("a confirmation", &["json", "json.gz", "csv"])?;
        Ok(Command::new(move || confirm(&reports, &outputs, threads_or_all(threads))))
    }
}

/// Exit statuses whose meaning for `gate` differs from other commands.
const GATE_STATUSES: &str = "0 no firm label is lost, 1 a firm label is lost, 2 wrong usage or trouble";

const GATE_EXAMPLES: &str = "\
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
#[command(after_help = format!("{GATE_EXAMPLES}\n{}", exit_status_help(GATE_STATUSES, &[ErrorClass::Input])))]
pub struct GateArguments {
    #[command(flatten)]
    sides: SidesArguments,
    /// Roles to check, as in syntactic,next-token [default: all roles]
    #[arg(long = "family", value_name = "LABELS", value_delimiter = ',', value_parser = PossibleValuesParser::new(role_categories()), hide_possible_values = true)]
    families: Vec<String>,
    /// Print the outcome as JSON, with the evidence of each label that is lost or cannot be told
    #[arg(long)]
    json: bool,
    /// Print nothing: exit status only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Values of `--family`: the part of each role's name before the first colon, such as `syntactic`.
fn role_categories() -> BTreeSet<&'static str> {
    let roles = registry::detectors().filter(|detector| detector.is_role);
    roles.map(|detector| label_category(detector.explanation.name)).collect()
}

/// Suggests `headscope gate` in clap's refusal of a label category, as in `compare --fail-on syntactic`.
pub fn with_gate_tip(mut refusal: clap::Error) -> clap::Error {
    let category = role_categories().into_iter().find(|category| refused_value(&refusal) == Some(category));
    let is_finding = matches!(refusal.get(ContextKind::InvalidArg), Some(ContextValue::String(option)) if option.starts_with("--fail-on"));
    if let Some(category) = category.filter(|_| is_finding) {
        let tip = format!("to fail where such a label is lost, run `headscope gate A B --family {category}`");
        refusal.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    refusal
}

impl GateArguments {
    /// Validates the arguments into a command. Its exit status is 1 if a firm role was lost.
    pub fn command(self) -> Result<Command, UsageError> {
        let Self { sides, families, json, quiet } = self;
        let printed = match (json, quiet) {
            (true, _) => PrintedForm::Json,
            (_, true) => PrintedForm::Nothing,
            _ => PrintedForm::Line,
        };
        let sides = sides.validate()?;
        Ok(Command::from_check(move || gate(&sides, families, printed)))
    }
}

/// The two analyses of a comparison, and the policy by which both are labelled.
#[derive(Args)]
pub struct SidesArguments {
    /// A report in JSON, or a partial (.headscope); `-` reads a report from standard input
    a: PathBuf,
    /// Report or partial to compare with A (or `-`)
    b: PathBuf,
    /// Label A and B by a paper's thresholds. May be repeated
    #[arg(long = "preset", value_name = "PRESET", value_parser = presets::policy_preset_parser())]
    presets: Vec<String>,
    /// Thresholds for A and B, in a TOML file. Others are as in --preset; without it, as in each report, or by default
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Fewest words with a relation, in each analysis, for a syntactic label or a comparison [default: the policy's, 100]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser_from::<u64>(0))]
    min_count: Option<u64>,
    /// Worker threads, for partials (.headscope) [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::whole_number_parser::<u16>(1..=1024))]
    threads: Option<u16>,
}

/// Outputs of a comparison: terminal, JSON and files.
#[derive(Args)]
pub struct OutcomeArguments {
    /// Print the outcome in full
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print the outcome as JSON, whose schema `headscope explain --schema` has; `-o -` is the same
    #[arg(long)]
    json: bool,
    /// Do not print the outcome
    #[arg(short, long, conflicts_with_all = ["full", "json"])]
    quiet: bool,
    /// Write the outcome to this file as well, all of it, in the format of its extension: .json, .json.gz, .html (a page)
    /// or .csv (a table, of labels alone). May be repeated
    #[arg(short, long = "output", value_name = "FILE")]
    pub outputs: Vec<PathBuf>,
}

impl OutcomeArguments {
    /// Destinations of an outcome that can be written in `formats`; `what` names the outcome in errors.
    /// Fails if a file is named twice, or has another extension.
    pub fn outcome_outputs(self, what: &str, formats: &[&str]) -> Result<OutcomeOutputs, UsageError> {
        let Self { full, json, quiet, mut outputs } = self;
        refuse_overlap(&outputs, &[])?;
        let to_stdout = Path::new("-");
        let is_known = |path: &Path| path == to_stdout || formats.iter().any(|format| has_extension(path, format));
        if let Some(other) = outputs.iter().find(|path| !is_known(path)) {
            let (last, rest) = formats.split_last().expect("there are formats");
            let way_out = format!("name a file .{} or .{last}", rest.join(", ."));
            return Err(unsuitable_output(&format!("write {what} as"), other, &way_out));
        }
        if json && !outputs.iter().any(|path| path == to_stdout) {
            outputs.push(to_stdout.to_owned());
        }
        let is_printed = !quiet && !outputs.iter().any(|path| path == to_stdout);
        let detail = if full { Detail::Full } else { Detail::Brief };
        Ok(OutcomeOutputs { targets: output_targets(&outputs, false)?, printed_detail: is_printed.then_some(detail) })
    }
}

impl SidesArguments {
    /// Validates the options of the two analyses. Fails if both are standard input, or a preset adds studies.
    pub fn validate(self) -> Result<SidesOptions, UsageError> {
        let Self { a, b, presets, policy, min_count, threads } = self;
        if a == Path::new("-") && a == b {
            return Err(anyhow!("standard input can be one of the reports, not both"));
        }
        presets::ensure_policies(&presets, "headscope analyze")?;
        let policy = PolicyOptions { presets: presets::presets_by_name(&presets)?, policy_file: policy, min_count };
        Ok(SidesOptions { paths: [a, b], policy, threads: threads_or_all(threads) })
    }
}
