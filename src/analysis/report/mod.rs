//! The report as it is written, with its JSON Schema. docs/REPORT.md explains each key.

mod attention_maps;
mod caveats;
mod control;
mod corpus;
pub mod firm;
pub mod health;
pub mod in_brief;
mod remarks;
pub mod roles;
mod saved;
mod schema;

use std::collections::BTreeMap;

use anyhow::Result;
use itertools::izip;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::evaluation::results::Results;
use crate::model::grid::HeadPlace;
use crate::passes::control::ControlKind;
use crate::passes::observation::identity::{ModelInfo, Protocol, RunInfo, Tool};
use crate::studies::registry;
use crate::study::AnyStudy;
use crate::study::labels::policy::Policy;
use crate::study::labels::{ABSENT, Label, Near, REMOVED, Verdict};
use crate::study::metrics::estimates::Estimates;
use crate::study::metrics::metric::{Denominator, Intervals, Metrics, StandardErrors, Values};
use crate::study::section::{Section, SectionFacts, View, ViewContext};
pub use attention_maps::{AttentionMaps, MAX_MAP_TOKENS, SentenceArc, SentenceUnit};
use caveats::RunFacts;
pub use caveats::{Caveat, is_about_certainty};
pub use control::{ControlHead, ControlReport, ControlVerdicts};
pub use corpus::{ContextInfo, CorpusFileInfo, CorpusInfo, TextInfo};

/// The version of the report's schema. It rises when a key changes its meaning or is removed, and stays when a key
/// is added.
pub const SCHEMA_VERSION: u32 = 4;

/// A report on what each head of a model does, with the evidence.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(title = "headscope report")]
pub struct Report {
    /// Version of the report's schema. It rises when a key changes its meaning or is removed.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    pub schema_version: u32,
    /// The program that wrote the report.
    pub tool: Tool,
    /// The report in a few sentences: which heads have a firm role, the relation with the strongest evidence, how heads choose
    /// and what removing them costs if that was asked, and which findings lacked evidence. Empty in reports of headscope 0.1.
    #[serde(default)]
    pub in_brief: Vec<String>,
    /// The model that was analysed.
    pub model: ModelInfo,
    /// The corpus that the model was run over.
    pub corpus: CorpusInfo,
    /// Every option that the numbers depend on, and the label policy.
    pub settings: Settings,
    /// The chance level of each metric on this corpus, by metric id.
    #[schemars(schema_with = "schema::values")]
    pub chance: Values,
    /// The 95 % interval of each chance level, by metric id.
    #[schemars(schema_with = "schema::intervals")]
    pub chance_ci95: Intervals,
    /// The denominator of each metric, by metric id: the number of queries, words or edges scored, with their sentences and
    /// blocks. Empty in reports of headscope 0.1.
    #[serde(default)]
    #[schemars(schema_with = "schema::denominators")]
    pub denominators: Metrics<Denominator>,
    /// Number of labels that the heads have, by category of labels, such as `syntactic:<relation>`.
    #[schemars(schema_with = "schema::counts")]
    pub label_counts: BTreeMap<String, u64>,
    /// One object per control run, with the labels found in it; empty without `--control`.
    pub controls: Vec<ControlReport>,
    /// One object per head, layer by layer.
    pub heads: Vec<HeadReport>,
    /// The sections of the studies, each under separate keys; [`Report::parse`] reads them.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub sections: Sections,
    /// Facts from other keys of the report that are needed to display its sections.
    #[serde(skip)]
    pub facts: SectionFacts,
    /// The attention of every head over one sentence, given or from `examples`; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AttentionMaps")]
    pub attention_maps: Option<AttentionMaps>,
    /// Caveats that apply to the run: what its labels do not show.
    pub caveats: Vec<Caveat>,
    /// Time, threads and host; absent with `--no-run-info`. Nothing else in the report depends on the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunInfo>,
}

/// The sections of the studies that were run, in the order of the registry.
#[derive(Default)]
pub struct Sections(pub Vec<(&'static dyn AnyStudy, Box<dyn Section>)>);

impl Serialize for Sections {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0.iter().flat_map(|(study, section)| study.entries(&**section)) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl JsonSchema for Sections {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sections".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schema::sections(generator)
    }
}

/// Every option that the numbers depend on, and the label policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// The settings that the sums depend on.
    #[serde(flatten)]
    pub protocol: Protocol,
    /// The thresholds of the labels.
    #[serde(deserialize_with = "policy")]
    #[schemars(schema_with = "schema::policy")]
    pub policy: Policy,
}

/// Reads the policy of a saved report; a threshold that the report lacks gets its default.
fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    let values = Map::<String, Value>::deserialize(deserializer)?;
    registry::default_policy().with_json(&values).map_err(D::Error::custom)
}

/// One attention head: its labels and the evidence for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadReport {
    /// The attention head, by layer and number.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Index of the key–value head that the attention head shares with others of its layer, from 0; absent if none are shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub key_value_group: Option<usize>,
    /// The firm label with the largest margin over its threshold, a borderline one if none is firm, or `unlabelled`. A head that
    /// the checkpoint was saved without has `absent`, a head that the run removed (`--remove`) has `removed`.
    #[schemars(schema_with = "schema::primary_label")]
    pub primary: String,
    /// All labels of the head: firm ones before borderline ones, each by falling margin.
    #[schemars(schema_with = "schema::labels")]
    pub labels: Vec<Label>,
    /// The head in one sentence, with its labels and the findings of the studies that were run. Empty in reports of headscope
    /// 0.1.
    #[serde(default)]
    pub description: String,
    /// How the head chooses where to attend: by special tokens, position, token, position and token, or context. Null if the
    /// head has no such label, or the study `choice` did not run. `labels` does not list it.
    #[serde(default)]
    #[schemars(schema_with = "schema::choice_label")]
    pub chooses: Option<Label>,
    /// The two labels that an unlabelled head comes nearest to, fewer if fewer rules are on; empty for a head with a label.
    #[schemars(schema_with = "schema::nearest_labels")]
    pub nearest: Vec<Near>,
    /// The values of the metrics, by metric id.
    #[schemars(schema_with = "schema::values")]
    pub metrics: Values,
    /// The 95 % interval of each metric.
    #[schemars(schema_with = "schema::intervals")]
    pub ci95: Intervals,
    /// The jackknife standard error of each metric, over blocks of sentences. A rounded report lacks the error where the interval
    /// is symmetric: half of the interval is the error times the 97.5th percentile of Student's distribution with
    /// `effective_blocks` - 1 degrees of freedom.
    #[serde(default)]
    #[schemars(schema_with = "schema::values")]
    pub standard_errors: StandardErrors,
    /// The chance levels that depend on the head, by metric id. Null for a metric without a chance level, or with its level in
    /// the report's `chance`. Empty if no study that was run has metrics whose chance depends on the head.
    #[serde(default)]
    #[schemars(schema_with = "schema::values")]
    pub chance: Values,
    /// The denominators that differ between heads, by metric id. Null for a metric with its denominator in the report's
    /// `denominators`. Absent if all heads are scored on the same things.
    #[serde(default, skip_serializing_if = "Metrics::is_empty")]
    #[schemars(schema_with = "schema::head_denominators")]
    pub denominators: Metrics<Option<Denominator>>,
}

/// The inputs of a report besides its results: what was analysed, the settings, and the controls.
pub struct ReportContext {
    pub tool: Tool,
    pub model: ModelInfo,
    pub corpus: CorpusInfo,
    pub settings: Settings,
    pub controls: Vec<ControlVerdicts>,
    pub run: Option<RunInfo>,
}

impl ReportContext {
    /// Applies another policy to the results and to the health checks of the corpus, and stores it in the settings.
    pub fn set_policy(&mut self, results: &mut Results, policy: Policy) {
        self.corpus.health.judge(&policy);
        results.could_read_text = self.corpus.health.could_read_text();
        results.apply_policy(&policy);
        self.settings.policy = policy;
    }
}

impl Report {
    /// Puts a report together: labels the heads, counts the labels, and adds the caveats.
    pub fn new(context: ReportContext, results: Results) -> Self {
        let ReportContext { tool, model, corpus, settings, controls, run } = context;
        let (grid, policy) = (model.grid(), &settings.policy);
        let verdicts = results.with_knockout_tests(results.verdicts(policy), grid, policy);
        let reading = settings.protocol.reading.as_ref();
        let run_facts = RunFacts { model: &model, corpus: &corpus, reading, verdicts: &verdicts };
        let caveats = caveats::caveats_for_run(&run_facts, results.caveats(&verdicts, policy));
        let studies = results.studies();
        let choices = results.choice_labels(policy);
        let labels = verdicts.iter().flat_map(|verdict| &verdict.labels).chain(choices.iter().flatten());
        let labels = labels.map(|label| label.label.as_str());
        let label_counts = registry::count_labels(&studies, labels);
        let controls = controls.into_iter().map(|control| ControlReport::new(control, &verdicts, grid)).collect();
        let Results { estimates, sections, .. } = results;
        let heads_per_group = model.query_heads_per_group();
        let Estimates { heads, ci95, standard_errors, own_chance, own_denominators, .. } = estimates;
        let (chance, chance_ci95, denominators) = (estimates.chance, estimates.chance_ci95, estimates.denominators);
        let columns = izip!(heads, ci95, standard_errors, own_chance, own_denominators, verdicts, choices);
        let head = |(place, (metrics, ci95, standard_errors, chance, denominators, verdict, chooses))| {
            let (place, Verdict { primary, labels, nearest }) = (grid.head_place(place), verdict);
            let key_value_group = heads_per_group.map(|heads| place.head / heads);
            HeadReport {
                place,
                key_value_group,
                primary,
                labels,
                description: String::new(),
                chooses,
                nearest,
                metrics,
                ci95,
                standard_errors,
                chance,
                denominators,
            }
        };
        let mut report = Self {
            schema_version: SCHEMA_VERSION,
            tool,
            in_brief: Vec::new(),
            model,
            corpus,
            settings,
            chance,
            chance_ci95,
            denominators,
            label_counts,
            controls,
            heads: columns.enumerate().map(head).collect(),
            sections: Sections(sections),
            facts: SectionFacts::default(),
            attention_maps: None,
            caveats,
            run,
        };
        report.fill_derived_fields();
        report
    }

    /// Labels the heads by another policy. The labels found in controls are dropped, since a report lacks their
    /// evidence.
    pub fn relabel(mut self, policy: Policy) -> Self {
        let attention_maps = self.attention_maps.take();
        let (mut context, mut results) = self.into_parts();
        context.set_policy(&mut results, policy);
        Self { attention_maps, ..Self::new(context, results) }
    }

    /// Splits the report into its inputs and its results. The controls are dropped, since a report stores only their
    /// outcome.
    pub fn into_parts(self) -> (ReportContext, Results) {
        let standard_errors = self.standard_errors().collect();
        let Self { tool, model, corpus, settings, chance, chance_ci95, denominators, heads, .. } = self;
        let mut estimates = Estimates { standard_errors, chance, chance_ci95, denominators, ..Estimates::default() };
        for head in heads {
            estimates.heads.push(head.metrics);
            estimates.ci95.push(head.ci95);
            estimates.own_chance.push(head.chance);
            estimates.own_denominators.push(head.denominators);
        }
        let index = |place: &HeadPlace| model.grid().index(place.layer, place.head);
        let absent = model.absent.iter().map(index).collect();
        let removed = settings.protocol.removed.iter().map(index).collect();
        let is_read = corpus.health.could_read_text();
        let results = Results {
            estimates,
            sections: self.sections.0,
            could_read_text: is_read,
            absent_heads: absent,
            removed_heads: removed,
        };
        (ReportContext { tool, model, corpus, settings, controls: Vec::new(), run: self.run }, results)
    }

    /// The label policy and the facts about the run that are needed to display the sections.
    pub fn view_context(&self) -> ViewContext<'_> {
        ViewContext { policy: &self.settings.policy, run: &self.facts }
    }

    /// Each study with the view of its section, in the order of the registry.
    pub fn section_views(&self) -> impl Iterator<Item = (&'static dyn AnyStudy, View<'_>)> {
        self.sections.0.iter().map(|(study, section)| (*study, section.view(self.view_context())))
    }

    /// The heads that the model ran with, without absent and removed ones.
    pub fn present_heads(&self) -> impl Iterator<Item = &HeadReport> {
        self.heads.iter().filter(|head| !head.is_absent())
    }

    /// Number of firm labels by category; `label_counts` counts borderline labels as well.
    pub fn firm_label_counts(&self) -> BTreeMap<String, u64> {
        let studies: Vec<_> = self.sections.0.iter().map(|(study, _)| *study).collect();
        let labels = self.heads.iter().flat_map(|head| head.labels.iter().chain(&head.chooses));
        registry::count_labels(&studies, labels.filter(|label| !label.borderline).map(|label| label.label.as_str()))
    }

    /// The control runs, grouped by kind of control; a group has one run for each seed.
    pub fn controls_by_kind(&self) -> Vec<(ControlKind, Vec<&ControlReport>)> {
        let runs = |kind| self.controls.iter().filter(|run| run.control.kind == kind).collect::<Vec<_>>();
        ControlKind::ALL.map(|kind| (kind, runs(kind))).into_iter().filter(|(_, runs)| !runs.is_empty()).collect()
    }
}

impl HeadReport {
    /// Whether the model ran without the head, because the checkpoint lacks it or the run removed it.
    pub fn is_absent(&self) -> bool {
        [ABSENT, REMOVED].contains(&&*self.primary)
    }

    /// Whether the run removed the head from the model (`--remove`).
    pub fn is_removed(&self) -> bool {
        self.primary == REMOVED
    }

    /// The labels that the head has both in the analysis and in every one of the control `runs`.
    pub fn labels_in_all_controls<'a>(&'a self, runs: &'a [&ControlReport]) -> impl Iterator<Item = &'a str> {
        let labels = self.labels.iter().map(|label| label.label.as_str());
        labels.filter(|label| runs.iter().all(|run| run.shares_label(self.place, label)))
    }
}

/// The JSON Schema of [`Report`], draft 2020-12.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Report)
}
