//! The studies that are asked of a model: those that were chosen, less what cannot be asked of it.

use anyhow::{Result, anyhow};

use super::options::AnalyzeOptions;
use crate::evaluation::askable::Askable;
use crate::evaluation::presets::PRESETS;
use crate::model::Model;
use crate::model::parameters::Objective;
use crate::studies::registry::STUDIES;
use crate::study::AnyStudy;
use crate::system::errors::Facts;

/// Why a study cannot be asked of a model, as a sentence without its subject, the model.
pub fn beyond(model: &Model, study: &dyn AnyStudy) -> Option<String> {
    let askable = Askable {
        of_residues: model.tokenizer.is_of_residues(),
        is_decoder: model.is_decoder(),
        predicts: model.objective.is_some_and(Objective::is_of_tokens),
        lacks_heads: !model.absent().is_empty(),
    };
    askable.beyond(study)
}

/// The studies that were chosen, and of a decoder those that run on one.
pub fn on_decoders(options: &AnalyzeOptions, is_decoder: bool) -> Vec<&'static dyn AnyStudy> {
    let joined: Vec<&'static dyn AnyStudy> = joining(options).filter(|_| is_decoder).collect();
    let is_in = |studies: &[&'static dyn AnyStudy], study: &dyn AnyStudy| {
        studies.iter().any(|one| one.card().name == study.card().name)
    };
    STUDIES.iter().copied().filter(|study| is_in(&options.studies, *study) || is_in(&joined, *study)).collect()
}

/// The studies that can be asked of a model.
/// Fails if another one was requested, or there is none.
pub fn asked(options: &AnalyzeOptions, model: &Model) -> Result<Vec<&'static dyn AnyStudy>> {
    asked_of(options, &model.id, model.is_decoder(), |study| beyond(model, study))
}

/// The studies that can be asked of a model, as far as `beyond` says why one cannot.
/// Fails as [`asked`].
pub fn asked_of(
    options: &AnalyzeOptions,
    id: &str,
    is_decoder: bool,
    beyond: impl Fn(&dyn AnyStudy) -> Option<String>,
) -> Result<Vec<&'static dyn AnyStudy>> {
    let (mut asked, mut none) = (Vec::new(), None);
    for study in on_decoders(options, is_decoder) {
        let Some(why) = beyond(study) else {
            asked.push(study);
            continue;
        };
        let name = study.card().name;
        let is_named = options.with.iter().any(|with| with == name);
        // What does not run by itself, not even on a decoder, and is not named is of a preset.
        let runs_by_itself = study.card().runs_first() || (study.card().on_decoders && study.card().of_decoders);
        if is_named || !runs_by_itself {
            let preset = PRESETS.iter().find(|preset| preset.studies.contains(&name)).map(|preset| preset.name);
            let (option, value) = preset.filter(|_| !is_named).map_or(("with", name), |preset| ("preset", preset));
            let error = anyhow!("--{option} {value}: `{id}` {why}");
            return Err(error.of_option(option).of_value(value).hint("leave it out"));
        }
        none.get_or_insert(why);
    }
    match none {
        Some(why) if asked.is_empty() => Err(anyhow!("no study can be asked of `{id}`: it {why}")),
        _ => Ok(asked),
    }
}

/// The studies that run on a decoder without being asked for, but for those that were switched off.
pub fn joining(options: &AnalyzeOptions) -> impl Iterator<Item = &'static dyn AnyStudy> {
    let is_off = |study: &dyn AnyStudy| options.without.iter().any(|name| name == study.card().name);
    STUDIES.iter().copied().filter(move |study| options.joins_decoders && study.card().on_decoders && !is_off(*study))
}

/// The first study that needs predictions, if any does: a requested one, or else one that those need.
pub fn predicting(options: &AnalyzeOptions) -> Option<&'static str> {
    let requested = options.studies.iter().filter(|study| options.with.iter().any(|name| name == study.card().name));
    let mut all = requested.chain(&options.studies);
    let predicts = |study: &&&dyn AnyStudy| options.passes_of(**study).iter().any(|spec| options.predicts(&spec.pass));
    all.find(predicts).map(|study| study.card().name)
}
