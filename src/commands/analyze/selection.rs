//! Chooses the studies of a run: requested ones, plus studies they build on, minus studies that the corpus or model rules out.
//!
//! [`StudySelection`] alone decides, first from the options and the corpus, and again when the model is loaded.

use std::sync::Arc;

use anyhow::{Error, Result, anyhow};
use itertools::Itertools as _;

use crate::evaluation::askable::{ModelTraits, is_task_only};
use crate::evaluation::presets::Preset;
use crate::sequences::derived::task::file::TaskFile;
use crate::studies::registry::{self, STUDIES};
use crate::study::{AnyStudy, Card, TokenCountUse};
use crate::system::errors::ErrorExt;

/// Text on the reason for leaving out a study that needs the corpus's token counts beforehand.
pub const CANNOT_COUNT_REASON: &str = "it must count the tokens of the corpus beforehand, which can be read only once";
/// Hint that says how to give the token counts of a corpus that can be read only once.
pub const COUNTS_HINT: &str = "name a file, or give --counts FILE, which `headscope counts` writes";

/// The options, and the facts about the corpus, that decide which studies run.
#[derive(Clone, Default)]
pub struct StudyRequest {
    /// Names of the studies that `--with` switches on.
    pub with_studies: Vec<String>,
    /// Names of the studies that `--without` switches off.
    pub without_studies: Vec<String>,
    pub presets: Vec<&'static Preset>,
    pub task: Option<Arc<TaskFile>>,
    /// Whether studies with `Card::is_default_with_builds_on` run by default when all studies that they build on run.
    pub may_join: bool,
    /// Subject of the run (a corpus, the built-in corpus, or a task alone), which decides the default studies.
    pub subject: RunSubject,
    /// Whether the count of each token can be known before the first pass.
    pub has_counts: bool,
}

/// Subject of a run, which decides the default studies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunSubject {
    #[default]
    Corpus,
    /// No input was named: the built-in corpus is read.
    BuiltInCorpus,
    /// The run reads a task, and no corpus.
    TaskOnly,
}

/// Reason why a study does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbsenceReason {
    /// Neither an option nor a default asks for the study.
    Unrequested,
    /// The option `--without` switches the study off.
    SwitchedOff,
    /// The study needs token counts beforehand, and the corpus can be read only once.
    WithoutCounts,
    /// The study does not apply to the model. The text says why, as a predicate of the model.
    Inapplicable(String),
}

/// Reason why a study is switched on.
#[derive(Clone, Copy)]
enum StudyOrigin {
    /// The study is on by default, for the corpus or the model, or a study that is on by default requires it. Or all studies
    /// that it builds on are on, and it joins them (`Card::is_default_with_builds_on`).
    Default,
    /// An option switches the study on: the option's name and its value.
    ByOption(&'static str, &'static str),
}

impl StudyOrigin {
    /// Error that names the option which asks for the study `name`; `why` says why the study cannot run.
    fn error_with_option(self, name: &'static str, why: &str) -> Error {
        let (option, value) = if let Self::ByOption(option, value) = self { (option, value) } else { ("with", name) };
        anyhow!("--{option} {value}: {why}").with_option(option).with_value(value)
    }
}

/// Studies that a run uses, and the reasons why the other studies do not run.
#[derive(Clone)]
pub struct StudySelection {
    request: StudyRequest,
    studies: Vec<&'static dyn AnyStudy>,
    absent_studies: Vec<(&'static dyn AnyStudy, AbsenceReason)>,
}

impl StudySelection {
    /// Selects studies by the options and the corpus, before the model is known.
    /// Fails if the options contradict one another, or ask for a study that cannot run.
    pub fn new(request: StudyRequest) -> Result<Self> {
        let selection = Self::select_studies(request, None)?;
        match selection.studies[..] {
            [] => Err(anyhow!("every study is switched off: there is nothing to analyse")),
            _ => Ok(selection),
        }
    }

    /// Selects again for a known model: drops studies that do not apply to it, and adds the default studies of decoders.
    /// Fails if an option asks for a study that does not apply to the model, or no study is left.
    pub fn for_model(&self, id: &str, model: ModelTraits) -> Result<Self> {
        let selection = Self::select_studies(self.request.clone(), Some((id, model)))?;
        let beyond = |(_, why): &(_, AbsenceReason)| {
            if let AbsenceReason::Inapplicable(why) = why { Some(why.clone()) } else { None }
        };
        match selection.absent_studies.iter().find_map(beyond) {
            Some(why) if selection.studies.is_empty() => Err(anyhow!("no study can be asked of `{id}`: it {why}")),
            _ => Ok(selection),
        }
    }

    /// Selects studies. `model` is the id and the traits of the model; `None` if the model is not known yet.
    fn select_studies(request: StudyRequest, model: Option<(&str, ModelTraits)>) -> Result<Self> {
        let origins = request.study_origins(model.is_some_and(|(_, model)| model.is_decoder))?;
        let (mut studies, mut absent) = (Vec::new(), Vec::new());
        for (study, origin) in STUDIES.iter().copied().zip(origins) {
            match request.absence_reason(study, origin, model)? {
                None => studies.push(study),
                Some(why) => absent.push((study, why)),
            }
        }
        Ok(Self { request, studies, absent_studies: absent })
    }

    /// Studies that run, in the registry's order.
    pub fn studies(&self) -> &[&'static dyn AnyStudy] {
        &self.studies
    }

    /// Whether the run measures a corpus. With a task alone, true only if a selected study needs a corpus.
    pub fn measures_corpus(&self) -> bool {
        let has_task = self.request.task.is_some();
        let is_of_it = |study: &&'static dyn AnyStudy| registry::reads_corpus(*study, has_task);
        self.request.subject != RunSubject::TaskOnly || self.studies.iter().any(is_of_it)
    }

    /// Whether the study with this name runs.
    pub fn has_study(&self, name: &str) -> bool {
        self.studies.iter().any(|study| study.card().name == name)
    }

    /// Selected studies: those that `--with` or `--task` names, then all in the registry's order, so that some come twice.
    pub fn named_then_all_studies(&self) -> impl Iterator<Item = &'static dyn AnyStudy> {
        let is_named = |study: &&&'static dyn AnyStudy| self.request.names_study(study.card().name);
        self.studies.iter().filter(is_named).chain(&self.studies).copied()
    }

    /// Studies that a decoder adds to the run by default, unless they are switched off.
    pub fn decoder_defaults(&self) -> impl Iterator<Item = &'static dyn AnyStudy> {
        let is_off = |study: &&'static dyn AnyStudy| has_name(&self.request.without_studies, study.card().name);
        let may_join = self.request.subject != RunSubject::TaskOnly;
        STUDIES.iter().copied().filter(move |study| may_join && study.card().is_default_on_decoders && !is_off(study))
    }

    /// Studies of the registry that do not run, each with the reason.
    pub fn absent_studies(&self) -> &[(&'static dyn AnyStudy, AbsenceReason)] {
        &self.absent_studies
    }

    /// Names of the studies that are left out because the tokens of the corpus cannot be counted beforehand.
    pub fn studies_without_counts(&self) -> impl Iterator<Item = &'static str> {
        self.absent_studies
            .iter()
            .filter(|(_, why)| *why == AbsenceReason::WithoutCounts)
            .map(|(study, _)| study.card().name)
    }

    /// Names of the studies that are left out: first for lack of token counts, then because they do not apply to the model.
    pub fn left_out_studies(&self) -> impl Iterator<Item = &'static str> {
        let beyond = self.absent_studies.iter().filter(|(_, why)| matches!(why, AbsenceReason::Inapplicable(_)));
        self.studies_without_counts().chain(beyond.map(|(study, _)| study.card().name))
    }
}

fn has_name(names: &[String], name: &str) -> bool {
    names.iter().any(|other| other == name)
}

impl StudyRequest {
    /// Whether `--with` names a study. `--task` also counts as naming the study that scores tasks.
    fn names_study(&self, name: &str) -> bool {
        has_name(&self.with_studies, name) || self.task.is_some() && name == registry::study_name_of_option("task")
    }

    /// Names of the studies whose results a study uses, so that they run too.
    fn required_studies(&self, study: &dyn AnyStudy) -> &'static [&'static str] {
        study.card().required_studies(self.task.is_some())
    }

    /// Reason why a study itself is switched on, whichever studies build on it; `None` if it is off.
    fn direct_origin(&self, study: &dyn AnyStudy, is_decoder: bool) -> Option<StudyOrigin> {
        let card = study.card();
        let is_default = match self.subject {
            RunSubject::Corpus => card.is_default || (is_decoder && card.is_default_on_decoders),
            RunSubject::BuiltInCorpus => card.is_default_in_first_run() || (is_decoder && card.is_default_on_decoders),
            RunSubject::TaskOnly => false,
        };
        let preset = self.presets.iter().find(|preset| preset.studies.contains(&card.name));
        match () {
            () if has_name(&self.without_studies, card.name) => None,
            () if self.names_study(card.name) => Some(StudyOrigin::ByOption("with", card.name)),
            () if is_default => Some(StudyOrigin::Default),
            () => preset.map(|preset| StudyOrigin::ByOption("preset", preset.name)),
        }
    }

    /// Reason why each study of the registry is switched on, in the registry's order; `None` for a study that is off.
    /// Fails if the options contradict one another.
    fn study_origins(&self, is_decoder: bool) -> Result<Vec<Option<StudyOrigin>>> {
        if let Some(contradicted) = self.with_studies.iter().find(|name| has_name(&self.without_studies, name)) {
            let error = anyhow!("--with {contradicted} and --without {contradicted}: which of them?");
            return Err(error.with_option("with").with_value(contradicted));
        }
        let with_origin = |study: &'static dyn AnyStudy| Some((study, self.direct_origin(study, is_decoder)?));
        let switched_on: Vec<(&'static dyn AnyStudy, StudyOrigin)> =
            STUDIES.iter().copied().filter_map(with_origin).collect();
        for (study, _) in &switched_on {
            if let Some(needed) =
                self.required_studies(*study).iter().find(|needed| has_name(&self.without_studies, needed))
            {
                let asks = study.card().name;
                let error = anyhow!("--without {needed}: the study {asks} asks about what it finds");
                return Err(error.with_option("without").with_value(needed));
            }
        }
        let origin = |name: &str| {
            let itself = switched_on.iter().find(|(study, _)| study.card().name == name);
            let builder = || switched_on.iter().find(|(study, _)| self.required_studies(*study).contains(&name));
            itself.or_else(builder).map(|(_, origin)| *origin)
        };
        let joins = |study: &dyn AnyStudy| {
            let Card { name, is_default_with_builds_on: joins, .. } = study.card();
            let have_origins = || self.required_studies(study).iter().all(|needed| origin(needed).is_some());
            *joins && self.may_join && !has_name(&self.without_studies, name) && have_origins()
        };
        let study_origin = |study: &&'static dyn AnyStudy| {
            origin(study.card().name).or_else(|| joins(*study).then_some(StudyOrigin::Default))
        };
        Ok(STUDIES.iter().map(study_origin).collect())
    }

    /// Reason why a study does not run; `None` if it runs. `origin` is why the study is switched on.
    /// Fails if an option asks for a study that cannot run.
    fn absence_reason(
        &self,
        study: &'static dyn AnyStudy,
        origin: Option<StudyOrigin>,
        model: Option<(&str, ModelTraits)>,
    ) -> Result<Option<AbsenceReason>> {
        let Card { name, task_kinds: takes, token_counts: counts, .. } = study.card();
        let Some(origin) = origin else {
            let is_off = has_name(&self.without_studies, name);
            return Ok(Some(if is_off { AbsenceReason::SwitchedOff } else { AbsenceReason::Unrequested }));
        };
        match &self.task {
            None if is_task_only(study) => {
                Err(origin.error_with_option(name, "there is no task").hint("give --task FILE"))?;
            }
            Some(task) if !takes.is_empty() && !takes.contains(&task.kind) => {
                let takes = takes.iter().map(ToString::to_string).join(" or ");
                let (path, kind) = (&task.path, task.kind);
                let why = format!("it takes items of kind {takes}, and `{path}` has items of kind {kind}");
                Err(origin.error_with_option(name, &why).hint("leave it out"))?;
            }
            _ => {}
        }
        if *counts == TokenCountUse::Needed && !self.has_counts {
            return match origin {
                StudyOrigin::ByOption(..) => Err(origin.error_with_option(name, CANNOT_COUNT_REASON).hint(COUNTS_HINT)),
                StudyOrigin::Default => Ok(Some(AbsenceReason::WithoutCounts)),
            };
        }
        match model.and_then(|(id, model)| Some((id, model.refusal_reason(study)?))) {
            Some((id, why)) if matches!(origin, StudyOrigin::ByOption(..)) => {
                Err(origin.error_with_option(name, &format!("`{id}` {why}")).hint("leave it out"))
            }
            beyond => Ok(beyond.map(|(_, why)| AbsenceReason::Inapplicable(why))),
        }
    }
}
