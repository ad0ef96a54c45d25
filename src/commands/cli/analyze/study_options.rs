//! Validates arguments that choose parts of a run: studies, controls, ablation, links, and columns to probe for.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Error, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use itertools::Itertools as _;

use crate::commands::analyze::selection::StudySelection;
use crate::commands::cli::shared::UsageError;
use crate::corpus::{ConlluLinkColumn, Input, LinkFile, LinkOptions, LinkRules, LinkTypeOptions};
use crate::passes::ablation::{Ablation, Choice, Replacement};
use crate::passes::control::{Control, ControlKind};
use crate::passes::pass::{CorpusPortion, Pass};
use crate::sequences::derived::task::TaskKind;
use crate::studies::registry::{self, STUDIES};
use crate::study::AnyStudy;
use crate::system::errors::ErrorExt;
use crate::system::printable::escape_controls;
use crate::system::terminal::print_to_stderr;

/// Parser for study names, which replaces a former name of a study by its current name.
pub(super) fn study_parser() -> impl TypedValueParser<Value = String> {
    let value = |study: &&dyn AnyStudy| {
        let card = study.card();
        PossibleValue::new(card.name).help(card.question).aliases(card.former_name)
    };
    PossibleValuesParser::new(STUDIES.iter().map(value))
        .map(|given| registry::find_study(&given).expect("the parser knows these names only").card().name.to_owned())
}

pub(super) fn study_list() -> String {
    let width = STUDIES.iter().map(|study| study.card().name.len()).max().unwrap_or(0);
    let line = |study: &&dyn AnyStudy| format!("\n{:width$}  {}", study.card().name, study.card().question);
    let studies: String = STUDIES.iter().map(line).collect();
    format!("Switch studies on that do not run by default. Several are separated by commas:{studies}")
}

/// Settings of the studies that remove heads or cut their attention; `None` if no such study runs.
/// Fails if an option is given whose study does not run.
pub(super) fn ablation_settings(
    (selection, task): (&StudySelection, Option<TaskKind>),
    removal: Option<Replacement>,
    phases: Option<u8>,
    sample: Option<u64>,
    effect_of: Option<Choice>,
    gradient_steps: Option<u16>,
) -> Result<Option<Ablation>, UsageError> {
    let (studies, task_study) = (selection.studies(), registry::study_name_of_option("task"));
    // `--effect-of` also holds for the study of tasks, which removes heads one by one.
    let chooses_for_task = effect_of.is_some() && selection.has_study(task_study);
    let effect_study = registry::study_name_of_option("effect-of");
    if effect_of.is_some() && !selection.has_study(effect_study) && !chooses_for_task {
        return Err(anyhow!("--effect-of is about the studies {effect_study} and {task_study}")
            .with_option("effect-of")
            .hint(format!("give --with {effect_study}, or --task FILE, as well")));
    }
    ensure_study_runs(selection, "gradient-steps", gradient_steps.is_some())?;
    if chooses_for_task && task == Some(TaskKind::Triple) {
        let error = anyhow!(
            "--effect-of chooses heads by the derivative of the loss, and that of items of kind triple has none"
        );
        return Err(error.with_option("effect-of").hint("leave it out: without it every head is removed"));
    }
    if effect_of.is_some() {
        let effect_studies = [effect_study, task_study];
        let asks = |study: &&&'static dyn AnyStudy| {
            study.card().required_studies(task.is_some()).iter().any(|needed| effect_studies.contains(needed))
        };
        if let Some(study) = studies.iter().find(asks) {
            let asks = study.card().name;
            return Err(
                anyhow!("--effect-of: the study {asks} asks about the effect of every head").with_option("effect-of")
            );
        }
    }
    let removes = |study: &dyn AnyStudy| study.passes().iter().any(|spec| spec.pass.portion != CorpusPortion::All);
    if !studies.iter().any(|study| removes(*study)) {
        let options = [("removal", removal.is_some()), ("phases", phases.is_some()), ("sample", sample.is_some())];
        let names = STUDIES.iter().filter(|study| removes(**study)).map(|study| study.card().name).join(", ");
        let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) else { return Ok(None) };
        return Err(anyhow!("--{option} is about heads that are removed or cut")
            .with_option(option)
            .hint(format!("give --with {names}, or several of these")));
    }
    let asks = |study: &&dyn AnyStudy| study.card().removes_heads;
    if removal.is_some() && !studies.iter().any(asks) {
        let names = STUDIES.iter().filter(|study| asks(study)).map(|study| study.card().name).join(", ");
        return Err(anyhow!("--removal is about studies that remove heads, and none of them runs")
            .with_option("removal")
            .hint(format!("give --with {names}, or several of these")));
    }
    let default = Ablation::default();
    Ok(Some(Ablation {
        removal: removal.unwrap_or(default.removal),
        phases: phases.unwrap_or(default.phases),
        sample: sample.unwrap_or(default.sample),
        effect_of,
        gradient_steps: gradient_steps.and_then(NonZeroU16::new),
    }))
}

/// Maximum number of columns to probe for. Sums are kept for each combination of columns that a word has.
const MAX_PROBED_COLUMNS: usize = 4;

/// Columns to probe for, without duplicates.
/// Fails if there are too many, or if a column is given and the probing study does not run.
pub(super) fn probed_columns(selection: &StudySelection, named: Vec<String>) -> Result<Vec<String>, UsageError> {
    let probes: Vec<String> = named.into_iter().unique().collect();
    if let Some(always) = probes.iter().find(|name| ["upos", "relation"].contains(&name.as_str())) {
        return Err(anyhow!("--probe {always}: that is probed for in any case")
            .with_option("probe")
            .with_value(always));
    }
    if probes.len() > MAX_PROBED_COLUMNS {
        let count = probes.len();
        let error = anyhow!("--probe is given for {count} columns: {MAX_PROBED_COLUMNS} can be probed for at once");
        return Err(error.with_option("probe"));
    }
    value_of_study_option(selection, "probe", probes.first())?;
    Ok(probes)
}

/// Fails if an option that belongs to one study is given and the study does not run.
pub(super) fn ensure_study_runs(
    selection: &StudySelection,
    option: &'static str,
    is_given: bool,
) -> Result<(), UsageError> {
    let study = registry::study_name_of_option(option);
    if !is_given || selection.has_study(study) {
        return Ok(());
    }
    Err(anyhow!("--{option} is about the study {study}")
        .with_option(option)
        .hint(format!("give --with {study} as well")))
}

/// Returns the value of an option that belongs to one study. Fails if a value is given and the study does not run.
pub(super) fn value_of_study_option<T: Display>(
    selection: &StudySelection,
    option: &'static str,
    value: Option<T>,
) -> Result<Option<T>, UsageError> {
    let study = registry::study_name_of_option(option);
    if let Some(value) = value.as_ref().filter(|_| !selection.has_study(study)) {
        return Err(anyhow!("--{option} {value} is about the study {study}")
            .with_option(option)
            .with_value(value)
            .hint(format!("give --with {study} as well")));
    }
    Ok(value)
}

/// Parses `TYPE=WORDS`: the name of a link type, and its minimum distance in words.
pub(super) fn parse_min_distance(text: &str) -> Result<(String, usize), String> {
    let wrong = || "expected TYPE=N, a type and a number of words, as in contact=6".to_owned();
    let (name, words) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    Ok((name.to_owned(), words.parse().ok().filter(|&words| words > 0).ok_or_else(wrong)?))
}

/// Reads the options for links between words. Fails if one is given and the study of links does not run.
pub(super) fn link_options(
    selection: &StudySelection,
    from: Option<ConlluLinkColumn>,
    [file, rules]: [Option<&Path>; 2],
    (undirected, min_distance): (Vec<String>, Vec<(String, usize)>),
) -> Result<LinkOptions, UsageError> {
    let from = value_of_study_option(selection, "links-from", from)?;
    let file = value_of_study_option(selection, "links", file.map(Path::display))?.and(file);
    let rules = value_of_study_option(selection, "link-rules", rules.map(Path::display))?.and(rules);
    value_of_study_option(selection, "undirected", undirected.first())?;
    value_of_study_option(
        selection,
        "min-distance",
        min_distance.first().map(|(name, words)| format!("{name}={words}")),
    )?;
    let min_distance = min_distance.into_iter().collect();
    let types = LinkTypeOptions { undirected: undirected.into_iter().collect(), min_distance };
    let file = file.map(LinkFile::read).transpose()?.map(Arc::new);
    let rules = rules.map(LinkRules::read).transpose()?.map(Arc::new);
    for name in file.iter().flat_map(|file| file.types_with_one_link()) {
        print_to_stderr(&format!("note: --links: a single line is of the type `{}`", escape_controls(name)));
    }
    Ok(LinkOptions { conllu_column: from, file, rules, types })
}

/// Fails if the run would read a corpus again that can be read only once, such as standard input.
pub(super) fn ensure_corpus_rereadable(
    corpus: &[Input],
    studies: &[&'static dyn AnyStudy],
    others: [(&str, bool); 2],
) -> Result<(), UsageError> {
    let Some(single_read) = corpus.iter().find(|input| !input.can_be_read_again()) else { return Ok(()) };
    let rereading_studies =
        studies.iter().filter(|study| !matches!(&study.passes()[..], [spec] if spec.pass == Pass::PLAIN));
    let readers = rereading_studies.map(|study| format!("the study {}", study.card().name));
    let others: Vec<&str> = others.into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect();
    let readers = readers.chain(others.iter().map(|option| format!("--{option}"))).join(" and ");
    if readers.is_empty() {
        return Ok(());
    }
    let shown = single_read.path().map_or("standard input".to_owned(), |path| format!("`{}`", path.display()));
    let error =
        anyhow!("the corpus is read again for {readers}, and {shown} can be read only once").hint("name a file");
    let error = if let Some(path) = single_read.path() { error.with_file(path.display()) } else { error };
    Err(others.into_iter().rev().fold(error, Error::with_option))
}

/// Control runs of these kinds, each with the seeds from 0 to `seeds` - 1.
pub(super) fn control_runs(named: &[ControlKind], seeds: u64) -> Vec<Control> {
    let kinds: BTreeSet<ControlKind> = named.iter().copied().collect();
    kinds.into_iter().flat_map(|kind| (0..seeds).map(move |seed| Control { kind, seed })).collect()
}
