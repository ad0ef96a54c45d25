//! The two sides of a comparison, each read from a report or a partial.

pub mod description;
pub mod head_state;
pub mod matching;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};

use crate::commands::reporting::{PolicyOptions, compute_results};
use crate::evaluation::plan::Plan;
use crate::evaluation::results::Results;
use crate::export::json;
use crate::model::grid::HeadGrid;
use crate::passes::observation::{Observation, partial};
use crate::report::health::analyses_corpus;
use crate::report::{Report, ReportContext};
use crate::sequences::derived::task::TaskInfo;
use crate::sequences::shard::Shard;
use crate::studies::registry;
use crate::study::TokenCountUse;
use crate::study::labels::Assessment;
use crate::study::labels::policy::Policy;
use crate::study::metrics::number::Number;
use crate::study::section::ViewContext;
use crate::system::counts::{format_count, plural};
use crate::system::errors::ErrorExt;
use crate::system::printable::one_line;
use description::{Described, LeftAside};

/// Options of the two analyses that are compared.
pub struct SidesOptions {
    pub paths: [PathBuf; 2],
    /// Policy by which both analyses are labelled. Thresholds that it leaves out stay as in each report.
    pub policy: PolicyOptions,
    pub threads: NonZeroUsize,
}

/// Analysis on one side of a comparison.
pub struct Side {
    /// Path of the report or partial as the user gave it, or the name of an analysis that was just run.
    pub file: String,
    /// Shard that a partial covers; `None` for a report.
    shard: Option<Shard>,
    /// Model, corpus, program and settings of the analysis.
    pub context: ReportContext,
    pub results: Results,
}

/// Content of an analysis's file, before its heads are labelled by the policy of the comparison.
enum SavedFile {
    Report(Box<Report>),
    Partial(Shard, Box<Observation>),
}

/// Reads the two analyses. A partial takes the policy of the other file, or else the default; the options override both.
/// Fails if a file is neither report nor partial, the policy cannot be used, or the models have different heads.
pub fn read_sides(options: &SidesOptions) -> Result<[Side; 2]> {
    let SidesOptions { paths, policy: options, threads } = options;
    let [a, b] = [read_file(&paths[0])?, read_file(&paths[1])?];
    let policies = [[&a, &b], [&b, &a]].map(|files| files.into_iter().find_map(saved_policy));
    let [policy_a, policy_b] =
        policies.map(|policy| options.override_policy(policy.unwrap_or_else(registry::default_policy)));
    let sides = [Side::new(a, &paths[0], policy_a?, *threads)?, Side::new(b, &paths[1], policy_b?, *threads)?];
    for side in &sides {
        options.ensure_studies_ran(&side.context.settings.protocol.studies).cannot("label", &side.file)?;
    }
    ensure_same_heads(&sides[0], &sides[1])?;
    Ok(sides)
}

/// Reads several analyses; the first is a report, and all are labelled by its policy.
/// Fails if a file is neither report nor partial, the first is a partial, or the models have different heads.
pub fn read_sides_with_first_policy(paths: &[PathBuf], threads: NonZeroUsize) -> Result<Vec<Side>> {
    let mut sides: Vec<Side> = Vec::new();
    for path in paths {
        let file = read_file(path)?;
        let policy = match sides.first() {
            Some(first) => first.context.settings.policy.clone(),
            None => saved_policy(&file).ok_or_else(|| {
                anyhow!("`{}` is a partial, whose labels no policy has fixed", path.display())
                    .hint("make a report of it: `headscope merge PARTIAL -o REPORT.json`")
            })?,
        };
        sides.push(Side::new(file, path, policy, threads)?);
    }
    for side in &sides[1..] {
        ensure_same_heads(&sides[0], side)?;
    }
    Ok(sides)
}

/// Fails if the models differ in layers or heads, since heads are compared by place.
fn ensure_same_heads(a: &Side, b: &Side) -> Result<()> {
    let [ours, theirs] = [a, b].map(|side| side.context.model.grid());
    let words = |HeadGrid { layers, heads }| format!("{layers} layers of {heads} heads");
    ensure!(
        ours == theirs,
        anyhow!("the models do not have the same heads: {} and {}", words(ours), words(theirs))
            .hint("`headscope export A B -o PAGE.html` has reports of any models side by side")
    );
    Ok(())
}

fn read_file(path: &Path) -> Result<SavedFile> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(partial::EXTENSION)) {
        let (shard, observation) = partial::read(path, &Plan::restore)?;
        return Ok(SavedFile::Partial(shard, Box::new(observation)));
    }
    let text = json::read_text(path)?;
    json::parse_lenient(&path.display().to_string(), &text).map(|report| SavedFile::Report(Box::new(report)))
}

/// Policy that a saved file records; `None` for a partial.
fn saved_policy(file: &SavedFile) -> Option<Policy> {
    if let SavedFile::Report(report) = file { Some(report.settings.policy.clone()) } else { None }
}

impl Side {
    fn new(file: SavedFile, path: &Path, policy: Policy, threads: NonZeroUsize) -> Result<Self> {
        let (shard, (mut context, mut results)) = match file {
            SavedFile::Report(report) => (None, report.into_parts()),
            SavedFile::Partial(shard, observation) => {
                (Some(shard), compute_results(*observation, policy.clone(), threads, true)?)
            }
        };
        context.set_policy(&mut results, policy);
        Ok(Self { file: path.display().to_string(), shard, context, results })
    }

    /// Builds the side of a comparison from an analysis that was just run; `name` is shown in the place of a file.
    pub fn from_observation(
        name: &str,
        observation: Observation,
        policy: Policy,
        threads: NonZeroUsize,
    ) -> Result<Self> {
        Self::new(SavedFile::Partial(Shard::WHOLE, Box::new(observation)), Path::new(name), policy, threads)
    }

    /// Whether the two corpora have a file in common.
    pub fn has_common_file(&self, other: &Self) -> bool {
        let [ours, theirs] = [self, other].map(|side| &side.context.corpus.files);
        ours.iter().any(|file| theirs.iter().any(|other| other.sha256 == file.sha256))
    }

    pub fn has_same_weights(&self, other: &Self) -> bool {
        self.context.model.weights_sha256 == other.context.model.weights_sha256
    }

    /// Whether a label that depends on token counts can be compared. Labels without token counts always can be.
    /// Both analyses must have the same counts file. Without counts files, their corpora must differ by at most a tenth in
    /// size. The reason is that the rarity of a sentence's rarest token grows with the corpus.
    pub fn has_comparable_counts(&self, other: &Self, label: &str) -> bool {
        let is_counted =
            registry::study_of_label(label).is_some_and(|study| study.card().token_counts == TokenCountUse::Needed);
        let counts_files = [self, other].map(|side| &side.context.settings.protocol.counts);
        let [a, b] = [self, other].map(|side| side.context.corpus.tokens as f64);
        !is_counted || counts_files[0] == counts_files[1] && (counts_files[0].is_some() || a.min(b) >= 0.9 * a.max(b))
    }

    pub fn has_study_of_label(&self, label: &str) -> bool {
        let study = registry::study_of_label(label).map(|study| study.card().name);
        study.is_none_or(|study| self.results.studies().iter().any(|run| run.card().name == study))
    }

    pub fn numbers(&self) -> Vec<Number<'_>> {
        self.results.numbers(&self.context.settings.policy)
    }

    /// Assessments of every head for every label, `[layers * heads]`. Key-choice labels (`chooses:*`) come last.
    pub fn assessments(&self) -> Vec<Vec<Assessment>> {
        let policy = &self.context.settings.policy;
        let by_head = self.results.assessments(policy).into_iter().zip(self.results.choice_assessments(policy));
        by_head.map(|(roles, choices)| [roles, choices].concat()).collect()
    }

    /// Whether both files are partials of one shard of equal corpus files, and so have equal sentences in equal blocks.
    pub fn has_same_sentences(&self, other: &Self) -> bool {
        self.shard.is_some() && self.shard == other.shard && self.has_same_corpus(other)
    }

    /// Whether the two analyses could be tested pairwise by blocks if both files were partials, and at least one is not. Both
    /// analyses must cover the whole corpus, and their corpora must be equal.
    pub fn can_be_paired(&self, other: &Self) -> bool {
        let is_whole = |side: &Self| side.shard.is_none_or(|shard| shard == Shard::WHOLE);
        is_whole(self) && is_whole(other) && self.has_same_corpus(other) && !self.has_same_sentences(other)
    }

    /// Whether both analyses have equal corpus files in equal order, with equal limits and numbers of blocks.
    fn has_same_corpus(&self, other: &Self) -> bool {
        let [ours, theirs] = [self, other].map(|side| {
            let ReportContext { corpus, settings, .. } = &side.context;
            let files: Vec<_> = corpus.files.iter().map(|file| (file.format, &file.sha256)).collect();
            (files, settings.protocol.limit, settings.protocol.blocks)
        });
        ours == theirs
    }

    /// Sentence on how the two corpora (or tasks) differ; `None` if they are the same.
    pub fn corpus_difference(&self, other: &Self) -> Option<String> {
        if ![self, other].iter().any(|side| side.has_corpus()) {
            let task = |side: &Self| side.context.settings.protocol.task.as_ref().map(|task| task.sha256.clone());
            return (task(self) != task(other)).then(|| "The tasks are not the same.".to_owned());
        }
        let [size_a, size_b] = [self, other].map(|side| side.context.corpus.sentences);
        if size_a != size_b {
            let [size_a, size_b] = [size_a, size_b].map(|sentences| format_count(sentences, "sentence"));
            return Some(format!(
                "The corpora differ in size: {size_a} in a, {size_b} in b; how many labels are firm depends on the size."
            ));
        }
        // A report covers all shards.
        let [shard_a, shard_b] = [self, other].map(|side| side.shard.unwrap_or(Shard::WHOLE));
        let is_same = self.has_same_corpus(other) && shard_a == shard_b;
        (!is_same).then(|| "The corpora are not the same.".to_owned())
    }

    pub fn description(&self) -> Described {
        let ReportContext { model, corpus, .. } = &self.context;
        Described {
            file: self.file.clone(),
            shard: self.shard.map(|shard| shard.to_string()),
            model: model.id.clone(),
            corpus: self
                .task_without_corpus()
                .map_or_else(|| corpus.name.clone(), |task| format!("the task {}", task.name)),
            sentences: if self.has_corpus() { corpus.sentences } else { 0 },
        }
    }

    /// Whether the analysis measured a corpus, and not only a task.
    fn has_corpus(&self) -> bool {
        analyses_corpus(&self.context.settings.protocol, &self.results.sections)
    }

    /// Task of an analysis that measured no corpus; `None` if it measured one.
    fn task_without_corpus(&self) -> Option<&TaskInfo> {
        self.context.settings.protocol.task.as_ref().filter(|_| !self.has_corpus())
    }

    /// Fails for an analysis of a task alone, whose heads were not labelled.
    pub fn ensure_labelled(&self) -> Result<()> {
        let Some(TaskInfo { name, .. }) = self.task_without_corpus() else { return Ok(()) };
        let (file, name) = (&self.file, one_line(name));
        let error =
            anyhow!("`{file}` is of the task `{name}` alone: no corpus was asked about, so no head has a label");
        Err(error.with_file(file).hint(
            "`headscope analyze MODEL --task FILE -c CORPUS` labels the heads as well; `headscope compare --numbers` compares what was \
             measured",
        ))
    }

    /// Text with the number of sampling units, such as `9 documents (a test takes 10)`, if they are too few; else `None`.
    pub fn unit_count_if_too_few(&self) -> Option<String> {
        if !self.has_corpus() {
            return None;
        }
        let ReportContext { model, corpus, .. } = &self.context;
        let [piece, _] = model.text_units();
        corpus.unit_shortage_text(&self.results.estimates.denominators, piece)
    }

    /// Why the model could not read the corpus, with a remedy; `None` if it could.
    pub fn unreadable_corpus_reason(&self) -> Option<String> {
        let ReportContext { model, corpus, .. } = &self.context;
        let read = Some(corpus).filter(|_| self.has_corpus());
        read.and_then(|corpus| corpus.reading_failure_and_advice(model))
            .map(|[why, way_out]| format!("the model could not read the corpus, since {why}: {way_out}"))
    }

    /// Sentence on the result of the run's task; `None` without a task.
    pub fn task_result(&self) -> Option<String> {
        let settings = &self.context.settings;
        settings.protocol.task.as_ref()?;
        self.results.sections.iter().find_map(|(_, section)| {
            let view = section.view(ViewContext::new(&settings.policy));
            view.in_brief.finding.filter(|_| view.is_above_baseline.is_some())
        })
    }

    /// Sections of the report for which no test is known, as (key, JSON).
    fn untested_sections(&self) -> Vec<(&'static str, serde_json::Value)> {
        let known = ViewContext::new(&self.context.settings.policy);
        let sections = self.results.sections.iter().filter(|(_, section)| section.view(known).numbers.is_empty());
        let value = |entry: &dyn erased_serde::Serialize| serde_json::to_value(entry).expect("a section is JSON");
        sections
            .flat_map(|(study, section)| study.entries(&**section))
            .map(|(key, entry)| (key, value(entry)))
            .collect()
    }
}

/// Number of sampling units of each analysis that has too few for any test, such as `9 documents (a test takes 10) in a`.
/// Returns `None` if both analyses have enough.
pub fn too_few_units_reason(a: &Side, b: &Side) -> Option<String> {
    let words = [(a, "a"), (b, "b")].map(|(side, name)| Some(format!("{} in {name}", side.unit_count_if_too_few()?)));
    words.into_iter().flatten().reduce(|first, second| format!("{first}, {second}"))
}

/// Sentence on why no label is firm, for each analysis whose model could not read the corpus; `None` if both could.
pub fn unreadable_corpus_sentence(a: &Side, b: &Side) -> Option<String> {
    let sentences = [(a, "a"), (b, "b")]
        .map(|(side, name)| Some(format!("No label is firm in {name}: {}.", side.unreadable_corpus_reason()?)));
    sentences.into_iter().flatten().reduce(|first, second| format!("{first} {second}"))
}

/// Report sections that no test can compare, and that differ between two analyses or are missing in one.
/// Returns `None` if there are no such sections.
pub fn untested_differences(a: &Side, b: &Side) -> Option<LeftAside> {
    let (a, b) = (a.untested_sections(), b.untested_sections());
    let differs = |(key, value): &&(&'static str, serde_json::Value), others: &[(&'static str, serde_json::Value)]| {
        !others.iter().any(|(other, theirs)| other == key && description::are_equal_when_rounded(value, theirs))
    };
    let mut keys: Vec<String> = a.iter().filter(|part| differs(part, &b)).map(|(key, _)| (*key).to_owned()).collect();
    keys.extend(b.iter().filter(|(key, _)| !a.iter().any(|(other, _)| other == key)).map(|(key, _)| (*key).to_owned()));
    let count = keys.len();
    let (parts, them) = plural(&count, ("part of the report differs", "it"), ("parts of the report differ", "them"));
    let why = format!("{parts}, and no test is known for {them}");
    (count > 0).then_some(LeftAside { why, count, of: keys })
}
