//! The results of a run: the metrics of all studies, their sections of the report, and the verdict on each attention head.

use std::collections::BTreeMap;

use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::control::{Control, ControlKind};
use crate::stats::blocks::BLOCKS;
use crate::studies::registry;
use crate::study::labels::evidence::EvidenceGap;
use crate::study::labels::policy::Policy;
use crate::study::labels::{self, ABSENT, Assessment, Detector, Evidence, Label, MeasuredScore, REMOVED, Verdict};
use crate::study::metrics::estimates::{Estimates, EstimationContext, cell_scales};
use crate::study::metrics::metric::{Column, Metrics};
use crate::study::metrics::number::{Number, Part};
use crate::study::section::{LabelUse, LateFact, Section, ViewContext};
use crate::study::upstream::{HeadAim, UpstreamResults};
use crate::study::{AnyStudy, Card, Caveat, Labelling, ObservedPass, ObservedPasses, columns};

pub struct Results {
    /// The metrics of all studies, for every head.
    pub estimates: Estimates,
    /// Each study with its section of the report, in the order of the registry.
    pub sections: Vec<(&'static dyn AnyStudy, Box<dyn Section>)>,
    /// Whether the model could read the text, by the health checks; if it could not, no label is firm.
    pub could_read_text: bool,
    /// Indices of the heads that the checkpoint lacks, layer by layer.
    pub absent_heads: Vec<usize>,
    /// Indices of the heads that the run removed, layer by layer. Removed heads have metrics and no labels.
    pub removed_heads: Vec<usize>,
}

impl Results {
    /// Computes the metrics and sections of the studies from their sums (`observed`), with the thresholds of
    /// `policy`.
    pub fn new(
        observed: &[(&'static dyn AnyStudy, Vec<ObservedPass<'_>>)],
        context: &EstimationContext,
        policy: &Policy,
    ) -> Self {
        let places = |heads: &[HeadPlace]| heads.iter().map(|at| context.grid.index(at.layer, at.head)).collect();
        let (absent, removed) = (places(&context.absent_heads), places(&context.removed_heads));
        let estimates = Estimates::without_metrics(context.grid.head_count());
        let mut results = Self {
            estimates,
            sections: Vec::new(),
            could_read_text: true,
            absent_heads: absent,
            removed_heads: removed,
        };
        for (study, observed) in observed {
            let (estimates, section) = study.measure(&ObservedPasses(observed), context);
            results.estimates.extend(estimates);
            results.sections.push((*study, section));
        }
        let Self { estimates, sections, absent_heads: absent, .. } = &mut results;
        absent.iter().for_each(|&place| estimates.clear_absent_head(place));
        sections.iter_mut().for_each(|(_, section)| section.add_late_fact(&LateFact::Estimates(estimates)));
        results.apply_policy(policy);
        results
    }

    /// Recomputes the parts of the sections that depend on the label policy.
    pub fn apply_policy(&mut self, policy: &Policy) {
        self.sections.iter_mut().for_each(|(_, section)| section.add_late_fact(&LateFact::Policy(policy)));
    }

    /// The verdict on every head: its labels, or the nearest labels if it has none; `[layers * heads]`.
    pub fn verdicts(&self, policy: &Policy) -> Vec<Verdict> {
        let assessments = self.assessments(policy);
        let asks_corpus = self.studies().into_iter().filter(|study| registry::reads_corpus(*study, false));
        let mut of_corpus = asks_corpus.flat_map(|study| study.card().labels).filter(|detector| detector.is_on(policy));
        let has_rules = of_corpus.next().is_some();
        let verdict = |assessed: Vec<Assessment>| {
            // Where no rule about the corpus could be tested, what random tokens show is not the last word.
            let is_untested = has_rules && assessed.iter().all(|one| registry::is_random_token_label(&one.label.label));
            let mut verdict = Verdict::new(assessed);
            verdict.nearest.retain(|_| !is_untested);
            verdict
        };
        let mut verdicts: Vec<Verdict> = assessments.into_iter().map(verdict).collect();
        self.removed_heads.iter().for_each(|&place| REMOVED.clone_into(&mut verdicts[place].primary));
        self.absent_heads.iter().for_each(|&place| ABSENT.clone_into(&mut verdicts[place].primary));
        verdicts
    }

    /// Adds the tests of the study `knockout` to the labels in `verdicts`: whether the model uses the arcs of each
    /// syntactic label.
    pub fn with_knockout_tests(&self, mut verdicts: Vec<Verdict>, grid: HeadGrid, policy: &Policy) -> Vec<Verdict> {
        for LabelUse { place: head, label, direction, test } in
            self.sections.iter().flat_map(|(_, section)| section.view(ViewContext::new(policy)).use_tests)
        {
            let labels = &mut verdicts[grid.index(head.layer, head.head)].labels;
            if let Some(tested) = labels.iter_mut().find(|one| (&one.label, one.direction) == (&label, Some(direction)))
            {
                tested.knockout = Some(test);
            }
        }
        verdicts
    }

    /// The results of the first stage that studies of the second stage build on. They come from the sums `observed`
    /// and the labels under `policy`.
    pub fn upstream_results(
        &self,
        observed: &[(&'static dyn AnyStudy, Vec<ObservedPass<'_>>)],
        policy: &Policy,
    ) -> UpstreamResults {
        let verdicts = self.verdicts(policy);
        let mut upstream = UpstreamResults { aims: self.head_aims(&verdicts), ..UpstreamResults::default() };
        for ((study, section), (_, observed)) in self.sections.iter().zip(observed) {
            let labels = Labelling { verdicts: &verdicts, policy, section: &**section };
            upstream = upstream.merged_with(study.upstream_results(&ObservedPasses(observed), &labels));
        }
        upstream
    }

    /// The aims of the heads that have one. An aim says which tokens the head attends to, by the first of its
    /// labels that names tokens.
    fn head_aims(&self, verdicts: &[Verdict]) -> Vec<HeadAim> {
        let aim_of_head = |(place, verdict): (usize, &Verdict)| {
            let aim_of_label = |label: &Label| {
                let (aim, metric) = self.sections.iter().find_map(|(study, _)| (study.card().aim)(label))?;
                let mean =
                    metric.map_or(Some(label.score), |metric| *self.estimates.heads[place].by_name()[&metric])?;
                Some(HeadAim { place, label: label.label.clone(), aim, mean })
            };
            verdict.labels.iter().find_map(aim_of_label)
        };
        verdicts.iter().enumerate().filter_map(aim_of_head).collect()
    }

    /// Gives each section the sections of the same study from the control runs.
    pub fn add_controls(&mut self, controls: &[(Control, Self)]) {
        for kind in ControlKind::ALL {
            for (study, section) in &mut self.sections {
                let index_of_study = |results: &'_ Self| {
                    results.sections.iter().position(|(other, _)| other.card().name == study.card().name)
                };
                let seeds: Vec<&dyn Section> = controls
                    .iter()
                    .filter(|(control, _)| control.kind == kind)
                    .filter_map(|(_, results)| Some(&*results.sections[index_of_study(results)?].1))
                    .collect();
                if !seeds.is_empty() {
                    section.add_late_fact(&LateFact::Control(kind, &seeds));
                }
            }
        }
    }

    /// The assessments of every head for every label: its score, its test, and whether the rule of the label is
    /// met. They are `[layers * heads]`, with the labels in the order of the registry.
    pub fn assessments(&self, policy: &Policy) -> Vec<Vec<Assessment>> {
        self.assess_heads(policy, |card| card.labels, labels::best_of_each_label)
    }

    /// As [`Results::assessments`], but with both directions of each syntactic relation instead of only the
    /// better-supported one.
    pub fn assessments_by_direction(&self, policy: &Policy) -> Vec<Vec<Assessment>> {
        self.assess_heads(policy, |card| card.labels, |assessed| assessed)
    }

    /// The label for how each head chooses its keys (by position, token or context), `[layers * heads]`; `None` without one.
    pub fn choice_labels(&self, policy: &Policy) -> Vec<Option<Label>> {
        let chosen = |assessed: Vec<Assessment>| assessed.into_iter().find(|one| one.meets_rule).map(|one| one.label);
        self.choice_assessments(policy).into_iter().map(chosen).collect()
    }

    /// The assessments of each head, `[layers * heads]`, for the labels that say how the head chooses its keys.
    pub fn choice_assessments(&self, policy: &Policy) -> Vec<Vec<Assessment>> {
        self.assess_heads(policy, |card| card.choices, labels::best_of_each_label)
    }

    /// Returns the assessments of each head, `[layers * heads]`, by the detectors that `detectors` takes from a study's
    /// card. `select` reduces one detector's assessments of a head to the kept ones.
    fn assess_heads(
        &self,
        policy: &Policy,
        detectors: fn(&'static Card) -> &'static [Detector],
        select: fn(Vec<Assessment>) -> Vec<Assessment>,
    ) -> Vec<Vec<Assessment>> {
        let Estimates { heads, ci95, standard_errors, own_chance, chance, .. } = &self.estimates;
        let columns: Vec<Column> = self.studies().into_iter().flat_map(columns).collect();
        let scales = Metrics::new(&columns, cell_scales(&columns));
        let measured = |place: usize| {
            let denominators = self.estimates.denominators_of(place);
            heads[place].map(|id, key, &score| {
                // Reports of 0.1 do not have the amount of evidence.
                let denominator = denominators.get(id, key);
                if denominator.is_some_and(|denominator| EvidenceGap::find(denominator, policy).is_some()) {
                    // A score with too little evidence gives no label.
                    return MeasuredScore::default();
                }
                let scale = scales.get(id, key).copied().unwrap_or_default();
                let estimate = || denominator?.estimate(score?, standard_errors[place].value(id, key)?, scale);
                let baseline = own_chance[place].value(id, key).or_else(|| chance.value(id, key));
                MeasuredScore { score, ci95: ci95[place].value(id, key), baseline, estimate: estimate() }
            })
        };
        let measured: Vec<Metrics<MeasuredScore>> = (0..heads.len()).map(measured).collect();
        let mut assessed: Vec<Vec<Assessment>> = heads.iter().map(|_| Vec::new()).collect();
        for (study, section) in &self.sections {
            for detector in detectors(study.card()) {
                let of_head = |(place, metrics)| {
                    if self.absent_heads.contains(&place) || self.removed_heads.contains(&place) {
                        return Vec::new();
                    }
                    let given = &assessed[place];
                    (detector.assess)(
                        &Evidence { place, metrics, section: &**section, earlier_assessments: given },
                        policy,
                    )
                };
                let mut of_heads: Vec<Vec<Assessment>> = measured.iter().enumerate().map(of_head).collect();
                labels::correct_for_multiple_tests(of_heads.iter_mut().flatten(), policy);
                if !self.could_read_text {
                    of_heads.iter_mut().flatten().for_each(|assessment| assessment.label.borderline = true);
                }
                assessed.iter_mut().zip(of_heads).for_each(|(all, more)| all.extend(select(more)));
            }
        }
        assessed
    }

    pub fn studies(&self) -> Vec<&'static dyn AnyStudy> {
        self.sections.iter().map(|(study, _)| *study).collect()
    }

    /// The caveats of the studies that apply to these verdicts under `policy`.
    pub fn caveats(&self, verdicts: &[Verdict], policy: &Policy) -> Vec<&'static Caveat> {
        let caveats_of = |(study, section): &(&'static dyn AnyStudy, Box<dyn Section>)| {
            study.card().applicable_caveats(&Labelling { verdicts, policy, section: &**section })
        };
        self.sections.iter().flat_map(caveats_of).collect()
    }

    /// All numbers by which two analyses can be compared: the metrics of every head, and the comparable numbers of
    /// the sections.
    pub fn numbers(&self, policy: &Policy) -> Vec<Number<'_>> {
        let Estimates { heads, ci95, without_blocks, .. } = &self.estimates;
        let cards: BTreeMap<&str, &Card> = (self.sections.iter())
            .flat_map(|(study, _)| columns(*study).into_iter().map(|column| (column.id, study.card())))
            .collect();
        let numbers_of_head = |place: usize| {
            let denominators = self.estimates.denominators_of(place);
            let number = |(name, value): (String, &Option<f64>)| {
                let (metric, key) = name.split_once('.').map_or((&*name, None), |(metric, key)| (metric, Some(key)));
                let denominator = denominators.get(metric, key).copied().unwrap_or_default();
                let card = cards.get(metric).copied().unwrap_or(&Card::EMPTY);
                let at_key = |metric: &str| key.map_or_else(|| metric.to_owned(), |key| format!("{metric}.{key}"));
                Number {
                    part: Part::Metrics,
                    head: place,
                    subject: metric.to_owned(),
                    unit: (card.unit)(metric),
                    base_number: (card.base_metric_of)(metric).map(at_key),
                    value: *value,
                    ci95: ci95[place].value(metric, key),
                    blocks: usize::try_from(denominator.blocks).unwrap_or(BLOCKS),
                    effective_blocks: denominator.effective_blocks,
                    trials: None,
                    has_enough_evidence: true,
                    jackknife: without_blocks.get(place).and_then(|without| without.get(metric, key)?.as_ref()),
                    name,
                }
            };
            heads[place].cells().map(number).collect::<Vec<_>>()
        };
        let metrics = (0..heads.len()).flat_map(numbers_of_head);
        metrics
            .chain(self.sections.iter().flat_map(|(_, section)| section.view(ViewContext::new(policy)).numbers))
            .collect()
    }
}

#[cfg(test)]
mod tests;
