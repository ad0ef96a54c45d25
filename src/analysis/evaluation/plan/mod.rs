//! The plan of a run: the distinct forward passes over the corpus that its studies and its controls request.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail, ensure};
use itertools::Itertools;

use crate::model::config::MAX_ATTENTION_HEADS;
use crate::passes::control::Control;
use crate::passes::kept::KeepRequest;
use crate::passes::observation::identity::{Identity, Protocol};
use crate::passes::observation::partial::PassBytes;
use crate::passes::observation::{PassSums, Stage};
use crate::passes::observer::Observer;
use crate::passes::pass::{Pass, group_equal_passes};
use crate::studies::registry::{self, STUDIES};
use crate::study::{AnyStudy, ObservedPass, ObservedPasses, PassSpec, Subject};
use crate::system::errors::ErrorExt;

/// One study's request for a forward pass over the corpus.
struct PassRequest {
    study: &'static dyn AnyStudy,
    /// The requested pass, with the observer that the study attaches to it.
    spec: PassSpec,
    /// Index of the requested pass among the passes of the study.
    pass_index: usize,
    /// The control run that requests the pass; `None` for the main analysis.
    control: Option<Control>,
}

/// The distinct forward passes of a run, each with the studies that request it.
pub struct Plan {
    /// Each distinct pass with the requests that it serves.
    passes: Vec<(Pass, Vec<PassRequest>)>,
    /// Index in `passes` of the first pass of the second stage. Passes of that stage build on results of the first
    /// stage.
    second_stage_start: usize,
    has_task: bool,
}

/// The names of `studies` in the order of the registry, as in [`Protocol::studies`].
pub fn study_names(studies: &[&'static dyn AnyStudy]) -> Vec<String> {
    let ran = |name: &&str| studies.iter().any(|study| study.card().name == *name);
    STUDIES.iter().map(|study| study.card().name).filter(ran).map(str::to_owned).collect()
}

/// The studies with these names, in the order of the registry. Fails if a name belongs to no study.
pub fn studies(names: &[String]) -> Result<Vec<&'static dyn AnyStudy>> {
    if let Some(unknown) = names.iter().find(|name| registry::find_study(name).is_none()) {
        let known = STUDIES.iter().map(|study| study.card().name).join(", ");
        let error = anyhow!("there is no study `{}`: there are {known}", unknown.escape_debug());
        return Err(error.with_value(unknown));
    }
    Ok(STUDIES.iter().copied().filter(|study| names.iter().any(|name| name == study.card().name)).collect())
}

impl Plan {
    /// Plans the passes that the studies and controls of `protocol` request, and a plain pass over the sentences.
    /// Fails if the protocol names an unknown study.
    pub fn new(protocol: &Protocol) -> Result<Self> {
        let (studies, removed, has_task) = (studies(&protocol.studies)?, &protocol.removed, protocol.task.is_some());
        let requests = |study: &'static dyn AnyStudy, control: Option<Control>| {
            let request = |(place, spec): (usize, PassSpec)| {
                let pass = match control {
                    Some(control) => spec.pass.clone().with_control(control)?,
                    None => spec.pass.clone(),
                };
                Some((pass.with_removed(removed), Some(PassRequest { study, spec, pass_index: place, control })))
            };
            // A control that takes nothing away from one of a study's passes says nothing about the study.
            let specs = study.passes_for(has_task).into_iter().enumerate();
            specs.map(request).collect::<Option<Vec<_>>>().unwrap_or_default()
        };
        let analysis = studies.iter().flat_map(|study| requests(*study, None));
        let controls = protocol.controls.iter().flat_map(|control| {
            let controlled = studies.iter().filter(|study| study.card().controls.contains(&control.kind));
            controlled.flat_map(|study| requests(*study, Some(*control)))
        });
        let follows = |(_, request): &(Pass, Option<PassRequest>)| {
            request.as_ref().is_some_and(|request| request.spec.is_second_stage)
        };
        let all = [(Pass::PLAIN.with_removed(removed), None)].into_iter().chain(analysis).chain(controls);
        let (later, first): (Vec<_>, Vec<_>) = all.partition(follows);
        let (first, later) = (group_equal_passes(first), group_equal_passes(later));
        let followers = first.len();
        let all = first.into_iter().chain(later);
        let passes = all.map(|(pass, each)| (pass, each.into_iter().flatten().collect())).collect();
        Ok(Self { passes, second_stage_start: followers, has_task })
    }

    /// Each pass of the first stage, with the empty sums of every study that requests it.
    pub fn first_stage_observers(&self, subject: &Subject<'_>) -> Vec<(Pass, Vec<Box<dyn Observer>>)> {
        let observer = |request: &PassRequest| request.spec.make_observer(subject);
        Self::passes_with_observers(self.stage_passes(&Stage::First), observer)
    }

    /// Each pass of the second stage, with the empty sums of every study that requests it. `passes` are the sums of
    /// the first stage over the whole corpus.
    pub fn second_stage_observers(
        &self,
        passes: &[PassSums],
        subject: &Subject<'_>,
    ) -> Vec<(Pass, Vec<Box<dyn Observer>>)> {
        let observer = |request: &PassRequest| {
            let own = self.study_sums(passes, request.control).remove(request.study.card().name).unwrap_or_default();
            request.spec.make_observer(&Subject { first_stage_sums: ObservedPasses(&own), ..*subject })
        };
        Self::passes_with_observers(&self.passes[self.second_stage_start..], observer)
    }

    /// The passes of the second stage.
    pub fn second_stage_passes(&self) -> Vec<Pass> {
        self.passes[self.second_stage_start..].iter().map(|(pass, _)| pass.clone()).collect()
    }

    /// Passes of the second stage that can be replayed from activations of the first stage, each with the
    /// activations to keep.
    pub fn kept_activations(&self) -> Vec<(Pass, Vec<KeepRequest>)> {
        let of_pass = |(pass, requests): &(Pass, Vec<PassRequest>)| {
            Some((pass.clone(), requests.iter().map(|request| request.spec.keep).collect::<Option<Vec<_>>>()?))
        };
        self.passes[self.second_stage_start..].iter().filter_map(of_pass).collect()
    }

    /// The stage with which a run begins: [`Stage::First`], or [`Stage::Whole`] if no study needs a second stage.
    pub fn first_stage(&self) -> Stage {
        if self.second_stage_start < self.passes.len() { Stage::First } else { Stage::Whole }
    }

    /// The passes that run in a stage, with the requests that they serve.
    fn stage_passes(&self, stage: &Stage) -> &[(Pass, Vec<PassRequest>)] {
        match stage {
            Stage::Whole | Stage::Followed { .. } => &self.passes,
            Stage::First => &self.passes[..self.second_stage_start],
            Stage::After { .. } => &self.passes[self.second_stage_start..],
        }
    }

    /// Each requested pass, with an observer made for each of its requests.
    fn passes_with_observers(
        requested: &[(Pass, Vec<PassRequest>)],
        observer: impl Fn(&PassRequest) -> Box<dyn Observer>,
    ) -> Vec<(Pass, Vec<Box<dyn Observer>>)> {
        requested.iter().map(|(pass, requests)| (pass.clone(), requests.iter().map(&observer).collect())).collect()
    }

    /// Restores the sums of a run's passes from the bytes of a partial result. Fails if the sums do not fit a run
    /// with this `identity`.
    pub fn restore(identity: &Identity, stage: &Stage, passes: Vec<PassBytes>) -> Result<Vec<PassSums>> {
        let (grid, from) = (identity.model.grid(), identity.protocol.from_token);
        let heads = grid.layers.checked_mul(grid.heads);
        let classes = &identity.model.visibility;
        ensure!(
            heads.is_some_and(|heads| (1..=MAX_ATTENTION_HEADS).contains(&heads)),
            "its header has a model of {} x {} heads",
            grid.layers,
            grid.heads
        );
        if let Some(defect) = identity.model.defect() {
            bail!("its header is broken: {defect}");
        }
        ensure!(classes.fits(grid.layers), "its header has classes of other layers than those {}", grid.layers);
        let plan = Self::new(&identity.protocol)?;
        let unfit = "its sums do not fit its header";
        let requested = plan.stage_passes(stage);
        ensure!(requested.len() == passes.len(), unfit);
        let restored = requested.iter().zip(passes).map(|((pass, requests), PassBytes { left_out, sums })| {
            ensure!(requests.len() == sums.len(), unfit);
            let restore = |(request, bytes): (&PassRequest, Vec<u8>)| -> Result<Box<dyn Observer>> {
                let sums = request.spec.restore(&bytes)?;
                ensure!(sums.fits(grid, from, classes), unfit);
                Ok(sums)
            };
            let sums = requests.iter().zip(sums).map(restore).collect::<Result<_>>()?;
            Ok(PassSums { pass: pass.clone(), left_out_sentences: left_out, sums })
        });
        restored.collect()
    }

    /// The sums of each study that has run all its passes, pass by pass; studies are in the order of the registry.
    /// `control` selects a control run; `None` selects the main analysis.
    pub fn sums_of_finished_studies<'a>(
        &self,
        passes: &'a [PassSums],
        control: Option<Control>,
    ) -> Vec<(&'static dyn AnyStudy, Vec<ObservedPass<'a>>)> {
        let mut sums_of_studies = self.study_sums(passes, control);
        let of_study = |study: &&'static dyn AnyStudy| {
            let observed = sums_of_studies.remove(study.card().name)?;
            (observed.len() == study.passes_for(self.has_task).len()).then_some((*study, observed))
        };
        STUDIES.iter().filter_map(of_study).collect()
    }

    /// The sums of the passes that have run, by the name of the study that requested them. `control` selects a control
    /// run; `None` selects the main analysis.
    fn study_sums<'a>(
        &self,
        passes: &'a [PassSums],
        control: Option<Control>,
    ) -> BTreeMap<&'static str, Vec<ObservedPass<'a>>> {
        let mut sums_of_studies: BTreeMap<&'static str, BTreeMap<usize, ObservedPass<'a>>> = BTreeMap::new();
        for ((_, requests), pass) in self.passes.iter().zip(passes) {
            for (request, sums) in requests.iter().zip(&pass.sums).filter(|(request, _)| request.control == control) {
                let observed = ObservedPass { sums: &**sums, left_out_sentences: pass.left_out_sentences };
                sums_of_studies.entry(request.study.card().name).or_default().insert(request.pass_index, observed);
            }
        }
        sums_of_studies.into_iter().map(|(name, observed)| (name, observed.into_values().collect())).collect()
    }
}

#[cfg(test)]
mod tests;
