//! The choices of a run from its arguments: studies, controls, ablation, and the columns to probe for.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Error, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::commands::analyze::options::{GIVE_COUNTS, ONLY_ONCE};
use crate::commands::cli::shared::command::Usage;
use crate::commands::cli::shared::presets;
use crate::corpus::{Input, LinkFile, LinkOptions, LinkRules, LinkTypeOptions, LinksFrom};
use crate::evaluation::askable::is_of_items;
use crate::evaluation::presets::Preset;
use crate::passes::ablation::{Ablation, Choice, Replacement};
use crate::passes::control::{Control, ControlKind};
use crate::passes::pass::{Pass, Portion};
use crate::sequences::derived::task::file::TaskFile;
use crate::sequences::derived::task::{ExchangedPositions, TaskKind};
use crate::studies::registry;
use crate::studies::registry::STUDIES;
use crate::study::{AnyStudy, Card, Counts};
use crate::system::errors::Facts;
use crate::system::printable::printable;
use crate::system::terminal::say;

/// Reads the name of a study; one of the version before becomes that of now.
pub(super) fn names() -> impl TypedValueParser<Value = String> {
    let value = |study: &&dyn AnyStudy| {
        let card = study.card();
        PossibleValue::new(card.name).help(card.question).aliases(card.formerly)
    };
    PossibleValuesParser::new(STUDIES.iter().map(value))
        .map(|given| registry::named(&given).expect("the parser knows these names only").card().name.to_owned())
}

/// The help of `--with`: every study with its question.
pub(super) fn list() -> String {
    let width = STUDIES.iter().map(|study| study.card().name.len()).max().unwrap_or(0);
    let line = |study: &&dyn AnyStudy| format!("\n{:width$}  {}", study.card().name, study.card().question);
    let studies: String = STUDIES.iter().map(line).collect();
    format!("Switch studies on that do not run by default. Several are separated by commas:{studies}")
}

/// The studies that run by themselves in such a run, those that presets and `--with` switch on, less those that `--without`
/// switches off; and, if they may, those that join them, in a run with a task or without.
pub(super) fn studies(
    asked_of: AskedOf,
    presets_named: &[String],
    with: &[String],
    without: &[String],
    (may_join, has_task): (bool, bool),
) -> Result<Vec<&'static dyn AnyStudy>, Usage> {
    if let Some(both) = with.iter().find(|name| without.contains(name)) {
        return Err(anyhow!("--with {both} and --without {both}: which of them?").of_option("with").of_value(both));
    }
    let presets = presets::named(presets_named)?;
    let by_preset = |name: &str| presets.iter().any(|preset| preset.studies.contains(&name));
    let named = |study: &dyn AnyStudy, names: &[String]| names.iter().any(|name| name == study.card().name);
    let wanted = |study: &dyn AnyStudy| {
        let card = study.card();
        let by_default = match asked_of {
            AskedOf::Corpus => card.by_default,
            AskedOf::Box => card.runs_first(),
            AskedOf::TaskAlone => false,
        };
        by_default || by_preset(card.name) || named(study, with)
    };
    let runs = |study: &dyn AnyStudy| wanted(study) && !named(study, without);
    for study in STUDIES.iter().filter(|study| runs(**study)) {
        if let Some(needed) =
            study.card().needed(has_task).iter().find(|needed| without.iter().any(|name| name == *needed))
        {
            let asks = study.card().name;
            return Err(anyhow!("--without {needed}: the study {asks} asks about what it finds")
                .of_option("without")
                .of_value(needed));
        }
    }
    let is_needed = |study: &dyn AnyStudy| {
        STUDIES.iter().any(|other| runs(*other) && other.card().needed(has_task).contains(&study.card().name))
    };
    let is_there = |study: &dyn AnyStudy| runs(study) || is_needed(study);
    let joins = |study: &dyn AnyStudy| {
        let there = |name: &&str| registry::named(name).is_some_and(is_there);
        may_join && study.card().joins && !named(study, without) && study.card().needed(has_task).iter().all(there)
    };
    Ok(STUDIES.iter().filter(|study| is_there(**study) || joins(**study)).copied().collect())
}

/// What a run is asked about, by which some studies run by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedOf {
    /// A corpus that is named.
    Corpus,
    /// Nothing that is named: the corpus in the box.
    Box,
    /// A task, and no corpus.
    TaskAlone,
}

/// Studies that are run, and those that are left out.
pub(super) type StudySelection = (Vec<&'static dyn AnyStudy>, Vec<&'static dyn AnyStudy>);

/// Splits off the studies that need counts, if the corpus can be read only once and there is no file of counts; refuses
/// one that was requested by name.
pub(super) fn can_count(
    corpus: &[Input],
    studies: Vec<&'static dyn AnyStudy>,
    with: &[String],
    given: bool,
) -> Result<StudySelection, Usage> {
    if given || corpus.iter().all(Input::can_be_read_again) {
        return Ok((studies, Vec::new()));
    }
    let (left_out, kept): (Vec<_>, Vec<_>) =
        studies.into_iter().partition(|study| study.card().counts == Counts::Needed);
    match left_out.iter().map(|study| study.card().name).find(|name| with.iter().any(|wanted| wanted == name)) {
        Some(name) => Err(anyhow!("--with {name}: {ONLY_ONCE}").of_option("with").of_value(name).hint(GIVE_COUNTS)),
        None => Ok((kept, left_out)),
    }
}

/// The ablation of the studies that remove heads one by one; refuses its options if no study does.
pub(super) fn ablation(
    (studies, task): (&[&'static dyn AnyStudy], Option<TaskKind>),
    removal: Option<Replacement>,
    phases: Option<u8>,
    sample: Option<u64>,
    effect_of: Option<Choice>,
    gradient_steps: Option<u16>,
) -> Result<Option<Ablation>, Usage> {
    let runs = |study: &str| studies.iter().any(|running| running.card().name == study);
    let of_task = registry::with_option("task");
    // Both remove heads one by one.
    let chooses_for_task = effect_of.is_some() && runs(of_task);
    for (option, given) in [("effect-of", effect_of.is_some()), ("gradient-steps", gradient_steps.is_some())] {
        let study = registry::with_option(option);
        if given && !runs(study) && !(option == "effect-of" && chooses_for_task) {
            let (name, way_out) = match option {
                "effect-of" => {
                    (format!("the studies {study} and {of_task}"), format!("--with {study}, or --task FILE,"))
                }
                _ => (format!("the study {study}"), format!("--with {study}")),
            };
            return Err(anyhow!("--{option} is about {name}")
                .of_option(option)
                .hint(format!("give {way_out} as well")));
        }
    }
    if chooses_for_task && task == Some(TaskKind::Triple) {
        let error = anyhow!(
            "--effect-of chooses heads by the derivative of the loss, and that of items of kind triple has none"
        );
        return Err(error.of_option("effect-of").hint("leave it out: without it every head is removed"));
    }
    if effect_of.is_some() {
        let every = [registry::with_option("effect-of"), of_task];
        let asks = |study: &&&'static dyn AnyStudy| {
            study.card().needed(task.is_some()).iter().any(|needed| every.contains(needed))
        };
        if let Some(study) = studies.iter().find(asks) {
            let asks = study.card().name;
            return Err(
                anyhow!("--effect-of: the study {asks} asks about the effect of every head").of_option("effect-of")
            );
        }
    }
    let removes = |study: &dyn AnyStudy| study.passes().iter().any(|spec| spec.pass.portion != Portion::All);
    if !studies.iter().any(|study| removes(*study)) {
        let given = [("removal", removal.is_some()), ("phases", phases.is_some()), ("sample", sample.is_some())];
        let names = STUDIES.iter().filter(|study| removes(**study)).map(|study| study.card().name);
        let names = names.collect::<Vec<_>>().join(", ");
        return match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(anyhow!("--{option} is about heads that are removed or cut")
                .of_option(option)
                .hint(format!("give --with {names}, or several of these"))),
            None => Ok(None),
        };
    }
    let asks = |study: &&dyn AnyStudy| study.card().removes_heads;
    if removal.is_some() && !studies.iter().any(asks) {
        let names = STUDIES.iter().filter(|study| asks(study)).map(|study| study.card().name);
        let names = names.collect::<Vec<_>>().join(", ");
        return Err(anyhow!("--removal is about studies that remove heads, and none of them runs")
            .of_option("removal")
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

/// The most columns that can be probed for: the sums of words are kept by which of them a word has.
const MOST_PROBES: usize = 4;

/// The columns that are probed for, each once; refuses more than there is room for, and any where nothing is probed.
pub(super) fn probes(studies: &[&'static dyn AnyStudy], named: Vec<String>) -> Result<Vec<String>, Usage> {
    let mut probes: Vec<String> = Vec::new();
    for name in named {
        if !probes.contains(&name) {
            probes.push(name);
        }
    }
    if let Some(always) = probes.iter().find(|name| ["upos", "relation"].contains(&name.as_str())) {
        return Err(anyhow!("--probe {always}: that is probed for in any case").of_option("probe").of_value(always));
    }
    if probes.len() > MOST_PROBES {
        let count = probes.len();
        let error = anyhow!("--probe is given for {count} columns: {MOST_PROBES} can be probed for at once");
        return Err(error.of_option("probe"));
    }
    let about = registry::with_option("probe");
    if let Some(name) = probes.first().filter(|_| studies.iter().all(|study| study.card().name != about)) {
        return Err(anyhow!("--probe {name} is about the study {about}")
            .of_option("probe")
            .of_value(name)
            .hint(format!("give --with {about} as well")));
    }
    Ok(probes)
}

/// The value of an option that one study has; refuses it where that study does not run.
pub(super) fn of_study<T: Display>(
    studies: &[&'static dyn AnyStudy],
    option: &'static str,
    value: Option<T>,
) -> Result<Option<T>, Usage> {
    let about = registry::with_option(option);
    if let Some(value) = value.as_ref().filter(|_| studies.iter().all(|study| study.card().name != about)) {
        return Err(anyhow!("--{option} {value} is about the study {about}")
            .of_option(option)
            .of_value(value)
            .hint(format!("give --with {about} as well")));
    }
    Ok(value)
}

/// Reads the least distance of a type.
pub(super) fn min_distance(text: &str) -> Result<(String, usize), String> {
    let wrong = || "expected TYPE=N, a type and a number of words, as in contact=6".to_owned();
    let (name, words) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    Ok((name.to_owned(), words.parse().ok().filter(|&words| words > 0).ok_or_else(wrong)?))
}

/// The links beside the corpus; refuses their options where the study of links does not run.
pub(super) fn links(
    studies: &[&'static dyn AnyStudy],
    from: Option<LinksFrom>,
    [file, rules]: [Option<&Path>; 2],
    (undirected, min_distance): (Vec<String>, Vec<(String, usize)>),
) -> Result<LinkOptions, Usage> {
    let from = of_study(studies, "links-from", from)?;
    let file = of_study(studies, "links", file.map(Path::display))?.and(file);
    let rules = of_study(studies, "link-rules", rules.map(Path::display))?.and(rules);
    of_study(studies, "undirected", undirected.first())?;
    of_study(studies, "min-distance", min_distance.first().map(|(name, words)| format!("{name}={words}")))?;
    let min_distance = min_distance.into_iter().collect();
    let types = LinkTypeOptions { undirected: undirected.into_iter().collect(), min_distance };
    let file = file.map(LinkFile::read).transpose()?.map(Arc::new);
    let rules = rules.map(LinkRules::read).transpose()?.map(Arc::new);
    for name in file.iter().flat_map(|file| file.single_types()) {
        say(&format!("note: --links: a single line is of the type `{}`", printable(name)));
    }
    Ok(LinkOptions { from, file, rules, types })
}

/// Refuses a corpus that can be read only once where it would be read again.
pub(super) fn refuse_reading_again(
    corpus: &[Input],
    studies: &[&'static dyn AnyStudy],
    others: [(&str, bool); 2],
) -> Result<(), Usage> {
    let Some(once) = corpus.iter().find(|input| !input.can_be_read_again()) else { return Ok(()) };
    let more = studies.iter().filter(|study| !matches!(&study.passes()[..], [spec] if spec.pass == Pass::PLAIN));
    let mut readers: Vec<String> = more.map(|study| format!("the study {}", study.card().name)).collect();
    let others: Vec<&str> = others.into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect();
    readers.extend(others.iter().map(|option| format!("--{option}")));
    if readers.is_empty() {
        return Ok(());
    }
    let shown = once.path().map_or("standard input".to_owned(), |path| format!("`{}`", path.display()));
    let readers = readers.join(" and ");
    let error =
        anyhow!("the corpus is read again for {readers}, and {shown} can be read only once").hint("name a file");
    let error = if let Some(path) = once.path() { error.about(path.display()) } else { error };
    Err(others.into_iter().rev().fold(error, Error::of_option))
}

/// The task of a run, and the names of the studies that are switched on: with a task its study is, unless it is switched off.
pub(super) fn task(
    path: Option<&Path>,
    mut with: Vec<String>,
    without: &[String],
    presets_named: &[String],
) -> Result<(Option<Arc<TaskFile>>, Vec<String>), Usage> {
    let Some(path) = path else {
        let is_of_task = |name: &str| registry::named(name).is_some_and(is_of_items);
        let of_preset = |preset: &&&Preset| preset.studies.iter().any(|study| is_of_task(study));
        let by_preset = presets::named(presets_named)?.iter().find(of_preset).map(|preset| ("preset", preset.name));
        let named = with.iter().find(|study| is_of_task(study)).map(|study| ("with", study.as_str()));
        let Some((option, value)) = named.or(by_preset) else { return Ok((None, with)) };
        let lacking = anyhow!("--{option} {value}: there is no task").of_option(option).of_value(value);
        return Err(lacking.hint("give --task FILE"));
    };
    let study = registry::with_option("task");
    if !with.iter().chain(without).any(|name| name == study) {
        with.push(study.to_owned());
    }
    Ok((Some(Arc::new(TaskFile::read(path)?)), with))
}

/// Where heads exchange their contexts, if a study asks for that; refuses a task of a kind that a study does not take.
pub(super) fn exchanged(
    studies: &[&'static dyn AnyStudy],
    task: Option<&TaskFile>,
    positions: Option<ExchangedPositions>,
) -> Result<Option<ExchangedPositions>, Usage> {
    let Some(TaskFile { kind, path, .. }) = task else { return Ok(None) };
    let takes_others = |study: &&&dyn AnyStudy| {
        let takes = study.card().takes;
        !takes.is_empty() && !takes.contains(kind)
    };
    if let Some(Card { name, takes, .. }) = studies.iter().find(takes_others).map(|study| study.card()) {
        let takes = takes.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
        let error = anyhow!("--with {name}: it takes items of kind {takes}, and `{path}` has items of kind {kind}");
        return Err(error.of_option("with").of_value(name).hint(format!("leave out --with {name}")));
    }
    let about = registry::with_option("positions");
    let exchange = studies.iter().any(|study| study.card().name == about);
    Ok(exchange.then(|| positions.unwrap_or_default()))
}

/// Each control that was named, once, with each seed.
pub(super) fn controls(named: &[ControlKind], seeds: u64) -> Vec<Control> {
    let kinds: BTreeSet<ControlKind> = named.iter().copied().collect();
    kinds.into_iter().flat_map(|kind| (0..seeds).map(move |seed| Control { kind, seed })).collect()
}
